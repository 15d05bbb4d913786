//! Implicit admission: flows that nobody announced are admitted, refused and dropped by what the class uses.
//!
//! A newly recognised flow is accepted iff what is used, with what flows admitted a moment ago will use, is below T_a of
//! the class's cap. Above T_d one admitted flow is dropped; then nothing for the hold-off, because a meter with a window
//! still sees the dropped flow. Regular flows are refused and dropped before premium ones.
//!
//! The base of both shares is the configured cap and not the momentary allocation: an allocation that follows the load
//! keeps their ratio constant by construction.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", I and V.4.

use crate::bounds::share;
use crate::random::Random;
use perhop_units::{Duration, Instant, Rate};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Name of an admitted flow, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlowId(pub u64);

/// How long a flow is spared. Lower ranks are refused and dropped first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    /// Everybody.
    #[default]
    Regular,
    /// Refused and dropped after every regular flow.
    Premium,
}

/// Which admitted flow is dropped, among those of the lowest rank present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropPolicy {
    /// Any, with equal chances.
    #[default]
    Random,
    /// The one with the highest measured rate.
    Largest,
    /// The one with the lowest measured rate.
    Smallest,
    /// The one admitted first.
    Oldest,
}

/// Configuration of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AdmissionConfig {
    /// The class's cap, base of the shares, above 0.
    pub cap: Rate,
    /// T_a: a regular flow is admitted below this share of the cap. Parts per million.
    pub admit_ppm: u32,
    /// The same for premium flows, from T_a to below T_d.
    pub premium_admit_ppm: u32,
    /// T_d: above this share of the cap a flow is dropped, at most one whole.
    pub drop_ppm: u32,
    /// Which one.
    pub policy: DropPolicy,
    /// Time after a drop without another; published experiments have none, one measurement interval avoids dropping
    /// several flows for one overload.
    pub hold_off: Duration,
    /// What a new flow counts until the meter has seen it.
    pub assumed_rate: Rate,
    /// How long it counts: one measurement interval.
    pub assumed_for: Duration,
    /// Idle time after which a flow has ended. Kept here for the caller that watches the flows.
    pub idle: Duration,
}

impl Default for AdmissionConfig {
    /// 300 kbit/s, T_a = 90 %, T_d = 95 %, the published class; one measurement interval of 0.8 s and 5 s idle time.
    fn default() -> Self {
        Self {
            cap: Rate::from_kbit(300),
            admit_ppm: 900_000,
            premium_admit_ppm: 925_000,
            drop_ppm: 950_000,
            policy: DropPolicy::Random,
            hold_off: Duration::from_millis(800),
            assumed_rate: Rate::from_kbit(33),
            assumed_for: Duration::from_millis(800),
            idle: Duration::from_secs(5),
        }
    }
}

impl AdmissionConfig {
    /// Use at which flows of `rank` are refused: T_a of the cap.
    pub fn admit_below(&self, rank: Rank) -> Rate {
        share(
            self.cap,
            match rank {
                Rank::Regular => self.admit_ppm,
                Rank::Premium => self.premium_admit_ppm,
            },
        )
    }

    /// Use above which a flow is dropped: T_d of the cap.
    pub fn drop_above(&self) -> Rate {
        share(self.cap, self.drop_ppm)
    }

    /// Whether a flow of `rank` fits beside `used` and `pending`. Equality refuses.
    pub fn accepts(&self, rank: Rank, used: Rate, pending: Rate) -> bool {
        used.saturating_add(pending) < self.admit_below(rank)
    }

    /// Which flows would be admitted while nothing is pending.
    pub fn gate(&self, used: Rate) -> Gate {
        if self.accepts(Rank::Regular, used, Rate::ZERO) {
            Gate::Open
        } else if self.accepts(Rank::Premium, used, Rate::ZERO) {
            Gate::PremiumOnly
        } else {
            Gate::Closed
        }
    }
}

