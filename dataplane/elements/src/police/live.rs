//! Flows that have buckets of their own: their part of a divided contract, and the limit of a recognised flow.
//!
//! A bounded table by connection and direction. The flows of one contract form a list from the least to the most
//! recently seen, so that those gone silent are found at its front and its number of live flows is right at every
//! packet. A flow whose contract was removed or replaced by another of the same id is nobody's until its next packet.

use super::shared::{FlowShare, SharedBucket};
use super::spec::FlowLimit;
use crate::meter::Bucket;
use perhop_packet::SlaId;
use perhop_units::{Bytes, Duration, Instant, Tokens};

/// No flow.
pub(super) const NONE: u32 = u32::MAX;
/// Silent flows that one packet takes out of its contract at most, and entries it looks at for a free one.
const WORK: usize = 16;

/// One flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveFlow {
    key: u32,
    /// Contract and its generation, when it is in that contract's list.
    group: Option<(SlaId, u32)>,
    previous: u32,
    next: u32,
    seen: Instant,
    pub(super) share: FlowShare,
    /// The flow's own limit, since its first packet that has one.
    limit: Option<Bucket>,
}

impl LiveFlow {
    /// Whether a packet is within the flow's own limit, which it then pays for. Another limit than before goes on with
    /// the tokens there are.
    pub(super) fn is_within(&mut self, now: Instant, len: Bytes, limit: &FlowLimit) -> bool {
        let fresh = Bucket::new(limit.rate, limit.burst);
        let bucket = self.limit.get_or_insert(fresh);
        if (bucket.rate(), bucket.burst()) != (fresh.rate(), fresh.burst()) {
            let before = std::mem::replace(bucket, fresh);
            bucket.adopt(before, now);
        }
        bucket.refill(now);
        let cost = Tokens::from_bytes(len);
        let within = bucket.covers(cost);
        if within {
            bucket.take(cost);
        }
        within
    }
}

/// The list of one contract's flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Differs from that of every contract that had the id before.
    pub(super) generation: u32,
    first: u32,
    last: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self { generation: 0, first: NONE, last: NONE }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct LiveFlows {
    slab: Vec<LiveFlow>,
    capacity: usize,
    free: Vec<u32>,
    /// Place in the slab + 1, by hash of the key; 0 = none. At most half full.
    index: Vec<u32>,
    hand: usize,
    /// Not before then it makes sense to look for silent flows in a full table.
    reclaim_at: Instant,
    /// Packets of flows for which there was no room.
    pub(super) full: u64,
}

/// Contracts, by id: what the table needs of them.
pub(super) trait Contracts {
    /// The list and the bucket of a contract.
    fn contract(&mut self, id: SlaId) -> Option<(&mut Group, &mut SharedBucket)>;
}

