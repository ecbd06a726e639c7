//! A queue: what the driver has set up, the ring that came of it, what is to be put back.

use std::sync::atomic::Ordering;

use hugemem::Translator;

use super::bits::{LARGEST_RING, LEGACY_PAGE, NO_VECTOR};
use super::doorbell::Bells;
use super::ring::{Broken, Chain, Packed, Ring, Rules, Split, Used};
use crate::faults::{DeviceFaults, Fault};

/// A ring of either kind.
pub(super) enum AnyRing {
    Split(Split),
    Packed(Packed),
}

/// Calls the same method on either kind.
macro_rules! either {
    ($ring:expr, $name:ident => $do:expr) => {
        match $ring {
            $crate::virtio::queue::AnyRing::Split($name) => $do,
            $crate::virtio::queue::AnyRing::Packed($name) => $do,
        }
    };
}
pub(super) use either;

/// One virtqueue.
pub(super) struct Queue {
    pub(super) index: u16,
    /// The most slots that the driver may choose; 0 while there is no such queue.
    pub(super) limit: u16,
    pub(super) size: u16,
    pub(super) enabled: bool,
    /// Descriptors, driver area, device area.
    pub(super) addresses: [u64; 3],
    pub(super) vector: u16,
    /// Reads of the reset register that still show 1.
    pub(super) resetting: u32,
    pub(super) ring: Option<AnyRing>,
    /// Taken from the ring, not yet put back.
    pub(super) pending: Vec<Chain>,
    /// Put back and not published.
    pub(super) touched: bool,
    pub(super) sleep: Sleep,
}

/// Whether a device that sleeps on empty rings is asleep on this one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    /// Until the doorbell rings.
    Asleep,
    /// It has asked to be woken, and looks once more before it sleeps: for what was posted
    /// before the driver could see that.
    Dozing,
    /// It looks at the ring in every round.
    Awake,
}

impl Queue {
    pub(super) fn new(index: u16, limit: u16) -> Self {
        Self {
            index,
            limit,
            size: limit,
            enabled: false,
            addresses: [0; 3],
            vector: NO_VECTOR,
            resetting: 0,
            ring: None,
            pending: Vec::with_capacity(usize::from(limit)),
            touched: false,
            sleep: Sleep::Asleep,
        }
    }

    /// True if the device has this queue with the features that were written.
    pub(super) fn exists(&self) -> bool {
        self.limit > 0
    }

    /// As after a reset.
    pub(super) fn clear(&mut self, bells: &Bells) {
        bells.set_enabled(self.index, false);
        let mut pending = std::mem::take(&mut self.pending);
        pending.clear();
        *self = Self {
            pending,
            ..Self::new(self.index, self.limit)
        };
    }

    /// The rules that a setup breaks (§2.7, §2.8, §4.1.4.3.2), as a sentence.
    pub(super) fn flaw(&self, packed: bool) -> Option<String> {
        let [descriptors, driver, device] = self.addresses;
        let size = self.size;
        let sized = size > 0 && size <= self.limit.min(LARGEST_RING);
        if !sized || (!packed && !size.is_power_of_two()) {
            return Some(format!("size {size}, of at most {}", self.limit));
        }
        let missing = [
            (descriptors, "descriptors"),
            (driver, "driver area"),
            (device, "device area"),
        ];
        if let Some((_, what)) = missing.iter().find(|(address, _)| *address == 0) {
            return Some(format!("no address of its {what}"));
        }
        let aligned = if packed { [16, 4, 4] } else { [16, 2, 4] };
        let crooked = self
            .addresses
            .iter()
            .zip(aligned)
            .find(|(address, align)| !address.is_multiple_of(*align));
        crooked.map(|(address, align)| {
            format!("address {address:#x}, not on a boundary of {align} bytes")
        })
    }

