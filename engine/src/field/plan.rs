//! From a program to what is done for each frame: names resolved, ranges checked.

use std::ops::Range;

use super::check::{check_vars, unknown};
use super::error::FieldError;
use super::program::{Fix, Order, Program, Values, Var, Write};
use super::rng::Rng;
use super::source::{Chain, Dice, Digit, Map, Source};
use super::sums::sums;
use super::writer::Share;
use crate::frame::Template;
use crate::frame::checksum::Covered;
use crate::similar::similar;

/// What is done for each frame of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) sources: Vec<Source>,
    /// How many values a frame has.
    pub(super) slots: usize,
    pub(super) puts: Vec<Put>,
    /// The slot that is the frame's length.
    pub(super) size: Option<usize>,
    pub(super) sums: Vec<Sum>,
}

/// One write, ready: what is added is as wide as the variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) slot: usize,
    pub(super) offset: usize,
    pub(super) width: usize,
    pub(super) add: u64,
    /// The bits of the variable that there are.
    pub(super) held: u64,
    pub(super) little_endian: bool,
    pub(super) mask: u64,
    pub(super) shift: i8,
}

impl Put {
    /// Whether all bits of its bytes are written.
    pub(super) fn is_whole(&self) -> bool {
        self.shift == 0 && self.mask == bits_of(self.width)
    }

    /// The variable's value as it stands in the frame.
    #[inline]
    pub(super) fn shape(&self, value: u64) -> u64 {
        let value = value.wrapping_add(self.add) & self.held;
        let by = u32::from(self.shift.unsigned_abs());
        let shifted = if self.shift < 0 {
            value.checked_shr(by)
        } else {
            value.checked_shl(by)
        };
        shifted.unwrap_or(0) & self.mask
    }
}

/// A checksum, ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sum {
    /// From the sum of what stays and the words that vary.
    Incremental {
        /// The sum of what stays.
        base: u64,
        /// First bytes of the 16-bit words that vary.
        words: Box<[usize]>,
        /// Where the checksum goes.
        checksum: usize,
        /// Whether 0 is sent as 0xffff.
        never_zero: bool,
    },
    /// From all that it covers.
    Full(Fix),
}

/// All the bits of `width` bytes.
pub(super) const fn bits_of(width: usize) -> u64 {
    if width >= 8 {
        u64::MAX
    } else {
        (1 << (width * 8)) - 1
    }
}

/// Compiles `program` over `template`, for the part `share`.
pub(super) fn plan(
    program: &Program,
    template: &Template,
    seed: u64,
    variant: usize,
    share: Share,
) -> Result<Plan, FieldError> {
    check_vars(program)?;
    let part = if program.split { share } else { Share::ALL };
    let mut slots = Slots::default();
    let mut sources = Vec::new();
    for (index, var) in program.vars.iter().enumerate() {
        if program
            .vars
            .iter()
            .any(|other| other.next.as_deref() == Some(&var.name))
        {
            continue;
        }
        sources.push(match &var.values {
            Values::Random { .. } | Values::RandomOf(_) => {
                let rng = Rng::of(seed, &[variant, index, share.index]);
                Source::Dice(dice(var, rng, &mut slots))
            }
            _ => Source::Chain(chain(program, var, seed, variant, part, &mut slots)?),
        });
    }
    if let Some(lost) = program.vars.iter().find(|var| !slots.has(var)) {
        return Err(FieldError::Loop {
            var: lost.name.clone(),
        });
    }

    let least = shortest(program, template)?;
    let puts: Result<Vec<_>, _> = program
        .writes
        .iter()
        .map(|write| slots.put(write, least))
        .collect();
    let puts = puts?;
    let size = program
        .size
        .as_ref()
        .map(|name| slots.find(name))
        .transpose()?
        .map(|held| held.0);
    let sums = sums(program, template, &puts, least)?;
    let used = |slot| size == Some(slot) || puts.iter().any(|put| put.slot == slot);
    sources.retain(|source| match source {
        Source::Chain(chain) => chain.digits.iter().any(|digit| used(digit.slot)),
        Source::Dice(dice) => used(dice.slot),
    });
    Ok(Plan {
        sources,
        slots: slots.0.len(),
        puts,
        size,
        sums,
    })
}

