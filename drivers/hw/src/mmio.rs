//! Register windows, and the tables that name what is in them.
//!
//! The one module that touches a mapped register. A driver holds some [`Bar`] and reads and
//! writes typed registers ([`Reg`]) that a [`registers!`](crate::registers) table declares; a
//! model of a device implements [`Bar`] too, and sees every access in order.
#![expect(unsafe_code, reason = "turns register offsets into pointers")]

use std::marker::PhantomData;
use std::sync::Arc;

use memmap2::MmapRaw;
use volatile_register::RW;

/// A device's register window. Offsets are in bytes, naturally aligned; values are in the
/// host's order (registers are little endian, as PCI says).
pub trait Bar {
    /// Bytes in the window.
    fn len(&self) -> u64;
    /// True where the window has no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads one byte.
    fn load8(&self, offset: u32) -> u8;
    /// Reads two bytes.
    fn load16(&self, offset: u32) -> u16;
    /// Reads four bytes.
    fn load32(&self, offset: u32) -> u32;
    /// Writes one byte.
    fn store8(&self, offset: u32, value: u8);
    /// Writes two bytes.
    fn store16(&self, offset: u32, value: u16);
    /// Writes four bytes.
    fn store32(&self, offset: u32, value: u32);

    /// Reads `reg`.
    fn read<V: Value, A: Readable>(&self, reg: Reg<V, A>) -> V {
        V::load(self, reg.offset)
    }
    /// Writes `reg`.
    fn write<V: Value, A: Writable>(&self, reg: Reg<V, A>, value: V) {
        value.store(self, reg.offset);
    }
    /// Reads `reg`, changes it, writes it back.
    fn update<V: Value, A: Readable + Writable>(
        &self,
        reg: Reg<V, A>,
        change: impl FnOnce(V) -> V,
    ) {
        self.write(reg, change(self.read(reg)));
    }
}

/// A value that a register can hold: how wide the access is, and how the bits are read.
pub trait Value: Sized {
    /// Reads it at `offset`.
    fn load<B: Bar + ?Sized>(bar: &B, offset: u32) -> Self;
    /// Writes it at `offset`.
    fn store<B: Bar + ?Sized>(self, bar: &B, offset: u32);
}

macro_rules! plain {
    ($($int:ty: $load:ident $store:ident),*) => { $(
        impl Value for $int {
            fn load<B: Bar + ?Sized>(bar: &B, offset: u32) -> Self {
                bar.$load(offset)
            }
            fn store<B: Bar + ?Sized>(self, bar: &B, offset: u32) {
                bar.$store(offset, self);
            }
        }
    )* };
}
plain!(u8: load8 store8, u16: load16 store16, u32: load32 store32);

/// Two 32-bit accesses, low half first, as virtio 1.2 §4.1.3.1 asks for 64-bit fields.
impl Value for u64 {
    fn load<B: Bar + ?Sized>(bar: &B, offset: u32) -> Self {
        let low = bar.load32(offset);
        u64::from(low) | u64::from(bar.load32(offset + 4)) << 32
    }
    fn store<B: Bar + ?Sized>(self, bar: &B, offset: u32) {
        let [a, b, c, d, e, f, g, h] = self.to_le_bytes();
        bar.store32(offset, u32::from_le_bytes([a, b, c, d]));
        bar.store32(offset + 4, u32::from_le_bytes([e, f, g, h]));
    }
}

/// Gives `bitflags` types the access of the integer they are made of, keeping unnamed bits.
#[macro_export]
macro_rules! register_bits {
    ($($flags:ty: $int:ty),* $(,)?) => { $(
        impl $crate::mmio::Value for $flags {
            fn load<B: $crate::mmio::Bar + ?Sized>(bar: &B, offset: u32) -> Self {
                Self::from_bits_retain(<$int as $crate::mmio::Value>::load(bar, offset))
            }
            fn store<B: $crate::mmio::Bar + ?Sized>(self, bar: &B, offset: u32) {
                <$int as $crate::mmio::Value>::store(self.bits(), bar, offset);
            }
        }
    )* };
}

