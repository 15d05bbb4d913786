//! The words of a description.

use super::DescribeError;
use perhop_config::did_you_mean;
use perhop_units::Dscp;
use perhop_wire::{protocol, tcp};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Transport protocols by name (IANA protocol numbers).
const PROTOCOLS: [(&str, u8); 10] = [
    ("udp", protocol::UDP),
    ("tcp", protocol::TCP),
    ("icmp", protocol::ICMPV4),
    ("icmpv6", protocol::ICMPV6),
    ("igmp", 2),
    ("gre", 47),
    ("esp", protocol::ESP),
    ("ospf", 89),
    ("sctp", 132),
    ("udplite", 136),
];

/// Keys, and words without a value.
const KEYS: [&str; 14] =
    ["in", "dscp", "len", "ttl", "vlan", "flags", "frag", "id", "type", "code", "pt", "ssrc", "seq", "ts"];
const BARE: [&str; 3] = ["rtp", "df", "frag"];

/// The name of a protocol, or its number.
pub(super) fn protocol_name(number: u8) -> String {
    let name = PROTOCOLS.iter().find(|(_, n)| *n == number);
    name.map_or_else(|| format!("protocol {number}"), |(name, _)| (*name).to_owned())
}

/// A value and the column where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) column: usize,
}

/// One end of the address pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) ip: IpAddr,
    pub(super) port: Option<u16>,
}

/// What was said, not yet brought together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) protocol: Option<At<u8>>,
    pub(super) src: Option<At<End>>,
    pub(super) dst: Option<At<End>>,
    pub(super) in_port: Option<At<String>>,
    pub(super) dscp: Option<Dscp>,
    pub(super) flags: Option<At<u8>>,
    pub(super) vlan: Vec<u16>,
    /// Offset in bytes and whether more follow.
    pub(super) fragment: Option<(u16, bool)>,
    /// `len`, `ttl`, `id`, `type`, `code`, `pt`, `ssrc`, `seq`, `ts`; `rtp` and `df` without value.
    pub(super) numbers: BTreeMap<&'static str, At<u32>>,
    /// Where the description ends: what is missing is missed here.
    pub(super) end: usize,
}

/// Reads them all.
pub(super) fn read(text: &str) -> Result<Words, Vec<DescribeError>> {
    let mut reader = Reader { text, words: Words::default(), seen: Vec::new(), errors: Vec::new() };
    reader.words.end = text.chars().count() + 1;
    for (start, word) in split(text) {
        reader.word(start, word);
    }
    if reader.errors.is_empty() { Ok(reader.words) } else { Err(reader.errors) }
}

/// Words with their byte offsets; blanks around `>` do not part words.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut out: Vec<(usize, &str)> = Vec::new();
    for word in text.split_whitespace() {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        match out.last_mut() {
            Some((from, last)) if last.ends_with('>') || word.starts_with('>') => {
                *last = &text[*from..start + word.len()];
            }
            _ => out.push((start, word)),
        }
    }
    out
}

struct Reader<'t> {
    text: &'t str,
    words: Words,
    seen: Vec<&'static str>,
    errors: Vec<DescribeError>,
}

impl<'t> Reader<'t> {
    fn column(&self, offset: usize) -> usize {
        self.text[..offset].chars().count() + 1
    }

    fn offset(&self, part: &str) -> usize {
        part.as_ptr() as usize - self.text.as_ptr() as usize
    }

    fn fail(&mut self, offset: usize, message: impl Display, hint: Option<String>) {
        let column = self.column(offset);
        self.errors.push(DescribeError { column, message: message.to_string(), hint });
    }

    /// Notes a thing that may be said once.
    fn once(&mut self, name: &'static str, offset: usize) -> bool {
        let first = !self.seen.contains(&name);
        if first {
            self.seen.push(name);
        } else {
            self.fail(offset, format_args!("{name} is given twice"), None);
        }
        first
    }

    fn word(&mut self, start: usize, word: &'t str) {
        if let Some((src, dst)) = word.split_once('>') {
            if self.once("the address pair", start) {
                self.words.src = self.end(src);
                self.words.dst = self.end(dst);
            }
        } else if let Some((key, value)) = word.split_once('=') {
            match KEYS.iter().find(|k| k.eq_ignore_ascii_case(key)) {
                Some(key) if self.once(key, start) => self.key(key, value),
                Some(_) => {}
                None => {
                    let near = did_you_mean(key, KEYS);
                    let all = format!("known are {}", KEYS.join(", "));
                    let hint = near.map_or(all.clone(), |n| format!("did you mean {n}=? {all}"));
                    self.fail(start, format_args!("{key}= is not known"), Some(hint));
                }
            }
        } else {
            self.bare(start, word);
        }
    }

    fn bare(&mut self, start: usize, word: &str) {
        let column = self.column(start);
        let lower = word.to_ascii_lowercase();
        if let Some(bare) = BARE.iter().find(|b| **b == lower) {
            if self.once(bare, start) {
                match *bare {
                    "frag" => self.words.fragment = Some(LATER),
                    other => drop(self.words.numbers.insert(other, At { value: 1, column })),
                }
            }
            return;
        }
        let named = PROTOCOLS.iter().find(|(name, _)| *name == lower).map(|(_, n)| *n);
        match named.or_else(|| word.parse().ok()) {
            Some(value) => {
                if self.once("the protocol", start) {
                    self.words.protocol = Some(At { value, column });
                }
            }
            None => {
                let names = PROTOCOLS.map(|(name, _)| name);
                let near = did_you_mean(word, names.into_iter().chain(BARE).chain(KEYS));
                let all = format!(
                    "protocols are {} or a number from 0 to 255; an address pair is SOURCE>DESTINATION",
                    names.join(", ")
                );
                let hint = near.map_or(all.clone(), |n| format!("did you mean {n}? {all}"));
                self.fail(start, format_args!("\"{word}\" is not a protocol"), Some(hint));
            }
        }
    }

