//! A table that is printed in several ways: for the terminal, as Markdown, in a page.

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use super::{html, text};

/// A table's words. Numbers are from column [`Grid::numbers`] on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    /// The first column that is set flush right.
    pub(crate) numbers: usize,
}

/// What is written in a cell; a dash where there is nothing.
pub(crate) fn or_dash<T>(value: Option<T>, write: impl FnOnce(T) -> String) -> String {
    value.map_or("-".to_owned(), write)
}

impl Grid {
    fn fill(&self, table: &mut Table) {
        for row in &self.rows {
            table.add_row(row.clone());
        }
        text::align_right(table, self.numbers..self.header.len());
    }

    /// For the terminal.
    pub(crate) fn plain(&self) -> String {
        let mut table = text::table(&self.header);
        self.fill(&mut table);
        format!("{}\n", text::render(&table))
    }

    /// As a Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let mut table = text::table(&self.header);
        table.load_style(ASCII_MARKDOWN);
        self.fill(&mut table);
        format!("{table}\n")
    }

    /// As an HTML table.
    pub(crate) fn html(&self) -> String {
        let row = |cells: &[&str], tag: &str| {
            let cells = cells.iter().enumerate().map(|(n, cell)| {
                let class = if n >= self.numbers {
                    " class=\"n\""
                } else {
                    ""
                };
                format!("<{tag}{class}>{}</{tag}>", html::escaped(cell))
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let body = self.rows.iter().map(|cells| {
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            row(&cells, "td")
        });
        format!(
            "<table>\n<thead>{}</thead>\n<tbody>{}</tbody>\n</table>\n",
            row(&self.header, "th"),
            body.collect::<String>()
        )
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn grid() -> Grid {
        Grid {
            header: vec!["VM", "NDR"],
            rows: vec![
                vec!["var1".to_owned(), "5.1 Mpps".to_owned()],
                vec!["a<b&c".to_owned(), "-".to_owned()],
            ],
            numbers: 1,
        }
    }

    #[test]
    fn one_table_is_written_in_three_ways() {
        assert_eq!(
            grid().plain(),
            " VM          NDR\n var1   5.1 Mpps\n a<b&c         -\n"
        );
        let markdown = grid().markdown();
        let lines: Vec<&str> = markdown.lines().collect();
        assert_eq!(lines.len(), 4, "{markdown}");
        assert!(lines[1].starts_with("|--") && lines[2].contains("| var1"));
        let html = grid().html();
        assert!(html.contains("<td>a&lt;b&amp;c</td><td class=\"n\">-</td>"));
    }
}
