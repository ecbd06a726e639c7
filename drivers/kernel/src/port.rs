//! The port: an interface, and the sockets on it from start to stop.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hugemem::{DmaSpace, Memory, NoDevice};
use port::{
    Caps, Config, Counters, Extended, Info, Limits, Link, LinkState, Mac, Offloads, Port,
    PortError, QueueId, Queues, Rss, Signal, StartError,
};

use crate::counters::Counted;
use crate::error::OpenError;
use crate::filter::{ADDRESSES_MAX, Filter};
use crate::interface::{Interface, names};
use crate::ring::{DATA, RECEIVE_OVERHEAD, Ring};
use crate::rx::{Duties, Rx};
use crate::shared::{FCS, Follower, HEADER, Ledger, Shared, TAG};
use crate::socket::{Hears, Membership, Shape, Socket};
use crate::tx::{Allowed, Tx};
use crate::{Options, QUEUES_MAX};

/// Slots of a receive ring when nobody asks: a few milliseconds at what the kernel can do.
const RX_SLOTS: usize = 4096;
/// Slots of a send ring when nobody asks.
const TX_SLOTS: usize = 1024;
/// Least slots.
const SLOTS_MIN: usize = 16;
/// Most bytes of a ring, which are the kernel's memory and stay in place.
const RING_MAX: usize = 64 << 20;
/// Most bytes of a ring when nobody asks.
const RING_DEFAULT: usize = 16 << 20;
/// How often the interface is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// An interface of the kernel's as a port.
pub(crate) struct Packet {
    info: Info,
    caps: Caps,
    /// Asks the kernel, and holds what is asked of the interface.
    socket: Socket,
    interface: Interface,
    mtu: usize,
    filter: Filter,
    run: Option<Run>,
    totals: Totals,
    /// The interface's counters when the port was opened.
    before: Counted,
    link_up: Option<bool>,
    looked: Option<Instant>,
}

/// What is true while the port is started.
struct Run {
    shared: Arc<Shared>,
    /// The sockets of the receive queues.
    receivers: Vec<Arc<Socket>>,
    round: u32,
}

/// What was counted in runs that are over, and what the kernel counts once and forgets.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    counters: Counters,
    kicks: u64,
}

impl Totals {
    /// With what the queues of a run counted.
    fn with(mut self, shared: &Shared) -> Self {
        for Ledger {
            frames,
            bytes,
            errors,
            ..
        } in shared.rx_counts()
        {
            self.counters.rx_frames += frames.get();
            self.counters.rx_bytes += bytes.get();
            self.counters.rx_errors += errors.get();
        }
        for ledger in shared.tx_counts() {
            self.counters.tx_frames += ledger.frames.get();
            self.counters.tx_bytes += ledger.bytes.get();
            self.counters.tx_errors += ledger.errors.get();
            self.kicks += ledger.kicks.get();
        }
        self
    }
}

fn queues(options: &Options) -> Limits {
    Limits {
        range: 0..=QUEUES_MAX,
        default: options.queues.unwrap_or(1),
        power_of_two: false,
    }
}

/// The slots that a ring may have whose slots are of `bytes` bytes.
fn slots(bytes: usize, asked: Option<usize>, usual: usize) -> Limits {
    let bytes = bytes.next_power_of_two();
    Limits {
        range: SLOTS_MIN..=(RING_MAX / bytes).max(SLOTS_MIN),
        default: asked.unwrap_or_else(|| usual.min(RING_DEFAULT / bytes).max(SLOTS_MIN)),
        power_of_two: false,
    }
}

/// Bytes of a slot that a frame is sent from.
fn tx_slot(mtu: usize) -> usize {
    DATA + HEADER + TAG + mtu
}

/// Bytes of a slot that a frame is received into.
fn rx_slot(mtu: usize) -> usize {
    RECEIVE_OVERHEAD + HEADER + TAG + mtu
}

