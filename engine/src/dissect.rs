//! Frames in words, a line a header, as the protocol library (etherparse) reads them: what rgen
//! built is looked at with other eyes.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use etherparse::{
    IpNumber, Ipv4HeaderSlice, Ipv6HeaderSlice, LaxLinkExtSlice, LaxNetSlice, LaxSlicedPacket,
    LinkSlice, TcpSlice, TransportSlice, UdpSlice,
};

use crate::frame::{FieldKind, show};

/// A frame in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dissection {
    /// A line a header, first to last.
    pub lines: Vec<String>,
    /// What is wrong with it: checksums, lengths, headers that are cut off.
    pub wrong: Vec<String>,
}

/// Reads a frame (without FCS).
#[must_use]
pub fn dissect(bytes: &[u8]) -> Dissection {
    let mut read = Dissection::default();
    read.ethernet(bytes, 0);
    read
}

/// MPLS as an EtherType (RFC 3032 §5).
const MPLS: u16 = 0x8847;
/// Ethernet in GRE (RFC 7637 §3.2).
const BRIDGED: u16 = 0x6558;
/// Tunnels in tunnels that are looked into.
const DEEPEST: usize = 4;

/// Addresses of an IP header, for the checksum of what it carries.
#[derive(Clone, Copy)]
enum Ends {
    Four([u8; 4], [u8; 4]),
    Six([u8; 16], [u8; 16]),
}

impl Dissection {
    fn line(&mut self, text: impl Into<String>) {
        self.lines.push(text.into());
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.wrong.push(what.into());
    }

