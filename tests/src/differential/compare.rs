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
    /// As QEMU's device has it; none if there is no such line.
    pub qemu: Option<String>,
    /// As our model has it, likewise.
    pub model: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            step, what, field, ..
        } = self;
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
        let (qemu, model) = (side(&self.qemu), side(&self.model));
        write!(f, "{step}: {what} {field}: QEMU {qemu}, model {model}")
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

/// Compares the trace of QEMU's device with that of our model; `rules` say what may differ.
#[must_use]
pub fn compare(qemu: &Trace, model: &Trace, rules: &[&Allowed]) -> Found {
    let mut found = Found {
        used: vec![0; rules.len()],
        ..Found::default()
    };
    let names = |trace: &Trace| -> Vec<String> {
        trace.steps.iter().map(|step| step.name.clone()).collect()
    };
    if names(qemu) != names(model) {
        found.differences.push(Difference {
            step: "all".into(),
            what: "the steps".into(),
            field: String::new(),
            qemu: Some(names(qemu).join("; ")),
            model: Some(names(model).join("; ")),
        });
        return found;
    }
    for (qemu, model) in qemu.steps.iter().zip(&model.steps) {
        compare_steps(qemu, model, rules, &mut found);
    }
    found
}

fn compare_steps(qemu: &Step, model: &Step, rules: &[&Allowed], found: &mut Found) {
    let mut at = (0, 0);
    for pair in common(&qemu.lines, &model.lines) {
        for line in &qemu.lines[at.0..pair.0] {
            report(rules, found, alone(&qemu.name, line, Side::Qemu));
        }
        for line in &model.lines[at.1..pair.1] {
            report(rules, found, alone(&qemu.name, line, Side::Model));
        }
        if let (Some(a), Some(b)) = (qemu.lines.get(pair.0), model.lines.get(pair.1)) {
            compare_lines(&qemu.name, a, b, rules, found);
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
    let (qemu, model) = match side {
        Side::Qemu => (text, None),
        Side::Model => (None, text),
    };
    Difference {
        step: step.to_owned(),
        what: line.what.clone(),
        field: String::new(),
        qemu,
        model,
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
        let (qemu, model) = (value(a, name), value(b, name));
        if qemu != model {
            let difference = Difference {
                step: step.to_owned(),
                what: a.what.clone(),
                field: name.clone(),
                qemu,
                model,
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
        let qemu = trace(&["a | x=1 | y=2", "b", "c | z=1", "d", "e"]);
        let model = trace(&["a | x=1 | y=3", "c | z=1", "d", "f | w=4", "e"]);
        let found = compare(&qemu, &model, &[]);
        let expected = [
            "only: a y: QEMU 2, model 3",
            "only: b : QEMU , model nothing",
            "only: f : QEMU nothing, model w=4",
        ];
        assert_eq!(texts(&found), expected);
        assert_eq!(found.same, 3);
        assert!(compare(&qemu, &qemu, &[]).differences.is_empty());
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
