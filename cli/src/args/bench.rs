//! `rgen bench`

use std::path::PathBuf;

use clap::Args;

use super::{Bed, Sending};

/// `rgen bench`
#[derive(Debug, Args)]
#[command(
    after_help = "The table of TRex's VM and VF benchmark, for any two ports. NDR is the highest \
rate of which nothing is lost; TX CPU and RX CPU are the shares of a core that sending and \
receiving took at it, MAX TX is NDR / TX CPU (what a core could send if nothing else were in the \
way, as TRex computes it), UNPACED what the port took when it was offered all that there was, LATENCY the mean at the \
highest share of --latency-at. \
LIMIT says what kept NDR from being more: line, loss, ring (the port or its peer took no more), \
cpu (frames were not sent in time), away. Here the generator is part of what is measured: that \
it was the limit is a result, and no failure."
)]
pub(crate) struct Bench {
    /// A port, twice: the first sends, the second receives. Two of sim:ixgbe are the two ends of
    /// one wire. null: receives nothing: what it takes is all that is measured then.
    #[arg(short, long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<String>,
    /// Frame sizes in bytes with FCS, and imix: 64,imix,1400
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64")]
    pub(crate) size: Vec<String>,
    /// What varies from frame to frame, as the profile bench has it: none, var1, var2, random,
    /// tuple, cached
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "var1,cached"
    )]
    pub(crate) vm: Vec<String>,
    /// Latency is measured at these shares of NDR, by frames of their own among the others.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "10%,50%,90%"
    )]
    pub(crate) latency_at: Vec<String>,
    /// How long a trial is. Left out: 500ms, so that two kinds of frames take less than a minute;
    /// 1s for --full.
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) duration: Option<String>,
    /// How close the bounds of NDR must be, as a share of the upper one. Left out: 1%, or 0.5% for
    /// --full.
    #[arg(long, value_name = "SHARE")]
    pub(crate) width: Option<String>,
    /// As FD.io CSIT searches: trials of 1 s, a load is looked at for 21 s, width 0.5 %; latency
    /// for 5 s each. Some minutes for each kind of frames.
    #[arg(long)]
    pub(crate) full: bool,
    /// Stop a search when its trials have taken this long; the bounds so far are its result
    /// (exit code 5). Left out: 60s, or 20m for --full.
    #[arg(long, value_name = "TIME")]
    pub(crate) limit: Option<String>,
    /// Silence before each trial, as for ndr.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) rest: String,
    /// The lowest load, as for ndr.
    #[arg(long, value_name = "RATE", default_value = "9001pps")]
    pub(crate) min: String,
    /// Both ports send.
    #[arg(long)]
    pub(crate) both_ways: bool,
    /// Take losses from ports' totals instead of marking every frame, as for ndr.
    #[arg(long)]
    pub(crate) totals: bool,
    /// Print comma-separated values instead of tables.
    #[arg(long, conflicts_with = "md")]
    pub(crate) csv: bool,
    /// Print Markdown instead of tables.
    #[arg(long)]
    pub(crate) md: bool,
    /// Also write a report with plots to this file: one page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) bed: Bed,
    /// Destination address. Left out: the other port's.
    #[arg(long, value_name = "MAC")]
    dst_mac: Option<String>,
    /// Addresses of a port's own, and its gateway, as for run.
    #[arg(long = "ip", value_name = "ADDRESSES[@GATEWAY]")]
    ips: Vec<String>,
    /// Makes random fields repeat, as for run.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A core that fell behind its schedule makes up for as much, as for run.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "20ms",
        allow_hyphen_values = true
    )]
    catch_up: String,
    /// How long to wait for frames still on their way, as for run.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "200ms",
        allow_hyphen_values = true
    )]
    drain: String,
}

impl Bench {
    /// How frames are sent; `seed` where none was given.
    pub(crate) fn sending(&self, seed: Option<u64>) -> Sending {
        Sending {
            one_way: !self.both_ways,
            dst_mac: self.dst_mac.clone(),
            ips: self.ips.clone(),
            seed: self.seed.or(seed),
            catch_up: self.catch_up.clone(),
            drain: self.drain.clone(),
        }
    }
}
