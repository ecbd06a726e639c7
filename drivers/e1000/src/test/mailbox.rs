use super::Registers;
use crate::mailbox::{self, request};
use intel::mailbox::{Answer, Mailbox};
use intel::message::message;
use port::PortError;

const BOX: u32 = 0xc40;
const MEMORY: u32 = 0x800;
const REQ: u32 = 1;
const ACK: u32 = 2;
const VFU: u32 = 4;
const PFSTS: u32 = 0x10;
const PFACK: u32 = 0x20;
const RSTI: u32 = 0x40;
const RSTD: u32 = 0x80;
/// Bits that reading clears.
const CLEARED: u32 = PFSTS | PFACK | RSTD;

/// A VF's registers with a PF that answers requests by `answers`, one after the other; what it
/// was asked.
fn pf(answers: Vec<Vec<u32>>) -> (Registers, Mailbox<Registers>) {
    let registers = Registers::default();
    let mut answers = answers.into_iter();
    registers.state(|state| {
        state.device = Some(Box::new(move |values, offset, written| {
            if offset != BOX {
                return;
            }
            let now = values.get(&BOX).copied().unwrap_or(0);
            let next = match written {
                // Both claims and announcements are made by writing.
                Some(VFU) => VFU,
                Some(value) if value & REQ != 0 => {
                    let answer = answers.next().unwrap_or_default();
                    for (place, word) in (0..).zip(&answer) {
                        values.insert(MEMORY + 4 * place, *word);
                    }
                    PFACK | if answer.is_empty() { 0 } else { PFSTS }
                }
                // An answer was read: the next, if it was not the last.
                Some(ACK) => match values.remove(&1) {
                    Some(word) => {
                        values.insert(MEMORY, word);
                        PFSTS
                    }
                    None => 0,
                },
                Some(_) => 0,
                None => now & !CLEARED,
            };
            values.insert(BOX, next);
        }));
    });
    let mailbox = mailbox::open(registers.clone(), "vf".into());
    (registers, mailbox)
}

#[test]
fn an_answer_is_told_by_its_bits_and_carries_its_words() {
    let (registers, mut mailbox) = pf(vec![
        vec![request::RESET | 1 << 31, 0x1122_3344, 0x5566],
        vec![request::RESET | 1 << 30],
        vec![request::VLAN | 1 << 29 | 1 << 30],
    ]);
    match mailbox.ask(&message(request::RESET), 1).unwrap() {
        Answer::Granted(words) => assert_eq!(words[1..3], [0x1122_3344, 0x5566]),
        refused @ Answer::Refused(_) => panic!("{refused:?}"),
    }
    let again = mailbox.ask(&message(request::RESET), 1).unwrap();
    assert!(matches!(again, Answer::Refused(_)));
    assert!(
        !mailbox.has_to_begin().unwrap(),
        "a reset's answer never has the CTS bit"
    );
    let vlan = mailbox
        .ask(&message(request::VLAN | request::ON), 2)
        .unwrap();
    assert!(matches!(vlan, Answer::Refused(_)));
    assert!(
        !mailbox.has_to_begin().unwrap(),
        "a refusal with CTS is one of this request"
    );
    assert_eq!(registers.written(MEMORY)[2], request::VLAN | request::ON);
}

#[test]
fn a_ping_before_the_answer_is_heard_and_passed_over() {
    let (registers, mut mailbox) = pf(vec![vec![0x100 | 1 << 29]]);
    registers.state(|state| state.values.insert(1, request::LPE | 1 << 29 | 1 << 31));
    let answer = mailbox.ask(&message(request::LPE), 2).unwrap();
    assert!(matches!(answer, Answer::Granted(_)));
    assert!(!mailbox.has_to_begin().unwrap());
}

#[test]
fn a_ping_without_leave_to_send_or_a_reset_makes_the_vf_begin_again() {
    let (registers, mut mailbox) = pf(vec![]);
    assert!(!mailbox.has_to_begin().unwrap());
    let say = |bits: u32, word: u32| {
        registers.state(|state| {
            state.values.insert(BOX, bits);
            state.values.insert(MEMORY, word);
        });
    };
    say(PFSTS, 0x100 | 1 << 29);
    assert!(!mailbox.has_to_begin().unwrap(), "a ping alone is none");
    say(PFSTS, 0x100);
    assert!(mailbox.has_to_begin().unwrap());
    assert!(!mailbox.has_to_begin().unwrap(), "once");
    say(RSTD, 0);
    assert!(mailbox.has_to_begin().unwrap());
    assert!(
        !mailbox.has_to_begin().unwrap(),
        "the bit is cleared by reading, and used"
    );
    say(RSTI, 0);
    assert!(mailbox.has_to_begin().unwrap());
}

#[test]
fn a_pf_in_a_reset_is_waited_for() {
    let registers = Registers::default();
    registers.state(|state| {
        state.values.insert(BOX, RSTI);
        let mut looks = 0;
        state.device = Some(Box::new(move |values, _, _| {
            looks += 1;
            let next = [RSTI, RSTI, RSTD, 0][looks.min(3)];
            values.insert(BOX, next);
        }));
    });
    let mut mailbox = mailbox::open(registers, "vf".into());
    mailbox.wait_for_pf().unwrap();
    assert!(
        !mailbox.has_to_begin().unwrap(),
        "what was waited for is no news"
    );
}

#[test]
fn an_answer_to_something_else_is_told_and_a_device_that_is_gone_too() {
    let (_, mut mailbox) = pf(vec![vec![request::PROMISC | 1 << 31 | 1 << 29]]);
    let error = mailbox.ask(&message(request::LPE), 2).unwrap_err();
    assert!(matches!(error, PortError::Broken { .. }), "{error}");
    let registers = Registers::default();
    registers.state(|state| {
        state.device = Some(Box::new(|values, _, _| {
            values.insert(BOX, u32::MAX);
        }));
    });
    let mut mailbox = mailbox::open(registers, "vf".into());
    let error = mailbox.ask(&message(request::LPE), 2).unwrap_err();
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
}

#[test]
fn a_pf_that_only_announces_things_is_not_listened_to_for_ever() {
    const CONTROL: u32 = 0x100;
    let registers = Registers::default();
    registers.state(|state| {
        state.values.insert(MEMORY, CONTROL);
        state.device = Some(Box::new(|values, offset, written| {
            let claims = written == Some(VFU);
            if offset == BOX {
                values.insert(BOX, if claims { VFU } else { PFACK | PFSTS });
            }
            values.insert(MEMORY, CONTROL);
        }));
    });
    let mut mailbox = mailbox::open(registers, "vf".into());
    let error = mailbox.ask(&message(request::LPE), 2).unwrap_err();
    assert!(matches!(error, PortError::Broken { .. }), "{error}");
}
