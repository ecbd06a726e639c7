//! What a port accepts.

use port::{Mac, PortError};

/// What the user asked of the port's filters: told to the device whenever it is started.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Accepts every frame.
    pub promiscuous: bool,
    /// Accepts every multicast.
    pub all_multicast: bool,
    /// Further addresses, unicast and multicast.
    pub macs: Vec<Mac>,
    /// VLANs that are accepted.
    pub vlans: Vec<u16>,
    /// Another address of its own.
    pub mac: Option<Mac>,
}

impl Wanted {
    /// Unicast addresses among the further ones.
    pub fn stations(&self) -> impl Iterator<Item = &Mac> {
        self.macs.iter().filter(|mac| !is_group(mac))
    }

    /// Multicast addresses among them.
    pub fn groups(&self) -> impl Iterator<Item = &Mac> {
        self.macs.iter().filter(|mac| is_group(mac))
    }
}

/// True for a multicast address.
#[must_use]
pub fn is_group(mac: &Mac) -> bool {
    mac[0] & 1 != 0
}

/// Checks that a device with `places` for further unicast addresses can compare those of `macs`.
///
/// # Errors
/// It has fewer.
pub(crate) fn check_addresses(port: &str, macs: &[Mac], places: usize) -> Result<(), PortError> {
    let stations = macs.iter().filter(|mac| !is_group(mac)).count();
    if stations <= places {
        return Ok(());
    }
    Err(PortError::NotOffered {
        port: port.to_owned(),
        what: format!("a filter of more than {places} unicast addresses"),
    })
}
