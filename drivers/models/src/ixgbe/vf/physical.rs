//! The physical function beside a virtual one, as Linux's `ixgbe` drives it (`ixgbe_sriov.c`): what
//! it does with messages, resets and its administrator's orders.

use super::administrator::{Order, Pf};
use super::pool::{Pool, Xcast};
use crate::Mac;
use crate::faults::{DeviceFaults, Fault};
use crate::ixgbe::mailbox::{Mailbox, WORDS};
use crate::ixgbe::options::{Api, IxgbeVfOptions, Kind, PfOptions, VfMac};
use crate::ixgbe::rss::KEY;

/// What messages are made of (`ixgbe_mbx.h`).
mod message {
    pub(super) const RESET: u32 = 0x01;
    pub(super) const SET_MAC: u32 = 0x02;
    pub(super) const MULTICAST: u32 = 0x03;
    pub(super) const VLAN: u32 = 0x04;
    pub(super) const LPE: u32 = 0x05;
    pub(super) const MACVLAN: u32 = 0x06;
    pub(super) const NEGOTIATE: u32 = 0x08;
    pub(super) const QUEUES: u32 = 0x09;
    pub(super) const RETA: u32 = 0x0a;
    pub(super) const RSS_KEY: u32 = 0x0b;
    pub(super) const XCAST: u32 = 0x0c;
    pub(super) const LINK_STATE: u32 = 0x10;
    pub(super) const FEATURES: u32 = 0x12;
    pub(super) const CONTROL: u32 = 0x100;
    pub(super) const CTS: u32 = 1 << 29;
    pub(super) const NACK: u32 = 1 << 30;
    pub(super) const ACK: u32 = 1 << 31;
}

/// Of what can be negotiated, what Linux's physical function has: IPsec, and not the later mailbox.
const FEATURES: u32 = 1 << 0;
/// Hashes that a message has room for.
const HASHES: usize = 30;
/// VLANs besides the untagged one that the filter has room for.
const VLANS: usize = 63;
/// Frames with FCS that may be asked for.
const FRAMES: std::ops::RangeInclusive<u32> = 68..=9728;
/// Ethernet's header, and the longest usual frame without FCS.
const HEADER: u32 = 14;
const USUAL: u32 = 1514;
const FCS: u32 = 4;
/// Rounds that a reset of the physical function takes.
const RESET_ROUNDS: u32 = 3;
/// Entries of the redirection table.
pub(super) const ENTRIES: u32 = 128;
/// The key of the physical function's RSS.
pub(super) const RSS_KEY: [u8; KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// What the device must do after a round of the physical function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// The physical function was reset: the queues are as after power-up.
    pub(super) reset: bool,
    /// The virtual function's reset was seen: head write-back is off, the queues to send with
    /// were restarted.
    pub(super) vf_reset: bool,
    /// Messages taken.
    pub(super) commands: u64,
    /// The mailbox wants an interrupt.
    pub(super) interrupt: bool,
    /// Something happened.
    pub(super) moved: bool,
}

/// The physical function's books on this virtual function.
pub(super) struct Physical {
    pub(super) pf: Pf,
    kind: Kind,
    pub(super) options: PfOptions,
    given: Mac,
    pub(super) mailbox: Mailbox,
    reply: Option<([u32; WORDS], usize)>,
    /// The virtual function has reset itself, and nobody has looked yet.
    reset_event: bool,
    resetting: u32,
    pub(super) down: bool,
    cts: bool,
    api: Api,
    pinned: bool,
    pub(super) pool: Pool,
}

