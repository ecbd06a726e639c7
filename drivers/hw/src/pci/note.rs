//! Notes about what a process changed on this machine and will change back: one for each physical
//! function whose MTU is raised.
//!
//! | file | what it is |
//! |---|---|
//! | `/run/rgen/pf-mtu-0000:01:00.0` | `1500 9000`: what the MTU was, and what it was raised to |
//! | `/run/rgen/desk` | locked by whoever reads or writes notes, for a moment |
//!
//! Everybody who needs the MTU holds a shared lock on its note; the kernel lets go of it however a
//! process ends. Nothing needs the notes to be possible: where `/run` cannot be written to, a
//! process restores what it changed itself, and that is all.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::Bdf;

/// Where notes are, below the machine's root.
const FOLDER: &str = "run/rgen";

/// The right to take, write and leave notes, which one process has at a time.
#[derive(Debug)]
pub(super) struct Desk {
    folder: PathBuf,
    /// Locked for as long as it is open.
    _lock: File,
}

impl Desk {
    /// Waits for the right; none where there can be no notes.
    pub(super) fn sit(root: &Path) -> Option<Self> {
        let folder = root.join(FOLDER);
        fs::create_dir_all(&folder).ok()?;
        let lock = open(&folder.join("desk"))?;
        lock.lock().ok()?;
        Some(Self {
            folder,
            _lock: lock,
        })
    }

    /// The note about `physfn`, empty if there was none. This process holds it from now on.
    pub(super) fn note(&self, physfn: Bdf) -> Option<Note> {
        let path = self.folder.join(format!("pf-mtu-{physfn}"));
        let file = open(&path)?;
        file.lock_shared().ok()?;
        Some(Note { path, file })
    }
}

fn open(path: &Path) -> Option<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).ok()
}

/// A note that this process holds. Whoever calls its functions has the [`Desk`].
#[derive(Debug)]
pub(super) struct Note {
    path: PathBuf,
    file: File,
}

impl Note {
    /// What the MTU was, and what it was raised to; none if that was never written.
    pub(super) fn read(&self) -> Option<(u32, u32)> {
        let mut text = String::new();
        let mut file = &self.file;
        file.rewind().ok()?;
        file.read_to_string(&mut text).ok()?;
        let mut words = text.split_whitespace().map(str::parse);
        let (before, now) = (words.next()?.ok()?, words.next()?.ok()?);
        Some((before, now))
    }

    /// Writes what the MTU was, and what it is raised to.
    pub(super) fn write(&mut self, before: u32, now: u32) {
        let written = self.file.set_len(0);
        let written = written.and_then(|()| self.file.rewind());
        let written = written.and_then(|()| writeln!(self.file, "{before} {now}"));
        if let Err(error) = written {
            tracing::warn!("{}: {error}", self.path.display());
        }
    }

    /// True if another process holds it too.
    pub(super) fn is_shared(&self) -> bool {
        // Whether that works or not, the shared lock has to be taken again: Linux gives the old
        // one away first (flock(2)). Nobody comes in between who has not the desk.
        let is_alone = self.file.try_lock().is_ok();
        let _ = self.file.lock_shared();
        !is_alone
    }

    /// Lets go of it. None if another process holds it still; else what it said, and it is gone.
    pub(super) fn leave(self) -> Option<Option<(u32, u32)>> {
        if self.is_shared() {
            return None;
        }
        let said = self.read();
        self.discard();
        Some(said)
    }

    /// Lets go of it, and removes it if nobody else holds it.
    pub(super) fn discard(self) {
        if !self.is_shared() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
