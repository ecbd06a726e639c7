//! The machine that a guest is: processors, memory, IOMMU, NICs and the wires between them.

use super::{Carried, System};
use crate::lab::INSIDE;

/// The first slot of the root bus that a NIC is put into; below are the host bridge and what a
/// chipset has.
const FIRST_SLOT: usize = 2;
/// The slot after the last one: the chipset's own devices are in the last, 1fh.
const END_SLOT: usize = 0x1f;

/// A machine to be emulated.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Processors. Each is a thread of the emulator.
    pub cores: u8,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// Bits of a bus address that the IOMMU translates: 39 or 48; 0: there is no IOMMU.
    pub address_bits: u8,
    /// What it boots, where that is not the root's own: Linux's drivers and their tools.
    pub system: Option<System>,
    /// Hugepages of 2 MiB.
    pub pages_2m: u32,
    /// Hugepages of 1 GiB.
    pub pages_1g: u32,
    /// Kernel modules to load before the job runs, beside those of VFIO.
    pub modules: Vec<String>,
    /// What lies in its root beside the base and the job.
    pub files: Vec<Carried>,
    /// More of the kernel's command line.
    pub kernel: String,
    /// The wires, in the order in which [`Machine::pair`] put them in.
    pub wires: Vec<Wire>,
    /// QEMU's arguments for the NICs of the wires, and for whatever else is added here.
    pub devices: Vec<String>,
    /// Ports of the root bus so far that a NIC lies behind.
    pub ports: u8,
    /// Taps that QEMU opens, in a network of the guest's own.
    pub taps: Taps,
}

/// QEMU's device whose other end is a server of ours.
const SERVED: &str = "vfio-user-pci";

/// Pairs of taps, each with a bridge: its name, the taps' names, and how many queues each has.
#[derive(Debug, Clone, Default)]
pub struct Taps {
    pairs: Vec<(String, [String; 2], u8)>,
}

impl Taps {
    /// True if there is any.
    pub(super) fn are_there(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// What makes them, for a shell in a network namespace of its own: nothing but what the NICs
    /// send is ever on a wire, and all that they send is, whatever its addresses are. (A bridge that
    /// asks the packet filter drops what has a wrong header checksum.)
    pub(super) fn script(&self) -> String {
        let mut script = String::from(
            "set -e\n\
             for kind in all default; do\n\
             echo 1 > /proc/sys/net/ipv6/conf/$kind/disable_ipv6\n\
             done\n\
             calls=/proc/sys/net/bridge/bridge-nf-call-iptables\n\
             [ ! -e $calls ] || echo 0 > $calls\n",
        );
        for (bridge, taps, queues) in &self.pairs {
            script.push_str(&format!(
                "ip link add {bridge} type bridge stp_state 0 mcast_snooping 0\n"
            ));
            let queues = if *queues > 1 { "multi_queue" } else { "" };
            for tap in taps {
                script.push_str(&format!(
                    "ip tuntap add dev {tap} mode tap vnet_hdr {queues}\n\
                     ip link set dev {tap} mtu 65521 master {bridge} up\n\
                     ip link set dev {tap} type bridge_slave learning off flood on\n"
                ));
            }
            script.push_str(&format!("ip link set dev {bridge} up\n"));
        }
        script
    }
}

/// True for a device that must have a bus of its own: igb's virtual functions have their
/// addresses beside its own.
fn needs_port(device: Placed<'_>) -> bool {
    device.split(',').next() == Some("igb")
}

/// Two NICs that are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// The addresses at which the guest finds them.
    pub ends: [String; 2],
}

/// How a device is given to QEMU: its name and its properties, `e1000e` or
/// `virtio-net-pci,packed=on`, without place, wire and MAC address.
pub type Placed<'a> = &'a str;

impl Default for Machine {
    fn default() -> Self {
        Self {
            cores: 2,
            memory_mib: 1024,
            address_bits: 39,
            system: None,
            pages_2m: 128,
            pages_1g: 0,
            modules: Vec::new(),
            files: Vec::new(),
            kernel: String::new(),
            wires: Vec::new(),
            devices: Vec::new(),
            ports: 0,
            taps: Taps::default(),
        }
    }
}

impl Machine {
    /// How many wires a machine has room for.
    pub const MOST_WIRES: usize = (END_SLOT - FIRST_SLOT) / 2;

    /// The MAC address of an end of a wire that [`Machine::pair`] puts in, counted from 0.
    #[must_use]
    pub fn mac(wire: usize, end: usize) -> String {
        format!("52:54:00:00:{wire:02x}:{end:02x}")
    }

    /// Puts two NICs and a wire between them into the machine.
    ///
    /// # Panics
    /// The bus is full: see [`Machine::MOST_WIRES`].
    pub fn pair(&mut self, first: Placed<'_>, second: Placed<'_>) -> Wire {
        self.join(first, second, &|wire, netdev| {
            format!("hubport,id={netdev},hubid={wire}")
        })
    }

