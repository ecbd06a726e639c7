//! The control queue: commands and their answers (§5.1.6.5).

use hugemem::Iova;

use super::bits::feature;
use super::queue::either;
use super::ring::{Broken, Ring, Used};
use super::rss::Spread;
use super::{VirtioNet, refused};
use crate::counters::DeviceCounts;
use crate::faults::Fault;
use crate::frames::Segment;

const OK: u8 = 0;
const ERROR: u8 = 1;

/// Classes of command.
mod class {
    pub(super) const RX: u8 = 0;
    pub(super) const MAC: u8 = 1;
    pub(super) const VLAN: u8 = 2;
    pub(super) const ANNOUNCE: u8 = 3;
    pub(super) const MQ: u8 = 4;
}

/// Commands that a round carries out at most.
const PER_ROUND: usize = 16;
/// Bytes of command that are read at most: two full tables.
const LONGEST: u64 = 2 + 2 * (4 + 6 * 65_536);

impl VirtioNet {
    /// Carries out commands that were posted. True if there were any.
    pub(super) fn poll_control(&mut self) -> bool {
        let Some(index) = self.control_index().filter(|_| self.is_running()) else {
            return false;
        };
        let mut done = 0;
        while done < PER_ROUND {
            match self.command(index) {
                Ok(true) => done += 1,
                Ok(false) => break,
                Err(broken) => {
                    self.break_down(index, broken);
                    break;
                }
            }
        }
        self.publish(usize::from(index));
        done > 0
    }

    /// The next command; false if there is none.
    fn command(&mut self, index: u16) -> Result<bool, Broken> {
        let sleeps = self.sleeps();
        let Some(queue) = self.queues.get_mut(usize::from(index)) else {
            return Ok(false);
        };
        if queue.ring.is_none() || !queue.wakes(sleeps, &self.bells) {
            return Ok(false);
        }
        let Some(ring) = &mut queue.ring else {
            return Ok(false);
        };
        self.segments.clear();
        let memory = &mut self.memory;
        let next = either!(ring, ring => {
            ring.check(memory)?;
            ring.next(memory, &mut self.segments)?
        });
        queue.looked(sleeps, next.is_some(), next.is_none());
        let Some(chain) = next else {
            return Ok(false);
        };
        let answer_at = self.read_command()?;
        self.counters.add(&DeviceCounts {
            commands: 1,
            ..DeviceCounts::default()
        });
        if self.faults.strikes(Fault::CommandSilent) {
            return Ok(true);
        }
        let answer = if refused(&self.faults) {
            ERROR
        } else {
            self.carry_out()
        };
        self.memory.write(answer_at, &[answer])?;
        if let Some(queue) = self.queues.get_mut(usize::from(index)) {
            let used = Used { chain, written: 1 };
            if let Some(ring) = &mut queue.ring {
                either!(ring, ring => ring.put(&[used]));
            }
            queue.touched = true;
        }
        Ok(true)
    }

    /// Reads the command's bytes into `scratch`; where its answer goes.
    fn read_command(&mut self) -> Result<Iova, Broken> {
        self.scratch.clear();
        let (readable, writable): (Vec<Segment>, Vec<Segment>) =
            self.segments.iter().partition(|segment| !segment.writable);
        let len: u64 = readable.iter().map(|segment| u64::from(segment.len)).sum();
        if !(2..=LONGEST).contains(&len) {
            return Err(Broken::new(format!("command of {len} bytes")));
        }
        for segment in &readable {
            let bytes = self
                .memory
                .peek(Iova::from_device(segment.iova), segment.len as usize)?;
            self.scratch.extend_from_slice(bytes);
        }
        match writable[..] {
            [answer] if answer.len == 1 => Ok(Iova::from_device(answer.iova)),
            [answer, ..] => {
                self.object("more than one byte for a command's answer (§5.1.6.5)");
                Ok(Iova::from_device(answer.iova))
            }
            [] => Err(Broken::new(
                "command without room for its answer (§5.1.6.5)",
            )),
        }
    }

    /// Carries out what is in `scratch`; the answer.
    fn carry_out(&mut self) -> u8 {
        let command = std::mem::take(&mut self.scratch);
        let [class, number, ref data @ ..] = command[..] else {
            return ERROR;
        };
        let done = match class {
            class::RX => self.rx_mode(number, data),
            class::MAC => self.mac(number, data),
            class::VLAN => self.vlan(number, data),
            class::ANNOUNCE => self.announced(number, data),
            class::MQ => self.multiqueue(number, data),
            _ => None,
        };
        if done.is_none() {
            self.object(format!(
                "command {class}.{number} with {} bytes of data, which is malformed, out of \
                 range or not negotiated (§5.1.6.5)",
                data.len()
            ));
        }
        self.scratch = command;
        if done.is_some() { OK } else { ERROR }
    }

