//! A run's result for people.

use super::result::{LatencyRow, PortRow, RunDocument, StreamRow};
use super::text;
use crate::units::{bps, grouped, nanoseconds, scaled};

/// The whole page: ports, what was asked and lost, latency, warnings.
pub(crate) fn page(document: &RunDocument) -> String {
    let mut page = ports(&document.ports);
    page.push_str(&accounting(document));
    if document.surplus > 0 {
        page.push_str(&format!(
            "{} more received than sent: duplicates or foreign frames\n",
            grouped(document.surplus)
        ));
    }
    let is_lossy = |lost: Option<u64>| lost.is_some_and(|lost| lost > 0);
    if is_lossy(document.lost_frames) || document.streams.iter().any(|row| is_lossy(row.lost)) {
        page.push_str(&whereabouts(&document.ports));
    }
    for stream in &document.streams {
        page.push_str(&measured(stream));
    }
    for requirement in &document.requirements {
        page.push_str(&match &requirement.found {
            None => format!("required {}: met\n", requirement.criterion),
            Some(found) => format!("required {found}: NOT MET\n"),
        });
    }
    for warning in &document.warnings {
        page.push_str(&format!("warning: {warning}\n"));
    }
    page
}

fn ports(rows: &[PortRow]) -> String {
    let mut table = text::table(&[
        "PORT",
        "TX FRAMES",
        "TX PPS",
        "TX L2",
        "TX L1",
        "LINE",
        "CPU",
        "RX FRAMES",
        "RX PPS",
        "CPU",
    ]);
    for row in rows {
        table.add_row(vec![
            row.port.clone(),
            grouped(row.tx_frames),
            scaled(row.tx_pps).trim_end().to_owned(),
            bps(row.tx_bps_l2),
            bps(row.tx_bps_l1),
            row.tx_line_percent
                .map_or("-".to_owned(), |percent| format!("{percent:.1} %")),
            format!("{:.0} %", row.tx_cpu * 100.0),
            grouped(row.rx_frames),
            scaled(row.rx_pps).trim_end().to_owned(),
            format!("{:.0} %", row.rx_cpu * 100.0),
        ]);
    }
    text::align_right(&mut table, 1..10);
    format!("{}\n\n", text::render(&table))
}

/// `asked 2 000 000   sent 2 000 000   shortfall 0   lost 0`
fn accounting(document: &RunDocument) -> String {
    let sum = |pick: fn(&PortRow) -> u64| document.ports.iter().map(pick).sum::<u64>();
    let (sent, received) = (sum(|row| row.tx_frames), sum(|row| row.rx_frames));
    let mut parts = Vec::new();
    if document.asked_frames > 0 {
        parts.push(format!("asked {}", grouped(document.asked_frames)));
    }
    parts.push(format!("sent {}", grouped(sent)));
    if document.asked_frames > 0 {
        parts.push(format!("shortfall {}", grouped(document.shortfall_frames)));
    }
    parts.push(format!("received {}", grouped(received)));
    if let Some(lost) = document.lost_frames {
        parts.push(match (lost, sent) {
            (0, _) | (_, 0) => format!("lost {}", grouped(lost)),
            _ => format!(
                "lost {} ({:.4} %)",
                grouped(lost),
                lost as f64 / sent as f64 * 100.0
            ),
        });
    }
    for (what, count) in [
        ("missed", sum(|row| row.rx_missed)),
        ("rx errors", sum(|row| row.rx_errors)),
        ("tx errors", sum(|row| row.tx_errors)),
        ("dropped", sum(|row| row.tx_dropped)),
    ] {
        if count > 0 {
            parts.push(format!("{what} {}", grouped(count)));
        }
    }
    format!(
        "{}   in {:.3} s   seed {}\n",
        parts.join("   "),
        document.duration_s,
        document.seed
    )
}

/// Counters that may tell where lost frames went.
fn whereabouts(ports: &[PortRow]) -> String {
    let mut page = String::new();
    for row in ports {
        let tells = |name: &str| {
            [
                "lost",
                "no_buffer",
                "drop",
                "miss",
                "filtered",
                "bad",
                "error",
                "down",
            ]
            .iter()
            .any(|word| name.contains(word))
        };
        for (name, count) in row.extended.iter().filter(|(name, _)| tells(name)) {
            page.push_str(&format!("  {}: {name} {}\n", row.port, grouped(*count)));
        }
    }
    page
}

/// A measured stream: its counts where they are not all well, and its latency.
fn measured(stream: &StreamRow) -> String {
    if !stream.measured {
        return String::new();
    }
    let mut line = format!("{} ({})", stream.name, stream.port);
    let received = stream.rx_frames.unwrap_or(0);
    line.push_str(&format!(
        ":  sent {}  received {}",
        grouped(stream.tx_frames),
        grouped(received)
    ));
    for (what, count) in [
        ("lost", stream.lost),
        ("duplicated", stream.duplicated),
        ("reordered", stream.reordered),
        ("too late", stream.too_late),
        ("misdirected", stream.misdirected),
    ] {
        if let Some(count) = count.filter(|count| *count > 0 || what == "lost") {
            line.push_str(&format!("  {what} {}", grouped(count)));
        }
    }
    if let Some(latency) = &stream.latency_ns {
        line.push_str(&format!("\n  latency  {}", latency_line(latency)));
    }
    line.push('\n');
    line
}

/// `min 1.2 µs  mean 3.1 µs  median 3.0 µs  p99 5.8 µs  p99.9 9.1 µs  max 20.0 µs  jitter 310 ns`
pub(crate) fn latency_line(latency: &LatencyRow) -> String {
    let ns = |value: u64| nanoseconds(value as f64);
    format!(
        "min {}  mean {}  median {}  p99 {}  p99.9 {}  max {}  jitter {}",
        ns(latency.min),
        nanoseconds(latency.mean),
        ns(latency.p50),
        ns(latency.p99),
        ns(latency.p999),
        ns(latency.max),
        ns(latency.jitter),
    )
}
