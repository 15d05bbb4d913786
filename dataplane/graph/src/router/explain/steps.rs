//! All decisions in words, in the order in which a packet meets them.

use super::conditions::{self, Conditioned};
use super::decide::{Decisions, Queue, Way};
use super::terms::terms;
use super::{Probe, Step, abr};
use crate::router::leaf::words;
use crate::router::plan::RouterPlanner;
use crate::router::tree::MAX_SHARED;
use perhop_contract::{Control, Draft, port_queue, port_scheduler};
use perhop_elements::route::Origin;
use perhop_flows::Explanation as FlowsSay;
use perhop_model::{
    AbrPolicySpec, AdmissionMethod, AdmissionSpec, ClassSpec, DetectorSpec, ExcessPolicy, Key, Kind, Name,
    PortMode, Scheduler, Spec,
};
use perhop_packet::{ClassId, DropReason, FilterId, PortId, ProfileId, SlaId};
use perhop_units::{Bytes, Duration, Rate};
use perhop_wire::{Fragment, Layout};

/// Where names and specifications are found.
struct Book<'a> {
    control: &'a Control<RouterPlanner>,
    planner: &'a RouterPlanner,
}

impl<'a> Book<'a> {
    fn spec(&self, kind: Kind, name: &Name) -> Option<&'a Spec> {
        let key = Key { kind, name: name.clone() };
        self.control.objects().get(&key).map(|e| &*e.spec)
    }

    fn port(&self, id: PortId) -> &'a str {
        self.planner.ports().get(id.index()).map_or("?", |p| &p.name)
    }

    /// The scheduler of a port.
    /// What the objects say of a port.
    fn of_port<T: Default>(&self, port: &str, of: impl FnOnce(&Draft<'_>, &Name) -> T) -> T {
        let draft = Draft::new(self.control.objects());
        Name::new(port).map_or_else(|_| T::default(), |name| of(&draft, &name))
    }

    fn class_spec(&self, q: &Queue) -> Option<&'a ClassSpec> {
        match self.spec(Kind::Class, self.planner.leaf_class(q.port, q.leaf)?.0) {
            Some(Spec::Class(class)) => Some(class),
            _ => None,
        }
    }

    fn class(&self, id: Option<u32>) -> Option<&'a str> {
        self.planner.class_name(ClassId(id?))
    }

    /// Policies of the TCP rate control, in the order in which they are compared.
    fn abr_policies(&self) -> Vec<(&'a Name, &'a AbrPolicySpec)> {
        let policies = self.control.objects().iter().filter_map(|(key, e)| match &*e.spec {
            Spec::AbrPolicy(p) => Some((&key.name, p)),
            _ => None,
        });
        let mut policies: Vec<_> = policies.collect();
        policies.sort_by_key(|(name, p)| (p.priority, *name));
        policies
    }

    /// Every detector that is switched on, with its name.
    fn detectors(&self) -> impl Iterator<Item = (&'a Name, &'a DetectorSpec)> {
        self.control.objects().iter().filter_map(|(key, e)| match &*e.spec {
            Spec::Detector(d) if d.enabled => Some((&key.name, d)),
            _ => None,
        })
    }
}

/// The steps, and how it ends.
pub(super) fn all(
    probe: &Probe,
    decisions: &Decisions,
    control: &Control<RouterPlanner>,
) -> (String, Vec<Step>) {
    let book = Book { control, planner: control.planner() };
    let mut steps = vec![port(probe, &book), parse(&probe.described.layout)];
    let mut packet = Conditioned { realtime: false, class: None, dscp: probe.described.dscp };
    if let Some(flows) = &decisions.flows {
        packet.realtime = flows.class_from == "real-time detection";
        packet.class = book.class(flows.class).map(str::to_owned);
        steps.push(connection(flows));
        steps.push(filters(flows, &book));
        steps.push(detection(flows, &book));
        steps.push(class(flows, &book));
        steps.extend(conditioning(flows, &book, &mut packet));
    }
    let before = probe.described.dscp;
    if packet.dscp != before {
        let says = format!("code point {before} becomes {} within all rates", packet.dscp);
        steps.push(Step::new("marking", says).fact("dscp", packet.dscp.get()));
    }
    if let Some(flows) = decisions.flows.as_ref().filter(|_| decisions.abr) {
        let filter = flows.filter.as_ref().and_then(|f| book.planner.filter_name(FilterId(f.id)));
        let sla = flows.sla.and_then(|id| book.planner.sla_name(SlaId(id)));
        let data = abr::Data { described: &probe.described, packet: &packet, filter, sla };
        steps.extend(abr::step(book.abr_policies(), &data, flows));
    }
    let (outcome, rest) = way_out(probe, decisions, &book);
    steps.extend(rest);
    (outcome, steps)
}

