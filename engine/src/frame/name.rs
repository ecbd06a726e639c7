//! Fields by name.

use super::layer::Layer;
use super::template::{FieldAt, Template};
use crate::similar::similar;

/// Why a field's name means nothing in a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldNameError {
    /// Not of the form `HEADER.FIELD` or `HEADER[N].FIELD`.
    #[error("{name:?} is not a field: HEADER.FIELD or HEADER[N].FIELD is")]
    Form {
        /// The name.
        name: String,
    },
    /// No header is called that.
    #[error("there is no header called {header:?}")]
    NoHeader {
        /// The header's name.
        header: String,
        /// One that looks like it.
        similar: Option<String>,
    },
    /// The frame has no such header, or not so many.
    #[error("the frame has no {header}: it is {frame}")]
    NotThere {
        /// The header, with its number if that is not 0.
        header: String,
        /// The frame's headers.
        frame: String,
    },
    /// The header has no such field.
    #[error("{header} has no field {field:?}")]
    NoField {
        /// The header's name.
        header: &'static str,
        /// The field's name.
        field: String,
        /// One that looks like it.
        similar: Option<String>,
        /// The fields that it has.
        known: Vec<&'static str>,
    },
}

impl FieldNameError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Form { .. } => Some("as in ipv4.src, or ipv4[1].src for the second one".into()),
            Self::NoHeader { similar, .. } => {
                similar.as_ref().map(|name| format!("did you mean {name}?"))
            }
            Self::NotThere { .. } => None,
            Self::NoField { similar, known, .. } => Some(match similar {
                Some(name) => format!("did you mean {name}? It has: {}", known.join(", ")),
                None => format!("it has: {}", known.join(", ")),
            }),
        }
    }
}

/// Finds `name` in `template`.
pub(super) fn resolve(template: &Template, name: &str) -> Result<FieldAt, FieldNameError> {
    let form = || FieldNameError::Form { name: name.into() };
    let (header, field) = name.trim().rsplit_once('.').ok_or_else(form)?;
    let (header, number) = numbered(header).ok_or_else(form)?;
    let layer = Layer::named(header).ok_or_else(|| FieldNameError::NoHeader {
        header: header.into(),
        similar: similar(
            header,
            Layer::ALL.iter().flat_map(|layer| layer.names()).copied(),
        ),
    })?;
    let mut there = template.layers.iter().filter(|at| at.layer == layer);
    let at = there.nth(number).ok_or_else(|| FieldNameError::NotThere {
        header: called(layer, number),
        frame: outline(template),
    })?;
    let def = layer
        .field(field)
        .filter(|def| def.bit + def.bits <= at.len * 8);
    let def = def.ok_or_else(|| {
        let known: Vec<_> = layer.fields().iter().map(|def| def.name).collect();
        FieldNameError::NoField {
            header: layer.name(),
            field: field.into(),
            similar: similar(field, known.iter().copied()),
            known,
        }
    })?;
    Ok(FieldAt {
        bit: at.offset * 8 + def.bit,
        bits: def.bits,
        kind: def.kind,
    })
}

/// `ipv4`, `ipv4[1]` or TRex's `IP:1`, taken apart.
fn numbered(header: &str) -> Option<(&str, usize)> {
    if let Some((name, rest)) = header.split_once('[') {
        return Some((
            name.trim(),
            rest.trim().strip_suffix(']')?.trim().parse().ok()?,
        ));
    }
    match header.split_once(':') {
        Some((name, number)) => Some((name.trim(), number.trim().parse().ok()?)),
        None => Some((header.trim(), 0)),
    }
}

fn called(layer: Layer, number: usize) -> String {
    match number {
        0 => layer.name().into(),
        n => format!("{}[{n}]", layer.name()),
    }
}

/// The headers' names, in order.
fn outline(template: &Template) -> String {
    let names: Vec<_> = template.layers.iter().map(|at| at.layer.name()).collect();
    names.join(" / ")
}
