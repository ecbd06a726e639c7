//! A virtual function of 82576 or I350. It has rings, a link and counters of its own; its filters
//! and the longest frame are its physical function's, which it asks through the mailbox.

use std::sync::Arc;

use hw::Bar;
use hw::function::{Function, set_bus_master};
use intel::mailbox::{Answer, Mailbox};
use intel::message::{Message, WORDS, about, message, random_address, text};
use intel::{
    AROUND, Change, Control, Counted, Health, Host, HostMtu, InTheWay, PfMtu, Setup, Spread, TAG,
    Wanted, is_group,
};
use port::{Link, Mac, PortError};

use crate::error::OpenError;
use crate::filter;
use crate::link;
use crate::mailbox::{self, request};
use crate::queues;
use crate::regs::{self, Ctrl, QueueRegs, Status};
use crate::stats::Totals;

/// Hashes that fit in a message.
const HASHES: usize = 30;

/// A virtual function.
pub(crate) struct Vf<F: Function> {
    function: Arc<F>,
    bar: F::Bar,
    mailbox: Mailbox<F::Bar>,
    mac: Mac,
    /// The PF gave it that address.
    is_given: bool,
    totals: Totals,
    running: (u32, u32),
    host_mtu: HostMtu,
    news: Vec<String>,
}

/// The MTU under which frames of `longest` bytes with FCS and a tag are received.
fn mtu_for(longest: usize) -> usize {
    longest.saturating_sub(AROUND + TAG)
}

impl<F: Function> Vf<F> {
    /// Resets the device, and learns its address from the PF.
    pub(crate) fn open(function: Arc<F>, bar: F::Bar, pf_mtu: PfMtu) -> Result<Self, OpenError> {
        let mailbox = mailbox::open(bar.clone(), function.name().to_owned());
        let mut vf = Self {
            function,
            bar,
            mailbox,
            mac: random_address(),
            is_given: false,
            totals: Totals::vf(),
            running: (0, 0),
            host_mtu: HostMtu::new(pf_mtu, InTheWay::WhenRefused),
            news: Vec::new(),
        };
        vf.quiesce()?;
        vf.reset()?;
        vf.totals.forget(&vf.bar);
        Ok(vf)
    }

    fn name(&self) -> String {
        self.function.name().to_owned()
    }

    /// The status register, of a device that is there.
    fn status(&self) -> Result<Status, PortError> {
        let status = self.bar.read(regs::STATUS);
        if status == Status::all() {
            return Err(PortError::Gone { port: self.name() });
        }
        Ok(status)
    }

    fn quiesce(&mut self) -> Result<(), PortError> {
        self.bar.write(regs::EIMC, u32::MAX);
        for number in 0..self.running.0 {
            queues::stop_rx(&self.bar, QueueRegs::rx(false, number));
        }
        for number in 0..self.running.1 {
            queues::stop_tx(&self.bar, QueueRegs::tx(false, number));
        }
        self.running = (0, 0);
        let status = self.status();
        set_bus_master(&*self.function, false);
        status.map(drop)
    }

    /// Resets queues and filters, and says so to the PF, which lets the VF send and receive only
    /// then (82576 §4.5.11.2).
    fn reset(&mut self) -> Result<(), PortError> {
        self.bar.update(regs::CTRL, |ctrl| ctrl | Ctrl::RST);
        self.mailbox.wait_for_pf()?;
        match self.mailbox.ask(&message(request::RESET), 1)? {
            Answer::Granted(words) => {
                let [a, b, c, d] = words[1].to_le_bytes();
                let [e, f, ..] = words[2].to_le_bytes();
                let mac = [a, b, c, d, e, f];
                if mac != [0; 6] && !is_group(&mac) {
                    (self.mac, self.is_given) = (mac, true);
                }
            }
            // That is how igb says that nobody gave this VF an address.
            Answer::Refused(_) => self.is_given = false,
        }
        Ok(())
    }

