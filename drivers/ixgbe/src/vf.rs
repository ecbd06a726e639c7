//! A virtual function. It has rings, a link and counters of its own; its filters, the longest
//! frame and the number of its queues are its physical function's, which it asks through the
//! mailbox. What the PF grants and refuses is what Linux's ixgbe does (`ixgbe_sriov.c`).

mod filters;

use std::sync::Arc;
use std::time::Duration;

use hw::Bar;
use hw::function::{Function, set_bus_master};
use intel::mailbox::Answer;
use intel::message::{Message, message, random_address};
use intel::{
    AROUND, Change, Control, Counted, Health, Host, HostMtu, InTheWay, PfMtu, Setup, Spread,
    Wanted, is_group,
};
use port::{Link, LinkState, Mac as Address, Offloads, PortError};

use crate::error::OpenError;
use crate::kind::{Mac, Model};
use crate::link;
use crate::mailbox::{Api, Mailbox, request};
use crate::pf::{hashed, words};
use crate::plan::Has;
use crate::queues::{self, RxSettings};
use crate::regs::{Ctrl, Links, Mrqc, QueueRegs, Rxdctl, Status, Txdctl};
use crate::stats::Totals;
use crate::vf_regs::{self as regs, Psrtype};

/// Queues that a VF has at most, each way (82599 datasheet §7.10.3).
const QUEUES: u32 = 8;
/// A link of 82599 has to be up for so many looks (Linux, `ixgbevf_check_mac_link_vf`: it may
/// flap for half a millisecond).
const LOOKS: usize = 5;
/// From one such look to the next.
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);

/// A virtual function.
pub(crate) struct Vf<F: Function> {
    function: Arc<F>,
    bar: F::Bar,
    mac: Mac,
    mailbox: Mailbox<F::Bar>,
    host_mtu: HostMtu,
    address: Address,
    /// The PF gave it that address.
    is_given: bool,
    /// Which bits of a group's address its PF hashes.
    group_bits: u32,
    /// The PF was told further addresses since the last reset.
    has_more: bool,
    /// Receive and send queues that the PF lets it have.
    granted: (usize, usize),
    /// The host has put it into a VLAN of its own.
    is_tagged: bool,
    /// The host lets it have a link.
    is_enabled: bool,
    totals: Totals,
    running: (u32, u32),
    was_up: bool,
    hurried: bool,
    news: Vec<String>,
}

/// When the PF's MTU is in the way of its VFs (Linux, `ixgbe_set_vf_lpe`).
fn rule(mac: Mac) -> InTheWay {
    match mac {
        Mac::M82599 => InTheWay::Always,
        Mac::X540 | Mac::X550 => InTheWay::Never,
    }
}

impl<F: Function> Vf<F> {
    /// Resets the device, and learns its address and its number of queues from the PF.
    pub(crate) fn open(
        function: Arc<F>,
        bar: F::Bar,
        model: &Model,
        pf_mtu: PfMtu,
    ) -> Result<Self, OpenError> {
        let mailbox = Mailbox::new(bar.clone(), function.name().to_owned());
        let mut vf = Self {
            function,
            bar,
            mac: model.mac,
            mailbox,
            host_mtu: HostMtu::new(pf_mtu, rule(model.mac)),
            address: random_address(),
            is_given: false,
            group_bits: 0,
            has_more: false,
            granted: (1, 1),
            is_tagged: false,
            is_enabled: true,
            totals: Totals::vf(),
            running: (0, 0),
            was_up: false,
            hurried: false,
            news: Vec::new(),
        };
        vf.quiesce()?;
        vf.reset()?;
        let api = vf.mailbox.api().text();
        vf.news
            .push(format!("the physical function speaks mailbox API {api}"));
        vf.totals.forget(&vf.bar);
        Ok(vf)
    }

