//! The physical function's administrator: what happens to a virtual function from outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Mac;

/// What the administrator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Mac(Mac),
    Vlan(u16, u8),
    SpoofCheck(bool),
    Trust(bool),
    LinkEnabled(bool),
    Mtu(u32),
    Reset,
    Down,
    Up,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: AtomicBool,
    orders: Mutex<Vec<Order>>,
    spoofed: AtomicU64,
}

/// The physical function beside a virtual one, seen by whoever administers it: `ip link set`.
///
/// A cheap handle; what it orders happens at the model's next round.
#[derive(Debug, Clone, Default)]
pub struct Pf(Arc<Inner>);

impl Pf {
    /// Sets the virtual function's address, for good: it must reset itself to see it, and may
    /// not choose another (`ip link set … vf N mac …`).
    pub fn set_mac(&self, mac: Mac) {
        self.order(Order::Mac(mac));
    }

    /// Puts the virtual function into a VLAN: its frames get the tag, and only that VLAN's come
    /// in. 0 takes it out again.
    pub fn set_vlan(&self, vlan: u16, qos: u8) {
        self.order(Order::Vlan(vlan, qos));
    }

    /// Drops frames with foreign addresses or VLANs, or lets them pass.
    pub fn set_spoof_check(&self, on: bool) {
        self.order(Order::SpoofCheck(on));
    }

    /// Trusts the virtual function, or does so no longer (`… vf N trust on`), which resets it.
    pub fn set_trust(&self, on: bool) {
        self.order(Order::Trust(on));
    }

    /// `ip link set … vf N state enable` or `disable`.
    pub fn set_link_enabled(&self, on: bool) {
        self.order(Order::LinkEnabled(on));
    }

    /// Changes the physical function's own MTU, which resets it and everything beside it.
    pub fn set_mtu(&self, mtu: u32) {
        self.order(Order::Mtu(mtu));
    }

    /// Resets the physical function: all that the virtual function was is lost, and it must
    /// begin again with a reset of its own.
    pub fn reset(&self) {
        self.order(Order::Reset);
    }

    /// Takes the interface down: the virtual function's link and mailbox go with it.
    pub fn take_down(&self) {
        self.order(Order::Down);
    }

    /// Brings it up again, which ends with a reset.
    pub fn bring_up(&self) {
        self.order(Order::Up);
    }

    /// Frames that the spoof check has dropped.
    #[must_use]
    pub fn spoofed(&self) -> u64 {
        self.0.spoofed.load(Ordering::Acquire)
    }

    pub(super) fn count_spoofed(&self) {
        self.0.spoofed.fetch_add(1, Ordering::AcqRel);
    }

    fn order(&self, order: Order) {
        self.orders().push(order);
        self.0.waiting.store(true, Ordering::Release);
    }

    /// What was ordered since the last call.
    pub(super) fn take(&self) -> Vec<Order> {
        if !self.0.waiting.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.orders())
    }

    fn orders(&self) -> std::sync::MutexGuard<'_, Vec<Order>> {
        self.0.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
