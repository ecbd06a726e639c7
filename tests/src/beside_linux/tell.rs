//! What was noted, told so that two drivers can be compared: landmarks in their order, values of
//! registers once everything runs, messages through the mailbox.

use std::collections::BTreeMap;

use super::landmarks::{Landmark, Lane, On, PHYSICAL, RESETS, VIRTUAL};
use super::messages::Messages;
use super::registers::{Map, field, fields, get, rest};
use super::scenario::STEPS;
use super::shapes::Shapes;
use super::subject::Subject;
use super::watch::Access;
use crate::differential::Trace;
use crate::differential::trace::Line;

/// Steps at whose end the values of registers are told.
const VALUES_AFTER: &[&str] = &["up", "jumbo"];

/// What was noted of `subject`, told.
#[must_use]
pub fn tell(subject: &Subject, noted: &[Access]) -> Trace {
    let lanes = if subject.is_vf { VIRTUAL } else { PHYSICAL };
    let mut story = Story {
        map: subject.map(),
        is_vf: subject.is_vf,
        tellers: lanes.iter().map(Teller::new).collect(),
        messages: Messages::default(),
        shapes: Shapes::default(),
        trace: Trace::default(),
    };
    let mut step = None;
    for access in noted {
        match access {
            Access::Step(number, values) => {
                if let Some(name) = step {
                    story.end(name, values);
                }
                step = STEPS.get(*number).copied();
            }
            // What comes before the first step is whoever watches looking around.
            _ if step.is_none() => {}
            Access::Read(offset, value) => story.hear(*offset, *value, true),
            Access::Write(offset, value) => story.hear(*offset, *value, false),
        }
    }
    story.trace
}

/// What is told, and what it is made of.
struct Story {
    map: Map,
    is_vf: bool,
    tellers: Vec<Teller>,
    messages: Messages,
    shapes: Shapes,
    trace: Trace,
}

impl Story {
    fn hear(&mut self, offset: u32, word: u32, is_read: bool) {
        let place = self.map.place(offset);
        for teller in &mut self.tellers {
            teller.hear(place.name, place.index, word, is_read);
        }
        if self.is_vf {
            self.messages.hear(place.name, place.index, word, is_read);
            self.shapes.hear_virtual(place.name, word, is_read);
        } else {
            self.shapes.hear_physical(place.name, word, is_read);
        }
    }

    /// A step is over: what happened in it is told, and what the registers hold now.
    fn end(&mut self, step: &str, values: &[(u32, u32)]) {
        for teller in &mut self.tellers {
            let lines = std::mem::take(&mut teller.lines);
            add(&mut self.trace, step, teller.lane.name, lines);
        }
        if self.is_vf {
            add(&mut self.trace, step, "messages", self.messages.take());
            add(&mut self.trace, step, "mailbox", self.shapes.take());
        } else {
            add(&mut self.trace, step, "semaphores", self.shapes.take());
        }
        if VALUES_AFTER.contains(&step) {
            self.trace.begin(&format!("{step}: values"));
            tell_values(&mut self.trace, &self.map, values);
        }
    }
}

fn add(trace: &mut Trace, step: &str, what: &str, lines: Vec<Line>) {
    trace.begin(&format!("{step}: {what}"));
    for line in lines {
        trace.push(line);
    }
}