/// Which new flows a class admits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// All.
    #[default]
    Open,
    /// Premium flows only.
    PremiumOnly,
    /// None.
    Closed,
}

/// Decides when to drop: above T_d, and not within the hold-off of the drop before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropGate {
    /// No drop before this.
    until: Option<Instant>,
}

impl DropGate {
    /// Whether to drop a flow now because of `used`. Equality with T_d keeps it.
    pub fn overload(&mut self, now: Instant, used: Rate, config: &AdmissionConfig) -> bool {
        used > config.drop_above() && self.open(now, config)
    }

    /// Whether to drop a flow now for another reason: only the hold-off counts. Begins a new one if so.
    pub fn open(&mut self, now: Instant, config: &AdmissionConfig) -> bool {
        let open = self.until.is_none_or(|until| now >= until);
        if open {
            self.until = Some(now + config.hold_off);
        }
        open
    }
}

/// An admitted flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmittedFlow {
    /// Its name.
    pub id: FlowId,
    /// Its rank.
    pub rank: Rank,
    /// When it was admitted.
    pub since: Instant,
    /// Rate last measured, the assumed one before.
    pub rate: Rate,
}

/// What became of a newly recognised flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may use the class.
    Admitted,
    /// The class is in use up to the share for this rank.
    Refused {
        /// What was in use, flows admitted a moment ago included.
        used: Rate,
        /// What that had to be below.
        limit: Rate,
    },
    /// The table of admitted flows is full.
    TableFull,
}

/// Flow counters. Percentages are `None` where nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCounters {
    /// Newly recognised flows.
    pub offered: u64,
    /// Of these, admitted.
    pub admitted: u64,
    /// Of these, refused because of the class's use.
    pub refused: u64,
    /// Of these, refused because the table was full.
    pub table_full: u64,
    /// Admitted and dropped later.
    pub dropped: u64,
    /// Admitted and ended by themselves.
    pub ended: u64,
}

impl FlowCounters {
    /// Refused of those offered, per cent.
    pub fn refused_pct(&self) -> Option<f64> {
        percent(self.refused + self.table_full, self.offered)
    }
    /// Dropped of those admitted, per cent.
    pub fn dropped_pct(&self) -> Option<f64> {
        percent(self.dropped, self.admitted)
    }
    /// Dropped of those offered, per cent.
    pub fn dropped_of_offered_pct(&self) -> Option<f64> {
        percent(self.dropped, self.offered)
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// The flows of a class: who is admitted, who is dropped. Everything is O(log flows), choosing a victim O(flows).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Admission {
    config: AdmissionConfig,
    /// Most flows at a time.
    limit: usize,
    flows: BTreeMap<FlowId, AdmittedFlow>,
    /// Until when flows admitted a moment ago count with the assumed rate.
    recent: VecDeque<Instant>,
    counters: FlowCounters,
}

impl Admission {
    /// An empty class that admits at most `limit` flows at a time.
    pub fn new(config: AdmissionConfig, limit: usize) -> Self {
        Self {
            config,
            limit,
            flows: BTreeMap::new(),
            recent: VecDeque::new(),
            counters: FlowCounters::default(),
        }
    }

    /// A flow was recognised while the class used `used` (the meter's estimate). A flow that is admitted already stays so
    /// and is not counted again.
    pub fn offer(&mut self, now: Instant, id: FlowId, rank: Rank, used: Rate) -> Verdict {
        if self.flows.contains_key(&id) {
            return Verdict::Admitted;
        }
        self.counters.offered += 1;
        let pending = self.pending(now);
        if !self.config.accepts(rank, used, pending) {
            self.counters.refused += 1;
            let limit = self.config.admit_below(rank);
            return Verdict::Refused { used: used.saturating_add(pending), limit };
        }
        if self.flows.len() >= self.limit {
            self.counters.table_full += 1;
            return Verdict::TableFull;
        }
        self.counters.admitted += 1;
        self.recent.push_back(now + self.config.assumed_for);
        self.flows.insert(id, AdmittedFlow { id, rank, since: now, rate: self.config.assumed_rate });
        Verdict::Admitted
    }

