//! Capture files as ports and as readers: pcap and pcapng in, pcap (nanoseconds) out.

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, Endianness, TsResolution};
use perhop_units::{Duration, Instant};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What is wrong with a capture file.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// File.
        path: PathBuf,
        /// Error.
        source: std::io::Error,
    },
    /// Neither pcap nor pcapng.
    #[error("{path}: not a pcap or pcapng file")]
    NotACapture {
        /// File.
        path: PathBuf,
    },
    /// Damaged after some readable records.
    #[error("{path}: damaged after record {records}: {detail}")]
    Damaged {
        /// File.
        path: PathBuf,
        /// Records read before.
        records: u64,
        /// From the parser.
        detail: String,
    },
}

/// One captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Capture time since the epoch of the file's clock.
    pub at: Instant,
    /// Link type (LINKTYPE_*).
    pub link_type: u32,
    /// Captured bytes.
    pub data: Vec<u8>,
    /// Bytes on the link.
    pub original_len: u32,
}

enum Reader {
    Pcap(Box<PcapReader<BufReader<File>>>, u32),
    PcapNg(Box<PcapNgReader<BufReader<File>>>),
}

/// Reads a capture record by record. Ends after the first damaged record, which is reported.
pub struct CaptureReader {
    path: PathBuf,
    reader: Reader,
    records: u64,
    done: bool,
}

impl CaptureReader {
    /// Opens a file of either kind.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        let not = || CaptureError::NotACapture { path: path.to_owned() };
        let mut file = File::open(path).map_err(io)?;
        let mut magic = [0u8; 4];
        file.read_exact(&mut magic).map_err(|_| not())?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        let buffered = BufReader::with_capacity(1 << 16, file);
        let reader = if magic == [0x0a, 0x0d, 0x0d, 0x0a] {
            Reader::PcapNg(Box::new(PcapNgReader::new(buffered).map_err(|_| not())?))
        } else {
            let reader = PcapReader::new(buffered).map_err(|_| not())?;
            let link: u32 = reader.header().datalink.into();
            Reader::Pcap(Box::new(reader), link)
        };
        Ok(Self { path: path.to_owned(), reader, records: 0, done: false })
    }

    fn damaged(&mut self, detail: String) -> CaptureError {
        self.done = true;
        CaptureError::Damaged { path: self.path.clone(), records: self.records, detail }
    }
}

impl Iterator for CaptureReader {
    type Item = Result<Record, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            let record = match &mut self.reader {
                Reader::Pcap(reader, link) => match reader.next_packet()? {
                    Ok(p) => Ok(Some(Record {
                        at: Instant(p.timestamp.as_nanos() as u64),
                        link_type: *link,
                        original_len: p.orig_len,
                        data: p.data.into_owned(),
                    })),
                    Err(e) => Err(e.to_string()),
                },
                Reader::PcapNg(reader) => next_ng(reader)?,
            };
            match record {
                Ok(Some(record)) => {
                    self.records += 1;
                    return Some(Ok(record));
                }
                Ok(None) => {}
                Err(detail) => return Some(Err(self.damaged(detail))),
            }
        }
        None
    }
}

fn next_ng(reader: &mut PcapNgReader<BufReader<File>>) -> Option<Result<Option<Record>, String>> {
    let (interface, at, original_len, data) = match reader.next_block()? {
        Ok(Block::EnhancedPacket(p)) => {
            (p.interface_id, p.timestamp.as_nanos() as u64, p.original_len, p.data.into_owned())
        }
        Ok(Block::SimplePacket(p)) => (0, 0, p.original_len, p.data.into_owned()),
        Ok(_) => return Some(Ok(None)),
        Err(e) => return Some(Err(e.to_string())),
    };
    let link_type = reader.interfaces().get(interface as usize).map_or(1, |i| i.linktype.into());
    Some(Ok(Some(Record { at: Instant(at), link_type, data, original_len })))
}

/// Writes Ethernet frames to a pcap file with nanosecond stamps.
pub struct CaptureWriter {
    path: PathBuf,
    writer: PcapWriter<BufWriter<File>>,
}

impl CaptureWriter {
    /// Creates (or truncates) a file.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn create(path: &Path) -> Result<Self, CaptureError> {
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        let file = File::create(path).map_err(io)?;
        let header = PcapHeader {
            version_major: 2,
            version_minor: 4,
            ts_correction: 0,
            ts_accuracy: 0,
            snaplen: 65_535,
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::native(),
        };
        let writer = PcapWriter::with_header(BufWriter::new(file), header).map_err(|e| {
            CaptureError::Damaged { path: path.to_owned(), records: 0, detail: e.to_string() }
        })?;
        Ok(Self { path: path.to_owned(), writer })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// A full disk, mostly.
    pub fn write(&mut self, at: Instant, frame: &[u8]) -> Result<(), CaptureError> {
        let packet = PcapPacket::new(Duration(at.0).to_std(), frame.len() as u32, frame);
        self.writer.write_packet(&packet).map(|_| ()).map_err(|e| CaptureError::Damaged {
            path: self.path.clone(),
            records: 0,
            detail: e.to_string(),
        })
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// A full disk, mostly.
    pub fn finish(self) -> Result<(), CaptureError> {
        let path = self.path;
        self.writer.into_writer().flush().map_err(|source| CaptureError::Io { path, source })
    }
}
