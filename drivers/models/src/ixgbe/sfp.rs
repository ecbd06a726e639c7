//! The SFP+ module, on the two wires that `I2CCTL` moves (82599 §3.7.2, §8.2.3.1.6; SFF-8472 for
//! what is in it, the I2C specification for how it is asked).

use super::options::Module;

/// `I2CCTL`: what the wires are at, and what they are pulled to.
const CLOCK_IN: u32 = 1 << 0;
const CLOCK_OUT: u32 = 1 << 1;
const DATA_IN: u32 = 1 << 2;
const DATA_OUT: u32 = 1 << 3;

/// The module's two addresses: what it is, and how it is (SFF-8472 §4).
const IDENTITY: u8 = 0xa0;
const DIAGNOSTICS: u8 = 0xa2;

/// What the module does on its wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody has said anything to it.
    Idle,
    /// Bits come in: the address, then where to read, then bytes to be written.
    In { bits: u32, value: u8, number: u32 },
    /// It has taken a byte and pulls the wire down for one clock.
    Acknowledges { number: u32, reads: bool },
    /// Bits go out.
    Out { bits: u32, value: u8 },
    /// The reader says whether it wants more.
    Awaits,
}

/// The cage and what is in it.
pub(super) struct Cage {
    module: Module,
    pages: [Box<[u8; 256]>; 2],
    control: u32,
    state: State,
    /// Which of the two addresses was asked for.
    page: usize,
    /// The byte that is read or written next.
    offset: u8,
}

impl Cage {
    pub(super) fn new(module: Module) -> Self {
        Self {
            module,
            pages: [identity(module), Box::new([0; 256])],
            control: CLOCK_OUT | DATA_OUT,
            state: State::Idle,
            page: 0,
            offset: 0,
        }
    }

    /// True if there is a module.
    pub(super) fn is_full(&self) -> bool {
        self.module != Module::Absent
    }

    pub(super) fn reset(&mut self) {
        self.control = CLOCK_OUT | DATA_OUT;
        self.state = State::Idle;
    }

    /// `I2CCTL` is read.
    pub(super) fn read(&self) -> u32 {
        let clock = if self.control & CLOCK_OUT != 0 {
            CLOCK_IN
        } else {
            0
        };
        let data = if self.control & DATA_OUT != 0 && self.is_high() {
            DATA_IN
        } else {
            0
        };
        self.control & (CLOCK_OUT | DATA_OUT) | clock | data
    }

    /// False while the module pulls the data wire down.
    fn is_high(&self) -> bool {
        match self.state {
            State::Acknowledges { .. } => false,
            State::Out { bits, value } => value >> (7 - bits) & 1 == 1,
            _ => true,
        }
    }

    /// `I2CCTL` is written.
    pub(super) fn write(&mut self, value: u32) {
        let before = self.control;
        self.control = value;
        if self.module == Module::Absent {
            return;
        }
        let was = (before & CLOCK_OUT != 0, before & DATA_OUT != 0);
        let is = (value & CLOCK_OUT != 0, value & DATA_OUT != 0);
        match (was, is) {
            // Data falls while the clock is high: a start; rises: a stop.
            ((true, true), (true, false)) => {
                self.state = State::In {
                    bits: 0,
                    value: 0,
                    number: 0,
                };
            }
            ((true, false), (true, true)) => self.state = State::Idle,
            ((false, _), (true, data)) => self.rise(data),
            ((true, _), (false, _)) => self.fall(),
            _ => {}
        }
    }

    /// The clock rises: a bit that comes in counts now.
    fn rise(&mut self, data: bool) {
        match &mut self.state {
            State::In { bits, value, .. } => {
                *value = *value << 1 | u8::from(data);
                *bits += 1;
            }
            // The reader has had enough.
            State::Awaits if data => self.state = State::Idle,
            _ => {}
        }
    }

    /// The clock falls: what goes out changes now.
    fn fall(&mut self) {
        self.state = match self.state {
            State::In {
                bits: 8,
                value,
                number,
            } => self.take(value, number),
            State::Acknowledges { reads: true, .. } | State::Awaits => self.give(),
            State::Acknowledges { number, .. } => State::In {
                bits: 0,
                value: 0,
                number: number + 1,
            },
            State::Out { bits: 7, .. } => State::Awaits,
            State::Out { bits, value } => State::Out {
                bits: bits + 1,
                value,
            },
            other => other,
        };
    }

