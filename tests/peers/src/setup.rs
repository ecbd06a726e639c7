//! How a testpmd is to be started: its port, its place, its rings.

/// What a testpmd does with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    /// Takes what comes.
    RxOnly,
    /// Sends each frame back as it is, from the same port.
    Io,
    /// Sends each frame back with source and destination MAC swapped.
    MacSwap,
    /// Sends one frame again and again.
    TxOnly,
    /// Sends frames whose addresses vary, each written as it is sent.
    FlowGen,
}

impl Forward {
    /// testpmd's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RxOnly => "rxonly",
            Self::Io => "io",
            Self::MacSwap => "macswap",
            Self::TxOnly => "txonly",
            Self::FlowGen => "flowgen",
        }
    }
}

/// The layout of the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rings {
    /// Three areas: descriptors, available, used.
    Split,
    /// One ring of descriptors.
    Packed,
}

impl Rings {
    /// `split` or `packed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Packed => "packed",
        }
    }
}

/// What the peer's frame pool lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Ordinary pages: needs nothing, and is slower.
    Small,
    /// 2 MiB pages, which must be free: without a mount, gone with the process.
    Huge,
}

/// How to start a testpmd.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What it does with frames.
    pub forward: Forward,
    /// Queue pairs.
    pub queues: u16,
    /// The core that its console and its poll loop are pinned to.
    pub core: usize,
    /// What its frames lie in.
    pub memory: Memory,
    /// Megabytes for the frame pool and all else.
    pub memory_mib: u32,
    /// Frames in the pool.
    pub pool_frames: u32,
    /// Room for a frame in one buffer, headroom included; longer ones take several.
    pub buffer_bytes: u32,
    /// Frames a burst.
    pub burst: u16,
    /// Dials the socket instead of listening on it. For a device the default is to listen, for
    /// a driver to dial: see [`Setup::device`] and [`Setup::driver`].
    pub dial: bool,
    /// Bytes of each frame that a sender sends, FCS not included.
    pub send_bytes: u16,
    /// Driver only: the layout of the rings.
    pub rings: Rings,
    /// Driver only: slots a ring.
    pub ring_slots: u16,
    /// Driver only: offers mergeable receive buffers.
    pub mergeable: bool,
    /// Driver only: offers to use buffers in order.
    pub in_order: bool,
    /// More for the `--vdev` string, such as `,linear-buffer=1`.
    pub more_device: String,
    /// More arguments of testpmd, after the `--`.
    pub more: Vec<String>,
}

impl Setup {
    /// A device that listens: `forward` is what it does with what it gets.
    #[must_use]
    pub fn device(forward: Forward) -> Self {
        Self {
            forward,
            queues: 1,
            core: 0,
            memory: Memory::Small,
            memory_mib: 256,
            pool_frames: 16_384,
            buffer_bytes: 2176,
            burst: 32,
            dial: false,
            send_bytes: 64,
            rings: Rings::Split,
            ring_slots: 1024,
            mergeable: true,
            in_order: true,
            more_device: String::new(),
            more: Vec::new(),
        }
    }

    /// A driver that dials, on core 1.
    #[must_use]
    pub fn driver(forward: Forward) -> Self {
        Self {
            dial: true,
            core: 1,
            ..Self::device(forward)
        }
    }

    /// The `--vdev` of a device on `socket`.
    pub(crate) fn vhost(&self, socket: &str) -> String {
        let Self {
            queues,
            more_device,
            ..
        } = self;
        let client = u8::from(self.dial);
        format!("net_vhost0,iface={socket},queues={queues},client={client}{more_device}")
    }

    /// The `--vdev` of a driver on `socket`.
    pub(crate) fn virtio_user(&self, socket: &str) -> String {
        let Self {
            queues,
            ring_slots,
            more_device,
            ..
        } = self;
        let mut device = format!(
            "net_virtio_user0,path={socket},queues={queues},queue_size={ring_slots},server={}",
            u8::from(!self.dial)
        );
        for (set, option) in [
            (self.rings == Rings::Packed, ",packed_vq=1"),
            (!self.mergeable, ",mrg_rxbuf=0"),
            (!self.in_order, ",in_order=0"),
        ] {
            if set {
                device.push_str(option);
            }
        }
        device.push_str(more_device);
        device
    }

    /// All arguments for a testpmd with the virtual device `device`.
    pub(crate) fn arguments(&self, device: &str, prefix: &str) -> Vec<String> {
        let mut words = self.common(&format!("--no-pci --vdev {device}"), prefix);
        if device.starts_with("net_virtio_user") {
            let slots = self.ring_slots;
            words.extend([format!("--txd={slots}"), format!("--rxd={slots}")]);
        }
        words
    }

    /// All arguments for a testpmd with the PCI device `device`, which `vfio-pci` has.
    pub(crate) fn pci_arguments(&self, device: &str, prefix: &str) -> Vec<String> {
        let mut words = self.common(&format!("--allow {device}"), prefix);
        // Else the link is as it was at the last interrupt, and not every NIC's arrives.
        words.push("--no-lsc-interrupt".to_owned());
        words
    }

    fn common(&self, port: &str, prefix: &str) -> Vec<String> {
        let Self {
            core,
            queues,
            burst,
            ..
        } = self;
        let mut words: Vec<String> = Vec::new();
        let mut add = |text: &str| words.extend(text.split_whitespace().map(str::to_owned));
        add(port);
        add("--single-file-segments --log-level=lib.vhost.config:info");
        add(match self.memory {
            Memory::Small => "--no-huge",
            Memory::Huge => "--in-memory",
        });
        add(&format!("-m {} --file-prefix {prefix}", self.memory_mib));
        add(&format!("--lcores 0@{core},1@{core} --"));
        // Else it throws away whatever came before it began to count.
        add("--no-flush-rx");
        add("-i --auto-start --disable-link-check --nb-cores=1");
        add(&format!(
            "--forward-mode={} --burst={burst}",
            self.forward.name()
        ));
        add(&format!("--rxq={queues} --txq={queues}"));
        add(&format!(
            "--total-num-mbufs={} --mbuf-size={}",
            self.pool_frames, self.buffer_bytes
        ));
        add(&format!("--txpkts={}", self.send_bytes));
        words.extend(self.more.iter().cloned());
        words
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_nic_is_allowed_by_its_address_and_keeps_the_rings_of_its_driver() {
        let setup = Setup::device(Forward::TxOnly);
        let words = setup.pci_arguments("0000:00:02.0", "a").join(" ");
        assert!(words.contains("--allow 0000:00:02.0 "), "{words}");
        assert!(words.ends_with(" --no-lsc-interrupt"), "{words}");
        for other in ["--no-pci", "--vdev", "--txd"] {
            assert!(!words.contains(other), "{other} in {words}");
        }
    }

    #[test]
    fn a_driver_setup_becomes_the_arguments_that_testpmd_knows() {
        let setup = Setup {
            rings: Rings::Packed,
            mergeable: false,
            memory: Memory::Huge,
            ..Setup::driver(Forward::FlowGen)
        };
        let device = setup.virtio_user("/mnt/a.sock");
        let expected = "net_virtio_user0,path=/mnt/a.sock,queues=1,queue_size=1024,server=0,\
                        packed_vq=1,mrg_rxbuf=0";
        assert_eq!(device, expected);
        let words = setup.arguments(&device, "a").join(" ");
        for part in [
            "--in-memory",
            "--lcores 0@1,1@1 --",
            "--forward-mode=flowgen",
            "--txd=1024",
        ] {
            assert!(words.contains(part), "{part} in {words}");
        }
    }
}
