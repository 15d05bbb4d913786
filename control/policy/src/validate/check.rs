//! Every check, in the order of a policy's tables.

use super::fault::{Fault, Place, Problem, Section, What};
use super::{limits, orders, trees};
use crate::model::{Action, Class, Days, Period, Policy, Profile, Sla, Subscriber, Then};
use ipnet::IpNet;
use perhop_config::did_you_mean;
use perhop_model::{FilterMatch, MeterSpec, Name};
use perhop_units::{Bytes, Duration, QueueLimit, Rate, Share};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Smallest and largest burst, bytes.
const BURST: RangeInclusive<Bytes> = Bytes(1500)..=Bytes(1 << 30);

/// Everything that is wrong; empty if nothing is. O(things · log things), and for filters of classes with each those before it
/// that have the same condition.
pub fn faults(policy: &Policy) -> Vec<Problem> {
    let mut c = Checker { policy, problems: Vec::new() };
    c.routers();
    for (name, class) in &policy.classes {
        c.class(name, class);
    }
    trees::check(&mut c);
    c.filters();
    for (name, profile) in &policy.profiles {
        c.profile(name, profile);
    }
    for (name, sla) in &policy.slas {
        c.sla(name, sla);
    }
    c.subscribers();
    c.counts();
    c.problems
}

/// What checks have in common.
pub(super) struct Checker<'p> {
    pub(super) policy: &'p Policy,
    problems: Vec<Problem>,
}

impl<'p> Checker<'p> {
    pub(super) fn push(&mut self, section: Section, name: &Name, field: impl Into<String>, fault: Fault) {
        let place = Place { section, name: name.clone(), field: field.into() };
        self.problems.push(Problem { place, fault });
    }

    fn range<T: PartialOrd + Display>(
        &mut self,
        section: Section,
        name: &Name,
        field: impl Into<String>,
        value: &T,
        range: RangeInclusive<T>,
    ) {
        if !range.contains(value) {
            let allowed = format!("{} to {}", range.start(), range.end());
            self.push(section, name, field, Fault::OutOfRange { allowed });
        }
    }

    /// That a name leads somewhere.
    fn known<T>(
        &mut self,
        (section, name, field): (Section, &Name, String),
        what: What,
        given: &Name,
        all: &BTreeMap<Name, T>,
    ) -> bool {
        let is_known = all.contains_key(given);
        if !is_known {
            let meant = did_you_mean(given.as_str(), all.keys().map(Name::as_str));
            let meant = meant.and_then(|meant| Name::new(meant).ok());
            self.push(section, name, field, Fault::Unknown { what, meant });
        }
        is_known
    }

