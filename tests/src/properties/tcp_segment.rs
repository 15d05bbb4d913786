//! A TCP endpoint under segments that no peer would send: whatever bytes arrive, it does not panic, answers with a
//! bounded number of well-formed segments, holds no more than its buffers, never takes back what it acknowledged or
//! offered, and asks for no wake-up in the past.
//!
//! Input: a byte of switches and both initial sequence numbers; then for each arrival a header of four bytes (length of
//! the bytes that follow, payload to add in units of 16 B, what the application does, logarithm of the wait) and that
//! many bytes of a segment without its checksum.
use perhop_tcp::stream::Stream;
use perhop_tcp::wire::{Addresses, parse, parse_unchecked};
use perhop_tcp::{Config, Segment, SegmentOut, State};
use perhop_units::{Duration, Instant};
use perhop_wire::Ecn;
use perhop_wire::tcp::{Repr, flags};
use perhop_wire::tcp_options;
use std::net::Ipv4Addr;

const PORTS: (u16, u16) = (1000, 80);
const SEND_BUFFER: u32 = 20_000;
const RECEIVE_BUFFER: u32 = 5_000;
const ARRIVALS: usize = 64;
const ADDRESSES: Addresses =
    Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) };

/// What an endpoint may not take back.
struct Kept {
    isn: u32,
    scale: u8,
    acknowledged: Option<u32>,
    edge: Option<u32>,
}

impl Kept {
    /// Checks a segment on its way out, as a header and as bytes.
    fn check(&mut self, out: &SegmentOut, bytes: &[u8]) {
        let (again, payload) = parse(bytes, &ADDRESSES, out.ecn).expect("what is sent is well formed");
        assert_eq!((again.header, payload.len()), (out.header, out.payload_len as usize));
        let header = &out.header;
        if header.flags & flags::RST != 0 {
            return;
        }
        if header.flags & flags::SYN != 0 {
            self.scale = header.options.window_scale.unwrap_or(0);
            assert_eq!((header.seq, out.payload_len), (self.isn, 0));
        } else if out.payload_len > 0 {
            assert_eq!(header.seq, self.isn.wrapping_add(1).wrapping_add(out.payload_offset as u32));
        }
        if header.flags & flags::ACK == 0 {
            return;
        }
        let not_before = |now: u32, then: u32| now.wrapping_sub(then) < 1 << 31;
        if let Some(then) = self.acknowledged.replace(header.ack) {
            assert!(not_before(header.ack, then), "acknowledged {then}, then {}", header.ack);
        }
        if header.flags & flags::SYN == 0 {
            let edge = header.ack.wrapping_add(u32::from(header.window) << self.scale);
            let slack = (1 << self.scale) - 1;
            if let Some(then) = self.edge {
                assert!(not_before(edge.wrapping_add(slack), then), "offered {then}, then {edge}");
            }
            self.edge = Some(edge);
        }
    }
}

/// Sends what there is to send.
fn drain(stream: &mut Stream, now: Instant, kept: &mut Kept, buffer: &mut [u8]) {
    let mut answers = 0;
    while let Some((out, len)) = stream.poll_output(now, &ADDRESSES, buffer) {
        kept.check(&out, &buffer[..len]);
        answers += 1;
        assert!(answers <= SEND_BUFFER, "it sends without end: {stream:?}");
    }
    while stream.endpoint().poll_event().is_some() {}
    let endpoint = stream.endpoint();
    assert!(endpoint.acked_offset() <= endpoint.written_offset());
    assert!(endpoint.written_offset() - endpoint.acked_offset() <= u64::from(SEND_BUFFER));
    assert!(endpoint.readable() <= u64::from(RECEIVE_BUFFER));
    let trace = endpoint.trace();
    assert!(trace.mss > 0 && trace.flight <= u64::from(SEND_BUFFER) + 2, "{trace:?}");
    assert!(endpoint.next_wakeup().is_none_or(|at| at > now), "a deadline stays in the past: {endpoint:?}");
}

fn config(switches: u8) -> Config {
    let standard = if switches & 2 == 0 { Config::default() } else { Config::rfc() };
    Config {
        ecn: switches & 4 != 0,
        nagle: switches & 8 != 0,
        ranges: 4,
        send_buffer: SEND_BUFFER,
        receive_buffer: RECEIVE_BUFFER,
        ..standard
    }
}

/// A connection whose peer has answered.
fn established(config: Config, isn: u32, peer: u32, kept: &mut Kept, buffer: &mut [u8]) -> Stream {
    let now = Instant::ZERO;
    let mut stream = Stream::connect(config, PORTS.0, PORTS.1, isn, now).expect("a sound configuration");
    let (syn, len) = stream.poll_output(now, &ADDRESSES, buffer).expect("a SYN");
    kept.check(&syn, &buffer[..len]);
    let options = tcp_options::Repr { mss: Some(1460), ..syn.header.options };
    let header = Repr {
        src_port: PORTS.1,
        dst_port: PORTS.0,
        seq: peer,
        ack: isn.wrapping_add(1),
        flags: flags::SYN | flags::ACK,
        window: 8000,
        urgent: 0,
        options,
    };
    drain(&mut stream, now, kept, buffer);
    stream.handle_segment(now, &Segment { header, payload_len: 0, ecn: Ecn::NotEct }, &[]);
    drain(&mut stream, now, kept, buffer);
    assert_eq!(stream.endpoint().state(), State::Established);
    stream
}

/// See the module.
pub fn endurance(data: &[u8]) {
    let Some((&[switches, a, b, c, d, e, f, g, h], mut rest)) = data.split_first_chunk() else { return };
    let (isn, peer) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    let mut buffer = vec![0; 65_535];
    let mut kept = Kept { isn, scale: 0, acknowledged: None, edge: None };
    let mut now = Instant::ZERO;
    let connects = switches & 1 == 0;
    let mut stream = if connects {
        established(config(switches), isn, peer, &mut kept, &mut buffer)
    } else {
        Stream::listen(config(switches), PORTS.0, isn, now).expect("a sound configuration")
    };
    for _ in 0..ARRIVALS {
        let Some((&[len, more, action, wait], behind)) = rest.split_first_chunk() else { break };
        let (bytes, behind) = behind.split_at(usize::from(len).min(behind.len()));
        rest = behind;
        if let Ok((mut segment, payload)) = parse_unchecked(bytes, Ecn::from_octet(action >> 6)) {
            assert_eq!(segment.payload_len as usize, payload.len());
            let mut payload = payload.to_vec();
            payload.resize(payload.len() + usize::from(more) * 16, 0xab);
            segment.payload_len = payload.len() as u32;
            (segment.header.src_port, segment.header.dst_port) = (PORTS.1, PORTS.0);
            if connects {
                // Numbers count from the two ends, so that many segments fall into the windows.
                segment.header.seq = segment.header.seq.wrapping_add(peer);
                segment.header.ack = segment.header.ack.wrapping_add(isn);
            }
            stream.handle_segment(now, &segment, &payload);
        }
        match action & 7 {
            0 | 1 => drop(stream.write(&[0x55; 700])),
            2 => drop(stream.write(&[0x55; 20_000])),
            3 => drop(stream.read(&mut [0; 100])),
            4 => drop(stream.read(&mut [0; 10_000])),
            5 if action & 8 != 0 => stream.endpoint().close(),
            6 if action & 24 == 24 => stream.endpoint().abort(),
            _ => {}
        }
        drain(&mut stream, now, &mut kept, &mut buffer);
        now += Duration(1 << (wait % 36));
        drain(&mut stream, now, &mut kept, &mut buffer);
    }
}
