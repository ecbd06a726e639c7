//! The pair with a thread of its own, and benches' consumers.

use std::time::{Duration, Instant};

use hw::{Bar, Function};
use models::consumer::{RxProducer, TxConsumer};
use models::virtio::{VirtioNet, VirtioOptions};
use models::{Fault, RingRole, Sim, SimOptions, WireOptions};

use crate::driver::{BASE, Driver, IN_ORDER, MRG, PACKED, Wish, frame, rig};

fn options() -> VirtioOptions {
    VirtioOptions {
        packed: true,
        in_order: true,
        ..VirtioOptions::default()
    }
}

fn threaded(options: &VirtioOptions, wire: WireOptions) -> Sim {
    // Yields, so that the test does as well on one core.
    let how = SimOptions {
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    Sim::with_options(
        VirtioNet::boxed("a", options),
        VirtioNet::boxed("b", options),
        wire,
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

#[test]
fn frames_pass_both_ways_while_the_control_thread_reads_and_writes() {
    for features in [0, PACKED, IN_ORDER, PACKED | IN_ORDER] {
        let sim = threaded(&options(), WireOptions::default());
        let wish = Wish {
            features: BASE | MRG | features,
            size: 64,
            ..Wish::default()
        };
        let mut a = Driver::open(sim.function(0), wish.clone());
        let mut b = Driver::open(sim.function(1), wish);
        a.arm();
        b.arm();
        let (mut sent, mut got) = ([0u64; 2], [0u64; 2]);
        const FRAMES: u64 = 1000;
        until(|| {
            for (n, driver) in [&mut a, &mut b].into_iter().enumerate() {
                // No more on the way than the other end has buffers for.
                if sent[n] < FRAMES && sent[n] - got[1 - n] < 32 && driver.send(&frame(sent[n], 64))
                {
                    sent[n] += 1;
                }
                for received in driver.receive() {
                    assert_eq!(received, frame(got[n], 64));
                    got[n] += 1;
                }
                assert_eq!(driver.status(), 15);
            }
            got == [FRAMES; 2]
        });
        until(|| {
            a.reap();
            b.reap();
            a.completed + b.completed == 2 * FRAMES
        });
        assert_eq!(sim.objections(), [""; 0]);
        assert_eq!((sim.unaccounted(0), sim.unaccounted(1)), (0, 0));
    }
}

#[test]
fn removal_and_reset_stop_all_dma_at_once() {
    let sim = threaded(&options(), WireOptions::default());
    for round in 0..20 {
        let mut a = Driver::open(sim.function(0), Wish::default());
        a.arm();
        while a.send(&frame(round, 100)) {}
        if round % 2 == 0 {
            a.reset();
        } else {
            a.function.reset().unwrap();
        }
        // Unmapped as soon as the device says that it has stopped.
        drop(a);
    }
    sim.faults(0).switch_on(Fault::Removed);
    assert_eq!(sim.function(0).bar(4).unwrap().load8(20), 0xff);
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn dropping_the_pair_ends_its_thread_and_leaves_functions_readable() {
    let sim = threaded(&options(), WireOptions::default());
    let function = sim.function(0);
    drop(sim);
    assert_eq!(function.config16(0), 0x1af4);
}

#[test]
fn consumers_complete_what_was_posted_lap_after_lap() {
    for features in [0, PACKED, IN_ORDER, PACKED | IN_ORDER] {
        for apart in [false, true] {
            let wish = Wish {
                features: BASE | MRG | features,
                apart,
                ..Wish::default()
            };
            let (sim, mut a, _b) = rig(&options(), &wish, WireOptions::default());
            let rings = a.function.rings();
            let of = |role| rings.iter().find(|ring| ring.role == role).unwrap();
            let mut consumer = TxConsumer::new(of(RingRole::Tx)).unwrap();
            let mut producer = RxProducer::new(of(RingRole::Rx), 60).unwrap();
            let mut sent = 0;
            for burst in [1, 3, 2, 4, 4, 1, 3].repeat(5) {
                let posted = (0..burst).filter(|_| a.send(&frame(sent, 60))).count();
                sent += posted as u64;
                let drained = if burst % 2 == 0 {
                    consumer.drain_timed()
                } else {
                    consumer.drain()
                };
                assert_eq!(drained as usize, posted);
                assert_eq!(consumer.drain(), 0);
                a.reap();
                assert_eq!(a.completed, sent);
                assert_eq!(producer.fill(burst), burst);
                let frames = a.receive_on(0);
                assert_eq!(frames.len(), burst as usize);
                assert!(frames.iter().all(|(_, frame)| frame.len() == 60));
            }
            assert!(consumer.share().frames > 0);
            assert_eq!(producer.fill(100), 8, "what is armed and no more");
            assert_eq!(sim.objections(), [""; 0]);
        }
    }
}
