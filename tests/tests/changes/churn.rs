//! Transactions drawn at random: every operation, several owners, valid ones and ones that must be refused.

use super::world::{GroupKind, WEIGHTS_BELOW, World, class_name, class_spec, port_name, tight_meter};
use crate::support::{delete, name, put};
use perhop_graph::router::{EdgeOptions, edge_graph};
use perhop_model::{Given, Key, Kind, Mode, Object, Op, Owner, Put, Spec, TxnId};
use rand::RngExt;
use serde_json::{Value, json};

/// A change, who asks for it and what must come of it.
#[derive(Clone, Debug)]
pub struct Request {
    pub owner: Owner,
    pub ops: Vec<Op>,
    pub mode: Mode,
    pub confirm_within_ms: Option<u64>,
    /// Changes another owner's objects.
    pub force: bool,
    pub refuse: bool,
}

impl Request {
    fn of(owner: Owner, ops: Vec<Op>) -> Self {
        Self { owner, ops, mode: Mode::Commit, confirm_within_ms: None, force: false, refuse: false }
    }
}

/// What the drawing of changes remembers.
#[derive(Debug, Default)]
pub struct Churn {
    counters: u32,
}

fn patch(kind: Kind, n: &str, fields: Value) -> Op {
    Op::Patch { kind, name: name(n), fields, if_version: None }
}

fn soft(op: Op, ms: Option<u64>) -> Op {
    match op {
        Op::Put(Put { given: Given::Object(object), if_version }) => {
            Op::Put(Put { given: Object { ttl_ms: ms, ..object }.into(), if_version })
        }
        other => other,
    }
}

fn key(kind: Kind, n: &str) -> Key {
    Key { kind, name: name(n) }
}

impl World {
    fn has(&mut self, kind: Kind, n: &str) -> bool {
        self.router.control().objects().contains_key(&key(kind, n))
    }

    fn any(&mut self, kind: GroupKind) -> Option<usize> {
        let all: Vec<usize> = (0..self.groups.len()).filter(|g| self.groups[*g].kind == kind).collect();
        (!all.is_empty()).then(|| all[self.rng.random_range(0..all.len())])
    }

    /// A pause in whole milliseconds, at least one.
    fn pause_ms(&mut self) -> u64 {
        (self.pause().as_nanos() / 1_000_000).max(1)
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.rng.random_range(0..one_in) == 0
    }
}

impl Churn {
    /// The next change.
    pub fn draw(&mut self, w: &mut World) -> Request {
        if w.chance(8) {
            return invalid(w);
        }
        let mut request = self.valid(w);
        if w.chance(12) {
            request.mode = Mode::Check;
        } else if w.chance(6) && !has_soft_owner(&request) {
            request.confirm_within_ms = Some(1 + w.rng.random_range(0..4) * w.pause_ms());
        }
        request
    }

    fn valid(&mut self, w: &mut World) -> Request {
        let drawn = match w.rng.random_range(0..18) {
            0..=2 => class_comes_or_goes(w),
            3 => churn_class_changes(w),
            4 => class_changes_its_place(w),
            5 => flows_change_their_class(w),
            6 => stable_class_changes(w),
            7 => filters_beside(w),
            8 => filters_above(w),
            9 => contracts_and_profiles_of_others(w),
            10 => policed_profile_changes(w),
            11 => detector_changes(w),
            12 => port_rate_changes(w),
            13 => owner_says_all_again(w),
            14 => renewal(w),
            15 => allocation(w),
            16 => rate_control(w),
            _ => None,
        };
        drawn.unwrap_or_else(|| self.graph(w))
    }

    /// The same graph with a counter more or less in the middle.
    fn graph(&mut self, w: &mut World) -> Request {
        self.counters = (self.counters + 1) % 4;
        let ports = w.router.control().planner().ports().to_vec();
        let mut text = edge_graph(&ports, &EdgeOptions::exact(16_384));
        let mut chain = "flows".to_owned();
        for i in 0..self.counters {
            text.push_str(&format!("count{i} :: Counter();\n"));
            chain.push_str(&format!(" -> count{i}"));
        }
        text = text.replace("flows -> condition", &format!("{chain} -> condition"));
        Request::of(Owner::Cli, vec![Op::ReplaceGraph { text, reset: vec![] }])
    }
}

