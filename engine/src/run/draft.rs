//! What each send queue will send, before ports are started: writers, and how much memory.

use hugemem::{BURST, Frame, Pool, Resident};

use super::lane::Part;
use super::stamp::{MAX_LANES, STAMP};
use super::{RunError, RunPlan};
use crate::field::{Program, Share, Values, Writer, render};
use crate::frame::{Frames, Layer, Variant};
use crate::stream::{Measure, Mode, Stream};

/// Up to so many lanes on one queue have stretches long enough for bursts.
const FEW_LANES: usize = 8;

/// Frames that a lane's stretch of a shared set should have at least.
const STRETCH: usize = 4 * BURST;

/// The part of a stream that one queue will send.
pub(super) struct Draft {
    pub(super) part: Part,
    pub(super) writer: Writer,
    /// Frames to render, if it is resident.
    pub(super) resident: Option<usize>,
    /// The sum of the bytes that a stamp replaces, if it is always the same.
    pub(super) sum_len: Option<usize>,
}

/// What one queue will send.
#[derive(Default)]
pub(super) struct QueueDraft {
    pub(super) lanes: Vec<Draft>,
}

/// The drafts of every queue of every port, and how many measured lanes there are.
pub(super) fn draft(plan: &RunPlan) -> Result<(Vec<Vec<QueueDraft>>, u32), RunError> {
    let (mut drafts, mut stamps, mut number) = (Vec::new(), 0, 0);
    for port in &plan.ports {
        let count = port.config.tx_queues;
        let mut queues: Vec<QueueDraft> = (0..count).map(|_| QueueDraft::default()).collect();
        for stream in &port.streams {
            if stream.measure != Measure::None {
                check_stamp_room(stream)?;
            }
            for (queue, share) in shares(stream, number, count) {
                let stamp = (stream.measure != Measure::None).then(|| {
                    stamps += 1;
                    stamps - 1
                });
                let lane = compile(stream, number, share, stamp, plan.seed)?;
                queues[queue].lanes.push(lane);
            }
            number += 1;
        }
        for queue in &mut queues {
            queue.choose_resident(plan.resident_limit);
        }
        drafts.push(queues);
    }
    if stamps as usize > MAX_LANES {
        return Err(RunError::Unsupported {
            port: "run".into(),
            what: "number of measured streams times queues",
            asked: stamps.to_string(),
            allowed: format!("at most {MAX_LANES}"),
        });
    }
    Ok((drafts, stamps))
}

/// Which queues send a stream: all of them together, or one where its frames belong together
/// (bursts) or are few (streams that keep their rate, such as latency streams).
fn shares(stream: &Stream, number: usize, queues: usize) -> Vec<(usize, Share)> {
    let in_bursts = matches!(stream.mode, Mode::MultiBurst { .. });
    let together = in_bursts || stream.is_chained() || !stream.scaled;
    match queues {
        0 => Vec::new(),
        1 => vec![(0, Share::ALL)],
        _ if together => vec![(number % queues, Share::ALL)],
        _ => {
            let share = |index| (index, Share { index, of: queues });
            (0..queues).map(share).collect()
        }
    }
}

fn compile(
    stream: &Stream,
    number: usize,
    share: Share,
    stamp: Option<u32>,
    seed: u64,
) -> Result<Draft, RunError> {
    // Streams differ in what they draw, the same stream draws the same in every run.
    let seed = seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let writer = Writer::compile(&stream.frames, seed, share).map_err(|source| {
        let stream = stream.name.clone();
        RunError::Field { stream, source }
    })?;
    let alone = stream.frames.variants().len() == 1;
    let sum_len = writer.fixed_len().filter(|_| alone);
    Ok(Draft {
        part: Part {
            stream: number,
            share,
            stamp,
        },
        writer,
        resident: None,
        sum_len,
    })
}

