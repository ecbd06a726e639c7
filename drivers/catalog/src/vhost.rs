//! `vhost-user:` ports.

use std::path::Path;
use std::sync::Arc;

use port::Port;
use virtio::VhostOptions;

use crate::options::Options;
use crate::spec::Spec;
use crate::{OpenError, Options as OpenOptions};

/// Options of a `vhost-user:` port.
const KNOWN: &str =
    "queues, packed, in_order, mergeable, indirect, server, mac, rx_slots, tx_slots, wait";

/// Connects to the peer at `path`.
pub(crate) fn open(spec: &Spec, path: &str, how: &OpenOptions) -> Result<Box<dyn Port>, OpenError> {
    let mut options = Options::of(spec);
    let device = options.virtio()?;
    let mut vhost = VhostOptions {
        device,
        stop: Arc::clone(&how.stop),
        ..VhostOptions::default()
    };
    vhost.server = options.flag("server")?.unwrap_or(false);
    vhost.mac = options.mac("mac")?;
    vhost.connect_timeout = options.time("wait")?.unwrap_or(vhost.connect_timeout);
    vhost.rx_slots = options.slots("rx_slots")?.unwrap_or(vhost.rx_slots);
    vhost.tx_slots = options.slots("tx_slots")?.unwrap_or(vhost.tx_slots);
    options.done(KNOWN)?;
    Ok(virtio::open_vhost_user(Path::new(path), &vhost)?)
}