/// One register: an offset, the type it holds and the access it allows.
pub struct Reg<V, A> {
    offset: u32,
    shape: PhantomData<fn(A) -> V>,
}

impl<V, A> Clone for Reg<V, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V, A> Copy for Reg<V, A> {}

impl<V, A> Reg<V, A> {
    /// A register at `offset`.
    #[must_use]
    pub const fn at(offset: u32) -> Self {
        Self {
            offset,
            shape: PhantomData,
        }
    }

    /// Bytes from the start of the window.
    #[must_use]
    pub const fn offset(self) -> u32 {
        self.offset
    }
}

/// `N` registers of one shape, a fixed stride apart.
pub struct RegArray<V, A, const N: u32> {
    base: u32,
    stride: u32,
    shape: PhantomData<fn(A) -> V>,
}

impl<V, A, const N: u32> RegArray<V, A, N> {
    /// `N` registers from `base`, `stride` bytes apart.
    #[must_use]
    pub const fn at(base: u32, stride: u32) -> Self {
        Self {
            base,
            stride,
            shape: PhantomData,
        }
    }

    /// The register for `index`.
    #[must_use]
    pub const fn of(&self, index: u32) -> Reg<V, A> {
        assert!(index < N, "register index past the end of its array");
        Reg::at(self.base + self.stride * index)
    }
}

/// Read-only.
#[derive(Debug)]
pub enum Ro {}
/// Read and write.
#[derive(Debug)]
pub enum Rw {}
/// Write-only.
#[derive(Debug)]
pub enum Wo {}
/// Cleared by the read: whoever reads it must keep what was read.
#[derive(Debug)]
pub enum Rc {}
/// Access that includes reading.
pub trait Readable {}
/// Access that includes writing.
pub trait Writable {}
impl Readable for Ro {}
impl Readable for Rw {}
impl Readable for Rc {}
impl Writable for Rw {}
impl Writable for Wo {}

/// Where a register is and what the datasheet calls it: for dumps, and for the test that
/// compares a driver's table with the device model's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegInfo {
    /// Datasheet name.
    pub name: &'static str,
    /// First byte.
    pub offset: u32,
    /// Distance between elements of an array, in bytes.
    pub stride: u32,
    /// How many there are.
    pub count: u32,
}

