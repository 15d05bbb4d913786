//! From what a packet thread counts, by number, to rows with names.

pub(crate) mod abr;
pub(crate) mod gauges;
mod placement;
pub(crate) mod records;
pub(crate) mod sums;

use crate::accounting::{RawCost, RawTrace};
use crate::forwarder::Step;
use crate::history::History;
use crate::machine::Steal;
use crate::report::Row;
use crate::router_forwarder::{Raw, RawClass, RouterForwarder, Wanted};
use crate::survey::{Cursor, Scope, Survey};
use crate::told::ToControl;
use perhop_contract::Control;
use perhop_element::TraceConfig;
use perhop_elements::police::ConditionCounters;
use perhop_elements::schedule::{ClassCounters, Egress};
use perhop_flows::admission::Standing;
use perhop_flows::{AdmissionReport, CallInfo, FlowInfo, FlowTuple, HereInfo};
use perhop_graph::router::{BalanceReport, RouterPlanner};
use perhop_io::clock;
use perhop_model::{
    AllocationSpec, CountersPage, CountersQuery, Done, ErrorItem, Key, Kind, Name, ShowPage, Spec,
};
use perhop_packet::{ClassId, FilterId, ProfileId, SlaId};
use perhop_reason::Code;
use perhop_units::{Instant, Rate};
use perhop_wire::protocol;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Kind of the rows that say what was policed of a class's real-time traffic.
pub(crate) const REALTIME: &str = "realtime";
/// Rows shown unless the client says how many.
pub(crate) const SHOWN: usize = 1_000;

/// What to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Ports,
    Classes,
    Profiles,
    Slas,
    Filters,
    Flows,
    Calls,
    Abr,
    AbrPolicies,
    Elements,
    Driver,
    Costs,
    Histograms,
    Delays,
    Events,
    Drops,
    Routes,
    All,
}

const WHATS: [(&str, What); 18] = [
    ("ports", What::Ports),
    ("classes", What::Classes),
    ("profiles", What::Profiles),
    ("slas", What::Slas),
    ("filters", What::Filters),
    ("flows", What::Flows),
    ("calls", What::Calls),
    ("abr", What::Abr),
    ("abr-policies", What::AbrPolicies),
    ("elements", What::Elements),
    ("driver", What::Driver),
    ("costs", What::Costs),
    ("histograms", What::Histograms),
    ("delays", What::Delays),
    ("events", What::Events),
    ("drops", What::Drops),
    ("routes", What::Routes),
    ("all", What::All),
];

impl What {
    pub(crate) fn parse(text: &str) -> Result<Self, ErrorItem> {
        let found = WHATS.iter().find(|(name, _)| *name == text);
        found.map(|(_, what)| *what).ok_or_else(|| {
            let names = WHATS.map(|(name, _)| name).join(", ");
            ErrorItem {
                value: Some(text.into()),
                allowed: Some(names),
                ..ErrorItem::new(Code::OutOfRange, "what", format!("{text:?} cannot be shown"))
            }
        })
    }

    fn has(self, kind: &str) -> bool {
        match self {
            Self::Ports => kind == "port",
            Self::Classes => kind == "class" || kind == REALTIME,
            Self::Profiles => kind == "profile",
            Self::Slas => kind == "sla" || kind == "detector",
            Self::Filters => kind == "filter",
            Self::Flows => kind == "flow",
            Self::Calls => kind == "call",
            Self::Abr => kind == abr::FLOW,
            Self::AbrPolicies => kind == "abr_policy",
            Self::Elements => kind == "element",
            Self::Driver => matches!(kind, "driver" | "pool" | placement::WORKER),
            Self::Costs => kind == "cost",
            Self::Histograms => kind == "histogram",
            Self::Delays => kind == "delay",
            Self::Events => kind == records::EVENT,
            Self::Drops => kind == "drop",
            Self::Routes => kind == records::ROUTE,
            Self::All => !matches!(kind, "flow" | "call" | abr::FLOW | "cost" | "histogram" | "delay"),
        }
    }
}

/// What becomes of the counters.
pub(crate) enum Purpose {
    Counters(CountersQuery, Done<CountersPage>),
    Show(What, usize, Done<Result<ShowPage, ErrorItem>>),
    /// To be remembered.
    Remember,
}

