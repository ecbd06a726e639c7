//! DPDK's testpmd as a peer: a sink, a reflector or a sender, on vhost-user or on a NIC.
//!
//! Two ends of a socket are possible. [`Testpmd::vhost`] is the *device* (what a switch is): it owns the
//! socket, unless [`Setup::dial`] is set, and the front end decides on rings and features.
//! [`Testpmd::virtio_user`] is the *driver* (what rgen is): it dials, unless `dial` is off.
//! [`Testpmd::pci`] drives a NIC that `vfio-pci` has.
//!
//! The process is started with a console on a pipe. It is ready when it says that it forwards;
//! counters are asked for over telemetry while it runs; and it ends by itself when the pipe
//! closes, so a test that dies leaves no peer behind.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::{INSIDE, Lab};
use crate::setup::{Forward, Setup};
use crate::telemetry::Telemetry;

/// How long a peer may take to start: it fills a frame pool and may share its core.
const START: Duration = Duration::from_secs(60);
/// How long a peer may take to do what its console was told.
const OBEY: Duration = Duration::from_secs(20);

/// What a port of a peer counted, at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Counters {
    /// When it was asked.
    pub at: Instant,
    /// Frames that the peer received.
    pub rx_frames: u64,
    /// Their bytes, FCS not included.
    pub rx_bytes: u64,
    /// Frames that the peer sent.
    pub tx_frames: u64,
    /// Their bytes, FCS not included.
    pub tx_bytes: u64,
    /// Frames it had no room for.
    pub rx_missed: u64,
    /// Frames it found broken.
    pub rx_errors: u64,
    /// Frames it failed to send.
    pub tx_errors: u64,
    /// Times that its pool was empty on receive.
    pub rx_starved: u64,
}

impl Counters {
    fn from_stats(stats: &Value) -> Option<Self> {
        let read = |key: &str| stats.get(key)?.as_u64();
        Some(Self {
            at: Instant::now(),
            rx_frames: read("ipackets")?,
            rx_bytes: read("ibytes")?,
            tx_frames: read("opackets")?,
            tx_bytes: read("obytes")?,
            rx_missed: read("imissed")?,
            rx_errors: read("ierrors")?,
            tx_errors: read("oerrors")?,
            rx_starved: read("rx_nombuf")?,
        })
    }
}

/// Why a peer did not do its part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// It was not even started.
    #[error("testpmd was not started in the lab: {0}")]
    Spawn(io::Error),
    /// It did not say or do what was awaited.
    #[error("testpmd did not get to \"{awaited}\" within {within:?}; it said:\n{said}")]
    Silent {
        /// What was awaited.
        awaited: String,
        /// For how long.
        within: Duration,
        /// The end of its output.
        said: String,
    },
    /// It ended before it was told to.
    #[error("testpmd ended ({status}); it said:\n{said}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of its output.
        said: String,
    },
    /// Its telemetry did not answer.
    #[error("testpmd's telemetry: {0}")]
    Telemetry(#[from] io::Error),
    /// The socket's path has no folder, or is not plain text.
    #[error("{} is no path for a socket", .0.display())]
    Path(PathBuf),
}

/// Everything a peer printed, as it arrives.
#[derive(Debug, Default)]
struct Output {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Output {
    /// Collects lines from `stream` until it ends.
    fn follow(self: &Arc<Self>, stream: impl Read + Send + 'static) {
        let output = Arc::clone(self);
        thread::spawn(move || {
            for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                output
                    .lines
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
                output.more.notify_all();
            }
        });
    }

