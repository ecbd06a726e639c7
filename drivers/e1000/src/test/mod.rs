//! The driver's parts against registers that are a script.

mod mailbox;
mod totals;
mod vf;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use hw::Bar;

/// Registers: what was written, in order, and what reads give.
#[derive(Clone, Default)]
pub(super) struct Registers(Arc<Mutex<State>>);

/// What a scripted device does at an access: sees all registers, the offset, and the value if it
/// is a write.
type Script = Box<dyn FnMut(&mut HashMap<u32, u32>, u32, Option<u32>) + Send>;

#[derive(Default)]
pub(super) struct State {
    pub(super) values: HashMap<u32, u32>,
    pub(super) written: Vec<(u32, u32)>,
    /// Called at each access: the device.
    pub(super) device: Option<Script>,
}

impl Registers {
    pub(super) fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(
            &mut self
                .0
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }

    /// Values written to `offset`, in order.
    pub(super) fn written(&self, offset: u32) -> Vec<u32> {
        self.state(|state| {
            let of = state.written.iter().filter(|(at, _)| *at == offset);
            of.map(|(_, value)| *value).collect()
        })
    }
}

impl Bar for Registers {
    fn len(&self) -> u64 {
        0x2_0000
    }
    fn load8(&self, _offset: u32) -> u8 {
        panic!("these devices have no registers of a byte")
    }
    fn load16(&self, _offset: u32) -> u16 {
        panic!("these devices have no registers of two bytes")
    }
    fn load32(&self, offset: u32) -> u32 {
        self.state(|state| {
            let value = state.values.get(&offset).copied().unwrap_or(0);
            if let Some(device) = &mut state.device {
                device(&mut state.values, offset, None);
            }
            value
        })
    }
    fn store8(&self, _offset: u32, _value: u8) {
        panic!("these devices have no registers of a byte")
    }
    fn store16(&self, _offset: u32, _value: u16) {
        panic!("these devices have no registers of two bytes")
    }
    fn store32(&self, offset: u32, value: u32) {
        self.state(|state| {
            state.written.push((offset, value));
            state.values.insert(offset, value);
            if let Some(device) = &mut state.device {
                device(&mut state.values, offset, Some(value));
            }
        });
    }
}
