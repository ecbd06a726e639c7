//! NICs.
use super::Finding;
use crate::host::Host;

pub(super) fn nics(_host: &Host) -> Vec<Finding> {
    Vec::new()
}
