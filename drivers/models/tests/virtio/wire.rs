//! The wire's faults: the same frames at every run, and none unaccounted for.

use std::time::Duration;

use crate::driver::{Wish, frame, rig};
use hw::Bar;
use models::virtio::VirtioOptions;
use models::{Flap, WireCounts, WireOptions};

const FRAMES: u64 = 4000;

fn wish() -> Wish {
    Wish {
        size: 64,
        buffer: 256,
        ..Wish::default()
    }
}

/// Sends `FRAMES` frames each way in bursts of `burst`; what came in at each end, by number, and
/// what the wire counted.
fn run(wire: &WireOptions, burst: usize) -> [(Vec<u64>, WireCounts); 2] {
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish(), wire.clone());
    let mut got = [Vec::new(), Vec::new()];
    let mut next = 0;
    while next < FRAMES {
        for _ in 0..burst {
            if next < FRAMES {
                assert!(a.send(&numbered(next)) && b.send(&numbered(next)));
                next += 1;
            }
        }
        while sim.step() {}
        got[0].extend(b.receive().iter().map(|frame| number(frame)));
        got[1].extend(a.receive().iter().map(|frame| number(frame)));
    }
    sim.settle();
    got[0].extend(b.receive().iter().map(|frame| number(frame)));
    got[1].extend(a.receive().iter().map(|frame| number(frame)));
    assert_eq!(sim.objections(), [""; 0]);
    let [forth, back] = got;
    for end in 0..2 {
        assert_eq!(sim.unaccounted(end), 0);
        assert_eq!(sim.counters(end).tx_frames, FRAMES);
        assert_eq!(sim.wire(end).held(), 0);
    }
    assert_eq!(sim.counters(1).rx_frames, forth.len() as u64);
    assert_eq!(sim.counters(0).rx_frames, back.len() as u64);
    [(forth, sim.wire(0)), (back, sim.wire(1))]
}

fn numbered(number: u64) -> Vec<u8> {
    let mut frame = frame(number, 64);
    frame[14..22].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[14..22].try_into().unwrap())
}

#[test]
fn a_wire_without_faults_delivers_all_in_order() {
    for (numbers, counts) in run(&WireOptions::default(), 30) {
        assert_eq!(numbers, (0..FRAMES).collect::<Vec<_>>());
        assert_eq!((counts.taken, counts.handed), (FRAMES, FRAMES));
    }
}

#[test]
fn lost_frames_are_the_same_at_every_run_and_every_burst_size() {
    let wire = WireOptions {
        loss: 0.05,
        seed: 42,
        ..WireOptions::default()
    };
    let [(forth, counts), (back, _)] = run(&wire, 30);
    assert_eq!(counts.lost, FRAMES - forth.len() as u64);
    assert!((100..300).contains(&counts.lost), "{}", counts.lost);
    assert_ne!(forth, back, "each direction has its own fate");
    assert_eq!(run(&wire, 7)[0].0, forth);
    let other = WireOptions { seed: 43, ..wire };
    assert_ne!(run(&other, 30)[0].0, forth);
}

#[test]
fn duplicates_come_twice_and_are_counted() {
    let wire = WireOptions {
        duplicate: 0.1,
        ..WireOptions::default()
    };
    let [(forth, counts), _] = run(&wire, 11);
    assert_eq!(forth.len() as u64, FRAMES + counts.duplicated);
    let twice = forth.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(twice as u64, counts.duplicated);
    assert!(counts.duplicated > 200);
}

#[test]
fn reordered_frames_come_behind_the_next_ones() {
    let wire = WireOptions {
        reorder: 0.02,
        reorder_depth: 3,
        ..WireOptions::default()
    };
    let [(forth, counts), _] = run(&wire, 13);
    let mut all = forth.clone();
    all.sort_unstable();
    assert_eq!(all, (0..FRAMES).collect::<Vec<_>>(), "none is lost");
    assert!(counts.reordered > 40);
    assert_eq!(run(&wire, 30)[0].0, forth, "whatever the bursts");
    let late = forth
        .iter()
        .enumerate()
        .filter(|&(at, &number)| forth[..at].iter().any(|&before| before > number))
        .count();
    // Those that were reordered right at the end had nobody to pass them.
    assert!(
        late as u64 + 3 >= counts.reordered,
        "{late} {}",
        counts.reordered
    );
}

