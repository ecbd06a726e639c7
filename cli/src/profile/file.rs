//! From a profile's TOML to streams, with the place of whatever is wrong.

use std::collections::BTreeSet;
use std::iter;
use std::ops::Range;

use engine::field::Program;
use engine::frame::{Frames, MAX_SIZE, MIN_SIZE, Macs, Variant, build, text};
use engine::run::{ChainError, check_chains};
use engine::stream::{Measure, Mode, Rate, Stream};
use toml::Spanned;

use super::diagnostic::Text;
use super::schema::{self, File};
use super::size::{self, Sizes};
use super::vary;
use crate::error::Error;
use crate::require::{Criterion, Relation};
use crate::suggest;
use crate::units;

/// A profile of one's own, checked.
#[derive(Debug)]
pub(crate) struct OwnProfile {
    text: Text,
    file: File,
    criteria: Vec<Criterion>,
}

/// The word at the end of a frame that asks for a stamp, as if it were a header.
const STAMP: &str = "stamp";

impl OwnProfile {
    /// Reads TOML, and checks everything that does not depend on ports.
    pub(super) fn parse(text: Text) -> Result<Self, Error> {
        let file: File = toml::from_str(&text.text).map_err(|error| syntax(&text, &error))?;
        if file.stream.is_empty() {
            return Err(text.error_anywhere(
                "there is no stream in it: write [[stream]] with name, frame and rate",
            ));
        }
        check_names(&text, &file)?;
        let criteria = criteria(&text, &file)?;
        let profile = Self {
            text,
            file,
            criteria,
        };
        // What cannot be built for one port cannot be built for any.
        let nobody = Macs {
            src: [0; 6],
            dst: [0; 6],
        };
        for port in 0..2 {
            profile.streams(port, nobody)?;
        }
        Ok(profile)
    }

    /// Where it came from.
    pub(crate) fn name(&self) -> &str {
        &self.text.name
    }

    /// What it says.
    pub(crate) fn source(&self) -> &str {
        &self.text.text
    }

    /// The ports that it names: the sending one, the receiving one.
    pub(crate) fn ports(&self) -> Option<(&str, &str)> {
        let ports = self.file.ports.as_ref()?;
        let rx = ports.rx.as_ref().unwrap_or(&ports.tx);
        Some((ports.tx.get_ref(), rx.get_ref()))
    }

    /// Its `[require]`.
    pub(crate) fn criteria(&self) -> &[Criterion] {
        &self.criteria
    }

    /// What port number `port` sends.
    pub(crate) fn streams(&self, port: usize, macs: Macs) -> Result<Vec<Stream>, Error> {
        let mut streams = Vec::new();
        for stream in &self.file.stream {
            if let Some(direction) = &stream.direction {
                if *direction.get_ref() > 1 {
                    return Err(self.text.error(
                        direction.span(),
                        "a direction is 0 (even ports) or 1 (odd ports)",
                        None,
                    ));
                }
                if usize::from(*direction.get_ref()) != port % 2 {
                    continue;
                }
            }
            streams.push(self.stream(stream, macs)?);
        }
        check_chains(&streams)
            .map_err(|(number, error)| self.no_chain(&streams[number].name, &error, &streams))?;
        Ok(streams)
    }

    /// The stream called `name` breaks a chain of `streams`.
    fn no_chain(&self, name: &str, error: &ChainError, streams: &[Stream]) -> Error {
        let entry = self
            .file
            .stream
            .iter()
            .find(|one| one.name.get_ref() == name);
        let entry = entry.expect("streams come from the file");
        let (span, help) = match error {
            ChainError::Unknown { next } => {
                let names: Vec<&str> = streams.iter().map(|stream| &*stream.name).collect();
                let span = entry.next.as_ref().map(Spanned::span);
                (span, Some(suggest::did_you_mean(next, &names)))
            }
            ChainError::Endless => {
                let help = "give it a burst = FRAMES, and bursts = N with a gap";
                (None, Some(help.to_owned()))
            }
            ChainError::Forgotten => {
                let help = format!("write next = \"{name}\" with the one before it");
                (None, Some(help))
            }
            ChainError::Twice => {
                let help = "write waits = true with what follows another, and name it once";
                (None, Some(help.to_owned()))
            }
            ChainError::LoopsOfNothing => (entry.loops.as_ref().map(Spanned::span), None),
            _ => (None, None),
        };
        let span = span.unwrap_or_else(|| entry.name.span());
        self.text.error(span, &error.to_string(), help.as_deref())
    }

