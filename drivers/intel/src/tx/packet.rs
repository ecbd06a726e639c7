//! Packets of several buffers, with offloads, too short, or too long: what a burst is not made of
//! in a hurry.

use hugemem::{Burst, Frame, TxFlags};
use hw::Bar;
use port::Headers;

use super::{Tx, bytes};
use crate::format::{Asks, Piece, SendFormat};

impl<B: Bar, S: SendFormat> Tx<B, S> {
    /// Posts frames of any kind; how many buffers.
    pub(super) fn post_mixed(&mut self, frames: &mut Burst) -> usize {
        let mut buffers = 0;
        while !frames.is_empty() {
            let more = frames.iter().take_while(|frame| goes_on(frame)).count();
            let segments = (more + 1).min(frames.len());
            assert!(
                segments <= S::SEGMENTS,
                "a packet has at most as many buffers as caps say"
            );
            // A context may come before it.
            if self.free() < segments + 1 || self.held.room() < segments {
                break;
            }
            let parts = &mut frames.as_mut_slice()[..segments];
            let total: usize = parts.iter().map(|frame| frame.len()).sum();
            let empty = parts.iter().any(|frame| frame.is_empty());
            if total > self.largest || empty {
                // Nothing of it reaches the wire; it comes back with those before it.
                self.refused += 1;
                self.counts.posted += 1;
                self.owned += segments as u64;
            } else {
                self.post_packet(parts, total);
                self.count(1, segments);
                self.mark(false);
            }
            self.held.put(frames, segments);
            buffers += segments;
        }
        buffers
    }

    /// Writes the slots of one packet.
    fn post_packet(&mut self, parts: &mut [Frame], total: usize) {
        let asks = self.asks(&mut parts[0]);
        if let Some(context) = self.format.context(&asks)
            && self.context != Some(context)
        {
            self.put(context);
            self.context = Some(context);
        }
        let last = parts.len() - 1;
        let short = self.shortest.saturating_sub(total);
        let total = bytes(total + short);
        for (number, frame) in parts.iter_mut().enumerate() {
            let mut len = frame.len();
            if number == last && short > 0 {
                len = pad(frame, short);
            }
            let piece = Piece {
                iova: frame.iova().get(),
                len: bytes(len),
                last: number == last,
                total,
            };
            self.put(self.format.piece(&piece, &asks));
        }
    }

    /// What the packet that begins with `frame` asks of the device.
    fn asks(&self, frame: &mut Frame) -> Asks {
        let flags = frame.flags & self.offloads;
        let mut asks = Asks::default();
        if flags.contains(TxFlags::VLAN) {
            asks.vlan = Some(frame.vlan);
        }
        if flags.intersects(TxFlags::IPV4_CHECKSUM | TxFlags::L4_CHECKSUM)
            && let Some(headers) = Headers::find(frame.bytes())
            && self.format.reaches(&headers)
        {
            asks.ipv4 = flags.contains(TxFlags::IPV4_CHECKSUM) && headers.is_ipv4;
            asks.l4 = flags.contains(TxFlags::L4_CHECKSUM) && headers.l4_sum.is_some();
            asks.headers = (asks.ipv4 || asks.l4).then_some(headers);
            if asks.ipv4 {
                // Legacy devices sum over the field too (8254x developer's manual §3.5), others
                // want it so (82599 datasheet §7.2.5).
                let at = headers.ipv4_sum();
                frame.bytes_mut()[at..at + 2].fill(0);
            }
        }
        asks
    }
}

/// True if the next frame continues this one.
#[inline]
fn goes_on(frame: &Frame) -> bool {
    frame.flags.contains(TxFlags::MORE)
}

/// Makes `short` bytes behind the frame zero, as many as it has room for, and says how many bytes
/// to post. The frame itself does not change.
#[cold]
fn pad(frame: &mut Frame, short: usize) -> usize {
    let len = frame.len();
    let end = (len + short).min(frame.capacity());
    frame.room_mut()[len..end].fill(0);
    end
}
