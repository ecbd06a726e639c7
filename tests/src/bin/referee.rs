//! Linux's own drivers judge our models: `cargo xtask referee` runs this.
//!
//! Exit status: 0 all passed, 1 a check failed, 2 it did not come to that.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use clap::Parser;
use peers::Guest;
use peers::guest::{Kernel, System};
use rig::referee::{self, DEVICES, Device};
use rig::runner::{Entry, Report, Verdict};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Checks that the kernel's drivers make on our models.
#[derive(Parser)]
struct Arguments {
    /// A driver of the kernel's, or `all`.
    #[arg(long, default_value = "all")]
    driver: String,
    /// `stable` or `newer`: which of Debian's kernels judges.
    #[arg(long, default_value = "stable")]
    kernel: String,
    /// Writes what was found as JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes what was found as JUnit's XML; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    junit: Option<PathBuf>,
    /// Writes the guest's console there.
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,
    /// In the guest: the addresses of the two devices.
    #[arg(long, value_name = "BDF,BDF", hide = true)]
    in_guest: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let judged = match &arguments.in_guest {
        Some(places) => in_guest(&arguments.driver, places),
        None => run(&arguments),
    };
    match judged {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("referee: {error}");
            ExitCode::from(2)
        }
    }
}

/// What was found was told in lines; that checks failed is no failure of the guest's.
fn in_guest(driver: &str, places: &str) -> Fallible<bool> {
    let device = Device::named(driver).ok_or("no such driver")?;
    let (first, second) = places.split_once(',').ok_or("two addresses are needed")?;
    referee::inside::judge(device, [first.to_owned(), second.to_owned()])?;
    Ok(true)
}

fn run(arguments: &Arguments) -> Fallible<bool> {
    let kernel = Kernel::ALL
        .into_iter()
        .find(|kernel| kernel.name() == arguments.kernel)
        .ok_or("--kernel is stable or newer")?;
    let wanted = |device: &&Device| arguments.driver == "all" || arguments.driver == device.name;
    let devices: Vec<&Device> = DEVICES.iter().filter(wanted).collect();
    if devices.is_empty() {
        let known: Vec<&str> = DEVICES.iter().map(|device| device.name).collect();
        return Err(format!(
            "no model for that driver; drivers are: {}",
            known.join(", ")
        )
        .into());
    }
    let (guest, system) = (Guest::find()?, System::find(kernel)?);
    let program = env::current_exe()?;
    let mut report = Report::default();
    let mut consoles = String::new();
    for device in devices {
        let mut tell = |entry: Entry| {
            progress(&entry);
            report.entries.push(entry);
        };
        match referee::run(&guest, &system, device, &program, &mut tell) {
            Ok(console) => consoles.push_str(&console),
            Err(error) => tell(Entry {
                on: device.title.into(),
                check: "the guest does its job".into(),
                verdict: Verdict::Failed,
                found: error.to_string(),
                took_ms: 0,
            }),
        }
    }
    if let Some(path) = &arguments.console {
        fs::write(path, &consoles)?;
    }
    let table = report.table();
    match (&arguments.json, &arguments.junit) {
        (Some(path), _) => write(path, &report.json(), &table)?,
        (_, Some(path)) => write(path, &report.junit(), &table)?,
        _ => println!("{table}"),
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
