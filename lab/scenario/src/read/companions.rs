//! Files that a scenario names: traces of delivery opportunities, of video frames, captures.

use super::cx::Cx;
use crate::model::DeliveryTrace;
use perhop_config::{Diagnostic, Position, Spanned, shown};
use perhop_traffic::replay::MAX_CAPTURED;
use perhop_traffic::{Captured, FrameTrace, TimeUnit};
use perhop_units::Duration;
use std::sync::Arc;

/// Most delivery opportunities of a trace.
pub const MAX_OPPORTUNITIES: usize = 10_000_000;

/// The bytes of the file that a key names.
pub(super) fn bytes(cx: &Cx<'_>, file: Spanned<&str>) -> Option<Vec<u8>> {
    match (cx.companions)(file.value) {
        Ok(bytes) => Some(bytes),
        Err(why) => {
            let hint = "Paths are relative to the scenario file";
            cx.push(cx.error(file.span, format!("cannot be read: {}", shown(&why))).hint(hint));
            None
        }
    }
}

/// An error at a line of a companion file.
fn at_line(cx: &Cx<'_>, file: Spanned<&str>, position: Position, value: &str, message: &str) -> Diagnostic {
    let error = cx.error(file.span, message).key("").value(shown(value));
    Diagnostic { file: cx.path_of(file.value).into(), position, ..error }
}

/// A trace of delivery opportunities: a time in ms a line, non-decreasing.
pub(super) fn delivery_trace(cx: &Cx<'_>, file: Spanned<&str>) -> Option<DeliveryTrace> {
    let bytes = bytes(cx, file)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut opportunities_ms: Vec<u32> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let stamp = line.split('#').next().unwrap_or("").trim();
        if stamp.is_empty() {
            continue;
        }
        let position = Position { line: i as u32 + 1, column: 1 };
        let Ok(ms) = stamp.parse::<u32>() else {
            let wrong = at_line(cx, file, position, stamp, "is not a time in whole milliseconds");
            cx.push(wrong.hint("Each line is the time of one packet of 1500 bytes, such as 12"));
            return None;
        };
        if opportunities_ms.last().is_some_and(|last| *last > ms) {
            cx.push(at_line(cx, file, position, stamp, "is earlier than the line before"));
            return None;
        }
        if opportunities_ms.len() == MAX_OPPORTUNITIES {
            cx.push(at_line(cx, file, position, stamp, "is one line too many").allowed("at most 10000000"));
            return None;
        }
        opportunities_ms.push(ms);
    }
    if opportunities_ms.last().is_none_or(|last| *last == 0) {
        let hint = "The trace is repeated after its last time, which must be above 0 ms";
        cx.push(cx.error(file.span, "has no delivery opportunity after 0 ms").hint(hint));
        return None;
    }
    Some(DeliveryTrace { origin: file.value.to_owned(), opportunities_ms })
}

/// A trace of video frames in four columns.
pub(super) fn frame_trace(cx: &Cx<'_>, file: Spanned<&str>, unit: TimeUnit) -> Option<Arc<FrameTrace>> {
    let bytes = bytes(cx, file)?;
    match FrameTrace::parse(&String::from_utf8_lossy(&bytes), unit) {
        Ok(trace) => Some(Arc::new(trace)),
        Err(why) => {
            cx.push(cx.error(file.span, format!("is not a trace of frames: {why}")));
            None
        }
    }
}

/// A capture: a pcap file, or text with a time in seconds and an IP length a line.
pub(super) fn capture(cx: &Cx<'_>, file: Spanned<&str>) -> Option<Arc<[Captured]>> {
    let bytes = bytes(cx, file)?;
    let packets = match bytes.first_chunk::<4>() {
        Some(&magic) if Pcap::of(magic).is_some() => pcap(&bytes),
        Some([0x0A, 0x0D, 0x0D, 0x0A]) => {
            Err("it is in the newer form pcapng; convert it to pcap".to_owned())
        }
        _ => columns(&bytes),
    };
    let wrong = |why: String| cx.push(cx.error(file.span, format!("is not a capture: {why}")));
    match packets {
        Ok(packets) if packets.is_empty() => wrong("it has no IP packet".to_owned()),
        Ok(packets) if packets.len() > MAX_CAPTURED => {
            wrong(format!("it has more than {MAX_CAPTURED} packets"))
        }
        Ok(packets) => return Some(packets.into()),
        Err(why) => wrong(why),
    }
    None
}

/// Byte order and time unit of a pcap file (draft-ietf-opsawg-pcap section 4).
#[derive(Clone, Copy)]
struct Pcap {
    big_endian: bool,
    unit_ns: u64,
}

