//! The headers that frames are made of, and the fields in them.

use super::template::FieldKind;

/// A kind of header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Ethernet II: destination, source, type.
    Ethernet,
    /// An IEEE 802.1Q or 802.1ad tag: what follows the type that announces it.
    Vlan,
    /// An MPLS label stack entry (RFC 3032).
    Mpls,
    /// IPv4 without options (RFC 791).
    Ipv4,
    /// IPv6 without extension headers (RFC 8200).
    Ipv6,
    /// UDP (RFC 768).
    Udp,
    /// TCP without options (RFC 9293).
    Tcp,
    /// ICMP echo and its like: type, code, id, sequence (RFC 792).
    Icmp,
    /// ICMPv6 echo and its like (RFC 4443).
    Icmp6,
    /// ARP for IPv4 over Ethernet (RFC 826).
    Arp,
    /// GRE, with a key if one is set (RFC 2784, RFC 2890).
    Gre,
    /// VXLAN (RFC 7348).
    Vxlan,
    /// GTP-U without options (3GPP TS 29.281 §5.1).
    Gtpu,
    /// Bytes.
    Raw,
}

/// A field of a header.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldDef {
    /// Its name.
    pub name: &'static str,
    /// Other names for it, TRex's among them.
    pub aliases: &'static [&'static str],
    /// First bit, counted from the most significant bit of the header's first byte.
    pub bit: usize,
    /// Width in bits.
    pub bits: usize,
    /// How its values are written.
    pub kind: FieldKind,
}

impl FieldDef {
    /// Its largest value.
    #[must_use]
    pub fn max(&self) -> u128 {
        u128::MAX >> (128 - self.bits)
    }

    fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || self
                .aliases
                .iter()
                .any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

macro_rules! fields {
    ($($name:literal $(= $alias:literal)* @ $bit:literal + $bits:literal $kind:ident;)*) => {
        &[ $( FieldDef {
            name: $name,
            aliases: &[$($alias),*],
            bit: $bit,
            bits: $bits,
            kind: FieldKind::$kind,
        } ),* ]
    };
}

const ETHERNET: &[FieldDef] = fields! {
    "dst" @ 0 + 48 Mac;
    "src" @ 48 + 48 Mac;
    "type" @ 96 + 16 Number;
};
const VLAN: &[FieldDef] = fields! {
    "pcp" = "prio" @ 0 + 3 Number;
    "dei" @ 3 + 1 Number;
    "id" = "vlan" = "vid" @ 4 + 12 Number;
    "type" @ 16 + 16 Number;
};
const MPLS: &[FieldDef] = fields! {
    "label" @ 0 + 20 Number;
    "tc" = "exp" = "cos" @ 20 + 3 Number;
    "s" = "bottom" @ 23 + 1 Number;
    "ttl" @ 24 + 8 Number;
};
const IPV4: &[FieldDef] = fields! {
    "version" @ 0 + 4 Number;
    "ihl" @ 4 + 4 Number;
    "tos" @ 8 + 8 Number;
    "dscp" @ 8 + 6 Number;
    "ecn" @ 14 + 2 Number;
    "len" @ 16 + 16 Number;
    "id" @ 32 + 16 Number;
    "flags" @ 48 + 3 Number;
    "df" @ 49 + 1 Number;
    "mf" @ 50 + 1 Number;
    "frag" @ 51 + 13 Number;
    "ttl" @ 64 + 8 Number;
    "proto" @ 72 + 8 Number;
    "checksum" = "chksum" @ 80 + 16 Number;
    "src" @ 96 + 32 Ipv4;
    "dst" @ 128 + 32 Ipv4;
};
const IPV6: &[FieldDef] = fields! {
    "version" @ 0 + 4 Number;
    "tc" @ 4 + 8 Number;
    "dscp" @ 4 + 6 Number;
    "ecn" @ 10 + 2 Number;
    "flow" = "fl" @ 12 + 20 Number;
    "len" = "plen" @ 32 + 16 Number;
    "next" = "nh" @ 48 + 8 Number;
    "hop" = "hlim" = "ttl" @ 56 + 8 Number;
    "src" @ 64 + 128 Ipv6;
    "dst" @ 192 + 128 Ipv6;
};
const UDP: &[FieldDef] = fields! {
    "sport" @ 0 + 16 Number;
    "dport" @ 16 + 16 Number;
    "len" @ 32 + 16 Number;
    "checksum" = "chksum" @ 48 + 16 Number;
};
const TCP: &[FieldDef] = fields! {
    "sport" @ 0 + 16 Number;
    "dport" @ 16 + 16 Number;
    "seq" @ 32 + 32 Number;
    "ack" @ 64 + 32 Number;
    "offset" = "dataofs" @ 96 + 4 Number;
    "flags" @ 104 + 8 Number;
    "window" @ 112 + 16 Number;
    "checksum" = "chksum" @ 128 + 16 Number;
    "urgent" = "urgptr" @ 144 + 16 Number;
};
const ICMP: &[FieldDef] = fields! {
    "type" @ 0 + 8 Number;
    "code" @ 8 + 8 Number;
    "checksum" = "chksum" @ 16 + 16 Number;
    "id" @ 32 + 16 Number;
    "seq" @ 48 + 16 Number;
};
const ARP: &[FieldDef] = fields! {
    "op" @ 48 + 16 Number;
    "sender_mac" = "hwsrc" @ 64 + 48 Mac;
    "sender_ip" = "psrc" @ 112 + 32 Ipv4;
    "target_mac" = "hwdst" @ 144 + 48 Mac;
    "target_ip" = "pdst" @ 192 + 32 Ipv4;
};
const GRE: &[FieldDef] = fields! {
    "type" = "proto" @ 16 + 16 Number;
    "key" @ 32 + 32 Number;
};
const VXLAN: &[FieldDef] = fields! {
    "flags" @ 0 + 8 Number;
    "vni" @ 32 + 24 Number;
};
const GTPU: &[FieldDef] = fields! {
    "flags" @ 0 + 8 Number;
    "type" @ 8 + 8 Number;
    "len" @ 16 + 16 Number;
    "teid" @ 32 + 32 Number;
};

impl Layer {
    /// Every kind of header.
    pub const ALL: [Self; 14] = [
        Self::Ethernet,
        Self::Vlan,
        Self::Mpls,
        Self::Ipv4,
        Self::Ipv6,
        Self::Udp,
        Self::Tcp,
        Self::Icmp,
        Self::Icmp6,
        Self::Arp,
        Self::Gre,
        Self::Vxlan,
        Self::Gtpu,
        Self::Raw,
    ];

