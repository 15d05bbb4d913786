//! Blocks of pcapng files, as far as frames need them.
//!
//! The sections, interfaces and frames of a file are what is read; every other block is skipped by its length. Options are
//! read as far as they go: a list without its end, or with an option that cannot be read, costs neither the interface nor
//! the frame, as writers in use leave the end out, and as the only option that matters here, `if_tsresol`, has a default.
//!
//! Source: draft-ietf-opsawg-pcapng §3.1 (blocks), §3.5 (options), §4.1–4.4 and appendix A (obsolete packet block).

use super::pcap::Record;
use perhop_units::Instant;
use std::io::{ErrorKind, Read};

/// Type of a section header, the same in both byte orders, and its magic in the file's own.
pub(crate) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const MAGIC: u32 = 0x1a2b_3c4d;
/// Types of the blocks that are read.
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Option with the unit of an interface's time stamps; that unit without the option, 10⁻⁶ s.
const IF_TSRESOL: u16 = 9;
const MICROSECONDS: u8 = 6;
/// Largest block. A frame has 256 KiB at most, and a name resolution block is not expected to have more than this.
const MAX_BLOCK: u32 = 16 << 20;
/// Most interfaces of a section.
const MAX_INTERFACES: usize = 65_536;

/// An interface of the running section.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    /// Bytes kept of a frame; 0 = all.
    snap: u32,
    unit: u8,
}

/// Reads a file block by block.
#[derive(Debug)]
pub(crate) struct BlockReader<R> {
    file: R,
    little: bool,
    interfaces: Vec<Interface>,
    body: Vec<u8>,
}

impl<R: Read> BlockReader<R> {
    /// Reads the first section header; `None` if there is none.
    pub fn new(file: R) -> Option<Self> {
        let mut reader = Self { file, little: true, interfaces: Vec::new(), body: Vec::new() };
        let kind = reader.block().ok()??;
        (kind == u32::from_le_bytes(SECTION)).then_some(reader)
    }

    /// The next frame; `None` at the end of the file.
    ///
    /// # Errors
    /// What is damaged. Nothing can be read behind it.
    pub fn frame(&mut self) -> Option<Result<Record, String>> {
        loop {
            let kind = match self.block() {
                Ok(kind) => kind?,
                Err(damage) => return Some(Err(damage)),
            };
            let read = match kind {
                INTERFACE => self.interface().map(|()| None),
                ENHANCED_PACKET => self.packet(false).map(Some),
                OBSOLETE_PACKET => self.packet(true).map(Some),
                SIMPLE_PACKET => self.simple().map(Some),
                _ => Ok(None),
            };
            match read {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(damage) => return Some(Err(damage)),
            }
        }
    }

