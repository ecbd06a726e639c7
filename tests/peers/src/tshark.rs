//! tshark as a judge of frames: what it sees in a capture, and what it objects to.

use std::io;
use std::path::{Path, PathBuf};

use crate::lab::{INSIDE, Lab};

/// The fields that a frame is judged by, after its protocols.
const JUDGED: &[&str] = &[
    "_ws.malformed",
    "ip.checksum.status",
    "udp.checksum.status",
    "tcp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
    "_ws.expert.severity",
];
/// From this severity on a remark is an objection: a warning (`PI_WARN`). Below it are "chat",
/// such as that a segment opens a connection, and notes.
const WARNING: u32 = 0x0060_0000;
/// Checksums that tshark leaves unverified unless it is told to.
const VERIFIED: &[&str] = &[
    "ip.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
    "tcp.check_checksum:TRUE",
];

/// Why a capture was not judged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TsharkError {
    /// It could not be started.
    #[error("tshark was not started in the lab: {0}")]
    Spawn(#[from] io::Error),
    /// It could not read the capture.
    #[error("tshark gave up on {}: {said}", capture.display())]
    Refused {
        /// The file.
        capture: PathBuf,
        /// Its own words.
        said: String,
    },
    /// The capture's path has no folder, or is not plain text.
    #[error("{} is no path for a capture", .0.display())]
    Path(PathBuf),
}

/// One frame as tshark sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its layers, as in `eth:ethertype:ip:udp:data`.
    pub protocols: String,
    /// Its length in bytes.
    pub bytes: usize,
    /// Malformed layers, bad checksums, and remarks of tshark's: none for a good frame.
    pub objections: Vec<String>,
}

/// Every frame of `capture`, a pcap or pcapng file.
///
/// # Errors
/// When tshark can't be started, or can't read the file to its end.
pub fn judge(lab: &Lab, capture: &Path) -> Result<Vec<Seen>, TsharkError> {
    let path = || TsharkError::Path(capture.to_owned());
    let folder = capture.parent().ok_or_else(path)?;
    let name = capture
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(path)?;
    let mut command = lab.command(folder, "tshark");
    command.args(["-n", "-r", &format!("{INSIDE}/{name}")]);
    command.args(VERIFIED.iter().flat_map(|set| ["-o", set]));
    command.args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]);
    let fields = ["frame.protocols", "frame.len"];
    command.args(fields.iter().chain(JUDGED).flat_map(|field| ["-e", field]));
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(TsharkError::Refused {
            capture: capture.to_owned(),
            said,
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(seen)
        .collect())
}

/// Reads one line of tshark's.
fn seen(line: &str) -> Seen {
    let mut fields = line.split('|');
    let protocols = fields.next().unwrap_or_default().to_owned();
    let bytes = fields
        .next()
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let objections = JUDGED.iter().zip(fields).filter(|(name, value)| {
        // A checksum's status: 0 is bad, 4 illegal; 1 good, 2 unverified, 3 not present.
        let mut values = value.split(',');
        if name.ends_with(".status") {
            values.any(|v| v == "0" || v == "4")
        } else if name.ends_with(".severity") {
            values.any(|v| v.parse().is_ok_and(|severity: u32| severity >= WARNING))
        } else {
            !value.is_empty()
        }
    });
    let objections = objections
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    Seen {
        protocols,
        bytes,
        objections,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_line_of_a_bad_frame_names_what_is_bad() {
        let good = seen("eth:ethertype:ip:tcp:data|60||1||1|||2097152");
        assert_eq!((good.bytes, good.objections.len()), (60, 0));
        let bad = seen("eth:ethertype:ip:udp|60|1|1,0|1||||2097152,8388608");
        let expected = [
            "_ws.malformed: 1",
            "ip.checksum.status: 1,0",
            "_ws.expert.severity: 2097152,8388608",
        ];
        assert_eq!(bad.objections, expected);
    }
}
