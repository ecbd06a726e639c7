//! Chains: streams that start when another one ends.
//!
//! Everything about a chain is known before the run: a stream takes as long as its frames at its
//! rate, so when each of them starts, how often, and after what time again is worked out here, and
//! nothing has to be watched while frames are sent.

use std::collections::HashMap;

use super::pace::{FrameRate, Rounds, Timeline};
use super::rates::bursts;
use crate::stream::{Mode, Stream};

/// When a stream of a chain sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainTurn {
    /// When its first round starts, in nanoseconds after the run does, its own delay included.
    pub start_ns: u64,
    /// Its rounds; none if it has only one.
    pub(super) rounds: Option<Rounds>,
    /// Frames in all.
    pub limit: u64,
}

impl ChainTurn {
    /// In a chain that comes round: frames of a round, and nanoseconds from one to the next.
    pub fn round(&self) -> Option<(u64, u64)> {
        self.rounds.map(|rounds| rounds.get())
    }
}

/// Why streams make no chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// It names a stream that is not there.
    #[error("it is followed by {next:?}, and there is no such stream")]
    Unknown {
        /// The name.
        next: String,
    },
    /// What never ends is followed by nothing.
    #[error("it never ends, so nothing can follow it")]
    Endless,
    /// It waits, and no stream names it.
    #[error("it waits for another stream to end, and none names it as its next")]
    Forgotten,
    /// It would be started while it may run already.
    #[error("it would be started from two sides")]
    Twice,
    /// A number of loops without a stream to loop to.
    #[error("a number of loops says how often the next stream is started, and there is none")]
    LoopsOfNothing,
    /// It would start over without time passing.
    #[error("it leads back to itself without a frame in between")]
    Standing,
}

/// Checks that `streams` of one port make chains.
///
/// # Errors
/// They do not; with the number of the stream that the error is about.
pub fn check(streams: &[Stream]) -> Result<(), (usize, ChainError)> {
    let any = vec![Timeline::new(FrameRate::per_second(1).expect("not zero")); streams.len()];
    turns(streams, &any).map(drop)
}

/// When each of the `streams` of one port sends that is part of a chain, at `pps` frames a second
/// each; none for the others.
///
/// # Errors
/// They make no chain; with the number of the stream that the error is about.
pub fn chain_turns(
    streams: &[Stream],
    pps: &[f64],
) -> Result<Vec<Option<ChainTurn>>, (usize, ChainError)> {
    let paces = streams.iter().zip(pps).map(|(stream, &pps)| {
        let rate = FrameRate::from_pps(pps).or(FrameRate::per_second(1));
        Timeline::new(rate.expect("one a second is a rate")).in_bursts(bursts(stream.mode))
    });
    turns(streams, &paces.collect::<Vec<_>>())
}

/// Frames of one round of a stream; none if it never ends.
pub(super) fn round(mode: Mode) -> Option<u64> {
    match mode {
        Mode::Continuous | Mode::MultiBurst { bursts: None, .. } => None,
        Mode::Burst { frames } => Some(frames),
        Mode::MultiBurst {
            frames,
            bursts: Some(bursts),
            ..
        } => Some(frames.saturating_mul(bursts)),
    }
}

/// When each of the `streams` of one port sends that is part of a chain; `paces` are their
/// timelines, each from its own start on.
pub(super) fn turns(
    streams: &[Stream],
    paces: &[Timeline],
) -> Result<Vec<Option<ChainTurn>>, (usize, ChainError)> {
    let places = streams.iter().enumerate();
    let places: HashMap<&str, usize> = places.map(|(n, stream)| (&*stream.name, n)).collect();
    let mut walk = Walk {
        streams,
        paces,
        places,
        turns: vec![None; streams.len()],
    };
    for (number, stream) in streams.iter().enumerate() {
        if stream.next.is_none() && stream.loops.is_some() {
            return Err((number, ChainError::LoopsOfNothing));
        }
        if !stream.waits && stream.next.is_some() {
            walk.follow(number)?;
        }
    }
    match (0..streams.len()).find(|&n| streams[n].waits && walk.turns[n].is_none()) {
        Some(forgotten) => Err((forgotten, ChainError::Forgotten)),
        None => Ok(walk.turns),
    }
}

struct Walk<'a> {
    streams: &'a [Stream],
    paces: &'a [Timeline],
    places: HashMap<&'a str, usize>,
    turns: Vec<Option<ChainTurn>>,
}

