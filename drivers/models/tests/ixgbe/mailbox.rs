//! The physical function's registers of mailboxes and of what virtual functions do.

use hw::Bar;
use models::Device;
use models::ixgbe::{Ixgbe, Kind};

use crate::guest::{Guest, MAC_A, Wish, assert_clean, options, stepped};

/// A physical function with its registers under hand.
struct Physical(Ixgbe);

impl Physical {
    fn new(kind: Kind) -> Self {
        let mut device = Ixgbe::new("a", &options(kind, MAC_A));
        device.config_write(4, 2, 6);
        let mut physical = Self(device);
        // Its reset is over, and it listens to all.
        physical.write(0x18, 1 << 14);
        for n in 0..4 {
            physical.write(0x720 + 4 * n, u32::MAX);
        }
        physical
    }
    fn read(&mut self, offset: u32) -> u32 {
        self.0.bar_read(0, offset, 4)
    }
    fn write(&mut self, offset: u32, value: u32) {
        self.0.bar_write(0, offset, 4, value);
    }
}

#[test]
fn both_ends_of_every_mailbox_hear_of_each_other() {
    let mut pf = Physical::new(Kind::I82599);
    for vf in [0u32, 1, 15, 16, 47, 63] {
        let number = vf as usize;
        let (control, memory) = (0x4b00 + 4 * vf, 0x1_3000 + 64 * vf);
        let (causes, bit) = (0x710 + vf / 16 * 4, 1 << (vf % 16));
        assert_eq!(pf.0.read_as_vf(number, 0x2fc), 0x80, "RSTD, once");
        assert_eq!(pf.0.read_as_vf(number, 0x2fc), 0);
        pf.0.write_as_vf(number, 0x2fc, 4);
        assert_eq!(pf.0.read_as_vf(number, 0x2fc), 4);
        pf.0.write_as_vf(number, 0x200, 0x1000 + vf);
        pf.write(control, 8);
        assert_eq!(pf.read(control), 4, "the virtual function has it");
        pf.0.write_as_vf(number, 0x2fc, 1);
        assert_eq!(pf.read(0x800), 1 << 19, "EICR.MAILBOX");
        assert_eq!(pf.read(causes), bit, "a request");
        pf.write(causes, bit);
        assert_eq!(pf.read(causes), 0);
        assert_eq!(pf.read(memory), 0x1000 + vf);
        pf.write(control, 8);
        pf.write(control, 2);
        assert_eq!(pf.0.read_as_vf(number, 0x2fc), 0x20, "PFACK");
        pf.write(control, 8);
        pf.write(memory, 0x8000_1000 + vf);
        pf.write(control, 1);
        assert_eq!(pf.0.read_as_vf(number, 0x2fc), 0x10, "PFSTS");
        pf.0.write_as_vf(number, 0x2fc, 4);
        assert_eq!(pf.0.read_as_vf(number, 0x200), 0x8000_1000 + vf);
        pf.0.write_as_vf(number, 0x2fc, 2);
        assert_eq!(pf.read(causes), bit << 16, "an acknowledgement");
        pf.write(causes, bit << 16);
        pf.read(0x800);
    }
    assert_eq!(pf.0.objections().all(), [""; 0]);
}

#[test]
fn a_virtual_functions_reset_shows_until_it_is_cleared() {
    for kind in [Kind::I82599, Kind::X540] {
        let mut pf = Physical::new(kind);
        for (vf, shown, clear) in [(3u32, 0x600, 0x700), (40, 0x1c0, 0x704)] {
            pf.0.write_as_vf(vf as usize, 0, 1 << 26);
            let bit = 1 << (vf % 32);
            assert_eq!((pf.read(shown), pf.read(0x800)), (bit, 1 << 19));
            let seen = if kind == Kind::X540 { bit } else { 0 };
            assert_eq!(pf.read(clear), seen, "X540 shows it here too");
            pf.write(clear, bit);
            assert_eq!(pf.read(shown), 0);
        }
        assert_eq!(pf.0.objections().all(), [""; 0]);
    }
}

#[test]
fn a_mailbox_is_written_by_who_holds_it() {
    let sim = stepped(Kind::I82599);
    let a = Guest::attach(sim.function(0), false, Wish::default());
    a.bar.store32(0x18, 1 << 14);
    for n in [0, 1, 31, 63] {
        let (control, memory) = (0x4b00 + 4 * n, 0x1_3000 + 64 * n);
        assert_eq!(a.bar.load32(control), 0);
        a.bar.store32(control, 1 << 3);
        assert_eq!(a.bar.load32(control), 1 << 3, "PFU");
        a.bar.store32(memory, 0x8000_0001 + n);
        a.bar.store32(memory + 60, n);
        a.bar.store32(control, 1);
        assert_eq!(a.bar.load32(control), 0);
        assert_eq!(a.bar.load32(memory), 0x8000_0001 + n);
        assert_eq!(a.bar.load32(memory + 60), n);
    }
    assert_clean(&sim);
    a.bar.store32(0x1_3000, 7);
    a.bar.store32(0x4b00, 1);
    let objections = sim.objections();
    assert_eq!(objections.len(), 2, "{objections:?}");
    assert!(objections[0].contains("written without being held (PFU)"));
}
