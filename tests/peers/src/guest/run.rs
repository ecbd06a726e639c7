//! Running a job in a guest.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::archive::Archive;
use super::{BASE, Carried, Guest, KERNEL, Machine, System, libraries};
use crate::lab::INSIDE;

/// What the guest's first program prints before the job's exit status.
const EXIT: &str = "[guest] exit ";

/// What to run in a guest, and with what.
#[derive(Debug, Clone)]
pub struct Job {
    /// A script for busybox's shell. It runs in `/job`, where the programs are.
    pub script: String,
    /// Programs of this machine. Each lies in `/job` under its own name, with the libraries
    /// that it needs where they are here.
    pub programs: Vec<PathBuf>,
    /// How long all may take, from start to power-off.
    pub limit: Duration,
}

/// What a job left.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The script's exit status.
    pub status: i32,
    /// What it printed, on both its outputs.
    pub output: String,
    /// What the kernel printed on its console.
    pub console: String,
    /// From start to power-off.
    pub took: Duration,
}

/// Why a job has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// The guest's files could not be put together.
    #[error("the guest can't be put together: {0}")]
    Prepare(#[source] io::Error),
    /// QEMU could not be started or watched.
    #[error("QEMU was not started in the lab: {0}")]
    Spawn(#[source] io::Error),
    /// It took too long, and was ended.
    #[error("the guest was ended after {} s; it said:\n{said}", limit.as_secs())]
    TimedOut {
        /// How long it may have taken.
        limit: Duration,
        /// The end of what job and kernel printed.
        said: String,
    },
    /// The guest ended, and the script had not.
    #[error("the guest ended before its job did ({status}); it said:\n{said}")]
    Died {
        /// How QEMU ended.
        status: ExitStatus,
        /// The end of what QEMU, job and kernel printed.
        said: String,
    },
}

impl Guest {
    /// Boots `machine`, runs `job` in it, and waits for its end. `heard` gets each line that the
    /// job prints, soon after.
    ///
    /// # Errors
    /// The guest did not start, took too long, or broke down.
    pub fn run(
        &self,
        machine: &Machine,
        job: &Job,
        heard: &mut dyn FnMut(&str),
    ) -> Result<Outcome, GuestError> {
        let folder = tempfile::tempdir().map_err(GuestError::Prepare)?;
        self.run_in(folder.path(), machine, job, heard)
    }

    /// As [`Guest::run`], in a folder of the caller's, where QEMU finds the sockets of devices
    /// that others serve.
    ///
    /// # Errors
    /// As there.
    pub fn run_in(
        &self,
        folder: &Path,
        machine: &Machine,
        job: &Job,
        heard: &mut dyn FnMut(&str),
    ) -> Result<Outcome, GuestError> {
        let started = Instant::now();
        let at = |name: &str| folder.join(name);
        self.archive(&at("archive"), machine, job)
            .map_err(GuestError::Prepare)?;
        let inside = |name: &str| format!("{INSIDE}/{name}");
        let kernel = match &machine.system {
            Some(system) => {
                fs::copy(system.kernel(), at("kernel")).map_err(GuestError::Prepare)?;
                inside("kernel")
            }
            None => KERNEL.to_owned(),
        };
        // QEMU ends with the thread that started it, even if that is killed.
        let mut command = self.command(folder, "setpriv");
        if machine.taps.are_there() {
            if !Path::new("/dev/net/tun").exists() {
                let why = "there is no /dev/net/tun for taps: modprobe tun";
                return Err(GuestError::Prepare(io::Error::other(why)));
            }
            command = in_own_network(&command, &machine.taps.script());
        }
        command
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(machine.arguments(
                &kernel,
                &inside("archive"),
                &inside("console"),
                &inside("output"),
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(at("qemu")).map_err(GuestError::Prepare)?);
        let mut running = Running(command.spawn().map_err(GuestError::Spawn)?);

        let mut output = Follow::new(at("output"));
        let ended = loop {
            output.read(heard);
            if let Some(status) = running.0.try_wait().map_err(GuestError::Spawn)? {
                break Some(status);
            }
            if started.elapsed() >= job.limit {
                break None;
            }
            thread::sleep(Duration::from_millis(20));
        };
        drop(running);
        output.read(heard);
        let console = text(&at("console"));
        let said = || {
            let parts = [&text(&at("qemu")), &output.text, &console];
            parts.map(|part| tail(part, 40)).join("\n")
        };
        let Some(status) = ended else {
            let limit = job.limit;
            return Err(GuestError::TimedOut {
                limit,
                said: said(),
            });
        };
        let Some((output, code)) = exit_status(&output.text) else {
            return Err(GuestError::Died {
                status,
                said: said(),
            });
        };
        Ok(Outcome {
            status: code,
            output: output.to_owned(),
            console,
            took: started.elapsed(),
        })
    }

    /// Writes what the guest starts from: the base, and the job's files after it.
    fn archive(&self, path: &Path, machine: &Machine, job: &Job) -> io::Result<()> {
        let mut file = File::create(path)?;
        let own = || self.root().join(BASE.trim_start_matches('/'));
        let base = machine.system.as_ref().map_or_else(own, System::base);
        let written = io::copy(&mut File::open(base)?, &mut file)?;
        // The kernel goes on reading at the next multiple of four.
        file.set_len(written.next_multiple_of(4))?;
        file.seek(SeekFrom::End(0))?;

        let mut archive = Archive::new(BufWriter::new(file));
        archive.file("/job/run", job.script.as_bytes())?;
        archive.file("/job/modules", machine.modules.join("\n").as_bytes())?;
        for carried in &machine.files {
            match carried {
                Carried::File { from, to } => archive.file(to, &fs::read(from)?)?,
                Carried::Link { at, to } => archive.link(at, to)?,
                Carried::Folder(path) => archive.folder(path)?,
            }
        }
        let mut had = Vec::new();
        for program in &job.programs {
            let name = program.file_name().and_then(|name| name.to_str());
            let name = name.ok_or(io::Error::from(io::ErrorKind::InvalidFilename))?;
            archive.file(&format!("/job/{name}"), &fs::read(program)?)?;
            for library in libraries::of(program)? {
                if !had.contains(&library) {
                    archive.file(&library.to_string_lossy(), &fs::read(&library)?)?;
                    had.push(library);
                }
            }
        }
        archive.close()?;
        Ok(())
    }
}

/// `command` in a network namespace that `script` has set up, and that ends with it. The process
/// is the command's own in the end.
fn in_own_network(command: &Command, script: &str) -> Command {
    let mut outer = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        outer.args(["--user", "--map-root-user"]);
    }
    outer
        .args(["--net", "sh", "-c"])
        .arg(format!("{script}exec \"$@\""))
        .arg("network")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            outer.env(name, value);
        }
    }
    outer
}

