//! What people write: frames, fields, sizes, what varies, knobs; and what they are told.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rig;

use engine::dissect::dissect;
use engine::frame::{AssembleError, BuildError, Frames, Macs, Sizes, build, text};
use engine::pcap::{Capture, Format};
use engine::profile::{Profile, ProfileError, parse_knobs};
use engine::show::{describe, preview};
use engine::stream::Stream;
use pcap_file::pcapng::{Block, PcapNgReader};
use proptest::prelude::*;
use rig::{MACS, template};

/// What is told about a text that is not a frame: where, what, and the cure.
fn told(frame: &str) -> (String, String, String) {
    let error = text::parse(frame).unwrap_err();
    let pointed = error.point(frame);
    let arrow = pointed.lines().last().unwrap().to_owned();
    (arrow, error.to_string(), error.remedy().unwrap_or_default())
}

#[test]
fn a_frame_is_read_and_built_as_written() {
    let text = "eth(dst=02:00:00:00:00:99) / vlan(id=7, pcp=3) / IPv4( dst = 48.0.0.9 , ttl=0x10 ) \
                / udp(sport=53,dport=5_3) / raw(hex=de ad be ef)";
    let bytes = template(text, 64).bytes;
    assert_eq!(bytes.len(), 60);
    assert_eq!(bytes[..6], [2, 0, 0, 0, 0, 0x99]);
    assert_eq!(bytes[6..12], MACS.src);
    assert_eq!(bytes[12..18], [0x81, 0x00, 0x60, 7, 0x08, 0x00]);
    assert_eq!(
        (bytes[18], bytes[26], &bytes[34..38]),
        (0x45, 0x10, &[48, 0, 0, 9][..])
    );
    assert_eq!(bytes[38..42], [0, 53, 0, 53]);
    assert_eq!(bytes[46..51], [0xde, 0xad, 0xbe, 0xef, b'x']);
    assert_eq!(dissect(&bytes).wrong, [""; 0]);
}

