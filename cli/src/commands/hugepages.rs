//! `rgen hugepages`
use super::Manner;
use crate::args::Hugepages;
use crate::error::{Error, Exit};
/// Placeholder.
pub(super) fn run(_args: &Hugepages, _manner: Manner) -> Result<Exit, Error> {
    Ok(Exit::Done)
}
