//! Values of fields, as people write them.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::template::{FieldAt, FieldKind};

/// Why a text is not a field's value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// Not of the kind that the field holds.
    #[error("{text:?} is not {kind}")]
    Kind {
        /// The text.
        text: String,
        /// What it should be.
        kind: &'static str,
    },
    /// Larger than the field.
    #[error("{text} is too large: the field has {bits} bits, at most {max}")]
    TooLarge {
        /// The text.
        text: String,
        /// The field's width.
        bits: usize,
        /// The largest value.
        max: u128,
    },
}

/// Reads a value of `kind` for a field of `bits` bits. Numbers may be decimal, `0x…` or `0b…`,
/// with `_` between digits; addresses may be numbers too.
pub(crate) fn parse(text: &str, kind: FieldKind, bits: usize) -> Result<u128, ValueError> {
    let text = text.trim();
    let found = match kind {
        FieldKind::Number => None,
        FieldKind::Mac => mac(text),
        FieldKind::Ipv4 => text.parse::<Ipv4Addr>().ok().map(|ip| u32::from(ip).into()),
        FieldKind::Ipv6 => text.parse::<Ipv6Addr>().ok().map(u128::from),
    };
    let value = found
        .or_else(|| number(text))
        .ok_or_else(|| ValueError::Kind {
            text: text.into(),
            kind: kind.describe(),
        })?;
    let max = u128::MAX >> (128 - bits);
    if value > max {
        return Err(ValueError::TooLarge {
            text: text.into(),
            bits,
            max,
        });
    }
    Ok(value)
}

/// Writes a value of `kind` as people do.
#[must_use]
pub fn show(value: u128, kind: FieldKind) -> String {
    match kind {
        FieldKind::Number => value.to_string(),
        FieldKind::Ipv6 => Ipv6Addr::from(value).to_string(),
        FieldKind::Ipv4 => u32::try_from(value)
            .map_or_else(|_| value.to_string(), |ip| Ipv4Addr::from(ip).to_string()),
        FieldKind::Mac => {
            let octets: Vec<_> = value.to_be_bytes()[10..]
                .iter()
                .map(|octet| format!("{octet:02x}"))
                .collect();
            octets.join(":")
        }
    }
}

impl FieldAt {
    /// Reads a value for this field: a number (decimal, `0x…`, `0b…`), or an address where it
    /// holds one.
    ///
    /// # Errors
    /// The text is no such value, or the field cannot hold it.
    pub fn parse(&self, text: &str) -> Result<u128, ValueError> {
        parse(text, self.kind, self.bits)
    }
}

impl FieldKind {
    /// What a value of this kind is called.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Mac => "a MAC address",
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
        }
    }
}

fn number(text: &str) -> Option<u128> {
    let (radix, digits) = match text.get(..2) {
        Some("0x" | "0X") => (16, &text[2..]),
        Some("0b" | "0B") => (2, &text[2..]),
        _ => (10, text),
    };
    // A sign is no digit, though the standard library takes one.
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    u128::from_str_radix(&digits.replace('_', ""), radix).ok()
}

fn mac(text: &str) -> Option<u128> {
    let octets: Vec<_> = text.split([':', '-']).collect();
    let short = |octet: &&str| matches!(octet.len(), 1 | 2);
    if octets.len() != 6 || !octets.iter().all(short) {
        return None;
    }
    octets.iter().try_fold(0, |value, octet| {
        let octet = u8::from_str_radix(octet, 16).ok()?;
        Some(value << 8 | u128::from(octet))
    })
}

/// TCP flags by letter: F S R P A U E C, as in `SA`.
pub(super) fn tcp_flags(text: &str) -> Option<u128> {
    let flag = |letter: char| "FSRPAUEC".find(letter.to_ascii_uppercase());
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    if text.is_empty() || digits {
        return None;
    }
    text.chars()
        .try_fold(0, |flags, letter| Some(flags | 1 << flag(letter)?))
}

/// The bytes of a raw header's `hex` or `text`; none if it is called something else.
pub(super) fn raw(field: &str, text: &str) -> Option<Result<Vec<u8>, ValueError>> {
    match field.to_ascii_lowercase().as_str() {
        "text" => Some(Ok(text.as_bytes().to_vec())),
        "hex" => Some(hex(text)),
        _ => None,
    }
}

fn hex(text: &str) -> Result<Vec<u8>, ValueError> {
    let bad = || ValueError::Kind {
        text: text.into(),
        kind: "an even number of hex digits",
    };
    let kept = |c: &char| !c.is_whitespace() && *c != ':';
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(kept)
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.ok_or_else(bad)?;
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(bad());
    }
    Ok(pairs.map(|pair| pair[0] << 4 | pair[1]).collect())
}