fn tell_values(trace: &mut Trace, map: &Map, values: &[(u32, u32)]) {
    for &(offset, value) in values {
        let place = map.place(offset);
        let mut told: Vec<(&'static str, String)> = fields(place.name)
            .iter()
            .map(|&field| (field.0, format!("{:#x}", get(field, value))))
            .collect();
        told.push(("rest", format!("{:#x}", rest(place.name, value))));
        trace.push(Line::new(place.text(), told));
    }
}

/// What one lane says of a step.
struct Teller {
    lane: &'static Lane,
    lines: Vec<Line>,
    /// What each register was when it was seen last.
    seen: BTreeMap<&'static str, u32>,
    /// What was told last of each landmark that is about reads.
    told: BTreeMap<usize, u32>,
}

impl Teller {
    const fn new(lane: &'static Lane) -> Self {
        Self {
            lane,
            lines: Vec::new(),
            seen: BTreeMap::new(),
            told: BTreeMap::new(),
        }
    }

    /// The register was read or written.
    fn hear(&mut self, register: &'static str, index: Option<u32>, word: u32, is_read: bool) {
        // What is said of the first of a row goes for the others.
        if index.is_some_and(|index| index != 0) {
            return;
        }
        let lane = self.lane;
        let of = |mark: &&(usize, &Landmark)| mark.1.register == register;
        let landmarks = lane.landmarks.iter().enumerate();
        let before = self.seen.insert(register, word).unwrap_or(0);
        for (number, mark) in landmarks.filter(|mark| of(&mark)) {
            if mark.on.is_read() == is_read {
                self.try_landmark(number, mark, before, word);
            }
        }
    }

    fn try_landmark(&mut self, number: usize, mark: &Landmark, before: u32, word: u32) {
        let own = |word| field(mark.register, mark.field).map_or(word, |field| get(field, word));
        let (was, is) = (own(before), own(word));
        let last = self.told.get(&number).copied();
        let is_one = match mark.on {
            On::Write => was != is,
            On::Pulse => is != 0,
            On::Touch | On::Zero => true,
            On::Change | On::Answer => last != Some(is),
        };
        if !is_one {
            return;
        }
        let (letter, dot) = (
            if mark.on.is_read() { 'R' } else { 'W' },
            if mark.field.is_empty() { "" } else { "." },
        );
        let what = format!("{letter} {}{dot}{}", mark.register, mark.field);
        let value = match mark.on {
            On::Zero if is == 0 => "0".to_owned(),
            On::Zero => "some".to_owned(),
            On::Touch => String::new(),
            _ => format!("{is:#x}"),
        };
        let fields = Some(("value", value)).filter(|(_, value)| !value.is_empty());
        let line = Line::new(what, fields);
        self.tell(number, mark.on, is, line);
        if RESETS.contains(&mark.register) && mark.on == On::Pulse {
            self.told.clear();
            self.seen.clear();
        }
    }

    fn tell(&mut self, number: usize, on: On, is: u32, line: Line) {
        if on.is_read() {
            // Of a register that is polled, the last reading counts.
            if self.lines.last().is_some_and(|last| last.what == line.what) {
                self.lines.pop();
            }
            self.told.insert(number, is);
        } else {
            let lane = self.lane;
            self.told
                .retain(|&mark, _| lane.landmarks[mark].on != On::Answer);
            if self.lines.last() == Some(&line) {
                return;
            }
        }
        self.lines.push(line);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const CTRL: u32 = 0x0;
    const STATUS: u32 = 0x8;
    const EEC: u32 = 0x1_0010;
    const RXDCTL0: u32 = 0x1028;
    const RDT0: u32 = 0x1018;
    const RST: u32 = 1 << 26;

    fn lane(name: &str, step: usize, accesses: &[Access]) -> Vec<String> {
        let mut noted = vec![Access::Step(step, Vec::new())];
        noted.extend(accesses.iter().cloned());
        noted.push(Access::Step(STEPS.len() - 1, vec![(0x1014, 0x1200_0402)]));
        let text = tell(Subject::named("82599").unwrap(), &noted).to_text();
        let begin = format!("## {}: {name}\n", STEPS[step]);
        let (_, rest) = text.split_once(&begin).unwrap();
        let own = rest.split("## ").next().unwrap();
        own.lines().map(str::to_owned).collect()
    }

    #[test]
    fn of_a_poll_the_last_reading_is_told_and_a_reset_makes_all_of_it_new() {
        use Access::{Read, Write};
        let ready = 1 << 9;
        let told = lane(
            "reset",
            0,
            &[
                Read(EEC, ready),
                Write(CTRL, RST),
                Read(CTRL, RST),
                Read(CTRL, RST),
                Read(CTRL, 0),
                Read(EEC, 0),
                Read(EEC, 0),
                Read(EEC, ready),
                Read(STATUS, 1 << 19),
                Read(EEC, ready),
            ],
        );
        let expected = [
            "R EEC.ARD | value=0x1",
            "W CTRL.RST | value=0x1",
            "R CTRL.RST | value=0x0",
            "R EEC.ARD | value=0x1",
            "R STATUS.GIO_MASTER | value=0x1",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_queue_is_told_of_by_its_first_and_a_tail_by_whether_there_is_something() {
        use Access::{Read, Write};
        let on = 1 << 25;
        let told = lane(
            "receive",
            1,
            &[
                Write(RDT0, 0),
                Write(RXDCTL0, on),
                Write(RXDCTL0 + 0x40, on),
                Read(RXDCTL0, 0),
                Read(RXDCTL0, on),
                Write(RDT0, 64),
                Write(RDT0, 128),
            ],
        );
        let expected = [
            "W RDT | value=0",
            "W RXDCTL.ENABLE | value=0x1",
            "R RXDCTL.ENABLE | value=0x1",
            "W RDT | value=some",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn values_are_told_field_by_field_with_what_no_field_has() {
        let told = lane("values", 1, &[]);
        let expected = "SRRCTL[0] | BSIZEPACKET=0x2 | BSIZEHEADER=0x4 | RDMTS=0x0 | DESCTYPE=0x1 | \
                        DROP_EN=0x1 | rest=0x0";
        assert_eq!(told, [expected]);
    }

    #[test]
    fn a_message_is_told_when_it_is_given_away_and_its_answer_when_it_was_read() {
        use Access::{Read, Step, Write};
        let noted = [
            Step(0, Vec::new()),
            Write(0x2fc, 4),
            Write(0x200, 0x8),
            Write(0x204, 0x3),
            Write(0x2fc, 1),
            Read(0x2fc, 0x20),
            Read(0x200, 0xa000_0008),
            Read(0x204, 0x3),
            Write(0x2fc, 2),
            Step(1, Vec::new()),
        ];
        let text = tell(Subject::named("82599-vf").unwrap(), &noted).to_text();
        let (_, told) = text.split_once("## load: messages\n").unwrap();
        let expected = "asks: negotiate | w0=0x8 | w1=0x3\nhears: negotiate | w0=0xa0000008\n\
                        ## load: mailbox\n\
                        mailbox: writes VFU, fills, writes REQ, finds PFACK, reads, writes ACK\n";
        assert_eq!(told, expected);
    }
}
