//! Frames as text: `eth / vlan(id=7) / ipv4(dst=48.0.0.1) / udp(dport=80)`.
//!
//! Headers are separated by `/`; fields are set in brackets. Names and fields are those of
//! [`Layer`], in any case. Raw bytes are `raw(hex=dead beef)` or `raw(text="hello")`.

use std::ops::Range;

use super::layer::{FieldDef, Layer};
use super::spec::{FrameSpec, Header};
use super::value::{self, ValueError};
use crate::similar::similar;

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at character {}: {problem}", .at.start + 1)]
pub struct TextError {
    /// The bytes of the text that are wrong.
    pub at: Range<usize>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A header's name is missing.
    #[error("a header is missing here")]
    NoHeader,
    /// No header is called that.
    #[error("there is no header called {name:?}")]
    UnknownHeader {
        /// The name.
        name: String,
        /// One that looks like it.
        similar: Option<String>,
    },
    /// A header has no such field.
    #[error("{header} has no field {field:?}")]
    UnknownField {
        /// The header.
        header: &'static str,
        /// The field's name.
        field: String,
        /// One that looks like it.
        similar: Option<String>,
        /// The fields that it has.
        known: Vec<&'static str>,
    },
    /// A field is named and not set.
    #[error("{field:?} is not set to anything: FIELD=VALUE is expected")]
    NoValue {
        /// What stands there.
        field: String,
    },
    /// A bracket is not closed.
    #[error("this bracket is not closed")]
    Open,
    /// Something else follows a header.
    #[error("expected '/' before {found:?}")]
    NoSeparator {
        /// What is there instead.
        found: String,
    },
    /// A value is not one.
    #[error(transparent)]
    Value(#[from] ValueError),
}

impl TextError {
    /// What to do about it, where something is known to help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match &self.problem {
            Problem::UnknownHeader {
                similar: Some(name),
                ..
            } => Some(format!("did you mean {name}?")),
            Problem::NoHeader | Problem::UnknownHeader { .. } => {
                let names: Vec<_> = Layer::ALL.iter().map(|layer| layer.name()).collect();
                Some(format!("headers are: {}", names.join(", ")))
            }
            Problem::UnknownField { similar, known, .. } => Some(match similar {
                Some(name) => format!("did you mean {name}? It has: {}", known.join(", ")),
                None => format!("it has: {}", known.join(", ")),
            }),
            _ => None,
        }
    }

    /// The text with a line below it that points at what is wrong.
    #[must_use]
    pub fn point(&self, text: &str) -> String {
        let before = text
            .get(..self.at.start)
            .map_or(0, |before| before.chars().count());
        let wrong = text
            .get(self.at.clone())
            .map_or(1, |wrong| wrong.chars().count());
        format!("{text}\n{}{}", " ".repeat(before), "^".repeat(wrong.max(1)))
    }
}

/// Reads a frame.
///
/// # Errors
/// The text is not a frame; the error says where and why.
pub fn parse(text: &str) -> Result<FrameSpec, TextError> {
    let mut reader = Reader { text, at: 0 };
    let mut headers = vec![reader.header()?];
    loop {
        reader.blanks();
        match reader.peek() {
            None => return Ok(FrameSpec::new(headers)),
            Some('/') => reader.at += 1,
            Some(found) => {
                let at = reader.at..reader.at + found.len_utf8();
                let found = text[reader.at..].chars().take(12).collect();
                return Err(TextError {
                    at,
                    problem: Problem::NoSeparator { found },
                });
            }
        }
        headers.push(reader.header()?);
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn blanks(&mut self) {
        self.take(char::is_whitespace);
    }

    /// The longest run of characters that `wanted` accepts.
    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let len = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn error<T>(&self, at: Range<usize>, problem: impl Into<Problem>) -> Result<T, TextError> {
        // Where nothing is left, point behind the last character.
        let at = if at.is_empty() {
            at.start..(at.start + 1).min(self.text.len().max(1))
        } else {
            at
        };
        Err(TextError {
            at,
            problem: problem.into(),
        })
    }

    fn header(&mut self) -> Result<Header, TextError> {
        self.blanks();
        let start = self.at;
        let name = self.take(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if name.is_empty() {
            return self.error(start..start, Problem::NoHeader);
        }
        let Some(layer) = Layer::named(name) else {
            let known = Layer::ALL.iter().flat_map(|layer| layer.names()).copied();
            let similar = similar(name, known);
            let problem = Problem::UnknownHeader {
                name: name.into(),
                similar,
            };
            return self.error(start..self.at, problem);
        };
        let mut header = Header::new(layer);
        self.blanks();
        if self.peek() == Some('(') {
            self.settings(&mut header)?;
        }
        Ok(header)
    }

    fn settings(&mut self, header: &mut Header) -> Result<(), TextError> {
        let open = self.at;
        self.at += 1;
        loop {
            self.blanks();
            match self.peek() {
                None => return self.error(open..open + 1, Problem::Open),
                Some(')') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(',') => self.at += 1,
                Some(_) => self.setting(header, open)?,
            }
        }
    }

    fn setting(&mut self, header: &mut Header, open: usize) -> Result<(), TextError> {
        let start = self.at;
        let field = self.take(|c| !"=,)".contains(c)).trim_end();
        let named = start..start + field.len();
        match self.peek() {
            None => return self.error(open..open + 1, Problem::Open),
            Some('=') => self.at += 1,
            Some(_) => {
                let problem = Problem::NoValue {
                    field: field.into(),
                };
                return self.error(named, problem);
            }
        }
        self.blanks();
        let (value, at) = self.value(open)?;
        let here = |problem: ValueError| TextError {
            at: at.clone(),
            problem: problem.into(),
        };
        if header.layer == Layer::Raw {
            let Some(bytes) = value::raw(field, value) else {
                return self.error(named, unknown_field(Layer::Raw, field));
            };
            header.bytes.extend(bytes.map_err(here)?);
            return Ok(());
        }
        let Some(def) = header.layer.field(field) else {
            return self.error(named, unknown_field(header.layer, field));
        };
        if let Some(value) = read(header.layer, def, value).map_err(here)? {
            header.set.push((def, value));
        }
        Ok(())
    }

    /// A value, with or without quotes, and where it stands.
    fn value(&mut self, open: usize) -> Result<(&'a str, Range<usize>), TextError> {
        let start = self.at;
        if self.peek() == Some('"') {
            self.at += 1;
            let value = self.take(|c| c != '"');
            if self.peek().is_none() {
                return self.error(start..start + 1, Problem::Open);
            }
            self.at += 1;
            return Ok((value, start..self.at));
        }
        let value = self.take(|c| c != ',' && c != ')').trim_end();
        if self.peek().is_none() {
            return self.error(open..open + 1, Problem::Open);
        }
        Ok((value, start..start + value.len()))
    }
}

/// A field's value; none for a checksum that is to be computed.
fn read(layer: Layer, def: &FieldDef, text: &str) -> Result<Option<u128>, ValueError> {
    if def.name == "checksum" && text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    if layer == Layer::Tcp
        && def.name == "flags"
        && let Some(flags) = value::tcp_flags(text)
    {
        return Ok(Some(flags));
    }
    value::parse(text, def.kind, def.bits).map(Some)
}

fn unknown_field(layer: Layer, field: &str) -> Problem {
    let known: Vec<_> = match layer {
        Layer::Raw => vec!["hex", "text"],
        layer => layer.fields().iter().map(|def| def.name).collect(),
    };
    Problem::UnknownField {
        header: layer.name(),
        field: field.into(),
        similar: similar(field, known.iter().copied()),
        known,
    }
}
