//! Capture files as ports and as readers: pcap and pcapng in, pcap (nanoseconds) out.

use crate::pcapng::{BlockReader, SECTION, fill};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use perhop_units::{Duration, Instant};
use std::fs::File;
use std::io::{BufReader, BufWriter, Chain, Cursor, ErrorKind, Read, Write, stdin};
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
    /// No byte at all.
    #[error("{path}: an empty file; a capture has at least a header")]
    Empty {
        /// File.
        path: PathBuf,
    },
    /// Compressed.
    #[error(
        "{path}: compressed; give what `{program} {path}` prints, and `-` for the file: `{program} {path} | perhop … -`"
    )]
    Compressed {
        /// File.
        path: PathBuf,
        /// What prints the capture inside.
        program: &'static str,
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

/// First bytes of compressed files and what unpacks them. Source: RFC 1952 §2.3.1, RFC 8878 §3.1.1, the XZ file format
/// §2.1.1.1, the LZ4 frame format (also its legacy one), and the bzip2 format.
const COMPRESSED: [(&[u8], &str); 6] = [
    (&[0x1f, 0x8b], "gunzip -c"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -dc"),
    (&[0xfd, b'7', b'z', b'X'], "xz -dc"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4 -dc"),
    (&[0x02, 0x21, 0x4c, 0x18], "lz4 -dc"),
    (b"BZh", "bunzip2 -c"),
];

/// The path that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// A capture from its first byte, of which some were read to see what it is: pipes cannot be read twice.
type Source = BufReader<Chain<Cursor<[u8; 4]>, Box<dyn Read + Send>>>;

enum Reader {
    Pcap(Box<PcapReader<Source>>, u32),
    PcapNg(BlockReader<Source>),
}

/// Reads a capture record by record. Ends after the first damaged record, which is reported.
pub struct CaptureReader {
    path: PathBuf,
    reader: Reader,
    records: u64,
    done: bool,
}

impl CaptureReader {
    /// Opens a file of either kind, which may be a pipe; `-` is standard input.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        let not = || CaptureError::NotACapture { path: path.to_owned() };
        let mut file: Box<dyn Read + Send> = if path.as_os_str() == STANDARD_INPUT {
            Box::new(stdin())
        } else {
            let file = File::open(path).map_err(io)?;
            if file.metadata().map_err(io)?.is_dir() {
                return Err(io(ErrorKind::IsADirectory.into()));
            }
            Box::new(file)
        };
        let mut magic = [0u8; 4];
        match fill(&mut file, &mut magic).map_err(io)? {
            0 => return Err(CaptureError::Empty { path: path.to_owned() }),
            4 => {}
            _ => return Err(not()),
        }
        if let Some((_, program)) = COMPRESSED.iter().find(|(begin, _)| magic.starts_with(begin)) {
            return Err(CaptureError::Compressed { path: path.to_owned(), program });
        }
        let buffered = BufReader::with_capacity(1 << 16, Cursor::new(magic).chain(file));
        let reader = if magic == SECTION {
            Reader::PcapNg(BlockReader::new(buffered).ok_or_else(not)?)
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
        if self.done {
            return None;
        }
        let record = match &mut self.reader {
            Reader::Pcap(reader, link) => next_pcap(reader, *link)?,
            Reader::PcapNg(reader) => reader.frame()?,
        };
        Some(match record {
            Ok(record) => {
                self.records += 1;
                Ok(record)
            }
            Err(detail) => Err(self.damaged(detail)),
        })
    }
}

/// The raw record is read because files in the wild break the header's promises (a snap length of 0, fractions beyond a
/// second) without harm to the frames.
fn next_pcap(reader: &mut PcapReader<Source>, link: u32) -> Option<Result<Record, String>> {
    let fraction_ns = match reader.header().ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    Some(match reader.next_raw_packet()? {
        Ok(p) => Ok(Record {
            at: Instant(u64::from(p.ts_sec) * 1_000_000_000 + u64::from(p.ts_frac) * fraction_ns),
            // The upper bits tell of the frame check sequence.
            link_type: link & 0xffff,
            original_len: p.orig_len.max(p.incl_len),
            data: p.data.into_owned(),
        }),
        Err(e) => Err(e.to_string()),
    })
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
        let file = File::create(path);
        let file = file.map_err(|source| CaptureError::Io { path: path.to_owned(), source })?;
        Self::new(path, file)
    }

    /// Writes to a file that is open; `path` is for messages.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn new(path: &Path, file: File) -> Result<Self, CaptureError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A section of `blocks` (type, body), every integer in the order `int` gives.
    fn section(int: fn(u32) -> [u8; 4], blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut file = Vec::new();
        let head = (0x0a0d_0d0a, [int(0x1a2b_3c4d).to_vec(), vec![0; 4], vec![0xff; 8]].concat());
        for (i, (kind, body)) in [head].iter().chain(blocks).enumerate() {
            let mut body = body.clone();
            if i == 0 {
                // Version 1.0 in 16-bit halves.
                body[4..8].copy_from_slice(&if int(1)[0] == 1 { [1, 0, 0, 0] } else { [0, 1, 0, 0] });
            }
            body.resize(body.len().div_ceil(4) * 4, 0);
            let len = int(body.len() as u32 + 12);
            for part in [&int(*kind)[..], &len, &body, &len] {
                file.extend_from_slice(part);
            }
        }
        file
    }

    fn read(name: &str, file: &[u8]) -> Vec<Result<Record, CaptureError>> {
        let path = std::env::temp_dir().join(format!("perhop-pcap-{}-{name}", std::process::id()));
        std::fs::write(&path, file).unwrap();
        let records = CaptureReader::open(&path).unwrap().collect();
        std::fs::remove_file(path).unwrap();
        records
    }

    #[test]
    fn stamps_count_in_the_unit_of_their_interface() {
        for (name, int) in [("le", u32::to_le_bytes as fn(u32) -> [u8; 4]), ("be", u32::to_be_bytes)] {
            let half = |n: u32| if int(1)[0] == 1 { int(n) } else { int(n << 16) };
            // Linux cooked with the unit left out, raw IP in 2⁻¹⁰ s.
            let micro = [half(113).to_vec(), int(0).to_vec()].concat();
            let option = if int(1)[0] == 1 { vec![9, 0, 1, 0] } else { vec![0, 9, 0, 1] };
            let binary =
                [half(101).to_vec(), int(0).to_vec(), option, vec![0x8a, 0, 0, 0], vec![0; 4]].concat();
            let frame = |interface: u32, stamp: u32| {
                [int(interface), int(0), int(stamp), int(2), int(60), [7, 8, 0, 0]].concat()
            };
            let blocks = [
                (1, micro),
                (1, binary),
                (6, frame(0, 5_000_000)),
                (6, frame(1, 5 * 1024)),
                (3, [int(3).to_vec(), vec![1, 2, 3]].concat()),
                (6, [int(0), int(0), int(0), int(99), int(99), [0; 4]].concat()),
            ];
            let records = read(name, &section(int, &blocks));
            let good: Vec<_> = records
                .iter()
                .map_while(|r| r.as_ref().ok())
                .map(|r| (r.at.as_nanos(), r.link_type, r.data.as_slice(), r.original_len))
                .collect();
            let second = 5_000_000_000;
            assert_eq!(
                good,
                [(second, 113, &[7, 8][..], 60), (second, 101, &[7, 8], 60), (0, 113, &[1, 2, 3], 3)]
            );
            assert!(matches!(records[3], Err(CaptureError::Damaged { records: 3, .. })), "{name}");
            assert_eq!(records.len(), 4);
        }
    }

    /// Lists of options end with an option that says so, but not in every file.
    #[test]
    fn options_that_cannot_be_read_cost_no_frame() {
        let half = |n: u16| n.to_le_bytes();
        let description = [half(1), half(0)].concat();
        let unit = [&half(9)[..], &half(1), &[9, 0, 0, 0]].concat();
        let name = [&half(2)[..], &half(3), b"lo0\0"].concat();
        let end = vec![0; 4];
        let lists: [(&str, Vec<Vec<u8>>, u64); 6] = [
            ("ended", vec![name.clone(), unit.clone(), end.clone()], 1),
            ("open", vec![name.clone(), unit.clone()], 1),
            ("none", vec![], 1_000),
            ("cut", vec![name, unit[..4].to_vec()], 1_000),
            ("long", vec![[half(2), half(999)].concat()], 1_000),
            ("after the end", vec![end, unit], 1_000),
        ];
        let frame = [0_u32, 0, 7_000_000, 2, 60].map(u32::to_le_bytes).concat();
        let frame = [frame, vec![7, 8, 0, 0], [half(1), half(888)].concat()].concat();
        for (name, list, unit_ns) in lists {
            let interface = [description.clone(), vec![0; 4], list.concat()].concat();
            let records = read(name, &section(u32::to_le_bytes, &[(1, interface), (6, frame.clone())]));
            let record = records[0].as_ref().unwrap();
            let good = (record.at.as_nanos(), record.link_type, record.data.as_slice());
            assert_eq!((records.len(), good), (1, (7_000_000 * unit_ns, 1, &[7, 8][..])), "{name}");
        }
        // A frame of nobody, and blocks of impossible lengths.
        let orphan = read("orphan", &section(u32::to_le_bytes, &[(6, frame)]));
        assert!(matches!(orphan[..], [Err(CaptureError::Damaged { records: 0, .. })]));
        for len in [0_u32, 8, 13, 1 << 31] {
            let mut file = section(u32::to_le_bytes, &[]);
            file.extend_from_slice(&[5_u32, len, len, len].map(u32::to_le_bytes).concat());
            let broken = read("length", &file);
            assert!(matches!(broken[..], [Err(CaptureError::Damaged { records: 0, .. })]), "{len}");
        }
    }

    #[test]
    fn a_capture_of_only_a_header_is_an_empty_one() {
        let words = |int: fn(u32) -> [u8; 4]| [0xa1b2_c3d4, 0, 0, 0, 65_535, 1].map(int).concat();
        let pcap = [words(u32::to_le_bytes), words(u32::to_be_bytes)];
        for (name, file) in pcap.into_iter().map(|file| ("pcap-header", file)) {
            assert!(read(name, &file).is_empty());
            // A header is not a part of one.
            assert!(matches!(opened(&file[..20]), Some(CaptureError::NotACapture { .. })));
        }
        for int in [u32::to_le_bytes as fn(u32) -> [u8; 4], u32::to_be_bytes] {
            let half = |n: u32| if int(1)[0] == 1 { int(n) } else { int(n << 16) };
            let interface = [half(1).to_vec(), vec![0; 4]].concat();
            assert!(read("section", &section(int, &[])).is_empty());
            assert!(read("interface", &section(int, &[(1, interface)])).is_empty());
        }
        assert!(matches!(opened(b""), Some(CaptureError::Empty { .. })));
        assert!(matches!(opened(b"abc"), Some(CaptureError::NotACapture { .. })));
    }

    /// Why a file of these bytes cannot be opened.
    fn opened(file: &[u8]) -> Option<CaptureError> {
        let path = std::env::temp_dir().join(format!("perhop-pcap-{}-{}", std::process::id(), file.len()));
        std::fs::write(&path, file).unwrap();
        let error = CaptureReader::open(&path).err();
        std::fs::remove_file(path).unwrap();
        error
    }

    #[test]
    fn a_compressed_file_says_how_to_read_it() {
        for (begin, program) in [
            (&[0x1f, 0x8b, 8, 0][..], "gunzip -c"),
            (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -dc"),
            (&[0xfd, 0x37, 0x7a, 0x58, 0x5a, 0], "xz -dc"),
            (&[4, 0x22, 0x4d, 0x18], "lz4 -dc"),
            (b"BZh91AY", "bunzip2 -c"),
        ] {
            let error = opened(&[begin, &[7; 40]].concat()).expect("compressed").to_string();
            assert!(error.contains(&format!("`{program} /")) && error.ends_with("| perhop … -`"), "{error}");
        }
    }

    #[test]
    fn a_pipe_is_read_as_a_file_is() {
        let path = std::env::temp_dir().join(format!("perhop-pcap-{}-pipe", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
        assert!(made.success());
        let file = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101, 1, 0, 1, 1].map(u32::to_le_bytes);
        let file = [&file.concat()[..], &[0x45]].concat();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || std::fs::write(path, file).unwrap()
        });
        let records: Vec<_> = CaptureReader::open(&path).unwrap().collect();
        writer.join().unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(matches!(&records[..], [Ok(record)] if record.data == [0x45]), "{records:?}");
    }

    #[test]
    fn a_directory_is_said_to_be_one() {
        let error = CaptureReader::open(&std::env::temp_dir()).err().unwrap();
        assert!(error.to_string().ends_with("is a directory"), "{error}");
    }

    #[test]
    fn a_header_that_lies_costs_no_frame_and_a_cut_record_ends_the_file() {
        // Snap length 0, a fraction of two seconds, and a length on the link below the captured one.
        let mut file =
            vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        for word in [1_u32, 2_000_000, 4, 0] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&[1, 2, 3, 4]);
        let whole = read("lies", &file);
        let record = whole[0].as_ref().unwrap();
        assert_eq!((whole.len(), record.at, record.original_len), (1, Instant(3_000_000_000), 4));
        file.extend_from_slice(&[0; 12]);
        let cut = read("cut", &file);
        assert!(matches!(cut[..], [Ok(_), Err(CaptureError::Damaged { records: 1, .. })]));
    }
}
