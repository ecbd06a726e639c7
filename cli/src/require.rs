//! Criteria that turn a run into a test: `loss=0`, `p99<50us`, `rx_pps>=1mpps`.

use std::fmt;

use crate::error::Error;
use crate::suggest;
use crate::units;

/// What a criterion looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Frames lost, or per cent of those sent.
    Loss,
    /// Frames received more than once.
    Duplicated,
    /// Frames received after a later one.
    Reordered,
    /// Frames not sent in time, or per cent of those asked for.
    Shortfall,
    /// Frames a second, of all ports.
    TxPps,
    /// Frames a second, of all ports.
    RxPps,
    /// Latency, in nanoseconds.
    Latency(Statistic),
}

/// Which latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistic {
    /// The least.
    Min,
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// 99 % are less.
    P99,
    /// 99.9 % are less.
    P999,
    /// The most.
    Max,
    /// The mean change from one frame to the next.
    Jitter,
}

const METRICS: &[(&str, Metric)] = &[
    ("loss", Metric::Loss),
    ("duplicated", Metric::Duplicated),
    ("reordered", Metric::Reordered),
    ("shortfall", Metric::Shortfall),
    ("tx_pps", Metric::TxPps),
    ("rx_pps", Metric::RxPps),
    ("min", Metric::Latency(Statistic::Min)),
    ("mean", Metric::Latency(Statistic::Mean)),
    ("p50", Metric::Latency(Statistic::P50)),
    ("p99", Metric::Latency(Statistic::P99)),
    ("p999", Metric::Latency(Statistic::P999)),
    ("max", Metric::Latency(Statistic::Max)),
    ("jitter", Metric::Latency(Statistic::Jitter)),
];

/// How the measured value must stand to the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// `=`
    Equal,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// The first sign of a relation is how it is written.
const RELATIONS: &[(&str, Relation)] = &[
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("=", Relation::Equal),
    ("==", Relation::Equal),
    ("<", Relation::Below),
    (">", Relation::Above),
];

impl Relation {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            // Counts and rates of 0 are exact; nothing else is sensibly compared for equality.
            Self::Equal => (value - limit).abs() < 1e-9,
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
        }
    }
}

/// The limit, in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// Frames, frames a second, or nanoseconds.
    Absolute(f64),
    /// Per cent of what was sent or asked for.
    Percent(f64),
}

/// One criterion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Criterion {
    text: String,
    metric: Metric,
    relation: Relation,
    limit: Limit,
}

/// What a run came to, as far as criteria look at it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Frames asked for by the schedule.
    pub(crate) asked: u64,
    /// Frames sent.
    pub(crate) sent: u64,
    /// Frames lost, where that can be known.
    pub(crate) lost: Option<u64>,
    /// Frames received beyond those sent.
    pub(crate) surplus: u64,
    /// Frames received more than once, if a stream is measured.
    pub(crate) duplicated: Option<u64>,
    /// Frames received after a later one, if a stream is measured.
    pub(crate) reordered: Option<u64>,
    /// Frames not sent in time.
    pub(crate) shortfall: u64,
    /// Frames a second sent, of all ports.
    pub(crate) tx_pps: f64,
    /// Frames a second received, of all ports.
    pub(crate) rx_pps: f64,
    /// The worst stream's latency, if one was measured.
    pub(crate) latency: Option<Latency>,
}