    fn stream(&self, entry: &schema::Stream, macs: Macs) -> Result<Stream, Error> {
        let (headers, stamped) = without_stamp(entry.frame.get_ref());
        let frames = self.frames(entry, headers, macs)?;
        let measure = self.measure(entry, stamped)?;
        let mut stream = Stream::new(entry.name.get_ref().clone(), frames);
        if let Some(rate) = &entry.rate {
            stream.rate = self.rate(rate)?;
        }
        stream.measure = measure;
        stream.scaled = !entry.fixed_rate.unwrap_or(measure == Measure::Latency);
        stream.mode = self.mode(entry)?;
        if let Some(delay) = &entry.delay {
            stream.start_delay_ns = self.time_ns(delay)?;
        }
        stream.next = entry.next.as_ref().map(|next| next.get_ref().clone());
        stream.waits = entry.waits.unwrap_or_default();
        if let Some(loops) = &entry.loops {
            if *loops.get_ref() == 0 {
                let what = "no loops: leave it out for any number of them";
                return Err(self.text.error(loops.span(), what, None));
            }
            stream.loops = Some(*loops.get_ref());
        }
        Ok(stream)
    }

    fn frames(&self, entry: &schema::Stream, headers: &str, macs: Macs) -> Result<Frames, Error> {
        // The frame's text begins one byte, the quote, after its span does.
        let frame_span = entry.frame.span();
        let inside = |at: &Range<usize>| {
            frame_span.start + self.quote(&frame_span) + at.start
                ..frame_span.start + self.quote(&frame_span) + at.end
        };
        let spec = text::parse(headers).map_err(|error| {
            let help = error.remedy();
            self.text.error(
                inside(&error.at),
                &error.problem.to_string(),
                help.as_deref(),
            )
        })?;
        let sizes = match &entry.size {
            None => Sizes::Natural,
            Some(size) => Sizes::parse(size.get_ref())
                .map_err(|why| self.text.error(size.span(), &why, None))?,
        };
        let size_span = entry.size.as_ref().map_or(frame_span, Spanned::span);
        let mut variants = Vec::new();
        for size in sizes.of_templates() {
            if let Some(size) = size.filter(|size| *size < MIN_SIZE) {
                let what =
                    format!("a frame has {MIN_SIZE} to {MAX_SIZE} bytes with FCS, not {size}");
                return Err(self.text.error(size_span, &what, None));
            }
            let mut spec = spec.clone();
            spec.size = size.or(spec.size);
            let mut template = build(&spec, macs)
                .map_err(|error| self.text.error(size_span.clone(), &error.to_string(), None))?;
            let program = self.program(entry, &sizes, &mut template, &size_span)?;
            variants.push(Variant { template, program });
        }
        Ok(Frames::scheduled(variants, sizes.schedule()))
    }

    fn program(
        &self,
        entry: &schema::Stream,
        sizes: &Sizes,
        template: &mut engine::frame::Template,
        size_span: &Range<usize>,
    ) -> Result<Program, Error> {
        let mut program = Program {
            cached: entry.cached,
            ..Program::default()
        };
        for (name, values) in &entry.vary {
            let field = template.field(name.get_ref()).map_err(|error| {
                let help = error.remedy();
                self.text
                    .error(name.span(), &error.to_string(), help.as_deref())
            })?;
            vary::add(
                &mut program,
                template,
                name.get_ref(),
                &field,
                values.get_ref(),
            )
            .map_err(|error| self.text.error(values.span(), &error.to_string(), None))?;
        }
        if let Sizes::Random(range) = sizes {
            let headers = template.layers.last().map_or(0, |at| at.offset + at.len);
            let least = headers + engine::stream::FCS;
            if range.start < least.max(engine::frame::MIN_SIZE) {
                let what = format!(
                    "the smallest frame has {} bytes, and its headers need {} with FCS",
                    range.start,
                    least.max(engine::frame::MIN_SIZE)
                );
                return Err(self.text.error(size_span.clone(), &what, None));
            }
            size::vary(&mut program, template, range);
        }
        template.correct();
        program.correct(template);
        Ok(program)
    }

    fn measure(&self, entry: &schema::Stream, stamped: bool) -> Result<Measure, Error> {
        const KNOWN: [&str; 3] = ["none", "count", "latency"];
        let Some(measure) = &entry.measure else {
            return Ok(if stamped {
                Measure::Latency
            } else {
                Measure::None
            });
        };
        match measure.get_ref().as_str() {
            "none" if !stamped => Ok(Measure::None),
            "count" => Ok(Measure::Count),
            "latency" => Ok(Measure::Latency),
            "none" => Err(self.text.error(
                measure.span(),
                "the frame has a stamp: it is measured",
                Some("take `/ stamp` off the frame"),
            )),
            other => {
                let near = suggest::did_you_mean(other, &KNOWN);
                let what = format!("`{other}` is nothing to measure: none, count and latency are");
                Err(self.text.error(measure.span(), &what, Some(&near)))
            }
        }
    }

    fn rate(&self, rate: &Spanned<String>) -> Result<Rate, Error> {
        let bad = |what: &str, help: Option<&str>| self.text.error(rate.span(), what, help);
        let parsed = units::rate(rate.get_ref())
            .map_err(|error| bad(&error.to_string(), Some(&error.remedy())))?;
        match parsed.of_stream() {
            Some(Rate::Pps(pps)) if pps <= 0.0 => Err(bad("a rate of nothing", None)),
            Some(rate) => Ok(rate),
            None => Err(bad(
                "a stream cannot be as fast as it may",
                Some("give it a rate, and run it with -m max"),
            )),
        }
    }

