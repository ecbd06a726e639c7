//! What a network device is used for: the reasons not to take it away from the kernel.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use super::{Bdf, Device, Pci, names, text};
use crate::holders::{Holder, holders_of};

/// One reason not to take a device away: what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Use {
    /// The machine's way to the rest of the world.
    DefaultRoute {
        /// The interface that the route names: the device's own, or one on top of it.
        interface: String,
        /// 4 or 6.
        version: u8,
    },
    /// An address that somebody gave it.
    Address {
        /// The interface that has it.
        interface: String,
        /// The address.
        address: IpAddr,
    },
    /// An established TCP connection over one of its addresses.
    Session {
        /// The interface that has the address.
        interface: String,
        /// This end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// Its virtual functions would vanish with its driver.
    VirtualFunctions {
        /// How many there are.
        count: usize,
    },
    /// A process drives it already.
    Held {
        /// The process.
        holder: Holder,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DefaultRoute { interface, version } => {
                write!(f, "{interface} carries the IPv{version} default route")
            }
            Self::Address { interface, address } => {
                write!(f, "{interface} has the address {address}")
            }
            Self::Session {
                interface,
                local,
                remote,
            } => write!(
                f,
                "{interface} carries an established connection, {local} to {remote}"
            ),
            Self::VirtualFunctions { count } => {
                write!(f, "{count} virtual functions of it would be destroyed")
            }
            Self::Held { holder } => write!(f, "{holder} drives it"),
        }
    }
}

impl Use {
    /// What frees the device of this use.
    #[must_use]
    pub fn remedy(&self, bdf: Bdf) -> String {
        match self {
            Self::DefaultRoute { interface, version } => {
                format!("if you can spare it: ip -{version} route del default dev {interface}")
            }
            Self::Address { interface, address } => {
                format!("if you can spare it: ip address flush to {address} dev {interface}")
            }
            Self::Session { interface, .. } => format!("end the connections over {interface}"),
            Self::VirtualFunctions { .. } => {
                format!("echo 0 > /sys/bus/pci/devices/{bdf}/sriov_numvfs")
            }
            Self::Held { holder } => format!("end process {}", holder.pid),
        }
    }
}

/// The addresses of this machine's interfaces.
///
/// # Errors
/// The kernel does not say.
pub fn interface_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let found = nix::ifaddrs::getifaddrs()?.filter_map(|entry| {
        let address = entry.address?;
        let ip = address
            .as_sockaddr_in()
            .map(|v4| IpAddr::V4(v4.ip()))
            .or_else(|| Some(IpAddr::V6(address.as_sockaddr_in6()?.ip())))?;
        Some((entry.interface_name, ip))
    });
    Ok(found.collect())
}

impl Pci {
    /// Every reason not to take `device` away from what uses it now; empty for a free one.
    ///
    /// Interfaces on top of the device's own count too: a bond, a bridge, a VLAN. An IPv6
    /// link-local address does not count, as every interface that is up gives itself one.
    ///
    /// # Errors
    /// What would tell cannot be read, so that nothing can be ruled out.
    pub fn uses(&self, device: &Device) -> io::Result<Vec<Use>> {
        let mut uses = self.network_uses(device)?;
        if !device.virtfns.is_empty() {
            uses.push(Use::VirtualFunctions {
                count: device.virtfns.len(),
            });
        }
        let own = std::process::id();
        let nodes = self.vfio_nodes(device);
        let holders = holders_of(&self.root, &nodes);
        let others = holders.into_iter().filter(|holder| holder.pid != own);
        uses.extend(others.map(|holder| Use::Held { holder }));
        Ok(uses)
    }

    fn network_uses(&self, device: &Device) -> io::Result<Vec<Use>> {
        let mut uses = Vec::new();
        let interfaces = self.with_uppers(&device.netdevs);
        if interfaces.is_empty() {
            return Ok(uses);
        }
        let proc_net =
            |file: &str| text(&self.root.join("proc/net").join(file)).unwrap_or_default();
        for interface in default_routes(&proc_net("route")) {
            if interfaces.contains(&interface) {
                uses.push(Use::DefaultRoute {
                    interface,
                    version: 4,
                });
            }
        }
        for interface in default_routes6(&proc_net("ipv6_route")) {
            if interfaces.contains(&interface) {
                uses.push(Use::DefaultRoute {
                    interface,
                    version: 6,
                });
            }
        }
        let addresses = match &self.addresses {
            Some(addresses) => addresses.clone(),
            None => interface_addresses()?,
        };
        let sessions: Vec<_> = ["tcp", "tcp6"]
            .iter()
            .flat_map(|file| established(&proc_net(file)))
            .collect();
        for (interface, address) in addresses {
            if !interfaces.contains(&interface) || is_link_local(address) {
                continue;
            }
            let over = sessions.iter().find(|(local, _)| local.ip() == address);
            uses.push(Use::Address {
                interface: interface.clone(),
                address,
            });
            if let Some(&(local, remote)) = over {
                uses.push(Use::Session {
                    interface,
                    local,
                    remote,
                });
            }
        }
        uses.dedup();
        Ok(uses)
    }