/// The ids whose counters are asked for.
fn wanted(control: &Control<RouterPlanner>) -> Wanted {
    let planner = control.planner();
    let (slas, profiles) = planner.conditioned();
    let mut wanted = Wanted {
        slas: slas.map(|(_, id)| id).collect(),
        profiles: profiles.map(|(_, id)| id).collect(),
        realtime: Vec::new(),
        abr: planner.abr_policies().map(|(_, id)| id).collect(),
    };
    // Logical classes are few and numbered from 0.
    wanted.realtime = (0..).map(ClassId).take_while(|id| planner.class_name(*id).is_some()).collect();
    wanted
}

/// Counters on their way back from the packet threads.
pub(crate) struct Counting {
    /// Of each thread that was asked, in their order.
    parts: Vec<Part>,
    purpose: Purpose,
}

/// What one packet thread counted.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) at: Instant,
    pub(crate) rows: Vec<Row>,
    pub(crate) raw: Raw,
    pub(crate) flows: Vec<FlowInfo>,
    /// Whether there are connections or controlled flows that were not looked at.
    pub(crate) more: bool,
}

/// Takes the counters on a packet thread, in slices.
pub(crate) struct CountSurvey {
    cursor: Cursor,
    counting: Counting,
}

impl CountSurvey {
    /// On the control thread.
    pub(crate) fn new(control: &Control<RouterPlanner>, purpose: Purpose) -> Self {
        Self::after(control, Counting { parts: Vec::new(), purpose })
    }

    /// The same for the next packet thread.
    pub(crate) fn after(control: &Control<RouterPlanner>, counting: Counting) -> Self {
        let scope = match &counting.purpose {
            Purpose::Counters(query, _) => counters_scope(query),
            Purpose::Show(what, limit, _) => scope(*what, *limit),
            Purpose::Remember => scope(What::Drops, 0),
        };
        let by_id = scope.conditioned || scope.elements || scope.policies;
        let mut wanted = if by_id { wanted(control) } else { Wanted::default() };
        if let Purpose::Show(What::Classes, ..) = counting.purpose {
            // Of classes only what is policed of their real-time traffic is shown.
            (wanted.slas, wanted.profiles) = Default::default();
        }
        if let Purpose::Counters(query, _) = &counting.purpose {
            narrow(&mut wanted, control, query);
        }
        Self { cursor: Cursor::new(scope, wanted), counting }
    }
}

/// What must be counted for some counters.
fn counters_scope(query: &CountersQuery) -> Scope {
    let all = scope(What::All, 0);
    let of = |kinds: &[&str]| kinds.iter().any(|kind| query.has_kind(kind));
    Scope {
        elements: all.elements && of(&["element", "detector"]),
        classes: all.classes && of(&["class"]),
        conditioned: all.conditioned && of(&["profile", "sla", REALTIME]),
        policies: all.policies && of(&["abr_policy"]),
        gauges: false,
        ..all
    }
}

/// Leaves of the ids those that are asked for, as far as their kinds and names tell.
fn narrow(wanted: &mut Wanted, control: &Control<RouterPlanner>, query: &CountersQuery) {
    let planner = control.planner();
    let named = |name: Option<&Name>| name.is_some_and(|name| query.has_name(name.as_str()));
    wanted.slas.retain(|id| query.has_kind("sla") && named(planner.sla_name(*id)));
    wanted.profiles.retain(|id| query.has_kind("profile") && named(planner.profile_name(*id)));
    if !query.has_kind(REALTIME) {
        wanted.realtime.clear();
    }
}

/// What must be counted to show something.
fn scope(what: What, limit: usize) -> Scope {
    let connections = match what {
        What::Calls => LOOKED_AT,
        What::Flows => limit.min(LOOKED_AT),
        _ => 0,
    };
    Scope {
        elements: what.has("element") || what == What::Drops,
        classes: what.has("class") || what == What::Drops,
        conditioned: what.has("profile") || what.has("sla") || matches!(what, What::Drops | What::Classes),
        connections,
        policies: what.has("abr_policy"),
        abr_flows: if what == What::Abr { limit.min(LOOKED_AT) } else { 0 },
        costs: matches!(what, What::Costs | What::Histograms),
        trace: match what {
            What::Delays => Some(limit.min(TraceConfig::KEEP)),
            What::Histograms => Some(0),
            _ => None,
        },
        gauges: true,
    }
}

