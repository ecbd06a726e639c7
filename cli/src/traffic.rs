//! What is sent from which port to which, as the command line and the profile say.

use std::hash::{BuildHasher, RandomState};

use engine::frame::Macs;
use engine::load::LoadError;
use engine::resolution::Vlans;
use engine::run::{PortPlan, RunError, RunPlan};
use engine::stream::{Measure, Stream};
use port::{Mac, Port};

use crate::args::{Knobs, Sending};
use crate::error::Error;
use crate::output::result::{Config, StreamPlan};
use crate::own::{self, Own, Stations};
use crate::profile::Profile;
use crate::session::{Session, nanoseconds, quantity};
use crate::units;

/// A profile on ports, checked before a port is opened.
pub(crate) struct Traffic {
    /// What is sent.
    pub(crate) profile: Profile,
    /// The strings of the ports.
    pub(crate) ports: Vec<String>,
    /// Only the first port of each pair sends.
    pub(crate) one_way: bool,
    /// Destination of frames that do not set one.
    dst_mac: Option<Mac>,
    /// What each port has of its own, as far as `--ip` goes.
    own: Vec<Own>,
    ips: Vec<String>,
    catch_up_ns: u64,
    drain_ns: u64,
    /// What random fields follow from.
    pub(crate) seed: u64,
}

impl Traffic {
    /// The profile `name` with `knobs`, on `ports` or else those that it names itself.
    pub(crate) fn new(
        name: &str,
        knobs: &Knobs,
        ports: &[String],
        sending: &Sending,
    ) -> Result<Self, Error> {
        let profile = Profile::load(name, &knobs.tunables)?;
        let (ports, own_direction) = match (ports, profile.ports()) {
            ([], Some((tx, rx))) if tx == rx => (vec![tx.to_owned()], true),
            ([], Some((tx, rx))) => (vec![tx.to_owned(), rx.to_owned()], true),
            (named, _) => (named.to_vec(), false),
        };
        let own = sending.ips.iter().map(|text| Own::parse(text));
        let own = own.collect::<Result<Vec<_>, _>>()?;
        if own.len() > ports.len() {
            return Err(Error::Usage {
                found: format!(
                    "--ip is given {} times for {} ports",
                    own.len(),
                    ports.len()
                ),
                cure: "give it once for each port, in their order".to_owned(),
            });
        }
        let time = |option, text| quantity(option, units::duration(text)).map(nanoseconds);
        Ok(Self {
            one_way: sending.one_way || own_direction,
            dst_mac: sending.dst_mac.as_deref().map(mac).transpose()?,
            own,
            ips: sending.ips.clone(),
            catch_up_ns: time("--catch-up", &sending.catch_up)?,
            drain_ns: time("--drain", &sending.drain)?,
            seed: sending.seed.unwrap_or_else(|| random() >> 32),
            profile,
            ports,
        })
    }

    /// Whether port number `n` sends.
    pub(crate) fn sends(&self, n: usize) -> bool {
        !self.one_way || n.is_multiple_of(2)
    }

    /// As [`Traffic::plan`], with frames marked unless totals tell losses.
    pub(crate) fn plan_to_count(
        &self,
        session: &mut Session,
        by_totals: bool,
    ) -> Result<RunPlan, Error> {
        let mut plan = self.plan(session)?;
        if !by_totals {
            mark_all(&mut plan);
        }
        Ok(plan)
    }

    /// What the engine is to do, at the profile's own rates and until it is stopped. Takes the
    /// ports of `session`.
    pub(crate) fn plan(&self, session: &mut Session) -> Result<RunPlan, Error> {
        let macs: Vec<Mac> = session.ports.iter().map(|port| port.info().mac).collect();
        let gateways = own::gateways(&self.own, &mut session.ports, session.pages)?;
        let opened = std::mem::take(&mut session.ports);
        let node = opened.iter().find_map(|port| port.info().node);
        let mut ports = Vec::with_capacity(opened.len());
        for (n, port) in opened.into_iter().enumerate() {
            ports.push(self.port_plan(&macs, &gateways[n], n, port)?);
        }
        let mut plan = RunPlan::new(ports);
        plan.seed = self.seed;
        plan.stamp_nonce = random();
        plan.catch_up_ns = self.catch_up_ns;
        plan.drain_ns = self.drain_ns;
        // Who waits longer expects longer silences too: of a peer whose core is busy with others.
        plan.quiet_ns = plan.quiet_ns.max(self.drain_ns / 10);
        plan.cores.clone_from(&session.cores.workers);
        plan.yield_when_idle = session.cores.yields();
        plan.pages = session.pages;
        plan.node = node;
        Ok(plan)
    }

