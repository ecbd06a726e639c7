//! The frames of streams in the order of sending, made as a run makes them, sent nowhere.

use engine::field::{FieldError, Share, Writer};
use engine::run::{ChainTurn, chain_turns};
use engine::stream::{Mode, Stream};
use hugemem::{Frame, Memory, MemoryRequest, PageSize, Pages, Pool};

use crate::error::{Error, with_causes};

/// A frame as it would leave.
pub(crate) struct Shown<'a> {
    /// The stream's number.
    pub(crate) stream: usize,
    /// Which of the stream's variants it is made of.
    pub(crate) variant: usize,
    /// When, in nanoseconds after the start.
    pub(crate) at_ns: u64,
    /// The frame without FCS.
    pub(crate) bytes: &'a [u8],
}

/// Streams whose frames are made one by one.
pub(crate) struct Preview {
    sources: Vec<Source>,
}

struct Source {
    writer: Writer,
    frame: Frame,
    schedule: Vec<usize>,
    pps: f64,
    mode: Mode,
    delay_ns: u64,
    /// Where it is in a chain.
    turn: Option<ChainTurn>,
    made: u64,
}

impl Preview {
    /// Frames of `streams` at `pps` frames a second each, with random fields by `seed`.
    pub(crate) fn new(streams: &[Stream], pps: &[f64], seed: u64) -> Result<Self, Error> {
        let writers = streams
            .iter()
            .map(|stream| {
                Writer::compile(&stream.frames, seed, Share::ALL)
                    .map_err(|error| no_writer(&stream.name, &error))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let capacity = writers.iter().map(Writer::max_len).max().unwrap_or(0);
        let pool = pool(streams.len(), capacity)?;
        let turns = chain_turns(streams, pps)
            .map_err(|(n, error)| Error::Unexpected(format!("{}: {error}", streams[n].name)))?;
        let mut sources = Vec::with_capacity(streams.len());
        let made = writers.into_iter().zip(streams).zip(pps).zip(turns);
        for (((writer, stream), &pps), turn) in made {
            sources.push(Source {
                writer,
                frame: pool.take().expect("the pool has a frame for each stream"),
                schedule: stream.frames.schedule().to_vec(),
                pps,
                mode: stream.mode,
                delay_ns: turn.map_or(stream.start_delay_ns, |turn| turn.start_ns),
                turn,
                made: 0,
            });
        }
        Ok(Self { sources })
    }

    /// The next frame; none once every stream has ended.
    pub(crate) fn next(&mut self) -> Option<Shown<'_>> {
        let due = |source: &Source| source.due_ns();
        let (stream, at_ns) = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(n, source)| Some((n, due(source)?)))
            .min_by_key(|(_, at_ns)| *at_ns)?;
        let source = &mut self.sources[stream];
        source.writer.next(&mut source.frame);
        let turn = source.made % source.schedule.len() as u64;
        source.made += 1;
        let turn = usize::try_from(turn).expect("less than the schedule's length");
        Some(Shown {
            stream,
            variant: source.schedule[turn],
            at_ns,
            bytes: source.frame.bytes(),
        })
    }
}

impl Source {
    /// When the next frame is due; none if there is no more.
    fn due_ns(&self) -> Option<u64> {
        if self.turn.is_some_and(|turn| self.made >= turn.limit) {
            return None;
        }
        let (begins, made) = match self.turn.and_then(|turn| turn.round()) {
            Some((frames, lap_ns)) => (
                (self.made / frames).saturating_mul(lap_ns),
                self.made % frames,
            ),
            None => (0, self.made),
        };
        let after = self.due_in_round(made)?;
        Some(self.delay_ns.saturating_add(begins).saturating_add(after))
    }

    /// When frame `made` is due, counted from the start of a round.
    fn due_in_round(&self, made: u64) -> Option<u64> {
        let at = |frames: u64| frames as f64 * 1e9 / self.pps;
        let after = match self.mode {
            Mode::Continuous => at(made),
            Mode::Burst { frames } if made < frames => at(made),
            Mode::Burst { .. } => return None,
            Mode::MultiBurst {
                frames,
                gap_ns,
                bursts,
            } => {
                let burst = made / frames.max(1);
                if bursts.is_some_and(|bursts| burst >= bursts) {
                    return None;
                }
                at(made) + burst as f64 * gap_ns as f64
            }
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; centuries of nanoseconds saturate"
        )]
        let after = after.round() as u64;
        Some(after)
    }
}

/// As many frames of `capacity` bytes, in plain memory that no device sees.
fn pool(frames: usize, capacity: usize) -> Result<Pool, Error> {
    let unexpected = |error: &dyn std::error::Error| Error::Unexpected(with_causes(error));
    let ports = catalog::open(&["null:"], &catalog::Options::default())
        .map_err(|error| unexpected(&error))?;
    let memory = Memory::new(&MemoryRequest {
        bytes: frames * (capacity + 4096) + (1 << 20),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: ports.iter().map(|port| port.space()).collect(),
    })
    .map_err(|error| unexpected(&error))?;
    Pool::new(&memory, frames, capacity).map_err(|error| unexpected(&error))
}

fn no_writer(stream: &str, error: &FieldError) -> Error {
    Error::Usage {
        found: format!("stream {stream}: {error}"),
        cure: error
            .remedy()
            .unwrap_or_else(|| "change the stream in its profile".to_owned()),
    }
}
