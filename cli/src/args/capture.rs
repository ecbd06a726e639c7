//! `rgen capture`

use std::path::PathBuf;

use clap::Args;

use super::Machine;

/// `rgen capture`
#[derive(Debug, Args)]
#[command(
    after_help = "seen = written + filtered + dropped + beyond --count, always, to the frame: dropped ones came faster \
than they could be written. Missed ones never came out of the device. Times are of the poll that found a frame, in nanoseconds."
)]
pub(crate) struct Capture {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// The file, pcapng; - for stdout: rgen capture -p PORT -w - | wireshark -k -i -
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: PathBuf,
    /// Only what this expression of tcpdump's says: 'udp port 12', 'vlan 7 and host 16.0.0.1'
    #[arg(short, long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,
    /// Stop after as many frames are written.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Write no more than the first bytes of a frame.
    #[arg(short, long, value_name = "BYTES", default_value_t = 65_535, value_parser = clap::value_parser!(u32).range(14..=262_144))]
    pub(crate) snaplen: u32,
    /// Begin another file when one has so many bytes: 10MB. FILE.00001.pcapng and so on.
    #[arg(long, value_name = "SIZE")]
    pub(crate) rotate_size: Option<String>,
    /// Begin another file after this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) rotate_time: Option<String>,
    /// Keep only as many files, the last ones.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files: Option<u32>,
}
