//! The device in a thread of its own.

use std::time::{Duration, Instant};

use models::vmxnet3::{Vmxnet3, Vmxnet3Options};
use models::{Sim, SimOptions, WireOptions};

use crate::guest::{Guest, Wish, all_is_well, frame};

/// How long nothing may move before the test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn thousands_of_frames_cross_in_both_directions_at_once() {
    const COUNT: u64 = 20_000;
    let options = SimOptions {
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let device = |name| Vmxnet3::boxed(name, &Vmxnet3Options::default());
    let sim = Sim::with_options(device("a"), device("b"), WireOptions::default(), options);
    let wish = Wish {
        tx_size: 64,
        rx_size: 256,
        ..Wish::default()
    };
    let mut ends = [0, 1].map(|end| Guest::open(sim.function(end), wish.clone()));
    let mut sent = [0u64; 2];
    let mut got = [0u64; 2];
    let mut moved = Instant::now();
    while got != [COUNT; 2] {
        let before = got;
        for end in 0..2 {
            // Never more on their way than the other end has buffers for.
            while sent[end] < COUNT && sent[end] < got[1 - end] + 200 {
                if !ends[end].send(&frame(sent[end], 60 + (sent[end] % 900) as usize)) {
                    break;
                }
                sent[end] += 1;
            }
            for bytes in ends[end].receive() {
                let number = got[end];
                assert!(
                    bytes == frame(number, 60 + (number % 900) as usize),
                    "frame {number}"
                );
                got[end] += 1;
            }
        }
        if got != before {
            moved = Instant::now();
        }
        assert!(moved.elapsed() < PATIENCE, "stuck at {got:?} of {sent:?}");
        std::thread::yield_now();
    }
    all_is_well(&sim);
}
