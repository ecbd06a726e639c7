//! Which queues there are, by the features that the driver has written.

use hw::{Bar, Function};
use models::virtio::{Identity, Notify, VirtioOptions};
use models::{RingRole, Sim, SimBar, WireOptions};

use crate::driver::ring::Ring;
use crate::driver::{BASE, CTRL, CTRL_RX, Driver, MQ, MRG, RSS, Wish, frame, half, stepped};

/// Sizes of the first ten queues of a device with four pairs of 32 slots.
const ONE_PAIR: [u16; 10] = [32, 32, 64, 0, 0, 0, 0, 0, 0, 0];
const ALL_PAIRS: [u16; 10] = [32, 32, 32, 32, 32, 32, 32, 32, 64, 0];

const FACES: [(Identity, bool); 4] = [
    (Identity::Modern, false),
    (Identity::Transitional, false),
    (Identity::Transitional, true),
    (Identity::Legacy, true),
];

fn options(identity: Identity) -> VirtioOptions {
    VirtioOptions {
        identity,
        pairs: 4,
        queue_size: 32,
        ..VirtioOptions::default()
    }
}

fn wish(legacy: bool, features: u64) -> Wish {
    Wish {
        features: if legacy { 0 } else { BASE } | MRG | features,
        legacy,
        ..Wish::default()
    }
}

fn sizes(bar: &SimBar, legacy: bool) -> [u16; 10] {
    let (select, size) = if legacy { (14, 12) } else { (22, 24) };
    let mut queue = 0;
    [(); 10].map(|()| {
        bar.store16(select, queue);
        queue += 1;
        bar.load16(size)
    })
}

#[track_caller]
fn assert_queues(driver: &Driver, wanted: [u16; 10]) {
    let legacy = driver.wish.legacy;
    assert_eq!(sizes(&driver.bar, legacy), wanted, "legacy: {legacy}");
    if !legacy {
        let count = wanted.iter().filter(|&&size| size > 0).count();
        assert_eq!(usize::from(driver.bar.load16(18)), count);
    }
}

#[test]
fn before_features_are_written_there_is_one_pair_and_the_control_queue() {
    for (identity, legacy) in FACES {
        let sim = stepped(&options(identity), WireOptions::default());
        let function = sim.function(0);
        function.set_config16(4, 7);
        let bar = function.bar(if legacy { 0 } else { 4 }).unwrap();
        assert_eq!(sizes(&bar, legacy), ONE_PAIR);
        assert_eq!(sim.objections(), [""; 0]);
    }
}

#[test]
fn all_pairs_are_there_with_multiqueue_and_one_without() {
    for (identity, legacy) in FACES {
        for (features, wanted) in [
            (CTRL, ONE_PAIR),
            (CTRL | MQ, ALL_PAIRS),
            // Not accepted, and shown all the same.
            (0, ONE_PAIR),
        ] {
            let sim = stepped(&options(identity), WireOptions::default());
            let driver = Driver::negotiate(sim.function(0), wish(legacy, features));
            assert_queues(&driver, wanted);
            assert_eq!(sim.objections(), [""; 0]);
        }
    }
}

