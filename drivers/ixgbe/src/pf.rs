//! A physical function: from reset to running, in the datasheet's order (82599 datasheet §4.6).

use std::sync::Arc;
use std::time::Duration;

use hw::Bar;
use hw::function::{Function, set_bus_master};
use intel::wait::{Limit, stuck, until};
use intel::{Change, Control, Counted, Health, Setup, Spread, Wanted};
use port::{Link, Mac as Address, Offloads, PortError};

use crate::error::OpenError;
use crate::filter;
use crate::kind::{Mac, Media, Model};
use crate::link;
use crate::queues::{self, RxSettings};
use crate::regs::{
    self, Ctrl, CtrlExt, Dmatxctl, Eec, Fctrl, Hlreg0, Links, Mflcn, Mrqc, QueueRegs, Rdrxctl,
    Rfctl, Rttdcs, Rxcsum, Rxctrl, Secrxctrl, Secrxstat, Status, Vlnctrl,
};
use crate::stats::Totals;

/// How long a reset may take. DPDK waits for 10 ms.
const RESET: Limit = Limit::of(500, 100);
/// After a reset the device is left alone for so long (Linux, `ixgbe_reset_hw_82599`).
const QUIET: Duration = Duration::from_millis(50);
/// How long the device may take to read its settings, and its DMA to begin.
const SETTINGS: Limit = Limit::of(2_000, 200);
/// How long transfers that were begun may take to end (82599 datasheet §5.2.5.3.2).
const TRANSFERS: Limit = Limit::of(80, 100);
/// How long the security block may take to run empty (Linux: 40 times 1 ms).
const SECURITY: Limit = Limit::of(40, 20);
/// After a receive queue has stopped, buffers are still written for so long (DPDK,
/// `RTE_IXGBE_WAIT_100_US`).
const LAST_WRITES: Duration = Duration::from_micros(100);
/// Frames without JUMBOEN, in bytes with FCS.
const ORDINARY: usize = 1518;
/// KiB of the one receive packet buffer: 82599, and X540 and later.
const RX_BUFFER: (u32, u32) = (512, 384);
/// KiB of the one send packet buffer.
const TX_BUFFER: u32 = 160;
/// KiB that have to be free in it for the largest frame (Linux, `IXGBE_TXPKT_SIZE_MAX`).
const TX_FRAME: u32 = 10;

/// A physical function.
pub(crate) struct Pf<F: Function> {
    function: Arc<F>,
    bar: F::Bar,
    mac: Mac,
    media: Media,
    address: Address,
    totals: Totals,
    /// The receive and send queues that run.
    running: (u32, u32),
    news: Vec<String>,
}

impl<F: Function> Pf<F> {
    /// Resets the device and reads its address.
    pub(crate) fn open(
        function: Arc<F>,
        bar: F::Bar,
        model: &Model,
        media: Media,
    ) -> Result<Self, OpenError> {
        let mut pf = Self {
            function,
            bar,
            mac: model.mac,
            media,
            address: [0; 6],
            totals: Totals::pf(),
            running: (0, 0),
            news: Vec::new(),
        };
        // What was counted before this port was opened is not its own.
        let ended = pf.quiesce()?;
        pf.reset(!ended)?;
        pf.address = filter::own_address(&pf.bar).ok_or_else(|| PortError::Broken {
            port: pf.name(),
            what: "it has no address of its own".into(),
        })?;
        Ok(pf)
    }

    fn name(&self) -> String {
        self.function.name().to_owned()
    }

    fn gone(&self) -> PortError {
        PortError::Gone { port: self.name() }
    }

    /// The status register, of a device that is there.
    fn status(&self) -> Result<Status, PortError> {
        let status = self.bar.read(regs::STATUS);
        if status == Status::all() {
            return Err(self.gone());
        }
        Ok(status)
    }

    /// Forbids interrupts: this driver looks for itself.
    fn mask_interrupts(&self) {
        self.bar.write(regs::EIMC, 0x7fff_ffff);
        for half in 0..2 {
            self.bar.write(regs::EIMC_EX.of(half), u32::MAX);
        }
        let _ = self.bar.read(regs::EICR);
    }

