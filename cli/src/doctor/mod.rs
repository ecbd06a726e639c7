//! Is this machine ready for real ports? Checks are data: `rgen doctor` runs them all, and
//! `rgen run` runs the same list before it opens a NIC, so the two cannot disagree.

mod cpu;
mod limits;
mod memory;
mod nics;
mod vfio;

use serde::Serialize;

use crate::host::Host;

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ready,
    /// It works, but numbers may suffer.
    Warning,
    /// Real ports will not work.
    Problem,
}

impl Verdict {
    /// The mark that people see; a word in brackets where the terminal has no such signs.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Ready => "[✓]",
            Self::Warning => "[!]",
            Self::Problem => "[✗]",
        }
    }
}

/// One thing that a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What it comes to.
    pub(crate) verdict: Verdict,
    /// What was found.
    pub(crate) evidence: String,
    /// A command or a change that would help.
    pub(crate) cure: Option<String>,
}

impl Finding {
    /// All is well.
    pub(crate) fn ready(evidence: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Ready,
            evidence: evidence.into(),
            cure: None,
        }
    }

    /// Numbers may suffer.
    pub(crate) fn warning(evidence: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Warning,
            evidence: evidence.into(),
            cure: Some(cure.into()),
        }
    }

    /// Real ports will not work.
    pub(crate) fn problem(evidence: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Problem,
            ..Self::warning(evidence, cure)
        }
    }
}

/// One check.
pub(crate) struct Check {
    /// Its name, which stays the same, for scripts.
    pub(crate) id: &'static str,
    /// What people call it.
    pub(crate) title: &'static str,
    /// Whether a NIC cannot be opened while it finds a problem.
    pub(crate) stops_nics: bool,
    /// Looks, and changes nothing.
    pub(crate) probe: fn(&Host) -> Vec<Finding>,
}

/// Every check, in the order in which a problem of one explains those of the next.
pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "tsc",
        title: "CPU",
        stops_nics: true,
        probe: cpu::clock,
    },
    Check {
        id: "cores",
        title: "Cores",
        stops_nics: false,
        probe: cpu::cores,
    },
    Check {
        id: "power",
        title: "Power",
        stops_nics: false,
        probe: cpu::power,
    },
    Check {
        id: "hugepages",
        title: "Memory",
        stops_nics: true,
        probe: memory::hugepages,
    },
    Check {
        id: "iommu",
        title: "IOMMU",
        stops_nics: true,
        probe: vfio::iommu,
    },
    Check {
        id: "vfio",
        title: "VFIO",
        stops_nics: true,
        probe: vfio::module,
    },
    Check {
        id: "vfio-access",
        title: "Access",
        stops_nics: true,
        probe: vfio::access,
    },
    Check {
        id: "memlock",
        title: "Limits",
        stops_nics: true,
        probe: limits::memlock,
    },
    Check {
        id: "nics",
        title: "Ports",
        stops_nics: false,
        probe: nics::nics,
    },
];

/// A check and what it found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    /// The check's name.
    pub(crate) id: &'static str,
    /// What people call it.
    pub(crate) title: &'static str,
    /// The worst of its findings.
    pub(crate) verdict: Verdict,
    /// What it found.
    pub(crate) findings: Vec<Finding>,
    #[serde(skip)]
    pub(crate) stops_nics: bool,
}

/// Runs every check.
pub(crate) fn examine(host: &Host) -> Vec<Report> {
    let report = |check: &Check| {
        let findings = (check.probe)(host);
        let worst = findings.iter().map(|finding| finding.verdict).max();
        Report {
            id: check.id,
            title: check.title,
            verdict: worst.unwrap_or(Verdict::Ready),
            findings,
            stops_nics: check.stops_nics,
        }
    };
    CHECKS.iter().map(report).collect()
}

/// The first finding that keeps NICs from being opened, with its check.
pub(crate) fn obstacle(reports: &[Report]) -> Option<(&Report, &Finding)> {
    let mut stopping = reports.iter().filter(|report| report.stops_nics);
    stopping.find_map(|report| {
        let mut findings = report.findings.iter();
        let problem = findings.find(|finding| finding.verdict == Verdict::Problem)?;
        Some((report, problem))
    })
}

#[cfg(test)]
mod test;