    fn port_plan(
        &self,
        macs: &[Mac],
        gateways: &Stations,
        n: usize,
        port: Box<dyn Port>,
    ) -> Result<PortPlan, Error> {
        const NO_PEER: Mac = [0x02, 0, 0, 0, 0, 0];
        let peer = Some(n ^ 1).filter(|peer| *peer < macs.len());
        let mut plan = PortPlan::new(port);
        plan.peer = peer;
        if let Some(own) = self.own.get(n) {
            plan.addresses = own.addresses.clone();
        }
        if self.sends(n) {
            let dst = self
                .dst_mac
                .or_else(|| own::station(gateways, Vlans::NONE))
                .unwrap_or_else(|| peer.map_or(NO_PEER, |peer| macs[peer]));
            let macs = Macs { src: macs[n], dst };
            plan.streams = self.profile.streams(n, macs)?;
            if self.dst_mac.is_none() {
                self.send_through(gateways, &mut plan.streams, n, macs)?;
            }
        }
        Ok(plan)
    }

    /// Frames in VLANs that have a gateway of their own go there.
    fn send_through(
        &self,
        gateways: &Stations,
        streams: &mut [Stream],
        n: usize,
        macs: Macs,
    ) -> Result<(), Error> {
        for &(vlans, dst) in gateways {
            let through = self.profile.streams(n, Macs { dst, ..macs })?;
            for (stream, through) in streams.iter_mut().zip(through) {
                if Vlans::of(&stream.frames.variants()[0].template.bytes) == vlans {
                    *stream = through;
                }
            }
        }
        Ok(())
    }

    /// All that was asked of `command`, for doing it again.
    pub(crate) fn config(
        &self,
        command: &'static str,
        session: &Session,
        plan: &RunPlan,
        hugepages: bool,
    ) -> Config {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut streams = Vec::new();
        for (n, port) in plan.ports.iter().enumerate() {
            for stream in &port.streams {
                let is_paced = !(port.unlimited && stream.scaled);
                streams.push(StreamPlan {
                    name: stream.name.clone(),
                    port: session.labels[n].clone(),
                    pps: is_paced
                        .then(|| stream.pps(session.link_bps[n]).ok())
                        .flatten(),
                    mean_size: stream.frames.mean_size(),
                    measure: measure(stream.measure),
                });
            }
        }
        Config {
            command,
            profile: self.profile.name().to_owned(),
            knobs: self.profile.knobs(),
            profile_source: self.profile.source().map(str::to_owned),
            multiplier: None,
            ports: session.names.clone(),
            one_way: self.one_way,
            ips: self.ips.clone(),
            duration_s: None,
            cores: session.cores.workers.clone(),
            model_core: session.cores.model,
            hugepages,
            catch_up_s: Some(seconds(self.catch_up_ns)),
            drain_s: seconds(self.drain_ns),
            streams,
        }
    }
}

/// A number that nobody can foresee: the standard library draws its hashers' keys so.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn mac(text: &str) -> Result<Mac, Error> {
    let octets: Option<Vec<u8>> = text
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).ok())
        .collect();
    octets
        .and_then(|octets| octets.try_into().ok())
        .ok_or_else(|| Error::Usage {
            found: format!("--dst-mac {text}: this is no MAC address"),
            cure: "write 02:00:00:00:00:01".to_owned(),
        })
}

/// Every frame carries a stamp.
fn mark_all(plan: &mut RunPlan) {
    for stream in plan.ports.iter_mut().flat_map(|port| &mut port.streams) {
        if stream.measure == Measure::None {
            stream.measure = Measure::Count;
        }
    }
}

/// Frames without room for a stamp can be counted by totals.
pub(crate) fn unmarkable(error: Error, cause: &RunError) -> Error {
    match (error, cause) {
        (Error::Usage { found, cure }, RunError::StampRoom { .. }) => Error::Usage {
            found,
            cure: format!("{cure}, or take losses from totals: --totals"),
        },
        (error, _) => error,
    }
}

/// A load that streams cannot make up, as `option` asked.
pub(crate) fn no_load(option: &str, error: &LoadError) -> Error {
    Error::Usage {
        found: format!("{option}: {error}"),
        cure: match error {
            LoadError::NothingScales => {
                "leave it out: every stream of this profile has a fixed rate".to_owned()
            }
            _ => error
                .remedy()
                .unwrap_or_else(|| "rgen run --help explains -m".to_owned()),
        },
    }
}

/// The word for what is measured.
pub(crate) fn measure(measure: Measure) -> &'static str {
    match measure {
        Measure::None => "none",
        Measure::Count => "count",
        Measure::Latency => "latency",
    }
}
