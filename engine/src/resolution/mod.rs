//! Resolution: who has an IP address, asked and answered.
//!
//! Before a run, [`resolve()`] tells a port's neighbours its addresses and asks for its gateway's
//! station. While frames move, questions for the port's [`Addresses`] are answered: ARP requests
//! (RFC 826), ICMP echo (RFC 792), neighbour solicitations and ICMPv6 echo (RFC 4861, RFC 4443),
//! with VLAN tags or without, each address in the [`Vlans`] that it is in.

mod addresses;
mod reply;
mod request;
mod resolve;
#[cfg(test)]
mod test;
mod vlans;

pub use addresses::Addresses;
pub(crate) use reply::{answer, is_question};
pub use resolve::{ResolveError, Whom, resolve};
pub use vlans::Vlans;
