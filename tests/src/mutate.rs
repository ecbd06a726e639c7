//! Seeded mutations of good input: for fuzzing without a nightly compiler.
//!
//! A run is a bounded number of cases, the same each time; with `RGEN_FUZZ_SECONDS=N` it goes on
//! for so long with further seeds. A failure names its seed.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

/// Runs `case` for the seeds from 0 to `count`, and on while `$RGEN_FUZZ_SECONDS` last.
pub fn seeds(count: u64, mut case: impl FnMut(u64)) {
    let started = Instant::now();
    let asked = std::env::var("RGEN_FUZZ_SECONDS").ok();
    let seconds = asked.and_then(|text| text.parse().ok()).unwrap_or(0);
    let long = Duration::from_secs(seconds);
    let mut seed = 0;
    while seed < count || started.elapsed() < long {
        case(seed);
        seed += 1;
    }
}

/// Input made from a corpus of good input and the words of its grammar.
#[derive(Debug)]
pub struct Mutator {
    random: SmallRng,
}

impl Mutator {
    /// The mutations of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            random: SmallRng::seed_from_u64(seed),
        }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.random.random_range(0..end.max(1))
    }

    /// One of `corpus`, changed in a few places.
    pub fn text(&mut self, corpus: &[&str], words: &[&str]) -> String {
        let mut bytes = corpus[self.below(corpus.len())].as_bytes().to_vec();
        for _ in 0..=self.below(6) {
            self.change(&mut bytes, corpus, words);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// `bytes` with some of them changed.
    pub fn bytes(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            self.change(bytes, &[], &[]);
        }
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[&str], words: &[&str]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + self.below(8)).min(bytes.len());
        match self.below(8) {
            // A bit turned.
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            // A byte replaced, by one that parsers care for.
            1 if at < bytes.len() => {
                let liked = b"0123456789,=:/.'\"[]{}()-+%_ \n\0\xff\x80#";
                bytes[at] = liked[self.below(liked.len())];
            }
            2 => {
                bytes.drain(at..end);
            }
            3 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            4 if !words.is_empty() => {
                let word = words[self.below(words.len())];
                bytes.splice(at..at, word.bytes());
            }
            5 if !words.is_empty() => {
                let word = words[self.below(words.len())];
                bytes.splice(at..end, word.bytes());
            }
            // The end of another.
            6 if !corpus.is_empty() => {
                let other = corpus[self.below(corpus.len())].as_bytes();
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            // Far too much of something.
            7 if at < bytes.len() && self.below(8) == 0 => {
                let many = vec![bytes[at]; 1 + self.below(2000)];
                bytes.splice(at..at, many);
            }
            _ => {
                let byte = u8::try_from(self.random.next_u32() & 0xff).unwrap_or(0);
                bytes.insert(at, byte);
            }
        }
    }
}
