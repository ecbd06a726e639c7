//! The command line.

mod bench;
mod capture;
mod ndr;
mod rfc2544;

pub(crate) use bench::Bench;
pub(crate) use capture::Capture;
pub(crate) use ndr::{Method, Ndr};
pub(crate) use rfc2544::{Rfc2544, Test};

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A packet generator with its own NIC drivers.
///
/// A port is always a string: 0000:3b:00.0 (a NIC on vfio-pci), sim:virtio (the real driver on a
/// model of the device, no NIC needed), vhost-user:/run/a.sock (a virtual switch or another
/// program), null: (accepts and counts at once).
#[derive(Debug, Parser)]
#[command(
    name = "rgen",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 unexpected, 2 usage or profile error, 3 machine not ready,\n\
                  4 port failed, 5 criterion not met, 6 the generator was the bottleneck,\n\
                  130 interrupted (partial result written).\n\n\
                  First steps: rgen demo; rgen doctor; rgen show bench"
)]
pub(crate) struct Cli {
    /// Print one JSON document on stdout.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say nothing on stderr but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Two simulated ports, 10 seconds, nothing needed.
    Demo(Demo),
    /// Send a profile's streams, receive, and count.
    Run(Run),
    /// Find the highest rate without loss, and the one with 0.5 % of it.
    Ndr(Ndr),
    /// Print the table of the VM and VF benchmark for two ports: rates, cores, latency.
    Bench(Bench),
    /// Test what is between two ports as RFC 2544 does: throughput, latency, loss, back-to-back.
    Rfc2544(Rfc2544),
    /// Print a profile's frames, or write them as pcap; nothing is sent.
    Show(Show),
    /// Write received frames to pcapng files.
    Capture(Capture),
    /// Forward, reflect, sink or answer.
    Fwd(Fwd),
    /// What ports there are, who holds each, and what it can do.
    Ports,
    /// Hand NICs to vfio-pci; never one that is in use.
    Bind(Bind),
    /// Hand NICs back to their kernel driver.
    Unbind(Bind),
    /// Show hugepages and who holds them, or reserve some.
    Hugepages(Hugepages),
    /// Check this machine: evidence and cure.
    Doctor,
}

/// `rgen demo`
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How long to send.
    #[arg(
        short,
        long,
        default_value = "10s",
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    pub(crate) duration: String,
}

/// What `run`, `fwd` and `capture` have in common: ports, and how long.
#[derive(Debug, Args)]
pub(crate) struct Machine {
    /// A port; give it again for each. Two of sim:virtio are the two ends of one wire.
    #[arg(short, long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<String>,
    /// Stop after this time: 10s, 500ms, 3m, 1h; `forever` runs until Ctrl-C. Left out: 10s, or
    /// forever for fwd.
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) duration: Option<String>,
    #[command(flatten)]
    pub(crate) bed: Bed,
    /// Print a line of JSON every second, then the result as one line.
    #[arg(long)]
    pub(crate) json_stream: bool,
}

/// What every command that opens ports has in common: the machine under them, and a place for the
/// result.
#[derive(Debug, Args)]
pub(crate) struct Bed {
    /// Cores to work on, the first ports' first: 2,3 or 2-5. Left out: rgen picks.
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<String>,
    /// 4 KiB pages instead of hugepages (not for NICs).
    #[arg(long)]
    pub(crate) no_huge: bool,
    /// Also write the JSON result to this file; - prints it instead of the tables.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Bed {
    /// Whether `-o -` asks for the JSON result on stdout.
    pub(crate) fn output_to_stdout(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// The file of `-o`, if there is one.
    pub(crate) fn output_file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|_| !self.output_to_stdout())
    }
}

/// `rgen run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A built-in profile (bench, imix, latency, …), a TOML file, or - for TOML on stdin.
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) machine: Machine,
    #[command(flatten)]
    pub(crate) knobs: Knobs,
    /// How fast, in TRex's grammar: a factor (10), per cent of the line (30%), or a rate with k,
    /// m or g: 10mpps, 10gbps (frames with FCS), 10gbpsl1 (as on the wire); `max` is as fast as
    /// the port takes frames. It holds for each sending port by itself, as in TRex without
    /// --total: two ports at 5mpps send 10 Mpps in all. A factor multiplies each stream's rate; a
    /// rate scales the port's streams by one factor, those with a fixed rate (latency) aside.
    #[arg(
        short,
        long,
        visible_short_alias = 'r',
        visible_alias = "rate",
        allow_hyphen_values = true,
        default_value = "1",
        value_name = "RATE",
        verbatim_doc_comment
    )]
    pub(crate) multiplier: String,
    /// Fail (exit code 5) unless all of these hold: loss=0,loss<=0.1%,p99<50us,rx_pps>=1mpps
    #[arg(long, value_name = "CRITERIA", value_delimiter = ',')]
    pub(crate) require: Vec<String>,
    #[command(flatten)]
    pub(crate) sending: Sending,
}

