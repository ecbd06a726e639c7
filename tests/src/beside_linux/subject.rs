//! The devices that both drivers are tried on.

use models::ixgbe::{self, Ixgbe, IxgbeOptions, IxgbeVf, IxgbeVfOptions, Kind};
use models::{Device, Mac, Sim, SimOptions, WireOptions};

use super::registers::Map;
use super::watch::{Log, Watched};

/// How long the models sleep when nothing moves: a guest's processors want the cores too.
const NAP: std::time::Duration = std::time::Duration::from_micros(100);

/// A device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// Its name, which is also that of the file with Linux's trace.
    pub name: &'static str,
    /// Which controller.
    pub kind: Kind,
    /// A virtual function, or a physical one.
    pub is_vf: bool,
}

const fn subject(name: &'static str, kind: Kind, is_vf: bool) -> Subject {
    Subject { name, kind, is_vf }
}

/// All of them.
pub const SUBJECTS: &[Subject] = &[
    subject("82599", Kind::I82599, false),
    subject("x540", Kind::X540, false),
    subject("x550", Kind::X550, false),
    subject("82599-vf", Kind::I82599, true),
    subject("x540-vf", Kind::X540, true),
    subject("x550-vf", Kind::X550, true),
];

/// The address of the device at `end`.
fn mac(end: u8) -> Mac {
    [0x02, 0x72, 0x67, 0, 0, 0x20 + end]
}

impl Subject {
    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SUBJECTS.iter().find(|subject| subject.name == name)
    }

    /// The kernel's module.
    #[must_use]
    pub const fn module(&self) -> &'static str {
        if self.is_vf { "ixgbevf" } else { "ixgbe" }
    }

    /// Its registers by name.
    #[must_use]
    pub fn map(&self) -> Map {
        Map::new(&ixgbe::map(self.kind, self.is_vf), self.is_vf)
    }

    /// Two of them on a wire, and what is noted of the first.
    #[must_use]
    pub fn wired(&self) -> (Sim, Log) {
        let (watched, log) = Watched::around(self.model(0), self.map().looks(self.is_vf));
        let options = SimOptions {
            thread: "rgen-beside".into(),
            busy_threads: usize::MAX,
            nap: Some(NAP),
            ..SimOptions::default()
        };
        let sim = Sim::with_options(watched, self.model(1), WireOptions::default(), options);
        (sim, log)
    }

    fn model(&self, end: u8) -> Box<dyn Device> {
        let name = format!("{}/{end}", self.name);
        if !self.is_vf {
            return Ixgbe::boxed(&name, &IxgbeOptions::of(self.kind, mac(end)));
        }
        let mut options = IxgbeVfOptions::of(self.kind, mac(end));
        // A host that grants what a guest may ask for.
        options.pf.mtu = 9000;
        options.pf.trusted = true;
        options.pf.promiscuous = true;
        IxgbeVf::boxed(&name, &options)
    }
}
