//! `cargo xtask bench --in lab`: rgen and testpmd in turn on the NICs that QEMU's authors wrote,
//! all in one guest.
//!
//! Each device has a wire to another of its kind, on which a testpmd of its own takes and counts
//! frames on core 0; senders take turns on core 1. What a sender sent is what its device was done
//! with in a window; what was received is what the sink counted in the same window. All of it is
//! emulated, the processors too: frames a second say little, the ratio of two senders on one
//! device in one guest says who costs the emulator less.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use peers::guest::testpmd;
use peers::{Guest, Job, Lab, Machine};
use serde::{Deserialize, Serialize};

use crate::lab::{self, Outcome, Part};
use crate::{against, run};

/// What begins a line that holds a [`Turn`].
const MARK: &str = "@rate ";

/// Devices by the name in the table, as QEMU knows them.
const DEVICES: &[(&str, &str)] = &[
    ("e1000", "e1000"),
    ("e1000e", "e1000e"),
    ("igb", "igb"),
    ("vmxnet3", "vmxnet3"),
    (
        "virtio-net",
        "virtio-net-pci,iommu_platform=on,disable-legacy=on",
    ),
];

/// What a guest may take to start and to end, and each turn beside its window.
const START: Duration = Duration::from_secs(120);
const TURN: Duration = Duration::from_secs(45);

/// One window of one sender.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Turn {
    device: String,
    sender: String,
    round: u32,
    window: Window,
}

/// Its figures, in frames a second.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Window {
    /// What the sender's device was done with.
    sent_pps: f64,
    /// What the sink counted.
    received_pps: f64,
    /// What the sink's device had no room for, where it counts that.
    missed_pps: f64,
    seconds: f64,
}

/// A device in the table: medians, and the least and the most of each round's ratio.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    device: String,
    rgen_sent_pps: f64,
    testpmd_sent_pps: f64,
    rgen_received_pps: f64,
    testpmd_received_pps: f64,
    /// rgen over testpmd, of the medians.
    sent_ratio: f64,
    received_ratio: f64,
    /// Of what was sent, round by round.
    least_ratio: f64,
    most_ratio: f64,
    rounds: usize,
}

/// Everything, as one document.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    size_bytes: u16,
    rows: &'a [Row],
    turns: &'a [Turn],
}

/// Compares on every device whose name contains `filter`, and prints it.
pub(crate) fn compare(options: &against::Options, filter: Option<&str>) -> Result<()> {
    for part in [Part::Peers, Part::Guest] {
        if let Outcome::Unavailable(why) = lab::build(part, false)? {
            bail!("no {} to compare in: {why}", part.name());
        }
    }
    let is_meant = |name: &str| filter.is_none_or(|filter| name.contains(filter));
    let devices: Vec<_> = DEVICES.iter().filter(|(name, _)| is_meant(name)).collect();
    ensure!(!devices.is_empty(), "no device has that in its name");
    let seconds = (options.seconds * f64::from(options.windows)).ceil();
    let mut machine = Machine {
        memory_mib: 2048,
        pages_2m: 320,
        files: testpmd::files(&Lab::find()?)?,
        ..Machine::default()
    };
    let mut script = format!("export RGEN_LAB={} RGEN_BIN=/job/rgen\n", testpmd::HOME);
    for (name, device) in &devices {
        let [first, second] = machine.pair(device, device).ends;
        let rounds = options.rounds;
        script.push_str(&format!(
            "./beside rates {first} {second} {name} {rounds} {seconds} || status=1\n"
        ));
    }
    script.push_str("exit $status\n");
    let turns_in_all = options.rounds * 2 * u32::try_from(devices.len())?;
    let job = Job {
        script,
        programs: vec![against::build_rgen()?, build_beside()?],
        limit: START + (TURN + Duration::from_secs_f64(seconds)) * turns_in_all,
    };
    let mut turns = Vec::new();
    let outcome = Guest::find()?.run(&machine, &job, &mut |line| match turn(line) {
        Some(turn) => {
            println!("{}", told(&turn));
            turns.push(turn);
        }
        None => eprintln!("guest: {line}"),
    })?;
    let rows = rows(&turns);
    print(&rows);
    if let Some(file) = &options.json {
        let document = Document {
            schema: 1,
            size_bytes: 64,
            rows: &rows,
            turns: &turns,
        };
        let text = serde_json::to_string_pretty(&document)?;
        fs::write(file, text).with_context(|| format!("{} can't be written", file.display()))?;
    }
    ensure!(outcome.status == 0, "turns failed, as told above");
    Ok(())
}

/// Builds the program that has the senders take turns in the guest. It moves no frames itself.
fn build_beside() -> Result<std::path::PathBuf> {
    let root = crate::root();
    let mut command = run::cargo(&root);
    command.args(["build", "--package", "rig", "--bin", "beside", "--quiet"]);
    run::read(&mut command).context("what runs in the guest can't be built")?;
    Ok(against::target_folder(&root)?.join("debug/beside"))
}

