//! Forwarding, byte for byte.

use super::super::fake::{Far, with_far_end};
use super::super::{ForwardMode, ForwardPlan, ForwardPort, forward};
use super::*;

/// Forwards between two ports until everything sent has come out again.
fn through(mode: ForwardMode, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Outcome) {
    let (a, near) = with_far_end();
    let (b, far) = with_far_end();
    let mut ports = vec![ForwardPort::new(a), ForwardPort::new(b)];
    ports[1].next_hop = [9; 6];
    ports[0].ipv4 = Some([10, 0, 0, 1]);
    let mut plan = ForwardPlan::new(ports, mode);
    plan.quiet_ns = MS / 10;
    let mut running = forward(plan, Manual::new(1000), Hooks::default()).unwrap();
    let (mut back, mut out) = (Vec::new(), Vec::new());
    let take = |from: &Far, to: &mut Vec<Vec<u8>>| to.extend(from.take());
    for (number, frame) in frames.iter().enumerate() {
        near.send(frame);
        let wanted = number as u64 + 1;
        while number % 64 == 63 && running.snapshot().figures.ports[0].rx_frames < wanted {}
        take(&near, &mut back);
        take(&far, &mut out);
    }
    while running.snapshot().figures.ports[0].rx_frames < frames.len() as u64 {}
    running.stop();
    let done = join(running);
    take(&near, &mut back);
    take(&far, &mut out);
    (back, out, done)
}

#[test]
fn io_forwards_every_frame_as_it_came_over_many_laps() {
    let frames: Vec<_> = (0..2000).map(|n| udp_bytes(60 + n % 900)).collect();
    let (back, out, done) = through(ForwardMode::Io, &frames);
    assert!(back.is_empty());
    assert_eq!(out, frames);
    let [a, b] = &done.figures.ports[..] else {
        unreachable!()
    };
    assert_eq!((a.rx_frames, b.tx_frames, b.tx_dropped), (2000, 2000, 0));
    let bytes: u64 = frames.iter().map(|frame| frame.len() as u64 + 4).sum();
    assert_eq!((a.rx_bytes, b.tx_bytes), (bytes, bytes));
}

#[test]
fn mac_modes_change_the_addresses_and_nothing_else() {
    let frame = udp_bytes(80);
    let (_, out, _) = through(ForwardMode::MacSwap, std::slice::from_ref(&frame));
    let mut wanted = frame.clone();
    wanted[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    assert_eq!(out, [wanted.clone()]);
    let (_, out, _) = through(ForwardMode::Mac, std::slice::from_ref(&frame));
    wanted[..12].copy_from_slice(&[9, 9, 9, 9, 9, 9, 2, 0, 0, 0, 0, 1]);
    assert_eq!(out, [wanted]);
}

#[test]
fn swap_exchanges_macs_addresses_and_ports() {
    let mut frame = udp_bytes(80);
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame[34..38].copy_from_slice(&[0, 1, 0, 2]);
    let mut wanted = frame.clone();
    wanted[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    wanted[26..34].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
    wanted[34..38].copy_from_slice(&[0, 2, 0, 1]);
    // The same behind a VLAN tag; a later fragment has no ports; a stub has nothing.
    let tag = |frame: &Vec<u8>| {
        let mut frame = frame.clone();
        frame.splice(12..12, [0x81, 0, 0, 7]);
        frame
    };
    let fragment = |frame: &Vec<u8>, ports: [u8; 4]| {
        let mut frame = frame.clone();
        frame[21] = 9;
        frame[34..38].copy_from_slice(&ports);
        frame
    };
    let mut ipv6 = vec![0; 80];
    ipv6[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
    (ipv6[20], ipv6[22], ipv6[38], ipv6[55], ipv6[57]) = (6, 0xa, 0xb, 1, 2);
    let mut ipv6_swapped = ipv6.clone();
    ipv6_swapped[..12].copy_from_slice(&wanted[..12]);
    (ipv6_swapped[22], ipv6_swapped[38]) = (0xb, 0xa);
    (ipv6_swapped[55], ipv6_swapped[57]) = (2, 1);
    let stub = frame[..16].to_vec();
    let sent = [
        frame.clone(),
        tag(&frame),
        fragment(&frame, [0, 1, 0, 2]),
        ipv6,
        stub.clone(),
    ];
    let (_, out, _) = through(ForwardMode::Swap, &sent);
    let mut stub = stub;
    stub[..12].copy_from_slice(&wanted[..12]);
    let fragment = fragment(&wanted, [0, 1, 0, 2]);
    assert_eq!(
        out,
        [wanted.clone(), tag(&wanted), fragment, ipv6_swapped, stub]
    );
}

#[test]
fn rxonly_counts_and_sends_nothing() {
    let frames: Vec<_> = (0..700).map(|_| udp_bytes(60)).collect();
    let (back, out, done) = through(ForwardMode::RxOnly, &frames);
    assert!(back.is_empty() && out.is_empty());
    assert_eq!(done.figures.ports[0].rx_frames, 700);
}

fn arp(target: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 8, 8, 8, 8, 8, 8, 8, 6]);
    frame[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
    frame[22..32].copy_from_slice(&[8, 8, 8, 8, 8, 8, 10, 0, 0, 9]);
    frame[38..42].copy_from_slice(&target);
    frame
}

#[test]
fn arp_and_echo_requests_are_answered_where_they_came_in() {
    let mut echo = udp_bytes(60);
    echo[23] = 1;
    echo[26..34].copy_from_slice(&[10, 0, 0, 9, 10, 0, 0, 1]);
    echo[34..42].copy_from_slice(&[8, 0, 0xf7, 0xfe, 0, 1, 0, 0]);
    let mut other = echo.clone();
    other[33] = 77;
    let mut reply = echo.clone();
    reply[34] = 0;
    let frames = [
        arp([10, 0, 0, 1]),
        arp([10, 0, 0, 2]),
        echo.clone(),
        other,
        reply,
    ];
    let (back, out, done) = through(ForwardMode::IcmpEcho, &frames);
    assert!(out.is_empty());
    assert_eq!(done.figures.ports[0].rx_frames, 5);
    let mut arp_reply = vec![0; 60];
    arp_reply[..14].copy_from_slice(&[8, 8, 8, 8, 8, 8, 2, 0, 0, 0, 0, 1, 8, 6]);
    arp_reply[14..22].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
    arp_reply[22..32].copy_from_slice(&[2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    arp_reply[32..42].copy_from_slice(&[8, 8, 8, 8, 8, 8, 10, 0, 0, 9]);
    let mut echo_reply = echo;
    echo_reply[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1]);
    echo_reply[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 9]);
    echo_reply[34] = 0;
    // 0xf7fe + 0x0800 is 0xfffe: no carry.
    echo_reply[36..38].copy_from_slice(&[0xff, 0xfe]);
    assert_eq!(back, [arp_reply, echo_reply]);
}
