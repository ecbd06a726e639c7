//! The port against a device that is a handful of registers and its commands.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use hugemem::{DmaSpace, Iova, Memory, MemoryRequest, PageSize, Pages, SimSpace};
use hw::{Bar, BarError, Function};
use port::{Config, LinkState, Offloads, Port, PortError, Queues, Rss, StartError};
use vmxnet3::{OpenError, Options, open};

/// The address that the device was made with, in its two registers.
const PERMANENT: [u32; 2] = [0x0102_5452, 0x0403];

/// What the device remembers.
struct State {
    config: [u8; 64],
    /// Revisions it offers.
    revisions: u32,
    upt: u32,
    gone: bool,
    /// What it answers to being activated.
    answer: u32,
    link: u32,
    mac: [u32; 2],
    area: [u32; 2],
    /// Commands given, in order.
    commands: Vec<u32>,
    /// All other registers written: window, offset, value.
    writes: Vec<(u8, u32, u32)>,
    last: u32,
    active: bool,
    space: Arc<SimSpace>,
    /// What the device counts: of the first send queue, and of the first receive queue.
    stats: [[u64; 10]; 2],
}

impl State {
    fn address(&self) -> u64 {
        u64::from(self.area[0]) | u64::from(self.area[1]) << 32
    }

    /// Bytes of the shared area.
    fn area<const N: usize>(&self, at: u64) -> [u8; N] {
        self.read(self.address() + at)
    }

    fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        let read = self
            .space
            .translator()
            .read(Iova::from_device(address), &mut bytes);
        read.expect("the address is mapped");
        bytes
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        let written = self
            .space
            .translator()
            .write(Iova::from_device(address), bytes);
        written.expect("the address is mapped");
    }

    fn word(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.area(at))
    }

    fn long(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.area(at))
    }

    fn queues(&self) -> [usize; 2] {
        let [tx, rx] = self.area(62);
        [tx.into(), rx.into()]
    }

    fn command(&mut self, command: u32) {
        self.commands.push(command);
        self.last = 0;
        match command {
            0xcafe_0000 => {
                self.last = self.answer;
                self.active = self.answer == 0;
                // As QEMU's does: it has the address that it was made with again.
                self.mac = PERMANENT;
            }
            0xcafe_0001 => self.active = false,
            0xcafe_0002 => (self.active, self.area) = (false, [0; 2]),
            0xf00d_0001 if self.active => {
                let first_rx = 256 * self.queues()[0] as u64;
                for (stats, queue) in self.stats.iter().zip([0, first_rx]) {
                    let bytes: Vec<_> = stats.iter().flat_map(|v| v.to_le_bytes()).collect();
                    self.write(self.long(40) + queue + 88, &bytes);
                }
            }
            0xf00d_0002 => self.last = self.link,
            0xf00d_0003 => self.last = PERMANENT[0],
            0xf00d_0004 => self.last = PERMANENT[1],
            _ => {}
        }
    }
}

/// The device, and a way to look into it.
#[derive(Clone)]
struct Fake(Arc<Mutex<State>>);

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with the lock held")
    }
}

#[derive(Clone)]
struct Window(Fake, u8);

impl Bar for Window {
    fn len(&self) -> u64 {
        4096
    }
    fn load8(&self, _: u32) -> u8 {
        u8::MAX
    }
    fn load16(&self, _: u32) -> u16 {
        u16::MAX
    }
    fn load32(&self, offset: u32) -> u32 {
        let state = self.0.state();
        match (self.1, offset) {
            _ if state.gone => u32::MAX,
            (1, 0x00) => state.revisions,
            (1, 0x08) => state.upt,
            (1, 0x20) => state.last,
            (1, 0x28) => state.mac[0],
            (1, 0x30) => state.mac[1],
            _ => 0,
        }
    }
    fn store8(&self, _: u32, _: u8) {}
    fn store16(&self, _: u32, _: u16) {}
    fn store32(&self, offset: u32, value: u32) {
        let mut state = self.0.state();
        match (self.1, offset) {
            (1, 0x10) => state.area = [value, 0],
            (1, 0x18) => state.area[1] = value,
            (1, 0x20) => state.command(value),
            (1, 0x28) => state.mac[0] = value,
            (1, 0x30) => state.mac[1] = value,
            (window, offset) => state.writes.push((window, offset, value)),
        }
    }
}

impl Function for Fake {
    type Bar = Window;

