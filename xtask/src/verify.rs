//! `cargo xtask test`: every check and every test, and one line at the end that counts them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use peers::guest::Kernel;

use crate::lab::{Outcome, Part};
use crate::run::{self, Done};
use crate::{lab, pages, tidy};

/// What a step may take before it counts as hanging. A first build of everything is in it.
const LIMIT: Duration = Duration::from_secs(75 * 60);
/// Pages of 2 MiB that tests may ask for.
const PAGES: u64 = 512;

/// What to leave out.
#[derive(Args)]
pub(crate) struct Options {
    /// Leaves the lab as it is; tests that need a peer are skipped where there is none.
    #[arg(long)]
    no_lab: bool,
    /// Runs only tests whose name contains this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// What has been counted so far, and what went wrong.
#[derive(Default)]
struct Tally {
    passed: u64,
    failures: Vec<String>,
    failed_tests: u64,
    skips: Vec<String>,
}

impl Tally {
    /// Counts one check.
    fn check(&mut self, name: &str, result: std::result::Result<(), String>) {
        match result {
            Ok(()) => {
                println!("ok: {name}");
                self.passed += 1;
            }
            Err(why) => {
                println!("FAILED: {name}\n{why}");
                self.failures.push(name.to_owned());
            }
        }
    }

    /// Counts what a test runner says of itself.
    fn tests(&mut self, name: &str, done: &Done, counts: Counts) {
        self.passed += counts.passed;
        self.failed_tests += counts.failed;
        if counts.skipped > 0 {
            self.skips.push(format!(
                "{name}: {} left out by the test runner",
                counts.skipped
            ));
        }
        if !done.is_success() && counts.failed == 0 {
            println!("FAILED: {name}: {}", done.verdict());
            self.failures.push(format!("{name} ({})", done.verdict()));
        }
    }

    /// Prints the summary; true if nothing failed.
    fn close(self, took: Duration) -> bool {
        println!("\n{} s in all", took.as_secs());
        for skip in &self.skips {
            println!("skipped: {skip}");
        }
        for failure in &self.failures {
            println!("failed: {failure}");
        }
        if self.failed_tests > 0 {
            println!("failed: {} tests, named above", self.failed_tests);
        }
        let failed = self.failures.len() as u64 + self.failed_tests;
        let skipped = self.skips.len() as u64;
        println!("{} passed, {failed} failed, {skipped} skipped", self.passed);
        failed == 0
    }
}

/// Runs it all; true if nothing failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let started = Instant::now();
    let root = crate::root();
    announce();
    let mut tally = Tally::default();
    cargo_check(
        &mut tally,
        "format",
        run::cargo(&root).args(["fmt", "--all", "--check"]),
    );
    rules(&mut tally, &root);
    clippy(&mut tally, &root);
    if !options.no_lab {
        lab(&mut tally);
    }
    tests(&mut tally, &root, options.only.as_deref())?;
    docs(&mut tally, &root);
    Ok(tally.close(started.elapsed()))
}

/// Only the checks that read the sources.
pub(crate) fn tidy_only() -> Result<bool> {
    let started = Instant::now();
    let mut tally = Tally::default();
    rules(&mut tally, &crate::root());
    Ok(tally.close(started.elapsed()))
}

fn announce() {
    println!(
        "cargo xtask test: format, tidy rules, clippy, the lab of peers, every test, docs.\n\
         It installs, where it is missing and only as root, the Debian packages mmdebstrap and\n\
         iproute2, and builds in {} a Debian root with DPDK, tcpdump and tshark, one\n\
         with QEMU and a kernel for its guests, one with the kernel's own drivers, and a kernel from Debian's\n\
         source (about 1.5 GB together; 3 GB more while the kernel is built, for some minutes).\n\
         As root it reserves {PAGES} pages of 2 MiB while tests run, and gives them back.\n",
        peers::Lab::home().display()
    );
}

fn cargo_check(tally: &mut Tally, name: &str, command: &mut Command) {
    println!("\n== {name}");
    let result = match run::watch(command, LIMIT, |_| true) {
        Ok(done) if done.is_success() => Ok(()),
        Ok(done) => Err(format!("  {}", done.verdict())),
        Err(error) => Err(format!("  {error:#}")),
    };
    tally.check(name, result);
}

fn rules(tally: &mut Tally, root: &Path) {
    println!("\n== tidy");
    for (name, broken) in tidy::check(root) {
        let result = match broken {
            Ok(broken) if broken.is_empty() => Ok(()),
            Ok(broken) => Err(format!("  {}", broken.join("\n  "))),
            Err(error) => Err(format!("  {error:#}")),
        };
        tally.check(&format!("tidy: {name}"), result);
    }
}

fn clippy(tally: &mut Tally, root: &Path) {
    let mut command = run::cargo(root);
    command.args(["clippy", "--workspace", "--all-targets", "--keep-going"]);
    command.args(["--", "-D", "warnings"]);
    cargo_check(tally, "clippy", &mut command);
}

