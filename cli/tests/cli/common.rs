//! The binary, run as a user runs it.

use std::io::{BufRead, BufReader, Read};
use std::process::{self, Child, Stdio};

use assert_cmd::Command;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Left {
    /// Its exit code.
    pub(crate) code: i32,
    /// Its result.
    pub(crate) stdout: String,
    /// Its talk.
    pub(crate) stderr: String,
}

impl Left {
    /// Stdout as the one document that it is.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// `rgen`, with no terminal.
pub(crate) fn rgen() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rgen"));
    command.env_remove("RGEN_LOG");
    command.timeout(std::time::Duration::from_secs(120));
    command
}

/// Runs `rgen` with these words.
pub(crate) fn run(words: &[&str]) -> Left {
    left(rgen().args(words))
}

/// Runs a command to its end.
pub(crate) fn left(command: &mut Command) -> Left {
    let output = command.output().expect("the binary is there");
    Left {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("results are text"),
        stderr: String::from_utf8(output.stderr).expect("talk is text"),
    }
}

/// Starts `rgen` with these words.
pub(crate) fn spawn(words: &[&str]) -> Child {
    process::Command::new(env!("CARGO_BIN_EXE_rgen"))
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is there")
}

/// Runs `rgen`, sends it `signal` once a line of its talk has `sign` in it, and waits for its end.
pub(crate) fn interrupt_at(sign: &str, words: &[&str], signal: Signal) -> Left {
    let mut child = spawn(words);
    let mut talk = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let (mut said, mut begins) = (String::new(), 0);
    while !said[begins..].contains(sign) {
        begins = said.len();
        let read = talk.read_line(&mut said).expect("talk is text");
        assert_ne!(read, 0, "it ended by itself: {said}");
    }
    let pid = i32::try_from(child.id()).expect("a process id");
    kill(Pid::from_raw(pid), signal).expect("it runs");
    // The pipe must not fill while the child still talks.
    let rest = std::thread::spawn(move || talk.read_to_string(&mut said).map(|_| said));
    let mut stdout = String::new();
    let mut result = child.stdout.take().expect("stdout is piped");
    result
        .read_to_string(&mut stdout)
        .expect("results are text");
    let status = child.wait().expect("it ends");
    Left {
        code: status.code().unwrap_or(-1),
        stdout,
        stderr: rest.join().expect("no panic").expect("talk is text"),
    }
}

/// A number of a document, by its path.
pub(crate) fn number(document: &Value, path: &str) -> u64 {
    document
        .pointer(path)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no number at {path}: {document:#}"))
}

/// A key of every port, added up.
pub(crate) fn sum(document: &Value, key: &str) -> u64 {
    let ports = document["ports"].as_array().expect("ports are a list");
    ports
        .iter()
        .map(|port| port[key].as_u64().expect("a count"))
        .sum()
}

/// No frame is unaccounted for: asked = sent + shortfall, sent = received + lost.
pub(crate) fn assert_accounted(document: &Value) {
    let (asked, short) = (
        number(document, "/asked_frames"),
        number(document, "/shortfall_frames"),
    );
    let (sent, received) = (sum(document, "tx_frames"), sum(document, "rx_frames"));
    assert_eq!(asked, sent + short, "{document:#}");
    assert_eq!(
        sent,
        received + number(document, "/lost_frames"),
        "{document:#}"
    );
}