impl Survey<RouterForwarder> for CountSurvey {
    fn slice(&mut self, forwarder: &mut RouterForwarder, spent: &mut dyn FnMut() -> bool) -> Step {
        self.cursor.slice(clock::monotonic(), forwarder, spent)
    }

    fn finish(self: Box<Self>, at: Instant, rows: Vec<Row>, forwarder: &mut RouterForwarder) {
        let Self { cursor, mut counting } = *self;
        let more = cursor.has_more();
        let Cursor { raw, flows, .. } = cursor;
        counting.parts.push(Part { at, rows, raw, flows, more });
        forwarder.outbox().deliver(ToControl::Counted(Box::new(counting)));
    }
}

impl Counting {
    /// Packet threads that have counted.
    pub(crate) fn counted(&self) -> usize {
        self.parts.len()
    }

    /// On the control thread: numbers become names, and the caller is answered.
    pub(crate) fn finish(
        self,
        control: &Control<RouterPlanner>,
        (ports, notes): (&[String], &[String]),
        steal: &Steal,
        balance: Option<&BalanceReport>,
        history: &mut History,
    ) {
        let Self { parts, purpose } = self;
        let Part { at, mut rows, raw, flows, more } = sums::of_parts(parts);
        steal.add_to(&mut rows);
        balance.iter().for_each(|report| placement::add_moves(report, &mut rows));
        let (epoch, revision, at_ns) = (control.epoch(), control.revision(), at.0);
        let planner = control.planner();
        own_ports(control, &mut rows);
        class_rows(control, &raw, ports, &mut rows);
        for (id, counters) in &raw.slas {
            let name = planner.sla_name(*id);
            rows.extend(name.map(|n| conditioned(control, Kind::Sla, n, counters)));
        }
        for (id, counters) in &raw.profiles {
            let name = planner.profile_name(*id);
            rows.extend(name.map(|n| conditioned(control, Kind::Profile, n, counters)));
        }
        for (id, counters) in &raw.realtime {
            let mut row = Row::new(REALTIME, planner.class_name(*id).unwrap_or_default());
            condition_counters(counters, &mut row);
            rows.push(row);
        }
        let Raw { elements, costs, trace, admission, abr, .. } = raw;
        abr::rows(control, &abr, matches!(purpose, Purpose::Show(What::Abr, ..)), &mut rows);
        rows.extend(admission.and_then(|report| detector_row(control, &report)));
        rows.extend(elements);
        match purpose {
            Purpose::Remember => history.note(at, &rows),
            Purpose::Counters(query, done) => {
                let rows = rows.into_iter().map(gauges::without).filter(|row| query.has(row)).collect();
                done(CountersPage { epoch, revision, at_ns, rows });
            }
            Purpose::Show(what, limit, done) => {
                if matches!(what, What::Filters | What::All) {
                    rows.extend(filter_rows(control));
                }
                balance.iter().for_each(|report| placement::add_workers(report, &mut rows));
                let kind = if what == What::Calls { "call" } else { "flow" };
                let shown = || flows.iter().filter(|f| what != What::Calls || f.realtime);
                rows.extend(shown().take(limit).map(|f| flow_row(planner, f, kind)));
                history.rates(at, &mut rows);
                match what {
                    What::Drops => {
                        history.note(at, &rows);
                        rows = history.drop_rows(at);
                    }
                    What::Calls => rows.extend(history.ended_rows(at)),
                    _ => {}
                }
                if let Err(error) = profile_rows(what, costs, trace, ports, &mut rows) {
                    return done(Err(error));
                }
                let idle = |r: &Row| r.kind == REALTIME && r.counters.values().all(|n| *n == 0);
                rows.retain(|r| what.has(&r.kind) && !(what == What::Classes && idle(r)));
                let total = rows.len() + shown().count().saturating_sub(limit);
                rows.truncate(limit);
                rows.iter_mut().for_each(gauges::name);
                let notes = if what == What::Ports { notes.to_vec() } else { Vec::new() };
                done(Ok(ShowPage { epoch, revision, at_ns, rows, total, more, notes }));
            }
        }
    }
}

