//! Which processes have a file open, as far as this user may see.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A process that holds something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Its short name.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.command)
    }
}

/// The processes under `root` (`/`) that have one of `files` open, by number. Another user's
/// are not seen without privilege, so nobody found does not mean nobody there.
#[must_use]
pub fn holders_of(root: &Path, files: &[PathBuf]) -> Vec<Holder> {
    let mut found = Vec::new();
    if files.is_empty() {
        return found;
    }
    let proc = root.join("proc");
    let pids = crate::pci::names(&proc).filter_map(|name| name.parse::<u32>().ok());
    for pid in pids {
        let dir = proc.join(pid.to_string());
        let open = crate::pci::names(&dir.join("fd"))
            .filter_map(|fd| fs::read_link(dir.join("fd").join(fd)).ok())
            .any(|target| files.contains(&target));
        if open {
            let command = crate::pci::text(&dir.join("comm")).unwrap_or_default();
            found.push(Holder { pid, command });
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_process_that_has_a_file_open_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("held");
        let file = fs::File::create(&path).unwrap();
        let found = holders_of(Path::new("/"), std::slice::from_ref(&path));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, std::process::id());
        assert!(!found[0].command.is_empty());
        drop(file);
        assert!(holders_of(Path::new("/"), &[path]).is_empty());
    }
}
