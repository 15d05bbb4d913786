//! A policy as TOML: what [`from_toml`](crate::validate::from_toml) reads as the same policy.

use super::text::tcp_flags_text;
use super::{
    Action, Class, ClassFilter, Days, Period, Policy, Profile, Quota, Router, Sla, Slot, Subscriber, Then,
};
use perhop_model::{FilterMatch, MeterSpec, Name, PortRange, SlaPolicy};
use perhop_units::{Bytes, Rate, Share};
use std::fmt::{Display, Write};

/// A policy as text. Filters stand in their order; their priorities are that order when it is read again. Defaults are left out.
pub fn to_toml(policy: &Policy) -> String {
    let mut out = Text(String::new());
    policy.routers.iter().for_each(|(name, router)| out.router(name, router));
    policy.classes.iter().for_each(|(name, class)| out.class(name, class));
    let mut filters: Vec<_> = policy.filters.iter().collect();
    filters.sort_by_key(|(name, filter)| (filter.priority, *name));
    filters.into_iter().for_each(|(name, filter)| out.filter(name, filter));
    policy.profiles.iter().for_each(|(name, profile)| out.profile(name, profile));
    policy.slas.iter().for_each(|(name, sla)| out.sla(name, sla));
    policy.subscribers.iter().for_each(|(name, subscriber)| out.subscriber(name, subscriber));
    out.0
}

/// What is written so far. Names, units and addresses have no quotes in them.
struct Text(String);

impl Text {
    fn line(&mut self, text: impl Display) {
        let _ = writeln!(self.0, "{text}");
    }

    fn table(&mut self, key: &str, name: &Name) {
        self.line(format_args!("[[{key}]]\nname = \"{name}\""));
    }

    fn quoted(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.line(format_args!("{key} = \"{value}\""));
        }
    }

    fn plain(&mut self, key: &str, value: impl Display, is_usual: bool) {
        if !is_usual {
            self.line(format_args!("{key} = {value}"));
        }
    }

    fn list(&mut self, key: &str, values: impl IntoIterator<Item = impl Display>) {
        let values: Vec<String> = values.into_iter().map(|value| format!("\"{value}\"")).collect();
        self.plain(key, format_args!("[{}]", values.join(", ")), values.is_empty());
    }

    fn router(&mut self, name: &Name, router: &Router) {
        self.table("router", name);
        for (port, rate) in &router.ports {
            self.table("router.port", port);
            self.quoted("rate", Some(rate).filter(|rate| **rate != Rate::ZERO));
        }
    }

    fn class(&mut self, name: &Name, class: &Class) {
        let usual = Class::default();
        self.table("class", name);
        self.list("ports", &class.ports);
        self.quoted("parent", class.parent.as_ref());
        self.quoted("guarantee", Some(share(class.guarantee)).filter(|_| class.guarantee != usual.guarantee));
        self.quoted("ceiling", class.ceiling.map(share));
        self.plain("weight", class.weight, class.weight == usual.weight);
        self.plain("tier", class.tier, class.tier == usual.tier);
        self.quoted("queue", class.queue);
        self.plain("default", class.default, !class.default);
        self.list("dscp", &class.dscp);
    }

    fn filter(&mut self, name: &Name, filter: &ClassFilter) {
        self.table("filter", name);
        self.list("routers", &filter.routers);
        self.plain("tier", filter.tier, filter.tier == super::CLASS_TIER);
        self.quoted("class", Some(&filter.class));
        if let Some(realtime) = filter.realtime {
            self.plain("realtime", realtime, false);
        }
        self.matches(&filter.matches);
    }

    fn matches(&mut self, matches: &FilterMatch) {
        let ports = |ports: PortRange| format!("\"{}-{}\"", ports.first, ports.last);
        let quoted = |value: &dyn Display| format!("\"{value}\"");
        let fields = [
            ("in_port", matches.in_port.as_ref().map(|port| quoted(port))),
            ("vlan", matches.vlan.map(|vlan| vlan.to_string())),
            ("src", matches.src.map(|net| quoted(&net))),
            ("dst", matches.dst.map(|net| quoted(&net))),
            ("protocol", matches.protocol.map(|number| number.to_string())),
            ("src_ports", matches.src_ports.map(ports)),
            ("dst_ports", matches.dst_ports.map(ports)),
            ("dscp", matches.dscp.map(|dscp| format!("\"{}/{}\"", dscp.value, dscp.mask))),
            ("tcp_flags", matches.tcp_flags.map(|flags| quoted(&tcp_flags_text(flags)))),
            ("fragment", matches.fragment.map(|fragment| fragment.to_string())),
        ];
        let said: Vec<String> =
            fields.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}", value?))).collect();
        self.plain("match", format_args!("{{ {} }}", said.join(", ")), said.is_empty());
    }

    fn profile(&mut self, name: &Name, profile: &Profile) {
        let usual = Profile::default();
        self.table("profile", name);
        self.plain("meter", meter(&profile.meter), profile.meter == MeterSpec::None);
        self.plain("green", action(&profile.green), profile.green == usual.green);
        self.plain("yellow", action(&profile.yellow), profile.yellow == usual.yellow);
        self.plain("red", action(&profile.red), profile.red == usual.red);
        let mut filters: Vec<_> = profile.filters.iter().collect();
        filters.sort_by_key(|(name, filter)| (filter.priority, *name));
        for (name, filter) in filters {
            self.table("profile.filter", name);
            self.quoted("class", filter.class.as_ref());
            self.matches(&filter.matches);
        }
    }

    fn sla(&mut self, name: &Name, sla: &Sla) {
        let usual = Sla::default();
        self.table("sla", name);
        self.quoted("rate", Some(sla.rate));
        self.quoted("burst", Some(sla.burst).filter(|burst| *burst != Bytes(0)));
        self.quoted("dscp", sla.dscp);
        let policy = match sla.policy {
            SlaPolicy::Ok => Some("ok"),
            SlaPolicy::Drop => None,
            SlaPolicy::Demote => Some("demote"),
        };
        self.quoted("policy", policy);
        self.plain("shared_pct", sla.shared_pct, sla.shared_pct == usual.shared_pct);
        self.plain("premium", sla.premium, !sla.premium);
        self.quoted("profile", sla.profile.as_ref());
        self.quoted("idle_timeout", sla.idle_timeout);
        self.quoted("session_timeout", sla.session_timeout);
        if let Some(quota) = &sla.quota {
            self.plain("quota", quota_text(quota), false);
        }
        for slot in &sla.schedule {
            self.slot(slot);
        }
    }

    fn slot(&mut self, slot: &Slot) {
        self.line("[[sla.schedule]]");
        if slot.days != Days::ALL {
            self.list("days", Vec::<String>::from(slot.days));
        }
        self.quoted("from", Some(slot.from));
        self.quoted("until", Some(slot.until));
        self.quoted("sla", Some(&slot.sla));
    }

    fn subscriber(&mut self, name: &Name, subscriber: &Subscriber) {
        self.table("subscriber", name);
        self.quoted("sla", Some(&subscriber.sla));
        self.list("prefixes", &subscriber.prefixes);
        self.quoted("router", subscriber.at.as_ref().map(|at| &at.router));
        self.quoted("port", subscriber.at.as_ref().map(|at| &at.port));
    }
}

