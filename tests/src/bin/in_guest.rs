//! What the lab's tests run in a guest: VFIO as the real kernel has it.
//!
//! Each scenario takes two devices that a wire joins and that no driver has, or one of the
//! kernel's. It says what it found and ends with 0, or says what is wrong and ends with 1.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::{env, fs, io};

use hugemem::{Addressing, DmaSpace, PageSize};
use hw::pci::{Bdf, BindError, Pci, Use};
use hw::vfio::{Options, Vfio};
use hw::{Function as _, vfio};
use port::{Config, Port};
use rig::conformance::{Failure, Line, frame, same};
use rig::runner::{Borrowed, pair};

type Fallible = Result<(), Box<dyn std::error::Error>>;

/// Fails the scenario unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!($($what)+).into());
        }
    };
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["share", first, second, bits, page] => share(first, second, bits, page),
        ["unprotected", first, second] => unprotected(first, second),
        ["way", first, second, wanted] => way(first, second, wanted),
        ["drivers", device, other, driver] => drivers(device, other, driver),
        ["holder", first, second] => holder(first, second),
        ["close", first, second] => close(first, second),
        ["around", first, second] => around(first, second),
        // What a holder becomes: it never ends by itself.
        ["hold", first, second] => hold(first, second),
        _ => Err("no such scenario".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn names(first: &str, second: &str) -> [String; 2] {
    [first.to_owned(), second.to_owned()]
}

fn devices(names: &[&str]) -> Result<Vec<Bdf>, hw::pci::NotBdf> {
    names.iter().map(|name| name.parse()).collect()
}

fn open(first: &str, second: &str) -> Result<[Box<dyn Port>; 2], Failure> {
    Ok(pair::open(&names(first, second))?.ports)
}

/// Moves frames both ways, each compared.
fn traffic(line: &mut Line) -> Result<(), Failure> {
    let macs = line.macs();
    for from in [0, 1] {
        let frames: Vec<_> = (0..1000)
            .map(|n| frame(macs[1 - from], macs[from], 60 + n % 1400, n as u64))
            .collect();
        for portion in frames.chunks(100) {
            let received = line.transfer(from, portion, portion.len())?;
            same(portion, &received)?;
        }
    }
    Ok(())
}

/// Two devices share one DMA space, whose addresses are as wide as the IOMMU's and no wider, and
/// their memory lies in pages of the size that there is.
fn share(first: &str, second: &str, bits: &str, page: &str) -> Fallible {
    let bits: u32 = bits.parse()?;
    let places = devices(&[first, second])?;
    let _borrowed = Borrowed::take(&Pci::host(), &places)?;
    {
        let vfio = Vfio::host();
        let functions = [
            vfio.open(places[0], &Options::default())?,
            vfio.open(places[1], &Options::default())?,
        ];
        let spaces = functions.each_ref().map(vfio::VfioFunction::space);
        ensure!(
            std::ptr::addr_eq(
                std::sync::Arc::as_ptr(&spaces[0]),
                std::sync::Arc::as_ptr(&spaces[1])
            ),
            "the devices have a space each"
        );
        ensure!(!functions[0].is_unprotected(), "no IOMMU stands before it");
        windows(&*spaces[0], bits)?;
    }
    let mut line = Line::start(open(first, second)?, &Config::default())?;
    let expected = match page {
        "1G" => PageSize::Huge1G,
        _ => PageSize::Huge2M,
    };
    let found = line.memory.page();
    ensure!(found == expected, "memory lies in pages of {found}");
    traffic(&mut line)?;
    line.stop()?;
    println!("shared: {bits} bits, pages of {found}");
    Ok(())
}

/// Without an IOMMU a device is given away only once somebody said so; then it uses physical
/// addresses, in one space with others of its kind.
fn unprotected(first: &str, second: &str) -> Fallible {
    const MODE: &str = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    let pci = Pci::host();
    let places = devices(&[first, second])?;
    match pci.bind_to_vfio(places[0]) {
        Err(error @ BindError::NoIommu { .. }) => {
            let cure = error.remedy().unwrap_or_default();
            ensure!(cure.contains(MODE), "{cure}");
        }
        other => return Err(format!("nobody switched the mode on: {other:?}").into()),
    }
    fs::write(MODE, "1")?;
    let _borrowed = Borrowed::take(&pci, &places)?;
    let support = vfio::Support::gather(pci.root());
    ensure!(
        support.iommu_groups == 0 && support.no_iommu == Some(true),
        "{support:?}"
    );
    {
        let vfio = Vfio::host();
        let functions = [
            vfio.open(places[0], &Options::default())?,
            vfio.open(places[1], &Options::default())?,
        ];
        let spaces = functions.each_ref().map(vfio::VfioFunction::space);
        for (function, space) in functions.iter().zip(&spaces) {
            ensure!(
                function.is_unprotected() && space.addressing() == Addressing::Physical,
                "{function:?} is behind an IOMMU"
            );
        }
        ensure!(
            std::ptr::addr_eq(
                std::sync::Arc::as_ptr(&spaces[0]),
                std::sync::Arc::as_ptr(&spaces[1])
            ),
            "the devices have a space each"
        );
    }
    let mut line = Line::start(open(first, second)?, &Config::default())?;
    traffic(&mut line)?;
    line.stop()?;
    println!("unprotected: only when told, by physical addresses");
    Ok(())
}

/// The files that a process has open while it drives two devices say which way it went.
fn way(first: &str, second: &str, wanted: &str) -> Fallible {
    let places = devices(&[first, second])?;
    let _borrowed = Borrowed::take(&Pci::host(), &places)?;
    let mut line = Line::start(open(first, second)?, &Config::default())?;
    traffic(&mut line)?;
    let mut files = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let target = fs::read_link(entry?.path()).unwrap_or_default();
        files.push(target.to_string_lossy().into_owned());
    }
    line.stop()?;
    let count = |begin: &str| files.iter().filter(|name| name.starts_with(begin)).count();
    let found = [
        count("/dev/vfio/vfio"),
        count("/dev/iommu"),
        count("/dev/vfio/devices/"),
        count("/dev/vfio/noiommu-"),
    ];
    // One container or one iommufd for both; a file for each device where it has one.
    let expected = match wanted {
        "container" => [1, 0, 0, 0],
        "iommufd" => [0, 1, 2, 0],
        "none" => [1, 0, 0, 2],
        _ => return Err("no such way".into()),
    };
    ensure!(found == expected, "by {wanted}: {files:?}");
    println!("way: by {wanted}");
    Ok(())
}

