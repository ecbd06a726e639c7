//! What each command does.

mod bench;
mod bind;
mod capture;
mod demo;
mod doctor;
mod fwd;
mod hugepages;
mod ndr;
mod ports;
mod rfc2544;
mod run;
mod show;

use self::bind::Way;
use crate::args::{Bed, Cli, Command};
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

impl Manner {
    /// The same, with the JSON result on stdout where `-o -` asks for it.
    fn for_output(self, bed: &Bed) -> Self {
        Self {
            json: self.json || bed.output_to_stdout(),
            ..self
        }
    }
}

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> Result<Exit, Error> {
    let manner = Manner {
        json: cli.json,
        quiet: cli.quiet,
        verbose: cli.verbose > 0,
    };
    match cli.command {
        Command::Run(run) => run::run(&run, manner),
        Command::Ndr(ndr) => ndr::run(&ndr, manner),
        Command::Bench(bench) => bench::run(&bench, manner),
        Command::Rfc2544(rfc2544) => rfc2544::run(&rfc2544, manner),
        Command::Capture(capture) => capture::run(&capture, manner),
        Command::Ports => ports::run(manner),
        Command::Bind(bind) => bind::run(&bind, Way::Bind, manner),
        Command::Unbind(bind) => bind::run(&bind, Way::Unbind, manner),
        Command::Doctor => doctor::run(manner),
        Command::Hugepages(hugepages) => hugepages::run(&hugepages, manner),
        Command::Demo(demo) => demo::run(&demo, manner),
        Command::Show(show) => show::run(&show, manner),
        Command::Fwd(fwd) => fwd::run(&fwd, manner),
    }
}
