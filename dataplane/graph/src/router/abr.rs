//! Policies of the TCP rate control as a change of the `Abr` element.

use super::filters::Filters;
use super::numbers::Numbers;
use super::slots::Slots;
use perhop_abr::{AbrChange, AbrPolicyId, Floor, Latency, Match, Policy, Settings};
use perhop_contract::Draft;
use perhop_model::{AbrFloor, AbrLatency, AbrMatch, AbrPolicySpec, Kind, Name, PortRange, Spec};
use perhop_units::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What was last sent to the element.
///
/// A policy keeps its number as long as its object is there, so that the element knows it again. Its settings depend on
/// nothing else that changes but the number of the filter it names: a filter that is replaced gets another. Contracts and
/// logical classes keep theirs as long as something refers to them.
#[derive(Debug)]
pub(super) struct Policies {
    slots: Slots<Name>,
    settings: Arc<Settings>,
    /// Filters that policies name.
    filters: BTreeSet<Name>,
}

impl Policies {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { slots: Slots::from_number(0), settings: Arc::default(), filters: BTreeSet::new() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, AbrPolicyId)> {
        self.slots.iter().map(|(name, id)| (name, AbrPolicyId(id)))
    }

    pub(super) fn name_of(&self, id: AbrPolicyId) -> Option<&Name> {
        self.slots.name_of(id.0)
    }

    /// What the element must be told: the policies if they differ from what it has, or (`all`) in any case. Filters must
    /// have their new numbers.
    pub(super) fn plan(
        &mut self,
        draft: &Draft<'_>,
        numbers: &Numbers,
        filters: &Filters,
        all: bool,
    ) -> Option<AbrChange> {
        let concerned = draft.touches(&[Kind::AbrPolicy])
            || draft.changed(Kind::Filter).any(|(key, _, _)| self.filters.contains(&key.name));
        if concerned {
            for (key, _, after) in draft.changed(Kind::AbrPolicy) {
                match after {
                    Some(_) => drop(self.slots.give(key.name.clone())),
                    None => drop(self.slots.take(&key.name)),
                }
            }
            self.slots.release();
        }
        let settings = concerned.then(|| self.settings(draft, numbers, filters));
        let news = settings.filter(|(settings, _)| *settings != *self.settings);
        let is_news = news.is_some();
        if let Some((settings, filters)) = news {
            (self.settings, self.filters) = (Arc::new(settings), filters);
        }
        (is_news || all).then(|| AbrChange { settings: Some(self.settings.clone()) })
    }

    /// All policies in the order in which they are compared, and the filters they name.
    fn settings(
        &self,
        draft: &Draft<'_>,
        numbers: &Numbers,
        filters: &Filters,
    ) -> (Settings, BTreeSet<Name>) {
        let policies = draft.of_kind(Kind::AbrPolicy).filter_map(|(key, entry)| match &*entry.spec {
            Spec::AbrPolicy(p) => Some((&key.name, p)),
            _ => None,
        });
        let mut policies: Vec<(&Name, &AbrPolicySpec)> = policies.collect();
        // They come by name, and the sort is stable.
        policies.sort_by_key(|(_, p)| p.priority);
        let named = policies.iter().filter_map(|(_, p)| p.matches.filter.clone()).collect();
        let policies = policies.into_iter().map(|(name, p)| {
            let id = self.slots.find(name).expect("a policy got its number with the change that brought it");
            policy(AbrPolicyId(id), p, condition(&p.matches, numbers, filters))
        });
        (Settings { policies: policies.collect() }, named)
    }
}

fn condition(m: &AbrMatch, numbers: &Numbers, filters: &Filters) -> Match {
    let range = |r: PortRange| r.first..=r.last;
    Match {
        class: m.class.as_ref().map(|c| numbers.class(c)),
        sla: m.sla.as_ref().and_then(|s| numbers.sla(s)),
        filter: m.filter.as_ref().and_then(|f| filters.id_of(f)),
        dscp: m.dscp.iter().fold(0, |bits, dscp| bits | 1 << dscp.get()),
        src: m.src,
        dst: m.dst,
        src_ports: m.src_ports.map(range),
        dst_ports: m.dst_ports.map(range),
    }
}

/// A policy as the element takes it.
pub fn policy(id: AbrPolicyId, p: &AbrPolicySpec, matches: Match) -> Policy {
    Policy {
        id,
        matches,
        rate: p.rate,
        peak: p.peak,
        floor: match p.floor {
            AbrFloor::Clamp => Floor::Clamp,
            AbrFloor::Pace => Floor::Pace,
        },
        latency: match p.latency {
            AbrLatency::Average { up_ppm, down_ppm } => {
                Latency::Average { up: weight(up_ppm), down: weight(down_ppm) }
            }
            AbrLatency::Timed { up, down_ppm } => Latency::Timed { up, down: weight(down_ppm) },
            AbrLatency::Minimum { window } => Latency::Minimum { window },
        },
        allow_shrink: p.allow_shrink,
        span: Duration::ZERO,
        limit_syn_ack: p.limit_syn_ack,
        assume_shift: p.assume_shift,
        local: p.local,
        overhead: p.overhead,
        idle: p.idle,
    }
}

