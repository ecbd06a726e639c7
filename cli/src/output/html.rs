//! The report of `rgen bench` as one page that needs nothing else: no script, no font, no picture
//! from elsewhere. It prints, and it follows the reader's dark mode.
//!
//! A template engine would be a dependency for one page; what it would save is [`escaped`].

use std::borrow::Cow;

use super::bench::{self, BenchDocument, BenchRow};
use super::plot;
use super::pretty;
use crate::error::Error;
use crate::units::{scaled, size_name};

/// Colours by custom properties, so that the page follows the reader's; plots stay on white.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d0d7de;--soft:#57606a}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--line:#30363d;--soft:#8b949e}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:72rem;\
margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px;margin:1rem 0}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}
.n{text-align:right}.scroll{overflow-x:auto}
.plots{display:flex;flex-wrap:wrap;gap:1rem}
figure{margin:0;background:#fff;border:1px solid var(--line);padding:.5rem;break-inside:avoid}
figcaption{color:#57606a;font-size:12px;max-width:34rem}
p.soft,li{color:var(--soft)}pre{overflow-x:auto;font-size:12px}
";

/// Text that says what it says in HTML, too.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

/// The page.
pub(crate) fn page(document: &BenchDocument) -> Result<String, Error> {
    let heading = bench::heading(document);
    let title = escaped(&heading);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>rgen bench: {title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>rgen bench</h1>\n<p>{title}</p>\n"
    );
    if !document.complete {
        page.push_str("<p><strong>This result is partial.</strong></p>\n");
    }
    for failure in &document.failures {
        let failure = escaped(&failure.error);
        page.push_str(&format!("<p><strong>{failure}</strong></p>\n"));
    }
    let scroll = |table: String| format!("<div class=\"scroll\">\n{table}</div>\n");
    page.push_str(&scroll(bench::rates(document).html()));
    page.push_str(&figure(
        &plot::bars(document).map_err(unplotted)?,
        "NDR of each kind of frames, beside what the line carries and what the port took unpaced.",
    ));
    for (title, grid) in bench::details(document) {
        page.push_str(&format!("<h2>{title}</h2>\n{}", scroll(grid.html())));
    }
    for row in &document.rows {
        page.push_str(&kind(row)?);
    }
    page.push_str("<h2>Measured with</h2>\n<ul>\n");
    let warnings = document.warnings.iter();
    let warnings = warnings.map(|warning| format!("warning: {warning}"));
    for line in bench::conditions(document).into_iter().chain(warnings) {
        page.push_str(&format!("<li>{}</li>\n", escaped(&line)));
    }
    page.push_str(&format!(
        "</ul>\n<details><summary>The whole result, as rgen bench --json prints it</summary>\n\
         <pre>{}</pre></details>\n</body>\n</html>\n",
        escaped(&pretty(document)?)
    ));
    Ok(page)
}

fn unplotted(error: plot::PlotError) -> Error {
    Error::Unexpected(format!("a plot could not be drawn: {error}"))
}

fn figure(svg: &str, caption: &str) -> String {
    format!("<figure>\n{svg}\n<figcaption>{caption}</figcaption>\n</figure>\n")
}

/// The plots of one kind of frames.
fn kind(row: &BenchRow) -> Result<String, Error> {
    let mut part = format!(
        "<h2>{}, {}</h2>\n<div class=\"plots\">\n",
        escaped(&size_name(&row.size)),
        escaped(&row.vm)
    );
    if row.ndr.is_some() {
        part.push_str(&figure(
            &plot::path(row).map_err(unplotted)?,
            "The search: the load of each trial, and the bounds of NDR after it. Green: every \
             frame arrived; red: frames were lost; orange: frames were not sent.",
        ));
        part.push_str(&figure(
            &plot::losses(row).map_err(unplotted)?,
            "Loss against load, frames that were not sent included.",
        ));
    }
    if row.latency.iter().any(|at| !at.distribution.is_empty()) {
        part.push_str(&figure(
            &plot::percentiles(row).map_err(unplotted)?,
            "Latency by percentile, for each load.",
        ));
        part.push_str(&figure(
            &plot::cumulated(row).map_err(unplotted)?,
            "Share of the probes that were no later (cumulative distribution).",
        ));
    }
    if let Some(reason) = row.no_ndr {
        let unpaced = row.unpaced_pps.map_or(String::new(), scaled);
        part.push_str(&format!(
            "<p class=\"soft\">No search: {}. Unpaced, the port took {unpaced}pps.</p>\n",
            escaped(reason)
        ));
    }
    part.push_str("</div>\n");
    Ok(part)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn nothing_of_a_text_becomes_markup() {
        assert_eq!(
            escaped("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;"
        );
        assert_eq!(escaped("sim:ixgbe/0"), "sim:ixgbe/0");
    }
}
