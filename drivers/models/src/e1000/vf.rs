//! A virtual function's mailbox, and behind it the physical function as Linux's `igb` drives it
//! (`igb_main.c`: `igb_msg_task`, `igb_rcv_msg_from_vf`, `igb_vf_reset_msg`).
//!
//! The mailbox is 16 words that belong to whoever holds them (`VFU`, `PFU`). Three bits of its
//! register are cleared by being read: a driver that does not keep them loses messages.

use super::options::{E1000Options, PfOptions, VfMac};
use super::pf::{Order, Pf};
use crate::Mac;
use crate::faults::{DeviceFaults, Fault};

/// Bits of the mailbox register (82576 §8.14.3).
mod bit {
    pub(super) const REQ: u32 = 1 << 0;
    pub(super) const ACK: u32 = 1 << 1;
    pub(super) const VFU: u32 = 1 << 2;
    pub(super) const PFSTS: u32 = 1 << 4;
    pub(super) const PFACK: u32 = 1 << 5;
    pub(super) const RSTI: u32 = 1 << 6;
    pub(super) const RSTD: u32 = 1 << 7;
}

/// What messages are made of (`e1000_mbx.h`).
mod message {
    pub(super) const RESET: u32 = 1;
    pub(super) const SET_MAC: u32 = 2;
    pub(super) const MULTICAST: u32 = 3;
    pub(super) const VLAN: u32 = 4;
    pub(super) const LPE: u32 = 5;
    pub(super) const PROMISC: u32 = 6;
    pub(super) const CONTROL: u32 = 0x100;
    pub(super) const CTS: u32 = 1 << 29;
    pub(super) const NACK: u32 = 1 << 30;
    pub(super) const ACK: u32 = 1 << 31;
    pub(super) const INFO: u32 = 0xff << 16;
    /// With `SET_MAC`: forget the further addresses, or add one.
    pub(super) const CLEAR_FILTERS: u32 = 1 << 16;
    pub(super) const ADD_FILTER: u32 = 2 << 16;
    /// With `PROMISC`.
    pub(super) const ALL_MULTICAST: u32 = 2 << 16;
}

const WORDS: usize = 16;
/// Hashes that a message has room for.
const HASHES: usize = 30;
/// VLANs besides the untagged one that the filter has room for.
const VLANS: usize = 31;
/// Largest frame with FCS.
const JUMBO: u32 = 0x2600;
/// Rounds that a reset of the physical function takes.
const RESET_ROUNDS: u32 = 3;

/// What the device must do after a round of the physical function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// The physical function was reset: the queues are as after power-up.
    pub(super) reset: bool,
    /// The link may have changed.
    pub(super) link: bool,
    /// Messages taken.
    pub(super) commands: u64,
    /// The mailbox wants an interrupt.
    pub(super) interrupt: bool,
}

/// The mailbox and the physical function's books on this virtual function.
pub(super) struct VfSide {
    pub(super) pf: Pf,
    options: PfOptions,
    given: Mac,
    memory: [u32; WORDS],
    vfu: bool,
    /// Bits that are cleared by being read.
    sticky: u32,
    request: bool,
    reply: Option<([u32; 3], usize)>,
    /// The virtual function has reset itself, and nobody has looked yet.
    reset_event: bool,
    resetting: u32,
    down: bool,
    cts: bool,
    pinned: bool,
    mac: Mac,
    filters: Vec<Mac>,
    vlans: Vec<u16>,
    hashes: Vec<u16>,
    many_hashes: bool,
    all_multicast: bool,
    longest: Option<u32>,
    strip: bool,
    /// Frames may be received and sent (`VFRE`, `VFTE`).
    pub(super) enabled: bool,
}

