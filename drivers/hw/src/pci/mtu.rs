//! The MTU of a virtual function's physical function.
//!
//! Some PFs (82599) drop every frame of a VF that is longer than their own MTU allows, whatever
//! the VF was told. Who drives the VF can raise the PF's MTU where it sees the PF.
//!
//! A PF is everybody's: several processes may need its MTU raised at once, and one that is killed
//! lowers nothing. So a raised MTU has a note in `/run/rgen` ([`super::note`]), which says what
//! it was, and which everybody who needs it holds a lock on. The last one restores it; a note
//! that nobody holds is of somebody who was killed, and is honoured by the next one who needs
//! the MTU raised.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::note::{Desk, Note};
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
    /// The physical function is part of a simulation, and keeps the MTU that it was given.
    #[error("the simulated physical function has an MTU of {now}")]
    Simulated {
        /// Its MTU.
        now: u32,
        /// The MTU that the virtual function needs.
        mtu: u32,
    },
    /// The physical function has no network interface: its driver is not the kernel's own, or
    /// the interface is in another network namespace.
    #[error("{physfn}, the physical function of {bdf}, has no network interface here")]
    NoInterface {
        /// The virtual function.
        bdf: Bdf,
        /// The physical function.
        physfn: Bdf,
        /// The driver that has the physical function.
        driver: Option<String>,
        /// The MTU that the virtual function needs.
        mtu: u32,
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
            Self::Simulated { mtu, .. } => Some(format!(
                "add host_mtu={mtu} to the port; on the host that owns a real card: ip link set \
                 dev <PF interface> mtu {mtu}"
            )),
            // VFIO and UIO have no interfaces; every other driver of a NIC makes one.
            Self::NoInterface {
                physfn,
                driver: Some(driver),
                mtu,
                ..
            } if !driver.contains("vfio") && !driver.contains("uio") => Some(format!(
                "{driver} has it, and its interface is in another network namespace: there, ip \
                 link set dev <interface of {physfn}> mtu {mtu}"
            )),
            Self::NoInterface { physfn, .. } => Some(format!(
                "give it to its kernel driver: rgen unbind {physfn}"
            )),
            Self::Denied { interface, mtu } => {
                Some(format!("as root: ip link set dev {interface} mtu {mtu}"))
            }
            Self::Kernel { interface, .. } => Some(format!(
                "what its driver can do is in: ip -d link show dev {interface} (maxmtu)"
            )),
        }
    }
}

/// MTUs that this process raised: the file, how many want it raised, and the note.
static RAISED: Mutex<BTreeMap<PathBuf, Raised>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct Raised {
    users: usize,
    before: u32,
    now: u32,
    note: Option<Note>,
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
    /// It had been raised by somebody who was killed and lowered nothing.
    pub was_left: bool,
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
        let Some(entry) = raised.remove(&self.file) else {
            return;
        };
        let _desk = Desk::sit(&self.pci.root);
        let own = (entry.before, entry.now);
        let (before, now) = match entry.note.map(Note::leave) {
            // Another process needs it still: the last one restores it.
            Some(None) => return,
            // Another process may have raised it further.
            Some(Some(said)) => said.unwrap_or(own),
            None => own,
        };
        // Somebody else changed it in between: then it is theirs.
        if number(&self.file) == Some(now) {
            let _ = (self.pci.write)(&self.file, &before.to_string());
        }
    }
}

impl Pci {
    /// The interface of the physical function of VF `bdf`, with its MTU.
    ///
    /// # Errors
    /// No physical function is visible, or it has no interface.
    pub fn pf_mtu(&self, bdf: Bdf, wanted: u32) -> Result<(String, u32), MtuError> {
        let pf = self.pf_interface(bdf, wanted)?;
        let mtu = number(&pf.file).unwrap_or(0);
        Ok((pf.interface, mtu))
    }

