//! A physical function: from reset to running, in the datasheets' order (developer's manual
//! §14, 82576 §4.5).

use std::sync::Arc;
use std::time::{Duration, Instant};

use hw::Bar;
use hw::function::{Function, set_bus_master};
use intel::wait::{Limit, stuck, until};
use intel::{Change, Control, Counted, Health, Setup, Spread, Wanted};
use port::{Link, LinkState, Mac, Offloads, PortError};

use crate::error::OpenError;
use crate::filter;
use crate::kind::{Kind, Model};
use crate::link;
use crate::queues;
use crate::regs::{self, Ctrl, CtrlExt, Eecd, Mrqc, QueueRegs, Rctl, Rfctl, Rxcsum, Status, Tctl};
use crate::stats::Totals;

/// How long a reset may take. Linux waits 1 to 20 ms.
const RESET: Limit = Limit::of(500, 100);
/// How long the device may take to read its settings (82576 §4.5.3).
const SETTINGS: Limit = Limit::of(20, 200);
/// How long transfers that were begun may take to end.
const TRANSFERS: Limit = Limit::of(20, 100);
/// Frames without LPE, in bytes with FCS and a VLAN tag.
const ORDINARY: usize = 1522;

/// A physical function.
pub(crate) struct Pf<F: Function> {
    function: Arc<F>,
    bar: F::Bar,
    model: Model,
    mac: Mac,
    totals: Totals,
    /// The receive and send queues that run.
    running: (u32, u32),
    /// It is QEMU's 8254x, and frames that arrive are held back until then.
    held_until: Option<Instant>,
}

/// Subsystem vendor in configuration space (PCI 3.0 §6.2.4), and that of QEMU's devices.
const SUBSYSTEM: u16 = 0x2c;
const QEMU: u16 = 0x1af4;
/// For so long QEMU's 8254x holds back what arrives after receiving was enabled (QEMU,
/// `hw/net/e1000.c`, `set_rx_control`), and then delivers it at once: more than a ring may hold.
/// Until then the link counts as down.
const HELD: Duration = Duration::from_millis(1100);

impl<F: Function> Pf<F> {
    /// Resets the device and reads its address.
    pub(crate) fn open(function: Arc<F>, bar: F::Bar, model: Model) -> Result<Self, OpenError> {
        let subsystem = function.config16(SUBSYSTEM);
        let is_qemu = model.kind == Kind::E1000 && subsystem == QEMU;
        let mut pf = Self {
            function,
            bar,
            model,
            mac: [0; 6],
            totals: if is_qemu {
                Totals::qemu()
            } else {
                Totals::pf()
            },
            running: (0, 0),
            held_until: is_qemu.then(Instant::now),
        };
        // What was counted before this port was opened is not its own.
        pf.quiesce()?;
        pf.reset()?;
        let mac = filter::own_address(&pf.bar).ok_or_else(|| PortError::Broken {
            port: pf.name(),
            what: "it has no address of its own".into(),
        })?;
        pf.mac = mac;
        Ok(pf)
    }

    fn name(&self) -> String {
        self.function.name().to_owned()
    }

    fn gone(&self) -> PortError {
        PortError::Gone { port: self.name() }
    }

    /// True for descriptors and queue registers as 82576 has them.
    fn is_igb(&self) -> bool {
        self.model.kind == Kind::Igb
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
        self.bar.write(regs::IMC, u32::MAX);
        if self.is_igb() {
            self.bar.write(regs::EIMC, u32::MAX);
        }
        let _ = self.bar.read(regs::ICR);
    }