    /// That a name is of a class that queues packets.
    fn leaf(&mut self, (section, name, field): (Section, &Name, String), class: &Name) -> Option<&'p Class> {
        let policy = self.policy;
        if !self.known((section, name, field.clone()), What::Class, class, &policy.classes) {
            return None;
        }
        if policy.is_inner(class) {
            self.push(section, name, field, Fault::Inner);
            return None;
        }
        policy.classes.get(class)
    }

    /// That names of a router's objects can be made of it.
    fn short(&mut self, section: Section, name: &Name, own: &Name) {
        if own.as_str().len() > limits::NAME || own.as_str().contains('/') {
            self.push(section, name, "name", Fault::Name { most: limits::NAME });
        }
    }

    fn routers(&mut self) {
        for (name, router) in &self.policy.routers {
            if name.as_str() == "*" || name.as_str().contains('/') {
                self.push(Section::Router, name, "name", Fault::Name { most: 128 });
            }
            if router.ports.len() > limits::PORTS {
                let fault = Fault::TooMany { count: router.ports.len(), most: limits::PORTS };
                self.push(Section::Router, name, "port", fault);
            }
            for (port, rate) in router.ports.iter().filter(|(_, rate)| **rate != Rate::ZERO) {
                if let Ok(whole) = Name::new(&format!("{name}/{port}")) {
                    self.range(Section::Port, &whole, "rate", rate, Rate::from_kbit(8)..=Rate::MOST);
                }
            }
        }
    }

    fn class(&mut self, name: &Name, class: &Class) {
        let section = Section::Class;
        self.short(section, name, name);
        self.range(section, name, "weight", &class.weight, 1..=1_000_000);
        self.range(section, name, "tier", &class.tier, 0..=15);
        if class.ports.is_empty() {
            self.push(section, name, "ports", Fault::Nowhere);
        }
        for (order, pattern) in class.ports.iter().enumerate() {
            let mut ports =
                self.policy.routers.iter().flat_map(|(r, of)| of.ports.keys().map(move |p| (r, p)));
            if !ports.any(|(router, port)| pattern.has(router, port)) {
                self.push(section, name, format!("ports[{order}]"), Fault::NoPort);
            }
        }
        for (field, share) in [("guarantee", Some(class.guarantee)), ("ceiling", class.ceiling)] {
            match share {
                Some(Share::Ppm(ppm)) if ppm > 1_000_000 => {
                    self.push(section, name, field, Fault::OutOfRange { allowed: "0 % to 100 %".into() });
                }
                Some(Share::Rate(rate)) => self.range(section, name, field, &rate, Rate::ZERO..=Rate::MOST),
                _ => {}
            }
        }
        if class.ceiling.is_some_and(Share::is_zero) {
            self.push(section, name, "ceiling", Fault::OutOfRange { allowed: "more than 0".into() });
        }
        match class.queue {
            Some(QueueLimit::Packets(n)) => self.range(section, name, "queue", &n, 1..=1_000_000),
            Some(QueueLimit::Bytes(n)) => {
                self.range(section, name, "queue", &n, Bytes(1514)..=Bytes(1 << 32))
            }
            Some(QueueLimit::Time(t)) => {
                self.range(section, name, "queue", &t, Duration::from_micros(1)..=Duration::from_secs(60));
            }
            None => {}
        }
        if let Some(parent) = &class.parent {
            self.known((section, name, "parent".into()), What::Class, parent, &self.policy.classes);
        }
    }

    fn filters(&mut self) {
        let policy = self.policy;
        for (name, filter) in &policy.filters {
            let section = Section::Filter;
            for (order, router) in filter.routers.iter().enumerate() {
                self.known(
                    (section, name, format!("routers[{order}]")),
                    What::Router,
                    router,
                    &policy.routers,
                );
            }
            self.leaf((section, name, "class".into()), &filter.class);
            self.condition(section, name, &filter.matches);
            if let Some(port) = &filter.matches.in_port {
                let on = |(router, _): &(&Name, &crate::model::Router)| {
                    filter.routers.is_empty() || filter.routers.contains(router)
                };
                if !policy.routers.iter().filter(on).any(|(_, router)| router.ports.contains_key(port)) {
                    self.push(
                        section,
                        name,
                        "match.in_port",
                        Fault::Unknown { what: What::Port, meant: None },
                    );
                }
            }
        }
        for (hidden, other) in orders::hidden(&policy.filters) {
            self.push(Section::Filter, &hidden, "match", Fault::Hidden { other });
        }
    }

    fn condition(&mut self, section: Section, name: &Name, m: &FilterMatch) {
        if let (Some(src), Some(dst)) = (m.src, m.dst)
            && src.addr().is_ipv4() != dst.addr().is_ipv4()
        {
            self.push(section, name, "match.dst", Fault::Families);
        }
        for (field, net) in [("match.src", m.src), ("match.dst", m.dst)] {
            net.into_iter().for_each(|net| self.prefix(section, name, field.to_owned(), net));
        }
        for (field, ports) in [("match.src_ports", m.src_ports), ("match.dst_ports", m.dst_ports)] {
            let Some(ports) = ports else { continue };
            if ports.first > ports.last {
                self.push(section, name, field, Fault::EmptyRange);
            }
            if !matches!(m.protocol, Some(6 | 17 | 132 | 136)) {
                self.push(section, name, field, Fault::NeedsPorts);
            }
        }
        if let Some(dscp) = m.dscp {
            self.range(section, name, "match.dscp", &dscp.mask, 0..=63);
            if dscp.value & !dscp.mask != 0 {
                self.push(section, name, "match.dscp", Fault::OutsideMask);
            }
        }
        if let Some(flags) = m.tcp_flags {
            if flags.value & !flags.mask != 0 {
                self.push(section, name, "match.tcp_flags", Fault::OutsideMask);
            }
            if m.protocol != Some(6) {
                self.push(section, name, "match.tcp_flags", Fault::NeedsTcp);
            }
        }
        if let Some(vlan) = m.vlan {
            self.range(section, name, "match.vlan", &vlan, 0..=4094);
        }
    }

    fn prefix(&mut self, section: Section, name: &Name, field: String, net: IpNet) {
        if net.trunc() != net {
            self.push(section, name, field, Fault::HostBits { meant: net.trunc().to_string() });
        }
    }

    fn profile(&mut self, name: &Name, profile: &Profile) {
        let section = Section::Profile;
        self.meter(name, &profile.meter);
        let colours = [("green", &profile.green), ("yellow", &profile.yellow), ("red", &profile.red)];
        for (field, action) in colours {
            match action {
                Action::Pass | Action::Drop | Action::Mark { .. } => {}
                Action::Demote => self.demotes(section, name, field),
                Action::Class { class, .. } => {
                    self.leaf((section, name, format!("{field}.class")), class);
                }
                Action::Shape { class } => {
                    let place = (section, name, format!("{field}.class"));
                    if self.leaf(place, class).is_some_and(|class| class.ceiling.is_none()) {
                        self.push(section, name, format!("{field}.class"), Fault::NoCeiling);
                    }
                }
            }
        }
        if profile.filters.len() > limits::PROFILE_FILTERS {
            let fault = Fault::TooMany { count: profile.filters.len(), most: limits::PROFILE_FILTERS };
            self.push(section, name, "filter", fault);
        }
        for (own, filter) in &profile.filters {
            let Ok(whole) = Name::new(&format!("{name}/{own}")) else {
                self.push(section, name, "name", Fault::Name { most: 128 - 1 - own.as_str().len() });
                continue;
            };
            let section = Section::ProfileFilter;
            self.short(section, &whole, own);
            self.condition(section, &whole, &filter.matches);
            if filter.matches.in_port.is_some() {
                self.push(section, &whole, "match.in_port", Fault::OwnPort);
            }
            if let Some(class) = &filter.class {
                self.leaf((section, &whole, "class".into()), class);
            }
        }
        for (hidden, other) in orders::hidden_in(&profile.filters) {
            if let Ok(whole) = Name::new(&format!("{name}/{hidden}")) {
                let other = Name::new(&format!("{name}/{other}")).unwrap_or(other);
                self.push(Section::ProfileFilter, &whole, "match", Fault::Hidden { other });
            }
        }
    }

    fn demotes(&mut self, section: Section, name: &Name, field: &str) {
        if self.policy.defaults().next().is_none() {
            self.push(section, name, field, Fault::NoDefault);
        }
    }

    fn meter(&mut self, name: &Name, meter: &MeterSpec) {
        let section = Section::Profile;
        let rate = |c: &mut Self, field: &str, rate: &Rate| {
            c.range(section, name, format!("meter.{field}"), rate, Rate(1)..=Rate::MOST);
        };
        let burst = |c: &mut Self, field: &str, burst: &Bytes, least| {
            c.range(section, name, format!("meter.{field}"), burst, least..=*BURST.end());
        };
        let peak = |c: &mut Self, cir: Rate, pir: Rate| {
            if pir < cir {
                c.push(section, name, "meter.pir", Fault::PeakBelow { cir });
            }
        };
        match meter {
            MeterSpec::None => {}
            MeterSpec::TokenBucket { cir, cbs } => {
                rate(self, "cir", cir);
                burst(self, "cbs", cbs, *BURST.start());
            }
            MeterSpec::Srtcm { cir, cbs, ebs, .. } => {
                rate(self, "cir", cir);
                burst(self, "cbs", cbs, Bytes(0));
                burst(self, "ebs", ebs, Bytes(0));
                if cbs.max(ebs) < BURST.start() {
                    self.push(section, name, "meter.cbs", Fault::NoBucket);
                }
            }
            MeterSpec::Trtcm { cir, cbs, pir, pbs, .. } => {
                rate(self, "cir", cir);
                rate(self, "pir", pir);
                peak(self, *cir, *pir);
                burst(self, "cbs", cbs, *BURST.start());
                burst(self, "pbs", pbs, *BURST.start());
            }
            MeterSpec::Tswtcm { cir, pir, window } => {
                rate(self, "cir", cir);
                rate(self, "pir", pir);
                peak(self, *cir, *pir);
                let range = Duration::from_millis(1)..=Duration::from_secs(60);
                self.range(section, name, "meter.window", window, range);
            }
        }
    }

    fn sla(&mut self, name: &Name, sla: &Sla) {
        let (section, policy) = (Section::Sla, self.policy);
        self.range(section, name, "rate", &sla.rate, Rate::from_kbit(1)..=Rate::MOST);
        if sla.burst != Bytes(0) {
            self.range(section, name, "burst", &sla.burst, BURST);
        }
        self.range(section, name, "shared_pct", &sla.shared_pct, 0..=100);
        if sla.policy == perhop_model::SlaPolicy::Demote {
            self.demotes(section, name, "policy");
        }
        if let Some(profile) = &sla.profile {
            self.known((section, name, "profile".into()), What::Profile, profile, &policy.profiles);
        }
        let times = [("idle_timeout", sla.idle_timeout), ("session_timeout", sla.session_timeout)];
        for (field, time) in times {
            let Some(time) = time else { continue };
            self.range(
                section,
                name,
                field,
                &time,
                Duration::from_secs(1)..=Duration::from_secs(366 * 86_400),
            );
        }
        if let Some(quota) = &sla.quota {
            self.range(section, name, "quota.amount", &quota.amount, Bytes(1)..=Bytes(u64::MAX >> 1));
            debug_assert!(matches!(quota.per, Period::Session | Period::Day | Period::Week));
            if let Then::Sla(then) = &quota.then {
                self.replacement(name, "quota.then".into(), then);
            }
        }
        if sla.schedule.len() > limits::SLOTS {
            let fault = Fault::TooMany { count: sla.schedule.len(), most: limits::SLOTS };
            self.push(section, name, "schedule", fault);
        }
        for (order, slot) in sla.schedule.iter().enumerate() {
            self.replacement(name, format!("schedule[{order}].sla"), &slot.sla);
            if slot.days == Days(0) {
                self.push(section, name, format!("schedule[{order}].days"), Fault::NoDay);
            }
            let times = [("from", slot.from), ("until", slot.until)];
            for (field, _) in times.into_iter().filter(|(_, minute)| minute.0 > 1440) {
                let fault = Fault::OutOfRange { allowed: "00:00 to 24:00".into() };
                self.push(section, name, format!("schedule[{order}].{field}"), fault);
            }
        }
    }

    /// A contract that takes the place of another: it must not be one that others take the place of in turn.
    fn replacement(&mut self, of: &Name, field: String, by: &Name) {
        let (section, policy) = (Section::Sla, self.policy);
        if by == of {
            self.push(section, of, field, Fault::Itself);
        } else if self.known((section, of, field.clone()), What::Sla, by, &policy.slas) {
            let sla = &policy.slas[by];
            if !sla.schedule.is_empty() {
                self.push(section, of, field, Fault::Nested { by: "schedule" });
            } else if sla.quota.is_some() {
                self.push(section, of, field, Fault::Nested { by: "quota" });
            }
        }
    }

    fn subscribers(&mut self) {
        let mut first: BTreeMap<IpNet, &Name> = BTreeMap::new();
        for (name, subscriber) in &self.policy.subscribers {
            self.subscriber(name, subscriber);
            let mut own = BTreeSet::new();
            for (order, net) in subscriber.prefixes.iter().enumerate() {
                let fault = if !own.insert(*net) {
                    Some(Fault::Twice)
                } else {
                    let other = first.insert(*net, name);
                    other.map(|other| Fault::PrefixOf { other: other.clone() })
                };
                if let Some(fault) = fault {
                    self.push(Section::Subscriber, name, format!("prefixes[{order}]"), fault);
                }
            }
        }
    }

    fn subscriber(&mut self, name: &Name, subscriber: &Subscriber) {
        let (section, policy) = (Section::Subscriber, self.policy);
        self.short(section, name, name);
        self.known((section, name, "sla".into()), What::Sla, &subscriber.sla, &policy.slas);
        for (order, net) in subscriber.prefixes.iter().enumerate() {
            self.prefix(section, name, format!("prefixes[{order}]"), *net);
        }
        if subscriber.prefixes.len() > limits::PREFIXES {
            let fault = Fault::TooMany { count: subscriber.prefixes.len(), most: limits::PREFIXES };
            self.push(section, name, "prefixes", fault);
        }
        let Some(at) = &subscriber.at else { return };
        if self.known((section, name, "router".into()), What::Router, &at.router, &policy.routers) {
            self.known(
                (section, name, "port".into()),
                What::Port,
                &at.port,
                &policy.routers[&at.router].ports,
            );
        }
        if subscriber.prefixes.is_empty() {
            self.push(section, name, "prefixes", Fault::NoAddress);
        }
    }

    /// Said at the first that is too many.
    fn counts(&mut self) {
        let p = self.policy;
        let sizes = [
            (Section::Router, p.routers.len(), limits::ROUTERS, p.routers.keys().nth(limits::ROUTERS)),
            (Section::Class, p.classes.len(), limits::CLASSES, p.classes.keys().nth(limits::CLASSES)),
            (Section::Filter, p.filters.len(), limits::FILTERS, p.filters.keys().nth(limits::FILTERS)),
            (Section::Profile, p.profiles.len(), limits::PROFILES, p.profiles.keys().nth(limits::PROFILES)),
            (Section::Sla, p.slas.len(), limits::PROFILES, p.slas.keys().nth(limits::PROFILES)),
            (
                Section::Subscriber,
                p.subscribers.len(),
                limits::SUBSCRIBERS,
                p.subscribers.keys().nth(limits::SUBSCRIBERS),
            ),
        ];
        for (section, count, most, at) in sizes {
            if let Some(at) = at {
                self.push(section, at, "", Fault::TooMany { count, most });
            }
        }
    }
}
