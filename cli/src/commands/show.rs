//! `rgen show`: a profile's frames as text or as pcap; nothing is sent.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use engine::frame::{FieldAt, FieldDef, Frames, Layer, Macs, Template, show};
use engine::profile;
use engine::stream::{FCS, Mode, Stream, WIRE_OVERHEAD};
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapTsResolution, PcapWriteError, PcapWriter};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::Manner;
use crate::args::Show;
use crate::error::{Error, Exit, with_causes};
use crate::output::grid::or_dash;
use crate::output::schema::Schema;
use crate::output::{self, text};
use crate::preview::{Preview, Shown};
use crate::profile::Profile;
use crate::session::quantity;
use crate::traffic::measure;
use crate::units::{self, scaled};

/// Addresses for frames that leave them open: nobody's.
const MACS: Macs = Macs {
    src: [0x02, 0, 0, 0, 0, 0x01],
    dst: [0x02, 0, 0, 0, 0, 0x02],
};

/// What `rgen show --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema: Schema,
    version: &'static str,
    profile: String,
    knobs: BTreeMap<String, String>,
    seed: u64,
    total_pps: Option<f64>,
    total_bps_l2: Option<f64>,
    total_bps_l1: Option<f64>,
    streams: Vec<StreamDocument>,
    /// Where the frames were written instead of here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pcap: Option<PcapDocument>,
    frames: Listed<'a>,
}

#[derive(Serialize)]
struct PcapDocument {
    file: String,
    frames: u64,
}

#[derive(Serialize)]
struct StreamDocument {
    name: String,
    mean_size: f64,
    pps: Option<f64>,
    measure: &'static str,
    varies: Vec<String>,
}

/// The first `count` frames, made as they are written.
struct Listed<'a> {
    view: &'a View,
    preview: RefCell<Preview>,
    count: u64,
}

impl Serialize for Listed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut preview = self.preview.borrow_mut();
        let mut list = serializer.serialize_seq(None)?;
        for _ in 0..self.count {
            let Some(shown) = preview.next() else { break };
            let hex = shown.bytes.iter().fold(String::new(), |mut hex, byte| {
                // Writing to a string cannot fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            });
            list.serialize_element(&FrameDocument {
                stream: &self.view.streams[shown.stream].name,
                at_ns: shown.at_ns,
                size: shown.bytes.len() + FCS,
                bytes: hex,
            })?;
        }
        list.end()
    }
}

#[derive(Serialize)]
struct FrameDocument<'a> {
    stream: &'a str,
    at_ns: u64,
    size: usize,
    bytes: String,
}

/// A profile's streams of one direction, at their rates.
struct View {
    profile: Profile,
    streams: Vec<Stream>,
    /// Frames a second; none where that is a share of a line nobody knows, or as fast as may be.
    pps: Vec<Option<f64>>,
}

impl View {
    fn new(args: &Show, name: &str) -> Result<Self, Error> {
        let profile = Profile::load(name, &args.knobs.tunables)?;
        let multiplier = quantity("--multiplier", units::multiplier(&args.multiplier))?;
        let mut streams = profile.streams(args.direction.into(), MACS)?;
        // Without a port there is no line to take a share of; rates then stay as they are.
        let is_paced = multiplier
            .load()
            .is_some_and(|load| load.apply(&mut streams, None).is_ok());
        let pps = streams
            .iter()
            .map(|stream| stream.pps(None).ok().filter(|_| is_paced))
            .collect();
        Ok(Self {
            profile,
            streams,
            pps,
        })
    }

    /// The frames, in the order of sending. Where a rate is not known, streams take turns.
    fn preview(&self, seed: u64) -> Result<Preview, Error> {
        let pps: Vec<f64> = self.pps.iter().map(|pps| pps.unwrap_or(1.0)).collect();
        Preview::new(&self.streams, &pps, seed)
    }

    /// Frames a second and bits a second on L2, all streams together.
    fn total(&self) -> Option<(f64, f64)> {
        let mut total = (0.0, 0.0);
        for (stream, pps) in self.streams.iter().zip(&self.pps) {
            let pps = (*pps)?;
            total.0 += pps;
            total.1 += pps * stream.frames.mean_size() * 8.0;
        }
        Some(total)
    }
}

