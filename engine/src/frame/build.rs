//! From headers to bytes.
//!
//! Each header begins as the protocol library writes it (etherparse, where it knows the
//! protocol); then what the text or profile set is put in; then what was left open and follows
//! from the rest: lengths, types, checksums.

use etherparse::{
    ArpEthIpv4Packet, ArpOperation, ArpPacket, EtherType, Ethernet2Header, IcmpEchoHeader,
    Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpNumber, Ipv4Header, Ipv6FlowLabel,
    Ipv6Header, SingleVlanHeader, TcpHeader, UdpHeader, VlanId, VlanPcp,
};

use super::layer::Layer;
use super::spec::{BuildError, FILL, FrameSpec, Header, MAX_SIZE, MIN_SIZE};
use super::template::{LayerAt, Template, write_bits};
use crate::field::Fix;
use crate::stream::FCS;

/// Addresses for what a frame leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Macs {
    /// The sending port's.
    pub src: [u8; 6],
    /// Its peer's or gateway's.
    pub dst: [u8; 6],
}

/// EtherTypes (IANA) by what follows.
fn ether_type(next: Option<&Header>) -> u16 {
    /// For local experiments (IEEE 802): what says nothing of what it carries.
    const EXPERIMENT: u16 = 0x88b5;
    match next.map(|header| header.layer) {
        Some(Layer::Vlan) => 0x8100,
        Some(Layer::Mpls) => 0x8847,
        Some(Layer::Ipv4) => 0x0800,
        Some(Layer::Ipv6) => 0x86dd,
        Some(Layer::Arp) => 0x0806,
        // Transparent Ethernet bridging, in GRE (RFC 7637).
        Some(Layer::Ethernet) => 0x6558,
        _ => EXPERIMENT,
    }
}

/// IP protocol numbers (IANA) by what follows.
fn ip_number(next: Option<&Header>) -> IpNumber {
    /// For experiments (RFC 3692).
    const EXPERIMENT: IpNumber = IpNumber(253);
    match next.map(|header| header.layer) {
        Some(Layer::Udp) => IpNumber::UDP,
        Some(Layer::Tcp) => IpNumber::TCP,
        Some(Layer::Icmp) => IpNumber::ICMP,
        Some(Layer::Icmp6) => IpNumber::IPV6_ICMP,
        Some(Layer::Gre) => IpNumber::GRE,
        Some(Layer::Ipv4) => IpNumber::IPV4,
        Some(Layer::Ipv6) => IpNumber::IPV6,
        Some(Layer::Mpls) => IpNumber(137),
        _ => EXPERIMENT,
    }
}

/// Builds a frame. Addresses that it leaves open become `macs`.
///
/// # Errors
/// Headers that do not go together, or a size that does not hold them.
pub fn build(spec: &FrameSpec, macs: Macs) -> Result<Template, BuildError> {
    check_stacking(&spec.headers)?;
    let headers: usize = spec.headers.iter().map(Header::len).sum();
    let least = headers + FCS;
    let size = spec.size.unwrap_or(least.max(MIN_SIZE));
    if size < least || size > MAX_SIZE.max(least) || size > usize::from(u16::MAX) {
        return Err(BuildError::Size {
            size,
            least,
            most: MAX_SIZE,
        });
    }
    let len = size - FCS;
    let padding = if is_padded(&spec.headers) {
        len - headers
    } else {
        0
    };
    let end = len - padding;

    let mut bytes = Vec::with_capacity(len);
    let mut layers = Vec::with_capacity(spec.headers.len());
    for (index, header) in spec.headers.iter().enumerate() {
        let offset = bytes.len();
        let inner = end - offset - header.len();
        bytes.extend(open(
            header,
            spec.headers.get(index + 1),
            spec.headers.get(index + 2),
            inner,
        ));
        for (field, value) in &header.set {
            write_bits(&mut bytes, offset * 8 + field.bit, field.bits, *value);
        }
        if header.layer == Layer::Ethernet {
            fill_macs(&mut bytes[offset..], header, macs);
        }
        let fixed = header.value("checksum").is_some() || carries_no_checksum(&spec.headers, index);
        layers.push(LayerAt {
            layer: header.layer,
            offset,
            len: header.len(),
            fixed,
        });
    }
    bytes.resize(end, FILL);
    bytes.resize(len, 0);
    let mut template = Template { bytes, layers };
    template.correct();
    Ok(template)
}