/// Renewals are void once what they renew is reverted, so they are not made subject to confirmation.
fn has_soft_owner(request: &Request) -> bool {
    request.ops.iter().any(|op| matches!(op, Op::Renew { .. }))
}

fn ttl(w: &mut World) -> Option<u64> {
    w.chance(3).then(|| 1 + w.rng.random_range(1..60) * w.pause_ms())
}

fn class_comes_or_goes(w: &mut World) -> Option<Request> {
    let g = w.any(GroupKind::Churn)?;
    let (class, filter) = (class_name(&w.groups, g), format!("g{g}"));
    let owner = w.groups[g].owner(g);
    if w.has(Kind::Class, &class) {
        let drain_ms = w.chance(2).then(|| w.rng.random_range(2_000..60_000));
        let class = Op::Delete { kind: Kind::Class, name: name(&class), if_version: None, drain_ms };
        return Some(Request::of(owner, vec![class, delete(Kind::Filter, &filter)]));
    }
    let below = w.chance(3);
    let weight = weight(w, below);
    let mut spec = class_spec(w.groups[g].to, weight, w.groups[g].guarantee);
    if below {
        spec["parent"] = json!(format!("p{}/branch", w.groups[g].to));
        spec["guarantee"] = json!({ "rate": 0 });
    }
    let rule = w.group_filter(g, &format!("c{g}"));
    let ttl = ttl(w);
    let ops = vec![soft(put(Kind::Class, &class, spec), ttl), soft(put(Kind::Filter, &filter, rule), ttl)];
    Some(Request::of(owner, ops))
}

/// A weight for a class that comes and goes.
fn weight(w: &mut World, below: bool) -> u32 {
    w.rng.random_range(if below { WEIGHTS_BELOW } else { 1..=100 })
}

/// Whether a class is below another; `None`: there is no such class.
fn is_below(w: &mut World, class: &str) -> Option<bool> {
    match &*w.router.control().objects().get(&key(Kind::Class, class))?.spec {
        Spec::Class(c) => Some(c.parent.is_some()),
        _ => None,
    }
}

fn churn_class_changes(w: &mut World) -> Option<Request> {
    let g = w.any(GroupKind::Churn)?;
    let class = class_name(&w.groups, g);
    let below = is_below(w, &class)?;
    let fields = match w.rng.random_range(0..4) {
        0 => json!({ "weight": weight(w, below) }),
        1 => json!({ "tier": w.rng.random_range(0..16) }),
        2 => json!({ "ceiling": { "ppm": w.rng.random_range(300_000..1_000_000) } }),
        _ => json!({ "queue": { "limit": { "packets": w.rng.random_range(50_000..100_000) } } }),
    };
    Some(Request::of(w.groups[g].owner(g), vec![patch(Kind::Class, &class, fields)]))
}

/// Below another class, or back to the top.
fn class_changes_its_place(w: &mut World) -> Option<Request> {
    let g = w.any(GroupKind::Churn)?;
    let (class, branch) = (class_name(&w.groups, g), format!("p{}/branch", w.groups[g].to));
    let below = !is_below(w, &class)?;
    let weight = weight(w, below);
    let fields = if below {
        json!({ "parent": branch, "weight": weight, "guarantee": { "rate": 0 } })
    } else {
        json!({ "parent": null, "weight": weight, "guarantee": { "rate": w.groups[g].guarantee } })
    };
    Some(Request::of(w.groups[g].owner(g), vec![patch(Kind::Class, &class, fields)]))
}

/// A filter that names another class than before, between two that stay.
fn flows_change_their_class(w: &mut World) -> Option<Request> {
    let (g, s) = (w.any(GroupKind::Churn)?, w.any(GroupKind::Plain)?);
    if w.groups[g].to != w.groups[s].to {
        return None;
    }
    let to = if w.chance(2) { format!("c{s}") } else { "twig".to_owned() };
    let rule = w.group_filter(g, &to);
    Some(Request::of(w.groups[g].owner(g), vec![put(Kind::Filter, &format!("g{g}"), rule)]))
}

