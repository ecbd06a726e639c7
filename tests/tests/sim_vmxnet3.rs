//! The vmxnet3 driver on the model of a vmxnet3: the whole conformance suite, for each way in which
//! the two can agree on rings, and what the suite does not ask.

use std::sync::Arc;

use models::vmxnet3::{Notify, Vmxnet3, Vmxnet3Options, register_map};
use models::{Fault, Sim, SimOptions, WireOptions};
use port::{Config, Offloads, Port, RxFlags};
use rig::conformance::{Failure, Line, Pair, Watch, frame, run_all, same};
use vmxnet3::Options;

/// A device, and a driver for it.
#[derive(Debug, Clone, Default)]
struct Variant {
    device: Vmxnet3Options,
    driver: Options,
}

impl Variant {
    /// A device that offers revisions up to `revision`.
    fn revision(revision: u8) -> Self {
        let mut variant = Self::default();
        variant.device.revision = revision;
        variant
    }

    /// With `change`.
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

fn wired(variant: &Variant) -> Arc<Sim> {
    let device = |last: u8| {
        let mut options = variant.device.clone();
        options.mac = [0x00, 0x50, 0x56, 0, 0, last];
        Vmxnet3::boxed(&format!("sim:vmxnet3/{last}"), &options)
    };
    let options = SimOptions {
        // Tests run side by side, so a model gives its core away when it has nothing to do.
        busy_threads: usize::MAX,
        ..SimOptions::default()
    };
    let wire = WireOptions::default();
    Arc::new(Sim::with_options(device(0), device(1), wire, options))
}

fn open(sim: &Sim, variant: &Variant) -> Result<[Box<dyn Port>; 2], Failure> {
    let port = |end| {
        vmxnet3::open(sim.function(end), &variant.driver)
            .map_err(|error| Failure::Found(error.to_string()))
    };
    Ok([port(0)?, port(1)?])
}

fn pair(variant: &Variant) -> Result<Pair, Failure> {
    let sim = wired(variant);
    Ok(Pair {
        ports: open(&sim, variant)?,
        objections: Box::new(move || {
            let mut objections = sim.objections();
            for end in [0, 1] {
                // While nothing moves; a check leaves with both ports stopped.
                let lost = sim.unaccounted(end);
                if lost != 0 {
                    objections.push(format!("{lost} frames from end {end} are unaccounted for"));
                }
            }
            objections
        }),
    })
}

#[track_caller]
fn conforms(variant: &Variant) {
    match run_all(&|| pair(variant)) {
        Ok(lines) => {
            let held = lines.iter().filter(|line| line.starts_with("ok: ")).count();
            assert!(
                held >= 22,
                "hardly anything was checked:\n{}",
                lines.join("\n")
            );
            println!("{}", lines.join("\n"));
        }
        Err(failures) => panic!("{variant:?}\n{failures}"),
    }
}

macro_rules! variants {
    ($($name:ident: $variant:expr;)*) => {
        $(#[test]
        fn $name() {
            conforms(&$variant);
        })*
    };
}

variants! {
    the_newest_device_conforms: Variant::default();
    a_device_like_qemus_conforms: Variant::default().with(|variant| {
        variant.device = Vmxnet3Options::qemu();
    });
    revision_2_conforms: Variant::revision(2);
    revision_3_with_both_data_rings_conforms: Variant::revision(3);
    revision_4_without_data_rings_conforms: Variant::revision(4).with(|variant| {
        variant.driver.data_ring = Some(false);
        variant.driver.rx_data_ring = Some(false);
    });
    revision_1_with_a_data_ring_conforms: Variant::revision(1).with(|variant| {
        variant.driver.data_ring = Some(true);
    });
    a_device_that_polls_and_is_told_every_32_frames_conforms: Variant::default().with(|variant| {
        variant.device.notify = Notify::Polls;
        variant.device.tx_threshold = 32;
    });
    a_device_that_wants_to_be_told_of_armed_slots_conforms: Variant::default().with(|variant| {
        variant.device.update_rx_prod = true;
    });
    a_device_that_keeps_its_address_when_it_is_activated_conforms:
        Variant::revision(1).with(|variant| {
            variant.device.activation_resets_mac = false;
            variant.device.rx_checksum = false;
        });
}

fn line(variant: &Variant, config: &Config, mtu: Option<usize>) -> (Line, Arc<Sim>) {
    let sim = wired(variant);
    let mut ports = open(&sim, variant).expect("the driver opens its model");
    for port in &mut ports {
        if let Some(mtu) = mtu {
            port.set_mtu(mtu).expect("the device takes it");
        }
    }
    let line = Line::start(ports, config).expect("the ports start");
    (line, sim)
}

fn no_objections(line: Line, sim: &Sim) {
    line.stop().expect("the ports stop");
    assert_eq!(sim.objections(), [""; 0]);
}

#[test]
fn jumbo_frames_arrive_whole_in_one_buffer_and_in_many() {
    let jumbo = |rx_capacity, offloads| Config {
        rx_capacity,
        offloads,
        ..Config::default()
    };
    for (config, buffers) in [
        (jumbo(9216, Offloads::empty()), 1),
        (jumbo(2048, Offloads::RX_SCATTER), 5),
        (jumbo(512, Offloads::RX_SCATTER), 18),
    ] {
        let (mut line, sim) = line(&Variant::default(), &config, Some(9000));
        let macs = line.macs();
        let frames: Vec<_> = (0..300_usize)
            .map(|n| frame(macs[1], macs[0], 60 + n * 31 % 8955, n as u64))
            .chain([frame(macs[1], macs[0], 9014, 300)])
            .collect();
        let mut most = 0;
        for portion in frames.chunks(20) {
            let received = line.transfer(0, portion, portion.len()).unwrap();
            same(portion, &received).unwrap();
            most = received
                .iter()
                .map(|got| got.buffers)
                .fold(most, usize::max);
        }
        assert_eq!(most, buffers, "{config:?}");
        no_objections(line, &sim);
    }
}

#[test]
fn a_frame_that_its_buffer_does_not_hold_is_an_error_and_the_next_arrives() {
    let config = Config {
        rx_capacity: 1024,
        ..Config::default()
    };
    let (mut line, sim) = line(&Variant::revision(1), &config, None);
    let macs = line.macs();
    let frames = [1500, 200].map(|len| frame(macs[1], macs[0], len, 1));
    let mut received = line.transfer(0, &frames, 1).unwrap();
    while received.last().is_none_or(|last| last.bytes != frames[1]) {
        received.extend(line.transfer(0, &[], 1).unwrap());
    }
    for got in &received[..received.len() - 1] {
        assert!(got.meta.flags.contains(RxFlags::ERROR), "{:?}", got.meta);
    }
    let counters = line.ends[1].port.counters().unwrap();
    assert_eq!((counters.rx_frames, counters.rx_errors), (1, 1));
    no_objections(line, &sim);
}

#[test]
fn frames_without_a_buffer_are_counted_as_missed_to_the_frame() {
    let sim = wired(&Variant::default());
    let ports = open(&sim, &Variant::default()).unwrap();
    let mut line = Line::start_unarmed(ports, &Config::default()).unwrap();
    let macs = line.macs();
    let frames: Vec<_> = (0..77).map(|n| frame(macs[1], macs[0], 70, n)).collect();
    line.transfer(0, &frames, 0).unwrap();
    while line.ends[1].port.counters().unwrap().rx_missed < 77 {
        std::thread::yield_now();
    }
    line.settle_unarmed(1).unwrap();
    let counters = line.ends[1].port.counters().unwrap();
    assert_eq!(
        (counters.rx_missed, counters.rx_frames, counters.rx_errors),
        (77, 0, 0)
    );
    no_objections(line, &sim);
}

/// A UDP packet of IPv4 from a port of that number.
fn flow(to: [u8; 6], from: [u8; 6], number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    let ip = [
        0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, high, low, 10, 1, 0, 1,
    ];
    let udp = [high, low, 0, 9, 0, 26, 0, 0];
    let mut bytes = [&to[..], &from[..], &[8, 0], &ip, &udp, &[0; 18]].concat();
    bytes[24..26].copy_from_slice(&checksum(&ip).to_be_bytes());
    bytes
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("a sum folded twice has 16 bits")
}

#[test]
fn flows_spread_over_the_queues_of_the_table_each_to_one() {
    let config = Config {
        rx_queues: 4,
        ..Config::default()
    };
    let (mut line, sim) = line(&Variant::default(), &config, None);
    let macs = line.macs();
    let mut queue_of = Vec::new();
    for round in 0..3 {
        for number in 0..100 {
            let bytes = flow(macs[1], macs[0], number);
            line.ends[0].post(0, &mut vec![bytes.clone()].into(), 1);
            let mut found = None;
            while found.is_none() {
                line.ends[0].reap();
                for queue in 0..4 {
                    let mut got = Vec::new();
                    line.ends[1].receive(queue, &mut got);
                    if let Some(got) = got.pop() {
                        assert_eq!(got.bytes, bytes);
                        assert!(got.meta.flags.contains(RxFlags::HASH));
                        found = Some(queue);
                    }
                }
                line.serve().unwrap();
            }
            if round == 0 {
                queue_of.push(found);
            }
            assert_eq!(queue_of[usize::from(number)], found, "flow {number}");
        }
    }
    for queue in 0..4 {
        let share = queue_of.iter().filter(|&&of| of == Some(queue)).count();
        assert!(share > 5, "queue {queue} has {share} of 100 flows");
    }
    let all_to_2 = port::Rss {
        key: (0..40).map(|n| [0x6d, 0x5a][n % 2]).collect(),
        table: vec![2; 16],
    };
    let refused = line.ends[1].port.set_rss(&all_to_2);
    assert!(refused.is_err(), "another key is taken while it runs");
    no_objections(line, &sim);
}

#[test]
fn a_tag_is_inserted_on_sending_and_stripped_on_receiving() {
    let config = Config {
        offloads: Offloads::TX_VLAN | Offloads::RX_VLAN,
        ..Config::default()
    };
    let (mut line, sim) = line(&Variant::default(), &config, None);
    let macs = line.macs();
    let bytes = frame(macs[1], macs[0], 100, 3);
    let mut burst = hugemem::Burst::new();
    line.ends[0].to_send.take_burst(&mut burst, 1);
    for frame in &mut burst {
        frame.fill(&bytes);
        frame.vlan = 0x6123;
        frame.flags = hugemem::TxFlags::VLAN;
    }
    assert_eq!(line.ends[0].queues.tx[0].burst(&mut burst), 1);
    let got = line.transfer(0, &[], 1).unwrap().remove(0);
    assert_eq!(got.bytes, bytes);
    assert_eq!((got.meta.vlan, got.meta.flags), (0x6123, RxFlags::VLAN));
    let counters = line.ends[0].port.counters().unwrap();
    assert_eq!(counters.tx_frames, 1);
    no_objections(line, &sim);
}

#[test]
fn driver_and_model_have_each_register_in_the_same_place() {
    let [commands, frames] = register_map();
    for (driver, model) in vmxnet3::registers().into_iter().zip([frames, commands]) {
        for register in driver {
            let same = model.iter().find(|of| of.name == register.name);
            let same = same.unwrap_or_else(|| panic!("the model has no {}", register.name));
            assert_eq!(register.offset, same.offset, "{}", register.name);
            assert!(register.count <= same.count, "{}", register.name);
            assert!(register.count == 1 || register.stride == same.stride);
        }
        assert!(driver.len() >= 4);
    }
}

/// A line that has moved frames both ways.
fn warm(variant: &Variant) -> (Line, Arc<Sim>) {
    let (mut line, sim) = line(variant, &Config::default(), None);
    for from in [0, 1] {
        exchange(&mut line, from, 100);
    }
    (line, sim)
}

fn exchange(line: &mut Line, from: usize, count: u64) {
    let macs = line.macs();
    let frames: Vec<_> = (0..count)
        .map(|n| frame(macs[1 - from], macs[from], 80, n))
        .collect();
    let received = line
        .transfer(from, &frames, frames.len())
        .expect("all of them arrive");
    same(&frames, &received).expect("they are what was sent");
}

/// Sends from end 0 to end 1 until `done`, whatever the ports say; what they said.
fn drive(line: &mut Line, done: impl Fn(&mut Line, &[String]) -> bool) -> Vec<String> {
    let macs = line.macs();
    let (mut said, mut arrived) = (Vec::new(), Vec::new());
    let mut watch = Watch::new();
    while !done(line, &said) && watch.is_patient(false) {
        let mut frames = (0..8).map(|n| frame(macs[1], macs[0], 100, n)).collect();
        line.ends[0].post(0, &mut frames, 8);
        line.ends[0].reap();
        // Both: a queue that is paused clears its rings when its owner calls.
        line.collect(0, &mut arrived);
        line.collect(1, &mut arrived);
        arrived.clear();
        for end in &mut line.ends {
            match end.port.service() {
                Ok(events) => said.extend(events),
                Err(error) => said.push(format!("failed: {error}")),
            }
        }
    }
    said
}

/// Stops both ports: every frame must be home, whatever the devices did.
fn come_home(line: Line) {
    for end in line.ends {
        let rig::conformance::End {
            mut port,
            queues,
            to_send,
            to_arm,
            ..
        } = end;
        // A device that is gone says so here too.
        let _ = port.stop(queues);
        to_send.close().expect("every frame is home");
        to_arm.close().expect("every frame is home");
    }
}

#[test]
fn a_device_that_lies_about_a_slot_or_a_length_fails_its_port_in_words() {
    for (fault, at, words) in [
        (
            Fault::IdOutOfRange,
            0,
            "send queue 0: the device completed slot",
        ),
        (
            Fault::IdOutOfRange,
            1,
            "receive queue 0: the device completed slot",
        ),
        (
            Fault::WrongLength,
            1,
            "bytes into a buffer that holds fewer",
        ),
    ] {
        let (mut line, sim) = warm(&Variant::default());
        sim.faults(at).switch_on(fault);
        let said = drive(&mut line, |_, said| {
            said.iter().any(|what| what.starts_with("failed: "))
        });
        assert!(sim.faults(at).done(fault) > 0, "{fault:?} never struck");
        assert!(
            said.iter().any(|what| what.contains(words)),
            "{fault:?}: {said:?}"
        );
        come_home(line);
    }
}

#[test]
fn a_lost_completion_loses_at_most_its_frame_and_no_buffer() {
    for (fault, at) in [(Fault::TxCompletionLost, 0), (Fault::RxCompletionLost, 1)] {
        let (mut line, sim) = warm(&Variant::default());
        sim.faults(at).inject(fault, 3);
        let said = drive(&mut line, |_, _| sim.faults(at).done(fault) == 3);
        assert_eq!(sim.faults(at).done(fault), 3, "{fault:?}: {said:?}");
        line.settle(1).unwrap();
        // Three laps: a buffer that was lost would be missing for good.
        for _ in 0..32 {
            exchange(&mut line, 0, 100);
        }
        assert_eq!(line.ends[0].in_flight(), 0, "{fault:?}");
        line.stop().unwrap();
    }
}

#[test]
fn a_device_that_stops_its_queues_is_started_over_and_frames_pass_again() {
    let (mut line, sim) = warm(&Variant::default());
    for round in 1..4 {
        sim.faults(0).inject(Fault::NeedsReset, 1);
        let said = drive(&mut line, |_, said| {
            said.iter().any(|what| what.contains("the device is back"))
        });
        assert!(said.iter().any(|what| what.contains("is back")), "{said:?}");
        assert!(
            said.iter()
                .any(|what| what.contains("stopped send queue 0")),
            "{said:?}"
        );
        line.settle(1).unwrap();
        for from in [0, 1] {
            exchange(&mut line, from, 100);
        }
        let extended = line.ends[0].port.extended().unwrap();
        assert!(
            extended
                .iter()
                .any(|e| e.name == "recoveries" && e.value == round)
        );
    }
    line.stop().unwrap();
}

#[test]
fn a_device_that_is_pulled_out_is_an_error_and_never_a_hang() {
    let (mut line, sim) = warm(&Variant::default());
    sim.faults(0).switch_on(Fault::Removed);
    let said = drive(&mut line, |_, said| {
        said.iter().any(|what| what.starts_with("failed: "))
    });
    assert!(
        said.iter().any(|what| what.contains("the device is gone")),
        "{said:?}"
    );
    assert!(line.ends[0].port.link().is_err() && line.ends[0].port.counters().is_err());
    come_home(line);
}