fn port(probe: &Probe, book: &Book<'_>) -> Step {
    let port = &book.planner.ports()[probe.in_port.index()];
    let (mode, trust) = match Name::new(&port.name).ok().and_then(|n| book.spec(Kind::Port, &n)) {
        Some(Spec::Port(now)) => (now.mode, now.trust_dscp),
        _ => (port.spec.mode, port.spec.trust_dscp),
    };
    let mode = match mode {
        PortMode::Route => "routes",
        PortMode::Bridge => "bridges",
    };
    let trust_words = if trust { "code points choose classes" } else { "code points choose nothing" };
    let says = format!("{}: port {}, {mode}; {trust_words}", port.name, probe.in_port.0);
    let step = Step::new("port", says).fact("name", port.name.as_str()).fact("trust_dscp", trust);
    match Name::new(&port.name) {
        Ok(name) => step.object(Kind::Port, &name),
        Err(_) => step,
    }
}

fn parse(l: &Layout) -> Step {
    let tags = match l.vlan_tags {
        0 => String::new(),
        1 => format!(", VLAN {}", l.vlan[0]),
        _ => format!(", VLANs {} and {}", l.vlan[0], l.vlan[1]),
    };
    let fragment = match l.fragment {
        Fragment::Whole => String::new(),
        Fragment::First => format!(", first fragment of datagram {}", l.fragment_id),
        Fragment::Later => format!(", later fragment of datagram {}", l.fragment_id),
    };
    let upper = match (l.l4_offset, l.payload_offset) {
        (0, _) => "no transport header".to_owned(),
        (at, 0) => format!("protocol {} at {at}", l.protocol),
        (at, payload) => {
            let bytes = u32::from(l.l3_offset) + u32::from(l.ip_len) - u32::from(payload);
            format!("protocol {} at {at}, {bytes} B of payload", l.protocol)
        }
    };
    Step::new("parse", format!("IPv{} at {}{tags}, {upper}{fragment}", l.ip_version, l.l3_offset))
        .fact("ip_version", l.ip_version)
        .fact("protocol", l.protocol)
        .fact("ip_len", l.ip_len)
}

fn connection(flows: &FlowsSay) -> Step {
    match flows.connection {
        None => Step::new("connection", "none yet; this packet would open one").fact("known", false),
        Some(c) => {
            let way = if c.forward { "the way it was opened" } else { "the way back" };
            let verdict =
                if c.verdict_is_current { "its verdict is kept" } else { "its verdict is made anew" };
            let says = format!("{}, {way}, after {} packets; {verdict}", c.id, c.packets);
            Step::new("connection", says).fact("known", true).fact("packets", c.packets)
        }
    }
}

