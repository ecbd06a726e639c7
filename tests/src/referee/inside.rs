//! What is checked in the guest: this program runs there, with the kernel's driver and its tools.

mod restarts;

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use super::devices::Device;
use super::heard::wait_until_heard;
use super::log::Log;
use super::net::{self, End, Fallible, SHORT, datagrams, interface, overheard, run, stream, wait};
use super::truth::{self, Sample};
use super::{Entry, Verdict, mac};
use crate::runner::lab;
use restarts::{again, down_and_up, pf_reset, pf_short, unload, wire};

/// What begins a line that holds a [`Sample`].
const MARK: &str = "@sample ";
/// The check in which the driver tests the device.
pub(super) const SELF_TEST: &str = "its own tests of the device pass";
/// The check that only virtual functions have.
const PF_RESET: &str =
    "a reset of its physical function takes the link, until it is brought up anew";
/// The check that only those of 82599 have.
const PF_SHORT: &str = "an MTU above its physical function's is refused, and got over";
/// Namespaces of the two ends.
const SPACES: [&str; 2] = ["a", "b"];
/// Bytes that a stream carries each way.
const STREAM: usize = 2 << 20;

/// What became of a check that went well.
pub(super) enum Done {
    Passed,
    /// What the device or its driver has not.
    NotOffered(String),
}

pub(super) type Outcome = Fallible<Done>;

/// The two ends, and what the checks keep.
pub(super) struct Bench {
    device: &'static Device,
    ends: [End; 2],
    log: Log,
}

