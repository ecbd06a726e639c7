//! Any program: the field engine against a naive one, its caches against itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod rig;

use engine::dissect::dissect;
use engine::field::{Fix, Mask, Order, Program, Share, Values, Var, Write, Writer, render};
use engine::frame::{Frames, Sizes, Template, Variant, text};
use engine::profile::{self, Profile};
use hugemem::Frame;
use proptest::prelude::*;
use rig::{MACS, Ring, naive, pool, sequence, template, var};

/// Values with an order, for a variable of `width` bytes.
fn ordered(width: usize) -> BoxedStrategy<Values> {
    let most = if width == 8 {
        u64::MAX
    } else {
        (1 << (width * 8)) - 1
    };
    let order = prop_oneof![Just(Order::Inc), Just(Order::Dec)];
    let near = prop_oneof![0..=most, 0..=most.min(20), most - most.min(20)..=most];
    let step = (
        order.clone(),
        near,
        0_u64..=300,
        1_u64..=9,
        0_u64..=9,
        any::<bool>(),
    )
        .prop_map(move |(order, min, span, step, places, begin)| {
            let max = min.saturating_add(span).min(most);
            let off = places.min((max - min) / step) * step;
            let init = begin.then(|| {
                if order == Order::Inc {
                    min + off
                } else {
                    max - off
                }
            });
            Values::Step {
                order,
                min,
                max,
                init,
                step,
            }
        });
    let list = (order, prop::collection::vec(0..=most, 1..12), 1_u64..20).prop_map(
        |(order, values, step)| Values::List {
            values,
            order,
            step,
        },
    );
    prop_oneof![3 => step, 1 => list].boxed()
}

/// What the programs run over: an IPv4 packet, with room behind the headers.
fn ground() -> Template {
    template("eth / ipv4 / udp", 97)
}

/// Bytes that may vary: MAC addresses, id, TTL, addresses, ports, payload; not version, lengths or
/// checksums, which say what the rest means.
fn place(at: usize, width: usize) -> bool {
    let end = at + width;
    let inside = |first: usize, last: usize| at >= first && end <= last;
    inside(0, 12) || inside(18, 20) || inside(22, 23) || inside(26, 38) || inside(42, 93)
}

fn write(names: Vec<(String, usize)>) -> impl Strategy<Value = Write> {
    let shift = prop_oneof![Just(None), (any::<u64>(), -20_i8..20).prop_map(Some)];
    let add = prop_oneof![Just(0_i64), any::<i64>(), -300_i64..300];
    (
        0..names.len(),
        0_usize..93,
        1_usize..=8,
        add,
        any::<bool>(),
        shift,
    )
        .prop_map(move |(name, offset, width, add, little_endian, mask)| {
            let (name, own) = &names[name];
            // Often the common case: the variable's own width.
            let width = if width > 6 { *own } else { width };
            let mask = mask.map(|(mask, shift)| Mask { mask, shift });
            Write {
                var: name.clone(),
                offset,
                width,
                add,
                little_endian,
                mask,
            }
        })
        .prop_filter("bytes that may vary", |write| {
            place(write.offset, write.width)
        })
}

/// Programs in which nothing is random.
fn program() -> impl Strategy<Value = Program> {
    let width = prop_oneof![Just(1_usize), Just(2), Just(4), Just(8)];
    let one = width.prop_flat_map(|width| ordered(width).prop_map(move |values| (width, values)));
    let vars = prop::collection::vec((one, any::<bool>()), 1..4);
    let tuple = prop::option::of((0_u32..1000, 0_u32..9, 0_u16..9, 0_u64..60));
    let fixes = any::<bool>();
    (vars, tuple, fixes, prop::option::weighted(0.2, 1_u32..40)).prop_flat_map(
        |(made, tuple, fixed, cached)| {
            let mut vars: Vec<Var> = Vec::new();
            let mut names = Vec::new();
            for (n, ((width, values), follows)) in made.into_iter().enumerate() {
                let name = format!("v{n}");
                if let (true, Some(before)) = (follows, vars.last_mut()) {
                    before.next = Some(name.clone());
                }
                names.push((name.clone(), width));
                vars.push(var(&name, width, values));
            }
            if let Some((ip, ips, ports, limit_flows)) = tuple {
                let values = Values::Tuple {
                    ip_min: ip,
                    ip_max: ip + ips,
                    port_min: 7,
                    port_max: 7 + ports,
                    limit_flows,
                };
                vars.push(var("t", 4, values));
                names.extend([("t.ip".into(), 4), ("t.port".into(), 2)]);
            }
            prop::collection::vec(write(names), 1..5).prop_map(move |writes| {
                let mut program = Program {
                    vars: vars.clone(),
                    writes,
                    cached,
                    ..Program::default()
                };
                if fixed {
                    program.fixes = vec![Fix::Udp { ip: 14, at: 34 }, Fix::Ipv4 { at: 14 }];
                }
                program
            })
        },
    )
}