    fn mode(&self, entry: &schema::Stream) -> Result<Mode, Error> {
        let needs_burst = |span: Range<usize>, what: &str| {
            let what = format!("{what} without a burst");
            Err(self.text.error(span, &what, Some("add burst = FRAMES")))
        };
        let Some(burst) = &entry.burst else {
            return match (&entry.gap, &entry.bursts) {
                (Some(gap), _) => needs_burst(gap.span(), "a gap"),
                (None, Some(bursts)) => needs_burst(bursts.span(), "a number of bursts"),
                (None, None) => Ok(Mode::Continuous),
            };
        };
        let frames = *burst.get_ref();
        if frames == 0 {
            return Err(self.text.error(burst.span(), "a burst of no frames", None));
        }
        match (&entry.gap, &entry.bursts) {
            (None, None) => Ok(Mode::Burst { frames }),
            (None, Some(bursts)) => Err(self.text.error(
                bursts.span(),
                "several bursts without a gap are one",
                Some("add gap = \"1ms\""),
            )),
            (Some(gap), bursts) => Ok(Mode::MultiBurst {
                frames,
                gap_ns: self.time_ns(gap)?,
                bursts: bursts.as_ref().map(|bursts| *bursts.get_ref()),
            }),
        }
    }

    fn time_ns(&self, time: &Spanned<String>) -> Result<u64, Error> {
        let bad = |what: &str, help: Option<&str>| self.text.error(time.span(), what, help);
        let parsed = units::duration(time.get_ref())
            .map_err(|error| bad(&error.to_string(), Some(&error.remedy())))?;
        u64::try_from(parsed.as_nanos()).map_err(|_| bad("that is too long", None))
    }

    /// How many quotes a TOML text begins with: 3 or 1.
    fn quote(&self, span: &Range<usize>) -> usize {
        let text = self.text.text.get(span.clone()).unwrap_or_default();
        if text.starts_with("\"\"\"") || text.starts_with("'''") {
            3
        } else {
            1
        }
    }
}

/// The frame without a `/ stamp` at its end, and whether there was one.
fn without_stamp(frame: &str) -> (&str, bool) {
    match frame.rsplit_once('/') {
        Some((headers, last)) if last.trim().eq_ignore_ascii_case(STAMP) => (headers, true),
        _ => (frame, false),
    }
}

/// Names of streams and ports stand in results: each stream has its own, and none plays with the
/// terminal.
fn check_names(text: &Text, file: &File) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for name in file.stream.iter().map(|stream| &stream.name) {
        if name.get_ref().trim().is_empty() {
            return Err(text.error(name.span(), "a stream without a name", None));
        }
        if !seen.insert(name.get_ref()) {
            return Err(text.error(name.span(), "another stream has this name", None));
        }
    }
    let ports = file.ports.iter();
    let ports = ports.flat_map(|ports| iter::once(&ports.tx).chain(&ports.rx));
    for name in file.stream.iter().map(|stream| &stream.name).chain(ports) {
        if name.get_ref().contains(char::is_control) {
            let what = "there is a control character in this name";
            return Err(text.error(name.span(), what, None));
        }
    }
    Ok(())
}

/// `loss = "0"` and `latency = { p99 = "50us" }`: at most that.
fn criteria(text: &Text, file: &File) -> Result<Vec<Criterion>, Error> {
    let mut criteria = Vec::new();
    for (name, limit) in &file.require {
        let mut add = |name: &str, value: &toml::Value| {
            let limit_text = match value {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let relation = match name {
                "tx_pps" | "rx_pps" => Relation::AtLeast,
                _ => Relation::AtMost,
            };
            match Criterion::new(name, relation, &limit_text) {
                Ok(criterion) => {
                    criteria.push(criterion);
                    Ok(())
                }
                Err(error) => {
                    let help = error.cure();
                    Err(text.error(limit.span(), &error.to_string(), help.as_deref()))
                }
            }
        };
        match limit.get_ref() {
            toml::Value::Table(table) if name.get_ref() == "latency" => {
                for (name, value) in table {
                    add(name, value)?;
                }
            }
            value => add(name.get_ref(), value)?,
        }
    }
    Ok(criteria)
}

/// serde's own errors, with the nearest known key where one was slipped.
fn syntax(text: &Text, error: &toml::de::Error) -> Error {
    let message = error.message().trim_end();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let help = match (message.starts_with("unknown field"), quoted.split_first()) {
        (true, Some((typed, known))) => {
            suggest::nearest(typed, known).map(|near| format!("did you mean `{near}`?"))
        }
        _ => None,
    };
    match error.span() {
        Some(span) => text.error(span, message, help.as_deref()),
        None => text.error_anywhere(message),
    }
}
