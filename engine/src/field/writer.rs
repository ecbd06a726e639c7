//! Writers: frames compiled for one send queue.

use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use hugemem::{Burst, Frame, TxFlags};

use super::error::FieldError;
use super::kernel::Kernel;
use super::plan::{Plan, plan};
use super::source::gcd;
use crate::frame::checksum::write_full;
use crate::frame::{Frames, Variant};

/// Which part of a stream one core sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The core's number, from 0.
    pub index: usize,
    /// How many cores there are.
    pub of: usize,
}

impl Share {
    /// All of it.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// This part of `whole` things, as even as can be; at least one.
    #[must_use]
    pub fn of_count(self, whole: usize) -> usize {
        (whole / self.of + usize::from(self.index < whole % self.of)).max(1)
    }
}

/// A stream's frames, compiled for one send queue.
///
/// A writer puts its [`Frame::tag`] on each frame that it fills, and knows by it that a buffer
/// which comes back still holds its bytes. **Whoever else writes into a frame's bytes (a device,
/// on receiving; a forwarder) sets the tag to 0.**
#[derive(Debug)]
pub struct Writer {
    images: Images,
    variants: Box<[Running]>,
    /// Variants by turn, and whose turn it is.
    schedule: Box<[usize]>,
    turn: usize,
    max_len: usize,
    fixed_len: Option<usize>,
    period: Option<usize>,
}

/// A variant and how far it is.
#[derive(Debug)]
struct Running {
    kernel: Kernel,
    /// Frames that are computed, to be repeated.
    cached: Option<usize>,
    /// How many of them are left in this round.
    left: usize,
    period: Option<u128>,
    len: usize,
    resized: bool,
}

impl Writer {
    /// Compiles `frames` for a queue that sends the part `share` of them. Random values follow
    /// from `seed`; the same seed gives the same frames.
    ///
    /// # Errors
    /// A program does not fit its template, or contradicts itself.
    ///
    /// # Panics
    /// There is no such part.
    pub fn compile(frames: &Frames, seed: u64, share: Share) -> Result<Self, FieldError> {
        assert!(share.index < share.of, "a part is one of the parts");
        let mut plans = Vec::new();
        for (index, variant) in frames.variants().iter().enumerate() {
            plans.push(plan(
                &variant.program,
                &variant.template,
                seed,
                index,
                share,
            )?);
        }
        let images = Images::new(frames.variants(), &plans);
        let variants: Box<[_]> = frames
            .variants()
            .iter()
            .zip(plans)
            .map(|(variant, plan)| Running::new(variant, plan, share))
            .collect();
        let schedule: Box<[_]> = frames.schedule().into();
        let max_len = variants
            .iter()
            .map(|variant| variant.len)
            .max()
            .unwrap_or_default();
        let fixed = variants
            .iter()
            .all(|variant| variant.len == max_len && !variant.resized);
        Ok(Self {
            period: period(&variants, &schedule),
            images,
            variants,
            schedule,
            turn: 0,
            max_len,
            fixed_len: fixed.then_some(max_len),
        })
    }

    /// Frames until the sequence repeats exactly; none if it is random, or longer than a
    /// `usize` counts.
    #[must_use]
    pub fn period(&self) -> Option<usize> {
        self.period
    }

    /// Bytes of the largest frame, without FCS: what a pool's frames must hold.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// Bytes of every frame, without FCS, if they are all of one length.
    #[must_use]
    pub fn fixed_len(&self) -> Option<usize> {
        self.fixed_len
    }

    /// Whether `frame` still holds bytes of this writer, so that it need not be copied anew.
    #[must_use]
    pub fn knows(&self, frame: &Frame) -> bool {
        self.images.know(frame)
    }

    /// Makes `frame` hold the next packet.
    ///
    /// # Panics
    /// The frame holds fewer than [`Writer::max_len`] bytes.
    pub fn next(&mut self, frame: &mut Frame) {
        self.fill(slice::from_mut(frame));
    }

