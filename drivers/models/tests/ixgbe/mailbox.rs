//! The physical function's registers of mailboxes and of what virtual functions do.

use hw::Bar;
use models::ixgbe::Kind;

use crate::guest::{Guest, Wish, assert_clean, stepped};

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