    /// Makes the MTU of the physical function of VF `bdf` at least `mtu`; none if it already
    /// was. It goes back to what it was when the result is dropped.
    ///
    /// A PF's driver may reset the PF to change its MTU, and all its VFs with it.
    ///
    /// # Errors
    /// The physical function is not visible (a VM), has no interface, or its MTU cannot be set.
    pub fn raise_pf_mtu(&self, bdf: Bdf, mtu: u32) -> Result<Option<RaisedMtu>, MtuError> {
        let Interface {
            physfn,
            interface,
            file,
        } = self.pf_interface(bdf, mtu)?;
        let mut raised = RAISED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = number(&file).unwrap_or(0);
        let now = found.max(mtu);
        if let Some(entry) = raised.get_mut(&file) {
            let _desk = Desk::sit(&self.root);
            if let Some(note) = &mut entry.note {
                note.write(entry.before, now);
            }
            if found < mtu
                && let Err(error) = self.set_mtu(&file, &interface, mtu)
            {
                if let Some(note) = &mut entry.note {
                    note.write(entry.before, entry.now);
                }
                return Err(error);
            }
            entry.now = now;
            entry.users += 1;
            let before = entry.before;
            return Ok(Some(self.raised(file, interface, (before, now), false)));
        }
        let desk = Desk::sit(&self.root);
        let mut note = desk.as_ref().and_then(|desk| desk.note(physfn));
        // A note about another value is of somebody whose MTU was changed by others since.
        let old = note.as_ref().and_then(Note::read);
        let old = old.filter(|&(_, noted)| noted == found);
        let is_shared = note.as_ref().is_some_and(Note::is_shared);
        let was_left = old.is_some() && !is_shared;
        if found >= mtu && old.is_none() {
            note.into_iter().for_each(Note::discard);
            return Ok(None);
        }
        let before = old.map_or(found, |(before, _)| before);
        // First the note: setting an MTU may take seconds, and a process can be killed in them.
        if let Some(note) = &mut note {
            note.write(before, now);
        }
        if found < mtu
            && let Err(error) = self.set_mtu(&file, &interface, mtu)
        {
            match (note, old) {
                // What the note of somebody who was killed said is still true.
                (Some(mut note), Some((before, noted))) => note.write(before, noted),
                (note, _) => note.into_iter().for_each(Note::discard),
            }
            return Err(error);
        }
        let entry = Raised {
            users: 1,
            before,
            now,
            note,
        };
        raised.insert(file.clone(), entry);
        Ok(Some(self.raised(file, interface, (before, now), was_left)))
    }

    fn raised(
        &self,
        file: PathBuf,
        interface: String,
        (before, now): (u32, u32),
        was_left: bool,
    ) -> RaisedMtu {
        RaisedMtu {
            pci: self.clone(),
            file,
            interface,
            before,
            now,
            was_left,
        }
    }

    fn pf_interface(&self, bdf: Bdf, mtu: u32) -> Result<Interface, MtuError> {
        let link = self.dir(bdf).join("physfn");
        let physfn: Bdf = link_name(&link)
            .and_then(|name| name.parse().ok())
            .ok_or(MtuError::Hidden { bdf, mtu })?;
        let net = self.dir(physfn).join("net");
        let interface = names(&net).min().ok_or_else(|| MtuError::NoInterface {
            bdf,
            physfn,
            driver: link_name(&self.dir(physfn).join("driver")),
            mtu,
        })?;
        let file = net.join(&interface).join("mtu");
        Ok(Interface {
            physfn,
            interface,
            file,
        })
    }

    fn set_mtu(&self, file: &Path, interface: &str, mtu: u32) -> Result<(), MtuError> {
        let interface = interface.to_owned();
        (self.write)(file, &mtu.to_string()).map_err(|source| match source.kind() {
            // In a container all of /sys may be read-only.
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                MtuError::Denied { interface, mtu }
            }
            _ => MtuError::Kernel {
                interface,
                mtu,
                source,
            },
        })
    }
}

/// A physical function's interface.
struct Interface {
    physfn: Bdf,
    interface: String,
    /// Where its MTU is read and written.
    file: PathBuf,
}
