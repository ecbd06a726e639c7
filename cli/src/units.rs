//! Quantities with units, as people type them: rates, durations, sizes.
//!
//! Decimal prefixes, as everywhere on a network: `1k` is 1000. Letters may be of either case,
//! because TRex users type `10mpps` and everyone else `10Mpps`; nothing here is ever a milli.

use std::time::Duration;

use engine::load::Load;
use engine::stream;

/// What is wrong with a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}: {why}")]
pub(crate) struct QuantityError {
    /// What was typed.
    text: String,
    /// What it should have been: `a rate`.
    wanted: &'static str,
    /// What is wrong with it.
    why: String,
    /// Forms that are right.
    forms: &'static str,
}

impl QuantityError {
    fn new(text: &str, wanted: &'static str, why: impl Into<String>, forms: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            wanted,
            why: why.into(),
            forms,
        }
    }

    /// Forms that are right, for the cure.
    pub(crate) fn remedy(&self) -> String {
        format!("write {}", self.forms)
    }
}

/// A sending rate of one port or stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    /// Frames a second.
    Pps(f64),
    /// Bits a second of frames with FCS.
    BpsL2(f64),
    /// Bits a second on the wire: frames plus 20 bytes of preamble and gap each.
    BpsL1(f64),
    /// Per cent of the line.
    Percent(f64),
    /// As fast as the port takes frames.
    Max,
}

impl Rate {
    /// As the engine has it, for one stream; none for [`Rate::Max`], which is a port's.
    pub(crate) fn of_stream(self) -> Option<stream::Rate> {
        match self {
            Self::Pps(pps) => Some(stream::Rate::Pps(pps)),
            Self::BpsL2(bps) => Some(stream::Rate::L2Bps(bps)),
            Self::BpsL1(bps) => Some(stream::Rate::L1Bps(bps)),
            Self::Percent(share) => Some(stream::Rate::LinePercent(share)),
            Self::Max => None,
        }
    }
}

/// TRex's `-m`: a factor on what the profile says, or a rate to scale the profile to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Multiplier {
    /// Every stream's rate times this.
    Factor(f64),
    /// The port's streams scaled by one factor, so that together they make this rate.
    Rate(Rate),
}

impl Multiplier {
    /// As the engine has it; none for `max`.
    pub(crate) fn load(self) -> Option<Load> {
        match self {
            Self::Factor(factor) => Some(Load::Times(factor)),
            Self::Rate(rate) => rate.of_stream().map(Load::Rate),
        }
    }
}

const RATE_FORMS: &str = "a number with k, m or g and pps, bps or bpsl1 (`5mpps`, `10gbps`, \
                          `10gbpsl1`), per cent (`30%`), or `max`";
const MULTIPLIER_FORMS: &str = "a factor (`10`), a number with k, m or g and pps, bps or bpsl1 \
                                (`5mpps`, `10gbps`, `10gbpsl1`), per cent (`30%`), or `max`";
const DURATION_FORMS: &str = "a number with ns, us, ms, s, m or h: `10s`, `500ms`, `3m`";
const SHARE_FORMS: &str = "per cent or a fraction of 1: `0.5%`, `0.005`";
const SIZE_FORMS: &str = "bytes with FCS: `64B`, `1518`";

/// Reads a rate: `5mpps`, `14.88Mpps`, `30%`, `10gbps`, `10gbpsl1`, `max`.
pub(crate) fn rate(text: &str) -> Result<Rate, QuantityError> {
    match multiplier(text) {
        Ok(Multiplier::Rate(rate)) => Ok(rate),
        Ok(Multiplier::Factor(_)) => Err(QuantityError::new(
            text,
            "a rate",
            "it has no unit",
            RATE_FORMS,
        )),
        Err(error) => Err(QuantityError {
            wanted: "a rate",
            forms: RATE_FORMS,
            ..error
        }),
    }
}

