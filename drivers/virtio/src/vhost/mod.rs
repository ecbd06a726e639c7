//! The front end of vhost-user: a socket where PCI has registers.
//!
//! The peer (a switch, a DPDK application) is the device. Over a Unix socket it is told where
//! our memory is and where in it the rings are; from then on it works on them as any virtio
//! device does, and the socket carries nothing. There is no configuration space: address, MTU
//! and filters are this end's own business, and the link is up while the socket is connected.
//!
//! When the peer goes away its socket closes. The port then pauses its queues, waits for the
//! peer to come back (by connecting again, or by listening), and repeats the whole handshake on
//! rings that are empty. Every wait has an end: the socket never blocks, and each request has its
//! time. (The `vhost` crate's own front end waits for ever on a peer that is silent, and takes
//! `GET_QUEUE_NUM` for a limit on ring numbers, where DPDK answers in pairs; so only its message
//! types are used here.)

mod handshake;
mod message;
mod socket;

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hugemem::{DmaSpace, VhostSpace};
use port::{Mac, Offloads, PortError};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use crate::doorbell::Doorbell;
use crate::error::OpenError;
use crate::features::Features;
use crate::options::VhostOptions;
use crate::ring::SLOTS_MAX;
use crate::transport::{Health, NetConfig, Patience, Plan, Progress, Transport};
use handshake::{Handshake, Hello};
use socket::Meeting;

/// After a handshake that failed, before the next.
const RETRY: Duration = Duration::from_secs(1);

/// Why a handshake came to nothing.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The peer did not answer in time.
    Silent {
        /// What was asked.
        step: &'static str,
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },
    /// The peer closed the socket.
    Closed {
        /// What was asked.
        step: &'static str,
    },
    /// The peer's answer makes no sense.
    Nonsense {
        /// What was asked.
        step: &'static str,
        /// What is wrong with the answer.
        what: String,
    },
}

impl Trouble {
    fn into_open_error(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        match self {
            Self::Silent { step, waited_ms } => OpenError::Silent {
                path,
                step,
                waited_ms,
            },
            Self::Closed { step } => OpenError::Closed { path, step },
            Self::Nonsense { step, what } => OpenError::Nonsense { path, step, what },
        }
    }

    fn into_port_error(self, port: &str) -> PortError {
        let port = port.to_owned();
        match self {
            Self::Silent { step, waited_ms } => PortError::Stuck {
                port,
                what: format!("the peer's answer to {step}"),
                waited_ms,
            },
            Self::Closed { step } => {
                let what = format!("the peer closed the connection at {step}");
                PortError::Broken { port, what }
            }
            Self::Nonsense { step, what } => {
                let what = format!("the peer answered {step} with nonsense: {what}");
                PortError::Broken { port, what }
            }
        }
    }
}

/// How far the connection is.
enum Stage {
    /// There is none; one is sought.
    Apart,
    /// The peer is being asked what it can do.
    Greeting(Handshake),
    /// The peer knows us, and no rings.
    Met(Handshake),
    /// The peer is being told of memory and rings.
    Starting(Handshake),
    /// The peer works on the rings.
    Running(Handshake),
}

/// A vhost-user peer.
pub(crate) struct VhostUser {
    name: String,
    options: VhostOptions,
    meeting: Meeting,
    space: Arc<VhostSpace>,
    stage: Stage,
    offered: Features,
    pairs: usize,
    mac: Mac,
    bells: Vec<Bell>,
}

/// The eventfds of one ring.
struct Bell {
    kick: Arc<Kick>,
    call: EventFd,
}

/// Wakes a peer that sleeps.
struct Kick(EventFd);

impl Doorbell for Kick {
    fn ring(&self) {
        // It fails only if the counter is full, and then the peer has enough to wake up for.
        let _ = self.0.write(1);
    }
}

