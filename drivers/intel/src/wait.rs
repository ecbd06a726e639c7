//! Waiting for a device, for a bounded time.

use std::time::{Duration, Instant};

use port::PortError;

/// How long a device may take, and how often to look.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// How long at most.
    pub most: Duration,
    /// How long from look to look.
    pub step: Duration,
}

impl Limit {
    /// `most` milliseconds, looking every `step` microseconds.
    pub const fn of(most_ms: u64, step_us: u64) -> Self {
        Self {
            most: Duration::from_millis(most_ms),
            step: Duration::from_micros(step_us),
        }
    }
}

/// Looks until `look` gives something; none once the time is over.
pub fn until<T>(limit: Limit, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        // Looked at once more after the time: this thread may have slept for longer.
        let late = started.elapsed() >= limit.most;
        if let Some(found) = look() {
            return Some(found);
        }
        if late {
            return None;
        }
        std::thread::sleep(limit.step);
    }
}

/// The error of a device that took too long.
pub fn stuck(port: &str, what: &str, limit: Limit) -> PortError {
    PortError::Stuck {
        port: port.to_owned(),
        what: what.to_owned(),
        waited_ms: u64::try_from(limit.most.as_millis()).unwrap_or(u64::MAX),
    }
}