fn is_station(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

fn mac_of(words: &[u32]) -> Mac {
    let [a, b, c, d] = words[1].to_le_bytes();
    let [e, f, ..] = words[2].to_le_bytes();
    [a, b, c, d, e, f]
}

impl VfSide {
    pub(super) fn new(options: &E1000Options) -> Self {
        let mut side = Self {
            pf: Pf::default(),
            options: options.pf,
            given: options.mac,
            memory: [0; WORDS],
            vfu: false,
            // The physical function came up a moment ago.
            sticky: bit::RSTD,
            request: false,
            reply: None,
            reset_event: false,
            resetting: 0,
            down: false,
            cts: false,
            pinned: options.pf.mac == VfMac::Pinned,
            mac: [0; 6],
            filters: Vec::new(),
            vlans: Vec::new(),
            hashes: Vec::new(),
            many_hashes: false,
            all_multicast: false,
            longest: None,
            strip: false,
            enabled: false,
        };
        side.forget();
        side.forget_mac();
        side
    }

    /// True while the physical function is there, and its link counts.
    pub(super) fn is_up(&self) -> bool {
        !self.down && self.resetting == 0
    }

    /// The virtual function resets itself: nothing moves until the reset was announced.
    pub(super) fn reset_vf(&mut self) {
        self.enabled = false;
        self.reset_event = true;
        self.vfu = false;
    }

    /// The mailbox register is read.
    pub(super) fn read(&mut self, faults: &DeviceFaults) -> u32 {
        let mut value = std::mem::take(&mut self.sticky);
        if self.vfu {
            value |= bit::VFU;
        }
        if !self.is_up() || faults.strikes(Fault::StuckReset) {
            value |= bit::RSTI;
        }
        value
    }

    /// The mailbox register is written.
    pub(super) fn write(&mut self, value: u32) -> Result<(), String> {
        if value & !(bit::REQ | bit::ACK | bit::VFU) != 0 {
            return Err(format!("mailbox register written with {value:#x}"));
        }
        let held = self.vfu;
        self.vfu = value & bit::VFU != 0;
        if value & (bit::REQ | bit::ACK) != 0 && !held {
            return Err("mailbox given away that was not held (VFU)".into());
        }
        self.request |= value & bit::REQ != 0;
        Ok(())
    }

    /// A word of the mailbox is read.
    pub(super) fn load(&self, index: usize) -> Result<u32, String> {
        match self.memory.get(index) {
            Some(&word) if self.vfu => Ok(word),
            _ => Err("mailbox read without being held (VFU)".into()),
        }
    }

    /// A word of the mailbox is written.
    pub(super) fn store(&mut self, index: usize, value: u32) -> Result<(), String> {
        match self.memory.get_mut(index) {
            Some(word) if self.vfu => {
                *word = value;
                Ok(())
            }
            _ => Err("mailbox written without being held (VFU)".into()),
        }
    }

    /// The link went up or down: every virtual function is told.
    pub(super) fn ping(&mut self) {
        if self.is_up() {
            let cts = if self.cts { message::CTS } else { 0 };
            self.send([message::CONTROL | cts, 0, 0], 1);
        }
    }

    /// A round of the physical function: orders, resets, one message.
    pub(super) fn poll(&mut self, faults: &DeviceFaults) -> Result<Effects, String> {
        let mut effects = Effects::default();
        for order in self.pf.take() {
            self.carry_out(order, &mut effects);
        }
        if self.resetting > 0 {
            self.resetting -= 1;
            if self.resetting == 0 && !self.down {
                self.sticky |= bit::RSTD;
                effects.link = true;
            }
            return Ok(effects);
        }
        if self.down {
            return Ok(effects);
        }
        if std::mem::take(&mut self.reset_event) {
            self.forget();
            self.forget_mac();
        }
        if let Some((words, count)) = self.reply.take() {
            // Linux gives a reply up that it finds the mailbox taken for.
            if !self.vfu {
                self.send(words, count);
                effects.interrupt = true;
            }
        } else if self.request && !faults.strikes(Fault::CommandSilent) {
            self.request = false;
            effects.commands = 1;
            effects.interrupt = true;
            if self.vfu {
                self.cts = false;
                return Err(
                    "a message in a mailbox that is still held (VFU): the physical function \
                            cannot take it"
                        .into(),
                );
            }
            self.sticky |= bit::PFACK;
            self.receive(faults);
        } else {
            self.request = false;
        }
        Ok(effects)
    }

    fn send(&mut self, words: [u32; 3], count: usize) {
        self.memory[..count].copy_from_slice(&words[..count]);
        self.sticky |= bit::PFSTS;
    }

    fn carry_out(&mut self, order: Order, effects: &mut Effects) {
        match order {
            Order::Mac(mac) => (self.mac, self.given, self.pinned) = (mac, mac, true),
            Order::Vlan(vlan, qos) => {
                let old = self.options.vlan;
                self.vlans.retain(|&known| known != old && known != vlan);
                self.vlans.push(vlan);
                (self.options.vlan, self.options.qos) = (vlan, qos);
                self.strip = vlan != 0;
            }
            Order::SpoofCheck(on) => self.options.spoof_check = on,
            Order::Reset | Order::Up => {
                self.down = false;
                self.reset_pf();
                effects.reset = true;
                effects.link = true;
            }
            Order::Down => {
                self.reset_pf();
                self.down = true;
                effects.reset = true;
                effects.link = true;
            }
        }
    }

    /// The physical function is reset: it says so with a message that is not clear to send, and
    /// forgets everything.
    pub(super) fn reset_pf(&mut self) {
        self.cts = false;
        self.send([message::CONTROL, 0, 0], 1);
        self.enabled = false;
        (self.request, self.reply) = (false, None);
        self.filters.clear();
        self.longest = None;
        self.forget();
        self.resetting = RESET_ROUNDS;
    }

    /// What a reset of the virtual function clears.
    fn forget(&mut self) {
        self.cts = false;
        self.vlans.clear();
        self.vlans.push(self.options.vlan);
        self.hashes.clear();
        (self.many_hashes, self.all_multicast) = (false, false);
        self.strip = self.options.vlan != 0;
    }

    fn forget_mac(&mut self) {
        let has_one = self.pinned || self.options.mac == VfMac::Given;
        self.mac = if has_one { self.given } else { [0; 6] };
    }

    /// Takes a message and prepares the answer.
    fn receive(&mut self, faults: &DeviceFaults) {
        let mut words = self.memory;
        let first = words[0];
        if first & (message::ACK | message::NACK) != 0 {
            return;
        }
        if first == message::RESET {
            self.forget();
            self.enabled = true;
            self.cts = true;
            let refused = self.mac == [0; 6] || faults.strikes(Fault::CommandRefused);
            let [a, b, c, d, e, f] = self.mac;
            let answer = if refused { message::NACK } else { message::ACK };
            let mac = [
                u32::from_le_bytes([a, b, c, d]),
                u32::from_le_bytes([e, f, 0, 0]),
            ];
            self.reply = Some(([message::RESET | answer, mac[0], mac[1]], 3));
            return;
        }
        if !self.cts {
            self.reply = Some(([first | message::NACK, 0, 0], 1));
            return;
        }
        let done = !faults.strikes(Fault::CommandRefused) && self.obey(&mut words);
        let answer = if done { message::ACK } else { message::NACK };
        self.reply = Some(([words[0] | message::CTS | answer, 0, 0], 1));
    }

    /// Does what a message asks for; false if it may not be, or makes no sense.
    fn obey(&mut self, words: &mut [u32; WORDS]) -> bool {
        let info = words[0] & message::INFO;
        match words[0] & 0xffff {
            message::SET_MAC => self.set_mac(info, mac_of(words)),
            message::MULTICAST => {
                self.set_multicast(info >> 16, words);
                true
            }
            message::VLAN => self.set_vlan(info != 0, words[1]),
            message::LPE => {
                self.longest = Some(words[1].min(JUMBO));
                true
            }
            message::PROMISC => {
                self.all_multicast = info & message::ALL_MULTICAST != 0;
                words[0] &= !message::ALL_MULTICAST;
                words[0] & message::INFO == 0
            }
            _ => false,
        }
    }

    fn set_mac(&mut self, info: u32, mac: Mac) -> bool {
        match info {
            0 if self.pinned || !is_station(mac) => false,
            0 => {
                self.mac = mac;
                true
            }
            message::CLEAR_FILTERS => {
                self.filters.clear();
                true
            }
            message::ADD_FILTER => {
                let fits = self.filters.len() < self.options.mac_filters;
                let may = !self.pinned && is_station(mac) && fits;
                if may {
                    self.filters.push(mac);
                }
                may
            }
            _ => false,
        }
    }

    fn set_multicast(&mut self, count: u32, words: &[u32; WORDS]) {
        let count = usize::try_from(count).unwrap_or(0);
        self.many_hashes = count > HASHES;
        let hashes = words[1..].iter().flat_map(|word| {
            let [a, b, c, d] = word.to_le_bytes();
            [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
        });
        self.hashes.clear();
        self.hashes.extend(hashes.take(count.min(HASHES)));
    }

    fn set_vlan(&mut self, add: bool, word: u32) -> bool {
        let vlan = u16::try_from(word & 0xfff).unwrap_or(0);
        if self.options.vlan != 0 {
            return false;
        }
        // The untagged ones cannot be given up.
        if vlan == 0 && !add {
            return true;
        }
        let known = self.vlans.contains(&vlan);
        if add && !known {
            let further = self.vlans.iter().filter(|&&vlan| vlan != 0).count();
            if vlan != 0 && further >= VLANS {
                return false;
            }
            self.vlans.push(vlan);
        } else if !add {
            self.vlans.retain(|&known| known != vlan);
        }
        // Linux turns stripping on with either, and off with VLAN 0.
        self.strip = vlan != 0;
        true
    }

    /// True if a received frame is for this virtual function.
    #[inline]
    pub(super) fn accepts(&self, to: Mac, vlan: Option<u16>) -> bool {
        let in_vlan = match vlan {
            Some(tag) => self.vlans.contains(&(tag & 0xfff)),
            None => self.options.vlan == 0,
        };
        in_vlan && (to == [0xff; 6] || self.accepts_address(to))
    }

    fn accepts_address(&self, to: Mac) -> bool {
        if to[0] & 1 == 0 {
            return to == self.mac || self.filters.contains(&to);
        }
        let hash = u16::from(to[4]) >> 4 | u16::from(to[5]) << 4;
        self.all_multicast
            || self.many_hashes
            || self.hashes.iter().any(|&known| known & 0xfff == hash)
    }

    /// True if a frame of `bytes` without FCS is too long.
    #[inline]
    pub(super) fn is_too_long(&self, bytes: u32, tagged: bool) -> bool {
        match self.longest {
            Some(longest) => bytes + 4 > longest,
            None => bytes > 1514 + if tagged { 4 } else { 0 },
        }
    }

    /// True if received tags are cut out.
    #[inline]
    pub(super) fn strips(&self) -> bool {
        self.strip
    }

    /// The tag that every sent frame gets, if one.
    #[inline]
    pub(super) fn port_vlan(&self) -> Option<u16> {
        let tag = self.options.vlan | u16::from(self.options.qos) << 13;
        (tag != 0).then_some(tag)
    }

    /// True if a frame from this address, with this tag, may be sent.
    #[inline]
    pub(super) fn may_send(&self, from: Mac, vlan: Option<u16>) -> bool {
        if !self.options.spoof_check {
            return true;
        }
        let own = from == self.mac || self.filters.contains(&from);
        own && vlan.is_none_or(|tag| self.vlans.contains(&(tag & 0xfff)))
    }
}
