//! Everything between the command line and a started run: cores, clock, open ports, memory.

use std::sync::Arc;
use std::time::Duration;

use catalog::OpenError;
use engine::run::{Hooks, RunError};
use hugemem::{PageSize, Pages};
use port::{Link, Port};

use crate::args::Bed;
use crate::cores::{Cores, Demand};
use crate::doctor;
use crate::error::{Error, Exit, with_causes};
use crate::host::{Fingerprint, Host};
use crate::signal::Interrupt;
use crate::units;

/// The time-stamp counter, as the engine wants a clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(hw::clock::Clock);

impl engine::run::Clock for Clock {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

/// Open ports and what they run on.
pub(crate) struct Session {
    /// The ports, in the order of the command line.
    pub(crate) ports: Vec<Box<dyn Port>>,
    /// Their strings, as typed.
    pub(crate) names: Vec<String>,
    /// What they call themselves: `sim:virtio/0` for a `sim:virtio`.
    pub(crate) labels: Vec<String>,
    /// Bits a second of each port's link, where it says so.
    pub(crate) link_bps: Vec<Option<u64>>,
    /// Who works where.
    pub(crate) cores: Cores,
    /// The clock for everything.
    pub(crate) clock: Clock,
    /// Ctrl-C.
    pub(crate) interrupt: Interrupt,
    /// What memory may be made of.
    pub(crate) pages: Pages,
    /// How long; until stopped if none.
    pub(crate) duration: Option<Duration>,
    /// Where it runs.
    pub(crate) machine: Fingerprint,
    /// What is doubtful already.
    pub(crate) warnings: Vec<String>,
}

impl Session {
    /// Opens `names` on `bed`, for `duration`.
    pub(crate) fn open(bed: &Bed, names: &[String], duration: &str) -> Result<Self, Error> {
        let duration = parse_duration(duration)?;
        if names.is_empty() {
            return Err(Error::Usage {
                found: "no port is named".to_owned(),
                cure: "-p sim:virtio -p sim:virtio needs no NIC; rgen ports lists what there is"
                    .to_owned(),
            });
        }
        let host = Host::here();
        let is_nic = |name: &String| name.parse::<hw::pci::Bdf>().is_ok();
        if names.iter().any(is_nic) {
            refuse_unready(&host, bed)?;
        }
        let allowed = hw::cpu::allowed().map_err(|error| Error::NotReady {
            code: "cores",
            found: format!("the kernel does not say which cores are ours: {error}"),
            cure: None,
        })?;
        let demand = Demand {
            workers: names.len(),
            model: names.iter().any(|name| name.starts_with("sim:")),
        };
        let cores = Cores::assign(&host, &allowed, bed.cores.as_deref(), demand)?;
        let mut warnings: Vec<String> = cores.warning(&allowed, demand).into_iter().collect();
        let clock = hw::clock::Clock::calibrate();
        if clock.source() == hw::clock::Source::Kernel {
            warnings.push(
                "the time stamp counter cannot be relied on: the kernel's clock is used, which \
                 costs more (rgen doctor)"
                    .to_owned(),
            );
        }
        // Before ports are opened: from here on Ctrl-C must find somebody who closes them.
        let interrupt = Interrupt::listen()
            .map_err(|error| Error::Unexpected(format!("no signal handler: {error}")))?;
        let mut ports = open_ports(names, &cores, &interrupt)?;
        let link_bps = ports.iter_mut().map(link_bps).collect();
        let labels = ports.iter().map(|port| port.info().name.clone()).collect();
        Ok(Self {
            pages: pages(bed.no_huge, names.iter().any(is_nic)),
            link_bps,
            ports,
            names: names.to_vec(),
            labels,
            cores,
            clock: Clock(clock),
            interrupt,
            duration,
            machine: Fingerprint::of(&host, Some(clock.ticks_per_second())),
            warnings,
        })
    }

    /// NUMA node of the first port that has one.
    pub(crate) fn node(&self) -> Option<u32> {
        self.ports.iter().find_map(|port| port.info().node)
    }

    /// Whether all ports are ends of simulated wires between them: nobody else is on these.
    pub(crate) fn is_closed(&self) -> bool {
        self.names.len().is_multiple_of(2) && self.names.iter().all(|name| name.starts_with("sim:"))
    }

    /// Whether totals tell every loss: only we are on the wires, and these make no copies.
    pub(crate) fn is_exact(&self) -> bool {
        self.is_closed() && !self.names.iter().any(|name| name.contains("dup="))
    }

    /// Whether memory may be made of hugepages.
    pub(crate) fn uses_hugepages(&self) -> bool {
        self.pages != Pages::Only(PageSize::Base4K)
    }

