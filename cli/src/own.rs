//! `--ip`: the addresses that ports have of their own, and the gateways that they send through.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use engine::resolution::{Addresses, ResolveError, Whom, resolve};
use hugemem::Pages;
use port::{Mac, Port};

use crate::error::Error;
use crate::session::not_started;

/// What `--ip` says of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// Its addresses.
    pub(crate) addresses: Addresses,
    /// Whose station its frames go to.
    pub(crate) gateway: Option<IpAddr>,
}

impl Own {
    /// Reads `16.0.0.2,16.0.1.1..16.0.1.9@16.0.0.1`; `-` for a port without.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if text == "-" {
            return Ok(Self::default());
        }
        let (list, gateway) = match text.split_once('@') {
            Some((list, gateway)) => (list, Some(address(text, gateway)?)),
            None => (text, None),
        };
        let ranges = list
            .split(',')
            .map(|item| range(text, item))
            .collect::<Result<Vec<_>, _>>()?;
        let of_kind = |ip: IpAddr| {
            ranges
                .iter()
                .any(|range| range.start().is_ipv4() == ip.is_ipv4())
        };
        if let Some(gateway) = gateway.filter(|gateway| !of_kind(*gateway)) {
            return Err(wrong(
                text,
                &format!("no address of {gateway}'s kind to ask for it with"),
            ));
        }
        Ok(Self {
            addresses: Addresses::new(ranges),
            gateway,
        })
    }
}

fn wrong(text: &str, what: &str) -> Error {
    Error::Usage {
        found: format!("--ip {text}: {what}"),
        cure: "write --ip 16.0.0.2@16.0.0.1, or --ip 16.0.0.2..16.0.0.9,fd00::2; - for a port \
               without"
            .to_owned(),
    }
}

fn address(text: &str, word: &str) -> Result<IpAddr, Error> {
    let parsed = word.trim().parse::<IpAddr>();
    let unicast = |ip: &IpAddr| !ip.is_multicast() && !ip.is_unspecified();
    parsed
        .ok()
        .filter(unicast)
        .ok_or_else(|| wrong(text, &format!("{word:?} is no address of a host")))
}

fn range(text: &str, item: &str) -> Result<RangeInclusive<IpAddr>, Error> {
    let Some((first, last)) = item.split_once("..") else {
        let only = address(text, item)?;
        return Ok(only..=only);
    };
    let (first, last) = (address(text, first)?, address(text, last)?);
    if first.is_ipv4() != last.is_ipv4() || first > last {
        return Err(wrong(
            text,
            &format!("{item:?} is no range: FIRST..LAST is"),
        ));
    }
    Ok(first..=last)
}

/// The station of each port's gateway. One that another of `ports` answers for is that port;
/// others are asked for, with the port started for it.
pub(crate) fn gateways(
    own: &[Own],
    ports: &mut [Box<dyn Port>],
    pages: Pages,
) -> Result<Vec<Option<Mac>>, Error> {
    let macs: Vec<Mac> = ports.iter().map(|port| port.info().mac).collect();
    let ask = |(n, port): (usize, &mut Box<dyn Port>)| -> Result<Option<Mac>, Error> {
        let Some((mine, gateway)) = own.get(n).and_then(|own| Some((own, own.gateway?))) else {
            return Ok(None);
        };
        let ours = own.iter().position(|own| own.addresses.contains(gateway));
        if let Some(mac) = ours.and_then(|place| macs.get(place)) {
            return Ok(Some(*mac));
        }
        let whom = Whom {
            own: &mine.addresses,
            gateway,
        };
        let mac = resolve(port.as_mut(), &whom, pages).map_err(unresolved)?;
        tracing::info!("{}: {gateway} is at {mac:02x?}", port.info().name);
        Ok(Some(mac))
    };
    ports.iter_mut().enumerate().map(ask).collect()
}

fn unresolved(error: ResolveError) -> Error {
    let cure = error.remedy();
    match error {
        ResolveError::Start(error) => not_started(&error.into()),
        ResolveError::Port(error) => not_started(&error.into()),
        ResolveError::Memory(error) => not_started(&error.into()),
        ResolveError::Pool(error) => not_started(&error.into()),
        error => Error::NotReady {
            code: "unresolved",
            found: error.to_string(),
            cure,
        },
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn lists_ranges_and_a_gateway_are_read() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let own = Own::parse("16.0.0.2, 16.0.1.1..16.0.1.9,fd00::2@16.0.0.1").unwrap();
        assert_eq!(own.gateway, Some(ip("16.0.0.1")));
        for (address, inside) in [
            ("16.0.0.2", true),
            ("16.0.1.9", true),
            ("16.0.1.10", false),
            ("fd00::2", true),
            ("16.0.0.1", false),
        ] {
            assert_eq!(own.addresses.contains(ip(address)), inside, "{address}");
        }
        assert_eq!(Own::parse("-").unwrap(), Own::default());
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for text in [
            "",
            "16.0.0",
            "16.0.0.2@",
            "@16.0.0.1",
            "16.0.0.2/8",
            "16.0.0.9..16.0.0.2",
            "16.0.0.2..fd00::1",
            "224.0.0.1",
            "0.0.0.0",
            "ff02::1",
            "16.0.0.2@fd00::1",
            "16.0.0.2,,16.0.0.3",
        ] {
            let refusal = Own::parse(text).unwrap_err();
            assert!(matches!(refusal, Error::Usage { .. }), "{text}");
        }
    }
}
