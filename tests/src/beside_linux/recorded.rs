//! What Linux's drivers do, as it was recorded.
//!
//! `cargo run -p rig --bin traces -- record` renews the recordings, with the lab's guest.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::subject::Subject;
use crate::differential::Trace;

/// What begins the line that says which kernel it was.
const KERNEL: &str = "# Linux ";

/// The file with the recording of `subject`.
#[must_use]
pub fn path(subject: &Subject) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/beside_linux/recorded");
    folder.join(format!("{}.trace", subject.name))
}

/// The recording of `subject`.
///
/// # Errors
/// It can't be read.
pub fn recorded(subject: &Subject) -> io::Result<Trace> {
    let text = fs::read_to_string(path(subject))?;
    let lines = text.lines().filter(|line| !line.starts_with(KERNEL));
    Ok(Trace::parse(&lines.collect::<Vec<_>>().join("\n")))
}

/// Keeps `trace` as the recording of `subject` under the kernel of that `version`.
///
/// # Errors
/// It can't be written.
pub fn keep(subject: &Subject, version: &str, trace: &Trace) -> io::Result<()> {
    let path = path(subject);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, format!("{KERNEL}{version}\n{}", trace.to_text()))
}