    /// Pins each worker to its core.
    pub(crate) fn hooks(&self) -> Hooks {
        let is_pinned = !self.cores.workers.is_empty();
        Hooks {
            on_worker_start: Arc::new(move |core| {
                hw::cpu::name_thread(&format!("rgen-work-{core}"));
                if is_pinned && let Err(error) = hw::cpu::pin(core) {
                    tracing::warn!("a worker could not be pinned to core {core}: {error}");
                }
            }),
        }
    }
}

/// A link's speed; none if the device does not know, or is gone (its start will say so).
fn link_bps(port: &mut Box<dyn Port>) -> Option<u64> {
    port.link()
        .ok()
        .and_then(|Link { speed_bps, .. }| speed_bps)
}

/// `forever`, or a time.
fn parse_duration(text: &str) -> Result<Option<Duration>, Error> {
    if text == "forever" {
        return Ok(None);
    }
    let duration = quantity("--duration", units::duration(text))?;
    if duration.is_zero() {
        return Err(Error::Usage {
            found: "--duration 0: nothing would be sent".to_owned(),
            cure: "-d 10s, or -d forever".to_owned(),
        });
    }
    Ok(Some(duration))
}

/// An option's value, or what is wrong with it.
pub(crate) fn quantity<T>(
    option: &'static str,
    parsed: Result<T, units::QuantityError>,
) -> Result<T, Error> {
    parsed.map_err(|source| Error::Quantity { option, source })
}

/// An option's duration; `ours` where it is left out.
pub(crate) fn duration_or(
    option: &'static str,
    text: Option<&str>,
    ours: Duration,
) -> Result<Duration, Error> {
    text.map_or(Ok(ours), |text| quantity(option, units::duration(text)))
}

/// A duration in nanoseconds, at most some centuries.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn pages(no_huge: bool, has_nic: bool) -> Pages {
    match (no_huge, has_nic) {
        (true, _) => Pages::Only(PageSize::Base4K),
        (false, true) => Pages::Huge,
        (false, false) => Pages::HugeOrBase,
    }
}

/// NICs are not opened while a doctor's check says that they cannot be.
fn refuse_unready(host: &Host, bed: &Bed) -> Result<(), Error> {
    if bed.no_huge {
        return Err(Error::Usage {
            found: "--no-huge with a NIC: its memory must be hugepages".to_owned(),
            cure: "leave --no-huge out".to_owned(),
        });
    }
    match doctor::obstacle(&doctor::examine(host)) {
        Some((report, finding)) => Err(Error::NotReady {
            code: report.id,
            found: format!("{}: {}", report.title, finding.evidence),
            cure: finding.cure.clone(),
        }),
        None => Ok(()),
    }
}

fn open_ports(
    names: &[String],
    cores: &Cores,
    interrupt: &Interrupt,
) -> Result<Vec<Box<dyn Port>>, Error> {
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let options = catalog::Options {
        model_core: cores.model,
        // As many as make the models yield too, where our own threads must.
        busy_threads: if cores.yields() {
            usize::MAX / 2
        } else {
            cores.workers.len().max(1)
        },
        stop: interrupt.flag(),
    };
    catalog::open(&texts, &options).map_err(|error| refused(&error))
}

/// The catalog's refusal as ours: a string that is wrong is the user's, the rest the machine's.
fn refused(error: &OpenError) -> Error {
    let code = error.code();
    let exit = match code {
        "port-string" | "port-kind" | "port-option" | "port-driver" | "port-taken" => Exit::Usage,
        "peer-broken" => Exit::PortFailed,
        "interrupted" => Exit::Interrupted,
        _ => Exit::NotReady,
    };
    Error::Open {
        code,
        message: with_causes(error),
        cure: error.remedy(),
        exit,
    }
}

/// A run that did not start, as ours: short memory is the machine's fault, a wrong stream the
/// profile's, the rest the port's.
pub(crate) fn not_started(error: &RunError) -> Error {
    use port::StartError;
    let (message, cure) = (with_causes(error), error.remedy());
    match error {
        RunError::Memory(_)
        | RunError::Pool(_)
        | RunError::Start(StartError::Memory(_) | StartError::Pool(_)) => Error::NotReady {
            code: "memory",
            found: message,
            cure,
        },
        RunError::Field { .. }
        | RunError::Render { .. }
        | RunError::Rate { .. }
        | RunError::Load { .. }
        | RunError::StampRoom { .. } => Error::Usage {
            found: message,
            cure: cure.unwrap_or_else(|| "rgen show PROFILE shows its frames".to_owned()),
        },
        RunError::Unsupported { .. } | RunError::Start(StartError::Unsupported { .. }) => {
            Error::Usage {
                found: message,
                cure: cure.unwrap_or_else(|| "ask for what the port offers".to_owned()),
            }
        }
        RunError::Thread(_) => Error::Unexpected(message),
        RunError::LinkDown { .. } => Error::Port {
            code: "link-down",
            message,
            cure,
        },
        _ => Error::Port {
            code: "port-failed",
            message,
            cure,
        },
    }
}
