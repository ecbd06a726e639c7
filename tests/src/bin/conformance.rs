//! The conformance suite on any port: `cargo xtask conformance` runs this.
//!
//! | `--where` | the ports |
//! |---|---|
//! | `sim` | our drivers on models, in this process |
//! | `lab` | our drivers on QEMU's NICs, behind real VFIO, in a guest |
//! | `pci:BDF,BDF` | two NICs of this machine that are joined by a cable |
//!
//! Exit status: 0 all passed, 1 a check failed, 2 it did not come to that.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs};

use clap::Parser;
use hw::pci::{Bdf, Pci};
use peers::Guest;
use rig::runner::{self, Borrowed, Entry, Ground, Place, ROWS, Report, Row, Verdict};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Checks that every driver must pass.
#[derive(Parser)]
struct Arguments {
    /// A family of drivers, or `all`.
    #[arg(long, default_value = "all")]
    driver: String,
    /// sim, lab, or pci:BDF,BDF.
    #[arg(long = "where", default_value = "sim")]
    place: String,
    /// Only checks whose name contains this.
    #[arg(long, value_name = "NAME")]
    check: Option<String>,
    /// Writes what was found as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes what was found as JUnit's XML; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    junit: Option<PathBuf>,
    /// Options of PCI ports, such as `,packed=on`.
    #[arg(long, default_value = "", hide = true)]
    options: String,
    /// Prints each entry as a line, under this name: for the lab.
    #[arg(long, value_name = "NAME", hide = true)]
    lines: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// True if nothing failed.
fn run(arguments: &Arguments) -> Fallible<bool> {
    if runner::checks(arguments.check.as_deref()).is_empty() {
        return Err("no check has that in its name".into());
    }
    let mut report = Report::default();
    let mut tell = |entry: Entry| {
        match &arguments.lines {
            Some(_) => println!("{}", runner::lab::line(&entry)),
            None => progress(&entry),
        }
        report.entries.push(entry);
    };
    match arguments.place.as_str() {
        "sim" => sim(arguments, &mut tell)?,
        "lab" => lab(arguments, &mut tell)?,
        place => match place.strip_prefix("pci:") {
            Some(devices) => pci(arguments, devices, &mut tell)?,
            None => return Err("--where is sim, lab, or pci:BDF,BDF".into()),
        },
    }
    if arguments.lines.is_none() {
        let table = report.table();
        match (&arguments.json, &arguments.junit) {
            (Some(path), _) => write(path, &report.json(), &table)?,
            (_, Some(path)) => write(path, &report.junit(), &table)?,
            _ => println!("{table}"),
        }
    }
    Ok(report.count(Verdict::Failed) == 0 && !report.entries.is_empty())
}

/// A line for each entry, as it comes: on standard error, as the result is the table.
fn progress(entry: &Entry) {
    let Entry {
        on, check, took_ms, ..
    } = entry;
    match entry.verdict {
        Verdict::Passed => eprintln!("ok: {on}: {check} ({took_ms} ms)"),
        Verdict::NotOffered => eprintln!("not offered: {on}: {check} ({})", entry.found),
        Verdict::Failed => eprintln!("FAILED: {on}: {check}: {}", entry.found),
    }
}

/// The document goes where it shall, and the table beside it.
fn write(path: &Path, document: &str, table: &str) -> Fallible<()> {
    if path == Path::new("-") {
        print!("{document}");
        return Ok(());
    }
    fs::write(path, document).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{table}");
    Ok(())
}

/// The rows that `--driver` names and that `place` lets through.
fn rows(driver: &str, place: fn(&Row) -> bool) -> Fallible<Vec<&'static Row>> {
    let wanted = |row: &&Row| place(row) && (driver == "all" || driver == row.driver);
    let rows: Vec<&Row> = ROWS.iter().filter(wanted).collect();
    if rows.is_empty() {
        let known = runner::rows::drivers().join(", ");
        return Err(format!("there is no such driver there; drivers are: {known}").into());
    }
    Ok(rows)
}

fn sim(arguments: &Arguments, tell: &mut dyn FnMut(Entry)) -> Fallible<()> {
    let checks = runner::checks(arguments.check.as_deref());
    for row in rows(&arguments.driver, Row::is_sim)? {
        if let Place::Sim(port) = row.place {
            let ports = [port, port].map(str::to_owned);
            runner::suite(&row.title(), &ports, &checks, &mut |entry| {
                tell(entry);
                true
            });
        }
    }
    Ok(())
}

fn lab(arguments: &Arguments, tell: &mut dyn FnMut(Entry)) -> Fallible<()> {
    let rows = rows(&arguments.driver, |row| !row.is_sim())?;
    let guest = Guest::find()?;
    let program = env::current_exe()?;
    let check = arguments.check.as_deref();
    let ground = Ground::debian(guest);
    Ok(runner::lab::run(&ground, &program, &rows, check, tell)?)
}

/// Two devices of this machine, given back as they were found: also when a key ends it.
fn pci(arguments: &Arguments, devices: &str, tell: &mut dyn FnMut(Entry)) -> Fallible<()> {
    let devices: Vec<Bdf> = devices
        .split(',')
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [first, second] = devices[..] else {
        return Err("two devices are needed: pci:0000:3b:00.0,0000:3b:00.1".into());
    };
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let borrowed = Borrowed::take(&Pci::host(), &devices).map_err(|error| {
        let cure = error.remedy().map(|cure| format!("; {cure}"));
        format!("{error}{}", cure.unwrap_or_default())
    })?;
    let ports = [first, second].map(|bdf| format!("{bdf}{}", arguments.options));
    let on = arguments
        .lines
        .clone()
        .unwrap_or_else(|| ports.join(" and "));
    let checks = runner::checks(arguments.check.as_deref());
    runner::suite(&on, &ports, &checks, &mut |entry| {
        tell(entry);
        !ended.load(Ordering::Relaxed)
    });
    borrowed.give_back()?;
    if ended.load(Ordering::Relaxed) {
        return Err("ended by a signal; the devices are back where they were".into());
    }
    Ok(())
}
