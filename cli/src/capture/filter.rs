//! Which frames are written: expressions in tcpdump's language (pcap-filter(7)), as much of it as
//! people type.
//!
//! ```text
//! ip ip6 arp tcp udp icmp icmp6            what a frame carries
//! [ip|ip6|arp] [src|dst] host ADDRESS      [src|dst] net ADDRESS/LENGTH
//! [tcp|udp] [src|dst] port N               [tcp|udp] [src|dst] portrange N-M
//! ether [src|dst] host MAC                 ether broadcast   ether multicast
//! vlan [ID]                                less N   greater N
//! and or not ( )                           also && || !
//! ```
//!
//! As in libpcap, `and` and `or` bind alike, from left to right; what follows a `vlan` looks behind its
//! tag, and what stands before does not; ports are those of IPv4's and IPv6's. It is written here as the crate that compiles such expressions
//! without libpcap (pktbaffle 0.2.0) finds no port in IPv6, and takes `host 1.2.3` for an address.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::error::Error;

/// Bytes of an expression at most: it is an option of a capture file, whose length has 16 bits.
const LONGEST: usize = 16_384;
/// How many `(` and `not` may be within each other.
const DEEPEST: usize = 100;

/// An expression.
#[derive(Debug)]
pub(crate) struct Filter(Node);

impl Filter {
    /// Reads `text`.
    pub(crate) fn new(text: &str) -> Result<Self, Error> {
        if text.len() > LONGEST {
            return Err(Error::Usage {
                found: format!("--filter: {} bytes, of at most {LONGEST}", text.len()),
                cure: "net and portrange take the place of many".to_owned(),
            });
        }
        let mut parser = Parser::new(text);
        let node = parser.chain().and_then(|node| match parser.peek() {
            None => Ok(node),
            Some(word) => Err(format!("`{word}` is one word too many")),
        });
        node.map(Self).map_err(|what| Error::Usage {
            found: format!("--filter {text}: {what}"),
            cure: "as in 'udp port 12', 'host 16.0.0.1 and not arp', 'vlan 7', 'net 48.0.0.0/8'"
                .to_owned(),
        })
    }

    /// Whether a frame of `len` bytes is to be written, as far as its first `bytes` tell.
    pub(crate) fn accepts(&self, bytes: &[u8], len: usize) -> bool {
        self.0.is_true(bytes, len)
    }
}

#[derive(Debug)]
enum Node {
    /// From left to right: what has come out so far, and or or the next one.
    Chain(Box<Node>, Vec<(Joint, Node)>),
    Not(Box<Node>),
    /// A test behind so many tags.
    Test(usize, Test),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Ip,
    Ip6,
    Arp,
    Tcp,
    Udp,
    Icmp,
    Icmp6,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Destination,
    Either,
}

impl Side {
    fn holds<T>(self, source: T, destination: T, test: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Source => test(source),
            Self::Destination => test(destination),
            Self::Either => test(source) || test(destination),
        }
    }
}

#[derive(Debug)]
enum Test {
    Protocol(Protocol),
    /// In the protocol, if one is named: an address whose first bits are these.
    Net(Option<Protocol>, Side, IpAddr, u32),
    Port(Option<Protocol>, Side, RangeInclusive<u16>),
    Station(Side, [u8; 6]),
    Broadcast,
    Multicast,
    Vlan(Option<u16>),
    Len(RangeInclusive<usize>),
}

/// EtherTypes of tags.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let word = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([word[0], word[1]]))
}

