//! Each thing that a driver must not do, done once.

use std::sync::atomic::Ordering;

use crate::driver::ring::{Kind, Part, table};
use crate::driver::{
    ACCESS, BASE, CSUM, CTRL, CTRL_MAC, CTRL_RX, CTRL_VLAN, Driver, EVENT_IDX, IN_ORDER, INDIRECT,
    MQ, MRG, NOTIFICATION_DATA, PACKED, RING_RESET, VERSION_1, Wish, frame, half, rig, stepped,
};
use hw::{Bar, Function};
use models::virtio::{Identity, VirtioOptions};
use models::{Sim, SimBar, SimFunction, WireOptions};

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const TABLE: u16 = 4;

fn all_options() -> VirtioOptions {
    VirtioOptions {
        packed: true,
        in_order: true,
        pairs: 2,
        ..VirtioOptions::default()
    }
}

/// Says what the device had to say, and that it was this and nothing else.
#[track_caller]
fn assert_objection(sim: &Sim, part: &str) {
    let all = sim.objections();
    assert!(
        all.len() == 1 && all[0].contains(part),
        "wanted one objection about {part:?}, got {all:?}"
    );
}

/// A driver that has started the device does something; the device has this to say.
#[track_caller]
fn running(wish: &Wish, part: &str, wrong: impl FnOnce(&mut Driver)) -> u8 {
    let (sim, mut a, _b) = rig(&all_options(), wish, WireOptions::default());
    assert_eq!(sim.objections(), [""; 0]);
    wrong(&mut a);
    sim.settle();
    assert_objection(&sim, part);
    a.status()
}

/// The same, and the device needs a reset then.
#[track_caller]
fn broken(wish: &Wish, part: &str, wrong: impl FnOnce(&mut Driver)) {
    assert_eq!(running(wish, part, wrong), 0x4f, "NEEDS_RESET");
}

fn wish(features: u64) -> Wish {
    Wish {
        features: BASE | MRG | features,
        ..Wish::default()
    }
}

/// A frame in the first buffer of the send queue, and where it is.
fn prepared(a: &Driver, header: &[u8], len: usize) -> Part {
    let bytes = [header, &frame(1, len)].concat();
    let buffers = &a.tx[0].buffers;
    buffers.write(0, 0, &bytes);
    Part::read(buffers.iova(0), u32::try_from(bytes.len()).unwrap())
}

/// A script on the registers of a device that nobody has opened.
#[track_caller]
fn registers(part: &str, wrong: impl FnOnce(&SimFunction, &SimBar)) {
    let sim = stepped(&all_options(), WireOptions::default());
    let function = sim.function(0);
    function.set_config16(4, 7);
    let bar = function.bar(4).unwrap();
    wrong(&function, &bar);
    assert_objection(&sim, part);
}

fn write_features(bar: &SimBar, features: u64) {
    for n in 0..2 {
        bar.store32(8, n);
        bar.store32(12, half(features, n));
    }
}

#[test]
fn registers_want_the_width_of_their_field() {
    registers("access of 4 bytes to the common", |_, bar| {
        bar.load32(20);
    });
    registers("access of 1 bytes to the common", |_, bar| {
        bar.store8(22, 0);
    });
    registers("access of 2 bytes to the common", |_, bar| {
        bar.store16(32, 0);
    });
    registers("read of 4 bytes of the configuration", |_, bar| {
        bar.load32(0x2000);
    });
    registers("where nothing is", |_, bar| {
        bar.load16(0x1800);
    });
    registers("where nothing is", |_, bar| bar.store16(0x1800, 1));
    registers("which has 16384 bytes", |_, bar| {
        bar.load16(0x3fff);
    });
}

#[test]
fn what_is_read_only_is_not_written() {
    registers("configuration, which is read-only", |_, bar| {
        bar.store8(0x2000, 1);
    });
    registers("at 4, which is read-only", |_, bar| bar.store32(4, 1));
    registers("write to configuration space at 0x8", |function, _| {
        function.set_config16(8, 1);
    });
}

