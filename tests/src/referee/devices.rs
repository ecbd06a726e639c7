//! The kinds of models, and what the kernel makes of them.

use models::DeviceCounts;
use models::Mac;
use models::e1000::{E1000, E1000Options, Kind};
use models::ixgbe::{Ixgbe, IxgbeOptions};
use models::virtio::{VirtioNet, VirtioOptions};
use models::vmxnet3::{Vmxnet3, Vmxnet3Options};

/// A counter of the driver's, and what it must say by the model's books.
pub struct Counter {
    /// Names in `ethtool -S`, whose values are added up.
    pub names: &'static [&'static str],
    /// What the model says.
    pub truth: fn(&DeviceCounts) -> u64,
}

/// A kind of model that a driver of the kernel's judges.
pub struct Device {
    /// As `--driver` names it.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// The kernel's module.
    pub module: &'static str,
    /// Makes one.
    pub model: fn(&str, Mac) -> Box<dyn models::Device>,
    /// The wire's speed.
    pub speed_bps: u64,
    /// The largest MTU that is tried; 0: none beyond 1500.
    pub mtu: u32,
    /// The kernel shows the speed of the link.
    pub shows_speed: bool,
    /// Writes to it are posted, as on a bus. A device that only hypervisors have is told at once,
    /// and its driver relies on that.
    pub posts: bool,
    /// What the driver counts.
    pub counters: &'static [Counter],
}

impl Device {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        DEVICES.iter().find(|device| device.name == name)
    }
}

const fn counter(names: &'static [&'static str], truth: fn(&DeviceCounts) -> u64) -> Counter {
    Counter { names, truth }
}

/// Intel's counters are the hardware's: octets have the FCS.
const INTEL: &[Counter] = &[
    counter(&["rx_packets"], |c| c.rx_frames),
    counter(&["tx_packets"], |c| c.tx_frames),
    counter(&["rx_bytes"], |c| c.rx_bytes),
    counter(&["tx_bytes"], |c| c.tx_bytes),
    counter(&["rx_broadcast"], |c| c.rx_broadcast),
    counter(&["rx_multicast"], |c| c.rx_multicast),
    counter(&["rx_missed_errors"], |c| c.rx_no_buffer),
    counter(&["rx_crc_errors"], |c| c.rx_bad_fcs),
];

/// The same, by the names that ixgbe gives them.
const IXGBE: &[Counter] = &[
    counter(&["rx_pkts_nic"], |c| c.rx_frames),
    counter(&["tx_pkts_nic"], |c| c.tx_frames),
    counter(&["rx_bytes_nic"], |c| c.rx_bytes),
    counter(&["tx_bytes_nic"], |c| c.tx_bytes),
    counter(&["broadcast"], |c| c.rx_broadcast),
    counter(&["multicast"], |c| c.rx_multicast),
    counter(&["rx_crc_errors"], |c| c.rx_bad_fcs),
];

/// vmxnet3's come from the device's areas, a queue each.
const VMXNET3: &[Counter] = &[
    counter(&["ucast pkts rx"], |c| c.rx_unicast),
    counter(&["mcast pkts rx"], |c| c.rx_multicast),
    counter(&["bcast pkts rx"], |c| c.rx_broadcast),
    counter(&["ucast pkts tx", "mcast pkts tx", "bcast pkts tx"], |c| {
        c.tx_frames
    }),
];

/// virtio's are the kernel's own: the device has none, and `ethtool -S` has left packets out since
/// Linux 6.9.
const VIRTIO: &[Counter] = &[
    counter(&["interface rx_packets"], |c| c.rx_frames),
    counter(&["interface tx_packets"], |c| c.tx_frames),
];

fn e1000(kind: Kind, name: &str, mac: Mac) -> Box<dyn models::Device> {
    E1000::boxed(name, &E1000Options::of(kind, mac))
}

/// All of them.
pub const DEVICES: &[Device] = &[
    Device {
        name: "e1000e",
        title: "82574L",
        module: "e1000e",
        model: |name, mac| e1000(Kind::E1000e, name, mac),
        speed_bps: 1_000_000_000,
        mtu: 9000,
        shows_speed: true,
        posts: true,
        counters: INTEL,
    },
    Device {
        name: "igb",
        title: "82576",
        module: "igb",
        model: |name, mac| e1000(Kind::Igb, name, mac),
        speed_bps: 1_000_000_000,
        mtu: 9000,
        shows_speed: true,
        posts: true,
        counters: INTEL,
    },
    Device {
        name: "e1000",
        title: "82540EM",
        module: "e1000",
        model: |name, mac| e1000(Kind::E1000, name, mac),
        speed_bps: 1_000_000_000,
        mtu: 9000,
        shows_speed: true,
        posts: true,
        counters: INTEL,
    },
    Device {
        name: "ixgbe",
        title: "82599",
        module: "ixgbe",
        model: |name, mac| {
            let options = IxgbeOptions {
                mac,
                ..IxgbeOptions::default()
            };
            Ixgbe::boxed(name, &options)
        },
        speed_bps: 10_000_000_000,
        mtu: 9000,
        shows_speed: true,
        posts: true,
        counters: IXGBE,
    },
    Device {
        name: "vmxnet3",
        title: "vmxnet3",
        module: "vmxnet3",
        model: |name, mac| {
            let options = Vmxnet3Options {
                mac,
                ..Vmxnet3Options::default()
            };
            Vmxnet3::boxed(name, &options)
        },
        speed_bps: 10_000_000_000,
        mtu: 9000,
        shows_speed: true,
        posts: false,
        counters: VMXNET3,
    },
    Device {
        name: "virtio",
        title: "virtio-net",
        module: "virtio_net",
        model: |name, mac| {
            let options = VirtioOptions {
                mac,
                ..VirtioOptions::default()
            };
            VirtioNet::boxed(name, &options)
        },
        speed_bps: 10_000_000_000,
        mtu: 9000,
        shows_speed: true,
        posts: false,
        counters: VIRTIO,
    },
];
