//! What devices of the e1000 families do beside what every port does, and what the driver makes
//! of devices that fail: an error in words or a start over, never a hang, and no frame lost.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use e1000::Options;
use hugemem::{Burst, TxFlags};
use hw::Function;
use models::e1000::{E1000, E1000Options, Kind, Pf, VfMac};
use models::{Device, Fault, Sim, SimOptions, WireOptions};
use port::{Config, LinkState, Offloads, Port, PortError, Rss, RxFlags, StartError};
use rig::conformance::{Line, PATIENCE, Received, Watch, frame, same};

const KINDS: [Kind; 4] = [Kind::E1000, Kind::E1000e, Kind::Igb, Kind::IgbVf];

fn device(kind: Kind, end: u8) -> E1000 {
    let options = E1000Options::of(kind, [0x02, 0x1b, 0x21, 0, 0, end]);
    E1000::new(&format!("sim:{kind:?}/{end}"), &options)
}

fn join(devices: [Box<dyn Device>; 2]) -> Arc<Sim> {
    let options = SimOptions {
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let [first, second] = devices;
    Arc::new(Sim::with_options(
        first,
        second,
        WireOptions::default(),
        options,
    ))
}

fn wired(kind: Kind) -> Arc<Sim> {
    join([0, 1].map(|end| Box::new(device(kind, end)) as Box<dyn Device>))
}

fn ports(sim: &Sim) -> [Box<dyn Port>; 2] {
    [0, 1].map(|end| e1000::open_pci(sim.function(end), &Options::default()).unwrap())
}

fn offloading(offloads: Offloads) -> Config {
    Config {
        offloads,
        ..Config::default()
    }
}

fn stop(line: Line, sim: &Sim) {
    line.stop().unwrap();
    assert_eq!(sim.objections(), [""; 0]);
    assert_eq!([sim.unaccounted(0), sim.unaccounted(1)], [0, 0]);
}

/// Sends one frame from end 0 with a tag for the device to insert; as it arrives.
fn tagged(line: &mut Line, bytes: &[u8], vlan: u16) -> Received {
    let mut burst = Burst::new();
    let mut frame = line.ends[0].to_send.take().unwrap();
    frame.fill(bytes);
    (frame.flags, frame.vlan) = (TxFlags::VLAN, vlan);
    burst.push(frame).unwrap();
    assert_eq!(line.ends[0].queues.tx[0].burst(&mut burst), 1);
    line.transfer(0, &[], 1).unwrap().remove(0)
}

#[test]
fn a_tag_is_inserted_on_sending_and_stripped_on_receiving_where_that_is_asked_for() {
    for kind in KINDS {
        for strips in [true, false] {
            let sim = wired(kind);
            let mut offloads = Offloads::TX_VLAN | Offloads::VLAN_FILTER;
            offloads.set(Offloads::RX_VLAN, strips);
            let mut line = Line::start(ports(&sim), &offloading(offloads)).unwrap();
            for end in &mut line.ends {
                end.port.set_vlan_filter(5, true).unwrap();
                end.port.set_vlan_filter(0x123, true).unwrap();
            }
            let macs = line.macs();
            for (number, vlan) in (0..).zip([5, 0x123, 0x6123, 0xa005]) {
                let bytes = frame(macs[1], macs[0], 100, number);
                let got = tagged(&mut line, &bytes, vlan);
                let [high, low] = vlan.to_be_bytes();
                let on_wire = [&bytes[..12], &[0x81, 0, high, low], &bytes[12..]].concat();
                let says = got.meta.flags.contains(RxFlags::VLAN);
                if strips {
                    assert_eq!(
                        (got.bytes, says, got.meta.vlan),
                        (bytes, true, vlan),
                        "{kind:?}"
                    );
                } else {
                    assert_eq!((got.bytes, says), (on_wire, false), "{kind:?}");
                }
            }
            stop(line, &sim);
        }
    }
}

#[test]
fn jumbo_frames_pass_in_several_buffers_and_longer_ones_are_refused_and_counted() {
    for kind in KINDS {
        let sim = wired(kind);
        let mut both = ports(&sim);
        for port in &mut both {
            port.set_mtu(9000).unwrap();
            assert!(port.set_mtu(port.caps().max_frame).is_err());
        }
        let config = offloading(Offloads::RX_SCATTER);
        let mut line = Line::start(both, &config).unwrap();
        let macs = line.macs();
        let frames: Vec<_> = (0..600)
            .map(|n| frame(macs[1], macs[0], 1500 + (n * 97) % 7515, n as u64))
            .collect();
        for portion in frames.chunks(100) {
            let received = line.transfer(0, portion, portion.len()).unwrap();
            same(portion, &received).unwrap();
            assert!(received.iter().any(|frame| frame.buffers >= 4), "{kind:?}");
        }
        // One tag is allowed for.
        let longest = frame(macs[1], macs[0], 9018, 1);
        let long = frame(macs[1], macs[0], 9019, 2);
        let received = line.transfer(0, &[longest.clone(), long, longest.clone()], 2);
        same(&[longest.clone(), longest], &received.unwrap()).unwrap();
        assert_eq!(
            line.ends[0].port.counters().unwrap().tx_errors,
            1,
            "{kind:?}"
        );
        stop(line, &sim);
    }
}

#[test]
fn a_frame_longer_than_the_receiver_s_mtu_is_dropped_and_counted_by_the_device() {
    for kind in KINDS {
        let sim = wired(kind);
        let [first, mut second] = ports(&sim);
        second.set_mtu(1500).unwrap();
        let mut line = Line::start([first, second], &Config::default()).unwrap();
        let macs = line.macs();
        let [fits, long] = [1514, 2000].map(|len| frame(macs[1], macs[0], len, 1));
        let received = line.transfer(0, &[long, fits.clone()], 1).unwrap();
        same(&[fits], &received).unwrap();
        if kind != Kind::IgbVf {
            // A VF has no counter of errors.
            let errors = line.ends[1].port.counters().unwrap().rx_errors;
            assert_eq!(errors, 1, "{kind:?}");
        }
        stop(line, &sim);
    }
}

/// A UDP datagram of IPv4 from port `flow`.
fn flow(macs: [port::Mac; 2], flow: u16) -> Vec<u8> {
    let mut bytes = frame(macs[1], macs[0], 80, 0);
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    bytes[14..34].copy_from_slice(&[
        0x45, 0, 0, 66, 0, 1, 0, 0, 64, 17, 0, 0, 16, 0, 0, 1, 48, 0, 0, 1,
    ]);
    bytes[34..36].copy_from_slice(&flow.to_be_bytes());
    bytes[36..42].copy_from_slice(&[0, 12, 0, 46, 0, 0]);
    bytes
}

/// Sends each flow once and says on which queue it arrived.
fn spread(line: &mut Line, flows: u16) -> Vec<usize> {
    let macs = line.macs();
    let mut queues = Vec::new();
    for number in 0..flows {
        let mut frames = [flow(macs, 1000 + number)].into();
        assert_eq!(line.ends[0].post(0, &mut frames, 1), 1);
        let mut watch = Watch::new();
        'arrival: loop {
            line.ends[0].reap();
            for queue in 0..line.ends[1].queues.rx.len() {
                let mut out = Vec::new();
                line.ends[1].receive(queue, &mut out);
                if let Some(got) = out.first() {
                    assert!(got.meta.flags.contains(RxFlags::HASH) && got.meta.hash != 0);
                    queues.push(queue);
                    break 'arrival;
                }
            }
            assert!(watch.is_patient(false), "flow {number} is lost");
        }
    }
    queues
}

