//! A model as a PCI device of a QEMU guest: the server's side of vfio-user.
//!
//! QEMU's `vfio-user-pci` connects to a socket ([`serve`]); what its guest does with the device
//! arrives as accesses to regions (BARs, configuration space), maps of guest memory with a file
//! descriptor for each, eventfds for interrupts, and resets. The protocol is the `vfio_user`
//! crate's; here its calls become calls on a [`Device`](crate::Device) in a [`Sim`](crate::Sim).
//!
//! - `config`: the parts of configuration space that every function has alike: BARs that can be
//!   sized, and what is software's own;
//! - `interrupts`: who is told of a message or the line of INTx;
//! - `backend`: the protocol's calls.
//!
//! Guest memory comes as whole blocks, read and written in place, where the guest has no virtual
//! IOMMU; behind one, each map of the guest's is one here. QEMU owns the MSI-X table: masked
//! vectors are its business, and what a guest writes to the table does not come here.

mod backend;
mod config;
mod interrupts;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use vfio_bindings::bindings::vfio::{
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{Server, ServerRegion};

use crate::SimFunction;
use backend::Backend;
use interrupts::Interrupts;

/// Bytes of configuration space as QEMU asks for it, with the extended part.
const CONFIG_BYTES: u64 = 4096;
/// BARs of a function.
const BARS: u8 = 6;

/// Why a device is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The socket could not be made.
    #[error("no vfio-user socket at {}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// What the protocol's crate says.
        #[source]
        source: vfio_user::Error,
    },
    /// The system starts no thread.
    #[error("no thread for vfio-user")]
    Thread(#[source] io::Error),
}

/// A device that waits for a QEMU, or has one. Dropping it stops the waiting; one that is connected
/// is served until its QEMU ends.
pub struct Served {
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take()
            && !thread.is_finished()
        {
            // Whoever connects and leaves at once ends a server that still waits; on one that is
            // connected already it has no effect.
            drop(UnixStream::connect(&self.path));
        }
    }
}

/// Serves the device of `function` on a socket at `path`, in a thread of its own, to the first
/// QEMU that connects. The device's interrupts go there from now on.
///
/// # Errors
/// There is no room for the socket, or none for the thread.
pub fn serve(function: SimFunction, path: &Path) -> Result<Served, ServeError> {
    let interrupts = Arc::new(Interrupts::default());
    let mut backend = Backend::new(function, Arc::clone(&interrupts));
    let counts = backend.interrupt_counts();
    let server = Server::new(path, true, interrupts::info(counts), regions(&backend));
    let server = server.map_err(|source| ServeError::Socket {
        path: path.to_owned(),
        source,
    })?;
    backend.connect(interrupts);
    let thread = std::thread::Builder::new()
        .name("rgen-vfio-user".into())
        .spawn(move || {
            if let Err(error) = server.run(&mut backend) {
                tracing::warn!("a vfio-user connection ended: {error}");
            }
        })
        .map_err(ServeError::Thread)?;
    Ok(Served {
        path: path.to_owned(),
        thread: Some(thread),
    })
}

/// Every region that VFIO numbers: those that the function has not are empty.
fn regions(backend: &Backend) -> Vec<ServerRegion> {
    let region = |index: u32| {
        let size = match u8::try_from(index) {
            Ok(bar) if bar < BARS => backend.bar_len(bar).unwrap_or(0),
            _ if index == VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES,
            _ => 0,
        };
        let flags = if size > 0 {
            VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE
        } else {
            0
        };
        ServerRegion {
            region_info: vfio_region_info {
                argsz: u32::try_from(size_of::<vfio_region_info>()).expect("some ten bytes"),
                flags,
                index,
                size,
                ..Default::default()
            },
            sparse_areas: Vec::new(),
            mmap_fd: None,
        }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(region).collect()
}

#[cfg(test)]
mod test;
