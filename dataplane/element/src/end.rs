//! How packets of measured calls end, told to whoever measures the calls.

use perhop_packet::{ClassId, Direction, DropReason, NO_MEDIA, Packet};
use perhop_units::Instant;

/// Ends kept until somebody takes them; more are lost and counted.
pub(crate) const ENDS: usize = 4_096;

/// How a packet with [`perhop_packet::Meta::media`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEnd {
    /// Its connection.
    pub connection: u32,
    /// Half of the connection.
    pub direction: Direction,
    /// Which of the router's workers has the connection.
    pub home: u8,
    /// Why it was dropped; `None`: it left by a port, or was for this machine.
    pub drop: Option<DropReason>,
    /// Its logical class then.
    pub class: ClassId,
    /// When it came.
    pub received_at: Instant,
    /// When it ended.
    pub at: Instant,
    /// RTP sequence number.
    pub sequence: u16,
    /// RTP timestamp.
    pub timestamp: u32,
}

impl PacketEnd {
    /// The end of `packet` at `at`; `None` if its header is not there any more.
    fn of(at: Instant, packet: &Packet, drop: Option<DropReason>) -> Option<Self> {
        let meta = packet.meta();
        let media = usize::from(meta.layout.payload_offset) + usize::from(meta.media);
        let header = packet.frame().get(media..)?.first_chunk::<8>()?;
        let [_, _, s0, s1, t0, t1, t2, t3] = *header;
        Some(Self {
            connection: meta.connection,
            direction: meta.direction,
            home: meta.home,
            drop,
            class: meta.class,
            received_at: meta.received_at,
            at,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
        })
    }
}

/// Ends that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    ends: Vec<PacketEnd>,
    lost: u64,
}

impl Ends {
    /// A packet ends. All but those of measured calls pass with one comparison.
    #[inline]
    pub fn note(&mut self, at: Instant, packet: &Packet, drop: Option<DropReason>) {
        if packet.meta().media != NO_MEDIA {
            self.keep(at, packet, drop);
        }
    }

    #[cold]
    fn keep(&mut self, at: Instant, packet: &Packet, drop: Option<DropReason>) {
        let Some(end) = PacketEnd::of(at, packet, drop) else { return };
        if self.ends.len() < ENDS {
            self.ends.push(end);
        } else {
            self.lost += 1;
        }
    }

    /// Moves what there is to `into`; how many were lost since the last call.
    pub fn take(&mut self, into: &mut Vec<PacketEnd>) -> u64 {
        into.append(&mut self.ends);
        std::mem::take(&mut self.lost)
    }
}
