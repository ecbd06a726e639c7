//! Port strings: `kind:place,key=value,…`.

use hw::pci::Bdf;

use crate::OpenError;

/// A port string, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    /// The whole string, as it was given.
    pub(crate) text: String,
    /// What kind of port it names, and which.
    pub(crate) place: Place,
    /// `key=value` pairs, in order. A key without a value has `on`.
    pub(crate) options: Vec<(String, String)>,
}

/// Where a port is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// `null:`
    Null,
    /// `sim:virtio` or `sim:virtio/1`: a driver, and which end of the wire.
    Sim {
        /// Name of the driver.
        driver: String,
        /// 0 or 1, if it was said.
        end: Option<usize>,
    },
    /// `vhost-user:/run/a.sock`
    VhostUser {
        /// Path of the socket.
        path: String,
    },
    /// `af_packet:eth0`
    AfPacket {
        /// Name of the interface.
        interface: String,
    },
    /// `0000:3b:00.0`
    Pci {
        /// Where it is on the bus.
        bdf: Bdf,
    },
}

/// Kinds of port strings, for messages.
pub(crate) const FORMS: &str =
    "sim:virtio, vhost-user:/path/to/socket, af_packet:eth0, null:, 0000:3b:00.0";

impl Spec {
    /// Takes `text` apart.
    ///
    /// # Errors
    /// It is no port string; the error says what would be one.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let unknown = || OpenError::NotAPort {
            text: text.to_owned(),
        };
        let mut parts = text.split(',');
        let head = parts
            .next()
            .filter(|head| !head.is_empty())
            .ok_or_else(unknown)?;
        let place = match head.split_once(':') {
            Some(("null", "")) => Place::Null,
            Some(("sim", rest)) => sim(text, rest)?,
            Some(("vhost-user" | "vhost", path)) if !path.is_empty() => Place::VhostUser {
                path: path.to_owned(),
            },
            Some(("af_packet", interface)) if !interface.is_empty() => Place::AfPacket {
                interface: interface.to_owned(),
            },
            Some(("af_xdp" | "tap", _)) => {
                return Err(OpenError::NotYet {
                    text: text.to_owned(),
                });
            }
            _ => Place::Pci {
                bdf: head.parse().map_err(|_| unknown())?,
            },
        };
        let options = parts
            .map(|part| option(text, part))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            text: text.to_owned(),
            place,
            options,
        })
    }
}

fn sim(text: &str, rest: &str) -> Result<Place, OpenError> {
    let (driver, end) = match rest.split_once('/') {
        None => (rest, None),
        Some((driver, "0")) => (driver, Some(0)),
        Some((driver, "1")) => (driver, Some(1)),
        Some(_) => {
            return Err(OpenError::NoSuchEnd {
                text: text.to_owned(),
            });
        }
    };
    Ok(Place::Sim {
        driver: driver.to_owned(),
        end,
    })
}

fn option(text: &str, part: &str) -> Result<(String, String), OpenError> {
    let (key, value) = part.split_once('=').unwrap_or((part, "on"));
    if key.is_empty() || value.is_empty() {
        return Err(OpenError::EmptyOption {
            text: text.to_owned(),
        });
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod test {
    use super::*;

    fn place(text: &str) -> Place {
        Spec::parse(text).unwrap().place
    }

    #[test]
    fn every_form_is_told_apart() {
        assert_eq!(place("null:"), Place::Null);
        assert_eq!(
            place("sim:virtio"),
            Place::Sim {
                driver: "virtio".into(),
                end: None
            }
        );
        assert_eq!(
            place("sim:virtio/1"),
            Place::Sim {
                driver: "virtio".into(),
                end: Some(1)
            }
        );
        assert_eq!(
            place("vhost-user:/a:b.sock"),
            Place::VhostUser {
                path: "/a:b.sock".into()
            }
        );
        let full = Place::Pci {
            bdf: "0000:3b:00.0".parse().unwrap(),
        };
        assert_eq!(
            (place("3B:00.0"), place("0000:3b:00.0")),
            (full.clone(), full)
        );
    }

    #[test]
    fn options_keep_their_order_and_default_to_on() {
        let spec = Spec::parse("vhost-user:/s,queues=2,packed").unwrap();
        let pairs = [("queues", "2"), ("packed", "on")];
        assert_eq!(
            spec.options,
            pairs.map(|(key, value)| (key.into(), value.into()))
        );
    }

    #[test]
    fn what_is_no_port_is_refused() {
        for text in [
            "",
            "sim",
            "null:x",
            "vhost-user:",
            "3b:00.8",
            "3b:20.0",
            "eth0",
            ",",
            "::.",
        ] {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
        for text in [
            "sim:virtio/2",
            "null:,",
            "null:,=3",
            "null:,a=",
            "af_packet:",
            "af_xdp:eth0",
            "tap:t0",
        ] {
            assert!(Spec::parse(text).is_err(), "{text}");
        }
    }
}