fn filters(flows: &FlowsSay, book: &Book<'_>) -> Step {
    let (tables, compared) = (flows.tables.len(), flows.tables.iter().map(|t| t.compared).sum::<usize>());
    let counts = |step: Step| step.fact("tables", tables).fact("compared", compared);
    let step = match &flows.filter {
        None => Step::new("filters", format!("none matches, {compared} compared in {tables} tables")),
        Some(f) => {
            let says = format!("{} matches (tier {}, priority {})", f.name, f.tier, f.priority);
            let step = Step::new("filters", says).fact("name", f.name.as_str());
            let step = match book.planner.filter_name(FilterId(f.id)) {
                Some(name) => step.object(Kind::Filter, name),
                None => step,
            };
            f.because.iter().fold(step, |step, why| step.detail(format!("because {why}")))
        }
    };
    let tried = flows.tables.iter().fold(counts(step), |step, t| {
        let found = t.matched.as_ref().map_or_else(|| "none".to_owned(), |name| format!("{name} first"));
        step.detail(format!("table of {}: {} compared, {found}", t.filters, t.compared))
    });
    match &flows.filter {
        Some(f) if !f.allows_realtime => tried.detail("keeps the flow from real-time detection"),
        _ => tried,
    }
}

fn detection(flows: &FlowsSay, book: &Book<'_>) -> Step {
    let says = match flows.detection.as_str() {
        "undecided" => "may be RTP: not decided by one packet".to_owned(),
        "off" if book.detectors().next().is_none() => "off: there is no detector".to_owned(),
        "off" => "off for this port".to_owned(),
        known if known == "not UDP" || known.starts_with("recognised") => known.to_owned(),
        why => format!("cannot be RTP: {why}"),
    };
    let step = Step::new("detection", says).fact("state", flows.detection.as_str());
    match book.detectors().next() {
        Some((name, d)) if flows.detection == "undecided" => {
            step.object(Kind::Detector, name).detail(format!(
                "{} packets of one source within {} put the flow into class {}",
                d.packets, d.within, d.class
            ))
        }
        Some((name, d)) if flows.detection.starts_with("recognised") => match &d.admission {
            Some(a) => step.object(Kind::Detector, name).detail(admission(a)),
            None => step,
        },
        _ => step,
    }
}

fn admission(a: &AdmissionSpec) -> String {
    let (cap, locked) = (a.cap, if a.locked { " (locked: none now)" } else { "" });
    let turned = match a.excess {
        ExcessPolicy::Drop => "dropped (not_admitted)",
        ExcessPolicy::Demote => "sent their ordinary way",
    };
    if a.method == AdmissionMethod::Reserved {
        let of = if a.cap > Rate::ZERO { cap.to_string() } else { "what the class may send".to_owned() };
        return format!(
            "admission gives flows rates that fit into {} % of {of}{locked}; packets of others, and what is beyond, are {turned}",
            a.accept_pct
        );
    }
    let accepts = format!("admission accepts flows below {} % of {cap}{locked}", a.accept_pct);
    format!("{accepts}, drops one above {} %; packets of others are {turned}", a.drop_pct)
}

fn class(flows: &FlowsSay, book: &Book<'_>) -> Step {
    match book.class(flows.class) {
        Some(name) => Step::new("class", format!("{name} (by {})", flows.class_from)).fact("name", name),
        None => Step::new("class", "none: the default class of the port it leaves by"),
    }
    .fact("from", flows.class_from)
}

fn conditioning(flows: &FlowsSay, book: &Book<'_>, packet: &mut Conditioned) -> Vec<Step> {
    let mut steps = Vec::new();
    let profile = flows.profile.and_then(|id| book.planner.profile_name(ProfileId(id)));
    steps.push(match profile.map(|name| (name, book.spec(Kind::Profile, name))) {
        Some((name, Some(Spec::Profile(spec)))) => conditions::profile(name, spec, packet),
        _ => Step::new("profile", "none: not metered"),
    });
    let contract = flows.sla.and_then(|id| book.planner.sla_name(SlaId(id)));
    steps.push(match contract.map(|name| (name, book.spec(Kind::Sla, name))) {
        Some((name, Some(Spec::Sla(spec)))) => conditions::contract(name, spec, flows.sla_from, packet),
        _ => Step::new("contract", "none"),
    });
    let draft = Draft::new(book.control.objects());
    steps.extend(book.detectors().filter_map(|(name, d)| conditions::policer(name, d, &draft, packet)));
    steps
}