    fn payload(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let mut text = format!("payload {} bytes:", bytes.len());
            for byte in bytes.iter().take(16) {
                write!(text, " {byte:02x}").expect("a string takes any text");
            }
            let more = if bytes.len() > 16 { " …" } else { "" };
            self.line(text + more);
        }
    }

    fn ethernet(&mut self, bytes: &[u8], depth: usize) {
        match LaxSlicedPacket::from_ethernet(bytes) {
            Ok(packet) => self.packet(&packet, bytes, depth),
            Err(error) => self.wrong(error.to_string()),
        }
    }

    fn ether_type(&mut self, ether_type: u16, bytes: &[u8], depth: usize) {
        match ether_type {
            _ if depth == DEEPEST => self.payload(bytes),
            MPLS => self.mpls(bytes, depth),
            BRIDGED => self.ethernet(bytes, depth + 1),
            _ => {
                let packet = LaxSlicedPacket::from_ether_type(ether_type.into(), bytes);
                self.packet(&packet, bytes, depth);
            }
        }
    }

    fn packet(&mut self, packet: &LaxSlicedPacket<'_>, bytes: &[u8], depth: usize) {
        if let Some(LinkSlice::Ethernet2(eth)) = &packet.link {
            let (src, dst) = (mac(eth.source()), mac(eth.destination()));
            self.line(format!(
                "eth {src} → {dst} type {:#06x}",
                eth.ether_type().0
            ));
        }
        for tag in &packet.link_exts {
            if let LaxLinkExtSlice::Vlan(tag) = tag {
                let (id, pcp) = (tag.vlan_identifier(), tag.priority_code_point());
                let ether_type = tag.ether_type().0;
                self.line(format!(
                    "vlan id {} pcp {} type {ether_type:#06x}",
                    id.value(),
                    pcp.value()
                ));
            }
        }
        if let Some((error, layer)) = &packet.stop_err {
            self.wrong(format!("{layer}: {error}"));
        }
        match (&packet.net, packet.ether_payload()) {
            (Some(net), _) => self.net(net, packet.transport.as_ref(), depth),
            (None, Some(inner)) if inner.ether_type.0 == MPLS => self.mpls(inner.payload, depth),
            (None, Some(inner)) => self.payload(inner.payload),
            (None, None) => self.payload(bytes),
        }
    }

    fn mpls(&mut self, bytes: &[u8], depth: usize) {
        let Some((entry, rest)) = bytes.split_first_chunk::<4>() else {
            return self.wrong("an MPLS entry is cut off");
        };
        let word = u32::from_be_bytes(*entry);
        let (label, tc, bottom, ttl) = (word >> 12, word >> 9 & 7, word >> 8 & 1, word & 0xff);
        self.line(format!("mpls label {label} tc {tc} s {bottom} ttl {ttl}"));
        match (bottom, rest.first().map(|first| first >> 4)) {
            (0, _) => self.mpls(rest, depth),
            (_, Some(4)) => self.ether_type(0x0800, rest, depth + 1),
            (_, Some(6)) => self.ether_type(0x86dd, rest, depth + 1),
            _ => self.payload(rest),
        }
    }

    fn net(&mut self, net: &LaxNetSlice<'_>, transport: Option<&TransportSlice<'_>>, depth: usize) {
        let (ends, inner) = match net {
            LaxNetSlice::Ipv4(ip) => {
                self.ipv4(&ip.header());
                if ip.payload().incomplete {
                    self.wrong("ipv4: the length is past the end of the frame");
                }
                let header = ip.header();
                (
                    Ends::Four(header.source(), header.destination()),
                    ip.payload(),
                )
            }
            LaxNetSlice::Ipv6(ip) => {
                self.ipv6(&ip.header());
                if ip.payload().incomplete {
                    self.wrong("ipv6: the length is past the end of the frame");
                }
                let header = ip.header();
                (
                    Ends::Six(header.source(), header.destination()),
                    ip.payload(),
                )
            }
            LaxNetSlice::Arp(arp) => {
                let op = arp.operation().0;
                let (sender, target) = (arp.sender_protocol_addr(), arp.target_protocol_addr());
                let (sender, target) = (dotted(sender), dotted(target));
                return self.line(format!("arp op {op} sender {sender} target {target}"));
            }
        };
        match transport {
            Some(TransportSlice::Udp(udp)) => self.udp(udp, ends, depth),
            Some(TransportSlice::Tcp(tcp)) => self.tcp(tcp, ends),
            Some(TransportSlice::Icmpv4(icmp)) => {
                self.line(format!(
                    "icmp type {} code {}",
                    icmp.type_u8(),
                    icmp.code_u8()
                ));
                let sum = etherparse::checksum::Sum16BitWords::new().add_slice(icmp.slice());
                if sum.ones_complement() != 0 {
                    self.wrong("icmp: bad checksum");
                }
            }
            Some(TransportSlice::Icmpv6(icmp)) => {
                self.line(format!(
                    "icmp6 type {} code {}",
                    icmp.type_u8(),
                    icmp.code_u8()
                ));
                if let Ends::Six(src, dst) = ends
                    && !icmp.is_checksum_valid(src, dst)
                {
                    self.wrong("icmp6: bad checksum");
                }
            }
            _ => self.tunnel(inner.ip_number, inner.payload, depth),
        }
    }

    fn tunnel(&mut self, protocol: IpNumber, bytes: &[u8], depth: usize) {
        match protocol {
            IpNumber::IPV4 => self.ether_type(0x0800, bytes, depth + 1),
            IpNumber::IPV6 => self.ether_type(0x86dd, bytes, depth + 1),
            IpNumber(137) => self.mpls(bytes, depth + 1),
            IpNumber::GRE => {
                let Some((header, mut rest)) = bytes.split_first_chunk::<4>() else {
                    return self.wrong("gre: cut off");
                };
                let ether_type = u16::from_be_bytes([header[2], header[3]]);
                let mut text = format!("gre type {ether_type:#06x}");
                if header[0] & 0x20 != 0
                    && let Some((key, after)) = rest.split_first_chunk::<4>()
                {
                    rest = after;
                    text += &format!(" key {}", u32::from_be_bytes(*key));
                }
                self.line(text);
                self.ether_type(ether_type, rest, depth + 1);
            }
            _ => self.payload(bytes),
        }
    }

    fn ipv4(&mut self, ip: &Ipv4HeaderSlice<'_>) {
        let (src, dst) = (ip.source_addr(), ip.destination_addr());
        let (len, id, ttl) = (ip.total_len(), ip.identification(), ip.ttl());
        let protocol = ip.protocol().0;
        let good = ip.header_checksum() == ip.to_header().calc_header_checksum();
        let checksum = if good { "good" } else { "BAD" };
        self.line(format!(
            "ipv4 {src} → {dst} len {len} id {id} ttl {ttl} proto {protocol} checksum {:#06x} {checksum}",
            ip.header_checksum()
        ));
        if !good {
            self.wrong("ipv4: bad checksum");
        }
    }

    fn ipv6(&mut self, ip: &Ipv6HeaderSlice<'_>) {
        let (src, dst) = (
            Ipv6Addr::from(ip.source()),
            Ipv6Addr::from(ip.destination()),
        );
        let (len, hop, next) = (ip.payload_length(), ip.hop_limit(), ip.next_header().0);
        let (class, flow) = (ip.traffic_class(), ip.flow_label().value());
        self.line(format!(
            "ipv6 {src} → {dst} len {len} hop {hop} next {next} tc {class} flow {flow:#x}"
        ));
    }

    fn udp(&mut self, udp: &UdpSlice<'_>, ends: Ends, depth: usize) {
        let header = udp.to_header();
        let computed = match ends {
            Ends::Four(src, dst) => header.calc_checksum_ipv4_raw(src, dst, udp.payload()),
            Ends::Six(src, dst) => header.calc_checksum_ipv6_raw(src, dst, udp.payload()),
        };
        let checksum = match (udp.checksum(), computed) {
            (0, _) => "none",
            (own, Ok(computed)) if own == computed => "good",
            _ => "BAD",
        };
        let (sport, dport) = (udp.source_port(), udp.destination_port());
        self.line(format!(
            "udp {sport} → {dport} len {} checksum {:#06x} {checksum}",
            udp.length(),
            udp.checksum()
        ));
        if checksum == "BAD" {
            self.wrong("udp: bad checksum");
        }
        if usize::from(udp.length()) != udp.slice().len() {
            self.wrong("udp: the length is not that of the payload");
        }
        match dport {
            4789 if depth < DEEPEST => self.vxlan(udp.payload(), depth),
            2152 if depth < DEEPEST => self.gtpu(udp.payload(), depth),
            _ => self.payload(udp.payload()),
        }
    }

    fn vxlan(&mut self, bytes: &[u8], depth: usize) {
        let Some((header, rest)) = bytes.split_first_chunk::<8>() else {
            return self.wrong("vxlan: cut off");
        };
        let vni = u32::from_be_bytes([0, header[4], header[5], header[6]]);
        self.line(format!("vxlan flags {:#04x} vni {vni}", header[0]));
        self.ethernet(rest, depth + 1);
    }

    fn gtpu(&mut self, bytes: &[u8], depth: usize) {
        let Some((header, rest)) = bytes.split_first_chunk::<8>() else {
            return self.wrong("gtpu: cut off");
        };
        let len = u16::from_be_bytes([header[2], header[3]]);
        let teid = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        self.line(format!(
            "gtpu type {:#04x} len {len} teid {teid}",
            header[1]
        ));
        if usize::from(len) != rest.len() {
            self.wrong("gtpu: the length is not that of the payload");
        }
        match rest.first().map(|first| first >> 4) {
            Some(4) => self.ether_type(0x0800, rest, depth + 1),
            Some(6) => self.ether_type(0x86dd, rest, depth + 1),
            _ => self.payload(rest),
        }
    }

    fn tcp(&mut self, tcp: &TcpSlice<'_>, ends: Ends) {
        let header = tcp.to_header();
        let computed = match ends {
            Ends::Four(src, dst) => header.calc_checksum_ipv4_raw(src, dst, tcp.payload()).ok(),
            Ends::Six(src, dst) => header.calc_checksum_ipv6_raw(src, dst, tcp.payload()).ok(),
        };
        let good = computed == Some(tcp.checksum());
        let flags: String = [
            (tcp.fin(), 'F'),
            (tcp.syn(), 'S'),
            (tcp.rst(), 'R'),
            (tcp.psh(), 'P'),
            (tcp.ack(), 'A'),
            (tcp.urg(), 'U'),
            (tcp.ece(), 'E'),
            (tcp.cwr(), 'C'),
        ]
        .iter()
        .filter_map(|(set, letter)| set.then_some(*letter))
        .collect();
        self.line(format!(
            "tcp {} → {} flags {flags} seq {} ack {} checksum {:#06x} {}",
            tcp.source_port(),
            tcp.destination_port(),
            tcp.sequence_number(),
            tcp.acknowledgment_number(),
            tcp.checksum(),
            if good { "good" } else { "BAD" }
        ));
        if !good {
            self.wrong("tcp: bad checksum");
        }
        self.payload(tcp.payload());
    }
}

fn mac(octets: [u8; 6]) -> String {
    let value = octets
        .iter()
        .fold(0, |value, octet| value << 8 | u128::from(*octet));
    show(value, FieldKind::Mac)
}

/// An address of four bytes, or of as many as there are.
fn dotted(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(u8::to_string).collect();
    bytes.join(".")
}
