//! Which frames a port accepts.

use port::{Config, Mac, Offloads, Port};

use super::line::{Failure, Line, frame, same};
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "a frame for another station is received when promiscuous, and only then",
        promiscuous,
    ),
    ("a broadcast is always received", broadcast),
    (
        "a multicast is received when its group is asked for, or all are, and only then",
        multicast,
    ),
    ("further unicast addresses are received", further_addresses),
    ("a port takes another address", another_address),
    (
        "a VLAN is received when asked for, and only then",
        vlan_filter,
    ),
    (
        "what a port does not offer, it refuses in words",
        refuses_in_words,
    ),
];

/// A station that is neither end.
const STRANGER: Mac = [0x02, 0x77, 0x77, 0x77, 0x77, 0x01];
const GROUP: Mac = [0x01, 0x00, 0x5e, 0x11, 0x22, 0x33];

fn offers(port: &dyn Port, what: Offloads) -> bool {
    port.caps().offloads.contains(what)
}

/// Ends promiscuous mode, where there is one.
fn filter(port: &mut dyn Port) -> Result<(), Failure> {
    if offers(port, Offloads::PROMISCUOUS) {
        port.set_promiscuous(false)?;
    }
    Ok(())
}

/// Sends `frames` and then a marker that every port accepts; true for each that arrived.
fn accepted(line: &mut Line, frames: &[Vec<u8>]) -> Result<Vec<bool>, Failure> {
    let macs = line.macs();
    let marker = frame(macs[1], macs[0], 99, 0xfeed);
    let all: Vec<_> = frames.iter().cloned().chain([marker.clone()]).collect();
    let mut received = line.transfer(0, &all, 1)?;
    while received.last().is_none_or(|last| last.bytes != marker) {
        received.extend(line.transfer(0, &[], 1)?);
    }
    Ok(frames
        .iter()
        .map(|sent| received.iter().any(|got| got.bytes == *sent))
        .collect())
}

fn accepts(line: &mut Line, to: Mac) -> Result<bool, Failure> {
    let from = line.macs()[0];
    Ok(accepted(line, &[frame(to, from, 70, 1)])?[0])
}

