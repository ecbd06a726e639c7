//! An rgen that tells what it does, a line of JSON a second.

use std::io::{BufRead, BufReader, Lines, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{FIRST_CORE, Fallible};

/// An rgen that runs. Dropping it kills it.
pub(crate) struct Stream {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Stream {
    /// Starts it with `words`, on its core.
    pub(crate) fn start(words: &[&str]) -> Fallible<Self> {
        let mut child = Command::new(rig::rgen::path())
            .args(words)
            .args([
                "--json-stream",
                "--quiet",
                "--cores",
                &FIRST_CORE.to_string(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("no pipe to rgen")?;
        Ok(Self {
            child,
            lines: BufReader::new(output).lines(),
        })
    }

    /// The next line. The first says that it is at work.
    pub(crate) fn next(&mut self) -> Fallible<Value> {
        let Some(line) = self.lines.next().transpose()? else {
            let mut said = String::new();
            if let Some(stderr) = &mut self.child.stderr {
                stderr.read_to_string(&mut said)?;
            }
            return Err(format!("rgen ended; it said: {said}").into());
        };
        Ok(serde_json::from_str(&line)?)
    }

    /// Ends it as Ctrl-C does; its exit code and its result.
    pub(crate) fn stop(mut self) -> Fallible<(Option<i32>, Value)> {
        let id = Pid::from_raw(i32::try_from(self.child.id())?);
        kill(id, Signal::SIGINT)?;
        let mut last = self.next()?;
        while let Some(line) = self.lines.next().transpose()? {
            last = serde_json::from_str(&line)?;
        }
        Ok((self.child.wait()?.code(), last))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
