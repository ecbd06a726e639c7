//! The document of `rgen capture`. As for a run's, keys are stable.
//!
//! ```json
//! { "schema": "rgen/capture/1", "version", "complete", "exit_code", "files": [ … ],
//!   "ports": [ { "port", "driver", "seen", "written", "filtered", "dropped", "beyond", "missed" } ],
//!   "filter", "count", "snaplen", "duration_s", "failures", "warnings", "machine" }
//! ```
//!
//! `seen` = `written` + `filtered` + `dropped` + `beyond`, to the frame.

use serde::Serialize;

use super::grid::Grid;
use super::result::Failure;
use super::schema::Schema;
use crate::capture::Counts;
use crate::host::Fingerprint;
use crate::units::grouped;

/// What a capture came to.
#[derive(Debug, Serialize)]
pub(crate) struct CaptureDocument {
    pub(crate) schema: Schema,
    pub(crate) version: &'static str,
    /// False if a port or the file failed.
    pub(crate) complete: bool,
    pub(crate) exit_code: u8,
    /// Those that are there now.
    pub(crate) files: Vec<String>,
    pub(crate) ports: Vec<CapturePort>,
    pub(crate) filter: Option<String>,
    pub(crate) count: Option<u64>,
    pub(crate) snaplen: u32,
    pub(crate) duration_s: f64,
    pub(crate) failures: Vec<Failure>,
    pub(crate) warnings: Vec<String>,
    pub(crate) machine: Fingerprint,
}

/// A port, and what became of its frames.
#[derive(Debug, Serialize)]
pub(crate) struct CapturePort {
    pub(crate) port: String,
    pub(crate) driver: &'static str,
    #[serde(flatten)]
    pub(crate) counts: Counts,
}

/// The result for people.
pub(crate) fn page(document: &CaptureDocument) -> String {
    let row = |port: &CapturePort| {
        let counts = port.counts;
        let mut row = vec![port.port.clone()];
        row.extend(
            [
                counts.seen,
                counts.written,
                counts.filtered,
                counts.dropped,
                counts.beyond,
                counts.missed,
            ]
            .map(grouped),
        );
        row
    };
    let grid = Grid {
        header: vec![
            "PORT", "SEEN", "WRITTEN", "FILTERED", "DROPPED", "BEYOND", "MISSED",
        ],
        rows: document.ports.iter().map(row).collect(),
        numbers: 1,
    };
    let mut page = format!(
        "{}\n{} in {:.3} s\n",
        grid.plain(),
        document.files.join(", "),
        document.duration_s
    );
    for warning in &document.warnings {
        page.push_str(&format!("warning: {warning}\n"));
    }
    page
}
