//! What the lab's tests of virtual functions run in a guest: two VFs of a NIC whose physical
//! function Linux's own driver has, and what that one does to them.
//!
//! Each scenario takes the physical function's address. It says what it found and ends with 0,
//! or says what is wrong and ends with 1.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use hw::pci::{Bdf, Pci};
use port::{Config, LinkState, Mac, Port, PortError};
use rig::conformance::{Failure, Line, frame, same};
use rig::runner::{Borrowed, pair};

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// How long anything may take that the physical function does, on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fails the scenario unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!($($what)+).into());
        }
    };
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["mtu", pf] => mtu(pf),
        ["denied", pf] => denied(pf),
        ["elsewhere", pf] => elsewhere(pf),
        ["exits", pf] => exits(pf),
        ["resets", pf] => resets(pf),
        ["address", pf] => address(pf),
        ["spoofing", pf] => spoofing(pf),
        ["vlans", pf] => vlans(pf),
        _ => Err("no such scenario".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {}: {error}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// A physical function that its kernel driver has, and its first two virtual functions, which
/// are ours meanwhile.
struct Host {
    interface: String,
    ports: [String; 2],
    _borrowed: Borrowed,
}

impl Host {
    fn at(pf: &str) -> Fallible<Self> {
        let pci = Pci::host();
        let physfn = pci.device(pf.parse()?)?;
        let vfs: Vec<Bdf> = physfn.virtfns.iter().copied().take(2).collect();
        let [first, second] = vfs[..] else {
            return Err("fewer than two virtual functions".into());
        };
        Ok(Self {
            interface: physfn.netdevs.first().ok_or("no interface")?.clone(),
            ports: [first, second].map(|bdf| bdf.to_string()),
            _borrowed: Borrowed::take(&pci, &vfs)?,
        })
    }

    fn open(&self, options: &str) -> Result<[Box<dyn Port>; 2], Failure> {
        let ports = self.ports.each_ref().map(|port| format!("{port}{options}"));
        Ok(pair::open(&ports)?.ports)
    }

    fn line(&self, options: &str, config: &Config) -> Result<Line, Failure> {
        Line::start(self.open(options)?, config)
    }

    /// `ip link set dev INTERFACE …`, with iproute2's: busybox's knows no VFs.
    fn set(&self, words: &str) -> Fallible {
        let (done, said) = self.try_set(words)?;
        ensure!(done, "ip link set {words}: {said}");
        Ok(())
    }

    fn try_set(&self, words: &str) -> Fallible<(bool, String)> {
        let output = Command::new("./ip")
            .args(["link", "set", "dev", &self.interface])
            .args(words.split_whitespace())
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.status.success(), said))
    }

    fn mtu(&self) -> Fallible<u32> {
        let text = fs::read_to_string(format!("/sys/class/net/{}/mtu", self.interface))?;
        Ok(text.trim().parse()?)
    }
}

/// Calls `step` until it says that it is done.
fn wait(what: &str, mut step: impl FnMut() -> Fallible<bool>) -> Fallible {
    let started = Instant::now();
    while !step()? {
        ensure!(started.elapsed() < PATIENCE, "waited in vain: {what}");
    }
    Ok(())
}

/// Moves frames of up to `longest` bytes both ways, each compared.
fn traffic(line: &mut Line, longest: usize) -> Result<(), Failure> {
    let macs = line.macs();
    for from in [0, 1] {
        let len = |n: usize| 60 + n * 997 % (longest - 59);
        let frames: Vec<_> = (0..500)
            .map(|n| frame(macs[1 - from], macs[from], len(n), n as u64))
            .collect();
        for portion in frames.chunks(50) {
            let received = line.transfer(from, portion, portion.len())?;
            same(portion, &received)?;
        }
    }
    Ok(())
}

