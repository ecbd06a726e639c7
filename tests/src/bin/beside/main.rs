//! What runs in a guest where rgen and DPDK's testpmd have an end each of a wire between two NICs
//! that neither of their authors wrote.
//!
//! The ends are PCI addresses, and `vfio-pci` gets both. rgen has the first one and core 1,
//! testpmd the second one and core 0. `rgen` lies beside this program, and what testpmd needs
//! where [`peers::guest::testpmd`] puts it.
#![forbid(unsafe_code)]

mod counts;
mod rates;
mod stream;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

use hw::pci::{Bdf, Pci};
use peers::{Forward, Lab, Memory, Setup, Testpmd};
use rig::runner::Borrowed;

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Fails the scenario unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!($($what)+).into());
        }
    };
}
pub(crate) use ensure;

/// How long what must come may take, on a host that is busy with others.
const LONG: Duration = Duration::from_secs(30);
/// testpmd's core where it has the second end.
const CORE: usize = 0;
/// The core of whoever has the first end: rgen, or testpmd in its turn.
const FIRST_CORE: usize = 1;

/// Where all this happens.
struct Place {
    /// rgen's end and testpmd's.
    ends: [String; 2],
    lab: Lab,
    /// For sockets.
    folder: PathBuf,
}

impl Place {
    fn new(first: &str, second: &str) -> Fallible<Self> {
        let folder = PathBuf::from("/tmp/beside");
        fs::create_dir_all(&folder)?;
        Ok(Self {
            ends: [first.to_owned(), second.to_owned()],
            lab: Lab::find()?,
            folder,
        })
    }

    /// A testpmd on `end` of the wire, once its link is up; `more` are arguments of it.
    fn testpmd(
        &self,
        end: usize,
        core: usize,
        forward: Forward,
        more: &[&str],
    ) -> Fallible<Testpmd> {
        let setup = Setup {
            core,
            memory: Memory::Huge,
            memory_mib: 128,
            send_bytes: 60,
            more: more.iter().map(|&word| word.to_owned()).collect(),
            ..Setup::device(forward)
        };
        let mut testpmd = Testpmd::pci(&self.lab, &self.folder, &self.ends[end], &setup)?;
        testpmd.linked(LONG)?;
        Ok(testpmd)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Fallible {
    let [scenario, first, second, more @ ..] = words else {
        return Err("a scenario and two ends are needed".into());
    };
    let ends: Vec<Bdf> = vec![first.parse()?, second.parse()?];
    let _borrowed = Borrowed::take(&Pci::host(), &ends)?;
    let place = Place::new(first, second)?;
    match (*scenario, more) {
        ("counts", [mac, "none"]) => counts::run(&place, mac, None),
        ("counts", [mac, fcs]) => counts::run(&place, mac, Some(fcs.parse()?)),
        ("rates", [title, rounds, seconds]) => {
            rates::run(&place, title, rounds.parse()?, seconds.parse()?)
        }
        _ => Err("no such scenario".into()),
    }
}