#[test]
fn command_bits_come_before_what_they_allow() {
    registers("which the command register has off", |function, bar| {
        function.set_config16(4, 4);
        bar.load8(20);
    });
    let sim = stepped(&all_options(), WireOptions::default());
    let mut a = Driver::negotiate(sim.function(0), wish(0));
    a.set_up();
    a.function.set_config16(4, 3);
    a.run();
    assert_objection(&sim, "bus mastering off");
}

#[test]
fn status_bits_have_an_order() {
    registers("DRIVER before ACKNOWLEDGE", |_, bar| bar.store8(20, 2));
    registers("FEATURES_OK before DRIVER", |_, bar| {
        bar.store8(20, 1);
        bar.store8(20, 9);
    });
    registers("DRIVER_OK before FEATURES_OK", |_, bar| {
        bar.store8(20, 3);
        bar.store8(20, 7);
    });
    registers("clears bits", |_, bar| {
        bar.store8(20, 3);
        bar.store8(20, 1);
    });
    registers("unknown status bits", |_, bar| bar.store8(20, 0x11));
    registers(
        "before the status showed that the reset is over",
        |_, bar| {
            bar.store8(20, 1);
            bar.store8(20, 0);
            bar.store8(20, 1);
        },
    );
}

#[test]
fn features_are_accepted_as_offered_and_before_features_ok() {
    let settle = |features: u64, part: &str| {
        registers(part, |_, bar| {
            bar.store8(20, 3);
            write_features(bar, features);
            bar.store8(20, 11);
            assert_eq!(bar.load8(20), 3, "FEATURES_OK does not stick");
        });
    };
    settle(BASE | NOTIFICATION_DATA, "that were not offered");
    settle(BASE | MQ, "without one that it needs");
    settle(ACCESS, "VERSION_1 not accepted");
    registers("features written after FEATURES_OK", |_, bar| {
        bar.store8(20, 3);
        write_features(bar, BASE);
        bar.store8(20, 11);
        bar.store32(12, 0);
    });
    registers("features written before DRIVER", |_, bar| {
        bar.store32(12, 1);
    });
    registers("written to half 2", |_, bar| {
        bar.store8(20, 3);
        bar.store32(8, 2);
        bar.store32(12, 1);
    });
}

#[test]
fn a_driver_looks_whether_its_features_stick() {
    registers("without a look whether FEATURES_OK stuck", |_, bar| {
        bar.store8(20, 3);
        write_features(bar, BASE);
        bar.store8(20, 11);
        bar.store8(20, 15);
    });
}

#[test]
fn a_driver_without_translation_is_refused_without_a_word() {
    let sim = stepped(&all_options(), WireOptions::default());
    let a = Driver::negotiate(
        sim.function(0),
        Wish {
            features: VERSION_1,
            ..Wish::default()
        },
    );
    assert_eq!(a.status(), 3, "FEATURES_OK does not stick");
    assert_eq!(sim.objections(), [""; 0]);
}

/// A queue is set up wrongly before `DRIVER_OK`.
#[track_caller]
fn setup(features: u64, part: &str, wrong: impl FnOnce(&Driver, [u64; 3])) {
    let sim = stepped(&all_options(), WireOptions::default());
    let driver = Driver::negotiate(sim.function(0), wish(features));
    let ring = crate::driver::ring::Ring::new(&driver.memory, 0, 8, driver.wish.features);
    wrong(&driver, ring.addresses());
    assert_objection(&sim, part);
}

