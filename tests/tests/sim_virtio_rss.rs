//! Receive-side scaling of the virtio driver, on models: what is told, refused, and kept.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::sync::Arc;
use std::time::Instant;

use models::{Fault, Sim, WireOptions};
use port::{Config, Mac, Offloads, Port, PortError, Rss, RxFlags, StartError};
use rig::conformance::{Line, PATIENCE, Received, memory_bytes};
use rig::sims::{Variant, open, wired};
use virtio::OpenError;

const PAIRS: u16 = 4;
const FLOWS: u16 = 48;

fn variants() -> [Variant; 4] {
    [
        Variant::rings(false, false),
        Variant::rings(false, true).mergeable(false),
        Variant::rings(true, false).sleepy(),
        Variant::rings(true, true).mergeable(false),
    ]
    .map(|variant| variant.pairs(PAIRS))
}

fn config(rss: Option<Rss>) -> Config {
    Config {
        rx_queues: PAIRS.into(),
        offloads: Offloads::RSS,
        rss,
        ..Config::default()
    }
}

fn ports(variant: &Variant) -> (Arc<Sim>, [Box<dyn Port>; 2]) {
    let sim = wired(variant, WireOptions::default());
    let ports = open(&sim, variant).unwrap();
    (sim, ports)
}

fn start(variant: &Variant, config: &Config) -> (Arc<Sim>, Line) {
    let (sim, ports) = ports(variant);
    (sim, Line::start(ports, config).unwrap())
}

/// A datagram from 66.9.149.187, port `source`, to 161.142.100.80, port 1766.
fn datagram(macs: [Mac; 2], source: u16) -> Vec<u8> {
    let mut frame = [macs[1], macs[0]].concat();
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend([66, 9, 149, 187, 161, 142, 100, 80]);
    frame.extend(source.to_be_bytes());
    frame.extend([0x06, 0xe6, 0, 26, 0, 0]);
    frame.resize(60, 0x5a);
    frame
}

/// What is no IP.
fn other(macs: [Mac; 2]) -> Vec<u8> {
    let mut frame = [macs[1], macs[0]].concat();
    frame.extend([0x88, 0xb5]);
    frame.resize(60, 0xa5);
    frame
}

/// Sends `frames` from end 0; each with its queue, in no order.
fn spread(line: &mut Line, frames: &[Vec<u8>]) -> Vec<(usize, Received)> {
    let mut rest = frames.to_vec().into();
    let mut found = Vec::new();
    let started = Instant::now();
    while found.len() < frames.len() {
        line.ends[0].post(0, &mut rest, 17);
        line.ends[0].reap();
        for queue in 0..line.ends[1].queues.rx.len() {
            let mut out = Vec::new();
            line.ends[1].receive(queue, &mut out);
            found.extend(out.into_iter().map(|got| (queue, got)));
        }
        line.serve().unwrap();
        assert!(started.elapsed() < PATIENCE, "{} arrived", found.len());
    }
    found
}

fn flows(line: &Line) -> Vec<Vec<u8>> {
    let macs = line.macs();
    (0..FLOWS).map(|flow| datagram(macs, 2794 + flow)).collect()
}

/// Where every flow came in, which must be where `table` says by its hash.
fn follows(line: &mut Line, table: &[u16]) -> Vec<usize> {
    let flows = flows(line);
    let found = spread(line, &flows);
    for (queue, got) in &found {
        assert!(flows.contains(&got.bytes), "a frame that was not sent");
        assert!(got.meta.flags.contains(RxFlags::HASH), "no hash is told");
        let entry = table[got.meta.hash as usize % table.len()];
        assert_eq!(usize::from(entry), *queue, "hash {:#x}", got.meta.hash);
    }
    found.into_iter().map(|(queue, _)| queue).collect()
}

/// Stops both ports; nothing was wrong.
fn ends_well(sim: &Sim, line: Line) -> [Box<dyn Port>; 2] {
    let ports = line.stop().unwrap();
    assert_eq!(sim.objections(), [""; 0]);
    assert_eq!((sim.unaccounted(0), sim.unaccounted(1)), (0, 0));
    ports
}

