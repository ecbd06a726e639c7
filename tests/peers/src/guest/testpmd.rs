//! DPDK's testpmd in a guest: the part of the peers' root that it needs, at the same places below
//! [`HOME`], so that [`Lab::find`] finds it there as it does here.
//!
//! DPDK's drivers are plug-ins. The library looks for them in a folder of its own, and the loader
//! for those that testpmd is linked with among all libraries: each lies there once, and a link in
//! the plug-ins' folder leads to it, as two copies would register twice.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Carried, libraries};
use crate::lab::Lab;

/// The lab's cache as a guest has it: what [`Lab::home`] is told by `$RGEN_LAB`.
pub const HOME: &str = "/lab";

/// Programs, and what `stdbuf` loads into them.
const PROGRAMS: &[&str] = &[
    "/usr/bin/dpdk-testpmd",
    "/usr/bin/stdbuf",
    "/usr/libexec/coreutils/libstdbuf.so",
];
/// Plug-ins: drivers of the NICs that QEMU has, the buses that they hang on, and the frame pool.
const PLUGINS: &[&str] = &[
    "librte_bus_pci",
    "librte_bus_vdev",
    "librte_mempool_ring",
    "librte_net_e1000",
    "librte_net_virtio",
    "librte_net_vmxnet3",
];
/// Loaded by the C library where a thread ends, and linked with nothing.
const UNWINDER: &str = "libgcc_s.so.1";
/// Where the loader looks without being told.
const LIBRARIES: &str = "/lib/x86_64-linux-gnu";
/// The folder of DPDK's folder of plug-ins, whose name has a version.
const DPDK: &str = "/usr/lib/x86_64-linux-gnu/dpdk";
/// What is mounted over, or written to.
const FOLDERS: &[&str] = &["/dev", "/mnt", "/proc", "/sys", "/tmp"];

/// All that a guest has to carry to run the testpmd of `lab`.
///
/// # Errors
/// Something of it is missing in the lab.
pub fn files(lab: &Lab) -> io::Result<Vec<Carried>> {
    let root = lab.root();
    let inside = |path: &str| format!("{HOME}/peers{path}");
    let mut files: Vec<Carried> = FOLDERS
        .iter()
        .map(|path| Carried::Folder(inside(path)))
        .collect();
    let mut carry = |from: PathBuf, to: String| files.push(Carried::File { from, to });
    let cache = root.parent().unwrap_or(root);
    carry(Lab::stamp_in(cache), format!("{HOME}/peers.stamp"));
    for program in PROGRAMS {
        carry(below(root, program), inside(program));
    }

    let folder = plugins(root)?;
    let mut linked: Vec<String> = PROGRAMS.iter().map(|&name| name.to_owned()).collect();
    let mut links = Vec::new();
    for plugin in PLUGINS {
        let (name, link) = versions(&below(root, &folder), plugin)?;
        links.push(Carried::Link {
            at: inside(&format!("{folder}/{link}")),
            to: format!("{LIBRARIES}/{name}"),
        });
        carry(
            below(root, &format!("{folder}/{link}")),
            inside(&format!("{LIBRARIES}/{name}")),
        );
        linked.push(format!("{folder}/{link}"));
    }
    carry(
        below(root, &format!("{LIBRARIES}/{UNWINDER}")),
        inside(&format!("{LIBRARIES}/{UNWINDER}")),
    );

    let temporary = tempfile::tempdir()?;
    let mut needed = libraries::asked(lab.command(temporary.path(), "ldd").args(linked))?;
    needed.sort();
    needed.dedup();
    for library in needed {
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        if PLUGINS.iter().any(|plugin| is_of(&name, plugin)) {
            continue;
        }
        let from = below(root, &library.to_string_lossy());
        // The loader lies where every program names it.
        let to = if library.starts_with("/lib64") {
            inside(&library.to_string_lossy())
        } else {
            inside(&format!("{LIBRARIES}/{name}"))
        };
        carry(from, to);
    }
    files.extend(links);
    Ok(files)
}

/// An absolute path inside `root`.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// The folder of plug-ins.
fn plugins(root: &Path) -> io::Result<String> {
    for entry in fs::read_dir(below(root, DPDK))? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("pmds-") {
            return Ok(format!("{DPDK}/{name}"));
        }
    }
    Err(io::Error::other(format!("no plug-ins of DPDK in {DPDK}")))
}

/// True if `name` is `plugin` with whatever version.
fn is_of(name: &str, plugin: &str) -> bool {
    let rest = name.strip_prefix(plugin);
    rest.is_some_and(|rest| rest.starts_with(".so"))
}

/// The names of a plug-in in `folder` by which programs are linked with it, `NAME.so.25`, and by
/// which DPDK looks for it, `NAME.so.25.0`.
fn versions(folder: &Path, plugin: &str) -> io::Result<(String, String)> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| is_of(name, plugin)) else {
            continue;
        };
        if let Some((linked, _)) = name.rsplit_once('.')
            && name.ends_with(".0")
        {
            return Ok((linked.to_owned(), name.to_owned()));
        }
    }
    let folder = folder.display();
    Err(io::Error::other(format!("{folder} has no {plugin}.so.*.0")))
}

#[cfg(test)]
mod test {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_plug_in_has_two_names_and_is_no_other() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "librte_net_e1000.so",
            "librte_net_e1000.so.25.0",
            "librte_net_e1000.so.25",
        ] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let (linked, found) = versions(folder.path(), "librte_net_e1000").unwrap();
        assert_eq!(
            (linked.as_str(), found.as_str()),
            ("librte_net_e1000.so.25", "librte_net_e1000.so.25.0")
        );
        assert!(versions(folder.path(), "librte_net_e10").is_err());
    }

    #[test]
    fn every_file_is_there_and_is_carried_once() {
        let Some(lab) = crate::lab_or_skip("every_file_is_there_and_is_carried_once") else {
            return;
        };
        let mut places = BTreeSet::new();
        for carried in files(&lab).unwrap() {
            let place = match carried {
                Carried::File { from, to } => {
                    assert!(from.is_file(), "{}", from.display());
                    to
                }
                Carried::Link { at, .. } => at,
                Carried::Folder(path) => path,
            };
            assert!(places.insert(place.clone()), "{place} twice");
        }
        assert!(
            places.contains("/lab/peers/lib64/ld-linux-x86-64.so.2"),
            "{places:?}"
        );
        assert!(places.len() > 50, "{places:?}");
    }
}