/// Latency in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Latency {
    /// The least.
    pub(crate) min: f64,
    /// The mean.
    pub(crate) mean: f64,
    /// The median.
    pub(crate) p50: f64,
    /// 99 % are less.
    pub(crate) p99: f64,
    /// 99.9 % are less.
    pub(crate) p999: f64,
    /// The most.
    pub(crate) max: f64,
    /// The mean change from one frame to the next.
    pub(crate) jitter: f64,
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Criterion {
    /// Reads `metric relation limit`.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let bad = |found: String, cure: String| Error::Usage {
            found: format!("criterion `{text}`: {found}"),
            cure,
        };
        let examples = "write loss=0, loss<=0.1%, p99<50us or rx_pps>=1mpps".to_owned();
        let at = text.find(['<', '>', '=']);
        let Some(at) = at else {
            return Err(bad("there is no =, < or > in it".to_owned(), examples));
        };
        let (name, rest) = text.split_at(at);
        // The longest sign that fits: `<=` is not `<`.
        let (sign, relation) = RELATIONS
            .iter()
            .filter(|(sign, _)| rest.starts_with(sign))
            .max_by_key(|(sign, _)| sign.len())
            .ok_or_else(|| bad("there is no =, < or > in it".to_owned(), examples))?;
        Self::new(name.trim(), *relation, rest[sign.len()..].trim())
    }

    /// A criterion in parts, as a profile's `[require]` has it.
    pub(crate) fn new(name: &str, relation: Relation, limit: &str) -> Result<Self, Error> {
        let sign = RELATIONS
            .iter()
            .find(|(_, candidate)| *candidate == relation)
            .map_or("=", |(sign, _)| *sign);
        let text = format!("{name}{sign}{limit}");
        let bad = |found: String, cure: String| Error::Usage {
            found: format!("criterion `{text}`: {found}"),
            cure,
        };
        let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
        let metric = METRICS
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, metric)| *metric)
            .ok_or_else(|| {
                let near = suggest::did_you_mean(name, &names);
                let cure = format!("{near}there are {}", names.join(", "));
                bad(format!("nothing is called `{name}`"), cure)
            })?;
        let limit = parse_limit(metric, limit).map_err(|(found, cure)| bad(found, cure))?;
        Ok(Self {
            text,
            metric,
            relation,
            limit,
        })
    }

    /// What was found instead, if the criterion is not met.
    pub(crate) fn violation(&self, measured: &Measured) -> Option<String> {
        let (value, whole) = match self.value(measured) {
            Ok(value) => value,
            Err(why) => return Some(format!("{}: {why}", self.text)),
        };
        let (value, limit, unit) = match self.limit {
            Limit::Absolute(limit) => (value, limit, ""),
            Limit::Percent(limit) if whole > 0.0 => (value / whole * 100.0, limit, " %"),
            Limit::Percent(limit) => (0.0, limit, " %"),
        };
        if self.relation.holds(value, limit) {
            return None;
        }
        let found = match self.metric {
            Metric::Latency(_) => units::nanoseconds(value),
            Metric::TxPps | Metric::RxPps => units::pps(value),
            _ => format!("{value}{unit}"),
        };
        Some(format!("{}: it is {found}", self.text))
    }

    /// The value, and what 100 % of it would be; why there is none otherwise.
    fn value(&self, measured: &Measured) -> Result<(f64, f64), &'static str> {
        let (sent, asked) = (measured.sent as f64, measured.asked as f64);
        // Nothing that was not sent arrived as it should.
        let of_sent = |frames: Option<u64>| match frames {
            _ if measured.sent == 0 => Err("nothing was sent"),
            Some(frames) => Ok((frames as f64, sent)),
            None => Err("cannot be known: no stream is measured"),
        };
        Ok(match self.metric {
            Metric::Loss if measured.lost.is_none() && measured.surplus > 0 => {
                return Err(
                    "cannot be known: more was received than sent, and not all streams \
                            are measured",
                );
            }
            Metric::Loss => of_sent(measured.lost)?,
            Metric::Duplicated => of_sent(measured.duplicated)?,
            Metric::Reordered => of_sent(measured.reordered)?,
            Metric::Shortfall => (measured.shortfall as f64, asked),
            Metric::TxPps => (measured.tx_pps, 0.0),
            Metric::RxPps => (measured.rx_pps, 0.0),
            Metric::Latency(statistic) => {
                let latency = measured.latency.as_ref();
                (
                    statistic.of(latency.ok_or("no stream measures latency")?),
                    0.0,
                )
            }
        })
    }
}

impl Statistic {
    fn of(self, latency: &Latency) -> f64 {
        match self {
            Self::Min => latency.min,
            Self::Mean => latency.mean,
            Self::P50 => latency.p50,
            Self::P99 => latency.p99,
            Self::P999 => latency.p999,
            Self::Max => latency.max,
            Self::Jitter => latency.jitter,
        }
    }
}