impl Walk<'_> {
    /// Goes along the chain that begins with stream `head`.
    fn follow(&mut self, head: usize) -> Result<(), (usize, ChainError)> {
        let mut chain: Vec<usize> = Vec::new();
        let (mut at, mut now_ns) = (head, 0);
        loop {
            if let Some(place) = chain.iter().position(|&earlier| earlier == at) {
                return self.close(&chain[place..], now_ns);
            }
            if self.turns[at].is_some() {
                return Err((at, ChainError::Twice));
            }
            let stream = &self.streams[at];
            let begins_alone = !stream.waits && at != head;
            if begins_alone {
                return Err((at, ChainError::Twice));
            }
            let start_ns = now_ns + stream.start_delay_ns;
            let frames = round(stream.mode);
            self.turns[at] = Some(ChainTurn {
                start_ns,
                rounds: None,
                limit: frames.unwrap_or(u64::MAX),
            });
            chain.push(at);
            let Some(next) = &stream.next else {
                return Ok(());
            };
            let frames = frames.filter(|frames| *frames > 0);
            let Some(frames) = frames else {
                return Err((at, ChainError::Endless));
            };
            let Some(&following) = self.places.get(&**next) else {
                let next = next.clone();
                return Err((at, ChainError::Unknown { next }));
            };
            if stream.loops == Some(1) {
                return Ok(());
            }
            now_ns = start_ns.saturating_add(self.paces[at].due_time(frames - 1));
            at = following;
        }
    }

    /// The streams of `ring` follow one another round and round; at `end_ns` the first one's second
    /// round begins.
    fn close(&mut self, ring: &[usize], end_ns: u64) -> Result<(), (usize, ChainError)> {
        let first = &self.streams[ring[0]];
        let began_ns = self.turns[ring[0]].map_or(0, |turn| turn.start_ns) - first.start_delay_ns;
        let lap_ns = end_ns - began_ns;
        if lap_ns == 0 {
            return Err((ring[0], ChainError::Standing));
        }
        // The one whose loops are over first ends all of it, there.
        let last = ring.iter().enumerate();
        let last = last.filter_map(|(place, &n)| Some((self.streams[n].loops?, place)));
        let last = last.min();
        for (place, &number) in ring.iter().enumerate() {
            let rounds = last.map(|(loops, at)| if place <= at { loops } else { loops - 1 });
            if let Some(turn) = &mut self.turns[number] {
                let frames = turn.limit;
                turn.rounds = Rounds::new(frames, lap_ns);
                turn.limit = rounds.map_or(u64::MAX, |rounds| frames.saturating_mul(rounds));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::frame::{Frames, Template};

    const MS: u64 = 1_000_000;

    /// A stream of `frames` at a frame a millisecond, with what follows it.
    fn burst(name: &str, frames: u64, next: Option<&str>) -> Stream {
        let template = Template::raw(vec![0; 60]);
        let mut stream = Stream::new(name, Frames::constant(template));
        stream.mode = Mode::Burst { frames };
        stream.next = next.map(str::to_owned);
        stream
    }

    fn waiting(name: &str, frames: u64, next: Option<&str>) -> Stream {
        Stream {
            waits: true,
            ..burst(name, frames, next)
        }
    }

    fn plan(streams: &[Stream]) -> Result<Vec<Option<ChainTurn>>, (usize, ChainError)> {
        let pace = Timeline::new(FrameRate::per_second(1000).unwrap());
        turns(streams, &vec![pace; streams.len()])
    }

    /// When frame `position` of a stream is due.
    fn due(turn: Option<ChainTurn>, position: u64) -> u64 {
        let turn = turn.unwrap();
        Timeline::new(FrameRate::per_second(1000).unwrap())
            .in_rounds(turn.rounds)
            .delayed(turn.start_ns)
            .limited(turn.limit)
            .due_time(position)
    }

    #[test]
    fn three_bursts_twice_over_are_twelve_frames_one_after_the_other() {
        // TRex's burst_3st_loop_x_times: 1, 2 and 3 frames, and back to the first, twice in all.
        let mut streams = vec![
            burst("S0", 1, Some("S1")),
            waiting("S1", 2, Some("S2")),
            waiting("S2", 3, Some("S0")),
        ];
        streams[0].start_delay_ns = 10 * MS;
        streams[2].loops = Some(2);
        let turns = plan(&streams).unwrap();
        let limits: Vec<u64> = turns.iter().map(|turn| turn.unwrap().limit).collect();
        assert_eq!(limits, [2, 4, 6]);
        // A lap: 10 ms of delay and six frames, a millisecond each.
        let all: Vec<(u64, usize)> = {
            let of = |(n, limit): (usize, &u64)| {
                let turn = turns[n];
                (0..*limit).map(move |k| (due(turn, k) / MS, n))
            };
            let mut all: Vec<_> = limits.iter().enumerate().flat_map(of).collect();
            all.sort_unstable();
            all
        };
        let expected = [
            (11, 0),
            (12, 1),
            (13, 1),
            (14, 2),
            (15, 2),
            (16, 2),
            (27, 0),
            (28, 1),
            (29, 1),
            (30, 2),
            (31, 2),
            (32, 2),
        ];
        assert_eq!(all, expected);
        assert_eq!(due(turns[0], 2), u64::MAX, "then it is over");
    }

    #[test]
    fn a_ring_may_have_a_way_in_and_go_round_for_ever_without_drift() {
        let streams = [
            burst("in", 5, Some("a")),
            waiting("a", 1, Some("b")),
            waiting("b", 2, Some("a")),
        ];
        let turns = plan(&streams).unwrap();
        assert_eq!(turns[0].unwrap().rounds, None);
        assert_eq!(due(turns[1], 0), 6 * MS);
        assert_eq!(due(turns[2], 1), 8 * MS);
        assert_eq!(due(turns[1], 1_000_000_000), (6 + 3_000_000_000) * MS);
        assert_eq!(turns[2].unwrap().limit, u64::MAX);
    }

    #[test]
    fn loops_end_a_chain_where_they_are_counted() {
        let mut streams = [burst("a", 1, Some("b")), waiting("b", 1, Some("a"))];
        streams[0].loops = Some(3);
        let limits = |streams: &[Stream]| {
            let turns = plan(streams).unwrap();
            turns
                .iter()
                .map(|turn| turn.unwrap().limit)
                .collect::<Vec<_>>()
        };
        assert_eq!(limits(&streams), [3, 2]);
        streams[1].loops = Some(2);
        assert_eq!(limits(&streams), [2, 2]);
        let mut once = [burst("a", 1, Some("b")), waiting("b", 1, None)];
        once[0].loops = Some(1);
        assert_eq!(
            plan(&once),
            Err((1, ChainError::Forgotten)),
            "it is never started"
        );
    }

    #[test]
    fn several_bursts_are_one_stream_of_a_chain_too() {
        let several = Mode::MultiBurst {
            frames: 2,
            gap_ns: 10 * MS,
            bursts: Some(3),
        };
        let mut streams = [burst("a", 1, Some("b")), waiting("b", 1, None)];
        streams[0].mode = several;
        let rate = FrameRate::per_second(1000).unwrap();
        let bursts = super::super::pace::Bursts::new(2, 10 * MS);
        let paces = [Timeline::new(rate).in_bursts(bursts), Timeline::new(rate)];
        let turns = turns(&streams, &paces).unwrap();
        assert_eq!(turns[0].unwrap().limit, 6);
        // 1, 2 · 12, 13 · 23, 24; the next one's first a millisecond after it starts.
        assert_eq!(turns[1].unwrap().start_ns, 24 * MS);
    }

    #[test]
    fn what_makes_no_chain_is_refused_with_its_reason() {
        let endless = Stream {
            mode: Mode::Continuous,
            ..burst("a", 1, Some("b"))
        };
        let loops = Stream {
            loops: Some(2),
            ..burst("a", 1, None)
        };
        for (streams, at, error) in [
            (
                vec![burst("a", 1, Some("c"))],
                0,
                ChainError::Unknown { next: "c".into() },
            ),
            (vec![endless, waiting("b", 1, None)], 0, ChainError::Endless),
            (vec![loops], 0, ChainError::LoopsOfNothing),
            (vec![waiting("a", 1, None)], 0, ChainError::Forgotten),
            (
                vec![waiting("a", 1, Some("b")), waiting("b", 1, Some("a"))],
                0,
                ChainError::Forgotten,
            ),
            (
                vec![burst("a", 1, Some("b")), burst("b", 1, None)],
                1,
                ChainError::Twice,
            ),
            (
                vec![
                    burst("a", 1, Some("c")),
                    burst("b", 1, Some("c")),
                    waiting("c", 1, None),
                ],
                2,
                ChainError::Twice,
            ),
        ] {
            assert_eq!(plan(&streams), Err((at, error)));
        }
        // One that waits for itself alone is the head of a ring.
        assert!(plan(&[burst("a", 1, Some("a"))]).is_ok());
    }
}
