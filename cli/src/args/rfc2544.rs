//! `rgen rfc2544`

use clap::{Args, ValueEnum};

use super::{Bed, Knobs, Sending};

/// `rgen rfc2544`
#[derive(Debug, Args)]
#[command(
    after_help = "RFC 2544 §26: throughput, latency at that rate, frame loss rate from the highest load down, \
back-to-back frames. Left to itself it is quick: trials of 0.3 s, one of each, a minute in all. --strict is the RFC's own: \
trials of 60 s, latency of a frame that is tagged in the middle of 120 s, 20 times, bursts of 2 s, 50 times: \
many hours. The document says which it was. Loads and bounds are those of each sending port by itself."
)]
pub(crate) struct Rfc2544 {
    /// A built-in profile with a knob for the size. Left out: bench, UDP of one flow.
    #[arg(default_value = "bench")]
    pub(crate) profile: String,
    /// A port, twice: what is between them is tested.
    #[arg(short, long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<String>,
    #[command(flatten)]
    pub(crate) knobs: Knobs,
    /// Which of the tests.
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "throughput,latency,loss,burst"
    )]
    pub(crate) test: Vec<Test>,
    /// Frame sizes in bytes with FCS; the RFC's for Ethernet (§9.1) if left out.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "64,128,256,512,1024,1280,1518"
    )]
    pub(crate) size: Vec<String>,
    /// Durations and repetitions as the RFC has them (§24, §26).
    #[arg(long)]
    pub(crate) strict: bool,
    /// How long a trial is. Left out: 300ms, or 60s for --strict.
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) duration: Option<String>,
    /// How close the bounds of the throughput must be, as a share of the upper one. Left out: 1%,
    /// or 0.1% for --strict.
    #[arg(long, value_name = "SHARE")]
    pub(crate) width: Option<String>,
    /// From one load of the test of loss to the next, as a share of the highest; 10 % is the most
    /// that the RFC allows.
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    pub(crate) step: String,
    /// The lowest load, as for ndr.
    #[arg(long, value_name = "RATE", default_value = "1kpps")]
    pub(crate) min: String,
    /// Silence before each trial, for a device that has to come to rest. Left out: none, or 5s for
    /// --strict (§23: two seconds for late frames, five for the device).
    #[arg(long, value_name = "TIME")]
    pub(crate) rest: Option<String>,
    /// Take losses from ports' totals instead of marking every frame, as for ndr.
    #[arg(long)]
    pub(crate) totals: bool,
    #[command(flatten)]
    pub(crate) sending: Sending,
    /// Print Markdown instead of tables.
    #[arg(long)]
    pub(crate) md: bool,
    #[command(flatten)]
    pub(crate) bed: Bed,
}

/// A test of RFC 2544 §26.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Test {
    /// §26.1: the highest rate of which nothing is lost.
    Throughput,
    /// §26.2: at the throughput.
    Latency,
    /// §26.3: how much is lost at the highest load, and at less and less until nothing is, twice.
    Loss,
    /// §26.4: how many frames in a row pass, as close to each other as can be.
    Burst,
}

impl Rfc2544 {
    /// Whether a test is among those asked for.
    pub(crate) fn does(&self, test: Test) -> bool {
        self.test.contains(&test)
    }
}