/// The windows leave out where interrupts are written, and end where the IOMMU ends.
fn windows(space: &dyn DmaSpace, bits: u32) -> Fallible {
    let windows = space.windows();
    println!("windows: {windows:x?}");
    let last = windows.iter().map(|window| window.last).max().unwrap_or(0);
    ensure!(
        last == (1 << bits) - 1,
        "the last address is {last:#x}, and the IOMMU has {bits} bits"
    );
    // Intel SDM 3A §11.11: messages of interrupts go to 0xfee0_0000 and the megabyte after it.
    let hits =
        |window: &hugemem::IovaRange| window.first < 0xfef0_0000 && window.last > 0xfee0_0000;
    ensure!(
        !windows.iter().any(hits),
        "interrupts lie in a window: {windows:x?}"
    );
    Ok(())
}

/// A device goes from the kernel's driver to `vfio-pci` and back, again and again; one that is in
/// use does not go.
fn drivers(device: &str, other: &str, driver: &str) -> Fallible {
    let pci = Pci::host();
    let places = devices(&[device, other])?;
    for round in 0..3 {
        let before = pci.device(places[0])?;
        ensure!(
            before.driver.as_deref() == Some(driver) && !before.netdevs.is_empty(),
            "round {round}: {before:?}"
        );
        let borrowed = Borrowed::take(&pci, &places)?;
        let now = pci.device(places[0])?;
        ensure!(
            now.driver.as_deref() == Some("vfio-pci") && now.netdevs.is_empty(),
            "round {round}: {now:?}"
        );
        let mut line = Line::start(open(device, other)?, &Config::default())?;
        traffic(&mut line)?;
        drop(line.stop()?);
        borrowed.give_back()?;
        let after = pci.device(places[0])?;
        ensure!(
            after.driver == before.driver
                && after.driver_override.is_none()
                && after.netdevs.len() == before.netdevs.len(),
            "round {round}: before {before:?}, after {after:?}"
        );
    }
    in_use(&pci, places[0])?;
    println!("drivers: back with {driver}");
    Ok(())
}

/// An interface with an address is not taken away.
fn in_use(pci: &Pci, place: Bdf) -> Fallible {
    let found = pci.device(place)?;
    let interface = found.netdevs.first().ok_or("no interface")?;
    ip(&["address", "add", "192.0.2.1/24", "dev", interface])?;
    ip(&["link", "set", interface, "up"])?;
    match pci.bind_to_vfio(place) {
        Err(BindError::InUse { uses, .. }) => {
            let has = |used: &Use| matches!(used, Use::Address { .. });
            ensure!(uses.iter().any(has), "{uses:?}");
        }
        other => return Err(format!("a NIC with an address: {other:?}").into()),
    }
    ip(&["route", "add", "default", "via", "192.0.2.254"])?;
    ip(&["address", "show", "dev", interface])?;
    match pci.bind_to_vfio(place) {
        Err(BindError::InUse { uses, .. }) => {
            let has = |used: &Use| matches!(used, Use::DefaultRoute { .. });
            ensure!(uses.iter().any(has), "{uses:?}");
        }
        other => return Err(format!("a NIC with the default route: {other:?}").into()),
    }
    ip(&["address", "flush", "dev", interface])?;
    Ok(pci.bind_to_vfio(place).map(drop)?)
}

fn ip(words: &[&str]) -> Fallible {
    let status = Command::new("ip").args(words).status()?;
    ensure!(status.success(), "ip {}: {status}", words.join(" "));
    Ok(())
}