/// An outer VXLAN header's UDP checksum is zero (RFC 7348 §5).
fn carries_no_checksum(headers: &[Header], index: usize) -> bool {
    headers[index].layer == Layer::Udp
        && headers
            .get(index + 1)
            .is_some_and(|next| next.layer == Layer::Vxlan)
}

/// What ARP does not fill is padding, not payload.
fn is_padded(headers: &[Header]) -> bool {
    headers.iter().any(|header| header.layer == Layer::Arp)
}

fn check_stacking(headers: &[Header]) -> Result<(), BuildError> {
    let first = headers.first().ok_or(BuildError::Empty)?;
    if !matches!(first.layer, Layer::Ethernet | Layer::Raw) {
        return Err(BuildError::Start {
            layer: first.layer.name(),
        });
    }
    for (index, pair) in headers.windows(2).enumerate() {
        let (outer, inner) = (pair[0].layer, pair[1].layer);
        if !outer.carries(inner) {
            let (outer, inner) = (outer.name(), inner.name());
            return Err(BuildError::Stacking {
                outer,
                inner,
                index: index + 1,
            });
        }
    }
    Ok(())
}

fn fill_macs(bytes: &mut [u8], header: &Header, macs: Macs) {
    if header.value("dst").is_none() {
        bytes[..6].copy_from_slice(&macs.dst);
    }
    if header.value("src").is_none() {
        bytes[6..12].copy_from_slice(&macs.src);
    }
}

/// A header as it is when nothing is set, before `inner` bytes that begin with `next`.
fn open(header: &Header, next: Option<&Header>, after: Option<&Header>, inner: usize) -> Vec<u8> {
    let length = u16::try_from(inner).expect("a frame is at most 64 KiB");
    match header.layer {
        Layer::Ethernet => {
            let ether_type = service_tag(next, after).unwrap_or(ether_type(next));
            let ether_type = EtherType(ether_type);
            Ethernet2Header {
                ether_type,
                ..Ethernet2Header::default()
            }
            .to_bytes()
            .to_vec()
        }
        Layer::Vlan => vlan(ether_type(next)),
        Layer::Mpls => {
            let bottom = next.is_none_or(|next| next.layer != Layer::Mpls);
            vec![0, 0, u8::from(bottom), 64]
        }
        Layer::Ipv4 => ipv4(length, ip_number(next)),
        Layer::Ipv6 => Ipv6Header {
            traffic_class: 0,
            flow_label: Ipv6FlowLabel::ZERO,
            payload_length: length,
            next_header: ip_number(next),
            hop_limit: 64,
            source: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            destination: [0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1],
        }
        .to_bytes()
        .to_vec(),
        Layer::Udp => UdpHeader {
            source_port: 1025,
            destination_port: match next.map(|header| header.layer) {
                Some(Layer::Vxlan) => 4789,
                Some(Layer::Gtpu) => 2152,
                _ => 12,
            },
            length: length + 8,
            checksum: 0,
        }
        .to_bytes()
        .to_vec(),
        Layer::Tcp => {
            let mut tcp = TcpHeader::new(1025, 80, 0, 8192);
            tcp.syn = true;
            tcp.to_bytes().to_vec()
        }
        Layer::Icmp => Icmpv4Header::new(Icmpv4Type::EchoRequest(ECHO))
            .to_bytes()
            .to_vec(),
        Layer::Icmp6 => Icmpv6Header::new(Icmpv6Type::EchoRequest(ECHO))
            .to_bytes()
            .to_vec(),
        Layer::Arp => arp(),
        Layer::Gre => gre(header, next),
        Layer::Vxlan => vec![0x08, 0, 0, 0, 0, 0, 0, 0],
        // Version 1, GTP (not GTP'), no options; a T-PDU (§5.1, table 6.1-1).
        Layer::Gtpu => {
            let [high, low] = length.to_be_bytes();
            vec![0x30, 0xff, high, low, 0, 0, 0, 0]
        }
        Layer::Raw => header.bytes.clone(),
    }
}

