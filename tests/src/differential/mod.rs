//! The differential test: one driver, one scenario, two devices, and nothing may differ.
//!
//! Our driver runs on QEMU's device (in a guest, through VFIO) and on our model (in this process).
//! Both times a [`record::Recorder`] notes what passes between driver and device: registers, what
//! the device writes to rings, frames as they arrive, counters. The two [`trace::Trace`]s are
//! compared line by line ([`mod@compare`]); what may differ is listed with its reason ([`mod@allowed`]). Where
//! they differ otherwise, QEMU or the data sheet decides, and the model is corrected.
//!
//! What cannot be compared is not noted: anything that depends on the hour (how often a register is
//! polled, what is read while waiting), and where a machine put things (addresses, which go by
//! names, and the list of capabilities in configuration space).

pub mod allowed;
pub mod compare;
pub mod record;
pub mod rings;
pub mod scenario;
pub mod subject;
pub mod trace;

pub use compare::{Difference, compare};
pub use subject::{SUBJECTS, Subject};
pub use trace::Trace;
