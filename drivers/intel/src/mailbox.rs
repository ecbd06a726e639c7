//! The mailbox between a virtual function and its physical function (82576 §7.8.2.9; 82599
//! datasheet §7.10.2). What can be asked is each family's own.
//!
//! Both sides share 16 words, which one of them has at a time, and a register of bits. A request
//! is written to the words and announced; the PF says that it has read it, and announces its
//! answer. Some bits are cleared by reading, so what was seen is kept until it is used.

use hw::Bar;
use hw::mmio::{Reg, RegArray, Rw};
use port::PortError;

use crate::message::{Message, RESET, WORDS};
use crate::wait::{Limit, stuck, until};

bitflags::bitflags! {
    /// A virtual function's mailbox (82576 §8.14.2; 82599 datasheet §8.3.5).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Bits: u32 {
        /// Tells the PF that there is a message.
        const REQ = 1 << 0;
        /// Tells the PF that its message was read.
        const ACK = 1 << 1;
        /// The buffer is the VF's.
        const VFU = 1 << 2;
        /// The buffer is the PF's.
        const PFU = 1 << 3;
        /// The PF left a message. Cleared by reading.
        const PFSTS = 1 << 4;
        /// The PF has read the VF's message. Cleared by reading.
        const PFACK = 1 << 5;
        /// The PF is resetting.
        const RSTI = 1 << 6;
        /// The PF has been reset. Cleared by reading.
        const RSTD = 1 << 7;
        const _ = !0;
    }
}

hw::register_bits!(Bits: u32);

/// How long the PF may take: its driver may wait for a lock, or run on an emulated core.
const ANSWER: Limit = Limit::of(2_000, 50);
/// The same when nobody waits for it: the port asks again later.
const ANSWER_LATER: Limit = Limit::of(200, 50);
/// How long the other side may keep the buffer.
const BUFFER: Limit = Limit::of(50, 20);
/// How long the PF's own reset may take.
const PF_RESET: Limit = Limit::of(5_000, 500);

/// Announcements of the PF's own that may come before an answer.
const INTERRUPTIONS: usize = 16;
/// What the PF says of its own accord: a ping, for a change of its link or after its reset.
const CONTROL: u32 = 0x100;
/// In an answer: granted.
const ACK: u32 = 1 << 31;
/// In an answer: refused.
const NACK: u32 = 1 << 30;
/// In what the PF says: this VF may send requests. Without it, the VF has to begin again.
const CLEAR_TO_SEND: u32 = 1 << 29;

/// What the PF answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Granted, with these words.
    Granted(Message),
    /// Refused, with these words.
    Refused(Message),
}

/// Where a family has its mailbox.
pub struct Place {
    /// The bits.
    pub bits: Reg<Bits, Rw>,
    /// The words.
    pub words: RegArray<u32, Rw, 16>,
}

/// A VF's end of the mailbox.
pub struct Mailbox<B: Bar> {
    bar: B,
    place: Place,
    port: String,
    /// Bits that were seen and not used yet.
    seen: Bits,
    /// The PF spoke, and did not let this VF send requests.
    is_cut_off: bool,
    /// The PF has announced something, and nobody has taken note of it yet.
    has_announced: bool,
    /// Who sends a message gives the buffer back.
    sender_keeps: bool,
    /// How long to wait for answers.
    patience: Limit,
}

impl<B: Bar> Mailbox<B> {
    /// The mailbox at `place` behind `bar`.
    #[must_use]
    pub fn new(bar: B, place: Place, port: String) -> Self {
        Self {
            bar,
            place,
            port,
            seen: Bits::empty(),
            is_cut_off: false,
            has_announced: false,
            sender_keeps: false,
            patience: ANSWER,
        }
    }

    /// Waits for answers as long as a PF may take, or only as long as a control thread has.
    pub fn be_patient(&mut self, on: bool) {
        self.patience = if on { ANSWER } else { ANSWER_LATER };
    }

    /// Whether who sends a message keeps the buffer until it was read, and gives it back then
    /// (ixgbe, from version 1.5 of its requests on), or gives it away with the announcement.
    pub fn sender_keeps(&mut self, on: bool) {
        self.sender_keeps = on;
    }

    /// Reads the bits, and keeps those that reading clears.
    fn look(&mut self) -> Result<Bits, PortError> {
        let now = self.bar.read(self.place.bits);
        if now == Bits::all() {
            return Err(PortError::Gone {
                port: self.port.clone(),
            });
        }
        self.seen |= now & (Bits::PFSTS | Bits::PFACK | Bits::RSTD);
        Ok(now)
    }

    fn say(&self, bits: Bits) {
        self.bar.write(self.place.bits, bits);
    }

    /// True if `bits` were seen; they are used up.
    fn take(&mut self, bits: Bits) -> bool {
        let is = self.seen.intersects(bits);
        self.seen -= bits;
        is
    }

