//! RTP and RTCP packets.
//!
//! Source: RFC 3550 §5.1 (header), §6.2–6.5 (RTCP); RFC 8285 (header extensions); RFC 6464 (audio
//! level); RFC 5761 (RTP and RTCP on one port).

use super::Kind;
use super::exchange::{Exchange, Leg};
use perhop_units::Duration;
use perhop_wire::rtp::Repr;

/// One synchronisation source.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub header: Repr,
    first_timestamp: u32,
    /// Bytes of a header extension with an audio level that changes, 0 = none.
    pub extension: usize,
    /// Whether every fourth packet or so ends in padding.
    pub pads: bool,
    /// Bytes of the authentication tag, as random as what it protects.
    tag: usize,
}

impl Source {
    /// A source with random SSRC, sequence number and time stamp; in every fourth the sequence number, and in every
    /// fourth the time stamp, soon wraps.
    pub fn new(x: &mut Exchange, payload_type: u8) -> Self {
        let mut sequence = x.number(0, 65_535) as u16;
        let mut first_timestamp = x.number(0, u64::from(u32::MAX)) as u32;
        if x.one_in(4) {
            sequence = u16::MAX - x.number(0, 100) as u16;
        }
        if x.one_in(4) {
            first_timestamp = u32::MAX - x.number(0, 40_000) as u32;
        }
        let ssrc = x.number(1, u64::from(u32::MAX)) as u32;
        let header = Repr { payload_type, sequence, ssrc, ..Repr::default() };
        Self { header, first_timestamp, extension: 0, pads: false, tag: 0 }
    }

    /// Its packets are encrypted: `tag` bytes longer (RFC 3711 §3.1).
    pub fn secured(self, tag: usize) -> Self {
        Self { tag, ..self }
    }

    /// Its SSRC.
    pub fn ssrc(&self) -> u32 {
        self.header.ssrc
    }

    /// The next packet, `ticks` of its clock after its first.
    pub fn packet(
        &mut self,
        x: &mut Exchange,
        payload_type: u8,
        marker: bool,
        ticks: u64,
        len: usize,
    ) -> Vec<u8> {
        let padding = if self.pads && x.one_in(4) { x.number(1, 4) as usize } else { 0 };
        if self.extension > 0 {
            let mut data = vec![0x10];
            x.fill(&mut data, self.extension);
            self.header.extension = Some((0xbede, data));
        }
        let header = Repr {
            payload_type,
            marker,
            timestamp: self.first_timestamp.wrapping_add(ticks as u32),
            padded: padding > 0,
            ..self.header.clone()
        };
        self.header.sequence = self.header.sequence.wrapping_add(1);
        let mut bytes = vec![0; header.len()];
        header.emit(&mut bytes);
        x.fill(&mut bytes, len + self.tag + padding);
        if let (Some(last), true) = (bytes.last_mut(), padding > 0) {
            *last = padding as u8;
        }
        bytes
    }
}

/// A compound packet: sender report with one block about `heard`, and a source description with a CNAME. Secured, what
/// follows the first eight bytes is random, and index and tag are behind it (RFC 3711 §3.4).
pub(super) fn report(x: &mut Exchange, ssrc: u32, heard: u32, secured: bool) -> Vec<u8> {
    let mut bytes = vec![0x81, 200, 0, 12];
    bytes.extend_from_slice(&ssrc.to_be_bytes());
    // NTP and RTP time, counts of packets and bytes.
    x.fill(&mut bytes, 20);
    bytes.extend_from_slice(&heard.to_be_bytes());
    x.fill(&mut bytes, 20);
    bytes.extend_from_slice(&[0x81, 202, 0, 6]);
    bytes.extend_from_slice(&ssrc.to_be_bytes());
    bytes.extend_from_slice(&[1, 16]);
    let name = x.bytes(16);
    bytes.extend(name.iter().map(|b| b'a' + b % 26));
    bytes.extend_from_slice(&[0, 0]);
    if secured {
        let random = x.bytes(bytes.len() - 8);
        bytes.splice(8.., random);
        x.fill(&mut bytes, 14);
    }
    bytes
}

/// Reports of `ssrc` every 2.5 … 7.5 s (RFC 3550 §6.2), the first soon.
pub(super) fn reports(
    x: &mut Exchange,
    leg: &mut Leg,
    ssrc: u32,
    heard: u32,
    length: Duration,
    secured: bool,
) {
    let mut at = x.ms(100, 2_500);
    while at < length {
        let payload = report(x, ssrc, heard, secured);
        x.send(leg, at, payload);
        at = at + x.ms(2_500, 7_500);
    }
}

/// RTCP of both directions: on the same ports, or on the next ones.
pub(super) fn control(x: &mut Exchange, legs: &mut [Leg; 2], ssrc: [u32; 2], length: Duration, muxed: bool) {
    for (i, leg) in legs.iter_mut().enumerate() {
        let (own, heard) = (ssrc[i], ssrc[1 - i]);
        if muxed {
            reports(x, leg, own, heard, length, false);
        } else {
            reports(x, &mut leg.beside(Kind::Rtcp), own, heard, length, false);
        }
    }
}