    fn name(&self) -> &str {
        "0000:03:00.0"
    }
    fn config8(&self, offset: u16) -> u8 {
        let state = self.state();
        if state.gone {
            u8::MAX
        } else {
            state.config[usize::from(offset)]
        }
    }
    fn config16(&self, offset: u16) -> u16 {
        u16::from_le_bytes([self.config8(offset), self.config8(offset + 1)])
    }
    fn config32(&self, offset: u16) -> u32 {
        u32::from(self.config16(offset)) | u32::from(self.config16(offset + 2)) << 16
    }
    fn set_config16(&self, offset: u16, value: u16) {
        let at = usize::from(offset);
        self.state().config[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    fn bar(&self, index: u8) -> Result<Window, BarError> {
        match index {
            0 | 1 => Ok(Window(self.clone(), index)),
            _ => Err(BarError::Absent { index }),
        }
    }
    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::clone(&self.state().space) as Arc<dyn DmaSpace>
    }
    fn reset(&self) -> io::Result<()> {
        Ok(())
    }
}

fn fake(revisions: u32) -> Fake {
    let mut config = [0; 64];
    config[..4].copy_from_slice(&[0xad, 0x15, 0xb0, 0x07]);
    // Left as a bus master by whoever had it before.
    config[4] = 4;
    Fake(Arc::new(Mutex::new(State {
        config,
        revisions,
        upt: 1,
        gone: false,
        answer: 0,
        link: 10_000 << 16 | 1,
        mac: [0; 2],
        area: [0; 2],
        commands: Vec::new(),
        writes: Vec::new(),
        last: 0,
        active: false,
        space: SimSpace::new(),
        stats: [[0; 10]; 2],
    })))
}

fn opened(fake: &Fake) -> Box<dyn Port> {
    open(fake.clone(), &Options::default()).expect("it is sound")
}

fn refused(fake: &Fake, options: &Options) -> OpenError {
    open(fake.clone(), options).err().expect("it does not open")
}

fn start(port: &mut dyn Port, config: &Config) -> Result<(Queues, Memory), StartError> {
    let memory = Memory::new(&MemoryRequest {
        bytes: port.ring_bytes(config).max(4096),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: vec![port.space()],
    })?;
    Ok((port.start(config, &memory)?, memory))
}

fn with(offloads: Offloads) -> Config {
    Config {
        offloads,
        ..Config::default()
    }
}

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
fn a_device_that_stops_a_queue_is_started_over_once_the_queues_have_cleared_their_rings() {
    let fake = fake(1);
    let mut port = opened(&fake);
    let (mut queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
    assert_eq!(port.service().unwrap(), [""; 0]);
    {
        let state = fake.state();
        state.write(state.address() + 696, &[2 | 4, 0, 0, 0]);
        state.write(state.long(40) + 80, &[1, 0, 0, 0, 2, 0, 0, 0x80]);
    }
    let events = port.service().unwrap();
    assert!(
        events
            .iter()
            .any(|e| e.contains("send queue 0: a frame in too many buffers")),
        "{events:?}"
    );
    assert!(
        fake.state().writes.contains(&(1, 0x40, 6)),
        "the events are acknowledged"
    );
    assert!(!fake.state().active && fake.state().config[4] & 4 == 0);
    assert_eq!(port.link().unwrap().state, LinkState::Down);
    port.service().unwrap();
    assert!(!fake.state().active, "a queue may still write its ring");
    queues.tx[0].poll();
    queues.rx[0].burst(&mut port::RxBurst::default());
    let events = port.service().unwrap();
    assert!(
        events.iter().any(|event| event.contains("is back")),
        "{events:?}"
    );
    assert!(fake.state().active);
    assert_eq!(queues.tx[0].state(), port::QueueState::Running);
    let extended = port.extended().unwrap();
    assert!(
        extended
            .iter()
            .any(|e| e.name == "recoveries" && e.value == 1)
    );
    port.stop(queues).unwrap();
}

#[test]
fn a_device_that_is_gone_is_an_error_everywhere_and_stops_all_the_same() {
    let fake = fake(1);
    let mut port = opened(&fake);
    let (queues, _memory) = start(port.as_mut(), &Config::default()).unwrap();
    fake.state().gone = true;
    assert!(matches!(port.link(), Err(PortError::Gone { .. })));
    assert!(matches!(port.counters(), Err(PortError::Gone { .. })));
    assert!(matches!(port.service(), Err(PortError::Gone { .. })));
    assert_eq!(queues.tx[0].state(), port::QueueState::Failed);
    assert!(matches!(
        port.set_promiscuous(true),
        Err(PortError::Gone { .. })
    ));
    assert!(matches!(port.stop(queues), Err(PortError::Gone { .. })));
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