/// Declares registers, and a `MAP` of all of them.
///
/// ```
/// hw::registers! {
///     /// Device status (virtio 1.2 §4.1.4.3).
///     STATUS @ 0x14: Rw u8;
///     /// Receive descriptor tail.
///     RDT[64 step 0x40] @ 0x1018: Rw u32;
/// }
/// assert_eq!(STATUS.offset(), 0x14);
/// assert_eq!(RDT.of(2).offset(), 0x1098);
/// assert_eq!(MAP[1].count, 64);
/// ```
#[macro_export]
macro_rules! registers {
    ($( $(#[$doc:meta])* $name:ident $([$n:literal step $step:literal])? @ $offset:literal : $access:ident $value:ty; )*) => {
        $( $crate::registers!(@one $(#[$doc])* $name $([$n step $step])? @ $offset : $access $value); )*
        /// Every register of this table.
        pub const MAP: &[$crate::mmio::RegInfo] = &[
            $( $crate::registers!(@info $name $([$n step $step])? @ $offset) ),*
        ];
    };
    (@one $(#[$doc:meta])* $name:ident @ $offset:literal : $access:ident $value:ty) => {
        $(#[$doc])*
        pub const $name: $crate::mmio::Reg<$value, $crate::mmio::$access> = $crate::mmio::Reg::at($offset);
    };
    (@one $(#[$doc:meta])* $name:ident [$n:literal step $step:literal] @ $offset:literal : $access:ident $value:ty) => {
        $(#[$doc])*
        pub const $name: $crate::mmio::RegArray<$value, $crate::mmio::$access, $n> = $crate::mmio::RegArray::at($offset, $step);
    };
    (@info $name:ident @ $offset:literal) => {
        $crate::mmio::RegInfo { name: stringify!($name), offset: $offset, stride: 4, count: 1 }
    };
    (@info $name:ident [$n:literal step $step:literal] @ $offset:literal) => {
        $crate::mmio::RegInfo { name: stringify!($name), offset: $offset, stride: $step, count: $n }
    };
}

/// A run of bits inside a register or descriptor word.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    shift: u32,
    width: u32,
}

impl Field {
    /// Bits `high..=low`, numbered as datasheets do.
    #[must_use]
    pub const fn bits(high: u32, low: u32) -> Self {
        assert!(low <= high && high < 64, "a field lies inside one word");
        Self {
            shift: low,
            width: high - low + 1,
        }
    }

    /// The field's value in `word`.
    #[must_use]
    pub const fn get(self, word: u64) -> u64 {
        (word >> self.shift) & self.max()
    }

    /// `value` moved into place.
    #[must_use]
    pub const fn put(self, value: u64) -> u64 {
        assert!(value <= self.max(), "value does not fit its field");
        value << self.shift
    }

    const fn max(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }
}

/// A register window mapped from a VFIO region.
#[derive(Clone, Debug)]
pub struct MappedBar {
    map: Arc<MmapRaw>,
}

impl MappedBar {
    /// The window that `map` maps: of a device, to read and write.
    #[must_use]
    pub(crate) fn new(map: MmapRaw) -> Self {
        Self { map: Arc::new(map) }
    }

    /// The register cell at `offset`: the only place where an offset becomes a pointer.
    fn cell<T: Copy>(&self, offset: u32) -> &RW<T> {
        let size = size_of::<T>();
        let offset = offset as usize;
        assert!(
            offset + size <= self.map.len(),
            "register {offset:#x} is past the window"
        );
        let cell: *const RW<T> = self.map.as_mut_ptr().wrapping_add(offset).cast();
        // The pointer, not the offset: a window may begin anywhere in a page.
        assert!(cell.is_aligned(), "register {offset:#x} is not aligned");
        // SAFETY: the pointer is inside the mapping and aligned (asserted above), the mapping
        // lives as long as `self`, and `RW` is an `UnsafeCell`, so the shared reference does
        // not claim that the device leaves the value alone.
        unsafe { &*cell }
    }
}

macro_rules! access {
    ($($load:ident $store:ident $int:ty),*) => { $(
        fn $load(&self, offset: u32) -> $int {
            <$int>::from_le(self.cell::<$int>(offset).read())
        }
        fn $store(&self, offset: u32, value: $int) {
            let cell = self.cell::<$int>(offset);
            // SAFETY: a write to a register of the device that this process owns, as whoever maps
            // windows (`vfio`, the one caller of `MappedBar::new`) sees to; what the
            // write makes the device do is bounded by its DMA space.
            unsafe { cell.write(value.to_le()) }
        }
    )* };
}

impl Bar for MappedBar {
    fn len(&self) -> u64 {
        self.map.len() as u64
    }
    access!(load8 store8 u8, load16 store16 u16, load32 store32 u32);
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_field_is_cut_out_and_put_back() {
        let field = Field::bits(11, 4);
        assert_eq!(field.get(0xabcd), 0xbc);
        assert_eq!(field.put(0xbc), 0xbc0);
        assert_eq!(Field::bits(63, 0).get(u64::MAX), u64::MAX);
    }

    #[test]
    fn mapped_registers_keep_their_width_and_place() {
        let map = MmapRaw::from(memmap2::MmapMut::map_anon(4096).unwrap());
        let bar = MappedBar::new(map);
        bar.store32(8, 0x1122_3344);
        assert_eq!((bar.load8(8), bar.load16(10)), (0x44, 0x1122));
        bar.write(Reg::<u64, Rw>::at(16), 0x0102_0304_0506_0708);
        assert_eq!(bar.load32(20), 0x0102_0304);
        assert_eq!(bar.read(Reg::<u64, Ro>::at(16)), 0x0102_0304_0506_0708);
    }

    #[test]
    #[should_panic(expected = "past the window")]
    fn a_register_past_the_window_is_refused() {
        let map = MmapRaw::from(memmap2::MmapMut::map_anon(4096).unwrap());
        MappedBar::new(map).load32(4096);
    }
}