    /// Makes every frame of `frames` hold the next packets, in order. Returns their bytes in
    /// all, without FCS.
    ///
    /// # Panics
    /// A frame holds fewer than [`Writer::max_len`] bytes.
    #[inline]
    pub fn next_burst(&mut self, frames: &mut Burst) -> usize {
        let frames = frames.as_mut_slice();
        self.fill(frames);
        match self.fixed_len {
            Some(len) => len * frames.len(),
            None => frames.iter().map(Frame::len).sum(),
        }
    }

    #[inline]
    fn fill(&mut self, frames: &mut [Frame]) {
        if let [only] = &mut *self.variants {
            only.fill(frames, &self.images, 0);
            return;
        }
        for frame in frames {
            let variant = self.schedule[self.turn];
            self.turn = if self.turn + 1 == self.schedule.len() {
                0
            } else {
                self.turn + 1
            };
            self.variants[variant].fill(slice::from_mut(frame), &self.images, variant);
        }
    }
}

impl Running {
    fn new(variant: &Variant, plan: Plan, share: Share) -> Self {
        let whole = plan
            .sources
            .iter()
            .try_fold(1, |period, source| lcm(period, source.period()?));
        // As in TRex, the cores share the frames that are computed.
        let cached = variant
            .program
            .cached
            .map(|frames| match usize::try_from(frames) {
                Ok(frames) => share.of_count(frames),
                Err(_) => 1,
            });
        let period = match (whole, cached.map(|frames| frames as u128)) {
            // A sequence that fits in whole is only the shorter for it.
            (Some(period), Some(frames)) if frames % period == 0 => Some(period),
            (_, Some(frames)) => Some(frames),
            (period, None) => period,
        };
        Self {
            resized: plan.size.is_some(),
            len: variant.template.bytes.len(),
            kernel: Kernel::new(plan),
            cached,
            left: cached.unwrap_or_default(),
            period,
        }
    }

    #[inline]
    fn fill(&mut self, frames: &mut [Frame], images: &Images, variant: usize) {
        let image = &images.of[variant];
        let prepare = |frame: &mut Frame| {
            if frame.tag == image.tag {
                frame.set_len(image.len);
            } else {
                images.prepare(image, frame);
            }
        };
        let Some(cached) = self.cached else {
            return self.kernel.run(frames, prepare);
        };
        let mut rest = frames;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(self.left.min(rest.len()));
            self.kernel.run(now, prepare);
            self.left -= now.len();
            rest = later;
            if self.left == 0 {
                self.kernel.restart();
                self.left = cached;
            }
        }
    }
}

fn lcm(a: u128, b: u128) -> Option<u128> {
    (a / gcd(a, b)).checked_mul(b)
}

/// Frames until all variants and the schedule are where they began.
fn period(variants: &[Running], schedule: &[usize]) -> Option<usize> {
    let mut rounds = 1;
    for (index, variant) in variants.iter().enumerate() {
        let turns = schedule.iter().filter(|turn| **turn == index).count() as u128;
        let period = variant.period?;
        rounds = lcm(rounds, period / gcd(period, turns))?;
    }
    usize::try_from(rounds.checked_mul(schedule.len() as u128)?).ok()
}

/// What buffers hold when a writer begins with them.
///
/// Variants that differ in a few bytes only (lengths and checksums, as in an IMIX) share the
/// longest one's bytes: a buffer that held one of them needs only those few to hold another.
#[derive(Debug)]
struct Images {
    of: Box<[Image]>,
    /// The tag of the first; the others' follow.
    first_tag: u32,
    /// The bytes that all of them begin as, if they share them.
    shared: Option<Box<[u8]>>,
}

#[derive(Debug)]
struct Image {
    tag: u32,
    len: usize,
    /// The template, if its bytes are its own.
    bytes: Box<[u8]>,
    /// The words that make it of the shared bytes or of another variant's, and where they go.
    patches: Box<[(usize, [u8; 2])]>,
}

