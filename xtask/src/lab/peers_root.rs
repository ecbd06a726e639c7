//! The root with the peers: DPDK's testpmd, tcpdump and tshark.

use std::path::Path;

use anyhow::{Context, Result};
use peers::Lab;
use peers::lab::CONTENTS;

use super::debian::{self, Plan};

/// Builds it in the cache `home`.
pub(super) fn build(home: &Path) -> Result<()> {
    let (suite, packages) = CONTENTS
        .split_once(' ')
        .context("the lab's contents are empty")?;
    debian::build(&Plan {
        root: &Lab::root_in(home),
        stamp: &Lab::stamp_in(home),
        contents: CONTENTS,
        suites: &[suite],
        packages: &packages.split(' ').collect::<Vec<_>>(),
        named: &["dpdk", "tcpdump", "tshark"],
        more: Vec::new(),
    })
}
