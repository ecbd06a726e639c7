//! The comparison's table, and its JSON.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;

use super::{Class, Options, Window};
use crate::run;

/// What one sender did with one layout of rings, in one class of windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    rings: &'static str,
    class: Class,
    sender: String,
    /// Windows that count, and those of this class that did not: an end lacked its core.
    windows: usize,
    disturbed: usize,
    /// Of the windows that count.
    median_mpps: f64,
    min_mpps: f64,
    max_mpps: f64,
    round_trip_ns: f64,
    sender_share: f64,
    /// The median over that of the peer, in the same class and with the same rings.
    over_flowgen: Option<f64>,
    over_txonly: Option<f64>,
}

/// Everything, as one document.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    machine: BTreeMap<&'static str, String>,
    size_bytes: u16,
    rows: &'a [Row],
    windows: &'a [Window],
}

/// A class's name.
pub(super) fn class_name(class: Class) -> &'static str {
    match class {
        Class::Near => "near",
        Class::Far => "far",
        Class::Mixed => "mixed",
    }
}

/// Prints the table and writes the JSON, if that was asked for.
pub(super) fn print(options: &Options, windows: &[Window]) -> Result<()> {
    let rows = rows(windows, options.share);
    let machine = machine();
    println!(
        "\n{} B frames, one core sends, testpmd's vhost port counts; Mpps",
        options.size
    );
    for (what, text) in &machine {
        println!("{what}: {text}");
    }
    println!(
        "\n{:<6}  {:<5}  {:<15} {:>7} {:>15}  {:>5}  {:>6}  {:>6}  {:>9}  {:>8}",
        "rings", "class", "sender", "median", "range", "n", "trip", "core", "/flowgen", "/txonly"
    );
    for row in &rows {
        println!(
            "{:<6}  {:<5}  {:<15} {:>7.2} {:>15}  {:>5}  {:>3.0} ns  {:>4.0} %  {:>9}  {:>8}",
            row.rings,
            class_name(row.class),
            row.sender,
            row.median_mpps,
            format!("{:.2}..{:.2}", row.min_mpps, row.max_mpps),
            format!("{}/{}", row.windows, row.windows + row.disturbed),
            row.round_trip_ns,
            row.sender_share * 100.0,
            ratio(row.over_flowgen),
            ratio(row.over_txonly)
        );
    }
    println!(
        "n: windows that count / taken; one counts when both ends had {:.0} % of their cores.\n\
         Compare within a class only: mixed windows are shown, and say little.",
        options.share * 100.0
    );
    if let Some(file) = &options.json {
        let document = Document {
            schema: 1,
            machine,
            size_bytes: options.size,
            rows: &rows,
            windows,
        };
        let text = serde_json::to_string_pretty(&document)?;
        fs::write(file, text + "\n").with_context(|| file.display().to_string())?;
        println!("written: {}", file.display());
    }
    Ok(())
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}

/// A row for each ring layout, class and sender, in the order of their first window.
fn rows(windows: &[Window], share: f64) -> Vec<Row> {
    let mut keys: Vec<(&'static str, Class, &str)> = Vec::new();
    for window in windows {
        let key = (window.rings, window.class, window.sender.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    // A stable sort: senders stay in the order in which they took turns.
    keys.sort_by_key(|(rings, class, _)| (*rings == "packed", *class));
    let mut rows: Vec<Row> = keys
        .iter()
        .filter_map(|key| row(windows, share, *key))
        .collect();
    let medians = rows.clone();
    for row in &mut rows {
        let over = |peer: &str| {
            let same = |other: &&Row| {
                (other.rings, other.class) == (row.rings, row.class) && other.sender == peer
            };
            medians
                .iter()
                .find(same)
                .map(|other| row.median_mpps / other.median_mpps)
        };
        (row.over_flowgen, row.over_txonly) = (over("testpmd flowgen"), over("testpmd txonly"));
    }
    rows
}

fn row(windows: &[Window], share: f64, key: (&'static str, Class, &str)) -> Option<Row> {
    let of_key = windows
        .iter()
        .filter(|w| (w.rings, w.class, w.sender.as_str()) == key);
    let (counted, disturbed): (Vec<&Window>, Vec<&Window>) =
        of_key.partition(|w| w.sender_share.min(w.sink_share) >= share);
    let all = |value: fn(&Window) -> f64| -> Vec<f64> {
        let mut values: Vec<f64> = counted.iter().map(|w| value(w)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let rates = all(|w| w.mpps);
    Some(Row {
        rings: key.0,
        class: key.1,
        sender: key.2.to_owned(),
        windows: counted.len(),
        disturbed: disturbed.len(),
        median_mpps: median(&rates)?,
        min_mpps: *rates.first()?,
        max_mpps: *rates.last()?,
        round_trip_ns: median(&all(|w| {
            f64::midpoint(w.round_trip_ns.0, w.round_trip_ns.1)
        }))?,
        sender_share: median(&all(|w| w.sender_share))?,
        over_flowgen: None,
        over_txonly: None,
    })
}

/// The median of sorted values.
pub(crate) fn median(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    Some(if sorted.len() % 2 == 1 {
        upper
    } else {
        f64::midpoint(sorted[half - 1], upper)
    })
}

/// What the figures were taken on.
fn machine() -> BTreeMap<&'static str, String> {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let stamp = read(
        &peers::Lab::stamp_in(&peers::Lab::home())
            .display()
            .to_string(),
    );
    let commit = run::read(
        std::process::Command::new("git")
            .current_dir(crate::root())
            .args(["rev-parse", "HEAD"]),
    );
    BTreeMap::from([
        (
            "cpu",
            model.map_or_else(String::new, |(_, model)| model.trim().to_owned()),
        ),
        (
            "kernel",
            read("/proc/sys/kernel/osrelease").trim().to_owned(),
        ),
        (
            "peers",
            stamp.lines().skip(1).collect::<Vec<_>>().join(", "),
        ),
        ("commit", commit.unwrap_or_default().trim().to_owned()),
    ])
}

#[cfg(test)]
mod test {
    use super::*;

    fn window(sender: &str, class: Class, mpps: f64, share: f64) -> Window {
        Window {
            rings: "split",
            sender: sender.to_owned(),
            round: 1,
            mpps,
            round_trip_ns: (100.0, 110.0),
            class,
            sender_share: share,
            sink_share: 1.0,
        }
    }

    #[test]
    fn only_undisturbed_windows_of_one_class_are_compared() {
        let windows = [
            window("testpmd flowgen", Class::Near, 8.0, 1.0),
            window("testpmd flowgen", Class::Near, 1.0, 0.5),
            window("testpmd flowgen", Class::Far, 4.0, 1.0),
            window("rgen random", Class::Near, 12.0, 1.0),
            window("rgen random", Class::Near, 20.0, 1.0),
        ];
        let rows = rows(&windows, 0.95);
        assert_eq!(rows.len(), 3);
        assert_eq!(
            (rows[0].windows, rows[0].disturbed, rows[0].median_mpps),
            (1, 1, 8.0)
        );
        assert_eq!(
            (rows[1].median_mpps, rows[1].over_flowgen),
            (16.0, Some(2.0))
        );
        assert_eq!(rows[1].over_txonly, None);
        assert_eq!(
            (rows[2].class, rows[2].over_flowgen),
            (Class::Far, Some(1.0))
        );
    }

    #[test]
    fn the_median_of_nothing_is_nothing() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
    }
}
