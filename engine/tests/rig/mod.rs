//! What the tests of the field engine stand on: a ring of frames, and a naive field engine.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses its own part"
)]

pub(crate) mod naive;

use std::collections::VecDeque;

use engine::field::{Program, Share, Values, Var, Writer};
use engine::frame::{Frames, Macs, Template, build, text};
use hugemem::{Burst, Frame, Memory, MemoryRequest, PageSize, Pages, Pool};

pub(crate) const MACS: Macs = Macs {
    src: [2, 0, 0, 0, 0, 1],
    dst: [2, 0, 0, 0, 0, 2],
};

/// A pool of `frames` frames of `capacity` bytes.
pub(crate) fn pool(frames: usize, capacity: usize) -> Pool {
    let request = MemoryRequest {
        bytes: Pool::footprint(frames, capacity),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: Vec::new(),
    };
    Pool::new(&Memory::new(&request).unwrap(), frames, capacity).unwrap()
}

/// A ring of frames that come back in the order in which they were sent.
pub(crate) struct Ring {
    home: VecDeque<Frame>,
    lap: usize,
    /// How many frames went through it.
    pub(crate) sent: usize,
}

impl Ring {
    /// A ring of `lap` frames.
    pub(crate) fn new(pool: &Pool, lap: usize) -> Self {
        let home = (0..lap).map(|_| pool.take().unwrap()).collect();
        Self { home, lap, sent: 0 }
    }

    /// The next `count` packets of `writer`, in bursts of at most `burst`, as bytes.
    pub(crate) fn send(&mut self, writer: &mut Writer, count: usize, burst: usize) -> Vec<Vec<u8>> {
        let mut sent = Vec::with_capacity(count);
        while sent.len() < count {
            let mut frames = Burst::new();
            let size = burst.min(count - sent.len()).min(self.lap);
            for _ in 0..size {
                let mut frame = self.home.pop_front().unwrap();
                // As frames come out of a pool.
                frame.set_len(0);
                frames.push(frame).unwrap();
            }
            let bytes = writer.next_burst(&mut frames);
            assert_eq!(bytes, frames.iter().map(Frame::len).sum::<usize>());
            for frame in &frames {
                assert!(writer.knows(frame), "the frame is tagged");
                sent.push(frame.bytes().to_vec());
            }
            while let Some(frame) = frames.pop() {
                self.home.push_back(frame);
            }
        }
        self.sent += count;
        sent
    }

    /// Laps that it went round.
    pub(crate) fn laps(&self) -> usize {
        self.sent / self.lap
    }
}

/// The first `count` packets of `frames`, three laps round a ring at the least.
pub(crate) fn sequence(frames: &Frames, share: Share, count: usize) -> Vec<Vec<u8>> {
    let mut writer = Writer::compile(frames, 1, share).unwrap();
    let lap = (count / 4).clamp(1, 13);
    let mut ring = Ring::new(&pool(lap, writer.max_len()), lap);
    ring.send(&mut writer, count, 7)
}

pub(crate) fn template(text: &str, size: usize) -> Template {
    build(&text::parse(text).unwrap().sized(size), MACS).unwrap()
}

pub(crate) fn var(name: &str, width: usize, values: Values) -> Var {
    Var {
        name: name.into(),
        width,
        values,
        next: None,
    }
}

/// A frame of 60 zero bytes and a program over it.
pub(crate) fn blank(program: Program) -> Frames {
    Frames::varied(Template::raw(vec![0; 60]), program)
}

/// A field of `N` bytes at `at`, as a number.
pub(crate) fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + N]
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}
