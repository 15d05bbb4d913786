//! TOML to a policy: shapes and types, with the place of each thing. What it means is checked elsewhere.
//!
//! | table | keys |
//! |---|---|
//! | `[[router]]` | `name`, `[[router.port]]` with `name`, `rate` |
//! | `[[class]]` | `name`, `ports`, `parent`, `guarantee`, `ceiling`, `weight`, `tier`, `queue`, `default`, `dscp` |
//! | `[[filter]]` | `name`, `routers`, `tier`, `match`, `class`, `realtime` |
//! | `[[profile]]` | `name`, `meter`, `green`, `yellow`, `red`, `[[profile.filter]]` with `name`, `match`, `class` |
//! | `[[sla]]` | `name`, `rate`, `burst`, `dscp`, `policy`, `shared_pct`, `premium`, `profile`, `idle_timeout`, `session_timeout`, `quota`, `[[sla.schedule]]` |
//! | `[[subscriber]]` | `name`, `sla`, `prefixes`, `router`, `port` |

use super::text;
use super::{
    Action, At, Class, ClassFilter, Days, Minute, Period, Policy, Profile, ProfileFilter, Quota, Router, Sla,
    Slot, Subscriber, Then,
};
use crate::validate::{Place, Section};
use perhop_config::{Location, Spanned, TableReader, TextError, packet};
use perhop_model::{FilterMatch, MeterSpec, Name, SlaPolicy};
use perhop_units::{Bytes, Dscp, Duration, QueueLimit, Rate, Share};
use std::collections::{BTreeMap, BTreeSet};

/// Where the table of each thing is, and of which kinds some could not be read: what refers to such is not wrong by itself.
#[derive(Debug, Default)]
pub(crate) struct Places {
    of: BTreeMap<(Section, Name), Location>,
    lost: BTreeSet<Section>,
}

impl Places {
    /// The table of a thing.
    pub(crate) fn table(&self, section: Section, name: &Name) -> Option<Location> {
        self.of.get(&(section, name.clone())).copied()
    }

    /// Whether some of a kind could not be read.
    pub(crate) fn has_lost(&self, section: Section) -> bool {
        self.lost.contains(&section)
    }

    fn note(&mut self, section: Section, name: Option<&Name>, at: Location) {
        match name {
            Some(name) => drop(self.of.entry((section, name.clone())).or_insert(at)),
            None => drop(self.lost.insert(section)),
        }
    }
}

/// Reads the whole file; what is wrong is among the diagnostics, and what could be read is returned.
pub(crate) fn read(root: &mut TableReader<'_>) -> (Policy, Places) {
    let (mut policy, mut places) = (Policy::default(), Places::default());
    let p = &mut places;
    for (name, mut table) in named(root, "router", Section::Router, p) {
        let read = router(&mut table, name.as_ref(), p);
        insert(&mut policy.routers, name, Some(read));
        table.finish();
    }
    for (name, mut table) in named(root, "class", Section::Class, p) {
        insert(&mut policy.classes, name, Some(class(&mut table, p)));
        table.finish();
    }
    for (order, (name, mut table)) in (1u32..).zip(named(root, "filter", Section::Filter, p)) {
        insert(&mut policy.filters, name, filter(&mut table, order * 10));
        table.finish();
    }
    for (name, mut table) in named(root, "profile", Section::Profile, p) {
        let read = profile(&mut table, name.as_ref(), p);
        insert(&mut policy.profiles, name, Some(read));
        table.finish();
    }
    for (name, mut table) in named(root, "sla", Section::Sla, p) {
        insert(&mut policy.slas, name, Some(sla(&mut table)));
        table.finish();
    }
    for (name, mut table) in named(root, "subscriber", Section::Subscriber, p) {
        insert(&mut policy.subscribers, name, subscriber(&mut table));
        table.finish();
    }
    (policy, places)
}

/// The place of a fault: its field, else its table, else the file.
pub(crate) fn location(document: &perhop_config::Document, places: &Places, place: &Place) -> Location {
    let table = places.table(place.section, &place.name);
    table.map_or_else(|| document.root_location(), |table| document.lookup(table, &place.field))
}

fn insert<T>(all: &mut BTreeMap<Name, T>, name: Option<Name>, read: Option<T>) {
    if let Some((name, read)) = name.zip(read) {
        all.entry(name).or_insert(read);
    }
}

fn named<'a>(
    root: &mut TableReader<'a>,
    key: &'static str,
    section: Section,
    places: &mut Places,
) -> Vec<(Option<Name>, TableReader<'a>)> {
    let with_name = |(given, table): (Spanned<&str>, TableReader<'a>)| {
        let name = legal(given, &table);
        places.note(section, name.as_ref(), table.location());
        (name, table)
    };
    root.named_tables(key).into_iter().map(with_name).collect()
}

