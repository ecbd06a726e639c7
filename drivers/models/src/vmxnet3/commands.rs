//! Commands: what a write to `CMD` does, and what a read of it gives afterwards.

use hugemem::Iova;

use super::bits::{cap, command, limit, queue, shared};
use super::setup::read_vlans;
use super::{Vmxnet3, rss};
use crate::counters::DeviceCounts;
use crate::faults::Fault;

/// What a command that failed leaves.
const FAILED: u32 = 1;

impl Vmxnet3 {
    /// Carries out `number`.
    pub(super) fn command(&mut self, number: u32) {
        self.counters.add(&DeviceCounts {
            commands: 1,
            ..DeviceCounts::default()
        });
        if self.faults.strikes(Fault::CommandSilent) {
            return;
        }
        let since = command::since(number);
        let is_set = number >> 16 == command::ACTIVATE_DEV >> 16;
        self.result = if since == 0 {
            self.object(format!("command {number:#x}, which there is not"));
            0
        } else if since > self.revision.max(1) {
            let revision = self.revision;
            self.object(format!(
                "command {number:#x} of revision {since}, with revision {revision} in use"
            ));
            0
        } else if !is_set {
            self.get(number)
        } else if self.is_refused(number) {
            FAILED
        } else {
            match self.set(number) {
                Ok(()) => 0,
                Err(flaw) => {
                    self.object(format!("{}: {flaw}", name(number)));
                    FAILED
                }
            }
        };
    }

    /// What a test wants to go wrong.
    fn is_refused(&self, number: u32) -> bool {
        let is_reset = matches!(number, command::QUIESCE_DEV | command::RESET_DEV);
        (is_reset && self.faults.strikes(Fault::StuckReset))
            || self.faults.strikes(Fault::CommandRefused)
    }

    /// Commands that change something.
    fn set(&mut self, number: u32) -> Result<(), String> {
        match number {
            command::ACTIVATE_DEV if self.active.is_some() => {
                // As on QEMU: nothing is read anew, and it succeeds.
                self.object("ACTIVATE_DEV: the device is active");
                Ok(())
            }
            command::ACTIVATE_DEV => self.activate(),
            command::QUIESCE_DEV => {
                self.deactivate();
                Ok(())
            }
            command::RESET_DEV => {
                self.reset_device();
                Ok(())
            }
            command::UPDATE_RX_MODE
            | command::UPDATE_MAC_FILTERS
            | command::UPDATE_VLAN_FILTERS
            | command::UPDATE_FEATURE
            | command::UPDATE_RSSIDT => self.update(number),
            command::SET_RSS_FIELDS => {
                let wanted = self.command_info()?[0];
                if let Some(flaw) = rss::fields_flaw(wanted) {
                    return Err(flaw);
                }
                self.rss_fields = rss::applied(wanted);
                Ok(())
            }
            command::SET_COALESCE | command::REGISTER_MEMREGS => {
                let [_, len, low, high] = self.command_info()?;
                let at = u64::from(high) << 32 | u64::from(low);
                if self.memory.covers(Iova::from_device(at), len as usize) {
                    Ok(())
                } else {
                    Err(format!("{len} bytes at {at:#x}, which are not mapped"))
                }
            }
            // Moderation, wake-up and sizes of buffers make no difference here.
            _ => self.shared_block().map(|_| ()),
        }
    }

    /// The driver has changed a part of the shared area.
    fn update(&mut self, number: u32) -> Result<(), String> {
        let block = self.shared_block()?;
        let mut filter = std::mem::replace(&mut self.filter, super::filter::Filter::new());
        let result = match number {
            command::UPDATE_RX_MODE => self.read_mode(&block, &mut filter),
            command::UPDATE_MAC_FILTERS => self.read_groups(&block, &mut filter),
            command::UPDATE_VLAN_FILTERS => {
                read_vlans(&block, &mut filter);
                Ok(())
            }
            _ => match self.active.take() {
                Some(mut active) => {
                    let result = self.take_features(&mut active, &block);
                    self.active = Some(active);
                    result
                }
                None => Ok(()),
            },
        };
        self.filter = filter;
        result
    }

    /// What comes with a command that has more to say than its number.
    fn command_info(&mut self) -> Result<[u32; 4], String> {
        if self.shared_at == 0 {
            return Err("no address was written to DSAL and DSAH".into());
        }
        let mut bytes = [0; 16];
        let at = Iova::from_device(self.shared_at + shared::CMD_INFO as u64);
        let read = self.memory.read(at, &mut bytes);
        read.map_err(|fault| fault.to_string())?;
        let words = bytes.as_chunks::<4>().0;
        Ok(std::array::from_fn(|n| u32::from_le_bytes(words[n])))
    }

