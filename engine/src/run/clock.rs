//! What the engine asks of a clock.

/// A monotonic clock that every worker reads: nanoseconds from any fixed point.
///
/// All copies of one clock agree, on every core. The engine reads it once for each visit of a
/// queue (and once more for a burst with measured frames, right after the poll), so a reading
/// should cost no more than some tens of cycles: the command line passes the time-stamp counter.
pub trait Clock: Copy + Send + 'static {
    /// Nanoseconds now.
    fn now_ns(&self) -> u64;
}
