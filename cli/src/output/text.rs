//! Tables and marks for people.

use std::borrow::Cow;
use std::io::IsTerminal;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// A table without lines, its columns two blanks apart: reads well, and cuts well with `awk`.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.to_vec());
    table
}

/// Sets numbers flush right, in these columns.
pub(crate) fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The table as text, without blanks at the ends of lines.
pub(crate) fn render(table: &Table) -> String {
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// The text with control characters written out, but for line ends: what a file or a command line
/// says must not play with the terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let is_raw = |letter: char| letter.is_control() && letter != '\n';
    if !text.contains(is_raw) {
        return Cow::Borrowed(text);
    }
    let mut printable = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_raw(letter) {
            printable.extend(letter.escape_default());
        } else {
            printable.push(letter);
        }
    }
    Cow::Owned(printable)
}

/// Whether stderr can be drawn on: a terminal that understands more than lines.
pub(crate) fn is_live() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}