/// A QEMU that is ended when it is dropped, however that comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file that is read while it is written.
struct Follow {
    path: PathBuf,
    file: Option<File>,
    /// All that was read.
    text: String,
    /// How much of it was handed on, in whole lines.
    told: usize,
    /// The bytes of a character that is not whole yet.
    rest: Vec<u8>,
}

impl Follow {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            text: String::new(),
            told: 0,
            rest: Vec::new(),
        }
    }

    /// Reads what is new, and tells `heard` of each line that is whole.
    fn read(&mut self, heard: &mut dyn FnMut(&str)) {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else {
            return;
        };
        // What can't be read now is read at the next turn.
        let _ = file.read_to_end(&mut self.rest);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let rest = self.rest.split_off(whole);
        self.text.push_str(&String::from_utf8_lossy(&self.rest));
        self.rest = rest;
        while let Some(end) = self.text[self.told..].find('\n') {
            heard(self.text[self.told..self.told + end].trim_end_matches('\r'));
            self.told += end + 1;
        }
    }
}

/// What the job printed, and the status that stands on the last line.
fn exit_status(text: &str) -> Option<(&str, i32)> {
    let at = text.rfind(EXIT)?;
    let code = text[at + EXIT.len()..]
        .lines()
        .next()?
        .trim()
        .parse()
        .ok()?;
    Some((&text[..at], code))
}

fn text(path: &Path) -> String {
    fs::read(path).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// The last `count` lines.
fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod test {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_status_is_read_off_the_last_line_that_has_one() {
        let text = "a\n[guest] exit 1 is what a job may print\nb\n[guest] exit 3\n";
        assert_eq!(exit_status(text).map(|(_, code)| code), Some(3));
        assert_eq!(exit_status("a\n[guest] ex"), None);
        let (output, _) = exit_status("a\n[guest] exit 0\n").unwrap();
        assert_eq!(output, "a\n");
    }

    #[test]
    fn lines_are_heard_once_and_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut follow = Follow::new(file.path().to_owned());
        let mut lines = Vec::new();
        for part in ["fir", "st\nsec", "ond\r\n\nthi"] {
            file.write_all(part.as_bytes()).unwrap();
            follow.read(&mut |line| lines.push(line.to_owned()));
        }
        file.write_all(b"rd \xc3").unwrap();
        follow.read(&mut |line| lines.push(line.to_owned()));
        file.write_all(b"\xa4\n").unwrap();
        follow.read(&mut |line| lines.push(line.to_owned()));
        assert_eq!(lines, ["first", "second", "", "third ä"]);
    }
}
