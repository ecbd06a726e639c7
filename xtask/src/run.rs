//! Child processes: shown as they run, kept for reading afterwards, ended when they hang.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// What a command that has ended leaves.
pub(crate) struct Done {
    /// How it ended; `None` when it was ended for taking too long.
    pub(crate) status: Option<ExitStatus>,
    /// Every line of both its outputs, in the order of their arrival.
    pub(crate) lines: Vec<String>,
}

impl Done {
    /// Whether it ended by itself, and well.
    pub(crate) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it ended, in words.
    pub(crate) fn verdict(&self) -> String {
        self.status
            .map_or_else(|| "took too long and was ended".into(), |s| s.to_string())
    }

    /// Its last lines as one text.
    pub(crate) fn tail(&self, count: usize) -> String {
        self.lines[self.lines.len().saturating_sub(count)..].join("\n")
    }
}

/// The cargo that runs us.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // What `cargo run` has set for xtask is not meant for the crates that are tested.
    for (name, _) in std::env::vars_os() {
        if is_cargos(&name) {
            command.env_remove(name);
        }
    }
    command
}

fn is_cargos(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_")
        || name.starts_with("CARGO_MANIFEST")
        || name == "RUSTUP_TOOLCHAIN_SOURCE"
}

/// Runs `command`, prints those of its lines that `shown` lets through, and ends it, with all
/// that it started, after `limit`.
pub(crate) fn watch(
    command: &mut Command,
    limit: Duration,
    shown: fn(&str) -> bool,
) -> Result<Done> {
    use std::os::unix::process::CommandExt;

    let name = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command
        .spawn()
        .with_context(|| format!("{name} can't be started"))?;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let mut readers = Vec::new();
    if let Some(stream) = child.stdout.take() {
        readers.push(follow(stream, &lines, shown));
    }
    if let Some(stream) = child.stderr.take() {
        readers.push(follow(stream, &lines, shown));
    }
    let status = wait(&mut child, limit)?;
    for reader in readers {
        if reader.join().is_err() {
            bail!("the output of {name} can't be read");
        }
    }
    let lines = std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Done { status, lines })
}

fn follow(
    stream: impl Read + Send + 'static,
    lines: &Arc<Mutex<Vec<String>>>,
    shown: fn(&str) -> bool,
) -> thread::JoinHandle<()> {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if shown(&line) {
                println!("{line}");
            }
            lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        }
    })
}

fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    while started.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let group = Pid::from_raw(i32::try_from(child.id())?);
    killpg(group, Signal::SIGKILL).context("a process that took too long can't be ended")?;
    child.wait()?;
    Ok(None)
}

/// Runs `command` quietly and gives back what it printed; its failure is an error.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{name} can't be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} failed ({}): {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