    /// What the PF lets it have, and do.
    pub(crate) fn has(&self) -> Has {
        let api = self.mailbox.api();
        let mut offloads = Has::OFFLOADS;
        offloads.set(Offloads::ALL_MULTICAST, api >= Api::V1_2);
        // 82599 has no promiscuous mode for a pool.
        let is_later = self.mac != Mac::M82599;
        offloads.set(Offloads::PROMISCUOUS, is_later && api >= Api::V1_3);
        // On 82599 and X540 a VF spreads as its PF does.
        let spreads = self.mac == Mac::X550 && self.granted.0 > 1;
        offloads.set(Offloads::RSS, spreads);
        Has {
            rx: self.granted.0,
            tx: self.granted.1,
            offloads,
        }
    }

    fn name(&self) -> String {
        self.function.name().to_owned()
    }

    /// The status register, of a device that is there.
    fn status(&self) -> Result<Status, PortError> {
        let status = self.bar.read(regs::VFSTATUS);
        if status == Status::all() {
            return Err(PortError::Gone { port: self.name() });
        }
        Ok(status)
    }

    fn quiesce(&mut self) -> Result<(), PortError> {
        self.bar.write(regs::VTEIMC, u32::MAX);
        let _ = self.bar.read(regs::VTEICR);
        for number in 0..self.running.1 {
            queues::stop_tx(&self.bar, QueueRegs::vf_tx(number));
        }
        for number in 0..self.running.0 {
            queues::stop_rx(&self.bar, QueueRegs::vf_rx(number));
        }
        self.running = (0, 0);
        let status = self.status();
        set_bus_master(&*self.function, false);
        status.map(drop)
    }

    /// Resets queues and filters, and says so to the PF, which lets the VF send and receive only
    /// then; agrees on a version, which the PF forgets at that; and asks how many queues there
    /// are.
    fn reset(&mut self) -> Result<(), PortError> {
        self.bar.write(regs::VFCTRL, Ctrl::RST);
        self.mailbox.wait_for_pf()?;
        self.has_more = false;
        match self.mailbox.ask(&message(request::RESET), 1)? {
            Answer::Granted(words) => {
                let [a, b, c, d] = words[1].to_le_bytes();
                let [e, f, ..] = words[2].to_le_bytes();
                let mac = [a, b, c, d, e, f];
                self.group_bits = words[3];
                self.is_given = mac != [0; 6] && !is_group(&mac);
                if self.is_given {
                    self.address = mac;
                }
            }
            // That is how ixgbe says that nobody gave this VF an address.
            Answer::Refused(_) => self.is_given = false,
        }
        if self.mailbox.negotiate()? >= Api::V1_1 {
            self.count_queues()?;
        }
        Ok(())
    }

    fn count_queues(&mut self) -> Result<(), PortError> {
        let Answer::Granted(words) = self.mailbox.ask(&message(request::QUEUES), 5)? else {
            return Ok(());
        };
        // No more than there are, whatever the PF says.
        let count = |word: u32| usize::try_from(word.clamp(1, QUEUES)).unwrap_or(1);
        self.granted = (count(words[2]), count(words[1]));
        let is_tagged = words[3] != 0;
        if is_tagged && !self.is_tagged {
            let said = "the host has put this virtual function into a VLAN: its tag is not shown";
            self.news.push(said.into());
        }
        self.is_tagged = is_tagged;
        Ok(())
    }

    /// Asks whether the host lets this VF have a link. Its register shows the card's link
    /// whatever the host says, and frames go nowhere then. A PF that knows no such request, or
    /// does not answer it, forbids nothing.
    fn ask_link_state(&mut self) {
        let knows = self.mailbox.api() >= Api::V1_2;
        let answer = knows.then(|| self.mailbox.ask(&message(request::LINK_STATE), 2));
        let is_enabled = match answer {
            Some(Ok(Answer::Granted(words))) => words[1] != 0,
            _ => true,
        };
        if !is_enabled && self.is_enabled {
            let cure = Host::of(&*self.function).vf("state auto");
            self.news.push(format!(
                "the host keeps this virtual function's link down: {cure} (and its own interface \
                 has to be up)"
            ));
        }
        self.is_enabled = is_enabled;
    }