/// What a frame carries behind `tags` tags.
struct Packet<'a> {
    kind: u16,
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    fn find(bytes: &'a [u8], tags: usize) -> Option<Self> {
        let at = 12 + 4 * tags;
        let is_tagged =
            (0..tags).all(|tag| word(bytes, 12 + 4 * tag).is_some_and(|kind| TAGS.contains(&kind)));
        is_tagged.then_some(())?;
        Some(Self {
            kind: word(bytes, at)?,
            payload: bytes.get(at + 2..)?,
        })
    }

    /// The protocol in IP's header, and where its own begins; none for a later fragment.
    fn transport(&self) -> Option<(u8, Option<usize>)> {
        match self.kind {
            0x0800 => {
                let header = usize::from(self.payload.first()? & 0xf) * 4;
                let is_first = word(self.payload, 6)? & 0x1fff == 0;
                Some((*self.payload.get(9)?, is_first.then_some(header)))
            }
            0x86dd => Some((*self.payload.get(6)?, Some(40))),
            _ => None,
        }
    }

    fn is(&self, protocol: Protocol) -> bool {
        let carries = |number| self.transport().is_some_and(|(own, _)| own == number);
        match protocol {
            Protocol::Ip => self.kind == 0x0800,
            Protocol::Ip6 => self.kind == 0x86dd,
            Protocol::Arp => self.kind == 0x0806,
            Protocol::Tcp => carries(6),
            Protocol::Udp => carries(17),
            Protocol::Icmp => self.kind == 0x0800 && carries(1),
            Protocol::Icmp6 => self.kind == 0x86dd && carries(58),
        }
    }

    fn ports(&self) -> Option<(u16, u16)> {
        let (protocol, at) = self.transport()?;
        // TCP, UDP, SCTP.
        let at = at.filter(|_| [6, 17, 132].contains(&protocol))?;
        Some((word(self.payload, at)?, word(self.payload, at + 2)?))
    }

    /// Source and destination, if they are of the kind of `like`.
    fn addresses(&self, like: IpAddr) -> Option<(u128, u128)> {
        let v4 = |at: usize| {
            let bytes = self.payload.get(at..)?.first_chunk::<4>()?;
            Some(u128::from(u32::from_be_bytes(*bytes)))
        };
        let v6 = |at: usize| {
            let bytes = self.payload.get(at..)?.first_chunk::<16>()?;
            Some(u128::from_be_bytes(*bytes))
        };
        match (self.kind, like) {
            (0x0800, IpAddr::V4(_)) => v4(12).zip(v4(16)),
            (0x0806, IpAddr::V4(_)) => v4(14).zip(v4(24)),
            (0x86dd, IpAddr::V6(_)) => v6(8).zip(v6(24)),
            _ => None,
        }
    }
}

/// An address as a number, and its bits.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

impl Node {
    fn is_true(&self, bytes: &[u8], len: usize) -> bool {
        match self {
            Self::Chain(first, rest) => {
                let first = first.is_true(bytes, len);
                rest.iter()
                    .fold(first, |so_far, (joint, node)| match joint {
                        Joint::And => so_far && node.is_true(bytes, len),
                        Joint::Or => so_far || node.is_true(bytes, len),
                    })
            }
            Self::Not(node) => !node.is_true(bytes, len),
            Self::Test(tags, test) => test.is_true(bytes, len, *tags),
        }
    }
}

impl Test {
    fn is_true(&self, bytes: &[u8], len: usize, tags: usize) -> bool {
        let packet = || Packet::find(bytes, tags);
        let in_protocol = |packet: &Packet<'_>, protocol: &Option<Protocol>| {
            protocol.is_none_or(|protocol| packet.is(protocol))
        };
        match self {
            Self::Protocol(protocol) => packet().is_some_and(|packet| packet.is(*protocol)),
            Self::Net(protocol, side, net, length) => {
                let (net_number, bits) = number(*net);
                let shift = bits - length;
                let inside = |own: u128| own.checked_shr(shift) == net_number.checked_shr(shift);
                let packet = packet().filter(|packet| in_protocol(packet, protocol));
                let found = packet.and_then(|packet| packet.addresses(*net));
                found.is_some_and(|(source, destination)| side.holds(source, destination, inside))
            }
            Self::Port(protocol, side, range) => {
                let packet = packet().filter(|packet| in_protocol(packet, protocol));
                let found = packet.and_then(|packet| packet.ports());
                found.is_some_and(|(source, destination)| {
                    side.holds(source, destination, |port| range.contains(&port))
                })
            }
            Self::Station(side, mac) => bytes.first_chunk::<12>().is_some_and(|macs| {
                let (destination, source) = macs.split_at(6);
                side.holds(source, destination, |own| own == mac)
            }),
            Self::Broadcast => bytes.starts_with(&[0xff; 6]),
            Self::Multicast => bytes.first().is_some_and(|first| first & 1 == 1),
            Self::Vlan(id) => {
                let tag = Packet::find(bytes, tags).filter(|packet| TAGS.contains(&packet.kind));
                let tag = tag.and_then(|packet| word(packet.payload, 0));
                tag.is_some_and(|tag| id.is_none_or(|id| tag & 0xfff == id))
            }
            Self::Len(range) => range.contains(&len),
        }
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    /// Tags that `vlan` has passed so far.
    tags: usize,
    /// `(` and `not` that are not over yet.
    depth: usize,
}