/// Parts per million as Q0.32, to the nearest; 1 is the largest below it.
fn weight(ppm: u32) -> u32 {
    let q = ((u64::from(ppm) << 32) + 500_000) / 1_000_000;
    u32::try_from(q).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::plan::tests::Bench;
    use perhop_packet::{ClassId, SlaId};
    use serde_json::{Value, json};

    /// Plans for a router with one class, `bulk`.
    struct Plans(Bench);

    impl Plans {
        fn new() -> Self {
            let mut plans = Self(Bench::new(&["wan"]));
            plans.plan(&[(Kind::Class, "bulk", Some(json!({ "port": "wan", "default": true })))]);
            plans
        }

        /// Plans objects that come (or, without a specification, go). Gives what the element is told.
        fn plan(&mut self, objects: &[(Kind, &str, Option<Value>)]) -> Option<Arc<Settings>> {
            let change = self.0.plan(objects);
            change.abr.map(|abr| abr.settings.expect("a change says what changes"))
        }
    }

    fn ids(settings: &Settings) -> Vec<u32> {
        settings.policies.iter().map(|p| p.id.0).collect()
    }

    #[test]
    fn the_published_weights_are_those_of_the_element() {
        let of = |latency| policy(AbrPolicyId(0), &of_latency(latency), Match::default()).latency;
        assert_eq!(of(AbrLatency::PUBLISHED), Latency::PUBLISHED);
        assert_eq!(weight(1_000_000), u32::MAX);
        assert_eq!(of(AbrLatency::MINIMUM), Latency::Minimum { window: Duration::from_secs(10) });
    }

    fn of_latency(latency: AbrLatency) -> AbrPolicySpec {
        let spec: AbrPolicySpec = serde_json::from_value(json!({})).expect("defaults");
        AbrPolicySpec { latency, ..spec }
    }

    #[test]
    fn policies_are_compared_by_priority_and_then_by_name() {
        let mut plans = Plans::new();
        let of = |priority| Some(json!({ "priority": priority }));
        let policies = [("z", of(1)), ("m", of(2)), ("b", of(2)), ("a", of(3))];
        let settings =
            plans.plan(&policies.map(|(name, spec)| (Kind::AbrPolicy, name, spec))).expect("there is news");
        // Numbers are given by name: a, b, m, z.
        assert_eq!(ids(&settings), [3, 1, 2, 0]);
        let settings = plans.plan(&[(Kind::AbrPolicy, "a", of(0))]).expect("there is news");
        assert_eq!(ids(&settings), [0, 3, 1, 2], "numbers stay");
    }

    #[test]
    fn conditions_go_by_the_numbers_of_what_they_name() {
        let mut plans = Plans::new();
        let condition = json!({ "class": "bulk", "sla": "shop", "filter": "web", "dscp": [0, 10],
            "dst": "10.1.0.0/16", "src_ports": { "first": 80, "last": 443 } });
        let settings = plans.plan(&[
            (Kind::Sla, "shop", Some(json!({ "rate": 1_000_000 }))),
            (Kind::Filter, "web", Some(json!({ "class": "bulk" }))),
            (Kind::AbrPolicy, "p", Some(json!({ "match": condition, "rate": 500_000 }))),
        ]);
        let settings = settings.expect("there is news");
        let m = &settings.policies[0].matches;
        assert_eq!((m.class, m.sla), (Some(ClassId(0)), Some(SlaId(0))));
        let web = plans.0.planner.filters.id_of(&Name::new("web").expect("a name"));
        assert!(web.is_some() && m.filter == web);
        assert_eq!((m.dscp, m.src_ports.clone(), m.dst_ports.clone()), (1 << 10 | 1, Some(80..=443), None));
        assert_eq!(m.dst.map(|n| n.to_string()).as_deref(), Some("10.1.0.0/16"));
    }

    #[test]
    fn the_element_is_told_what_concerns_it_and_nothing_else() {
        let mut plans = Plans::new();
        let filter = |priority| Some(json!({ "priority": priority, "class": "bulk" }));
        let named = Some(json!({ "match": { "filter": "web" }, "rate": 1_000_000 }));
        assert!(plans.plan(&[(Kind::Filter, "other", filter(1))]).is_none(), "no policy yet");
        let first = plans.plan(&[(Kind::Filter, "web", filter(2)), (Kind::AbrPolicy, "p", named.clone())]);
        let first = first.expect("there is news");
        assert!(plans.plan(&[(Kind::Filter, "other", filter(3))]).is_none());
        assert!(plans.plan(&[(Kind::Sla, "shop", Some(json!({ "rate": 1_000_000 })))]).is_none());
        // The weight is not the element's business.
        let weighed = Some(json!({ "match": { "filter": "web" }, "rate": 1_000_000, "weight": 3 }));
        assert!(plans.plan(&[(Kind::AbrPolicy, "p", weighed)]).is_none());
        // A filter that is replaced has another number; the policy keeps its own.
        let second = plans.plan(&[(Kind::Filter, "web", filter(9))]).expect("there is news");
        assert_eq!(ids(&second), ids(&first));
        assert_ne!(second.policies[0].matches.filter, first.policies[0].matches.filter);
        let gone = plans.plan(&[(Kind::AbrPolicy, "p", None)]).expect("there is news");
        assert!(gone.policies.is_empty());
        assert!(plans.plan(&[(Kind::Filter, "web", filter(2))]).is_none(), "nobody names it any more");
    }
}
