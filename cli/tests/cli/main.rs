//! The command line, as users and scripts see it: what is refused and how, what is printed, how
//! commands end.

mod bench;
mod common;
mod documents;
mod endings;
mod jumbo;
mod ndr;
mod refusals;
mod rfc2544;
