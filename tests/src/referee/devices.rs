//! The kinds of models, and what the kernel makes of them.

use models::DeviceCounts;
use models::Mac;
use models::e1000::{self, E1000, E1000Options, Kind};
use models::ixgbe::{self, Ixgbe, IxgbeOptions, IxgbeVf, IxgbeVfOptions};
use models::virtio::{VirtioNet, VirtioOptions};
use models::vmxnet3::{Vmxnet3, Vmxnet3Options};

/// A counter of the driver's, and what it must say by the model's books.
pub struct Counter {
    /// Names in `ethtool -S`, whose values are added up.
    pub names: &'static [&'static str],
    /// What the model says.
    pub truth: fn(&DeviceCounts) -> u64,
}

/// What happens to a physical function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It is reset.
    Reset,
    /// Its own MTU changes, which resets it. Only Linux's ixgbe minds what it is.
    Mtu(u32),
}

/// A model, and who administers the physical function beside it, if it is a virtual one.
pub struct Made {
    /// The model.
    pub device: Box<dyn models::Device>,
    /// The administrator.
    pub pf: Option<Box<dyn Fn(Order)>>,
}

impl Made {
    fn alone(device: Box<dyn models::Device>) -> Self {
        Self { device, pf: None }
    }
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
    pub model: fn(&str, Mac) -> Made,
    /// The wire's speed.
    pub speed_bps: u64,
    /// The largest MTU that is tried; 0: none beyond 1500.
    pub mtu: u32,
    /// Why no frame for others ever comes in, where the device has no promiscuous mode.
    pub no_promiscuity: Option<&'static str>,
    /// Writes to it are posted, as on a bus. A device that only hypervisors have is told at once,
    /// and its driver relies on that.
    pub posts: bool,
    /// It is a virtual function.
    pub is_vf: bool,
    /// It may have long frames only while its physical function has.
    pub needs_long_pf: bool,
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

/// ixgbevf's are the kernel's own, without FCS, but for the groups.
const IXGBEVF: &[Counter] = &[
    counter(&["rx_packets"], |c| c.rx_frames),
    counter(&["tx_packets"], |c| c.tx_frames),
    counter(&["rx_bytes"], |c| c.rx_bytes - FCS * c.rx_frames),
    counter(&["multicast"], |c| c.rx_multicast),
];

/// igbvf's are the hardware's.
const IGBVF: &[Counter] = &[
    counter(&["rx_packets"], |c| c.rx_frames),
    counter(&["tx_packets"], |c| c.tx_frames),
    counter(&["rx_bytes"], |c| c.rx_bytes),
    counter(&["tx_bytes"], |c| c.tx_bytes),
    counter(&["multicast"], |c| c.rx_multicast),
];

/// Bytes of a frame's check sequence.
const FCS: u64 = 4;

fn e1000(kind: Kind, name: &str, mac: Mac) -> Made {
    Made::alone(E1000::boxed(name, &E1000Options::of(kind, mac)))
}

/// A virtual function whose address was set (`ip link set … vf 0 mac …`): nobody makes one up.
fn igbvf(name: &str, mac: Mac) -> Made {
    let mut options = E1000Options::of(Kind::IgbVf, mac);
    options.pf.mac = e1000::VfMac::Pinned;
    let device = E1000::new(name, &options);
    let pf = device.pf();
    Made {
        device: Box::new(device),
        pf: Some(Box::new(move |_| pf.reset())),
    }
}

fn ixgbe(kind: ixgbe::Kind, name: &str, mac: Mac) -> Made {
    Made::alone(Ixgbe::boxed(name, &IxgbeOptions::of(kind, mac)))
}

/// A virtual function that is trusted, with an address that was set, beside a physical one that is
/// promiscuous and takes long frames: all that a virtual one can have is had. Each speaks another
/// version: that of Linux 6.12's ixgbe, that of 7.3's, and the one with later rules of the mailbox.
fn ixgbevf(kind: ixgbe::Kind, name: &str, mac: Mac) -> Made {
    let mut options = IxgbeVfOptions::of(kind, mac);
    options.pf = ixgbe::PfOptions {
        mac: ixgbe::VfMac::Pinned,
        mtu: 9000,
        trusted: true,
        promiscuous: true,
        newest_api: match kind {
            ixgbe::Kind::I82599 => ixgbe::Api::V14,
            ixgbe::Kind::X540 => ixgbe::Api::V17,
            ixgbe::Kind::X550 => ixgbe::Api::V15,
        },
        ..options.pf
    };
    let device = IxgbeVf::new(name, &options);
    let pf = device.pf();
    Made {
        device: Box::new(device),
        pf: Some(Box::new(move |order| match order {
            Order::Reset => pf.reset(),
            Order::Mtu(mtu) => pf.set_mtu(mtu),
        })),
    }
}

/// A vmxnet3 whose newest revision is that one: Linux takes the newest that there is, up to 7.
fn of_revision(revision: u8, name: &str, mac: Mac) -> Made {
    let options = Vmxnet3Options {
        mac,
        revision,
        ..Vmxnet3Options::default()
    };
    Made::alone(Vmxnet3::boxed(name, &options))
}

/// A virtio-net with that many pairs of queues, and RSS over them if there are several.
fn with_pairs(pairs: u16, name: &str, mac: Mac) -> Made {
    let options = VirtioOptions {
        mac,
        pairs,
        ..VirtioOptions::default()
    };
    Made::alone(VirtioNet::boxed(name, &options))
}

const fn vmxnet3(name: &'static str, title: &'static str, model: fn(&str, Mac) -> Made) -> Device {
    Device {
        name,
        title,
        module: "vmxnet3",
        counters: VMXNET3,
        ..paravirtual(model)
    }
}

const fn virtio(name: &'static str, title: &'static str, model: fn(&str, Mac) -> Made) -> Device {
    Device {
        name,
        title,
        module: "virtio_net",
        counters: VIRTIO,
        ..paravirtual(model)
    }
}

/// What only hypervisors have.
const fn paravirtual(model: fn(&str, Mac) -> Made) -> Device {
    Device {
        name: "",
        title: "",
        module: "",
        model,
        speed_bps: 10_000_000_000,
        mtu: 9000,
        no_promiscuity: None,
        posts: false,
        is_vf: false,
        needs_long_pf: false,
        counters: &[],
    }
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
        no_promiscuity: None,
        posts: true,
        is_vf: false,
        needs_long_pf: false,
        counters: INTEL,
    },
    Device {
        name: "igb",
        title: "82576",
        module: "igb",
        model: |name, mac| e1000(Kind::Igb, name, mac),
        speed_bps: 1_000_000_000,
        mtu: 9000,
        no_promiscuity: None,
        posts: true,
        is_vf: false,
        needs_long_pf: false,
        counters: INTEL,
    },
    Device {
        name: "e1000",
        title: "82540EM",
        module: "e1000",
        model: |name, mac| e1000(Kind::E1000, name, mac),
        speed_bps: 1_000_000_000,
        mtu: 9000,
        no_promiscuity: None,
        posts: true,
        is_vf: false,
        needs_long_pf: false,
        counters: INTEL,
    },
    Device {
        name: "ixgbe",
        title: "82599",
        module: "ixgbe",
        model: |name, mac| ixgbe(ixgbe::Kind::I82599, name, mac),
        speed_bps: 10_000_000_000,
        mtu: 9000,
        no_promiscuity: None,
        posts: true,
        is_vf: false,
        needs_long_pf: false,
        counters: IXGBE,
    },
    Device {
        name: "x540",
        title: "X540",
        module: "ixgbe",
        model: |name, mac| ixgbe(ixgbe::Kind::X540, name, mac),
        speed_bps: 10_000_000_000,
        mtu: 9000,
        no_promiscuity: None,
        posts: true,
        is_vf: false,
        needs_long_pf: false,
        counters: IXGBE,
    },
    Device {
        name: "x550",
        title: "X550",
        module: "ixgbe",
        model: |name, mac| ixgbe(ixgbe::Kind::X550, name, mac),
        speed_bps: 10_000_000_000,
        mtu: 9000,
        no_promiscuity: None,
        posts: true,
        is_vf: false,
        needs_long_pf: false,
        counters: IXGBE,
    },
    Device {
        name: "ixgbevf",
        title: "82599's virtual function",
        module: "ixgbevf",
        model: |name, mac| ixgbevf(ixgbe::Kind::I82599, name, mac),
        speed_bps: 10_000_000_000,
        mtu: 9000,
        no_promiscuity: Some("an 82599 has no promiscuous mode for its virtual functions"),
        posts: true,
        is_vf: true,
        needs_long_pf: true,
        counters: IXGBEVF,
    },
    Device {
        name: "x540vf",
        title: "X540's virtual function",
        module: "ixgbevf",
        model: |name, mac| ixgbevf(ixgbe::Kind::X540, name, mac),
        speed_bps: 10_000_000_000,
        mtu: 9000,
        no_promiscuity: None,
        posts: true,
        is_vf: true,
        needs_long_pf: false,
        counters: IXGBEVF,
    },
    Device {
        name: "x550vf",
        title: "X550's virtual function",
        module: "ixgbevf",
        model: |name, mac| ixgbevf(ixgbe::Kind::X550, name, mac),
        speed_bps: 10_000_000_000,
        mtu: 9000,
        no_promiscuity: None,
        posts: true,
        is_vf: true,
        needs_long_pf: false,
        counters: IXGBEVF,
    },
    Device {
        name: "igbvf",
        title: "82576's virtual function",
        module: "igbvf",
        model: igbvf,
        speed_bps: 1_000_000_000,
        mtu: 9000,
        no_promiscuity: Some("its mailbox has no word for the promiscuous mode"),
        posts: true,
        is_vf: true,
        needs_long_pf: false,
        counters: IGBVF,
    },
    vmxnet3("vmxnet3", "vmxnet3 of revision 7", |name, mac| {
        of_revision(7, name, mac)
    }),
    vmxnet3("vmxnet3r4", "vmxnet3 of revision 4", |name, mac| {
        of_revision(4, name, mac)
    }),
    vmxnet3("vmxnet3r3", "vmxnet3 of revision 3", |name, mac| {
        of_revision(3, name, mac)
    }),
    vmxnet3("vmxnet3r2", "vmxnet3 of revision 2", |name, mac| {
        of_revision(2, name, mac)
    }),
    vmxnet3("vmxnet3r1", "vmxnet3 of revision 1", |name, mac| {
        of_revision(1, name, mac)
    }),
    virtio("virtio", "virtio-net", |name, mac| with_pairs(1, name, mac)),
    virtio(
        "virtio4",
        "virtio-net with four pairs and RSS",
        |name, mac| with_pairs(4, name, mac),
    ),
];
