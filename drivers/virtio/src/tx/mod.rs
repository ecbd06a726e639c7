//! Send queues.
//!
//! [`Tx`] is what the engine sees: it keeps the accounts, follows the port's signal, prepares
//! headers, and tells the device. The rings below it are [`TxEngine`]s, one for each format and
//! order, chosen when the port starts; nothing between them is virtual.

pub(crate) mod lane;
pub(crate) mod packed;
pub(crate) mod queue;
pub(crate) mod split;
pub(crate) mod tables;

pub(crate) use queue::Tx;

use hugemem::{Frame, Resident, ResidentSlot};

use crate::shared::Lie;
use lane::Lane;

/// Most buffers of one packet.
pub(crate) const SEGMENTS: usize = 16;

/// A ring on the sending side: descriptors out, completions in.
pub(crate) trait TxEngine: Send {
    /// What it has with the device.
    fn lane(&self) -> &Lane;
    /// As above, to change.
    fn lane_mut(&mut self) -> &mut Lane;

    /// Writes descriptors of `frames`, one slot each; the caller saw that there are as many free,
    /// and moves the frames into the lane. Returns the frames' bytes.
    fn put(&mut self, frames: &[Frame]) -> u64;

    /// Slots that a packet of `segments` buffers takes; none if it must wait for a table.
    fn chain_slots(&self, segments: usize) -> Option<usize>;

    /// Writes descriptors of one packet; the caller saw that [`TxEngine::chain_slots`] are free.
    fn put_chain(&mut self, frames: &[Frame]);

    /// Prepares for a set, while no resident frame is with the device.
    fn load(&mut self, set: &Resident);

    /// Posts up to `count` resident frames from `first` on, and from the start again after the
    /// last; how many. `set` is the set's slots, for whole periods.
    fn put_residents(&mut self, set: &[ResidentSlot], first: usize, count: usize) -> usize;

    /// Posts resident frames by number, one slot each; the caller saw that as many are free.
    fn put_each(&mut self, set: &[ResidentSlot], numbers: &[u32]);

    /// Prepares for frames in no order, where it can: slots that were set aside for whole
    /// periods are free for all then.
    fn mix(&mut self) {}

    /// Slots that are free for resident frames from `first` on.
    fn room_for_residents(&self, first: usize) -> usize;

    /// Resident frames that the device has.
    fn residents(&self) -> usize;

    /// Hands over what was written.
    fn publish(&mut self);

    /// Looks at the device's side, once where that tells all, else until `want` frames are done.
    /// Returns how many more frames the device is done with.
    fn look(&mut self, want: usize) -> Result<usize, Lie>;

    /// Whether the device wants to be told of what was published.
    fn wants_notification(&self) -> bool;

    /// Frames that the device has.
    fn flying(&self) -> usize;

    /// Gives up what the device has, and makes the ring as new. How many frames that were.
    fn restart(&mut self) -> usize;
}