    /// A whole byte came in.
    fn take(&mut self, value: u8, number: u32) -> State {
        match number {
            0 => {
                let page = match value & !1 {
                    IDENTITY => 0,
                    DIAGNOSTICS => 1,
                    _ => return State::Idle,
                };
                self.page = page;
                let reads = value & 1 == 1;
                State::Acknowledges { number, reads }
            }
            1 => {
                self.offset = value;
                let reads = false;
                State::Acknowledges { number, reads }
            }
            _ => {
                self.pages[self.page][usize::from(self.offset)] = value;
                self.offset = self.offset.wrapping_add(1);
                let reads = false;
                State::Acknowledges { number, reads }
            }
        }
    }

    fn give(&mut self) -> State {
        let value = self.pages[self.page][usize::from(self.offset)];
        self.offset = self.offset.wrapping_add(1);
        State::Out { bits: 0, value }
    }
}

/// What the module says of itself (SFF-8472 table 4-1).
fn identity(module: Module) -> Box<[u8; 256]> {
    let mut page = Box::new([0; 256]);
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    // SFP, with an identifier of this kind; then the connector.
    put(0, &[3, 4]);
    match module {
        Module::Absent => return page,
        Module::Sr => {
            // LC; 10GBASE-SR; 1000BASE-SX; rate; 80 m and 300 m of fibre.
            put(2, &[7, 0x10, 0, 0, 0x01]);
            put(12, &[103, 0, 0, 0, 8, 3, 0, 30]);
            put(40, b"FTLX8571D3BCV-IT");
        }
        Module::Cable => {
            // No connector; passive; three metres.
            put(2, &[0x21]);
            put(8, &[0x04]);
            put(12, &[103]);
            put(18, &[3]);
            put(40, b"XDACBL3M        ");
        }
    }
    put(20, b"Intel Corp      ");
    put(37, &[0x00, 0x1b, 0x21]);
    put(56, b"A   ");
    put(68, b"AD0000000001    ");
    put(84, b"261130  ");
    let sum = |page: &[u8; 256], range: std::ops::Range<usize>| {
        page[range]
            .iter()
            .fold(0u8, |sum, &byte| sum.wrapping_add(byte))
    };
    page[63] = sum(&page, 0..63);
    page[95] = sum(&page, 64..95);
    page
}

#[cfg(test)]
mod test {
    use super::*;

    /// Two hands on the wires.
    struct Hands(Cage);

    impl Hands {
        fn set(&mut self, clock: bool, data: bool) {
            let clock = if clock { CLOCK_OUT } else { 0 };
            let data = if data { DATA_OUT } else { 0 };
            self.0.write(clock | data);
        }
        fn start(&mut self) {
            self.set(false, true);
            self.set(true, true);
            self.set(true, false);
            self.set(false, false);
        }
        fn bit(&mut self, bit: bool) -> bool {
            self.set(false, bit);
            self.set(true, bit);
            let seen = self.0.read() & DATA_IN != 0;
            self.set(false, bit);
            seen
        }
        fn byte(&mut self, byte: u8) -> bool {
            for n in (0..8).rev() {
                self.bit(byte >> n & 1 == 1);
            }
            !self.bit(true)
        }
        fn read(&mut self, more: bool) -> u8 {
            let byte = (0..8).fold(0, |byte, _| byte << 1 | u8::from(self.bit(true)));
            self.bit(!more);
            byte
        }
    }

    #[test]
    fn a_module_is_read_byte_by_byte_and_in_a_row() {
        let mut hands = Hands(Cage::new(Module::Sr));
        hands.start();
        assert!(hands.byte(0xa0) && hands.byte(37));
        hands.start();
        assert!(hands.byte(0xa1));
        let oui = [hands.read(true), hands.read(true), hands.read(false)];
        assert_eq!(oui, [0x00, 0x1b, 0x21]);
        hands.start();
        assert!(hands.byte(0xa0) && hands.byte(0));
        hands.start();
        assert!(hands.byte(0xa1));
        assert_eq!(hands.read(false), 3);
        hands.start();
        assert!(!hands.byte(0xb0), "nobody else is there");
    }

    #[test]
    fn an_empty_cage_answers_nothing() {
        let mut hands = Hands(Cage::new(Module::Absent));
        hands.start();
        assert!(!hands.byte(0xa0));
        assert!(!hands.0.is_full());
    }
}
