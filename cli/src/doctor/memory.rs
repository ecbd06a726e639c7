//! Hugepages: how many are free, and who has the others.

use hugemem::{PageSize, page_holders, survey};

use super::Finding;
use crate::host::Host;

/// NICs work on hugepages only; one page of either size will do for a small run.
pub(super) fn hugepages(host: &Host) -> Vec<Finding> {
    let counts = survey(&host.path("sys"));
    let free: u64 = counts.iter().map(|count| count.free).sum();
    let total: u64 = counts.iter().map(|count| count.total).sum();
    let reserve = "rgen hugepages --reserve 512 --size 2M (as root)";
    if total == 0 {
        return vec![Finding::problem("no hugepages are reserved", reserve)];
    }
    let held = held(host);
    if free == 0 {
        return vec![Finding::problem(
            format!("all {total} hugepages are taken{held}"),
            "stop who holds them, or: rgen hugepages --reserve N with a larger N (as root)",
        )];
    }
    let parts: Vec<String> = counts
        .iter()
        .filter(|count| count.total > 0)
        .map(|c| {
            format!(
                "{} of {} free ({}) on node {}",
                c.free, c.total, c.size, c.node
            )
        })
        .collect();
    let has_large = counts
        .iter()
        .any(|count| count.size == PageSize::Huge1G && count.free > 0);
    let evidence = format!("{}{held}", parts.join(", "));
    if has_large || free >= 64 {
        return vec![Finding::ready(evidence)];
    }
    vec![Finding::warning(
        format!("{evidence}: too few for rings of four queues"),
        reserve,
    )]
}

/// `: 512 MiB held by qemu (pid 8123)`, or nothing.
fn held(host: &Host) -> String {
    let holders = page_holders(&host.path(""));
    if holders.is_empty() {
        return String::new();
    }
    let holders: Vec<String> = holders
        .iter()
        .map(|h| {
            format!(
                "{} MiB held by {} (pid {})",
                h.bytes >> 20,
                h.command,
                h.pid
            )
        })
        .collect();
    format!(": {}", holders.join(", "))
}