fn stable_class_changes(w: &mut World) -> Option<Request> {
    let kind = [GroupKind::Plain, GroupKind::Conditioned, GroupKind::Policed][w.rng.random_range(0..3)];
    let g = w.any(kind)?;
    let fields = match w.rng.random_range(0..4) {
        0 => json!({ "weight": w.rng.random_range(1..100) }),
        1 => json!({ "tier": w.rng.random_range(0..16) }),
        2 => json!({ "guarantee": { "rate": w.groups[g].guarantee / w.rng.random_range(1..4) } }),
        _ => json!({ "queue": { "limit": { "packets": w.rng.random_range(50_000..100_000) } } }),
    };
    Some(Request::of(Owner::File, vec![patch(Kind::Class, &class_name(&w.groups, g), fields)]))
}

/// Up to 40 filters that no flow matches, or that come after those that do.
fn filters_beside(w: &mut World) -> Option<Request> {
    let (count, from) = (w.rng.random_range(1..40), w.rng.random_range(0..100));
    let ttl = ttl(w);
    let g = w.any(GroupKind::Plain)?;
    let mut ops = Vec::new();
    for n in from..from + count {
        let filter = format!("beside{n}");
        if w.has(Kind::Filter, &filter) {
            ops.push(delete(Kind::Filter, &filter));
        } else if n % 3 == 0 {
            let mut after = w.group_filter(g, "rest");
            after["priority"] = json!(100_000 + n);
            after["profile"] = json!(null);
            ops.push(soft(put(Kind::Filter, &filter, after), ttl));
        } else {
            let nobody =
                json!({ "priority": n, "match": { "dst": format!("192.0.{n}.0/24") }, "class": "rest" });
            ops.push(soft(put(Kind::Filter, &filter, nobody), ttl));
        }
    }
    Some(Request::of(Owner::Agent, ops))
}

/// A filter before the one a stable group had, that says the same of half of its flows.
fn filters_above(w: &mut World) -> Option<Request> {
    let kind = [GroupKind::Plain, GroupKind::Conditioned][w.rng.random_range(0..2)];
    let g = w.any(kind)?;
    let filter = format!("above{g}");
    if w.has(Kind::Filter, &filter) {
        return Some(Request::of(Owner::File, vec![delete(Kind::Filter, &filter)]));
    }
    let below = w.router.control().objects().get(&key(Kind::Filter, &format!("g{g}")))?.spec.clone();
    let mut spec = serde_json::to_value(&*below).expect("plain data");
    let first = spec["match"]["dst_ports"]["first"].as_u64().expect("a group's filter");
    spec["match"]["dst_ports"]["last"] = json!(first + w.groups[g].count as u64 / 2);
    spec["priority"] = json!(500 + g);
    Some(Request::of(Owner::File, vec![put(Kind::Filter, &filter, spec)]))
}

/// Contracts and profiles that no stable flow uses, by clients of the interface.
fn contracts_and_profiles_of_others(w: &mut World) -> Option<Request> {
    let n = w.rng.random_range(0..6);
    let owner = Owner::Api(name(if n % 2 == 0 { "x" } else { "y" }));
    let (sla, profile, filter) = (format!("sla{n}"), format!("profile-of{n}"), format!("of{n}"));
    if w.has(Kind::Sla, &sla) && w.chance(2) {
        let ops =
            vec![delete(Kind::Sla, &sla), delete(Kind::Profile, &profile), delete(Kind::Filter, &filter)];
        return Some(Request::of(owner, ops));
    }
    let rate = w.rng.random_range(1..9) * 1_000_000;
    let policy = ["ok", "drop", "demote"][w.rng.random_range(0..3)];
    let meter = json!({ "type": "srtcm", "cir": rate, "cbs": 10_000, "ebs": 20_000 });
    let to = format!("198.51.{n}.0/24");
    let ttl = ttl(w);
    let ops = vec![
        put(Kind::Sla, &sla, json!({ "prefixes": [to], "rate": rate, "policy": policy })),
        put(Kind::Profile, &profile, json!({ "meter": meter, "yellow": { "do": "mark", "dscp": 12 } })),
        put(Kind::Filter, &filter, json!({ "match": { "dst": to }, "sla": sla, "profile": profile })),
    ];
    Some(Request::of(owner, ops.into_iter().map(|op| soft(op, ttl)).collect()))
}