impl QueueDraft {
    /// Makes the lanes resident whose frames repeat soon enough, as far as `limit` frames go.
    fn choose_resident(&mut self, limit: usize) {
        let mut left = limit;
        let few = (2..=FEW_LANES).contains(&self.lanes.len());
        for lane in self
            .lanes
            .iter_mut()
            .filter(|lane| lane.part.stamp.is_none())
        {
            let period = lane.writer.period();
            let Some(period) = period.filter(|period| (1..=left).contains(period)) else {
                continue;
            };
            // Where others share the set, a stretch is posted up to its end: short ones are
            // rendered several times, so that bursts go on.
            let laps = if few { STRETCH.div_ceil(period) } else { 1 };
            let frames = if period * laps <= left {
                period * laps
            } else {
                period
            };
            lane.resident = Some(frames);
            left -= frames;
        }
    }

    /// Frames to render, and how many bytes they hold.
    pub(super) fn resident(&self) -> (usize, usize) {
        let lanes = self.lanes.iter().filter(|lane| lane.resident.is_some());
        lanes.fold((0, 0), |(frames, len), lane| {
            let more = lane.resident.unwrap_or_default();
            (frames + more, len.max(lane.writer.max_len()))
        })
    }

    /// Frames to write into for a ring of `slots`, and how many bytes they hold: one for each slot,
    /// those that are ready, and those that came back.
    pub(super) fn written(&self, slots: usize) -> (usize, usize) {
        let lanes = self.lanes.iter().filter(|lane| lane.resident.is_none());
        let len = lanes.map(|lane| lane.writer.max_len()).max();
        len.map_or((0, 0), |len| (slots + 3 * BURST, len))
    }

    /// Bytes that its frames take.
    pub(super) fn footprint(&self, slots: usize) -> usize {
        let (rendered, written) = (self.resident(), self.written(slots));
        Pool::footprint(rendered.0, rendered.1) + Pool::footprint(written.0, written.1)
    }

    /// Renders the resident lanes' frames, one lane after the other.
    pub(super) fn render(
        &mut self,
        pool: &Pool,
        name: impl Fn(usize) -> String,
    ) -> Result<Resident, RunError> {
        let mut frames: Vec<Frame> = Vec::new();
        for lane in &mut self.lanes {
            let Some(count) = lane.resident else { continue };
            let rendered = render(&mut lane.writer, pool, count);
            frames.extend(rendered.map_err(|source| RunError::Render {
                stream: name(lane.part.stream),
                source,
            })?);
        }
        Ok(Resident::new(frames))
    }
}

/// Largest frame of `frames`, in bytes without FCS.
pub(super) fn largest(frames: &Frames) -> usize {
    frames.max_size() - crate::stream::FCS
}

/// A stamp must not overwrite headers or fields.
fn check_stamp_room(stream: &Stream) -> Result<(), RunError> {
    let room = stream.frames.variants().iter().map(stamp_room).min();
    let room = room.unwrap_or_default();
    if room < STAMP {
        return Err(RunError::StampRoom {
            stream: stream.name.clone(),
            needed: STAMP,
            room,
        });
    }
    Ok(())
}

/// Bytes at the end of every frame of a variant that nothing else uses.
fn stamp_room(variant: &Variant) -> usize {
    const ETHERNET: usize = 14;
    let Variant { template, program } = variant;
    let shortest = shortest(program).unwrap_or(usize::MAX);
    let len = template.bytes.len().min(shortest);
    let layers = template.layers.iter().filter(|at| at.layer != Layer::Raw);
    let headers = layers.map(|layer| layer.offset + layer.len);
    let written = program
        .writes
        .iter()
        .map(|write| write.offset + write.width);
    let used = headers.chain(written).max().unwrap_or(0).max(ETHERNET);
    len.saturating_sub(used)
}

/// The shortest frame, without FCS, that a program makes.
fn shortest(program: &Program) -> Option<usize> {
    let var = program.var(program.size.as_ref()?)?;
    let shortest = match &var.values {
        Values::Step { min, .. } | Values::Random { min, .. } => *min,
        Values::RepeatableRandom { min, .. } => *min,
        Values::List { values, .. } | Values::RandomOf(values) => *values.iter().min()?,
        Values::Tuple { ip_min, .. } => (*ip_min).into(),
    };
    usize::try_from(shortest).ok()
}
