//! The trace of one device's scenario, as text: what the differential test runs in a guest.
//!
//! `differential models NAME MAC MAC` plays it on two of our models, `differential devices NAME BDF
//! BDF` on two devices of this machine that a wire joins. `differential compare NAME QEMU MODELS`
//! compares two such texts, as files, and prints what differs and is not allowed to. NAME is a device's, as
//! [`SUBJECTS`] has it.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::{env, fs};

use port::Mac;
use rig::differential::{SUBJECTS, Subject, Trace, allowed, compare};

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
    let &[place, name, first, second] = words else {
        return Err("differential models|devices|compare NAME FIRST SECOND".into());
    };
    let subject = Subject::find(name).ok_or_else(|| {
        let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
        format!("there is no device {name}; there are {}", names.join("; "))
    })?;
    match place {
        "devices" => {
            let places = [first.parse()?, second.parse()?];
            return Ok(subject.on_devices(places)?.to_text());
        }
        "compare" => {
            let traces = [fs::read_to_string(first)?, fs::read_to_string(second)?];
            let [qemu, model] = traces.map(|text| Trace::parse(&text));
            let found = compare(&qemu, &model, &allowed::of(subject.name));
            let lines = found.differences.iter().map(|found| format!("{found}\n"));
            return Ok(lines.collect());
        }
        _ => {}
    }
    let (trace, objections) = subject.on_models([mac(first)?, mac(second)?])?;
    for objection in objections {
        eprintln!("the model objects: {objection}");
    }
    Ok(trace.to_text())
}

fn mac(text: &str) -> Fallible<Mac> {
    let mut mac = [0; 6];
    let mut digits = text.split(':');
    for byte in &mut mac {
        let part = digits.next().ok_or("an address has six bytes")?;
        *byte = u8::from_str_radix(part, 16)?;
    }
    Ok(mac)
}
