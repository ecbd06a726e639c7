//! The command `rgen`, as a user runs it.
//!
//! The binary is that of `$RGEN_BIN`, if set; else it is built with `cargo build -p rgen`, once a
//! test process, with the profile and into the target folder of the test that asks. (The rig is
//! another package than `rgen`, so Cargo does not build it for the rig's tests by itself.)

use std::env;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than any run of a test: a hang is a failure with a name.
const LIMIT: Duration = Duration::from_secs(90);

/// The binary.
///
/// # Panics
/// It cannot be built, which fails the test that needs it.
#[must_use]
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("RGEN_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    // target/PROFILE/deps/TEST: two folders up is where binaries go.
    let test = env::current_exe().expect("the system knows this process's program");
    let folder = test
        .ancestors()
        .nth(2)
        .expect("a test lies in target/PROFILE/deps");
    let target = folder.parent().expect("a profile's folder lies in target");
    let profile = folder.file_name().and_then(|name| name.to_str());
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--quiet", "--package", "rgen", "--target-dir"])
        .arg(target)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    match profile {
        Some("debug") | None => {}
        Some(profile) => {
            command.args(["--profile", profile]);
        }
    }
    let done = command.status().expect("cargo runs, as it runs this test");
    assert!(done.success(), "cargo build -p rgen failed");
    folder.join("rgen")
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed as its result.
    pub stdout: String,
    /// What it said beside that.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl Ran {
    /// Its result, which must be one JSON document.
    ///
    /// # Panics
    /// It is not: the test fails, with all that was printed.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON document ({error}): {self:#?}"))
    }

    /// Panics unless it ended with `code`, with no panic of its own.
    ///
    /// # Panics
    /// As said.
    #[track_caller]
    pub fn ended(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        self
    }
}

/// A `rgen` that runs; dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    started: Instant,
    readers: [Option<thread::JoinHandle<String>>; 2],
}

/// Starts `rgen` with `arguments`.
///
/// # Panics
/// The system does not start it.
#[must_use]
pub fn start(arguments: &[&str]) -> Running {
    start_with(arguments, |_| {})
}

/// The same, with changes to the command: its user, its folder, its environment.
///
/// # Panics
/// The system does not start it.
#[must_use]
pub fn start_with(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Running {
    let mut command = Command::new(path());
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("RUST_BACKTRACE", "0")
        // Its own group, so that a signal to it reaches nobody else.
        .process_group(0);
    change(&mut command);
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} was not started: {error}"));
    let readers = [
        child.stdout.take().map(|stream| follow(Box::new(stream))),
        child.stderr.take().map(|stream| follow(Box::new(stream))),
    ];
    Running {
        child,
        started: Instant::now(),
        readers,
    }
}

fn follow(mut stream: Box<dyn Read + Send>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Running {
    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it the signal of Ctrl-C.
    pub fn interrupt(&self) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            let id = nix::unistd::Pid::from_raw(id);
            let _ = nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT);
        }
    }

    /// True if it has ended.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not come to one in time.
    #[track_caller]
    pub fn wait(mut self) -> Ran {
        while !self.has_ended() {
            if self.started.elapsed() > LIMIT {
                let _ = self.child.kill();
                let [out, err] = self.output();
                panic!("rgen did not end within {LIMIT:?}:\n{out}\n{err}");
            }
            thread::sleep(Duration::from_millis(2));
        }
        let took = self.started.elapsed();
        let code = match self.child.wait() {
            Ok(status) => status.code(),
            Err(_) => None,
        };
        let [stdout, stderr] = self.output();
        Ran {
            code,
            stdout,
            stderr,
            took,
        }
    }

    fn output(&mut self) -> [String; 2] {
        let mut read = |which: usize| {
            let reader = self.readers[which].take();
            reader
                .and_then(|reader| reader.join().ok())
                .unwrap_or_default()
        };
        [read(0), read(1)]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `rgen` with `arguments` to its end.
///
/// # Panics
/// It does not come to one in time.
#[track_caller]
pub fn run(arguments: &[&str]) -> Ran {
    start(arguments).wait()
}

/// A number in a document.
///
/// # Panics
/// It is not there, or is no natural number.
#[must_use]
#[track_caller]
pub fn number(document: &Value, path: &str) -> u64 {
    document
        .pointer(path)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no number at {path} in {document:#}"))
}

/// The identities that hold for every run's document: asked = sent + shortfall over all ports.
///
/// # Panics
/// One does not.
#[track_caller]
pub fn adds_up(document: &Value) {
    let sent: u64 = document["ports"]
        .as_array()
        .unwrap_or_else(|| panic!("no ports in {document:#}"))
        .iter()
        .map(|port| number(port, "/tx_frames"))
        .sum();
    let asked = number(document, "/asked_frames");
    let shortfall = number(document, "/shortfall_frames");
    assert_eq!(
        asked,
        sent + shortfall,
        "asked, sent, shortfall: {document:#}"
    );
}
