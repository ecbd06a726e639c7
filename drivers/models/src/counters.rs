//! What devices and the wire count: readable at any time, from any thread.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

/// Declares a set of counters that one thread adds to and any thread reads, and its snapshot.
macro_rules! counters {
    ($(#[$live_doc:meta])* $live:ident, $(#[$plain_doc:meta])* $plain:ident {
        $($(#[$doc:meta])* $name:ident,)*
    }) => {
        $(#[$live_doc])*
        #[derive(Debug, Default)]
        pub struct $live(CachePadded<Live<{ [$(stringify!($name)),*].len() }>>);

        $(#[$plain_doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $plain { $($(#[$doc])* pub $name: u64,)* }

        impl $live {
            /// The counters as they are now. Each is exact; while frames move, one may be
            /// read a moment before another.
            #[must_use]
            pub fn read(&self) -> $plain {
                let [$($name),*] = self.0.read();
                $plain { $($name),* }
            }

            /// Adds a round's counts.
            pub(crate) fn add(&self, counts: &$plain) {
                self.0.add([$(counts.$name),*]);
            }
        }
    };
}

#[derive(Debug)]
struct Live<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Live<N> {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; N])
    }
}

impl<const N: usize> Live<N> {
    fn read(&self) -> [u64; N] {
        std::array::from_fn(|n| self.0[n].load(Ordering::Acquire))
    }

    #[inline]
    fn add(&self, counts: [u64; N]) {
        for (live, count) in self.0.iter().zip(counts) {
            if count > 0 {
                live.fetch_add(count, Ordering::Release);
            }
        }
    }
}

counters! {
    /// A device's counters.
    DeviceCounters,
    /// A device's counters at one moment. Bytes include padding and the FCS.
    ///
    /// Of the frames that reach a device, each is counted once: in `rx_frames` or in one of the
    /// `rx_…` drops ([`DeviceCounts::rx_dropped`]).
    DeviceCounts {
        /// Frames put on the wire.
        tx_frames,
        /// Their bytes.
        tx_bytes,
        /// Frames taken from a ring that could not be sent: too short, too long, a bad header.
        tx_errors,
        /// Frames written to memory.
        rx_frames,
        /// Their bytes.
        rx_bytes,
        /// Those of them that were for one station.
        rx_unicast,
        /// Those of them that were for a group.
        rx_multicast,
        /// Those of them that were for everyone.
        rx_broadcast,
        /// Dropped: no empty buffer.
        rx_no_buffer,
        /// Dropped: the receive filter did not want them.
        rx_filtered,
        /// Dropped: the driver had not started the device, or the device had stopped.
        rx_not_ready,
        /// Dropped: longer than the buffer, where it may not be continued in the next.
        rx_too_long,
        /// Dropped: damaged on the wire, as the FCS shows.
        rx_bad_fcs,
        /// Dropped: the buffer that the driver named cannot be written.
        rx_dma_fault,
        /// Doorbells rung.
        kicks,
        /// Interrupts that the driver had asked for.
        interrupts,
        /// Commands on the control queue, mailbox or admin queue.
        commands,
    }
}

counters! {
    /// The counters of one direction of a wire.
    WireCounters,
    /// The counters of one direction of a wire at one moment.
    ///
    /// Once nothing is on its way any more (`held` is 0):
    /// `tx_frames` of the sender `+ duplicated` = what reached the other device `+ lost +
    /// link_down`.
    WireCounts {
        /// Frames that the wire took from the sender.
        taken,
        /// Frames that it handed to the receiver, copies included.
        handed,
        /// Lost by [`WireOptions::loss`](crate::WireOptions::loss), or beyond
        /// [`WireOptions::knee`](crate::WireOptions::knee).
        lost,
        /// Lost while the link was down.
        link_down,
        /// Handed over with a bit turned and a good FCS.
        corrupted,
        /// Handed over with a bad FCS, for the receiver to drop.
        bad_fcs,
        /// Handed over twice.
        duplicated,
        /// Held back until others had passed.
        reordered,
        /// Held back for a time.
        delayed,
    }
}

impl DeviceCounts {
    /// Frames that reached the device and did not reach the driver.
    #[must_use]
    pub fn rx_dropped(&self) -> u64 {
        self.rx_no_buffer
            + self.rx_filtered
            + self.rx_not_ready
            + self.rx_too_long
            + self.rx_bad_fcs
            + self.rx_dma_fault
    }
}

impl WireCounts {
    /// Frames that are still on their way.
    #[must_use]
    pub fn held(&self) -> u64 {
        (self.taken + self.duplicated).saturating_sub(self.handed + self.lost + self.link_down)
    }
}
