//! What goes through a virtual function's mailbox, put together from the accesses to its words.
//!
//! Numbers and lengths of messages: Linux, `ixgbe/ixgbe_mbx.h`, `ixgbe/ixgbe_sriov.c`.

use crate::differential::trace::Line;

/// Words of the mailbox.
const WORDS: usize = 16;
/// Bits of `VFMAILBOX`: a request is there, a message was read (82599 §8.3.5.1.10).
const REQ: u32 = 1 << 0;
const ACK: u32 = 1 << 1;

/// A message: its number, its name, the words of a request and of an answer that mean something.
type Kind = (u32, &'static str, usize, usize);

const KINDS: &[Kind] = &[
    (0x01, "reset", 1, 4),
    (0x02, "set the address", 3, 1),
    (0x03, "set groups", 2, 1),
    (0x04, "set a VLAN", 2, 1),
    (0x05, "set the longest frame", 2, 1),
    (0x06, "set a further address", 3, 1),
    (0x08, "negotiate", 2, 1),
    (0x09, "ask for queues", 1, 5),
    (0x0a, "ask for the table", 1, 1),
    (0x0b, "ask for the key", 1, 1),
    (0x0c, "set the mode", 2, 2),
    (0x0d, "add encryption", 1, 1),
    (0x0e, "remove encryption", 1, 1),
    (0x10, "ask for the link", 1, 2),
    (0x11, "ask for features", 2, 2),
    (0x100, "control", 0, 1),
];

const NAMES: [&str; WORDS] = [
    "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9", "w10", "w11", "w12", "w13", "w14",
    "w15",
];

/// The conversation so far.
#[derive(Default)]
pub(super) struct Messages {
    written: [u32; WORDS],
    read: [u32; WORDS],
    lines: Vec<Line>,
}

fn word(name: &str, index: Option<u32>) -> Option<usize> {
    let index = index.filter(|_| name == "VFMBMEM")?;
    usize::try_from(index).ok().filter(|index| *index < WORDS)
}

fn line(who: &str, words: &[u32; WORDS], len: fn(&Kind) -> usize) -> Line {
    let kind = KINDS.iter().find(|kind| kind.0 == words[0] & 0xffff);
    let (name, len) = kind.map_or(("something else", 1), |kind| (kind.1, len(kind).max(1)));
    let words = NAMES.iter().zip(words).take(len);
    Line::new(
        format!("{who}: {name}"),
        words.map(|(name, word)| (*name, format!("{word:#x}"))),
    )
}

impl Messages {
    /// A register was read or written.
    pub(super) fn hear(&mut self, name: &str, index: Option<u32>, value: u32, is_read: bool) {
        if let Some(index) = word(name, index) {
            let words = if is_read {
                &mut self.read
            } else {
                &mut self.written
            };
            words[index] = value;
        }
        if name != "VFMAILBOX" || is_read {
            return;
        }
        if value & REQ != 0 {
            self.tell(line("asks", &self.written, |kind| kind.2));
        }
        if value & ACK != 0 {
            self.tell(line("hears", &self.read, |kind| kind.3));
        }
    }

    /// What was said in this step already is not told again: Linux's driver says all of its filters
    /// whenever one changes, and reads answers twice.
    fn tell(&mut self, line: Line) {
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    pub(super) fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }
}
