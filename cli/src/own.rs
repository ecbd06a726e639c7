//! `--ip`: the addresses that ports have of their own, and the gateways that they send through.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use engine::resolution::{Addresses, ResolveError, Vlans, Whom, resolve};
use hugemem::Pages;
use port::{Mac, Port};

use crate::error::Error;
use crate::session::not_started;

/// What `--ip` says of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// Its addresses.
    pub(crate) addresses: Addresses,
    /// Whose station its frames go to, by the VLANs that they are in.
    pub(crate) gateways: Vec<(Vlans, IpAddr)>,
}

/// The stations of a port's gateways, by the VLANs that they are in.
pub(crate) type Stations = Vec<(Vlans, Mac)>;

impl Own {
    /// Reads `16.0.0.2,16.0.1.1..16.0.1.9@16.0.0.1+vlan7=17.0.0.2@17.0.0.1`; `-` for a port without.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let mut own = Self::default();
        if text != "-" {
            for group in text.split('+') {
                own.add(text, group)?;
            }
        }
        Ok(own)
    }

    /// It asks for `gateway` in `vlans`.
    fn whom(&self, vlans: Vlans, gateway: IpAddr) -> Whom<'_> {
        Whom {
            own: &self.addresses,
            gateway,
            vlans,
        }
    }

    /// Adds those of one group of VLANs.
    fn add(&mut self, text: &str, group: &str) -> Result<(), Error> {
        let (vlans, group) = match group.trim().strip_prefix("vlan") {
            Some(rest) => {
                let (ids, group) = rest
                    .split_once('=')
                    .ok_or_else(|| wrong(text, "a VLAN has addresses: vlan100=16.0.0.2"))?;
                (vlans(text, ids)?, group)
            }
            None => (Vlans::NONE, group),
        };
        let (list, gateway) = match group.split_once('@') {
            Some((list, gateway)) => (list, Some(address(text, gateway)?)),
            None => (group, None),
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
        if let Some(gateway) = gateway {
            if self.gateways.iter().any(|(known, _)| *known == vlans) {
                return Err(wrong(text, &format!("two gateways for {vlans}")));
            }
            self.gateways.push((vlans, gateway));
        }
        self.addresses.add(vlans, ranges);
        Ok(())
    }
}

fn vlans(text: &str, ids: &str) -> Result<Vlans, Error> {
    let ids: Result<Vec<u16>, _> = ids.split('.').map(str::parse).collect();
    let vlans = ids.ok().and_then(|ids| Vlans::new(&ids));
    vlans.ok_or_else(|| {
        wrong(
            text,
            "a VLAN is 1 to 4094, or two: vlan100.7=16.0.0.2 is VLAN 7 in 100",
        )
    })
}

fn wrong(text: &str, what: &str) -> Error {
    Error::Usage {
        found: format!("--ip {text}: {what}"),
        cure: "write --ip 16.0.0.2@16.0.0.1, or --ip 16.0.0.2..16.0.0.9,fd00::2; with VLANs \
               --ip vlan7=16.0.0.2@16.0.0.1+vlan8=17.0.0.2@17.0.0.1; - for a port without"
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

/// The one of frames in `vlans`.
pub(crate) fn station(stations: &Stations, vlans: Vlans) -> Option<Mac> {
    let mut of = stations.iter().filter(|(own, _)| *own == vlans);
    of.next().map(|(_, mac)| *mac)
}

/// The stations of each port's gateways. One that another of `ports` answers for is that port;
/// others are asked for, with the port started for it.
pub(crate) fn gateways(
    own: &[Own],
    ports: &mut [Box<dyn Port>],
    pages: Pages,
) -> Result<Vec<Stations>, Error> {
    let macs: Vec<Mac> = ports.iter().map(|port| port.info().mac).collect();
    let mut all = Vec::new();
    for (n, port) in ports.iter_mut().enumerate() {
        let mut stations = Stations::new();
        let mine = own.get(n);
        for &(vlans, gateway) in mine.map_or(&[][..], |own| &own.gateways) {
            let has_it = |own: &Own| own.addresses.contains(vlans, gateway);
            let ours = own.iter().position(has_it);
            let mac = match ours.and_then(|place| macs.get(place)) {
                Some(mac) => *mac,
                None => ask(port.as_mut(), own[n].whom(vlans, gateway), pages)?,
            };
            stations.push((vlans, mac));
        }
        all.push(stations);
    }
    Ok(all)
}

fn ask(port: &mut dyn Port, whom: Whom<'_>, pages: Pages) -> Result<Mac, Error> {
    let mac = resolve(port, &whom, pages).map_err(unresolved)?;
    let (name, Whom { gateway, vlans, .. }) = (&port.info().name, whom);
    tracing::info!("{name}: {gateway} ({vlans}) is at {mac:02x?}");
    Ok(mac)
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
        assert_eq!(own.gateways, [(Vlans::NONE, ip("16.0.0.1"))]);
        for (address, inside) in [
            ("16.0.0.2", true),
            ("16.0.1.9", true),
            ("16.0.1.10", false),
            ("fd00::2", true),
            ("16.0.0.1", false),
        ] {
            let is_own = own.addresses.contains(Vlans::NONE, ip(address));
            assert_eq!(is_own, inside, "{address}");
        }
        assert_eq!(Own::parse("-").unwrap(), Own::default());
    }

    #[test]
    fn groups_of_vlans_have_addresses_and_gateways_of_their_own() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let text = "16.0.0.2+vlan7=17.0.0.2@17.0.0.1+vlan100.7=17.0.0.2,fd00::2@fd00::1";
        let own = Own::parse(text).unwrap();
        let vlans = |ids: &[u16]| Vlans::new(ids).unwrap();
        let gateways = [
            (vlans(&[7]), ip("17.0.0.1")),
            (vlans(&[100, 7]), ip("fd00::1")),
        ];
        assert_eq!(own.gateways, gateways);
        for (ids, address, inside) in [
            (&[][..], "16.0.0.2", true),
            (&[], "17.0.0.2", false),
            (&[7], "17.0.0.2", true),
            (&[7], "fd00::2", false),
            (&[100, 7], "fd00::2", true),
        ] {
            let is_own = own.addresses.contains(vlans(ids), ip(address));
            assert_eq!(is_own, inside, "{address} in {ids:?}");
        }
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
            "vlan7",
            "vlan0=16.0.0.2",
            "vlan4095=16.0.0.2",
            "vlan1.2.3=16.0.0.2",
            "vlan=16.0.0.2",
            "vlan7=16.0.0.2+",
            "vlan7=",
            "vlan7=16.0.0.2@16.0.0.1+vlan7=16.0.1.2@16.0.1.1",
        ] {
            let refusal = Own::parse(text).unwrap_err();
            assert!(matches!(refusal, Error::Usage { .. }), "{text}");
        }
    }
}
