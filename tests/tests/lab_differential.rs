//! One driver, one scenario, QEMU's device and our model: registers, what is written to rings,
//! frames and counters agree, but for what `rig::differential::allowed` lists with its reason.
//!
//! `RGEN_SUBJECT=82576` plays it on devices with that in their names only.
//!
//! In the guest `src/bin/differential.rs` plays the scenario; here the models do, in this process.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peers::{Guest, Job, Machine};
use port::Mac;
use rig::differential::{SUBJECTS, Subject, Trace, allowed, compare};

/// What begins the part of the output that is a subject's.
const MARK: &str = "@subject ";
/// Differences that are shown of one subject.
const SHOWN: usize = 60;

/// The addresses that a [`Machine`] gives to the ends of its wire of that number.
fn macs(wire: u8) -> [Mac; 2] {
    [0, 1].map(|end| [0x52, 0x54, 0, 0, wire, end])
}

/// Plays the scenario on QEMU's devices, in one guest: each subject's trace as text.
fn on_qemu(guest: &Guest, subjects: &[&Subject]) -> Vec<String> {
    let mut machine = Machine {
        pages_2m: 160,
        ..Machine::default()
    };
    let mut script = String::new();
    for subject in subjects {
        let wire = machine.pair(subject.qemu, subject.qemu);
        let [first, second] = &wire.ends;
        let name = subject.name;
        let _ = write!(
            script,
            "echo '{MARK}{name}'\n./differential devices '{name}' {first} {second}\n"
        );
    }
    let job = Job {
        script,
        programs: vec![PathBuf::from(env!("CARGO_BIN_EXE_differential"))],
        limit: Duration::from_secs(300),
    };
    let mut texts: Vec<String> = Vec::new();
    let started = Instant::now();
    let ended = guest.run(&machine, &job, &mut |line| {
        if line.starts_with(MARK) || line.starts_with("FAILED") {
            println!("guest, after {} s: {line}", started.elapsed().as_secs());
        }
        if line.starts_with(MARK) {
            texts.push(String::new());
        } else if let (Some(text), false) = (texts.last_mut(), line.starts_with("[guest]")) {
            text.push_str(line);
            text.push('\n');
        }
    });
    for (wire, text) in (0..).zip(&texts) {
        keep(wire, "qemu", text);
    }
    let outcome = ended.unwrap_or_else(|error| panic!("{error}"));
    let fault = outcome.console.lines().find(|line| line.contains("DMAR:"));
    assert_eq!(fault, None, "the IOMMU had to stop a device");
    assert_eq!(texts.len(), subjects.len(), "a subject has no trace");
    texts
}

/// Keeps a trace, to be looked at with `differential compare`.
fn keep(wire: u8, side: &str, text: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("differential-{wire}-{side}"));
    if let Err(error) = fs::write(&path, text) {
        println!("{}: {error}", path.display());
    }
}

/// What differs between the two devices of `subject`; empty if nothing does that should not.
fn differences(subject: &Subject, qemu: &str, wire: u8) -> String {
    if let Some(failed) = qemu.lines().find(|line| line.starts_with("FAILED")) {
        return format!("{}: on QEMU's device: {failed}\n", subject.name);
    }
    let qemu = Trace::parse(qemu);
    let (model, objections) = match subject.on_models(macs(wire)) {
        Ok(played) => played,
        Err(failure) => return format!("{}: on our model: {failure}\n", subject.name),
    };
    let mut text = String::new();
    for objection in objections {
        let _ = writeln!(text, "the model objects: {objection}");
    }
    keep(wire, "model", &model.to_text());
    let rules = allowed::of(subject.name);
    let found = compare(&qemu, &model, &rules);
    for difference in found.differences.iter().take(SHOWN) {
        let _ = writeln!(text, "{difference}");
    }
    if found.differences.len() > SHOWN {
        let _ = writeln!(text, "and {} more", found.differences.len() - SHOWN);
    }
    for (rule, used) in rules.iter().zip(&found.used) {
        if *used == 0 && !rule.sometimes {
            let _ = writeln!(text, "this rule is not needed any more: {rule:?}");
        }
    }
    println!(
        "{}: {} lines on QEMU's device, {} on our model, {} the same, {} differences allowed",
        subject.name,
        qemu.len(),
        model.len(),
        found.same,
        found.used.iter().sum::<usize>()
    );
    // A trace that hardly says anything agrees with any other.
    if found.same < 1000 {
        let _ = writeln!(text, "only {} lines are the same", found.same);
    }
    if text.is_empty() {
        return text;
    }
    format!("{}:\n{text}", subject.name)
}

#[test]
fn our_models_do_what_qemus_devices_do_under_the_same_driver() {
    let Some(guest) = peers::guest_or_skip("QEMU's devices and our models") else {
        return;
    };
    let chosen = std::env::var("RGEN_SUBJECT").ok();
    let subjects: Vec<&Subject> = SUBJECTS
        .iter()
        .filter(|subject| {
            chosen
                .as_ref()
                .is_none_or(|name| subject.name.contains(name))
        })
        .collect();
    assert!(!subjects.is_empty(), "RGEN_SUBJECT names none: {chosen:?}");
    let traces = on_qemu(&guest, &subjects);
    let found: String = (0..)
        .zip(subjects.iter().zip(&traces))
        .map(|(wire, (subject, trace))| differences(subject, trace, wire))
        .collect();
    assert!(found.is_empty(), "{found}");
}
