//! Our ixgbe driver does to our models what Linux's does, step by step, but for what
//! `rig::beside_linux::allowed` lists with its reason. What Linux's does was recorded.

use rig::beside_linux::{Subject, compare_all};

#[track_caller]
fn is_as_linux(name: &str) {
    let subject = Subject::named(name).expect("it is in the list");
    let found = compare_all(subject).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(found.is_empty(), "{found}");
}

#[test]
fn our_driver_treats_an_82599_as_linux_does() {
    is_as_linux("82599");
}

#[test]
fn our_driver_treats_an_x540_as_linux_does() {
    is_as_linux("x540");
}

#[test]
fn our_driver_treats_an_x550_as_linux_does() {
    is_as_linux("x550");
}

#[test]
fn our_driver_speaks_for_a_virtual_function_of_82599_as_linux_does() {
    is_as_linux("82599-vf");
}

#[test]
fn our_driver_speaks_for_a_virtual_function_of_x540_as_linux_does() {
    is_as_linux("x540-vf");
}

#[test]
fn our_driver_speaks_for_a_virtual_function_of_x550_as_linux_does() {
    is_as_linux("x550-vf");
}
