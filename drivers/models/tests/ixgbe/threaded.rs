//! The pair with a thread of its own: tails and completions cross between threads.

use std::time::{Duration, Instant};

use hw::{Bar, Function};
use models::ixgbe::{Ixgbe, IxgbeVf, IxgbeVfOptions, Kind};
use models::{Device, Fault, Sim, SimOptions, WireOptions};

use crate::guest::{
    BAM, Guest, LINK_UP, LINKS, MAC_A, MAC_B, UPE, Wish, assert_clean, frame, options,
};

fn device(name: &str, is_vf: bool, mac: [u8; 6]) -> Box<dyn Device> {
    if is_vf {
        IxgbeVf::boxed(name, &IxgbeVfOptions::of(Kind::I82599, mac))
    } else {
        Ixgbe::boxed(name, &options(Kind::I82599, mac))
    }
}

fn threaded(is_vf: bool) -> Sim {
    // Yields, so that the test does as well on one core.
    let how = SimOptions {
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let [a, b] = [("a", MAC_A), ("b", MAC_B)].map(|(name, mac)| device(name, is_vf, mac));
    Sim::with_options(a, b, WireOptions::default(), how)
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

fn ask(guest: &mut Guest, words: &[u32]) -> [u32; 4] {
    until(|| guest.tell(words));
    until(|| guest.look_at_mailbox() & 0x10 != 0);
    guest.hear().unwrap()
}

fn open(sim: &Sim, is_vf: bool) -> [Guest; 2] {
    let wish = Wish {
        slots: 64,
        fctrl: BAM | UPE,
        ..Wish::default()
    };
    [0, 1].map(|end| {
        let mut guest = Guest::attach(sim.function(end), is_vf, wish.clone());
        guest.reset(&|| ());
        if is_vf {
            guest.look_at_mailbox();
            guest.seen = 0;
            assert_eq!(ask(&mut guest, &[1])[0], 1 | 1 << 31);
            assert_eq!(ask(&mut guest, &[8, 2])[0], 8 | 0xa000_0000);
            assert_eq!(ask(&mut guest, &[5, 1518])[0], 5 | 0xa000_0000);
        }
        guest.set_up();
        let links = if is_vf { 0x10 } else { LINKS };
        until(|| guest.bar.load32(links) & LINK_UP != 0);
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
    for is_vf in [false, true] {
        let sim = threaded(is_vf);
        let mut guests = open(&sim, is_vf);
        let (mut sent, mut got) = ([0u64; 2], [0u64; 2]);
        until(|| {
            for (n, guest) in guests.iter_mut().enumerate() {
                // No more on the way than the other end has buffers for.
                let room = sent[n] < FRAMES && sent[n] - got[1 - n] < 32;
                if room && guest.send(&numbered(n, sent[n])) {
                    sent[n] += 1;
                }
                for received in guest.receive() {
                    assert_eq!(received, numbered(1 - n, got[n]));
                    got[n] += 1;
                }
                guest.bar.load32(8);
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
    for is_vf in [false, true] {
        for removed in [false, true] {
            let sim = threaded(is_vf);
            let [mut a, mut b] = open(&sim, is_vf);
            for n in 0..40 {
                assert!(a.send(&numbered(0, n)));
            }
            if removed {
                sim.faults(0).switch_on(Fault::Removed);
                assert_eq!(a.bar.load32(8), u32::MAX);
            } else {
                a.function.reset().unwrap();
            }
            // What the device still knew of is unmapped now.
            a.tx.clear();
            a.rx.clear();
            drop(a);
            for _ in 0..2000 {
                std::thread::yield_now();
            }
            b.receive();
            assert_eq!(sim.objections(), [""; 0]);
        }
    }
}
