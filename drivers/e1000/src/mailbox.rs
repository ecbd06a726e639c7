//! The mailbox between a virtual function and its physical function (82576 §7.8.2.9; the requests
//! are those that Linux's igb knows, `igb/e1000_mbx.h`).
//!
//! Both sides share 16 words, which one of them has at a time, and a register of bits. A request
//! is written to the words and announced; the PF says that it has read it, and announces its
//! answer. Some bits are cleared by reading, so what was seen is kept until it is used.

use hw::Bar;
use intel::message::Message;
use intel::wait::{Limit, stuck, until};
use port::PortError;

use crate::regs::{self, Mailbox as Bits};

/// Announcements of the PF's own that may come before an answer.
const INTERRUPTIONS: usize = 16;
/// How long the PF may take: its driver may wait for a lock, or run on an emulated core.
const ANSWER: Limit = Limit::of(2_000, 50);
/// How long the other side may keep the buffer.
const BUFFER: Limit = Limit::of(50, 20);
/// How long the PF's own reset may take.
const PF_RESET: Limit = Limit::of(5_000, 500);

/// What a VF can ask. The low 16 bits of a message's first word.
pub(crate) mod request {
    /// To begin: the PF forgets what it knew of this VF, and answers with its address.
    pub(crate) const RESET: u32 = 1;
    /// To set the address, or with [`ADD`] to add one.
    pub(crate) const SET_MAC: u32 = 2;
    /// To receive groups, given by their hashes.
    pub(crate) const MULTICAST: u32 = 3;
    /// To receive a VLAN, or no longer.
    pub(crate) const VLAN: u32 = 4;
    /// To receive frames of up to so many bytes.
    pub(crate) const LPE: u32 = 5;
    /// To receive every group.
    pub(crate) const PROMISC: u32 = 6;

    /// [`SET_MAC`]: forget all further addresses.
    pub(crate) const CLEAR: u32 = 1 << 16;
    /// [`SET_MAC`]: one more address.
    pub(crate) const ADD: u32 = 2 << 16;
    /// [`PROMISC`]: every group.
    pub(crate) const ALL_GROUPS: u32 = 2 << 16;
    /// [`VLAN`]: receive it.
    pub(crate) const ON: u32 = 1 << 16;
    /// [`MULTICAST`]: how many hashes follow, from this bit on.
    pub(crate) const COUNT_SHIFT: u32 = 16;
}

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
pub(crate) enum Answer {
    /// Granted, with these words.
    Granted(Message),
    /// Refused, with these words.
    Refused(Message),
}

/// A VF's end of the mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox<B: Bar> {
    bar: B,
    port: String,
    /// Bits that were seen and not used yet.
    seen: Bits,
    /// The PF spoke, and did not let this VF send requests.
    is_cut_off: bool,
}

impl<B: Bar> Mailbox<B> {
    /// The mailbox behind `bar`.
    pub(crate) fn new(bar: B, port: String) -> Self {
        Self {
            bar,
            port,
            seen: Bits::empty(),
            is_cut_off: false,
        }
    }

    /// Reads the bits, and keeps those that reading clears.
    fn look(&mut self) -> Result<Bits, PortError> {
        let now = self.bar.read(regs::V2PMAILBOX);
        if now == Bits::all() {
            return Err(PortError::Gone {
                port: self.port.clone(),
            });
        }
        self.seen |= now & (Bits::PFSTS | Bits::PFACK | Bits::RSTD);
        Ok(now)
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
            self.bar.write(regs::V2PMAILBOX, Bits::VFU);
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
    pub(crate) fn wait_for_pf(&mut self) -> Result<(), PortError> {
        self.wait(
            PF_RESET,
            "the end of the physical function's reset",
            |_, now| !now.intersects(Bits::RSTI | Bits::RSTD),
        )?;
        self.seen = Bits::empty();
        self.is_cut_off = false;
        Ok(())
    }

    /// Sends `message`, of `len` words, and waits for its answer.
    pub(crate) fn ask(&mut self, message: &Message, len: usize) -> Result<Answer, PortError> {
        self.acquire()?;
        // What the PF left before belongs to no request of this one.
        self.seen -= Bits::PFSTS | Bits::PFACK;
        for (place, word) in (0..).zip(&message[..len]) {
            self.bar.write(regs::VMBMEM.of(place), *word);
        }
        // Announces it, and gives the buffer to the PF.
        self.bar.write(regs::V2PMAILBOX, Bits::REQ);
        self.wait(
            ANSWER,
            "the physical function reading a request",
            |own, _| own.take(Bits::PFACK),
        )?;
        for _ in 0..INTERRUPTIONS {
            self.wait(ANSWER, "the physical function's answer", |own, _| {
                own.seen.contains(Bits::PFSTS)
            })?;
            let answer = self.read()?;
            let kind = answer[0] & 0xffff;
            self.hear(answer[0]);
            if kind == message[0] & 0xffff {
                return Ok(if answer[0] & ACK != 0 {
                    Answer::Granted(answer)
                } else {
                    Answer::Refused(answer)
                });
            }
            if kind != CONTROL {
                return Err(PortError::Broken {
                    port: self.port.clone(),
                    what: format!(
                        "the physical function answered {:#x} to {:#x}",
                        answer[0], message[0]
                    ),
                });
            }
        }
        Err(PortError::Broken {
            port: self.port.clone(),
            what: "the physical function announces things instead of answering".to_owned(),
        })
    }

    /// Reads what the PF left, and says so.
    fn read(&mut self) -> Result<Message, PortError> {
        self.acquire()?;
        let message = std::array::from_fn(|place| {
            let place = u32::try_from(place).unwrap_or(0);
            self.bar.read(regs::VMBMEM.of(place))
        });
        self.take(Bits::PFSTS);
        self.bar.write(regs::V2PMAILBOX, Bits::ACK);
        Ok(message)
    }

    /// Notes whether the PF lets this VF send requests. An answer to [`request::RESET`] never
    /// says so.
    fn hear(&mut self, word: u32) {
        let kind = word & 0xffff;
        let says = kind == CONTROL || (word & NACK != 0 && kind != request::RESET);
        if says && word & CLEAR_TO_SEND == 0 {
            self.is_cut_off = true;
        }
    }

    /// Listens; true if the PF was reset, or does not let this VF send requests any more: the VF
    /// then has to begin again.
    pub(crate) fn has_to_begin(&mut self) -> Result<bool, PortError> {
        let now = self.look()?;
        if self.seen.contains(Bits::PFSTS) && !now.contains(Bits::PFU) {
            let word = self.read()?[0];
            self.hear(word);
        }
        let was_reset = self.take(Bits::RSTD) || now.contains(Bits::RSTI);
        Ok(was_reset || std::mem::take(&mut self.is_cut_off))
    }
}