impl Packet {
    pub(crate) fn open(name: &str, interface: &str, options: &Options) -> Result<Self, OpenError> {
        let asked = options.queues.unwrap_or(1);
        if !(1..=QUEUES_MAX).contains(&asked) {
            return Err(OpenError::Queues {
                interface: interface.to_owned(),
                asked,
            });
        }
        let fails = |what| {
            move |source: io::Error| match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => OpenError::NotAllowed {
                    interface: interface.to_owned(),
                },
                Some(libc::ENODEV) => OpenError::NoInterface {
                    interface: interface.to_owned(),
                    there: names(),
                },
                _ => OpenError::Kernel {
                    interface: interface.to_owned(),
                    what,
                    source,
                },
            }
        };
        let socket = Socket::new().map_err(fails("make a packet socket"))?;
        let found = Interface::find(&socket, interface).map_err(fails("know it"))?;
        let (kind, mac) = found.address(&socket).map_err(fails("tell its address"))?;
        if kind != libc::ARPHRD_ETHER {
            return Err(OpenError::NotEthernet {
                interface: interface.to_owned(),
                kind,
            });
        }
        let mtu = found.mtu(&socket).map_err(fails("tell its MTU"))?;
        let before = Counted::read(interface).map_err(fails("tell its counters"))?;
        Ok(Self {
            info: Info {
                name: name.to_owned(),
                driver: "af_packet",
                device: format!("{interface}, driven by Linux"),
                pci: None,
                mac,
                node: None,
                simulated: false,
            },
            caps: Caps {
                rx_queues: queues(options),
                tx_queues: queues(options),
                rx_slots: slots(rx_slot(mtu), options.rx_slots, RX_SLOTS),
                tx_slots: slots(tx_slot(mtu), options.tx_slots, TX_SLOTS),
                max_frame: HEADER + mtu + FCS,
                max_segments: hugemem::BURST,
                offloads: Offloads::TX_VLAN
                    | Offloads::RX_VLAN
                    | Offloads::RX_SCATTER
                    | Offloads::PROMISCUOUS
                    | Offloads::ALL_MULTICAST
                    | Offloads::MAC_FILTER,
            },
            socket,
            interface: found,
            mtu,
            filter: Filter::default(),
            run: None,
            totals: Totals::default(),
            before: before.unwrap_or_default(),
            link_up: None,
            looked: None,
        })
    }

    fn name(&self) -> String {
        self.info.name.clone()
    }

    fn not_offered(&self, what: &str) -> PortError {
        PortError::NotOffered {
            port: self.name(),
            what: what.to_owned(),
        }
    }

    /// The error of a request about an interface that was there.
    fn failed(&self, what: &str, error: &io::Error) -> PortError {
        match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => PortError::Gone { port: self.name() },
            _ => PortError::Broken {
                port: self.name(),
                what: format!("the kernel does not {what}: {error}"),
            },
        }
    }

    /// The socket of a receive queue with its ring, which hears nothing yet.
    fn receiver(&self, slots: usize) -> io::Result<Ring> {
        let socket = Socket::new()?;
        let shape = Shape::holding(slots, rx_slot(self.mtu));
        socket.make_ring(true, &shape)?;
        socket.ignore_outgoing()?;
        socket.set_filter(&mut self.filter.program(self.info.mac))?;
        Ring::map(Arc::new(socket), shape)
    }

    /// The socket of a send queue with its ring.
    fn sender(&self, slots: usize) -> io::Result<Ring> {
        let socket = Socket::new()?;
        let shape = Shape::holding(slots, tx_slot(self.mtu));
        socket.make_ring(false, &shape)?;
        socket.bypass_qdisc()?;
        socket.bind(self.interface.index, Hears::Nothing)?;
        Ring::map(Arc::new(socket), shape)
    }

    /// Opens the sockets of all queues: the receivers', then the senders'.
    fn rings(&self, config: &Config) -> io::Result<(Vec<Ring>, Vec<Ring>)> {
        let (rx_slots, tx_slots) = config.slots(&self.caps);
        let receivers = (0..config.rx_queues)
            .map(|_| self.receiver(rx_slots))
            .collect::<io::Result<Vec<_>>>()?;
        let senders = (0..config.tx_queues)
            .map(|_| self.sender(tx_slots))
            .collect::<io::Result<Vec<_>>>()?;
        let mut group = None;
        for ring in &receivers {
            ring.socket.bind(self.interface.index, Hears::All)?;
            if receivers.len() > 1 {
                group = Some(ring.socket.join_fanout(group)?);
            }
        }
        Ok((receivers, senders))
    }

    /// Gives every receive queue the filter as it is now.
    fn filter_all(&self) -> Result<(), PortError> {
        let receivers = self.run.iter().flat_map(|run| &run.receivers);
        for socket in receivers {
            let mut program = self.filter.program(self.info.mac);
            socket
                .set_filter(&mut program)
                .map_err(|error| self.failed("take the filter", &error))?;
        }
        Ok(())
    }

    /// Asks something of the interface, or no longer.
    fn ask(&self, what: Membership, on: bool) -> Result<(), PortError> {
        self.socket
            .set_membership(self.interface.index, what, on)
            .map_err(|error| self.failed("change what the interface accepts", &error))
    }

    /// Adds what the kernel has counted since it was last asked.
    fn take_drops(&mut self) -> Result<(), PortError> {
        let mut drops = 0;
        for socket in self.run.iter().flat_map(|run| &run.receivers) {
            drops += socket
                .take_drops()
                .map_err(|error| self.failed("tell what it dropped", &error))?;
        }
        self.totals.counters.rx_missed += drops;
        Ok(())
    }

    /// Totals as of now.
    fn count(&mut self) -> Result<Totals, PortError> {
        self.take_drops()?;
        Ok(match &self.run {
            Some(run) => self.totals.with(&run.shared),
            None => self.totals,
        })
    }

    /// Ends the run.
    fn end(&mut self, queues: Queues) -> Result<(), PortError> {
        let counted = self.take_drops();
        drop(queues);
        if let Some(run) = self.run.take() {
            run.shared.halt();
            self.totals = self.totals.with(&run.shared);
        }
        counted
    }

    /// Lets the queues work while frames can pass.
    fn signal(&mut self, up: bool) {
        let Some(run) = &mut self.run else {
            return;
        };
        if up {
            run.shared.set(Signal::run(run.round));
        } else {
            run.round += 1;
            run.shared.set(Signal::pause(run.round));
        }
    }
}

