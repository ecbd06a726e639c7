//! What a virtual function asks its physical function through the mailbox: the requests that
//! Linux's ixgbe knows (`ixgbe/ixgbe_mbx.h`), and their versions. How the mailbox works is in
//! [`intel::mailbox`].

use std::time::Duration;

use hw::Bar;
use intel::mailbox::{Answer, Mailbox as Post, Place};
use intel::message::{Message, message};
use port::PortError;

use crate::vf_regs as regs;

/// For so long a VF's own reset takes; before, the bits may not say yet that it is going on
/// (Linux and DPDK wait 50 ms in all).
const OWN_RESET: Duration = Duration::from_millis(50);

/// What a VF can ask. The low 16 bits of a message's first word.
pub(crate) mod request {
    pub(crate) use intel::message::RESET;

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

    /// Whether the host lets the VF have a link (from [`Api::V1_2`](super::Api) on, but for 1.5:
    /// Linux, `ixgbe_get_vf_link_state`).
    pub(crate) const LINK_STATE: u32 = 0x10;

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

/// A VF's end of the mailbox.
pub(crate) struct Mailbox<B: Bar> {
    post: Post<B>,
    /// The version that both sides speak.
    api: Api,
}

impl<B: Bar> Mailbox<B> {
    /// The mailbox behind `bar`.
    pub(crate) fn new(bar: B, port: String) -> Self {
        let place = Place {
            bits: regs::VFMAILBOX,
            words: regs::VFMBMEM,
        };
        Self {
            post: Post::new(bar, place, port),
            api: Api::V1_0,
        }
    }

    /// The version that both sides speak.
    pub(crate) fn api(&self) -> Api {
        self.api
    }

    /// Waits for answers as long as a PF may take, or only as long as a control thread has.
    pub(crate) fn be_patient(&mut self, on: bool) {
        self.post.be_patient(on);
    }

    fn speak(&mut self, api: Api) {
        self.api = api;
        self.post.sender_keeps(api >= Api::V1_5);
    }

    /// Waits until neither the VF nor its PF is in a reset, and forgets that it was. The PF then
    /// speaks the oldest version.
    pub(crate) fn wait_for_pf(&mut self) -> Result<(), PortError> {
        std::thread::sleep(OWN_RESET);
        self.speak(Api::V1_0);
        self.post.wait_for_pf()
    }

    /// Sends `message`, of `len` words, and waits for its answer.
    pub(crate) fn ask(&mut self, message: &Message, len: usize) -> Result<Answer, PortError> {
        self.post.ask(message, len)
    }

    /// Agrees with the PF on the newest version that both speak (Linux,
    /// `ixgbevf_negotiate_api`); after each reset, for the PF has forgotten it.
    pub(crate) fn negotiate(&mut self) -> Result<Api, PortError> {
        for (api, number) in Api::ALL {
            let mut message = message(request::NEGOTIATE);
            message[1] = number;
            if let Answer::Granted(_) = self.ask(&message, 2)? {
                self.speak(api);
                return Ok(api);
            }
        }
        // One that knows no such request speaks what there was before it.
        Ok(self.api)
    }

    /// Listens; true if the VF has to begin again.
    pub(crate) fn has_to_begin(&mut self) -> Result<bool, PortError> {
        self.post.has_to_begin()
    }

    /// True if the PF has announced something since the last call.
    pub(crate) fn take_announced(&mut self) -> bool {
        self.post.take_announced()
    }
}
