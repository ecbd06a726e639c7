//! `-o FILE`, `--html FILE`: the result in a file, too. The file is opened before a port is, so that a path that
//! cannot be written costs no run.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{pretty, say};
use crate::error::{Error, Exit};

/// The file of `-o`, open; nothing where none was asked for.
pub(crate) struct Saved(Option<(PathBuf, File)>);

impl Saved {
    /// Opens `file`. What is in it stays until there is a result.
    pub(crate) fn open(file: Option<&Path>) -> Result<Self, Error> {
        let Some(file) = file else {
            return Ok(Self(None));
        };
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(file)
            .map_err(|source| Error::File {
                verb: "write",
                file: file.to_owned(),
                source,
            })?;
        Ok(Self(Some((file.to_owned(), opened))))
    }

    /// Writes the result, which has been printed already: if the file does not take it, that is
    /// said, and the exit code is 1.
    pub(crate) fn save<T: Serialize>(self, document: &T, exit: Exit) -> Result<Exit, Error> {
        if self.0.is_none() {
            return Ok(exit);
        }
        let text = format!("{}\n", pretty(document)?);
        Ok(self.save_text(&text, exit))
    }

    /// True if there is a file to write.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_some()
    }

    /// As [`Saved::save`], of what is text already.
    pub(crate) fn save_text(self, text: &str, exit: Exit) -> Exit {
        let Some((path, file)) = self.0 else {
            return exit;
        };
        match write(file, text) {
            Ok(()) => exit,
            Err(source) => {
                say(&Error::Unsaved { file: path, source }.for_people());
                Exit::Unexpected
            }
        }
    }
}

fn write(mut file: File, text: &str) -> io::Result<()> {
    // Only what is a file has a length to take away.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(text.as_bytes())
}
