//! The root with QEMU, and what its guests start from.
//!
//! QEMU comes from the backports: older ones have no `vfio-user-pci`, and no igb with virtual
//! functions. The kernel comes from the release itself, and is only unpacked.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use peers::Guest;
use peers::guest::{CONTENTS, INIT, MODULES};

use super::debian::{self, Plan};

/// What mmdebstrap runs in the root once its packages are there.
const SCRIPT: &str = include_str!("guest.sh");

/// The oldest QEMU that will do.
const OLDEST: (u32, u32) = (10, 1);

/// Builds it in the cache `home`.
pub(super) fn build(home: &Path) -> Result<()> {
    let (root, stamp) = (Guest::root_in(home), Guest::stamp_in(home));
    let modules = MODULES.join(" ");
    // The script is passed as text: in a user namespace our own files can't be read.
    let hook = format!(
        "cat > \"$1/init\" <<'END_OF_INIT'\n{INIT}END_OF_INIT\nmodules='{modules}'\n{SCRIPT}"
    );
    debian::build(&Plan {
        root: &root,
        stamp: &stamp,
        contents: CONTENTS,
        suites: &["trixie", "trixie-backports"],
        packages: &[
            "busybox-static",
            "cpio",
            "kmod",
            "qemu-system-x86",
            "xz-utils",
        ],
        named: &["qemu-system-x86", "busybox-static"],
        more: vec![
            "--aptopt=APT::Default-Release \"trixie-backports\"".to_owned(),
            format!("--customize-hook={hook}"),
        ],
    })?;
    finish(&root, &stamp).inspect_err(|_| {
        // What does not suit is not called whole.
        let _ = std::fs::remove_file(&stamp);
    })
}

/// Looks at the version of QEMU, and adds the kernel's to the stamp.
fn finish(root: &Path, stamp: &Path) -> Result<()> {
    let text = std::fs::read_to_string(stamp)?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("qemu-system-x86 "))
        .context("qemu-system-x86 is not in the root")?;
    if release(version).is_none_or(|found| found < OLDEST) {
        bail!(
            "QEMU {version} is too old: {}.{} or newer is needed, which Debian has in \
             trixie-backports; does the mirror of this machine's apt have that?",
            OLDEST.0,
            OLDEST.1
        );
    }
    add_kernel(root, stamp)
}

/// Adds the version of the kernel in `root` to the stamp.
pub(super) fn add_kernel(root: &Path, stamp: &Path) -> Result<()> {
    let kernel = std::fs::read_to_string(root.join("boot/rgen-kernel.version"))?;
    let mut stamp = OpenOptions::new().append(true).open(stamp)?;
    stamp.write_all(kernel.as_bytes())?;
    Ok(())
}

/// The first two numbers of a Debian version: `1:11.1.3+ds-1` is 11.1.
fn release(version: &str) -> Option<(u32, u32)> {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_release_is_read_off_a_debian_version() {
        assert_eq!(release("1:11.1.3+ds-1~bpo13+1"), Some((11, 1)));
        assert_eq!(release("10.0"), Some((10, 0)));
        assert_eq!(release("x"), None);
    }
}