fn is_station(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

fn mac_of(words: &[u32; WORDS]) -> Mac {
    let [a, b, c, d] = words[1].to_le_bytes();
    let [e, f, ..] = words[2].to_le_bytes();
    [a, b, c, d, e, f]
}

impl Physical {
    pub(super) fn new(options: &IxgbeVfOptions) -> Self {
        let mut side = Self {
            pf: Pf::default(),
            kind: options.kind,
            options: options.pf,
            given: options.mac,
            mailbox: Mailbox::default(),
            reply: None,
            reset_event: false,
            resetting: 0,
            down: false,
            cts: false,
            api: Api::V10,
            pinned: options.pf.mac == VfMac::Pinned,
            pool: Pool::default(),
        };
        side.pool.longest = side.longest();
        side.forget();
        // The physical function came up a moment ago.
        side.mailbox.reset_done();
        side
    }

    /// Its own MTU.
    pub(super) fn mtu(&self) -> u32 {
        self.options.mtu
    }

    /// Its own longest frame, without FCS.
    fn own_longest(&self) -> u32 {
        self.options.mtu + HEADER
    }

    fn longest(&self) -> u32 {
        (self.own_longest() + FCS).max(USUAL + FCS)
    }

    /// True while the physical function is there.
    pub(super) fn is_up(&self) -> bool {
        !self.down && self.resetting == 0
    }

    /// The virtual function resets itself.
    pub(super) fn reset_vf(&mut self) {
        self.reset_event = true;
        self.mailbox.release_vf();
    }

    /// The link went up or down: every virtual function is told.
    pub(super) fn ping(&mut self) {
        if self.is_up() {
            let cts = if self.cts { message::CTS } else { 0 };
            self.mailbox.send(&[message::CONTROL | cts]);
        }
    }

    /// A round: orders, resets, one message.
    pub(super) fn poll(&mut self, faults: &DeviceFaults) -> Result<Effects, String> {
        let mut effects = Effects::default();
        for order in self.pf.take() {
            self.carry_out(order, &mut effects);
            effects.moved = true;
        }
        if self.resetting > 0 {
            self.resetting -= 1;
            if self.resetting == 0 && !self.down {
                self.mailbox.reset_done();
            }
            effects.moved = true;
            return Ok(effects);
        }
        if self.down {
            return Ok(effects);
        }
        if std::mem::take(&mut self.reset_event) {
            self.begin_anew();
            (effects.vf_reset, effects.moved) = (true, true);
        }
        if let Some((words, count)) = self.reply.take() {
            // It waits for the mailbox while the virtual function holds it.
            if self.mailbox.is_held_by_vf() {
                self.reply = Some((words, count));
            } else {
                self.mailbox.send(&words[..count]);
                (effects.interrupt, effects.moved) = (true, true);
            }
        } else if std::mem::take(&mut self.mailbox.request) {
            effects.moved = true;
            if faults.strikes(Fault::CommandSilent) {
                return Ok(effects);
            }
            (effects.commands, effects.interrupt) = (1, true);
            if self.mailbox.is_held_by_vf() && !self.mailbox.relaxed {
                return Err(
                    "a message in a mailbox that is still held (VFU): the physical function \
                            cannot take it"
                        .into(),
                );
            }
            self.mailbox.acknowledge();
            self.receive(faults, &mut effects);
        }
        self.mailbox.acknowledged = false;
        Ok(effects)
    }

    fn carry_out(&mut self, order: Order, effects: &mut Effects) {
        match order {
            Order::Mac(mac) => {
                (self.pool.mac, self.given, self.pinned) = (mac, mac, true);
            }
            Order::Vlan(vlan, qos) => {
                (self.options.vlan, self.options.qos) = (vlan, qos);
                self.pool.vlans.clear();
                self.pool.vlans.push(vlan);
            }
            Order::SpoofCheck(on) => {
                self.options.spoof_check = on;
                self.pool.checks_spoofs = on;
            }
            Order::Trust(on) => {
                self.options.trusted = on;
                // The virtual function must ask again for all that trust has given or takes.
                self.cts = false;
                self.mailbox.send(&[message::CONTROL]);
                effects.interrupt = true;
            }
            Order::LinkEnabled(on) => {
                self.options.link_enabled = on;
                self.allow();
                self.ping();
                effects.interrupt = true;
            }
            Order::Mtu(mtu) => {
                self.options.mtu = mtu;
                self.restart(effects);
            }
            Order::Reset | Order::Up => {
                self.down = false;
                self.restart(effects);
            }
            Order::Down => {
                self.restart(effects);
                self.down = true;
            }
        }
    }

    /// The physical function is reset: it says so with a message that is not clear to send, and
    /// forgets everything.
    pub(super) fn restart(&mut self, effects: &mut Effects) {
        self.cts = false;
        self.mailbox.release_vf();
        (self.mailbox.request, self.reply) = (false, None);
        self.mailbox.send(&[message::CONTROL]);
        self.mailbox.resetting = true;
        (self.pool.receives, self.pool.sends) = (false, false);
        self.pool.longest = self.longest();
        self.pool.filters.clear();
        self.forget();
        self.resetting = RESET_ROUNDS;
        (effects.reset, effects.interrupt) = (true, true);
    }

    /// The virtual function was reset. By now it knows that only the first rules of the mailbox
    /// hold; of a reset of the physical one it does not know yet.
    fn begin_anew(&mut self) {
        self.mailbox.relaxed = false;
        self.forget();
    }

    /// What a reset of the virtual function clears (`ixgbe_vf_reset_event`).
    fn forget(&mut self) {
        self.cts = false;
        self.api = Api::V10;
        let pool = &mut self.pool;
        pool.vlans.clear();
        pool.vlans.push(self.options.vlan);
        pool.groups.clear();
        pool.filters.clear();
        (pool.xcast, pool.takes_groups) = (Xcast::None, false);
        pool.checks_spoofs = self.options.spoof_check;
        let has_one = self.pinned || self.options.mac == VfMac::Given;
        pool.mac = if has_one { self.given } else { [0; 6] };
    }

    /// `VFRE` and `VFTE` after a reset (`ixgbe_set_vf_rx_tx`): on an 82599 with jumbo frames on,
    /// nothing is received until the virtual function has said that it can.
    fn allow(&mut self) {
        let jumbo = self.kind == Kind::I82599 && self.own_longest() > USUAL;
        let on = self.options.link_enabled;
        (self.pool.receives, self.pool.sends) = (on && !jumbo, on);
    }

    /// Takes a message and prepares the answer.
    fn receive(&mut self, faults: &DeviceFaults, effects: &mut Effects) {
        let mut words = self.mailbox.memory;
        let first = words[0];
        if first & (message::ACK | message::NACK) != 0 {
            return;
        }
        if first == message::RESET {
            self.begin_anew();
            effects.vf_reset = true;
            self.allow();
            self.cts = true;
            let refused = self.pool.mac == [0; 6] || faults.strikes(Fault::CommandRefused);
            let answer = if refused { message::NACK } else { message::ACK };
            let mac = if refused { [0; 6] } else { self.pool.mac };
            let [a, b, c, d, e, f] = mac;
            words = [0; WORDS];
            words[0] = message::RESET | answer;
            words[1] = u32::from_le_bytes([a, b, c, d]);
            words[2] = u32::from_le_bytes([e, f, 0, 0]);
            self.reply = Some((words, 4));
            return;
        }
        if !self.cts {
            words[0] |= message::NACK;
            self.reply = Some((words, 1));
            return;
        }
        let done = !faults.strikes(Fault::CommandRefused) && self.obey(&mut words).is_some();
        let answer = if done { message::ACK } else { message::NACK };
        words[0] |= message::CTS | answer;
        self.reply = Some((words, WORDS));
    }

    /// Does what a message asks for; None if it may not be, or makes no sense.
    fn obey(&mut self, words: &mut [u32; WORDS]) -> Option<()> {
        let info = words[0] >> 16 & 0xff;
        match words[0] & 0xffff {
            message::SET_MAC => self.set_mac(mac_of(words)),
            message::MULTICAST => self.set_multicast(info, words),
            message::VLAN => self.set_vlan(info != 0, words[1]),
            message::LPE => self.set_longest(words[1]),
            message::MACVLAN => self.set_filter(info, mac_of(words)),
            message::NEGOTIATE => self.negotiate(words[1]),
            message::QUEUES if self.api >= Api::V11 => {
                let count = u32::from(self.options.queues);
                let tags = self.options.vlan != 0 || self.options.qos != 0;
                words[1..5].copy_from_slice(&[count, count, u32::from(tags), 0]);
                Some(())
            }
            message::RETA if self.may_query() => {
                for (n, word) in (0u32..).zip(&mut words[1..9]) {
                    *word =
                        (0..16).fold(0, |all, at| all | (self.entry(n * 16 + at) & 3) << (2 * at));
                }
                Some(())
            }
            message::RSS_KEY if self.may_query() => {
                for (word, bytes) in words[1..].iter_mut().zip(RSS_KEY.chunks_exact(4)) {
                    *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                }
                Some(())
            }
            message::XCAST => self.set_xcast(&mut words[1]),
            message::FEATURES if self.api >= Api::V17 => {
                words[1] &= FEATURES;
                Some(())
            }
            message::LINK_STATE if self.api >= Api::V12 => {
                words[1] = u32::from(self.options.link_enabled);
                Some(())
            }
            _ => None,
        }
    }

    fn may_query(&self) -> bool {
        self.options.rss_query && self.api >= Api::V12
    }

    /// An entry of the redirection table: the pool's queues in turn.
    pub(super) fn entry(&self, at: u32) -> u32 {
        at % ENTRIES % u32::from(self.options.queues.max(1))
    }

    fn set_mac(&mut self, mac: Mac) -> Option<()> {
        let may = is_station(mac) && (!self.pinned || self.options.trusted || mac == self.pool.mac);
        may.then(|| self.pool.mac = mac)
    }

    fn set_multicast(&mut self, count: u32, words: &[u32; WORDS]) -> Option<()> {
        let hashes = words[1..].iter().flat_map(|word| {
            let [a, b, c, d] = word.to_le_bytes();
            [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
        });
        // The table that all share only grows, until the function is reset.
        for hash in hashes.take(HASHES.min(count as usize)) {
            if !self.pool.groups.contains(&(hash & 0xfff)) {
                self.pool.groups.push(hash & 0xfff);
            }
        }
        self.pool.takes_groups = true;
        Some(())
    }

    fn set_vlan(&mut self, add: bool, word: u32) -> Option<()> {
        let vlan = u16::try_from(word & 0xfff).unwrap_or(0);
        if self.options.vlan != 0 {
            return None;
        }
        // The untagged ones cannot be given up.
        if vlan == 0 && !add {
            return Some(());
        }
        let known = self.pool.vlans.contains(&vlan);
        if add && !known {
            let further = self.pool.vlans.iter().filter(|&&vlan| vlan != 0).count();
            if vlan != 0 && further >= VLANS {
                return None;
            }
            self.pool.vlans.push(vlan);
        } else if !add {
            self.pool.vlans.retain(|&known| known != vlan);
        }
        Some(())
    }

    /// `ixgbe_set_vf_lpe`, to the letter.
    fn set_longest(&mut self, longest: u32) -> Option<()> {
        if !FRAMES.contains(&longest) {
            return None;
        }
        if self.kind == Kind::I82599 {
            let pf_jumbo = self.own_longest() > USUAL;
            let knows = self.api >= Api::V11 && self.api != Api::V15;
            let may = knows && pf_jumbo || !pf_jumbo && longest <= USUAL + FCS;
            self.pool.receives = may;
            if !may {
                return None;
            }
        }
        self.pool.longest = self.pool.longest.max(longest);
        Some(())
    }

    fn set_filter(&mut self, index: u32, mac: Mac) -> Option<()> {
        if index > 0 && (self.pinned && !self.options.trusted || !is_station(mac)) {
            return None;
        }
        if index > 0 {
            // One that may have several addresses is not looked at for spoofing any more.
            self.pool.checks_spoofs = false;
        }
        if index <= 1 {
            self.pool.filters.clear();
        }
        if index > 0 {
            let room = self.pool.filters.len() < self.options.mac_filters;
            room.then(|| self.pool.filters.push(mac))?;
        }
        Some(())
    }

    fn negotiate(&mut self, code: u32) -> Option<()> {
        let newest = self.options.newest_api;
        let api = Api::of(code).filter(|&api| api <= newest)?;
        if api == Api::V15 && newest > Api::V15 {
            return None;
        }
        self.api = api;
        self.mailbox.relaxed = api == Api::V15;
        Some(())
    }

    /// The mode that is granted replaces the one that was asked for.
    fn set_xcast(&mut self, mode: &mut u32) -> Option<()> {
        let asked = Xcast::of(*mode)?;
        if self.api < Api::V12 || self.api == Api::V12 && asked == Xcast::Promiscuous {
            return None;
        }
        let granted = if self.options.trusted {
            asked
        } else {
            asked.min(Xcast::Multi)
        };
        if granted != self.pool.xcast && granted == Xcast::Promiscuous {
            let can = self.kind != Kind::I82599 && self.options.promiscuous;
            can.then_some(())?;
        }
        self.pool.xcast = granted;
        self.pool.takes_groups = granted != Xcast::None;
        *mode = granted as u32;
        Some(())
    }
}
