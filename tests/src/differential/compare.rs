//! Two traces, line by line.

use std::fmt;

use super::allowed::{Allowed, Side};
use super::trace::{Line, Step, Trace};

/// Something that differs and should not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The step in which it was seen.
    pub step: String,
    /// What it is about.
    pub what: String,
    /// Which value of it; empty for the whole line.
    pub field: String,
    /// As what others made has it (QEMU's device, Linux's driver); none if there is no such line.
    pub theirs: Option<String>,
    /// As our own (model or driver) has it, likewise.
    pub ours: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            step, what, field, ..
        } = self;
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
        let (theirs, ours) = (side(&self.theirs), side(&self.ours));
        write!(f, "{step}: {what} {field}: theirs {theirs}, ours {ours}")
    }
}

/// What two traces differ in.
#[derive(Debug, Default)]
pub struct Found {
    /// Differences that nothing allows.
    pub differences: Vec<Difference>,
    /// How often each of the rules was needed.
    pub used: Vec<usize>,
    /// Lines that are the same on both sides, allowed differences set aside.
    pub same: usize,
}

/// Compares the trace of what others made with that of our own; `rules` say what may differ.
#[must_use]
pub fn compare(theirs: &Trace, ours: &Trace, rules: &[&Allowed]) -> Found {
    let mut found = Found {
        used: vec![0; rules.len()],
        ..Found::default()
    };
    let names = |trace: &Trace| -> Vec<String> {
        trace.steps.iter().map(|step| step.name.clone()).collect()
    };
    if names(theirs) != names(ours) {
        found.differences.push(Difference {
            step: "all".into(),
            what: "the steps".into(),
            field: String::new(),
            theirs: Some(names(theirs).join("; ")),
            ours: Some(names(ours).join("; ")),
        });
        return found;
    }
    for (theirs, ours) in theirs.steps.iter().zip(&ours.steps) {
        compare_steps(theirs, ours, rules, &mut found);
    }
    found
}

fn compare_steps(theirs: &Step, ours: &Step, rules: &[&Allowed], found: &mut Found) {
    let mut at = (0, 0);
    for pair in common(&theirs.lines, &ours.lines) {
        for line in &theirs.lines[at.0..pair.0] {
            report(rules, found, alone(&theirs.name, line, Side::Theirs));
        }
        for line in &ours.lines[at.1..pair.1] {
            report(rules, found, alone(&theirs.name, line, Side::Ours));
        }
        if let (Some(a), Some(b)) = (theirs.lines.get(pair.0), ours.lines.get(pair.1)) {
            compare_lines(&theirs.name, a, b, rules, found);
        }
        at = (pair.0 + 1, pair.1 + 1);
    }
}

/// A line that the other side has not.
fn alone(step: &str, line: &Line, side: Side) -> Difference {
    let values = line
        .fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    let text = Some(values.collect::<Vec<_>>().join(" "));
    let (theirs, ours) = match side {
        Side::Theirs => (text, None),
        Side::Ours => (None, text),
    };
    Difference {
        step: step.to_owned(),
        what: line.what.clone(),
        field: String::new(),
        theirs,
        ours,
    }
}

fn compare_lines(step: &str, a: &Line, b: &Line, rules: &[&Allowed], found: &mut Found) {
    let before = found.differences.len();
    let value = |line: &Line, name: &str| {
        let field = line.fields.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| value.clone())
    };
    let mut names: Vec<&String> = a.fields.iter().map(|(name, _)| name).collect();
    let more = b.fields.iter().map(|(name, _)| name);
    names.extend(more.filter(|name| value(a, name).is_none()));
    for name in names {
        let (theirs, ours) = (value(a, name), value(b, name));
        if theirs != ours {
            let difference = Difference {
                step: step.to_owned(),
                what: a.what.clone(),
                field: name.clone(),
                theirs,
                ours,
            };
            report(rules, found, difference);
        }
    }
    if found.differences.len() == before {
        found.same += 1;
    }
}

fn report(rules: &[&Allowed], found: &mut Found, difference: Difference) {
    match rules.iter().position(|rule| rule.covers(&difference)) {
        Some(rule) => found.used[rule] += 1,
        None => found.differences.push(difference),
    }
}

/// Pairs of lines about the same thing, in order, as many as can be (the longest common
/// subsequence), and one pair past both ends.
fn common(a: &[Line], b: &[Line]) -> Vec<(usize, usize)> {
    // What is equal at both ends is most of it, and needs no table.
    let same = |(a, b): &(&Line, &Line)| a.what == b.what;
    let head = a.iter().zip(b).take_while(same).count();
    let (rest_a, rest_b) = (&a[head..], &b[head..]);
    let tail = rest_a
        .iter()
        .rev()
        .zip(rest_b.iter().rev())
        .take_while(same)
        .count();
    let (inner_a, inner_b) = (
        &rest_a[..rest_a.len() - tail],
        &rest_b[..rest_b.len() - tail],
    );
    let mut longest = vec![vec![0u32; inner_b.len() + 1]; inner_a.len() + 1];
    for (i, one) in inner_a.iter().enumerate().rev() {
        for (j, other) in inner_b.iter().enumerate().rev() {
            longest[i][j] = if one.what == other.what {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let mut pairs: Vec<_> = (0..head).map(|n| (n, n)).collect();
    let (mut i, mut j) = (0, 0);
    while i < inner_a.len() && j < inner_b.len() {
        if inner_a[i].what == inner_b[j].what {
            pairs.push((head + i, head + j));
            (i, j) = (i + 1, j + 1);
        } else if longest[i + 1][j] >= longest[i][j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs.extend((0..=tail).map(|n| (a.len() - tail + n, b.len() - tail + n)));
    pairs
}

#[cfg(test)]
mod test {
    use super::*;

    fn trace(lines: &[&str]) -> Trace {
        Trace::parse(&format!("## only\n{}", lines.join("\n")))
    }

    fn texts(found: &Found) -> Vec<String> {
        found.differences.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_value_a_line_too_many_and_one_too_few_are_found_and_nothing_else() {
        let theirs = trace(&["a | x=1 | y=2", "b", "c | z=1", "d", "e"]);
        let ours = trace(&["a | x=1 | y=3", "c | z=1", "d", "f | w=4", "e"]);
        let found = compare(&theirs, &ours, &[]);
        let expected = [
            "only: a y: theirs 2, ours 3",
            "only: b : theirs , ours nothing",
            "only: f : theirs nothing, ours w=4",
        ];
        assert_eq!(texts(&found), expected);
        assert_eq!(found.same, 3);
        assert!(compare(&theirs, &theirs, &[]).differences.is_empty());
    }

    #[test]
    fn what_follows_the_last_line_of_one_side_is_found() {
        let long = trace(&["a", "b", "a"]);
        let short = trace(&["a"]);
        assert_eq!(compare(&long, &short, &[]).differences.len(), 2);
        assert_eq!(compare(&short, &long, &[]).differences.len(), 2);
        assert_eq!(compare(&trace(&[]), &long, &[]).differences.len(), 3);
    }

    #[test]
    fn other_steps_are_a_difference_of_their_own() {
        let one = Trace::parse("## a\nx\n## b\n");
        let other = Trace::parse("## a\nx\n");
        assert_eq!(compare(&one, &other, &[]).differences.len(), 1);
    }
}
