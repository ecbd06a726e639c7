//! What is sent, when, and what became of it.
//!
//! A [`Stream`](stream::Stream) says what to send: [`Frames`](frame::Frames) (templates, and
//! programs that vary them) at a rate. A [`Writer`](field::Writer) is a stream's frames compiled
//! for one send queue: it makes each frame of a burst hold the next packet, writing only what
//! varies.
//!
//! Sizes count the FCS (4 bytes), as on the wire; lengths of buffers do not, and say so.
#![forbid(unsafe_code)]

pub mod dissect;
pub mod field;
pub mod frame;
mod headers;
pub mod imix;
pub mod load;
pub mod pcap;
pub mod profile;
pub mod resolution;
pub mod run;
pub mod search;
pub mod show;
mod similar;
pub mod stream;