    /// Stops receiving, sending and transfers (82576 §5.2.3.3.2).
    fn quiesce(&mut self) -> Result<(), PortError> {
        self.mask_interrupts();
        self.bar.write(regs::RCTL, Rctl::empty());
        self.bar.write(regs::TCTL, Tctl::PSP);
        for number in 0..self.running.0 {
            queues::stop_rx(&self.bar, self.rx(number));
        }
        for number in 0..self.running.1 {
            queues::stop_tx(&self.bar, self.tx(number));
        }
        let status = self.status();
        if let Ok(status) = &status
            && self.model.kind.is_express()
            && status.contains(Status::MASTER)
        {
            self.bar
                .update(regs::CTRL, |ctrl| ctrl | Ctrl::MASTER_DISABLE);
            // Transfers that do not end are cut off by the bus.
            let _ = until(TRANSFERS, || {
                let status = self.bar.read(regs::STATUS);
                (!status.contains(Status::MASTER) || status == Status::all()).then_some(())
            });
        }
        set_bus_master(&*self.function, false);
        status.map(drop)
    }

    /// Resets the device (developer's manual §14.3). Its counters are cleared with it.
    fn reset(&mut self) -> Result<(), PortError> {
        self.bar.update(regs::CTRL, |ctrl| ctrl | Ctrl::RST);
        // Registers may not be touched at once (82576 §4.3.1).
        std::thread::sleep(Duration::from_millis(1));
        until(RESET, || {
            let ctrl = self.bar.read(regs::CTRL);
            (!ctrl.contains(Ctrl::RST) || ctrl == Ctrl::all()).then_some(())
        })
        .ok_or_else(|| stuck(self.function.name(), "the device's reset", RESET))?;
        self.status()?;
        if self.model.kind.is_express() {
            // Linux goes on without, too: devices with an empty EEPROM never say so.
            let _ = until(SETTINGS, || {
                let is_done = self.bar.read(regs::EECD).contains(Eecd::AUTO_RD);
                is_done.then_some(())
            });
        } else {
            // The settings are read again, which these devices do not tell (§5.3).
            std::thread::sleep(Duration::from_millis(5));
        }
        self.mask_interrupts();
        self.totals.forget(&self.bar);
        self.status().map(drop)
    }

    fn rx(&self, number: u32) -> QueueRegs {
        QueueRegs::rx(self.is_igb(), number)
    }

    fn tx(&self, number: u32) -> QueueRegs {
        QueueRegs::tx(self.is_igb(), number)
    }

    /// Lets the link come up, at the speed that the PHY negotiates (developer's manual §14.4).
    fn set_up_link(&self, setup: &Setup<'_>) {
        let inserts = setup.shape.offloads.contains(Offloads::TX_VLAN) && !self.is_igb();
        let strips = setup.shape.offloads.contains(Offloads::RX_VLAN);
        let kind = self.model.kind;
        self.bar.update(regs::CTRL, |mut ctrl| {
            ctrl -= Ctrl::LRST | Ctrl::PHY_RST | Ctrl::ILOS | Ctrl::FRCSPD | Ctrl::FRCDPLX;
            ctrl -= Ctrl::RFCE | Ctrl::TFCE | Ctrl::MASTER_DISABLE | Ctrl::VME;
            ctrl |= Ctrl::SLU;
            if kind == Kind::E1000 {
                ctrl |= Ctrl::ASDE;
            }
            if inserts || strips {
                ctrl |= Ctrl::VME;
            }
            ctrl
        });
        if kind.is_express() {
            self.bar
                .update(regs::CTRL_EXT, |ctrl| ctrl | CtrlExt::DRV_LOAD);
        }
        self.bar.write(regs::VET, regs::VET_8021Q);
        link::wake(&self.bar);
    }

