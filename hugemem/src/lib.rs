//! Memory that devices may touch: hugepages, IOVAs, DMA spaces, and pools of frames.
//!
//! A run makes one [`Memory`]: regions of hugepages, given bus addresses ([`Iova`]) that every
//! device of the run can reach, and mapped in each device's [`DmaSpace`]. Rings are carved out
//! of it as [`Dma`] slices of atomic words; packet buffers as [`Pool`]s of [`Frame`]s.
//!
//! A [`Frame`] is a handle that can be moved but not copied: whoever holds it owns the bytes.
//! Handing it to a queue gives them away; getting it back from `reap` or `burst` gives them
//! again. Dropping a frame sends it home to its pool, so none is ever lost or freed twice.

mod burst;
mod dma;
mod fifo;
mod frame;
mod frames;
mod iova;
mod memory;
mod page;
mod pool;
mod region;
mod reserve;
mod resident;
mod sim;
mod slots;
mod space;
mod vhost;

pub use burst::{BURST, Burst};
pub use dma::{Dma, DmaWord};
pub use fifo::Fifo;
pub use frame::{Frame, HEADROOM, TxFlags};
pub use frames::Frames;
pub use iova::{Iova, IovaRange};
pub use memory::{Memory, MemoryError, MemoryRequest};
pub use page::{PageCount, PageSize, Pages, survey};
pub use pool::{Leaked, Pool, PoolError};
pub use region::{Region, RegionError};
pub use reserve::{PageHolder, ReserveError, page_holders, reserve};
pub use resident::{Resident, ResidentSlot};
pub use sim::{IommuFault, SimSpace, SimWords, Translator};
pub use slots::Slots;
pub use space::{Addressing, Area, DmaSpace, MapError, NoDevice};
pub use vhost::{TableRow, VhostSpace};