#[test]
fn flows_spread_over_queues_as_the_table_says_also_when_it_changes_in_mid_run() {
    let sim = wired(Kind::Igb);
    let config = Config {
        rx_queues: 4,
        tx_queues: 4,
        ..Config::default()
    };
    let mut line = Line::start(ports(&sim), &config).unwrap();
    let first = spread(&mut line, 64);
    for queue in 0..4 {
        let count = first.iter().filter(|&&at| at == queue).count();
        assert!(count > 3, "queue {queue} got {count} flows of 64");
    }
    assert_eq!(spread(&mut line, 64), first, "a flow stays where it is");
    let rss = |table: Vec<u16>| Rss {
        key: (1..=40).collect(),
        table,
    };
    line.ends[1].port.set_rss(&rss(vec![2])).unwrap();
    assert_eq!(spread(&mut line, 20), [2; 20]);
    line.ends[1].port.set_rss(&rss(vec![3, 1])).unwrap();
    let two = spread(&mut line, 40);
    assert!(
        two.contains(&1) && two.contains(&3) && !two.contains(&0),
        "{two:?}"
    );
    assert!(
        line.ends[1].port.set_rss(&rss(vec![4])).is_err(),
        "there is no queue 4"
    );
    stop(line, &sim);
}

/// Serves both ports until `done` says so of all that they said.
fn serve_until(line: &mut Line, mut done: impl FnMut(&[String]) -> bool) {
    let mut said = Vec::new();
    let started = Instant::now();
    while !done(&said) {
        assert!(started.elapsed() < 4 * PATIENCE, "they said only {said:?}");
        for end in &mut line.ends {
            said.extend(end.service().unwrap());
            // A queue clears its ring in a call of its owner's.
            end.reap();
        }
        let mut out = Vec::new();
        line.collect(0, &mut out);
        line.collect(1, &mut out);
    }
}