/// A process that drives a device is named to another that wants it; killed under load, it
/// leaves a device that can be driven at once, and all its memory.
fn holder(first: &str, second: &str) -> Fallible {
    let pci = Pci::host();
    let places = devices(&[first, second])?;
    let _borrowed = Borrowed::take(&pci, &places)?;
    let pages = free_pages()?;
    for round in 0..3 {
        let mut other = start_holder(first, second)?;
        let pid = other.id();
        let refused = Vfio::host().open(places[0], &Options::default());
        match refused {
            Err(vfio::OpenError::Busy { holders, .. }) => ensure!(
                matches!(&holders[..], [h] if h.pid == pid && h.command == "in_guest"),
                "round {round}: process {pid} holds it, and named are {holders:?}"
            ),
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("two processes drive one device".into()),
        }
        match pci.unbind(places[0], None) {
            Err(BindError::InUse { uses, .. }) => {
                let has = |used: &Use| matches!(used, Use::Held { holder } if holder.pid == pid);
                ensure!(uses.iter().any(has), "{uses:?}");
            }
            other => return Err(format!("a device that is driven: {other:?}").into()),
        }
        other.kill()?;
        other.wait()?;
        ensure!(
            free_pages()? == pages,
            "round {round}: {pages} pages were free, and {} are",
            free_pages()?
        );
        let mut line = Line::start(open(first, second)?, &Config::default())?;
        traffic(&mut line)?;
        line.stop()?;
    }
    println!("holder: killed three times, and driven again");
    Ok(())
}

/// A process that drives both devices and has said so.
fn start_holder(first: &str, second: &str) -> io::Result<Child> {
    let mut child = Command::new(env::current_exe()?)
        .args(["hold", first, second])
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child
        .stdout
        .take()
        .ok_or_else(|| io::Error::other("no pipe"))?;
    let said = BufReader::new(output).lines().next().transpose()?;
    if said.as_deref() == Some("holding") {
        return Ok(child);
    }
    child.kill()?;
    child.wait()?;
    Err(io::Error::other(format!("the holder said {said:?}")))
}

/// Sends and receives on both ends until it is killed.
fn hold(first: &str, second: &str) -> Fallible {
    let mut line = Line::start(open(first, second)?, &Config::default())?;
    let macs = line.macs();
    let mut said = false;
    loop {
        let frames: Vec<_> = (0..64).map(|n| frame(macs[1], macs[0], 1514, n)).collect();
        line.transfer(0, &frames, frames.len())?;
        // A frame that is sent now may still be on its way when the end comes.
        let mut more = frames.into();
        line.ends[0].post(0, &mut more, 64);
        if !said {
            println!("holding");
            io::stdout().flush()?;
            said = true;
        }
    }
}

/// A port that is dropped in mid-traffic, without a stop, is silent from then on: its memory may
/// go, and the IOMMU has nothing to stop. In whichever order the parts go.
fn close(first: &str, second: &str) -> Fallible {
    let places = devices(&[first, second])?;
    let _borrowed = Borrowed::take(&Pci::host(), &places)?;
    for order in 0..4 {
        let mut line = Line::start(open(first, second)?, &Config::default())?;
        traffic(&mut line)?;
        let macs = line.macs();
        let frames: Vec<_> = (0..200).map(|n| frame(macs[1], macs[0], 1514, n)).collect();
        let mut frames = frames.into();
        line.ends[0].post(0, &mut frames, 64);
        line.ends[0].post(0, &mut frames, 64);
        let Line { ends, memory, .. } = line;
        let [sender, receiver] = ends;
        // The order in which the parts of an end and the memory go.
        match order {
            0 => {
                drop(memory);
                drop(receiver);
                drop(sender);
            }
            1 => {
                drop(sender.port);
                drop(receiver.port);
                drop((sender.queues, receiver.queues));
                drop((sender.to_send, sender.to_arm));
                drop((receiver.to_send, receiver.to_arm));
                drop(memory);
            }
            2 => {
                drop((receiver.queues, sender.queues));
                drop((receiver.port, sender.port));
                drop(memory);
            }
            _ => {
                drop((receiver.to_arm, receiver.to_send, receiver.queues));
                drop(memory);
                drop(receiver.port);
                drop((sender.port, sender.queues));
            }
        }
        let mut line = Line::start(open(first, second)?, &Config::default())?;
        traffic(&mut line)?;
        line.stop()?;
    }
    println!("close: silent in every order");
    Ok(())
}

/// A device that goes around the IOMMU is refused before it is told any address.
fn around(first: &str, second: &str) -> Fallible {
    let places = devices(&[first, second])?;
    let _borrowed = Borrowed::take(&Pci::host(), &places)?;
    match open(first, second) {
        Err(error) => {
            let text = error.to_string();
            ensure!(
                text.contains("does not keep to the IOMMU") && text.contains("iommu_platform=on"),
                "{text}"
            );
        }
        Ok(_) => return Err("a device that goes around the IOMMU was opened".into()),
    }
    println!("around: refused");
    Ok(())
}

/// Free hugepages of 2 MiB.
fn free_pages() -> io::Result<u64> {
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
    let text = fs::read_to_string(file)?;
    text.trim().parse().map_err(io::Error::other)
}