    /// Waits until `done`, or until every register reads as ones: then the device is gone.
    fn wait(
        &self,
        limit: Limit,
        what: &str,
        done: impl Fn(&F::Bar) -> bool,
    ) -> Result<(), PortError> {
        let found = until(limit, || {
            let is_gone = self.bar.read(regs::STATUS) == Status::all();
            (is_gone || done(&self.bar)).then_some(())
        });
        found.ok_or_else(|| stuck(self.function.name(), what, limit))?;
        self.status().map(drop)
    }

    /// Holds received frames back while receiving is switched, as the security block wants it
    /// (82599 datasheet §4.6.7); it lets them through again afterwards.
    fn switch_receive(&self, on: bool) {
        let bar = &self.bar;
        bar.update(regs::SECRXCTRL, |control| control | Secrxctrl::RX_DIS);
        let _ = until(SECURITY, || {
            let state = bar.read(regs::SECRXSTAT);
            state.contains(Secrxstat::RDY).then_some(())
        });
        bar.update(regs::RXCTRL, |mut control| {
            control.set(Rxctrl::RXEN, on);
            control
        });
        bar.update(regs::SECRXCTRL, |control| control - Secrxctrl::RX_DIS);
    }

    /// Stops receiving, sending and transfers; true if transfers have ended (82599 datasheet
    /// §5.2.5.3.2). Those that have not are cut off by the bus.
    fn quiesce(&mut self) -> Result<bool, PortError> {
        self.mask_interrupts();
        if self.bar.read(regs::RXCTRL).contains(Rxctrl::RXEN) {
            self.switch_receive(false);
        }
        for number in 0..self.running.1 {
            queues::stop_tx(&self.bar, QueueRegs::tx(number));
        }
        for number in 0..self.running.0 {
            queues::stop_rx(&self.bar, QueueRegs::rx(number));
        }
        if self.running.0 > 0 {
            std::thread::sleep(LAST_WRITES);
        }
        let mut ended = true;
        let status = self.status();
        if status.is_ok() {
            self.bar.update(regs::CTRL, |ctrl| ctrl | Ctrl::GIO_DIS);
            ended = until(TRANSFERS, || {
                let status = self.bar.read(regs::STATUS);
                let over = !status.contains(Status::GIO_MASTER) || status == Status::all();
                over.then_some(())
            })
            .is_some();
        }
        set_bus_master(&*self.function, false);
        status.map(|_| ended)
    }

    /// Resets the device; its link too unless that is up. `twice` if transfers did not end before
    /// (82599 datasheet §4.2.1.6).
    fn reset(&mut self, twice: bool) -> Result<(), PortError> {
        let is_up = self.bar.read(regs::LINKS).contains(Links::UP);
        self.reset_once(is_up)?;
        if twice {
            self.reset_once(is_up)?;
        }
        std::thread::sleep(QUIET);
        self.mask_interrupts();
        self.wait(SETTINGS, "reading the device's settings (EEC.ARD)", |bar| {
            bar.read(regs::EEC).contains(Eec::ARD)
        })?;
        self.wait(
            SETTINGS,
            "the start of the device's DMA (RDRXCTL.DMAIDONE)",
            |bar| bar.read(regs::RDRXCTL).contains(Rdrxctl::DMAIDONE),
        )?;
        self.totals.forget(&self.bar);
        self.status().map(drop)
    }

    fn reset_once(&self, keeps_link: bool) -> Result<(), PortError> {
        let bits = if keeps_link {
            Ctrl::RST
        } else {
            Ctrl::LNK_RST | Ctrl::RST
        };
        self.bar.update(regs::CTRL, |ctrl| ctrl | bits);
        // Registers may not be touched at once.
        std::thread::sleep(Duration::from_millis(1));
        self.wait(RESET, "the device's reset", |bar| {
            !bar.read(regs::CTRL).intersects(Ctrl::RST | Ctrl::LNK_RST)
        })
    }