/// A frame from one address to another, from end 0; true if end 1 receives it. One that is
/// received for sure comes after it, so that nothing has to be waited for.
fn passes(line: &mut Line, to: Mac, from: Mac) -> Result<bool, Failure> {
    let macs = line.macs();
    let questioned = frame(to, from, 100, 1);
    let sure = frame(macs[1], macs[0], 100, 2);
    let mut received = line.transfer(0, &[questioned.clone(), sure.clone()], 1)?;
    while received.last().is_none_or(|last| last.bytes != sure) {
        received.extend(line.transfer(0, &[], 1)?);
    }
    Ok(received.iter().any(|got| got.bytes == questioned))
}

/// Buffers that a whole jumbo frame fits in.
fn jumbo() -> Config {
    Config {
        rx_capacity: 9216,
        ..Config::default()
    }
}

/// The longest frame for an MTU of 9000, without FCS.
const JUMBO: usize = 9014;

/// Linux's igb lets its VFs receive jumbo frames whatever its own MTU is, so that is left alone;
/// raised on request, it goes back when the last port that needs it is closed.
fn mtu(pf: &str) -> Fallible {
    let host = Host::at(pf)?;
    let before = host.mtu()?;
    ensure!(before == 1500, "the PF's MTU is {before} to begin with");
    let mut line = host.line(",mtu=9000", &jumbo())?;
    traffic(&mut line, JUMBO)?;
    ensure!(host.mtu()? == before, "the PF's MTU was raised for nothing");
    drop(line.stop()?);

    let mut line = host.line(",mtu=9000,pf_mtu=raise", &jumbo())?;
    let raised = host.mtu()?;
    ensure!(raised == 9000, "the PF's MTU is {raised}");
    traffic(&mut line, JUMBO)?;
    let [first, second] = line.stop()?;
    drop(first);
    ensure!(host.mtu()? == raised, "the other port needs it still");
    drop(second);
    let after = host.mtu()?;
    ensure!(after == before, "the PF's MTU was {before} and is {after}");
    println!("mtu: left alone, raised, and restored");
    Ok(())
}