    /// Lines so far.
    fn count(&self) -> usize {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// The last `count` lines as one text.
    fn tail(&self, count: usize) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    /// Waits at most `limit` for `text` in a line from number `from` on.
    fn has(&self, text: &str, from: usize, limit: Duration) -> bool {
        self.has_any(&[text], from, limit)
    }

    /// Waits at most `limit` for one of `texts` in a line from number `from` on.
    fn has_any(&self, texts: &[&str], from: usize, limit: Duration) -> bool {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |line: &String| texts.iter().any(|text| line.contains(text));
        let missing = |lines: &mut Vec<String>| !lines.iter().skip(from).any(is_it);
        let result = self.more.wait_timeout_while(lines, limit, missing);
        !result.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// A testpmd that runs. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Testpmd {
    child: Child,
    console: ChildStdin,
    output: Arc<Output>,
    telemetry: Telemetry,
    socket: PathBuf,
}

impl Testpmd {
    /// Starts a device (a back end, as a switch is) on `socket`.
    ///
    /// # Errors
    /// When it can't be started or doesn't get ready; its own words are in the message.
    pub fn vhost(lab: &Lab, socket: &Path, setup: &Setup) -> Result<Self, PeerError> {
        Self::start(lab, socket, setup, Setup::vhost)
    }

    /// Starts a driver (a front end, as rgen is) on `socket`.
    ///
    /// # Errors
    /// As [`Testpmd::vhost`].
    pub fn virtio_user(lab: &Lab, socket: &Path, setup: &Setup) -> Result<Self, PeerError> {
        Self::start(lab, socket, setup, Setup::virtio_user)
    }

    /// A device on `socket` that takes and counts whatever comes.
    ///
    /// # Errors
    /// As [`Testpmd::vhost`].
    pub fn vhost_sink(lab: &Lab, socket: &Path, queues: u16) -> Result<Self, PeerError> {
        Self::vhost(
            lab,
            socket,
            &Setup {
                queues,
                ..Setup::device(Forward::RxOnly)
            },
        )
    }

    /// A device on `socket` that sends everything back with its MAC addresses swapped.
    ///
    /// # Errors
    /// As [`Testpmd::vhost`].
    pub fn vhost_macswap(lab: &Lab, socket: &Path, queues: u16) -> Result<Self, PeerError> {
        Self::vhost(
            lab,
            socket,
            &Setup {
                queues,
                ..Setup::device(Forward::MacSwap)
            },
        )
    }

    fn start(
        lab: &Lab,
        socket: &Path,
        setup: &Setup,
        device: fn(&Setup, &str) -> String,
    ) -> Result<Self, PeerError> {
        let path = || PeerError::Path(socket.to_owned());
        let folder = socket.parent().ok_or_else(path)?;
        let name = socket
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(path)?;
        let prefix = prefix();
        if !setup.dial {
            // One that was killed left its socket, and testpmd refuses to listen on that.
            let _ = fs::remove_file(socket);
        }

        let device = device(setup, &format!("{INSIDE}/{name}"));
        let words = setup.arguments(&device, &prefix);
        Self::launch(lab, folder, socket, &words, &prefix)
    }

    /// Starts a driver of the NIC `device`, a PCI address, which `vfio-pci` has. `folder` is where
    /// it puts what it needs to be asked.
    ///
    /// # Errors
    /// As [`Testpmd::vhost`].
    pub fn pci(lab: &Lab, folder: &Path, device: &str, setup: &Setup) -> Result<Self, PeerError> {
        let prefix = prefix();
        let words = setup.pci_arguments(device, &prefix);
        Self::launch(lab, folder, Path::new(""), &words, &prefix)
    }

    fn launch(
        lab: &Lab,
        folder: &Path,
        socket: &Path,
        words: &[String],
        prefix: &str,
    ) -> Result<Self, PeerError> {
        // Unbuffered by line: else its words come only with its prompt.
        let mut command = lab.command(folder, "stdbuf");
        command.args(["-oL", "dpdk-testpmd"]).args(words);
        let (mut child, console, output) = spawn(&mut command).map_err(PeerError::Spawn)?;
        if let Err(error) = ready(&mut child, &output) {
            end(&mut child);
            return Err(error);
        }
        match Telemetry::open(&Telemetry::path(folder, prefix)) {
            Ok(telemetry) => Ok(Self {
                child,
                console,
                output,
                telemetry,
                socket: socket.to_owned(),
            }),
            Err(error) => {
                end(&mut child);
                Err(PeerError::Telemetry(error))
            }
        }
    }

    /// The process's id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The socket that it listens on, or dialled; empty where it drives a NIC.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The end of what it has printed, for a failure's message.
    #[must_use]
    pub fn said(&self) -> String {
        self.output.tail(40)
    }

    /// Its counters now.
    ///
    /// # Errors
    /// When it is gone or does not answer.
    pub fn counters(&mut self) -> Result<Counters, PeerError> {
        let stats = self.stats()?;
        let broken = || io::Error::other(format!("counters missing in {stats}"));
        Ok(Counters::from_stats(&stats).ok_or_else(broken)?)
    }

    /// Its counters now as DPDK has them, those of each queue in `q_ipackets` and its like.
    ///
    /// # Errors
    /// As [`Testpmd::counters`].
    pub fn stats(&mut self) -> Result<Value, PeerError> {
        Ok(self.telemetry.ask("/ethdev/stats,0")?)
    }

    /// Its extended counters now, by name, as DPDK calls them; null if all are zero.
    ///
    /// # Errors
    /// As [`Testpmd::counters`].
    pub fn xstats(&mut self) -> Result<Value, PeerError> {
        Ok(self.telemetry.ask("/ethdev/xstats,0")?)
    }

    /// Waits at most `limit` until its link is up.
    ///
    /// # Errors
    /// It stays down, or as [`Testpmd::counters`].
    pub fn linked(&mut self, limit: Duration) -> Result<(), PeerError> {
        let started = Instant::now();
        while self.telemetry.ask("/ethdev/link_status,0")?["status"] != "UP" {
            if started.elapsed() >= limit {
                return Err(self.silent("a link that is up", limit));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Its counters once they have stood still for `still`, asked for at most `limit`.
    ///
    /// # Errors
    /// When they never stand still, or as [`Testpmd::counters`].
    pub fn settled(&mut self, still: Duration, limit: Duration) -> Result<Counters, PeerError> {
        let started = Instant::now();
        let mut last = self.counters()?;
        while started.elapsed() < limit {
            thread::sleep(Duration::from_millis(10));
            let now = self.counters()?;
            if (now.rx_frames, now.tx_frames) != (last.rx_frames, last.tx_frames) {
                last = now;
            } else if now.at - last.at >= still {
                return Ok(now);
            }
        }
        Err(self.silent("counters that stand still", limit))
    }

    /// Its counters once it has received `frames` frames or more, asked for at most `limit`;
    /// at the limit, whatever it has.
    ///
    /// # Errors
    /// As [`Testpmd::counters`].
    pub fn received(&mut self, frames: u64, limit: Duration) -> Result<Counters, PeerError> {
        let started = Instant::now();
        loop {
            let now = self.counters()?;
            if now.rx_frames >= frames || started.elapsed() >= limit {
                return Ok(now);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Types `line` on its console.
    ///
    /// # Errors
    /// When it is gone.
    pub fn tell(&mut self, line: &str) -> Result<(), PeerError> {
        writeln!(self.console, "{line}")?;
        Ok(self.console.flush()?)
    }

    /// Types `line` and waits until it answers with `answer` somewhere in a line.
    ///
    /// # Errors
    /// When it is gone, or does not answer so.
    pub fn told(&mut self, line: &str, answer: &str) -> Result<(), PeerError> {
        let from = self.output.count();
        self.tell(line)?;
        if self.output.has(answer, from, OBEY) {
            Ok(())
        } else {
            Err(self.silent(answer, OBEY))
        }
    }

    /// Waits at most `limit` until it prints `text`, or has printed it already.
    ///
    /// # Errors
    /// When it doesn't.
    pub fn says(&self, text: &str, limit: Duration) -> Result<(), PeerError> {
        if self.output.has(text, 0, limit) {
            Ok(())
        } else {
            Err(self.silent(text, limit))
        }
    }

    /// Stops forwarding and gives back the counters, which stand still from now on.
    ///
    /// A sender is paused before it is stopped where frames are compared: what lies in the ring
    /// when its port closes, the other end never takes.
    ///
    /// # Errors
    /// When it does not obey.
    pub fn pause(&mut self) -> Result<Counters, PeerError> {
        // Told twice, it answers differently, and that is well too.
        let (stopped, idle) = ("Done.", "Packet forwarding not started");
        let from = self.output.count();
        self.tell("stop")?;
        let has_obeyed = self.output.has_any(&[stopped, idle], from, OBEY);
        if has_obeyed {
            self.counters()
        } else {
            Err(self.silent(stopped, OBEY))
        }
    }

    /// Stops forwarding, reads the counters, ends it, and gives them back.
    ///
    /// # Errors
    /// When it does not obey; it is killed then.
    pub fn stop(mut self) -> Result<Counters, PeerError> {
        let counters = self.pause()?;
        let from = self.output.count();
        self.tell("quit")?;
        if !self.output.has("Bye...", from, OBEY) {
            return Err(self.silent("Bye...", OBEY));
        }
        // After its last word it only tears its memory down, and on a busy machine may take its
        // time; dropping it makes an end.
        let asked = Instant::now();
        while asked.elapsed() < OBEY {
            if let Some(status) = self.child.try_wait()? {
                let said = self.said();
                let clean = status.success();
                return if clean {
                    Ok(counters)
                } else {
                    Err(PeerError::Ended { status, said })
                };
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(counters)
    }

    /// Kills it as a crash would: no goodbye on the socket, which stays behind.
    pub fn kill(mut self) {
        end(&mut self.child);
    }

    fn silent(&self, awaited: &str, within: Duration) -> PeerError {
        PeerError::Silent {
            awaited: awaited.to_owned(),
            within,
            said: self.said(),
        }
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A name that no other process of DPDK has.
fn prefix() -> String {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    format!("p{}-{number}", std::process::id())
}

fn spawn(command: &mut Command) -> io::Result<(Child, ChildStdin, Arc<Output>)> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let output = Arc::new(Output::default());
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(console), Some(out), Some(err)) = streams else {
        end(&mut child);
        return Err(io::Error::other("no pipes to it"));
    };
    output.follow(out);
    output.follow(err);
    Ok((child, console, output))
}

/// Waits until the process forwards.
fn ready(child: &mut Child, output: &Output) -> Result<(), PeerError> {
    const READY: &str = "packet forwarding - ports=";
    let started = Instant::now();
    while started.elapsed() < START {
        if output.has(READY, 0, Duration::from_millis(100)) {
            return Ok(());
        }
        if let Some(status) = child.try_wait().map_err(PeerError::Spawn)? {
            // What it said last may still be on its way through the pipe.
            thread::sleep(Duration::from_millis(100));
            return Err(PeerError::Ended {
                status,
                said: tail(output),
            });
        }
    }
    Err(PeerError::Silent {
        awaited: READY.to_owned(),
        within: START,
        said: tail(output),
    })
}

fn tail(output: &Output) -> String {
    let mut text = output.tail(40);
    if text.contains("Cannot get hugepage information") || text.contains("Cannot reserve memory") {
        let _ = write!(
            text,
            "\n(2 MiB pages are missing: rgen hugepages --reserve 512)"
        );
    }
    text
}

/// Kills a process that may have ended already, and takes its end away.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn counters_with_a_missing_key_are_refused() {
        assert!(Counters::from_stats(&serde_json::json!({ "ipackets": 1 })).is_none());
    }
}
