//! Frames as capture files, for other tools to read.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapTsResolution, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriteError};
use pcap_file::{DataLink, Endianness};

/// A kind of capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The old one, with nanoseconds.
    Pcap,
    /// The new one: nanoseconds, the port's name, a comment at each frame.
    PcapNg,
}

impl Format {
    /// The kind for a file of this name: `.pcap` is the old one, anything else the new one.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("pcap") => Self::Pcap,
            _ => Self::PcapNg,
        }
    }
}

/// Why a capture file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the capture: {what}")]
pub struct CaptureError {
    what: String,
}

impl CaptureError {
    fn new(error: impl std::error::Error) -> Self {
        let mut what = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            what = format!("{what}: {inner}");
            source = inner.source();
        }
        Self { what }
    }
}

/// A capture file that is being written. Frames are written without FCS.
pub struct Capture<W: Write>(Inner<W>);

enum Inner<W: Write> {
    Pcap(PcapWriter<W>),
    PcapNg(PcapNgWriter<W>),
}

/// More than any frame: nothing is cut off.
const SNAPLEN: u32 = 65_535;

impl<W: Write> Capture<W> {
    /// Begins a capture of the frames of a port called `port`.
    ///
    /// # Errors
    /// `out` could not be written to.
    pub fn new(out: W, format: Format, port: &str) -> Result<Self, CaptureError> {
        let inner = match format {
            Format::Pcap => {
                let header = PcapHeader {
                    version_major: 2,
                    version_minor: 4,
                    ts_correction: 0,
                    ts_accuracy: 0,
                    snaplen: SNAPLEN,
                    datalink: DataLink::ETHERNET,
                    ts_resolution: PcapTsResolution::NanoSecond,
                    endianness: Endianness::Little,
                };
                Inner::Pcap(PcapWriter::with_header(out, header).map_err(CaptureError::new)?)
            }
            Format::PcapNg => Inner::PcapNg(begin(out, port).map_err(CaptureError::new)?),
        };
        Ok(Self(inner))
    }

    /// Writes a frame that is sent `at_ns` nanoseconds after the start, with a comment where the
    /// format has any.
    ///
    /// # Errors
    /// The file could not be written to.
    pub fn write(&mut self, at_ns: u64, bytes: &[u8], comment: &str) -> Result<(), CaptureError> {
        let timestamp = Duration::from_nanos(at_ns);
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        match &mut self.0 {
            Inner::Pcap(writer) => {
                let packet = PcapPacket::new(timestamp, len, bytes).map_err(CaptureError::new)?;
                writer.write_packet(&packet).map_err(CaptureError::new)?;
            }
            Inner::PcapNg(writer) => {
                let comment = CommonOption::Comment(Cow::Borrowed(comment));
                let block = EnhancedPacketBlock {
                    interface_id: 0,
                    timestamp,
                    original_len: len,
                    data: Cow::Borrowed(bytes),
                    options: vec![EnhancedPacketOption::Common(comment)],
                };
                writer
                    .write_block(&block.into_block())
                    .map_err(CaptureError::new)?;
            }
        }
        Ok(())
    }

    /// Ends the capture; what it was written to.
    ///
    /// # Errors
    /// The rest could not be written.
    pub fn finish(self) -> Result<W, CaptureError> {
        let mut out = match self.0 {
            Inner::Pcap(writer) => writer.into_inner(),
            Inner::PcapNg(writer) => writer.into_inner(),
        };
        out.flush().map_err(CaptureError::new)?;
        Ok(out)
    }
}

fn begin<W: Write>(out: W, port: &str) -> Result<PcapNgWriter<W>, PcapNgWriteError> {
    let mut writer = PcapNgWriter::with_endianness(out, Endianness::Little)?;
    let nanoseconds = InterfaceTsResolution::new(false, 9).expect("10^-9 is a resolution");
    let interface = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: SNAPLEN,
        options: vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(port)),
            InterfaceDescriptionOption::IfTsResol(nanoseconds),
        ],
    };
    writer.write_block(&interface.into_block())?;
    Ok(writer)
}
