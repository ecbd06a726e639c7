use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::FileExt as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use vfio_user::Client;

use super::*;
use crate::e1000::{E1000, E1000Options, Kind};
use crate::{Sim, WireOptions};

const CONFIG: u32 = VFIO_PCI_CONFIG_REGION_INDEX;
/// Trigger, by eventfd; unmask, without data.
const TRIGGER: u32 = 0x24;
const UNMASK: u32 = 0x11;
const INTX: u32 = 0;
const MSIX: u32 = 2;

struct Rig {
    sim: Sim,
    client: Client,
    _served: Served,
    _folder: tempfile::TempDir,
}

fn rig(kind: Kind) -> Rig {
    let device = |n| {
        let options = E1000Options::of(kind, [2, 0, 0, 0, 0, n]);
        E1000::boxed(&format!("sim:{n}"), &options)
    };
    let sim = Sim::pair(device(0), device(1), WireOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let served = serve(sim.function(0), &path).unwrap();
    Rig {
        sim,
        client: Client::new(&path).unwrap(),
        _served: served,
        _folder: folder,
    }
}

impl Rig {
    fn read<const N: usize>(&mut self, region: u32, offset: u64) -> u32 {
        let mut data = [0; N];
        self.client.region_read(region, offset, &mut data).unwrap();
        data.iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u32::from(byte))
    }

    fn write<const N: usize>(&mut self, region: u32, offset: u64, value: u32) {
        let data = &value.to_le_bytes()[..N];
        self.client.region_write(region, offset, data).unwrap();
    }

    /// Memory and bus mastering on, MSI-X as `vectors` says.
    fn switch_on(&mut self, vectors: bool) {
        self.write::<2>(CONFIG, 4, 6);
        self.write::<2>(CONFIG, 0x72, u32::from(vectors) << 15);
    }
}

fn eventfd() -> EventFd {
    EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap()
}