/// What a router that takes its measure says of itself; refused by one that does not.
fn profile_rows(
    what: What,
    costs: Vec<RawCost>,
    trace: RawTrace,
    ports: &[String],
    rows: &mut Vec<Row>,
) -> Result<(), ErrorItem> {
    match what {
        What::Costs if !costs.is_empty() => rows.extend(costs.iter().map(RawCost::cost_row)),
        What::Histograms if !costs.is_empty() => {
            rows.extend(costs.iter().flat_map(RawCost::histogram_rows));
            rows.extend(trace.histogram_row());
        }
        What::Delays if trace.is_there() => rows.extend(trace.rows(ports)),
        What::Costs | What::Histograms | What::Delays => {
            let message =
                "this router does not take the time of elements and packets; start it with --profile";
            return Err(ErrorItem::new(Code::Unsupported, "what", message));
        }
        _ => {}
    }
    Ok(())
}

/// Flows looked at for one answer; recognised ones may lie anywhere in the table.
const LOOKED_AT: usize = 20_000;

fn identify(control: &Control<RouterPlanner>, kind: Kind, name: &Name, row: &mut Row) {
    let key = Key { kind, name: name.clone() };
    if let Some(entry) = control.objects().get(&key) {
        row.id = entry.id;
        row.owner = entry.owner.to_string();
    }
}

fn own_ports(control: &Control<RouterPlanner>, rows: &mut [Row]) {
    for row in rows.iter_mut().filter(|r| r.kind == "port") {
        let Ok(name) = Name::new(&row.name) else { continue };
        identify(control, Kind::Port, &name, row);
        let key = Key { kind: Kind::Port, name };
        if let Some(Spec::Port(spec)) = control.objects().get(&key).map(|e| &*e.spec) {
            row.facts.insert("device".into(), spec.device_of(&row.name).to_owned());
            row.counters.insert("rate_bps".into(), spec.rate.0);
        }
    }
}

/// One row an object: a class that moved inside its tree counts in every slot it has, and has counted in those it had.
fn class_rows(control: &Control<RouterPlanner>, raw: &Raw, ports: &[String], rows: &mut Vec<Row>) {
    let planner = control.planner();
    let allocations = allocations(control);
    let mut by_id: BTreeMap<u64, Row> = BTreeMap::new();
    for c in raw.classes.iter().flatten() {
        let port = ports.get(c.port.index()).map_or("", String::as_str);
        let Some((name, id)) = planner.leaf_class(c.port, c.leaf) else {
            // Any other slot without an object was freed since it was counted, and the object has its counts.
            if c.leaf == Egress::DEFAULT_LEAF.0 {
                let mut row = Row::new("class", &format!("{port}/default"));
                class_counters(c, &mut row);
                class_facts(c, port, &mut row);
                if row.counters.values().all(|n| *n == 0) {
                    // Every tree has it, for what no class takes.
                    row.facts.insert("state".into(), "unused".into());
                }
                rows.push(row);
            }
            continue;
        };
        let row = by_id.entry(id).or_insert_with(|| {
            let mut row = Row::new("class", name.as_str());
            identify(control, Kind::Class, name, &mut row);
            row.id = id;
            let key = Key { kind: Kind::Class, name: name.clone() };
            if let Some(Spec::Class(spec)) = control.objects().get(&key).map(|e| &*e.spec) {
                row.facts.insert("logical".into(), spec.logical_name(name).to_owned());
            }
            if let Some(allocation) = allocations.get(name) {
                // What was allocated may be more than the port has now: in force is what the tree has.
                let has = |bound: usize, given: Option<Rate>| {
                    let enforced = c.bounds[bound].filter(|_| !c.draining);
                    given.map(|given| enforced.unwrap_or(given))
                };
                let rates = [
                    ("allocated", has(0, allocation.guarantee)),
                    ("allocated_most", has(1, allocation.ceiling)),
                ];
                let given = rates.into_iter().filter_map(|(fact, rate)| Some((fact.to_owned(), rate?)));
                row.facts.extend(given.map(|(fact, rate)| (fact, rate.to_string())));
            }
            row.counters = counted(&planner.counted_before(id));
            row
        });
        class_counters(c, row);
        class_facts(c, port, row);
    }
    rows.extend(by_id.into_values());
}

