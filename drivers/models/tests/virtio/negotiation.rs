//! From reset to running, as drivers see it.

use hw::function::capabilities;
use hw::{Bar, Function};
use models::WireOptions;
use models::virtio::{Identity, VirtioOptions};

use crate::driver::ring::Kind;
use crate::driver::{
    BASE, CTRL, Driver, EVENT_IDX, MQ, MRG, PACKED, RING_RESET, Wish, frame, rig, stepped,
};

#[test]
fn each_identity_has_its_ids_windows_and_capabilities() {
    for (identity, device, legacy, modern) in [
        (Identity::Modern, 0x1041, false, true),
        (Identity::Transitional, 0x1000, true, true),
        (Identity::Legacy, 0x1000, true, false),
    ] {
        let options = VirtioOptions {
            identity,
            ..VirtioOptions::default()
        };
        let sim = stepped(&options, WireOptions::default());
        let function = sim.function(0);
        assert_eq!(function.config32(0), device << 16 | 0x1af4);
        assert_eq!(function.config8(0x0b), 2, "a network card");
        assert_eq!(function.bar(0).is_ok(), legacy);
        assert_eq!(function.bar(4).is_ok(), modern);
        assert!(function.bar(1).is_err() && function.bar(5).is_err());
        let kinds: Vec<(u8, u8)> = capabilities(&function)
            .map(|(id, at)| (id, function.config8(at + 3)))
            .collect();
        let all = [(9, 1), (9, 2), (9, 3), (9, 4), (9, 5)];
        assert_eq!(kinds, if modern { &all[..] } else { &[] });
        assert_eq!(sim.objections(), [""; 0]);
    }
}

#[test]
fn capabilities_say_where_the_structures_are() {
    let sim = stepped(&VirtioOptions::default(), WireOptions::default());
    let function = sim.function(0);
    let found: Vec<[u32; 3]> = capabilities(&function)
        .map(|(_, at)| {
            let bar = u32::from(function.config8(at + 4));
            [bar, function.config32(at + 8), function.config32(at + 12)]
        })
        .collect();
    assert_eq!(
        found,
        [
            [4, 0, 64],
            [4, 0x3000, 0x1000],
            [4, 0x1000, 1],
            [4, 0x2000, 24],
            [0, 0, 0]
        ]
    );
}

