//! The IOMMU, the VFIO modules, and whether this user may use them.

use std::fs::OpenOptions;
use std::io;

use super::Finding;
use crate::host::Host;

const NO_IOMMU: &str = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";

/// VFIO gives a device to a process only behind an IOMMU, or with the no-IOMMU mode switched on.
pub(super) fn iommu(host: &Host) -> Vec<Finding> {
    let groups = hw::vfio::Support::gather(host.pci().root()).iommu_groups;
    if groups > 0 {
        return vec![Finding::ready(format!("on, {groups} groups"))];
    }
    if is_no_iommu(host) {
        return vec![Finding::warning(
            "off; the no-IOMMU mode is on: a port can overwrite any memory of this machine",
            "for anything but a lab: switch the IOMMU on and the no-IOMMU mode off",
        )];
    }
    let mut cure = "switch VT-d or AMD-Vi on in the firmware, add intel_iommu=on iommu=pt to the \
                    kernel command line and reboot; in a VM: give it a virtual IOMMU"
        .to_owned();
    if lockdown(host) {
        cure.push_str("; the no-IOMMU mode is barred: the kernel is locked down (Secure Boot)");
    } else {
        cure.push_str(&format!("; for a lab only: echo 1 > /{NO_IOMMU}"));
    }
    vec![Finding::problem(
        "off: no groups in /sys/kernel/iommu_groups",
        cure,
    )]
}

fn is_no_iommu(host: &Host) -> bool {
    host.read(NO_IOMMU)
        .is_some_and(|value| value == "Y" || value == "1")
}

/// Whether the kernel is locked down: the state in brackets is the one in force.
fn lockdown(host: &Host) -> bool {
    host.read("sys/kernel/security/lockdown")
        .is_some_and(|states| states.contains('[') && !states.contains("[none]"))
}

/// The kernel's driver that hands devices over.
pub(super) fn module(host: &Host) -> Vec<Finding> {
    let drivers = "sys/bus/pci/drivers/vfio-pci";
    if !host.has(drivers) {
        let release = host.read("proc/sys/kernel/osrelease").unwrap_or_default();
        let has_module = host
            .read(&format!("lib/modules/{release}/modules.dep"))
            .is_some_and(|text| text.contains("vfio-pci.ko") || text.contains("vfio_pci.ko"));
        let cure = if has_module {
            "modprobe vfio-pci"
        } else {
            "modprobe vfio-pci; this kernel seems to have been built without it: take one with \
             CONFIG_VFIO_PCI (Debian's and Red Hat's have it)"
        };
        return vec![Finding::problem("vfio-pci is not loaded", cure)];
    }
    let bound = host
        .names(drivers)
        .into_iter()
        .filter(|name| name.contains(':'))
        .count();
    let interface = match (host.has("dev/vfio/vfio"), host.has("dev/iommu")) {
        (true, true) => "groups and iommufd",
        (true, false) => "groups",
        (false, true) => "iommufd",
        (false, false) => {
            return vec![Finding::problem(
                "vfio-pci is loaded, but there is neither /dev/vfio/vfio nor /dev/iommu",
                "modprobe vfio; in a container: pass /dev/vfio through",
            )];
        }
    };
    vec![Finding::ready(format!(
        "vfio-pci is loaded ({interface}), {bound} devices bound"
    ))]
}

/// Whether this user may open the nodes in `/dev/vfio`.
pub(super) fn access(host: &Host) -> Vec<Finding> {
    let mut nodes: Vec<String> = host
        .names("dev/vfio")
        .into_iter()
        .filter(|name| name != "devices")
        .map(|name| format!("dev/vfio/{name}"))
        .collect();
    nodes.extend(
        host.names("dev/vfio/devices")
            .into_iter()
            .map(|name| format!("dev/vfio/devices/{name}")),
    );
    if nodes.is_empty() {
        return vec![Finding::warning(
            "no device is bound to vfio-pci yet",
            "rgen ports, then: rgen bind BDF (as root)",
        )];
    }
    nodes.iter().map(|node| openable(host, node)).collect()
}

/// Opening a group's node also says whether another process has it.
fn openable(host: &Host, node: &str) -> Finding {
    match OpenOptions::new()
        .read(true)
        .write(true)
        .open(host.path(node))
    {
        Ok(_) => Finding::ready(format!("/{node} can be opened")),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Finding::problem(
            format!("/{node}: no permission"),
            format!("sudo chown $USER /{node}, or a udev rule for a group that you are in"),
        ),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Finding::warning(
            format!("/{node} is held by another process"),
            "end that process before you use the port: fuser -v shows it",
        ),
        Err(error) => Finding::problem(format!("/{node}: {error}"), "rgen ports; rgen bind BDF"),
    }
}