/// A name that is missing was reported, one that is none is.
fn legal(given: Spanned<&str>, table: &TableReader<'_>) -> Option<Name> {
    match text::name(given.value) {
        Ok(name) => Some(name),
        Err(_) if given.value.is_empty() => None,
        Err(e) => {
            let d = table.document().error(given.span, e.message);
            table.diagnostics().push(d.allowed(e.allowed.unwrap_or_default()));
            None
        }
    }
}

fn router(table: &mut TableReader<'_>, of: Option<&Name>, places: &mut Places) -> Router {
    let mut ports = BTreeMap::new();
    for (name, mut port) in table.named_tables("port") {
        let rate = port.value::<Rate>("rate").map_or(Rate::ZERO, |rate| rate.value);
        let name = legal(name, &port);
        places.note(Section::Port, within(of, name.as_ref()).as_ref(), port.location());
        insert(&mut ports, name, Some(rate));
        port.finish();
    }
    Router { ports }
}

/// How a thing inside another is called: by the other's name and its own.
fn within(of: Option<&Name>, own: Option<&Name>) -> Option<Name> {
    Name::new(&format!("{}/{}", of?, own?)).ok()
}

fn class(table: &mut TableReader<'_>, places: &mut Places) -> Class {
    table.require("ports", "[\"*/wan\"]");
    let default = Class::default();
    let patterns = table.values_with("ports", "a port of a router", text::pattern);
    // Which of several means no port is told by its place in the list, which is another without those that are none.
    if patterns.as_ref().is_some_and(|list| !is_whole(table, list)) {
        places.lost.insert(Section::Port);
    }
    Class {
        ports: patterns.map_or(Vec::new(), |list| list.value.into_iter().map(|p| p.value).collect()),
        parent: name(table, "parent"),
        guarantee: value(table, "guarantee").unwrap_or(default.guarantee),
        ceiling: value::<Share>(table, "ceiling"),
        weight: number(table, "weight").unwrap_or(default.weight),
        tier: number(table, "tier").unwrap_or(default.tier),
        queue: value::<QueueLimit>(table, "queue"),
        default: flag(table, "default"),
        dscp: table.values("dscp").map_or(Vec::new(), |list| list.value.iter().map(|d| d.value).collect()),
    }
}

fn filter(table: &mut TableReader<'_>, priority: u32) -> Option<ClassFilter> {
    table.require("class", "\"voice\"");
    let routers = table.values_with("routers", "a router", text::name);
    let (tier, matches) = (number(table, "tier").unwrap_or(super::CLASS_TIER), matches(table));
    let realtime = table.boolean("realtime").map(|b| b.value);
    Some(ClassFilter {
        routers: routers.map_or(Vec::new(), |list| list.value.into_iter().map(|n| n.value).collect()),
        tier,
        priority,
        matches,
        class: name(table, "class")?,
        realtime,
    })
}

fn matches(table: &mut TableReader<'_>) -> FilterMatch {
    let Some(mut table) = table.table("match") else { return FilterMatch::default() };
    let t = &mut table;
    let matches = FilterMatch {
        in_port: name(t, "in_port"),
        vlan: number(t, "vlan"),
        src: t.value_with("src", "a prefix", text::prefix).map(|p| p.value),
        dst: t.value_with("dst", "a prefix", text::prefix).map(|p| p.value),
        protocol: t.value_with("protocol", "a protocol", packet::protocol).map(|p| p.value),
        src_ports: t.value_with("src_ports", "a port or a range", text::ports).map(|p| p.value),
        dst_ports: t.value_with("dst_ports", "a port or a range", text::ports).map(|p| p.value),
        dscp: t.value_with("dscp", "a code point", text::masked_dscp).map(|d| d.value),
        tcp_flags: t.value_with("tcp_flags", "TCP flags", text::tcp_flags).map(|f| f.value),
        fragment: t.boolean("fragment").map(|f| f.value),
    };
    table.finish();
    matches
}

fn profile(table: &mut TableReader<'_>, of: Option<&Name>, places: &mut Places) -> Profile {
    let meter = table.table("meter").map_or(MeterSpec::None, meter);
    let mut colour = |key, usual| action(table, key).unwrap_or(usual);
    let (green, yellow) = (colour("green", Action::Pass), colour("yellow", Action::Pass));
    let red = colour("red", Action::Drop);
    let mut filters = BTreeMap::new();
    for (order, (given, mut inner)) in (1u32..).zip(table.named_tables("filter")) {
        let own = legal(given, &inner);
        places.note(Section::ProfileFilter, within(of, own.as_ref()).as_ref(), inner.location());
        let matches = matches(&mut inner);
        let class = name(&mut inner, "class");
        insert(&mut filters, own, Some(ProfileFilter { priority: order * 10, matches, class }));
        inner.finish();
    }
    Profile { meter, green, yellow, red, filters }
}

