//! Which pair of queues a received frame goes to.

/// A number that is the same for all frames of a flow: of IP addresses, protocol and ports, or of
/// the Ethernet header where there is no IP. `head` is the frame's beginning.
pub(super) fn flow_hash(head: &[u8]) -> u32 {
    let mut at = 12;
    while let Some([0x81, 0x00] | [0x88, 0xa8]) = head.get(at..at + 2) {
        at += 4;
    }
    let flow = match head.get(at..at + 2) {
        Some([0x08, 0x00]) => ipv4(head.get(at + 2..).unwrap_or_default()),
        Some([0x86, 0xdd]) => ipv6(head.get(at + 2..).unwrap_or_default()),
        _ => None,
    };
    let (addresses, ports) = flow.unwrap_or((head.get(..at).unwrap_or(head), &[]));
    let bytes = addresses.iter().chain(ports);
    // FNV-1a: nothing hangs on its quality but an even spread.
    let hash = bytes.fold(0x811c_9dc5u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash ^ hash >> 16
}

/// Addresses, and ports where there are some.
fn ipv4(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let has_ports = matches!(packet.get(9)?, 6 | 17) && packet[6] & 0x3f == 0 && packet[7] == 0;
    let ports = packet.get(header..header + 4).filter(|_| has_ports);
    Some((packet.get(12..20)?, ports.unwrap_or_default()))
}

fn ipv6(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let has_ports = matches!(packet.get(6)?, 6 | 17);
    let ports = packet.get(40..44).filter(|_| has_ports);
    Some((packet.get(8..40)?, ports.unwrap_or_default()))
}
