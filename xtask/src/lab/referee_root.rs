//! What referees boot: a kernel with the network drivers of its authors, and their tools.
//!
//! QEMU comes from the guest's root ([`super::guest`]); this one only holds what it starts.

use std::path::Path;

use anyhow::Result;
use peers::guest::{INIT, Kernel, System};

use super::debian::{self, Plan};

/// What mmdebstrap runs in the root once its packages are there.
const SCRIPT: &str = include_str!("referee.sh");

/// Builds the system with `kernel` in the cache `home`.
pub(super) fn build(home: &Path, kernel: Kernel) -> Result<()> {
    let (root, stamp) = (
        System::root_in(home, kernel),
        System::stamp_in(home, kernel),
    );
    let (modules, tools) = (System::MODULES.join(" "), System::TOOLS.join(" "));
    let release = kernel.release();
    // The script is passed as text: in a user namespace our own files can't be read.
    let hook = format!(
        "cat > \"$1/init\" <<'END_OF_INIT'\n{INIT}END_OF_INIT\nmodules='{modules}'\n\
         tools='{tools}'\nrelease='{release}'\n{SCRIPT}"
    );
    debian::build(&Plan {
        root: &root,
        stamp: &stamp,
        contents: &kernel.contents(),
        suites: &["trixie", "trixie-backports"],
        packages: &[
            "busybox-static",
            "cpio",
            "ethtool",
            "iproute2",
            "iputils-ping",
            "kmod",
            "xz-utils",
        ],
        named: &["ethtool", "iproute2", "busybox-static"],
        more: vec![
            "--aptopt=APT::Default-Release \"trixie\"".to_owned(),
            format!("--customize-hook={hook}"),
        ],
    })?;
    super::guest::add_kernel(&root, &stamp)
}