    /// Reads the next block into `body`; its type. A section header sets the byte order and forgets the interfaces.
    fn block(&mut self) -> Result<Option<u32>, String> {
        let mut head = [0; 8];
        let mut fill = |into: &mut [u8]| fill(&mut self.file, into).map_err(|e| e.to_string());
        match fill(&mut head)? {
            0 => return Ok(None),
            8 => {}
            _ => return Err("the file ends inside a block".to_owned()),
        }
        let [a, b, c, d, e, f, g, h] = head;
        let section = [a, b, c, d] == SECTION;
        let mut read = 8;
        if section {
            let mut magic = [0; 4];
            read += fill(&mut magic)?;
            self.little = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
                (MAGIC, _) => true,
                (_, MAGIC) => false,
                _ => return Err("a section without its byte order".to_owned()),
            };
            self.interfaces.clear();
        }
        let len = word(self.little, [e, f, g, h]);
        // The length comes again at the end.
        let rest = (len as usize).checked_sub(read + 4);
        let Some(rest) = rest.filter(|_| len.is_multiple_of(4) && len <= MAX_BLOCK) else {
            return Err(format!("a block of {len} bytes"));
        };
        self.body.resize(rest, 0);
        let mut again = [0; 4];
        if fill(&mut self.body)? + fill(&mut again)? < rest + 4 {
            return Err("the file ends inside a block".to_owned());
        }
        let again = self.word(again);
        if again != len {
            return Err(format!("a block of {len} bytes that ends as one of {again}"));
        }
        Ok(Some(if section { u32::from_le_bytes(SECTION) } else { self.word([a, b, c, d]) }))
    }

    fn word(&self, bytes: [u8; 4]) -> u32 {
        word(self.little, bytes)
    }

    fn word_at(&self, at: usize) -> Option<u32> {
        Some(self.word(*self.body.get(at..)?.first_chunk()?))
    }

    fn half_at(&self, at: usize) -> Option<u16> {
        let bytes = *self.body.get(at..)?.first_chunk()?;
        Some(if self.little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn interface(&mut self) -> Result<(), String> {
        let (Some(link_type), Some(snap)) = (self.half_at(0), self.word_at(4)) else {
            return Err("an interface block shorter than its fields".to_owned());
        };
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(format!("more than {MAX_INTERFACES} interfaces"));
        }
        let unit = self.option(8, IF_TSRESOL).unwrap_or(MICROSECONDS);
        self.interfaces.push(Interface { link_type, snap, unit });
        Ok(())
    }

    /// The first byte of option `wanted` in the list that begins at `at`, if it is there and can be read.
    fn option(&self, mut at: usize, wanted: u16) -> Option<u8> {
        loop {
            let (code, len) = (self.half_at(at)?, usize::from(self.half_at(at + 2)?));
            match code {
                0 => return None,
                _ if code == wanted && len > 0 => return self.body.get(at + 4).copied(),
                _ => at += 4 + len.next_multiple_of(4),
            }
        }
    }

    fn interface_of(&self, number: usize) -> Result<Interface, String> {
        let found = self.interfaces.get(number).copied();
        found.ok_or_else(|| format!("a frame of interface {number}, which no block before describes"))
    }

    /// A frame with time stamp. The obsolete block has a counter of lost frames beside a shorter interface number.
    fn packet(&self, obsolete: bool) -> Result<Record, String> {
        let number = if obsolete { self.half_at(0).map(u32::from) } else { self.word_at(0) };
        let interface = self.interface_of(number.ok_or_else(too_short)? as usize)?;
        let words = || Some((self.word_at(4)?, self.word_at(8)?, self.word_at(12)?, self.word_at(16)?));
        let (high, low, captured, original_len) = words().ok_or_else(too_short)?;
        let stamp = u64::from(high) << 32 | u64::from(low);
        let at = Instant(nanoseconds(interface.unit, stamp));
        self.record(&interface, at, 20, captured, original_len)
    }

    /// A frame without time stamp, of the first interface.
    fn simple(&self) -> Result<Record, String> {
        let interface = self.interface_of(0)?;
        let original_len = self.word_at(0).ok_or_else(too_short)?;
        let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
        let captured = original_len.min(snap).min(self.body.len() as u32 - 4);
        self.record(&interface, Instant::ZERO, 4, captured, original_len)
    }

    fn record(
        &self,
        interface: &Interface,
        at: Instant,
        from: usize,
        captured: u32,
        original_len: u32,
    ) -> Result<Record, String> {
        let end = from.checked_add(captured as usize);
        let data = end.and_then(|end| self.body.get(from..end)).ok_or_else(too_short)?.to_vec();
        Ok(Record { at, link_type: interface.link_type.into(), data, original_len })
    }
}

fn word(little: bool, bytes: [u8; 4]) -> u32 {
    if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
}

fn too_short() -> String {
    "a packet block shorter than it says".to_owned()
}

/// Reads until `into` is full or the file ends; how much that was.
pub(crate) fn fill(file: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut at = 0;
    while at < into.len() {
        match file.read(&mut into[at..]) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(at)
}

/// A time stamp in units of 10⁻ⁿ s, or of 2⁻ⁿ s where the upper bit is set, in ns.
fn nanoseconds(unit: u8, stamp: u64) -> u64 {
    let per_second = if unit & 0x80 == 0 {
        10_u128.checked_pow(u32::from(unit))
    } else {
        1_u128.checked_shl(u32::from(unit & 0x7f))
    };
    let ns = u128::from(stamp) * 1_000_000_000 / per_second.unwrap_or(u128::MAX).max(1);
    u64::try_from(ns).unwrap_or(u64::MAX)
}