const ECHO: IcmpEchoHeader = IcmpEchoHeader { id: 1, seq: 1 };

/// The type before the outer one of two tags: a service tag (IEEE 802.1ad).
fn service_tag(next: Option<&Header>, after: Option<&Header>) -> Option<u16> {
    let tag = |header: Option<&Header>| header.is_some_and(|header| header.layer == Layer::Vlan);
    (tag(next) && tag(after)).then_some(0x88a8)
}

fn vlan(ether_type: u16) -> Vec<u8> {
    SingleVlanHeader {
        pcp: VlanPcp::ZERO,
        drop_eligible_indicator: false,
        vlan_id: VlanId::try_new(1).expect("1 is a VLAN id"),
        ether_type: EtherType(ether_type),
    }
    .to_bytes()
    .to_vec()
}

/// As TRex's packet library has it: identification 1, may be fragmented, TTL 64.
fn ipv4(inner: u16, protocol: IpNumber) -> Vec<u8> {
    Ipv4Header {
        total_len: inner + 20,
        identification: 1,
        dont_fragment: false,
        time_to_live: 64,
        protocol,
        source: [16, 0, 0, 1],
        destination: [48, 0, 0, 1],
        ..Ipv4Header::default()
    }
    .to_bytes()
    .to_vec()
}

/// Who has 48.0.0.1? Tell 16.0.0.1.
fn arp() -> Vec<u8> {
    ArpPacket::from(ArpEthIpv4Packet {
        operation: ArpOperation::REQUEST,
        sender_mac: [0; 6],
        sender_ipv4: [16, 0, 0, 1],
        target_mac: [0; 6],
        target_ipv4: [48, 0, 0, 1],
    })
    .to_bytes()
    .to_vec()
}

/// Flags (key present: bit 2), version 0, type; then the key if there is one (RFC 2890 §2).
fn gre(header: &Header, next: Option<&Header>) -> Vec<u8> {
    let keyed = header.value("key").is_some();
    let mut bytes = vec![if keyed { 0x20 } else { 0 }, 0];
    bytes.extend(ether_type(next).to_be_bytes());
    bytes.resize(header.len(), 0);
    bytes
}

impl Template {
    /// The checksums that follow from its bytes: innermost first, since an outer one covers the
    /// inner ones. Those set by hand are not among them.
    #[must_use]
    pub fn checksums(&self) -> Vec<Fix> {
        let mut fixes = Vec::new();
        let mut ip = None;
        for layer in self
            .layers
            .iter()
            .filter(|layer| !layer.fixed || is_ip(layer))
        {
            let at = layer.offset;
            match (layer.layer, ip) {
                (Layer::Ipv4, _) if layer.fixed => {}
                (Layer::Ipv4, _) => fixes.push(Fix::Ipv4 { at }),
                (Layer::Udp, Some(ip)) => fixes.push(Fix::Udp { ip, at }),
                (Layer::Tcp, Some(ip)) => fixes.push(Fix::Tcp { ip, at }),
                (Layer::Icmp, Some(ip)) => fixes.push(Fix::Icmp { ip, at }),
                (Layer::Icmp6, Some(ip)) => fixes.push(Fix::Icmp6 { ip, at }),
                _ => {}
            }
            if is_ip(layer) {
                ip = Some(at);
            }
        }
        fixes.reverse();
        fixes
    }
}

fn is_ip(layer: &LayerAt) -> bool {
    matches!(layer.layer, Layer::Ipv4 | Layer::Ipv6)
}