impl Port for Packet {
    fn info(&self) -> &Info {
        &self.info
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::new(NoDevice)
    }

    fn ring_bytes(&self, _config: &Config) -> usize {
        // The rings are the kernel's memory.
        0
    }

    fn start(&mut self, config: &Config, _memory: &Memory) -> Result<Queues, StartError> {
        assert!(
            self.run.is_none(),
            "a port is stopped before it is started again"
        );
        config.check(&self.info.name, &self.caps)?;
        let (receivers, senders) = self
            .rings(config)
            .map_err(|error| self.failed("make the rings", &error))?;
        let shared = Shared::new(config.rx_queues, config.tx_queues);
        self.run = Some(Run {
            shared: Arc::clone(&shared),
            receivers: receivers
                .iter()
                .map(|ring| Arc::clone(&ring.socket))
                .collect(),
            round: 1,
        });
        self.link_up = None;
        let (rx_slots, tx_slots) = config.slots(&self.caps);
        let duties = Duties {
            scatter: config.offloads.contains(Offloads::RX_SCATTER),
            strip: config.offloads.contains(Offloads::RX_VLAN),
        };
        let allowed = Allowed {
            mtu: self.mtu,
            vlan: config.offloads.contains(Offloads::TX_VLAN),
        };
        let mut queues = Queues::default();
        for (number, ring) in receivers.into_iter().enumerate() {
            let follower = Follower::new(&shared, QueueId::Rx(number));
            let rx = Rx::new(ring, rx_slots, duties, follower);
            queues.rx.push(Box::new(rx));
        }
        for (number, ring) in senders.into_iter().enumerate() {
            let follower = Follower::new(&shared, QueueId::Tx(number));
            let tx = Tx::new(ring, tx_slots, allowed, follower);
            queues.tx.push(Box::new(tx));
        }
        Ok(queues)
    }