#[test]
fn queues_are_set_up_whole_before_they_are_enabled() {
    let enable = |driver: &Driver, size, addresses| {
        driver.set_queue(0, size, addresses);
        driver.bar.store16(28, 1);
    };
    setup(0, "no address of its descriptors", |d, [_, b, c]| {
        enable(d, 8, [0, b, c]);
    });
    setup(0, "no address of its driver area", |d, [a, _, c]| {
        enable(d, 8, [a, 0, c]);
    });
    setup(0, "no address of its device area", |d, [a, b, _]| {
        enable(d, 8, [a, b, 0]);
    });
    setup(0, "not on a boundary of 16", |d, [a, b, c]| {
        enable(d, 8, [a + 8, b, c]);
    });
    setup(0, "not on a boundary of 2", |d, [a, b, c]| {
        enable(d, 8, [a, b + 1, c]);
    });
    setup(PACKED, "not on a boundary of 4", |d, [a, b, c]| {
        enable(d, 8, [a, b + 2, c]);
    });
    setup(0, "size 0", |d, addresses| enable(d, 0, addresses));
    setup(0, "size 12", |d, addresses| enable(d, 12, addresses));
    setup(0, "size 2048", |d, addresses| enable(d, 2048, addresses));
    setup(0, "is not mapped", |d, [_, b, c]| {
        enable(d, 8, [0x1000, b, c]);
    });
    setup(0, "queue_enable written with 0", |d, _| {
        d.bar.store16(28, 0);
    });
    setup(0, "while queue 0 is enabled", |d, addresses| {
        enable(d, 8, addresses);
        d.bar.store16(24, 4);
    });
    setup(CTRL | MQ, "register of queue 9: there is none", |d, _| {
        d.set_queue_size(9);
    });
    setup(
        0,
        "queue_reset written with 1, negotiated: false",
        |d, _| d.bar.store16(58, 1),
    );
    setup(RING_RESET, "which is not enabled", |d, _| {
        d.bar.store16(58, 1);
    });
}

impl Driver {
    fn set_queue_size(&self, index: u16) {
        self.bar.store16(22, index);
        assert_eq!(
            self.bar.load16(24),
            0,
            "a queue that is not there has no size"
        );
        self.bar.store16(24, 8);
    }
}

#[test]
fn queues_are_enabled_between_features_ok_and_driver_ok() {
    registers("enabled before FEATURES_OK", |function, bar| {
        let memory = crate::driver::memory(function.space(), 1 << 20);
        let ring = crate::driver::ring::Ring::new(&memory, 0, 8, 0);
        bar.store16(24, 8);
        for (n, address) in (0..).zip(ring.addresses()) {
            bar.store32(32 + 8 * n, half(address, 0));
            bar.store32(36 + 8 * n, half(address, 1));
        }
        bar.store16(28, 1);
    });
    running(&wish(CTRL | MQ), "enabled after DRIVER_OK", |a| {
        let _queue = a.queue(3);
    });
}

#[test]
fn doorbells_are_rung_at_their_place_and_time() {
    running(&wish(0), "written with 4 bytes", |a| {
        a.bar.store32(0x3000, 0);
    });
    running(&wish(0), "instead of 0x4", |a| a.bar.store16(0x3000, 1));
    running(&wish(0), "queue 3, which is not enabled", |a| a.kick(3));
    let sim = stepped(&all_options(), WireOptions::default());
    let mut a = Driver::negotiate(sim.function(0), wish(0));
    a.set_up();
    a.kick(1);
    assert_objection(&sim, "before DRIVER_OK");
}

#[test]
fn descriptors_have_no_flags_but_the_known() {
    for features in [0, PACKED] {
        running(&wish(features), "reserved flags 0x8", |a| {
            let part = prepared(a, &[0; 12], 60);
            a.tx[0].ring.post(&[Part { flags: 8, ..part }], 0);
        });
        broken(
            &wish(features),
            "indirect descriptor, which was not negotiated",
            |a| {
                let part = prepared(a, &[0; 12], 60);
                a.tx[0].ring.post(
                    &[Part {
                        flags: TABLE,
                        ..part
                    }],
                    0,
                );
            },
        );
    }
    running(&wish(0), "reserved flags 0x2 in the available ring", |a| {
        let Kind::Split { avail, .. } = &a.tx[0].ring.kind else {
            unreachable!()
        };
        avail[0].store(3, Ordering::Relaxed);
        assert!(a.send(&frame(1, 60)));
    });
}

