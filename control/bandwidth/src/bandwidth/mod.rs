//! Bandwidth of links, divided between policies of the TCP rate control (abr).
//!
//! # Purpose
//! A policy's flows share its rate equally in the router itself, so a new flow never adds to what a link carries, however
//! late it is noticed. What is left to the agent is the rate of each policy: its flows' weighted max–min share of what
//! the links on their way have, after the classes that are served before. It is decided anew when flows start or stop,
//! when a link is or will soon be slower or faster, and when somebody changes a policy.
//!
//! # Order
//! All rates are of one decision and come into force in one transaction, so that in sum they never exceed what was
//! available, not even in between. What a link will have counts from `notice` before it is slower, and when it is faster
//! from then on: so lower rates go in first, and higher ones with or after the link's change. What a policy gives up is
//! given to others `notice` later, because its flows use it until they have heard.
//!
//! # Whose policies
//! A policy is an object of the router's file, or of a client that asks for one (see [`requests`]). The agent changes its
//! rate and nothing else: by a plain patch where the object says that it is managed by the agent, else by a forced one, as an
//! admin. So the owner reads in its own object what it has. A reload of the file gives a policy the file's rate until the
//! agent's next look.
//!
//! Source: S. Reddy, chapter 2.

mod decide;
mod freeing;
mod link;
mod plan;
mod policy;
pub(crate) mod read;
pub(crate) mod requests;
mod settings;
mod share;

pub use plan::{Change, Schedule};
pub use policy::PolicyReport;
pub use settings::{BandwidthSettings, LinkSettings, PolicySettings, RequestSettings};
pub use share::Weighted;

use crate::notice::Notice;
use link::Link;
use perhop_agent::{Look, Part, Readings};
use perhop_model::{AbrPolicySpec, ErrorItem, Kind, Name, ObjectState, Op, Owner, Spec, Status};
use perhop_reason::Code;
use perhop_units::{Duration, Instant, Rate};
use policy::{Answer, Found, Policy};
use requests::Standing;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// What is on its way to the router.
#[derive(Clone, Debug)]
enum Sent {
    /// Rates of policies, and what is said of requests.
    Rates(Vec<(Name, Rate, Answer)>),
    /// Rates of ports.
    Ports(Vec<(Name, Rate)>),
}

/// Links and who shares them. Sans-I/O, as a part of the agent's machine.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    settings: BandwidthSettings,
    links: Vec<Link>,
    policies: BTreeMap<Name, Policy>,
    /// The first state of a router has been read.
    started: bool,
    /// Not all that it may have to change is managed by the agent.
    forced: bool,
    /// Flows have been counted since the router is there.
    counted: bool,
    /// Rates have been decided.
    decided: bool,
    /// Something has changed that rates depend on.
    dirty: bool,
    next_look: Instant,
    /// A look is on its way.
    looking: bool,
    /// When a plan changes something; none if nothing is to come.
    next_step: Option<Instant>,
    sent: Option<Sent>,
    /// No rates before this, and no ports before that.
    quiet: (Instant, Instant),
    /// Whether rates differ so much that the router has to know, and whether ports differ.
    owed: (bool, bool),
    /// Links whose promises are known not to fit, and things that have been told.
    short: BTreeSet<usize>,
    told: BTreeSet<Name>,
    /// What is told after the next decision, and what can be told.
    notices: Vec<Notice>,
    ready: Vec<Notice>,
}

impl Bandwidth {
    pub(crate) fn new(settings: &BandwidthSettings, least_look: Duration, now: Instant) -> Self {
        let mut settings = settings.clone();
        settings.look = settings.look.max(least_look);
        let links: Vec<Link> = settings.links.iter().map(|link| Link::new(link, now)).collect();
        let policy = |settings: &PolicySettings| {
            let settings = settings.clone();
            (settings.policy.clone(), Policy::new(settings, None))
        };
        let policies = settings.policies.iter().map(policy).collect();
        let mut this = Self {
            settings,
            links,
            policies,
            started: false,
            forced: true,
            counted: false,
            decided: false,
            dirty: true,
            next_look: now,
            looking: false,
            next_step: None,
            sent: None,
            quiet: (now, now),
            owed: (false, false),
            short: BTreeSet::new(),
            told: BTreeSet::new(),
            notices: Vec::new(),
            ready: Vec::new(),
        };
        this.plan(now);
        this
    }

    /// Whether there is nothing to look after.
    pub(crate) fn is_idle(&self) -> bool {
        self.links.is_empty()
    }