    fn stop(&mut self, queues: Queues) -> Result<(), PortError> {
        self.end(queues)
    }

    fn link(&mut self) -> Result<Link, PortError> {
        self.interface
            .link(&self.socket)
            .map_err(|error| self.failed("tell its link", &error))
    }

    fn counters(&mut self) -> Result<Counters, PortError> {
        Ok(self.count()?.counters)
    }

    fn extended(&mut self) -> Result<Vec<Extended>, PortError> {
        let kicks = self.count()?.kicks;
        let now = self
            .interface
            .name(&self.socket)
            .and_then(|name| Counted::read(&name))
            .map_err(|error| self.failed("tell its counters", &error))?;
        let mut extended = now.unwrap_or(self.before).since(&self.before);
        extended.push(Extended {
            name: "tx_system_calls".into(),
            value: kicks,
        });
        Ok(extended)
    }

    fn service(&mut self) -> Result<Vec<String>, PortError> {
        if let Some(what) = self.run.as_ref().and_then(|run| run.shared.failure()) {
            return Err(PortError::Broken {
                port: self.name(),
                what,
            });
        }
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return Ok(Vec::new());
        }
        self.looked = Some(Instant::now());
        let up = match self.link() {
            Ok(link) => link.state == LinkState::Up,
            Err(error) => {
                if let Some(run) = &self.run {
                    run.shared.set(Signal::FAILED);
                }
                return Err(error);
            }
        };
        let was = self.link_up.replace(up);
        if was.unwrap_or(true) != up {
            self.signal(up);
        }
        let changed = was.is_some_and(|was| was != up);
        let event = changed.then(|| format!("link {}", if up { "up" } else { "down" }));
        Ok(event.into_iter().collect())
    }

    fn set_promiscuous(&mut self, on: bool) -> Result<(), PortError> {
        if self.filter.promiscuous != on {
            self.ask(Membership::Promiscuous, on)?;
            self.filter.promiscuous = on;
        }
        self.filter_all()
    }

    fn set_all_multicast(&mut self, on: bool) -> Result<(), PortError> {
        if self.filter.all_multicast != on {
            self.ask(Membership::AllMulticast, on)?;
            self.filter.all_multicast = on;
        }
        self.filter_all()
    }

    fn set_mac(&mut self, _mac: Mac) -> Result<(), PortError> {
        Err(self.not_offered("another MAC address (ip link set address changes the interface's)"))
    }

    fn set_mac_filter(&mut self, macs: &[Mac]) -> Result<(), PortError> {
        if macs.len() > ADDRESSES_MAX {
            return Err(PortError::Refused {
                port: self.name(),
                what: format!("{} addresses", macs.len()),
                cure: Some(format!("{ADDRESSES_MAX} at most, or promiscuous mode")),
            });
        }
        let had = self.filter.further.clone();
        for mac in had.into_iter().filter(|mac| !macs.contains(mac)) {
            self.ask(Membership::Address(mac), false)?;
            self.filter.further.retain(|kept| *kept != mac);
        }
        for &mac in macs {
            if !self.filter.further.contains(&mac) {
                self.ask(Membership::Address(mac), true)?;
                self.filter.further.push(mac);
            }
        }
        self.filter_all()
    }

    fn set_vlan_filter(&mut self, _id: u16, _on: bool) -> Result<(), PortError> {
        Err(self.not_offered("a VLAN filter"))
    }

    fn set_mtu(&mut self, _mtu: usize) -> Result<(), PortError> {
        Err(self.not_offered("another MTU (ip link set mtu changes the interface's)"))
    }

    fn set_rss(&mut self, _rss: &Rss) -> Result<(), PortError> {
        Err(self.not_offered("RSS by a key and a table (several queues share by flow)"))
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        if self.run.is_some() {
            let _ = self.end(Queues::default());
        }
    }
}
