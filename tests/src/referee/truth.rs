//! What the driver counts beside what the model counts.
//!
//! The guest sends what `ethtool -S` says before and after traffic, each time while nothing moves;
//! what lies between must be the same on both sides.

use std::collections::BTreeMap;

use models::{DeviceCounts, Sim};
use serde::{Deserialize, Serialize};

use super::devices::Device;

/// What the driver of one end says at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Which end.
    pub end: usize,
    /// It begins a phase, or ends it.
    pub begins: bool,
    /// By `ethtool -S`; what has the same name in several queues is added up.
    pub counts: BTreeMap<String, u64>,
}

/// Both sides' books.
pub(super) struct Books {
    device: &'static [super::devices::Counter],
    name: &'static str,
    begun: [Option<(Sample, DeviceCounts)>; 2],
    phases: usize,
    found: Vec<String>,
}

impl Books {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.counters,
            name: device.name,
            begun: [None, None],
            phases: 0,
            found: Vec::new(),
        }
    }

    /// The guest has said what its driver counts, and nothing moves.
    pub(super) fn take(&mut self, sample: Sample, sim: &Sim) {
        let Some(begun) = self.begun.get_mut(sample.end) else {
            return;
        };
        let truth = sim.counters(sample.end);
        if sample.begins {
            *begun = Some((sample, truth));
            return;
        }
        let Some((before, truth_before)) = begun.take() else {
            self.found
                .push("a phase that did not begin has ended".into());
            return;
        };
        self.phases += 1;
        if truth.rx_frames == truth_before.rx_frames {
            self.found
                .push("no frame arrived while it was counted".into());
        }
        for counter in self.device {
            let sum = |sample: &Sample| {
                let of = |name: &&str| sample.counts.get(*name).copied();
                let all: Vec<u64> = counter.names.iter().filter_map(of).collect();
                (all.len() == counter.names.len()).then(|| all.iter().sum::<u64>())
            };
            let (Some(old), Some(new)) = (sum(&before), sum(&sample)) else {
                self.found
                    .push(format!("{:?}: no such counter", counter.names));
                continue;
            };
            let (driver, model) = (
                new.wrapping_sub(old),
                (counter.truth)(&truth).wrapping_sub((counter.truth)(&truth_before)),
            );
            if driver != model {
                self.found.push(format!(
                    "end {}: {}: the driver counts {driver}, the model {model}",
                    sample.end,
                    counter.names.join(" + ")
                ));
            }
        }
    }

    /// What is wrong.
    pub(super) fn found(&self) -> Vec<String> {
        let mut found = self.found.clone();
        if self.phases < 2 {
            found.push(format!(
                "{} of 2 ends of {} counted",
                self.phases, self.name
            ));
        }
        found
    }
}

/// What `ethtool -S` prints: `     rx_packets: 5`, headlines without a number.
pub(super) fn parse(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, value)) = line.rsplit_once(':')
            && let Ok(value) = value.trim().parse::<u64>()
        {
            *counts.entry(name.trim().to_owned()).or_default() += value;
        }
    }
    counts
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn counters_of_several_queues_are_added_up() {
        let text = "NIC statistics:\n  Rx Queue#: 0\n     ucast pkts rx: 5\n     Rx Queue#: 1\n\
                    \x20    ucast pkts rx: 6\n     bcast pkts rx: 1\n";
        let counts = parse(text);
        assert_eq!(counts["ucast pkts rx"], 11);
        assert_eq!(counts["bcast pkts rx"], 1);
    }
}