#[derive(Clone, Copy)]
enum MeterKind {
    None,
    TokenBucket,
    Srtcm,
    Trtcm,
    Tswtcm,
}

fn meter(mut table: TableReader<'_>) -> MeterSpec {
    let kinds = [
        ("none", MeterKind::None),
        ("token_bucket", MeterKind::TokenBucket),
        ("srtcm", MeterKind::Srtcm),
        ("trtcm", MeterKind::Trtcm),
        ("tswtcm", MeterKind::Tswtcm),
    ];
    let Some(kind) = table.required_choice("type", &kinds) else {
        // Which keys belong here depends on the type.
        table.skip();
        return MeterSpec::None;
    };
    let t = &mut table;
    // What is missing is reported; one that passes every check stands for it.
    let rate = |t: &mut TableReader<'_>, key| {
        t.require(key, "\"1 Mbit/s\"");
        value::<Rate>(t, key)
    };
    let burst = |t: &mut TableReader<'_>, key| {
        t.require(key, "\"15 kB\"");
        value::<Bytes>(t, key).unwrap_or(Bytes(1500))
    };
    let usual = Rate(1);
    let meter = match kind.value {
        MeterKind::None => MeterSpec::None,
        MeterKind::TokenBucket => {
            MeterSpec::TokenBucket { cir: rate(t, "cir").unwrap_or(usual), cbs: burst(t, "cbs") }
        }
        MeterKind::Srtcm => MeterSpec::Srtcm {
            cir: rate(t, "cir").unwrap_or(usual),
            cbs: burst(t, "cbs"),
            ebs: burst(t, "ebs"),
            aware: flag(t, "aware"),
        },
        MeterKind::Trtcm => {
            let (cir, pir) = (rate(t, "cir"), rate(t, "pir"));
            MeterSpec::Trtcm {
                cir: cir.unwrap_or(usual),
                cbs: burst(t, "cbs"),
                pir: pir.or(cir).unwrap_or(usual),
                pbs: burst(t, "pbs"),
                aware: flag(t, "aware"),
            }
        }
        MeterKind::Tswtcm => {
            let (cir, pir) = (rate(t, "cir"), rate(t, "pir"));
            MeterSpec::Tswtcm {
                cir: cir.unwrap_or(usual),
                pir: pir.or(cir).unwrap_or(usual),
                window: value(t, "window").unwrap_or(Duration::from_secs(1)),
            }
        }
    };
    table.finish();
    meter
}

#[derive(Clone, Copy)]
enum Verb {
    Pass,
    Drop,
    Mark,
    Demote,
    Shape,
    Class,
}

const VERBS: [(&str, Verb); 6] = [
    ("pass", Verb::Pass),
    ("drop", Verb::Drop),
    ("mark", Verb::Mark),
    ("demote", Verb::Demote),
    ("shape", Verb::Shape),
    ("class", Verb::Class),
];

/// `red = "drop"` or `red = { do = "mark", dscp = "AF13" }`.
fn action(table: &mut TableReader<'_>, key: &'static str) -> Option<Action> {
    if table.is_text(key) {
        let verb = table.choice(key, &VERBS)?.value;
        let example = match verb {
            Verb::Pass => return Some(Action::Pass),
            Verb::Drop => return Some(Action::Drop),
            Verb::Demote => return Some(Action::Demote),
            Verb::Mark => "{ do = \"mark\", dscp = \"AF13\" }",
            Verb::Shape => "{ do = \"shape\", class = \"shaped\" }",
            Verb::Class => "{ do = \"class\", class = \"bulk\" }",
        };
        let d =
            table.error(key, "does not say everything").hint(format!("Write for example {key} = {example}"));
        table.diagnostics().push(d);
        return None;
    }
    let mut inner = table.table(key)?;
    let Some(verb) = inner.required_choice("do", &VERBS) else {
        inner.skip();
        return None;
    };
    let t = &mut inner;
    let read = match verb.value {
        Verb::Pass => Some(Action::Pass),
        Verb::Drop => Some(Action::Drop),
        Verb::Demote => Some(Action::Demote),
        Verb::Mark => {
            t.require("dscp", "\"AF13\"");
            value::<Dscp>(t, "dscp").map(|dscp| Action::Mark { dscp })
        }
        Verb::Shape => {
            t.require("class", "\"shaped\"");
            name(t, "class").map(|class| Action::Shape { class })
        }
        Verb::Class => {
            t.require("class", "\"bulk\"");
            let (class, dscp) = (name(t, "class"), value::<Dscp>(t, "dscp"));
            class.map(|class| Action::Class { class, dscp })
        }
    };
    inner.finish();
    read
}

