//! Opening PCI functions that are broken, gone, or no virtio device at all.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hugemem::{DmaSpace, Memory, MemoryRequest, PageSize, Pages, SimSpace};
use hw::{Bar, BarError, Function};
use port::{Config, Offloads, Port, PortError, StartError};
use virtio::{Choice, OpenError, Options, open_pci};

/// A function whose registers are bytes, but for the few that a device acts on.
#[derive(Clone)]
struct Fake {
    config: Arc<Mutex<[u8; 256]>>,
    bar: FakeBar,
    space: Arc<SimSpace>,
    /// An IOMMU stands before it.
    iommu: bool,
}

#[derive(Clone)]
struct FakeBar {
    bytes: Arc<Mutex<Vec<u8>>>,
    features: u64,
    /// The status register never reads as reset.
    stuck: bool,
    /// The device takes none of its own features.
    picky: bool,
    /// The device generation changes at every look.
    restless: bool,
    gone: Arc<AtomicBool>,
}

const COMMON: u32 = 0x100;
const NOTIFY: u32 = 0x200;
const DEVICE: u32 = 0x300;
const VERSION_1: u64 = 1 << 32;
const ACCESS_PLATFORM: u64 = 1 << 33;
const MAC: u64 = 1 << 5;

impl FakeBar {
    fn get(&self, offset: u32, len: usize) -> u32 {
        if self.gone.load(Ordering::Relaxed) {
            return u32::MAX;
        }
        let mut bytes = self
            .bytes
            .lock()
            .expect("no test panics with the lock held");
        if offset == COMMON + 0x15 && self.restless {
            bytes[COMMON as usize + 0x15] = bytes[COMMON as usize + 0x15].wrapping_add(1);
        }
        if offset == COMMON + 4 {
            let half = bytes[COMMON as usize] & 1;
            let word = (self.features >> (32 * half)) & u64::from(u32::MAX);
            return u32::try_from(word).expect("half of 64 bits is 32");
        }
        let at = offset as usize;
        (0..len).fold(0, |word, n| word | u32::from(bytes[at + n]) << (8 * n))
    }

    fn put(&self, offset: u32, len: usize, value: u32) {
        let mut bytes = self
            .bytes
            .lock()
            .expect("no test panics with the lock held");
        let mut value = value;
        if offset == COMMON + 0x14 {
            if self.stuck && value == 0 {
                value = 1;
            }
            if self.picky {
                value &= !8;
            }
        }
        for (byte, new) in bytes[offset as usize..]
            .iter_mut()
            .zip(value.to_le_bytes())
            .take(len)
        {
            *byte = new;
        }
    }
}

impl Bar for FakeBar {
    fn len(&self) -> u64 {
        0x400
    }
    fn load8(&self, offset: u32) -> u8 {
        self.get(offset, 1).to_le_bytes()[0]
    }
    fn load16(&self, offset: u32) -> u16 {
        let [a, b, ..] = self.get(offset, 2).to_le_bytes();
        u16::from_le_bytes([a, b])
    }
    fn load32(&self, offset: u32) -> u32 {
        self.get(offset, 4)
    }
    fn store8(&self, offset: u32, value: u8) {
        self.put(offset, 1, value.into());
    }
    fn store16(&self, offset: u32, value: u16) {
        self.put(offset, 2, value.into());
    }
    fn store32(&self, offset: u32, value: u32) {
        self.put(offset, 4, value);
    }
}

impl Function for Fake {
    type Bar = FakeBar;

    fn name(&self) -> &str {
        "0000:00:01.0"
    }
    fn config8(&self, offset: u16) -> u8 {
        if self.bar.gone.load(Ordering::Relaxed) {
            return u8::MAX;
        }
        self.config
            .lock()
            .expect("no test panics with the lock held")[usize::from(offset)]
    }
    fn config16(&self, offset: u16) -> u16 {
        u16::from_le_bytes([self.config8(offset), self.config8(offset + 1)])
    }
    fn config32(&self, offset: u16) -> u32 {
        u32::from(self.config16(offset)) | u32::from(self.config16(offset + 2)) << 16
    }
    fn set_config16(&self, offset: u16, value: u16) {
        self.set(offset, &value.to_le_bytes());
    }
    fn bar(&self, index: u8) -> Result<FakeBar, BarError> {
        match index {
            1 => Ok(self.bar.clone()),
            _ => Err(BarError::Absent { index }),
        }
    }
    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::clone(&self.space) as Arc<dyn DmaSpace>
    }
    fn reset(&self) -> io::Result<()> {
        Ok(())
    }
    fn is_behind_iommu(&self) -> bool {
        self.iommu
    }
}