fn key() -> Vec<u8> {
    (0..40_u8).map(|n| n.wrapping_mul(57) ^ 0x3c).collect()
}

#[test]
fn the_hash_is_told_and_what_has_none_comes_in_on_the_first_queue() {
    for variant in variants() {
        for more in [Offloads::empty(), Offloads::RX_CHECKSUM] {
            let mut config = config(None);
            config.offloads |= more;
            let (sim, mut line) = start(&variant, &config);
            let even: Vec<u16> = (0..PAIRS).cycle().take(64).collect();
            let queues = follows(&mut line, &even);
            assert!((0..usize::from(PAIRS)).all(|queue| queues.contains(&queue)));
            let macs = line.macs();
            let frames = [datagram(macs, 2794), other(macs)];
            for (queue, got) in spread(&mut line, &frames) {
                if got.bytes == frames[0] {
                    // Of Microsoft's "Verifying the RSS Hash Calculation", as is the key.
                    assert_eq!((queue, got.meta.hash), (0, 0x51cc_c178), "{variant:?}");
                    assert!(got.meta.flags.contains(RxFlags::HASH));
                } else {
                    assert_eq!(got.bytes, frames[1]);
                    assert_eq!((queue, got.meta.hash), (0, 0));
                    assert!(!got.meta.flags.contains(RxFlags::HASH));
                }
            }
            ends_well(&sim, line);
        }
    }
}

#[test]
fn frames_without_rss_have_the_short_header_and_no_hash() {
    for variant in variants() {
        let config = Config {
            offloads: Offloads::empty(),
            ..config(None)
        };
        let (sim, mut line) = start(&variant, &config);
        let frames = flows(&line);
        for (_, got) in spread(&mut line, &frames) {
            assert!(frames.contains(&got.bytes));
            assert_eq!(got.meta.hash, 0);
            assert!(!got.meta.flags.contains(RxFlags::HASH));
        }
        let rss = Rss {
            key: key(),
            table: vec![1],
        };
        let error = line.ends[1].port.set_rss(&rss).unwrap_err();
        assert!(matches!(error, PortError::Refused { .. }), "{error}");
        let cure = error.remedy().unwrap();
        assert!(cure.contains("RSS among its offloads"), "{cure}");
        ends_well(&sim, line);
    }
}

#[test]
fn a_table_is_kept_over_a_reset_and_a_restart() {
    for variant in variants() {
        let table = vec![3, 1, 3, 1, 1, 1, 1, 3];
        let rss = Rss {
            key: key(),
            table: table.clone(),
        };
        let (sim, mut ports) = ports(&variant);
        // Before the start: not of the device's business yet.
        ports[1].set_rss(&rss).unwrap();
        let mut line = Line::start(ports, &config(None)).unwrap();
        let queues = follows(&mut line, &table);
        assert!(!queues.contains(&0) && !queues.contains(&2));

        sim.faults(1).inject(Fault::NeedsReset, 1);
        let back = |line: &mut Line| {
            let events = line.ends[1].port.service().unwrap();
            events.iter().any(|event| event.contains("is back"))
        };
        let started = Instant::now();
        while !back(&mut line) {
            for end in &mut line.ends {
                end.reap();
            }
            line.collect(1, &mut Vec::new());
            assert!(started.elapsed() < PATIENCE, "it never comes back");
        }
        assert_eq!(follows(&mut line, &table).len(), usize::from(FLOWS));

        let ports = ends_well(&sim, line);
        let mut line = Line::start(ports, &config(None)).unwrap();
        follows(&mut line, &table);
        let ports = ends_well(&sim, line);
        // A run with fewer queues than it names has an even one.
        let two = Config {
            rx_queues: 2,
            ..config(None)
        };
        let mut line = Line::start(ports, &two).unwrap();
        follows(&mut line, &[0, 1]);
        ends_well(&sim, line);
    }
}