/// Moves frames both ways and compares them.
fn traffic(line: &mut Line, first: u64) {
    let macs = line.macs();
    for from in [0, 1] {
        let frames: Vec<_> = (first..first + 300)
            .map(|n| frame(macs[1 - from], macs[from], 60 + (n % 1000) as usize, n))
            .collect();
        let received = line.transfer(from, &frames, frames.len()).unwrap();
        same(&frames, &received).unwrap();
    }
}

#[test]
fn a_physical_function_that_is_reset_takes_its_vf_down_and_the_driver_starts_it_over() {
    let devices = [0, 1].map(|end| device(Kind::IgbVf, end));
    let pf: Pf = devices[0].pf();
    let sim = join(devices.map(|device| Box::new(device) as Box<dyn Device>));
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    traffic(&mut line, 0);
    for round in 1..4 {
        let macs = line.macs();
        let mut flying = (0..40).map(|n| frame(macs[1], macs[0], 70, n)).collect();
        line.ends[0].post(0, &mut flying, 40);
        pf.reset();
        serve_until(&mut line, |said| {
            said.iter().any(|event| event.contains("is back"))
        });
        line.settle(1).unwrap();
        assert_eq!(line.ends[0].in_flight(), 0);
        line.ends[0].arm();
        traffic(&mut line, round * 1000);
        let counted = line.ends[0].port.extended().unwrap();
        let recoveries = counted.iter().find(|row| row.name == "recoveries");
        assert_eq!(recoveries.unwrap().value, round);
        // The PF's reset makes its VFs' counters zero. What they counted between the last look and
        // the reset nobody knows; what is known is never too much.
        let counters = line.ends[0].port.counters().unwrap();
        for frames in [counters.tx_frames, counters.rx_frames] {
            let bounds = 300 * round..=340 * (round + 1);
            assert!(bounds.contains(&frames), "{frames} in round {round}");
        }
    }
    line.stop().unwrap();
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn a_device_that_was_reset_behind_the_driver_s_back_is_started_over() {
    for kind in [Kind::E1000e, Kind::Igb] {
        let sim = wired(kind);
        let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
        line.ends[0].port.set_promiscuous(true).unwrap();
        traffic(&mut line, 0);
        sim.function(0).reset().unwrap();
        serve_until(&mut line, |said| {
            said.iter().any(|event| event.contains("is back"))
        });
        traffic(&mut line, 1000);
        let stranger = [0x02, 0x77, 0, 0, 0, 1];
        let from = line.macs()[1];
        let bytes = frame(stranger, from, 80, 7);
        let received = line.transfer(1, std::slice::from_ref(&bytes), 1).unwrap();
        same(&[bytes], &received).unwrap();
        line.stop().unwrap();
    }
}

#[test]
fn a_device_that_is_pulled_out_is_an_error_and_no_hang_and_every_frame_comes_home() {
    for kind in KINDS {
        let sim = wired(kind);
        let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
        traffic(&mut line, 0);
        sim.faults(0).switch_on(Fault::Removed);
        let error = line.ends[0].port.service().unwrap_err();
        assert!(matches!(error, PortError::Gone { .. }), "{kind:?}: {error}");
        assert!(line.ends[0].port.counters().is_err());
        let [first, second] = line.ends;
        let macs_home = first.to_send.clone();
        let started = Instant::now();
        assert!(
            first.stop().is_err(),
            "a device that is gone does not stop well"
        );
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(macs_home.free(), macs_home.total());
        second.stop().unwrap();
    }
}

#[test]
fn a_reset_that_never_ends_is_told_and_the_port_can_be_started_afterwards() {
    for kind in [Kind::E1000, Kind::E1000e, Kind::Igb] {
        let sim = wired(kind);
        let [mut first, second] = ports(&sim);
        sim.faults(0).switch_on(Fault::StuckReset);
        let memory = hugemem::Memory::new(&hugemem::MemoryRequest {
            bytes: 1 << 20,
            pages: hugemem::Pages::HugeOrBase,
            node: None,
            spaces: vec![first.space()],
        });
        match first.start(&Config::default(), &memory.unwrap()) {
            Err(StartError::Port(PortError::Stuck { what, .. })) => {
                assert!(what.contains("reset"), "{what}");
            }
            Err(other) => panic!("{kind:?}: {other}"),
            Ok(_) => panic!("{kind:?} started in the middle of a reset"),
        }
        sim.faults(0).clear(Fault::StuckReset);
        let mut line = Line::start([first, second], &Config::default()).unwrap();
        traffic(&mut line, 0);
        line.stop().unwrap();
    }
}

#[test]
fn a_length_that_the_buffer_does_not_have_fails_the_port_in_words() {
    for kind in KINDS {
        let sim = wired(kind);
        let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
        traffic(&mut line, 0);
        sim.faults(1).inject(Fault::WrongLength, 1);
        let macs = line.macs();
        let mut frames = [frame(macs[1], macs[0], 100, 1)].into();
        line.ends[0].post(0, &mut frames, 1);
        let mut watch = Watch::new();
        let error = loop {
            let mut out = Vec::new();
            line.collect(1, &mut out);
            match line.ends[1].port.service() {
                Err(error) => break error,
                Ok(_) => assert!(watch.is_patient(false), "{kind:?}: nothing was said"),
            }
        };
        assert!(
            matches!(error, PortError::Broken { .. }),
            "{kind:?}: {error}"
        );
        let [first, second] = line.ends;
        second.stop().unwrap();
        first.stop().unwrap();
    }
}

#[test]
fn an_address_that_the_host_has_set_cannot_be_changed_and_the_refusal_says_the_cure() {
    let pinned = |end| {
        let mut options = E1000Options::of(Kind::IgbVf, [0x02, 0x1b, 0x21, 0, 0, end]);
        options.pf.mac = VfMac::Pinned;
        E1000::boxed(&format!("sim:igbvf/{end}"), &options)
    };
    let sim = join([pinned(0), pinned(1)]);
    let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
    assert_eq!(line.macs()[0], [0x02, 0x1b, 0x21, 0, 0, 0]);
    let error = line.ends[0].port.set_mac([2, 0, 0, 0, 0, 9]).unwrap_err();
    assert!(matches!(error, PortError::Refused { .. }), "{error}");
    assert!(error.remedy().unwrap().contains("ip link set"));
    assert_eq!(
        line.macs()[0],
        [0x02, 0x1b, 0x21, 0, 0, 0],
        "it is what it was"
    );
    traffic(&mut line, 0);
    stop(line, &sim);
}

#[test]
fn a_link_that_goes_down_is_told_and_frames_pass_when_it_is_up_again() {
    for kind in KINDS {
        let sim = wired(kind);
        let mut line = Line::start(ports(&sim), &Config::default()).unwrap();
        traffic(&mut line, 0);
        sim.set_link(false);
        serve_until(&mut line, |said| {
            said.iter().any(|event| event == "link down")
        });
        assert_eq!(line.ends[0].port.link().unwrap().state, LinkState::Down);
        sim.set_link(true);
        let is_up = |line: &mut Line| {
            let mut links = line.ends.iter_mut().map(|end| end.port.link().unwrap());
            links.all(|link| link.state == LinkState::Up)
        };
        let mut watch = Watch::new();
        while !is_up(&mut line) {
            assert!(watch.is_patient(false), "{kind:?}: the link stays down");
            line.serve().unwrap();
        }
        traffic(&mut line, 1000);
        line.stop().unwrap();
    }
}
