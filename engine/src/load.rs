//! How much of its streams a port sends: TRex's multiplier, `-m`.

use crate::stream::{Rate, Stream, UnknownSpeed};

/// What all streams of a port add up to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// So many times what the streams say.
    Times(f64),
    /// This rate.
    Rate(Rate),
}

/// Why a load is not one, or cannot be applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Not a load.
    #[error("{text:?} is not a load")]
    Form {
        /// The text.
        text: String,
    },
    /// Not above 0.
    #[error("a load of {text}: it must be more than 0")]
    Zero {
        /// The text.
        text: String,
    },
    /// A share of a line of unknown speed.
    #[error(transparent)]
    UnknownSpeed(#[from] UnknownSpeed),
    /// No stream's rate can change.
    #[error("no stream's rate can change: the load has nothing to act on")]
    NothingScales,
}

impl LoadError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Form { .. } => Some(
                "as in 5mpps, 100kpps, 10gbps (frames), 10gbpsl1 (line), 30%, or 2 (times)".into(),
            ),
            Self::UnknownSpeed(_) => Some("give the rate in pps or bps".into()),
            Self::Zero { .. } | Self::NothingScales => None,
        }
    }
}

impl std::str::FromStr for Load {
    type Err = LoadError;

    /// `N`, `N%`, or `N` with k, m or g and `pps`, `bps` (frames with FCS) or `bpsl1` (the line),
    /// in any case.
    fn from_str(text: &str) -> Result<Self, LoadError> {
        let form = || LoadError::Form { text: text.into() };
        let lower = text.trim().to_ascii_lowercase();
        let digits = lower.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')));
        let (number, unit) = lower.split_at(digits.unwrap_or(lower.len()));
        let number: f64 = number.replace('_', "").parse().map_err(|_| form())?;
        if number <= 0.0 {
            return Err(LoadError::Zero { text: text.into() });
        }
        let unit = unit.trim();
        let (scale, unit) = match unit.chars().next() {
            Some('k') => (1e3, &unit[1..]),
            Some('m') => (1e6, &unit[1..]),
            Some('g') => (1e9, &unit[1..]),
            _ => (1.0, unit),
        };
        match (unit, scale) {
            ("", 1.0) => Ok(Self::Times(number)),
            ("%", 1.0) => Ok(Self::Rate(Rate::LinePercent(number))),
            ("pps", _) => Ok(Self::Rate(Rate::Pps(number * scale))),
            ("bps" | "bpsl2", _) => Ok(Self::Rate(Rate::L2Bps(number * scale))),
            ("bpsl1", _) => Ok(Self::Rate(Rate::L1Bps(number * scale))),
            _ => Err(form()),
        }
    }
}

impl Load {
    /// Sets the rates of `streams`, in frames a second, so that those that can change add up to
    /// this load, each keeping its share. Returns all their frames a second, those that cannot
    /// change included.
    ///
    /// # Errors
    /// A share of a line of unknown speed, or no stream that can change.
    pub fn apply(self, streams: &mut [Stream], link_bps: Option<u64>) -> Result<f64, LoadError> {
        let pps = self.rates(streams, link_bps)?;
        for (stream, pps) in streams.iter_mut().zip(&pps) {
            stream.rate = Rate::Pps(*pps);
        }
        Ok(pps.iter().sum())
    }

    /// The frames a second of each of `streams` under this load, as [`Load::apply`] sets them.
    ///
    /// # Errors
    /// A share of a line of unknown speed, or no stream that can change.
    pub fn rates(self, streams: &[Stream], link_bps: Option<u64>) -> Result<Vec<f64>, LoadError> {
        let mut pps = Vec::with_capacity(streams.len());
        for stream in streams {
            pps.push(stream.pps(link_bps)?);
        }
        let scaled = || streams.iter().zip(&pps).filter(|(stream, _)| stream.scaled);
        let total: f64 = scaled().map(|(_, pps)| pps).sum();
        let factor = match self {
            Self::Times(factor) => factor,
            Self::Rate(_) if total <= 0.0 => return Err(LoadError::NothingScales),
            Self::Rate(rate) => {
                let bytes: f64 = scaled()
                    .map(|(stream, pps)| pps * stream.frames.mean_size())
                    .sum();
                rate.pps(bytes / total, link_bps)? / total
            }
        };
        for (stream, pps) in streams.iter().zip(&mut pps) {
            if stream.scaled {
                *pps *= factor;
            }
        }
        Ok(pps)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::frame::{Frames, Template};

    fn load(text: &str) -> Load {
        text.parse().unwrap()
    }

    #[test]
    fn loads_are_read_as_trex_reads_them() {
        assert_eq!(load("2"), Load::Times(2.0));
        assert_eq!(load("30%"), Load::Rate(Rate::LinePercent(30.0)));
        assert_eq!(load("5mpps"), Load::Rate(Rate::Pps(5e6)));
        assert_eq!(load("1.5Kpps"), Load::Rate(Rate::Pps(1500.0)));
        assert_eq!(load("10Gbps"), Load::Rate(Rate::L2Bps(10e9)));
        assert_eq!(load("10gbpsl1"), Load::Rate(Rate::L1Bps(10e9)));
        for text in [
            "",
            "fast",
            "5 parsecs",
            "-1mpps",
            "mpps",
            "1.2.3",
            "5m",
            "3k%",
            "1e400pps",
            "é",
        ] {
            assert!(text.parse::<Load>().is_err(), "{text:?}");
        }
        assert!(matches!(
            "0pps".parse::<Load>(),
            Err(LoadError::Zero { .. })
        ));
    }

    #[test]
    fn streams_keep_their_shares_and_latency_streams_their_rates() {
        let stream = |size: usize, pps| Stream {
            rate: Rate::Pps(pps),
            ..Stream::new("s", Frames::constant(Template::raw(vec![0; size - 4])))
        };
        let latency = Stream {
            scaled: false,
            ..stream(64, 1000.0)
        };
        let mut streams = [stream(64, 1.0), stream(128, 3.0), latency];
        let total = load("4kpps").apply(&mut streams, None).unwrap();
        let rates = streams.each_ref().map(|stream| stream.rate);
        assert_eq!(rates, [1000.0, 3000.0, 1000.0].map(Rate::Pps));
        assert_eq!(total, 5000.0);

        // 1 x 64 and 3 x 128 bytes are 448 bytes a round, 528 with what the wire adds.
        let total = load("50%")
            .apply(&mut streams[..2], Some(528 * 8 * 200))
            .unwrap();
        assert!((total - 400.0).abs() < 1e-9, "{total}");
        assert_eq!(
            load("1%").apply(&mut streams[2..], Some(1)),
            Err(LoadError::NothingScales)
        );
        assert!(load("1%").apply(&mut streams, None).is_err());
    }
}