#[test]
fn a_table_that_the_device_refuses_changes_nothing() {
    for variant in variants() {
        let (sim, mut line) = start(&variant, &config(None));
        let even: Vec<u16> = (0..PAIRS).cycle().take(64).collect();
        let before = {
            let mut queues = follows(&mut line, &even);
            queues.sort_unstable();
            queues
        };
        sim.faults(1).inject(Fault::CommandRefused, 1);
        let rss = Rss {
            key: key(),
            table: vec![2; 32],
        };
        let error = line.ends[1].port.set_rss(&rss).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("refused spreading over 4 queue pairs"),
            "{error}"
        );
        let mut after = follows(&mut line, &even);
        after.sort_unstable();
        assert_eq!(before, after);
        line.ends[1].port.set_rss(&rss).unwrap();
        let queues = follows(&mut line, &[2]);
        assert!(queues.iter().all(|&queue| queue == 2));
        ends_well(&sim, line);
    }
}

fn begin(port: &mut dyn Port, config: &Config) -> Result<(), StartError> {
    let memory = hugemem::Memory::new(&hugemem::MemoryRequest {
        bytes: memory_bytes(port, config),
        pages: hugemem::Pages::Only(hugemem::PageSize::Base4K),
        node: None,
        spaces: vec![port.space()],
    })
    .unwrap();
    let queues = port.start(config, &memory)?;
    port.stop(queues)?;
    Ok(())
}

#[test]
fn a_start_that_the_device_refuses_says_so_and_may_be_tried_again() {
    let variant = &variants()[0];
    let (sim, [mut port, _other]) = ports(variant);
    sim.faults(0).inject(Fault::CommandRefused, 1);
    let error = begin(port.as_mut(), &config(None)).unwrap_err();
    assert!(error.to_string().contains("refused spreading"), "{error}");
    begin(port.as_mut(), &config(None)).unwrap();
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn what_the_device_cannot_do_is_refused_by_name() {
    let (_sim, [mut port, _other]) = ports(&variants()[0]);
    let wrong = |key: usize, table: Vec<u16>| Rss {
        key: vec![7; key],
        table,
    };
    let cases = [
        (wrong(39, vec![0]), "a key of 40 bytes"),
        (wrong(41, vec![0]), "a key of 40 bytes"),
        (wrong(40, vec![0; 256]), "128 at most"),
        (wrong(40, vec![0, 1, 2]), "a power of two"),
        (wrong(40, vec![0, 4]), "queues below 4"),
    ];
    for (rss, part) in cases {
        let error = port.set_rss(&rss).unwrap_err();
        assert!(matches!(error, PortError::Refused { .. }), "{error}");
        assert!(error.remedy().unwrap().contains(part), "{error:?}");
        let error = begin(port.as_mut(), &config(Some(rss))).unwrap_err();
        assert!(matches!(error, StartError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    // A run with two of the four queues.
    let two = Config {
        rx_queues: 2,
        ..config(Some(wrong(40, vec![0, 2])))
    };
    let error = begin(port.as_mut(), &two).unwrap_err();
    assert!(error.to_string().contains("queues below 2"), "{error}");
}

#[test]
fn a_device_without_rss_or_with_one_pair_offers_none() -> Result<(), OpenError> {
    let plain = Variant::rings(false, false);
    let mut bare = plain.clone().pairs(PAIRS);
    bare.device.rss = false;
    let mut uncontrolled = plain.clone().pairs(PAIRS);
    uncontrolled.device.control = false;
    for variant in [plain, bare, uncontrolled] {
        let sim = wired(&variant, WireOptions::default());
        let [mut port, _other] = open(&sim, &variant)?;
        assert!(!port.caps().offloads.contains(Offloads::RSS));
        let rss = Rss {
            key: key(),
            table: vec![0],
        };
        let error = port.set_rss(&rss).unwrap_err();
        assert!(matches!(error, PortError::NotOffered { .. }), "{error}");
        let one = Config {
            rx_queues: 1,
            offloads: Offloads::empty(),
            ..config(Some(rss))
        };
        let error = begin(port.as_mut(), &one).unwrap_err();
        assert!(
            error.to_string().contains("this device has none"),
            "{error}"
        );
    }
    Ok(())
}
