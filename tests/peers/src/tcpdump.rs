//! tcpdump as a judge of expressions: which frames of a capture its libpcap lets pass.

use std::io;
use std::path::{Path, PathBuf};

use crate::lab::{INSIDE, Lab};

/// Why frames were not counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TcpdumpError {
    /// It could not be started.
    #[error("tcpdump was not started in the lab: {0}")]
    Spawn(#[from] io::Error),
    /// It could not read the capture, or the expression.
    #[error("tcpdump gave up on `{expression}` and {}: {said}", capture.display())]
    Refused {
        /// The file.
        capture: PathBuf,
        /// What was to be looked for.
        expression: String,
        /// Its own words.
        said: String,
    },
    /// The capture's path has no folder, or is not plain text.
    #[error("{} is no path for a capture", .0.display())]
    Path(PathBuf),
}

/// How many frames of `capture`, a pcap or pcapng file, are what `expression` says
/// (pcap-filter(7)).
///
/// # Errors
/// When tcpdump can't be started, or can't read the file to its end or the expression.
pub fn count(lab: &Lab, capture: &Path, expression: &str) -> Result<usize, TcpdumpError> {
    let path = || TcpdumpError::Path(capture.to_owned());
    let folder = capture.parent().ok_or_else(path)?;
    let name = capture
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(path)?;
    let mut command = lab.command(folder, "tcpdump");
    // It would give up root's rights, and with them the caller's folder.
    command.args(["-Z", "root", "-n", "--count"]);
    command.args(["-r", &format!("{INSIDE}/{name}"), expression]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let count = text.split_whitespace().next().map(str::parse);
    match count {
        Some(Ok(count)) if output.status.success() => Ok(count),
        _ => Err(TcpdumpError::Refused {
            capture: capture.to_owned(),
            expression: expression.to_owned(),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}