    /// Asks the PF; a refusal is an error that says `what` was refused, and how to cure it.
    fn ask(
        &mut self,
        message: &Message,
        len: usize,
        what: impl FnOnce() -> String,
        cure: impl FnOnce(&Host) -> String,
    ) -> Result<Message, PortError> {
        match self.mailbox.ask(message, len)? {
            Answer::Granted(words) => Ok(words),
            Answer::Refused(_) => Err(PortError::Refused {
                port: self.name(),
                what: what(),
                cure: Some(cure(&Host::of(&*self.function))),
            }),
        }
    }

    /// Tells the PF the longest frame. Always: on 82599 this is what lets a VF of a PF with a large
    /// MTU receive at all.
    fn set_longest(&mut self, longest: usize) -> Result<(), PortError> {
        let mut lpe = message(request::LPE);
        lpe[1] = u32::try_from(longest).unwrap_or(u32::MAX);
        match self.mailbox.ask(&lpe, 2)? {
            Answer::Granted(_) => Ok(()),
            Answer::Refused(_) => Err(self.too_long(longest)),
        }
    }

    /// The refusal of frames of `longest` bytes, with what helps.
    fn too_long(&self, longest: usize) -> PortError {
        let host = || Host::of(&*self.function);
        if self.mac == Mac::M82599 && self.mailbox.api() < Api::V1_1 {
            let command = host().pf("mtu 1500");
            return PortError::Refused {
                port: self.name(),
                what: format!("frames of {longest} bytes"),
                cure: Some(format!(
                    "the host's ixgbe speaks mailbox API 1.0, which knows ordinary frames only: \
                     {command}; and here mtu=1500"
                )),
            };
        }
        let cure = || match self.mac {
            Mac::X540 | Mac::X550 => "choose a smaller MTU: mtu=9000".into(),
            Mac::M82599 => host().pf(&format!("mtu {}", longest.saturating_sub(AROUND))),
        };
        self.host_mtu.refusal(self.function.name(), longest, cure)
    }

    fn start_queues(&mut self, setup: &Setup<'_>) -> Result<(), PortError> {
        let (rx, tx) = (setup.rings.rx.len(), setup.rings.tx.len());
        if rx > self.granted.0 || tx > self.granted.1 {
            let (granted_rx, granted_tx) = self.granted;
            return Err(PortError::Refused {
                port: self.name(),
                what: format!("{rx} receive and {tx} send queues"),
                cure: Some(format!(
                    "its physical function gives it {granted_rx} and {granted_tx} now"
                )),
            });
        }
        let count = |rings: usize| u32::try_from(rings).unwrap_or(0);
        self.running = (count(rx), count(tx));
        let types = Psrtype::TCP | Psrtype::UDP | Psrtype::IPV4 | Psrtype::IPV6 | Psrtype::L2;
        let several = count(rx).max(1).ilog2() << regs::RQPL_SHIFT;
        let types = types | Psrtype::from_bits_retain(several);
        self.bar.write(regs::VFPSRTYPE, types);
        self.write_spread(setup.shape.rss.as_ref());
        let settings = RxSettings {
            buffer: setup.shape.buffer,
            // Without that, a VF that does not keep up stops its PF (Linux,
            // `ixgbevf_configure_srrctl`).
            drops: true,
            // The tag of a VLAN that the host has put it into is none of the frame's (Linux,
            // `ixgbevf_process_skb_fields`).
            strips: self.is_tagged || setup.shape.offloads.contains(Offloads::RX_VLAN),
        };
        for (number, ring) in (0..).zip(&setup.rings.tx) {
            let regs = QueueRegs::vf_tx(number);
            queues::start_tx(&self.bar, regs, ring, self.function.name())?;
        }
        for (number, ring) in (0..).zip(&setup.rings.rx) {
            let regs = QueueRegs::vf_rx(number);
            queues::start_rx(&self.bar, regs, ring, settings, self.function.name())?;
        }
        Ok(())
    }

