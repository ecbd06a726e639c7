//! NICs: which can be used, and what keeps the others from it.

use super::Finding;
use crate::host::Host;
use crate::nics::{self, Nic};

/// Every NIC that this version drives, and what it needs before it can be opened.
pub(super) fn nics(host: &Host) -> Vec<Finding> {
    let nics = match nics::list(host) {
        Ok(nics) => nics,
        Err(error) => {
            return vec![Finding::warning(
                error.to_string(),
                "mount /sys; in a container: pass it through",
            )];
        }
    };
    let ours: Vec<&Nic> = nics.iter().filter(|nic| nic.supported).collect();
    if ours.is_empty() {
        return vec![Finding::warning(
            format!(
                "none of the {} NICs here is driven by this version",
                nics.len()
            ),
            "rgen ports shows them; sim: and vhost-user: ports need no NIC",
        )];
    }
    ours.into_iter().flat_map(judge).collect()
}

fn judge(nic: &Nic) -> Vec<Finding> {
    let name = format!("{} {}", nic.port, nic.device);
    let mut found = vec![if nic.is_bound() {
        let group = nic
            .iommu_group
            .map_or(String::new(), |group| format!(", group {group}"));
        Finding::ready(format!("{name}: vfio-pci{group}"))
    } else if let Some(reason) = nic.in_use.first() {
        Finding::warning(
            format!("{name}: {reason}: not touched"),
            "use another NIC, or free this one first",
        )
    } else {
        let driver = nic.kernel_driver.as_deref().unwrap_or("no driver");
        Finding::warning(
            format!("{name}: held by {driver}"),
            format!("rgen bind {} (as root)", nic.port),
        )
    }];
    if nic.pcie_degraded {
        let pcie = nic.pcie.as_deref().unwrap_or("slow");
        found.push(Finding::warning(
            format!("{name}: its PCI Express link came up at {pcie}, less than it can do"),
            "move it to a slot with more lanes",
        ));
    }
    found
}
