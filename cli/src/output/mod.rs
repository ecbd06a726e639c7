//! What the user sees: the result on stdout, talk on stderr.

pub(crate) mod progress;
pub(crate) mod result;
pub(crate) mod schema;
pub(crate) mod summary;
pub(crate) mod text;

use std::io::{self, Write};

use serde::Serialize;

use crate::error::Error;

/// Writes a result to stdout. A reader that has gone away (`rgen … | head`) is no error: it has
/// seen what it wanted.
pub(crate) fn result(text: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Error::from),
    }
}

/// Writes a document to stdout, for machines.
pub(crate) fn document<T: Serialize>(document: &T) -> Result<(), Error> {
    result(&format!("{}\n", pretty(document)?))
}

/// Writes a document to stdout as one line, for `--json-stream`.
pub(crate) fn line<T: Serialize>(document: &T) -> Result<(), Error> {
    let text = serde_json::to_string(document).map_err(unserializable)?;
    result(&format!("{text}\n"))
}

/// A document as text.
pub(crate) fn pretty<T: Serialize>(document: &T) -> Result<String, Error> {
    serde_json::to_string_pretty(document).map_err(unserializable)
}

fn unserializable(error: serde_json::Error) -> Error {
    Error::Unexpected(format!("a result that JSON cannot say: {error}"))
}

/// Says something on stderr. If nobody listens, nobody misses it.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
