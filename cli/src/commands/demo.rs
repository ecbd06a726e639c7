//! `rgen demo`: the first minute. Two simulated ports, one wire, nothing needed.

use super::Manner;
use super::run::measure_only;
use crate::args::{Bed, Demo, Knobs, Machine, Run, Sending};
use crate::error::{Error, Exit};
use crate::output;
use crate::output::result::RunDocument;
use crate::output::summary::latency_line;
use crate::units::grouped;

const RATE: &str = "1mpps";

/// Runs the latency profile over two simulated ports and says what came of it. A machine that is
/// too slow for the rate is told so, and that is no failure of the demo.
pub(super) fn run(args: &Demo, manner: Manner) -> Result<Exit, Error> {
    let duration = &args.duration;
    if !manner.json && !manner.quiet {
        output::result(&format!(
            "two simulated virtio-net ports, one wire between them; no NIC, no root, no hugepages\n  \
             sim:virtio/0 → sim:virtio/1   64 B UDP   1 Mpps for {duration}, 1000 of them a second \
             to measure latency\n"
        ))?;
    }
    let (document, exit) = measure_only(&arguments(duration), manner)?;
    let exit = if exit == Exit::Bottleneck {
        Exit::Done
    } else {
        exit
    };
    if manner.json {
        output::document(&document)?;
    } else {
        output::result(&summary(&document))?;
    }
    Ok(exit)
}

/// Rings that bear a pause of some milliseconds: other programs may want the core too.
const PORT: &str = "sim:virtio,rx_slots=4096";

/// What one would type instead: `rgen run latency -p sim:virtio -p sim:virtio -m 1mpps`.
fn arguments(duration: &str) -> Run {
    Run {
        profile: "latency".to_owned(),
        machine: Machine {
            ports: vec![PORT.to_owned(), PORT.to_owned()],
            duration: Some(duration.to_owned()),
            bed: Bed {
                cores: None,
                no_huge: false,
                output: None,
            },
            json_stream: false,
        },
        knobs: Knobs {
            tunables: Vec::new(),
        },
        multiplier: RATE.to_owned(),
        require: Vec::new(),
        sending: Sending {
            one_way: true,
            dst_mac: None,
            ips: Vec::new(),
            seed: None,
            catch_up: "20ms".to_owned(),
            drain: "200ms".to_owned(),
        },
    }
}

fn summary(document: &RunDocument) -> String {
    let sent: u64 = document.ports.iter().map(|row| row.tx_frames).sum();
    let received: u64 = document.ports.iter().map(|row| row.rx_frames).sum();
    let mut page = format!(
        "  sent {}   received {}   lost {}\n",
        grouped(sent),
        grouped(received),
        document.lost_frames.map_or("unknown".to_owned(), grouped)
    );
    let latency = document.streams.iter().find_map(|row| row.latency_ns);
    if let Some(latency) = latency {
        page.push_str(&format!("  latency  {}\n", latency_line(&latency)));
    }
    for warning in &document.warnings {
        page.push_str(&format!("  warning: {warning}\n"));
    }
    page.push_str(
        "next: rgen run bench -t size=64,vm=var1 -m max -p sim:virtio -p sim:virtio\n      \
         rgen show imix         look at a profile's frames\n      \
         rgen doctor            is this machine ready for real ports?\n",
    );
    page
}
