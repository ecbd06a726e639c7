//! Roots: small Debians, made by mmdebstrap from the mirror that this machine's own apt uses.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;

use crate::run::{self, watch};

/// What installing or building may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// What the lab needs of this machine, by program and package: what makes the roots, and what
/// makes wires for guests and tells the physical function of virtual ones in a guest what to do.
const NEEDED: [(&str, &str); 2] = [("mmdebstrap", "mmdebstrap"), ("ip", "iproute2")];

/// Sees to it that mmdebstrap and ip are there. Says why, and the cure, when they can't be had.
pub(super) fn missing() -> Result<Option<String>> {
    if run::read(Command::new("apt-get").arg("--version")).is_err() {
        let why = "the lab comes from Debian's packages, and this machine has no apt: run the \
                   tests on Debian, or in a container of it";
        return Ok(Some(why.to_owned()));
    }
    if !geteuid().is_root() {
        // newuidmap gives an ordinary user the ids that a Debian root has.
        let is_able = ["mmdebstrap", "ip", "newuidmap"]
            .into_iter()
            .all(has_program);
        let why = "mmdebstrap, ip or newuidmap is missing: sudo apt-get install mmdebstrap \
                   iproute2 uidmap";
        return Ok(if is_able { None } else { Some(why.to_owned()) });
    }
    let missing = NEEDED.iter().filter(|(program, _)| !has_program(program));
    let packages: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(None);
    }
    let names = packages.join(" ");
    println!("installing Debian's {names}");
    let words = ["install", "--yes", "--no-install-recommends"];
    let install = || apt(&[&words, &packages[..]].concat());
    if !install()? {
        println!("apt's lists are missing or old: apt-get update");
        apt(&["update"])?;
        ensure!(
            install()?,
            "{names} can't be installed: apt-get install {names} says why"
        );
    }
    Ok(None)
}

fn has_program(name: &str) -> bool {
    run::read(Command::new("sh").args(["-c", "command -v \"$0\"", name])).is_ok()
}

/// Runs apt-get without questions; true if it went well.
fn apt(words: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command
        .args(["-o", "DPkg::Lock::Timeout=300", "-q"])
        .args(words);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    let shown = |line: &str| line.starts_with("E:") || line.starts_with("W:");
    Ok(watch(&mut command, LIMIT, shown)?.is_success())
}

/// The base address of the Debian mirror that apt uses.
fn mirror() -> Result<String> {
    if let Some(mirror) = mirror_in_lists()? {
        return Ok(mirror);
    }
    if geteuid().is_root() {
        println!("apt's lists are missing: apt-get update");
        apt(&["update"])?;
    }
    mirror_in_lists()?
        .context("apt knows no Debian mirror: apt-get update, and look at its sources")
}

fn mirror_in_lists() -> Result<Option<String>> {
    let format = "$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(REPO_URI)";
    let listed = run::read(Command::new("apt-get").args(["indextargets", "--format", format]))?;
    Ok(listed.lines().find_map(base).map(str::to_owned))
}

/// The address in one line of apt's list, if it is a Debian release's main part.
fn base(line: &str) -> Option<&str> {
    let mut fields = line.splitn(4, '|');
    let (origin, component, codename) = (fields.next()?, fields.next()?, fields.next()?);
    // `bookworm-security` and `-updates` lie elsewhere, or hold only a part.
    let is_release = origin == "Debian" && component == "main" && !codename.contains('-');
    fields.next().filter(|_| is_release)
}

/// A root that is to be built.
pub(super) struct Plan<'a> {
    /// Where it will lie.
    pub(super) root: &'a Path,
    /// The mark that it is whole.
    pub(super) stamp: &'a Path,
    /// The stamp's first line: what it is built for.
    pub(super) contents: &'a str,
    /// The releases that packages may come from; the first is what the root is made of.
    pub(super) suites: &'a [&'a str],
    /// The packages, beside what every root has.
    pub(super) packages: &'a [&'a str],
    /// The packages whose versions the stamp names.
    pub(super) named: &'a [&'a str],
    /// More of mmdebstrap's arguments.
    pub(super) more: Vec<String>,
}

/// Builds a root, and stamps it when it is whole.
pub(super) fn build(plan: &Plan<'_>) -> Result<()> {
    let part = plan.root.with_extension("part");
    if plan.stamp.exists() {
        fs::remove_file(plan.stamp)?;
    }
    remove(&part)?;
    remove(plan.root)?;

    let mirror = mirror()?;
    let suite = plan.suites.first().context("a root of no release")?;
    println!(
        "building a Debian {suite} root with {} in {}",
        plan.packages.join(" "),
        plan.root.display()
    );
    let mut command = Command::new("mmdebstrap");
    command.arg(if geteuid().is_root() {
        "--mode=root"
    } else {
        "--mode=unshare"
    });
    command.args(["--variant=apt", "--components=main", "--format=directory"]);
    command.arg(format!("--include={}", plan.packages.join(",")));
    command.arg("--aptopt=APT::Install-Recommends \"false\"");
    command.args(&plan.more).arg(suite).arg(&part);
    // One that is cut short is built anew, so nothing need be safe on the disk before its end.
    command.arg("--dpkgopt=force-unsafe-io");
    for suite in plan.suites {
        command.arg(format!("deb {mirror} {suite} main"));
    }
    let done = watch(&mut command, LIMIT, |line| line.starts_with("I: "))?;
    if !done.is_success() {
        bail!(
            "the root can't be built ({}); mmdebstrap said:\n{}\n\
             the cure is most often a network that reaches the mirror of this machine's apt, or \
             1 GB of room in {}; then run `cargo xtask lab` again",
            done.verdict(),
            done.tail(20),
            plan.root.parent().unwrap_or(plan.root).display()
        );
    }
    fs::rename(&part, plan.root)?;
    let installed = installed(plan.root, plan.named)?;
    fs::write(plan.stamp, format!("{}\n{installed}\n", plan.contents))?;
    Ok(())
}

/// Names and versions of the packages that matter, a line each.
fn installed(root: &Path, named: &[&str]) -> Result<String> {
    let status = fs::read_to_string(root.join("var/lib/dpkg/status"))?;
    let mut lines = Vec::new();
    for stanza in status.split("\n\n") {
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(package), Some(version)) = (field("Package: "), field("Version: "))
            && named.contains(&package)
        {
            lines.push(format!("{package} {version}"));
        }
    }
    Ok(lines.join("\n"))
}

/// Removes a root that was built before, or half built.
pub(super) fn remove(root: &Path) -> Result<()> {
    if !root.exists() {
        return Ok(());
    }
    println!("removing {}", root.display());
    // Without root, its files belong to ids that only a user namespace has.
    let mut command = Command::new(if geteuid().is_root() {
        "env"
    } else {
        "mmdebstrap"
    });
    if !geteuid().is_root() {
        command.arg("--unshare-helper");
    }
    // Never across a mount: what is mounted in there is not ours.
    run::read(command.args(["rm", "-rf", "--one-file-system"]).arg(root))?;
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_the_main_part_of_a_debian_release_is_a_mirror() {
        let address = "http://mirror.example/debian/";
        for other in [
            "Debian|main|bookworm-updates|",
            "Node|main|nodistro|",
            "Debian|contrib|bookworm|",
        ] {
            assert_eq!(base(&format!("{other}{address}")), None, "{other}");
        }
        assert_eq!(
            base(&format!("Debian|main|bookworm|{address}")),
            Some(address)
        );
        assert_eq!(base("nonsense"), None);
    }
}
