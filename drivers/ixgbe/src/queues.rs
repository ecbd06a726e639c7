//! The registers of single queues.

use hugemem::Dma;
use hw::Bar;
use intel::Slot;
use intel::wait::{Limit, stuck, until};
use port::PortError;

use crate::regs::{QueueRegs, Rxdctl, Srrctl, Txdctl};

/// How long a queue may take to say that it runs. Linux and DPDK wait for 10 ms.
const START: Limit = Limit::of(100, 20);
/// How long a queue may take to say that it has stopped.
const STOP: Limit = Limit::of(20, 20);

/// DCA_RXCTRL: reserved, set after a reset, and to be cleared (ixy, `start_rx_queue`; Linux clears
/// it with relaxed ordering of header writes).
const DCA_RESERVED: u32 = 1 << 12;

/// Shows the device a ring: its address, its length, and that it is empty.
fn place<B: Bar>(bar: &B, regs: QueueRegs, ring: &Dma<Slot>) {
    let bytes = ring.len() * size_of::<Slot>();
    bar.write(regs.base(), ring.iova().get());
    bar.write(regs.len(), u32::try_from(bytes).unwrap_or(0));
    bar.write(regs.head(), 0);
    bar.write(regs.tail(), 0);
}

/// How a receive queue works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RxSettings {
    /// Bytes of a buffer, in whole KiB.
    pub(crate) buffer: u16,
    /// Drops frames that find no buffer, instead of holding them, and all queues, up.
    pub(crate) drops: bool,
    /// Strips VLAN tags.
    pub(crate) strips: bool,
}

/// Sets a receive queue up and starts it. Its tail may be written only once it says that it runs
/// (82599 datasheet §4.6.7).
pub(crate) fn start_rx<B: Bar>(
    bar: &B,
    regs: QueueRegs,
    ring: &Dma<Slot>,
    settings: RxSettings,
    port: &str,
) -> Result<(), PortError> {
    place(bar, regs, ring);
    let size = Srrctl::from_bits_retain(u32::from(settings.buffer / 1024));
    let mut control = size | Srrctl::ONE_BUFFER;
    control.set(Srrctl::DROP_EN, settings.drops);
    bar.write(regs.srrctl(), control);
    bar.update(regs.dca(), |bits| bits & !DCA_RESERVED);
    bar.update(regs.rxdctl(), |mut control| {
        control.remove(Rxdctl::RLPML);
        control.set(Rxdctl::VME, settings.strips);
        control | Rxdctl::ENABLE
    });
    until(START, || {
        let runs = bar.read(regs.rxdctl()).contains(Rxdctl::ENABLE);
        runs.then_some(())
    })
    .ok_or_else(|| stuck(port, "the start of a receive queue", START))
}

/// Sets a send queue up and starts it (82599 datasheet §4.6.8). With a write-back threshold of
/// zero, reports are written at once, for the packets that ask for one.
pub(crate) fn start_tx<B: Bar>(
    bar: &B,
    regs: QueueRegs,
    ring: &Dma<Slot>,
    port: &str,
) -> Result<(), PortError> {
    place(bar, regs, ring);
    bar.write(regs.tdwb(), 0);
    let thresholds = Txdctl::PTHRESH_32 | Txdctl::HTHRESH_1;
    bar.write(regs.txdctl(), thresholds | Txdctl::ENABLE);
    until(START, || {
        let runs = bar.read(regs.txdctl()).contains(Txdctl::ENABLE);
        runs.then_some(())
    })
    .ok_or_else(|| stuck(port, "the start of a send queue", START))
}

/// Stops a receive queue. One that does not stop is cut off by the bus.
pub(crate) fn stop_rx<B: Bar>(bar: &B, regs: QueueRegs) {
    bar.update(regs.rxdctl(), |control| control - Rxdctl::ENABLE);
    // A device that is gone reads as ones: that is no reason to wait.
    let _ = until(STOP, || {
        let control = bar.read(regs.rxdctl());
        let over = !control.contains(Rxdctl::ENABLE) || control == Rxdctl::all();
        over.then_some(())
    });
}

/// Stops a send queue, and makes it forget what it has fetched.
pub(crate) fn stop_tx<B: Bar>(bar: &B, regs: QueueRegs) {
    bar.write(regs.txdctl(), Txdctl::SWFLSH);
}