/// Bits a second on L1.
fn l1((pps, bps_l2): (f64, f64)) -> f64 {
    bps_l2 + pps * (WIRE_OVERHEAD * 8) as f64
}

/// Shows what a profile sends, or which profiles there are.
pub(super) fn run(args: &Show, manner: Manner) -> Result<Exit, Error> {
    let Some(name) = &args.profile else {
        return list(manner);
    };
    let view = View::new(args, name)?;
    if let Some(file) = &args.pcap {
        let frames = args.count.unwrap_or(1000);
        return write_pcap(&view, file, frames, args.seed, manner);
    }
    let frames = args.count.unwrap_or(4);
    if manner.json {
        output::document(&document(&view, frames, args.seed)?)?;
    } else {
        let mut preview = view.preview(args.seed)?;
        output::to_reader(|out| {
            out.write_all(text::printable(&head(&view)).as_bytes())?;
            dump(&view, &mut preview, frames, manner.verbose, out)
        })?;
    }
    Ok(Exit::Done)
}

/// Which profiles there are.
fn list(manner: Manner) -> Result<Exit, Error> {
    #[derive(Serialize)]
    struct About {
        name: &'static str,
        what: &'static str,
        knobs: Vec<String>,
    }
    #[derive(Serialize)]
    struct Profiles {
        schema: Schema,
        version: &'static str,
        profiles: Vec<About>,
    }
    let about = profile::list().iter().map(|about| About {
        name: about.name,
        what: about.what,
        knobs: about
            .knobs
            .iter()
            .map(|knob| format!("{}={}", knob.name, knob.default))
            .collect(),
    });
    if manner.json {
        output::document(&Profiles {
            schema: Schema::Show,
            version: env!("CARGO_PKG_VERSION"),
            profiles: about.collect(),
        })?;
        return Ok(Exit::Done);
    }
    let mut table = text::table(&["PROFILE", "WHAT IT SENDS", "KNOBS"]);
    for about in about {
        table.add_row(vec![
            about.name.to_owned(),
            about.what.to_owned(),
            about.knobs.join(","),
        ]);
    }
    output::result(&format!("{}\n", text::render(&table)))?;
    Ok(Exit::Done)
}

fn document(view: &View, count: u64, seed: u64) -> Result<Document<'_>, Error> {
    let total = view.total();
    let streams = view.streams.iter().zip(&view.pps);
    Ok(Document {
        schema: Schema::Show,
        version: env!("CARGO_PKG_VERSION"),
        profile: view.profile.name().to_owned(),
        knobs: view.profile.knobs(),
        seed,
        total_pps: total.map(|(pps, _)| pps),
        total_bps_l2: total.map(|(_, bps)| bps),
        total_bps_l1: total.map(l1),
        streams: streams
            .map(|(stream, pps)| StreamDocument {
                name: stream.name.clone(),
                mean_size: stream.frames.mean_size(),
                pps: *pps,
                measure: measure(stream.measure),
                varies: varies(&stream.frames),
            })
            .collect(),
        pcap: None,
        frames: Listed {
            view,
            preview: RefCell::new(view.preview(seed)?),
            count,
        },
    })
}

/// Knobs, streams, and what they put on the wire.
fn head(view: &View) -> String {
    let mut page = view.profile.name().to_owned();
    if let Profile::BuiltIn(profile) = &view.profile {
        let about = profile.about();
        page.push_str(&format!(": {}\n", about.what));
        for (knob, (_, value)) in about.knobs.iter().zip(profile.knobs()) {
            let line = format!("  -t {}={value}", knob.name);
            page.push_str(&format!("{line:<22} {} ({})\n", knob.what, knob.takes));
        }
    } else {
        page.push('\n');
    }
    let mut table = text::table(&["STREAM", "SIZE", "RATE", "MODE", "MEASURE", "VARIES"]);
    for (stream, pps) in view.streams.iter().zip(&view.pps) {
        let varies = varies(&stream.frames);
        table.add_row(vec![
            stream.name.clone(),
            sizes(&stream.frames),
            or_dash(*pps, units::pps),
            mode(stream.mode),
            measure(stream.measure).to_owned(),
            if varies.is_empty() {
                "nothing".to_owned()
            } else {
                varies.join(", ")
            },
        ]);
    }
    page.push_str(&format!("\n{}\n", text::render(&table)));
    page.push_str(&match view.total() {
        Some(total) => format!(
            "on the wire: {}pps, L2 {}bps, L1 {}bps ({:.2} % of 10G, {:.2} % of 100G)\n\n",
            scaled(total.0),
            scaled(total.1),
            scaled(l1(total)),
            l1(total) / 1e10 * 100.0,
            l1(total) / 1e11 * 100.0,
        ),
        None => "on the wire: as fast as the port takes frames, or a share of its line\n\n".into(),
    });
    page
}