#[test]
fn split_chains_end() {
    broken(&wish(0), "longer than the ring of 8: it loops", |a| {
        let part = prepared(a, &[0; 12], 60);
        // The first descriptor names itself as the next.
        a.tx[0].ring.post(
            &[Part {
                flags: NEXT,
                ..part
            }],
            0,
        );
    });
    broken(&wish(0), "next descriptor 8 in a ring of 8", |a| {
        let part = prepared(a, &[0; 12], 60);
        let ring = &mut a.tx[0].ring;
        ring.post(&[part, part], 0);
        let [_, rest] = ring.descriptor(0);
        rest.store(u64::from(part.len) | 1 << 32 | 8 << 48, Ordering::Relaxed);
    });
}

#[test]
fn packed_chains_end_and_are_there_as_a_whole() {
    broken(&wish(PACKED), "of a chain is not available", |a| {
        let part = prepared(a, &[0; 12], 60);
        a.tx[0].ring.post(
            &[Part {
                flags: NEXT,
                ..part
            }],
            0,
        );
    });
    broken(&wish(PACKED), "longer than the ring of 8", |a| {
        let part = prepared(a, &[0; 12], 60);
        let loops = Part {
            flags: NEXT,
            ..part
        };
        a.tx[0].ring.post(&[loops; 8], 0);
    });
    broken(&wish(PACKED), "is marked as used in this lap", |a| {
        let [_, rest] = a.tx[0].ring.descriptor(0);
        rest.store(60 | 0x8080 << 48, Ordering::Relaxed);
    });
    running(&wish(PACKED), "buffer id 9 in a ring of 8", |a| {
        let part = prepared(a, &[0; 12], 60);
        let [address, rest] = a.tx[0].ring.descriptor(0);
        address.store(part.iova, Ordering::Relaxed);
        rest.store(
            u64::from(part.len) | 9 << 32 | 0x80 << 48,
            Ordering::Relaxed,
        );
    });
}

#[test]
fn tables_outside_the_ring_have_rules_too() {
    for (features, packed) in [(INDIRECT, false), (INDIRECT | PACKED, true)] {
        let post = |a: &mut Driver, parts: &[Part], bytes: Option<u32>, flags: u16| {
            let (iova, len, kept) = table(&a.memory, parts, packed);
            let part = Part {
                iova,
                len: bytes.unwrap_or(len),
                flags: TABLE | flags,
            };
            a.tx[0].ring.post(&[part], 0);
            kept
        };
        broken(&wish(features), "not a multiple of 16", |a| {
            let part = prepared(a, &[0; 12], 60);
            post(a, &[part], Some(15), 0);
        });
        broken(&wish(features), "indirect table inside", |a| {
            let part = prepared(a, &[0; 12], 60);
            post(
                a,
                &[Part {
                    flags: TABLE,
                    ..part
                }],
                None,
                0,
            );
        });
        running(&wish(features), "reserved flags 0x10 in an indirect", |a| {
            let part = prepared(a, &[0; 12], 60);
            post(a, &[Part { flags: 16, ..part }], None, 0);
        });
        broken(&wish(features), "longer than the table or the ring", |a| {
            let part = prepared(a, &[0; 12], 60);
            post(a, &[part; 9], None, 0);
        });
        broken(&wish(features), "is not mapped", |a| {
            let part = Part {
                iova: 0x1000,
                len: 16,
                flags: TABLE,
            };
            a.tx[0].ring.post(&[part], 0);
        });
    }
}

