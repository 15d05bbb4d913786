//! Policies in force: which one a flow belongs to, and what each of its live flows gets.

use crate::live::LiveFlows;
use crate::settings::{AbrPolicyId, Match, Policy, Settings};
use crate::window::MAX_RATE_BPS;
use perhop_packet::{ClassId, FilterId, SlaId};
use perhop_units::Duration;
use perhop_wire::{Layout, ipv4, ipv6};
use std::net::IpAddr;
use std::sync::Arc;

/// "No policy" in a connection.
pub(crate) const NO_POLICY: u16 = u16::MAX;

/// What a packet was classified as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Logical class (before `route`).
    pub class: ClassId,
    /// Contract.
    pub sla: SlaId,
    /// Filter that decided the class.
    pub filter: FilterId,
}

impl Facts {
    /// What a flow's choice of policy is recognised by. Two that differ agree in one case of 65,536.
    #[inline]
    pub(crate) fn digest(&self, dscp: u8, generation: u32) -> u16 {
        let packed = u64::from(self.class.0) << 32 | u64::from(self.sla.0);
        let mixed = (packed ^ u64::from(generation) << 17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let packed = u64::from(self.filter.0) << 8 | u64::from(dscp);
        ((mixed ^ mixed >> 29 ^ packed).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 48) as u16
    }
}

/// What a policy has done since it has been there, all flows that ever belonged to it together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyCounters {
    /// Live flows now.
    pub flows: u32,
    /// What each of them gets now, bit/s; 0 when flows are only watched.
    pub share_bps: u64,
    /// Packets with data seen.
    pub packets: u64,
    /// Their bytes at IP length.
    pub bytes: u64,
    /// Windows lowered.
    pub rewritten: u64,
    /// New acknowledgments whose window could not be as small as the rate needs.
    pub floor_limited: u64,
}

/// State of one policy, by number; survives a change of the settings.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Place in the settings, [`NO_POLICY`] when it is gone.
    place: u16,
    counters: PolicyCounters,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Policies {
    settings: Arc<Settings>,
    states: Vec<State>,
    /// Those of other workers too, where there are any.
    live: Option<Arc<LiveFlows>>,
    /// Changes whenever flows may belong to other policies than before.
    generation: u32,
}

impl Policies {
    pub fn new(settings: Arc<Settings>) -> Self {
        let mut all = Self { settings: Arc::default(), states: Vec::new(), live: None, generation: 0 };
        let _ = all.replace(settings);
        all
    }

    /// Puts `settings` into force and returns the old ones. A number that was not in use begins to count at 0. O(policies).
    pub fn replace(&mut self, settings: Arc<Settings>) -> Arc<Settings> {
        let places = |state: &mut State| std::mem::replace(&mut state.place, NO_POLICY);
        let before: Vec<u16> = self.states.iter_mut().map(places).collect();
        for (place, policy) in settings.policies.iter().enumerate().take(usize::from(NO_POLICY)) {
            let id = policy.id.0 as usize;
            if id >= usize::from(NO_POLICY) {
                continue;
            }
            if id >= self.states.len() {
                self.states.resize(id + 1, State { place: NO_POLICY, ..State::default() });
            }
            let state = &mut self.states[id];
            state.place = place as u16;
            if before.get(id).is_none_or(|place| *place == NO_POLICY) {
                // Flows of a policy that had this number are still to leave it.
                let flows = state.counters.flows;
                state.counters = PolicyCounters { flows, ..PolicyCounters::default() };
            }
        }
        let of = |s: &Settings| s.policies.iter().map(|p| (p.id, p.matches.clone())).collect::<Vec<_>>();
        self.generation = self.generation.wrapping_add(u32::from(of(&settings) != of(&self.settings)));
        let old = std::mem::replace(&mut self.settings, settings);
        for id in 0..self.states.len() {
            self.reckon(id as u16);
        }
        old
    }

