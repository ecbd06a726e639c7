//! Streams and frames in words, nothing sent.

use std::fmt::Write as _;

use hugemem::{Memory, MemoryError, MemoryRequest, PageSize, Pages, Pool, PoolError};

use crate::field::{FieldError, Fix, Order, RenderError, Share, Values, Write, Writer, render};
use crate::frame::{FieldKind, Frames, Layer, Template, Variant, show};
use crate::stream::{FCS, Measure, Mode, Rate, Stream};

/// Why frames cannot be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShowError {
    /// Their program cannot be compiled.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// There is no memory to write them in.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// There is no pool to write them in.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// They do not fit.
    #[error(transparent)]
    Render(#[from] RenderError),
}

/// The first `count` frames that one core sends of `frames`, as bytes without FCS: written by the
/// same [`Writer`] that a run uses.
///
/// # Errors
/// The program cannot be compiled, or there is no memory.
pub fn preview(frames: &Frames, seed: u64, count: usize) -> Result<Vec<Vec<u8>>, ShowError> {
    let mut writer = Writer::compile(frames, seed, Share::ALL)?;
    let capacity = writer.max_len().max(1);
    let request = MemoryRequest {
        bytes: Pool::footprint(count.max(1), capacity),
        pages: Pages::Only(PageSize::Base4K),
        node: None,
        spaces: Vec::new(),
    };
    let pool = Pool::new(&Memory::new(&request)?, count, capacity)?;
    let frames = render(&mut writer, &pool, count)?;
    Ok(frames.iter().map(|frame| frame.bytes().to_vec()).collect())
}

/// A stream in words: what its frames are made of, what varies and how far, when it repeats.
///
/// # Errors
/// The program cannot be compiled.
pub fn describe(stream: &Stream) -> Result<String, FieldError> {
    let writer = Writer::compile(&stream.frames, 0, Share::ALL)?;
    let mut text = String::new();
    line(&mut text, "stream", &stream.name);
    line(&mut text, "rate", &rate(stream));
    line(&mut text, "sends", &mode(stream));
    line(
        &mut text,
        "measures",
        match stream.measure {
            Measure::None => "nothing of its own",
            Measure::Count => "frames, loss, duplicates, reordering",
            Measure::Latency => "frames, loss, duplicates, reordering, latency",
        },
    );
    let repeats = match writer.period() {
        Some(1) => "every frame is the same".into(),
        Some(frames) => format!("after {frames} frames"),
        None => "never (random, or too long to count)".into(),
    };
    line(&mut text, "repeats", &repeats);
    if let [first, rest @ ..] = stream.frames.variants() {
        line(&mut text, "frame", &outline(&first.template));
        for header in headers(&first.template) {
            line(&mut text, "", &header);
        }
        if !rest.is_empty() {
            line(&mut text, "turns", &turns(&stream.frames));
        }
        for what in varies(first) {
            line(&mut text, "varies", &what);
        }
    }
    Ok(text)
}

fn line(text: &mut String, label: &str, what: &str) {
    writeln!(text, "{label:<10}{what}").expect("a string takes any text");
}

fn rate(stream: &Stream) -> String {
    let rate = match stream.rate {
        Rate::Pps(pps) => format!("{pps} frames/s"),
        Rate::L1Bps(bps) => format!("{bps} bit/s on the line"),
        Rate::L2Bps(bps) => format!("{bps} bit/s of frames"),
        Rate::LinePercent(share) => format!("{share} % of the line"),
    };
    if stream.scaled {
        format!("{rate}, scaled by -m")
    } else {
        format!("{rate}, always")
    }
}

fn mode(stream: &Stream) -> String {
    let what = match stream.mode {
        Mode::Continuous => "continuously".into(),
        Mode::Burst { frames } => format!("{frames} frames"),
        Mode::MultiBurst {
            frames,
            gap_ns,
            bursts,
        } => {
            let bursts = bursts.map_or("any number of".into(), |bursts| bursts.to_string());
            format!("{bursts} bursts of {frames} frames, {gap_ns} ns apart")
        }
    };
    let what = match (stream.start_delay_ns, stream.waits) {
        (0, false) => what,
        (0, true) => format!("{what}, after the one before it"),
        (delay, false) => format!("{what}, from {delay} ns on"),
        (delay, true) => format!("{what}, {delay} ns after the one before it"),
    };
    match (&stream.next, stream.loops) {
        (None, _) => what,
        (Some(next), None) => format!("{what}; then {next}"),
        (Some(next), Some(loops)) => {
            format!("{what}; then {next}, until it was sent {loops} times")
        }
    }
}

/// The headers' names, and the size.
fn outline(template: &Template) -> String {
    let names: Vec<_> = template.layers.iter().map(|at| at.layer.name()).collect();
    format!("{}, {} bytes with FCS", names.join(" / "), template.size())
}

/// What is worth showing of a header.
const SHOWN: [&str; 19] = [
    "src",
    "dst",
    "type",
    "id",
    "pcp",
    "label",
    "tc",
    "ttl",
    "hop",
    "sport",
    "dport",
    "flags",
    "op",
    "sender_ip",
    "target_ip",
    "key",
    "vni",
    "teid",
    "dscp",
];

