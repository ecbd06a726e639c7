//! The pair with a thread of its own: tails and completions cross between threads.

use std::time::{Duration, Instant};

use hw::{Bar, Function};
use models::e1000::{E1000, Kind};
use models::{Fault, Sim, SimOptions, WireOptions};

use crate::guest::{
    Guest, MAC_A, MAC_B, PROMISCUOUS, RECEIVE, STATUS, Wish, assert_clean, frame, options,
};

const KINDS: [Kind; 4] = [Kind::E1000, Kind::E1000e, Kind::Igb, Kind::IgbVf];

fn threaded(kind: Kind) -> Sim {
    // Yields, so that the test does as well on one core.
    let how = SimOptions {
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    Sim::with_options(
        E1000::boxed("a", &options(kind, MAC_A)),
        E1000::boxed("b", &options(kind, MAC_B)),
        WireOptions::default(),
        how,
    )
}

/// Waits for what the model's thread does meanwhile.
#[track_caller]
fn until(mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it does not happen"
        );
        std::thread::yield_now();
    }
}

/// Lets the model's thread take whatever was asked of it: some rounds, as the clock of the
/// frames that it moves is not there yet.
fn wait() {
    for _ in 0..2000 {
        std::thread::yield_now();
    }
}

fn open(sim: &Sim, kind: Kind) -> [Guest; 2] {
    let wish = Wish {
        slots: 64,
        rctl: RECEIVE | PROMISCUOUS,
        ..Wish::default()
    };
    [0, 1].map(|end| {
        let mut guest = Guest::attach(sim.function(end), kind, wish.clone());
        if kind == Kind::IgbVf {
            // The mailbox takes rounds, not reads.
            guest.bar.store32(0, 1 << 26);
            wait();
            guest.look_at_mailbox();
            guest.seen = 0;
            assert!(guest.tell(&[1]));
            until(|| guest.look_at_mailbox() & 0x10 != 0);
            assert_eq!(guest.hear().unwrap()[0], 1 | 1 << 31);
        } else {
            guest.reset(&|| ());
        }
        guest.set_up();
        guest
    })
}

/// Frame `number` from end `end` to the other.
fn numbered(end: usize, number: u64) -> Vec<u8> {
    let mut frame = frame(number, 64);
    if end == 1 {
        frame[..12].copy_from_slice(&[MAC_A, MAC_B].concat());
    }
    frame
}

#[test]
fn frames_pass_both_ways_while_the_control_thread_reads_registers() {
    const FRAMES: u64 = 1000;
    for kind in KINDS {
        let sim = threaded(kind);
        let mut guests = open(&sim, kind);
        let (mut sent, mut got) = ([0u64; 2], [0u64; 2]);
        until(|| {
            for (n, guest) in guests.iter_mut().enumerate() {
                // No more on the way than the other end has buffers for.
                let room = sent[n] < FRAMES && sent[n] - got[1 - n] < 32;
                if room && guest.send(&numbered(n, sent[n])) {
                    sent[n] += 1;
                }
                for received in guest.receive() {
                    assert_eq!(received, numbered(1 - n, got[n]), "{kind:?}");
                    got[n] += 1;
                }
                assert_eq!(guest.bar.load32(STATUS) & 2, 2);
            }
            got == [FRAMES; 2]
        });
        for guest in &mut guests {
            until(|| {
                guest.reap(0);
                guest.tx[0].look == guest.tx[0].post
            });
        }
        assert_clean(&sim);
    }
}

#[test]
fn removal_and_reset_stop_all_dma_at_once() {
    for kind in KINDS {
        for removed in [false, true] {
            let sim = threaded(kind);
            let [mut a, mut b] = open(&sim, kind);
            for n in 0..40 {
                assert!(a.send(&numbered(0, n)));
            }
            if removed {
                sim.faults(0).switch_on(Fault::Removed);
                assert_eq!(a.bar.load32(STATUS), u32::MAX);
            } else {
                a.function.reset().unwrap();
            }
            let seen: Vec<_> = (0..64).map(|slot| a.tx[0].get(slot)).collect();
            // What the device still knew of would be unmapped now.
            a.tx.clear();
            a.rx.clear();
            drop(a);
            wait();
            b.receive();
            assert_eq!(seen.len(), 64);
            assert_eq!(sim.objections(), [""; 0], "{kind:?}");
        }
    }
}