/// Reads the limit in the metric's unit; what is wrong and what would be right otherwise.
fn parse_limit(metric: Metric, text: &str) -> Result<Limit, (String, String)> {
    let quantity = |error: units::QuantityError| (error.to_string(), error.remedy());
    match metric {
        // Seconds are never meant where a unit was forgotten.
        Metric::Latency(_) if !text.ends_with(char::is_alphabetic) => Err((
            format!("`{text}` is a time without a unit"),
            "write 50us".to_owned(),
        )),
        Metric::Latency(_) => {
            let time = units::duration(text).map_err(quantity)?;
            Ok(Limit::Absolute(time.as_secs_f64() * 1e9))
        }
        Metric::TxPps | Metric::RxPps => match units::rate(text).map_err(quantity)? {
            units::Rate::Pps(pps) => Ok(Limit::Absolute(pps)),
            _ => Err((
                format!("`{text}` is not in frames a second"),
                "write 1mpps".to_owned(),
            )),
        },
        _ => {
            let (number, make): (&str, fn(f64) -> Limit) = match text.strip_suffix('%') {
                Some(number) => (number.trim_end(), Limit::Percent),
                None => (text, Limit::Absolute),
            };
            match number.parse::<f64>() {
                Ok(value) if value.is_finite() && value >= 0.0 => Ok(make(value)),
                _ => Err((
                    format!("`{text}` is neither a count nor per cent"),
                    "write 0, 10 or 0.1%".to_owned(),
                )),
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn violation(text: &str) -> Option<String> {
        let latency = Latency {
            p99: 60_000.0,
            ..Latency::default()
        };
        let measured = Measured {
            asked: 2000,
            sent: 1000,
            lost: Some(2),
            duplicated: Some(0),
            rx_pps: 1e6,
            latency: Some(latency),
            ..Measured::default()
        };
        Criterion::parse(text).unwrap().violation(&measured)
    }

    #[test]
    fn criteria_hold_or_say_what_was_found() {
        assert_eq!(violation("loss=0"), Some("loss=0: it is 2".to_owned()));
        assert_eq!(violation("loss<=2"), None);
        assert_eq!(violation("loss<2"), Some("loss<2: it is 2".to_owned()));
        assert_eq!(violation("loss<=0.2%"), None);
        assert_eq!(
            violation("loss<0.1%"),
            Some("loss<0.1%: it is 0.2 %".to_owned())
        );
        assert_eq!(
            violation("p99<50us"),
            Some("p99<50us: it is 60.0 µs".to_owned())
        );
        assert_eq!(violation("p99 < 61us"), None);
        assert_eq!(violation("rx_pps>=1mpps"), None);
        assert_eq!(
            violation("rx_pps>1mpps"),
            Some("rx_pps>1mpps: it is 1.000 Mpps".to_owned())
        );
        assert_eq!(violation("duplicated==0"), None);
    }

    #[test]
    fn latency_that_nobody_measured_is_not_met() {
        let criterion = Criterion::parse("p99<1s").unwrap();
        assert!(criterion.violation(&Measured::default()).is_some());
        let criterion = Criterion::parse("loss=0").unwrap();
        assert!(criterion.violation(&Measured::default()).is_some());
    }

    #[test]
    fn what_no_stream_measures_is_not_met() {
        let sent = Measured {
            sent: 10,
            ..Measured::default()
        };
        let found = |text: &str, measured: &Measured| {
            Criterion::parse(text).unwrap().violation(measured).unwrap()
        };
        for metric in ["loss", "duplicated", "reordered"] {
            let text = format!("{metric}=0");
            let why = "cannot be known: no stream is measured";
            assert_eq!(found(&text, &sent), format!("{text}: {why}"));
            let silent = Measured {
                lost: Some(0),
                duplicated: Some(0),
                reordered: Some(0),
                ..Measured::default()
            };
            assert_eq!(found(&text, &silent), format!("{text}: nothing was sent"));
        }
        let crowded = Measured { surplus: 1, ..sent };
        assert!(found("loss=0", &crowded).contains("more was received than sent"));
    }

    #[test]
    fn what_is_no_criterion_is_refused_with_a_cure() {
        for (text, cure) in [
            ("loss", "write loss=0"),
            ("los=0", "did you mean `loss`?"),
            ("p99<50", "write 50us"),
            ("loss<x", "write 0, 10"),
            ("loss<-1", "write 0, 10"),
            ("rx_pps>30%", "write 1mpps"),
            ("p99<5 lightyears", "write a number with ns"),
        ] {
            let error = Criterion::parse(text).unwrap_err();
            assert!(error.cure().unwrap().contains(cure), "{text}: {error:?}");
        }
    }
}