#[test]
fn registers_are_reached_through_configuration_space_too() {
    let sim = stepped(&VirtioOptions::default(), WireOptions::default());
    let function = sim.function(0);
    let (_, at) = capabilities(&function).last().unwrap();
    for (offset, value) in [(4, 4), (8, 18), (10, 0), (12, 2), (14, 0)] {
        function.set_config16(at + offset, value);
    }
    assert_eq!(
        function.config32(at + 16),
        3,
        "two queues and the control queue"
    );
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn the_configuration_tells_address_link_queues_mtu_and_speed() {
    let options = VirtioOptions {
        mac: [2, 1, 2, 3, 4, 5],
        pairs: 3,
        mtu: Some(1600),
        ..VirtioOptions::default()
    };
    let sim = stepped(&options, WireOptions::default());
    let bar = sim.function(0).bar(4).unwrap();
    let mac: Vec<u8> = (0..6).map(|n| bar.load8(0x2000 + n)).collect();
    assert_eq!(mac, options.mac);
    let words = [6, 8, 10].map(|at| bar.load16(0x2000 + at));
    assert_eq!(words, [1, 3, 1600]);
    assert_eq!((bar.load32(0x200c), bar.load8(0x2010)), (10_000, 1));
    assert_eq!(bar.load16(18), 3, "one pair and the control queue so far");
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn a_reset_takes_a_few_reads_and_forgets_everything() {
    let options = VirtioOptions {
        reset_reads: 3,
        ..VirtioOptions::default()
    };
    let (sim, a, mut b) = rig(&options, &Wish::default(), WireOptions::default());
    a.set_status(0);
    let shown: Vec<u8> = (0..5).map(|_| a.status()).collect();
    assert_eq!(shown, [15, 15, 15, 0, 0]);
    a.bar.store16(22, 0);
    assert_eq!((a.bar.load16(28), a.bar.load32(32)), (0, 0));
    assert!(b.send(&frame(1, 60)));
    sim.settle();
    assert!(sim.counters(0).rx_not_ready > 0);
    let again = Driver::open(sim.function(0), Wish::default());
    assert_eq!(again.status(), 15);
    assert_eq!(sim.objections(), [""; 0]);
    assert_eq!(sim.unaccounted(1), 0);
    drop(a);
}

#[test]
fn frames_before_driver_ok_are_dropped_and_counted() {
    let sim = stepped(&VirtioOptions::default(), WireOptions::default());
    let mut a = Driver::open(sim.function(0), Wish::default());
    let mut b = Driver::negotiate(sim.function(1), Wish::default());
    b.set_up();
    b.arm();
    assert!(a.send(&frame(1, 60)));
    sim.settle();
    assert_eq!(sim.counters(1).rx_not_ready, 1);
    b.run();
    assert!(a.send(&frame(2, 60)));
    sim.settle();
    assert_eq!(b.receive(), [frame(2, 60)]);
    assert_eq!((sim.unaccounted(0), sim.objections().len()), (0, 0));
}

#[test]
fn the_control_queue_is_behind_all_pairs_with_multiqueue_and_third_without() {
    for (features, index) in [(CTRL, 2), (CTRL | MQ, 8)] {
        let options = VirtioOptions {
            pairs: 4,
            ..VirtioOptions::default()
        };
        let wish = Wish {
            features: BASE | MRG | features | 1 << 18,
            ..Wish::default()
        };
        let (sim, mut a, _b) = rig(&options, &wish, WireOptions::default());
        assert_eq!(a.control.as_ref().unwrap().ring.index, index);
        assert_eq!(a.command(0, 0, &[0], &|| sim.settle()), Some(0));
        assert_eq!(sim.objections(), [""; 0]);
    }
}

#[test]
fn one_queue_is_reset_and_enabled_again_while_the_others_run() {
    let wish = Wish {
        features: BASE | MRG | RING_RESET,
        ..Wish::default()
    };
    let (sim, mut a, mut b) = rig(&VirtioOptions::default(), &wish, WireOptions::default());
    for lap in 0..3 {
        a.bar.store16(22, 1);
        a.bar.store16(58, 1);
        assert_eq!(a.bar.load16(58), 1, "the reset goes on");
        assert_eq!((a.bar.load16(58), a.bar.load16(28)), (0, 0));
        a.tx[0] = a.queue(1);
        for n in 0..5 {
            assert!(a.send(&frame(lap * 5 + n, 60)));
        }
        sim.settle();
        assert_eq!(b.receive().len(), 5);
    }
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn interrupts_are_counted_as_the_driver_wants_them() {
    use std::sync::atomic::Ordering;
    for packed in [false, true] {
        let wish = Wish {
            features: BASE | MRG | if packed { 1 << 34 } else { 0 },
            ..Wish::default()
        };
        let options = VirtioOptions {
            packed: true,
            ..VirtioOptions::default()
        };
        let (sim, mut a, _b) = rig(&options, &wish, WireOptions::default());
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        assert_eq!((sim.counters(0).interrupts, a.bar.load8(0x1000)), (0, 0));
        match &a.tx[0].ring.kind {
            crate::driver::ring::Kind::Split { avail, .. } => avail[0].store(0, Ordering::Relaxed),
            crate::driver::ring::Kind::Packed { driver, .. } => {
                driver[1].store(0, Ordering::Relaxed);
            }
        }
        assert!(a.send(&frame(2, 60)));
        sim.settle();
        assert_eq!((sim.counters(0).interrupts, a.bar.load8(0x1000)), (1, 1));
        assert_eq!(a.bar.load8(0x1000), 0, "cleared by the read");
        assert_eq!(sim.objections(), [""; 0]);
    }
}

#[test]
fn with_event_indexes_one_interrupt_comes_when_the_named_entry_is_used() {
    use std::sync::atomic::Ordering;
    for packed in [0, PACKED] {
        let wish = Wish {
            features: BASE | MRG | EVENT_IDX | packed,
            ..Wish::default()
        };
        let options = VirtioOptions {
            packed: true,
            ..VirtioOptions::default()
        };
        let (sim, mut a, mut b) = rig(&options, &wish, WireOptions::default());
        let mut sent = 0;
        for lap in 0..10u16 {
            // The entry after the next two.
            match &a.tx[0].ring.kind {
                Kind::Split { avail, .. } => {
                    avail[2 + 8].store(lap * 5 + 2, Ordering::Relaxed);
                }
                Kind::Packed { driver, .. } => {
                    let at = lap * 5 + 2;
                    let wrap = if at / 8 % 2 == 0 { 1 << 15 } else { 0 };
                    driver[0].store((at % 8) | wrap, Ordering::Relaxed);
                    driver[1].store(2, Ordering::Relaxed);
                }
            }
            let mut interrupts = Vec::new();
            for _ in 0..5 {
                assert!(a.send(&frame(sent, 60)));
                sent += 1;
                sim.settle();
                b.receive();
                interrupts.push(sim.counters(0).interrupts - u64::from(lap));
            }
            assert_eq!(
                interrupts,
                [0, 0, 1, 1, 1],
                "packed: {packed:#x}, lap {lap}"
            );
        }
        assert_eq!(sim.objections(), [""; 0]);
    }
}
