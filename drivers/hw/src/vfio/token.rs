//! The secret that the owner of a physical function shares with users of its VFs.

use std::fmt;
use std::str::FromStr;

/// A VF token: a UUID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token(pub(super) [u8; 16]);

/// A text that is no UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a VF token is a UUID such as 14d63f20-8445-11ea-8900-1f9ce7d5650d")]
pub struct NotToken;

impl FromStr for Token {
    type Err = NotToken;

    fn from_str(text: &str) -> Result<Self, NotToken> {
        let groups: Vec<&str> = text.split('-').collect();
        if !groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]) {
            return Err(NotToken);
        }
        let digits = groups.concat();
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            let value = high.zip(low).map(|(high, low)| high * 16 + low);
            *byte = value
                .and_then(|value| value.try_into().ok())
                .ok_or(NotToken)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            if matches!(n, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Token {
    /// It is a secret, and stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_token_is_read_and_shown_as_a_uuid() {
        let text = "14d63f20-8445-11ea-8900-1f9ce7d5650d";
        let token: Token = text.parse().unwrap();
        assert_eq!(token.0[..6], [0x14, 0xd6, 0x3f, 0x20, 0x84, 0x45]);
        assert_eq!(token.to_string(), text);
        assert_eq!(format!("{token:?}"), "Token(…)");
        for bad in [
            "",
            "14d63f20",
            "14d63f2-08445-11ea-8900-1f9ce7d5650d",
            "14d63f20-8445-11ea-8900-1f9ce7d5650é",
            "g4d63f20-8445-11ea-8900-1f9ce7d5650d",
        ] {
            assert_eq!(bad.parse::<Token>(), Err(NotToken), "{bad}");
        }
    }
}
