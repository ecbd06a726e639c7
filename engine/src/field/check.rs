//! Whether a program's variables make sense.

use super::error::FieldError;
use super::plan::bits_of;
use super::program::{Order, Program, Values, Var};
use crate::similar::similar;

/// Most frames that are computed in advance, as in TRex.
const MOST_CACHED: u32 = 10_000;

/// Most random values that are drawn to be repeated: 8 MiB of them.
const MOST_DRAWN: u32 = 1 << 20;

pub(super) fn check_vars(program: &Program) -> Result<(), FieldError> {
    for (index, var) in program.vars.iter().enumerate() {
        if program.vars[..index]
            .iter()
            .any(|other| other.name == var.name)
        {
            return Err(FieldError::Twice {
                name: var.name.clone(),
            });
        }
        check_var(var)?;
        let Some(next) = &var.next else { continue };
        let follower = program.var(next).ok_or_else(|| unknown(next, program))?;
        if !(has_order(var) && has_order(follower)) {
            return Err(FieldError::NoOrder {
                var: var.name.clone(),
                next: next.clone(),
            });
        }
        let steppers = program
            .vars
            .iter()
            .filter(|other| other.next.as_ref() == Some(next));
        if steppers.count() > 1 {
            return Err(FieldError::Loop { var: next.clone() });
        }
    }
    match program.cached {
        Some(frames) if frames == 0 || frames > MOST_CACHED => Err(FieldError::Cache {
            frames,
            most: MOST_CACHED,
        }),
        _ => Ok(()),
    }
}

pub(super) fn unknown(name: &str, program: &Program) -> FieldError {
    let known = program.vars.iter().map(|var| var.name.as_str());
    FieldError::NoVar {
        name: name.into(),
        similar: similar(name, known),
    }
}

fn has_order(var: &Var) -> bool {
    matches!(
        var.values,
        Values::Step { .. } | Values::List { .. } | Values::RepeatableRandom { .. }
    )
}

fn check_var(var: &Var) -> Result<(), FieldError> {
    let name = || var.name.clone();
    if !matches!(var.width, 1 | 2 | 4 | 8) {
        return Err(FieldError::Width {
            var: name(),
            width: var.width,
        });
    }
    let nothing = |what| Err(FieldError::Nothing { var: name(), what });
    match &var.values {
        Values::Step { step: 0, .. } => return nothing("a step"),
        Values::List { values, .. } | Values::RandomOf(values) if values.is_empty() => {
            return nothing("a value");
        }
        Values::List { step: 0, .. } => return nothing("a step"),
        Values::RepeatableRandom { limit: 0, .. } => return nothing("a limit"),
        Values::RepeatableRandom { limit, .. } if *limit > MOST_DRAWN => {
            let (var, count) = (name(), u64::from(*limit));
            return Err(FieldError::TooMany {
                var,
                count,
                most: MOST_DRAWN.into(),
            });
        }
        _ => {}
    }
    let (min, max) = var.values.range();
    if min > max {
        return Err(FieldError::Range {
            var: name(),
            min,
            max,
        });
    }
    if let Values::Tuple {
        port_min, port_max, ..
    } = &var.values
        && port_min > port_max
    {
        let (min, max) = ((*port_min).into(), (*port_max).into());
        return Err(FieldError::Range {
            var: name(),
            min,
            max,
        });
    }
    if max > bits_of(var.width) {
        return Err(FieldError::TooWide {
            var: name(),
            value: max,
            width: var.width,
        });
    }
    check_init(var)
}

/// A counter's first value is one of those that it comes to.
fn check_init(var: &Var) -> Result<(), FieldError> {
    if let Values::Step {
        order,
        min,
        max,
        init: Some(init),
        step,
    } = var.values
    {
        if !(min..=max).contains(&init) {
            let near = init.clamp(min, max);
            return Err(FieldError::Init {
                var: var.name.clone(),
                init,
                near,
            });
        }
        let off = match order {
            Order::Inc => (init - min) % step,
            Order::Dec => (max - init) % step,
        };
        if off != 0 {
            let near = if order == Order::Inc {
                init - off
            } else {
                init + off
            };
            return Err(FieldError::Init {
                var: var.name.clone(),
                init,
                near,
            });
        }
    }
    Ok(())
}
