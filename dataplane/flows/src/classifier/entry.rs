//! A rule as it is compared with packets: one cache line for IPv4, two for IPv6.

use super::key::{Packed, field};
use super::rule::{Action, Hit, Pattern, PortRange, Rule};
use perhop_packet::{ClassId, FilterId, ProfileId, SlaId};

/// A rule over addresses of `A` words.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry<const A: usize> {
    addresses: [u64; A],
    address_mask: [u64; A],
    /// The word "transport" without ports.
    low: u32,
    low_mask: u32,
    place: u32,
    place_mask: u32,
    /// First and last source port, first and last destination port.
    ports: [u16; 4],
    /// Order above [`SLOT_BITS`] above [`FLAG_BITS`].
    rank: u64,
    id: FilterId,
    class: ClassId,
    sla: SlaId,
    profile: ProfileId,
}

const _: () = assert!(size_of::<Entry<1>>() == 64 && size_of::<Entry<4>>() == 128);

/// Bits of a rule's number among all.
pub(crate) const SLOT_BITS: u32 = 20;
const FLAG_BITS: u32 = 4;
const TRUST: u64 = 1;
/// Detection may move the flow, or may not; neither: not said.
const REALTIME: u64 = 2;
const NOT_REALTIME: u64 = 4;

const ALL_PORTS: PortRange = PortRange { first: 0, last: u16::MAX };

impl<const A: usize> Entry<A> {
    /// `rule`, which is number `slot`, with its `pattern`.
    pub fn new(rule: &Rule, slot: u32, pattern: &Pattern<A>) -> Self {
        let (m, action) = (&rule.matches, &rule.action);
        let (src, dst) = (m.src_ports.unwrap_or(ALL_PORTS), m.dst_ports.unwrap_or(ALL_PORTS));
        let realtime = action.realtime.map_or(0, |yes| if yes { REALTIME } else { NOT_REALTIME });
        let flags = u64::from(action.trust_dscp) * TRUST | realtime;
        let (value, mask) = (&pattern.value, &pattern.mask);
        Self {
            addresses: value.addresses,
            address_mask: mask.addresses,
            low: value.transport as u32,
            low_mask: mask.transport as u32,
            place: value.place,
            place_mask: mask.place,
            ports: [src.first, src.last, dst.first, dst.last],
            rank: (rule.rank() << SLOT_BITS | u64::from(slot)) << FLAG_BITS | flags,
            id: rule.id,
            class: action.class.unwrap_or(ClassId::NONE),
            sla: action.sla.unwrap_or(SlaId::NONE),
            profile: action.profile.unwrap_or(ProfileId::NONE),
        }
    }

    /// Whether the rule matches `key`.
    #[inline]
    pub fn matches(&self, key: &Packed<A>) -> bool {
        let mut differ = 0;
        for i in 0..A {
            differ |= (key.addresses[i] ^ self.addresses[i]) & self.address_mask[i];
        }
        let low = (key.transport as u32 ^ self.low) & self.low_mask;
        let place = (key.place ^ self.place) & self.place_mask;
        let inside = |port: u16, first: u16, last: u16| port.wrapping_sub(first) <= last.wrapping_sub(first);
        let (src, dst) =
            ((key.transport >> field::SRC_PORT) as u16, (key.transport >> field::DST_PORT) as u16);
        let [src_first, src_last, dst_first, dst_last] = self.ports;
        (differ | u64::from(low | place) == 0)
            & inside(src, src_first, src_last)
            & inside(dst, dst_first, dst_last)
    }

    /// The rule's words as far as the mask of a table that may hold it goes.
    #[inline]
    pub fn words(&self) -> Packed<A> {
        let ports = u64::from(self.ports[0]) << field::SRC_PORT | u64::from(self.ports[2]) << field::DST_PORT;
        Packed { addresses: self.addresses, transport: ports | u64::from(self.low), place: self.place }
    }

    /// What the rule compares; of ports only what all of a range share.
    pub fn pattern(&self) -> Pattern<A> {
        let ports = |first: u16, last: u16| match first ^ last {
            0 => u64::from(u16::MAX),
            varying => u64::from(!(u16::MAX >> varying.leading_zeros())),
        };
        let [src_first, src_last, dst_first, dst_last] = self.ports;
        let ports =
            ports(src_first, src_last) << field::SRC_PORT | ports(dst_first, dst_last) << field::DST_PORT;
        let mask = Packed {
            addresses: self.address_mask,
            transport: ports | u64::from(self.low_mask),
            place: self.place_mask,
        };
        let words = self.words();
        Pattern { value: Packed { transport: words.transport & mask.transport, ..words }, mask }
    }

    /// The destination port of a rule that takes no other.
    pub fn dst_port(&self) -> Option<u16> {
        let [_, _, first, last] = self.ports;
        (first == last).then_some(first)
    }

    /// Tier and priority as one number.
    #[inline]
    pub fn rank(&self) -> u64 {
        self.rank >> (SLOT_BITS + FLAG_BITS)
    }

    /// The rule's number among all.
    #[inline]
    pub fn slot(&self) -> u32 {
        (self.rank >> FLAG_BITS) as u32 & ((1 << SLOT_BITS) - 1)
    }

    /// What the rule says.
    #[inline]
    pub fn hit(&self) -> Hit {
        let flag = |bit| self.rank & bit != 0;
        Hit {
            id: self.id,
            action: Action {
                class: self.class.is_some().then_some(self.class),
                sla: self.sla.is_some().then_some(self.sla),
                profile: self.profile.is_some().then_some(self.profile),
                trust_dscp: flag(TRUST),
                realtime: (flag(REALTIME) || flag(NOT_REALTIME)).then_some(flag(REALTIME)),
            },
        }
    }
}
