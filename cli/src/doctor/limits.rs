//! Limits of this process.

use super::Finding;
use crate::host::Host;

/// VFIO counts the memory it maps for a device against the locked-memory limit, hugepages too.
pub(super) fn memlock(host: &Host) -> Vec<Finding> {
    /// What a small run maps; a 1 GiB page counts whole.
    const ENOUGH: u64 = 1 << 30;
    let Some(limit) = limit(host) else {
        return vec![Finding::warning(
            "the locked-memory limit cannot be read from /proc/self/limits",
            "mount /proc",
        )];
    };
    match limit {
        None => vec![Finding::ready("locked memory unlimited")],
        Some(bytes) if may_lock_anyway(host) => vec![Finding::ready(format!(
            "locked memory {} MiB, which does not bind with CAP_IPC_LOCK",
            bytes >> 20
        ))],
        Some(bytes) if bytes >= ENOUGH => {
            vec![Finding::ready(format!("locked memory {} MiB", bytes >> 20))]
        }
        Some(bytes) => vec![Finding::problem(
            format!(
                "at most {} KiB of memory may be locked: VFIO cannot map a hugepage",
                bytes >> 10
            ),
            "ulimit -l unlimited (as root, or by a line `* - memlock unlimited` in \
             /etc/security/limits.d/rgen.conf and a new login)",
        )],
    }
}

/// The soft limit in bytes; `Some(None)` if there is none.
fn limit(host: &Host) -> Option<Option<u64>> {
    let text = host.read("proc/self/limits")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(None),
        bytes => bytes.parse().ok().map(Some),
    }
}

/// Whether the process has `CAP_IPC_LOCK` (14, capabilities(7)).
fn may_lock_anyway(host: &Host) -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    host.has_capability(CAP_IPC_LOCK)
}