    /// Receive modes (§5.1.6.5.1).
    fn rx_mode(&mut self, number: u8, data: &[u8]) -> Option<()> {
        let needed = if number <= 1 {
            feature::CTRL_RX
        } else {
            feature::CTRL_RX_EXTRA
        };
        let filter = &mut self.filter;
        let mode = match number {
            0 => &mut filter.promiscuous,
            1 => &mut filter.all_multicast,
            2 => &mut filter.all_unicast,
            3 => &mut filter.no_multicast,
            4 => &mut filter.no_unicast,
            5 => &mut filter.no_broadcast,
            _ => return None,
        };
        if self.negotiation.accepted & needed == 0 {
            return None;
        }
        let [on @ (0 | 1)] = data else {
            return None;
        };
        *mode = *on == 1;
        Some(())
    }

    /// The address table and the device's address (§5.1.6.5.2).
    fn mac(&mut self, number: u8, data: &[u8]) -> Option<()> {
        match number {
            0 if self.has(feature::CTRL_RX) => {
                let (unicast, rest) = table(data)?;
                let (multicast, rest) = table(rest)?;
                rest.is_empty()
                    .then(|| self.filter.set_table(unicast, multicast))
            }
            1 if self.has(feature::CTRL_MAC_ADDR) => {
                self.config.mac = data.try_into().ok()?;
                self.config.change();
                Some(())
            }
            _ => None,
        }
    }

    /// VLANs that pass (§5.1.6.5.3).
    fn vlan(&mut self, number: u8, data: &[u8]) -> Option<()> {
        let vlan = u16::from_le_bytes(data.try_into().ok()?);
        let known = number <= 1 && self.has(feature::CTRL_VLAN);
        (known && self.filter.set_vlan(vlan, number == 0)).then_some(())
    }

    /// The driver has announced itself (§5.1.6.5.4).
    fn announced(&mut self, number: u8, data: &[u8]) -> Option<()> {
        let known = number == 0 && data.is_empty() && self.has(feature::GUEST_ANNOUNCE);
        known.then(|| {
            self.config.announce = false;
            self.config.change();
        })
    }

    /// Which pairs of queues are in use, and how frames are hashed and spread (§5.1.6.5.5). The
    /// last command holds.
    fn multiqueue(&mut self, number: u8, data: &[u8]) -> Option<()> {
        match number {
            0 if self.has(feature::MQ) => self.activate(data),
            1 if self.has(feature::RSS) => self.spread_by_table(data),
            2 if self.has(feature::HASH_REPORT) && !self.has(feature::RSS) => {
                let hashes = Spread::hashes_alone(data);
                self.spread = Some(self.sound(hashes)?);
                Some(())
            }
            _ => None,
        }
    }

    /// So many pairs, and the device's own way of spreading (§5.1.6.5.6).
    fn activate(&mut self, data: &[u8]) -> Option<()> {
        let pairs = u16::from_le_bytes(data.try_into().ok()?);
        if !(1..=self.options.pairs).contains(&pairs) {
            return None;
        }
        self.active_pairs = pairs;
        if self.spread.as_ref().is_some_and(Spread::has_table) {
            self.spread = None;
        }
        Some(())
    }

    /// As a table says (§5.1.6.5.7).
    fn spread_by_table(&mut self, data: &[u8]) -> Option<()> {
        let queues = &self.queues;
        let is_enabled = |pair: u16| {
            let queue = queues.get(usize::from(pair) * 2);
            queue.is_some_and(|queue| queue.ring.is_some())
        };
        let read = Spread::by_table(data, self.options.pairs, is_enabled);
        let (spread, senders) = self.sound(read)?;
        self.active_pairs = senders;
        self.spread = Some(spread);
        Some(())
    }

    /// What was read of a command, if it can be carried out.
    fn sound<T>(&self, read: Result<T, String>) -> Option<T> {
        read.map_err(|flaw| self.object(format!("command for a hash with {flaw} (§5.1.6.5.7.1)")))
            .ok()
    }
}

/// A list of addresses, and what is behind it.
fn table(data: &[u8]) -> Option<(&[[u8; 6]], &[u8])> {
    let (count, rest) = data.split_first_chunk::<4>()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let bytes = count.checked_mul(6)?;
    let (macs, rest) = rest.split_at_checked(bytes)?;
    Some((macs.as_chunks::<6>().0, rest))
}
