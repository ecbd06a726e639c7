//! How what several share is taken and given back: the semaphores of a physical function, the
//! mailbox of a virtual one. Each way of doing it is told once a step, however often it is done.

use super::registers::{field, get};
use crate::differential::trace::Line;

/// Bits of `SW_FW_SYNC` that are resources, and the one that guards the register itself on X540 and
/// later (82599 §8.2.3.4.13; Linux, `IXGBE_SWFW_REGSMP`).
const RESOURCES: u32 = 0x7fff_ffff;
const REGSMP: u32 = 1 << 31;
/// What a port's software holds, of the resources (82599 §10.5.4; Linux, `IXGBE_GSSR_SW_MNG_SM`).
const SOFTWARE: u32 = 0x041f;
/// Registers before which something has to be held: the PHYs' bus, modules, the EEPROM, the
/// firmware, the link.
const GUARDED: &[&str] = &["MSCA", "I2CCTL", "EERD", "HICR", "AUTOC"];

/// Ways, each once.
#[derive(Default)]
pub(super) struct Shapes {
    tokens: Vec<String>,
    lines: Vec<Line>,
    held: u32,
}

impl Shapes {
    fn token(&mut self, token: String) {
        // Polling is told once.
        if self.tokens.last() != Some(&token) {
            self.tokens.push(token);
        }
    }

    fn tell(&mut self, line: Line) {
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
    }

    fn end(&mut self, what: &str) {
        let way = std::mem::take(&mut self.tokens).join(", ");
        self.tell(Line::new(format!("{what}: {way}"), []));
    }

    /// A physical function's register was read or written.
    pub(super) fn hear_physical(&mut self, register: &str, word: u32, is_read: bool) {
        let bit = |name| field(register, name).map_or(0, |field| get(field, word));
        let verb = if is_read { "finds" } else { "writes" };
        match register {
            "SWSM" => {
                let (smbi, swesmbi) = (bit("SMBI"), bit("SWESMBI"));
                self.token(format!("{verb} SMBI={smbi} SWESMBI={swesmbi}"));
                if !is_read && smbi == 0 && swesmbi == 0 {
                    self.end("semaphore");
                }
            }
            "SW_FW_SYNC" if is_read => {
                let guard = u32::from(word & REGSMP != 0);
                self.token(format!("finds SW_FW_SYNC, REGSMP={guard}"));
            }
            "SW_FW_SYNC" => {
                let now = word & RESOURCES & SOFTWARE;
                let how = match (now & !self.held != 0, self.held & !now != 0) {
                    (true, _) => "takes",
                    (_, true) => "gives back",
                    _ => "changes nothing",
                };
                self.held = now;
                self.token(how.to_owned());
            }
            _ if !is_read && GUARDED.contains(&register) => {
                let held = format!("{:#x}", self.held);
                self.tell(Line::new(format!("{register}, holding {held}"), []));
            }
            _ => {}
        }
    }

    /// A virtual function's register was read or written.
    pub(super) fn hear_virtual(&mut self, register: &str, word: u32, is_read: bool) {
        let bits = |names: &[&'static str]| -> Vec<&'static str> {
            let set = |name: &&&'static str| {
                field(register, name).is_some_and(|field| get(field, word) != 0)
            };
            names.iter().filter(set).copied().collect()
        };
        match (register, is_read) {
            ("VFMBMEM", true) => self.token("reads".into()),
            ("VFMBMEM", false) => self.token("fills".into()),
            ("VFMAILBOX", true) => {
                for name in bits(&["PFACK", "PFSTS"]) {
                    self.token(format!("finds {name}"));
                }
            }
            ("VFMAILBOX", false) => {
                let bits = bits(&["VFU", "REQ", "ACK"]);
                self.token(format!("writes {}", bits.join("+")));
                if bits.contains(&"ACK") {
                    self.end("mailbox");
                }
            }
            _ => {}
        }
    }

    /// What was seen since this was called last.
    pub(super) fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }
}
