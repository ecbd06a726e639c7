//! The control queue (§5.1.6.5): commands, and the device's word on each.
//!
//! A command is a chain of two buffers: what the driver says, and one byte that the device
//! answers. One is under way at a time; whoever sends it waits for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use hugemem::{Dma, Memory, MemoryError};
use hw::ring::Cursor;
use port::{Mac, PortError, Rss};

use crate::desc::{DescFlags, split_word};
use crate::doorbell::Doorbell;
use crate::ring::packed::{Batch, Packed};
use crate::ring::split::{Split, set};
use crate::ring::{Format, RingMemory};
use crate::rss::{self, HashTypes};

/// What is asked of the device (§5.1.6.5): class and command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command<'a> {
    /// Accept every frame.
    Promiscuous(bool),
    /// Accept every multicast frame.
    AllMulticast(bool),
    /// Accept these addresses too.
    Macs(&'a [Mac]),
    /// The port's own address.
    Mac(Mac),
    /// Accept a VLAN.
    VlanAdd(u16),
    /// Accept it no longer.
    VlanDelete(u16),
    /// Use so many queue pairs; one until it is told.
    Pairs(u16),
    /// Use so many queue pairs, and spread over them by a hash of these.
    Spread(HashTypes, &'a Rss, u16),
}

impl Command<'_> {
    /// For people.
    fn name(&self) -> String {
        match self {
            Self::Promiscuous(on) => format!("promiscuous {}", switch(*on)),
            Self::AllMulticast(on) => format!("all-multicast {}", switch(*on)),
            Self::Macs(macs) => format!("a filter of {} addresses", macs.len()),
            Self::Mac(_) => "another address".into(),
            Self::VlanAdd(id) | Self::VlanDelete(id) => format!("a filter for VLAN {id}"),
            Self::Pairs(pairs) => format!("{pairs} queue pairs"),
            Self::Spread(_, rss, pairs) => format!(
                "spreading over {pairs} queue pairs by a table of {} entries",
                rss.table.len()
            ),
        }
    }

    /// Class, command and data.
    fn bytes(&self) -> Vec<u8> {
        const RX: u8 = 0;
        const MAC: u8 = 1;
        const VLAN: u8 = 2;
        const MQ: u8 = 4;
        match *self {
            Self::Promiscuous(on) => vec![RX, 0, u8::from(on)],
            Self::AllMulticast(on) => vec![RX, 1, u8::from(on)],
            Self::Macs(macs) => {
                let mut bytes = vec![MAC, 0];
                // Unicast addresses, then multicast ones; each list behind its length.
                for multicast in [false, true] {
                    let list: Vec<&Mac> = macs
                        .iter()
                        .filter(|mac| (mac[0] & 1 == 1) == multicast)
                        .collect();
                    let count = u32::try_from(list.len()).expect("a list fits a command");
                    bytes.extend(count.to_le_bytes());
                    bytes.extend(list.into_iter().flatten());
                }
                bytes
            }
            Self::Mac(mac) => [&[MAC, 1][..], &mac].concat(),
            Self::VlanAdd(id) => [&[VLAN, 0][..], &id.to_le_bytes()].concat(),
            Self::VlanDelete(id) => [&[VLAN, 1][..], &id.to_le_bytes()].concat(),
            Self::Pairs(pairs) => [&[MQ, 0][..], &pairs.to_le_bytes()].concat(),
            Self::Spread(types, rss, pairs) => {
                let data = rss::command_data(types, rss, pairs);
                [&[MQ, 1][..], &data].concat()
            }
        }
    }
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Bytes for a command and its answer.
const AREA: usize = 4096;
/// Where the answer is.
const ANSWER: usize = AREA - 1;
/// Most addresses in a filter: what the area holds.
pub(crate) const MACS_MAX: usize = (ANSWER - 10) / 6;
/// The device did as told.
const OK: u8 = 0;
/// What no device answers.
const PENDING: u8 = 0xff;
/// How long a device may take: a model or a hypervisor on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(5);

/// The control queue.
pub(crate) struct Control {
    ring: Ring,
    area: Dma<AtomicU8>,
    doorbell: Arc<dyn Doorbell>,
}

enum Ring {
    Split {
        ring: Split,
        available: u16,
        slot: usize,
    },
    Packed {
        ring: Packed,
        next: Cursor,
        used: Cursor,
    },
}

/// Most slots of the control queue's ring: it never holds more than one command.
pub(crate) const SLOTS: usize = 64;

/// Bytes of memory besides the ring.
pub(crate) const BYTES: usize = AREA + 64;

/// Memory for commands and answers.
pub(crate) fn carve(memory: &Memory) -> Result<Dma<AtomicU8>, MemoryError> {
    memory.carve(AREA, 64)
}

impl Ring {
    fn new(memory: RingMemory) -> Self {
        match memory.geometry.format {
            Format::Split { .. } => Self::Split {
                ring: Split::new(memory),
                available: 0,
                slot: 0,
            },
            Format::Packed => {
                let first = Cursor::new(memory.geometry.slots);
                Self::Packed {
                    ring: Packed::new(memory),
                    next: first,
                    used: first,
                }
            }
        }
    }
}

impl Control {
    /// The queue on the ring in `memory`, which is clear.
    pub(crate) fn new(
        memory: RingMemory,
        area: Dma<AtomicU8>,
        doorbell: Arc<dyn Doorbell>,
    ) -> Self {
        Self {
            ring: Ring::new(memory),
            area,
            doorbell,
        }
    }

    /// Sends a command and waits for the answer.
    pub(crate) fn send(&mut self, port: &str, command: &Command<'_>) -> Result<(), PortError> {
        let bytes = command.bytes();
        assert!(bytes.len() <= ANSWER, "a command fits its area");
        for (cell, &byte) in self.area.iter().zip(&bytes) {
            cell.store(byte, Ordering::Relaxed);
        }
        self.area[ANSWER].store(PENDING, Ordering::Relaxed);
        let len = u32::try_from(bytes.len()).expect("a command fits its area");
        self.post(len);
        self.doorbell.ring();
        let start = Instant::now();
        while !self.is_done() {
            let waited = start.elapsed();
            if waited > PATIENCE {
                return Err(PortError::Stuck {
                    port: port.to_owned(),
                    what: format!("the answer to {}", command.name()),
                    waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                });
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        match self.area[ANSWER].load(Ordering::Acquire) {
            OK => Ok(()),
            _ => Err(PortError::Refused {
                port: port.to_owned(),
                what: command.name(),
                cure: None,
            }),
        }
    }

    /// Posts the chain: `len` bytes to read, and one to write.
    fn post(&mut self, len: u32) {
        let command = self.area.iova().get();
        let answer = self.area.iova().add(ANSWER as u64).get();
        match &mut self.ring {
            Ring::Split {
                ring,
                available,
                slot,
            } => {
                let slots = ring.slots();
                let (first, second) = (*slot, (*slot + 1) % slots);
                let number = |slot| u16::try_from(slot).expect("a ring has few slots");
                let rest = split_word(len, DescFlags::NEXT, number(second));
                set(&ring.table()[first], command, rest);
                set(
                    &ring.table()[second],
                    answer,
                    split_word(1, DescFlags::WRITE, 0),
                );
                ring.offer(*available, number(first));
                *available = available.wrapping_add(1);
                *slot = (second + 1) % slots;
                ring.publish(*available);
            }
            Ring::Packed { ring, next, .. } => {
                let id = u16::try_from(next.index()).expect("a ring has few slots");
                let mut batch = Batch::default();
                batch.write(ring.table(), *next, (command, len, id), DescFlags::NEXT);
                next.advance(1);
                batch.write(ring.table(), *next, (answer, 1, id), DescFlags::WRITE);
                next.advance(1);
                batch.publish(ring.table());
            }
        }
    }

    /// True once the device has used the chain.
    fn is_done(&mut self) -> bool {
        match &mut self.ring {
            Ring::Split {
                ring, available, ..
            } => ring.used_index() == *available,
            Ring::Packed { ring, used, .. } => {
                let done = ring.used(*used).is_some();
                if done {
                    used.advance(2);
                }
                done
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn commands_have_the_bytes_that_the_standard_says() {
        assert_eq!(Command::Promiscuous(true).bytes(), [0, 0, 1]);
        assert_eq!(Command::AllMulticast(false).bytes(), [0, 1, 0]);
        assert_eq!(
            Command::Mac([1, 2, 3, 4, 5, 6]).bytes(),
            [1, 1, 1, 2, 3, 4, 5, 6]
        );
        assert_eq!(Command::VlanAdd(0x123).bytes(), [2, 0, 0x23, 1]);
        assert_eq!(Command::VlanDelete(5).bytes(), [2, 1, 5, 0]);
        assert_eq!(Command::Pairs(4).bytes(), [4, 0, 4, 0]);
        let rss = Rss {
            key: vec![7; 40],
            table: vec![1, 0],
        };
        let spread = Command::Spread(HashTypes::TCPV4, &rss, 2).bytes();
        assert_eq!(spread[..8], [4, 1, 2, 0, 0, 0, 1, 0]);
        assert_eq!(spread.len(), 2 + 4 + 2 + 2 + 4 + 2 + 1 + 40);
    }

    #[test]
    fn a_filter_lists_unicast_addresses_before_multicast_ones() {
        let macs = [[0x33, 0x33, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]];
        let expected = [
            1, 0, // class, command
            1, 0, 0, 0, 2, 0, 0, 0, 0, 9, // unicast
            1, 0, 0, 0, 0x33, 0x33, 0, 0, 0, 1, // multicast
        ];
        assert_eq!(Command::Macs(&macs).bytes(), expected);
        let most = vec![[2; 6]; MACS_MAX];
        assert!(Command::Macs(&most).bytes().len() <= ANSWER);
    }
}
