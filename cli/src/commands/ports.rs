//! `rgen ports`: what there is, who holds it, what it can do.

use serde::Serialize;

use super::Manner;
use crate::error::{Error, Exit};
use crate::host::Host;
use crate::nics::{self, Nic};
use crate::output::schema::Schema;
use crate::output::{self, text};

/// What `rgen ports --json` prints.
#[derive(Serialize)]
struct Document {
    schema: Schema,
    version: &'static str,
    nics: Vec<Nic>,
    always: Vec<Always>,
}

/// A kind of port that needs no NIC.
#[derive(Clone, Copy, Serialize)]
struct Always {
    port: &'static str,
    what: &'static str,
}

const ALWAYS: &[Always] = &[
    Always {
        port: "sim:virtio",
        what: "the real virtio-net driver on a model of the device; two are the ends of one wire",
    },
    Always {
        port: "sim:igb",
        what: "the same with Intel's NICs: sim:e1000, sim:e1000e, sim:igb, sim:igbvf; ,mtu=N",
    },
    Always {
        port: "sim:ixgbe",
        what: "82599, and sim:ixgbevf; ,device=x540|x550 ,mtu=N ,pf_mtu=auto|raise|keep ,host_mtu=N",
    },
    Always {
        port: "vhost-user:/run/a.sock",
        what: "a virtual switch, a VM or another program; ,queues=N ,packed=on ,server=on",
    },
    Always {
        port: "null:",
        what: "accepts and counts at once: what the engine costs alone",
    },
];

/// Prints the NICs, then what is always there.
pub(super) fn run(manner: Manner) -> Result<Exit, Error> {
    let nics = nics::list(&Host::here()).map_err(|error| Error::NotReady {
        code: "pci",
        found: error.to_string(),
        cure: error.remedy(),
    })?;
    if manner.json {
        output::document(&Document {
            schema: Schema::Ports,
            version: env!("CARGO_PKG_VERSION"),
            nics,
            always: ALWAYS.to_vec(),
        })?;
    } else {
        output::result(&for_people(&nics, manner.verbose))?;
    }
    Ok(Exit::Done)
}

fn for_people(nics: &[Nic], verbose: bool) -> String {
    let mut page = String::new();
    if nics.is_empty() {
        page.push_str("no NICs on the PCI bus\n");
    } else {
        let mut table = text::table(&["PORT", "DEVICE", "HELD BY", "NODE", "LINK", "RGEN"]);
        for nic in nics {
            table.add_row(vec![
                nic.port.clone(),
                nic.device.clone(),
                holder(nic),
                nic.numa_node
                    .map_or("-".to_owned(), |node| node.to_string()),
                nic.link.clone().unwrap_or_else(|| "-".to_owned()),
                support(nic),
            ]);
        }
        page.push_str(&text::render(&table));
        page.push('\n');
        for nic in nics.iter().filter(|nic| verbose || nic.supported) {
            for reason in &nic.in_use {
                page.push_str(&format!("{}: in use: {reason}\n", nic.port));
            }
            if verbose && let Some(pcie) = &nic.pcie {
                page.push_str(&format!("{}: PCI Express {pcie}\n", nic.port));
            }
        }
    }
    page.push_str("\nalways there, no NIC needed:\n");
    let mut table = text::table(&["PORT", "WHAT IT IS"]);
    for always in ALWAYS {
        table.add_row(vec![always.port, always.what]);
    }
    page.push_str(&text::render(&table));
    page.push('\n');
    page
}

/// `ixgbe as enp59s0f1`, `vfio-pci (group 41)`, `nobody`.
fn holder(nic: &Nic) -> String {
    let Some(driver) = &nic.kernel_driver else {
        return "nobody".to_owned();
    };
    match (nic.is_bound(), nic.iommu_group, nic.interfaces.as_slice()) {
        (true, Some(group), _) => format!("{driver} (group {group})"),
        (_, _, []) => driver.clone(),
        (_, _, interfaces) => format!("{driver} as {}", interfaces.join(", ")),
    }
}

/// What this version makes of it.
fn support(nic: &Nic) -> String {
    match (nic.family, nic.supported) {
        (Some(family), true) if nic.is_bound() => format!("{family}: ready"),
        (Some(family), true) if nic.in_use.is_empty() => {
            format!("{family}: rgen bind {}", nic.port)
        }
        (Some(family), true) => format!("{family}: in use, not touched"),
        (Some(family), false) => format!("not yet ({family})"),
        (None, _) => "no driver planned".to_owned(),
    }
}
