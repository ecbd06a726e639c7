//! `rgen doctor`: is this machine ready for real ports?

use serde::Serialize;

use super::Manner;
use crate::doctor::{self, Report, Verdict};
use crate::error::{Error, Exit};
use crate::host::Host;
use crate::output;
use crate::output::schema::Schema;

/// What `rgen doctor --json` prints.
#[derive(Serialize)]
struct Document {
    schema: Schema,
    version: &'static str,
    /// No problem was found.
    ready: bool,
    warnings: usize,
    problems: usize,
    checks: Vec<Report>,
}

/// Runs every check and prints what each found; exit code 3 if there is a problem.
pub(super) fn run(manner: Manner) -> Result<Exit, Error> {
    let reports = doctor::examine(&Host::here());
    let count = |verdict| {
        let findings = reports.iter().flat_map(|report| &report.findings);
        findings
            .filter(|finding| finding.verdict == verdict)
            .count()
    };
    let (ready, warnings, problems) = (
        count(Verdict::Ready),
        count(Verdict::Warning),
        count(Verdict::Problem),
    );
    if manner.json {
        output::document(&Document {
            schema: Schema::Doctor,
            version: env!("CARGO_PKG_VERSION"),
            ready: problems == 0,
            warnings,
            problems,
            checks: reports,
        })?;
    } else {
        let summary = format!("{ready} ready, {warnings} warnings, {problems} problems");
        output::result(&format!("{}{summary}\n", for_people(&reports)))?;
        if problems > 0 && !manner.quiet {
            output::say("sim:, vhost-user: and null: ports work all the same: rgen demo");
        }
    }
    Ok(if problems == 0 {
        Exit::Done
    } else {
        Exit::NotReady
    })
}

/// Evidence, and under each problem its cure.
fn for_people(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        for (index, finding) in report.findings.iter().enumerate() {
            let title = if index == 0 { report.title } else { "" };
            let mark = finding.verdict.mark();
            text.push_str(&format!("{mark} {title:<8} {}\n", finding.evidence));
            if let Some(cure) = &finding.cure {
                text.push_str(&format!("             cure: {cure}\n"));
            }
        }
    }
    text
}