    /// The same, with `queues` pairs of queues at each end, and with checksums that are left to
    /// the other end: two taps of the host's kernel and a bridge between them, in a network of
    /// their own. A hub can do neither.
    ///
    /// # Panics
    /// The bus is full: see [`Machine::MOST_WIRES`].
    pub fn tapped_pair(&mut self, first: Placed<'_>, second: Placed<'_>, queues: u8) -> Wire {
        let wire = self.wires.len();
        let ends = [0, 1].map(|end| format!("w{wire}e{end}"));
        self.taps.pairs.push((format!("w{wire}"), ends, queues));
        self.join(first, second, &|_, netdev| {
            let more = if queues > 1 {
                format!(",queues={queues}")
            } else {
                String::new()
            };
            // Without vhost, so that QEMU's own device is what is tried.
            format!("tap,id={netdev},ifname={netdev},script=no,downscript=no,vhost=off{more}")
        })
    }

    /// Puts two NICs into the machine. `backend` is what each is given, by its wire's number and
    /// its name.
    fn join(
        &mut self,
        first: Placed<'_>,
        second: Placed<'_>,
        backend: &dyn Fn(usize, &str) -> String,
    ) -> Wire {
        let wire = self.wires.len();
        assert!(wire < Self::MOST_WIRES, "no slot is free for another pair");
        let mut ends = [String::new(), String::new()];
        for (end, device) in [first, second].into_iter().enumerate() {
            let slot = FIRST_SLOT + 2 * wire + end;
            let netdev = format!("w{wire}e{end}");
            self.devices.push("-netdev".to_owned());
            self.devices.push(backend(wire, &netdev));
            let (bus, place, address) = if needs_port(device) {
                // The firmware numbers the buses behind ports in the order of slots.
                self.ports += 1;
                self.devices.push("-device".to_owned());
                self.devices.push(format!(
                    "pcie-root-port,id=p{slot},bus=pcie.0,addr={slot:#x},chassis={slot},slot={slot}"
                ));
                let address = format!("0000:{:02x}:00.0", self.ports);
                (format!("p{slot}"), 0, address)
            } else {
                ("pcie.0".to_owned(), slot, format!("0000:00:{slot:02x}.0"))
            };
            self.devices.push("-device".to_owned());
            self.devices.push(format!(
                "{device},netdev={netdev},bus={bus},addr={place:#x},mac={}",
                Self::mac(wire, end)
            ));
            ends[end] = address;
        }
        let wire = Wire { ends };
        self.wires.push(wire.clone());
        wire
    }

    /// Puts two devices that others serve over vfio-user into the machine, on the root bus; what
    /// joins them is theirs. Their memory must be shared ([`Machine::arguments`] sees to it when
    /// there is such a device). The sockets lie in the folder that the guest is run in. `posted`:
    /// the guest goes on before a write has arrived, as on a bus; otherwise it waits, as it does
    /// where a hypervisor takes the write.
    ///
    /// # Panics
    /// The bus is full: see [`Machine::MOST_WIRES`].
    pub fn served_pair(&mut self, sockets: [&str; 2], posted: bool) -> Wire {
        let wire = self.wires.len();
        assert!(wire < Self::MOST_WIRES, "no slot is free for another pair");
        let mut ends = [String::new(), String::new()];
        for (end, socket) in sockets.into_iter().enumerate() {
            let slot = FIRST_SLOT + 2 * wire + end;
            self.devices.push("-device".to_owned());
            self.devices.push(format!(
                "{{\"driver\":\"{SERVED}\",\"bus\":\"pcie.0\",\"addr\":\"{slot:#x}\",\
                 \"x-no-posted-writes\":{},\"socket\":{{\"type\":\"unix\",\"path\":\"{INSIDE}/{socket}\"}}}}",
                !posted
            ));
            ends[end] = format!("0000:00:{slot:02x}.0");
        }
        let wire = Wire { ends };
        self.wires.push(wire.clone());
        wire
    }

    /// QEMU's arguments. The kernel lies at `kernel`, the archive at `archive`, and both serial
    /// ports go to files.
    pub(super) fn arguments(
        &self,
        kernel: &str,
        archive: &str,
        console: &str,
        output: &str,
    ) -> Vec<String> {
        let Self {
            cores,
            memory_mib,
            address_bits,
            ..
        } = self;
        let mut words: Vec<String> = Vec::new();
        let mut add = |text: &str| words.extend(text.split_whitespace().map(str::to_owned));
        // Without -nodefaults the chipset brings a NIC, a disk drive and a display.
        add("-nodefaults -no-user-config -display none -no-reboot");
        add("-M q35,kernel-irqchip=split -accel tcg,thread=multi -cpu max");
        add(&format!("-smp {cores} -m {memory_mib}M"));
        if self.devices.iter().any(|device| device.contains(SERVED)) {
            add(&format!(
                "-object memory-backend-memfd,id=m,size={memory_mib}M,share=on -numa node,memdev=m"
            ));
        }
        if *address_bits > 0 {
            add(&format!(
                "-device intel-iommu,intremap=on,caching-mode=on,aw-bits={address_bits}"
            ));
        }
        add(&format!("-kernel {kernel} -initrd {archive}"));
        for path in [console, output] {
            add(&format!("-serial file:{path}"));
        }
        words.extend(self.devices.iter().cloned());
        words.push("-append".to_owned());
        words.push(self.command_line());
        words
    }

