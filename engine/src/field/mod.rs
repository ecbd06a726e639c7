//! The field engine: what varies from frame to frame, and how it is written.
//!
//! A [`Program`] says what varies, in TRex's terms: variables, where they are written, the frame
//! size, checksums. [`Writer::compile`] turns it into a straight run of writes for one send
//! queue. Names and meanings are those of TRex's field engine where it has the same thing.

mod check;
mod error;
mod feed;
mod general;
mod header;
mod kernel;
mod plan;
mod program;
mod render;
mod rng;
mod shape;
mod source;
mod sums;
mod tuple;
mod vary;
mod writer;

pub use error::FieldError;
pub use program::{Fix, Mask, Order, Program, Values, Var, Write};
pub use render::{RenderError, render};
pub use vary::VaryError;
pub(crate) use vary::sizes;
pub use writer::{Share, Writer};
