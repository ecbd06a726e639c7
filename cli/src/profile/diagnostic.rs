//! What is wrong in a profile, with the place: file, line, column, a caret below it.

use std::fmt::Write;
use std::ops::Range;

use crate::error::Error;

/// A profile's text and where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// The file's path, or `-`.
    pub(crate) name: String,
    /// What it says.
    pub(crate) text: String,
}

impl Text {
    /// An error at the bytes `span`.
    pub(super) fn error(&self, span: Range<usize>, what: &str, help: Option<&str>) -> Error {
        let start = floor(&self.text, span.start);
        let before = &self.text[..start];
        let line_number = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        let column = before[line_start..].chars().count();
        let end = floor(&self.text, span.end.min(line_start + line.len())).max(start);
        let width = self.text[start..end].chars().count().max(1);
        let gutter = line_number.to_string().len();
        let mut text = what.to_owned();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n{:gutter$}--> {}:{line_number}:{}\n{:gutter$} |\n{line_number} | {line}\n{:gutter$} | {}{}",
            "",
            self.name,
            column + 1,
            "",
            "",
            " ".repeat(column),
            "^".repeat(width),
        );
        if let Some(help) = help {
            let _ = write!(text, " {help}");
        }
        Error::Profile(text)
    }

    /// An error of no place in particular.
    pub(super) fn error_anywhere(&self, what: &str) -> Error {
        Error::Profile(format!("{}: {what}", self.name))
    }
}

/// The last character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod test {
    use super::*;

    fn render(text: &str, span: Range<usize>) -> String {
        let text = Text {
            name: "a.toml".to_owned(),
            text: text.to_owned(),
        };
        text.error(span, "wrong", Some("help")).to_string()
    }

    #[test]
    fn the_caret_stands_below_what_is_wrong() {
        assert_eq!(
            render("x = 1\nµ = \"ab\"\n", 11..15),
            "wrong\n --> a.toml:2:5\n  |\n2 | µ = \"ab\"\n  |     ^^^^ help"
        );
    }

    #[test]
    fn any_span_has_a_place() {
        for (start, end) in [(0, 0), (5, 4), (99, 100), (7, 8), (0, 99), (8, 7)] {
            assert!(render("x = 1\nµ = 2", start..end).contains("a.toml:"));
        }
        assert!(render("", 0..1).contains("a.toml:1:1"));
    }
}