#[test]
fn types_and_lengths_follow_from_what_is_inside() {
    let lines = |text, size| dissect(&template(text, size).bytes).lines.join("\n");
    let double = lines("eth / vlan(id=5) / vlan(id=6) / ipv6 / icmp6", 90);
    assert!(
        double.contains("type 0x88a8\nvlan id 5 pcp 0 type 0x8100\nvlan id 6 pcp 0 type 0x86dd")
    );
    assert!(double.contains("len 24 hop 64 next 58"), "{double}");
    let tunnel = lines(
        "eth / ipv4 / udp / vxlan(vni=77) / eth / ipv4 / tcp(flags=SA)",
        128,
    );
    assert!(
        tunnel.contains("→ 4789 len 90 checksum 0x0000 none\nvxlan flags 0x08 vni 77"),
        "{tunnel}"
    );
    assert!(tunnel.contains("flags SA"), "{tunnel}");
    let gre = lines(
        "eth / ipv4 / gre(key=9) / mpls(label=3) / mpls / ipv4 / icmp",
        128,
    );
    assert!(
        gre.contains("proto 47") && gre.contains("gre type 0x8847 key 9"),
        "{gre}"
    );
    assert!(
        gre.contains("label 3 tc 0 s 0 ttl 64\nmpls label 0 tc 0 s 1"),
        "{gre}"
    );
    let gtpu = lines("eth / ipv4 / udp / gtpu(teid=5) / ipv6 / udp", 150);
    assert!(
        gtpu.contains("→ 2152") && gtpu.contains("gtpu type 0xff len 96 teid 5"),
        "{gtpu}"
    );
    let arp = template("eth(dst=ff:ff:ff:ff:ff:ff) / arp(target_ip=16.0.0.9)", 64).bytes;
    assert_eq!(arp[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    assert_eq!(arp[38..], [&[16, 0, 0, 9][..], &[0; 18]].concat());
}

#[test]
fn a_checksum_set_by_hand_stays() {
    let frame = template("eth / ipv4(checksum=0x1234) / udp(checksum=0xbad)", 64);
    assert_eq!((frame.bytes[24], frame.bytes[25]), (0x12, 0x34));
    assert_eq!((frame.bytes[40], frame.bytes[41]), (0x0b, 0xad));
    let spec = text::parse("eth / ipv4 / udp(checksum=0)").unwrap();
    let vary = [("ipv4.src", "1.0.0.0/8 random"), ("udp.sport", "1..9")];
    let frames = Frames::assemble(&spec, &Sizes::One(64), &vary, MACS).unwrap();
    for frame in preview(&frames, 1, 50).unwrap() {
        assert_eq!(frame[40..42], [0, 0]);
        assert_eq!(dissect(&frame).wrong, [""; 0]);
    }
    assert_eq!(
        template("eth / ipv4 / udp(checksum=auto)", 64),
        template("eth / ipv4 / udp", 64)
    );
}

#[test]
fn mistakes_are_pointed_at_and_the_cure_is_named() {
    let (arrow, error, cure) = told("eth / ipv5 / udp");
    assert_eq!(arrow, "      ^^^^");
    assert_eq!(error, "at character 7: there is no header called \"ipv5\"");
    assert!(cure.starts_with("did you mean ipv"), "{cure}");

    let (arrow, error, cure) = told("eth / udp(dprt=80)");
    assert_eq!(arrow, "          ^^^^");
    assert!(error.contains("udp has no field \"dprt\""), "{error}");
    assert_eq!(
        cure,
        "did you mean dport? It has: sport, dport, len, checksum"
    );

    let (arrow, error, _) = told("eth / udp(dport=70000)");
    assert_eq!(arrow, "                ^^^^^");
    assert!(error.contains("16 bits, at most 65535"), "{error}");

    assert!(
        told("eth / ipv4(dst=48.0.0)")
            .1
            .contains("\"48.0.0\" is not an IPv4 address")
    );
    assert!(told("eth(src=1:2:3)").1.contains("is not a MAC address"));
    assert_eq!(told("eth / ipv4(dst=48.0.0.1").0, "          ^");
    assert!(told("eth ipv4").1.contains("expected '/'"));
    assert!(told("eth / ").1.contains("a header is missing"));
    assert!(told("").1.contains("a header is missing"));
    assert!(told("eth(dst)").1.contains("FIELD=VALUE"));
    assert!(
        told("eth / raw(hex=abc)")
            .1
            .contains("even number of hex digits")
    );
    assert!(told("eth / raw(bytes=00)").1.contains("raw has no field"));
}

#[test]
fn headers_that_do_not_go_together_are_refused() {
    let refused = |text: &str| build(&text::parse(text).unwrap(), MACS).unwrap_err();
    assert_eq!(refused("eth / udp").to_string(), "udp does not go into eth");
    assert!(matches!(
        refused("ipv4 / udp"),
        BuildError::Start { layer: "ipv4" }
    ));
    assert!(matches!(
        refused("eth / ipv6 / icmp"),
        BuildError::Stacking { index: 2, .. }
    ));
    assert!(matches!(
        refused("eth / arp / raw(hex=00)"),
        BuildError::Stacking { .. }
    ));
    let small = text::parse("eth / ipv6 / tcp").unwrap().sized(64);
    let error = build(&small, MACS).unwrap_err();
    assert_eq!(
        error,
        BuildError::Size {
            size: 64,
            least: 78,
            most: 9216
        }
    );
    let large = text::parse("eth / ipv4").unwrap().sized(9217);
    assert!(matches!(build(&large, MACS), Err(BuildError::Size { .. })));
}

#[test]
fn fields_are_found_by_name_and_by_trexs_names() {
    let frame = template("eth / ipv4 / udp / vxlan / eth / ipv4 / tcp", 128);
    let at = |name| frame.field(name).unwrap().bit / 8;
    assert_eq!(
        (at("ipv4.src"), at("ipv4[1].src"), at("IP:1.src")),
        (26, 76, 76)
    );
    assert_eq!(
        (at("udp.sport"), at("UDP.sport"), at("tcp.dport")),
        (34, 34, 86)
    );
    let told = |name| {
        let error = frame.field(name).unwrap_err();
        format!("{error}; {}", error.remedy().unwrap_or_default())
    };
    assert!(told("ipv4[2].src").starts_with("the frame has no ipv4[2]: it is eth / ipv4 / udp"));
    assert!(told("ipv4.scr").contains("did you mean src?"));
    assert!(told("ivp4.src").contains("did you mean ipv4?"));
    assert!(told("src").contains("HEADER.FIELD"));
    assert!(
        template("eth / ipv4 / gre / ipv4", 64)
            .field("gre.key")
            .is_err(),
        "it has no key"
    );
}

/// The first values of a field that varies.
fn varied(frame: &str, field: &str, how: &str, count: usize) -> Result<Vec<u128>, String> {
    let spec = text::parse(frame).unwrap();
    let frames = Frames::assemble(&spec, &Sizes::Least, &[(field, how)], MACS)
        .map_err(|error| format!("{error}; {}", error.remedy().unwrap_or_default()))?;
    let mut template = frames.variants()[0].template.clone();
    let field = template.field(field).unwrap();
    let values = preview(&frames, 1, count)
        .unwrap()
        .into_iter()
        .map(|bytes| {
            assert_eq!(dissect(&bytes).wrong, [""; 0]);
            template.bytes = bytes;
            template.get(&field)
        });
    Ok(values.collect())
}

#[test]
fn what_varies_is_read_as_written() {
    let udp = |how| varied("eth / ipv4 / udp", "udp.sport", how, 6).unwrap();
    assert_eq!(udp("1024..1026"), [1024, 1025, 1026, 1024, 1025, 1026]);
    assert_eq!(udp("1..=3 each"), [1, 2, 3, 1, 2, 3]);
    assert_eq!(udp("0..10 step 5 dec"), [10, 5, 0, 10, 5, 0]);
    assert_eq!(udp("80, 443,8080"), [80, 443, 8080, 80, 443, 8080]);
    assert_eq!(udp("80, 443, 8080 dec"), [8080, 443, 80, 8080, 443, 80]);
    assert_eq!(udp("7"), [7; 6]);
    assert!(udp("5..6 random").iter().all(|port| [5, 6].contains(port)));
    let drawn = udp("0..65535 random limit 3 seed 5");
    assert_eq!(drawn[..3], drawn[3..]);
    assert_ne!(drawn[..3], udp("0..65535 random limit 3 seed 6")[..3]);

    let ip = varied("eth / ipv4 / udp", "ipv4.src", "16.0.0.9/30", 5).unwrap();
    assert_eq!(
        ip,
        [
            0x1000_0008,
            0x1000_0009,
            0x1000_000a,
            0x1000_000b,
            0x1000_0008
        ]
    );
    // The high half of an IPv6 address stays, and is the one that was asked for.
    let six = varied(
        "eth / ipv6 / udp",
        "ipv6.dst",
        "2001:db8::5..2001:db8::6",
        3,
    )
    .unwrap();
    let base = 0x2001_0db8_u128 << 96;
    assert_eq!(six, [base + 5, base + 6, base + 5]);
    let mac = varied(
        "eth / ipv4 / udp",
        "eth.src",
        "02:00:00:00:00:fe..02:00:00:00:01:00",
        4,
    )
    .unwrap();
    assert_eq!(
        mac,
        [
            0x0200_0000_00fe,
            0x0200_0000_00ff,
            0x0200_0000_0100,
            0x0200_0000_00fe
        ]
    );
    let vlan = varied("eth / vlan(pcp=5) / ipv4 / udp", "vlan.id", "4093..4094", 3).unwrap();
    assert_eq!(vlan, [4093, 4094, 4093]);
}

#[test]
fn what_cannot_vary_is_said() {
    let told = |field, how| varied("eth / ipv6 / udp", field, how, 1).unwrap_err();
    assert!(told("udp.sport", "9..1").contains("swap them"));
    assert!(told("udp.sport", "").contains("no values"));
    assert!(told("udp.sport", "each").contains("no values"));
    assert!(told("udp.sport", "1..70000").contains("16 bits"));
    assert!(told("udp.sport", "1..9 sideways").contains("\"sideways\" is not understood"));
    assert!(told("udp.sport", "1..9 step").contains("step needs a number"));
    assert!(told("udp.sport", "1..9 step 0").contains("step needs a number"));
    assert!(told("udp.sport", "1..9 random dec").contains("random does not go with dec"));
    assert!(told("udp.sport", "1..9 limit 5").contains("limit does not go with"));
    assert!(told("ipv6.src", "fd00::/60").contains("low 64 bits"));
    assert!(told("ipv6.src", "fd00::/129").contains("prefix length of 0 to 128"));
    assert!(told("udp.sprt", "1..9").contains("udp.sprt: udp has no field"));
}

#[test]
fn sizes_are_read_as_written() {
    let sizes = |text: &str| text.parse::<Sizes>();
    assert_eq!(sizes("64"), Ok(Sizes::One(64)));
    assert_eq!(sizes("1518B"), Ok(Sizes::One(1518)));
    assert_eq!(
        sizes("imix:csit"),
        Ok(Sizes::Mix(vec![(64, 28), (570, 16), (1518, 4)]))
    );
    assert_eq!(
        sizes("64x7, 594x4, 1518"),
        Ok(Sizes::Mix(vec![(64, 7), (594, 4), (1518, 1)]))
    );
    for bad in [
        "",
        "small",
        "63",
        "9217",
        "64..9300",
        "imix:none",
        "64x0",
        "64x",
        "x7",
        "9..1",
    ] {
        let error = sizes(bad).expect_err(bad);
        assert!(!error.to_string().is_empty());
    }
    let spec = text::parse("eth / ipv4 / udp").unwrap();
    let frames = Frames::assemble(&spec, &sizes("100..102").unwrap(), &[], MACS).unwrap();
    let lens: Vec<_> = preview(&frames, 1, 4)
        .unwrap()
        .iter()
        .map(Vec::len)
        .collect();
    assert_eq!(lens, [96, 97, 98, 96]);
    assert_eq!((frames.mean_size(), frames.max_size()), (101.0, 102));
    let small = Frames::assemble(
        &text::parse("eth / ipv6 / tcp").unwrap(),
        &sizes("imix").unwrap(),
        &[],
        MACS,
    );
    assert!(matches!(
        small,
        Err(AssembleError::Build(BuildError::Size { size: 64, .. }))
    ));
}

#[test]
fn profiles_and_knobs_that_are_not_there_are_explained() {
    let refused = |name, knobs: &[(&str, &str)]| {
        let error = Profile::new(name, knobs).unwrap_err();
        format!("{error}; {}", error.remedy().unwrap_or_default())
    };
    assert!(refused("bnech", &[]).contains("did you mean bench?"));
    assert!(refused("zzz", &[]).contains("built-in profiles: bench, imix, latency"));
    let unknown = refused("bench", &[("sise", "64")]);
    assert_eq!(
        unknown,
        "profile bench has no knob \"sise\"; did you mean size? It has: size, vm, flow, pg_id"
    );
    let range = refused("bench", &[("size", "63")]);
    assert_eq!(range, "size=63 is not possible: it takes 64..9216|imix; ");
    for (knob, value) in [
        ("size", "9217"),
        ("size", ""),
        ("size", "-1"),
        ("vm", "var3"),
    ] {
        assert!(
            refused("bench", &[(knob, value)]).contains("is not possible"),
            "{knob}={value}"
        );
    }
    let both = Profile::new("bench", &[("size", "imix"), ("vm", "size")]);
    assert!(matches!(both, Err(ProfileError::Contradiction { .. })));

    assert_eq!(
        parse_knobs("size=64, --vm=var1"),
        Ok(vec![("size", "64"), ("vm", "var1")])
    );
    assert_eq!(parse_knobs(""), Ok(vec![]));
    assert!(matches!(
        parse_knobs("size"),
        Err(ProfileError::Form { .. })
    ));
    let bench = Profile::new("BENCH", &[("SIZE", "128B"), ("vm", "VAR1")]).unwrap();
    assert_eq!(
        (bench.name(), bench.knobs()[0].1.as_str()),
        ("bench", "128")
    );
    assert_eq!(
        Profile::new("udp_1pkt_src_ip_split", &[]).unwrap().name(),
        "udp1pkt"
    );
    let many = Profile::new("udp64", &[("stream_count", "300")]).unwrap();
    assert_eq!(many.streams(0, MACS).len(), 300);
}

#[test]
fn a_stream_is_described() {
    let frames = |name, knobs: &[(&str, &str)]| {
        let streams = Profile::new(name, knobs).unwrap().streams(0, MACS);
        describe(&streams[0]).unwrap()
    };
    let text = frames("bench", &[("vm", "tuple")]);
    let expected = "\
stream    bench
rate      1 frames/s, scaled by -m
sends     continuously
measures  nothing of its own
repeats   after 100000 frames
frame     eth / ipv4 / udp, 64 bytes with FCS
          eth dst 02:00:00:00:00:02 src 02:00:00:00:00:01 type 0x800
          ipv4 id 1 flags 0x0 ttl 64 src 16.0.0.4 dst 48.0.0.4
          udp sport 1025 dport 12
          payload 18 bytes
varies    ipv4.src, udp.sport: 16.0.0.4..16.0.0.254 first, then ports 1234..65500, 100000 flows
varies    checksums: ipv4
";
    let text = text.replace(" dscp 0", "");
    assert_eq!(text, expected);
    let imix = frames("bench", &[("size", "imix"), ("vm", "cached")]);
    assert!(
        imix.contains("turns     68 590 1514 68 590 68 68 590 68 68 590 68 bytes, mean 362.50")
    );
    assert!(imix.contains("computed once: 255 frames"), "{imix}");
    let sized = frames("bench", &[("vm", "size")]);
    assert!(
        sized.contains("varies    frame size, ipv4.len, udp.len: 64..9216, random"),
        "{sized}"
    );
    assert!(sized.contains("repeats   never"), "{sized}");
}

#[test]
fn a_capture_is_read_back_by_others() {
    let spec = text::parse("eth / ipv4 / udp").unwrap();
    let sizes = Sizes::Mix(vec![(64, 1), (1518, 1)]);
    let frames = Frames::assemble(&spec, &sizes, &[("udp.sport", "1..9")], MACS).unwrap();
    let frames = preview(&frames, 1, 10).unwrap();
    let written = |format| {
        let mut capture = Capture::new(Vec::new(), format, "sim:virtio").unwrap();
        for (n, frame) in frames.iter().enumerate() {
            capture
                .write(
                    n as u64 * 1_000_000_007,
                    frame,
                    &format!("stream web, frame {n}"),
                )
                .unwrap();
        }
        capture.finish().unwrap()
    };

    let file = written(Format::Pcap);
    let mut reader = pcap_file::pcap::PcapReader::new(&file[..]).unwrap();
    for (n, frame) in frames.iter().enumerate() {
        let packet = reader.next_packet().unwrap().unwrap();
        assert_eq!(packet.data(), &frame[..]);
        assert_eq!(packet.timestamp().as_nanos(), n as u128 * 1_000_000_007);
    }
    assert!(reader.next_packet().is_none());

    let file = written(Format::PcapNg);
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    let mut seen = 0;
    while let Some(block) = reader.next_block() {
        if let (Block::EnhancedPacket(packet), _) = block.unwrap() {
            assert_eq!(*packet.data, frames[seen][..]);
            assert_eq!(packet.timestamp.as_nanos(), seen as u128 * 1_000_000_007);
            let options = format!("{:?}", packet.options);
            assert!(
                options.contains(&format!("stream web, frame {seen}")),
                "{options}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 10);
    assert!(file.windows(10).any(|name| name == b"sim:virtio"));
    assert_eq!(Format::of("a.PCAP".as_ref()), Format::Pcap);
    assert_eq!(Format::of("a.pcapng".as_ref()), Format::PcapNg);
}

#[test]
fn every_profile_has_its_frames_addressed_to_the_peer() {
    for about in engine::profile::list() {
        let macs = Macs {
            src: [2, 1, 1, 1, 1, 1],
            dst: [2, 9, 9, 9, 9, 9],
        };
        for stream in Profile::new(about.name, &[]).unwrap().streams(1, macs) {
            let frame = &preview(&stream.frames, 1, 1).unwrap()[0];
            assert_eq!((&frame[..6], &frame[6..12]), (&macs.dst[..], &macs.src[..]));
        }
        for knob in about.knobs {
            Profile::new(about.name, &[(knob.name, knob.default)]).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,40}", how in "[0-9a-f.:/, stepranodmlit-]{0,30}") {
        if let Err(error) = text::parse(&text) {
            assert!(error.point(&text).contains('^'));
        }
        let _ = text.parse::<Sizes>();
        let _ = how.parse::<Sizes>();
        let _ = text.parse::<engine::load::Load>();
        let _ = parse_knobs(&text);
        let _ = template("eth / ipv6 / udp", 90).field(&text);
        for field in ["udp.sport", "ipv6.src", "eth.dst", "ipv6.flow"] {
            let spec = text::parse("eth / ipv6 / udp").unwrap();
            let vary = [(field, how.as_str())];
            if let Ok(frames) = Frames::assemble(&spec, &Sizes::Least, &vary, MACS) {
                describe(&Stream::new("s", frames)).unwrap();
            }
        }
    }

    #[test]
    fn no_bytes_make_the_dissector_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..120, byte in any::<u8>()) {
        let _ = dissect(&bytes);
        let mut frame = template("eth / ipv4 / udp / vxlan / eth / ipv4 / gre / mpls / ipv6 / tcp", 200).bytes;
        frame[at] = byte;
        let _ = dissect(&frame);
        frame.truncate(at);
        let _ = dissect(&frame);
    }
}
