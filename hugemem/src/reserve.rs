//! Reserving hugepages, and who has them.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::page::{PageSize, directory, number};

/// Why hugepages were not reserved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// The kernel or the processor has no such pages, or the machine no such node.
    #[error("there are no pages of {size}{}", on(*node))]
    Unsupported {
        /// Their size.
        size: PageSize,
        /// The NUMA node, if one was asked for.
        node: Option<u32>,
    },
    /// This user may not.
    #[error("no permission to write {}", file.display())]
    Denied {
        /// The file that holds the number.
        file: PathBuf,
    },
    /// Fewer came than were asked for: memory is used up or in pieces.
    #[error("{got} of {asked} pages of {size} could be had{}", on(*node))]
    Fewer {
        /// How many should be reserved, all in all.
        asked: u64,
        /// How many are.
        got: u64,
        /// Their size.
        size: PageSize,
        /// The NUMA node, if one was asked for.
        node: Option<u32>,
    },
    /// The kernel refused.
    #[error("cannot write {}", file.display())]
    Kernel {
        /// The file that holds the number.
        file: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

fn on(node: Option<u32>) -> String {
    node.map_or(String::new(), |node| format!(" on NUMA node {node}"))
}

impl ReserveError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Unsupported { .. } => Some("ask for the other size: --size 2M".into()),
            Self::Denied { .. } => Some("run as root".into()),
            Self::Fewer { asked, size, .. } => {
                let size = if *size == PageSize::Huge1G {
                    "1G"
                } else {
                    "2M"
                };
                Some(format!(
                    "end what uses memory, or reserve them at boot, on the kernel's command \
                     line: hugepagesz={size} hugepages={asked}"
                ))
            }
            Self::Kernel { .. } => None,
        }
    }
}

/// Makes the kernel reserve `pages` pages of `size` all in all, on `node` or anywhere, and sees
/// how many came. `root` is `/`.
///
/// # Errors
/// Not all of them came; those that did stay.
pub fn reserve(
    root: &Path,
    size: PageSize,
    node: Option<u32>,
    pages: u64,
) -> Result<u64, ReserveError> {
    let unsupported = ReserveError::Unsupported { size, node };
    let Some(dir) = directory(&root.join("sys"), size, node).filter(|dir| dir.is_dir()) else {
        return Err(unsupported);
    };
    let file = dir.join("nr_hugepages");
    put(&file, &pages.to_string())?;
    let mut got = number(&file).unwrap_or(0);
    if got < pages {
        // Free memory in pieces becomes whole by moving pages about; then once more.
        let _ = put(&root.join("proc/sys/vm/compact_memory"), "1");
        put(&file, &pages.to_string())?;
        got = number(&file).unwrap_or(0);
    }
    if got < pages {
        return Err(ReserveError::Fewer {
            asked: pages,
            got,
            size,
            node,
        });
    }
    Ok(got)
}

/// Writes to a file that is there.
fn put(file: &Path, words: &str) -> Result<(), ReserveError> {
    let written = fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(file)
        .and_then(|mut open| open.write_all(words.as_bytes()));
    written.map_err(|source| {
        let file = file.to_owned();
        if source.kind() == io::ErrorKind::PermissionDenied {
            ReserveError::Denied { file }
        } else {
            ReserveError::Kernel { file, source }
        }
    })
}

/// A process that has hugepages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageHolder {
    /// Its id.
    pub pid: u32,
    /// Its short name.
    pub command: String,
    /// Bytes of hugepages, of all sizes.
    pub bytes: u64,
    /// Pages of each size, where this user may see them.
    pub pages: Vec<(PageSize, u64)>,
}

/// The processes under `root` (`/`) that have hugepages, by number.
#[must_use]
pub fn page_holders(root: &Path) -> Vec<PageHolder> {
    let proc = root.join("proc");
    let entries = fs::read_dir(&proc).into_iter().flatten().flatten();
    let mut found: Vec<PageHolder> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| holder(&proc.join(format!("{pid}")), pid))
        .collect();
    found.sort_unstable_by_key(|holder| holder.pid);
    found
}

fn holder(dir: &Path, pid: u32) -> Option<PageHolder> {
    // One short file tells who has any; the long one with the sizes is read only for those.
    let status = fs::read_to_string(dir.join("status")).ok()?;
    let bytes = kib(&status, "HugetlbPages:")? * 1024;
    let command = status.lines().find_map(|line| line.strip_prefix("Name:"))?;
    (bytes > 0).then(|| PageHolder {
        pid,
        command: command.trim().to_owned(),
        bytes,
        pages: pages_of(&fs::read_to_string(dir.join("smaps")).unwrap_or_default()),
    })
}

/// The number of KiB in the line that begins with `name`.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Pages of each size in a process's `smaps`: for each mapping a size of page, and how much of
/// it is there, shared and private.
fn pages_of(maps: &str) -> Vec<(PageSize, u64)> {
    let mut found = Vec::new();
    for size in [PageSize::Huge2M, PageSize::Huge1G] {
        let mut bytes = 0;
        let mut here = false;
        for line in maps.lines() {
            let Some((name, _)) = line.split_once(':') else {
                continue;
            };
            match name {
                "KernelPageSize" => {
                    here = kib(line, "KernelPageSize:") == Some(size.bytes() as u64 / 1024);
                }
                "Shared_Hugetlb" | "Private_Hugetlb" if here => {
                    bytes += kib(line, &format!("{name}:")).unwrap_or(0) * 1024;
                }
                _ => {}
            }
        }
        if bytes > 0 {
            found.push((size, bytes / size.bytes() as u64));
        }
    }
    found
}
