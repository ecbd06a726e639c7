//! The mailbox between a virtual function and its physical function (82599 datasheet §7.10.2; the
//! requests are those that Linux's ixgbe knows, `ixgbe/ixgbe_mbx.h`).
//!
//! Both sides share 16 words, which one of them has at a time, and a register of bits. A request
//! is written to the words and announced; the PF says that it has read it, and announces its
//! answer. Some bits are cleared by reading, so what was seen is kept until it is used.

use std::time::Duration;

use hw::Bar;
use intel::message::{Message, WORDS};
use intel::wait::{Limit, stuck, until};
use port::PortError;

use crate::vf_regs::{self as regs, Mailbox as Bits};

/// How long the PF may take: its driver may wait for a lock, or run on an emulated core.
const ANSWER: Limit = Limit::of(2_000, 50);
/// The same when nobody waits for it: the port asks again later.
const ANSWER_LATER: Limit = Limit::of(200, 50);
/// How long the other side may keep the buffer.
const BUFFER: Limit = Limit::of(50, 20);
/// How long the PF's own reset may take.
const PF_RESET: Limit = Limit::of(5_000, 500);
/// For so long a VF's own reset takes; before, the bits may not say yet that it is going on
/// (Linux and DPDK wait 50 ms in all).
const OWN_RESET: Duration = Duration::from_millis(50);

/// What a VF can ask. The low 16 bits of a message's first word.
pub(crate) mod request {
    /// To begin: the PF forgets what it knew of this VF, and answers with its address.
    pub(crate) const RESET: u32 = 0x01;
    /// To set the address.
    pub(crate) const SET_MAC: u32 = 0x02;
    /// To receive groups, given by their hashes.
    pub(crate) const MULTICAST: u32 = 0x03;
    /// To receive a VLAN, or no longer.
    pub(crate) const VLAN: u32 = 0x04;
    /// To receive frames of up to so many bytes.
    pub(crate) const LPE: u32 = 0x05;
    /// To receive a further address; the first of a list has number 1, and number 0 forgets all.
    pub(crate) const MACVLAN: u32 = 0x06;
    /// To speak a version of this language.
    pub(crate) const NEGOTIATE: u32 = 0x08;
    /// How many queues there are (from [`Api::V1_1`](super::Api) on).
    pub(crate) const QUEUES: u32 = 0x09;
    /// Which groups are received (from [`Api::V1_2`](super::Api) on).
    pub(crate) const XCAST: u32 = 0x0c;

    /// Where a request's number, count or switch begins in the first word.
    pub(crate) const INFO_SHIFT: u32 = 16;
}

/// Versions of the requests, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Api {
    /// What every PF speaks.
    V1_0,
    /// With numbers of queues, and large frames on 82599.
    V1_1,
    /// With modes of receiving.
    V1_2,
    /// With promiscuous mode among them.
    V1_3,
    /// With encryption, of which this driver asks nothing.
    V1_4,
    /// The side that sends a message gives the buffer back itself.
    V1_5,
}

impl Api {
    /// Newest first, each with its number in a message.
    pub(crate) const ALL: [(Self, u32); 6] = [
        (Self::V1_5, 6),
        (Self::V1_4, 5),
        (Self::V1_3, 4),
        (Self::V1_2, 3),
        (Self::V1_1, 2),
        (Self::V1_0, 0),
    ];

    /// As people write it.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
            Self::V1_4 => "1.4",
            Self::V1_5 => "1.5",
        }
    }
}

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
    /// The version that both sides speak.
    api: Api,
    /// How long to wait for answers.
    patience: Limit,
}

impl<B: Bar> Mailbox<B> {
    /// The mailbox behind `bar`.
    pub(crate) fn new(bar: B, port: String) -> Self {
        Self {
            bar,
            port,
            seen: Bits::empty(),
            is_cut_off: false,
            api: Api::V1_0,
            patience: ANSWER,
        }
    }

    /// The version that both sides speak.
    pub(crate) fn api(&self) -> Api {
        self.api
    }

    /// Waits for answers as long as a PF may take, or only as long as a control thread has.
    pub(crate) fn be_patient(&mut self, on: bool) {
        self.patience = if on { ANSWER } else { ANSWER_LATER };
    }

    /// Reads the bits, and keeps those that reading clears.
    fn look(&mut self) -> Result<Bits, PortError> {
        let now = self.bar.read(regs::VFMAILBOX);
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
            self.bar.write(regs::VFMAILBOX, Bits::VFU);
            match self.look() {
                Err(error) => Some(Err(error)),
                Ok(now) => now.contains(Bits::VFU).then_some(Ok(())),
            }
        });
        let what = "the mailbox's buffer becoming free";
        found.unwrap_or_else(|| Err(stuck(&self.port, what, BUFFER)))
    }

    /// Waits until neither the VF nor its PF is in a reset, and forgets that it was (Linux,
    /// `ixgbevf_reset_hw_vf`: while the bits are set, nothing may be begun). The PF then speaks
    /// the oldest version.
    pub(crate) fn wait_for_pf(&mut self) -> Result<(), PortError> {
        std::thread::sleep(OWN_RESET);
        self.api = Api::V1_0;
        let limit = if self.patience.most < ANSWER.most {
            self.patience
        } else {
            PF_RESET
        };
        self.wait(
            limit,
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
            self.bar.write(regs::VFMBMEM.of(place), *word);
        }
        // Announces it, and up to version 1.4 gives the buffer to the PF with that.
        let keeps = self.api >= Api::V1_5;
        let held = if keeps { Bits::VFU } else { Bits::empty() };
        self.bar.write(regs::VFMAILBOX, held | Bits::REQ);
        let heard = self.wait(
            self.patience,
            "the physical function reading a request",
            |own, _| own.take(Bits::PFACK),
        );
        if keeps {
            self.bar.write(regs::VFMAILBOX, Bits::empty());
        }
        heard?;
        for _ in 0..INTERRUPTIONS {
            self.wait(self.patience, "the physical function's answer", |own, _| {
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
        // From version 1.5 on the PF keeps the buffer until it hears that its message was read.
        if self.api < Api::V1_5 {
            self.acquire()?;
        }
        let message = std::array::from_fn(|place| {
            let place = u32::try_from(place).unwrap_or(0);
            self.bar.read(regs::VFMBMEM.of(place))
        });
        self.take(Bits::PFSTS);
        self.bar.write(regs::VFMAILBOX, Bits::ACK);
        Ok(message)
    }

    /// Agrees with the PF on the newest version that both speak (Linux,
    /// `ixgbevf_negotiate_api`); after each reset, for the PF has forgotten it.
    pub(crate) fn negotiate(&mut self) -> Result<Api, PortError> {
        for (api, number) in Api::ALL {
            let mut message = [0; WORDS];
            (message[0], message[1]) = (request::NEGOTIATE, number);
            if let Answer::Granted(_) = self.ask(&message, 2)? {
                self.api = api;
                return Ok(api);
            }
        }
        // One that knows no such request speaks what there was before it.
        Ok(self.api)
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
        let is_free = !now.contains(Bits::PFU) || self.api >= Api::V1_5;
        if self.seen.contains(Bits::PFSTS) && is_free {
            let word = self.read()?[0];
            self.hear(word);
        }
        let was_reset = self.take(Bits::RSTD) || now.contains(Bits::RSTI);
        Ok(was_reset || std::mem::take(&mut self.is_cut_off))
    }
}