pub(super) type Check = (&'static str, fn(&mut Bench) -> Outcome);

/// In the order in which they run: each needs what those before it have set up.
const CHECKS: &[Check] = &[
    ("the driver takes both devices", probe),
    ("each interface has the address of its model", addresses),
    ("the link comes up, at the speed of the wire", link),
    ("pings of every size are answered", pings),
    (
        "datagrams of every size arrive as they were",
        every_datagram,
    ),
    ("streams arrive as they were, both ways", streams),
    ("counters are read before and after traffic", counted),
    ("frames of the largest MTU pass", jumbo),
    ("VLANs pass, each to its own", vlans),
    ("foreign frames come in promiscuous mode alone", promiscuous),
    ("groups come where they were joined", groups),
    ("the link goes and comes with the wire", wire),
    (PF_RESET, pf_reset),
    (PF_SHORT, pf_short),
    (SELF_TEST, self_test),
    ("twenty times down and up again", down_and_up),
    ("unloaded, loaded again, it works as before", again),
    ("unloaded, it leaves nothing behind", unload),
    ("the kernel has nothing to warn of", silent),
];

/// Those that make sense for a kind of model.
pub(super) fn checks(device: &Device) -> impl Iterator<Item = Check> {
    let fits = |&(name, _): &Check| match name {
        PF_RESET => device.is_vf,
        PF_SHORT => device.needs_long_pf,
        _ => true,
    };
    CHECKS.iter().copied().filter(fits)
}

/// A line as a sample, if it is one.
#[must_use]
pub fn sample(line: &str) -> Option<Sample> {
    serde_json::from_str(line.strip_prefix(MARK)?).ok()
}

/// Runs the checks on the devices at two PCI addresses, and says in lines what it finds. True if
/// nothing failed.
///
/// # Errors
/// The guest is not made for it.
pub fn judge(device: &'static Device, places: [String; 2]) -> Result<bool, String> {
    for folder in ["/var", "/run/netns"] {
        fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
    }
    if !Path::new("/var/run").exists() {
        std::os::unix::fs::symlink("/run", "/var/run").map_err(|error| error.to_string())?;
    }
    let log = Log::from_now().map_err(|error| format!("the kernel's log: {error}"))?;
    let [first, second] = places;
    let end = |n: u8, bdf: String| End {
        name: SPACES[usize::from(n)],
        bdf,
        dev: String::new(),
        ip: Ipv4Addr::new(192, 0, 2, n + 1),
    };
    let mut bench = Bench {
        device,
        ends: [end(0, first), end(1, second)],
        log,
    };
    let mut good = true;
    for (check, work) in checks(device) {
        let started = Instant::now();
        let (verdict, found) = match work(&mut bench) {
            Ok(Done::Passed) => (Verdict::Passed, String::new()),
            Ok(Done::NotOffered(what)) => (Verdict::NotOffered, what),
            Err(what) => (Verdict::Failed, what),
        };
        good &= verdict != Verdict::Failed;
        let entry = Entry {
            on: String::new(),
            check: check.to_owned(),
            verdict,
            found,
            took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        println!("{}", lab::line(&entry));
        if verdict == Verdict::Failed && check == CHECKS[0].0 {
            for warning in bench.log.warnings().unwrap_or_default() {
                println!("kernel: {warning}");
            }
            break;
        }
    }
    Ok(good)
}

/// Loads the driver, and puts each interface into a namespace of its own.
fn probe(bench: &mut Bench) -> Outcome {
    run("modprobe", &["8021q"])?;
    for space in SPACES {
        net::ip(&["netns", "add", space])?;
    }
    load(bench)?;
    Ok(Done::Passed)
}

fn load(bench: &mut Bench) -> Fallible {
    run("modprobe", &[bench.device.module])?;
    for end in &mut bench.ends {
        let bdf = end.bdf.clone();
        wait(|| interface(&bdf).is_some())
            .map_err(|waited| format!("no interface of {bdf} after {waited:?}"))?;
        end.dev = interface(&bdf).ok_or("the interface went away")?;
        net::ip(&["link", "set", &end.dev, "netns", end.name])?;
        end.run(&["/bin/sh", "-c", QUIET])?;
        let address = format!("{}/24", end.ip);
        end.ip(&["addr", "add", &address, "dev", &end.dev])?;
        end.ip(&["link", "set", "lo", "up"])?;
        without_segmentation(end);
    }
    Ok(())
}

/// Nothing is sent that no check asks for.
const QUIET: &str = "for each in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $each; done";

/// Segmentation is not modelled: the models object to being asked for it. What a driver has not
/// can't be switched off either, which is no failure.
fn without_segmentation(end: &End) {
    for feature in ["tso", "tx-udp-segmentation", "tx-gso-partial"] {
        let _ = end.ethtool(&["-K", &end.dev, feature, "off"]);
    }
}

fn addresses(bench: &mut Bench) -> Outcome {
    for (n, end) in (0..).zip(&bench.ends) {
        let text = end.ip(&["-o", "link", "show", "dev", &end.dev])?;
        let octets = mac(n).map(|octet| format!("{octet:02x}"));
        let expected = format!("link/ether {}", octets.join(":"));
        if !text.contains(&expected) {
            return Err(format!("{}: {expected} is not in {text}", end.dev));
        }
    }
    Ok(Done::Passed)
}

fn link(bench: &mut Bench) -> Outcome {
    for end in &bench.ends {
        end.up()?;
    }
    for end in &bench.ends {
        end.wait_for_link()?;
    }
    let mbps = bench.device.speed_bps / 1_000_000;
    for end in &bench.ends {
        let text = end.ethtool(&[&end.dev])?;
        let expected = format!("Speed: {mbps}Mb/s");
        if !text.contains(&expected) || !text.contains("Link detected: yes") {
            let line = |what: &str| text.lines().find(|line| line.contains(what));
            return Err(format!(
                "{}: {:?} {:?}, and the wire has {mbps} Mbit/s",
                end.dev,
                line("Speed"),
                line("Link detected")
            ));
        }
    }
    Ok(Done::Passed)
}

fn pings(bench: &mut Bench) -> Outcome {
    let [a, b] = &bench.ends;
    a.ping(b.ip, 56, 5)?;
    for size in [0, 18, 56, 500, 1000, 1471, 1472] {
        a.ping(b.ip, size, 20)?;
        b.ping(a.ip, size, 20)?;
    }
    Ok(Done::Passed)
}

fn every_datagram(bench: &mut Bench) -> Outcome {
    let [a, b] = &bench.ends;
    datagrams(a, b, 1000, 1472)?;
    datagrams(b, a, 1000, 1472)?;
    Ok(Done::Passed)
}

/// One after the other, then both at once.
fn streams(bench: &mut Bench) -> Outcome {
    let [a, b] = &bench.ends;
    stream(a, b, STREAM, 1)?;
    stream(b, a, STREAM, 2)?;
    std::thread::scope(|scope| {
        let forth = scope.spawn(|| stream(a, b, STREAM, 3));
        let back = stream(b, a, STREAM, 4);
        let forth = forth.join().map_err(|_| "a thread panicked".to_owned())?;
        forth.and(back)
    })?;
    Ok(Done::Passed)
}

fn counted(bench: &mut Bench) -> Outcome {
    acquaint(bench)?;
    samples(bench, true)?;
    let [a, b] = &bench.ends;
    datagrams(a, b, 300, 1472)?;
    a.ping(b.ip, 1000, 50)?;
    datagrams(b, a, 150, 1472)?;
    // One for everyone, and one for a group that all hosts are in.
    let others = a.run(&[
        "/tools/ping",
        "-n",
        "-q",
        "-b",
        "-c",
        "3",
        "-i",
        "0.05",
        "-W",
        "1",
        "192.0.2.255",
    ]);
    let group = a.run(&[
        "/tools/ping",
        "-n",
        "-q",
        "-c",
        "3",
        "-i",
        "0.05",
        "-W",
        "1",
        "224.0.0.1",
    ]);
    // Hosts do not answer those, and ping calls that a failure.
    let _ = (others, group);
    samples(bench, false)?;
    Ok(Done::Passed)
}

/// What both drivers count, once nothing moves any more.
fn samples(bench: &Bench, begins: bool) -> Fallible {
    let packets = || -> Fallible<Vec<i64>> {
        let mut all = Vec::new();
        for end in &bench.ends {
            all.push(end.number("statistics/rx_packets")?);
            all.push(end.number("statistics/tx_packets")?);
        }
        Ok(all)
    };
    // Some drivers look at their counters only every other second.
    let mut last = packets()?;
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(300));
        let now = packets()?;
        if now == last {
            break;
        }
        last = now;
    }
    for (n, end) in bench.ends.iter().enumerate() {
        let text = end.ethtool(&["-S", &end.dev])?;
        let mut counts = truth::parse(&text);
        // What the kernel shows of any interface, beside the driver's own.
        for name in ["rx_packets", "tx_packets"] {
            let value = end.number(&format!("statistics/{name}"))?;
            let value = u64::try_from(value).map_err(|error| error.to_string())?;
            counts.insert(format!("interface {name}"), value);
        }
        let sample = Sample {
            end: n,
            begins,
            counts,
        };
        let json = serde_json::to_string(&sample).map_err(|error| error.to_string())?;
        println!("{MARK}{json}");
        wait_until_heard()?;
    }
    Ok(())
}