    fn key(&mut self, key: &'static str, value: &'t str) {
        let offset = self.offset(value);
        let column = self.column(offset);
        match key {
            "in" if value.is_empty() => self.fail(offset, "in= names no port", None),
            "in" => self.words.in_port = Some(At { value: value.to_owned(), column }),
            "dscp" => match Dscp::from_str(value) {
                Ok(dscp) => self.words.dscp = Some(dscp),
                Err(e) => self.fail(offset, e, None),
            },
            "flags" => self.flags(value, offset),
            "vlan" => {
                let tags: Vec<&str> = value.split(',').collect();
                if tags.len() > 2 {
                    let hint = Some("write OUTER or OUTER,INNER".to_owned());
                    self.fail(offset, "a frame has two VLAN tags at most", hint);
                }
                let tags = tags.into_iter().take(2).filter_map(|t| self.number("vlan", t, 0..=4094));
                self.words.vlan = tags.collect::<Vec<u32>>().into_iter().map(|t| t as u16).collect();
            }
            "frag" => self.fragment(value, offset),
            _ => {
                let range = match key {
                    "len" => 20..=65_535,
                    "ttl" | "type" | "code" => 0..=255,
                    "pt" => 0..=127,
                    "seq" => 0..=65_535,
                    _ => 0..=u32::MAX,
                };
                if let Some(value) = self.number(key, value, range) {
                    self.words.numbers.insert(key, At { value, column });
                }
            }
        }
    }

    fn number(&mut self, key: &str, text: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let parsed: Option<u64> = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        let good = parsed.and_then(|v| u32::try_from(v).ok()).filter(|v| range.contains(v));
        if good.is_none() {
            let hint = Some(format!("allowed is {} to {}", range.start(), range.end()));
            let what = if parsed.is_some() { "is out of range" } else { "is not a number" };
            self.fail(self.offset(text), format_args!("{key} {text} {what}"), hint);
        }
        good
    }

    fn flags(&mut self, text: &'t str, offset: usize) {
        let column = self.column(offset);
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.number("flags", text, 0..=255);
            self.words.flags = number.map(|v| At { value: v as u8, column });
            return;
        }
        let mut all = 0;
        for name in text.split([',', '+', '|']).filter(|n| !n.is_empty()) {
            match tcp::flags::NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
                Some((_, bit)) => all |= bit,
                None => {
                    let hint = Some(format!("flags are {}", tcp::flags::NAMES.map(|(n, _)| n).join(", ")));
                    self.fail(self.offset(name), format_args!("\"{name}\" is not a TCP flag"), hint);
                }
            }
        }
        self.words.flags = Some(At { value: all, column });
    }

    fn fragment(&mut self, text: &'t str, offset: usize) {
        self.words.fragment = match text {
            "first" => Some((0, true)),
            "later" => Some(LATER),
            _ => match self.number("frag", text, 8..=65_528) {
                Some(at) if at % 8 == 0 => Some((at as u16, false)),
                Some(at) => {
                    let hint = Some(format!("write {} or {}", at / 8 * 8, (at / 8 + 1) * 8));
                    self.fail(offset, format_args!("offset {at} is not a multiple of 8"), hint);
                    None
                }
                None => None,
            },
        };
    }

    /// `10.0.0.1:5004`, `10.0.0.1`, `[2001:db8::1]:5004`, `[2001:db8::1]` or `2001:db8::1`.
    fn end(&mut self, text: &'t str) -> Option<At<End>> {
        let text = text.trim();
        let offset = self.offset(text);
        let column = self.column(offset);
        let (ip, port) = match text.strip_prefix('[') {
            Some(rest) => match rest.split_once(']') {
                Some((ip, port)) => {
                    (ip, port.strip_prefix(':').or_else(|| (!port.is_empty()).then_some(port)))
                }
                None => (rest, None),
            },
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(ip, port)| (ip, Some(port))),
        };
        let parsed = if text.starts_with('[') {
            ip.parse::<Ipv6Addr>().map(IpAddr::V6).ok()
        } else {
            ip.parse::<Ipv4Addr>().map(IpAddr::V4).or_else(|_| ip.parse::<Ipv6Addr>().map(IpAddr::V6)).ok()
        };
        let port = match port {
            Some(port) => Some(self.number("port", port, 0..=65_535)? as u16),
            None => None,
        };
        let Some(ip) = parsed else {
            let hint = Some("write 10.0.0.1:5004 or [2001:db8::1]:5004".to_owned());
            self.fail(offset, format_args!("\"{text}\" is not an address"), hint);
            return None;
        };
        Some(At { value: End { ip, port }, column })
    }
}

/// A later fragment as it follows a first one of 1,500 bytes.
const LATER: (u16, bool) = (1480, false);
