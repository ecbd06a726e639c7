//! Programs and the frames that they are for: fields, lengths, checksums.

use super::program::{Fix, Mask, Program, Write};
use crate::frame::checksum::Covered;
use crate::frame::{FieldAt, Layer, Template};

impl Write {
    /// Writes `var` into a field: whole bytes, or the field's bits alone. Of a field wider than
    /// 64 bits, the low 64 are written.
    #[must_use]
    pub fn field(var: impl Into<String>, field: &FieldAt) -> Self {
        let bits = field.bits.min(64);
        let (first, end) = (field.bit + field.bits - bits, field.bit + field.bits);
        let (offset, width) = (first / 8, end.div_ceil(8) - first / 8);
        let write = Self::new(var, offset, width);
        if bits == width * 8 {
            return write;
        }
        let below = width * 8 - (first % 8 + bits);
        let shift = i8::try_from(below).expect("less than a byte");
        write.masked(((1 << bits) - 1) << below, shift)
    }
}

impl Program {
    /// Makes `var` the frame's length without FCS, and puts what follows from it into every
    /// length field of `template`: IPv4, IPv6, UDP, GTP-U.
    pub fn resize(&mut self, template: &Template, var: impl Into<String>) {
        let var = var.into();
        for layer in &template.layers {
            // Where the field is, and what it counts from.
            let (at, from) = match layer.layer {
                Layer::Ipv4 => (2, 0),
                Layer::Ipv6 => (4, 40),
                Layer::Udp => (4, 0),
                Layer::Gtpu => (2, 8),
                _ => continue,
            };
            let before = i64::try_from(layer.offset + from).expect("a frame is at most 64 KiB");
            self.writes
                .push(Write::new(&var, layer.offset + at, 2).adding(-before));
        }
        self.size = Some(var);
    }

    /// Corrects every checksum of `template` that covers something that varies, but those that
    /// were set by hand (a UDP checksum of 0 stays 0).
    pub fn correct(&mut self, template: &Template) {
        let touched = |first: usize, end: usize| {
            self.writes
                .iter()
                .any(|write| write.offset < end && write.offset + write.width > first)
        };
        let mut fixes: Vec<Fix> = Vec::new();
        for fix in template.checksums() {
            let Some(covered) = Covered::find(&template.bytes, &fix) else {
                continue;
            };
            let inner = |other: &Fix| (covered.first..covered.end).contains(&other.at());
            let addresses = covered
                .addresses
                .is_some_and(|(first, end)| touched(first, end));
            let resized = self.size.is_some() && !matches!(fix, Fix::Ipv4 { .. });
            if touched(covered.first, covered.end)
                || addresses
                || resized
                || fixes.iter().any(inner) && !matches!(fix, Fix::Ipv4 { .. })
            {
                fixes.push(fix);
            }
        }
        self.fixes = fixes;
    }
}

impl Mask {
    /// How many bits it lets through.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        self.mask.count_ones()
    }
}