    /// The policies that the router has or the file names, by name.
    pub(crate) fn report(&self) -> impl Iterator<Item = PolicyReport> + '_ {
        self.policies.iter().map(|(name, policy)| PolicyReport {
            policy: name.clone(),
            present: policy.found.is_some(),
            flows: policy.flows,
            rate: policy.found.as_ref().map_or(Rate::ZERO, |found| found.rate),
            granted: policy.standing.is_some_and(|standing| matches!(standing, Standing::Granted(_))),
        })
    }

    fn found(&mut self, object: &ObjectState, spec: &AbrPolicySpec) {
        let found = Found::of(object, spec);
        if let Some(policy) = self.policies.get_mut(&object.name) {
            policy.take(found, self.settings.requests.as_ref());
        } else if let Some(requests) = self.settings.requests.as_ref().filter(|_| found.is_request()) {
            let standing = Standing::of_new(&found, self.started);
            let settings = PolicySettings {
                policy: object.name.clone(),
                path: requests.path.clone(),
                weight: None,
                weighted: Weighted::Flow,
                min: None,
                peak: None,
                reserve: None,
            };
            let cap = requests.most;
            let policy = Policy { found: Some(found), cap, ..Policy::new(settings, Some(standing)) };
            self.policies.insert(object.name.clone(), policy);
        }
    }
}

impl<N: From<Notice>> Part<N> for Bandwidth {
    fn kinds(&self) -> &[Kind] {
        if self.is_idle() { &[] } else { &[Kind::Port, Kind::Class, Kind::AbrPolicy] }
    }

    /// Policies and ports belong to the router's file and to clients: only where these say of all of them that they are
    /// managed by the agent nothing has to be forced, and the agent needs no more than the role write.
    fn is_forced(&self) -> bool {
        self.forced
    }

    fn objects(&mut self, now: Instant, objects: &[ObjectState]) {
        if self.is_idle() {
            return;
        }
        let active = || objects.iter().filter(|object| object.status == Status::Active);
        for link in &mut self.links {
            link.objects(now, active(), &mut self.notices);
        }
        let mut seen = BTreeSet::new();
        for object in active() {
            if let Spec::AbrPolicy(spec) = &object.spec {
                self.found(object, spec);
                seen.insert(&object.name);
            }
        }
        for (_, policy) in self.policies.iter_mut().filter(|(name, _)| !seen.contains(name)) {
            policy.found = None;
        }
        self.forced = active().any(|object| {
            let is_changed = match object.kind {
                Kind::AbrPolicy => self.policies.contains_key(&object.name),
                Kind::Port => self.links.iter().any(|l| l.settings.port.as_ref() == Some(&object.name)),
                _ => false,
            };
            is_changed && object.spec.managed().is_none_or(|(owner, _)| *owner != Owner::Agent)
        });
        self.policies.retain(|_, policy| policy.found.is_some() || policy.standing.is_none());
        for (name, policy) in &self.policies {
            if policy.found.is_some() {
                self.told.remove(name);
            } else if self.told.insert(name.clone()) {
                self.notices.push(Notice::NoPolicy { policy: name.clone() });
            }
        }
        self.started = true;
        self.plan(now);
    }

    fn readings(&mut self, now: Instant, readings: &Readings) {
        if !std::mem::take(&mut self.looking) {
            return;
        }
        for link in &mut self.links {
            self.dirty |= link.readings(readings.at.min(now), &readings.classes);
        }
        for (name, flows) in &readings.policies {
            if let Some(policy) = self.policies.get_mut(name) {
                self.dirty |= policy.flows != *flows;
                policy.flows = *flows;
            }
        }
        self.dirty |= !std::mem::replace(&mut self.counted, true);
    }

    fn missed(&mut self, now: Instant) {
        (self.looking, self.next_look) = (false, now);
    }

    fn gone(&mut self, now: Instant) {
        (self.looking, self.counted, self.sent, self.next_look) = (false, false, None, now);
        self.links.iter_mut().for_each(Link::gone);
    }

    fn restarted(&mut self, now: Instant) {
        Part::<N>::gone(self, now);
    }

    fn announced(&mut self, now: Instant, link: &Name, rate: Rate, at: Instant) {
        let refused = |code, why: &str| {
            let error = ErrorItem::new(code, "link", why);
            Notice::NotAnnounced { link: link.clone(), error }
        };
        let notice = match self.links.iter_mut().find(|known| known.settings.name == *link) {
            None => {
                let known = self.links.iter().map(|link| link.settings.name.to_string());
                let known = known.collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none".to_owned() } else { known };
                refused(Code::NotFound, &format!("the agent's file has no such link, but: {known}"))
            }
            Some(_) if rate == Rate::ZERO => refused(Code::OutOfRange, "a link has a rate above 0"),
            Some(found) => match found.announce(now, at.max(now), rate) {
                true => Notice::Announced { link: link.clone(), rate, at },
                false => refused(Code::LimitReached, "too many changes of this link are announced"),
            },
        };
        self.notices.push(notice);
        self.plan(now);
    }

    fn tick(&mut self, now: Instant, _look: Look) {
        if self.next_step.is_some_and(|at| at <= now) {
            self.plan(now);
        }
        if self.policies.values().any(|policy| policy.fixed_until.is_some_and(|at| at <= now)) {
            for policy in self.policies.values_mut() {
                policy.fixed_until = policy.fixed_until.filter(|at| *at > now);
            }
            self.dirty = true;
        }
        for link in &mut self.links {
            self.dirty |= link.freeing.pass(now);
        }
        if std::mem::take(&mut self.dirty) {
            self.decide(now);
        }
        self.owed = (self.owes_rates(now), !self.ports(now).is_empty());
        self.ready.append(&mut self.notices);
    }

