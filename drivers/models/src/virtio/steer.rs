//! Which pair of queues a received frame goes to where nobody said.

/// What frames of one flow have in common.
pub(super) struct Flow<'a> {
    pub(super) v6: bool,
    pub(super) protocol: u8,
    /// Source and destination.
    pub(super) addresses: &'a [u8],
    /// Likewise, of TCP or UDP; none of a fragment.
    pub(super) ports: &'a [u8],
}

impl<'a> Flow<'a> {
    /// The flow of the frame that begins with `head`, if it is one of IP.
    pub(super) fn find(head: &'a [u8]) -> Option<Self> {
        let at = behind_tags(head);
        let packet = head.get(at + 2..).unwrap_or_default();
        match head.get(at..at + 2)? {
            [0x08, 0x00] => Self::ipv4(packet),
            [0x86, 0xdd] => Self::ipv6(packet),
            _ => None,
        }
    }

    fn ipv4(packet: &'a [u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 0xf) * 4;
        let protocol = *packet.get(9)?;
        let has_ports = matches!(protocol, 6 | 17) && packet[6] & 0x3f == 0 && packet[7] == 0;
        let ports = packet.get(header..header + 4).filter(|_| has_ports);
        Some(Self {
            v6: false,
            protocol,
            addresses: packet.get(12..20)?,
            ports: ports.unwrap_or_default(),
        })
    }

    fn ipv6(packet: &'a [u8]) -> Option<Self> {
        let protocol = *packet.get(6)?;
        let has_ports = matches!(protocol, 6 | 17);
        let ports = packet.get(40..44).filter(|_| has_ports);
        Some(Self {
            v6: true,
            protocol,
            addresses: packet.get(8..40)?,
            ports: ports.unwrap_or_default(),
        })
    }
}

/// Where the type of what a frame carries is.
fn behind_tags(head: &[u8]) -> usize {
    let mut at = 12;
    while let Some([0x81, 0x00] | [0x88, 0xa8]) = head.get(at..at + 2) {
        at += 4;
    }
    at
}

/// A number that is the same for all frames of a flow: of IP addresses and ports, or of the
/// Ethernet header where there is no IP. `head` is the frame's beginning.
pub(super) fn flow_hash(head: &[u8]) -> u32 {
    let (addresses, ports) = match Flow::find(head) {
        Some(flow) => (flow.addresses, flow.ports),
        None => (head.get(..behind_tags(head)).unwrap_or(head), &[][..]),
    };
    let bytes = addresses.iter().chain(ports);
    // FNV-1a: nothing hangs on its quality but an even spread.
    let hash = bytes.fold(0x811c_9dc5u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash ^ hash >> 16
}
