//! Segmentation: one long TCP or UDP packet becomes many frames (82599 §7.2.4).

use super::Rings;
use super::send::{Head, SendRules};
use crate::e1000::packet::{fold, sum};
use crate::frames::Batch;
use crate::ixgbe::descriptor::{Context, Draft, bits};
use hugemem::Iova;

/// Longest packet that can be cut (§7.2.4.1: 18 bits of payload).
const LONGEST: usize = 1 << 18;
/// TCP flags that only the last segment keeps, and the one that it loses (`DTXTCPFLGL/H`).
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Where the headers of a packet end.
struct Ends {
    mac: usize,
    ip: usize,
    header: usize,
    is_ipv4: bool,
    is_tcp: bool,
    mss: usize,
}

impl Rings {
    /// Cuts the frame in the segments from `first` on, and adds what comes out to `batch`.
    pub(super) fn segment(
        &mut self,
        draft: &Draft,
        context: &Context,
        tag: Option<u16>,
        first: usize,
        batch: &mut Batch,
        rules: SendRules,
    ) -> Result<Head, String> {
        let mut whole = std::mem::take(&mut self.whole);
        let result = self.gather(draft, first, batch, &mut whole).and_then(|()| {
            let ends = Ends::of(draft, context, &whole)?;
            ends.cut(&whole, tag, batch, rules)
        });
        self.whole = whole;
        result?;
        self.head_of(batch)
    }

    /// The packet in one piece.
    fn gather(
        &mut self,
        draft: &Draft,
        first: usize,
        batch: &Batch,
        whole: &mut Vec<u8>,
    ) -> Result<(), String> {
        let len = usize::try_from(draft.len).unwrap_or(usize::MAX);
        if len > LONGEST {
            return Err(format!("segmentation of {len} bytes, of {LONGEST} at most"));
        }
        whole.clear();
        whole.resize(len, 0);
        let mut at = 0;
        for segment in &batch.segments[first..] {
            let end = at + segment.len as usize;
            let read = self
                .memory
                .read(Iova::from_device(segment.iova), &mut whole[at..end]);
            read.map_err(|fault| fault.to_string())?;
            at = end;
        }
        Ok(())
    }
}

impl Ends {
    fn of(draft: &Draft, context: &Context, whole: &[u8]) -> Result<Self, String> {
        let is_tcp = match context.transport {
            0 => false,
            1 => true,
            other => return Err(format!("segmentation of transport {other}")),
        };
        let (mac, ip) = (context.mac as usize, (context.mac + context.ip) as usize);
        let header = ip + context.l4 as usize;
        let payload = (draft.first >> 46) as usize;
        let least = if is_tcp { 20 } else { 8 };
        if context.mss == 0 || context.l4 < least || header >= whole.len() {
            return Err(format!(
                "segmentation with headers of {header} bytes and segments of {}",
                context.mss
            ));
        }
        if payload != whole.len() - header {
            return Err(format!(
                "PAYLEN {payload} to be cut, of {} bytes behind the headers",
                whole.len() - header
            ));
        }
        let (sums_ip, sums_l4) = (bits(draft.first, 40, 1), bits(draft.first, 41, 1));
        if sums_l4 == 0 || context.is_ipv4 && sums_ip == 0 {
            return Err("segmentation without its checksums (IXSM, TXSM)".into());
        }
        Ok(Self {
            mac,
            ip,
            header,
            is_ipv4: context.is_ipv4,
            is_tcp,
            mss: context.mss as usize,
        })
    }

    fn cut(
        &self,
        whole: &[u8],
        tag: Option<u16>,
        batch: &mut Batch,
        rules: SendRules,
    ) -> Result<(), String> {
        let (headers, payload) = whole.split_at(self.header);
        let count = payload.len().div_ceil(self.mss);
        let mut frame = Vec::with_capacity(self.header + self.mss + 4);
        for (number, part) in payload.chunks(self.mss).enumerate() {
            frame.clear();
            frame.extend_from_slice(headers);
            frame.extend_from_slice(part);
            self.finish(&mut frame, number, number + 1 == count)
                .ok_or("segmentation of headers that are too short")?;
            if let Some(tag) = tag {
                let [a, b] = rules.vlan_type.to_be_bytes();
                let [c, d] = tag.to_be_bytes();
                frame.splice(12..12, [a, b, c, d]);
            }
            batch.push_bytes(&frame);
        }
        Ok(())
    }

    /// Corrects the headers of segment `number`.
    fn finish(&self, frame: &mut [u8], number: usize, is_last: bool) -> Option<()> {
        let len16 = |len: usize| u16::try_from(len).ok();
        let behind = frame.len() - self.mac;
        let ip = frame.get_mut(self.mac..self.ip)?;
        if self.is_ipv4 {
            ip.get_mut(2..4)?
                .copy_from_slice(&len16(behind)?.to_be_bytes());
            let id = u16::from_be_bytes(*ip.get(4..)?.first_chunk()?);
            let id = id.wrapping_add(len16(number)?);
            ip.get_mut(4..6)?.copy_from_slice(&id.to_be_bytes());
            ip.get_mut(10..12)?.fill(0);
            let check = !fold(sum(ip));
            ip.get_mut(10..12)?.copy_from_slice(&check.to_be_bytes());
        } else {
            ip.get_mut(4..6)?
                .copy_from_slice(&len16(behind.checked_sub(40)?)?.to_be_bytes());
        }
        let l4 = frame.get_mut(self.ip..)?;
        let length = l4.len();
        let at = if self.is_tcp { 16 } else { 6 };
        if self.is_tcp {
            let sequence = u32::from_be_bytes(*l4.get(4..)?.first_chunk()?);
            let passed = u32::try_from(number * self.mss).ok()?;
            l4.get_mut(4..8)?
                .copy_from_slice(&sequence.wrapping_add(passed).to_be_bytes());
            l4[13] &= if is_last {
                !CWR | if number == 0 { CWR } else { 0 }
            } else {
                !FIN_PSH
            };
        } else {
            l4.get_mut(4..6)?
                .copy_from_slice(&len16(length)?.to_be_bytes());
        }
        // What stands there is the sum of the pseudo-header without its length.
        let seed = u16::from_be_bytes(*l4.get(at..)?.first_chunk()?);
        l4.get_mut(at..at + 2)?.fill(0);
        let check = match !fold(sum(l4) + u64::from(seed) + length as u64) {
            0 if !self.is_tcp => 0xffff,
            check => check,
        };
        l4.get_mut(at..at + 2)?
            .copy_from_slice(&check.to_be_bytes());
        Some(())
    }
}
