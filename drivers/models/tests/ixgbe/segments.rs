//! Segmentation.

use models::ixgbe::Kind;

use crate::guest::{CC, EOP, IFCS, RS, VLE, Wish, assert_clean, rig, tagged};
use crate::offloads::{context, packet, prepare};

const TSE: u64 = 1 << 31;
const MSS: usize = 100;

/// The frames that a packet must become: each is built anew, and then told where it is in the
/// whole.
fn expected(v6: bool, tcp: bool, payload: &[u8]) -> Vec<Vec<u8>> {
    let count = payload.chunks(MSS).count();
    let parts = payload.chunks(MSS).enumerate();
    parts
        .map(|(n, part)| {
            let mut frame = packet(v6, tcp, part);
            let at = if v6 { 54 } else { 34 };
            if !v6 {
                adjust(&mut frame, 18, 24, u16::try_from(n).unwrap());
            }
            if tcp {
                adjust(&mut frame, at + 6, at + 16, u16::try_from(n * MSS).unwrap());
                if n + 1 < count {
                    // PSH only at the end: the flags share a word with the header's length.
                    let word = at + 12;
                    let old = u16::from_be_bytes([frame[word], frame[word + 1]]);
                    let change = (old & !8).wrapping_sub(old);
                    adjust(&mut frame, word, at + 16, change);
                }
            }
            frame
        })
        .collect()
}

/// Adds `more` to the word at `at`, and corrects the checksum at `check` (RFC 1624).
fn adjust(frame: &mut [u8], at: usize, check: usize, more: u16) {
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let (old, sum) = (word(frame, at), word(frame, check));
    let new = old.wrapping_add(more);
    let mut total = u32::from(!sum) + u32::from(!old) + u32::from(new);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
    let total = !u16::try_from(total).unwrap();
    frame[check..check + 2].copy_from_slice(&total.to_be_bytes());
}

#[test]
fn a_long_packet_becomes_frames_that_are_right_in_every_field() {
    let wish = Wish {
        slots: 32,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(Kind::I82599, &wish);
    let mut frames = 0;
    for lap in 0..12u8 {
        for (v6, tcp) in [(false, true), (true, true), (false, false), (true, false)] {
            let payload: Vec<u8> = (0..250 + usize::from(lap) * 17)
                .map(|n| u8::try_from(n % 251).unwrap() ^ lap)
                .collect();
            let mut whole = packet(v6, tcp, &payload);
            prepare(&mut whole, v6, tcp, false);
            let l4 = if tcp { 20 } else { 8 };
            let vlan = if lap % 2 == 1 { VLE } else { 0 };
            a.context(0, context(v6, tcp, 9, l4, MSS as u64));
            let popts = if v6 { 2 } else { 3 } << 40;
            let command = whole.len() as u64
                | EOP
                | IFCS
                | RS
                | 1 << 29
                | 3 << 20
                | TSE
                | CC
                | popts
                | vlan
                | (payload.len() as u64) << 46;
            assert!(a.post(0, &whole, command));
            a.ring_bell(0);
            sim.settle();
            let mut expected = expected(v6, tcp, &payload);
            if vlan != 0 {
                expected = expected.iter().map(|frame| tagged(frame, 9)).collect();
            }
            for frame in &mut expected {
                // The wire fills short ones up.
                frame.resize(frame.len().max(60), 0);
            }
            frames += expected.len() as u64;
            assert_eq!(b.receive(), expected, "lap {lap} v6 {v6} tcp {tcp}");
        }
    }
    assert_eq!(sim.counters(0).tx_frames, frames);
    assert_clean(&sim);
}
