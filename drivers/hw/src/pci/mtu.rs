//! The MTU of a virtual function's physical function.
//!
//! Some PFs (82599) drop every frame of a VF that is longer than their own MTU allows, whatever
//! the VF was told. Who drives the VF can raise the PF's MTU where it sees the PF.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Bdf, Pci, link_name, names};
use crate::pci::device::number;

/// Why the MTU of a physical function was not raised.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MtuError {
    /// The device is no virtual function, or its physical function is out of sight: in a VM it
    /// belongs to the host.
    #[error("the physical function of {bdf} is not visible here")]
    Hidden {
        /// The virtual function.
        bdf: Bdf,
        /// The MTU that it needs.
        mtu: u32,
    },
    /// The physical function has no network interface (its driver is not the kernel's own).
    #[error("{physfn}, the physical function of {bdf}, has no network interface")]
    NoInterface {
        /// The virtual function.
        bdf: Bdf,
        /// The physical function.
        physfn: Bdf,
    },
    /// This user may not.
    #[error("no permission to set the MTU of {interface} to {mtu}")]
    Denied {
        /// The physical function's interface.
        interface: String,
        /// The MTU that is needed.
        mtu: u32,
    },
    /// The kernel refused.
    #[error("the MTU of {interface} cannot be {mtu}")]
    Kernel {
        /// The physical function's interface.
        interface: String,
        /// The MTU that is needed.
        mtu: u32,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl MtuError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Hidden { mtu, .. } => Some(format!(
                "on the host that owns the card: ip link set dev <PF interface> mtu {mtu}"
            )),
            Self::NoInterface { physfn, .. } => Some(format!(
                "give it to its kernel driver: rgen unbind {physfn}"
            )),
            Self::Denied { interface, mtu } => {
                Some(format!("as root: ip link set dev {interface} mtu {mtu}"))
            }
            Self::Kernel { .. } => None,
        }
    }
}

/// MTUs that this process raised: the file, how many want it raised, what it was and is.
static RAISED: Mutex<BTreeMap<PathBuf, Raised>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Raised {
    users: usize,
    before: u32,
    now: u32,
}

/// An MTU that was raised, and goes back to what it was when the last one who needs it drops
/// this.
#[derive(Debug)]
#[must_use = "dropping it lowers the MTU again"]
pub struct RaisedMtu {
    pci: Pci,
    file: PathBuf,
    /// The physical function's interface.
    pub interface: String,
    /// What the MTU was.
    pub before: u32,
    /// What it is now, at least.
    pub now: u32,
}

impl Drop for RaisedMtu {
    fn drop(&mut self) {
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = raised.get_mut(&self.file) else {
            return;
        };
        entry.users -= 1;
        if entry.users > 0 {
            return;
        }
        // Somebody else changed it in between: then it is theirs.
        if number(&self.file) == Some(entry.now) {
            let _ = (self.pci.write)(&self.file, &entry.before.to_string());
        }
        raised.remove(&self.file);
    }
}

impl Pci {
    /// The interfaces of the physical function of VF `bdf`, with their MTUs.
    ///
    /// # Errors
    /// No physical function is visible, or it has no interface.
    pub fn pf_mtu(&self, bdf: Bdf, wanted: u32) -> Result<(String, u32), MtuError> {
        let (interface, file) = self.pf_mtu_file(bdf, wanted)?;
        let mtu = number(&file).unwrap_or(0);
        Ok((interface, mtu))
    }

    /// Makes the MTU of the physical function of VF `bdf` at least `mtu`; none if it already
    /// was. It goes back to what it was when the result is dropped.
    ///
    /// # Errors
    /// The physical function is not visible (a VM), has no interface, or its MTU cannot be set.
    pub fn raise_pf_mtu(&self, bdf: Bdf, mtu: u32) -> Result<Option<RaisedMtu>, MtuError> {
        let (interface, file) = self.pf_mtu_file(bdf, mtu)?;
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        let now = number(&file).unwrap_or(0);
        let before = raised.get(&file).map_or(now, |entry| entry.before);
        if now >= mtu && !raised.contains_key(&file) {
            return Ok(None);
        }
        if now < mtu {
            self.set_mtu(&file, &interface, mtu)?;
        }
        let entry = raised.entry(file.clone()).or_insert(Raised {
            users: 0,
            before,
            now: mtu,
        });
        entry.users += 1;
        entry.now = now.max(mtu);
        Ok(Some(RaisedMtu {
            pci: self.clone(),
            file,
            interface,
            before,
            now: now.max(mtu),
        }))
    }

    fn pf_mtu_file(&self, bdf: Bdf, mtu: u32) -> Result<(String, PathBuf), MtuError> {
        let link = self.dir(bdf).join("physfn");
        let physfn: Bdf = link_name(&link)
            .and_then(|name| name.parse().ok())
            .ok_or(MtuError::Hidden { bdf, mtu })?;
        let net = self.dir(physfn).join("net");
        let interface = names(&net)
            .min()
            .ok_or(MtuError::NoInterface { bdf, physfn })?;
        let file = net.join(&interface).join("mtu");
        Ok((interface, file))
    }

    fn set_mtu(&self, file: &Path, interface: &str, mtu: u32) -> Result<(), MtuError> {
        let interface = interface.to_owned();
        (self.write)(file, &mtu.to_string()).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => MtuError::Denied { interface, mtu },
            _ => MtuError::Kernel {
                interface,
                mtu,
                source,
            },
        })
    }
}
