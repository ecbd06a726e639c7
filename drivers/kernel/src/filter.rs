//! Which frames a port accepts: a program for the kernel's packet filter, so that what is not
//! for the port takes no slot of its rings.
//!
//! The program is classic BPF (Linux, `Documentation/networking/filter.rst`): loads into one
//! register, and jumps by what it holds.

use libc::sock_filter;
use port::Mac;

/// Most further addresses: a program has 4096 instructions at most, and this leaves room.
pub(crate) const ADDRESSES_MAX: usize = 512;

/// What a port accepts besides its own address and broadcasts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Everything.
    pub(crate) promiscuous: bool,
    /// Every multicast.
    pub(crate) all_multicast: bool,
    /// These stations and groups.
    pub(crate) further: Vec<Mac>,
}

const LOAD_WORD: u16 = code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
const LOAD_HALF: u16 = code(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS);
const LOAD_BYTE: u16 = code(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS);
const IF_EQUAL: u16 = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
const IF_ANY_BIT: u16 = code(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K);
const RETURN: u16 = code(libc::BPF_RET | libc::BPF_K);

const fn code(bits: u32) -> u16 {
    assert!(bits <= 0xffff, "codes have 16 bits");
    (bits & 0xffff) as u16
}

/// An instruction; `unless` is how many to skip where a comparison does not hold.
const fn step(code: u16, unless: u8, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: unless,
        k,
    }
}

/// The whole frame is received.
const ACCEPT: sock_filter = step(RETURN, 0, u32::MAX);
/// Nothing of it is.
const DROP: sock_filter = step(RETURN, 0, 0);

impl Filter {
    /// The program for a port whose address is `own`.
    pub(crate) fn program(&self, own: Mac) -> Vec<sock_filter> {
        if self.promiscuous {
            return vec![ACCEPT];
        }
        let mut program = Vec::new();
        for mac in [own, [0xff; 6]].iter().chain(&self.further) {
            let [a, b, c, d, e, f] = *mac;
            program.extend([
                // The end of an address tells more stations apart than its beginning.
                step(LOAD_WORD, 0, 2),
                step(IF_EQUAL, 3, u32::from_be_bytes([c, d, e, f])),
                step(LOAD_HALF, 0, 0),
                step(IF_EQUAL, 1, u32::from_be_bytes([0, 0, a, b])),
                ACCEPT,
            ]);
        }
        if self.all_multicast {
            program.extend([step(LOAD_BYTE, 0, 0), step(IF_ANY_BIT, 1, 1), ACCEPT]);
        }
        program.push(DROP);
        program
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Runs a program on a frame, by the rules of the kernel's documentation; true if accepted.
    fn accepts(program: &[sock_filter], frame: &[u8]) -> bool {
        let (mut at, mut register) = (0, 0_u32);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let k_at = k as usize;
            let holds = match code {
                0x20 => {
                    let word = frame[k_at..k_at + 4].try_into();
                    register = u32::from_be_bytes(word.unwrap());
                    continue;
                }
                0x28 => {
                    let half = frame[k_at..k_at + 2].try_into();
                    register = u16::from_be_bytes(half.unwrap()).into();
                    continue;
                }
                0x30 => {
                    register = frame[k_at].into();
                    continue;
                }
                0x15 => register == k,
                0x45 => register & k != 0,
                0x06 => return k != 0,
                other => panic!("no such instruction: {other:#x}"),
            };
            at += usize::from(if holds { jt } else { jf });
        }
    }

    const OWN: Mac = [2, 0, 0, 0, 0, 1];
    const OTHER: Mac = [2, 0, 0, 0, 0, 2];
    const GROUP: Mac = [1, 0, 0x5e, 0, 0, 1];

    fn accepted(filter: &Filter) -> [bool; 4] {
        let program = filter.program(OWN);
        [OWN, [0xff; 6], OTHER, GROUP].map(|to| {
            let mut frame = [0; 60];
            frame[..6].copy_from_slice(&to);
            accepts(&program, &frame)
        })
    }

    #[test]
    fn the_own_address_and_broadcasts_pass_and_the_rest_on_request() {
        let mut filter = Filter::default();
        assert_eq!(accepted(&filter), [true, true, false, false]);
        filter.further = vec![GROUP];
        assert_eq!(accepted(&filter), [true, true, false, true]);
        filter.further = vec![[3; 6], OTHER];
        assert_eq!(accepted(&filter), [true, true, true, false]);
        filter.all_multicast = true;
        assert_eq!(accepted(&filter), [true, true, true, true]);
        filter.further.clear();
        assert_eq!(accepted(&filter), [true, true, false, true]);
        filter.promiscuous = true;
        assert_eq!(accepted(&filter), [true; 4]);
    }

    #[test]
    fn an_address_that_differs_in_any_byte_is_another() {
        let program = Filter::default().program(OWN);
        for byte in 0..6 {
            let mut frame = [0; 60];
            frame[..6].copy_from_slice(&OWN);
            frame[byte] ^= 4;
            assert!(!accepts(&program, &frame), "byte {byte}");
        }
    }

    #[test]
    fn the_longest_program_is_not_too_long_for_the_kernel() {
        let filter = Filter {
            further: vec![OTHER; ADDRESSES_MAX],
            all_multicast: true,
            ..Filter::default()
        };
        assert!(filter.program(OWN).len() <= 4096);
    }
}
