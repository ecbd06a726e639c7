//! Linux's own drivers as judges of our models: `cargo xtask referee`.
//!
//! Two models with a wire between them are served over vfio-user to a guest (QEMU and a
//! kernel that others wrote). There the kernel's driver probes them, each in a network namespace of
//! its own, and traffic goes from one to the other. A model that the driver dislikes is wrong.
//!
//! - [`devices`]: the kinds of models, and what the kernel makes of them;
//! - [`inside`]: what is checked, in the guest, where this program runs again;
//! - `net`, `log`: the guest's interfaces, and what its kernel says;
//! - `truth`: what the driver counts beside what the model counts;
//! - `heard`: the guest waits until the latter was looked at.

pub mod devices;
mod heard;
pub mod inside;
mod log;
mod net;
mod truth;

use std::path::Path;
use std::time::{Duration, Instant};

use models::vfio_user::{self, ServeError, Served};
use models::{Sim, SimOptions, WireOptions};
use peers::guest::System;
use peers::{Guest, GuestError, Job, Machine};

use crate::runner::{Entry, Verdict, lab};
use devices::Order;
pub use devices::{DEVICES, Device};
use heard::{Heard, Wish};

/// How long a guest may take, all checks included: a minute, and far more where the machine's cores
/// have much else to do.
const LIMIT: Duration = Duration::from_secs(600);
/// How long the models sleep when nothing moves: the guest's processors want the cores too.
const NAP: Duration = Duration::from_micros(100);
/// The sockets' names in the guest's folder.
const SOCKETS: [&str; 2] = ["m0.sock", "m1.sock"];

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefereeError {
    /// The guest did not do its job.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A model could not be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// No folder for the sockets, or no room in it.
    #[error("no folder for the guest: {0}")]
    Folder(#[from] std::io::Error),
}

/// Two models with a wire between them that wait for a QEMU, as long as this lives.
pub struct Pair {
    /// The models and the wire.
    pub sim: Sim,
    pfs: Vec<Box<dyn Fn(Order)>>,
    _served: [Served; 2],
}

impl Pair {
    fn order(&self, order: Order) {
        self.pfs.iter().for_each(|pf| pf(order));
    }

    /// Does what the guest asks for.
    fn grant(&self, wish: Wish) {
        match wish {
            Wish::Unplug => self.sim.set_link(false),
            Wish::Plug => self.sim.set_link(true),
            Wish::ResetPf => self.order(Order::Reset),
            Wish::ShortPf => self.order(Order::Mtu(1500)),
            Wish::LongPf => self.order(Order::Mtu(9000)),
        }
    }
}

/// Serves two models of `device` in `folder`, for [`Machine::served_pair`] with [`sockets`].
///
/// # Errors
/// A socket can't be made.
pub fn serve(device: &Device, folder: &Path) -> Result<Pair, ServeError> {
    let wire = WireOptions {
        speed_bps: device.speed_bps,
        ..WireOptions::default()
    };
    let options = SimOptions {
        thread: "rgen-referee".into(),
        nap: Some(NAP),
        ..SimOptions::default()
    };
    let make = |end: u8| (device.model)(&format!("{}/{end}", device.name), mac(end));
    let (first, second) = (make(0), make(1));
    let pfs = [first.pf, second.pf].into_iter().flatten().collect();
    let sim = Sim::with_options(first.device, second.device, wire, options);
    let served = [
        vfio_user::serve(sim.function(0), &folder.join(SOCKETS[0]))?,
        vfio_user::serve(sim.function(1), &folder.join(SOCKETS[1]))?,
    ];
    Ok(Pair {
        sim,
        pfs,
        _served: served,
    })
}

/// The sockets' names in the folder of [`serve`].
#[must_use]
pub const fn sockets() -> [&'static str; 2] {
    SOCKETS
}

/// The address that the model at `end` has.
fn mac(end: u8) -> models::Mac {
    [0x02, 0x72, 0x67, 0, 0, 0x10 + end]
}

/// Has the kernel of `system` judge the models of `device`. `program` is the one that runs in the
/// guest. The kernel's console comes back, for who wants to read it.
///
/// # Errors
/// A guest did not do its job. What was found before was told.
pub fn run(
    guest: &Guest,
    system: &System,
    device: &Device,
    program: &Path,
    tell: &mut dyn FnMut(Entry),
) -> Result<String, RefereeError> {
    let folder = tempfile::tempdir()?;
    let pair = serve(device, folder.path())?;
    let mut machine = Machine {
        // Without an IOMMU guest memory is a few maps that stay.
        address_bits: 0,
        pages_2m: 0,
        memory_mib: 768,
        system: Some(system.clone()),
        ..Machine::default()
    };
    let wire = machine.served_pair(SOCKETS, device.posts);
    let mut heard = Heard::new(folder.path())?;
    machine.devices.extend(Heard::arguments());
    let [first, second] = &wire.ends;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let job = Job {
        script: format!(
            "./{name} --driver {} --in-guest {first},{second}\n",
            device.name
        ),
        programs: vec![program.to_owned()],
        limit: LIMIT,
    };
    let on = format!("{} under Linux {}", device.title, system.version());
    let mut books = truth::Books::new(device);
    let mut objections = Vec::new();
    let started = Instant::now();
    let outcome = guest.run_in(folder.path(), &machine, &job, &mut |line| {
        if let Some(mut entry) = lab::entry(line) {
            let raised = take_objections(&pair.sim, &entry.check);
            // A driver that tests registers writes into them what it never would otherwise.
            if entry.check != inside::SELF_TEST {
                objections.extend(raised);
            }
            if entry.verdict == Verdict::Failed {
                for end in 0..2 {
                    eprintln!("model {end} after it: {:?}", pair.sim.counters(end));
                }
            }
            entry.on.clone_from(&on);
            tell(entry);
            return;
        }
        if let Some(sample) = inside::sample(line) {
            books.take(sample, &pair.sim);
        } else if let Some(wish) = Wish::of(line) {
            pair.grant(wish);
        } else {
            eprintln!("guest: {line}");
            return;
        }
        if let Err(error) = heard.say() {
            eprintln!("the guest can't be told that it was heard: {error}");
        }
    })?;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    objections.extend(take_objections(&pair.sim, "the end"));
    for (check, found) in closing(&pair.sim, &books, outcome.status, &objections) {
        let verdict = if found.is_empty() {
            Verdict::Passed
        } else {
            Verdict::Failed
        };
        tell(Entry {
            on: on.clone(),
            check: check.to_owned(),
            verdict,
            found,
            took_ms,
        });
    }
    Ok(outcome.console)
}

/// What the models objected to since this was called last, and during which check.
fn take_objections(sim: &Sim, check: &str) -> Vec<String> {
    let of = |end: usize| sim.function(end).objections().take().into_iter();
    let named = |sentence: String| format!("{check}: {sentence}");
    of(0).chain(of(1)).map(named).collect()
}

/// How many checks there are on a kind of model, inside and outside.
#[must_use]
pub fn checks(device: &Device) -> usize {
    inside::checks(device).count() + CLOSING
}

/// Those that are made from the outside.
const CLOSING: usize = 4;

/// What is looked at from the outside, once the guest has ended; empty is good.
fn closing(
    sim: &Sim,
    books: &truth::Books,
    status: i32,
    objections: &[String],
) -> [(&'static str, String); CLOSING] {
    let ended = match status {
        0 => String::new(),
        status => format!("exit status {status}"),
    };
    let unaccounted = [sim.unaccounted(0), sim.unaccounted(1)];
    let lost = match unaccounted {
        [0, 0] => String::new(),
        [a, b] => format!("{a} frames one way, {b} the other"),
    };
    [
        ("the checks in the guest run to their end", ended),
        (
            "what the driver counts is what the model counted",
            books.found().join("; "),
        ),
        ("no frame is unaccounted for", lost),
        (
            "the driver did nothing that the model objects to",
            objections.join("; "),
        ),
    ]
}