#[test]
fn tables_outside_the_ring_stand_alone() {
    broken(
        &wish(INDIRECT),
        "indirect descriptor with a next one",
        |a| {
            let part = prepared(a, &[0; 12], 60);
            a.tx[0].ring.post(
                &[
                    Part {
                        flags: TABLE,
                        ..part
                    },
                    part,
                ],
                0,
            );
        },
    );
    broken(
        &wish(INDIRECT | PACKED),
        "indirect descriptor in a chain",
        |a| {
            let part = prepared(a, &[0; 12], 60);
            a.tx[0].ring.post(
                &[
                    part,
                    Part {
                        flags: TABLE,
                        ..part
                    },
                ],
                0,
            );
        },
    );
}

#[test]
fn buffers_have_a_length_a_direction_and_an_address_that_is_mapped() {
    for features in [0, PACKED] {
        broken(&wish(features), "a length of zero", |a| {
            let part = prepared(a, &[0; 12], 60);
            a.tx[0].ring.post(&[Part { len: 0, ..part }], 0);
        });
        broken(
            &wish(features),
            "writable buffer on a transmit queue",
            |a| {
                let part = prepared(a, &[0; 12], 60);
                a.tx[0].ring.post(
                    &[Part {
                        flags: WRITE,
                        ..part
                    }],
                    0,
                );
            },
        );
        broken(&wish(features), "readable buffer behind a writable", |a| {
            let part = prepared(a, &[0; 12], 60);
            a.tx[0].ring.post(
                &[
                    Part {
                        flags: WRITE,
                        ..part
                    },
                    part,
                ],
                0,
            );
        });
        broken(&wish(features), "is not mapped", |a| {
            a.tx[0].ring.post(&[Part::read(0x1000, 100)], 0);
        });
        broken(&wish(features), "is not mapped", |a| {
            let part = prepared(a, &[0; 12], 60);
            a.tx[0].ring.post(&[part, Part::read(0x1000, 100)], 0);
        });
        broken(&wish(features), "shorter than its header", |a| {
            let part = prepared(a, &[0; 12], 60);
            a.tx[0].ring.post(&[Part { len: 11, ..part }], 0);
        });
    }
}

/// The receiver posts `parts` where a frame is to go.
#[track_caller]
fn receiving(features: u64, part: &str, parts: impl FnOnce(&Driver) -> Vec<Part>) -> Sim {
    let wish = Wish {
        features,
        ..Wish::default()
    };
    let sim = stepped(&all_options(), WireOptions::default());
    let mut a = Driver::open(sim.function(0), wish.clone());
    let mut b = Driver::open(sim.function(1), wish);
    let parts = parts(&b);
    b.rx[0].ring.post(&parts, 0);
    assert!(a.send(&frame(1, 300)));
    sim.settle();
    assert_objection(&sim, part);
    assert_eq!(sim.unaccounted(0), 0);
    sim
}

#[test]
fn receive_buffers_are_writable_large_enough_and_mapped() {
    for ring in [0, PACKED] {
        let sim = receiving(BASE | MRG | ring, "readable buffer on a receive", |b| {
            vec![Part::read(b.rx[0].buffers.iova(0), 1600)]
        });
        assert_eq!(sim.counters(1).rx_dma_fault, 1);
        receiving(BASE | MRG | ring, "is not mapped", |_| {
            vec![Part::write(0x1000, 1600)]
        });
        receiving(
            BASE | MRG | ring,
            "receive buffer of 8 bytes, of at least 12",
            |b| vec![Part::write(b.rx[0].buffers.iova(0), 8)],
        );
        let sim = receiving(
            BASE | ring,
            "receive buffer of 400 bytes, of at least 1526",
            |b| vec![Part::write(b.rx[0].buffers.iova(0), 400)],
        );
        assert_eq!(sim.counters(1).rx_frames, 1, "it fits all the same");
    }
}

#[test]
fn indexes_of_the_available_ring_are_believed_within_the_ring() {
    let avail = |a: &Driver, slot: usize, value: u16| {
        let Kind::Split { avail, .. } = &a.tx[0].ring.kind else {
            unreachable!()
        };
        avail[slot].store(value, Ordering::Release);
    };
    broken(
        &wish(0),
        "available index went from 0 to 9 in a ring of 8",
        |a| avail(a, 1, 9),
    );
    broken(&wish(0), "available index went from 0 to 65535", |a| {
        avail(a, 1, u16::MAX);
    });
    broken(&wish(0), "descriptor 8 posted in a ring of 8", |a| {
        avail(a, 2, 8);
        avail(a, 1, 1);
    });
}

