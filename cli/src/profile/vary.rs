//! What `vary` says: which values a field takes from frame to frame.
//!
//! ```text
//! 16.0.0.0/24 each             every address, one after the other, and again
//! 1024..65535 random           any of these
//! 0..100 step 10 dec           100, 90, … 0, and again
//! 53, 80, 443 each             these, one after the other
//! ```

use engine::field::{Order, Program, Values, Var, Write};
use engine::frame::{FieldAt, FieldKind, Template, ValueError};

/// What is wrong with a field's values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum VaryError {
    /// The last word is no order.
    #[error("`{word}` is no order: each (or inc), dec and random are")]
    Order {
        /// The word.
        word: String,
    },
    /// A value is none.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// From a larger to a smaller one.
    #[error("{first} is more than {last}")]
    Backwards {
        /// The first.
        first: String,
        /// The last.
        last: String,
    },
    /// Not an address with a prefix length.
    #[error("`/{length}` is no prefix length here")]
    Prefix {
        /// What follows the slash.
        length: String,
    },
    /// A step that is none.
    #[error("`{text}` is no step: a whole number from 1 on is")]
    Step {
        /// What it says.
        text: String,
    },
    /// A step of random values or of a list.
    #[error("a step goes with each, inc and dec of a range only")]
    StrayStep,
    /// Values that differ in more than 64 bits.
    #[error("the values may differ in the lower 64 bits only")]
    TooWide,
    /// Nothing.
    #[error("there are no values here")]
    Empty,
}

/// Adds to `program` what makes the field called `name`, at `field`, take the values of `text`.
/// Of a field wider than 64 bits only the lower 64 vary.
pub(super) fn add(
    program: &mut Program,
    template: &mut Template,
    name: &str,
    field: &FieldAt,
    text: &str,
) -> Result<(), VaryError> {
    let spoken = Spoken::parse(text)?;
    let values = spoken.values(field)?;
    if field.bits > 64 {
        // The upper half stays as it is from here on.
        template.set(field, spoken.first(field)?);
    }
    program.vars.push(Var {
        name: name.to_owned(),
        width: var_width(field.bits),
        values,
        next: None,
    });
    program.writes.push(Write::field(name, field));
    Ok(())
}

/// The words of a `vary` value.
#[derive(Debug, PartialEq, Eq)]
struct Spoken<'a> {
    values: &'a str,
    step: Option<u64>,
    order: SpokenOrder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpokenOrder {
    Inc,
    Dec,
    Random,
}

impl<'a> Spoken<'a> {
    fn parse(text: &'a str) -> Result<Self, VaryError> {
        let text = text.trim();
        let (rest, last) = last_word(text);
        let (values, order) = match last {
            "each" | "inc" => (rest, SpokenOrder::Inc),
            "dec" => (rest, SpokenOrder::Dec),
            "random" => (rest, SpokenOrder::Random),
            word if word.starts_with(|c: char| c.is_ascii_alphabetic()) && !rest.is_empty() => {
                let word = word.to_owned();
                return Err(VaryError::Order { word });
            }
            _ => (text, SpokenOrder::Inc),
        };
        let (before, amount) = last_word(values);
        let (range, keyword) = last_word(before);
        let (values, step) = if keyword == "step" {
            (range, Some(parse_step(amount)?))
        } else {
            (values, None)
        };
        if values.is_empty() {
            return Err(VaryError::Empty);
        }
        Ok(Self {
            values,
            step,
            order,
        })
    }

    fn values(&self, field: &FieldAt) -> Result<Values, VaryError> {
        let range = match self.values.split_once("..") {
            Some((first, last)) => {
                let last = last.strip_prefix('=').unwrap_or(last);
                Some((field.parse(first)?, field.parse(last)?))
            }
            None => prefix(self.values, field)?,
        };
        match range {
            Some((first, last)) => self.of_range(first, last),
            None => self.of_list(field),
        }
    }

    /// The first value as it is written; of a network, its address.
    fn first(&self, field: &FieldAt) -> Result<u128, VaryError> {
        let first = self.values.split("..").next().unwrap_or_default();
        let first = first.split(['/', ',']).next().unwrap_or_default();
        Ok(field.parse(first)?)
    }

    fn of_range(&self, first: u128, last: u128) -> Result<Values, VaryError> {
        if first > last {
            return Err(VaryError::Backwards {
                first: first.to_string(),
                last: last.to_string(),
            });
        }
        let (min, max) = (low_half(first, last)?, low_half(last, first)?);
        let order = match self.order {
            SpokenOrder::Random if self.step.is_some() => return Err(VaryError::StrayStep),
            SpokenOrder::Random => return Ok(Values::Random { min, max }),
            SpokenOrder::Inc => Order::Inc,
            SpokenOrder::Dec => Order::Dec,
        };
        Ok(Values::Step {
            order,
            min,
            max,
            init: None,
            step: self.step.unwrap_or(1),
        })
    }

    fn of_list(&self, field: &FieldAt) -> Result<Values, VaryError> {
        if self.step.is_some() {
            return Err(VaryError::StrayStep);
        }
        let wide = self
            .values
            .split(',')
            .map(|value| field.parse(value))
            .collect::<Result<Vec<u128>, _>>()?;
        let values = wide
            .iter()
            .map(|&value| low_half(value, wide[0]))
            .collect::<Result<Vec<u64>, _>>()?;
        let order = match self.order {
            SpokenOrder::Random => return Ok(Values::RandomOf(values)),
            SpokenOrder::Inc => Order::Inc,
            SpokenOrder::Dec => Order::Dec,
        };
        Ok(Values::List {
            values,
            order,
            step: 1,
        })
    }
}

