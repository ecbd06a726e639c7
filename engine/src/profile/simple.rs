//! Profiles of one or two plain streams.

use std::net::Ipv4Addr;

use super::bench::{count, udp};
use super::knobs::{Knob, Takes, Values as Knobs};
use super::{About, Macs, anything};
use crate::field::{Program, Values, Var, Write};
use crate::frame::{FrameSpec, Frames, Header, Layer, MAX_SIZE, MIN_SIZE, build};
use crate::stream::{Measure, Rate, Stream};

const SIZES: Takes = Takes::Number(MIN_SIZE as u64, MAX_SIZE as u64);

const FSIZE: Knob = Knob {
    name: "fsize",
    aliases: &["size", "packet_len"],
    takes: SIZES,
    default: "64",
    what: "frame size in bytes, with FCS",
};

/// TRex's `stl/udp_1pkt_src_ip_split_latency.py`.
pub(super) const LATENCY: About = About {
    name: "latency",
    aliases: &["udp_1pkt_src_ip_split_latency"],
    what: "UDP frames with 255 source addresses, and 1000 frames a second that measure latency",
    knobs: &[
        FSIZE,
        Knob {
            name: "lfsize",
            aliases: &[],
            takes: SIZES,
            default: "64",
            what: "size of the frames that measure latency, in bytes, with FCS",
        },
    ],
    check: anything,
    build: |knobs, port, macs| {
        let mut streams = split(knobs, port, macs);
        let (src, dst) = ends(port);
        let size = knobs.number("lfsize").unwrap_or(MIN_SIZE);
        streams.push(Stream {
            rate: Rate::Pps(1000.0),
            measure: Measure::Latency,
            scaled: false,
            ..Stream::new(
                format!("latency.{}", 12 + port),
                Frames::constant(udp(src, dst, size, macs)),
            )
        });
        streams
    },
};

/// TRex's `stl/udp_1pkt_src_ip_split.py`.
pub(super) const SPLIT: About = About {
    name: "udp1pkt",
    aliases: &["udp_1pkt_src_ip_split"],
    what: "UDP frames with 255 source addresses",
    knobs: &[FSIZE],
    check: anything,
    build: split,
};

/// TRex's `stl/udp_for_benchmarks.py`.
pub(super) const UDP64: About = About {
    name: "udp64",
    aliases: &["udp_for_benchmarks"],
    what: "one UDP frame again and again",
    knobs: &[
        FSIZE,
        Knob {
            name: "stream_count",
            aliases: &["streams"],
            takes: Takes::Number(1, 20_000),
            default: "1",
            what: "how many streams of it",
        },
    ],
    check: anything,
    build: |knobs, port, macs| {
        let (src, dst) = ends(port);
        let template = udp(src, dst, knobs.number("fsize").unwrap_or(MIN_SIZE), macs);
        let count = knobs.number("stream_count").unwrap_or(1);
        let name = |n| {
            if count == 1 {
                "udp".into()
            } else {
                format!("udp.{n}")
            }
        };
        (0..count)
            .map(|n| Stream::new(name(n), Frames::constant(template.clone())))
            .collect()
    },
};

/// TRex's `stl/syn_attack.py`, with a TCP checksum that is right.
pub(super) const SYN: About = About {
    name: "syn",
    aliases: &["syn_attack"],
    what: "TCP SYNs to port 80 from random addresses and ports",
    knobs: &[FSIZE],
    check: anything,
    build: syn,
};

/// The two ends of a port's traffic.
fn ends(port: usize) -> (Ipv4Addr, Ipv4Addr) {
    let (a, b) = (Ipv4Addr::new(16, 0, 0, 1), Ipv4Addr::new(48, 0, 0, 1));
    if port.is_multiple_of(2) {
        (a, b)
    } else {
        (b, a)
    }
}

fn split(knobs: &Knobs, port: usize, macs: Macs) -> Vec<Stream> {
    let (src, dst) = ends(port);
    let template = udp(src, dst, knobs.number("fsize").unwrap_or(MIN_SIZE), macs);
    let range = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 255));
    let at = template
        .field("ipv4.src")
        .expect("the frame has this field");
    let mut program = Program {
        vars: vec![count("src", range)],
        writes: vec![Write::field("src", &at)],
        cached: Some(255),
        ..Program::default()
    };
    program.correct(&template);
    vec![Stream::new("udp", Frames::varied(template, program))]
}

fn syn(knobs: &Knobs, _port: usize, macs: Macs) -> Vec<Stream> {
    let dst = Ipv4Addr::new(48, 0, 0, 1);
    let headers = [
        Header::new(Layer::Ethernet),
        Header::new(Layer::Ipv4).with("dst", u32::from(dst)),
        Header::new(Layer::Tcp)
            .with("dport", 80_u32)
            .with("flags", 2_u32),
    ];
    let size = knobs.number("fsize").unwrap_or(MIN_SIZE);
    let spec = FrameSpec::new(headers).sized(size);
    let template = build(&spec, macs).expect("knobs allow only sizes that hold the headers");
    let random = |name: &str, width, min: u32, max: u32| {
        let values = Values::Random {
            min: min.into(),
            max: max.into(),
        };
        Var {
            name: name.into(),
            width,
            values,
            next: None,
        }
    };
    let to = |var: &str, field: &str| {
        let at = template.field(field).expect("the frame has this field");
        Write::field(var, &at)
    };
    let (first, last) = (Ipv4Addr::new(16, 0, 0, 0), Ipv4Addr::new(18, 0, 0, 254));
    let mut program = Program {
        vars: vec![
            random("ip_src", 4, first.into(), last.into()),
            random("src_port", 2, 1025, 65_000),
        ],
        writes: vec![to("ip_src", "ipv4.src"), to("src_port", "tcp.sport")],
        ..Program::default()
    };
    program.correct(&template);
    vec![Stream::new("syn", Frames::varied(template, program))]
}