impl VhostUser {
    /// Meets the peer and asks what it can do.
    pub(crate) fn open(path: &Path, options: &VhostOptions) -> Result<Self, OpenError> {
        let meeting = Meeting::new(path, options.server)?;
        let mut peer = Self {
            name: format!("vhost-user:{}", path.display()),
            options: options.clone(),
            meeting,
            space: Arc::new(VhostSpace::new()),
            stage: Stage::Apart,
            offered: Features::empty(),
            pairs: 1,
            mac: options.mac.unwrap_or_else(|| mac_of(path)),
            bells: Vec::new(),
        };
        let socket = peer.meeting.wait(options.connect_timeout, &options.stop)?;
        let mut handshake = Handshake::new(socket, options.reply_timeout);
        handshake.greet();
        handshake
            .wait()
            .map_err(|trouble| trouble.into_open_error(path))?;
        let hello = handshake.hello();
        peer.offered = hello.features;
        peer.pairs = peer.check_pairs(hello)?;
        if !hello.features.contains(Features::VERSION_1) {
            let what = "it does not offer VERSION_1: no device of the virtio standard".into();
            return Err(OpenError::Broken {
                port: peer.name.clone(),
                what,
            });
        }
        peer.stage = Stage::Met(handshake);
        Ok(peer)
    }

    /// The pairs to use, if the peer has as many.
    fn check_pairs(&self, hello: Hello) -> Result<usize, OpenError> {
        let asked = self.options.device.pairs.unwrap_or(1);
        let offered = match hello.features.contains(Features::MQ) {
            true => hello.pairs,
            false => 1,
        };
        if asked > offered {
            return Err(OpenError::TooFewQueues {
                port: self.name.clone(),
                asked,
                offered,
            });
        }
        Ok(asked)
    }

    fn broken(&self, what: impl Into<String>) -> PortError {
        PortError::Broken {
            port: self.name.clone(),
            what: what.into(),
        }
    }

    /// Makes eventfds for `rings` rings. They stay the same when the peer comes back.
    fn make_bells(&mut self, rings: usize) -> Result<(), PortError> {
        while self.bells.len() < rings {
            let make = || EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK);
            let (kick, call) = make()
                .and_then(|kick| Ok((kick, make()?)))
                .map_err(|error| self.broken(format!("no eventfd: {error}")))?;
            self.bells.push(Bell {
                kick: Arc::new(Kick(kick)),
                call,
            });
        }
        Ok(())
    }

    /// One step towards a running peer.
    fn step(&mut self, plan: &Plan, patience: Patience) -> Result<Progress, PortError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Apart);
        self.stage = match stage {
            Stage::Apart => match self.meeting.try_once() {
                Some(socket) => {
                    let mut handshake = Handshake::new(socket, self.options.reply_timeout);
                    handshake.greet();
                    Stage::Greeting(handshake)
                }
                None => Stage::Apart,
            },
            Stage::Greeting(mut handshake) => match go_on(&mut handshake, patience) {
                Ok(true) => {
                    self.check_return(handshake.hello(), plan)?;
                    Stage::Met(handshake)
                }
                Ok(false) => Stage::Greeting(handshake),
                Err(trouble) => return self.set_back(trouble, patience),
            },
            Stage::Met(mut handshake) => {
                self.make_bells(plan.rings.len())?;
                let bells: Vec<_> = self
                    .bells
                    .iter()
                    .map(|bell| (bell.kick.0.as_raw_fd(), bell.call.as_raw_fd()))
                    .collect();
                handshake.start(plan, &self.space.table(), &bells);
                Stage::Starting(handshake)
            }
            Stage::Starting(mut handshake) => match go_on(&mut handshake, patience) {
                Ok(true) => Stage::Running(handshake),
                Ok(false) => Stage::Starting(handshake),
                Err(trouble) => return self.set_back(trouble, patience),
            },
            Stage::Running(handshake) => Stage::Running(handshake),
        };
        Ok(match self.stage {
            Stage::Running(_) => Progress::Running,
            _ => Progress::Underway,
        })
    }

    /// The handshake failed; its socket is closed. Who steps has another try after a while.
    fn set_back(&mut self, trouble: Trouble, patience: Patience) -> Result<Progress, PortError> {
        let error = trouble.into_port_error(&self.name);
        if patience == Patience::Wait {
            return Err(error);
        }
        self.meeting.rest(RETRY);
        Ok(Progress::Setback(error.to_string()))
    }

    /// A peer that comes back must offer what the rings were made for.
    fn check_return(&self, hello: Hello, plan: &Plan) -> Result<(), PortError> {
        let missing = plan.features - hello.features;
        if !missing.is_empty() {
            let what = format!("the peer came back without {}", missing.names());
            return Err(self.broken(what));
        }
        if hello.pairs < plan.pairs {
            let what = format!(
                "the peer came back with {} queue pairs, and {} are in use",
                hello.pairs, plan.pairs
            );
            return Err(self.broken(what));
        }
        Ok(())
    }
}