    /// What is not about queues (82599 datasheet §4.6.3).
    fn set_up_device(&self, setup: &Setup<'_>) {
        let bar = &self.bar;
        bar.update(regs::CTRL, |ctrl| ctrl - Ctrl::GIO_DIS);
        let told = CtrlExt::NS_DIS | CtrlExt::DRV_LOAD;
        bar.update(regs::CTRL_EXT, |control| control | told);
        bar.update(regs::MFLCN, |flow| flow - (Mflcn::RPFCE | Mflcn::RFCE));
        bar.write(regs::FCCFG, 0);
        bar.update(regs::HLREG0, |mut mac| {
            mac |= Hlreg0::TXCRCEN | Hlreg0::RXCRCSTRP | Hlreg0::TXPADEN;
            mac.remove(Hlreg0::LPBK);
            mac.set(Hlreg0::JUMBOEN, setup.longest > ORDINARY);
            mac
        });
        let longest = u32::try_from(setup.longest).unwrap_or(0xffff);
        bar.update(regs::MAXFRS, |frames| {
            frames & 0xffff | (longest & 0xffff) << 16
        });
        let receive = if self.mac == Mac::M82599 {
            RX_BUFFER.0
        } else {
            RX_BUFFER.1
        };
        for number in 0..8 {
            let first = |value| if number == 0 { value } else { 0 };
            bar.write(regs::RXPBSIZE.of(number), first(receive << 10));
            bar.write(regs::TXPBSIZE.of(number), first(TX_BUFFER << 10));
            bar.write(regs::TXPBTHRESH.of(number), first(TX_BUFFER - TX_FRAME));
        }
        // Each queue its own counter, as far as there are counters.
        for number in 0..32 {
            let counters = (0..4).map(|n| ((number * 4 + n) & 15) << (8 * n));
            let counters = counters.sum::<u32>();
            bar.write(regs::RQSMR.of(number), counters);
            bar.write(regs::TQSM.of(number), counters);
        }
    }

    fn set_up_receive(&self, setup: &Setup<'_>) -> Result<(), PortError> {
        let bar = &self.bar;
        let offloads = setup.shape.offloads;
        bar.update(regs::RDRXCTL, |control| {
            let control = control - Rdrxctl::RSCFRSTSIZE;
            control | Rdrxctl::CRCSTRIP | Rdrxctl::RSCACKC | Rdrxctl::FCOE_WRFIX
        });
        bar.update(regs::RFCTL, |control| control | Rfctl::RSC_DIS);
        bar.update(regs::RXCSUM, |mut checks| {
            checks.set(Rxcsum::PCSD, setup.shape.rss.is_some());
            checks
        });
        let modes = Fctrl::UPE | Fctrl::MPE | Fctrl::BAM;
        bar.update(regs::FCTRL, |control| {
            (control - modes) | filter::modes(setup.wanted)
        });
        bar.update(regs::VLNCTRL, |mut control| {
            control.remove(Vlnctrl::VET | Vlnctrl::CFIEN);
            control |= Vlnctrl::VET_8021Q;
            control.set(Vlnctrl::VFE, offloads.contains(Offloads::VLAN_FILTER));
            control
        });
        self.write_spread(setup.shape.rss.as_ref());
        let settings = RxSettings {
            buffer: setup.shape.buffer,
            // With several queues none shall hold the others up.
            drops: setup.rings.rx.len() > 1,
            strips: offloads.contains(Offloads::RX_VLAN),
        };
        for (number, ring) in (0..).zip(&setup.rings.rx) {
            let regs = QueueRegs::rx(number);
            queues::start_rx(bar, regs, ring, settings, self.function.name())?;
        }
        if !setup.rings.rx.is_empty() {
            self.switch_receive(true);
        }
        Ok(())
    }

    fn set_up_send(&self, setup: &Setup<'_>) -> Result<(), PortError> {
        let bar = &self.bar;
        // No traffic classes, no pools: written with the arbiter halted (82599 datasheet §4.6.8).
        bar.update(regs::RTTDCS, |arbiter| arbiter | Rttdcs::ARBDIS);
        bar.write(regs::MTQC, 0);
        bar.update(regs::RTTDCS, |arbiter| arbiter - Rttdcs::ARBDIS);
        if setup.rings.tx.is_empty() {
            return Ok(());
        }
        bar.update(regs::DMATXCTL, |control| control | Dmatxctl::TE);
        for (number, ring) in (0..).zip(&setup.rings.tx) {
            let regs = QueueRegs::tx(number);
            queues::start_tx(bar, regs, ring, self.function.name())?;
        }
        Ok(())
    }

