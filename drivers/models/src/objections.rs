//! What a device would not have stood for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Different sentences that are kept; all are counted.
const KEPT: usize = 64;

/// Sentences about what a driver did wrong, each once: a cheap handle on the list.
///
/// A test ends with a look at [`Objections::all`], and fails when there is one.
#[derive(Clone, Debug, Default)]
pub struct Objections(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    raised: AtomicU64,
    sentences: Mutex<Vec<String>>,
}

impl Objections {
    /// Adds a sentence.
    #[cold]
    pub fn raise(&self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        self.0.raised.fetch_add(1, Ordering::Relaxed);
        let mut sentences = self.lock();
        if sentences.len() < KEPT && !sentences.contains(&sentence) {
            tracing::debug!("objection: {sentence}");
            sentences.push(sentence);
        }
    }

    /// What was said so far, each sentence once, in the order of their first times.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// As [`Objections::all`], and forgets them: for a test that provoked one.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock())
    }

    /// How often a sentence was added, repeated ones and forgotten ones included.
    #[must_use]
    pub fn raised(&self) -> u64 {
        self.0.raised.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0
            .sentences
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
