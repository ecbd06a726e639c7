//! `rgen ndr`

use clap::{Args, ValueEnum};

use super::{Bed, Knobs, Sending};

/// `rgen ndr`
#[derive(Debug, Args)]
#[command(
    after_help = "Loads are those of each sending port by itself; every port sends, unless \
--one-way; what is lost is added up over all. A bound that the generator set, because it could \
not send more, is no property of what is tested: exit code 6. The line rate is no such bound."
)]
pub(crate) struct Ndr {
    /// A built-in profile (bench, imix, …), a TOML file, or - for TOML on stdin.
    pub(crate) profile: String,
    /// A port; give it again for each. Two of sim:virtio are the two ends of one wire.
    #[arg(short, long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<String>,
    #[command(flatten)]
    pub(crate) knobs: Knobs,
    /// How to search: mlrsearch (as FD.io CSIT: 1 s trials, a load is looked at for 21 s and may
    /// be disturbed for half of it), rfc2544 (trials of 60 s in the end, one lost frame is too
    /// many), tst009 (as rfc2544, and a bad trial is repeated once).
    #[arg(long, value_enum, default_value = "mlrsearch")]
    pub(crate) method: Method,
    /// Also find the highest rate with at most this loss, in the same search. Left out: 0.5% for
    /// mlrsearch, none for the others.
    #[arg(long, value_name = "SHARE", conflicts_with = "no_pdr")]
    pub(crate) pdr: Option<String>,
    /// Find the rate without loss only.
    #[arg(long)]
    pub(crate) no_pdr: bool,
    /// The lowest load, as for run -m. If even that loses frames, there is no result: exit code 5.
    #[arg(long, value_name = "RATE", default_value = "9001pps")]
    pub(crate) min: String,
    /// The highest load, as for run -m; max is what the generator sends when nothing holds it
    /// back. Left out: the line rate, or max for a link that does not say its speed.
    #[arg(long, value_name = "RATE")]
    pub(crate) max: Option<String>,
    /// How long a trial is that counts in full. Left out: 1s, or 60s for rfc2544 and tst009, which
    /// begin with shorter ones.
    #[arg(long, value_name = "TIME")]
    pub(crate) trial: Option<String>,
    /// For how long a load is looked at before it is said to be good. Left out: 21s; one trial for
    /// rfc2544, two for tst009.
    #[arg(long, value_name = "TIME")]
    pub(crate) sum: Option<String>,
    /// How close the bounds of the result must be, as a share of the upper one.
    #[arg(long, value_name = "SHARE", default_value = "0.5%")]
    pub(crate) width: String,
    /// Stop searching when trials have taken this long in all; the bounds so far are the result
    /// (exit code 5).
    #[arg(long, value_name = "TIME", default_value = "20m")]
    pub(crate) limit: String,
    /// Length of a first trial at the highest load that does not count: tables are learned, clocks
    /// raised.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) warm_up: String,
    /// Silence before each trial, for a device that has to come to rest.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) rest: String,
    /// Take losses from ports' totals instead of marking every frame. Frames need no room for a
    /// mark then, and cost less; but each frame of somebody else's (ARP, LLDP, a late one) hides a
    /// lost one. Between the ends of simulated wires totals are exact, and used anyway.
    #[arg(long)]
    pub(crate) totals: bool,
    #[command(flatten)]
    pub(crate) sending: Sending,
    #[command(flatten)]
    pub(crate) bed: Bed,
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// MLRsearch with FD.io CSIT's goals.
    Mlrsearch,
    /// RFC 2544 §26.1: no loss in a trial of 60 s.
    Rfc2544,
    /// ETSI GS NFV-TST 009: one of two trials of 60 s may lose frames.
    Tst009,
}