    /// What texts call it: first its name, then other names for it.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Ethernet => &["eth", "ether", "ethernet"],
            Self::Vlan => &["vlan", "dot1q", "qinq"],
            Self::Mpls => &["mpls"],
            Self::Ipv4 => &["ipv4", "ip"],
            Self::Ipv6 => &["ipv6"],
            Self::Udp => &["udp"],
            Self::Tcp => &["tcp"],
            Self::Icmp => &["icmp"],
            Self::Icmp6 => &["icmp6", "icmpv6"],
            Self::Arp => &["arp"],
            Self::Gre => &["gre"],
            Self::Vxlan => &["vxlan"],
            Self::Gtpu => &["gtpu", "gtp"],
            Self::Raw => &["raw", "payload"],
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names()[0]
    }

    /// The header called `name`, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let called = |layer: &Self| layer.names().iter().any(|n| n.eq_ignore_ascii_case(name));
        Self::ALL.into_iter().find(called)
    }

    /// Its fields. Some overlap: `dscp` is part of `tos`.
    #[must_use]
    pub const fn fields(self) -> &'static [FieldDef] {
        match self {
            Self::Ethernet => ETHERNET,
            Self::Vlan => VLAN,
            Self::Mpls => MPLS,
            Self::Ipv4 => IPV4,
            Self::Ipv6 => IPV6,
            Self::Udp => UDP,
            Self::Tcp => TCP,
            Self::Icmp | Self::Icmp6 => ICMP,
            Self::Arp => ARP,
            Self::Gre => GRE,
            Self::Vxlan => VXLAN,
            Self::Gtpu => GTPU,
            Self::Raw => &[],
        }
    }

    /// Its field called `name`, in any case.
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'static FieldDef> {
        self.fields().iter().find(|field| field.is_called(name))
    }

    /// Whether `inner` may come directly after it.
    #[must_use]
    pub const fn carries(self, inner: Self) -> bool {
        use Layer::{Arp, Ethernet, Gre, Gtpu, Icmp, Icmp6, Ipv4, Ipv6, Mpls, Raw, Tcp, Udp};
        use Layer::{Vlan, Vxlan};
        match self {
            Ethernet | Vlan => matches!(inner, Vlan | Mpls | Ipv4 | Ipv6 | Arp | Raw),
            Mpls => matches!(inner, Mpls | Ipv4 | Ipv6 | Ethernet | Raw),
            Ipv4 => matches!(inner, Udp | Tcp | Icmp | Gre | Mpls | Ipv4 | Ipv6 | Raw),
            Ipv6 => matches!(inner, Udp | Tcp | Icmp6 | Gre | Mpls | Ipv4 | Ipv6 | Raw),
            Udp => matches!(inner, Vxlan | Gtpu | Raw),
            Gre => matches!(inner, Ipv4 | Ipv6 | Ethernet | Mpls | Raw),
            Vxlan => matches!(inner, Ethernet),
            Gtpu => matches!(inner, Ipv4 | Ipv6 | Raw),
            Tcp | Icmp | Icmp6 => matches!(inner, Raw),
            Arp | Raw => false,
        }
    }
}