    /// Whether there is nothing to do at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.settings.policies.is_empty()
    }

    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// How often what flows belong to may have changed.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Policy `id`, unless it is gone.
    #[inline]
    pub fn policy(&self, id: u16) -> Option<&Policy> {
        self.settings.policies.get(usize::from(self.states.get(usize::from(id))?.place))
    }

    /// What policy `id` has done.
    pub fn counters(&self, id: AbrPolicyId) -> PolicyCounters {
        let counters = self.states.get(id.0 as usize).map_or_else(PolicyCounters::default, |s| s.counters);
        match self.live {
            Some(_) => {
                PolicyCounters { share_bps: self.share(id.0.min(u32::from(NO_POLICY)) as u16), ..counters }
            }
            None => counters,
        }
    }

    /// Shares from now on with the flows of other workers. To be called before the first flow.
    pub fn share_with_others(&mut self, live: Arc<LiveFlows>) {
        self.live = Some(live);
    }

    /// Live flows of policy `id`, in all workers.
    #[inline]
    fn live(&self, id: u16) -> u32 {
        match &self.live {
            Some(live) => live.of(id),
            None => self.states.get(usize::from(id)).map_or(0, |s| s.counters.flows),
        }
    }

    #[inline]
    pub fn counters_mut(&mut self, id: u16) -> Option<&mut PolicyCounters> {
        self.states.get_mut(usize::from(id)).map(|s| &mut s.counters)
    }

    /// A flow of policy `id` becomes live.
    pub fn join(&mut self, id: u16) {
        if let Some(counters) = self.counters_mut(id) {
            counters.flows += 1;
            if let Some(live) = &self.live {
                live.add(id);
            }
            self.reckon(id);
        }
    }

    /// A live flow of policy `id` becomes silent, ends, or goes to another policy.
    pub fn leave(&mut self, id: u16) {
        if let Some(counters) = self.counters_mut(id) {
            let had = counters.flows.min(1);
            counters.flows -= had;
            if let Some(live) = &self.live {
                live.take(id, had);
            }
            self.reckon(id);
        }
    }

    /// What a live flow of policy `id` gets, bit/s; 0: it is only watched.
    #[inline]
    pub fn share(&self, id: u16) -> u64 {
        if self.live.is_some() {
            return self.policy(id).map_or(0, |policy| share_of(policy, self.live(id)));
        }
        self.states.get(usize::from(id)).map_or(0, |s| s.counters.share_bps)
    }

    /// What a flow gets that is about to become live.
    pub fn next_share(&self, id: u16) -> u64 {
        let flows = self.live(id);
        self.policy(id).map_or(0, |policy| share_of(policy, flows.saturating_add(1)))
    }

    /// No flow is live any more.
    pub fn forget_flows(&mut self) {
        for id in 0..self.states.len() {
            let had = std::mem::take(&mut self.states[id].counters.flows);
            if let Some(live) = &self.live {
                live.take(id as u16, had);
            }
            self.reckon(id as u16);
        }
    }

    /// Shortest silence after which a flow of some policy is no longer live.
    pub fn shortest_idle(&self) -> Option<Duration> {
        self.settings.policies.iter().map(|p| p.idle).min()
    }

    fn reckon(&mut self, id: u16) {
        let flows = self.live(id);
        let share = self.policy(id).map_or(0, |policy| share_of(policy, flows));
        if let Some(counters) = self.counters_mut(id) {
            counters.share_bps = share;
        }
    }

    /// The first policy that matches a packet; [`NO_POLICY`] if none does. O(policies).
    pub fn choose(&self, facts: &Facts, frame: &[u8], layout: &Layout) -> u16 {
        let mut addresses = None;
        let found = self.settings.policies.iter().find(|policy| {
            let m = &policy.matches;
            fields_match(m, facts, layout) && {
                m.src.is_none() && m.dst.is_none()
                    || addresses.get_or_insert_with(|| endpoints(frame, layout)).is_some_and(|(src, dst)| {
                        m.src.is_none_or(|net| net.contains(&src))
                            && m.dst.is_none_or(|net| net.contains(&dst))
                    })
            }
        });
        found.map_or(NO_POLICY, |policy| policy.id.0.min(u32::from(NO_POLICY)) as u16)
    }
}

fn fields_match(m: &Match, facts: &Facts, layout: &Layout) -> bool {
    m.class.is_none_or(|class| class == facts.class)
        && m.sla.is_none_or(|sla| sla == facts.sla)
        && m.filter.is_none_or(|filter| filter == facts.filter)
        && (m.dscp == 0 || m.dscp >> (layout.tos >> 2) & 1 == 1)
        && m.src_ports.as_ref().is_none_or(|ports| ports.contains(&layout.src_port))
        && m.dst_ports.as_ref().is_none_or(|ports| ports.contains(&layout.dst_port))
}

