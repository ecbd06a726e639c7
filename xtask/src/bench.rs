//! `cargo xtask bench`: what the code costs.

use anyhow::Result;
use clap::Args;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {}
pub(crate) fn run(_options: &Options) -> Result<()> {
    Ok(())
}
