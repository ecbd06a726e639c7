//! What a virtual function receives: told to its physical function, which grants it or not.

use hw::function::Function;
use intel::message::{WORDS, about, message, text};
use intel::{Host, Wanted};
use port::PortError;

use super::Vf;
use crate::filter;
use crate::mailbox::{Api, request};

/// Hashes that fit in a message.
const HASHES: usize = 30;
/// What a VF may receive beside its own addresses, as the mailbox has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    /// Broadcasts.
    Broadcasts = 0,
    /// Groups that were asked for, too.
    Groups = 1,
    /// Every group.
    AllGroups = 2,
    /// Everything.
    Promiscuous = 3,
}

impl Mode {
    fn of(wanted: &Wanted, hashes: usize) -> Self {
        match wanted {
            Wanted {
                promiscuous: true, ..
            } => Self::Promiscuous,
            // Groups beyond those that fit in a message are received with all others.
            wanted if wanted.all_multicast || hashes > HASHES => Self::AllGroups,
            _ if hashes > 0 => Self::Groups,
            _ => Self::Broadcasts,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Broadcasts => "broadcasts",
            Self::Groups => "multicast filters",
            Self::AllGroups => "all-multicast mode",
            Self::Promiscuous => "promiscuous mode",
        }
    }
}

/// How to make a PF's driver grant what it grants to those that it trusts.
fn trust(host: &Host) -> String {
    host.vf("trust on")
}

impl<F: Function> Vf<F> {
    /// Tells the PF every address: its own if it is not the one that the PF gave, further stations
    /// one by one, groups by their hashes.
    pub(super) fn set_addresses(&mut self, wanted: &Wanted) -> Result<(), PortError> {
        let own = wanted.mac.unwrap_or(self.address);
        if wanted.mac.is_some() || !self.is_given {
            let cure = |host: &Host| {
                let (trust, set) = (trust(host), host.vf(&format!("mac {}", text(&own))));
                format!("the host gave this VF its address; {trust}; or {set}")
            };
            let what = || format!("the address {}", text(&own));
            self.ask(&about(request::SET_MAC, &own), 3, what, cure)?;
        }
        if self.has_more {
            let clear = message(request::MACVLAN);
            self.ask(&clear, 3, || "to forget further addresses".into(), trust)?;
            self.has_more = false;
        }
        for (number, mac) in (1u32..).zip(wanted.stations()) {
            // Any number but 0 and 1 goes on with a list; the field has 8 bits.
            let number = number.min(2) << request::INFO_SHIFT;
            let what = || format!("to receive {} too", text(mac));
            self.has_more = true;
            self.ask(&about(request::MACVLAN | number, mac), 3, what, trust)?;
        }
        self.set_groups(wanted)
    }

    pub(super) fn set_groups(&mut self, wanted: &Wanted) -> Result<(), PortError> {
        let bits = self.group_bits;
        let hashes: Vec<u16> = wanted
            .groups()
            .map(|group| filter::hash(group, bits))
            .collect();
        let mode = Mode::of(wanted, hashes.len());
        // Linux's PF only ever adds to its table: an empty list would take nothing out, and let
        // what is in it through again. What does is the mode without groups, from 1.2 on.
        if hashes.is_empty() && self.mailbox.api() >= Api::V1_2 {
            return self.set_mode(mode);
        }
        let told = hashes.get(..HASHES).unwrap_or(&hashes);
        let count = u32::try_from(told.len()).unwrap_or(0);
        let mut list = message(request::MULTICAST | count << request::INFO_SHIFT);
        for (word, pair) in list[1..].iter_mut().zip(told.chunks(2)) {
            let high = pair.get(1).copied().unwrap_or(0);
            *word = u32::from(pair[0]) | u32::from(high) << 16;
        }
        let cure = |_: &Host| "look in the host's log what its ixgbe driver says".into();
        self.ask(&list, WORDS, || "a list of groups".into(), cure)?;
        self.set_mode(mode)
    }

    /// Asks for a mode. A PF grants less than that to those that it does not trust, and says so
    /// only in its answer's second word.
    fn set_mode(&mut self, mode: Mode) -> Result<(), PortError> {
        if self.mailbox.api() < Api::V1_2 {
            return Ok(());
        }
        let mut request = message(request::XCAST);
        request[1] = mode as u32;
        let what = || mode.text().to_owned();
        let cure = |host: &Host| match mode {
            Mode::Promiscuous => format!("{}; and {}", host.pf("promisc on"), trust(host)),
            _ => trust(host),
        };
        let granted = self.ask(&request, 2, what, cure)?[1];
        if granted >= mode as u32 {
            return Ok(());
        }
        Err(PortError::Refused {
            port: self.name(),
            what: mode.text().to_owned(),
            cure: Some(cure(&Host::of(&*self.function))),
        })
    }

    pub(super) fn set_vlan(&mut self, id: u16, on: bool) -> Result<(), PortError> {
        let mut vlan = message(request::VLAN | u32::from(on) << request::INFO_SHIFT);
        vlan[1] = u32::from(id);
        let cure = |host: &Host| {
            let none = host.vf("vlan 0");
            format!("the host gave this VF a VLAN of its own, or has no room for another; {none}")
        };
        self.ask(&vlan, 2, || format!("VLAN {id}"), cure).map(drop)
    }
}
