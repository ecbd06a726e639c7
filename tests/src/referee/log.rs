//! What the kernel says: `/dev/kmsg`, a record a read, with its level and time (Linux,
//! `Documentation/ABI/testing/dev-kmsg`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// `KERN_WARNING`: this level, and those below, are worse than a notice.
const WARNING: u32 = 4;

/// Sentences of the kernel that blame no device: a part of each.
const HARMLESS: &[&str] = &[
    // The clock of an emulated machine on a busy host.
    "clocksource:",
    "hrtimer: interrupt took",
    "rcu: INFO",
    "perf: interrupt took too long",
    "sched: DL replenish",
];

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) level: u32,
    pub(super) text: String,
}

/// The log from a moment on.
pub(super) struct Log {
    file: File,
    records: Vec<Record>,
}

impl Log {
    /// From now on.
    pub(super) fn from_now() -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open("/dev/kmsg")?;
        let mut log = Self {
            file,
            records: Vec::new(),
        };
        log.read()?;
        log.records.clear();
        Ok(log)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut record = [0; 8192];
        loop {
            match self.file.read(&mut record) {
                Ok(len) => {
                    let text = String::from_utf8_lossy(&record[..len]);
                    self.records.extend(parse(&text));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Some were overwritten before they were read.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What was said so far that is worse than a notice.
    pub(super) fn warnings(&mut self) -> io::Result<Vec<String>> {
        self.read()?;
        let bad = |record: &&Record| is_bad(record);
        let text = |record: &Record| record.text.clone();
        Ok(self.records.iter().filter(bad).map(text).collect())
    }
}

fn is_bad(record: &Record) -> bool {
    // A hang of the transmitter is only an error's text in some drivers.
    let named = record.text.contains("Hang") || record.text.contains("timed out");
    let harmless = HARMLESS.iter().any(|part| record.text.contains(part));
    (record.level <= WARNING || named) && !harmless
}

/// `6,339,5140900,-;text`, and lines with keys below.
fn parse(record: &str) -> Option<Record> {
    let (head, text) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    Some(Record {
        level: priority & 7,
        text: text.lines().next()?.to_owned(),
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_record_has_a_level_and_a_text_and_warnings_are_found() {
        let record = |text: &str| parse(text).unwrap();
        let notice = record("5,1,100,-;all is well\n SUBSYSTEM=pci\n");
        assert_eq!((notice.level, notice.text.as_str()), (5, "all is well"));
        assert!(!is_bad(&notice));
        // Priorities hold a facility above the level.
        assert!(is_bad(&record("12,2,100,-;e1000e: something odd")));
        assert!(is_bad(&record("6,2,100,-;eth0: Detected Tx Unit Hang")));
        assert!(!is_bad(&record("4,2,100,-;clocksource: tsc unstable")));
        assert_eq!(parse("nonsense"), None);
    }
}
