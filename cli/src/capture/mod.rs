//! Writing received frames down: a tap's copies, filtered, in files.

mod files;
mod filter;
mod writer;

pub(crate) use files::{Files, Interface, Rotation};
pub(crate) use filter::Filter;
pub(crate) use writer::{Counts, Done, Writer};
