//! What a router must have because of a policy and of who is there.
//!
//! | of | object | called |
//! |---|---|---|
//! | a class, for each port of the router that it is on | class | `PORT/CLASS` |
//! | a filter of a class | filter | `policy/FILTER` |
//! | a subscriber that is there | contract | `user/SUBSCRIBER` |
//! | the same, where the contract has a profile | profile | `user/SUBSCRIBER` |
//! | each filter of that profile, for each of its addresses | filter | `user/SUBSCRIBER/FILTER`, then `…/FILTER/1` and so on |
//! | a rate that only what the subscriber sends has | profile and filters | `user/SUBSCRIBER/up`, `…/up/1` |
//!
//! The router judges the final state of a transaction, so the order means nothing here.

use crate::model::{Action, Class, PROFILE_TIER, Policy, Profile, REST_TIER, Sla};
use ipnet::IpNet;
use perhop_model::{
    ClassSpec, ColorAction, FilterMatch, FilterSpec, Key, MeterSpec, Name, ProfileSpec, QueueSpec, SlaSpec,
    Spec,
};
use perhop_units::{Bytes, Dscp, Duration, Rate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The objects of a router by their names.
pub type Wanted = BTreeMap<Key, Spec>;

/// Which part of a filter's priority is its place among addresses.
const ADDRESSES: u32 = 64;

/// A subscriber that is at a port of a router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Present {
    /// The port.
    pub port: Name,
    /// Its addresses, in order and at most 64.
    pub prefixes: Vec<IpNet>,
    /// The contract that counts now.
    pub sla: Name,
    /// Rates that were given with the session, in the place of the contract's.
    pub rates: Rates,
}

/// Rates that a session was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// What the subscriber sends, bit/s.
    #[serde(default)]
    pub up: Option<Rate>,
    /// What it receives, bit/s.
    #[serde(default)]
    pub down: Option<Rate>,
}

/// All objects of a router. `present` are subscribers that are there because of a session; those that are always there need
/// none. What a policy without faults says can be made; of one with faults what cannot is left out. O(objects · log).
pub fn objects<'a>(
    policy: &Policy,
    router: &Name,
    present: impl IntoIterator<Item = (&'a Name, &'a Present)>,
) -> Wanted {
    let mut out = Out { policy, default: None, wanted: Wanted::new() };
    if let Some(of) = policy.routers.get(router) {
        for port in of.ports.keys() {
            for (name, class) in &policy.classes {
                if class.ports.iter().any(|pattern| pattern.has(router, port)) {
                    out.default = out.default.or(Some(name).filter(|_| class.default));
                    out.class(port, name, class);
                }
            }
        }
        for (name, filter) in &policy.filters {
            let is_here = match filter.routers.is_empty() {
                true => policy.classes.get(&filter.class).is_some_and(|class| {
                    of.ports.keys().any(|port| class.ports.iter().any(|pattern| pattern.has(router, port)))
                }),
                false => filter.routers.contains(router),
            };
            let has_port = filter.matches.in_port.as_ref().is_none_or(|port| of.ports.contains_key(port));
            if is_here && has_port {
                let spec = FilterSpec {
                    tier: filter.tier,
                    priority: filter.priority,
                    matches: filter.matches.clone(),
                    class: Some(filter.class.clone()),
                    realtime: filter.realtime,
                    ..FilterSpec::default()
                };
                out.put(&["policy", name.as_str()], Spec::Filter(spec));
            }
        }
    }
    for (name, present) in present {
        out.user(name, present);
    }
    for (name, subscriber) in &policy.subscribers {
        let Some(at) = subscriber.at.as_ref().filter(|at| at.router == *router) else { continue };
        let present = Present {
            port: at.port.clone(),
            prefixes: subscriber.prefixes.clone(),
            sla: subscriber.sla.clone(),
            rates: Rates::default(),
        };
        if !out.wanted.keys().any(|key| key.name.as_str() == user(name)) {
            out.user(name, &present);
        }
    }
    out.wanted
}

/// The objects of one subscriber at a router where it is present. O(filters of its profile), and O(classes) if that demotes.
pub fn objects_of(policy: &Policy, router: &Name, name: &Name, present: &Present) -> Wanted {
    let mut out = Out { policy, default: None, wanted: Wanted::new() };
    let profile = policy.slas.get(&present.sla).and_then(|sla| policy.profiles.get(sla.profile.as_ref()?));
    if profile
        .is_some_and(|profile| [&profile.green, &profile.yellow, &profile.red].contains(&&Action::Demote))
    {
        let ports = policy.routers.get(router).into_iter().flat_map(|of| of.ports.keys());
        let has = |class: &Class, port: &Name| class.ports.iter().any(|pattern| pattern.has(router, port));
        out.default = ports
            .flat_map(|port| {
                policy.classes.iter().filter(move |(_, class)| class.default && has(class, port))
            })
            .map(|(name, _)| name)
            .next();
    }
    out.user(name, present);
    out.wanted
}

fn user(name: &Name) -> String {
    format!("user/{name}")
}

struct Out<'p> {
    policy: &'p Policy,
    /// Where what is demoted goes on this router.
    default: Option<&'p Name>,
    wanted: Wanted,
}

