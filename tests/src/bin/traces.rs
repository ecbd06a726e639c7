//! Our ixgbe driver beside Linux's, by hand.
//!
//! `traces record` plays the scenario with Linux's drivers in the lab's guest and renews the
//! recordings, with `traces record FOLDER` every access is written there too, and `traces tell
//! FOLDER` makes recordings of that again; `traces ours NAME` prints what our driver does, `traces compare [NAME]` in what it
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
        ["tell", folder] => tell_again(folder),
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
            Access::Step(number, values) => {
                let told = values
                    .iter()
                    .map(|(offset, value)| format!(" {}={value:#x}", map.place(*offset).text()));
                let name = scenario::STEPS[*number].replace(' ', "_");
                writeln!(text, "## {name}{}", told.collect::<String>())
            }
        };
    }
    text
}

/// Makes the recordings anew of what was written by `record FOLDER`, with no guest.
fn tell_again(folder: &str) -> Fallible<String> {
    for subject in SUBJECTS {
        let text = fs::read_to_string(format!("{folder}/{}", subject.name))?;
        let version = System::find(Kernel::Stable)?.version();
        recorded::keep(subject, &version, &tell(subject, &noted(subject, &text)?))?;
    }
    Ok(String::new())
}

/// What [`raw`] wrote.
fn noted(subject: &Subject, text: &str) -> Fallible<Vec<Access>> {
    let map = subject.map();
    let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16);
    let mut noted = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(kind), Some(name)) = (words.next(), words.next()) else {
            return Err(format!("a line of one word: {line}").into());
        };
        if kind == "##" {
            let is = |step: &&str| step.replace(' ', "_") == name;
            let step = scenario::STEPS.iter().position(is);
            let mut values = Vec::new();
            for (name, value) in words.filter_map(|word| word.split_once('=')) {
                values.push((map.offset(name).ok_or("no such register")?, number(value)?));
            }
            noted.push(Access::Step(step.ok_or("no such step")?, values));
            continue;
        }
        let value = number(words.next().unwrap_or_default())?;
        // What has no name means nothing here.
        if let Some(offset) = map.offset(name) {
            noted.push(match kind {
                "R" => Access::Read(offset, value),
                _ => Access::Write(offset, value),
            });
        }
    }
    Ok(noted)
}
