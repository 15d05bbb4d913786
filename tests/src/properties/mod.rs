//! Properties of everything that reads foreign bytes, as functions from bytes that panic when the property fails.
//!
//! A fuzz target calls one of them with inputs that libFuzzer makes; `tests/corpus.rs` calls them with every file of
//! `fuzz/corpus/NAME`. [`TARGETS`] is the list of both.

pub mod abr;
pub mod agent_file;
pub mod capture;
pub mod data_path;
pub mod describe;
pub mod frame;
pub mod graph;
pub mod headers;
pub mod nfqueue;
pub mod router_file;
pub mod sip;
pub mod tcapi;
pub mod tcp_segment;
pub mod transaction;

/// A property by the name of its fuzz target and corpus.
pub type Target = (&'static str, fn(&[u8]));

/// Every fuzz target.
pub const TARGETS: [Target; 30] = [
    ("abr", abr::rate_control),
    ("agent_file", agent_file::reading),
    ("arp", headers::arp),
    ("capture", capture::classification),
    ("cops", perhop_cops::properties::both_ends),
    ("data_path", data_path::forwarding),
    ("describe", describe::description),
    ("dissect", frame::dissection),
    ("ethernet", headers::ethernet),
    ("graph", graph::language),
    ("icmpv4", headers::icmpv4),
    ("icmpv6", headers::icmpv6),
    ("ipv4", headers::ipv4),
    ("ipv6", headers::ipv6),
    ("ipv6_ext", headers::ipv6_ext),
    ("ndp", headers::ndp),
    ("nfqueue", nfqueue::messages),
    ("radius", perhop_radius::properties::any_datagram),
    ("router_file", router_file::reading),
    ("rtp", headers::rtp),
    ("scenario_file", perhop_scenario::properties::scenario_file),
    ("sdp", sip::description),
    ("sip", sip::proxy),
    ("tcapi", tcapi::server),
    ("tcp", headers::tcp),
    ("tcp_options", headers::tcp_options),
    ("tcp_segment", tcp_segment::endurance),
    ("transaction", transaction::contract),
    ("udp", headers::udp),
    ("vlan", headers::vlan),
];

/// Bytes taken from the front of an input, as numbers and pieces; zeros when it is used up.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// An input that begins with `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }
    /// The next two bytes, big-endian.
    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }
    /// The next `len` bytes, or as many as there are.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (piece, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        piece
    }
}

/// `frame` with the sequence number and time of the RTP packet that would follow it, if it is an Ethernet frame with
/// room for one behind its UDP header.
pub fn successor(frame: &[u8]) -> Vec<u8> {
    let mut next = frame.to_vec();
    let Ok(layout) = perhop_wire::dissect(frame) else { return next };
    if layout.payload_offset == 0 {
        return next;
    }
    if let Some(rtp) =
        next.get_mut(usize::from(layout.payload_offset)..).and_then(|p| p.first_chunk_mut::<8>())
    {
        let sequence = u16::from_be_bytes([rtp[2], rtp[3]]).wrapping_add(1);
        let timestamp = u32::from_be_bytes([rtp[4], rtp[5], rtp[6], rtp[7]]).wrapping_add(160);
        rtp[2..4].copy_from_slice(&sequence.to_be_bytes());
        rtp[4..].copy_from_slice(&timestamp.to_be_bytes());
    }
    next
}