impl Out<'_> {
    /// Names are made of what is short enough: see `validate::limits`.
    fn put(&mut self, pieces: &[&str], spec: Spec) {
        let name = Name::new(&pieces.join("/"));
        debug_assert!(name.is_ok(), "a policy without faults has names that can be joined: {pieces:?}");
        if let Ok(name) = name {
            self.wanted.insert(Key { kind: spec.kind(), name }, spec);
        }
    }

    fn class(&mut self, port: &Name, name: &Name, class: &Class) {
        let object = |class: &Name| Name::new(&format!("{port}/{class}")).ok();
        let spec = ClassSpec {
            port: port.clone(),
            logical: Some(name.clone()),
            parent: class.parent.as_ref().and_then(object),
            guarantee: class.guarantee,
            guarantee_first: None,
            delay: None,
            loss: None,
            burst: Bytes(0),
            ceiling: class.ceiling,
            ceiling_burst: Bytes(0),
            weight: class.weight,
            tier: class.tier,
            queue: class
                .queue
                .map_or(QueueSpec::default(), |limit| QueueSpec { limit, ..QueueSpec::default() }),
            default: class.default,
            dscp: class.dscp.clone(),
            sla: None,
            shared: true,
        };
        self.put(&[port.as_str(), name.as_str()], Spec::Class(spec));
    }

    fn user(&mut self, name: &Name, present: &Present) {
        let policy = self.policy;
        let Some(sla) = policy.slas.get(&present.sla) else { return };
        let own = user(name);
        self.put(&[&own], Spec::Sla(contract(sla, present)));
        if let Some(profile) = sla.profile.as_ref().and_then(|profile| policy.profiles.get(profile)) {
            self.put(&[&own], Spec::Profile(self.conditioner(profile)));
            self.profile_filters(&own, profile, present);
        }
        // The contract has the rate of what is received; less of what is sent is a conditioner's work.
        if let Some(up) = present.rates.up.filter(|up| Some(*up) != present.rates.down) {
            let cbs = up.bytes_in(Duration::from_millis(100)).max(Bytes(15_000));
            let spec = ProfileSpec {
                meter: MeterSpec::TokenBucket { cir: up.max(Rate(1)), cbs: cbs.min(Bytes(1 << 30)) },
                green: ColorAction::Pass,
                yellow: ColorAction::Pass,
                red: ColorAction::Drop,
                shared: false,
            };
            let object = format!("{own}/up");
            self.put(&[&object], Spec::Profile(spec));
            let matches = FilterMatch { in_port: Some(present.port.clone()), ..FilterMatch::default() };
            self.filters_of(&object, &object, (REST_TIER, 0), &matches, None, present);
        }
    }

    fn profile_filters(&mut self, own: &str, profile: &Profile, present: &Present) {
        let port = Some(present.port.clone());
        for (filter, spec) in &profile.filters {
            let matches = FilterMatch { in_port: port.clone(), ..spec.matches.clone() };
            let called = format!("{own}/{filter}");
            let at = (PROFILE_TIER, spec.priority.saturating_mul(ADDRESSES));
            self.filters_of(&called, own, at, &matches, spec.class.as_ref(), present);
        }
        if profile.filters.is_empty() {
            let matches = FilterMatch { in_port: port, ..FilterMatch::default() };
            self.filters_of(
                &format!("{own}/all"),
                own,
                (PROFILE_TIER, u32::MAX - ADDRESSES),
                &matches,
                None,
                present,
            );
        }
    }

    /// A filter for each address whose family its condition allows; one alone where the condition has a source.
    fn filters_of(
        &mut self,
        called: &str,
        profile: &str,
        (tier, priority): (u8, u32),
        matches: &FilterMatch,
        class: Option<&Name>,
        present: &Present,
    ) {
        let is_possible =
            |net: &IpNet| matches.dst.is_none_or(|dst| dst.addr().is_ipv4() == net.addr().is_ipv4());
        let sources: Vec<IpNet> = match matches.src {
            Some(src) => vec![src],
            None => present.prefixes.iter().copied().filter(is_possible).take(ADDRESSES as usize).collect(),
        };
        for (order, src) in (0u32..).zip(sources) {
            let spec = FilterSpec {
                tier,
                priority: priority.saturating_add(order),
                matches: FilterMatch { src: Some(src), ..matches.clone() },
                class: class.cloned(),
                profile: Name::new(profile).ok(),
                ..FilterSpec::default()
            };
            match order {
                0 => self.put(&[called], Spec::Filter(spec)),
                order => self.put(&[called, &order.to_string()], Spec::Filter(spec)),
            }
        }
    }

    fn conditioner(&self, profile: &Profile) -> ProfileSpec {
        ProfileSpec {
            meter: profile.meter,
            green: self.action(&profile.green),
            yellow: self.action(&profile.yellow),
            red: self.action(&profile.red),
            shared: false,
        }
    }

    fn action(&self, action: &Action) -> ColorAction {
        match action {
            Action::Pass => ColorAction::Pass,
            Action::Drop => ColorAction::Drop,
            Action::Mark { dscp } => ColorAction::Mark { dscp: *dscp },
            Action::Class { class, dscp } => ColorAction::Class { class: class.clone(), dscp: *dscp },
            Action::Shape { class } => ColorAction::Class { class: class.clone(), dscp: None },
            // A router without a default class of ours has its own: there the code point alone says so.
            Action::Demote => match self.default {
                Some(class) => ColorAction::Class { class: class.clone(), dscp: Some(Dscp::default()) },
                None => ColorAction::Mark { dscp: Dscp::default() },
            },
        }
    }
}

fn contract(sla: &Sla, present: &Present) -> SlaSpec {
    SlaSpec {
        prefixes: present.prefixes.clone(),
        rate: present.rates.down.or(present.rates.up).unwrap_or(sla.rate).max(Rate::from_kbit(1)),
        burst: sla.burst,
        dscp: sla.dscp,
        policy: sla.policy,
        shared: false,
        shared_pct: sla.shared_pct,
        premium: sla.premium,
    }
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