    /// Lays the ring out where the addresses say.
    pub(super) fn build(
        &mut self,
        packed: bool,
        rules: Rules,
        memory: &mut Translator,
    ) -> Result<(), Broken> {
        self.pending.clear();
        self.ring = Some(if packed {
            AnyRing::Packed(Packed::new(rules, self.size, self.addresses, memory)?)
        } else {
            AnyRing::Split(Split::new(rules, self.size, self.addresses, memory)?)
        });
        Ok(())
    }

    /// The three parts of a ring that begins at page `number` (§2.7.2, legacy).
    pub(super) fn set_legacy_page(&mut self, number: u32) {
        let size = u64::from(self.limit);
        let descriptors = u64::from(number) * LEGACY_PAGE;
        let driver = descriptors + size * 16;
        let device = (driver + 6 + size * 2).next_multiple_of(LEGACY_PAGE);
        self.size = self.limit;
        self.addresses = [descriptors, driver, device];
    }

    /// Tells the driver whether its doorbell is wanted.
    pub(super) fn want_doorbell(&mut self, wanted: bool) {
        if let Some(ring) = &mut self.ring {
            either!(ring, ring => ring.want_doorbell(wanted));
        }
    }

    /// True if this queue's ring is to be looked at: always, or since its doorbell was rung.
    pub(super) fn wakes(&mut self, sleeps: bool, bells: &Bells) -> bool {
        if !sleeps || self.sleep != Sleep::Asleep {
            return true;
        }
        let rung = bells
            .bell(self.index)
            .is_some_and(|bell| bell.rung.swap(false, Ordering::AcqRel));
        if rung {
            self.want_doorbell(false);
            self.sleep = Sleep::Awake;
        }
        rung
    }

    /// The ring was looked at: whether something was found, and whether it is empty now.
    pub(super) fn looked(&mut self, sleeps: bool, found: bool, empty: bool) {
        if !sleeps {
            return;
        }
        self.sleep = match (self.sleep, found, empty) {
            (Sleep::Dozing, true, _) => {
                self.want_doorbell(false);
                Sleep::Awake
            }
            (Sleep::Awake, _, true) => {
                self.want_doorbell(true);
                Sleep::Dozing
            }
            (Sleep::Dozing, false, true) => Sleep::Asleep,
            (state, ..) => state,
        };
    }

    /// Puts back what was taken, the frames having left.
    pub(super) fn put_pending(&mut self, in_order: bool, faults: &DeviceFaults) {
        let Some(ring) = &mut self.ring else {
            self.pending.clear();
            return;
        };
        let Some(&last) = self.pending.last() else {
            return;
        };
        if faults.any() {
            for &chain in &self.pending {
                let used = Used { chain, written: 0 };
                if faults.strikes(Fault::TxCompletionLost) {
                    continue;
                }
                if faults.strikes(Fault::IdOutOfRange) {
                    either!(ring, ring => ring.put_stranger(used));
                } else {
                    either!(ring, ring => ring.put(&[used]));
                }
            }
        } else if in_order {
            let chains = u16::try_from(self.pending.len()).expect("no more than the ring has");
            let slots = self.pending.iter().map(|chain| chain.slots).sum();
            either!(ring, ring => ring.put_batch(last, chains, slots));
        } else {
            for &chain in &self.pending {
                let used = Used { chain, written: 0 };
                either!(ring, ring => ring.put(&[used]));
            }
        }
        self.pending.clear();
        self.touched = true;
    }

    /// Shows the driver what was put back. True if it wants an interrupt.
    pub(super) fn publish(&mut self, faults: &DeviceFaults) -> bool {
        if !std::mem::take(&mut self.touched) {
            return false;
        }
        let Some(ring) = &mut self.ring else {
            return false;
        };
        if faults.strikes(Fault::IndexOutOfRange) && either!(ring, ring => ring.publish_too_many())
        {
            return false;
        }
        either!(ring, ring => ring.publish())
    }
}