/// Route, queue and transmitter, and how it ends.
fn way_out(probe: &Probe, decisions: &Decisions, book: &Book<'_>) -> (String, Vec<Step>) {
    let mut steps = vec![route(probe, decisions, book)];
    for queue in &decisions.queues {
        steps.extend(queue_steps(queue, decisions.queues.len() > 1, book));
    }
    let queued = |q: &Queue| format!("{} from {}", book.port(q.port), queue_name(q, book));
    let queued = decisions.queues.iter().map(queued).collect::<Vec<_>>().join(" or ");
    let outcome = match &decisions.way {
        Way::Host => "handed to this machine".to_owned(),
        Way::Kernel => "handed to the kernel to forward".to_owned(),
        Way::Dropped { reason: DropReason::NoRoute, .. } if probe.file_only => {
            format!("depends on the kernel's routes; by {queued}")
        }
        Way::Dropped { reason, .. } => format!("dropped ({})", reason.name()),
        Way::Forward { fragments_of: Some(_), .. } => format!("sent in fragments by {queued}"),
        Way::Forward { .. } | Way::Bridge | Way::Unknown => format!("sent by {queued}"),
    };
    (outcome, steps)
}

fn route(probe: &Probe, decisions: &Decisions, book: &Book<'_>) -> Step {
    let step = way(probe, decisions, book);
    match decisions.route.as_ref().and_then(|route| route.rule.as_ref()) {
        Some(rule) => step.detail(format!("by rule {rule}")).fact("rule", &**rule),
        None => step,
    }
}

fn way(probe: &Probe, decisions: &Decisions, book: &Book<'_>) -> Step {
    let d = &probe.described;
    let by = match decisions.route.as_ref().and_then(|route| Some((route.dest?, route.origin))) {
        Some((dest, Origin::Object)) => format!("{dest} of a route object: "),
        Some((dest, Origin::Kernel)) => format!("{dest} of the kernel: "),
        None => String::new(),
    };
    match &decisions.way {
        Way::Bridge => Step::new("route", "bridged: to the port of its station, or to all others"),
        Way::Unknown => Step::new("route", "the packet graph forwards by elements of its own"),
        Way::Host => {
            Step::new("route", "to this machine: an address of it, or one of a group or of the link")
        }
        Way::Kernel => {
            let step =
                Step::new("route", format!("{by}handed to the kernel, which forwards it if it forwards"));
            step.detail(
                "this way leads past the router's ports: no class, no rate and no count but `handed` there",
            )
        }
        Way::Dropped { reason: DropReason::NoRoute, .. } if probe.file_only => Step::new(
            "route",
            format!("no route of the file covers {}", d.dst),
        )
        .detail("the kernel's routes are not known from a file; ask the running router with --router NAME")
        .fact("reason", "no_route"),
        Way::Dropped { reason, told } => {
            let told = if *told { "; the sender is told by ICMP" } else { "" };
            Step::new("route", format!("{by}{}{told}", why(*reason))).fact("reason", reason.name())
        }
        Way::Forward { hop, link_address, fragments_of } => {
            let port = book.port(hop.port);
            let to = match hop.via {
                Some(via) => format!("to {via} by {port}"),
                None => format!("to {} itself, on the link of {port}", d.dst),
            };
            let dest = decisions.route.as_ref().and_then(|route| route.dest);
            let mut step = Step::new("route", format!("{by}{to}"))
                .fact("dest", dest.map_or_else(String::new, |dest| dest.to_string()))
                .fact("next_hop", hop.via.unwrap_or(d.dst).to_string())
                .fact("port", port);
            if !probe.file_only {
                step = match link_address {
                    Some(mac) => step.detail(format!("its link address is {mac}")),
                    None => step
                        .detail("its link address is not known yet: the packet waits while it is asked for"),
                };
            }
            match fragments_of {
                Some(mtu) => step.detail(format!("cut into fragments of at most {mtu} B")).fact("mtu", *mtu),
                None => step,
            }
        }
    }
}

