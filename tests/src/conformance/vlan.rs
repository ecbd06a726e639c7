//! VLAN tags that the device puts in and takes off.

use hugemem::{Burst, TxFlags};
use port::{Config, Offloads, Port, PortError, RxFlags};

use super::line::{End, Failure, Line, Received, frame};
use super::{Named, Verdict};
use crate::require;

pub(super) const CHECKS: &[Named] = &[
    (
        "a VLAN tag that is asked for is in the frame, and no other frame has one",
        puts_tags_in,
    ),
    (
        "a VLAN tag is taken off and told, and what has none stays as it is",
        takes_tags_off,
    ),
    (
        "a VLAN tag that is put in and taken off leaves the frame as it was",
        both_ways,
    ),
];

/// Tags to try: priority, DEI and VLAN of all sorts.
const TAGS: [u16; 6] = [1, 100, 4094, 0x7005, 0xe00a, 0xfffe];
/// Frames of each check: enough for laps.
const ROUNDS: usize = 400;

/// Posts one frame, with a tag to be put in; false if there is no room.
fn post(end: &mut End, bytes: &[u8], tag: Option<u16>) -> bool {
    let mut burst = Burst::new();
    end.reap();
    end.to_send.take_burst(&mut burst, 1);
    for frame in burst.iter_mut() {
        frame.fill(bytes);
        frame.flags = if tag.is_some() {
            TxFlags::VLAN
        } else {
            TxFlags::empty()
        };
        frame.vlan = tag.unwrap_or(0);
    }
    end.queues.tx[0].burst(&mut burst) == 1
}

/// Sends one frame and returns it as it arrives.
fn one(line: &mut Line, bytes: &[u8], tag: Option<u16>) -> Result<Received, Failure> {
    require!(
        post(&mut line.ends[0], bytes, tag),
        "no room in an empty ring"
    );
    let mut received = line.transfer(0, &[], 1)?;
    received
        .pop()
        .ok_or_else(|| Failure::Found("nothing came".into()))
}

fn tagged(bytes: &[u8], tag: u16) -> Vec<u8> {
    [
        &bytes[..12],
        &[0x81, 0x00],
        &tag.to_be_bytes(),
        &bytes[12..],
    ]
    .concat()
}

/// A line whose ends do this to tags; none if one of them does not offer it.
fn line(ports: [Box<dyn Port>; 2], offloads: Offloads) -> Result<Option<Line>, Failure> {
    let offered = |port: &dyn Port| port.caps().offloads.contains(offloads);
    if !ports.iter().all(|port| offered(port.as_ref())) {
        return Ok(None);
    }
    let config = Config {
        offloads,
        ..Config::default()
    };
    let mut line = Line::start(ports, &config)?;
    for end in &mut line.ends {
        for tag in TAGS {
            // A virtual function's host filters by VLAN always. Where a port does so only when
            // it was started for that, it says so, and lets every VLAN pass.
            match end.port.set_vlan_filter(tag & 0xfff, true) {
                Ok(()) | Err(PortError::Refused { .. } | PortError::NotOffered { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(Some(line))
}

fn puts_tags_in(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let Some(mut line) = line(ports, Offloads::TX_VLAN)? else {
        return Ok(Verdict::NotOffered("putting VLAN tags in"));
    };
    let macs = line.macs();
    for n in 0..ROUNDS {
        let bytes = frame(macs[1], macs[0], 60 + n * 3, n as u64);
        let tag = (n % 3 > 0).then_some(TAGS[n % TAGS.len()]);
        let expected = tag.map_or(bytes.clone(), |tag| tagged(&bytes, tag));
        let got = one(&mut line, &bytes, tag)?;
        require!(
            got.bytes == expected && !got.meta.flags.contains(RxFlags::VLAN),
            "tag {tag:04x?}: {:02x?} at 12, {:?}",
            &got.bytes[12..18],
            got.meta
        );
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn takes_tags_off(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let Some(mut line) = line(ports, Offloads::RX_VLAN)? else {
        return Ok(Verdict::NotOffered("taking VLAN tags off"));
    };
    let macs = line.macs();
    for n in 0..ROUNDS {
        let bytes = frame(macs[1], macs[0], 60 + n * 3, n as u64);
        let tag = (n % 3 > 0).then_some(TAGS[n % TAGS.len()]);
        let sent = tag.map_or(bytes.clone(), |tag| tagged(&bytes, tag));
        let got = one(&mut line, &sent, None)?;
        told(&got, &bytes, tag)?;
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

fn both_ways(ports: [Box<dyn Port>; 2]) -> Result<Verdict, Failure> {
    let Some(mut line) = line(ports, Offloads::TX_VLAN | Offloads::RX_VLAN)? else {
        return Ok(Verdict::NotOffered(
            "putting VLAN tags in and taking them off",
        ));
    };
    let macs = line.macs();
    for n in 0..ROUNDS {
        let bytes = frame(macs[1], macs[0], 60 + n * 3, n as u64);
        let tag = (n % 3 > 0).then_some(TAGS[n % TAGS.len()]);
        let got = one(&mut line, &bytes, tag)?;
        told(&got, &bytes, tag)?;
    }
    line.stop()?;
    Ok(Verdict::Passed)
}

/// The frame is as it was without its tag, and the tag is told beside it.
fn told(got: &Received, bytes: &[u8], tag: Option<u16>) -> Result<(), Failure> {
    let has = got.meta.flags.contains(RxFlags::VLAN);
    let is_told = has == tag.is_some() && tag.is_none_or(|tag| tag == got.meta.vlan);
    require!(
        got.bytes == bytes && is_told,
        "tag {tag:04x?} of a frame of {} bytes: {} bytes came, {:?}",
        bytes.len(),
        got.bytes.len(),
        got.meta
    );
    Ok(())
}
