//! A thread that writes a tap's copies down.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::run::Tap;
use serde::Serialize;

use super::{Files, Filter};

/// How long nobody looks when there was nothing.
const PAUSE: Duration = Duration::from_millis(1);

/// What became of a port's frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Received.
    pub(crate) seen: u64,
    /// In the files.
    pub(crate) written: u64,
    /// Not what the expression says.
    pub(crate) filtered: u64,
    /// Not written, as frames came faster than that.
    pub(crate) dropped: u64,
    /// Received after the last one that was to be written, or after the file took no more.
    pub(crate) beyond: u64,
    /// Missed by the device: none of the above.
    pub(crate) missed: u64,
}

/// What a writer leaves.
pub(crate) struct Done {
    pub(crate) files: Files,
    pub(crate) counts: Vec<Counts>,
    /// Why the file took no more.
    pub(crate) failure: Option<io::Error>,
    /// As many were written as were asked for.
    pub(crate) is_full: bool,
}

/// A thread that writes.
pub(crate) struct Writer {
    thread: JoinHandle<Done>,
    over: Arc<AtomicBool>,
}

impl Writer {
    /// Writes the copies of `tap` that `filter` accepts, up to `most` of them; then, or if the file
    /// takes no more, `stop` is raised.
    pub(crate) fn start(
        tap: Tap,
        files: Files,
        ports: usize,
        filter: Option<Filter>,
        most: Option<u64>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let task = Task {
            tap,
            filter,
            left: most,
            stop,
            over: Arc::clone(&over),
            done: Done {
                files,
                counts: vec![Counts::default(); ports],
                failure: None,
                is_full: false,
            },
        };
        let thread = thread::Builder::new()
            .name("rgen-capture".into())
            .spawn(move || task.run())?;
        Ok(Self { thread, over })
    }

    /// Nothing more is received: what has come is written, and that was all.
    pub(crate) fn finish(self) -> Option<Done> {
        self.over.store(true, Ordering::Release);
        self.thread.join().ok()
    }
}

struct Task {
    tap: Tap,
    filter: Option<Filter>,
    left: Option<u64>,
    stop: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    done: Done,
}

impl Task {
    fn run(mut self) -> Done {
        loop {
            // Looked at first: what came before it was said is still to be found.
            let over = self.over.load(Ordering::Acquire);
            let mut found = false;
            while let Some(copied) = self.tap.take() {
                found = true;
                self.note(&copied);
                self.tap.give_back(copied);
            }
            if !found && over {
                return self.done;
            }
            if !found {
                if let Err(error) = self.done.files.flush() {
                    self.fail(error);
                }
                thread::sleep(PAUSE);
            }
        }
    }

    fn note(&mut self, copied: &engine::run::Copied) {
        let Some(counts) = self.done.counts.get_mut(copied.port) else {
            return;
        };
        if self.left == Some(0) || self.done.failure.is_some() {
            counts.beyond += 1;
            return;
        }
        let accepts = |filter: &Filter| filter.accepts(&copied.bytes, copied.len);
        if !self.filter.as_ref().is_none_or(accepts) {
            counts.filtered += 1;
            return;
        }
        if let Err(error) = self.done.files.write(copied) {
            counts.beyond += 1;
            self.fail(error);
            return;
        }
        counts.written += 1;
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                self.done.is_full = true;
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.done.failure.get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }
}
