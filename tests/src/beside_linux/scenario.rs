//! What both drivers are made to do, step by step; and our driver doing it, in this process.

use std::time::Instant;

use hw::{Bar as _, Function as _};
use models::{Mac, Sim};
use port::{Config, LinkState, Offloads};

use super::subject::Subject;
use super::watch::{Access, mark};
use crate::conformance::{End, Failure, PATIENCE};

/// The steps by name. `Linux` does the same by `modprobe` and `ip link`.
pub const STEPS: &[&str] = &[
    "load",
    "up",
    "promiscuous",
    "not promiscuous",
    "group",
    "vlan",
    "no vlan",
    "address",
    "jumbo",
    "down",
    "unload",
    "end",
];

/// The group that is joined.
pub const GROUP: Mac = [0x01, 0x00, 0x5e, 0x01, 0x02, 0x03];
/// The group of all hosts, which every interface of Linux's is in while it is up.
const HOSTS: Mac = [0x01, 0x00, 0x5e, 0, 0, 1];
/// The VLAN that is joined.
pub const VLAN: u16 = 5;
/// The address that the port is given.
pub const OTHER: Mac = [0x02, 0x72, 0x67, 0, 0, 0x99];
/// Slots of rings, as Linux has them when nobody asks.
const SLOTS: usize = 512;
/// Of a virtual function's send rings.
const VF_TX_SLOTS: usize = 1024;
/// Queues, as many as the guest has processors.
const QUEUES: usize = 2;

/// Our driver's way through the scenario: what was noted of its device, and what that objects to.
///
/// # Errors
/// It did not come to the end.
pub fn ours(subject: &Subject) -> Result<(Vec<Access>, Vec<String>), Failure> {
    let (sim, log) = subject.wired();
    play(subject, &sim)?;
    Ok((log.take(), sim.objections()))
}

fn play(subject: &Subject, sim: &Sim) -> Result<(), Failure> {
    let function = sim.function(0);
    let begin = |step: &str| {
        let number = STEPS.iter().position(|name| *name == step);
        let _ = function.config8(mark(number.expect("it is in the list")));
    };
    // Linux's guest takes seconds until its driver looks.
    wait_until(|| registers_say_up(subject, sim))?;
    begin("load");
    let open = ixgbe::open_pci(sim.function(0), &ixgbe::Options::default());
    let mut port = open.map_err(|error| Failure::Found(error.to_string()))?;
    begin("up");
    port.set_mac_filter(&[HOSTS])?;
    port.set_mtu(1500)?;
    let config = config(subject, port.as_ref());
    let mut end = End::alone(port, &config)?;
    wait_for_link(&mut end)?;
    begin("promiscuous");
    if end.port.caps().offloads.contains(Offloads::PROMISCUOUS) {
        end.port.set_promiscuous(true)?;
    }
    begin("not promiscuous");
    if end.port.caps().offloads.contains(Offloads::PROMISCUOUS) {
        end.port.set_promiscuous(false)?;
    }
    begin("group");
    end.port.set_mac_filter(&[HOSTS, GROUP])?;
    begin("vlan");
    end.port.set_vlan_filter(VLAN, true)?;
    begin("no vlan");
    end.port.set_vlan_filter(VLAN, false)?;
    begin("address");
    end.port.set_mac(OTHER)?;
    begin("jumbo");
    let mut port = end.stop()?;
    port.set_mtu(9000)?;
    let mut end = End::alone(port, &config)?;
    wait_for_link(&mut end)?;
    begin("down");
    let port = end.stop()?;
    begin("unload");
    drop(port);
    begin("end");
    Ok(())
}

/// As Linux starts a port: with tags stripped and filtered, and frames spread.
fn config(subject: &Subject, port: &dyn port::Port) -> Config {
    let caps = port.caps();
    let queues = QUEUES.min(*caps.rx_queues.range.end());
    let wanted =
        Offloads::RX_VLAN | Offloads::VLAN_FILTER | Offloads::RX_CHECKSUM | Offloads::TX_VLAN;
    Config {
        rx_queues: queues,
        tx_queues: queues,
        rx_slots: Some(SLOTS),
        tx_slots: Some(if subject.is_vf { VF_TX_SLOTS } else { SLOTS }),
        offloads: wanted & caps.offloads,
        ..Config::default()
    }
}

fn wait_for_link(end: &mut End) -> Result<(), Failure> {
    wait_until(|| Ok(end.port.link()?.state == LinkState::Up))
}

/// Where the link is shown, and the bit (82599 §8.2.3.22.20, §8.3.5.1.4).
const LINKS: u32 = 0x42a4;
const VFLINKS: u32 = 0x10;
const UP: u32 = 1 << 30;

fn registers_say_up(subject: &Subject, sim: &Sim) -> Result<bool, Failure> {
    let bar = sim.function(0).bar(0);
    let bar = bar.map_err(|error| Failure::Found(error.to_string()))?;
    let links = if subject.is_vf { VFLINKS } else { LINKS };
    Ok(bar.load32(links) & UP != 0)
}

fn wait_until(mut done: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let started = Instant::now();
    while !done()? {
        if started.elapsed() > PATIENCE {
            return Err(Failure::Found("no link".into()));
        }
        std::thread::yield_now();
    }
    Ok(())
}
