//! Linux's driver in a guest, on models that are served to it: what the recordings are made of.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use models::vfio_user::{self, ServeError};
use peers::guest::System;
use peers::{Guest, GuestError, Job, Machine};

use super::scenario::{GROUP, OTHER, STEPS, VLAN};
use super::subject::{SUBJECTS, Subject};
use super::watch::{Access, mark};

/// How long the guest may take.
const LIMIT: Duration = Duration::from_secs(240);

/// Why there is no trace of Linux's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinuxError {
    /// The guest did not do its job.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// A model could not be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// No folder for the sockets.
    #[error("no folder for the guest: {0}")]
    Folder(#[from] std::io::Error),
    /// The scenario came to nothing.
    #[error("the scenario ended with {status}:\n{said}")]
    Failed {
        /// The script's status.
        status: i32,
        /// What it said.
        said: String,
    },
}

/// Plays the scenario with the drivers of the kernel of `system`, on all devices in one guest: what
/// was noted of each.
///
/// # Errors
/// The guest did not come that far.
pub fn record(
    guest: &Guest,
    system: &System,
) -> Result<Vec<(&'static Subject, Vec<Access>)>, LinuxError> {
    let folder = tempfile::tempdir()?;
    let mut machine = Machine {
        // Without an IOMMU guest memory is a few maps that stay.
        address_bits: 0,
        pages_2m: 0,
        memory_mib: 1024,
        system: Some(system.clone()),
        ..Machine::default()
    };
    let mut sims = Vec::new();
    let mut served = Vec::new();
    let mut places: [Vec<String>; 2] = Default::default();
    for subject in SUBJECTS {
        let (sim, log) = subject.wired();
        let sockets = [0, 1].map(|end| format!("{}-{end}", subject.name));
        for (end, socket) in sockets.iter().enumerate() {
            served.push(vfio_user::serve(
                sim.function(end),
                &folder.path().join(socket),
            )?);
        }
        let [first, second] = &sockets;
        let wire = machine.served_pair([first, second], true);
        for (list, place) in places.iter_mut().zip(wire.ends) {
            list.push(place);
        }
        sims.push((subject, sim, log));
    }
    let job = Job {
        script: script(&places[0], &places[1]),
        programs: Vec::new(),
        limit: LIMIT,
    };
    let outcome = run(guest, folder.path(), &machine, &job)?;
    drop(served);
    if outcome.0 != 0 {
        let (status, said) = outcome;
        return Err(LinuxError::Failed { status, said });
    }
    let logs = sims
        .into_iter()
        .map(|(subject, _, log)| (subject, log.take()));
    Ok(logs.collect())
}

fn run(
    guest: &Guest,
    folder: &Path,
    machine: &Machine,
    job: &Job,
) -> Result<(i32, String), GuestError> {
    let mut heard = |line: &str| println!("guest: {line}");
    let outcome = guest.run_in(folder, machine, job, &mut heard)?;
    Ok((
        outcome.status,
        format!("{}\n{}", outcome.output, outcome.console),
    ))
}

/// What the guest does: `firsts` are watched, `seconds` are at the other ends of their wires.
fn script(firsts: &[String], seconds: &[String]) -> String {
    let octets = |mac: [u8; 6]| mac.map(|octet| format!("{octet:02x}")).join(":");
    let mut script = format!(
        "firsts='{}'\nall=\"$firsts {}\"\n{COMMON}\n",
        firsts.join(" "),
        seconds.join(" ")
    );
    for (number, step) in STEPS.iter().enumerate() {
        let act = match *step {
            "load" => "modprobe ixgbe && modprobe ixgbevf && wait_for has_name \"$all\"".to_owned(),
            "up" => {
                "each \"$all\" /tools/ip link set @ up && wait_for has_carrier \"$all\" && calm"
                    .to_owned()
            }
            "promiscuous" => "each \"$firsts\" /tools/ip link set @ promisc on".to_owned(),
            "not promiscuous" => "each \"$firsts\" /tools/ip link set @ promisc off".to_owned(),
            "group" => format!(
                "each \"$firsts\" /tools/ip maddress add {} dev @",
                octets(GROUP)
            ),
            "vlan" => format!(
                "modprobe 8021q && each \"$firsts\" /tools/ip link add link @ name @.v type vlan id \
                 {VLAN} && each \"$firsts\" /tools/ip link set @.v up"
            ),
            "no vlan" => "each \"$firsts\" /tools/ip link del @.v".to_owned(),
            "address" => format!(
                "each \"$firsts\" /tools/ip link set @ address {}",
                octets(OTHER)
            ),
            "jumbo" => "each \"$firsts\" /tools/ip link set @ mtu 9000 && \
                        wait_for has_carrier \"$firsts\" && calm"
                .to_owned(),
            "down" => "each \"$firsts\" /tools/ip link set @ down".to_owned(),
            "unload" => "rmmod ixgbe && rmmod ixgbevf".to_owned(),
            _ => "true".to_owned(),
        };
        let byte = mark(number);
        let _ = write!(
            script,
            "step '{step}' {byte}\n{{ {act}; }} || exit {}\n",
            number + 1
        );
    }
    script
}

/// What the script's steps are made of.
const COMMON: &str = r#"
for kind in all default; do echo 1 > /proc/sys/net/ipv6/conf/$kind/disable_ipv6; done
name() { ls /sys/bus/pci/devices/$1/net; }
has_name() { [ -n "$(name $1 2> /dev/null)" ]; }
has_carrier() { grep -q 1 /sys/class/net/$(name $1)/carrier 2> /dev/null; }
wait_for() {
    for place in $2; do
        tries=0
        until $1 $place; do
            tries=$((tries + 1))
            [ $tries -lt 200 ] || { echo "$place: no $1"; return 1; }
            sleep 0.1
        done
    done
}
each() {
    places=$1
    shift
    for place in $places; do
        $(echo "$@" | sed "s/@/$(name $place)/g") || return 1
    done
}
# What a driver does later of its own accord is done when its next round is.
calm() { sleep 3; }
step() {
    echo "$1"
    for place in $firsts; do
        dd if=/sys/bus/pci/devices/$place/config of=/dev/null bs=1 skip=$2 count=1 2> /dev/null
    done
}
"#;
