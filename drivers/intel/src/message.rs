//! Messages from a virtual function to its physical function, as words of the mailbox (82576
//! §7.8.2.9; 82599 datasheet §7.10.2). What can be asked is each family's own.

use std::hash::{BuildHasher, Hasher, RandomState};

use port::Mac;

/// Words of a mailbox.
pub const WORDS: usize = 16;

/// What a VF begins with: the PF forgets what it knew of it, and answers with its address. The low
/// 16 bits of a message's first word, as of every request, in all families (Linux,
/// `igb/e1000_mbx.h`, `ixgbe/ixgbe_mbx.h`).
pub const RESET: u32 = 1;

/// What a mailbox holds.
pub type Message = [u32; WORDS];

/// A message that begins with `word`.
#[must_use]
pub fn message(word: u32) -> Message {
    let mut message = [0; WORDS];
    message[0] = word;
    message
}

/// A message about an address.
#[must_use]
pub fn about(word: u32, mac: &Mac) -> Message {
    let [a, b, c, d, e, f] = *mac;
    let mut message = message(word);
    message[1] = u32::from_le_bytes([a, b, c, d]);
    message[2] = u32::from_le_bytes([e, f, 0, 0]);
    message
}

/// A locally administered address, for a virtual function that is given none.
#[must_use]
pub fn random_address() -> Mac {
    let word = RandomState::new().build_hasher().finish().to_le_bytes();
    [0x02, word[0], word[1], word[2], word[3], word[4]]
}

/// An address as people write it.
#[must_use]
pub fn text(mac: &Mac) -> String {
    let [a, b, c, d, e, f] = mac;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}