impl LiveFlows {
    /// Room for `capacity` flows, reserved now and touched as it fills.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(WORK);
        Self {
            slab: Vec::with_capacity(capacity),
            capacity,
            free: Vec::with_capacity(capacity),
            index: vec![0; (2 * capacity).next_power_of_two()],
            hand: 0,
            reclaim_at: Instant::ZERO,
            full: 0,
        }
    }

    /// Flows inside, the silent ones included that nobody has looked at since.
    pub(super) fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    pub(super) fn flow_mut(&mut self, at: u32) -> Option<&mut LiveFlow> {
        self.slab.get_mut(at as usize)
    }

    /// The flow of `key`, seen at `now`, new if need be; `None` and counted when there is no room. Flows silent for more
    /// than `idle` give up their places. O(1) on average.
    pub(super) fn touch(
        &mut self,
        now: Instant,
        key: u32,
        idle: Duration,
        of: &mut impl Contracts,
    ) -> Option<u32> {
        let mut place = self.place(key);
        if let Some(at) = self.index[place].checked_sub(1) {
            let flow = &mut self.slab[at as usize];
            if now.since(flow.seen) > idle {
                // The same key after a silence is a flow anew.
                self.unlink(now, at, of);
                let flow = &mut self.slab[at as usize];
                *flow = LiveFlow { seen: now, ..Self::fresh(key) };
            } else {
                flow.seen = flow.seen.max(now);
            }
            return Some(at);
        }
        if self.free.is_empty() && self.slab.len() == self.capacity && now >= self.reclaim_at {
            self.reclaim(now, idle, of);
            if self.free.is_empty() {
                // Often enough to look at all of them twice within the time-out, and no more.
                let pace = u128::from(idle.0) * WORK as u128 / (2 * self.capacity as u128);
                self.reclaim_at = now + Duration(pace as u64);
            }
            // Taking one out moves others together.
            place = self.place(key);
        }
        let fresh = LiveFlow { seen: now, ..Self::fresh(key) };
        let at = match self.free.pop() {
            Some(at) => {
                self.slab[at as usize] = fresh;
                at
            }
            None if self.slab.len() < self.capacity => {
                self.slab.push(fresh);
                (self.slab.len() - 1) as u32
            }
            None => {
                self.full += 1;
                return None;
            }
        };
        self.index[place] = at + 1;
        Some(at)
    }

    /// Puts the flow at `at` last into the list of contract `id`, after taking out those silent for more than `idle`.
    pub(super) fn join(&mut self, now: Instant, at: u32, id: SlaId, idle: Duration, of: &mut impl Contracts) {
        // Those whose time was up before left before.
        self.expire(now, id, idle, of);
        let Some(generation) = of.contract(id).map(|(g, _)| g.generation) else { return };
        let mine = Some((id, generation));
        if self.slab[at as usize].group != mine {
            self.unlink(now, at, of);
            let Some((group, bucket)) = of.contract(id) else { return };
            self.slab[at as usize].group = mine;
            self.slab[at as usize].share = bucket.join(now);
            self.push_last(group, at);
        } else if let Some((group, _)) = of.contract(id)
            && group.last != at
        {
            self.take_out(group, at);
            self.push_last(group, at);
        }
    }

    /// Takes silent flows out of a contract; each left when its time was up.
    fn expire(&mut self, now: Instant, id: SlaId, idle: Duration, of: &mut impl Contracts) {
        for _ in 0..WORK {
            let Some((group, _)) = of.contract(id) else { return };
            let first = group.first;
            let Some(flow) = self.slab.get(first as usize) else { return };
            if now.since(flow.seen) <= idle {
                return;
            }
            let key = flow.key;
            self.unlink(flow.seen + idle, first, of);
            self.remove(key);
        }
    }

    /// Looks at the next few entries for silent ones.
    fn reclaim(&mut self, now: Instant, idle: Duration, of: &mut impl Contracts) {
        for _ in 0..WORK {
            let at = self.hand;
            self.hand = (at + 1) % self.capacity;
            let LiveFlow { key, seen, .. } = self.slab[at];
            if now.since(seen) > idle {
                self.unlink(now, at as u32, of);
                self.remove(key);
            }
        }
    }

    fn fresh(key: u32) -> LiveFlow {
        LiveFlow {
            key,
            group: None,
            previous: NONE,
            next: NONE,
            seen: Instant::ZERO,
            share: FlowShare::default(),
            limit: None,
        }
    }

    /// Takes a flow out of its contract, if that is still the one it joined.
    fn unlink(&mut self, now: Instant, at: u32, of: &mut impl Contracts) {
        let Some((id, generation)) = self.slab[at as usize].group.take() else { return };
        if let Some((group, bucket)) = of.contract(id).filter(|(g, _)| g.generation == generation) {
            self.take_out(group, at);
            bucket.leave(now);
        }
    }

    fn take_out(&mut self, group: &mut Group, at: u32) {
        let LiveFlow { previous, next, .. } = self.slab[at as usize];
        match self.slab.get_mut(previous as usize) {
            Some(flow) => flow.next = next,
            None => group.first = next,
        }
        match self.slab.get_mut(next as usize) {
            Some(flow) => flow.previous = previous,
            None => group.last = previous,
        }
    }

    fn push_last(&mut self, group: &mut Group, at: u32) {
        let last = group.last;
        let flow = &mut self.slab[at as usize];
        (flow.previous, flow.next) = (last, NONE);
        match self.slab.get_mut(last as usize) {
            Some(flow) => flow.next = at,
            None => group.first = at,
        }
        group.last = at;
    }

    fn home(&self, key: u32) -> usize {
        // Connections are numbered densely; a multiplication spreads them.
        let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.index.len() - 1)
    }

    /// Where `key` is in the index, or would go.
    #[inline]
    fn place(&self, key: u32) -> usize {
        let mut place = self.home(key);
        while let Some(at) = self.index[place].checked_sub(1) {
            if self.slab[at as usize].key == key {
                break;
            }
            place = (place + 1) & (self.index.len() - 1);
        }
        place
    }

    /// Frees the entry of `key`; entries behind it that had made way for it move up.
    fn remove(&mut self, key: u32) {
        let mask = self.index.len() - 1;
        let mut hole = self.place(key);
        let Some(at) = self.index[hole].checked_sub(1) else { return };
        self.free.push(at);
        let mut place = (hole + 1) & mask;
        while let Some(at) = self.index[place].checked_sub(1) {
            let home = self.home(self.slab[at as usize].key);
            // It may move up if its home is not between the hole and its place.
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(hole) & mask) {
                self.index[hole] = at + 1;
                hole = place;
            }
            place = (place + 1) & mask;
        }
        self.index[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared::Split;
    use super::*;
    use perhop_units::Rate;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    struct Two([Option<(Group, SharedBucket)>; 2]);

    impl Contracts for Two {
        fn contract(&mut self, id: SlaId) -> Option<(&mut Group, &mut SharedBucket)> {
            self.0[id.index()].as_mut().map(|(g, b)| (g, b))
        }
    }

    fn contract(generation: u32) -> Option<(Group, SharedBucket)> {
        let split = Split { rate: Rate(1_000_000), burst: Bytes(3_000), shared_pct: 0 };
        Some((Group { generation, ..Group::default() }, SharedBucket::new(split)))
    }

    const IDLE: Duration = Duration(100);

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Against maps: after every packet its contract has as many live flows as were seen within the time-out.
        #[test]
        fn a_contract_has_as_many_flows_as_are_live(
            steps in prop::collection::vec((0u32..24, 0u32..2, 0u64..40, 0u8..40), 1..400),
        ) {
            let mut of = Two([contract(0), contract(1)]);
            let mut flows = LiveFlows::new(16);
            let mut model: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
            let (mut now, mut generation) = (0, 2);
            for (key, sla, gap, other) in steps {
                now += gap;
                let at = Instant(now);
                model.retain(|_, (_, seen)| now - *seen <= IDLE.0);
                if other == 0 {
                    // Another contract with the same id: nobody is in it.
                    of.0[sla as usize] = contract(generation);
                    generation += 1;
                    model.retain(|_, (s, _)| *s != sla);
                }
                match flows.touch(at, key, IDLE, &mut of) {
                    Some(slot) => {
                        flows.join(at, slot, SlaId(sla), IDLE, &mut of);
                        model.insert(key, (sla, now));
                        let live = model.values().filter(|(s, _)| *s == sla).count() as u32;
                        prop_assert_eq!(of.0[sla as usize].as_ref().map(|(_, b)| b.flows()), Some(live));
                    }
                    None => prop_assert!(flows.len() == 16 && !model.contains_key(&key)),
                }
                let slots = flows.index.iter().filter(|i| **i != 0).count();
                prop_assert_eq!(slots, flows.len());
                for at in flows.index.iter().filter_map(|i| i.checked_sub(1)) {
                    let key = flows.slab[at as usize].key;
                    prop_assert_eq!(flows.index[flows.place(key)], at + 1);
                }
            }
        }
    }

    #[test]
    fn a_full_table_takes_the_places_of_silent_flows_only() {
        let mut of = Two([contract(0), None]);
        let mut flows = LiveFlows::new(16);
        for key in 0..16 {
            assert!(flows.touch(Instant(0), key, IDLE, &mut of).is_some());
        }
        assert_eq!(flows.touch(Instant(50), 16, IDLE, &mut of), None);
        assert_eq!((flows.full, flows.len()), (1, 16));
        assert!(flows.touch(Instant(101), 16, IDLE, &mut of).is_some());
        assert!(flows.len() <= 16);
    }
}