    /// What flows admitted a moment ago are taken to use on top of the estimate.
    pub fn pending(&mut self, now: Instant) -> Rate {
        while self.recent.front().is_some_and(|until| *until <= now) {
            self.recent.pop_front();
        }
        Rate(self.config.assumed_rate.0.saturating_mul(self.recent.len() as u64))
    }

    /// Tells the rate of a flow, which the policies `largest` and `smallest` and the correction of the estimate use.
    /// Unknown flows are ignored.
    pub fn measured(&mut self, id: FlowId, rate: Rate) {
        if let Some(flow) = self.flows.get_mut(&id) {
            flow.rate = rate;
        }
    }

    /// A flow ended by itself or was idle; `None` if it was not admitted.
    pub fn ended(&mut self, id: FlowId) -> Option<AdmittedFlow> {
        let flow = self.flows.remove(&id)?;
        self.counters.ended += 1;
        Some(flow)
    }

    /// Drops one flow by the policy; `None` if there is none. The caller cancels it and tells its rate to the meter.
    pub fn drop_one(&mut self, random: &mut impl Random) -> Option<AdmittedFlow> {
        let id = choose(self.config.policy, self.flows.values(), random)?;
        let flow = self.flows.remove(&id)?;
        self.counters.dropped += 1;
        Some(flow)
    }

    /// Whether a flow is admitted.
    pub fn is_admitted(&self, id: FlowId) -> bool {
        self.flows.contains_key(&id)
    }

    /// The admitted flows by name.
    pub fn flows(&self) -> impl Iterator<Item = &AdmittedFlow> {
        self.flows.values()
    }

    /// What happened so far.
    pub fn counters(&self) -> &FlowCounters {
        &self.counters
    }