fn promiscuous(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    if !offers(ports[1].as_ref(), Offloads::PROMISCUOUS) {
        return Ok(Verdict::NotOffered("promiscuous mode"));
    }
    let mut line = Line::start(ports, &Config::default())?;
    for on in [false, true, false, true] {
        line.ends[1].port.set_promiscuous(on)?;
        let got = accepts(&mut line, STRANGER)?;
        require!(
            got == on,
            "promiscuous {on}, and a stranger's frame received: {got}"
        );
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn broadcast(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let mut line = Line::start(ports, &Config::default())?;
    require!(
        accepts(&mut line, [0xff; 6])?,
        "a broadcast was not received"
    );
    line.stop()?;
    Ok(Verdict::Passed)
}

fn multicast(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let wanted = Offloads::ALL_MULTICAST;
    let by_group = |port: &dyn Port| {
        offers(port, Offloads::MAC_FILTER) || offers(port, Offloads::GROUP_FILTER)
    };
    if !offers(ports[1].as_ref(), wanted) || !by_group(ports[1].as_ref()) {
        return Ok(Verdict::NotOffered("multicast filters"));
    }
    let mut line = Line::start(ports, &Config::default())?;
    filter(line.ends[1].port.as_mut())?;
    for on in [false, true, false] {
        line.ends[1].port.set_all_multicast(on)?;
        let got = accepts(&mut line, GROUP)?;
        require!(
            got == on,
            "all multicast {on}, and a group's frame received: {got}"
        );
    }
    line.ends[1].port.set_mac_filter(&[GROUP])?;
    require!(
        accepts(&mut line, GROUP)?,
        "a group in the filter is not received"
    );
    let mut other = GROUP;
    other[5] ^= 1;
    require!(
        !accepts(&mut line, other)?,
        "a group that is not in the filter is received"
    );
    line.ends[1].port.set_mac_filter(&[])?;
    require!(
        !accepts(&mut line, GROUP)?,
        "the filter is empty, the group still received"
    );
    line.stop()?;
    Ok(Verdict::Passed)
}

fn further_addresses(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    if !offers(ports[1].as_ref(), Offloads::MAC_FILTER) {
        return Ok(Verdict::NotOffered("a MAC filter"));
    }
    let mut line = Line::start(ports, &Config::default())?;
    filter(line.ends[1].port.as_mut())?;
    let mut second = STRANGER;
    second[5] = 2;
    let own = line.macs()[1];
    for (filter, expected) in [
        (vec![], [false, false]),
        (vec![STRANGER], [true, false]),
        (vec![STRANGER, second], [true, true]),
        (vec![second], [false, true]),
        (vec![], [false, false]),
    ] {
        line.ends[1].port.set_mac_filter(&filter)?;
        let got = [accepts(&mut line, STRANGER)?, accepts(&mut line, second)?];
        require!(
            got == expected,
            "filter {filter:02x?}: {got:?}, not {expected:?}"
        );
        require!(accepts(&mut line, own)?, "its own address no longer");
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn another_address(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    if !offers(ports[1].as_ref(), Offloads::SET_MAC) {
        return Ok(Verdict::NotOffered("another MAC address"));
    }
    let mut line = Line::start(ports, &Config::default())?;
    filter(line.ends[1].port.as_mut())?;
    let old = line.macs()[1];
    line.ends[1].port.set_mac(STRANGER)?;
    require!(
        line.ends[1].port.info().mac == STRANGER,
        "it says {:02x?}",
        line.ends[1].port.info().mac
    );
    require!(
        accepts(&mut line, STRANGER)?,
        "the new address is not received"
    );
    require!(!accepts(&mut line, old)?, "the old address still is");
    line.stop()?;
    Ok(Verdict::Passed)
}

fn vlan_filter(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    if !offers(ports[1].as_ref(), Offloads::VLAN_FILTER) {
        return Ok(Verdict::NotOffered("a VLAN filter"));
    }
    let config = Config {
        offloads: Offloads::VLAN_FILTER,
        ..Config::default()
    };
    let mut line = Line::start(ports, &config)?;
    filter(line.ends[1].port.as_mut())?;
    // A virtual function's host lets no frame out with a VLAN that is not its own.
    if offers(line.ends[0].port.as_ref(), Offloads::VLAN_FILTER) {
        for id in [1, 100, 4094] {
            line.ends[0].port.set_vlan_filter(id, true)?;
        }
    }
    let macs = line.macs();
    let tagged = |id: u16| {
        let mut bytes = frame(macs[1], macs[0], 80, u64::from(id));
        let tag = [&[0x81, 0x00], &id.to_be_bytes()[..]].concat();
        bytes.splice(12..12, tag);
        bytes
    };
    let frames = [tagged(1), tagged(100), tagged(4094)];
    for (id, on, expected) in [
        (100, true, [false, true, false]),
        (4094, true, [false, true, true]),
        (100, false, [false, false, true]),
        (4094, false, [false, false, false]),
    ] {
        line.ends[1].port.set_vlan_filter(id, on)?;
        let got = accepted(&mut line, &frames)?;
        require!(got == expected, "VLAN {id} {on}: {got:?}, not {expected:?}");
    }
    let plain = frame(macs[1], macs[0], 80, 5);
    let received = line.transfer(0, std::slice::from_ref(&plain), 1)?;
    same(&[plain], &received)?;
    line.stop()?;
    Ok(Verdict::Passed)
}

fn refuses_in_words(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let mut line = Line::start(ports, &Config::default())?;
    let port = &mut line.ends[1].port;
    let offered = port.caps().offloads;
    let rss = port::Rss {
        key: vec![0x6d; 40],
        table: vec![0; 128],
    };
    for (what, answer) in [
        (Offloads::ALL_MULTICAST, port.set_all_multicast(true)),
        (Offloads::MAC_FILTER, port.set_mac_filter(&[STRANGER])),
        (Offloads::VLAN_FILTER, port.set_vlan_filter(7, true)),
        (Offloads::SET_MAC, port.set_mac(STRANGER)),
        (Offloads::RSS, port.set_rss(&rss)),
    ] {
        if offered.contains(what) {
            continue;
        }
        match answer {
            Err(port::PortError::NotOffered { what, .. }) if !what.is_empty() => {}
            other => require!(
                false,
                "{what:?} is not offered, and asking for it gives {other:?}"
            ),
        }
    }
    line.stop()?;
    Ok(Verdict::Passed)
}