fn policed_profile_changes(w: &mut World) -> Option<Request> {
    let g = w.any(GroupKind::Policed)?;
    let rate = w.draw.rates[w.groups[g].to] / w.rng.random_range(10..60);
    let fields = json!({ "meter": tight_meter(rate), "green": { "do": "mark", "dscp": 10 } });
    Some(Request::of(Owner::File, vec![patch(Kind::Profile, &format!("profile{g}"), fields)]))
}

fn detector_changes(w: &mut World) -> Option<Request> {
    let fields = match w.rng.random_range(0..3) {
        0 => json!({ "packets": w.rng.random_range(3..20) }),
        1 => json!({ "within": w.rng.random_range(10..10_000) * 1_000_000_u64 }),
        _ => json!({ "dscp": w.rng.random_range(0..64) }),
    };
    Some(Request::of(Owner::File, vec![patch(Kind::Detector, "media", fields)]))
}

/// The owner's own change, or by force of another.
fn port_rate_changes(w: &mut World) -> Option<Request> {
    let port = w.rng.random_range(0..w.draw.rates.len());
    let rate = w.draw.rates[port] * w.rng.random_range(70..300) / 100;
    let op = patch(Kind::Port, &port_name(port), json!({ "rate": rate }));
    let mut request = Request::of(Owner::File, vec![op]);
    if w.chance(3) {
        (request.owner, request.force) = (Owner::Cli, true);
    }
    Some(request)
}

/// `replace_owned` with what the owner has, but for one pair of class and filter.
fn owner_says_all_again(w: &mut World) -> Option<Request> {
    let g = w.any(GroupKind::Churn)?;
    let owner = w.groups[g].owner(g);
    let (class, filter) = (class_name(&w.groups, g), format!("g{g}"));
    let kinds = vec![Kind::Class, Kind::Filter];
    let drop_it = w.chance(2);
    let mine =
        w.router.control().objects().iter().filter(|(k, e)| e.owner == owner && kinds.contains(&k.kind));
    let mut objects: Vec<Object> = mine
        .filter(|(k, _)| !drop_it || (k.name.as_str() != class && k.name.as_str() != filter))
        .map(|(k, e)| Object {
            ttl_ms: e.expires_at_ns.map(|_| 60_000),
            ..Object::new(k.name.clone(), (*e.spec).clone())
        })
        .collect();
    objects.reverse();
    Some(Request::of(owner, vec![Op::replace_owned(&kinds, objects)]))
}

fn renewal(w: &mut World) -> Option<Request> {
    let soft: Vec<(Key, Owner)> = w
        .router
        .control()
        .objects()
        .iter()
        .filter(|(_, e)| e.expires_at_ns.is_some())
        .map(|(k, e)| (k.clone(), e.owner.clone()))
        .collect();
    if soft.is_empty() {
        return None;
    }
    let (_, owner) = soft[w.rng.random_range(0..soft.len())].clone();
    let keys = soft.into_iter().filter(|(_, o)| *o == owner).map(|(k, _)| k).collect();
    let keys = w.chance(2).then_some(keys);
    let ttl_ms = 1 + w.rng.random_range(1..60) * w.pause_ms();
    Some(Request::of(owner, vec![Op::Renew { keys, ttl_ms }]))
}