#[test]
fn corrupted_frames_arrive_and_bad_ones_are_dropped_by_the_receiver() {
    let wire = WireOptions {
        corrupt: 0.03,
        bad_fcs: 0.02,
        ..WireOptions::default()
    };
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish(), wire);
    let mut damaged = 0;
    for n in 0..FRAMES {
        assert!(a.send(&numbered(n)));
        sim.settle();
        let got = b.receive();
        damaged += got.iter().filter(|frame| **frame != numbered(n)).count();
    }
    let (counts, receiver) = (sim.wire(0), sim.counters(1));
    assert_eq!(damaged as u64, counts.corrupted);
    assert_eq!(receiver.rx_bad_fcs, counts.bad_fcs);
    assert!(counts.corrupted > 60 && counts.bad_fcs > 40);
    assert_eq!(sim.unaccounted(0), 0);
}

#[test]
fn delayed_frames_come_when_their_time_has_come() {
    let wire = WireOptions {
        delay: Duration::from_micros(500),
        ..WireOptions::default()
    };
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish(), wire);
    assert!(a.send(&numbered(1)));
    sim.step();
    assert_eq!(sim.wire(0).held(), 1);
    sim.advance(Duration::from_micros(490));
    assert_eq!(b.receive().len(), 0);
    sim.advance(Duration::from_micros(10));
    assert_eq!(b.receive(), [numbered(1)]);
    assert_eq!((sim.wire(0).delayed, sim.unaccounted(0)), (1, 0));
    a.reap();
    assert_eq!(a.completed, 1, "the sender's buffer came back long before");
}

#[test]
fn a_flap_loses_frames_by_their_number_and_shows_on_both_devices() {
    let flap = Flap {
        every: 100,
        frames: 10,
        hold: Duration::from_millis(1),
    };
    let wire = WireOptions {
        flap: Some(flap),
        ..WireOptions::default()
    };
    for (numbers, counts) in run(&wire, 17) {
        let expected: Vec<u64> = (0..FRAMES).filter(|n| n % 100 < 90).collect();
        assert_eq!(numbers, expected);
        assert_eq!(counts.link_down, FRAMES / 10);
    }
    let (sim, mut a, b) = rig(&VirtioOptions::default(), &wish(), wire);
    for n in 0..91 {
        assert!(a.send(&numbered(n)));
        sim.step();
    }
    sim.step();
    assert_eq!((a.bar.load16(0x2006), b.bar.load16(0x2006)), (0, 0));
    sim.advance(Duration::from_millis(2));
    sim.step();
    assert_eq!((a.bar.load16(0x2006), b.bar.load16(0x2006)), (1, 1));
}

#[test]
fn all_faults_together_still_account_for_every_frame() {
    let wire = WireOptions {
        seed: 9,
        loss: 0.1,
        corrupt: 0.0,
        bad_fcs: 0.1,
        duplicate: 0.1,
        reorder: 0.1,
        delayed: 0.3,
        delay: Duration::from_micros(20),
        flap: Some(Flap {
            every: 300,
            frames: 20,
            hold: Duration::from_micros(50),
        }),
        ..WireOptions::default()
    };
    let first = run(&wire, 19);
    assert_eq!(run(&wire, 19), first);
}

#[test]
fn a_pulled_wire_loses_everything_until_it_is_plugged_in_again() {
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish(), WireOptions::default());
    let generation = a.bar.load8(21);
    sim.set_link(false);
    sim.step();
    assert_eq!(a.bar.load16(0x2006), 0);
    assert_ne!(
        a.bar.load8(21),
        generation,
        "a driver can see that it changed"
    );
    assert!(a.send(&numbered(1)));
    sim.settle();
    assert_eq!(sim.wire(0).link_down, 1);
    sim.set_link(true);
    sim.step();
    assert!(a.send(&numbered(2)));
    sim.settle();
    assert_eq!(b.receive(), [numbered(2)]);
    assert_eq!(sim.unaccounted(0), 0);
}

#[test]
fn a_paced_wire_takes_the_time_that_its_speed_needs() {
    let wire = WireOptions {
        paced: true,
        speed_bps: 1_000_000_000,
        ..WireOptions::default()
    };
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish(), wire);
    let mut got = 0;
    // 64 bytes, FCS, preamble and gap: 704 ns a frame; each step is one microsecond.
    for _ in 0..10_000 {
        while a.send(&numbered(0)) {}
        sim.step();
        got += b.receive().len();
    }
    assert!((14_100..14_300).contains(&got), "{got}");
    assert_eq!(a.bar.load32(0x200c), 1000, "speed in Mbit/s");
}