/// The values of a frame by name, and how wide they are.
#[derive(Default)]
struct Slots(Vec<(String, usize)>);

impl Slots {
    fn add(&mut self, name: String, width: usize) -> usize {
        self.0.push((name, width));
        self.0.len() - 1
    }

    fn has(&self, var: &Var) -> bool {
        let first = match var.values {
            Values::Tuple { .. } => format!("{}.ip", var.name),
            _ => var.name.clone(),
        };
        self.0.iter().any(|(name, _)| *name == first)
    }

    /// The slot called `name`, and its width.
    fn find(&self, name: &str) -> Result<(usize, usize), FieldError> {
        let slot = self
            .0
            .iter()
            .position(|(slot, _)| slot == name)
            .ok_or_else(|| {
                let known = self.0.iter().map(|(slot, _)| slot.as_str());
                FieldError::NoVar {
                    name: name.into(),
                    similar: similar(name, known),
                }
            })?;
        Ok((slot, self.0[slot].1))
    }

    fn put(&self, write: &Write, len: usize) -> Result<Put, FieldError> {
        let (slot, var_width) = self.find(&write.var)?;
        let (var, offset, width) = (write.var.clone(), write.offset, write.width);
        if !(1..=8).contains(&width) {
            return Err(FieldError::WriteWidth { var, width });
        }
        if offset.checked_add(width).is_none_or(|end| end > len) {
            return Err(FieldError::Outside {
                var,
                offset,
                width,
                len,
            });
        }
        // A masked write adds and shifts in 32 bits, as TRex does, or in more if it is wider; a
        // plain one adds in the variable's own width.
        let held = match write.mask {
            Some(_) => bits_of(width.max(4)),
            None => bits_of(var_width.max(width)),
        };
        let mask = write.mask.map_or(u64::MAX, |mask| mask.mask) & bits_of(width);
        Ok(Put {
            slot,
            offset,
            width,
            add: write.add.cast_unsigned(),
            held,
            little_endian: write.little_endian,
            mask,
            shift: write.mask.map_or(0, |mask| mask.shift),
        })
    }
}

fn dice(var: &Var, rng: Rng, slots: &mut Slots) -> Dice {
    let slot = slots.add(var.name.clone(), var.width);
    let (range, map) = match &var.values {
        Values::RandomOf(values) => (values.len() as u64, Map::Table(values.as_slice().into())),
        values => {
            let (min, max) = values.range();
            (
                (max - min).wrapping_add(1),
                Map::Linear {
                    first: min,
                    step: 1,
                },
            )
        }
    };
    Dice {
        rng,
        start: rng,
        range,
        map,
        slot,
    }
}

/// The chain that begins with `head`.
fn chain(
    program: &Program,
    head: &Var,
    seed: u64,
    variant: usize,
    part: Share,
    slots: &mut Slots,
) -> Result<Chain, FieldError> {
    let mut digits = Vec::new();
    let mut limit = None;
    let mut link = Some(head);
    while let Some(var) = link {
        if let Values::Tuple {
            ip_min,
            ip_max,
            port_min,
            port_max,
            limit_flows,
        } = var.values
        {
            let mut digit = |part: &str, width, min: u64, max: u64| {
                let slot = slots.add(format!("{}.{part}", var.name), width);
                digits.push(Digit::new(
                    slot,
                    max - min,
                    0,
                    Map::Linear {
                        first: min,
                        step: 1,
                    },
                ));
            };
            digit("ip", 4, ip_min.into(), ip_max.into());
            digit("port", 2, port_min.into(), port_max.into());
            limit = (limit_flows > 0).then_some(limit_flows);
        } else {
            let index = program.vars.iter().position(|other| other.name == var.name);
            let rng = Rng::of(seed, &[variant, index.unwrap_or_default()]);
            let slot = slots.add(var.name.clone(), var.width);
            digits.push(digit(&var.values, rng, slot));
        }
        link = match &var.next {
            Some(next) => Some(program.var(next).ok_or_else(|| unknown(next, program))?),
            None => None,
        };
        if digits.len() > program.vars.len() * 2 {
            return Err(FieldError::Loop {
                var: head.name.clone(),
            });
        }
    }
    Ok(Chain::new(digits, limit, part.index as u64, part.of as u64))
}