    /// True if the first queues run as they were told to.
    fn runs(&self) -> bool {
        let rx = || self.bar.read(QueueRegs::vf_rx(0).rxdctl());
        let tx = || self.bar.read(QueueRegs::vf_tx(0).txdctl());
        (self.running.0 == 0 || rx().contains(Rxdctl::ENABLE))
            && (self.running.1 == 0 || tx().contains(Txdctl::ENABLE))
    }

    /// Writes key and table of an X550's own RSS.
    fn write_spread(&self, spread: Option<&Spread>) {
        if self.mac != Mac::X550 {
            return;
        }
        let Some(spread) = spread else {
            self.bar.write(regs::VFMRQC, Mrqc::empty());
            return;
        };
        for (place, word) in (0..16).zip(words(&spread.table)) {
            self.bar.write(regs::VFRETA.of(place), word);
        }
        for (place, word) in (0..).zip(words(&spread.key)) {
            self.bar.write(regs::VFRSSRK.of(place), word);
        }
        self.bar.write(regs::VFMRQC, Mrqc::RSSEN | hashed());
    }
}

impl<F: Function> Control for Vf<F> {
    fn mac(&self) -> Address {
        self.address
    }

    fn bring_up(&mut self, setup: &Setup<'_>) -> Result<(), PortError> {
        let patient = !std::mem::take(&mut self.hurried);
        self.mailbox.be_patient(patient);
        self.quiesce()?;
        self.sample()?;
        // Before the reset: a PF whose MTU changes resets its VFs.
        let mtu = setup.longest.saturating_sub(AROUND);
        let raised = self.host_mtu.prepare(&*self.function, mtu, setup.longest)?;
        self.news.extend(raised);
        self.reset()?;
        self.totals.forget(&self.bar);
        self.set_longest(setup.longest)?;
        self.set_addresses(setup.wanted)?;
        for &id in &setup.wanted.vlans {
            self.set_vlan(id, true)?;
        }
        set_bus_master(&*self.function, true);
        self.start_queues(setup)?;
        self.ask_link_state();
        self.mailbox.be_patient(true);
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

    fn spread(&mut self, spread: &Spread) -> Result<(), PortError> {
        self.write_spread(Some(spread));
        self.status().map(drop)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        let mut links = self.bar.read(regs::VFLINKS);
        if self.mac == Mac::M82599 && !self.was_up {
            for _ in 0..LOOKS {
                if !links.contains(Links::UP) {
                    break;
                }
                std::thread::sleep(BETWEEN_LOOKS);
                links = self.bar.read(regs::VFLINKS);
            }
        }
        self.status()?;
        let mut link = link::read(links, self.mac);
        if !self.is_enabled {
            (link.state, link.speed_bps) = (LinkState::Down, None);
        }
        self.was_up = link.state == LinkState::Up;
        Ok(link)
    }

    fn check(&mut self, running: bool) -> Result<Health, PortError> {
        self.status()?;
        if self.mailbox.has_to_begin()? && running {
            let why = "the physical function was reset: the virtual one is started over";
            return Ok(Health::Lost(why.into()));
        }
        if self.mailbox.take_announced() {
            self.mailbox.be_patient(false);
            self.ask_link_state();
            self.mailbox.be_patient(true);
        }
        if running && !self.runs() {
            self.status()?;
            let why = "the device was reset behind the driver's back: it is started over";
            return Ok(Health::Lost(why.into()));
        }
        Ok(Health::Good)
    }

    fn sample(&mut self) -> Result<(), PortError> {
        let bar = &self.bar;
        self.totals
            .sample(bar, || bar.read(regs::VFSTATUS) != Status::all());
        self.status().map(drop)
    }

    fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    fn depends_on_others(&self) -> bool {
        true
    }

    fn hides_tags(&self) -> bool {
        self.is_tagged
    }

    fn hurry(&mut self) {
        self.hurried = true;
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
