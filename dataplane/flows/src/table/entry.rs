//! One connection: two directions, their cached verdicts and counters.

use super::key::FlowKey;
use crate::realtime::demux::Evidence;
use crate::realtime::reason::Reason;
use perhop_packet::{ClassId, FilterId, ProfileId, SlaId};

/// No entry, no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// What classification said about packets of one direction with the same `aux`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Verdict {
    /// In-port, and the DSCP, TCP-flag and fragment bits that some filter uses.
    pub aux: u32,
    /// Generation of the rules it holds for.
    pub stamp: u32,
    pub filter: FilterId,
    pub sla: SlaId,
    pub profile: ProfileId,
    pub class: ClassId,
    /// [`Verdict::VALID`], [`Verdict::PROMOTABLE`].
    pub flags: u32,
}

impl Verdict {
    /// Holds something.
    pub const VALID: u32 = 1;
    /// Detection may move the flow to the real-time class.
    pub const PROMOTABLE: u32 = 2;

    #[inline]
    pub fn is_valid(&self) -> bool {
        self.flags & Self::VALID != 0
    }
    #[inline]
    pub fn promotable(&self) -> bool {
        self.flags & Self::PROMOTABLE != 0
    }
}

/// One direction. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Half {
    /// The verdict of the usual `aux`; up to three more are in the connection's overflow slot.
    pub verdict: Verdict,
    /// Milliseconds, wrapping, of the last packet.
    pub last_ms: u32,
    pub packets: u64,
    /// IP length.
    pub bytes: u64,
    /// SSRC of the recognised flow.
    pub ssrc: u32,
    /// When its last packet came.
    pub ssrc_ms: u32,
    /// Slot of the undecided state, or [`NONE`].
    pub undecided: u32,
    pub realtime: bool,
    pub payload_type: u8,
    /// Per cent.
    pub confidence: u8,
    pub spare: u8,
}

impl Half {
    pub const EMPTY: Self = Self {
        verdict: Verdict {
            aux: 0,
            stamp: 0,
            filter: FilterId::NONE,
            sla: SlaId::NONE,
            profile: ProfileId::NONE,
            class: ClassId::NONE,
            flags: 0,
        },
        last_ms: 0,
        packets: 0,
        bytes: 0,
        ssrc: 0,
        ssrc_ms: 0,
        undecided: NONE,
        realtime: false,
        payload_type: 0,
        confidence: 0,
        spare: 0,
    };
}

/// What a recognised half is, in 16 bits: reason (4), offset of its headers (6), packets in a row that did not fit (6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding(u16);

impl Finding {
    pub fn new(reason: Reason, offset: u8) -> Self {
        Self(reason as u16 | u16::from(offset & 0x3f) << 4)
    }
    pub fn reason(self) -> Option<Reason> {
        Reason::of((self.0 & 0xf) as u8)
    }
    /// Whether packets carry the half's SSRC.
    #[inline]
    pub fn has_ssrc(self) -> bool {
        (1..Reason::T38 as u16).contains(&(self.0 & 0xf))
    }
    #[inline]
    pub fn offset(self) -> u8 {
        (self.0 >> 4 & 0x3f) as u8
    }
    #[inline]
    pub fn misfits(self) -> u8 {
        (self.0 >> 10) as u8
    }
    /// Saturates at 63.
    pub fn with_misfits(self, misfits: u8) -> Self {
        Self(self.0 & 0x3ff | u16::from(misfits.min(63)) << 10)
    }
}

/// A connection: three cache lines, of which a packet touches the first and one other.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub key: FlowKey,
    /// Next entry of the same wheel slot or of the free list.
    pub next: u32,
    /// Overflow slot of further verdicts, or [`NONE`].
    pub overflow: u32,
    /// Number of the packet that decided each half's detection; saturating.
    pub decided_at: [u16; 2],
    /// What each half was recognised as, while it is.
    pub findings: [Finding; 2],
    /// What has gone by that goes with media.
    pub evidence: Evidence,
    /// The lower endpoint (0) or the other (1) sent the first packet.
    pub opener: u8,
    /// TCP has seen FIN or RST.
    pub closing: bool,
    pub live: bool,
    pub halves: [Half; 2],
}

impl Entry {
    pub fn new(key: FlowKey, opener: u8, now_ms: u32) -> Self {
        let half = Half { last_ms: now_ms, ..Half::EMPTY };
        Self {
            key,
            next: NONE,
            overflow: NONE,
            decided_at: [0; 2],
            findings: [Finding::default(); 2],
            evidence: Evidence::default(),
            opener,
            closing: false,
            live: true,
            halves: [half; 2],
        }
    }

    /// Whether a half's slot is that of a call; otherwise it is of what is not decided.
    pub fn is_measured(&self, half: usize) -> bool {
        self.halves[half & 1].realtime && self.findings[half & 1].has_ssrc()
    }

    /// Milliseconds since the last packet of either direction.
    pub fn idle_ms(&self, now_ms: u32) -> u32 {
        self.halves.iter().map(|h| elapsed_ms(now_ms, h.last_ms)).min().unwrap_or(0)
    }
}

/// Milliseconds from `then` to `now`; 0 when `then` is later. Right for spans below 24 days.
#[inline]
pub(crate) fn elapsed_ms(now: u32, then: u32) -> u32 {
    let d = now.wrapping_sub(then);
    if d > u32::MAX / 2 { 0 } else { d }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_keeps_its_parts_apart() {
        for reason in (1..=10).map(|n| Reason::of(n).unwrap()) {
            for (offset, misfits) in [(0, 0), (36, 32), (63, 63)] {
                let finding = Finding::new(reason, offset).with_misfits(misfits);
                assert_eq!(
                    (finding.reason(), finding.offset(), finding.misfits()),
                    (Some(reason), offset, misfits)
                );
                assert_eq!(finding.has_ssrc(), reason.is_rtp());
            }
        }
        assert_eq!((Reason::of(0), Reason::of(11), Finding::default().has_ssrc()), (None, None, false));
    }

    #[test]
    fn an_entry_with_its_buckets_is_small() {
        assert_eq!(size_of::<Half>(), 64);
        assert_eq!(size_of::<Entry>(), 192);
        // Buckets: 8 bytes each, between two and four an entry.
        assert!(size_of::<Entry>() + 4 * 8 <= 256);
    }
}
