//! What our driver may do otherwise than Linux's, and why.

use crate::differential::allowed::Allowed;

/// Every rule there is.
pub const ALLOWED: &[Allowed] = &[];

/// The rules for the subject of that name.
#[must_use]
pub fn of(subject: &str) -> Vec<&'static Allowed> {
    let about = |rule: &&Allowed| rule.subjects.contains(&subject);
    ALLOWED.iter().filter(about).collect()
}