    /// Commands that ask for something.
    fn get(&mut self, number: u32) -> u32 {
        let [a, b, c, d, e, f] = self.options.mac;
        match number {
            command::GET_QUEUE_STATUS => {
                self.write_status();
                0
            }
            command::GET_STATS => {
                self.write_stats();
                0
            }
            command::GET_LINK => self.link_word(),
            command::GET_PERM_MAC_LO => u32::from_le_bytes([a, b, c, d]),
            command::GET_PERM_MAC_HI => u32::from_le_bytes([e, f, 0, 0]),
            command::GET_DID_LO => 0x07b0,
            command::GET_DID_HI | command::GET_ADAPTIVE_RING_INFO => 1,
            command::GET_TXDATA_DESC_SIZE => u32::from(self.options.tx_data_size),
            command::GET_RSS_FIELDS => self.rss_fields,
            command::GET_MAX_QUEUES_CONF => {
                u32::from_le_bytes([self.options.tx_queues, self.options.rx_queues, 0, 0])
            }
            command::GET_RSS_HASH_FUNC => 1,
            command::GET_MAX_CAPABILITIES => self.capabilities(),
            command::GET_DCR0_REG => self.dcr,
            // Extra information, interrupts as the driver likes, coalescing off.
            _ => 0,
        }
    }

    /// Speed in Mbit/s in the high half, 1 in the low one where the link is up.
    fn link_word(&self) -> u32 {
        let mbps = u16::try_from(self.link.speed_bps / 1_000_000).unwrap_or(u16::MAX);
        u32::from(mbps) << 16 | u32::from(self.link.up)
    }

    /// What `DCR` offers.
    pub(super) fn capabilities(&self) -> u32 {
        let large = if self.options.large_bar {
            cap::LARGE_BAR
        } else {
            0
        };
        cap::UDP_RSS | large
    }

    /// Tells the driver why queues stand still.
    fn write_status(&mut self) {
        let Some(active) = &self.active else { return };
        let tx = active.tx.iter().map(|queue| (queue.at, queue.error));
        let rx = active.rx.iter().map(|queue| (queue.at, queue.error));
        for (at, error) in tx.chain(rx) {
            let mut status = [0; 8];
            status[0] = u8::from(error.is_some());
            status[4..].copy_from_slice(&error.unwrap_or(0).to_le_bytes());
            let to = Iova::from_device(at + queue::STATUS);
            if let Err(fault) = self.memory.write(to, &status) {
                self.objections.raise(format!("GET_QUEUE_STATUS: {fault}"));
            }
        }
    }

    /// Tells the driver what was counted. An inactive device has nobody to tell.
    fn write_stats(&mut self) {
        let Some(active) = &self.active else { return };
        let tx = active.tx.iter().map(|queue| (queue.at, queue.stats));
        let rx = active.rx.iter().map(|queue| (queue.at, queue.stats));
        for (at, stats) in tx.chain(rx) {
            let bytes = stats.map(u64::to_le_bytes);
            let to = Iova::from_device(at + queue::STATS);
            if let Err(fault) = self.memory.write(to, bytes.as_flattened()) {
                self.objections.raise(format!("GET_STATS: {fault}"));
            }
        }
    }
}

/// A command as sentences name it.
fn name(number: u32) -> String {
    match number {
        command::ACTIVATE_DEV => "ACTIVATE_DEV".into(),
        command::QUIESCE_DEV => "QUIESCE_DEV".into(),
        command::RESET_DEV => "RESET_DEV".into(),
        command::UPDATE_RX_MODE => "UPDATE_RX_MODE".into(),
        command::UPDATE_MAC_FILTERS => "UPDATE_MAC_FILTERS".into(),
        command::UPDATE_VLAN_FILTERS => "UPDATE_VLAN_FILTERS".into(),
        command::UPDATE_RSSIDT => "UPDATE_RSSIDT".into(),
        command::UPDATE_FEATURE => "UPDATE_FEATURE".into(),
        command::SET_RSS_FIELDS => "SET_RSS_FIELDS".into(),
        _ => format!("command {number:#x}"),
    }
}

/// Most interrupts that a function of `revision` has.
pub(super) const fn vectors(revision: u8) -> u8 {
    if revision >= 6 {
        limit::EXT_INTERRUPTS
    } else {
        limit::INTERRUPTS
    }
}