    /// Asks the PF; a refusal is an error that says `what` was refused, and how to cure it.
    fn ask(
        &mut self,
        message: &Message,
        len: usize,
        what: impl FnOnce() -> String,
        cure: impl FnOnce(&Host) -> String,
    ) -> Result<(), PortError> {
        match self.mailbox.ask(message, len)? {
            Answer::Granted(_) => Ok(()),
            Answer::Refused(_) => Err(PortError::Refused {
                port: self.name(),
                what: what(),
                cure: Some(cure(&Host::of(&*self.function))),
            }),
        }
    }

    fn set_own_address(&mut self, mac: &Mac) -> Result<(), PortError> {
        let cure = |host: &Host| {
            let (trust, set) = (host.vf("trust on"), host.vf(&format!("mac {}", text(mac))));
            format!("the host gave this VF its address; {trust}; or {set}")
        };
        let what = || format!("the address {}", text(mac));
        self.ask(&about(request::SET_MAC, mac), 3, what, cure)
    }

    /// Tells the PF every address: further stations one by one, groups by their hashes.
    fn set_addresses(&mut self, wanted: &Wanted) -> Result<(), PortError> {
        let own = wanted.mac.unwrap_or(self.mac);
        if wanted.mac.is_some() || !self.is_given {
            self.set_own_address(&own)?;
        }
        let cure = |host: &Host| host.vf("trust on");
        let clear = about(request::SET_MAC | request::CLEAR, &own);
        let more: Vec<Mac> = wanted.stations().copied().collect();
        let cleared = self.ask(&clear, 3, || "an empty filter".into(), cure);
        // A PF that knows no further addresses cannot forget them either.
        if !more.is_empty() {
            cleared?;
        }
        for mac in &more {
            let what = || format!("to receive {} too", text(mac));
            self.ask(&about(request::SET_MAC | request::ADD, mac), 3, what, cure)?;
        }
        self.set_groups(wanted)
    }

    fn set_groups(&mut self, wanted: &Wanted) -> Result<(), PortError> {
        let hashes: Vec<u16> = wanted.groups().map(filter::hash).collect();
        let told = hashes.get(..HASHES).unwrap_or(&hashes);
        let count = u32::try_from(told.len()).unwrap_or(0);
        let mut list = message(request::MULTICAST | count << request::COUNT_SHIFT);
        for (word, pair) in list[1..].iter_mut().zip(told.chunks(2)) {
            let high = pair.get(1).copied().unwrap_or(0);
            *word = u32::from(pair[0]) | u32::from(high) << 16;
        }
        let cure = |_: &Host| "look in the host's log what its igb driver says".to_owned();
        self.ask(&list, WORDS, || "a list of groups".into(), cure)?;
        // Groups beyond those are received with all others.
        let all = wanted.all_multicast || hashes.len() > HASHES;
        let mode = if all { request::ALL_GROUPS } else { 0 };
        let what = || "all-multicast mode".to_owned();
        self.ask(&message(request::PROMISC | mode), 1, what, cure)
    }

    fn set_vlan(&mut self, id: u16, on: bool) -> Result<(), PortError> {
        let mut vlan = message(request::VLAN | if on { request::ON } else { 0 });
        vlan[1] = u32::from(id);
        let cure = |host: &Host| {
            let none = host.vf("vlan 0");
            format!("the host gave this VF a VLAN of its own, or has no room for another; {none}")
        };
        self.ask(&vlan, 2, || format!("VLAN {id}"), cure)
    }

    /// Asks for frames of up to `longest` bytes; false if the PF refuses.
    fn set_longest(&mut self, longest: usize) -> Result<bool, PortError> {
        let mut lpe = message(request::LPE);
        lpe[1] = u32::try_from(longest).unwrap_or(u32::MAX);
        let answer = self.mailbox.ask(&lpe, 2)?;
        Ok(matches!(answer, Answer::Granted(_)))
    }