fn turn(line: &str) -> Option<Turn> {
    serde_json::from_str(line.strip_prefix(MARK)?).ok()
}

fn told(turn: &Turn) -> String {
    let Window {
        sent_pps,
        received_pps,
        missed_pps,
        ..
    } = turn.window;
    format!(
        "round {}  {:<10}  {:<7}  sent {:>7.1} kpps  received {:>7.1} kpps  missed {:>7.1} kpps",
        turn.round,
        turn.device,
        turn.sender,
        sent_pps / 1e3,
        received_pps / 1e3,
        missed_pps / 1e3
    )
}

/// A row for each device of which both senders had a turn.
fn rows(turns: &[Turn]) -> Vec<Row> {
    let mut devices: Vec<&str> = turns.iter().map(|turn| turn.device.as_str()).collect();
    devices.dedup();
    devices
        .into_iter()
        .filter_map(|device| row(turns, device))
        .collect()
}

fn row(turns: &[Turn], device: &str) -> Option<Row> {
    let of = |sender: &str, value: fn(&Window) -> f64| -> Vec<f64> {
        let all = turns.iter();
        let of_both = all.filter(|turn| turn.device == device && turn.sender == sender);
        of_both.map(|turn| value(&turn.window)).collect()
    };
    let median = |sender, value| median(of(sender, value));
    let sent: fn(&Window) -> f64 = |window| window.sent_pps;
    let received: fn(&Window) -> f64 = |window| window.received_pps;
    let (ours, theirs) = (median("rgen", sent)?, median("testpmd", sent)?);
    let (ours_there, theirs_there) = (median("rgen", received)?, median("testpmd", received)?);
    let pairs = of("rgen", sent).into_iter().zip(of("testpmd", sent));
    let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
    Some(Row {
        device: device.to_owned(),
        rgen_sent_pps: ours,
        testpmd_sent_pps: theirs,
        rgen_received_pps: ours_there,
        testpmd_received_pps: theirs_there,
        sent_ratio: ours / theirs,
        received_ratio: ours_there / theirs_there,
        least_ratio: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        most_ratio: ratios.iter().copied().fold(0.0, f64::max),
        rounds: ratios.len(),
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    against::median(&values)
}

fn print(rows: &[Row]) {
    println!(
        "\n64 B frames, emulated NICs and processors, medians in kpps\n\n\
         {:<10}  {:>9}  {:>9}  {:>6}  {:>13}  {:>9}  {:>9}  {:>6}  {:>6}",
        "device",
        "rgen sent",
        "testpmd",
        "ratio",
        "by round",
        "received",
        "testpmd",
        "ratio",
        "rounds"
    );
    for row in rows {
        println!(
            "{:<10}  {:>9.1}  {:>9.1}  {:>6.2}  {:>13}  {:>9.1}  {:>9.1}  {:>6.2}  {:>6}",
            row.device,
            row.rgen_sent_pps / 1e3,
            row.testpmd_sent_pps / 1e3,
            row.sent_ratio,
            format!("{:.2}..{:.2}", row.least_ratio, row.most_ratio),
            row.rgen_received_pps / 1e3,
            row.testpmd_received_pps / 1e3,
            row.received_ratio,
            row.rounds
        );
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn one(device: &str, sender: &str, round: u32, sent_pps: f64) -> Turn {
        Turn {
            device: device.into(),
            sender: sender.into(),
            round,
            window: Window {
                sent_pps,
                received_pps: sent_pps / 2.0,
                missed_pps: 0.0,
                seconds: 1.0,
            },
        }
    }

    #[test]
    fn a_ratio_is_of_two_senders_on_one_device() {
        let turns = [
            one("igb", "rgen", 1, 300.0),
            one("igb", "testpmd", 1, 200.0),
            one("igb", "rgen", 2, 500.0),
            one("igb", "testpmd", 2, 200.0),
            one("e1000", "rgen", 1, 7.0),
        ];
        let rows = rows(&turns);
        assert_eq!(rows.len(), 1, "testpmd had no turn on e1000: {rows:?}");
        let row = &rows[0];
        assert_eq!((row.rgen_sent_pps, row.testpmd_sent_pps), (400.0, 200.0));
        assert_eq!((row.sent_ratio, row.received_ratio), (2.0, 2.0));
        assert_eq!((row.least_ratio, row.most_ratio), (1.5, 2.5));
    }

    #[test]
    fn a_turn_is_read_off_its_line_and_nothing_else_is() {
        let sent = one("igb", "rgen", 1, 300.0);
        let line = format!("{MARK}{}", serde_json::to_string(&sent).unwrap());
        let found = turn(&line).unwrap();
        assert_eq!((found.device, found.round), (sent.device, 1));
        assert!(turn("@rate {}").is_none());
        assert!(turn("hello").is_none());
    }
}