    fn next_wakeup(&self, _look: Look) -> Option<Instant> {
        self.next_step
    }

    fn next_look(&self) -> Option<Instant> {
        (!self.is_idle() && !self.looking).then_some(self.next_look)
    }

    /// A reading is on its way; it counts if a look was due.
    fn looked(&mut self, now: Instant) {
        if self.next_look <= now && !self.is_idle() {
            (self.looking, self.next_look) = (true, now + self.settings.look);
        }
    }

    fn next_wish(&self) -> Option<Instant> {
        let open = self.sent.is_none();
        let rates = (open && self.owed.0).then_some(self.quiet.0);
        let ports = (open && self.owed.1).then_some(self.quiet.1);
        let fixed = self.policies.values().filter_map(|policy| policy.fixed_until);
        let freed = self.links.iter().filter_map(|link| link.freeing.next());
        rates.into_iter().chain(ports).chain(fixed).chain(freed).min()
    }

    fn owes(&self) -> bool {
        self.sent.is_some() || self.owed.0 || self.owed.1
    }

    /// All rates if some differ, or else the ports that do. Also rates that the router is thought to
    /// have already, as it may have been restarted since, or its file read again.
    fn wants(&mut self, now: Instant) -> Vec<Op> {
        if self.sent.is_some() {
            return Vec::new();
        }
        if now >= self.quiet.0 && self.owes_rates(now) {
            let present = self.policies.iter().filter(|(_, policy)| policy.found.is_some());
            let rates: Vec<(Name, Rate, Answer)> = present
                .filter_map(|(name, policy)| Some((name.clone(), policy.wanted?, policy.answer())))
                .collect();
            let op = |(name, rate, answer): &(Name, Rate, Answer)| {
                let fields = match answer {
                    Answer::None => json!({ "rate": rate }),
                    Answer::Granted => json!({ "rate": rate, "refused": null }),
                    Answer::Refused(code) => json!({ "rate": rate, "min": 0, "refused": code }),
                };
                Op::Patch { kind: Kind::AbrPolicy, name: name.clone(), fields, if_version: None }
            };
            let ops = rates.iter().map(op).collect();
            self.sent = Some(Sent::Rates(rates));
            return ops;
        }
        let ports = if now >= self.quiet.1 { self.ports(now) } else { Vec::new() };
        let op = |(name, rate): &(Name, Rate)| Op::Patch {
            kind: Kind::Port,
            name: name.clone(),
            fields: json!({ "rate": rate }),
            if_version: None,
        };
        let ops: Vec<Op> = ports.iter().map(op).collect();
        if !ops.is_empty() {
            self.sent = Some(Sent::Ports(ports));
        }
        ops
    }

    fn committed(&mut self, now: Instant) {
        match self.sent.take() {
            Some(Sent::Rates(rates)) => {
                for (name, rate, answer) in rates {
                    let Some(policy) = self.policies.get_mut(&name) else { continue };
                    let flows = policy.flows;
                    let had = policy.found.as_ref().map_or(Rate::ZERO, |found| found.rate);
                    let given_up = if flows > 0 { had.saturating_sub(rate) } else { Rate::ZERO };
                    for link in &policy.settings.path {
                        let link = &mut self.links[*link];
                        link.freeing.add(now, link.settings.notice, given_up);
                    }
                    if policy.committed(rate, answer) {
                        self.notices.push(Notice::Assigned { policy: name, rate, flows });
                    }
                }
            }
            Some(Sent::Ports(ports)) => {
                for (port, rate) in ports {
                    let of = |link: &&mut Link| link.settings.port.as_ref() == Some(&port);
                    self.links.iter_mut().filter(of).for_each(|link| link.port_has(rate));
                    self.notices.push(Notice::PortRate { port, rate });
                }
                self.plan(now);
            }
            None => {}
        }
    }

    /// The router refused what was sent: nothing of the kind for the time of `pause`. Policies that it names keep what
    /// they have meanwhile, and the others do not wait for them.
    fn refused(&mut self, now: Instant, pause: Duration, errors: &[ErrorItem]) {
        let until = now + pause;
        match self.sent.take() {
            Some(Sent::Rates(rates)) => {
                let named: BTreeSet<usize> = errors.iter().filter_map(|error| error.op).collect();
                let named: Vec<&Name> = named.into_iter().filter_map(|op| Some(&rates.get(op)?.0)).collect();
                for name in &named {
                    if let Some(policy) = self.policies.get_mut(*name) {
                        (policy.fixed_until, policy.wanted, policy.due) = (Some(until), None, None);
                    }
                }
                self.quiet.0 = if named.is_empty() { until } else { now };
                self.dirty = true;
            }
            Some(Sent::Ports(_)) => self.quiet.1 = until,
            None => {}
        }
    }

    fn notices(&mut self) -> Vec<N> {
        self.ready.drain(..).map(N::from).collect()
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
