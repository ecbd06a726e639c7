//! What is seen while a run goes on: a table on a terminal, a line a second otherwise.

use engine::run::{Event, Snapshot};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::result::{IntervalDocument, PortRow};
use super::schema::Schema;
use super::{say, text};
use crate::commands::Manner;
use crate::error::Error;
use crate::units::{bps, pps, scaled};

/// Where progress goes.
pub(crate) enum Progress {
    /// Nowhere.
    Silent,
    /// Lines on stderr.
    Lines,
    /// A table on a terminal, drawn over itself.
    Live(ProgressBar),
    /// Lines of JSON on stdout, and what happens on stderr.
    Stream,
    /// Lines of JSON on stdout alone.
    QuietStream,
}

impl Progress {
    /// Progress as asked for.
    pub(crate) fn new(manner: Manner, json_stream: bool) -> Self {
        if json_stream {
            return if manner.quiet {
                Self::QuietStream
            } else {
                Self::Stream
            };
        }
        if manner.quiet {
            return Self::Silent;
        }
        if !text::is_live() {
            return Self::Lines;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(style);
        Self::Live(bar)
    }

    /// Shows figures so far; whether somebody may want more of them.
    pub(crate) fn show(
        &self,
        snapshot: &Snapshot,
        link_bps: &[Option<u64>],
    ) -> Result<bool, Error> {
        match self {
            Self::Silent => Ok(true),
            Self::Lines => {
                say(&line(snapshot));
                Ok(true)
            }
            Self::Live(bar) => {
                bar.set_message(text::printable(&page(snapshot)).into_owned());
                bar.tick();
                Ok(true)
            }
            Self::Stream | Self::QuietStream => super::line(&interval(snapshot, link_bps)),
        }
    }

    /// Says what happened, between lines or above the table.
    pub(crate) fn event(&self, event: &Event) {
        let said = format!("  {:.1} s  {}", event.at_ns as f64 / 1e9, event.what);
        match self {
            Self::Silent | Self::QuietStream => {}
            Self::Lines | Self::Stream => say(&said),
            Self::Live(bar) => bar.println(text::printable(&said)),
        }
    }

    /// Says something, above the table.
    pub(crate) fn remark(&self, remark: &str) {
        match self {
            Self::Silent | Self::QuietStream => {}
            Self::Lines | Self::Stream => say(remark),
            Self::Live(bar) => bar.println(text::printable(remark)),
        }
    }

    /// Says what is doubtful before anything is sent.
    pub(crate) fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            self.remark(&format!("warning: {warning}"));
        }
    }

    /// Takes the table off the terminal: the summary follows.
    pub(crate) fn end(&self) {
        if let Self::Live(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn interval(snapshot: &Snapshot, link_bps: &[Option<u64>]) -> IntervalDocument {
    let figures = &snapshot.figures;
    let rows = figures.ports.iter().enumerate();
    IntervalDocument {
        schema: Schema::Interval,
        elapsed_s: snapshot.elapsed_ns as f64 / 1e9,
        asked_frames: figures.asked_frames,
        shortfall_frames: figures.shortfall_frames,
        ports: rows
            .map(|(n, port)| PortRow::new(port, link_bps.get(n).copied().flatten()))
            .collect(),
    }
}

/// `  3.0 s  tx 2.000 Mpps  rx 2.000 Mpps  shortfall 0`
fn line(snapshot: &Snapshot) -> String {
    let figures = &snapshot.figures;
    let sum = |pick: fn(&engine::run::PortFigures) -> f64| -> f64 {
        figures.ports.iter().map(pick).sum()
    };
    format!(
        "  {:.1} s  tx {}pps  rx {}pps  shortfall {}",
        snapshot.elapsed_ns as f64 / 1e9,
        scaled(sum(|port| port.tx_pps)),
        scaled(sum(|port| port.rx_pps)),
        figures.shortfall_frames,
    )
}

fn page(snapshot: &Snapshot) -> String {
    let mut table = text::table(&["PORT", "TX", "L1", "RX", "TX CPU", "RX CPU", "SHORTFALL"]);
    for port in &snapshot.figures.ports {
        let row = PortRow::new(port, None);
        table.add_row(vec![
            row.port,
            pps(row.tx_pps),
            bps(row.tx_bps_l1),
            pps(row.rx_pps),
            format!("{:.0} %", row.tx_cpu * 100.0),
            format!("{:.0} %", row.rx_cpu * 100.0),
            row.shortfall_frames.to_string(),
        ]);
    }
    text::align_right(&mut table, 1..7);
    let elapsed = snapshot.elapsed_ns as f64 / 1e9;
    format!(
        "{}\n {elapsed:.1} s   Ctrl-C stops and shows the result",
        text::render(&table)
    )
}
