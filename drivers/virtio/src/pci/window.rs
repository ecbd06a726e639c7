//! A part of a BAR: the structure that a capability points to.

use hw::Bar;

/// The bytes from `base` on of a BAR, `len` of them.
#[derive(Clone)]
pub(crate) struct Window<B> {
    bar: B,
    base: u32,
    len: u32,
}

impl<B: Bar> Window<B> {
    /// The part, if it lies inside the BAR.
    pub(crate) fn new(bar: B, base: u32, len: u32) -> Option<Self> {
        let end = u64::from(base) + u64::from(len);
        (end <= bar.len()).then_some(Self { bar, base, len })
    }

    /// The offset in the BAR of byte `offset` of the window.
    fn at(&self, offset: u32) -> u32 {
        assert!(offset < self.len, "a register lies inside its structure");
        self.base + offset
    }
}

impl<B: Bar> Bar for Window<B> {
    fn len(&self) -> u64 {
        u64::from(self.len)
    }
    fn load8(&self, offset: u32) -> u8 {
        self.bar.load8(self.at(offset))
    }
    fn load16(&self, offset: u32) -> u16 {
        self.bar.load16(self.at(offset))
    }
    fn load32(&self, offset: u32) -> u32 {
        self.bar.load32(self.at(offset))
    }
    fn store8(&self, offset: u32, value: u8) {
        self.bar.store8(self.at(offset), value);
    }
    fn store16(&self, offset: u32, value: u16) {
        self.bar.store16(self.at(offset), value);
    }
    fn store32(&self, offset: u32, value: u32) {
        self.bar.store32(self.at(offset), value);
    }
}