/// A variable with an order, as places. (Others have none, and are not asked.)
fn digit(values: &Values, rng: Rng, slot: usize) -> Digit {
    match values {
        Values::Step {
            order,
            min,
            max,
            init,
            step,
        } => {
            let last = (max - min) / step;
            let (first, change, from) = match order {
                Order::Inc => (*min, *step, init.map_or(0, |init| init - min)),
                Order::Dec => (*max, step.wrapping_neg(), init.map_or(0, |init| max - init)),
            };
            Digit::new(
                slot,
                last,
                from / step,
                Map::Linear {
                    first,
                    step: change,
                },
            )
        }
        Values::RepeatableRandom {
            min,
            max,
            limit,
            seed,
        } => {
            let mut rng = seed.map_or(rng, Rng::new);
            let range = (max - min).wrapping_add(1);
            let drawn: Box<[u64]> = (0..*limit)
                .map(|_| min.wrapping_add(rng.below(range)))
                .collect();
            Digit::new(slot, u64::from(*limit) - 1, 0, Map::Table(drawn))
        }
        Values::List {
            values,
            order,
            step,
        } => {
            let mut values: Box<[u64]> = values.as_slice().into();
            if *order == Order::Dec {
                values.reverse();
            }
            let places = values.len() as u64;
            let digit = Digit::new(slot, places - 1, 0, Map::Table(values));
            // One value stays where it is, however far it goes.
            let stride = if places == 1 { 1 } else { step % places };
            Digit { stride, ..digit }
        }
        Values::Random { min, .. } => Digit::new(
            slot,
            0,
            0,
            Map::Linear {
                first: *min,
                step: 0,
            },
        ),
        Values::RandomOf(values) => Digit::new(slot, 0, 0, Map::Table(values.as_slice().into())),
        Values::Tuple { ip_min, .. } => Digit::new(
            slot,
            0,
            0,
            Map::Linear {
                first: (*ip_min).into(),
                step: 0,
            },
        ),
    }
}

/// The shortest frame that the program makes; an error if the longest is not in the template.
fn shortest(program: &Program, template: &Template) -> Result<usize, FieldError> {
    let most = template.bytes.len();
    let Some(name) = &program.size else {
        return Ok(most);
    };
    let var = program.var(name).ok_or_else(|| unknown(name, program))?;
    let (min, max) = var.values.range();
    match usize::try_from(max) {
        Ok(max) if max <= most => Ok(usize::try_from(min).unwrap_or(most)),
        _ => Err(FieldError::TooLong {
            var: name.clone(),
            len: max,
            most,
        }),
    }
}

impl Plan {
    /// The bytes that it writes in a frame like `template`.
    pub(super) fn touched(&self, template: &[u8]) -> Vec<Range<usize>> {
        self.places(template, |_| true)
    }

    /// Whether it writes all of these bytes into every frame, whatever was there.
    pub(super) fn rewrites(&self, template: &[u8], bytes: Range<usize>) -> bool {
        let inside = |place: Range<usize>| place.start <= bytes.start && bytes.end <= place.end;
        self.places(template, Put::is_whole).into_iter().any(inside)
    }

    fn places(&self, template: &[u8], wanted: impl Fn(&Put) -> bool) -> Vec<Range<usize>> {
        let puts = self.puts.iter().filter(|put| wanted(put));
        let puts = puts.map(|put| put.offset..put.offset + put.width);
        let sums = self.sums.iter().filter_map(|sum| match sum {
            Sum::Incremental { checksum, .. } => Some(*checksum..*checksum + 2),
            Sum::Full(fix) => {
                let at = Covered::find(template, fix)?.checksum;
                Some(at..at + 2)
            }
        });
        puts.chain(sums).collect()
    }
}