fn headers(template: &Template) -> Vec<String> {
    let mut lines = Vec::new();
    for at in &template.layers {
        let mut text = at.layer.name().to_owned();
        for def in at
            .layer
            .fields()
            .iter()
            .filter(|def| SHOWN.contains(&def.name))
        {
            if def.bit + def.bits > at.len * 8 {
                continue;
            }
            let value = template.bits(at.offset * 8 + def.bit, def.bits);
            let value = match (def.kind, def.name) {
                (FieldKind::Number, "type" | "flags") => format!("{value:#x}"),
                (kind, _) => show(value, kind),
            };
            write!(text, " {} {value}", def.name).expect("a string takes any text");
        }
        if at.layer == Layer::Raw {
            write!(text, " {} bytes", at.len).expect("a string takes any text");
        }
        lines.push(text);
    }
    let headers = template.layers.last().map_or(0, |at| at.offset + at.len);
    match template.bytes.len() - headers {
        0 => {}
        rest => lines.push(format!("payload {rest} bytes")),
    }
    lines
}

fn turns(frames: &Frames) -> String {
    let sizes: Vec<_> = frames
        .schedule()
        .iter()
        .map(|&turn| frames.variants()[turn].template.size().to_string())
        .collect();
    format!("{} bytes, mean {:.2}", sizes.join(" "), frames.mean_size())
}

fn varies(variant: &Variant) -> Vec<String> {
    let (template, program) = (&variant.template, &variant.program);
    let mut lines = Vec::new();
    for var in &program.vars {
        let mut places: Vec<_> = program
            .writes
            .iter()
            .filter(|write| {
                write.var == var.name || write.var.starts_with(&format!("{}.", var.name))
            })
            .map(|write| place(template, write))
            .collect();
        let is_size = program.size.as_ref() == Some(&var.name);
        if is_size {
            places.insert(0, ("frame size".into(), FieldKind::Number));
        }
        let kind = places.first().map_or(FieldKind::Number, |(_, kind)| *kind);
        let names: Vec<_> = places.into_iter().map(|(name, _)| name).collect();
        let extra = if is_size { FCS as u64 } else { 0 };
        lines.push(format!(
            "{}: {}",
            names.join(", "),
            values(&var.values, kind, extra)
        ));
    }
    let fixes: Vec<_> = program
        .fixes
        .iter()
        .map(|fix| checksum(template, fix))
        .collect();
    if !fixes.is_empty() {
        lines.push(format!("checksums: {}", fixes.join(", ")));
    }
    if let Some(frames) = program.cached {
        lines.push(format!(
            "computed once: {frames} frames, sent again and again"
        ));
    }
    lines
}

/// The name of the field that a write goes to, where it is one.
fn place(template: &Template, write: &Write) -> (String, FieldKind) {
    let mut seen = std::collections::HashMap::new();
    for at in &template.layers {
        let number = seen.entry(at.layer).or_insert(0_usize);
        for def in at.layer.fields() {
            let bit = at.offset * 8 + def.bit;
            let field = crate::frame::FieldAt {
                bit,
                bits: def.bits,
                kind: def.kind,
            };
            let same = Write::field(write.var.as_str(), &field);
            if (same.offset, same.width, same.mask) == (write.offset, write.width, write.mask) {
                let name = match *number {
                    0 => format!("{}.{}", at.layer.name(), def.name),
                    n => format!("{}[{n}].{}", at.layer.name(), def.name),
                };
                return (name, def.kind);
            }
        }
        *number += 1;
    }
    (
        format!("bytes {}..{}", write.offset, write.offset + write.width),
        FieldKind::Number,
    )
}

fn values(values: &Values, kind: FieldKind, extra: u64) -> String {
    let one = |value: u64| show(u128::from(value + extra), kind);
    let few = |values: &[u64]| {
        let some: Vec<_> = values.iter().take(8).map(|value| one(*value)).collect();
        let more = if values.len() > 8 { ", …" } else { "" };
        format!("{}{more} ({} values)", some.join(", "), values.len())
    };
    match values {
        Values::Step {
            order,
            min,
            max,
            init,
            step,
        } => {
            let way = if *order == Order::Inc { "up" } else { "down" };
            let from = init.map_or(String::new(), |init| format!(" from {}", one(init)));
            format!("{}..{}, {way} by {step}{from}", one(*min), one(*max))
        }
        Values::Random { min, max } => format!("{}..{}, random", one(*min), one(*max)),
        Values::RepeatableRandom {
            min, max, limit, ..
        } => {
            format!(
                "{}..{}, {limit} random values again and again",
                one(*min),
                one(*max)
            )
        }
        Values::List { values, .. } => few(values),
        Values::RandomOf(values) => format!("{}, random", few(values)),
        Values::Tuple {
            ip_min,
            ip_max,
            port_min,
            port_max,
            limit_flows,
        } => {
            let limit = match limit_flows {
                0 => String::new(),
                limit => format!(", {limit} flows"),
            };
            let (first, last) = (one((*ip_min).into()), one((*ip_max).into()));
            format!("{first}..{last} first, then ports {port_min}..{port_max}{limit}")
        }
    }
}

fn checksum(template: &Template, fix: &Fix) -> String {
    let at = template
        .layers
        .iter()
        .find(|layer| layer.offset == fix.at());
    at.map_or_else(
        || format!("at {}", fix.at()),
        |at| at.layer.name().to_owned(),
    )
}