/// What every command that sends a profile has in common.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sending {
    /// Only the first port of each pair sends; without it every port sends its profile's
    /// direction (even ports the first, odd ports the other) and receives.
    #[arg(long)]
    pub(crate) one_way: bool,
    /// Destination address of frames that do not set one. Left out: the other port of the pair;
    /// 02:00:00:00:00:00 for a port without one.
    #[arg(long, value_name = "MAC")]
    pub(crate) dst_mac: Option<String>,
    /// Addresses of a port's own; give it once for each port, in their order, - for none. One, a
    /// list, ranges: 16.0.0.2,16.0.1.1..16.0.1.9. Questions for them (ARP, neighbour discovery,
    /// ping) are answered, also while frames are sent, on a send queue more. With @GATEWAY at the
    /// end its station is asked for first, and is the destination of frames that do not set one.
    /// Addresses and gateways in VLANs: vlan7=17.0.0.2@17.0.0.1, in QinQ vlan100.7=..., several
    /// with + between them; frames in such a VLAN go to its gateway.
    #[arg(long = "ip", value_name = "ADDRESSES[@GATEWAY]")]
    pub(crate) ips: Vec<String>,
    /// Makes random fields repeat: the same seed gives the same frames. Left out: drawn, and
    /// reported in the result.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// A core that fell behind its schedule makes up for as much; what is older counts as
    /// shortfall.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "20ms",
        allow_hyphen_values = true
    )]
    pub(crate) catch_up: String,
    /// How long to wait, after the last frame, for frames still on their way; less if none comes
    /// for a tenth of it.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "200ms",
        allow_hyphen_values = true
    )]
    pub(crate) drain: String,
}

/// A profile's knobs.
#[derive(Debug, Args)]
pub(crate) struct Knobs {
    /// The profile's knobs, as TRex's tunables: size=64,vm=var1
    #[arg(
        short,
        long = "tunable",
        value_name = "KNOB=VALUE",
        value_delimiter = ','
    )]
    pub(crate) tunables: Vec<String>,
}

/// `rgen show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A built-in profile, a TOML file, or - for TOML on stdin. Left out: the list of profiles.
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) knobs: Knobs,
    /// How fast it would be sent, as for run.
    #[arg(
        short,
        long,
        visible_short_alias = 'r',
        visible_alias = "rate",
        allow_hyphen_values = true,
        default_value = "1",
        value_name = "RATE"
    )]
    pub(crate) multiplier: String,
    /// How many frames, in the order of sending. Left out: 4, or 1000 for --pcap.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Write them to this file instead, or - for stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Which port's direction: 0 (even ports), 1 (odd ports).
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub(crate) direction: u8,
    /// Makes random fields repeat, as for run.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// `rgen fwd`
#[derive(Debug, Args)]
pub(crate) struct Fwd {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// What to do with frames.
    #[arg(long, value_enum, default_value = "io")]
    pub(crate) mode: Mode,
}

/// What a forwarder does with frames (testpmd's modes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Sends on what it gets, as it is. One port alone reflects.
    Io,
    /// As io, with the sending port's address as source.
    Mac,
    /// As io, with source and destination address exchanged.
    Macswap,
    /// Receives and counts.
    Rxonly,
    /// Sends one frame again and again.
    Txonly,
    /// Answers ARP and ICMP echo requests.
    Icmpecho,
}

/// `rgen bind` and `rgen unbind`
#[derive(Debug, Args)]
pub(crate) struct Bind {
    /// PCI addresses: 0000:3b:00.0, or 3b:00.0
    #[arg(required = true, value_name = "BDF")]
    pub(crate) functions: Vec<String>,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `rgen hugepages`
#[derive(Debug, Args)]
pub(crate) struct Hugepages {
    /// Have as many pages in all (of --size, on --node).
    #[arg(long, value_name = "N")]
    pub(crate) reserve: Option<u64>,
    /// Size of page to reserve.
    #[arg(
        long,
        value_enum,
        default_value = "2M",
        requires = "reserve",
        ignore_case = true
    )]
    pub(crate) size: HugeSize,
    /// NUMA node to reserve on; the kernel spreads them if left out.
    #[arg(long, value_name = "N", requires = "reserve")]
    pub(crate) node: Option<u32>,
    /// Say what would be done, and do nothing.
    #[arg(long, requires = "reserve")]
    pub(crate) dry_run: bool,
}

/// A size of hugepage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HugeSize {
    /// 2 MiB.
    #[value(name = "2M")]
    TwoMiB,
    /// 1 GiB.
    #[value(name = "1G")]
    OneGiB,
}

#[cfg(test)]
mod test {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn trex_users_type_what_they_know() {
        let words =
            "rgen run bench -t size=64,vm=var1 -m 10mpps -p sim:virtio -p sim:virtio -d 10s";
        let cli = Cli::try_parse_from(words.split(' ')).unwrap();
        let Command::Run(run) = cli.command else {
            panic!("not a run");
        };
        assert_eq!(run.knobs.tunables, ["size=64", "vm=var1"]);
        assert_eq!(run.machine.ports, ["sim:virtio", "sim:virtio"]);
        assert_eq!(
            (run.multiplier.as_str(), run.machine.duration.as_deref()),
            ("10mpps", Some("10s"))
        );
    }
}
