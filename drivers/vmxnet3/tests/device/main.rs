//! The port against a device that is a handful of registers and its commands.

mod fake;
mod turn;

use port::{Config, LinkState, Offloads, PortError, Rss, StartError};
use vmxnet3::{OpenError, Options, open};

use fake::{fake, opened, refused, start, with};

#[test]
fn a_device_is_reset_without_access_to_memory_and_tells_its_address_and_limits() {
    let fake = fake(1);
    let mut port = opened(&fake);
    assert_eq!(port.info().mac, [0x52, 0x54, 2, 1, 3, 4]);
    assert_eq!(port.info().pci, Some((0x15ad, 0x07b0)));
    assert_eq!(port.caps().max_frame, 9018);
    assert!(!port.caps().offloads.contains(Offloads::RSS));
    let link = port.link().unwrap();
    assert_eq!(
        (link.state, link.speed_bps),
        (LinkState::Up, Some(10_000_000_000))
    );
    let state = fake.state();
    assert_eq!(state.commands[..2], [0xcafe_0001, 0xcafe_0002]);
    assert_eq!(
        state.config[4] & 4,
        0,
        "it may not do DMA before it is started"
    );
    assert_eq!(state.writes, [(1, 0, 1), (1, 8, 1)]);
}

#[test]
fn the_highest_revision_that_both_know_is_chosen() {
    for (offered, most, chosen) in [
        (0b1, None, 1),
        (0b1111, None, 4),
        (0b111_1111, None, 4),
        (0b1111, Some(2), 2),
        (0b101, Some(2), 1),
    ] {
        let fake = fake(offered);
        let options = Options {
            revision: most,
            ..Options::default()
        };
        let port = open(fake.clone(), &options).unwrap();
        assert_eq!(fake.state().writes[0], (1, 0, 1 << (chosen - 1)));
        assert_eq!(port.caps().offloads.contains(Offloads::RSS), chosen > 1);
    }
    let error = refused(
        &fake(0b1000),
        &Options {
            revision: Some(3),
            ..Options::default()
        },
    );
    assert!(
        error.to_string().contains("0b1000") && error.remedy().is_some(),
        "{error}"
    );
}

#[test]
fn what_is_no_vmxnet3_or_gone_or_broken_is_told_apart() {
    let other = fake(1);
    other.state().config[2] = 0x20;
    let error = refused(&other, &Options::default());
    assert!(
        error.to_string().contains("15ad:0720") && error.remedy().is_some(),
        "{error}"
    );

    let gone = fake(1);
    gone.state().gone = true;
    assert!(matches!(
        refused(&gone, &Options::default()),
        OpenError::Gone { .. }
    ));

    let old = fake(1);
    old.state().upt = 2;
    assert!(matches!(
        refused(&old, &Options::default()),
        OpenError::Broken { .. }
    ));
}

