//! The virtio driver on the model of a virtio device: the whole conformance suite, for each way
//! in which the two can agree on rings.

use models::virtio::Identity;
use rig::conformance::run_all;
use rig::sims::{Variant, pair};

#[track_caller]
fn conforms(variant: &Variant) {
    match run_all(&|| pair(variant)) {
        Ok(lines) => {
            let held = lines.iter().filter(|line| line.starts_with("ok: ")).count();
            assert!(
                held >= 15,
                "hardly anything was checked:\n{}",
                lines.join("\n")
            );
            println!("{}", lines.join("\n"));
        }
        Err(failures) => panic!("{variant:?}\n{failures}"),
    }
}

macro_rules! variants {
    ($($name:ident: $variant:expr;)*) => {
        $(#[test]
        fn $name() {
            conforms(&$variant);
        })*
    };
}

variants! {
    split_rings_conform: Variant::rings(false, false);
    split_rings_in_order_conform: Variant::rings(false, true);
    split_rings_without_mergeable_buffers_conform: Variant::rings(false, false).mergeable(false);
    split_rings_without_indirect_tables_conform: Variant::rings(false, false).indirect(false);
    split_rings_on_a_device_that_sleeps_conform: Variant::rings(false, false).sleepy();
    packed_rings_conform: Variant::rings(true, false);
    packed_rings_in_order_conform: Variant::rings(true, true);
    packed_rings_without_mergeable_buffers_conform: Variant::rings(true, true).mergeable(false);
    packed_rings_without_indirect_tables_conform: Variant::rings(true, false).indirect(false);
    packed_rings_on_a_device_that_sleeps_conform: Variant::rings(true, true).sleepy();
    four_pairs_of_split_queues_conform: Variant::rings(false, false).pairs(4);
    four_pairs_of_packed_queues_conform: Variant::rings(true, true).pairs(4);
    a_transitional_device_conforms: Variant::rings(false, false).identity(Identity::Transitional);
    a_legacy_device_conforms: Variant::rings(false, false).identity(Identity::Legacy);
    a_legacy_device_without_mergeable_buffers_conforms:
        Variant::rings(false, false).mergeable(false).identity(Identity::Legacy);
    a_device_with_nothing_optional_conforms: Variant::bare();
}