fn jumbo(bench: &mut Bench) -> Outcome {
    let mtu = bench.device.mtu;
    if mtu <= 1500 {
        return Ok(Done::NotOffered("an MTU above 1500".into()));
    }
    let set = |mtu| -> Fallible {
        for end in &bench.ends {
            end.set_mtu(mtu)?;
        }
        bench.ends.iter().try_for_each(End::wait_for_link)
    };
    let passed = set(mtu).and_then(|()| long_frames(bench, mtu));
    set(1500)?;
    let [a, b] = &bench.ends;
    passed.and_then(|()| a.ping(b.ip, 1472, 5))?;
    Ok(Done::Passed)
}

fn long_frames(bench: &Bench, mtu: u32) -> Fallible {
    let [a, b] = &bench.ends;
    let largest = usize::try_from(mtu - 28).map_err(|error| error.to_string())?;
    a.ping(b.ip, 56, 3)?;
    for size in [1473, 2020, 4068, largest - 1, largest] {
        a.ping(b.ip, size, 10)?;
        b.ping(a.ip, size, 10)?;
    }
    datagrams(a, b, 300, largest)?;
    stream(a, b, STREAM, 5)?;
    stream(b, a, STREAM, 6)
}

fn vlans(bench: &mut Bench) -> Outcome {
    let [a, b] = &bench.ends;
    let there = |n: u8, host: u8| Ipv4Addr::new(198, 51, n, host);
    for (end, host) in [(a, 1), (b, 2)] {
        // The first two have both, the last is not the same on both ends.
        for (n, vlan) in [(1, 5), (2, 4094), (3, 100 + u16::from(host))] {
            let (name, id) = (format!("v{n}"), vlan.to_string());
            end.ip(&[
                "link", "add", "link", &end.dev, "name", &name, "type", "vlan", "id", &id,
            ])?;
            let address = format!("{}/24", there(n, host));
            end.ip(&["addr", "add", &address, "dev", &name])?;
            end.ip(&["link", "set", &name, "up"])?;
        }
    }
    for n in [1, 2] {
        a.ping(there(n, 2), 56, 10)?;
        b.ping(there(n, 1), 1472, 10)?;
    }
    if a.ping_for(there(3, 2), 56, 1, SHORT).is_ok() {
        return Err("a frame passed from VLAN 101 to VLAN 102".into());
    }
    // With tags put in and taken off by software, the device sees them in frames.
    for words in [["rxvlan", "off"], ["txvlan", "off"]] {
        let _ = a.ethtool(&["-K", &a.dev, words[0], words[1]]);
    }
    a.wait_for_link()?;
    a.ping(there(1, 2), 1472, 10)?;
    for words in [["rxvlan", "on"], ["txvlan", "on"]] {
        let _ = a.ethtool(&["-K", &a.dev, words[0], words[1]]);
    }
    a.wait_for_link()?;
    a.ping(there(2, 2), 56, 10)?;
    for end in [a, b] {
        for name in ["v1", "v2", "v3"] {
            end.ip(&["link", "del", name])?;
        }
    }
    a.ping(b.ip, 56, 5)?;
    Ok(Done::Passed)
}

