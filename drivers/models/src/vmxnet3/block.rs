//! A structure in the driver's memory, read once and then looked at field by field.

use hugemem::{IommuFault, Iova, Translator};

/// A copy of `N` bytes of the driver's memory; fields are little-endian.
pub(super) struct Block<const N: usize>([u8; N]);

impl<const N: usize> Block<N> {
    /// Reads the structure at `at`.
    pub(super) fn read(at: u64, memory: &mut Translator) -> Result<Self, IommuFault> {
        let mut bytes = [0; N];
        memory.read(Iova::from_device(at), &mut bytes)?;
        Ok(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
    pub(super) fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }
    pub(super) fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }
    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }
    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn array<const M: usize>(&self, at: usize) -> [u8; M] {
        *self.0[at..]
            .first_chunk()
            .expect("fields lie inside their structure")
    }
}
