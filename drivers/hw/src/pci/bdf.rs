//! A device's address: domain, bus, device, function.

use std::fmt;
use std::str::FromStr;

/// Where a function is: `0000:3b:00.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    /// Domain; above 16 bits behind some host bridges.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device on the bus, 0 to 31.
    pub device: u8,
    /// Function of the device, 0 to 7.
    pub function: u8,
}

/// A text that is no PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a PCI address such as 0000:3b:00.0")]
pub struct NotBdf {
    /// The text.
    pub text: String,
}

impl FromStr for Bdf {
    type Err = NotBdf;

    /// Reads `0000:3b:00.0`, or `3b:00.0` in domain 0.
    fn from_str(text: &str) -> Result<Self, NotBdf> {
        parse(text).ok_or_else(|| NotBdf { text: text.into() })
    }
}

fn parse(text: &str) -> Option<Bdf> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    Some(Bdf {
        domain: hex(domain, 8)?,
        bus: hex(bus, 2)?.try_into().ok()?,
        device: hex(device, 2)?.try_into().ok().filter(|&n| n < 32)?,
        function: hex(function, 1)?.try_into().ok().filter(|&n| n < 8)?,
    })
}

/// Up to `digits` hexadecimal digits and nothing else (`from_str_radix` takes a sign).
fn hex(text: &str, digits: usize) -> Option<u32> {
    let plain = text.len() <= digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain, self.bus, self.device, self.function
        )
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(domain: u32, bus: u8, device in 0u8..32, function in 0u8..8) {
            let bdf = Bdf { domain, bus, device, function };
            prop_assert_eq!(bdf.to_string().parse(), Ok(bdf));
        }

        #[test]
        fn any_text_is_read_or_refused_without_panic(text in "\\PC{0,20}") {
            let _ = text.parse::<Bdf>();
        }
    }

    #[test]
    fn addresses_are_read_with_and_without_domain() {
        let expected = Bdf {
            domain: 0,
            bus: 0x3b,
            device: 0x1f,
            function: 7,
        };
        assert_eq!("0000:3b:1f.7".parse(), Ok(expected));
        assert_eq!("3B:1f.7".parse(), Ok(expected));
        assert_eq!(expected.to_string(), "0000:3b:1f.7");
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in [
            "",
            "3b",
            "3b:00",
            "3b:20.0",
            "3b:00.8",
            "+b:00.0",
            "0000:3b:00.0 ",
            "3b:00.00",
        ] {
            let error = text.parse::<Bdf>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }
}