/// Reads TRex's multiplier.
pub(crate) fn multiplier(text: &str) -> Result<Multiplier, QuantityError> {
    let wanted = "a multiplier";
    let bad = |why: String| QuantityError::new(text, wanted, why, MULTIPLIER_FORMS);
    let lower = text.trim().to_ascii_lowercase();
    if lower == "max" {
        return Ok(Multiplier::Rate(Rate::Max));
    }
    let (value, unit) = number(&lower).map_err(bad)?;
    if value <= 0.0 {
        return Err(bad("it must be more than 0".to_owned()));
    }
    if unit.is_empty() {
        return Ok(Multiplier::Factor(value));
    }
    if unit == "%" {
        return Ok(Multiplier::Rate(Rate::Percent(value)));
    }
    let (scale, unit) = prefix(unit);
    let value = value * scale;
    let rate = match unit {
        "pps" => Rate::Pps(value),
        "bps" | "bpsl2" | "bps-l2" => Rate::BpsL2(value),
        "bpsl1" | "bps-l1" => Rate::BpsL1(value),
        "" => return Err(bad("pps or bps is missing".to_owned())),
        _ => return Err(bad(format!("`{unit}` is no unit of rate"))),
    };
    Ok(Multiplier::Rate(rate))
}

/// The longest time that can be asked for.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Reads a duration: `10s`, `500ms`, `3m`, `1h`; a bare number is seconds, as in TRex.
pub(crate) fn duration(text: &str) -> Result<Duration, QuantityError> {
    let bad = |why: String| QuantityError::new(text, "a duration", why, DURATION_FORMS);
    let lower = text.trim().to_ascii_lowercase();
    let (value, unit) = number(&lower).map_err(bad)?;
    let seconds = match unit {
        "ns" => value * 1e-9,
        "us" | "µs" => value * 1e-6,
        "ms" => value * 1e-3,
        "" | "s" | "sec" => value,
        "m" | "min" => value * 60.0,
        "h" => value * 3600.0,
        _ => return Err(bad(format!("`{unit}` is no unit of time"))),
    };
    // Sums and products of times go on from here: none of a century overflows.
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration <= CENTURY => Ok(duration),
        _ => Err(bad("that is too long".to_owned())),
    }
}

/// Reads a share: `0.5%`, or `0.005`.
pub(crate) fn share(text: &str) -> Result<f64, QuantityError> {
    let bad = |why: String| QuantityError::new(text, "a share", why, SHARE_FORMS);
    let share = match number(text.trim()).map_err(bad)? {
        (percent, "%") => percent / 100.0,
        (share, "") => share,
        (_, unit) => return Err(bad(format!("`{unit}` is no unit of a share"))),
    };
    if share < 1.0 {
        Ok(share)
    } else {
        Err(bad("it must be less than all".to_owned()))
    }
}

/// A size as a profile's knob has it, for people: `64 B`, `imix`.
pub(crate) fn size_name(size: &str) -> String {
    match size.parse::<usize>() {
        Ok(bytes) => format!("{bytes} B"),
        Err(_) => size.to_owned(),
    }
}

/// Reads a frame size in bytes with FCS: `64B`, `1518`.
pub(crate) fn frame_size(text: &str) -> Result<usize, QuantityError> {
    let bad = |why: &str| QuantityError::new(text, "a frame size", why, SIZE_FORMS);
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.strip_suffix('b').unwrap_or(&lower).trim_end();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad("only whole bytes count"));
    }
    digits.parse().map_err(|_| bad("that is too long"))
}

/// A number, not negative and finite, and what follows it.
fn number(text: &str) -> Result<(f64, &str), String> {
    let end = text
        .find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if text.starts_with('-') {
        return Err("it is negative".to_owned());
    }
    let value = digits
        .parse::<f64>()
        .map_err(|_| "it does not begin with a number".to_owned())?;
    if !value.is_finite() {
        return Err("that is too much".to_owned());
    }
    Ok((value, unit.trim_start()))
}

/// Takes k, m or g off the front of a unit.
fn prefix(unit: &str) -> (f64, &str) {
    for (letter, scale) in [('k', 1e3), ('m', 1e6), ('g', 1e9), ('t', 1e12)] {
        if let Some(rest) = unit.strip_prefix(letter) {
            return (scale, rest);
        }
    }
    (1.0, unit)
}