/// Programs made of what has a kernel of its own: addresses of an IPv4 header, and ports.
fn plain_program() -> impl Strategy<Value = Program> {
    let tuple = (1_u32..50, 1_u16..9, 0_u64..90, any::<bool>());
    let tuple = tuple.prop_map(|(ips, ports, limit_flows, covered)| {
        let values = Values::Tuple {
            ip_min: 0x0a00_0000,
            ip_max: 0x0a00_0000 + ips,
            port_min: 100,
            port_max: 100 + ports,
            limit_flows,
        };
        let writes = vec![
            Write::new("t.ip", 26, 4),
            Write::new("t.port", if covered { 18 } else { 34 }, 2),
        ];
        Program {
            vars: vec![var("t", 4, values)],
            writes,
            ..Program::default()
        }
    });
    let counters = (
        ordered(4),
        ordered(4),
        1_usize..=2,
        any::<bool>(),
        any::<i64>(),
    )
        .prop_map(|(a, b, count, swapped, add)| {
            let mut vars = vec![var("a", 4, a), var("b", 4, b)];
            let places = if swapped { [30, 26] } else { [26, 30] };
            let mut writes = vec![
                Write::new("a", places[0], 4).adding(add),
                Write::new("b", places[1], 4),
            ];
            vars.truncate(count);
            writes.truncate(count);
            Program {
                vars,
                writes,
                ..Program::default()
            }
        });
    prop_oneof![tuple, counters].prop_map(|mut program| {
        program.fixes = vec![Fix::Ipv4 { at: 14 }];
        program
    })
}

/// Frame `n` of core `share` by the naive engine, the cache included.
fn expected(template: &Template, program: &Program, share: Share, n: usize) -> Vec<u8> {
    let n = match program.cached {
        Some(cached) => n % share.of_count(cached as usize),
        None => n,
    };
    naive::frame(template, program, (n * share.of + share.index) as u64)
}