    /// Writes RSS's key and table, and whether it is on (82599 datasheet §7.1.2.8).
    fn write_spread(&self, spread: Option<&Spread>) {
        let Some(spread) = spread else {
            self.bar.write(regs::MRQC, Mrqc::empty());
            return;
        };
        for (place, word) in (0..).zip(words(&spread.table)) {
            let place = if place < 32 {
                regs::RETA.of(place)
            } else {
                regs::ERETA.of(place - 32)
            };
            self.bar.write(place, word);
        }
        for (place, word) in (0..).zip(words(&spread.key)) {
            self.bar.write(regs::RSSRK.of(place), word);
        }
        self.bar.write(regs::MRQC, Mrqc::RSSEN | hashed());
    }

    fn own(&self, wanted: &Wanted) -> Address {
        wanted.mac.unwrap_or(self.address)
    }
}

/// What RSS looks at.
pub(crate) fn hashed() -> Mrqc {
    let v4 = Mrqc::IPV4 | Mrqc::TCP_IPV4 | Mrqc::UDP_IPV4;
    v4 | Mrqc::IPV6 | Mrqc::TCP_IPV6 | Mrqc::UDP_IPV6
}

/// Bytes as registers hold them, four each.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let words = bytes.chunks_exact(4);
    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

impl<F: Function> Control for Pf<F> {
    fn mac(&self) -> Address {
        self.address
    }

    fn bring_up(&mut self, setup: &Setup<'_>) -> Result<(), PortError> {
        let ended = self.quiesce()?;
        self.running = (0, 0);
        self.sample()?;
        self.reset(!ended)?;
        let trouble = link::bring_up(&self.bar, self.mac, self.media);
        self.news.extend(trouble.map(str::to_owned));
        self.set_up_device(setup);
        filter::write_addresses(&self.bar, &self.own(setup.wanted), setup.wanted);
        filter::write_vlans(&self.bar, setup.wanted);
        set_bus_master(&*self.function, true);
        let count = |rings: usize| u32::try_from(rings).unwrap_or(0);
        self.running = (count(setup.rings.rx.len()), count(setup.rings.tx.len()));
        self.set_up_send(setup)?;
        self.set_up_receive(setup)?;
        self.status().map(drop)
    }

    fn halt(&mut self) -> Result<(), PortError> {
        let quiet = self.quiesce().map(drop);
        let sampled = self.sample();
        self.running = (0, 0);
        quiet.and(sampled)
    }

    fn change(&mut self, wanted: &Wanted, change: Change) -> Result<(), PortError> {
        match change {
            Change::Modes => {
                let off = Fctrl::UPE | Fctrl::MPE;
                self.bar
                    .update(regs::FCTRL, |fctrl| (fctrl - off) | filter::modes(wanted));
            }
            Change::Addresses => {
                filter::write_addresses(&self.bar, &self.own(wanted), wanted);
            }
            Change::Vlan(id, on) => filter::write_vlan(&self.bar, id, on),
        }
        // Read back, so that the device has it when this returns.
        self.status().map(drop)
    }

    fn spread(&mut self, spread: &Spread) -> Result<(), PortError> {
        self.write_spread(Some(spread));
        self.status().map(drop)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        // The first read shows what was, if the link went down and came back.
        let _ = self.bar.read(regs::LINKS);
        let links = self.bar.read(regs::LINKS);
        self.status()?;
        Ok(link::read(links, self.mac))
    }

    fn check(&mut self, running: bool) -> Result<Health, PortError> {
        self.status()?;
        let (rx, tx) = self.running;
        if !running {
            return Ok(Health::Good);
        }
        let receives = rx == 0 || self.bar.read(regs::RXCTRL).contains(Rxctrl::RXEN);
        let sends = tx == 0 || self.bar.read(regs::DMATXCTL).contains(Dmatxctl::TE);
        self.status()?;
        if receives && sends {
            return Ok(Health::Good);
        }
        let why = "the device was reset behind the driver's back: it is started over";
        Ok(Health::Lost(why.into()))
    }

    fn sample(&mut self) -> Result<(), PortError> {
        let bar = &self.bar;
        self.totals
            .sample(bar, || bar.read(regs::STATUS) != Status::all());
        self.status().map(drop)
    }

    fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn totals(&self) -> &dyn Counted {
        &self.totals
    }
}

impl<F: Function> Drop for Pf<F> {
    /// Leaves the device quiet, and tells its firmware that nobody has it.
    fn drop(&mut self) {
        if self.quiesce().is_ok() {
            self.bar
                .update(regs::CTRL_EXT, |ctrl| ctrl - CtrlExt::DRV_LOAD);
        }
    }
}