/// `64`, or `64..1518, mean 362`.
fn sizes(frames: &Frames) -> String {
    let sizes = frames
        .variants()
        .iter()
        .map(|variant| variant.template.size());
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    let mean = frames.mean_size();
    if least == most && (mean - least as f64).abs() < 0.5 {
        format!("{least} B")
    } else {
        format!("up to {most} B, mean {mean:.1}")
    }
}

fn mode(mode: Mode) -> String {
    match mode {
        Mode::Continuous => "continuous".to_owned(),
        Mode::Burst { frames } => format!("{frames} frames"),
        Mode::MultiBurst {
            frames,
            gap_ns,
            bursts,
        } => {
            let times = bursts.map_or(String::new(), |bursts| format!("{bursts} x "));
            let gap = units::nanoseconds(gap_ns as f64);
            format!("{times}{frames} frames, gap {gap}")
        }
    }
}

/// The variables of a stream's frames, in words.
fn varies(frames: &Frames) -> Vec<String> {
    let Some(first) = frames.variants().first() else {
        return Vec::new();
    };
    let mut parts: Vec<String> = first
        .program
        .vars
        .iter()
        .map(|var| {
            let places = first
                .program
                .writes
                .iter()
                .filter(|write| write.var == var.name);
            let names: Vec<String> = places
                .filter_map(|write| field_at(&first.template, write.offset))
                .collect();
            if names.is_empty() {
                var.name.clone()
            } else {
                names.join(" and ")
            }
        })
        .collect();
    if let Some(cached) = first.program.cached {
        parts.push(format!("cached {cached}"));
    }
    parts
}

/// The name of the field that begins at byte `offset`.
fn field_at(template: &Template, offset: usize) -> Option<String> {
    let layer = template
        .layers
        .iter()
        .find(|layer| (layer.offset..layer.offset + layer.len).contains(&offset))?;
    let bit = (offset - layer.offset) * 8;
    let fields = layer.layer.fields().iter();
    let def = fields
        .filter(|def| def.bit <= bit)
        .max_by_key(|def| (def.bit, def.bits))?;
    Some(format!("{}.{}", layer.layer.name(), def.name))
}

/// The first frames, header by header.
fn dump(
    view: &View,
    preview: &mut Preview,
    frames: u64,
    hex: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    for number in 1..=frames {
        let Some(shown) = preview.next() else { break };
        let stream = &view.streams[shown.stream];
        writeln!(
            out,
            "#{number}  {:.9} s  {}  {} B",
            shown.at_ns as f64 / 1e9,
            text::printable(&stream.name),
            shown.bytes.len() + FCS
        )?;
        out.write_all(layers(&stream.frames, &shown).as_bytes())?;
        if hex {
            out.write_all(hexdump(shown.bytes).as_bytes())?;
        }
    }
    Ok(())
}