/// The next tag that no writer has.
static NEXT_TAG: AtomicU32 = AtomicU32::new(1);

/// Tags for `count` variants, one after the other, never 0.
fn take_tags(count: usize) -> u32 {
    let count = u32::try_from(count).expect("a writer has fewer than 2^32 variants");
    loop {
        let first = NEXT_TAG.fetch_add(count, Ordering::Relaxed);
        if first != 0 && first.checked_add(count).is_some() {
            return first;
        }
    }
}

/// Words in which variants that share their bytes may differ.
const MOST_PATCHED: usize = 32;

impl Images {
    fn new(variants: &[Variant], plans: &[Plan]) -> Self {
        let templates: Vec<Vec<u8>> = variants
            .iter()
            .map(|variant| {
                let mut bytes = variant.template.bytes.clone();
                for fix in &variant.program.fixes {
                    write_full(&mut bytes, fix);
                }
                bytes
            })
            .collect();
        let words = differences(&templates, plans);
        let longest = templates.iter().max_by_key(|template| template.len());
        let shared = words
            .is_some()
            .then(|| longest.map(|bytes| bytes.as_slice().into()));
        let words = words.unwrap_or_default();
        let first_tag = take_tags(templates.len());
        let image = |((tag, template), plan): ((u32, &Vec<u8>), &Plan)| {
            let patch = |&at: &usize| {
                // The last word may begin one byte earlier; what a variant writes into every
                // frame anyway is no part of it.
                let at = at.min(template.len().checked_sub(2)?);
                let own = [template[at], template[at + 1]];
                (!plan.rewrites(template, at..at + 2)).then_some((at, own))
            };
            let inside = words.iter().filter(|at| **at < template.len());
            Image {
                tag,
                len: template.len(),
                bytes: template.as_slice().into(),
                patches: inside.filter_map(patch).collect(),
            }
        };
        let of = (first_tag..)
            .zip(&templates)
            .zip(plans)
            .map(image)
            .collect();
        Self {
            of,
            first_tag,
            shared: shared.flatten(),
        }
    }

    /// Whether `frame` holds one of these images.
    #[inline]
    fn know(&self, frame: &Frame) -> bool {
        (frame.tag.wrapping_sub(self.first_tag) as usize) < self.of.len()
    }

    /// Makes a frame that holds something else begin as `image`.
    fn prepare(&self, image: &Image, frame: &mut Frame) {
        let Some(shared) = &self.shared else {
            return begin(frame, image, &image.bytes);
        };
        if !self.know(frame) {
            begin(frame, image, shared);
        }
        frame.set_len(image.len);
        frame.tag = image.tag;
        let bytes = frame.bytes_mut();
        for (at, word) in &image.patches {
            bytes[*at..*at + 2].copy_from_slice(word);
        }
    }
}

/// Makes a frame that holds nothing of ours begin as `bytes`.
#[cold]
fn begin(frame: &mut Frame, image: &Image, bytes: &[u8]) {
    frame.flags = TxFlags::empty();
    frame.vlan = 0;
    frame.fill(bytes);
    frame.tag = image.tag;
}

/// The words in which several templates and what varies in them differ, by their first byte;
/// none if there are too many, or one template alone.
fn differences(templates: &[Vec<u8>], plans: &[Plan]) -> Option<Vec<usize>> {
    let [_, _, ..] = templates else { return None };
    let longest = templates.iter().max_by_key(|template| template.len())?;
    let mut differs = vec![false; longest.len()];
    for (template, plan) in templates.iter().zip(plans) {
        for (differs, (a, b)) in differs.iter_mut().zip(template.iter().zip(longest)) {
            *differs |= a != b;
        }
        for range in plan.touched(template) {
            differs[range].fill(true);
        }
    }
    let words = (0..differs.len()).step_by(2);
    let words = words.filter(|&at| differs[at] || differs.get(at + 1) == Some(&true));
    let words: Vec<_> = words.collect();
    (words.len() <= MOST_PATCHED).then_some(words)
}
