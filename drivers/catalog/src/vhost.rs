//! `vhost-user:` ports.

use std::path::Path;

use port::Port;
use virtio::VhostOptions;

use crate::OpenError;
use crate::options::Options;
use crate::spec::Spec;

/// Options of a `vhost-user:` port.
const KNOWN: &str =
    "queues, packed, in_order, mergeable, indirect, server, mac, rx_slots, tx_slots, wait";

/// Connects to the peer at `path`.
pub(crate) fn open(spec: &Spec, path: &str) -> Result<Box<dyn Port>, OpenError> {
    let mut options = Options::of(spec);
    let device = options.virtio()?;
    let mut vhost = VhostOptions {
        device,
        ..VhostOptions::default()
    };
    vhost.server = options.flag("server")?.unwrap_or(false);
    vhost.mac = options.mac("mac")?;
    vhost.connect_timeout = options.time("wait")?.unwrap_or(vhost.connect_timeout);
    vhost.rx_slots = slots(&mut options, "rx_slots")?.unwrap_or(vhost.rx_slots);
    vhost.tx_slots = slots(&mut options, "tx_slots")?.unwrap_or(vhost.tx_slots);
    options.done(KNOWN)?;
    Ok(virtio::open_vhost_user(Path::new(path), &vhost)?)
}

fn slots(options: &mut Options<'_>, key: &str) -> Result<Option<usize>, OpenError> {
    let slots = options.number(key, "16 to 32768 slots", 16, 32_768)?;
    Ok(slots.and_then(|slots| usize::try_from(slots).ok()))
}
