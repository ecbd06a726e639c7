//! Cores: which ones this process may use, where they are, and what runs on them.
#![expect(unsafe_code, reason = "names a thread")]

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// The calling thread, to the calls that take a thread.
const SELF: Pid = Pid::from_raw(0);

/// The cores that the calling thread may run on, lowest first. Before any pinning these are the
/// process's.
///
/// # Errors
/// The kernel does not say (more cores than it has room to name).
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(SELF)?;
    Ok((0..CpuSet::count())
        .filter(|&core| set.is_set(core).unwrap_or(false))
        .collect())
}

/// How many cores the calling thread may run on.
///
/// # Errors
/// As for [`allowed`].
pub fn count() -> io::Result<usize> {
    Ok(allowed()?.len())
}

/// Keeps the calling thread on `core`.
///
/// # Errors
/// The process may not use that core, or there is none of that number.
pub fn pin(core: usize) -> io::Result<()> {
    pin_to(&[core])
}

/// Keeps the calling thread on `cores`: what [`allowed`] said undoes a [`pin`].
///
/// # Errors
/// The process may use none of them, or one of them does not exist.
pub fn pin_to(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core)?;
    }
    Ok(sched_setaffinity(SELF, &set)?)
}

/// The core that the calling thread runs on now; pinned, it is the one forever.
///
/// # Errors
/// The kernel does not say.
pub fn current() -> io::Result<usize> {
    Ok(nix::sched::sched_getcpu()?)
}

/// Names the calling thread, for `top -H` and `ps -L`. The kernel keeps 15 bytes.
pub fn name_thread(name: &str) {
    let bytes: Vec<u8> = name.bytes().filter(|&b| b != 0).take(15).collect();
    let Ok(name) = CString::new(bytes) else {
        return;
    };
    // SAFETY: `PR_SET_NAME` reads a string that ends in zero, and `name` is one across the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Time that a thread has spent on a core: a handle that any thread can read, so that the
/// control thread sees how busy workers are without asking them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    clock: ClockId,
}

impl CpuTime {
    /// The calling thread's.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let tid = nix::unistd::gettid().as_raw();
        // A thread's clock is named by its id, inverted, above three bits of kind: 4 for a
        // thread instead of a process, 2 for time on a core (Linux, `posix-timers_types.h`).
        Self {
            clock: ClockId::from_raw((!tid << 3) | 6),
        }
    }

    /// Time on a core since the thread began.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn read(&self) -> io::Result<Duration> {
        Ok(clock_gettime(self.clock)?.into())
    }
}

/// NUMA node of `core`, from sysfs at `sys` (`/sys`). None where there is but one and the kernel
/// does not name it.
#[must_use]
pub fn node(sys: &Path, core: usize) -> Option<u32> {
    fs::read_dir(cpu_dir(sys, core))
        .ok()?
        .filter_map(Result::ok)
        .find_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix("node")?
                .parse()
                .ok()
        })
}

/// The cores that share one physical core with `core`, itself included, lowest first. Two busy
/// workers there slow each other down.
#[must_use]
pub fn siblings(sys: &Path, core: usize) -> Vec<usize> {
    list_in(&cpu_dir(sys, core).join("topology/thread_siblings_list")).unwrap_or_else(|| vec![core])
}

/// The cores that share the last-level cache with `core`, itself included, lowest first.
#[must_use]
pub fn cache_mates(sys: &Path, core: usize) -> Vec<usize> {
    (0..8)
        .rev()
        .find_map(|index| {
            list_in(&cpu_dir(sys, core).join(format!("cache/index{index}/shared_cpu_list")))
        })
        .unwrap_or_else(|| vec![core])
}

/// The cores of NUMA node `node`, lowest first.
#[must_use]
pub fn cores_of_node(sys: &Path, node: u32) -> Vec<usize> {
    list_in(&sys.join(format!("devices/system/node/node{node}/cpulist"))).unwrap_or_default()
}

fn cpu_dir(sys: &Path, core: usize) -> std::path::PathBuf {
    sys.join(format!("devices/system/cpu/cpu{core}"))
}

fn list_in(file: &Path) -> Option<Vec<usize>> {
    parse_list(fs::read_to_string(file).ok()?.trim())
}

/// The kernel's way to write sets of cores: `0-3,8,10-11`.
#[must_use]
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().ok()?;
        let last: usize = last.trim().parse().ok()?;
        if last < first || last - first > 1 << 16 {
            return None;
        }
        cores.extend(first..=last);
    }
    cores.sort_unstable();
    cores.dedup();
    Some(cores)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_pinned_thread_stays_on_its_core() {
        std::thread::spawn(|| {
            let before = allowed().unwrap();
            for &core in &before {
                pin(core).unwrap();
                assert_eq!(current().unwrap(), core);
                assert_eq!(allowed().unwrap(), [core]);
            }
            pin_to(&before).unwrap();
            assert_eq!(allowed().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused() {
        assert!(pin(CpuSet::count()).is_err());
        assert!(pin_to(&[]).is_err());
    }

    #[test]
    fn a_threads_name_is_cut_to_what_the_kernel_keeps() {
        std::thread::spawn(|| {
            name_thread("rgen-worker-number-1");
            let tid = nix::unistd::gettid();
            let name = fs::read_to_string(format!("/proc/self/task/{tid}/comm")).unwrap();
            assert_eq!(name.trim(), "rgen-worker-num");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_busy_threads_time_is_seen_from_another() {
        let (send, receive) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            let mine = CpuTime::of_this_thread();
            send.send(mine).unwrap();
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                std::hint::spin_loop();
            }
        });
        let theirs = receive.recv().unwrap();
        while theirs.read().unwrap() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        assert_ne!(theirs, CpuTime::of_this_thread());
        stop.send(()).unwrap();
        busy.join().unwrap();
    }

    #[test]
    fn sets_of_cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-2,8,5-6").unwrap(), [0, 1, 2, 5, 6, 8]);
        assert_eq!(parse_list("").unwrap(), [0usize; 0]);
        assert_eq!(parse_list("3-1"), None);
        assert_eq!(parse_list("a"), None);
    }

    #[test]
    fn topology_is_read_from_sysfs() {
        let sys = tempfile::tempdir().unwrap();
        let cpu = sys.path().join("devices/system/cpu/cpu3");
        for folder in ["topology", "node1", "cache/index2", "cache/index3"] {
            fs::create_dir_all(cpu.join(folder)).unwrap();
        }
        fs::write(cpu.join("topology/thread_siblings_list"), "3,35\n").unwrap();
        fs::write(cpu.join("cache/index2/shared_cpu_list"), "3,35\n").unwrap();
        fs::write(cpu.join("cache/index3/shared_cpu_list"), "0-3,32-35\n").unwrap();
        assert_eq!(siblings(sys.path(), 3), [3, 35]);
        assert_eq!(node(sys.path(), 3), Some(1));
        assert_eq!(cache_mates(sys.path(), 3), [0, 1, 2, 3, 32, 33, 34, 35]);
        assert_eq!(siblings(sys.path(), 4), [4], "unknown: alone");
        assert_eq!(node(sys.path(), 4), None);
    }
}
