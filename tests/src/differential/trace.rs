//! A trace: what happened, as text that can be compared.
//!
//! A trace is a list of *steps*; a step is a name and the lines that belong to it; a line says
//! *what* it is about and names values: `0 rx0[3] | len=64 | status=0x3`. It leaves a guest as
//! text, so it is text.

use std::fmt::Write as _;

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it is about, such as a register or a slot: two lines with the same are compared.
    pub what: String,
    /// Values by name.
    pub fields: Vec<(String, String)>,
}

/// Something that was done, and what was seen while it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What was done.
    pub name: String,
    /// What was seen.
    pub lines: Vec<Line>,
}

/// Everything that was done, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// The steps.
    pub steps: Vec<Step>,
}

/// What begins the line that names a step.
const STEP: &str = "## ";
/// What stands between the parts of a line.
const BAR: &str = " | ";

impl Line {
    /// A line about `what`, with `fields`.
    pub fn new(
        what: impl Into<String>,
        fields: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Self {
        // What stands between values stands in none.
        let owned = |(name, value): (&str, String)| (name.to_owned(), value.replace(BAR, "+"));
        Self {
            what: what.into(),
            fields: fields.into_iter().map(owned).collect(),
        }
    }
}

impl Trace {
    /// Begins a step.
    pub fn begin(&mut self, name: &str) {
        self.steps.push(Step {
            name: name.to_owned(),
            lines: Vec::new(),
        });
    }

    /// Adds a line to the last step.
    pub fn push(&mut self, line: Line) {
        if self.steps.is_empty() {
            self.begin("");
        }
        if let Some(step) = self.steps.last_mut() {
            step.lines.push(line);
        }
    }

    /// Lines in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.iter().map(|step| step.lines.len()).sum()
    }

    /// True for a trace without a line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The trace as text, a line each.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let _ = writeln!(text, "{STEP}{}", step.name);
            for line in &step.lines {
                text.push_str(&line.what);
                for (name, value) in &line.fields {
                    let _ = write!(text, "{BAR}{name}={value}");
                }
                text.push('\n');
            }
        }
        text
    }

    /// The trace that `text` is.
    pub fn parse(text: &str) -> Self {
        let mut trace = Self::default();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix(STEP) {
                trace.begin(name);
                continue;
            }
            let mut parts = line.split(BAR);
            let what = parts.next().unwrap_or_default().to_owned();
            let named = |part: &str| {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                (name.to_owned(), value.to_owned())
            };
            let fields = parts.map(named).collect();
            trace.push(Line { what, fields });
        }
        trace
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_trace_goes_through_text() {
        let mut trace = Trace::default();
        trace.begin("open");
        trace.push(Line::new("0 R32 0:0x8", [("value", "0x80".into())]));
        trace.begin("send = 1");
        trace.push(Line::new(
            "0 tx0[1]",
            [("len", "64".into()), ("flags", "A | B".into())],
        ));
        trace.push(Line::new("1 nothing", []));
        let text = trace.to_text();
        assert_eq!(Trace::parse(&text), trace);
        assert_eq!(trace.len(), 3);
    }
}