#[test]
fn all_pairs_are_there_with_rss() {
    let sim = stepped(&options(Identity::Modern), WireOptions::default());
    let mut driver = Driver::negotiate(sim.function(0), wish(false, CTRL | CTRL_RX | RSS));
    assert_queues(&driver, ALL_PAIRS);
    driver.control = Some(driver.queue(8));
    driver.run();
    assert_eq!(driver.command(0, 0, &[0], &|| sim.settle()), Some(0));
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn the_queues_follow_what_is_written_before_features_ok() {
    let sim = stepped(&options(Identity::Modern), WireOptions::default());
    let function = sim.function(0);
    function.set_config16(4, 7);
    let bar = function.bar(4).unwrap();
    bar.store8(20, 3);
    bar.store32(8, 0);
    for (features, wanted) in [
        (CTRL | MQ, ALL_PAIRS),
        (CTRL, ONE_PAIR),
        (CTRL | MQ, ALL_PAIRS),
    ] {
        bar.store32(12, half(features, 0));
        assert_eq!(sizes(&bar, false), wanted);
        // What the driver chose for a queue goes with the queue.
        for queue in [0, 2] {
            bar.store16(22, queue);
            bar.store16(24, 16);
        }
        assert_eq!(sizes(&bar, false)[..3], [16, wanted[1], 16]);
        bar.store16(22, 0);
        bar.store16(24, 32);
    }
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn multiqueue_that_was_not_offered_brings_no_queues() {
    let options = VirtioOptions {
        features_removed: MQ,
        ..options(Identity::Modern)
    };
    let sim = stepped(&options, WireOptions::default());
    let driver = Driver::negotiate(sim.function(0), wish(false, CTRL | MQ));
    assert_queues(&driver, ONE_PAIR);
    assert!(sim.objections()[0].contains("that were not offered"));
}

#[test]
fn without_a_control_queue_on_offer_there_is_the_pair_alone() {
    let options = VirtioOptions {
        control: false,
        ..options(Identity::Transitional)
    };
    for legacy in [false, true] {
        let sim = stepped(&options, WireOptions::default());
        let driver = Driver::negotiate(sim.function(0), wish(legacy, 0));
        assert_queues(&driver, [32, 32, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sim.objections(), [""; 0]);
    }
}

#[test]
fn a_reset_goes_back_to_one_pair_and_other_features_may_be_taken() {
    for (identity, legacy) in FACES {
        let sim = stepped(&options(identity), WireOptions::default());
        let all = Wish {
            pairs: 4,
            ..wish(legacy, CTRL | CTRL_RX | MQ)
        };
        let mut driver = Driver::open(sim.function(0), all);
        assert_eq!(driver.command(4, 0, &[4, 0], &|| sim.settle()), Some(0));
        assert_eq!(driver.function.rings().len(), 8);
        driver.reset();
        assert_queues(&driver, ONE_PAIR);
        drop(driver);

        let mut driver = Driver::open(sim.function(0), wish(legacy, CTRL | CTRL_RX));
        assert_eq!(driver.command(0, 0, &[1], &|| sim.settle()), Some(0));
        driver.function.reset().unwrap();
        driver.function.set_config16(4, 7);
        assert_queues(&driver, ONE_PAIR);
        assert_eq!(sim.objections(), [""; 0]);
    }
}

/// A driver without multiqueue at a device that has it.
fn open(identity: Identity, legacy: bool, notify: Notify) -> (Sim, Driver, Driver) {
    let options = VirtioOptions {
        notify,
        ..options(identity)
    };
    let sim = stepped(&options, WireOptions::default());
    let wish = Wish {
        kicks: true,
        apart: legacy,
        ..wish(legacy, CTRL | CTRL_RX)
    };
    let mut a = Driver::open(sim.function(0), wish.clone());
    let mut b = Driver::open(sim.function(1), wish);
    a.arm();
    b.arm();
    (sim, a, b)
}

#[test]
fn the_control_queue_works_behind_one_pair_lap_after_lap_beside_frames() {
    for notify in [Notify::Polls, Notify::Sleeps] {
        for (identity, legacy) in FACES {
            let (sim, mut a, mut b) = open(identity, legacy, notify);
            assert_eq!(b.control.as_ref().unwrap().ring.index, 2);
            for n in 0..200 {
                assert_eq!(b.command(0, 0, &[0], &|| sim.settle()), Some(0));
                assert!(a.send(&frame(n, 60)));
                sim.settle();
                assert_eq!(b.receive(), [[0; 0]; 0], "filtered");
                assert_eq!(b.command(0, 0, &[1], &|| sim.settle()), Some(0));
                assert!(a.send(&frame(n, 60)));
                sim.settle();
                assert_eq!(b.receive(), [frame(n, 60)]);
            }
            let rings = b.function.rings();
            let roles: Vec<RingRole> = rings.iter().map(|ring| ring.role).collect();
            assert_eq!(roles, [RingRole::Rx, RingRole::Tx], "and no control queue");
            assert_eq!(sim.counters(1).commands, 400);
            assert_eq!((sim.unaccounted(0), sim.unaccounted(1)), (0, 0));
            assert_eq!(sim.objections(), [""; 0]);
        }
    }
}

/// The driver of a device with four pairs sets up what it must not.
#[track_caller]
fn wrong(legacy: bool, features: u64, part: &str, wrong: impl FnOnce(&mut Driver)) {
    let sim = stepped(&options(Identity::Transitional), WireOptions::default());
    let mut driver = Driver::negotiate(sim.function(0), wish(legacy, features));
    wrong(&mut driver);
    let all = sim.objections();
    assert!(
        !all.is_empty() && all.iter().all(|one| one.contains(part)),
        "wanted objections about {part:?}, got {all:?}"
    );
}

#[test]
fn queues_that_are_not_there_are_not_enabled() {
    for (features, index) in [(CTRL, 3), (CTRL, 8), (CTRL | MQ, 9)] {
        let part = format!("of queue {index}: there is none");
        wrong(false, features, &part, |driver| {
            driver.bar.store16(22, index);
            driver.bar.store16(28, 1);
        });
        wrong(false, features, &part, |driver| {
            driver.queue(index);
        });
        let part = format!("address of queue {index} written: there is none");
        wrong(true, features, &part, |driver| {
            driver.bar.store16(14, index);
            driver.bar.store32(8, 1);
        });
    }
    for legacy in [false, true] {
        wrong(legacy, 0, "control queue, without CTRL_VQ", |driver| {
            driver.queue(2);
        });
        wrong(legacy, CTRL, "queue 4, which is not enabled", |driver| {
            driver.kick(4);
        });
    }
}

#[test]
fn the_control_queue_has_a_limit_of_its_own() {
    wrong(false, CTRL, "size 128, of at most 64", |driver| {
        let ring = Ring::new(&driver.memory, 2, 128, driver.wish.features);
        driver.set_queue(2, 128, ring.addresses());
        driver.bar.store16(28, 1);
    });
    wrong(false, CTRL | MQ, "size 64, of at most 32", |driver| {
        let ring = Ring::new(&driver.memory, 2, 64, driver.wish.features);
        driver.set_queue(2, 64, ring.addresses());
        driver.bar.store16(28, 1);
    });
}
