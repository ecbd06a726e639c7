//! The suite in a guest: this program runs again there, on QEMU's devices, and says what it finds
//! in lines.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use peers::{GuestError, Job};

use super::{Entry, Ground, Place, Row, Verdict};

/// What begins a line that holds an [`Entry`].
const MARK: &str = "@entry ";

/// Kinds of ports that share a guest: more would wait for each other too long to be told from a
/// hang.
const ROWS_A_GUEST: usize = 6;

/// How long a guest may take to start and to end, and each kind of port in it.
const START: Duration = Duration::from_secs(90);
const EACH: Duration = Duration::from_secs(150);

/// The name of what every guest is asked about each pair beside the suite.
const UNTOUCHED: &str = "the IOMMU never had to stop a device";

/// An entry as a line.
#[must_use]
pub fn line(entry: &Entry) -> String {
    let text = serde_json::to_string(entry).expect("an entry has nothing that JSON has not");
    format!("{MARK}{text}")
}

/// Runs the suite on every row, which must be the lab's, in as many guests of `ground` as it
/// takes. `program` is the one that runs there; `check` picks checks by a part of their name.
///
/// # Errors
/// A guest did not do its job. What was found before was told.
pub fn run(
    ground: &Ground,
    program: &Path,
    rows: &[&Row],
    check: Option<&str>,
    tell: &mut dyn FnMut(Entry),
) -> Result<(), GuestError> {
    for rows in rows.chunks(ROWS_A_GUEST) {
        one_guest(ground, program, rows, check, tell)?;
    }
    Ok(())
}

fn one_guest(
    ground: &Ground,
    program: &Path,
    rows: &[&Row],
    check: Option<&str>,
    tell: &mut dyn FnMut(Entry),
) -> Result<(), GuestError> {
    let mut machine = ground.machine();
    let mut script = ground.prelude().to_owned();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut places = Vec::new();
    for row in rows {
        let Place::Lab {
            device,
            options,
            tapped,
        } = row.place
        else {
            continue;
        };
        let wire = match tapped {
            0 => machine.pair(device, device),
            queues => machine.tapped_pair(device, device, queues),
        };
        let [first, second] = &wire.ends;
        let _ = write!(
            script,
            "./{name} --where 'pci:{first},{second}' --options '{options}' --lines '{}'",
            row.title()
        );
        if let Some(check) = check {
            let _ = write!(script, " --check '{}'", check.replace('\'', "'\\''"));
        }
        script.push_str("\nstatus=$((status | $?))\n");
        places.push((row.title(), wire.ends));
    }
    script.push_str("exit $status\n");
    let job = Job {
        script,
        programs: vec![program.to_owned()],
        limit: START + EACH * u32::try_from(rows.len()).unwrap_or(u32::MAX),
    };
    let outcome = ground
        .guest
        .run(&machine, &job, &mut |line| match entry(line) {
            Some(entry) => tell(entry),
            None => eprintln!("guest: {line}"),
        })?;
    for (on, ends) in places.into_iter().filter(|_| machine.address_bits > 0) {
        tell(untouched(on, &ends, &outcome.console));
    }
    if outcome.status > 1 {
        tell(Entry {
            on: "the guest".into(),
            check: "the suite runs to its end".into(),
            verdict: Verdict::Failed,
            found: format!("exit status {}", outcome.status),
            took_ms: 0,
        });
    }
    Ok(())
}

/// A line as an entry, if it is one.
pub(crate) fn entry(line: &str) -> Option<Entry> {
    serde_json::from_str(line.strip_prefix(MARK)?).ok()
}

/// Whether the kernel said that the IOMMU stopped one of `ends`: Linux names the device of a
/// fault (`drivers/iommu/intel/dmar.c`: `Request device [00:02.0] fault addr …`).
fn untouched(on: String, ends: &[String; 2], console: &str) -> Entry {
    let short = |end: &String| format!("[{}]", end.trim_start_matches("0000:"));
    let names = ends.each_ref().map(short);
    let fault = console
        .lines()
        .find(|line| line.contains("DMAR") && names.iter().any(|name| line.contains(name)));
    Entry {
        on,
        check: UNTOUCHED.into(),
        verdict: if fault.is_some() {
            Verdict::Failed
        } else {
            Verdict::Passed
        },
        found: fault.unwrap_or_default().to_owned(),
        took_ms: 0,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_fault_is_told_of_the_device_that_it_names() {
        let console = "x\n[    9.1] DMAR: [DMA Write NO_PASID] Request device [00:03.0] fault addr \
                       0x1000 [fault reason 0x05] PTE Write access is not set\n";
        let ends = |first: &str, second: &str| [first.to_owned(), second.to_owned()];
        let hit = untouched("a".into(), &ends("0000:00:02.0", "0000:00:03.0"), console);
        assert_eq!(hit.verdict, Verdict::Failed);
        assert!(hit.found.contains("0x1000"));
        let other = untouched("b".into(), &ends("0000:00:04.0", "0000:00:05.0"), console);
        assert_eq!(other.verdict, Verdict::Passed);
    }

    #[test]
    fn only_lines_that_are_marked_are_entries() {
        let sent = untouched("a".into(), &[String::new(), String::new()], "");
        assert_eq!(entry(&line(&sent)), Some(sent));
        assert_eq!(entry("hello"), None);
        assert_eq!(entry("@entry {}"), None);
    }
}
