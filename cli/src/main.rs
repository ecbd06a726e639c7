//! The command `rgen`: profiles, results, and the terminal around the engine.
//!
//! Read [`args`] for what can be typed, [`commands`] for what it does, [`error`] for how it fails.
//! The result goes to stdout, talk to stderr.
#![forbid(unsafe_code)]

mod args;
mod capture;
mod commands;
mod cores;
mod doctor;
mod drive;
mod error;
mod host;
mod hunt;
mod loads;
mod nics;
mod output;
mod own;
mod preview;
mod profile;
mod require;
mod session;
mod signal;
mod suggest;
mod traffic;
mod trials;
mod units;

use std::panic;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::error::{Error, Exit};

fn main() -> ExitCode {
    panic::set_hook(Box::new(report_panic));
    panic::catch_unwind(run).unwrap_or(Exit::Unexpected).into()
}

/// Does what the command line says.
fn run() -> Exit {
    if let Some(error) = control_character() {
        output::say(&error.for_people());
        if std::env::args_os().any(|word| word == "--json") {
            let _ = output::document(&error.document());
        }
        return error.exit();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage(&error),
    };
    start_log(&cli);
    let json = cli.json;
    match commands::run(cli) {
        Ok(exit) => exit,
        Err(error) => {
            output::say(&error.for_people());
            if json {
                // The exit code tells the error; that stdout is gone too changes nothing.
                let _ = output::document(&error.document());
            }
            error.exit()
        }
    }
}

/// A word of the command line that would play with the terminal as soon as a message names it.
fn control_character() -> Option<Error> {
    let words = std::env::args_os().skip(1);
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let word = words.find(|word| word.contains(char::is_control))?;
    Some(Error::Usage {
        found: format!(
            "`{}`: there is a control character in it",
            word.escape_debug()
        ),
        cure: "write it without".to_owned(),
    })
}

/// Help and version go to stdout and are no error; the rest is clap's own error.
fn report_usage(error: &clap::Error) -> Exit {
    // A closed pipe behind `rgen --help | head` is nobody's fault, here and below.
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Done;
    }
    if std::env::args_os().any(|word| word == "--json") {
        let text = error.to_string();
        let found = text.lines().next().unwrap_or_default();
        let found = found.strip_prefix("error: ").unwrap_or(found).to_owned();
        let _ = output::document(&Error::CommandLine(found).document());
    }
    Exit::Usage
}

/// Engine and drivers tell what they do; `-v` makes it heard, `RGEN_LOG` chooses.
fn start_log(cli: &Cli) {
    let level = match (cli.quiet, cli.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("RGEN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
}

/// One line instead of a backtrace: whoever sees it can report it.
fn report_panic(info: &panic::PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned());
    let place = info
        .location()
        .map_or(String::new(), |place| format!(" ({place})"));
    let text = text.replace('\n', " ");
    output::say(&format!(
        "error[unexpected]: {text}{place}\n  cure: this is a fault of rgen: please report it"
    ));
}
