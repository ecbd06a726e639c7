//! Feature bits, and which of those offered the driver takes.

use port::Offloads;

use crate::options::{Choice, Options};

bitflags::bitflags! {
    /// What device and driver can agree on (§5.1.3 for network devices, §6 for all).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(crate) struct Features: u64 {
        /// The device completes TCP and UDP checksums of sent frames.
        const CSUM = 1 << 0;
        /// The driver takes received frames whose checksum is not complete.
        const GUEST_CSUM = 1 << 1;
        /// The device says how large a payload may be.
        const MTU = 1 << 3;
        /// The device has an address of its own.
        const MAC = 1 << 5;
        /// A received frame may fill several buffers.
        const MRG_RXBUF = 1 << 15;
        /// The configuration space tells the link's state.
        const STATUS = 1 << 16;
        /// There is a control queue.
        const CTRL_VQ = 1 << 17;
        /// Promiscuous and all-multicast can be switched.
        const CTRL_RX = 1 << 18;
        /// VLAN filters.
        const CTRL_VLAN = 1 << 19;
        /// Several queue pairs.
        const MQ = 1 << 22;
        /// The address can be set by a command.
        const CTRL_MAC_ADDR = 1 << 23;
        /// Header and frame may share a descriptor on a legacy device (§6.3).
        const ANY_LAYOUT = 1 << 27;
        /// A descriptor may refer to a table of descriptors.
        const INDIRECT_DESC = 1 << 28;
        /// vhost-user only: the peer speaks protocol features. Never the driver's business.
        const VHOST_PROTOCOL = 1 << 30;
        /// The device follows the standard, not the drafts before it.
        const VERSION_1 = 1 << 32;
        /// The device's addresses are translated (an IOMMU).
        const ACCESS_PLATFORM = 1 << 33;
        /// Packed rings.
        const RING_PACKED = 1 << 34;
        /// Buffers are used in the order in which they were made available.
        const IN_ORDER = 1 << 35;
        /// Memory is ordered as the platform orders it for devices.
        const ORDER_PLATFORM = 1 << 36;
        /// The header of a received frame tells its hash (§5.1.6.4.4).
        const HASH_REPORT = 1 << 57;
        /// The device spreads received frames by a hash and a table (§5.1.6.5.7).
        const RSS = 1 << 60;
        /// The device knows its speed.
        const SPEED_DUPLEX = 1 << 63;
    }
}

impl Features {
    /// What the driver takes wherever it is offered. No `EVENT_IDX`: a polling driver suppresses
    /// notifications by flag, which costs less.
    pub(crate) const ALWAYS: Self = Self::MTU
        .union(Self::MAC)
        .union(Self::STATUS)
        .union(Self::CTRL_VQ)
        .union(Self::CTRL_RX)
        .union(Self::CTRL_VLAN)
        .union(Self::MQ)
        .union(Self::CTRL_MAC_ADDR)
        .union(Self::ANY_LAYOUT)
        .union(Self::VERSION_1)
        .union(Self::ACCESS_PLATFORM)
        .union(Self::ORDER_PLATFORM)
        .union(Self::SPEED_DUPLEX);

    /// What is asked for over the control queue.
    pub(crate) const CONTROLLED: Self = Self::CTRL_RX
        .union(Self::CTRL_VLAN)
        .union(Self::CTRL_MAC_ADDR)
        .union(Self::MQ)
        .union(Self::RSS)
        .union(Self::HASH_REPORT);

    /// The set without those that need another which is not in it (§5.1.3.1). QEMU's device
    /// without a control queue still offers what is asked for over one.
    ///
    /// RSS without MQ is possible too: a device that has several pairs under RSS only. None is
    /// known, and such a one's RSS is left alone, so that how many pairs there are hangs on MQ.
    pub(crate) fn sound(self) -> Self {
        let mut sound = self;
        if !sound.contains(Self::CTRL_VQ) {
            sound -= Self::CONTROLLED;
        }
        if !sound.contains(Self::MQ) {
            sound -= Self::RSS | Self::HASH_REPORT;
        }
        sound
    }

    /// The set by name: `VERSION_1, RING_PACKED`.
    pub(crate) fn names(self) -> String {
        let names: Vec<&str> = self.iter_names().map(|(name, _)| name).collect();
        names.join(", ")
    }

    /// Bytes of the header before each frame (§5.1.6): the drafts' is shorter unless frames may
    /// be merged, and one that tells a hash is longer.
    pub(crate) fn header_bytes(self) -> usize {
        if self.contains(Self::HASH_REPORT) {
            20
        } else if self.intersects(Self::VERSION_1.union(Self::MRG_RXBUF)) {
            12
        } else {
            10
        }
    }
}

/// A choice of the user that the device does not allow: the option's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) &'static str);

/// The features to take of `offered`, as `options` and the run's `offloads` wish.
pub(crate) fn choose(
    offered: Features,
    options: &Options,
    offloads: Offloads,
) -> Result<Features, Missing> {
    let mut chosen = offered & Features::ALWAYS;
    let mut take = |choice: Choice, bit: Features, name, wanted: bool| {
        let there = offered.contains(bit);
        match choice {
            Choice::On if !there => return Err(Missing(name)),
            Choice::On => chosen |= bit,
            Choice::Auto if wanted => chosen |= bit & offered,
            Choice::Auto | Choice::Off => {}
        }
        Ok(chosen)
    };
    let packed = take(options.packed, Features::RING_PACKED, "packed", true)?
        .contains(Features::RING_PACKED);
    take(options.in_order, Features::IN_ORDER, "in_order", packed)?;
    let scatter = offloads.contains(Offloads::RX_SCATTER);
    take(options.mergeable, Features::MRG_RXBUF, "mergeable", scatter)?;
    take(options.indirect, Features::INDIRECT_DESC, "indirect", true)?;
    let asked = |offload| {
        if offloads.contains(offload) {
            Choice::On
        } else {
            Choice::Off
        }
    };
    take(asked(Offloads::RSS), Features::RSS, "rss", false)?;
    let spreads = offloads.contains(Offloads::RSS);
    take(Choice::Auto, Features::HASH_REPORT, "hash", spreads)?;
    take(
        asked(Offloads::TX_L4_CHECKSUM),
        Features::CSUM,
        "tx_checksum",
        false,
    )?;
    take(
        asked(Offloads::RX_CHECKSUM),
        Features::GUEST_CSUM,
        "rx_checksum",
        false,
    )
}

