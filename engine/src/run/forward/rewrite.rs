//! What forwarding does to a frame's bytes. A frame that is too short for what its headers say is
//! left as it is.

pub(super) use crate::headers::set_macs;
use crate::headers::{IPV4, IPV6, ethertype, ipv4, swap};

/// Protocols with ports in their first four bytes: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// Source and destination MAC address change places.
#[inline]
pub(super) fn swap_macs(frame: &mut [u8]) {
    if let Some(macs) = frame.first_chunk_mut::<12>() {
        let (dst, src) = macs.split_at_mut(6);
        dst.swap_with_slice(src);
    }
}

/// Source and destination change places on every layer that there is.
#[inline]
pub(super) fn swap_all(frame: &mut [u8]) {
    swap_macs(frame);
    let Some((kind, at)) = ethertype(frame) else {
        return;
    };
    let ports = match kind {
        IPV4 => {
            let header = ipv4(frame, at);
            swap(frame, at + 12, 4);
            header
                .filter(|header| header.offset == 0)
                .map(|header| (header.protocol, header.end))
        }
        IPV6 => {
            swap(frame, at + 8, 16);
            frame.get(at + 6).map(|&next| (next, at + 40))
        }
        _ => None,
    };
    if let Some((protocol, at)) = ports
        && WITH_PORTS.contains(&protocol)
    {
        swap(frame, at, 2);
    }
}