/// Source and destination address.
pub(crate) fn endpoints(frame: &[u8], layout: &Layout) -> Option<(IpAddr, IpAddr)> {
    let packet = frame.get(usize::from(layout.l3_offset)..)?;
    match layout.ip_version {
        4 => ipv4::View::new_checked(packet).ok().map(|v| (v.src().into(), v.dst().into())),
        6 => ipv6::View::new_checked(packet).ok().map(|v| (v.src().into(), v.dst().into())),
        _ => None,
    }
}

/// What each of `flows` gets under `policy`, bit/s; 0: not limited.
fn share_of(policy: &Policy, flows: u32) -> u64 {
    let rate = policy.rate.bits_per_sec();
    if rate == 0 {
        return 0;
    }
    let peak = match policy.peak.bits_per_sec() {
        0 => u64::MAX,
        peak => peak,
    };
    (rate / u64::from(flows.max(1))).min(peak).clamp(1, MAX_RATE_BPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Floor, Latency};
    use perhop_units::Rate;

    fn settings(ids: &[u32]) -> Arc<Settings> {
        let policy = |id: &u32| Policy {
            id: AbrPolicyId(*id),
            matches: Match::default(),
            rate: Rate(12_000),
            peak: Rate(0),
            floor: Floor::Clamp,
            latency: Latency::PUBLISHED,
            allow_shrink: false,
            span: Duration::ZERO,
            limit_syn_ack: true,
            assume_shift: None,
            local: true,
            overhead: 0,
            idle: Duration::from_secs(5),
        };
        Arc::new(Settings { policies: ids.iter().map(policy).collect() })
    }

    #[test]
    fn flows_of_all_workers_share_what_a_policy_has() {
        let mut crew = [(); 3].map(|()| Policies::new(settings(&[0, 1])));
        let live = Arc::new(LiveFlows::default());
        crew.iter_mut().for_each(|one| one.share_with_others(live.clone()));
        for (worker, flows) in [1, 2, 3].into_iter().enumerate() {
            (0..flows).for_each(|_| crew[worker].join(0));
        }
        let counters = crew.each_ref().map(|one| one.counters(AbrPolicyId(0)));
        assert_eq!(counters.map(|c| (c.flows, c.share_bps)), [(1, 2_000), (2, 2_000), (3, 2_000)]);
        assert_eq!(crew.each_ref().map(|one| (one.share(0), one.share(1))), [(2_000, 12_000); 3]);
        assert_eq!(crew[0].next_share(0), 12_000 / 7);
        crew[2].forget_flows();
        crew[1].leave(0);
        crew[0].leave(0);
        // One that has none takes none of the others'.
        crew[0].leave(0);
        assert_eq!(crew.each_ref().map(|one| one.share(0)), [12_000; 3]);
        assert_eq!(live.of(0), 1);
    }

    #[test]
    fn a_number_that_is_used_again_counts_from_0() {
        let mut all = Policies::new(settings(&[0, 1]));
        let seen = |all: &Policies, id| {
            let c = all.counters(AbrPolicyId(id));
            (c.flows, c.packets, c.bytes, c.rewritten, c.floor_limited)
        };
        for id in 0..2 {
            all.join(id);
            all.join(id);
            let c = all.counters_mut(id).expect("it is there");
            (c.packets, c.bytes, c.rewritten, c.floor_limited) = (7, 7_000, 3, 1);
        }
        // What stays goes on counting, also at another place.
        let _ = all.replace(settings(&[1]));
        assert_eq!(seen(&all, 1), (2, 7, 7_000, 3, 1));
        // The number comes back for another policy; its predecessor's flows are on their way out of it.
        let _ = all.replace(settings(&[1, 0]));
        assert_eq!((seen(&all, 0), seen(&all, 1)), ((2, 0, 0, 0, 0), (2, 7, 7_000, 3, 1)));
        assert_eq!(all.share(0), 6_000);
        all.leave(0);
        all.leave(0);
        assert_eq!((seen(&all, 0), all.share(0)), ((0, 0, 0, 0, 0), 12_000));
    }
}
