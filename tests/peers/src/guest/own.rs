//! A kernel of our own for guests, with the ways of VFIO that no kernel of Debian's has on.
//!
//! `cargo xtask lab` builds it from Debian's `linux-source` with [`CONFIG`] and nothing else; what
//! comes of it lies in `own-kernel/` in the lab's cache, with the stamp beside it. A guest that
//! starts with it ([`own_system_in`]) is as any other: QEMU is the same, and so is the first program.

use std::path::{Path, PathBuf};

use super::System;
use crate::lab::{LabError, is_stamped};

/// What it is built from: the first line of the stamp. A change here rebuilds it; so the number
/// goes up with [`CONFIG`], [`BUILD`] and [`super::INIT`].
pub const OWN_CONTENTS: &str = "trixie linux-source-6.12, version 1";

/// What it is configured with: a fragment of the kernel's configuration. Each line must hold.
pub const CONFIG: &str = include_str!("own.config");

/// The steps of building it, for the shell of the root that has the compiler.
pub const BUILD: &str = include_str!("own.sh");

/// The folder of what was built inside the cache `home`.
#[must_use]
pub fn own_folder_in(home: &Path) -> PathBuf {
    home.join("own-kernel")
}

/// The stamp's file inside the cache `home`.
#[must_use]
pub fn own_stamp_in(home: &Path) -> PathBuf {
    home.join("own-kernel.stamp")
}

/// The kernel of our own in the cache `home`, and the archive that a guest starts from.
///
/// # Errors
/// It was not built, or was built for something else; the message has the cure.
pub fn own_system_in(home: &Path) -> Result<System, LabError> {
    is_stamped(&own_stamp_in(home), OWN_CONTENTS, home)?;
    let root = own_folder_in(home);
    Ok(System { root })
}

/// The lines of a fragment `wanted` that a kernel's whole configuration `found` does not have.
/// Lines that only explain are none: a symbol that shall be off is a comment of one form.
#[must_use]
pub fn dropped<'a>(wanted: &'a str, found: &str) -> Vec<&'a str> {
    let is_symbol = |line: &&str| {
        line.starts_with("CONFIG_")
            || line.starts_with("# CONFIG_") && line.ends_with(" is not set")
    };
    let holds = |line: &str| {
        // What can't be chosen at all is off too, and has no line.
        let symbol = line
            .strip_prefix("# ")
            .and_then(|rest| rest.strip_suffix(" is not set"));
        match symbol {
            Some(symbol) => !found
                .lines()
                .any(|line| line.split('=').next() == Some(symbol)),
            None => found.lines().any(|other| other == line),
        }
    };
    let lines = wanted.lines().map(str::trim_end);
    lines
        .filter(is_symbol)
        .filter(|line| !holds(line))
        .collect()
}

#[cfg(test)]
mod test {
    use std::fs;

    use super::*;

    #[test]
    fn a_line_that_the_configuration_drops_or_turns_is_named() {
        let wanted =
            "# why\nCONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n# CONFIG_D is not set\n";
        let found = "CONFIG_A=y\nCONFIG_BB=m\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_DD=y\n";
        assert_eq!(
            dropped(wanted, found),
            ["CONFIG_B=m", "# CONFIG_C is not set"]
        );
        assert_eq!(dropped("CONFIG_A=y", "CONFIG_A=m"), ["CONFIG_A=y"]);
    }

    #[test]
    fn what_this_kernel_is_for_is_in_its_configuration() {
        let everything: String = CONFIG
            .lines()
            .filter(|line| !line.contains("VFIO_NOIOMMU") && !line.contains("CDEV"))
            .flat_map(|line| [line, "\n"])
            .collect();
        let missing = dropped(CONFIG, &everything);
        assert_eq!(
            missing,
            ["CONFIG_VFIO_DEVICE_CDEV=y", "CONFIG_VFIO_NOIOMMU=y"]
        );
    }

    #[test]
    fn it_is_found_by_its_stamp_alone() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let none = own_system_in(home).unwrap_err();
        assert!(matches!(none, LabError::NotBuilt { .. }), "{none}");
        fs::write(own_stamp_in(home), format!("{OWN_CONTENTS}\nlinux 6\n")).unwrap();
        let system = own_system_in(home).unwrap();
        assert!(system.kernel().starts_with(home.join("own-kernel")));
        fs::write(own_stamp_in(home), "another\n").unwrap();
        let old = own_system_in(home).unwrap_err();
        assert!(matches!(old, LabError::Outdated { .. }), "{old}");
    }
}