impl Pcap {
    fn of(magic: [u8; 4]) -> Option<Self> {
        let big_endian = matches!(magic[0], 0xA1);
        let number = if big_endian { u32::from_be_bytes(magic) } else { u32::from_le_bytes(magic) };
        match number {
            0xA1B2_C3D4 => Some(Self { big_endian, unit_ns: 1_000 }),
            0xA1B2_3C4D => Some(Self { big_endian, unit_ns: 1 }),
            _ => None,
        }
    }

    fn word(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }
}

/// Packets of a pcap file of Ethernet (1) or bare IP (101, 228, 229), in order of time.
fn pcap(bytes: &[u8]) -> Result<Vec<Captured>, String> {
    let magic: [u8; 4] = bytes.first_chunk().copied().unwrap_or_default();
    let Some(form) = Pcap::of(magic) else { return Err("it does not begin like one".to_owned()) };
    let link_type = form.word(bytes, 20).ok_or("its header is cut off")? & 0xFFFF;
    let skip = match link_type {
        1 => 14,
        101 | 228 | 229 => 0,
        other => return Err(format!("its link type is {other}; known are Ethernet (1) and bare IP (101)")),
    };
    let mut packets: Vec<Captured> = Vec::new();
    let mut first = None;
    let mut at = 24;
    while at < bytes.len() {
        let word = |i| {
            form.word(bytes, at + i).ok_or_else(|| format!("its packet {} is cut off", packets.len() + 1))
        };
        let (seconds, part, kept, whole) = (word(0)?, word(4)?, word(8)?, word(12)?);
        let stamp = u64::from(seconds) * 1_000_000_000 + u64::from(part) * form.unit_ns;
        let ip = whole.saturating_sub(skip);
        let since = stamp.saturating_sub(*first.get_or_insert(stamp));
        if ip >= 20 {
            let last = packets.last().map_or(Duration::ZERO, |p: &Captured| p.offset);
            let ip_bytes = u16::try_from(ip).unwrap_or(u16::MAX);
            packets.push(Captured { offset: Duration(since).max(last), ip_bytes });
        }
        at += 16 + kept as usize;
    }
    Ok(packets)
}

/// Packets of a text: time in seconds and IP length in bytes, a packet a line.
fn columns(bytes: &[u8]) -> Result<Vec<Captured>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is neither pcap nor text".to_owned())?;
    let mut packets: Vec<Captured> = Vec::new();
    let mut first = None;
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let wrong = || format!("line {number} is not a time in seconds and an IP length in bytes");
        let mut columns = content.split([' ', '\t', ',', ';']).filter(|c| !c.is_empty());
        let (Some(time), Some(length)) = (columns.next(), columns.next()) else { return Err(wrong()) };
        let time: Duration = format!("{time} s").parse().map_err(|_| wrong())?;
        let ip_bytes: u16 = length.parse().map_err(|_| wrong())?;
        let begin = *first.get_or_insert(time);
        let offset = Duration(time.as_nanos().saturating_sub(begin.as_nanos()));
        if packets.last().is_some_and(|last| last.offset > offset) || time < begin {
            return Err(format!("line {number} is earlier than the line before"));
        }
        packets.push(Captured { offset, ip_bytes });
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two Ethernet packets, 1.5 s apart, of 60 and 1514 bytes.
    #[test]
    fn pcap_files_of_both_byte_orders_and_units() {
        for (magic, big, unit) in [(0xA1B2_C3D4_u32, true, 1_000), (0xA1B2_3C4D, false, 1)] {
            let word = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
            let mut file: Vec<u8> =
                [magic, 0x0002_0004, 0, 0, 65_535, 1].iter().flat_map(|n| word(*n)).collect();
            for (seconds, part, whole) in [(10, 0, 60), (11, 500_000_000 / unit, 1514)] {
                file.extend([seconds, part, 4, whole].iter().flat_map(|n| word(*n)));
                file.extend([0; 4]);
            }
            let packets = pcap(&file).expect("a capture");
            let expected = |ms, ip_bytes| Captured { offset: Duration::from_millis(ms), ip_bytes };
            assert_eq!(packets, [expected(0, 46), expected(1500, 1500)]);
            file.truncate(file.len() - 10);
            assert_eq!(pcap(&file), Err("its packet 2 is cut off".to_owned()));
        }
    }

    #[test]
    fn text_captures() {
        let packets = columns(b"# time length\n100.25 1500\n100.5;40\n").expect("a capture");
        assert_eq!(packets[1], Captured { offset: Duration::from_millis(250), ip_bytes: 40 });
        assert_eq!(columns(b"1 40\n0 40\n"), Err("line 2 is earlier than the line before".to_owned()));
        assert!(columns(b"1 forty\n").is_err());
    }
}