fn last_word(text: &str) -> (&str, &str) {
    let text = text.trim_end();
    match text.rsplit_once(char::is_whitespace) {
        Some((rest, word)) => (rest.trim_end(), word),
        None => ("", text),
    }
}

fn parse_step(text: &str) -> Result<u64, VaryError> {
    text.parse()
        .ok()
        .filter(|step| *step > 0)
        .ok_or_else(|| VaryError::Step {
            text: text.to_owned(),
        })
}

/// First and last address of `16.0.0.0/24`; none if it is not written so.
fn prefix(text: &str, field: &FieldAt) -> Result<Option<(u128, u128)>, VaryError> {
    let Some((address, length)) = text.split_once('/') else {
        return Ok(None);
    };
    let is_address = matches!(field.kind, FieldKind::Ipv4 | FieldKind::Ipv6);
    let free = length
        .parse::<usize>()
        .ok()
        .filter(|_| is_address)
        .and_then(|length| field.bits.checked_sub(length))
        .ok_or_else(|| VaryError::Prefix {
            length: length.to_owned(),
        })?;
    let hosts = if free == 128 {
        u128::MAX
    } else {
        (1 << free) - 1
    };
    let first = field.parse(address)? & !hosts;
    Ok(Some((first, first | hosts)))
}

/// The lower 64 bits of `value`, whose upper ones must be those of `other`.
fn low_half(value: u128, other: u128) -> Result<u64, VaryError> {
    if value >> 64 != other >> 64 {
        return Err(VaryError::TooWide);
    }
    u64::try_from(value & u128::from(u64::MAX)).map_err(|_| VaryError::TooWide)
}

/// The least width of a variable that holds so many bits.
fn var_width(bits: usize) -> usize {
    match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const IPV4: FieldAt = FieldAt {
        bit: 208,
        bits: 32,
        kind: FieldKind::Ipv4,
    };
    const PORT: FieldAt = FieldAt {
        bit: 272,
        bits: 16,
        kind: FieldKind::Number,
    };
    fn values(field: &FieldAt, text: &str) -> Result<Values, VaryError> {
        Spoken::parse(text)?.values(field)
    }

    fn range(order: Order, min: u64, max: u64, step: u64) -> Values {
        Values::Step {
            order,
            min,
            max,
            init: None,
            step,
        }
    }

    #[test]
    fn ranges_prefixes_and_lists_are_read() {
        let (inc, dec) = (Order::Inc, Order::Dec);
        assert_eq!(
            values(&IPV4, "16.0.0.0/24 each"),
            Ok(range(inc, 0x1000_0000, 0x1000_00ff, 1))
        );
        assert_eq!(
            values(&IPV4, "16.0.0.77/24"),
            Ok(range(inc, 0x1000_0000, 0x1000_00ff, 1)),
            "the whole network, each without saying so"
        );
        assert_eq!(
            values(&PORT, "1024..65535 random"),
            Ok(Values::Random {
                min: 1024,
                max: 65535
            })
        );
        assert_eq!(
            values(&PORT, "0..100 step 10 dec"),
            Ok(range(dec, 0, 100, 10))
        );
        assert_eq!(
            values(&IPV4, "10.0.0.1..10.0.0.9 inc"),
            Ok(range(inc, 0x0a00_0001, 0x0a00_0009, 1))
        );
        let list = vec![53, 80, 443];
        assert_eq!(
            values(&PORT, "53, 80,443 random"),
            Ok(Values::RandomOf(list))
        );
    }

    #[test]
    fn what_is_no_set_of_values_says_why() {
        let why = |field, text| values(field, text).unwrap_err().to_string();
        assert!(why(&PORT, "1..10 up").contains("`up` is no order"));
        assert!(why(&PORT, "10..1 each").contains("10 is more than 1"));
        assert!(why(&PORT, "1..70000 each").contains("70000"));
        assert!(why(&IPV4, "16.0.0.0/33 each").contains("`/33`"));
        assert!(why(&PORT, "16/4 each").contains("`/4`"));
        assert!(why(&PORT, "1..10 step 0 each").contains("`0` is no step"));
        assert!(why(&PORT, "1..10 step 2 random").contains("step"));
        assert!(why(&PORT, "each").contains("no values"));
        assert!(why(&PORT, "").contains("no values"));
    }

    #[test]
    fn addresses_of_128_bits_vary_in_their_lower_half() {
        let field = FieldAt {
            bit: 64,
            bits: 128,
            kind: FieldKind::Ipv6,
        };
        let mut program = Program::default();
        let mut template = Template::raw(vec![0xff; 60]);
        let from = "2001:db8::/112 each";
        add(&mut program, &mut template, "ipv6.src", &field, from).unwrap();
        assert_eq!(
            template.get(&field) >> 64,
            0x2001_0db8_0000_0000,
            "the upper half"
        );
        assert_eq!((program.writes[0].offset, program.writes[0].width), (16, 8));
        assert_eq!(program.vars[0].values, range(Order::Inc, 0, 0xffff, 1));
        assert_eq!(values(&field, "fd00::/48 each"), Err(VaryError::TooWide));
    }
}
