//! What the user sees: the result on stdout, talk on stderr.

pub(crate) mod balance;
pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod grid;
pub(crate) mod html;
pub(crate) mod ndr;
mod plot;
pub(crate) mod progress;
pub(crate) mod result;
pub(crate) mod rfc2544;
pub(crate) mod saved;
pub(crate) mod schema;
pub(crate) mod summary;
pub(crate) mod text;

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::error::Error;
use result::Failure;

/// Writes a result to stdout. A reader that has gone away (`rgen … | head`) is no error: it has
/// seen what it wanted.
pub(crate) fn result(text: &str) -> Result<(), Error> {
    to_reader(|out| out.write_all(text::printable(text).as_bytes())).map(drop)
}

/// Writes to stdout what `write` writes, as it comes; false if the reader has gone away.
pub(crate) fn to_reader(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<bool, Error> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // What is left must not be tried again.
            drop(stdout.into_parts());
            Ok(false)
        }
        Err(error) => {
            drop(stdout.into_parts());
            Err(error.into())
        }
    }
}

/// Writes a document to stdout, for machines.
pub(crate) fn document<T: Serialize>(document: &T) -> Result<(), Error> {
    to_reader(|out| {
        serde_json::to_writer_pretty(&mut *out, document)?;
        writeln!(out)
    })
    .map(drop)
}

/// Writes a document to stdout as one line, for `--json-stream`; false once nobody reads.
pub(crate) fn line<T: Serialize>(document: &T) -> Result<bool, Error> {
    let text = serde_json::to_string(document).map_err(unserializable)?;
    to_reader(|out| writeln!(out, "{text}"))
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
    let text = text::printable(text);
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says on stderr which ports failed.
pub(crate) fn failures(failures: &[Failure]) {
    for failure in failures {
        say(&format!("error[port-failed]: {}", failure.error));
    }
}