fn sla(table: &mut TableReader<'_>) -> Sla {
    table.require("rate", "\"10 Mbit/s\"");
    let policies = [("ok", SlaPolicy::Ok), ("drop", SlaPolicy::Drop), ("demote", SlaPolicy::Demote)];
    let default = Sla::default();
    Sla {
        // What is missing is reported; one that passes every check stands for it.
        rate: value::<Rate>(table, "rate").unwrap_or(Rate::from_kbit(1)),
        burst: value(table, "burst").unwrap_or(default.burst),
        dscp: value::<Dscp>(table, "dscp"),
        policy: table.choice("policy", &policies).map_or(default.policy, |p| p.value),
        shared_pct: number(table, "shared_pct").unwrap_or(default.shared_pct),
        premium: flag(table, "premium"),
        profile: name(table, "profile"),
        idle_timeout: value::<Duration>(table, "idle_timeout"),
        session_timeout: value::<Duration>(table, "session_timeout"),
        quota: table.table("quota").and_then(quota),
        schedule: table.tables("schedule").into_iter().filter_map(slot).collect(),
    }
}

fn quota(mut table: TableReader<'_>) -> Option<Quota> {
    let periods = [("session", Period::Session), ("day", Period::Day), ("week", Period::Week)];
    table.require("amount", "\"50 GB\"");
    let amount = value::<Bytes>(&mut table, "amount");
    let per = table.required_choice("per", &periods).map(|per| per.value);
    table.require("then", "\"slow\" or \"disconnect\"");
    let then = name(&mut table, "then");
    table.finish();
    let then =
        then.map(|then| if then.as_str() == "disconnect" { Then::Disconnect } else { Then::Sla(then) });
    // What is missing or wrong is reported; what passes every check stands for it.
    Some(Quota { amount: amount.unwrap_or(Bytes(1)), per: per.unwrap_or(Period::Day), then: then? })
}

fn slot(mut table: TableReader<'_>) -> Option<Slot> {
    for (key, example) in [("from", "\"08:00\""), ("until", "\"18:00\""), ("sla", "\"day\"")] {
        table.require(key, example);
    }
    let given = table.values_with("days", "days of the week", text::some_days);
    let given = given.filter(|list| is_whole(&table, list));
    let days = given
        .map_or(Days::ALL, |list| list.value.iter().fold(Days(0), |all, days| Days(all.0 | days.value.0)));
    let time = |table: &mut TableReader<'_>, key| {
        table.value_with(key, "a time of the day", text::minute).map(|minute| -> Minute { minute.value })
    };
    let (from, until, sla) = (time(&mut table, "from"), time(&mut table, "until"), name(&mut table, "sla"));
    table.finish();
    let (from, until) = (from.unwrap_or(Minute(0)), until.unwrap_or(Minute(0)));
    Some(Slot { days, from, until, sla: sla? })
}

fn subscriber(table: &mut TableReader<'_>) -> Option<Subscriber> {
    table.require("sla", "\"gold\"");
    let sla = name(table, "sla");
    let prefixes = table.values_with("prefixes", "a prefix", text::prefix);
    let prefixes = prefixes.map_or(Vec::new(), |list| list.value.into_iter().map(|p| p.value).collect());
    for (key, other, example) in [("port", "router", "\"lan\""), ("router", "port", "\"edge-1\"")] {
        if table.has(other) {
            table.require(key, example);
        }
    }
    let at = name(table, "router").zip(name(table, "port")).map(|(router, port)| At { router, port });
    Some(Subscriber { sla: sla?, prefixes, at })
}

/// Whether every element of a list could be read.
fn is_whole<T>(table: &TableReader<'_>, list: &Spanned<Vec<T>>) -> bool {
    table.document().count(list.span) == list.value.len()
}

fn name(table: &mut TableReader<'_>, key: &'static str) -> Option<Name> {
    table.value_with(key, "a name", text::name).map(|name| name.value)
}

fn value<T: perhop_config::FromText>(table: &mut TableReader<'_>, key: &'static str) -> Option<T> {
    table.value(key).map(|value| value.value)
}

fn flag(table: &mut TableReader<'_>, key: &'static str) -> bool {
    table.boolean(key).is_some_and(|flag| flag.value)
}

/// A whole number of the type of its field.
fn number<T: TryFrom<i64>>(table: &mut TableReader<'_>, key: &'static str) -> Option<T> {
    let given = table.integer(key, i64::MIN..=i64::MAX)?;
    let read = T::try_from(given.value).ok();
    if read.is_none() {
        let e = TextError::new("is out of range");
        table.diagnostics().push(table.document().error(given.span, e.message));
    }
    read
}