/// A count in groups of three: `10 000 000`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A value with a decimal prefix and three digits after the point: `1.488 M`.
pub(crate) fn scaled(value: f64) -> String {
    let (scale, letter) = match value.abs() {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    format!("{:.3} {letter}", value / scale)
}

/// A rate in frames: `1.488 Mpps`.
pub(crate) fn pps(value: f64) -> String {
    format!("{}pps", scaled(value))
}

/// A rate in bits: `10.000 Gbps`.
pub(crate) fn bps(value: f64) -> String {
    format!("{}bps", scaled(value))
}

/// A time in the unit that keeps it readable: `3.1 µs`.
pub(crate) fn nanoseconds(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} s", v / 1e9),
        v if v >= 1e6 => format!("{:.1} ms", v / 1e6),
        v if v >= 1e3 => format!("{:.1} µs", v / 1e3),
        v => format!("{v:.0} ns"),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn trex_multipliers_are_read_as_trex_reads_them() {
        let pps = |value| Ok(Multiplier::Rate(Rate::Pps(value)));
        assert_eq!(multiplier("10"), Ok(Multiplier::Factor(10.0)));
        assert_eq!(multiplier("0.5"), Ok(Multiplier::Factor(0.5)));
        assert_eq!(multiplier("10mpps"), pps(1e7));
        assert_eq!(multiplier("14.88Mpps"), pps(14.88e6));
        assert_eq!(multiplier("1000pps"), pps(1e3));
        assert_eq!(multiplier("5 kpps"), pps(5e3));
        assert_eq!(multiplier("30%"), Ok(Multiplier::Rate(Rate::Percent(30.0))));
        assert_eq!(
            multiplier("10gbps"),
            Ok(Multiplier::Rate(Rate::BpsL2(1e10)))
        );
        assert_eq!(
            multiplier("10Gbpsl1"),
            Ok(Multiplier::Rate(Rate::BpsL1(1e10)))
        );
        assert_eq!(
            multiplier("10Gbps-L1"),
            Ok(Multiplier::Rate(Rate::BpsL1(1e10)))
        );
        assert_eq!(multiplier("max"), Ok(Multiplier::Rate(Rate::Max)));
    }

    #[test]
    fn a_wrong_quantity_says_what_is_wrong_with_it() {
        let why = |text| multiplier(text).unwrap_err().to_string();
        assert_eq!(
            why("10mbs"),
            "`10mbs` is not a multiplier: `bs` is no unit of rate"
        );
        assert_eq!(why("5m"), "`5m` is not a multiplier: pps or bps is missing");
        assert_eq!(why("-5pps"), "`-5pps` is not a multiplier: it is negative");
        assert_eq!(
            why("fast"),
            "`fast` is not a multiplier: it does not begin with a number"
        );
        assert_eq!(
            why(""),
            "`` is not a multiplier: it does not begin with a number"
        );
        assert!(multiplier("1.2.3pps").is_err());
        assert!(why("0pps").contains("more than 0"));
        assert!(rate("10").unwrap_err().to_string().contains("no unit"));
        assert_eq!(
            rate("10mbs").unwrap_err().remedy(),
            format!("write {RATE_FORMS}")
        );
    }

    #[test]
    fn durations_carry_units_and_bare_numbers_are_seconds() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("3m"), Ok(Duration::from_secs(180)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("50µs"), Ok(Duration::from_micros(50)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert!(
            duration("10 parsecs")
                .unwrap_err()
                .to_string()
                .contains("`parsecs`")
        );
        assert!(duration("99999999999999999999s").is_err());
        assert!(duration("876000h").is_ok() && duration("876001h").is_err());
        assert!(duration("s").is_err());
    }

    #[test]
    fn shares_are_per_cent_or_fractions_and_never_all() {
        assert_eq!(share("0.5%"), Ok(0.005));
        assert_eq!(share("0.005"), Ok(0.005));
        assert_eq!(share("0"), Ok(0.0));
        for bad in ["100%", "1", "-1%", "5 parsecs", "%", ""] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_whole_bytes() {
        assert_eq!(frame_size("64B"), Ok(64));
        assert_eq!(frame_size("1518"), Ok(1518));
        for bad in ["", "B", "64.5", "64k", "-64", "+64", "99999999999999999999"] {
            assert!(frame_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1 000");
        assert_eq!(grouped(10_000_000), "10 000 000");
        assert_eq!(scaled(1_488_095.0), "1.488 M");
        assert_eq!(scaled(12.0), "12.000 ");
        assert_eq!(nanoseconds(3100.0), "3.1 µs");
        assert_eq!(nanoseconds(52.4), "52 ns");
        assert_eq!(nanoseconds(2.5e9), "2.50 s");
    }
}