    /// Asks for frames of up to `longest` bytes, and raises the PF's MTU where it refuses and that
    /// may help: all has to be told to it again then.
    fn agree_on_longest(&mut self, setup: &Setup<'_>) -> Result<(), PortError> {
        let (longest, mtu) = (setup.longest, mtu_for(setup.longest));
        if self.set_longest(longest)? {
            return Ok(());
        }
        let raised = self.host_mtu.after_refusal(&*self.function, mtu);
        if raised.is_some() {
            self.news.extend(raised);
            self.introduce(setup.wanted)?;
            if self.set_longest(longest)? {
                return Ok(());
            }
        }
        let host = Host::of(&*self.function);
        let cure = || {
            let command = host.pf(&format!("mtu {mtu}"));
            format!("{command}; or a smaller MTU here: mtu=1500")
        };
        Err(self.host_mtu.refusal(&self.name(), longest, cure))
    }

    /// Begins with the PF, and tells it what to accept.
    fn introduce(&mut self, wanted: &Wanted) -> Result<(), PortError> {
        self.reset()?;
        self.totals.forget(&self.bar);
        self.set_addresses(wanted)?;
        for &id in &wanted.vlans {
            self.set_vlan(id, true)?;
        }
        Ok(())
    }
}

impl<F: Function> Control for Vf<F> {
    fn mac(&self) -> Mac {
        self.mac
    }

    fn bring_up(&mut self, setup: &Setup<'_>) -> Result<(), PortError> {
        self.quiesce()?;
        self.sample()?;
        let mtu = mtu_for(setup.longest);
        let raised = self.host_mtu.prepare(&*self.function, mtu, setup.longest)?;
        self.news.extend(raised);
        self.introduce(setup.wanted)?;
        self.agree_on_longest(setup)?;
        set_bus_master(&*self.function, true);
        let count = |rings: usize| u32::try_from(rings).unwrap_or(0);
        self.running = (count(setup.rings.rx.len()), count(setup.rings.tx.len()));
        for (number, ring) in (0..).zip(&setup.rings.rx) {
            let regs = QueueRegs::rx(false, number);
            // Without that, a VF that does not keep up stops its PF (Linux, `igbvf_setup_srrctl`).
            queues::set_up_advanced_rx(&self.bar, regs, ring, setup.shape.buffer, true);
            queues::start_rx(&self.bar, regs, self.function.name())?;
        }
        for (number, ring) in (0..).zip(&setup.rings.tx) {
            let regs = QueueRegs::tx(false, number);
            queues::set_up_advanced_tx(&self.bar, regs, ring);
            queues::start_tx(&self.bar, regs, self.function.name())?;
        }
        self.status().map(drop)
    }

    fn halt(&mut self) -> Result<(), PortError> {
        let quiet = self.quiesce();
        quiet.and(self.sample())
    }

    fn change(&mut self, wanted: &Wanted, change: Change) -> Result<(), PortError> {
        match change {
            Change::Modes => self.set_groups(wanted),
            Change::Addresses => self.set_addresses(wanted),
            Change::Vlan(id, on) => self.set_vlan(id, on),
        }
    }

    fn spread(&mut self, _spread: &Spread) -> Result<(), PortError> {
        Err(PortError::NotOffered {
            port: self.name(),
            what: "spreading by RSS".into(),
        })
    }

    fn link(&mut self) -> Result<Link, PortError> {
        Ok(link::read(self.status()?))
    }

    fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn check(&mut self, running: bool) -> Result<Health, PortError> {
        self.status()?;
        if self.mailbox.has_to_begin()? && running {
            let why = "the physical function was reset: the virtual one is started over";
            return Ok(Health::Lost(why.into()));
        }
        Ok(Health::Good)
    }

    fn sample(&mut self) -> Result<(), PortError> {
        let bar = &self.bar;
        self.totals
            .sample(bar, || bar.read(regs::STATUS) != Status::all());
        self.status().map(drop)
    }

    fn give_back(&mut self) {
        self.host_mtu.give_back();
    }

    fn totals(&self) -> &dyn Counted {
        &self.totals
    }
}

impl<F: Function> Drop for Vf<F> {
    fn drop(&mut self) {
        let _ = self.quiesce();
    }
}
