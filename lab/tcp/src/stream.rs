//! Real bytes around an [`Endpoint`]: a send and a receive buffer, each a ring as large as the configuration says.
//!
//! The endpoint counts; the rings hold what it counts at `offset % capacity`. Payload beyond a gap goes straight to
//! its place, so reassembly copies once.

use crate::config::{Config, ConfigError};
use crate::endpoint::{AcceptError, Endpoint};
use crate::segment::{Segment, SegmentOut};
use crate::wire::{Addresses, ParseError, emit, parse};
use perhop_units::Instant;
use perhop_wire::Ecn;

/// An endpoint that carries real bytes.
#[derive(Debug)]
pub struct Stream {
    endpoint: Endpoint,
    sending: Ring,
    receiving: Ring,
}

/// Bytes of a stream by their place in it; only the last `capacity` places exist.
#[derive(Debug)]
struct Ring(Box<[u8]>);

impl Ring {
    fn new(capacity: u32) -> Self {
        Self(vec![0; capacity as usize].into())
    }

    /// The two pieces in which `len` places from `offset` on lie.
    fn pieces(&mut self, offset: u64, len: usize) -> (&mut [u8], &mut [u8]) {
        let len = len.min(self.0.len());
        let start = (offset % self.0.len() as u64) as usize;
        let (front, back) = self.0.split_at_mut(start);
        let first = len.min(back.len());
        (&mut back[..first], &mut front[..len - first])
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let (a, b) = self.pieces(offset, bytes.len());
        let (first, rest) = bytes.split_at(a.len());
        a.copy_from_slice(first);
        b.copy_from_slice(&rest[..b.len()]);
    }

    fn copy(&mut self, offset: u64, to: &mut [u8]) {
        let (a, b) = self.pieces(offset, to.len());
        let (first, rest) = to.split_at_mut(a.len());
        first.copy_from_slice(a);
        rest[..b.len()].copy_from_slice(b);
    }
}

impl Stream {
    fn around(endpoint: Endpoint, config: &Config) -> Self {
        Self { endpoint, sending: Ring::new(config.send_buffer), receiving: Ring::new(config.receive_buffer) }
    }

    /// See [`Endpoint::connect`]. Allocates both buffers.
    ///
    /// # Errors
    /// A value of `config` out of range.
    pub fn connect(
        config: Config,
        local_port: u16,
        remote_port: u16,
        isn: u32,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        Ok(Self::around(Endpoint::connect(config, local_port, remote_port, isn, now)?, &config))
    }

    /// See [`Endpoint::listen`].
    ///
    /// # Errors
    /// A value of `config` out of range.
    pub fn listen(config: Config, local_port: u16, isn: u32, now: Instant) -> Result<Self, ConfigError> {
        Ok(Self::around(Endpoint::listen(config, local_port, isn, now)?, &config))
    }

    /// See [`Endpoint::accept`].
    ///
    /// # Errors
    /// See [`AcceptError`].
    pub fn accept(config: Config, syn: &Segment, isn: u32, now: Instant) -> Result<Self, AcceptError> {
        Ok(Self::around(Endpoint::accept(config, syn, isn, now)?, &config))
    }

    /// The machine: state, events, counters, wake-up, `close`, `abort`. Its `write`, `read`, `handle_segment` and
    /// `poll_output` would bypass the buffers.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Appends bytes to the stream; returns how many there was room for.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let offset = self.endpoint.written_offset();
        let taken = self.endpoint.write(bytes.len() as u64) as usize;
        self.sending.put(offset, &bytes[..taken]);
        taken
    }

    /// Reads into `to`; returns how many bytes.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let offset = self.endpoint.read_offset();
        let taken = (to.len() as u64).min(self.endpoint.readable()) as usize;
        self.receiving.copy(offset, &mut to[..taken]);
        self.endpoint.read(taken as u64) as usize
    }

    /// Takes a segment with its payload; see [`Endpoint::handle_segment`].
    pub fn handle_segment(&mut self, now: Instant, segment: &Segment, payload: &[u8]) {
        let placed = self.endpoint.handle_segment(now, segment);
        let from = placed.skip as usize;
        if let Some(bytes) = payload.get(from..from + placed.len as usize) {
            self.receiving.put(placed.offset, bytes);
        }
    }

    /// Takes the payload of an IP packet from `addresses.source`.
    ///
    /// # Errors
    /// It is no segment, or a damaged one; nothing has happened.
    pub fn handle_bytes(
        &mut self,
        now: Instant,
        bytes: &[u8],
        addresses: &Addresses,
        ecn: Ecn,
    ) -> Result<(), ParseError> {
        let (segment, payload) = parse(bytes, addresses, ecn)?;
        self.handle_segment(now, &segment, payload);
        Ok(())
    }

    /// The next segment to send, written to the front of `buffer` as it travels to `addresses.destination`: what it is
    /// and its length, `None` when there is nothing. A `buffer` of 65,535 bytes is always long enough, one of MSS + 60
    /// for segments of this connection.
    ///
    /// # Panics
    /// If `buffer` is shorter than the segment.
    pub fn poll_output(
        &mut self,
        now: Instant,
        addresses: &Addresses,
        buffer: &mut [u8],
    ) -> Option<(SegmentOut, usize)> {
        let segment = self.endpoint.poll_output(now)?;
        let len =
            emit(&segment, addresses, buffer, |payload| self.sending.copy(segment.payload_offset, payload))
                .expect("the caller's buffer holds a segment of this connection");
        Some((segment, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_bytes_by_their_place() {
        let mut ring = Ring::new(10);
        ring.put(1007, b"abcdef");
        let mut out = [0; 6];
        ring.copy(1007, &mut out);
        assert_eq!(&out, b"abcdef");
        ring.put(1013, b"ghij");
        let mut out = [0; 10];
        ring.copy(1007, &mut out);
        assert_eq!(&out, b"abcdefghij");
    }
}
