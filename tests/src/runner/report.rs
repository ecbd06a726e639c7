//! What the suite found: lines between processes, a table for people, JSON and JUnit for
//! programs.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// What became of one check on one kind of port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The kind of port.
    pub on: String,
    /// The check, a sentence.
    pub check: String,
    /// How it went.
    pub verdict: Verdict,
    /// What was found, or what the device does not offer; empty for what passed.
    pub found: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It holds.
    Passed,
    /// It does not.
    Failed,
    /// The device does not offer what it is about.
    NotOffered,
}

impl Verdict {
    fn mark(self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Failed => "FAIL",
            Self::NotOffered => "-",
        }
    }
}

/// Everything that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Each check on each kind of port, in the order in which they ran.
    pub entries: Vec<Entry>,
}

impl Report {
    /// How many checks went so.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        let went = self.entries.iter().map(|entry| entry.verdict);
        went.filter(|&found| found == verdict).count()
    }

    /// The closing line.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.count(Verdict::Passed),
            self.count(Verdict::Failed),
            self.count(Verdict::NotOffered)
        )
    }

    /// A table of checks and kinds of ports; below it what failed and why, and what was not
    /// offered; the summary.
    #[must_use]
    pub fn table(&self) -> String {
        let (checks, kinds) = (self.distinct(|e| &e.check), self.distinct(|e| &e.on));
        let mut text = String::new();
        for (n, kind) in kinds.iter().enumerate() {
            let _ = writeln!(text, "[{}] {kind}", n + 1);
        }
        let width = checks.iter().map(|c| c.chars().count()).max().unwrap_or(0);
        let _ = write!(text, "\n{:width$}", "");
        for n in 1..=kinds.len() {
            let _ = write!(text, "  {:>4}", format!("[{n}]"));
        }
        text.push('\n');
        for check in &checks {
            let _ = write!(text, "{check:width$}");
            for kind in &kinds {
                let entry = self
                    .entries
                    .iter()
                    .find(|e| e.check == **check && e.on == **kind);
                let mark = entry.map_or("", |entry| entry.verdict.mark());
                let _ = write!(text, "  {mark:>4}");
            }
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&self.remarks());
        text.push_str(&self.summary());
        text
    }

    /// What failed, and what is not offered, each with its kinds of ports.
    fn remarks(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            if entry.verdict == Verdict::Failed {
                let Entry {
                    on, check, found, ..
                } = entry;
                let _ = writeln!(text, "FAILED: {on}: {check}: {found}");
            }
        }
        let offered = |e: &&Entry| e.verdict == Verdict::NotOffered;
        let mut missing: Vec<&str> = Vec::new();
        for entry in self.entries.iter().filter(offered) {
            if !missing.contains(&entry.found.as_str()) {
                missing.push(&entry.found);
            }
        }
        for what in missing {
            let mut on: Vec<&str> = Vec::new();
            for entry in self.entries.iter().filter(offered) {
                if entry.found == what && !on.contains(&entry.on.as_str()) {
                    on.push(&entry.on);
                }
            }
            let _ = writeln!(text, "not offered: {what}: {}", on.join("; "));
        }
        text
    }

    fn distinct(&self, field: impl Fn(&Entry) -> &String) -> Vec<&String> {
        let mut found = Vec::new();
        for entry in &self.entries {
            if !found.contains(&field(entry)) {
                found.push(field(entry));
            }
        }
        found
    }

    /// One JSON document.
    #[must_use]
    pub fn json(&self) -> String {
        let document = serde_json::json!({
            "schema": "rgen-conformance-1",
            "passed": self.count(Verdict::Passed),
            "failed": self.count(Verdict::Failed),
            "skipped": self.count(Verdict::NotOffered),
            "entries": self.entries,
        });
        format!("{document:#}\n")
    }

    /// JUnit's XML, which continuous integration shows: a suite for each kind of port.
    #[must_use]
    pub fn junit(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for kind in self.distinct(|entry| &entry.on) {
            let entries = || self.entries.iter().filter(|entry| entry.on == *kind);
            let count = |verdict| entries().filter(|e| e.verdict == verdict).count();
            let _ = writeln!(
                text,
                "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
                escaped(kind),
                entries().count(),
                count(Verdict::Failed),
                count(Verdict::NotOffered)
            );
            for entry in entries() {
                let seconds = format!("{}.{:03}", entry.took_ms / 1000, entry.took_ms % 1000);
                let _ = write!(
                    text,
                    "    <testcase classname=\"{}\" name=\"{}\" time=\"{seconds}\"",
                    escaped(kind),
                    escaped(&entry.check)
                );
                let found = escaped(&entry.found);
                let _ = match entry.verdict {
                    Verdict::Passed => writeln!(text, "/>"),
                    Verdict::Failed => {
                        writeln!(text, "><failure message=\"{found}\"/></testcase>")
                    }
                    Verdict::NotOffered => {
                        writeln!(text, "><skipped message=\"{found}\"/></testcase>")
                    }
                };
            }
            text.push_str("  </testsuite>\n");
        }
        text.push_str("</testsuites>\n");
        text
    }
}

/// What XML allows in an attribute; other control characters are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod test {
    use super::*;

    fn report() -> Report {
        let entry = |on: &str, check: &str, verdict, found: &str| Entry {
            on: on.into(),
            check: check.into(),
            verdict,
            found: found.into(),
            took_ms: 1234,
        };
        Report {
            entries: vec![
                entry("a", "it holds", Verdict::Passed, ""),
                entry("a", "it goes", Verdict::NotOffered, "going"),
                entry("b", "it holds", Verdict::Failed, "3 < 4 & \"x\"\u{1}"),
                entry("b", "it goes", Verdict::NotOffered, "going"),
            ],
        }
    }

    #[test]
    fn the_table_has_a_column_for_each_kind_and_ends_with_the_summary() {
        let table = report().table();
        let lines: Vec<&str> = table.lines().collect();
        let expected = [
            "[1] a",
            "[2] b",
            "",
            "           [1]   [2]",
            "it holds  pass  FAIL",
            "it goes      -     -",
            "",
            "FAILED: b: it holds: 3 < 4 & \"x\"\u{1}",
            "not offered: going: a; b",
            "1 passed, 1 failed, 2 skipped",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn junit_counts_each_suite_and_escapes_what_was_found() {
        let xml = report().junit();
        assert!(xml.contains("<testsuite name=\"b\" tests=\"2\" failures=\"1\" skipped=\"1\">"));
        assert!(xml.contains("<failure message=\"3 &lt; 4 &amp; &quot;x&quot;\"/>"));
        assert!(xml.contains("time=\"1.234\""), "{xml}");
    }

    #[test]
    fn an_entry_goes_through_a_line_of_text() {
        for entry in report().entries {
            let line = serde_json::to_string(&entry).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
        }
    }
}
