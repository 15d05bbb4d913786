//! Captures: what arrives over a link, both ways in one file.

use crate::error::SimError;
use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use perhop_units::Instant;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One file.
pub(crate) struct Capture {
    path: PathBuf,
    writer: PcapWriter<BufWriter<File>>,
    failed: Option<io::Error>,
}

fn as_io(error: pcap_file::PcapError) -> io::Error {
    match error {
        pcap_file::PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl Capture {
    /// Starts `DIR/LINK.pcap`.
    pub(crate) fn create(directory: &Path, link: &str) -> Result<Self, SimError> {
        let path = directory.join(format!("{link}.pcap"));
        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            ts_resolution: pcap_file::TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let open = || {
            std::fs::create_dir_all(directory)?;
            let file = BufWriter::new(File::create(&path)?);
            PcapWriter::with_header(file, header).map_err(as_io)
        };
        match open() {
            Ok(writer) => Ok(Self { path, writer, failed: None }),
            Err(source) => Err(SimError::Capture { path, source }),
        }
    }

    /// Writes a frame. The first failure is kept for [`Capture::finish`].
    pub(crate) fn write(&mut self, at: Instant, frame: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let packet = PcapPacket::new(Duration::from_nanos(at.as_nanos()), frame.len() as u32, frame);
        if let Err(error) = self.writer.write_packet(&packet) {
            self.failed = Some(as_io(error));
        }
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Result<(), SimError> {
        let error = |source| SimError::Capture { path: self.path.clone(), source };
        if let Some(failed) = self.failed {
            return Err(error(failed));
        }
        let mut file = self.writer.into_writer();
        io::Write::flush(&mut file).map_err(error)
    }
}