/// What is laid over classes, by class.
fn allocations(control: &Control<RouterPlanner>) -> BTreeMap<&Name, &AllocationSpec> {
    let objects = control.objects().iter().filter(|(key, _)| key.kind == Kind::Allocation);
    let specs = objects.filter_map(|(_, entry)| match &*entry.spec {
        Spec::Allocation(spec) => Some((&spec.class, spec)),
        _ => None,
    });
    specs.collect()
}

/// Adds what a slot counted and holds.
fn class_counters(c: &RawClass, row: &mut Row) {
    let gauges = [("backlog_packets", c.backlog.0), ("backlog_bytes", c.backlog.1)];
    let gauges = gauges.map(|(name, value)| (name.to_owned(), value));
    for (name, value) in counted(&c.counters).into_iter().chain(gauges) {
        *row.counters.entry(name).or_default() += value;
    }
    let throttled = row.counters.entry("throttled_now".to_owned()).or_default();
    *throttled = (*throttled).max(u64::from(c.throttled));
}

fn counted(n: &ClassCounters) -> BTreeMap<String, u64> {
    let counters = [
        ("packets", n.packets),
        ("bytes", n.bytes),
        ("shared_bytes", n.shared),
        ("borrowed_bytes", n.borrowed),
        ("dropped_queue_full", n.dropped_queue_full),
        ("dropped_early", n.dropped_early),
        ("marked", n.marked),
        ("dropped_class_removed", n.dropped_class_removed),
        ("dropped_bytes", n.dropped_bytes),
        ("throttled", n.throttled),
        ("waited_us", n.waited_us),
    ];
    counters.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Of several slots: active if one of them is.
fn class_facts(c: &RawClass, port: &str, row: &mut Row) {
    let state = row.facts.entry("state".into()).or_insert_with(|| "draining".into());
    if !c.draining {
        *state = "active".into();
    }
    row.facts.insert("port".into(), port.to_owned());
}

fn conditioned(
    control: &Control<RouterPlanner>,
    kind: Kind,
    name: &Name,
    counters: &ConditionCounters,
) -> Row {
    let mut row = Row::new(kind.name(), name.as_str());
    identify(control, kind, name, &mut row);
    condition_counters(counters, &mut row);
    row
}

/// What admission has done, in the name of the detector whose part it is.
fn detector_row(control: &Control<RouterPlanner>, report: &AdmissionReport) -> Option<Row> {
    let (key, _) = control.objects().iter().find(|(key, _)| key.kind == Kind::Detector)?;
    let mut row = Row::new(Kind::Detector.name(), key.name.as_str());
    identify(control, Kind::Detector, &key.name, &mut row);
    let gauges = [
        ("flows_admitted_now", u64::from(report.admitted)),
        ("admitted_bps", report.used.0),
        ("cap_bps", report.cap.0),
        ("locked", u64::from(report.locked)),
    ];
    let values = report.counters.list().into_iter().chain(gauges);
    row.counters.extend(values.map(|(name, value)| (name.to_owned(), value)));
    Some(row)
}

fn condition_counters(c: &ConditionCounters, row: &mut Row) {
    for (i, color) in ["green", "yellow", "red"].into_iter().enumerate() {
        row.counters.insert(format!("{color}_packets"), c.colors.packets[i]);
        row.counters.insert(format!("{color}_bytes"), c.colors.bytes[i]);
    }
    for (name, value) in [
        ("dropped_packets", c.dropped_packets),
        ("dropped_bytes", c.dropped_bytes),
        ("demoted_packets", c.demoted_packets),
        ("demoted_bytes", c.demoted_bytes),
        ("flow_limited_packets", c.flow_limited_packets),
    ] {
        row.counters.insert(name.to_owned(), value);
    }
}

/// Filters count nothing of their own; what they are is still worth showing.
fn filter_rows(control: &Control<RouterPlanner>) -> Vec<Row> {
    let filters = control.objects().iter().filter(|(key, _)| key.kind == Kind::Filter);
    filters
        .map(|(key, entry)| {
            let mut row = Row::new("filter", key.name.as_str());
            row.id = entry.id;
            row.owner = entry.owner.to_string();
            if let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(&*entry.spec) {
                let given = fields.into_iter().filter(|(_, v)| !v.is_null());
                row.facts = given
                    .map(|(name, v)| (name, v.as_str().map_or_else(|| v.to_string(), str::to_owned)))
                    .collect();
            }
            row
        })
        .collect()
}

fn flow_row(planner: &RouterPlanner, f: &FlowInfo, kind: &str) -> Row {
    let mut row = Row::new(kind, &flow_text(&f.flow));
    row.id = u64::from(f.connection);
    let names = [
        ("class", f.class.and_then(|c| planner.class_name(ClassId(c))).map(str::to_owned)),
        ("filter", f.filter.and_then(|c| planner.filter_name(FilterId(c))).map(ToString::to_string)),
        ("sla", f.sla.and_then(|c| planner.sla_name(SlaId(c))).map(ToString::to_string)),
        ("profile", f.profile.and_then(|c| planner.profile_name(ProfileId(c))).map(ToString::to_string)),
        ("reason", f.reason.map(str::to_owned)),
        ("ssrc", f.ssrc.map(|s| format!("{s:08x}"))),
        ("payload_type", f.payload_type.map(|p| p.to_string())),
    ];
    row.facts.extend(names.into_iter().filter_map(|(n, v)| Some((n.to_owned(), v?))));
    let admission = f.admission.map(|standing| match standing {
        Standing::Admitted => "admitted",
        Standing::Refused => "refused",
        Standing::Dropped => "dropped",
    });
    row.facts.extend(admission.map(|a| ("admission".to_owned(), a.to_owned())));
    row.facts.insert("realtime".into(), if f.realtime { "yes" } else { "no" }.into());
    if kind == "call" {
        row.facts.insert("state".into(), "live".into());
    }
    for (name, value) in [("packets", f.packets), ("bytes", f.bytes), ("idle_ms", u64::from(f.idle_ms))] {
        row.counters.insert(name.to_owned(), value);
    }
    for (name, value) in
        [("confidence", f.confidence.map(u64::from)), ("decided_at", f.decided_at.map(u64::from))]
    {
        row.counters.extend(value.map(|v| (name.to_owned(), v)));
    }
    if let Some((call, here)) = &f.call {
        quality(call, here, &mut row);
    }
    row
}

/// Quality of a call as it leaves, as it came, and what was done to it here: R and opinion scores as facts with their
/// decimals, the rest as counters.
pub(crate) fn quality(call: &CallInfo, here: &HereInfo, row: &mut Row) {
    let decimals = |value: Option<u16>, unit: u16, digits: usize| {
        value.map(|v| format!("{:.digits$}", f64::from(v) / f64::from(unit)))
    };
    let scores = [
        ("r", decimals(here.r_tenths, 10, 1)),
        ("mos", decimals(here.mos_thousandths, 1_000, 2)),
        ("r_in", decimals(call.r_tenths, 10, 1)),
        ("mos_in", decimals(call.mos_thousandths, 1_000, 2)),
    ];
    row.facts.extend(scores.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?))));
    for (name, value) in [
        ("expected", call.expected),
        ("lost_before", call.expected - call.received),
        ("late_in", call.late),
        ("late_out", here.late),
        ("left", here.left),
        ("dropped_here", here.dropped),
        ("delay_mean_us", here.delay_mean_us),
        ("delay_max_us", here.delay_max_us),
        ("duplicate", call.duplicate),
        ("loss_runs", call.loss_runs),
        ("longest_run", u64::from(call.longest_run)),
        ("jitter_us", call.jitter_us),
        ("clock_hz", u64::from(call.clock_hz)),
    ] {
        row.counters.insert(name.to_owned(), value);
    }
    row.counters.extend(here.reasons().map(|(reason, count)| (format!("dropped_{reason}"), count)));
}

/// `udp 10.0.0.1:5004>10.0.0.2:5006`, IPv6 addresses in brackets.
pub(crate) fn flow_text(f: &FlowTuple) -> String {
    let protocol = match f.protocol {
        protocol::UDP => "udp".to_owned(),
        protocol::TCP => "tcp".to_owned(),
        protocol::ICMPV4 => "icmp".to_owned(),
        protocol::ICMPV6 => "icmp6".to_owned(),
        other => other.to_string(),
    };
    let end = |ip: IpAddr, port: u16| match ip {
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    };
    format!("{protocol} {}>{}", end(f.src, f.src_port), end(f.dst, f.dst_port))
}

#[cfg(test)]
mod tests;