    fn set_up_receive(&mut self, setup: &Setup<'_>) -> Result<(), PortError> {
        let mut checks = Rxcsum::empty();
        if setup.shape.offloads.contains(Offloads::RX_CHECKSUM) {
            checks |= Rxcsum::IPOFLD | Rxcsum::TUOFLD;
        }
        if setup.shape.rss.is_some() {
            checks |= Rxcsum::PCSD;
        }
        self.bar.write(regs::RXCSUM, checks);
        let spread = setup.shape.rss.as_ref();
        match self.model.kind {
            Kind::Igb | Kind::IgbVf => {
                let longest = u32::try_from(setup.longest).unwrap_or(u32::MAX);
                self.bar.write(regs::RLPML, longest);
                self.write_spread(spread);
            }
            Kind::E1000e => {
                let extended = spread.map_or(Rfctl::empty(), |_| Rfctl::EXSTEN);
                self.bar
                    .update(regs::RFCTL, |kinds| (kinds - Rfctl::EXSTEN) | extended);
                self.write_spread(spread);
            }
            Kind::E1000 => {}
        }
        if !self.is_igb() {
            self.bar.write(regs::RDTR, 0);
            self.bar.write(regs::RADV, 0);
        }
        for (number, ring) in (0..).zip(&setup.rings.rx) {
            let regs = self.rx(number);
            if self.is_igb() {
                // With several queues none shall stop the others (82576 §8.10.2).
                let drops = setup.rings.rx.len() > 1;
                queues::set_up_advanced_rx(&self.bar, regs, ring, setup.shape.buffer, drops);
            } else {
                queues::set_up_legacy_rx(&self.bar, regs, ring);
            }
        }
        if setup.rings.rx.is_empty() {
            return Ok(());
        }
        let mut control = Rctl::EN | Rctl::SECRC | filter::modes(setup.wanted);
        control |= queues::buffer_bits(setup.shape.buffer);
        if setup.longest > ORDINARY || self.is_igb() {
            control |= Rctl::LPE;
        }
        if setup.shape.offloads.contains(Offloads::VLAN_FILTER) {
            control |= Rctl::VFE;
        }
        self.bar.write(regs::RCTL, control);
        if let Some(until) = &mut self.held_until {
            *until = Instant::now() + HELD;
        }
        for (number, _) in (0..).zip(&setup.rings.rx) {
            if self.is_igb() {
                queues::start_rx(&self.bar, self.rx(number), self.function.name())?;
            }
        }
        Ok(())
    }

    fn set_up_send(&self, setup: &Setup<'_>) -> Result<(), PortError> {
        if setup.rings.tx.is_empty() {
            return Ok(());
        }
        if !self.is_igb() {
            self.bar.write(regs::TIPG, regs::TIPG_COPPER);
            self.bar.write(regs::TIDV, 0);
            self.bar.write(regs::TADV, 0);
        }
        for (number, ring) in (0..).zip(&setup.rings.tx) {
            let regs = self.tx(number);
            if self.is_igb() {
                queues::set_up_advanced_tx(&self.bar, regs, ring);
            } else {
                queues::set_up_legacy_tx(&self.bar, regs, ring, self.model.kind);
            }
        }
        let control = Tctl::EN | Tctl::PSP | Tctl::CT_15 | Tctl::COLD_64 | Tctl::RTLC;
        self.bar.write(regs::TCTL, control);
        for (number, _) in (0..).zip(&setup.rings.tx) {
            if self.is_igb() {
                queues::start_tx(&self.bar, self.tx(number), self.function.name())?;
            }
        }
        Ok(())
    }

    /// Writes RSS's key and table, and whether it is on (82576 §7.1.1.7; 82574 datasheet §7.1.11).
    fn write_spread(&self, spread: Option<&Spread>) {
        let Some(spread) = spread else {
            self.bar.write(regs::MRQC, Mrqc::empty());
            return;
        };
        let words = |bytes: &[u8]| -> Vec<u32> {
            let words = bytes.chunks_exact(4);
            words
                .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                .collect()
        };
        let is_igb = self.is_igb();
        let entry = |queue: &u8| if is_igb { *queue } else { *queue << 7 };
        let table: Vec<u8> = spread.table.iter().map(entry).collect();
        for (place, word) in (0..).zip(words(&table)) {
            self.bar.write(regs::RETA.of(place), word);
        }
        for (place, word) in (0..).zip(words(&spread.key)) {
            self.bar.write(regs::RSSRK.of(place), word);
        }
        let hashed = Mrqc::IPV4 | Mrqc::TCP_IPV4 | Mrqc::IPV6;
        let hashed = hashed
            | if is_igb {
                Mrqc::RSS | Mrqc::UDP_IPV4 | Mrqc::TCP_IPV6 | Mrqc::UDP_IPV6
            } else {
                Mrqc::RSS_TWO | Mrqc::TCP_IPV6_82574
            };
        self.bar.write(regs::MRQC, hashed);
    }