impl Transport for VhostUser {
    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> String {
        "virtio-net (vhost-user)".into()
    }

    fn pci(&self) -> Option<(u16, u16)> {
        None
    }

    fn node(&self) -> Option<u32> {
        None
    }

    fn space(&self) -> Arc<dyn DmaSpace> {
        Arc::clone(&self.space) as Arc<dyn DmaSpace>
    }

    fn offered(&self) -> Features {
        // What belongs to a configuration space and a control queue is this end's, not the peer's.
        const DEVICE: Features = Features::CSUM
            .union(Features::GUEST_CSUM)
            .union(Features::MRG_RXBUF)
            .union(Features::ANY_LAYOUT)
            .union(Features::INDIRECT_DESC)
            .union(Features::VERSION_1)
            .union(Features::RING_PACKED)
            .union(Features::IN_ORDER);
        self.offered & DEVICE
    }

    fn emulates(&self) -> Offloads {
        // Whatever the peer sends arrives, and the address is only what this end says it is.
        Offloads::PROMISCUOUS | Offloads::ALL_MULTICAST | Offloads::SET_MAC
    }

    fn slots(&self, _ring: u16) -> usize {
        SLOTS_MAX
    }

    fn config(&mut self) -> Result<NetConfig, PortError> {
        Ok(NetConfig {
            mac: Some(self.mac),
            link_up: matches!(self.stage, Stage::Met(_) | Stage::Running(_)),
            pairs: self.pairs,
            full_duplex: true,
            ..NetConfig::default()
        })
    }

    fn bring_up(&mut self, plan: &Plan, patience: Patience) -> Result<Progress, PortError> {
        let start = Instant::now();
        loop {
            let progress = self.step(plan, patience)?;
            if patience == Patience::Step || progress == Progress::Running {
                return Ok(progress);
            }
            if matches!(self.stage, Stage::Apart) {
                if start.elapsed() > self.options.connect_timeout {
                    return Err(PortError::Gone {
                        port: self.name.clone(),
                    });
                }
                self.meeting.pause();
            }
        }
    }

    fn doorbell(&self, ring: u16) -> Arc<dyn Doorbell> {
        Arc::clone(&self.bells[usize::from(ring)].kick) as Arc<dyn Doorbell>
    }

    fn check(&mut self) -> Result<Health, PortError> {
        let (Stage::Met(handshake) | Stage::Running(handshake)) = &mut self.stage else {
            return Ok(Health::Fine);
        };
        let Some(why) = handshake.listen() else {
            return Ok(Health::Fine);
        };
        self.stage = Stage::Apart;
        Ok(Health::Lost(why))
    }

    fn halt(&mut self) -> Result<(), PortError> {
        match std::mem::replace(&mut self.stage, Stage::Apart) {
            Stage::Running(mut handshake) => {
                handshake.stop();
                // A peer that does not answer loses its socket, which is all that can be taken
                // from it.
                let stopped = handshake.wait();
                if stopped.is_ok() {
                    self.stage = Stage::Met(handshake);
                }
                match stopped {
                    // Gone is stopped.
                    Ok(()) | Err(Trouble::Closed { .. }) => Ok(()),
                    Err(trouble) => Err(trouble.into_port_error(&self.name)),
                }
            }
            Stage::Met(handshake) => {
                self.stage = Stage::Met(handshake);
                Ok(())
            }
            // In the middle of a handshake: the socket is closed.
            Stage::Apart | Stage::Greeting(_) | Stage::Starting(_) => Ok(()),
        }
    }
}

fn go_on(handshake: &mut Handshake, patience: Patience) -> Result<bool, Trouble> {
    match patience {
        Patience::Wait => handshake.wait().map(|()| true),
        Patience::Step => handshake.step(),
    }
}

/// A locally administered address that the path always gives.
fn mac_of(path: &Path) -> Mac {
    // FNV-1a, 64 bits.
    let bytes = path.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    [0x02, a, b, c, d, e]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_address_made_from_a_path_is_local_unicast_and_always_the_same() {
        let mac = mac_of(Path::new("/run/a.sock"));
        assert_eq!(mac[0], 2);
        assert_eq!(mac, mac_of(Path::new("/run/a.sock")));
        assert_ne!(mac, mac_of(Path::new("/run/b.sock")));
    }
}
