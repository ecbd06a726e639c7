//! TRex's `stl/bench.py`, of which the published VM and VF figures are.

use std::net::Ipv4Addr;

use super::knobs::{Knob, Takes, Values as Knobs};
use super::{About, Macs, ProfileError};
use crate::field::{Order, Program, Values, Var, Write};
use crate::frame::{
    FrameSpec, Frames, Header, Layer, MAX_SIZE, MIN_SIZE, Template, Variant, build,
};
use crate::imix::Imix;
use crate::stream::{FCS, Measure, Rate, Stream};

pub(super) const ABOUT: About = About {
    name: "bench",
    aliases: &[],
    what: "UDP frames of one size or of TRex's bench IMIX, with a choice of what varies",
    knobs: &[
        Knob {
            name: "size",
            aliases: &[],
            takes: Takes::Either(MIN_SIZE as u64, MAX_SIZE as u64, &["imix"]),
            default: "64",
            what: "frame size in bytes, with FCS; or imix: 68, 590, 1514 as 28:16:4",
        },
        Knob {
            name: "vm",
            aliases: &[],
            takes: Takes::Word(&["none", "var1", "var2", "random", "tuple", "size", "cached"]),
            default: "none",
            what: "what varies: source address (var1, random, cached), both addresses (var2), \
                   address and port (tuple), frame size (size)",
        },
        Knob {
            name: "flow",
            aliases: &[],
            takes: Takes::Word(&["no-fs", "fs", "fsl"]),
            default: "no-fs",
            what: "what is measured: nothing, frames (fs), frames and latency (fsl)",
        },
        Knob {
            name: "pg_id",
            aliases: &[],
            takes: Takes::Number(0, 65_535),
            default: "7",
            what: "number of the first port's measured stream, in its name",
        },
    ],
    check,
    build: streams,
};

/// Address ranges of direction 0: 251 addresses each.
const SRC: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(16, 0, 0, 4), Ipv4Addr::new(16, 0, 0, 254));
const DST: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(48, 0, 0, 4), Ipv4Addr::new(48, 0, 0, 254));

/// Pairs until the tuple generator starts again: what TRex's has when none is given, as there.
const LIMIT_FLOWS: u64 = 100_000;

/// Frames that `vm=cached` computes: 251 addresses, and the first four again.
const CACHED: u32 = 255;

fn check(knobs: &Knobs) -> Result<(), ProfileError> {
    if knobs.word("vm") == "size" && knobs.word("size") == "imix" {
        let what = "vm=size makes sizes of its own: it does not go with size=imix".into();
        return Err(ProfileError::Contradiction { what });
    }
    Ok(())
}

/// The frame: Ethernet, IPv4, UDP 1025 to 12 without a checksum, filled with `x`.
pub(super) fn udp(src: Ipv4Addr, dst: Ipv4Addr, size: usize, macs: Macs) -> Template {
    let headers = [
        Header::new(Layer::Ethernet),
        Header::new(Layer::Ipv4)
            .with("src", u32::from(src))
            .with("dst", u32::from(dst)),
        Header::new(Layer::Udp)
            .with("sport", 1025_u32)
            .with("dport", 12_u32)
            .with("checksum", 0_u32),
    ];
    let spec = FrameSpec::new(headers).sized(size.max(MIN_SIZE));
    build(&spec, macs).expect("knobs allow only sizes that hold the headers")
}

fn streams(knobs: &Knobs, port: usize, macs: Macs) -> Vec<Stream> {
    let (src, dst) = if port.is_multiple_of(2) {
        (SRC, DST)
    } else {
        (DST, SRC)
    };
    let vm = knobs.word("vm");
    let variant = |size| {
        let template = udp(src.0, dst.0, size, macs);
        let program = program(vm, &template, src, dst);
        Variant { template, program }
    };
    let (frames, pps) = match knobs.number("size") {
        // Frames of all sizes are trimmed from the largest.
        _ if vm == "size" => (Frames::scheduled(vec![variant(MAX_SIZE)], vec![0]), 1),
        Some(size) => (Frames::scheduled(vec![variant(size)], vec![0]), 1),
        None => mix("bench", variant),
    };
    let (measure, name) = match knobs.word("flow") {
        "fs" => (Measure::Count, measured(knobs, port)),
        "fsl" => (Measure::Latency, measured(knobs, port)),
        _ => (Measure::None, "bench".into()),
    };
    vec![Stream {
        measure,
        rate: Rate::Pps(f64::from(pps)),
        ..Stream::new(name, frames)
    }]
}

fn measured(knobs: &Knobs, port: usize) -> String {
    format!("bench.{}", knobs.number("pg_id").unwrap_or_default() + port)
}

/// The frames of an IMIX table, and how many are in a round: the rate of TRex's streams together.
pub(super) fn mix(table: &str, variant: impl Fn(usize) -> Variant) -> (Frames, u32) {
    let table = Imix::named(table).expect("knobs allow only tables that there are");
    let variants = table.parts.iter().map(|(size, _)| variant(*size)).collect();
    let round = u32::try_from(table.round()).expect("a round is a few frames");
    (Frames::scheduled(variants, table.schedule()), round)
}

/// A 32-bit counter over a range of addresses.
pub(super) fn count(name: &str, range: (Ipv4Addr, Ipv4Addr)) -> Var {
    let values = Values::Step {
        order: Order::Inc,
        min: u32::from(range.0).into(),
        max: u32::from(range.1).into(),
        init: None,
        step: 1,
    };
    Var {
        name: name.into(),
        width: 4,
        values,
        next: None,
    }
}

fn program(
    vm: &str,
    template: &Template,
    src: (Ipv4Addr, Ipv4Addr),
    dst: (Ipv4Addr, Ipv4Addr),
) -> Program {
    let to = |var: &str, field: &str| {
        let at = template.field(field).expect("the frame has this field");
        Write::field(var, &at)
    };
    let mut program = Program::default();
    match vm {
        "var1" | "cached" => {
            program.vars.push(count("src", src));
            program.writes.push(to("src", "ipv4.src"));
            program.cached = (vm == "cached").then_some(CACHED);
        }
        "var2" => {
            program.vars.extend([count("src", src), count("dst", dst)]);
            program
                .writes
                .extend([to("src", "ipv4.src"), to("dst", "ipv4.dst")]);
        }
        "random" => {
            let (min, max) = (u32::from(src.0).into(), u32::from(src.1).into());
            let values = Values::Random { min, max };
            program.vars.push(Var {
                values,
                ..count("src", src)
            });
            program.writes.push(to("src", "ipv4.src"));
        }
        "tuple" => {
            let values = Values::Tuple {
                ip_min: src.0.into(),
                ip_max: src.1.into(),
                port_min: 1234,
                port_max: 65_500,
                limit_flows: LIMIT_FLOWS,
            };
            program.vars.push(Var {
                name: "tuple".into(),
                values,
                ..count("", src)
            });
            program
                .writes
                .extend([to("tuple.ip", "ipv4.src"), to("tuple.port", "udp.sport")]);
        }
        "size" => {
            let (min, max) = ((MIN_SIZE - FCS) as u64, (MAX_SIZE - FCS) as u64);
            let values = Values::Random { min, max };
            program.vars.push(Var {
                name: "len".into(),
                width: 2,
                values,
                next: None,
            });
            program.resize(template, "len");
        }
        _ => {}
    }
    program.correct(template);
    program
}
