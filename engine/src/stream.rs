//! Streams: frames at a rate.

use crate::frame::Frames;

/// Bytes of the frame check sequence, which devices add and sizes count.
pub const FCS: usize = 4;

/// Bytes that a frame takes on the wire beside itself: preamble, start delimiter (8) and the
/// smallest gap (12), IEEE 802.3 §3.1.1 and §4.4.2.
pub const WIRE_OVERHEAD: usize = 20;

/// Frames at a rate, measured or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// What results call it.
    pub name: String,
    /// What is sent.
    pub frames: Frames,
    /// How fast. For a measured stream with [`Stream::scaled`] off, whatever the multiplier.
    pub rate: Rate,
    /// For how long.
    pub mode: Mode,
    /// What the receiver keeps about it.
    pub measure: Measure,
    /// When it starts, in nanoseconds after the run does, or after the stream before it in a chain
    /// has ended (TRex's inter-stream gap).
    pub start_delay_ns: u64,
    /// The stream of the same port that starts when this one has ended.
    pub next: Option<String>,
    /// It does not start by itself: only as another one's [`Stream::next`] (TRex: `self_start`
    /// off).
    pub waits: bool,
    /// How often it may be sent before nothing follows it any more (TRex's `action_count`, where 0
    /// is any number); any number if none.
    pub loops: Option<u64>,
    /// Whether a multiplier (`-m`) changes its rate. Latency streams keep theirs, as in TRex.
    pub scaled: bool,
}

impl Stream {
    /// A continuous stream of `frames`, 1 frame a second, not measured.
    #[must_use]
    pub fn new(name: impl Into<String>, frames: Frames) -> Self {
        Self {
            name: name.into(),
            frames,
            rate: Rate::Pps(1.0),
            mode: Mode::Continuous,
            measure: Measure::None,
            start_delay_ns: 0,
            next: None,
            waits: false,
            loops: None,
            scaled: true,
        }
    }

    /// True if it is part of a chain.
    #[must_use]
    pub fn is_chained(&self) -> bool {
        self.waits || self.next.is_some()
    }

    /// Frames a second on a link of `link_bps` bits a second.
    ///
    /// # Errors
    /// A share of a line whose speed is not known.
    pub fn pps(&self, link_bps: Option<u64>) -> Result<f64, UnknownSpeed> {
        self.rate.pps(self.frames.mean_size(), link_bps)
    }
}

/// How fast frames are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Frames a second.
    Pps(f64),
    /// Bits a second on the wire: frames with FCS, preamble and gap.
    L1Bps(f64),
    /// Bits a second of frames with FCS.
    L2Bps(f64),
    /// Per cent of what the line carries ([`Rate::L1Bps`] at the link's speed).
    LinePercent(f64),
}

/// A share of the line was asked for, and the link does not say how fast it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a rate in per cent needs a link of known speed")]
pub struct UnknownSpeed;

impl Rate {
    /// Frames a second, for frames of `mean_size` bytes with FCS on a link of `link_bps` bits a
    /// second.
    ///
    /// # Errors
    /// A share of a line whose speed is not known.
    pub fn pps(self, mean_size: f64, link_bps: Option<u64>) -> Result<f64, UnknownSpeed> {
        let wire_bits = (mean_size + WIRE_OVERHEAD as f64) * 8.0;
        Ok(match self {
            Self::Pps(pps) => pps,
            Self::L1Bps(bps) => bps / wire_bits,
            Self::L2Bps(bps) => bps / (mean_size * 8.0),
            Self::LinePercent(share) => {
                let line = link_bps.ok_or(UnknownSpeed)?;
                share / 100.0 * line as f64 / wire_bits
            }
        })
    }
}

/// For how long a stream sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Until the run ends.
    Continuous,
    /// So many frames.
    Burst {
        /// Frames in all.
        frames: u64,
    },
    /// Bursts with pauses.
    MultiBurst {
        /// Frames in each burst.
        frames: u64,
        /// From the last frame of a burst to the first of the next, in nanoseconds.
        gap_ns: u64,
        /// Bursts in all; none for as long as the run lasts.
        bursts: Option<u64>,
    },
}

/// What the receiver keeps about a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Nothing: its frames count for the port alone.
    None,
    /// Frames, loss, duplicates, reordering.
    Count,
    /// That, and each frame's latency.
    Latency,
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ten_gigabit_carries_14_88_million_small_frames() {
        // IEEE 802.3: 64 + 20 bytes at 10 Gbit/s are 67.2 ns.
        let line = Some(10_000_000_000);
        let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(close(
            Rate::LinePercent(100.0).pps(64.0, line).unwrap(),
            1e9 / 67.2
        ));
        assert!(close(
            Rate::L1Bps(10e9).pps(64.0, None).unwrap(),
            1e9 / 67.2
        ));
        assert!(close(Rate::L2Bps(512e3).pps(64.0, None).unwrap(), 1000.0));
        assert_eq!(Rate::LinePercent(1.0).pps(64.0, None), Err(UnknownSpeed));
    }
}