    /// The configuration.
    pub fn config(&self) -> &AdmissionConfig {
        &self.config
    }
}

/// The flow that `policy` drops first, among those of the lowest rank present; equal ones by the lower name. `None` of
/// none.
pub fn choose<'a>(
    policy: DropPolicy,
    flows: impl Iterator<Item = &'a AdmittedFlow> + Clone,
    random: &mut impl Random,
) -> Option<FlowId> {
    let lowest = flows.clone().map(|flow| flow.rank).min()?;
    let mut candidates = flows.filter(move |flow| flow.rank == lowest);
    let victim = match policy {
        DropPolicy::Random => {
            let count = candidates.clone().count() as u64;
            candidates.nth(random.below(count) as usize)
        }
        DropPolicy::Largest => candidates.min_by_key(|flow| (std::cmp::Reverse(flow.rate), flow.id)),
        DropPolicy::Smallest => candidates.min_by_key(|flow| (flow.rate, flow.id)),
        DropPolicy::Oldest => candidates.min_by_key(|flow| (flow.since, flow.id)),
    };
    victim.map(|flow| flow.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    const MS: u64 = 1_000_000;

    fn admission() -> Admission {
        Admission::new(AdmissionConfig::default(), 100)
    }

    #[test]
    fn equality_with_the_shares_refuses_and_keeps() {
        let config = AdmissionConfig::default();
        assert!(config.accepts(Rank::Regular, Rate(269_999), Rate::ZERO));
        assert!(!config.accepts(Rank::Regular, Rate(270_000), Rate::ZERO));
        assert!(!config.accepts(Rank::Regular, Rate(237_000), Rate(33_000)));
        assert!(config.accepts(Rank::Premium, Rate(270_000), Rate::ZERO));
        let mut gate = DropGate::default();
        assert!(!gate.overload(Instant(0), Rate(285_000), &config));
        assert!(gate.overload(Instant(0), Rate(285_001), &config));
        assert_eq!(
            [269_999, 270_000, 277_500].map(|used| config.gate(Rate(used))),
            [Gate::Open, Gate::PremiumOnly, Gate::Closed]
        );
    }

    #[test]
    fn flows_admitted_together_count_until_the_meter_sees_them() {
        let mut class = admission();
        let admitted = (0..20)
            .filter(|&n| class.offer(Instant(0), FlowId(n), Rank::Regular, Rate::ZERO) == Verdict::Admitted)
            .count();
        // 33 kbit/s each: the ninth still finds 264 < 270 in use.
        assert_eq!(admitted, 9);
        assert_eq!(
            class.offer(Instant(799 * MS), FlowId(30), Rank::Regular, Rate::ZERO),
            Verdict::Refused { used: Rate(297_000), limit: Rate(270_000) }
        );
        assert_eq!(class.offer(Instant(800 * MS), FlowId(30), Rank::Regular, Rate(0)), Verdict::Admitted);
        assert_eq!(class.offer(Instant(800 * MS), FlowId(30), Rank::Regular, Rate(0)), Verdict::Admitted);
        let counters = *class.counters();
        assert_eq!((counters.offered, counters.admitted, counters.refused), (22, 10, 12));
        assert_eq!(counters.refused_pct().map(|p| (p * 100.0) as u64), Some(5454));
        assert_eq!(FlowCounters::default().dropped_pct(), None);
    }

    #[test]
    fn a_hold_off_drops_once_for_one_overload() {
        let config = AdmissionConfig::default();
        let mut gate = DropGate::default();
        let drops = (0..2400).filter(|ms| gate.overload(Instant(ms * MS), Rate(300_000), &config)).count();
        assert_eq!(drops, 3);
    }

    #[test]
    fn policies_choose_among_the_lowest_rank() {
        let flow = |id, rank, since, rate| AdmittedFlow {
            id: FlowId(id),
            rank,
            since: Instant(since),
            rate: Rate(rate),
        };
        let flows = [
            flow(1, Rank::Premium, 0, 99),
            flow(2, Rank::Regular, 5, 30),
            flow(3, Rank::Regular, 3, 20),
            flow(4, Rank::Regular, 4, 40),
            flow(5, Rank::Premium, 0, 1),
        ];
        let mut random = SplitMix64::new(1, 1);
        let mut victim =
            |policy, flows: &[AdmittedFlow]| choose(policy, flows.iter(), &mut random).map(|id| id.0);
        assert_eq!(victim(DropPolicy::Largest, &flows), Some(4));
        assert_eq!(victim(DropPolicy::Smallest, &flows), Some(3));
        assert_eq!(victim(DropPolicy::Oldest, &flows), Some(3));
        let mut hits = [0; 6];
        for _ in 0..3000 {
            hits[victim(DropPolicy::Random, &flows).expect("there are flows") as usize] += 1;
        }
        assert_eq!((hits[1], hits[5]), (0, 0));
        assert!(hits[2..5].iter().all(|hits| (880..1120).contains(hits)), "{hits:?}");
        assert_eq!(victim(DropPolicy::Largest, &flows[4..]), Some(5));
        assert_eq!(victim(DropPolicy::Random, &[]), None);
    }

    #[test]
    fn a_full_table_and_endings_are_counted() {
        let mut class = Admission::new(AdmissionConfig::default(), 1);
        assert_eq!(class.offer(Instant(0), FlowId(1), Rank::Regular, Rate(0)), Verdict::Admitted);
        assert_eq!(class.offer(Instant(0), FlowId(2), Rank::Regular, Rate(0)), Verdict::TableFull);
        assert!(class.ended(FlowId(2)).is_none());
        class.measured(FlowId(1), Rate(7));
        assert_eq!(class.ended(FlowId(1)).map(|flow| flow.rate), Some(Rate(7)));
        assert_eq!(class.drop_one(&mut SplitMix64::new(0, 0)), None);
        assert_eq!((class.counters().ended, class.counters().table_full), (1, 1));
    }
}