fn check_against_naive(template: &Template, program: &Program, share: Share) {
    let frames = Frames::varied(template.clone(), program.clone());
    let sent = sequence(&frames, share, 150);
    for (n, frame) in sent.iter().enumerate() {
        assert_eq!(
            *frame,
            expected(template, program, share, n),
            "frame {n} of {program:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_does_what_its_definition_says(program in program(), of in 1_usize..4) {
        check_against_naive(&ground(), &program, Share { index: of - 1, of });
    }

    #[test]
    fn the_fast_kernels_do_what_the_definitions_say(program in plain_program(), of in 1_usize..4) {
        let template = template("eth / ipv4 / udp(checksum=0)", 64);
        for index in 0..of {
            check_against_naive(&template, &program, Share { index, of });
        }
    }

    #[test]
    fn a_sequence_repeats_after_its_period(program in program(), of in 1_usize..4) {
        let frames = Frames::varied(ground(), program);
        let share = Share { index: 0, of };
        let writer = Writer::compile(&frames, 1, share).unwrap();
        if let Some(period) = writer.period()
            && period <= 2000
        {
            let sent = sequence(&frames, share, period * 2);
            prop_assert_eq!(&sent[..period], &sent[period..]);
        }
    }

    #[test]
    fn rendered_frames_are_the_computed_ones(program in program(), burst in 1_usize..64) {
        let frames = Frames::varied(ground(), program);
        let mut writer = Writer::compile(&frames, 3, Share::ALL).unwrap();
        let period = writer.period().filter(|period| *period <= 500).unwrap_or(100);
        let pool = pool(period, writer.max_len());
        let rendered = render(&mut writer, &pool, period).unwrap();
        let rendered: Vec<_> = rendered.iter().map(|frame| frame.bytes().to_vec()).collect();

        let mut again = Writer::compile(&frames, 3, Share::ALL).unwrap();
        let mut ring = Ring::new(&rig::pool(20, again.max_len()), 20);
        let computed = ring.send(&mut again, period, burst);
        prop_assert_eq!(rendered, computed);
    }

    #[test]
    fn cores_share_a_sequence_without_repeating(program in program(), of in 2_usize..6) {
        let frames = Frames::varied(ground(), Program { cached: None, ..program });
        let whole = sequence(&frames, Share::ALL, of * 40);
        for index in 0..of {
            let part = sequence(&frames, Share { index, of }, 40);
            let mine: Vec<_> = whole.iter().skip(index).step_by(of).cloned().collect();
            prop_assert_eq!(part, mine);
        }
        let unsplit = Program { split: false, ..frames.variants()[0].program.clone() };
        let frames = Frames::varied(ground(), unsplit);
        prop_assert_eq!(sequence(&frames, Share { index: 1, of }, 40), &whole[..40]);
    }

    #[test]
    fn writers_on_one_ring_do_not_see_each_other(
        programs in prop::collection::vec(program(), 2..4),
        turns in prop::collection::vec((0_usize..4, 1_usize..30, 1_usize..9), 30..60),
    ) {
        let frames: Vec<_> =
            programs.iter().map(|program| Frames::varied(ground(), program.clone())).collect();
        let mut writers: Vec<_> = frames
            .iter()
            .map(|frames| Writer::compile(frames, 1, Share::ALL).unwrap())
            .collect();
        let mut ring = Ring::new(&pool(17, 93), 17);
        let mut sent = vec![0; writers.len()];
        for (who, count, burst) in turns {
            let who = who % writers.len();
            for frame in ring.send(&mut writers[who], count, burst) {
                let expected = expected(&ground(), &programs[who], Share::ALL, sent[who]);
                prop_assert_eq!(frame, expected);
                sent[who] += 1;
            }
        }
        prop_assert!(ring.laps() >= 3);
    }

    #[test]
    fn variants_take_turns_and_each_counts_for_itself(
        programs in prop::collection::vec((plain_program(), 64_usize..200), 2..4),
        schedule in prop::collection::vec(0_usize..9, 1..9),
        of in 1_usize..3,
    ) {
        let variants: Vec<_> = programs
            .into_iter()
            .map(|(program, size)| Variant {
                template: template("eth / ipv4 / udp(checksum=0)", size),
                program,
            })
            .collect();
        // All of them, and then any order.
        let count = variants.len();
        let schedule: Vec<_> = (0..count).chain(schedule.into_iter().map(|n| n % count)).collect();
        let frames = Frames::scheduled(variants.clone(), schedule.clone());
        let share = Share { index: of - 1, of };
        let mut sent = vec![0; count];
        for (n, frame) in sequence(&frames, share, 200).iter().enumerate() {
            let who = schedule[n % schedule.len()];
            let variant = &variants[who];
            let expected = expected(&variant.template, &variant.program, share, sent[who]);
            prop_assert_eq!(frame, &expected, "frame {}", n);
            sent[who] += 1;
        }
        let period = Writer::compile(&frames, 1, share).unwrap().period();
        if let Some(period) = period.filter(|period| *period <= 3000) {
            let sent = sequence(&frames, share, period * 2);
            prop_assert_eq!(&sent[..period], &sent[period..]);
        }
    }
}

/// Headers, sizes, and what varies.
type Kind = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// Frames of many kinds, with what varies in them.
const KINDS: [Kind; 22] = [
    (
        "eth / ipv4 / udp",
        "64",
        &[("ipv4.src", "16.0.0.0/24 each")],
    ),
    (
        "eth / ipv4 / udp",
        "71",
        &[("ipv4.dst", "0.0.0.0..255.255.255.255 step 16777259")],
    ),
    (
        "eth / ipv4 / udp",
        "64",
        &[
            ("udp.sport", "0..65535"),
            ("udp.dport", "0..65535 dec step 3"),
        ],
    ),
    (
        "eth / ipv4 / udp",
        "64..1518 random",
        &[("ipv4.src", "16.0.0.0/16 random")],
    ),
    (
        "eth / ipv4 / udp",
        "64..128 step 7",
        &[("udp.sport", "1, 2, 65535")],
    ),
    (
        "eth / ipv4 / udp",
        "imix",
        &[("ipv4.src", "10.0.0.1..10.0.0.254"), ("udp.sport", "1..9")],
    ),
    (
        "eth / ipv4 / tcp(flags=SA)",
        "70..99",
        &[("tcp.seq", "0..4294967295 step 2147483659")],
    ),
    (
        "eth / ipv4 / tcp",
        "64",
        &[("tcp.flags", "0..255"), ("ipv4.ttl", "1..255")],
    ),
    (
        "eth / ipv4 / icmp",
        "65..90",
        &[("icmp.seq", "0..65535"), ("icmp.id", "1..3 random")],
    ),
    (
        "eth / ipv6 / udp",
        "82",
        &[("ipv6.src", "2001:db8::/64 random"), ("udp.dport", "5..9")],
    ),
    (
        "eth / ipv6 / udp",
        "82..200",
        &[("ipv6.flow", "0..1048575 step 4097")],
    ),
    (
        "eth / ipv6 / tcp",
        "imix:csit6",
        &[("ipv6.dst", "fd00::1..fd00::ffff"), ("ipv6.hop", "1..9")],
    ),
    (
        "eth / ipv6 / icmp6",
        "91",
        &[("icmp6.seq", "0..65535"), ("ipv6.tc", "0..255")],
    ),
    (
        "eth / vlan / ipv4 / udp",
        "68",
        &[("vlan.id", "1..4094"), ("vlan.pcp", "0..7")],
    ),
    (
        "eth / vlan(id=5) / vlan / ipv4 / udp",
        "72",
        &[("vlan[1].id", "10..20")],
    ),
    (
        "eth / mpls / mpls(label=99) / ipv4 / udp",
        "80",
        &[("mpls.label", "16..1048575 step 13")],
    ),
    (
        "eth / ipv4 / gre(key=7) / ipv4(src=10.0.0.1) / udp",
        "120",
        &[
            ("ipv4[1].src", "10.0.0.0/24"),
            ("gre.key", "0..255"),
            ("ipv4.dst", "48.0.0.0/28"),
        ],
    ),
    (
        "eth / ipv4 / gre / eth / ipv6 / udp",
        "140",
        &[("ipv6.src", "fd00::/100"), ("udp.sport", "1..999")],
    ),
    (
        "eth / ipv4 / udp / vxlan(vni=7) / eth / ipv4 / tcp",
        "120..200",
        &[
            ("vxlan.vni", "0..16777215 step 99"),
            ("ipv4[1].dst", "9.0.0.0/24"),
            ("tcp.dport", "80, 443"),
        ],
    ),
    (
        "eth / ipv6 / udp / gtpu(teid=1) / ipv4 / udp",
        "150..160",
        &[
            ("gtpu.teid", "1..4294967295 step 65537"),
            ("udp[1].sport", "1..65535 random limit 50"),
        ],
    ),
    (
        "eth / ipv4 / udp / gtpu / ipv6 / tcp",
        "140",
        &[("ipv6.src", "fd00::/112"), ("udp.sport", "7..70")],
    ),
    (
        "eth / arp",
        "64",
        &[
            ("arp.sender_ip", "16.0.0.0/24"),
            ("eth.src", "02:00:00:00:00:00..02:00:00:00:ff:ff"),
        ],
    ),
];

#[test]
fn every_frame_of_every_kind_is_whole_with_right_checksums() {
    let mut looked_at = 0;
    for (frame, sizes, vary) in KINDS {
        let spec = text::parse(frame).unwrap();
        let sizes: Sizes = sizes.parse().unwrap();
        let frames = Frames::assemble(&spec, &sizes, vary, MACS).unwrap();
        let sent = sequence(&frames, Share { index: 1, of: 3 }, 600);
        for (n, bytes) in sent.iter().enumerate() {
            let read = dissect(bytes);
            assert_eq!(
                read.wrong, [""; 0],
                "frame {n} of {frame}: {:#?}",
                read.lines
            );
            looked_at += 1;
        }
        let mut unique = sent.clone();
        unique.sort_unstable();
        unique.dedup();
        assert!(unique.len() >= 3, "{frame}: something varies");
    }
    assert_eq!(looked_at, KINDS.len() * 600);
}

#[test]
fn every_frame_of_every_profile_is_whole_with_right_checksums() {
    let mut cases: Vec<(&str, Vec<(&str, &str)>)> = profile::list()
        .iter()
        .map(|about| (about.name, vec![]))
        .collect();
    for vm in ["none", "var1", "var2", "random", "tuple", "size", "cached"] {
        for size in ["64", "65", "127", "1518", "imix"] {
            if (vm, size) != ("size", "imix") {
                cases.push(("bench", vec![("vm", vm), ("size", size)]));
            }
        }
    }
    for table in ["trex", "bench", "trex-2017", "bench-2017", "csit", "csit6"] {
        cases.push(("imix", vec![("table", table)]));
    }
    for (name, knobs) in cases {
        let profile = Profile::new(name, &knobs).unwrap();
        for port in 0..2 {
            for stream in profile.streams(port, MACS) {
                for (n, bytes) in sequence(&stream.frames, Share::ALL, 300).iter().enumerate() {
                    let read = dissect(bytes);
                    assert_eq!(read.wrong, [""; 0], "frame {n} of {name} {knobs:?}");
                }
            }
        }
    }
}

#[test]
fn the_judge_sees_what_is_wrong() {
    let good = template("eth / ipv4 / udp / vxlan / eth / ipv6 / tcp", 150).bytes;
    assert_eq!(dissect(&good).wrong, [""; 0]);
    // A byte of each header that a checksum or a length covers.
    for at in [16, 26, 38, 100, 128, 140] {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert_ne!(dissect(&bad).wrong, [""; 0], "byte {at}");
    }
    for len in [0, 5, 13, 20, 37, 45, 60] {
        assert_ne!(dissect(&good[..len]).wrong, [""; 0], "cut off at {len}");
    }
}

#[test]
fn the_same_seed_gives_the_same_frames_and_another_core_or_seed_others() {
    let frames = Profile::new("syn", &[]).unwrap().streams(0, MACS)[0]
        .frames
        .clone();
    let sent = |seed, index| {
        let mut writer = Writer::compile(&frames, seed, Share { index, of: 2 }).unwrap();
        Ring::new(&pool(8, 60), 8).send(&mut writer, 50, 5)
    };
    assert_eq!(sent(1, 0), sent(1, 0));
    assert_ne!(sent(1, 0), sent(2, 0));
    assert_ne!(sent(1, 0), sent(1, 1));
}

#[test]
fn a_tag_that_was_taken_off_makes_the_frame_new() {
    let frames = Profile::new("bench", &[("vm", "var1")])
        .unwrap()
        .streams(0, MACS)[0]
        .frames
        .clone();
    let mut writer = Writer::compile(&frames, 1, Share::ALL).unwrap();
    let mut frame: Frame = pool(1, 100).take().unwrap();
    writer.next(&mut frame);
    let first = frame.bytes().to_vec();
    // A device wrote into it.
    frame.set_len(100);
    frame.bytes_mut().fill(0xee);
    frame.tag = 0;
    frame.vlan = 7;
    frame.flags = hugemem::TxFlags::VLAN;
    writer.next(&mut frame);
    let (mut expected, second) = (first, frame.bytes().to_vec());
    expected[29] += 1;
    expected[25] -= 1;
    assert_eq!(second, expected);
    assert_eq!((frame.vlan, frame.flags), (0, hugemem::TxFlags::empty()));
}