    fn command_line(&self) -> String {
        let Self {
            pages_2m,
            pages_1g,
            kernel,
            ..
        } = self;
        // On a busy host an emulated timer may be late for the kernel's test of it.
        let mut line = String::from("console=ttyS0 quiet intel_iommu=on panic=-1 no_timer_check");
        // Pages of 1 GiB first, before memory is in pieces.
        if *pages_1g > 0 {
            line.push_str(&format!(" hugepagesz=1G hugepages={pages_1g}"));
        }
        line.push_str(&format!(" hugepagesz=2M hugepages={pages_2m} {kernel}"));
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn pairs_have_places_and_wires_of_their_own() {
        let mut machine = Machine::default();
        let first = machine.pair("e1000", "e1000e,mq=on");
        let second = machine.pair("igb", "e1000");
        let third = machine.pair("e1000", "igb,x=y");
        assert_eq!(first.ends, ["0000:00:02.0", "0000:00:03.0"]);
        assert_eq!(second.ends, ["0000:01:00.0", "0000:00:05.0"]);
        assert_eq!(third.ends, ["0000:00:06.0", "0000:02:00.0"]);
        let words = machine.arguments("k", "a", "c", "o");
        let has = |word: &str| words.iter().any(|found| found == word);
        assert!(has("hubport,id=w1e0,hubid=1"), "{words:?}");
        let device = "e1000e,mq=on,netdev=w0e1,bus=pcie.0,addr=0x3,mac=52:54:00:00:00:01";
        assert!(has(device), "{words:?}");
        let behind = "igb,x=y,netdev=w2e1,bus=p7,addr=0x0,mac=52:54:00:00:02:01";
        assert!(has(behind), "{words:?}");
    }

    #[test]
    fn what_others_serve_shares_the_memory_and_needs_no_wire_of_qemus() {
        let mut machine = Machine {
            address_bits: 0,
            ..Machine::default()
        };
        let wire = machine.served_pair(["a", "b"], true);
        assert_eq!(wire.ends, ["0000:00:02.0", "0000:00:03.0"]);
        let words = machine.arguments("k", "a", "c", "o");
        let has = |part: &str| words.iter().any(|found| found.contains(part));
        assert!(
            has("memory-backend-memfd,id=m,size=1024M,share=on"),
            "{words:?}"
        );
        assert!(has(r#""path":"/mnt/b""#), "{words:?}");
        assert!(!has("intel-iommu,"), "{words:?}");
        let plain = Machine::default().arguments("k", "a", "c", "o");
        assert!(!plain.iter().any(|word| word.contains("memfd")));
    }

    #[test]
    fn taps_are_made_for_the_pairs_that_want_them_and_named_alike_on_both_sides() {
        let mut machine = Machine::default();
        machine.pair("e1000", "e1000");
        assert!(!machine.taps.are_there());
        machine.tapped_pair("virtio-net-pci,mq=on", "virtio-net-pci,mq=on", 4);
        machine.tapped_pair("virtio-net-pci", "virtio-net-pci", 1);
        let words = machine.arguments("k", "a", "c", "o");
        let script = machine.taps.script();
        for (tap, queues) in [("w1e0", true), ("w1e1", true), ("w2e0", false)] {
            let more = if queues { ",queues=4" } else { "" };
            let netdev =
                format!("tap,id={tap},ifname={tap},script=no,downscript=no,vhost=off{more}");
            assert!(words.contains(&netdev), "{words:?}");
            let made = format!("add dev {tap} mode tap vnet_hdr");
            let line = script.lines().find(|line| line.contains(&made));
            let line = line.expect("it is made");
            assert_eq!(line.contains("multi_queue"), queues, "{line}");
        }
        assert!(!script.contains("w0e0"), "{script}");
    }

    #[test]
    fn the_bus_takes_as_many_pairs_as_it_says() {
        let mut machine = Machine::default();
        for _ in 0..Machine::MOST_WIRES {
            machine.pair("e1000", "e1000");
        }
        let last = &machine.wires[Machine::MOST_WIRES - 1].ends[1];
        assert_eq!(last, "0000:00:1d.0");
    }

    #[test]
    fn large_pages_come_first_on_the_kernels_command_line() {
        let machine = Machine {
            pages_1g: 1,
            kernel: "loglevel=7".into(),
            ..Machine::default()
        };
        let line = machine.command_line();
        assert!(
            line.ends_with("hugepagesz=1G hugepages=1 hugepagesz=2M hugepages=128 loglevel=7"),
            "{line}"
        );
    }
}
