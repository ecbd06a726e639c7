//! The registers of single queues.

use hugemem::Dma;
use hw::Bar;
use intel::Slot;
use intel::wait::{Limit, stuck, until};
use port::PortError;

use crate::kind::Kind;
use crate::regs::{QueueRegs, Rctl, Rxdctl, Srrctl, Txdctl};

/// How long a queue may take to say that it runs. Linux waits for 10 ms.
const START: Limit = Limit::of(100, 20);

/// The bits of receive control for buffers of `bytes` (developer's manual §13.4.22).
pub(crate) fn buffer_bits(bytes: u16) -> Rctl {
    match bytes {
        16_384 => Rctl::BSEX | Rctl::BSIZE_LOW,
        8_192 => Rctl::BSEX | Rctl::BSIZE_HIGH,
        4_096 => Rctl::BSEX | Rctl::BSIZE_LOW | Rctl::BSIZE_HIGH,
        1_024 => Rctl::BSIZE_LOW,
        512 => Rctl::BSIZE_HIGH,
        256 => Rctl::BSIZE_LOW | Rctl::BSIZE_HIGH,
        // 2048, and igb's own sizes, which its queues have in SRRCTL.
        _ => Rctl::empty(),
    }
}

/// Shows the device a ring: its address, its length, and that it is empty. Head and tail are
/// written although a reset makes them zero: that of QEMU's e1000 does not.
fn place<B: Bar>(bar: &B, regs: QueueRegs, ring: &Dma<Slot>) {
    let bytes = ring.len() * size_of::<Slot>();
    bar.write(regs.base(), ring.iova().get());
    bar.write(regs.len(), u32::try_from(bytes).unwrap_or(0));
    bar.write(regs.head(), 0);
    bar.write(regs.tail(), 0);
}

/// A receive queue of 8254x or 82574.
pub(crate) fn set_up_legacy_rx<B: Bar>(bar: &B, regs: QueueRegs, ring: &Dma<Slot>) {
    place(bar, regs, ring);
    bar.write(regs.rxdctl(), Rxdctl::GRAN | Rxdctl::WTHRESH_1);
}

/// A send queue of 8254x or 82574.
pub(crate) fn set_up_legacy_tx<B: Bar>(bar: &B, regs: QueueRegs, ring: &Dma<Slot>, kind: Kind) {
    place(bar, regs, ring);
    let mut control = Txdctl::GRAN | Txdctl::WTHRESH_1;
    if kind == Kind::E1000e {
        control |= Txdctl::COUNT_DESC;
    }
    bar.write(regs.txdctl(), control);
}

/// A receive queue of 82576, with buffers of `buffer` bytes.
pub(crate) fn set_up_advanced_rx<B: Bar>(
    bar: &B,
    regs: QueueRegs,
    ring: &Dma<Slot>,
    buffer: u16,
    drops: bool,
) {
    place(bar, regs, ring);
    // In units of 1 KiB; 0 for what receive control says (82576 §8.10.2).
    let size = Srrctl::from_bits_retain(u32::from(buffer / 1024));
    let mut control = size | Srrctl::ONE_BUFFER;
    if drops {
        control |= Srrctl::DROP_EN;
    }
    bar.write(regs.srrctl(), control);
}

/// A send queue of 82576, which writes completions to the ring and nowhere else.
pub(crate) fn set_up_advanced_tx<B: Bar>(bar: &B, regs: QueueRegs, ring: &Dma<Slot>) {
    place(bar, regs, ring);
    bar.write(regs.tdwb(), 0);
}

/// Starts a receive queue of 82576. Its tail may be written only once it says that it runs
/// (82576 §4.5.9).
pub(crate) fn start_rx<B: Bar>(bar: &B, regs: QueueRegs, port: &str) -> Result<(), PortError> {
    let thresholds = Rxdctl::PTHRESH_8 | Rxdctl::HTHRESH_8 | Rxdctl::WTHRESH_1;
    bar.write(regs.rxdctl(), thresholds | Rxdctl::ENABLE);
    until(START, || {
        let runs = bar.read(regs.rxdctl()).contains(Rxdctl::ENABLE);
        runs.then_some(())
    })
    .ok_or_else(|| stuck(port, "the start of a receive queue", START))
}

/// Starts a send queue of 82576 (82576 §4.5.10). With no threshold completions are written back
/// one by one, at once.
pub(crate) fn start_tx<B: Bar>(bar: &B, regs: QueueRegs, port: &str) -> Result<(), PortError> {
    let thresholds = Txdctl::PTHRESH_8 | Txdctl::HTHRESH_1;
    bar.write(regs.txdctl(), thresholds | Txdctl::ENABLE);
    until(START, || {
        let runs = bar.read(regs.txdctl()).contains(Txdctl::ENABLE);
        runs.then_some(())
    })
    .ok_or_else(|| stuck(port, "the start of a send queue", START))
}

/// Stops a receive queue.
pub(crate) fn stop_rx<B: Bar>(bar: &B, regs: QueueRegs) {
    bar.update(regs.rxdctl(), |control| control - Rxdctl::ENABLE);
}

/// Stops a send queue.
pub(crate) fn stop_tx<B: Bar>(bar: &B, regs: QueueRegs) {
    bar.update(regs.txdctl(), |control| control - Txdctl::ENABLE);
}
