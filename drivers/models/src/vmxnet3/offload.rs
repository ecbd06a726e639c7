//! What a driver may leave to the device when it sends: a checksum, a VLAN tag, segmentation.

use super::bits::{desc, limit};
use super::packet::{Ip, Packet, TCP};
use super::tx::om_of;
use crate::frames::Batch;
use crate::virtio::checksum::{complete, fold, sum};

/// TCP flags, by their place in the header (RFC 9293 §3.1).
const FLAGS: usize = 13;
const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;
const ADDRESSES: usize = 12;

/// Sends `frame` with what `word`, of its first slot, asks for; what is wrong with that,
/// otherwise.
pub(super) fn send(word: u64, frame: &mut Vec<u8>, batch: &mut Batch) -> Result<(), String> {
    let field = |shift: u32, bits: u32| {
        usize::try_from(word >> shift & ((1 << bits) - 1)).expect("a field of 14 bits at most")
    };
    let (hlen, msscof) = (field(desc::TX_HLEN, 10), field(desc::TX_MSSCOF, 14));
    let tag = (word & desc::TX_TI != 0).then(|| {
        let tci = u16::try_from(word >> desc::TX_TCI).expect("16 bits");
        tci.to_be_bytes()
    });
    match om_of(word) {
        desc::OM_NONE => {}
        desc::OM_CSUM => checksum(frame, hlen, msscof)?,
        desc::OM_TSO => return segments(frame, hlen, msscof, tag, batch),
        om => return Err(format!("offload mode {om}, which is not modelled")),
    }
    push(frame, tag, batch);
    Ok(())
}

fn push(frame: &mut Vec<u8>, tag: Option<[u8; 2]>, batch: &mut Batch) {
    if let Some([high, low]) = tag {
        frame.splice(ADDRESSES..ADDRESSES, [0x81, 0, high, low]);
    }
    batch.push_bytes(frame);
}

/// Completes the checksum at `at`, which covers what lies behind `start`; the sum of the
/// pseudo-header is there already.
fn checksum(frame: &mut [u8], start: usize, at: usize) -> Result<(), String> {
    let bytes = frame.len();
    let wrong = || format!("checksum at {at} from {start} on, in a frame of {bytes} bytes");
    let offset = at.checked_sub(start).ok_or_else(wrong)?;
    if start < ADDRESSES || at > limit::CSUM_OFFSET {
        return Err(wrong());
    }
    // QEMU looks for the headers itself, so on it any place does; not so on a real device.
    let packet = Packet::find(frame);
    let expected = packet.and_then(|packet| Some((packet.transport, packet.checksum_at()?)));
    if let Some(expected) = expected
        && expected != (start, at)
    {
        return Err(format!("{}, and not at {expected:?}", wrong()));
    }
    if complete(frame, start, offset) {
        Ok(())
    } else {
        Err(wrong())
    }
}

/// Cuts a TCP frame with `hlen` bytes of headers into segments of `mss`.
fn segments(
    frame: &[u8],
    hlen: usize,
    mss: usize,
    tag: Option<[u8; 2]>,
    batch: &mut Batch,
) -> Result<(), String> {
    let packet = Packet::find(frame).filter(|packet| packet.protocol == TCP);
    let fits = |packet: &Packet| packet.transport + 20 <= hlen && hlen < frame.len();
    let Some(packet) = packet.filter(fits).filter(|_| mss > 0) else {
        let bytes = frame.len();
        return Err(format!(
            "segments of {mss} behind {hlen} bytes of headers, in a frame of {bytes} bytes"
        ));
    };
    let (headers, payload) = frame.split_at(hlen);
    let count = payload.len().div_ceil(mss);
    for (n, part) in payload.chunks(mss).enumerate() {
        let mut segment = [headers, part].concat();
        let is_last = n + 1 == count;
        rewrite(&mut segment, &packet, n, n * mss, is_last);
        push(&mut segment, tag, batch);
    }
    Ok(())
}

