//! Processes that hold hugepages.

use serde::Serialize;

use crate::host::Host;

/// A process that holds hugepages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Holder {
    /// Its number.
    pub(crate) pid: u32,
    /// Its name.
    pub(crate) name: String,
    /// Bytes of hugepages that it has mapped.
    pub(crate) bytes: u64,
}

/// Every process with hugepages, as far as this user may look, the largest first.
pub(crate) fn holders(host: &Host) -> Vec<Holder> {
    let mut holders: Vec<Holder> = host
        .names("proc")
        .into_iter()
        .filter_map(|name| {
            let pid = name.parse().ok()?;
            let bytes = hugepage_bytes(&host.read(&format!("proc/{pid}/smaps_rollup"))?);
            (bytes > 0).then(|| Holder {
                pid,
                name: host
                    .read(&format!("proc/{pid}/comm"))
                    .unwrap_or_else(|| "?".to_owned()),
                bytes,
            })
        })
        .collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
    holders
}

/// Sums the lines `Shared_Hugetlb: N kB` and `Private_Hugetlb: N kB` (proc_pid_smaps(5)).
fn hugepage_bytes(rollup: &str) -> u64 {
    rollup
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.ends_with("_Hugetlb"))
        .filter_map(|(_, value)| value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map(|kib| kib << 10)
        .sum()
}
