//! Latency of one lane at one receive queue.

use hdrhistogram::Histogram;

use super::counters::LaneReceived;

/// Latencies are told apart up to here, 68 s; longer ones count as this.
const LONGEST_NS: u64 = 1 << 36;

/// A histogram, and what a histogram does not keep.
pub(super) struct Recorder {
    histogram: Histogram<u32>,
    last_ns: Option<u64>,
    jitter_16ths: u64,
}

impl Recorder {
    /// One of `measured` recorders: the more there are, the coarser each is, so that all of them
    /// stay in some tens of megabytes: three significant digits for up to 64 lanes, two for up to
    /// 2048, then one. Minimum, mean and maximum are exact always.
    pub(super) fn new(measured: usize) -> Self {
        let digits = match measured {
            0..=64 => 3,
            65..=2048 => 2,
            _ => 1,
        };
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, digits)
            .expect("the bounds and digits are valid ones");
        Self {
            histogram,
            last_ns: None,
            jitter_16ths: 0,
        }
    }

    /// Notes one latency. Does not allocate: the histogram was made with its bounds.
    #[inline]
    pub(super) fn record(&mut self, latency_ns: u64, counts: &LaneReceived) {
        self.histogram.saturating_record(latency_ns.min(LONGEST_NS));
        if let Some(last_ns) = self.last_ns.replace(latency_ns) {
            // RFC 3550 §6.4.1 and A.8: J += (|D| - J) / 16, kept in sixteenths.
            let difference = last_ns.abs_diff(latency_ns);
            self.jitter_16ths += difference;
            self.jitter_16ths -= (self.jitter_16ths - difference + 8) >> 4;
            counts.jitter_16ths.set(self.jitter_16ths);
        }
        counts.timed.add(1);
        counts.latency_sum_ns.add(latency_ns);
        if latency_ns > counts.latency_max_ns.get() {
            counts.latency_max_ns.set(latency_ns);
        }
        if !latency_ns > counts.latency_min_inverted.get() {
            counts.latency_min_inverted.set(!latency_ns);
        }
    }

    pub(super) fn into_histogram(self) -> Histogram<u32> {
        self.histogram
    }
}
