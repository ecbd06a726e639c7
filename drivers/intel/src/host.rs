//! The host's side of a virtual function: the commands there that let it do more, and the MTU of
//! its physical function.

use hw::Function;
use hw::pci::{MtuError, RaisedMtu, VfPlace};
use port::PortError;

/// An MTU that every network has (Ethernet, IEEE 802.3 §3.2.7): no physical function is in the
/// way of that.
const ORDINARY: usize = 1500;

/// How a virtual function's host is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host(Option<VfPlace>);

impl Host {
    /// The host of `function`, by the names that are known here.
    pub fn of<F: Function + ?Sized>(function: &F) -> Self {
        Self(function.vf_place())
    }

    /// The command that says `change` of the virtual function: `trust on`.
    #[must_use]
    pub fn vf(&self, change: &str) -> String {
        match &self.0 {
            Some(VfPlace { interface, number }) => {
                format!("as root: ip link set dev {interface} vf {number} {change}")
            }
            None => format!(
                "on the host that owns the card: ip link set dev <PF interface> vf <number> \
                 {change}"
            ),
        }
    }

    /// The command that says `change` of the physical function: `mtu 9000`.
    #[must_use]
    pub fn pf(&self, change: &str) -> String {
        match &self.0 {
            Some(VfPlace { interface, .. }) => {
                format!("as root: ip link set dev {interface} {change}")
            }
            None => {
                format!("on the host that owns the card: ip link set dev <PF interface> {change}")
            }
        }
    }
}

/// What becomes of the MTU of a virtual function's physical function, while the port is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PfMtu {
    /// It is raised where it is in the way: on 82599, whose physical function grants no longer
    /// frame than its own MTU allows, and elsewhere where the physical function refuses.
    #[default]
    Auto,
    /// It is raised to the virtual function's own first.
    Raise,
    /// It is left alone.
    Keep,
}

/// When a physical function's MTU is in the way of its virtual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTheWay {
    /// Never: it grants what hardware can (X540 and X550; Linux, `ixgbe_set_vf_lpe`).
    Never,
    /// Whenever it is the smaller one. To be refused does harm, so it is raised first (82599; the
    /// same function).
    Always,
    /// Where it refuses: Linux's igb never does.
    WhenRefused,
}

/// The MTU of a physical function, and what this port has done to it.
#[derive(Debug)]
pub struct HostMtu {
    wish: PfMtu,
    rule: InTheWay,
    /// It was raised, and goes back with this.
    raised: Option<RaisedMtu>,
    /// It could not be raised.
    why: Option<MtuError>,
}

impl HostMtu {
    /// Nothing was done yet.
    #[must_use]
    pub const fn new(wish: PfMtu, rule: InTheWay) -> Self {
        Self {
            wish,
            rule,
            raised: None,
            why: None,
        }
    }

    /// Before the physical function is reset and asked for an MTU of `mtu`: raises its own where
    /// that is wanted, or in the way. What was done, in words.
    ///
    /// # Errors
    /// It cannot be raised, and the user wants it to be: the refusal of frames of `longest` bytes.
    pub fn prepare<F: Function>(
        &mut self,
        function: &F,
        mtu: usize,
        longest: usize,
    ) -> Result<Option<String>, PortError> {
        self.why = None;
        if mtu <= ORDINARY {
            self.give_back();
            return Ok(None);
        }
        let said = match (self.wish, self.rule) {
            (PfMtu::Raise, _) | (PfMtu::Auto, InTheWay::Always) => self.raise(function, mtu),
            _ => None,
        };
        if self.wish == PfMtu::Raise && self.why.is_some() {
            let cure = || Host::of(function).pf(&format!("mtu {mtu}"));
            return Err(self.refusal(function.name(), longest, cure));
        }
        // It may have been prepared all the same: else its answer decides.
        Ok(said)
    }

    /// The physical function has refused an MTU of `mtu`: raises its own where that may help. What
    /// was done, in words; the physical function may have been reset by that, and has to be begun
    /// with and asked again. None where nothing is left to try.
    pub fn after_refusal<F: Function>(&mut self, function: &F, mtu: usize) -> Option<String> {
        if (self.wish, self.rule) != (PfMtu::Auto, InTheWay::WhenRefused) {
            return None;
        }
        self.raise(function, mtu)
    }

    /// Gives the MTU back to the host.
    pub fn give_back(&mut self) {
        self.raised = None;
    }

    /// The refusal of frames of `longest` bytes by `port`'s physical function, with what is known
    /// of why its MTU was not raised, and the cure of that, or `cure`.
    pub fn refusal(&self, port: &str, longest: usize, cure: impl FnOnce() -> String) -> PortError {
        let what = match &self.why {
            Some(why) => format!("frames of {longest} bytes: {why}"),
            None => format!("frames of {longest} bytes"),
        };
        let known = self.why.as_ref().and_then(MtuError::remedy);
        PortError::Refused {
            port: port.to_owned(),
            what,
            cure: Some(known.unwrap_or_else(cure)),
        }
    }

    /// Raises it, and notes why not if that fails.
    fn raise<F: Function>(&mut self, function: &F, mtu: usize) -> Option<String> {
        let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
        if self.raised.as_ref().is_some_and(|raised| raised.now >= mtu) {
            return None;
        }
        match function.raise_pf_mtu(mtu) {
            Ok(raised) => {
                let raised = raised?;
                let said = story(&raised);
                // The one that was held before goes now, so that it stays raised all the time.
                self.raised = Some(raised);
                Some(said)
            }
            Err(why) => {
                self.why = Some(why);
                None
            }
        }
    }
}

/// What happened to a physical function's MTU.
fn story(raised: &RaisedMtu) -> String {
    let RaisedMtu {
        interface,
        before,
        now,
        was_left,
        ..
    } = raised;
    let history = if *was_left {
        format!("it was raised from {before} by a run that was killed")
    } else {
        format!("it was {before}")
    };
    format!(
        "the MTU of {interface}, the physical function, is {now} for as long as this port is open \
         ({history}, and will be {before} again)"
    )
}
