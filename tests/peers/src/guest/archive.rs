//! Archives in the format that the kernel unpacks at its start: cpio "newc" (Linux,
//! `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

/// Modes of a folder, a program and a symbolic link, as `stat(2)` has them.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive that is being written.
pub(super) struct Archive<W> {
    out: W,
    number: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// An empty one. `out` is where a multiple of four bytes lies before, or nothing.
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            number: 1,
            folders: BTreeSet::new(),
        }
    }

    /// Adds a file that may be run, and the folders that it lies in. `path` is absolute.
    pub(super) fn file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.folders_above(path)?;
        self.entry(path.trim_start_matches('/'), PROGRAM, bytes)
    }

    /// Adds a symbolic link to `target`, and the folders that it lies in. `path` is absolute.
    pub(super) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.folders_above(path)?;
        self.entry(path.trim_start_matches('/'), LINK, target.as_bytes())
    }

    /// Adds a folder, and those that it lies in. `path` is absolute.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        // As if a file lay in it.
        self.folders_above(&format!("{path}/file"))
    }

    fn folders_above(&mut self, path: &str) -> io::Result<()> {
        let mut folders: Vec<&str> = Path::new(path.trim_start_matches('/'))
            .ancestors()
            .skip(1)
            .filter_map(Path::to_str)
            .filter(|folder| !folder.is_empty())
            .collect();
        folders.reverse();
        for folder in folders {
            if self.folders.insert(folder.to_owned()) {
                self.entry(folder, FOLDER, &[])?;
            }
        }
        Ok(())
    }

    /// Ends the archive.
    pub(super) fn close(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// One entry: a header of 13 numbers in hexadecimal after a magic, the name with a zero, the
    /// bytes; name and bytes each filled up to a multiple of four.
    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let too_long = |_| io::Error::other(format!("{name} is too long for an archive"));
        let size = u32::try_from(bytes.len()).map_err(too_long)?;
        let name_size = u32::try_from(name.len() + 1).map_err(too_long)?;
        self.out.write_all(b"070701")?;
        // Inode, mode, owner, group, links, time, size, device (two), special device (two),
        // length of the name, checksum (none in this format).
        let links = 1;
        for field in [
            self.number,
            mode,
            0,
            0,
            links,
            0,
            size,
            0,
            0,
            0,
            0,
            name_size,
            0,
        ] {
            write!(self.out, "{field:08x}")?;
        }
        self.number += 1;
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&[0])?;
        // The header has 110 bytes.
        self.fill(110 + name.len() + 1)?;
        self.out.write_all(bytes)?;
        self.fill(bytes.len())
    }

    fn fill(&mut self, written: usize) -> io::Result<()> {
        let missing = written.next_multiple_of(4) - written;
        self.out.write_all(&[0; 3][..missing])
    }
}

#[cfg(test)]
mod test {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn an_archive_is_read_back_by_cpio_where_there_is_one() {
        let mut archive = Archive::new(Vec::new());
        archive.file("/job/run", b"echo hello\n").unwrap();
        archive.file("/job/more/data", &[7; 4097]).unwrap();
        archive.link("/job/other/name", "../more/data").unwrap();
        archive.folder("/job/other/empty").unwrap();
        let bytes = archive.close().unwrap();
        assert_eq!(bytes.len() % 4, 0, "another archive may follow");

        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("cpio");
        command
            .args(["--extract", "--quiet"])
            .current_dir(folder.path());
        let Ok(mut child) = command.stdin(Stdio::piped()).spawn() else {
            return;
        };
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(child.wait().unwrap().success());
        let read = |path: &str| std::fs::read(folder.path().join(path)).unwrap();
        assert_eq!(read("job/run"), b"echo hello\n");
        assert_eq!(read("job/more/data"), [7; 4097]);
        assert_eq!(read("job/other/name"), [7; 4097]);
        assert!(folder.path().join("job/other/empty").is_dir());
    }
}
