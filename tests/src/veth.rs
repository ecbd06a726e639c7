//! Interfaces of Linux for tests: in a network namespace that the test made, out of reach of
//! everything else, and gone with the thread that made it.

use std::fs;
use std::io;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Pid, gettid};

/// What went wrong, in words.
pub type Fallible<T = ()> = Result<T, String>;

/// Moves the calling thread into a network namespace of its own, with nothing in it. Processes
/// that it starts are in it too.
///
/// # Errors
/// It may not: that takes root.
pub fn enter_namespace() -> Fallible {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace: {error}"))?;
    // The kernel would send frames of its own on every interface.
    for scope in ["all", "default"] {
        match set(&format!("ipv6/conf/{scope}/disable_ipv6"), "1") {
            Err((_, error)) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(|(path, error)| format!("{path}: {error}"))?,
        }
    }
    Ok(())
}

fn set(name: &str, value: &str) -> Result<(), (String, io::Error)> {
    let path = format!("/proc/sys/net/{name}");
    fs::write(&path, value).map_err(|error| (path, error))
}

/// Sets a parameter of this namespace, below `/proc/sys/net`.
///
/// # Errors
/// The kernel does not take it.
pub fn sysctl(name: &str, value: &str) -> Fallible {
    set(name, value).map_err(|(path, error)| format!("{path}: {error}"))
}

/// Runs `ip` in this namespace, with the words of `line`.
///
/// # Errors
/// It fails; with what it said.
pub fn ip(line: &str) -> Fallible {
    let output = Command::new("ip")
        .args(line.split_ascii_whitespace())
        .output();
    let output = output.map_err(|error| format!("ip {line}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("ip {line}: {}", said.trim()))
}

/// Makes a cable between two interfaces, both up, that carry payloads of `mtu` bytes.
///
/// # Errors
/// `ip` fails.
pub fn cable(ends: [&str; 2], mtu: usize) -> Fallible {
    let [a, b] = ends;
    ip(&format!(
        "link add {a} mtu {mtu} type veth peer name {b} mtu {mtu}"
    ))?;
    for end in ends {
        ip(&format!("link set {end} up"))?;
    }
    Ok(())
}

/// The address of an interface, as `ip` writes it.
///
/// # Errors
/// There is no such interface in this namespace.
pub fn mac(interface: &str) -> Fallible<String> {
    let ports = catalog::open(
        &[&format!("af_packet:{interface}")],
        &catalog::Options::default(),
    );
    let ports = ports.map_err(|error| error.to_string())?;
    let mac = ports[0].info().mac;
    Ok(mac.map(|byte| format!("{byte:02x}")).join(":"))
}

/// Another network namespace: a device under test. It is gone with this.
#[derive(Debug)]
pub struct Namespace {
    /// The thread that is in it, and keeps it.
    thread: Pid,
    jobs: Sender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Namespace {
    /// One with nothing in it.
    ///
    /// # Errors
    /// As [`enter_namespace`].
    pub fn new() -> Fallible<Self> {
        let (jobs, queue) = channel::<Job>();
        let (tell, told) = channel();
        thread::spawn(move || {
            let entered = enter_namespace().map(|()| gettid());
            let _ = tell.send(entered);
            queue.into_iter().for_each(|job| job());
        });
        let thread = told.recv().map_err(|error| error.to_string())??;
        Ok(Self { thread, jobs })
    }

    /// Does `work` in it.
    ///
    /// # Errors
    /// Those of `work`, which may also panic.
    pub fn inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Fallible<T> + Send + 'static,
    ) -> Fallible<T> {
        let (tell, told) = channel();
        let job = Box::new(move || {
            let _ = tell.send(work());
        });
        self.jobs.send(job).map_err(|error| error.to_string())?;
        told.recv()
            .map_err(|_| "the namespace's thread is gone".to_owned())?
    }

    /// Moves an interface of the caller's namespace into it, and sets it up.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn adopt(&self, interface: &'static str) -> Fallible {
        ip(&format!("link set {interface} netns {}", self.thread))?;
        self.inside(move || ip(&format!("link set {interface} up")))
    }
}
