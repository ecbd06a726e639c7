//! The machine as the kernel describes it in `/proc` and `/sys`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use hw::pci::Pci;
use serde::Serialize;

/// Where the kernel's descriptions are; a folder of a test, or `/`.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    root: PathBuf,
}

impl Host {
    /// This machine.
    pub(crate) fn here() -> Self {
        Self::at("/")
    }

    /// A machine described under `root`.
    pub(crate) fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path of `path` (`sys/…`, `proc/…`) on this host.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Its PCI bus.
    pub(crate) fn pci(&self) -> Pci {
        if self.root == Path::new("/") {
            Pci::host()
        } else {
            Pci::at(&self.root, Vec::new())
        }
    }

    /// What a file says, without blanks at its ends; none if it cannot be read.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Whether there is such a file or folder.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a folder, in order; none if there is no such folder.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        names(&self.path(path))
    }

    /// A word of `/proc/cpuinfo`'s first core: `model name`, `flags`.
    pub(crate) fn cpuinfo(&self, key: &str) -> Option<String> {
        let text = self.read("proc/cpuinfo")?;
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim().to_owned())
    }

    /// Whether this process has capability `number` (capabilities(7)) in effect.
    pub(crate) fn has_capability(&self, number: u32) -> bool {
        let status = self.read("proc/self/status").unwrap_or_default();
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> number & 1 == 1)
    }

    /// How many threads besides this one want a core now: the kernel's count, seen some times, so
    /// that a program which only starts up (the reader behind a pipe) does not count.
    pub(crate) fn others_running(&self) -> usize {
        const LOOKS: usize = 11;
        const BETWEEN: Duration = Duration::from_millis(8);
        let look = |n: usize| {
            if n > 0 {
                thread::sleep(BETWEEN);
            }
            // The fourth word is runnable/all (proc_loadavg(5)); we are one of the runnable.
            let text = self.read("proc/loadavg")?;
            let running = text.split(' ').nth(3)?.split('/').next()?;
            running
                .parse::<usize>()
                .ok()
                .map(|all| all.saturating_sub(1))
        };
        let mut seen: Vec<usize> = (0..LOOKS).filter_map(look).collect();
        seen.sort_unstable();
        seen.get(seen.len() / 2).copied().unwrap_or(0)
    }

    /// Cores that are online.
    pub(crate) fn cores(&self) -> Vec<usize> {
        self.read("sys/devices/system/cpu/online")
            .map_or(Vec::new(), |text| core_list(&text).unwrap_or_default())
    }

    /// Cores that the kernel keeps other work off.
    pub(crate) fn isolated(&self) -> Vec<usize> {
        self.read("sys/devices/system/cpu/isolated")
            .map_or(Vec::new(), |text| core_list(&text).unwrap_or_default())
    }
}

/// Names in a folder, in order.
fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Reads the kernel's lists of cores: `0-3,8`. None if it is not one.
pub(crate) fn core_list(text: &str) -> Option<Vec<usize>> {
    /// More cores than any machine has: a list with a slip in it shall not fill the memory.
    const MOST: usize = 1 << 16;
    let mut cores = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

/// Writes a list of cores as the kernel does.
pub(crate) fn core_ranges(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    let parts = parts.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// What identifies a machine well enough to compare two results.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Fingerprint {
    /// The processor's name.
    pub(crate) cpu: String,
    /// Cores online.
    pub(crate) cores: usize,
    /// Cores kept free of other work.
    pub(crate) isolated_cores: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Ticks of the time stamp counter a second.
    pub(crate) tsc_hz: Option<u64>,
    /// Whether the counter runs at one rate whatever the core does.
    pub(crate) tsc_invariant: bool,
}

impl Fingerprint {
    /// Of `host`, whose counter runs at `tsc_hz`.
    pub(crate) fn of(host: &Host, tsc_hz: Option<u64>) -> Self {
        Self {
            cpu: host
                .cpuinfo("model name")
                .unwrap_or_else(|| "unknown".to_owned()),
            cores: host.cores().len(),
            isolated_cores: core_ranges(&host.isolated()),
            kernel: host
                .read("proc/sys/kernel/osrelease")
                .unwrap_or_else(|| "unknown".to_owned()),
            tsc_hz,
            tsc_invariant: is_tsc_invariant(host),
        }
    }
}

/// Whether the time stamp counter neither stops nor changes its rate.
pub(crate) fn is_tsc_invariant(host: &Host) -> bool {
    let flags = host.cpuinfo("flags").unwrap_or_default();
    let has = |flag| flags.split(' ').any(|word| word == flag);
    has("constant_tsc") && has("nonstop_tsc")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn others_that_want_a_core_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        fs::write(
            folder.path().join("proc/loadavg"),
            "16.76 15.48 12.15 17/221 7563\n",
        )
        .unwrap();
        assert_eq!(Host::at(folder.path()).others_running(), 16);
        assert_eq!(Host::at("/nonexistent").others_running(), 0);
    }

    #[test]
    fn lists_of_cores_go_both_ways() {
        assert_eq!(core_list("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(core_list(""), Some(vec![]));
        assert_eq!(
            core_list("1,0"),
            Some(vec![1, 0]),
            "the order is the user's"
        );
        for bad in ["3-1", "a", "1-", "0-99999999"] {
            assert_eq!(core_list(bad), None, "{bad}");
        }
        assert_eq!(core_ranges(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(core_ranges(&[]), "");
    }
}