/// Makes the headers of segment `n`, which begins `behind` bytes into the payload, its own.
fn rewrite(segment: &mut [u8], packet: &Packet, n: usize, behind: usize, is_last: bool) {
    let low16 = |value: usize| u16::try_from(value & 0xffff).expect("16 bits");
    let network = packet.network;
    match packet.ip {
        Ip::V4 => {
            let total = low16(segment.len() - network);
            segment[network + 2..network + 4].copy_from_slice(&total.to_be_bytes());
            let id = u16::from_be_bytes([segment[network + 4], segment[network + 5]]);
            let id = id.wrapping_add(low16(n));
            segment[network + 4..network + 6].copy_from_slice(&id.to_be_bytes());
            segment[network + 10..network + 12].fill(0);
            let sum = !fold(sum(&segment[network..packet.transport]));
            segment[network + 10..network + 12].copy_from_slice(&sum.to_be_bytes());
        }
        Ip::V6 => {
            let payload = low16(segment.len() - network - 40);
            segment[network + 4..network + 6].copy_from_slice(&payload.to_be_bytes());
        }
    }
    let at = packet.transport;
    let number = segment[at + 4..].first_chunk().expect("a TCP header");
    let behind = u32::try_from(behind).expect("less than a frame");
    let number = u32::from_be_bytes(*number).wrapping_add(behind);
    segment[at + 4..at + 8].copy_from_slice(&number.to_be_bytes());
    if !is_last {
        segment[at + FLAGS] &= !(FIN | PSH);
    }
    if n > 0 {
        segment[at + FLAGS] &= !CWR;
    }
    segment[at + 16..at + 18].fill(0);
    let len = segment.len() - at;
    let pseudo = packet.pseudo(segment, len).unwrap_or(0);
    let sum = !fold(pseudo + sum(&segment[at..]));
    segment[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::frames::WireFrame;
    use hugemem::SimSpace;

    /// Bytes of each frame of the batch.
    fn frames(batch: &Batch) -> Vec<Vec<u8>> {
        let mut memory = SimSpace::new().translator();
        let (frames, mut carrier) = batch.carrier(&mut memory);
        let mut bytes = |frame: &WireFrame| {
            let mut bytes = vec![0; frame.len() as usize];
            carrier.read(frame, &mut bytes).unwrap();
            bytes
        };
        frames.iter().map(&mut bytes).collect()
    }

    fn tcp(payload: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        let total = u16::try_from(40 + payload).unwrap();
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0xff, 0xff, 0, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([
            0,
            1,
            0,
            2,
            0xff,
            0xff,
            0xff,
            0xf0,
            0,
            0,
            0,
            0,
            0x50,
            FIN | PSH | CWR,
        ]);
        frame.extend([0; 6]);
        frame.extend((0u8..=255).cycle().take(payload));
        frame
    }

    fn tso(hlen: u64, mss: u64) -> u64 {
        desc::OM_TSO << desc::TX_OM | hlen << desc::TX_HLEN | mss << desc::TX_MSSCOF
    }

    #[test]
    fn segments_carry_the_whole_payload_with_headers_of_their_own() {
        let whole = tcp(2500);
        let mut batch = Batch::new();
        let word = tso(54, 1000) | desc::TX_TI | 7 << desc::TX_TCI;
        send(word, &mut whole.clone(), &mut batch).unwrap();
        let segments = frames(&batch);
        assert_eq!(segments.len(), 3);
        let payload: Vec<u8> = segments.iter().flat_map(|s| s[58..].to_vec()).collect();
        assert_eq!(payload, whole[54..]);
        for (n, segment) in segments.iter().enumerate() {
            assert_eq!(segment[12..16], [0x81, 0, 0, 7]);
            let packet = Packet::find(segment).unwrap();
            assert_eq!(packet.end, segment.len());
            assert!(packet.is_header_good(segment));
            assert_eq!(packet.is_payload_good(segment), Some(true));
            let id = u16::from_be_bytes([segment[22], segment[23]]);
            assert_eq!(id, 0xffffu16.wrapping_add(u16::try_from(n).unwrap()));
            let number = u32::from_be_bytes(*segment[42..].first_chunk().unwrap());
            assert_eq!(
                number,
                0xffff_fff0u32.wrapping_add(u32::try_from(n).unwrap() * 1000)
            );
        }
        let flags: Vec<u8> = segments.iter().map(|segment| segment[51]).collect();
        assert_eq!(flags, [CWR, 0, FIN | PSH]);
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        let flaw = |word: u64, frame: &[u8]| {
            let mut batch = Batch::new();
            let flaw = send(word, &mut frame.to_vec(), &mut batch).unwrap_err();
            assert!(batch.is_empty());
            flaw
        };
        let csum = |start: u64, at: u64| {
            desc::OM_CSUM << desc::TX_OM | start << desc::TX_HLEN | at << desc::TX_MSSCOF
        };
        assert!(flaw(csum(34, 33), &tcp(10)).contains("checksum at 33 from 34"));
        assert!(flaw(csum(34, 40), &tcp(10)).contains("not at (34, 50)"));
        assert!(flaw(csum(14, 1025), &[0; 1200]).contains("checksum at 1025"));
        assert!(flaw(csum(14, 59), &[0; 60]).contains("checksum at 59"));
        assert!(flaw(1 << desc::TX_OM, &tcp(10)).contains("mode 1"));
        assert!(flaw(tso(54, 0), &tcp(10)).contains("segments of 0"));
        assert!(flaw(tso(53, 9), &tcp(10)).contains("behind 53 bytes"));
        assert!(flaw(tso(64, 9), &tcp(10)).contains("behind 64 bytes"));
    }
}