fn docs(tally: &mut Tally, root: &Path) {
    let mut command = run::cargo(root);
    command.args([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
        "--keep-going",
    ]);
    // Private items are documented too, so links to them lead somewhere.
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    command.env("RUSTDOCFLAGS", flags);
    cargo_check(tally, "docs", &mut command);
}

fn lab(tally: &mut Tally) {
    println!("\n== lab");
    for part in [
        Part::Peers,
        Part::Guest,
        Part::Referee(Kernel::Stable),
        Part::Referee(Kernel::Newer),
        Part::OwnKernel,
    ] {
        let name = format!("lab, {}", part.name());
        match lab::build(part, false) {
            Ok(Outcome::Ready(what)) => tally.check(&format!("{name}: {what}"), Ok(())),
            Ok(Outcome::Unavailable(why)) => {
                println!("skipped: {name}: {why}");
                tally.skips.push(format!("{name}: {why}"));
            }
            Err(error) => tally.check(&name, Err(format!("  {error:#}"))),
        }
    }
}

/// Runs unit, integration and documentation tests.
fn tests(tally: &mut Tally, root: &Path, only: Option<&str>) -> Result<()> {
    let _pages = match pages::Reserved::at_least(PAGES) {
        Ok(pages) => Some(pages),
        Err(why) => {
            println!("\nno hugepages for the tests: {why:#}");
            None
        }
    };
    let folder = tempfile::tempdir()?;
    let skips = folder.path().join("skips");

    println!("\n== tests");
    let has_nextest = run::read(run::cargo(root).args(["nextest", "--version"])).is_ok();
    let mut command = run::cargo(root);
    if has_nextest {
        command.args([
            "nextest",
            "run",
            "--workspace",
            "--no-fail-fast",
            "--no-tests=pass",
        ]);
    } else {
        command.args([
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
        ]);
    }
    command.args(only).env("RGEN_SKIPS", &skips);
    let done = run::watch(&mut command, LIMIT, |_| true)?;
    tally.tests("tests", &done, Counts::read(&done.lines));

    println!("\n== documentation tests");
    let mut command = run::cargo(root);
    command
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .env("RGEN_SKIPS", &skips);
    let done = run::watch(command.args(only), LIMIT, |_| true)?;
    tally.tests("documentation tests", &done, Counts::read(&done.lines));

    // A test that skipped itself returned, and so was counted as passed.
    let noted = fs::read_to_string(&skips).unwrap_or_default();
    tally.passed = tally.passed.saturating_sub(noted.lines().count() as u64);
    tally.skips.extend(noted.lines().map(str::to_owned));
    Ok(())
}

/// What a test runner counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Reads the closing lines of `cargo test` (one a binary) and of `cargo nextest` (one).
    fn read(lines: &[String]) -> Self {
        let mut counts = Self::default();
        for line in lines {
            // Only at the line's start: nextest shows, indented, what a failed test's own
            // runner said.
            let list = if let Some(list) = line.strip_prefix("test result: ") {
                list.split_once(". ").map_or("", |(_, list)| list)
            } else if line.trim_start().starts_with("Summary [") {
                line.split_once(" run: ").map_or("", |(_, list)| list)
            } else {
                continue;
            };
            for part in list.split([',', ';']) {
                counts.add(part.trim());
            }
        }
        counts
    }

    /// Adds one part, such as `3 passed`, `1 timed out` or `2 passed (1 slow)`.
    fn add(&mut self, part: &str) {
        let Some((number, what)) = part.split_once(' ') else {
            return;
        };
        let Ok(number) = number.parse::<u64>() else {
            return;
        };
        // `filtered out` and `measured` are what was not asked for.
        match what.split(['(', ' ']).next() {
            Some("passed") => self.passed += number,
            Some("failed" | "timed" | "exec") => self.failed += number,
            Some("ignored" | "skipped") => self.skipped += number,
            _ => {}
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn read(text: &str) -> Counts {
        Counts::read(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn every_binary_that_cargo_test_ran_is_counted() {
        let counts = read(
            "running 3 tests\ntest a ... ok\n\
             test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\
             test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 9.16s\n",
        );
        assert_eq!(
            counts,
            Counts {
                passed: 7,
                failed: 1,
                skipped: 2
            }
        );
    }

    #[test]
    fn nextests_summary_is_counted_with_what_timed_out() {
        let counts = read(
            "        PASS [   0.004s] rig a\n\
             \x20   test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n\
             \x20    Summary [   9.163s] 12 tests run: 8 passed (1 slow, 1 flaky), 2 failed, \
             1 timed out, 1 exec failed, 3 skipped\n",
        );
        assert_eq!(
            counts,
            Counts {
                passed: 8,
                failed: 4,
                skipped: 3
            }
        );
    }

    #[test]
    fn a_run_without_a_summary_counts_nothing() {
        assert_eq!(read("error: could not compile `rig`\n"), Counts::default());
    }
}
