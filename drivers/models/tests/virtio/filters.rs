//! What the control queue switches: filters, address, pairs of queues.

use hw::Bar;
use models::virtio::VirtioOptions;
use models::{Sim, WireOptions};

use crate::driver::{
    BASE, CTRL, CTRL_MAC, CTRL_RX, CTRL_RX_EXTRA, CTRL_VLAN, Driver, MQ, MRG, Wish, frame, rig,
};

const OWN: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const OTHER: [u8; 6] = [2, 7, 7, 7, 7, 7];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 9];
const EVERYONE: [u8; 6] = [0xff; 6];

fn open() -> (Sim, Driver, Driver) {
    let wish = Wish {
        features: BASE | MRG | CTRL | CTRL_RX | CTRL_RX_EXTRA | CTRL_VLAN | CTRL_MAC,
        ..Wish::default()
    };
    rig(&VirtioOptions::default(), &wish, WireOptions::default())
}

fn to(mac: [u8; 6]) -> Vec<u8> {
    let mut frame = frame(1, 80);
    frame[..6].copy_from_slice(&mac);
    frame
}

fn tagged(vlan: u16) -> Vec<u8> {
    let mut frame = to(OWN);
    frame[12..14].copy_from_slice(&[0x81, 0]);
    frame[14..16].copy_from_slice(&vlan.to_be_bytes());
    frame
}

/// Which of `frames` arrive at `b`.
fn arriving(sim: &Sim, a: &mut Driver, b: &mut Driver, frames: &[Vec<u8>]) -> Vec<bool> {
    let arrives = |frame: &Vec<u8>| {
        assert!(a.send(frame));
        sim.settle();
        let got = b.receive();
        assert!(got.iter().all(|arrived| arrived == frame));
        got.len() == 1
    };
    frames.iter().map(arrives).collect()
}

#[test]
fn receive_modes_and_tables_decide_what_arrives() {
    let (sim, mut a, mut b) = open();
    let frames = [to(OWN), to(OTHER), to(GROUP), to(EVERYONE)];
    let settle = || sim.settle();
    let table = [&[1, 0, 0, 0][..], &OTHER, &[1, 0, 0, 0], &GROUP].concat();
    let empty = vec![0; 8];
    let script: [(u8, u8, &[u8], [bool; 4]); 10] = [
        (0, 0, &[1], [true, true, true, true]),
        (0, 0, &[0], [true, false, false, true]),
        (0, 1, &[1], [true, false, true, true]),
        (0, 1, &[0], [true, false, false, true]),
        (0, 2, &[1], [true, true, false, true]),
        (0, 2, &[0], [true, false, false, true]),
        (1, 0, &table, [true, true, true, true]),
        (0, 3, &[1], [true, true, false, true]),
        (0, 5, &[1], [true, true, false, false]),
        (1, 0, &empty, [true, false, false, false]),
    ];
    let mut filtered = 0;
    for (class, number, data, expected) in script {
        assert_eq!(b.command(class, number, data, &settle), Some(0));
        let got = arriving(&sim, &mut a, &mut b, &frames);
        assert_eq!(got, expected, "after {class}.{number}");
        filtered += expected.iter().filter(|passes| !**passes).count() as u64;
    }
    assert_eq!(sim.counters(1).rx_filtered, filtered);
    assert_eq!((sim.unaccounted(0), sim.objections().len()), (0, 0));
}

#[test]
fn kinds_of_addressee_are_counted() {
    let (sim, mut a, mut b) = open();
    for mac in [OWN, OTHER, GROUP, EVERYONE, EVERYONE] {
        assert!(a.send(&to(mac)));
    }
    sim.settle();
    assert_eq!(b.receive().len(), 5);
    let counts = sim.counters(1);
    assert_eq!(
        (counts.rx_unicast, counts.rx_multicast, counts.rx_broadcast),
        (2, 1, 2)
    );
}

#[test]
fn vlans_pass_once_added() {
    let (sim, mut a, mut b) = open();
    let settle = || sim.settle();
    assert_eq!(b.command(0, 0, &[0], &settle), Some(0));
    let frames = [tagged(5), tagged(0x6005), tagged(6), to(OWN)];
    let none = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(none, [false, false, false, true]);
    assert_eq!(b.command(2, 0, &[5, 0], &settle), Some(0));
    let five = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(five, [true, true, false, true]);
    assert_eq!(b.command(2, 1, &[5, 0], &settle), Some(0));
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), none);
}

#[test]
fn another_address_is_taken_shown_and_forgotten_by_a_reset() {
    let (sim, mut a, mut b) = open();
    let settle = || sim.settle();
    assert_eq!(b.command(0, 0, &[0], &settle), Some(0));
    assert_eq!(b.command(1, 1, &OTHER, &settle), Some(0));
    let shown = |b: &Driver| (0..6).map(|n| b.bar.load8(0x2000 + n)).collect::<Vec<_>>();
    assert_eq!(shown(&b), OTHER);
    let frames = [to(OTHER), to(OWN)];
    assert_eq!(arriving(&sim, &mut a, &mut b, &frames), [true, false]);
    assert_eq!(b.command(0, 3, &[1], &settle), Some(0));
    b.reset();
    assert_eq!(shown(&b), OWN);
    let mut b = Driver::open(sim.function(1), b.wish.clone());
    b.arm();
    let frames = [to(OTHER), to(GROUP), tagged(9)];
    let passes = arriving(&sim, &mut a, &mut b, &frames);
    assert_eq!(passes, [true; 3], "promiscuous, as after power-up");
    assert_eq!(b.command(0, 0, &[0], &settle), Some(0));
    assert_eq!(b.command(0, 1, &[1], &settle), Some(0));
    assert_eq!(
        arriving(&sim, &mut a, &mut b, &frames),
        [false, true, false]
    );
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn one_pair_receives_until_more_are_switched_on_then_flows_spread_and_stay() {
    let wish = Wish {
        features: BASE | MRG | CTRL | MQ,
        pairs: 4,
        size: 64,
        ..Wish::default()
    };
    let options = VirtioOptions {
        pairs: 4,
        ..VirtioOptions::default()
    };
    let (sim, mut a, mut b) = rig(&options, &wish, WireOptions::default());
    let flow = |port: u16| {
        let mut frame = frame(1, 80);
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..34].copy_from_slice(&[
            0x45, 0, 0, 66, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame
    };
    let spread = |a: &mut Driver, b: &mut Driver| -> Vec<usize> {
        for port in 0..40 {
            assert!(a.send(&flow(port)));
        }
        sim.settle();
        (0..4).map(|pair| b.receive_on(pair).len()).collect()
    };
    assert_eq!(spread(&mut a, &mut b), [40, 0, 0, 0]);
    assert_eq!(b.command(4, 0, &[4, 0], &|| sim.settle()), Some(0));
    let first = spread(&mut a, &mut b);
    assert!(first.iter().all(|&count| count > 2), "{first:?}");
    assert_eq!(spread(&mut a, &mut b), first, "a flow stays where it is");
    assert_eq!(a.command(4, 0, &[4, 0], &|| sim.settle()), Some(0));
    for pair in 0..4 {
        for _ in 0..200 {
            assert!(a.send_on(pair, &[0; 12], &flow(7)));
            sim.settle();
            (0..4).for_each(|pair| drop(b.receive_on(pair)));
        }
    }
    assert_eq!((sim.unaccounted(0), sim.counters(1).rx_no_buffer), (0, 0));
    assert_eq!(sim.objections(), [""; 0]);
}