#[test]
fn rings_in_order_take_descriptors_in_order() {
    running(
        &wish(IN_ORDER),
        "descriptor 3 posted where 0 was due",
        |a| {
            let part = prepared(a, &[0; 12], 60);
            a.tx[0].ring.at = 3;
            a.tx[0].ring.post(&[part], 0);
        },
    );
    running(&wish(IN_ORDER), "descriptor 5 after 0", |a| {
        let part = prepared(a, &[0; 12], 60);
        let ring = &mut a.tx[0].ring;
        let [address, rest] = ring.descriptor(5);
        address.store(part.iova, Ordering::Relaxed);
        rest.store(u64::from(part.len), Ordering::Relaxed);
        ring.post(&[part, part], 0);
        let [_, rest] = ring.descriptor(0);
        rest.store(u64::from(part.len) | 1 << 32 | 5 << 48, Ordering::Relaxed);
    });
}

#[test]
fn event_suppression_has_three_values_and_one_needs_a_feature() {
    for (features, value) in [(PACKED, 2), (PACKED, 3), (PACKED | EVENT_IDX, 3)] {
        running(&wish(features), "in the driver's event suppression", |a| {
            let Kind::Packed { driver, .. } = &a.tx[0].ring.kind else {
                unreachable!()
            };
            driver[1].store(value, Ordering::Relaxed);
            assert!(a.send(&frame(1, 60)));
        });
    }
}

#[test]
fn headers_of_sent_frames_ask_for_what_was_negotiated() {
    let header = |at: usize, value: u8| {
        let mut header = [0; 12];
        header[at] = value;
        header
    };
    let cases = [
        (0, header(0, 1), "NEEDS_CSUM without CSUM"),
        (0, header(0, 2), "flags 0x2"),
        (CSUM, header(0, 4), "flags 0x4"),
        (0, header(1, 1), "gso_type 0x1"),
        (0, header(1, 7), "gso_type 0x7"),
        (0, header(10, 1), "num_buffers 1"),
    ];
    for (features, header, part) in cases {
        for apart in [false, true] {
            let wish = Wish {
                apart,
                ..wish(features)
            };
            running(&wish, part, |a| {
                assert!(a.send_on(0, &header, &frame(1, 60)));
            });
        }
    }
    running(
        &wish(CSUM),
        "checksum at 50+9 of a frame of 60 bytes",
        |a| {
            let header = [1, 0, 0, 0, 0, 0, 50, 0, 9, 0, 0, 0];
            assert!(a.send_on(0, &header, &frame(1, 60)));
        },
    );
}

#[test]
fn frames_have_a_length_that_a_wire_carries_and_are_put_back_if_not() {
    let (sim, mut a, _b) = rig(&all_options(), &wish(0), WireOptions::default());
    assert!(a.send(&frame(1, 14)[..13]));
    sim.settle();
    a.reap();
    assert_objection(&sim, "frame of 13 bytes");
    let counts = sim.counters(0);
    assert_eq!((counts.tx_frames, counts.tx_errors, a.completed), (0, 1, 1));

    let options = VirtioOptions {
        mtu: Some(1500),
        ..VirtioOptions::default()
    };
    let (sim, mut a, _b) = rig(&options, &wish(1 << 3), WireOptions::default());
    assert!(a.send(&frame(1, 1518)));
    sim.settle();
    assert_eq!(sim.objections(), [""; 0]);
    assert!(a.send(&frame(1, 1519)));
    sim.settle();
    assert_objection(&sim, "frame of 1519 bytes, of at most 1518");
}