type Parsed<T> = Result<T, String>;

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let mut words = Vec::new();
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(at) = rest.find(['(', ')', '!']) {
                words.extend([&rest[..at], &rest[at..=at]]);
                rest = &rest[at + 1..];
            }
            words.push(rest);
        }
        words.retain(|word| !word.is_empty());
        Self {
            words,
            at: 0,
            tags: 0,
            depth: 0,
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self, what: &str) -> Parsed<&'a str> {
        let word = self.peek();
        self.at += 1;
        word.ok_or_else(|| format!("{what} is missing at its end"))
    }

    fn accept(&mut self, words: &[&str]) -> bool {
        let is_one = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(is_one);
        is_one
    }

    fn chain(&mut self) -> Parsed<Node> {
        let first = self.one()?;
        let mut rest = Vec::new();
        loop {
            let joint = match () {
                () if self.accept(&["and", "&&"]) => Joint::And,
                () if self.accept(&["or", "||"]) => Joint::Or,
                () if rest.is_empty() => return Ok(first),
                () => return Ok(Node::Chain(Box::new(first), rest)),
            };
            rest.push((joint, self.one()?));
        }
    }

    /// What `parse` finds one level deeper.
    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<Node>) -> Parsed<Node> {
        if self.depth == DEEPEST {
            return Err(format!(
                "more than {DEEPEST} of ( and not within each other"
            ));
        }
        self.depth += 1;
        let node = parse(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn one(&mut self) -> Parsed<Node> {
        if self.accept(&["not", "!"]) {
            let node = self.deeper(Self::one)?;
            return Ok(Node::Not(Box::new(node)));
        }
        if self.accept(&["("]) {
            let node = self.deeper(Self::chain)?;
            let closes = self.accept(&[")"]);
            return closes
                .then_some(node)
                .ok_or_else(|| "a ) is missing".to_owned());
        }
        let tags = self.tags;
        Ok(Node::Test(tags, self.test()?))
    }

    fn test(&mut self) -> Parsed<Test> {
        let word = self.next("something to look for")?;
        let protocol = match word {
            "ether" => return self.ether(),
            "vlan" => {
                let id = self.peek().and_then(|id| id.parse::<u16>().ok());
                self.at += usize::from(id.is_some());
                if id.is_some_and(|id| id > 4095) {
                    return Err("a VLAN is 0 to 4095".to_owned());
                }
                self.tags += 1;
                return Ok(Test::Vlan(id));
            }
            "less" => return Ok(Test::Len(0..=self.parse("a length")?)),
            "greater" => return Ok(Test::Len(self.parse("a length")?..=usize::MAX)),
            "ip" => Some(Protocol::Ip),
            "ip6" => Some(Protocol::Ip6),
            "arp" => Some(Protocol::Arp),
            "tcp" => Some(Protocol::Tcp),
            "udp" => Some(Protocol::Udp),
            "icmp" => Some(Protocol::Icmp),
            "icmp6" => Some(Protocol::Icmp6),
            _ => {
                self.at -= 1;
                None
            }
        };
        const GOES_ON: [&str; 6] = ["src", "dst", "host", "net", "port", "portrange"];
        match (protocol, self.peek().filter(|word| GOES_ON.contains(word))) {
            (Some(protocol), None) => Ok(Test::Protocol(protocol)),
            _ => self.qualified(protocol),
        }
    }

    fn side(&mut self) -> Side {
        match () {
            () if self.accept(&["src"]) => Side::Source,
            () if self.accept(&["dst"]) => Side::Destination,
            () => Side::Either,
        }
    }

    fn qualified(&mut self, protocol: Option<Protocol>) -> Parsed<Test> {
        let side = self.side();
        let word = self.next("host, net or port")?;
        match word {
            "port" => {
                let port = self.parse("a port")?;
                Ok(Test::Port(protocol, side, port..=port))
            }
            "portrange" => {
                let text = self.next("a range of ports")?;
                let range = text.split_once('-').and_then(|(first, last)| {
                    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
                    (first <= last).then_some(first..=last)
                });
                let range = range.ok_or_else(|| format!("`{text}` is no range of ports"))?;
                Ok(Test::Port(protocol, side, range))
            }
            "net" => {
                let text = self.next("a network")?;
                let (address, length) = text.split_once('/').unwrap_or((text, ""));
                let net: IpAddr = address
                    .parse()
                    .map_err(|_| format!("`{text}` is no network: ADDRESS/LENGTH is"))?;
                let bits = number(net).1;
                let length = if length.is_empty() {
                    bits
                } else {
                    length
                        .parse()
                        .ok()
                        .filter(|length| *length <= bits)
                        .ok_or_else(|| format!("`{text}` is no network: ADDRESS/LENGTH is"))?
                };
                Ok(Test::Net(protocol, side, net, length))
            }
            _ => {
                let text = if word == "host" {
                    self.next("an address")?
                } else {
                    word
                };
                let host: Result<IpAddr, _> = text.parse();
                let host = host.map_err(|_| match word {
                    "host" => format!("`{text}` is no address"),
                    _ => format!("`{text}` is nothing to look for"),
                })?;
                Ok(Test::Net(protocol, side, host, number(host).1))
            }
        }
    }

    fn ether(&mut self) -> Parsed<Test> {
        if self.accept(&["broadcast"]) {
            return Ok(Test::Broadcast);
        }
        if self.accept(&["multicast"]) {
            return Ok(Test::Multicast);
        }
        let side = self.side();
        self.accept(&["host"]);
        let text = self.next("a MAC address")?;
        let bytes: Result<Vec<u8>, _> = text
            .split(':')
            .map(|byte| u8::from_str_radix(byte, 16))
            .collect();
        let mac = bytes.ok().and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        mac.map(|mac| Test::Station(side, mac))
            .ok_or_else(|| format!("`{text}` is no MAC address"))
    }

    fn parse<T: std::str::FromStr>(&mut self, what: &str) -> Parsed<T> {
        let text = self.next(what)?;
        text.parse().map_err(|_| format!("`{text}` is not {what}"))
    }
}

#[cfg(test)]
mod test {
    use etherparse::PacketBuilder;

    use super::*;

    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    fn udp(vlan: Option<u16>, from: [u8; 4], to: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
        let mut frame = Vec::new();
        let builder = PacketBuilder::ethernet2(MACS[0], MACS[1]);
        match vlan {
            Some(id) => builder
                .single_vlan(id.try_into().unwrap())
                .ipv4(from, to, 64)
                .udp(ports.0, ports.1)
                .write(&mut frame, b"payload"),
            None => builder
                .ipv4(from, to, 64)
                .udp(ports.0, ports.1)
                .write(&mut frame, b"payload"),
        }
        .unwrap();
        frame
    }

    fn ipv6_tcp(port: u16) -> Vec<u8> {
        let mut frame = Vec::new();
        let host = |last| {
            let mut address = [0; 16];
            (address[0], address[15]) = (0xfd, last);
            address
        };
        PacketBuilder::ethernet2(MACS[0], MACS[1])
            .ipv6(host(1), host(2), 64)
            .tcp(1025, port, 7, 100)
            .write(&mut frame, b"x")
            .unwrap();
        frame
    }

    #[test]
    fn frames_are_told_apart_as_tcpdump_does() {
        let plain = udp(None, [16, 0, 0, 1], [48, 0, 0, 1], (1025, 12));
        let other = udp(None, [16, 0, 0, 2], [48, 0, 1, 1], (1026, 53));
        let tagged = udp(Some(7), [16, 0, 0, 1], [48, 0, 0, 1], (1025, 12));
        let six = ipv6_tcp(80);
        let mut arp = vec![0xff; 6];
        arp.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        arp.resize(60, 0);
        let frames = [&plain, &other, &tagged, &six, &arp];
        for (text, accepted) in [
            ("udp", [true, true, false, false, false]),
            ("udp port 12", [true, false, false, false, false]),
            ("udp src port 1026", [false, true, false, false, false]),
            ("host 16.0.0.1", [true, false, false, false, false]),
            ("dst net 48.0.0.0/16", [true, true, false, false, false]),
            ("dst net 48.0.1.0/24", [false, true, false, false, false]),
            ("not ip", [false, false, true, true, true]),
            (
                "ip6 and tcp dst port 80",
                [false, false, false, true, false],
            ),
            ("arp or vlan 7", [false, false, true, false, true]),
            ("vlan 7 and udp port 12", [false, false, true, false, false]),
            ("vlan 8", [false; 5]),
            (
                "ether host 02:00:00:00:00:02",
                [true, true, true, true, false],
            ),
            ("ether broadcast", [false, false, false, false, true]),
            ("greater 60", [false, false, false, true, true]),
            (
                "src 16.0.0.1 || (ip6 && !udp)",
                [true, false, false, true, false],
            ),
            ("ip6 host fd00::2", [false, false, false, true, false]),
            ("portrange 50-100", [false, true, false, true, false]),
            ("vlan and host 16.0.0.1", [false, false, true, false, false]),
            // pcap-filter(7): alternation and concatenation bind alike, from left to right.
            ("arp or udp and port 53", [false, true, false, false, false]),
            (
                "arp or (udp and port 53)",
                [false, true, false, false, true],
            ),
            ("udp and port 53 or arp", [false, true, false, false, true]),
            (
                "not arp or udp and port 53",
                [false, true, false, false, false],
            ),
            ("host 16.0.0.1 and vlan", [false; 5]),
            (
                "ether src 02:00:00:00:00:01 and less 51",
                [true, true, false, false, false],
            ),
        ] {
            let filter = Filter::new(text).unwrap();
            assert_eq!(
                frames.map(|frame| filter.accepts(frame, frame.len())),
                accepted,
                "{text}"
            );
        }
    }

    #[test]
    fn frames_cut_short_are_not_accepted_and_nothing_panics() {
        let frame = udp(None, [16, 0, 0, 1], [48, 0, 0, 1], (1025, 12));
        let filter = Filter::new("udp dst port 12").unwrap();
        assert!(filter.accepts(&frame, frame.len()));
        for len in 0..38 {
            assert!(!filter.accepts(&frame[..len], frame.len()), "{len} bytes");
        }
    }

    #[test]
    fn a_long_expression_is_read_and_one_that_is_too_long_or_too_deep_is_refused() {
        let arp = [&[0xff; 12][..], &[8, 6], &[0; 46]].concat();
        let many = |count: usize| format!("arp{}", " or udp".repeat(count));
        assert!(Filter::new(&many(2000)).unwrap().accepts(&arp, 60));
        let nested = |open: &str, count: usize, close: &str| {
            format!("{}arp{}", open.repeat(count), close.repeat(count))
        };
        for (open, close, most) in [
            ("(", ")", DEEPEST),
            ("not ", "", DEEPEST),
            ("!", "", DEEPEST),
            ("!(", ")", DEEPEST / 2),
        ] {
            let filter = Filter::new(&nested(open, most, close)).unwrap();
            assert!(filter.accepts(&arp, 60), "{open}");
            for count in [most + 2, 4000] {
                let error = Filter::new(&nested(open, count, close)).unwrap_err();
                assert!(error.to_string().contains("within each other"), "{error}");
            }
        }
        for text in [many(3000), " ".repeat(LONGEST) + "arp"] {
            let error = Filter::new(&text).unwrap_err();
            assert!(error.to_string().contains("of at most"), "{error}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_an_example() {
        for text in [
            "",
            "udp port",
            "port http and (",
            "host 1.2.3",
            "§",
            "nonsense 7",
        ] {
            let error = Filter::new(text).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }), "{text}");
        }
    }
}