    /// Waits until `done` says so at a look, or for a look that fails.
    fn wait(
        &mut self,
        limit: Limit,
        what: &str,
        mut done: impl FnMut(&mut Self, Bits) -> bool,
    ) -> Result<(), PortError> {
        let found = until(limit, || match self.look() {
            Err(error) => Some(Err(error)),
            Ok(now) => done(self, now).then_some(Ok(())),
        });
        found.unwrap_or_else(|| Err(stuck(&self.port, what, limit)))
    }

    /// Takes the buffer.
    fn acquire(&mut self) -> Result<(), PortError> {
        let found = until(BUFFER, || {
            self.say(Bits::VFU);
            match self.look() {
                Err(error) => Some(Err(error)),
                Ok(now) => now.contains(Bits::VFU).then_some(Ok(())),
            }
        });
        let what = "the mailbox's buffer becoming free";
        found.unwrap_or_else(|| Err(stuck(&self.port, what, BUFFER)))
    }

    /// Waits until the PF is not in a reset, and forgets that it was (Linux, `reset_hw_vf`: while
    /// the bits are set, nothing may be begun).
    ///
    /// # Errors
    /// The device is gone, or the reset does not end.
    pub fn wait_for_pf(&mut self) -> Result<(), PortError> {
        let limit = if self.patience.most < ANSWER.most {
            self.patience
        } else {
            PF_RESET
        };
        let what = "the end of the physical function's reset";
        self.wait(limit, what, |_, now| {
            !now.intersects(Bits::RSTI | Bits::RSTD)
        })?;
        self.seen = Bits::empty();
        self.is_cut_off = false;
        Ok(())
    }

    /// Sends `message`, of `len` words, and waits for its answer.
    ///
    /// # Errors
    /// The device is gone, or the PF does not answer, or not to that.
    pub fn ask(&mut self, message: &Message, len: usize) -> Result<Answer, PortError> {
        self.acquire()?;
        // What the PF left before belongs to no request of this one.
        self.seen -= Bits::PFSTS | Bits::PFACK;
        for (number, word) in (0..).zip(&message[..len]) {
            self.bar.write(self.place.words.of(number), *word);
        }
        let held = if self.sender_keeps {
            Bits::VFU
        } else {
            Bits::empty()
        };
        self.say(held | Bits::REQ);
        let what = "the physical function reading a request";
        let heard = self.wait(self.patience, what, |own, _| own.take(Bits::PFACK));
        if self.sender_keeps {
            self.say(Bits::empty());
        }
        heard?;
        self.answer_to(message[0])
    }

    /// The answer to a request that began with `request`.
    fn answer_to(&mut self, request: u32) -> Result<Answer, PortError> {
        let broken = |own: &Self, what: String| PortError::Broken {
            port: own.port.clone(),
            what,
        };
        for _ in 0..INTERRUPTIONS {
            let what = "the physical function's answer";
            self.wait(self.patience, what, |own, _| own.seen.contains(Bits::PFSTS))?;
            let answer = self.read()?;
            let kind = answer[0] & 0xffff;
            self.hear(answer[0]);
            if kind == request & 0xffff {
                return Ok(if answer[0] & ACK != 0 {
                    Answer::Granted(answer)
                } else {
                    Answer::Refused(answer)
                });
            }
            if kind != CONTROL {
                let said = answer[0];
                let what = format!("the physical function answered {said:#x} to {request:#x}");
                return Err(broken(self, what));
            }
        }
        let what = "the physical function announces things instead of answering";
        Err(broken(self, what.to_owned()))
    }

    /// Reads what the PF left, and says so.
    fn read(&mut self) -> Result<Message, PortError> {
        // A PF that keeps the buffer does so until it hears that its message was read.
        if !self.sender_keeps {
            self.acquire()?;
        }
        let mut message = [0; WORDS];
        for (number, word) in (0..).zip(&mut message) {
            *word = self.bar.read(self.place.words.of(number));
        }
        self.take(Bits::PFSTS);
        self.say(Bits::ACK);
        Ok(message)
    }

    /// Notes whether the PF lets this VF send requests. An answer to [`RESET`] never says so.
    fn hear(&mut self, word: u32) {
        let kind = word & 0xffff;
        self.has_announced |= kind == CONTROL;
        let says = kind == CONTROL || (word & NACK != 0 && kind != RESET);
        if says && word & CLEAR_TO_SEND == 0 {
            self.is_cut_off = true;
        }
    }

    /// Listens; true if the PF was reset, or does not let this VF send requests any more: the VF
    /// then has to begin again.
    ///
    /// # Errors
    /// The device is gone, or the PF keeps the buffer.
    pub fn has_to_begin(&mut self) -> Result<bool, PortError> {
        let now = self.look()?;
        let is_free = !now.contains(Bits::PFU) || self.sender_keeps;
        if self.seen.contains(Bits::PFSTS) && is_free {
            let word = self.read()?[0];
            self.hear(word);
        }
        let was_reset = self.take(Bits::RSTD) || now.contains(Bits::RSTI);
        Ok(was_reset || std::mem::take(&mut self.is_cut_off))
    }

    /// True if the PF has announced something since the last call: it does so when its link or
    /// what it lets this VF do has changed.
    pub fn take_announced(&mut self) -> bool {
        std::mem::take(&mut self.has_announced)
    }
}