#[test]
fn the_shared_area_is_laid_out_as_the_device_reads_it() {
    let fake = fake(0b1111);
    let mut port = opened(&fake);
    port.set_mtu(3000).unwrap();
    let config = Config {
        rx_queues: 3,
        tx_queues: 2,
        rx_slots: Some(64),
        tx_slots: Some(128),
        rx_capacity: 1024,
        ..with(Offloads::RX_CHECKSUM | Offloads::RX_VLAN | Offloads::RX_SCATTER)
    };
    let (queues, _memory) = start(port.as_mut(), &config).unwrap();
    assert_eq!((queues.rx.len(), queues.tx.len()), (3, 2));
    let state = fake.state();
    assert_eq!(state.config[4] & 4, 4, "it may do DMA");
    assert_eq!(state.address() % 512, 0);
    assert_eq!(state.word(0), 0xbabe_fee1);
    assert_eq!(state.word(12), 2 | 1 << 2);
    assert_eq!(state.long(24), 1 | 2 | 4, "checksums, RSS, VLAN");
    // Powers of two of queues; a frame of 3018 bytes in up to three buffers.
    assert_eq!((state.queues(), state.area(60)), ([2, 4], [3, 0]));
    assert_eq!(state.word(52), 6 * 256);
    assert_eq!(state.word(56), 3000);
    assert_eq!(state.area(80), [0, 1, 0, 0]);
    assert_eq!(state.word(108), 1);
    assert_eq!(state.word(120), 7);
    let table: [u8; 512] = state.area(136);
    assert_eq!(table, [0xff; 512], "every VLAN, as no filter was asked for");
    assert_eq!((state.word(648), state.word(652)), (1, 176));
    let rss: [u8; 56] = state.read(state.long(656));
    assert_eq!(
        (&rss[..8], &rss[48..52]),
        (&[15, 0, 1, 0, 40, 0, 16, 0][..], &[0, 1, 2, 0][..])
    );
    assert_eq!(state.word(704), 0xf);
    assert!(state.writes.contains(&(0, 0, 1)), "the interrupt is masked");

    let queue = |number: u64| state.long(40) + number * 256;
    let long = |address| u64::from_le_bytes(state.read(address));
    let word = |address| u32::from_le_bytes(state.read(address));
    let tx = queue(1);
    assert_eq!([56, 60, 64].map(|at| word(tx + at)), [128, 128, 128]);
    assert_eq!(state.read(tx + 72), [0, 0, 128, 0]);
    let rx = queue(2);
    assert_eq!([56, 60, 64].map(|at| word(rx + at)), [64, 64, 128]);
    assert_eq!(state.read(rx + 72), [0, 0, 128, 0]);
    for place in [tx + 16, tx + 32, rx + 16, rx + 24, rx + 32] {
        assert_eq!(long(place) % 512, 0);
    }
    let mut places = [
        tx + 16,
        tx + 24,
        tx + 32,
        rx + 16,
        rx + 24,
        rx + 32,
        rx + 48,
    ]
    .map(long);
    places.sort_unstable();
    assert!(places[0] > 0 && places.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn filters_are_told_to_a_device_that_runs_and_to_one_that_is_started_later() {
    let fake = fake(1);
    let mut port = opened(&fake);
    port.set_promiscuous(true).unwrap();
    port.set_mac_filter(&[[1, 0, 0x5e, 1, 2, 3], [0x33, 0x33, 0, 0, 0, 1]])
        .unwrap();
    port.set_vlan_filter(100, true).unwrap();
    port.set_mac([2, 0, 0, 0, 0, 9]).unwrap();
    let (queues, _memory) = start(port.as_mut(), &with(Offloads::VLAN_FILTER)).unwrap();
    {
        let state = fake.state();
        assert_eq!(state.word(120), 0x17);
        assert_eq!(state.word(124), 12);
        let table: [u8; 12] = state.read(state.long(128));
        assert_eq!(table, [1, 0, 0x5e, 1, 2, 3, 0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(state.area(136), [0xff; 512]);
        assert_eq!(state.mac, [0x0000_0002, 0x0900]);
    }
    port.set_promiscuous(false).unwrap();
    port.set_all_multicast(true).unwrap();
    port.set_vlan_filter(33, true).unwrap();
    port.set_vlan_filter(100, false).unwrap();
    {
        let state = fake.state();
        assert_eq!(state.word(120), 0xf);
        assert_eq!(
            (state.word(136), state.word(140), state.word(148)),
            (1, 2, 0)
        );
        assert_eq!(state.commands.last(), Some(&0xcafe_0005));
    }
    port.set_mac_filter(&[]).unwrap();
    assert_eq!(fake.state().word(124), 0);
    assert_eq!(fake.state().commands.last(), Some(&0xcafe_0004));
    port.stop(queues).unwrap();
    let (_queues, _memory) = start(port.as_mut(), &with(Offloads::VLAN_FILTER)).unwrap();
    assert_eq!(fake.state().word(120), 0xf);
    assert_eq!(fake.state().word(140), 2);
}

#[test]
fn what_the_device_cannot_do_is_refused_in_words() {
    let mut port = opened(&fake(1));
    let unicast = port.set_mac_filter(&[[2, 0, 0, 0, 0, 1]]);
    assert!(
        matches!(unicast, Err(PortError::NotOffered { .. })),
        "{unicast:?}"
    );
    let groups = port.set_mac_filter(&vec![[1, 0, 0, 0, 0, 1]; 257]);
    assert!(
        matches!(groups, Err(PortError::Refused { .. })),
        "{groups:?}"
    );
    for mtu in [59, 9001] {
        assert!(matches!(port.set_mtu(mtu), Err(PortError::Refused { .. })));
    }
    for id in [0, 4095] {
        assert!(matches!(
            port.set_vlan_filter(id, true),
            Err(PortError::Refused { .. })
        ));
    }
    assert!(port.set_mac([1, 0, 0, 0, 0, 1]).is_err());
    let rss = Rss {
        key: vec![1; 40],
        table: vec![0; 8],
    };
    assert!(matches!(
        port.set_rss(&rss),
        Err(PortError::NotOffered { .. })
    ));
    for config in [
        Config {
            rx_slots: Some(48),
            ..Config::default()
        },
        Config {
            tx_slots: Some(16),
            ..Config::default()
        },
        Config {
            rx_queues: 9,
            ..Config::default()
        },
        Config {
            rx_capacity: 127,
            ..Config::default()
        },
        Config {
            rss: Some(rss),
            rx_queues: 2,
            ..Config::default()
        },
        with(Offloads::TX_IPV4_CHECKSUM),
    ] {
        let refused = start(port.as_mut(), &config).err();
        assert!(
            matches!(refused, Some(StartError::Unsupported { .. })),
            "{config:?}"
        );
    }
    let (_queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
    assert!(matches!(
        port.set_vlan_filter(5, true),
        Err(PortError::Refused { .. })
    ));
    assert!(matches!(port.set_mtu(1500), Err(PortError::Refused { .. })));
}

#[test]
fn a_device_that_does_not_start_is_kept_from_memory_and_can_be_tried_again() {
    let fake = fake(1);
    let mut port = opened(&fake);
    fake.state().answer = 0x8000_0001;
    match start(port.as_mut(), &Config::default()) {
        Err(StartError::Port(error @ PortError::Refused { .. })) => {
            assert!(error.to_string().contains("0x80000001") && error.remedy().is_some());
        }
        other => panic!("{:?}", other.err()),
    }
    assert_eq!(fake.state().config[4] & 4, 0);
    fake.state().answer = 0;
    start(port.as_mut(), &Config::default()).unwrap();
}

#[test]
fn counters_are_the_devices_since_it_was_opened_with_the_fcs_and_never_go_down() {
    let fake = fake(1);
    let mut port = opened(&fake);
    // The device has counted before, and does not begin anew.
    fake.state().stats = [[1000; 10]; 2];
    let mut expected = 0;
    for run in 0..3 {
        let (queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
        let before = port.counters().unwrap();
        assert_eq!(
            (before.tx_frames, before.rx_missed),
            (expected * 12, expected * 8)
        );
        for (number, count) in (0_u64..).zip(fake.state().stats.iter_mut().flatten()) {
            *count += number % 10;
        }
        expected += 1;
        if run == 1 {
            // Its counters begin anew with the next start.
            assert_eq!(port.counters().unwrap().tx_frames, expected * (2 + 4 + 6));
        }
        port.stop(queues).unwrap();
        assert!(!fake.state().active && fake.state().config[4] & 4 == 0);
        let counters = port.counters().unwrap();
        assert_eq!(counters.tx_frames, expected * (2 + 4 + 6));
        assert_eq!(counters.tx_bytes, expected * (3 + 5 + 7 + 4 * 12));
        assert_eq!(counters.tx_errors, expected * (8 + 9));
        assert_eq!(
            (counters.rx_missed, counters.rx_errors),
            (expected * 8, expected * 9)
        );
        let extended = port.extended().unwrap();
        let named = |name: &str| extended.iter().find(|e| e.name == name).map(|e| e.value);
        assert_eq!(named("rx0_LROPktsRxOK"), Some(0));
        assert_eq!(named("tx0_mcastBytesTxOK"), Some(expected * 5));
        if run == 1 {
            fake.state().stats = [[7; 10]; 2];
        }
    }
}

#[test]
fn rss_changes_its_table_while_it_runs_and_its_key_when_it_is_started() {
    let fake = fake(0b11);
    let mut port = opened(&fake);
    let config = Config {
        rx_queues: 2,
        ..Config::default()
    };
    let rss = Rss {
        key: (0..40).collect(),
        table: vec![1, 0],
    };
    port.set_rss(&rss).unwrap();
    let (_queues, _memory) = start(port.as_mut(), &config).unwrap();
    {
        let state = fake.state();
        let written: [u8; 50] = state.read(state.long(656));
        assert_eq!((written[6], written[9], written[48]), (2, 1, 1));
        assert!(
            !state.commands.contains(&0xcafe_0010),
            "revision 2 knows no such command"
        );
    }
    port.set_rss(&Rss {
        table: vec![0, 1, 1, 1],
        ..rss.clone()
    })
    .unwrap();
    {
        let state = fake.state();
        let written: [u8; 52] = state.read(state.long(656));
        assert_eq!((written[6], &written[48..]), (4, &[0, 1, 1, 1][..]));
        assert_eq!(state.commands.last(), Some(&0xcafe_0006));
    }
    let other = Rss {
        key: vec![1; 40],
        ..rss.clone()
    };
    assert!(matches!(
        port.set_rss(&other),
        Err(PortError::Refused { .. })
    ));
    let far = Rss {
        table: vec![2, 0],
        ..rss
    };
    assert!(matches!(port.set_rss(&far), Err(PortError::Refused { .. })));
}