impl Fake {
    fn set(&self, offset: u16, value: &[u8]) {
        let mut config = self
            .config
            .lock()
            .expect("no test panics with the lock held");
        let at = usize::from(offset);
        config[at..at + value.len()].copy_from_slice(value);
    }

    /// Adds a vendor capability at `at`, the next at `next`.
    fn capability(&self, at: u16, next: u8, kind: u8, bar: u8, (offset, len): (u32, u32)) {
        self.set(at, &[9, next, 20, kind, bar, 0, 0, 0]);
        self.set(at + 8, &offset.to_le_bytes());
        self.set(at + 12, &len.to_le_bytes());
        self.set(at + 16, &4u32.to_le_bytes());
    }

    fn register(&self, offset: u32, value: u16) {
        self.bar.put(offset, 2, value.into());
    }
}

/// A sound device with two rings of 256 slots.
fn fake() -> Fake {
    let bar = FakeBar {
        bytes: Arc::new(Mutex::new(vec![0; 0x400])),
        features: VERSION_1 | MAC,
        stuck: false,
        picky: false,
        restless: false,
        gone: Arc::default(),
    };
    let config = Arc::new(Mutex::new([0; 256]));
    let fake = Fake {
        config,
        bar,
        space: SimSpace::new(),
        iommu: false,
    };
    fake.set(0, &[0xf4, 0x1a, 0x41, 0x10]);
    fake.set(6, &[0x10, 0]);
    fake.set(0x34, &[0x40]);
    fake.capability(0x40, 0x60, 1, 1, (COMMON, 0x40));
    fake.capability(0x60, 0x80, 2, 1, (NOTIFY, 0x100));
    fake.capability(0x80, 0, 4, 1, (DEVICE, 0x40));
    fake.register(COMMON + 0x12, 2);
    fake.register(COMMON + 0x18, 256);
    for (n, byte) in (0..).zip([0x52, 0x54, 0, 1, 2, 3]) {
        fake.bar.put(DEVICE + n, 1, byte);
    }
    fake
}

fn refused(fake: Fake) -> OpenError {
    open_pci(fake, &Options::default())
        .err()
        .expect("it does not open")
}

fn start(port: &mut dyn Port, config: &Config) -> Result<(), StartError> {
    let request = MemoryRequest {
        bytes: port.ring_bytes(config),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: vec![port.space()],
    };
    let memory = Memory::new(&request)?;
    port.start(config, &memory).map(drop)
}

#[test]
fn a_sound_device_opens_with_its_address_and_limits() {
    let fake = fake();
    let port = open_pci(fake.clone(), &Options::default()).unwrap();
    assert_eq!(port.info().mac, [0x52, 0x54, 0, 1, 2, 3]);
    assert_eq!(port.info().pci, Some((0x1af4, 0x1041)));
    assert_eq!(port.info().device, "virtio-net (modern PCI)");
    assert_eq!(*port.caps().tx_slots.range.end(), 256);
    assert!(port.caps().tx_slots.power_of_two);
    assert_eq!(
        fake.config16(4) & 4,
        0,
        "it may not do DMA before it is started"
    );
}

#[test]
fn a_device_that_goes_around_the_iommu_is_refused() {
    let mut device = fake();
    device.iommu = true;
    let error = refused(device.clone());
    assert!(matches!(error, OpenError::AroundIommu { .. }), "{error}");
    assert!(error.remedy().unwrap().contains("iommu_platform=on"));
    device.bar.features |= ACCESS_PLATFORM;
    assert!(open_pci(device, &Options::default()).is_ok());
}

#[test]
fn what_is_no_virtio_network_device_is_named() {
    let fake = fake();
    fake.set(0, &[0x86, 0x80, 0xfb, 0x10]);
    let error = refused(fake);
    assert!(error.to_string().contains("8086:10fb"), "{error}");
    assert!(error.remedy().is_some());
}

#[test]
fn a_device_that_is_gone_is_told_from_a_broken_one() {
    let device = fake();
    device.bar.gone.store(true, Ordering::Relaxed);
    assert!(matches!(refused(device), OpenError::Gone { .. }));

    let device = fake();
    let mut port = open_pci(device.clone(), &Options::default()).unwrap();
    device.bar.gone.store(true, Ordering::Relaxed);
    assert!(matches!(port.link(), Err(PortError::Gone { .. })));
    assert!(matches!(port.service(), Err(PortError::Gone { .. })));
    let error = start(port.as_mut(), &Config::default()).err().unwrap();
    assert!(
        matches!(error, StartError::Port(PortError::Gone { .. })),
        "{error}"
    );
}