    /// The files that a process which drives the device through VFIO has open.
    pub(crate) fn vfio_nodes(&self, device: &Device) -> Vec<PathBuf> {
        let dev = self.root.join("dev/vfio");
        let group = device.iommu_group.map(|group| {
            let prefix = if device.no_iommu { "noiommu-" } else { "" };
            dev.join(format!("{prefix}{group}"))
        });
        let node = device
            .vfio_device
            .as_ref()
            .map(|name| dev.join("devices").join(name));
        group.into_iter().chain(node).collect()
    }

    /// The interfaces and all that lie on top of them: links `upper_NAME`.
    fn with_uppers(&self, interfaces: &[String]) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut open = interfaces.to_vec();
        while let Some(interface) = open.pop() {
            let dir = self.root.join("sys/class/net").join(&interface);
            if found.insert(interface) {
                open.extend(
                    names(&dir).filter_map(|name| Some(name.strip_prefix("upper_")?.to_owned())),
                );
            }
        }
        found
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Interfaces of `/proc/net/route` whose destination and mask are zero: columns Iface,
/// Destination, …, Mask (the eighth).
fn default_routes(table: &str) -> BTreeSet<String> {
    let rows = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&"00000000") && row.get(7) == Some(&"00000000"))
        .map(|row| row[0].to_owned())
        .collect()
}

/// Interfaces of `/proc/net/ipv6_route` with a destination of length 0: columns destination,
/// prefix length, …, interface (the last). The kernel's own reject routes name `lo`.
fn default_routes6(table: &str) -> BTreeSet<String> {
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.get(1) == Some(&"00"))
        .filter_map(|row| row.last().map(|&name| name.to_owned()))
        .filter(|name| name != "lo")
        .collect()
}

/// Both ends of the connections of `/proc/net/tcp` or `tcp6` in state 01, established.
fn established(table: &str) -> Vec<(SocketAddr, SocketAddr)> {
    table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|row| row.get(3) == Some(&"01"))
        .filter_map(|row| Some((end(row[1])?, end(row[2])?)))
        .collect()
}

/// `0100007F:0016`: an address in 32-bit words of the host's order, and a port. An IPv4 address
/// that a v6 socket uses is given as IPv4.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match *bytes.as_slice() {
        [a, b, c, d] => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn both_ends_of_a_connection_are_read() {
        let line = "  sl  local_address rem_address   st\n   0: 0500000A:0016 0700000A:C350 01 x\n   1: 0500000A:0017 00000000:0000 0A x\n";
        let found = established(line);
        assert_eq!(found.len(), 1, "a listener is no session");
        assert_eq!(found[0].0, "10.0.0.5:22".parse().unwrap());
        assert_eq!(found[0].1, "10.0.0.7:50000".parse().unwrap());
        assert_eq!(
            end("0000000000000000FFFF00000500000A:0016"),
            Some("10.0.0.5:22".parse().unwrap()),
            "IPv4 over a v6 socket"
        );
        assert_eq!(
            end("B80D0120000000000000000001000000:01BB"),
            Some("[2001:db8::1]:443".parse().unwrap())
        );
        for bad in [
            "",
            ":",
            "zz:1",
            "0500000A",
            "0500000A:",
            "05:1",
            "00000000é:1",
        ] {
            assert_eq!(end(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_a_route_to_everywhere_is_a_default_route() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                     eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n\
                     eth1\t00000000\t0100000A\t0003\t0\t0\t0\t00000080\n\
                     eth2\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n\n";
        assert_eq!(
            default_routes(table).into_iter().collect::<Vec<_>>(),
            ["eth0"]
        );
        let zero = "00000000000000000000000000000000";
        let table6 = format!(
            "{zero} 00 {zero} 00 fe80 00000400 1 0 00000003 eth1\n\
             {zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n\
             fe80 40 {zero} 00 {zero} 00000100 1 0 00000001 eth2\n"
        );
        assert_eq!(
            default_routes6(&table6).into_iter().collect::<Vec<_>>(),
            ["eth1"]
        );
    }
}
