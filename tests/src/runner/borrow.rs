//! PCI devices that are taken for a while.

use hw::pci::{Bdf, BindError, Binding, Pci};

/// Devices that `vfio-pci` has for us. Dropped, each goes back to where it was.
#[derive(Debug)]
pub struct Borrowed {
    pci: Pci,
    taken: Vec<Binding>,
}

impl Borrowed {
    /// Gives all of `devices` to `vfio-pci`, or none.
    ///
    /// # Errors
    /// One is in use, or can't be given away; those taken before it are back.
    pub fn take(pci: &Pci, devices: &[Bdf]) -> Result<Self, BindError> {
        let mut borrowed = Self {
            pci: pci.clone(),
            taken: Vec::new(),
        };
        for &bdf in devices {
            // Dropping what is taken so far gives it back.
            borrowed.taken.push(pci.bind_to_vfio(bdf)?);
        }
        Ok(borrowed)
    }

    /// Gives every device back, and says what went wrong.
    ///
    /// # Errors
    /// A device could not be given back: the first error. The others were tried all the same.
    pub fn give_back(mut self) -> Result<(), BindError> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), BindError> {
        let mut result = Ok(());
        for binding in self.taken.drain(..).rev() {
            let undone = self.pci.undo(&binding);
            if result.is_ok() {
                result = undone;
            }
        }
        result
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            eprintln!("{error}");
        }
    }
}
