//! Who sends: a testpmd, or rgen.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use peers::{Rings, Testpmd};

use super::CORES;

/// What rgen gets to drain and print its result.
const DRAIN: Duration = Duration::from_secs(10);

/// A sender's kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sender {
    /// testpmd, one frame again and again.
    TxOnly,
    /// testpmd, every frame written as it is sent.
    FlowGen,
    /// rgen's bench profile with this `vm`.
    Rgen(String),
}

impl FromStr for Sender {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "txonly" => Ok(Self::TxOnly),
            "flowgen" => Ok(Self::FlowGen),
            "none" | "var1" | "var2" | "random" | "tuple" | "size" | "cached" => {
                Ok(Self::Rgen(text.to_owned()))
            }
            _ => Err(
                "senders are txonly, flowgen, or rgen's none, var1, var2, random, tuple, \
                      size, cached"
                    .into(),
            ),
        }
    }
}

impl Sender {
    /// Its name in the table.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::TxOnly => "testpmd txonly".into(),
            Self::FlowGen => "testpmd flowgen".into(),
            Self::Rgen(vm) => format!("rgen {vm}"),
        }
    }

    /// Whether it is rgen.
    pub(crate) fn is_rgen(&self) -> bool {
        matches!(self, Self::Rgen(_))
    }
}

/// All that rgen is told: the one place to change when its flags do. It would send for
/// `length_s`, and is stopped before.
pub(super) fn rgen_arguments(
    socket: &Path,
    vm: &str,
    rings: Rings,
    size: u16,
    length_s: f64,
) -> Vec<String> {
    let packed = match rings {
        Rings::Split => "off",
        Rings::Packed => "on",
    };
    let port = format!("vhost-user:{},queues=1,packed={packed}", socket.display());
    let profile = format!("size={size},vm={vm}");
    let length = format!("{}s", length_s.ceil());
    let words = [
        "run", "bench", "-t", &profile, "-m", "max", "-p", &port, "-d", &length, "--json",
    ];
    words.map(str::to_owned).to_vec()
}

/// A sender that runs.
pub(super) enum Running {
    /// A testpmd.
    Peer(Testpmd),
    /// rgen.
    Rgen(Rgen),
}

/// An rgen that runs. Dropping it kills it.
pub(super) struct Rgen {
    child: Child,
    /// The file that has what it prints.
    said: PathBuf,
}

/// Starts rgen on the senders' core.
pub(super) fn start_rgen(rgen: &Path, socket: &Path, arguments: &[String]) -> Result<Running> {
    let said = socket.with_extension("said");
    let output = File::create(&said)?;
    // taskset becomes rgen, so its id is rgen's.
    let mut command = Command::new("taskset");
    command
        .args(["--cpu-list", &CORES.1.to_string()])
        .arg(rgen)
        .args(arguments);
    command
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output);
    let child = command.spawn().context("taskset can't be started")?;
    Ok(Running::Rgen(Rgen { child, said }))
}

impl Running {
    /// The process's id.
    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Peer(peer) => peer.pid(),
            Self::Rgen(rgen) => rgen.child.id(),
        }
    }

    /// The end of what it printed.
    pub(super) fn said(&self) -> String {
        match self {
            Self::Peer(peer) => peer.said(),
            Self::Rgen(rgen) => rgen.said(),
        }
    }

    /// An error if it has ended.
    pub(super) fn is_fine(&mut self) -> Result<()> {
        match self {
            Self::Peer(peer) => peer.counters().map(drop).map_err(Into::into),
            Self::Rgen(rgen) => match rgen.child.try_wait()? {
                Some(status) => bail!("ended early ({status}); it said:\n{}", rgen.said()),
                None => Ok(()),
            },
        }
    }

    /// Ends it as a person would, and waits for the end.
    pub(super) fn stop(self) -> Result<()> {
        match self {
            Self::Peer(peer) => peer.stop().map(drop).map_err(Into::into),
            Self::Rgen(rgen) => rgen.stop(),
        }
    }
}

impl Rgen {
    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn stop(mut self) -> Result<()> {
        kill(
            Pid::from_raw(i32::try_from(self.child.id())?),
            Signal::SIGINT,
        )?;
        let asked = Instant::now();
        while asked.elapsed() < DRAIN {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!(
            "did not end on SIGINT within {DRAIN:?}; it said:\n{}",
            self.said()
        )
    }
}

impl Drop for Rgen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn senders_are_known_by_name() {
        assert_eq!("flowgen".parse(), Ok(Sender::FlowGen));
        assert_eq!("random".parse(), Ok(Sender::Rgen("random".into())));
        assert!("pktgen".parse::<Sender>().is_err());
    }

    #[test]
    fn rgen_is_told_the_socket_and_the_rings() {
        let words = rgen_arguments(Path::new("/a.sock"), "var1", Rings::Packed, 64, 12.5).join(" ");
        assert!(words.contains("-t size=64,vm=var1"), "{words}");
        assert!(
            words.contains("-p vhost-user:/a.sock,queues=1,packed=on"),
            "{words}"
        );
        assert!(words.contains("-d 13s"), "{words}");
    }
}