#[test]
fn pairs_are_used_once_they_are_switched_on() {
    let wish = Wish {
        pairs: 2,
        ..wish(CTRL | MQ)
    };
    running(&wish, "posted on queue 3 while 1 pairs are in use", |a| {
        assert!(a.send_on(1, &[0; 12], &frame(1, 60)));
    });
}

#[test]
fn commands_are_whole_known_and_negotiated() {
    let cases: [(u64, u8, u8, &[u8]); 12] = [
        (CTRL, 0, 0, &[1]),
        (CTRL | CTRL_RX, 0, 0, &[]),
        (CTRL | CTRL_RX, 0, 0, &[2]),
        (CTRL | CTRL_RX, 0, 2, &[1]),
        (CTRL | CTRL_RX, 0, 6, &[1]),
        (CTRL | CTRL_RX, 1, 0, &[1, 0, 0, 0, 2, 0, 0, 0, 0, 1]),
        (CTRL | CTRL_MAC, 1, 1, &[2, 0, 0, 0, 0]),
        (CTRL | CTRL_VLAN, 2, 0, &[0, 16]),
        (CTRL, 3, 0, &[]),
        (CTRL | MQ, 4, 0, &[0, 0]),
        (CTRL | MQ, 4, 0, &[3, 0]),
        (CTRL, 9, 0, &[]),
    ];
    for (features, class, number, data) in cases {
        let (sim, mut a, _b) = rig(&all_options(), &wish(features), WireOptions::default());
        let answer = a.command(class, number, data, &|| sim.settle());
        assert_eq!(answer, Some(1), "{class}.{number} {data:?}");
        assert_objection(&sim, &format!("command {class}.{number}"));
        assert_eq!(a.status(), 15);
    }
    for (parts, part) in [
        (&[(2, 0)][..], "without room for its answer"),
        (&[(1, 0), (1, WRITE)], "command of 1 bytes"),
    ] {
        broken(&wish(CTRL), part, |a| {
            let queue = a.control.as_mut().unwrap();
            let iova = queue.buffers.iova(0);
            let parts: Vec<Part> = parts
                .iter()
                .map(|&(len, flags)| Part { iova, len, flags })
                .collect();
            queue.ring.post(&parts, 0);
        });
    }
    running(&wish(CTRL | CTRL_RX), "more than one byte for", |a| {
        let queue = a.control.as_mut().unwrap();
        queue.buffers.write(0, 0, &[0, 0, 1]);
        let iova = queue.buffers.iova(0);
        queue
            .ring
            .post(&[Part::read(iova, 3), Part::write(iova + 64, 2)], 0);
    });
}

#[test]
fn memory_is_unmapped_after_the_device_has_stopped() {
    let sim = stepped(&all_options(), WireOptions::default());
    let mut a = Driver::open(sim.function(0), wish(0));
    let held = a.memory.clone();
    a.tx.clear();
    a.rx.clear();
    sim.settle();
    assert_eq!(sim.objections(), [""; 0]);
    drop((a, held));
    sim.settle();
    assert_objection(&sim, "was unmapped while the queue is enabled");
}

#[test]
fn a_driver_that_resets_before_it_unmaps_is_welcome() {
    let sim = stepped(&all_options(), WireOptions::default());
    let a = Driver::open(sim.function(0), wish(0));
    a.reset();
    drop(a);
    sim.settle();
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn legacy_drivers_keep_headers_apart_unless_any_layout_was_accepted() {
    let options = VirtioOptions {
        identity: Identity::Legacy,
        queue_size: 16,
        ..VirtioOptions::default()
    };
    for (features, objections) in [(0, 1), (crate::driver::ANY_LAYOUT, 0)] {
        let wish = Wish {
            features,
            legacy: true,
            apart: false,
            ..Wish::default()
        };
        let (sim, mut a, _b) = rig(&options, &wish, WireOptions::default());
        assert!(a.send(&frame(1, 60)));
        sim.settle();
        assert_eq!(sim.objections().len(), objections, "{:?}", sim.objections());
    }
}
