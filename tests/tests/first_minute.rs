//! What a new user does first: no NIC, no root, no hugepages.
#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rig::rgen::{self, Ran, adds_up, number};
use serde_json::Value;

/// `nobody`, and its group: users of no rights.
const NOBODY: u32 = 65_534;

/// A copy of the binary where an ordinary user can run it.
struct Copy {
    folder: tempfile::TempDir,
}

impl Copy {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        std::fs::copy(rgen::path(), folder.path().join("rgen")).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("rgen")
    }

    /// Runs it as an ordinary user, in an empty home.
    fn run(&self, arguments: &[&str]) -> Ran {
        let program = self.path();
        let command = |command: &mut Command| {
            let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            *command = Command::new(program);
            command
                .args(words)
                .stdin(std::process::Stdio::null())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .process_group(0)
                .current_dir("/")
                .env_remove("HOME");
            if nix::unistd::geteuid().is_root() {
                command.uid(NOBODY).gid(NOBODY);
            }
        };
        rgen::start_with(arguments, command).wait()
    }
}

fn sums(document: &Value) -> (u64, u64) {
    let ports = document["ports"].as_array().unwrap();
    let sum = |key: &str| ports.iter().map(|port| number(port, key)).sum();
    (sum("/tx_frames"), sum("/rx_frames"))
}

#[test]
fn the_first_command_of_the_readme_runs_as_an_ordinary_user_and_loses_nothing() {
    let copy = Copy::new();
    let ran = copy.run(&["demo", "-d", "1s"]);
    ran.ended(0);
    assert!(ran.stdout.contains("lost"), "{ran:#?}");

    let ran = copy.run(&["demo", "-d", "1s", "--json"]);
    let document = ran.ended(0).json();
    adds_up(&document);
    let (sent, received) = sums(&document);
    assert!(sent > 10_000, "{document:#}");
    assert_eq!(sent, received, "{document:#}");
    for stream in document["streams"].as_array().unwrap() {
        assert_eq!(stream["lost"].as_u64().unwrap_or(0), 0, "{stream:#}");
    }
}

#[test]
fn a_million_frames_a_second_each_way_are_sent_received_and_timed_to_the_frame() {
    let copy = Copy::new();
    let ran = copy.run(&[
        "run",
        "bench",
        "-t",
        "size=64,vm=var1",
        "-m",
        "1mpps",
        "-p",
        "sim:virtio",
        "-p",
        "sim:virtio",
        "-d",
        "5s",
        "--json",
    ]);
    let document = ran.json();
    adds_up(&document);
    let (sent, received) = sums(&document);
    let ports = document["ports"].as_array().unwrap();
    let missed: u64 = ports.iter().map(|port| number(port, "/rx_missed")).sum();
    assert_eq!(sent, received + missed, "{document:#}");
    assert!(sent > 1000, "{document:#}");
    for port in ports {
        assert_eq!(number(port, "/rx_errors") + number(port, "/tx_errors"), 0);
    }
    let shortfall = number(&document, "/shortfall_frames");
    if shortfall == 0 {
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        let seconds = document["duration_s"].as_f64().unwrap();
        let asked = 2.0 * 1e6 * seconds;
        let error = (sent as f64 - asked).abs() / asked;
        assert!(error <= 1e-4, "{sent} frames in {seconds} s: {error}");
    } else {
        // A machine that is too slow for it says so by its exit code.
        assert!(matches!(ran.code, Some(0 | 6)), "{ran:#?}");
    }
}

#[test]
fn one_core_is_slower_and_says_so_and_its_books_are_exact_all_the_same() {
    let ran = rgen::start_with(
        &[
            "run",
            "bench",
            "-t",
            "vm=random",
            "-m",
            "20mpps",
            "-p",
            "sim:virtio",
            "-p",
            "sim:virtio",
            "-d",
            "1s",
            "--json",
        ],
        |command| {
            let rgen = command.get_program().to_owned();
            let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
            *command = Command::new("taskset");
            command
                .args(["-c", "0"])
                .arg(rgen)
                .args(words)
                .stdin(std::process::Stdio::null())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .process_group(0);
        },
    )
    .wait();
    let document = ran.json();
    adds_up(&document);
    let (sent, received) = sums(&document);
    let ports = document["ports"].as_array().unwrap();
    let missed: u64 = ports.iter().map(|port| number(port, "/rx_missed")).sum();
    assert_eq!(sent, received + missed, "{document:#}");
    assert!(number(&document, "/shortfall_frames") > 0, "{document:#}");
    // The ring or the worker was the bottleneck, and both because of the one core: it says so.
    assert!(matches!(ran.code, Some(0 | 6)), "{ran:#?}");
    assert!(ran.stderr.contains("one core"), "{ran:#?}");
}

#[test]
fn an_interrupted_run_prints_its_partial_result() {
    let running = rgen::start(&[
        "run",
        "bench",
        "-m",
        "10kpps",
        "-p",
        "sim:virtio",
        "-p",
        "sim:virtio",
        "-d",
        "60s",
        "--json",
    ]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    running.interrupt();
    let ran = running.wait();
    let document = ran.ended(130).json();
    adds_up(&document);
    let (sent, received) = sums(&document);
    assert!(sent > 0 && sent == received, "{document:#}");
    assert!(document["duration_s"].as_f64().unwrap() < 30.0);
}

#[test]
fn as_many_queues_are_used_as_were_asked_for() {
    let pair = [
        "-p",
        "sim:virtio,queues=2,rx_slots=512",
        "-p",
        "sim:virtio,queues=2,rx_slots=512",
    ];
    let run = [
        &[
            "run",
            "bench",
            "-t",
            "vm=random",
            "-m",
            "100kpps",
            "-d",
            "200ms",
            "--json",
        ][..],
        &pair,
    ]
    .concat();
    let document = rgen::run(&run).json();
    adds_up(&document);
    for port in document["ports"].as_array().unwrap() {
        for queue in ["tx0_frames", "tx1_frames", "rx0_frames", "rx1_frames"] {
            assert!(number(port, &format!("/extended/{queue}")) > 0, "{port:#}");
        }
    }
}
