//! Our ixgbe driver beside Linux's, by hand.
//!
//! `traces record` plays the scenario with Linux's drivers in the lab's guest and renews the
//! recordings; `traces ours NAME` prints what our driver does, `traces compare [NAME]` in what it
//! differs from the recordings; `traces raw NAME FILE` writes every access of ours. NAME is a
//! device's, as [`SUBJECTS`] has it.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::process::ExitCode;
use std::{env, fs};

use peers::Guest;
use peers::guest::{Kernel, System};
use rig::beside_linux::watch::Access;
use rig::beside_linux::{SUBJECTS, Subject, compare_all, linux, recorded, scenario, tell};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Fallible<String> {
    match *words {
        ["record"] => record(None),
        ["record", folder] => record(Some(folder)),
        ["ours", name] => Ok(tell(named(name)?, &scenario::ours(named(name)?)?.0).to_text()),
        ["raw", name, file] => {
            fs::write(file, raw(named(name)?, &scenario::ours(named(name)?)?.0))?;
            Ok(String::new())
        }
        ["compare"] => {
            let found = SUBJECTS.iter().map(|subject| Ok(compare_all(subject)?));
            found.collect()
        }
        ["compare", name] => Ok(compare_all(named(name)?)?),
        _ => Err("traces record | ours NAME | raw NAME FILE | compare [NAME]".into()),
    }
}

fn named(name: &str) -> Fallible<&'static Subject> {
    let names = || SUBJECTS.iter().map(|subject| subject.name);
    let unknown = || {
        format!(
            "there is no device {name}; there are {}",
            names().collect::<Vec<_>>().join(", ")
        )
    };
    Ok(Subject::named(name).ok_or_else(unknown)?)
}

/// Renews the recordings; with a folder, every access is written there, too.
fn record(folder: Option<&str>) -> Fallible<String> {
    let (guest, system) = (Guest::find()?, System::find(Kernel::Stable)?);
    for (subject, noted) in linux::record(&guest, &system)? {
        if let Some(folder) = folder {
            fs::write(format!("{folder}/{}", subject.name), raw(subject, &noted))?;
        }
        recorded::keep(subject, &system.version(), &tell(subject, &noted))?;
    }
    Ok(String::new())
}

/// Every access, a line each.
fn raw(subject: &Subject, noted: &[Access]) -> String {
    let map = subject.map();
    let mut text = String::new();
    for access in noted {
        let _ = match access {
            Access::Read(offset, value) => {
                writeln!(text, "R {} {value:#x}", map.place(*offset).text())
            }
            Access::Write(offset, value) => {
                writeln!(text, "W {} {value:#x}", map.place(*offset).text())
            }
            Access::Step(number, _) => writeln!(text, "## {}", scenario::STEPS[*number]),
        };
    }
    text
}