/// Each end knows the other's address for good, so that nobody asks while frames are counted.
fn acquaint(bench: &Bench) -> Fallible {
    let [a, b] = &bench.ends;
    for (n, end, other) in [(1, a, b), (0, b, a)] {
        let octets = mac(n).map(|octet| format!("{octet:02x}")).join(":");
        let (to, dev) = (other.ip.to_string(), &end.dev);
        end.ip(&["neigh", "replace", &to, "lladdr", &octets, "dev", dev])?;
    }
    Ok(())
}

/// Frames that are sent to somebody else, each time.
const FOREIGN: usize = 20;

/// Of so many frames for `to`, `wanted` must come to the other end; `when`: under which
/// circumstances.
fn foreign(bench: &Bench, to: Ipv4Addr, wanted: usize, when: &str) -> Fallible {
    let [a, b] = &bench.ends;
    let took = overheard(a, b, to, FOREIGN, wanted)?;
    if took == wanted {
        return Ok(());
    }
    Err(format!("{took} of {FOREIGN} frames for {to} came {when}"))
}

fn promiscuous(bench: &mut Bench) -> Outcome {
    acquaint(bench)?;
    let [a, b] = &bench.ends;
    let stranger = Ipv4Addr::new(192, 0, 2, 77);
    let (to, address) = (stranger.to_string(), "02:72:67:00:00:77");
    a.ip(&["neigh", "replace", &to, "lladdr", address, "dev", &a.dev])?;
    foreign(bench, stranger, 0, "without being asked for")?;
    b.ip(&["link", "set", &b.dev, "promisc", "on"])?;
    let lacks = bench.device.no_promiscuity;
    let wanted = if lacks.is_some() { 0 } else { FOREIGN };
    let on = foreign(bench, stranger, wanted, "in promiscuous mode");
    b.ip(&["link", "set", &b.dev, "promisc", "off"])?;
    on?;
    foreign(bench, stranger, 0, "after promiscuous mode")?;
    Ok(lacks.map_or(Done::Passed, |why| Done::NotOffered(why.into())))
}

fn groups(bench: &mut Bench) -> Outcome {
    acquaint(bench)?;
    let [a, b] = &bench.ends;
    let group = Ipv4Addr::new(239, 1, 2, 3);
    a.ip(&["route", "replace", "239.0.0.0/8", "dev", &a.dev])?;
    foreign(bench, group, 0, "though nobody had joined")?;
    let address = "01:00:5e:01:02:03";
    b.ip(&["maddress", "add", address, "dev", &b.dev])?;
    let joined = foreign(bench, group, FOREIGN, "to who had joined");
    b.ip(&["maddress", "del", address, "dev", &b.dev])?;
    joined?;
    Ok(Done::Passed)
}

/// Some of these tests have deadlines of their own, two ticks of the kernel's clock in e1000's
/// loopback: a busy host misses them now and then. What is wrong with a register stays wrong.
fn self_test(bench: &mut Bench) -> Outcome {
    let again = |_: String| one_self_test(bench);
    one_self_test(bench).or_else(again).or_else(again)
}

fn one_self_test(bench: &Bench) -> Outcome {
    let end = &bench.ends[0];
    let told = end.ethtool(&["-t", &end.dev, "offline"]);
    let text = match told {
        Ok(text) => text,
        Err(text) if text.contains("not supported") => {
            return Ok(Done::NotOffered("tests of the driver's own".into()));
        }
        Err(text) => text,
    };
    end.wait_for_link()?;
    let bad = |line: &&str| {
        let value = line
            .rsplit_once(char::is_whitespace)
            .map(|(_, value)| value.trim());
        value.is_some_and(|value| value.parse::<i64>().is_ok_and(|value| value != 0))
    };
    let failed: Vec<&str> = text.lines().filter(bad).map(str::trim).collect();
    if !failed.is_empty() || text.contains("FAIL") {
        return Err(format!(
            "{} ({})",
            failed.join(", "),
            text.replace('\n', " ")
        ));
    }
    let [a, b] = &bench.ends;
    a.ping(b.ip, 56, 5)?;
    Ok(Done::Passed)
}

fn silent(bench: &mut Bench) -> Outcome {
    let warnings = bench.log.warnings().map_err(|error| error.to_string())?;
    if warnings.is_empty() {
        Ok(Done::Passed)
    } else {
        Err(warnings.join(" | "))
    }
}