/// True once the eventfd was signalled; false if that does not come.
fn fires(event: &EventFd, within_ms: u16) -> bool {
    let mut fds = [PollFd::new(event.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(within_ms)).unwrap() > 0 && event.read().is_ok()
}

#[test]
fn a_function_shows_its_identity_its_bars_and_their_sizes() {
    let mut rig = rig(Kind::E1000e);
    assert_eq!(rig.read::<4>(CONFIG, 0), 0x10d3_8086);
    assert_eq!(rig.client.region(0).unwrap().size, 0x2_0000);
    assert_eq!(rig.client.region(3).unwrap().size, 0x4000);
    assert_eq!(rig.client.region(1).unwrap().size, 0, "no flash");
    for (bar, size) in [(0, 0xfffe_0000), (2, 0xffff_ffe1), (3, 0xffff_c000)] {
        rig.write::<4>(CONFIG, 0x10 + 4 * bar, u32::MAX);
        assert_eq!(rig.read::<4>(CONFIG, 0x10 + 4 * bar), size);
    }
    rig.switch_on(false);
    assert_eq!(rig.read::<4>(0, 8) & 1, 1, "the status: full duplex");
    assert_eq!(rig.client.get_irq_info(MSIX).unwrap().count, 5);
    assert_eq!(rig.client.get_irq_info(INTX).unwrap().count, 1);
    assert_eq!(rig.sim.objections(), [""; 0]);
}

#[test]
fn memory_that_a_client_maps_is_the_devices_until_it_is_unmapped() {
    let mut rig = rig(Kind::E1000e);
    let file = tempfile::tempfile().unwrap();
    file.set_len(0x10_0000).unwrap();
    let fd = file.as_raw_fd();
    rig.client.dma_map(0x8000, 0x4000_0000, 0x8000, fd).unwrap();
    let mut memory = rig.sim.function(0).end().space.translator();
    let at = hugemem::Iova::from_device(0x4000_0100);
    memory.write(at, b"here").unwrap();
    let mut found = [0; 4];
    file.read_exact_at(&mut found, 0x8100).unwrap();
    assert_eq!(&found, b"here");
    rig.client.dma_unmap(0x4000_0000, 0x8000).unwrap();
    assert!(memory.write(at, b"gone").is_err());
    rig.client.dma_map(0, 0x4000_0000, 0x8000, fd).unwrap();
    assert!(memory.write(at, b"here").is_ok());
    // As QEMU does at its start: a range that holds everything.
    rig.client.dma_unmap(0, 1 << 63).unwrap();
    assert!(memory.write(at, b"gone").is_err());
}

#[test]
fn a_vector_is_sent_to_its_eventfd() {
    let mut rig = rig(Kind::E1000e);
    rig.switch_on(true);
    let events = [eventfd(), eventfd(), eventfd()];
    let fds = events.each_ref().map(|event| event.as_raw_fd());
    rig.client.set_irqs(MSIX, TRIGGER, 0, 3, &fds).unwrap();
    // Other causes to vector 2; the link's change asked for.
    rig.write::<4>(0, 0xe4, 0xa << 16);
    rig.write::<4>(0, 0xd0, 1 << 24);
    rig.write::<4>(0, 0xc8, 1 << 2);
    assert!(fires(&events[2], 5000));
    assert!(!fires(&events[0], 0) && !fires(&events[1], 0));
    assert_eq!(rig.sim.objections(), [""; 0]);
}

#[test]
fn the_line_is_sent_again_when_it_is_unmasked_and_still_high() {
    let mut rig = rig(Kind::E1000);
    rig.switch_on(false);
    let event = eventfd();
    let fds = [event.as_raw_fd()];
    rig.client.set_irqs(INTX, TRIGGER, 0, 1, &fds).unwrap();
    rig.write::<4>(0, 0xd0, 4);
    rig.write::<4>(0, 0xc8, 4);
    assert!(fires(&event, 5000));
    rig.write::<4>(0, 0xc8, 4);
    assert!(!fires(&event, 0), "it masks itself");
    rig.client.set_irqs(INTX, UNMASK, 0, 1, &[]).unwrap();
    assert!(fires(&event, 5000), "nobody has cleared the cause");
    assert_eq!(rig.read::<4>(0, 0xc0), 1 << 31 | 4);
    rig.client.set_irqs(INTX, UNMASK, 0, 1, &[]).unwrap();
    assert!(!fires(&event, 0), "the cause was cleared");
    rig.write::<4>(0, 0xc8, 4);
    assert!(fires(&event, 5000));
    assert_eq!(rig.read::<4>(0, 0xc0), 1 << 31 | 4);
    rig.write::<4>(0, 0xc8, 4);
    assert!(!fires(&event, 0), "it rises again while it is masked");
    rig.client.set_irqs(INTX, UNMASK, 0, 1, &[]).unwrap();
    assert!(fires(&event, 5000));
}

#[test]
fn a_reset_leaves_the_function_as_after_power_up() {
    let mut rig = rig(Kind::E1000e);
    rig.switch_on(false);
    rig.write::<4>(0, 0xd0, 4);
    rig.client.reset().unwrap();
    assert_eq!(rig.read::<2>(CONFIG, 4), 0, "nothing is decoded");
    rig.switch_on(false);
    assert_eq!(rig.read::<4>(0, 0xd0), 0);
}

#[test]
fn a_server_that_nobody_connects_to_ends() {
    let device = |n| E1000::boxed("sim:x", &E1000Options::of(Kind::E1000, [2, 0, 0, 0, 0, n]));
    let sim = Sim::pair(device(0), device(1), WireOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut served = serve(sim.function(0), &path).unwrap();
    let again = serve(sim.function(1), &path);
    assert!(matches!(again, Err(ServeError::Socket { .. })));
    let thread = served.thread.take().unwrap();
    drop(UnixStream::connect(&path).unwrap());
    thread.join().unwrap();
}