/// What a device that offers `features` can do to frames.
pub(crate) fn offloads(features: Features, options: &Options) -> Offloads {
    let mut can = Offloads::SET_MTU;
    let mut add = |bit: Features, offload| {
        if features.contains(bit) {
            can |= offload;
        }
    };
    add(Features::CSUM, Offloads::TX_L4_CHECKSUM);
    add(Features::GUEST_CSUM, Offloads::RX_CHECKSUM);
    add(
        Features::CTRL_RX,
        Offloads::PROMISCUOUS | Offloads::ALL_MULTICAST | Offloads::MAC_FILTER,
    );
    add(Features::CTRL_VLAN, Offloads::VLAN_FILTER);
    add(Features::CTRL_MAC_ADDR, Offloads::SET_MAC);
    if options.mergeable != Choice::Off {
        add(Features::MRG_RXBUF, Offloads::RX_SCATTER);
    }
    can
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn packed_rings_come_with_in_order_and_split_ones_without() {
        let offered = Features::all();
        let options = Options::default();
        let chosen = choose(offered, &options, Offloads::empty()).unwrap();
        assert!(chosen.contains(Features::RING_PACKED | Features::IN_ORDER));
        let options = Options {
            packed: Choice::Off,
            ..options
        };
        let chosen = choose(offered, &options, Offloads::empty()).unwrap();
        assert!(!chosen.intersects(Features::RING_PACKED | Features::IN_ORDER));
        let options = Options {
            in_order: Choice::On,
            ..options
        };
        let chosen = choose(offered, &options, Offloads::empty()).unwrap();
        assert!(chosen.contains(Features::IN_ORDER));
    }

    #[test]
    fn what_is_asked_for_and_not_offered_is_named() {
        let offered = Features::all() - Features::RING_PACKED - Features::CSUM;
        let options = Options {
            packed: Choice::On,
            ..Options::default()
        };
        assert_eq!(
            choose(offered, &options, Offloads::empty()),
            Err(Missing("packed"))
        );
        let asked = choose(offered, &Options::default(), Offloads::TX_L4_CHECKSUM);
        assert_eq!(asked, Err(Missing("tx_checksum")));
    }

    #[test]
    fn nothing_is_taken_that_is_not_offered_or_not_wanted() {
        let offered = Features::VERSION_1 | Features::CSUM | Features::MRG_RXBUF;
        let chosen = choose(offered, &Options::default(), Offloads::empty()).unwrap();
        assert_eq!(chosen, Features::VERSION_1);
        let chosen = choose(offered, &Options::default(), Offloads::RX_SCATTER).unwrap();
        assert_eq!(chosen, Features::VERSION_1 | Features::MRG_RXBUF);
        assert!(
            !choose(Features::all(), &Options::default(), Offloads::all())
                .unwrap()
                .contains(Features::VHOST_PROTOCOL)
        );
    }

    #[test]
    fn what_is_asked_for_over_the_control_queue_is_not_there_without_one() {
        let offered = Features::VERSION_1 | Features::CTRL_RX | Features::CTRL_MAC_ADDR;
        let offered = offered | Features::CTRL_VLAN | Features::MQ;
        let offered = offered | Features::RSS | Features::HASH_REPORT;
        assert_eq!(offered.sound(), Features::VERSION_1);
        let offered = offered | Features::CTRL_VQ;
        assert_eq!(offered.sound(), offered);
        let spreading = Features::RSS | Features::HASH_REPORT;
        assert_eq!(
            (offered - Features::MQ).sound(),
            offered - Features::MQ - spreading
        );
    }

    #[test]
    fn hashes_are_told_where_they_spread_and_nowhere_else() {
        let options = Options::default();
        let spreading = Features::RSS | Features::HASH_REPORT;
        let chosen = choose(Features::all(), &options, Offloads::RSS).unwrap();
        assert!(chosen.contains(spreading));
        let chosen = choose(Features::all(), &options, Offloads::empty()).unwrap();
        assert!(!chosen.intersects(spreading));
        let offered = Features::all() - Features::HASH_REPORT;
        let chosen = choose(offered, &options, Offloads::RSS).unwrap();
        assert!(chosen.contains(Features::RSS) && !chosen.contains(Features::HASH_REPORT));
        let asked = choose(offered - Features::RSS, &options, Offloads::RSS);
        assert_eq!(asked, Err(Missing("rss")));
    }

    #[test]
    fn the_header_is_short_only_on_a_legacy_device_without_merging() {
        assert_eq!(Features::empty().header_bytes(), 10);
        assert_eq!(Features::MRG_RXBUF.header_bytes(), 12);
        assert_eq!(Features::VERSION_1.header_bytes(), 12);
        assert_eq!(
            (Features::VERSION_1 | Features::HASH_REPORT).header_bytes(),
            20
        );
    }
}
