//! Which of the queues of a discipline a packet goes to.

use foldhash::quality::FixedState;
use perhop_element::Cx;
use perhop_packet::Packet;
use perhop_wire::layout::Fragment;
use std::hash::{BuildHasher, Hasher};

/// A keyed hash of flows. The key is drawn with the first packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FlowHash(Option<u64>);

impl FlowHash {
    /// Draws the key if there is none. Whether it was drawn now: then what was taken over without one has to be pushed again,
    /// or packets of one flow would wait in two queues.
    #[inline]
    pub(super) fn draw(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.0.is_some() {
            return false;
        }
        self.0 = Some(u64::from(cx.random()) << 32 | u64::from(cx.random()));
        true
    }

    /// The number of a packet's queue, of so many. Before the key is drawn as with a key of zero.
    #[inline]
    pub(super) fn queue_of(self, packet: &Packet, queues: usize) -> usize {
        ((u128::from(hash_of(packet, self.0.unwrap_or(0))) * queues as u128) >> 64) as usize
    }
}

/// Hash of what all packets of a flow have in common: addresses, protocol and ports.
pub(super) fn hash_of(packet: &Packet, key: u64) -> u64 {
    let layout = &packet.meta().layout;
    let frame = packet.frame();
    let mut hasher = FixedState::with_seed(key).build_hasher();
    let at = usize::from(layout.l3_offset);
    let addresses = match layout.ip_version {
        4 => frame.get(at + 12..at + 20),
        6 => frame.get(at + 8..at + 40),
        _ => frame.get(..12),
    };
    hasher.write(addresses.unwrap_or(&[]));
    let ports = match layout.fragment {
        Fragment::Whole => u64::from(layout.src_port) << 16 | u64::from(layout.dst_port),
        Fragment::First | Fragment::Later => 0,
    };
    hasher.write_u64(ports << 32 | u64::from(layout.ethertype) << 8 | u64::from(layout.protocol));
    hasher.finish()
}
