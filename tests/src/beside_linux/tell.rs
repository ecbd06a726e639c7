//! What was noted, told so that two drivers can be compared: landmarks in their order, values of
//! registers once everything runs, messages through the mailbox.

use std::collections::BTreeMap;

use super::landmarks::{Landmark, Lane, On, PHYSICAL, RESETS, VIRTUAL};
use super::messages::Messages;
use super::registers::{Map, field, fields, get, rest};
use super::scenario::STEPS;
use super::subject::Subject;
use super::watch::Access;
use crate::differential::Trace;
use crate::differential::trace::Line;

/// Steps at whose end the values of registers are told.
const VALUES_AFTER: &[&str] = &["up", "jumbo"];

/// What was noted of `subject`, told.
#[must_use]
pub fn tell(subject: &Subject, noted: &[Access]) -> Trace {
    let map = subject.map();
    let lanes = if subject.is_vf { VIRTUAL } else { PHYSICAL };
    let mut tellers: Vec<Teller> = lanes.iter().map(Teller::new).collect();
    let mut messages = Messages::default();
    let mut trace = Trace::default();
    let mut step = None;
    for access in noted {
        match access {
            Access::Step(number, values) => {
                if let Some(name) = step {
                    end(&mut trace, name, &mut tellers, &mut messages, subject);
                    if VALUES_AFTER.contains(&name) {
                        trace.begin(&format!("{name}: values"));
                        tell_values(&mut trace, &map, values);
                    }
                }
                step = STEPS.get(*number).copied();
            }
            Access::Read(offset, value) => {
                let place = map.place(*offset);
                for teller in &mut tellers {
                    teller.hear(place.name, place.index, *value, true);
                }
                messages.read(place.name, place.index, *value);
            }
            Access::Write(offset, value) => {
                let place = map.place(*offset);
                for teller in &mut tellers {
                    teller.hear(place.name, place.index, *value, false);
                }
                messages.written(place.name, place.index, *value);
            }
        }
    }
    trace
}

/// A step is over: what happened in it is told.
fn end(
    trace: &mut Trace,
    name: &str,
    tellers: &mut [Teller],
    messages: &mut Messages,
    subject: &Subject,
) {
    for teller in tellers {
        trace.begin(&format!("{name}: {}", teller.lane.name));
        for line in teller.lines.drain(..) {
            trace.push(line);
        }
    }
    if subject.is_vf {
        trace.begin(&format!("{name}: messages"));
        for line in messages.take() {
            trace.push(line);
        }
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
            On::Pulse | On::Seen => is != 0,
            On::Touch | On::Zero | On::Load => true,
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
            On::Load if mark.field.is_empty() => String::new(),
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