fn share(share: Share) -> String {
    match share {
        Share::Rate(rate) => rate.to_string(),
        // Parts per million are ten thousandths of a per cent.
        Share::Ppm(ppm) => format!("{}.{:04} %", ppm / 10_000, ppm % 10_000),
    }
}

fn meter(meter: &MeterSpec) -> String {
    match meter {
        MeterSpec::None => "{ type = \"none\" }".into(),
        MeterSpec::TokenBucket { cir, cbs } => {
            format!("{{ type = \"token_bucket\", cir = \"{cir}\", cbs = \"{cbs}\" }}")
        }
        MeterSpec::Srtcm { cir, cbs, ebs, aware } => {
            format!(
                "{{ type = \"srtcm\", cir = \"{cir}\", cbs = \"{cbs}\", ebs = \"{ebs}\", aware = {aware} }}"
            )
        }
        MeterSpec::Trtcm { cir, cbs, pir, pbs, aware } => format!(
            "{{ type = \"trtcm\", cir = \"{cir}\", cbs = \"{cbs}\", pir = \"{pir}\", pbs = \"{pbs}\", aware = {aware} }}"
        ),
        MeterSpec::Tswtcm { cir, pir, window } => {
            format!("{{ type = \"tswtcm\", cir = \"{cir}\", pir = \"{pir}\", window = \"{window}\" }}")
        }
    }
}

fn action(action: &Action) -> String {
    match action {
        Action::Pass => "\"pass\"".into(),
        Action::Drop => "\"drop\"".into(),
        Action::Demote => "\"demote\"".into(),
        Action::Mark { dscp } => format!("{{ do = \"mark\", dscp = \"{dscp}\" }}"),
        Action::Shape { class } => format!("{{ do = \"shape\", class = \"{class}\" }}"),
        Action::Class { class, dscp: None } => format!("{{ do = \"class\", class = \"{class}\" }}"),
        Action::Class { class, dscp: Some(dscp) } => {
            format!("{{ do = \"class\", class = \"{class}\", dscp = \"{dscp}\" }}")
        }
    }
}

fn quota_text(quota: &Quota) -> String {
    let per = match quota.per {
        Period::Session => "session",
        Period::Day => "day",
        Period::Week => "week",
    };
    let then = match &quota.then {
        Then::Sla(sla) => sla.as_str(),
        Then::Disconnect => "disconnect",
    };
    format!("{{ amount = \"{}\", per = \"{per}\", then = \"{then}\" }}", quota.amount)
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
