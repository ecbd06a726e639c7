//! The files of a capture: pcapng, one after the other if that is wished.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::run::Copied;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::interface_statistics::{
    InterfaceStatisticsBlock, InterfaceStatisticsOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriteError, PcapNgWriter};

use super::Counts;
use crate::error::Error;

/// What a capture file says of a port.
#[derive(Debug, Clone)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) mac: [u8; 6],
    pub(crate) speed_bps: Option<u64>,
    pub(crate) filter: Option<String>,
    pub(crate) snaplen: u32,
}

/// When another file is begun, and how many stay.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rotation {
    pub(crate) bytes: Option<u64>,
    pub(crate) time: Option<Duration>,
    pub(crate) files: Option<u32>,
}

impl Rotation {
    /// Whether there is more than one file.
    pub(crate) fn is_asked(&self) -> bool {
        self.bytes.is_some() || self.time.is_some()
    }
}

/// A file that counts what is written to it.
struct Counted {
    out: Box<dyn Write + Send>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The files of a capture.
pub(crate) struct Files {
    path: PathBuf,
    interfaces: Vec<Interface>,
    rotation: Rotation,
    /// What a copy's time has to be added to, to be one since 1970.
    epoch: Duration,
    writer: Option<PcapNgWriter<Counted>>,
    begun: Instant,
    number: u32,
    kept: VecDeque<PathBuf>,
}

impl Files {
    /// The first file at `path`, `-` for stdout, with one interface for each port.
    pub(crate) fn begin(
        path: &Path,
        interfaces: Vec<Interface>,
        rotation: Rotation,
        epoch: Duration,
    ) -> Result<Self, Error> {
        let mut files = Self {
            path: path.to_owned(),
            interfaces,
            rotation,
            epoch,
            writer: None,
            begun: Instant::now(),
            number: 0,
            kept: VecDeque::new(),
        };
        files.next().map_err(|source| Error::File {
            verb: "write",
            file: path.to_owned(),
            source,
        })?;
        Ok(files)
    }

    /// Those that are there now.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.kept.iter();
        names.map(|path| path.display().to_string()).collect()
    }

    /// `FILE.00001.pcapng` of `FILE.pcapng`.
    fn name(&self) -> PathBuf {
        if !self.rotation.is_asked() {
            return self.path.clone();
        }
        let ending = self.path.extension().unwrap_or("pcapng".as_ref());
        let mut name = self.path.file_stem().unwrap_or_default().to_owned();
        name.push(format!(".{:05}.", self.number));
        name.push(ending);
        self.path.with_file_name(name)
    }

    /// Ends the file and begins the next.
    fn next(&mut self) -> io::Result<()> {
        self.end()?;
        self.number += 1;
        let path = self.name();
        let out: Box<dyn Write + Send> = if self.path == Path::new("-") {
            Box::new(io::stdout())
        } else {
            Box::new(BufWriter::new(File::create(&path)?))
        };
        let counted = Counted { out, bytes: 0 };
        self.writer = Some(begin(counted, &self.interfaces).map_err(unwritten)?);
        self.begun = Instant::now();
        self.kept.push_back(path);
        let most = self
            .rotation
            .files
            .map_or(usize::MAX, |files| files as usize);
        while self.kept.len() > most {
            if let Some(oldest) = self.kept.pop_front() {
                fs::remove_file(oldest)?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        match self.writer.take() {
            Some(writer) => writer.into_inner().flush(),
            None => Ok(()),
        }
    }

    /// Writes a frame.
    pub(crate) fn write(&mut self, copied: &Copied) -> io::Result<()> {
        if self.is_full() {
            self.next()?;
        }
        let block = EnhancedPacketBlock {
            interface_id: u32::try_from(copied.port).unwrap_or(0),
            timestamp: self.epoch + Duration::from_nanos(copied.at_ns),
            original_len: u32::try_from(copied.len).unwrap_or(u32::MAX),
            data: Cow::Borrowed(&copied.bytes),
            options: Vec::new(),
        };
        let writer = self.writer.as_mut();
        let writer = writer.ok_or_else(|| io::Error::other("there is no file any more"))?;
        writer.write_block(&block.into_block()).map_err(unwritten)?;
        Ok(())
    }

    fn is_full(&self) -> bool {
        let Rotation { bytes, time, .. } = self.rotation;
        let has = self
            .writer
            .as_ref()
            .map_or(0, |writer| writer.get_ref().bytes);
        bytes.is_some_and(|bytes| has >= bytes)
            || time.is_some_and(|time| self.begun.elapsed() >= time)
    }

    /// Hands on what was written so far: whoever reads it sees it soon.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.writer {
            Some(writer) => writer.get_mut().flush(),
            None => Ok(()),
        }
    }

    /// Writes what was counted, by port, and ends the last file.
    pub(crate) fn finish(mut self, counts: &[Counts], at_ns: u64) -> io::Result<()> {
        let timestamp = self.epoch + Duration::from_nanos(at_ns);
        if let Some(writer) = &mut self.writer {
            for (number, counts) in (0..).zip(counts) {
                let block = InterfaceStatisticsBlock {
                    interface_id: number,
                    timestamp,
                    options: vec![
                        InterfaceStatisticsOption::IsbIfRecv(counts.seen),
                        InterfaceStatisticsOption::IsbIfDrop(counts.missed),
                        InterfaceStatisticsOption::IsbFilterAccept(counts.seen - counts.filtered),
                        InterfaceStatisticsOption::IsbOsDrop(counts.dropped),
                        InterfaceStatisticsOption::IsbUsrDeliv(counts.written),
                    ],
                };
                writer.write_block(&block.into_block()).map_err(unwritten)?;
            }
        }
        self.end()
    }
}

fn unwritten(error: PcapNgWriteError) -> io::Error {
    match error {
        PcapNgWriteError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

fn begin(
    out: Counted,
    interfaces: &[Interface],
) -> Result<PcapNgWriter<Counted>, PcapNgWriteError> {
    let section = SectionHeaderBlock {
        options: vec![SectionHeaderOption::UserApplication(Cow::Borrowed(
            concat!("rgen ", env!("CARGO_PKG_VERSION")),
        ))],
        ..SectionHeaderBlock::default()
    };
    let mut writer = PcapNgWriter::with_section_header(out, section)?;
    for interface in interfaces {
        let nanoseconds = InterfaceTsResolution::new(false, 9).expect("10^-9 is a resolution");
        let mut options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(&interface.name)),
            InterfaceDescriptionOption::IfDescription(Cow::Borrowed(&interface.device)),
            InterfaceDescriptionOption::IfMacAddr(Cow::Borrowed(&interface.mac)),
            InterfaceDescriptionOption::IfTsResol(nanoseconds),
        ];
        options.extend(interface.speed_bps.map(InterfaceDescriptionOption::IfSpeed));
        let filter = interface.filter.as_ref().map(|filter| {
            // A string of libpcap's (pcapng §4.2: a code of zero comes first).
            let bytes = [&[0], filter.as_bytes()].concat();
            InterfaceDescriptionOption::IfFilter(Cow::Owned(bytes))
        });
        options.extend(filter);
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: interface.snaplen,
            options,
        };
        writer.write_block(&block.into_block())?;
    }
    Ok(writer)
}
