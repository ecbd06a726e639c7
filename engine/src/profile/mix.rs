//! TRex's `stl/imix.py`.

use std::net::Ipv4Addr;

use super::bench::{count, mix, udp};
use super::knobs::{Knob, Takes, Values};
use super::{About, Macs, anything};
use crate::field::{Program, Write};
use crate::frame::Variant;
use crate::stream::{Rate, Stream};

pub(super) const ABOUT: About = About {
    name: "imix",
    aliases: &[],
    what: "UDP frames of mixed sizes, both addresses varying",
    knobs: &[Knob {
        name: "table",
        aliases: &["imix"],
        takes: Takes::Word(&["trex", "bench", "trex-2017", "bench-2017", "csit", "csit6"]),
        default: "trex",
        what: "sizes with FCS and their shares: trex 64/594/1518 28:16:4, bench 68/590/1514 \
               28:16:4, trex-2017 64/594/1518 28:20:4, bench-2017 64/590/1514 28:20:4, csit \
               64/570/1518 28:16:4, csit6 the same with 78",
    }],
    check: anything,
    build: streams,
};

const SRC: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(16, 0, 0, 1), Ipv4Addr::new(16, 0, 0, 254));
const DST: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(48, 0, 0, 1), Ipv4Addr::new(48, 0, 0, 254));

fn streams(knobs: &Values, port: usize, macs: Macs) -> Vec<Stream> {
    let (src, dst) = if port.is_multiple_of(2) {
        (SRC, DST)
    } else {
        (DST, SRC)
    };
    let variant = |size| {
        let template = udp(src.0, dst.0, size, macs);
        let mut program = Program::default();
        for (var, range, field) in [("src", src, "ipv4.src"), ("dst", dst, "ipv4.dst")] {
            let at = template.field(field).expect("the frame has this field");
            program.vars.push(count(var, range));
            program.writes.push(Write::field(var, &at));
        }
        program.correct(&template);
        Variant { template, program }
    };
    let (frames, pps) = mix(knobs.word("table"), variant);
    vec![Stream {
        rate: Rate::Pps(f64::from(pps)),
        ..Stream::new("imix", frames)
    }]
}
