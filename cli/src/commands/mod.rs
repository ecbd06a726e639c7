//! What each command does.

mod bind;
mod doctor;
mod hugepages;
mod ports;

use self::bind::Way;
use crate::args::{Cli, Command};
use crate::error::{Error, Exit};

/// How to talk, for every command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// One JSON document on stdout.
    pub(crate) json: bool,
    /// Nothing on stderr but errors.
    pub(crate) quiet: bool,
    /// More of everything.
    pub(crate) verbose: bool,
}

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> Result<Exit, Error> {
    let manner = Manner {
        json: cli.json,
        quiet: cli.quiet,
        verbose: cli.verbose > 0,
    };
    match cli.command {
        Command::Ports => ports::run(manner),
        Command::Bind(bind) => bind::run(&bind, Way::Bind, manner),
        Command::Unbind(bind) => bind::run(&bind, Way::Unbind, manner),
        Command::Doctor => doctor::run(manner),
        Command::Hugepages(hugepages) => hugepages::run(&hugepages, manner),
        _ => Err(Error::Unexpected("not there yet".to_owned())),
    }
}