/// A line for each header: `ipv4  src=16.0.0.4 dst=48.0.0.4 …`.
fn layers(frames: &Frames, shown: &Shown<'_>) -> String {
    let layers = &frames.variants()[shown.variant].template.layers;
    let frame = Template {
        bytes: shown.bytes.to_vec(),
        layers: layers.clone(),
    };
    let mut page = String::new();
    for at in layers.iter().filter(|at| at.layer != Layer::Raw) {
        let mut line = format!("    {:<6}", at.layer.name());
        for def in at
            .layer
            .fields()
            .iter()
            .filter(|def| is_whole(at.layer, def))
        {
            let field = FieldAt {
                bit: at.offset * 8 + def.bit,
                bits: def.bits,
                kind: def.kind,
            };
            let is_there =
                def.bit + def.bits <= at.len * 8 && field.bit + field.bits <= frame.bytes.len() * 8;
            if is_there {
                let value = frame.get(&field);
                let value = match def.name {
                    "type" | "checksum" => format!("{value:#06x}"),
                    _ => show(value, def.kind),
                };
                line.push_str(&format!(" {}={value}", def.name));
            }
        }
        page.push_str(&line);
        page.push('\n');
    }
    let headers = layers
        .iter()
        .filter(|at| at.layer != Layer::Raw)
        .map(|at| at.offset + at.len)
        .max()
        .unwrap_or(0);
    let payload = frame.bytes.len().saturating_sub(headers);
    page.push_str(&format!("    payload {payload} B\n"));
    page
}

/// Whether a field is no part of another one, as `dscp` is of `tos`.
fn is_whole(layer: Layer, field: &FieldDef) -> bool {
    let end = field.bit + field.bits;
    !layer.fields().iter().any(|other| {
        other.bits > field.bits && other.bit <= field.bit && end <= other.bit + other.bits
    })
}

/// Sixteen bytes a line, with their place and what is readable.
fn hexdump(bytes: &[u8]) -> String {
    let mut page = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let readable: String = chunk
            .iter()
            .map(|&byte| match byte {
                b' '..=b'~' => char::from(byte),
                _ => '.',
            })
            .collect();
        page.push_str(&format!(
            "    {:04x}  {:<47}  {readable}\n",
            line * 16,
            hex.join(" ")
        ));
    }
    page
}

fn write_pcap(
    view: &View,
    file: &Path,
    frames: u64,
    seed: u64,
    manner: Manner,
) -> Result<Exit, Error> {
    let failed = |source: io::Error| Error::File {
        verb: "write",
        file: file.to_owned(),
        source,
    };
    let is_stdout = file.as_os_str() == "-";
    if is_stdout && manner.json {
        return Err(Error::Usage {
            found: "--pcap - and --json: both would go to stdout".to_owned(),
            cure: "--pcap FILE --json".to_owned(),
        });
    }
    let out: Box<dyn Write> = if is_stdout {
        Box::new(io::stdout().lock())
    } else {
        Box::new(File::create(file).map_err(failed)?)
    };
    let mut preview = view.preview(seed)?;
    match frames_to_pcap(&mut preview, BufWriter::new(out), frames) {
        Ok(written) => {
            if manner.json {
                let mut document = document(view, 0, seed)?;
                document.pcap = Some(PcapDocument {
                    file: file.display().to_string(),
                    frames: written,
                });
                output::document(&document)?;
            } else if !is_stdout {
                output::result(&format!("wrote {written} frames to {}\n", file.display()))?;
            }
            Ok(Exit::Done)
        }
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Done),
        Err(error) => Err(failed(error)),
    }
}

fn frames_to_pcap<W: Write>(preview: &mut Preview, out: W, frames: u64) -> io::Result<u64> {
    let header = PcapHeader {
        snaplen: 65535,
        datalink: DataLink::ETHERNET,
        ts_resolution: PcapTsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    let mut pcap = PcapWriter::with_header(out, header).map_err(pcap_error)?;
    let mut written = 0;
    for _ in 0..frames {
        let Some(shown) = preview.next() else { break };
        let at = Duration::from_nanos(shown.at_ns);
        let len = u32::try_from(shown.bytes.len()).map_err(io::Error::other)?;
        let packet = PcapPacket::new(at, len, shown.bytes).map_err(io::Error::other)?;
        pcap.write_packet(&packet).map_err(pcap_error)?;
        written += 1;
    }
    pcap.into_inner().flush()?;
    Ok(written)
}

/// The writer's own errors, with what the kernel said kept as it was: its kind tells a closed pipe.
fn pcap_error(error: PcapWriteError) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(here) = cause {
        if let Some(kind) = here.downcast_ref::<io::Error>().map(io::Error::kind) {
            return io::Error::new(kind, with_causes(&error));
        }
        cause = here.source();
    }
    io::Error::other(error)
}