/// What keeps the first VF from starting with the PF's MTU raised: the error and its cure.
fn refusal(host: &Host) -> Fallible<(String, String)> {
    let [first, _second] = host.open(",mtu=9000,pf_mtu=raise")?;
    match rig::conformance::End::alone(first, &jumbo()) {
        Err(Failure::Start(error)) => {
            let cure = error.remedy().ok_or("no cure")?;
            Ok((error.to_string(), cure))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Err("it started".into()),
    }
}

/// Run without CAP_NET_ADMIN: the refusal has the command to run.
fn denied(pf: &str) -> Fallible {
    let host = Host::at(pf)?;
    let (error, cure) = refusal(&host)?;
    let command = format!("ip link set dev {} mtu 9000", host.interface);
    ensure!(error.contains("no permission"), "{error}");
    ensure!(cure.contains(&command), "{cure}");
    ensure!(host.mtu()? == 1500, "it was raised all the same");
    println!("denied: {error}; {cure}");
    Ok(())
}

/// Run in another network namespace, as in a container: the PF is there, its interface is not.
fn elsewhere(pf: &str) -> Fallible {
    let pci = Pci::host();
    let vfs = pci.device(pf.parse()?)?.virtfns;
    let host = Host {
        interface: "none".into(),
        ports: [vfs[0], vfs[1]].map(|bdf| bdf.to_string()),
        _borrowed: Borrowed::take(&pci, &vfs[..2])?,
    };
    let (error, cure) = refusal(&host)?;
    ensure!(error.contains("no network interface here"), "{error}");
    ensure!(
        cure.contains("igb") && cure.contains("namespace") && cure.contains("mtu 9000"),
        "{cure}"
    );
    println!("elsewhere: {error}; {cure}");
    Ok(())
}

/// The command, sending jumbo frames over VFs with the PF's MTU raised.
fn rgen(host: &Host, duration: &str) -> Fallible<Child> {
    let mut command = Command::new("./rgen");
    command.args(["run", "bench", "-t", "size=9000", "-m", "1kpps", "--json"]);
    for port in &host.ports {
        command.args(["-p", &format!("{port},mtu=9000,pf_mtu=raise")]);
    }
    command.args(["-d", duration]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// The same, until it has raised the MTU.
fn rgen_at_work(host: &Host) -> Fallible<Child> {
    let mut child = rgen(host, "forever")?;
    let raised = wait("the PF's MTU to be raised", || {
        thread::yield_now();
        if let Some(status) = child.try_wait()? {
            return Err(format!("rgen ended by itself: {status}").into());
        }
        Ok(host.mtu()? == 9000)
    });
    if raised.is_err() {
        let _ = child.kill();
        let output = child.wait_with_output()?;
        println!("{}", String::from_utf8_lossy(&output.stderr));
        raised?;
        return Err("unreachable: it was raised".into());
    }
    Ok(child)
}

/// However rgen ends, the PF's MTU is what it was: at once where it ends by itself or by a signal
/// that it hears, and after the next run where it is killed.
fn exits(pf: &str) -> Fallible {
    let host = Host::at(pf)?;
    let before = host.mtu()?;
    ensure!(before == 1500, "the PF's MTU is {before} to begin with");
    let told = ends_well(rgen(&host, "2s")?)?;
    ensure!(
        told.contains("it was 1500, and will be 1500 again") && !told.contains("killed"),
        "the run told {told}"
    );
    ensure!(host.mtu()? == 1500, "not restored after a run's end");

    let child = rgen_at_work(&host)?;
    interrupt(&child)?;
    let done = child.wait_with_output()?;
    ensure!(
        done.status.code() == Some(130),
        "interrupted: {}\n{}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    ensure!(host.mtu()? == 1500, "not restored after Ctrl-C");

    let mut child = rgen_at_work(&host)?;
    child.kill()?;
    child.wait()?;
    ensure!(host.mtu()? == 9000, "who lowered it?");
    // The note was written before the MTU was: so whoever comes next knows what it was.
    let told = ends_well(rgen(&host, "2s")?)?;
    ensure!(
        told.contains("raised from 1500 by a run that was killed, and will be 1500 again"),
        "the run after a kill told {told}"
    );
    ensure!(host.mtu()? == 1500, "not restored by the run after a kill");
    let notes: Vec<_> = fs::read_dir("/run/rgen")?.collect::<Result<_, _>>()?;
    ensure!(
        notes.iter().all(|note| note.file_name() == "desk"),
        "notes are left: {notes:?}"
    );
    println!("exits: restored after an end, Ctrl-C, and a kill");
    Ok(())
}

/// The run sent and received; the events that it told.
fn ends_well(run: Child) -> Fallible<String> {
    let done = run.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let more = String::from_utf8_lossy(&done.stderr).into_owned();
    // 6: an emulated core may be too slow, and that is no fault here.
    ensure!(
        matches!(done.status.code(), Some(0 | 6)),
        "{}: {said}\n{more}",
        done.status
    );
    let document: serde_json::Value = serde_json::from_str(&said)?;
    let events = document["events"].as_array().ok_or("no events")?;
    let told: Vec<&str> = events
        .iter()
        .filter_map(|event| event["what"].as_str())
        .collect();
    println!("exits: told {told:?}");
    Ok(told.join("; "))
}

fn interrupt(child: &Child) -> Fallible {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id())?);
    Ok(nix::sys::signal::kill(pid, nix::sys::signal::SIGINT)?)
}

/// Both ends with traffic in both directions, and what they say.
struct Watched {
    line: Line,
    said: [Vec<String>; 2],
}

impl Watched {
    /// One round: frames both ways where they can go, and both control threads' turn.
    fn turn(&mut self) -> Result<(), Failure> {
        let macs = self.line.macs();
        for from in [0, 1] {
            let end = &mut self.line.ends[from];
            let mut frames: std::collections::VecDeque<_> = (0..4)
                .map(|n| frame(macs[1 - from], macs[from], 300, n))
                .collect();
            if end.in_flight() < 64 {
                end.post(0, &mut frames, 4);
            }
            end.reap();
            self.line.collect(1 - from, &mut Vec::new());
            self.said[from].extend(self.line.ends[from].service()?);
        }
        thread::yield_now();
        Ok(())
    }

    /// Goes on until both ends have said `what` once more than `before` says.
    fn until_said(&mut self, what: &str, times: usize) -> Fallible {
        let count = |said: &Vec<String>| said.iter().filter(|event| event.contains(what)).count();
        let started = Instant::now();
        while self.said.iter().any(|said| count(said) < times) {
            self.turn()?;
            ensure!(
                started.elapsed() < PATIENCE,
                "waited for {what:?} {times} times: {:?}",
                self.said
            );
        }
        Ok(())
    }

    /// What every end has after it came back: a link, and traffic without loss.
    fn works(&mut self) -> Fallible {
        let started = Instant::now();
        while self.links()?.contains(&LinkState::Down) {
            self.turn()?;
            ensure!(
                started.elapsed() < PATIENCE,
                "the link stays down: {:?}",
                self.said
            );
        }
        while self.line.ends.iter().any(|end| end.in_flight() > 0) {
            self.turn_idle()?;
            ensure!(started.elapsed() < PATIENCE, "frames never go");
        }
        for at in [0, 1] {
            self.line.settle(at)?;
        }
        Ok(traffic(&mut self.line, 1514)?)
    }

    /// A round without new frames.
    fn turn_idle(&mut self) -> Result<(), Failure> {
        for end in [0, 1] {
            self.line.ends[end].reap();
            self.line.collect(end, &mut Vec::new());
            self.said[end].extend(self.line.ends[end].service()?);
        }
        thread::yield_now();
        Ok(())
    }

    fn links(&mut self) -> Result<[LinkState; 2], PortError> {
        let [first, second] = &mut self.line.ends;
        Ok([first.port.link()?.state, second.port.link()?.state])
    }
}

/// The PF goes down and up under traffic, and is reset by a change of its MTU: both VFs say so,
/// have no link meanwhile, and work again.
fn resets(pf: &str) -> Fallible {
    const LOST: &str = "the physical function was reset";
    const BACK: &str = "the device is back";
    let host = Host::at(pf)?;
    let mut line = host.line("", &Config::default())?;
    traffic(&mut line, 1514)?;
    let mut watched = Watched {
        line,
        said: Default::default(),
    };
    watched.turn()?;
    host.set("down")?;
    watched.until_said(LOST, 1)?;
    ensure!(
        watched.links()? == [LinkState::Down; 2],
        "a VF has a link without its PF"
    );
    host.set("up")?;
    watched.until_said(BACK, 1)?;
    watched.works()?;
    for (round, mtu) in [(2, 3000), (3, 1500)] {
        watched.turn()?;
        host.set(&format!("mtu {mtu}"))?;
        watched.until_said(LOST, round)?;
        watched.until_said(BACK, round)?;
        watched.works()?;
    }
    for end in &mut watched.line.ends {
        let extended = end.port.extended()?;
        let recoveries = extended.iter().find(|counter| counter.name == "recoveries");
        ensure!(
            recoveries.is_some_and(|counter| counter.value >= 3),
            "{extended:?}"
        );
    }
    println!("resets: {:?}", watched.said);
    watched.line.stop()?;
    Ok(())
}

/// An address that the host gave is the VF's, and no other is taken, unless the host trusts it.
fn address(pf: &str) -> Fallible {
    const GIVEN: Mac = [2, 0, 0, 0, 0, 0x77];
    const WISH: Mac = [2, 0, 0, 0, 0, 0x78];
    let host = Host::at(pf)?;
    host.set("vf 0 mac 02:00:00:00:00:77")?;
    let mut line = host.line("", &Config::default())?;
    ensure!(line.macs()[0] == GIVEN, "its address is {:?}", line.macs());
    traffic(&mut line, 1514)?;
    let refused = line.ends[0].port.set_mac(WISH);
    match &refused {
        Err(error @ PortError::Refused { .. }) => {
            let cure = error.remedy().unwrap_or_default();
            ensure!(
                error.to_string().contains("02:00:00:00:00:78") && cure.contains("trust on"),
                "{error}; {cure}"
            );
        }
        other => return Err(format!("another address: {other:?}").into()),
    }
    ensure!(line.macs()[0] == GIVEN, "the refused address stayed");
    traffic(&mut line, 1514)?;
    host.set("vf 0 trust on")?;
    line.ends[0].port.set_mac(WISH)?;
    ensure!(line.macs()[0] == WISH, "its address is {:?}", line.macs());
    traffic(&mut line, 1514)?;
    line.stop()?;
    println!("address: {:?}", refused.map_err(|error| error.to_string()));
    Ok(())
}

/// With the spoof check off, a frame from an address that is not the VF's passes; its own do
/// either way. With the check on hardware sends no such frame (82576 §7.10.3); QEMU's igb,
/// which has of `DTXSWC` only the loopback's bit, sends it.
fn spoofing(pf: &str) -> Fallible {
    const FOREIGN: Mac = [2, 0, 0, 0, 0, 0x99];
    let host = Host::at(pf)?;
    let mut line = host.line("", &Config::default())?;
    let macs = line.macs();
    let mut found = Vec::new();
    for check in ["on", "off"] {
        host.set(&format!("vf 0 spoofchk {check}"))?;
        let own = passes(&mut line, macs[1], macs[0])?;
        ensure!(own, "with the check {check}, its own frames do not pass");
        found.push(passes(&mut line, macs[1], FOREIGN)?);
    }
    println!(
        "spoofing: foreign frames pass with the check on: {}, off: {}",
        found[0], found[1]
    );
    ensure!(found[1], "not checked, and still held back");
    line.stop()?;
    Ok(())
}

/// VLANs that the host puts VFs into: frames pass within one, as they are, and not between two;
/// the VF may choose none itself.
fn vlans(pf: &str) -> Fallible {
    let host = Host::at(pf)?;
    let mut line = host.line("", &Config::default())?;
    let macs = line.macs();
    host.set("vf 0 vlan 100")?;
    host.set("vf 1 vlan 100")?;
    traffic(&mut line, 1514)?;
    match line.ends[0].port.set_vlan_filter(5, true) {
        Err(error @ PortError::Refused { .. }) => {
            let cure = error.remedy().unwrap_or_default();
            ensure!(
                error.to_string().contains("VLAN 5") && cure.contains("vlan 0"),
                "{error}; {cure}"
            );
            println!("vlans: {error}; {cure}");
        }
        other => return Err(format!("a VLAN of its own: {other:?}").into()),
    }
    host.set("vf 1 vlan 200")?;
    let frames = [frame(macs[1], macs[0], 100, 1)];
    line.transfer(0, &frames, 0)?;
    // Back in one VLAN, what was sent between two must not come first.
    let lost = line.settle(1)?;
    ensure!(lost == 0, "{lost} frames went from VLAN 100 to VLAN 200");
    for vf in [0, 1] {
        host.set(&format!("vf {vf} vlan 0"))?;
    }
    traffic(&mut line, 1514)?;
    line.ends[0].port.set_vlan_filter(5, true)?;
    line.stop()?;

    // igb offers no such thing; where that changes, this says so.
    let (done, said) = host.try_set("vf 0 state disable")?;
    ensure!(
        !done && said.contains("not supported"),
        "igb sets the link of a VF now: {said}"
    );
    ensure!(Path::new("./ip").exists(), "iproute2 is missing");
    println!("vlans: one, two, and none");
    Ok(())
}