    fn own(&self, wanted: &Wanted) -> Mac {
        wanted.mac.unwrap_or(self.mac)
    }
}

impl<F: Function> Control for Pf<F> {
    fn mac(&self) -> Mac {
        self.mac
    }

    fn bring_up(&mut self, setup: &Setup<'_>) -> Result<(), PortError> {
        self.quiesce()?;
        self.sample()?;
        self.reset()?;
        self.set_up_link(setup);
        filter::write_addresses(&self.bar, &self.own(setup.wanted), setup.wanted);
        filter::write_vlans(&self.bar, setup.wanted);
        set_bus_master(&*self.function, true);
        let count = |rings: usize| u32::try_from(rings).unwrap_or(0);
        self.running = (count(setup.rings.rx.len()), count(setup.rings.tx.len()));
        self.set_up_receive(setup)?;
        self.set_up_send(setup)?;
        self.status().map(drop)
    }

    fn halt(&mut self) -> Result<(), PortError> {
        let quiet = self.quiesce();
        let sampled = self.sample();
        self.running = (0, 0);
        quiet.and(sampled)
    }

    fn change(&mut self, wanted: &Wanted, change: Change) -> Result<(), PortError> {
        match change {
            Change::Modes => {
                let off = Rctl::UPE | Rctl::MPE;
                self.bar
                    .update(regs::RCTL, |rctl| (rctl - off) | filter::modes(wanted));
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
        let mut link = link::read(self.status()?);
        if self.held_until.is_some_and(|until| Instant::now() < until) {
            link.state = LinkState::Down;
        }
        Ok(link)
    }

    fn check(&mut self, running: bool) -> Result<Health, PortError> {
        self.status()?;
        let (rx, tx) = self.running;
        if !running || (rx, tx) == (0, 0) {
            return Ok(Health::Good);
        }
        let receives = rx == 0 || self.bar.read(regs::RCTL).contains(Rctl::EN);
        let sends = tx == 0 || self.bar.read(regs::TCTL).contains(Tctl::EN);
        self.status()?;
        if receives && sends {
            return Ok(Health::Good);
        }
        let why = "the device was reset behind the driver's back: it is started over";
        Ok(Health::Lost(why.into()))
    }

    fn sample(&mut self) -> Result<(), PortError> {
        let bar = &self.bar;
        let is_there = || bar.read(regs::STATUS) != Status::all();
        let mut dropped = 0;
        if self.model.kind == Kind::Igb {
            for number in 0..self.running.0 {
                let regs = QueueRegs::rx(true, number);
                dropped += u64::from(bar.read(regs.rqdpc()));
            }
        }
        self.totals.sample(bar, is_there);
        if !is_there() {
            return Err(self.gone());
        }
        self.totals.drop_frames(dropped);
        Ok(())
    }

    fn totals(&self) -> &dyn Counted {
        &self.totals
    }
}

impl<F: Function> Drop for Pf<F> {
    /// Leaves the device quiet, and tells its firmware that nobody has it.
    fn drop(&mut self) {
        if self.quiesce().is_ok() && self.model.kind.is_express() {
            self.bar
                .update(regs::CTRL_EXT, |ctrl| ctrl - CtrlExt::DRV_LOAD);
        }
    }
}