#[test]
fn a_structure_that_is_missing_or_outside_its_window_is_named() {
    let device = fake();
    device.set(0x43, &[7]);
    assert!(refused(device).to_string().contains("common configuration"));
    let device = fake();
    device.capability(0x60, 0x80, 2, 1, (0x3ff, 0x100));
    assert!(
        refused(device)
            .to_string()
            .contains("notification structure")
    );
    let device = fake();
    device.capability(0x40, 0x60, 1, 1, (u32::MAX - 8, 0x40));
    assert!(refused(device).to_string().contains("common configuration"));
}

#[test]
fn a_capability_for_a_reserved_bar_is_passed_over() {
    let device = fake();
    device.capability(0xa0, 0x40, 1, 6, (COMMON, 0x40));
    device.set(0x34, &[0xa0]);
    assert!(open_pci(device, &Options::default()).is_ok());
}

#[test]
fn a_capability_list_that_loops_ends() {
    let device = fake();
    device.set(0x81, &[0x40]);
    assert!(open_pci(device, &Options::default()).is_ok());
}

#[test]
fn a_reset_that_never_ends_is_given_up() {
    let mut device = fake();
    device.bar.stuck = true;
    let error = refused(device);
    assert!(error.to_string().contains("reset"), "{error}");
}

#[test]
fn a_configuration_that_never_rests_is_given_up() {
    let mut device = fake();
    device.bar.restless = true;
    assert!(
        refused(device)
            .to_string()
            .contains("faster than it can be read")
    );
}

#[test]
fn features_that_are_missing_or_refused_are_named() {
    let mut device = fake();
    device.bar.features = MAC;
    assert!(refused(device).to_string().contains("VERSION_1"));
    let options = Options {
        in_order: Choice::On,
        ..Options::default()
    };
    let error = open_pci(fake(), &options).err().unwrap();
    assert!(error.to_string().contains("in_order=on"), "{error}");
    let mut device = fake();
    device.bar.picky = true;
    let mut port = open_pci(device, &Options::default()).unwrap();
    let error = start(port.as_mut(), &Config::default()).err().unwrap();
    assert!(error.to_string().contains("VERSION_1"), "{error}");
}

#[test]
fn a_notification_address_outside_its_structure_is_refused() {
    let device = fake();
    device.register(COMMON + 0x1e, 0x40);
    let mut port = open_pci(device.clone(), &Options::default()).unwrap();
    let error = start(port.as_mut(), &Config::default()).err().unwrap();
    assert!(
        error.to_string().contains("notification address"),
        "{error}"
    );
    assert_eq!(device.config16(4) & 4, 0, "DMA is off again");
}

#[test]
fn a_device_without_rings_is_broken() {
    let device = fake();
    device.register(COMMON + 0x18, 0);
    assert!(
        refused(device)
            .to_string()
            .contains("no receive or no send ring")
    );
    let device = fake();
    device.register(COMMON + 0x12, 0);
    assert!(
        refused(device)
            .to_string()
            .contains("no receive or no send ring")
    );
}

#[test]
fn more_than_the_device_can_do_is_an_error_that_says_what_it_can() {
    let mut port = open_pci(fake(), &Options::default()).unwrap();
    for (config, words) in [
        (
            Config {
                tx_queues: 2,
                ..Config::default()
            },
            "at most 1",
        ),
        (
            Config {
                tx_slots: Some(512),
                ..Config::default()
            },
            "2 to 256 slots",
        ),
        (
            Config {
                rx_slots: Some(100),
                ..Config::default()
            },
            "a power of two",
        ),
        (
            Config {
                rx_capacity: 10,
                ..Config::default()
            },
            "60 at least",
        ),
        (
            Config {
                offloads: Offloads::TX_L4_CHECKSUM,
                ..Config::default()
            },
            "TX_L4_CHECKSUM",
        ),
    ] {
        let error = start(port.as_mut(), &config).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(matches!(
        port.set_promiscuous(true),
        Err(PortError::NotOffered { .. })
    ));
    assert!(port.set_mtu(1 << 20).is_err());
    assert!(port.set_mtu(9000).is_ok());
    start(port.as_mut(), &Config::default()).unwrap();
    assert!(port.set_mtu(1500).is_err(), "not while it is started");
}

#[test]
fn a_device_is_stopped_when_its_port_is_dropped() {
    let device = fake();
    let mut port = open_pci(device.clone(), &Options::default()).unwrap();
    start(port.as_mut(), &Config::default()).unwrap();
    assert_eq!(device.config16(4) & 4, 4);
    assert_eq!(device.bar.load8(COMMON + 0x14), 15);
    drop(port);
    assert_eq!(device.config16(4) & 4, 0);
    assert_eq!(device.bar.load8(COMMON + 0x14), 0);
}