fn allocation(w: &mut World) -> Option<Request> {
    let g = w.any(GroupKind::Plain)?;
    let allocation = format!("a{g}");
    let owner = Owner::Agent;
    if w.has(Kind::Allocation, &allocation) {
        return Some(Request::of(owner, vec![delete(Kind::Allocation, &allocation)]));
    }
    let guarantee = w.groups[g].guarantee / w.rng.random_range(1..4);
    let spec = json!({ "class": class_name(&w.groups, g), "guarantee": guarantee });
    let ttl = ttl(w);
    Some(Request::of(owner, vec![soft(put(Kind::Allocation, &allocation, spec), ttl)]))
}

/// Policies of the TCP rate control, some with a filter of their own. No flow here is TCP.
fn rate_control(w: &mut World) -> Option<Request> {
    let n = w.rng.random_range(0..6);
    let owner = Owner::Api(name(if n % 2 == 0 { "x" } else { "y" }));
    let (policy, filter) = (format!("abr{n}"), format!("tcp{n}"));
    if w.has(Kind::AbrPolicy, &policy) && w.chance(2) {
        let ops = vec![delete(Kind::AbrPolicy, &policy), delete(Kind::Filter, &filter)];
        return Some(Request::of(owner, ops));
    }
    let rate = w.rng.random_range(0..9) * 100_000;
    let latency = ["average", "timed", "minimum"][w.rng.random_range(0..3)];
    let floor = ["clamp", "pace"][w.rng.random_range(0..2)];
    let priority = w.rng.random_range(0..3);
    let matches =
        if w.chance(2) { json!({ "filter": filter, "class": "rest" }) } else { json!({ "dscp": [n] }) };
    let spec = json!({ "priority": priority, "match": matches, "rate": rate, "floor": floor,
        "latency": { "type": latency } });
    let tcp = json!({ "priority": 200_000 + n, "match": { "protocol": 6 }, "class": "rest" });
    let ttl = ttl(w);
    let ops = vec![put(Kind::AbrPolicy, &policy, spec), put(Kind::Filter, &filter, tcp)];
    Some(Request::of(owner, ops.into_iter().map(|op| soft(op, ttl)).collect()))
}

/// Something that must be refused, whole, though part of it is good.
fn invalid(w: &mut World) -> Request {
    let good = put(Kind::Filter, "good", json!({ "match": { "dst": "203.0.113.0/24" }, "class": "rest" }));
    let port = w.rng.random_range(0..w.draw.rates.len());
    let (g, nowhere) = (w.any(GroupKind::Plain).unwrap_or(0), json!({ "class": "nowhere" }));
    let class = class_name(&w.groups, g);
    let api = Owner::Api(name("x"));
    let (owner, bad) = match w.rng.random_range(0..13) {
        0 => (
            Owner::File,
            put(Kind::Class, &format!("p{port}/x"), class_spec(port, 1, w.draw.rates[port] * 3)),
        ),
        1 => (Owner::File, delete(Kind::Class, &class)),
        2 => (api, put(Kind::Filter, "lost", nowhere)),
        3 => (api, put(Kind::Class, "p0/x", json!({ "port": "p0", "wieght": 3 }))),
        4 => (api, Op::ReplaceGraph { text: "a :: Nothing(); a -> b;".to_owned(), reset: vec![] }),
        5 => (api, patch(Kind::Class, &class, json!({ "weight": 3 }))),
        6 => (api, Op::Confirm { txn_id: TxnId([7; 16]) }),
        7 => (Owner::File, patch(Kind::Port, &port_name(port), json!({ "rate": 8_000 }))),
        8 => (Owner::File, patch(Kind::Port, &port_name(port), json!({ "mtu": 1500 }))),
        9 => (Owner::File, delete(Kind::Port, &port_name(port))),
        10 => (api, put(Kind::AbrPolicy, "lost", json!({ "min": 2_000, "peak": 1_000 }))),
        11 => (
            api,
            Op::ReplaceOwned {
                kinds: vec![Kind::Class],
                objects: vec![Given::read(Kind::Class, name(&class), class_spec(0, 1, 0), None)],
            },
        ),
        _ => (api, Op::Renew { keys: Some(vec![key(Kind::Class, &class)]), ttl_ms: 1000 }),
    };
    Request { refuse: true, ..Request::of(owner, vec![good, bad]) }
}
