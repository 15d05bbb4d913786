//! The mix as a capture, and the labels of its flows beside it.

use crate::error::AppError;
use perhop_io::pcap::CaptureWriter;
use perhop_traffic::labelled::Datagram;
use perhop_units::Instant;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A flow's label, one a line.
#[derive(Debug, Serialize)]
struct Label {
    flow: String,
    kind: &'static str,
    media: bool,
}

/// The capture and its labels.
pub(super) struct Files {
    capture: CaptureWriter,
    labels: BufWriter<File>,
    labels_path: PathBuf,
    known: BTreeSet<String>,
}

impl Files {
    pub(super) fn create(path: &Path) -> Result<Self, AppError> {
        let capture = CaptureWriter::create(path).map_err(AppError::Capture)?;
        let mut labels_path = path.as_os_str().to_owned();
        labels_path.push(".labels.jsonl");
        let labels_path = PathBuf::from(labels_path);
        let labels = File::create(&labels_path)
            .map_err(|source| AppError::Write { path: labels_path.clone(), source })?;
        Ok(Self { capture, labels: BufWriter::new(labels), labels_path, known: BTreeSet::new() })
    }

    pub(super) fn write(&mut self, packet: &Datagram, frame: &[u8]) -> Result<(), AppError> {
        let at = Instant(packet.at.as_nanos());
        self.capture.write(at, frame).map_err(AppError::Capture)?;
        let flow = packet.flow();
        if self.known.contains(&flow) {
            return Ok(());
        }
        let label = Label { flow: flow.clone(), kind: packet.kind.name(), media: packet.kind.is_media() };
        self.known.insert(flow);
        let written = serde_json::to_writer(&mut self.labels, &label).map_err(std::io::Error::from);
        written
            .and_then(|()| self.labels.write_all(b"\n"))
            .map_err(|source| AppError::Write { path: self.labels_path.clone(), source })
    }

    pub(super) fn finish(mut self) -> Result<(), AppError> {
        self.labels.flush().map_err(|source| AppError::Write { path: self.labels_path, source })?;
        self.capture.finish().map_err(AppError::Capture)
    }
}
