//! Page sizes, and what the kernel has of each.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A size of page that memory can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageSize {
    /// 4 KiB, the processor's own; only where asked for.
    Base4K,
    /// 2 MiB.
    Huge2M,
    /// 1 GiB.
    Huge1G,
}

impl PageSize {
    /// Bytes in a page.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Base4K => 4 << 10,
            Self::Huge2M => 2 << 20,
            Self::Huge1G => 1 << 30,
        }
    }

    /// The name of its directory under `hugepages/` in sysfs; none for base pages.
    #[must_use]
    pub const fn sysfs_name(self) -> Option<&'static str> {
        match self {
            Self::Base4K => None,
            Self::Huge2M => Some("hugepages-2048kB"),
            Self::Huge1G => Some("hugepages-1048576kB"),
        }
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base4K => "4 KiB",
            Self::Huge2M => "2 MiB",
            Self::Huge1G => "1 GiB",
        })
    }
}

/// What memory may be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 1 GiB pages where they are free, else 2 MiB pages, else an error.
    Huge,
    /// Pages of this size or an error.
    Only(PageSize),
    /// As `Huge`, but 4 KiB pages rather than an error: for `sim:` ports.
    HugeOrBase,
}

/// Pages of one size on one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCount {
    /// NUMA node.
    pub node: u32,
    /// Size of each page.
    pub size: PageSize,
    /// Reserved by the administrator.
    pub total: u64,
    /// Not in use.
    pub free: u64,
    /// Given on top of `total` while they last.
    pub surplus: u64,
}

/// Hugepages of every size on every NUMA node, as the kernel reports them; `root` is `/sys`. A
/// kernel without NUMA has one node, 0.
#[must_use]
pub fn survey(root: &Path) -> Vec<PageCount> {
    let nodes = numbered(&root.join("devices/system/node"), "node");
    let places: Vec<(u32, Option<u32>)> = if nodes.is_empty() {
        vec![(0, None)]
    } else {
        nodes.into_iter().map(|node| (node, Some(node))).collect()
    };
    let mut found = Vec::new();
    for (node, place) in places {
        for size in [PageSize::Huge2M, PageSize::Huge1G] {
            let count = |file: &str| number(&directory(root, size, place)?.join(file));
            if let (Some(total), Some(free)) = (count("nr_hugepages"), count("free_hugepages")) {
                let surplus = count("surplus_hugepages").unwrap_or(0);
                found.push(PageCount {
                    node,
                    size,
                    total,
                    free,
                    surplus,
                });
            }
        }
    }
    found
}

/// Free pages that are promised to mappings which have not touched them yet, on all nodes.
pub(crate) fn promised(root: &Path, size: PageSize) -> u64 {
    directory(root, size, None)
        .and_then(|dir| number(&dir.join("resv_hugepages")))
        .unwrap_or(0)
}

/// Where sysfs keeps the counts of pages of `size`, of one node or of the whole machine.
pub(crate) fn directory(root: &Path, size: PageSize, node: Option<u32>) -> Option<PathBuf> {
    let base = match node {
        Some(node) => root.join(format!("devices/system/node/node{node}")),
        None => root.join("kernel/mm"),
    };
    Some(base.join("hugepages").join(size.sysfs_name()?))
}

/// The number in a file.
pub(crate) fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The numbers N of entries named `prefixN`, in order.
fn numbered(dir: &Path, prefix: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix(prefix)?
                .parse()
                .ok()
        })
        .collect();
    numbers.sort_unstable();
    numbers
}