/// Reasons that a route element drops for.
fn why(reason: DropReason) -> String {
    let words = match reason {
        DropReason::NoRoute => "no route covers the destination",
        DropReason::ReversePath => "no route leads back to the source by the port it came in (source_check)",
        DropReason::RouteRejects => "the route to the destination forbids it",
        DropReason::TtlExpired => "the TTL is used up",
        DropReason::TooBig => "it exceeds the link's MTU and must not be cut",
        DropReason::BadSource => "such a source address is not forwarded",
        DropReason::BadDestination => "such a destination address is not forwarded",
        DropReason::NotIp => "it is too short to be routed",
        DropReason::VlanTag => "it is tagged for a VLAN, which wants an interface and a port of its own",
        DropReason::PortDown => "the port is down",
        other => return other.name(),
    };
    format!("{words} ({})", reason.name())
}

fn queue_name(q: &Queue, book: &Book<'_>) -> String {
    let name = book.planner.leaf_class(q.port, q.leaf).map(|(name, _)| format!("queue {name}"));
    name.unwrap_or_else(|| "its only queue".to_owned())
}

fn queue_steps(q: &Queue, several: bool, book: &Book<'_>) -> [Step; 2] {
    let port = book.port(q.port);
    let by = if several { format!("by {port}: ") } else { String::new() };
    let fallback = if q.by_default { ", as nothing else takes it" } else { "" };
    let mut step = Step::new("queue", format!("{by}{}{fallback}", queue_name(q, book))).fact("port", port);
    if let Some((name, _)) = book.planner.leaf_class(q.port, q.leaf) {
        step = step.object(Kind::Class, name).fact("class", name.as_str());
    }
    if let Some(p) = &q.params {
        let scheduler = book.of_port(port, port_scheduler);
        step = step.detail(terms(scheduler, p, book.class_spec(q)));
        if scheduler != Scheduler::Tree {
            step = step
                .detail(format!("the classes of {port} share it by {}", scheduler.name()))
                .fact("scheduler", scheduler.name());
        }
        if let Some(leaf) = &p.queue {
            let kind = words(&leaf.kind);
            let shared = (scheduler == Scheduler::Jobs).then(|| book.of_port(port, port_queue).limit);
            let own = shared.is_none() || leaf.limit != MAX_SHARED;
            let limit = match shared {
                Some(shared) if own => format!("limit {} of its own in a shared one of {shared}", leaf.limit),
                Some(shared) => format!("shares a limit of {shared}"),
                None => format!("limit {}", leaf.limit),
            };
            step = step.detail(format!("{limit}, {kind}"));
            if own {
                step = step.fact("limit", leaf.limit.to_string());
            }
            if let Some(shared) = shared {
                step = step.fact("shared_limit", shared.to_string());
            }
        }
    }
    if q.backlog_packets > 0 {
        let throttled = if q.throttled { ", held by a ceiling" } else { "" };
        step = step.detail(format!(
            "{} packets ({}) wait there now{throttled}",
            q.backlog_packets,
            Bytes(q.backlog_bytes)
        ));
    }
    [step.fact("backlog_bytes", q.backlog_bytes), transmitter(q, port, &by)]
}

fn transmitter(q: &Queue, port: &str, by: &str) -> Step {
    let busy = if q.busy == Duration::ZERO { "free".to_owned() } else { format!("busy for {}", q.busy) };
    let says = match q.rate {
        Rate::ZERO => format!("{by}as fast as the interface of {port} takes it"),
        rate => {
            let overhead = i64::from(q.overhead) - i64::from(q.framing.less());
            let least = match q.framing.minimum() {
                0 => String::new(),
                least => format!(", at least {least} B"),
            };
            let cells = if q.framing.cells() { ", in ATM cells" } else { "" };
            format!("{by}{rate} on {port}, {overhead} B overhead a frame{least}{cells}; {busy}")
        }
    };
    Step::new("transmitter", says).fact("rate", q.rate.0)
}
