//! Filters, contracts' prefixes, code points and detection as a change of the flows element.

use super::numbers::Numbers;
use super::plan::class_rates;
use perhop_contract::{Draft, Entry};
use perhop_flows::admission::{AdmissionSettings, Cap, Turned, Victim};
use perhop_flows::classifier::{Action, Delta, Masked, Match, PortRange, Rule, RuleBook, RuleError};
use perhop_flows::realtime::{Detector, Stages, rtp::RtpSettings, statistics::Statistical};
use perhop_flows::{FlowsChange, Settings, SlaMap};
use perhop_model::{
    AdmissionMethod, AdmissionPolicy, AdmissionSpec, DetectorSpec, ErrorItem, ExcessPolicy, FilterSpec, Key,
    Kind, Name, Spec,
};
use perhop_packet::{FilterId, PortId, SlaId};
use perhop_reason::Code;
use perhop_units::Rate;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

const RANGES: &str = "ranges of a detector are checked with the object";
const PORTS: &str = "a detector names ports there are, and a running router has no others than its own";

/// What was last sent to the flows element.
#[derive(Debug, Default)]
pub(super) struct Filters {
    /// Locked because a check makes the change it is asked about where nobody reads; planning the same then finds it done.
    book: Mutex<RuleBook>,
    settings: Arc<Settings>,
    ids: BTreeMap<Name, FilterId>,
    names: HashMap<FilterId, Name>,
    next: u32,
}

impl Filters {
    /// No filters; see [`RuleBook::keyed`].
    pub(super) fn keyed(seed: u64) -> Self {
        Self { book: Mutex::new(RuleBook::keyed(seed)), ..Self::default() }
    }

    fn book(&mut self) -> &mut RuleBook {
        self.book.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn name_of(&self, id: FilterId) -> Option<&Name> {
        self.names.get(&id)
    }

    pub(super) fn id_of(&self, name: &Name) -> Option<FilterId> {
        self.ids.get(name).copied()
    }

    /// The filters that a change removes are forgotten, those it adds or replaces go by the ids of their rules.
    fn rename(&mut self, added: &[FilterId], draft: &Draft<'_>) {
        for (key, _, _) in draft.changed(Kind::Filter) {
            if let Some(old) = self.ids.remove(&key.name) {
                self.names.remove(&old);
            }
        }
        self.next += added.len() as u32;
        let entries = draft.changed(Kind::Filter).filter(|(_, _, after)| after.is_some());
        for (id, (key, _, _)) in added.iter().zip(entries) {
            self.ids.insert(key.name.clone(), *id);
            self.names.insert(*id, key.name.clone());
        }
    }

    /// What the classifier cannot take: too many combinations of masks, too long chains.
    pub(super) fn check(&self, draft: &Draft<'_>, numbers: &Numbers) -> Vec<ErrorItem> {
        if !draft.touches(&[Kind::Filter]) {
            return Vec::new();
        }
        let (added, removed) = self.rules(draft, numbers);
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        match book.check(added, &removed) {
            Ok(()) => Vec::new(),
            Err(e) => vec![rule_error(&e)],
        }
    }

    /// What the flows element must be told: what changed, or (`all`) everything; and why the filters stay as they were, if
    /// they do.
    pub(super) fn plan(
        &mut self,
        draft: &Draft<'_>,
        numbers: &Numbers,
        all: bool,
    ) -> (Option<FlowsChange>, Option<RuleError>) {
        let (mut change, mut unfit) = (FlowsChange::default(), None);
        if draft.touches(&[Kind::Filter]) {
            let (added, removed) = self.rules(draft, numbers);
            let ids: Vec<FilterId> = added.iter().map(|rule| rule.id).collect();
            // The same change passed `check`. But where rules lie depends on what came before, and a change that is taken
            // back may come after others: should it meet a limit, the filters stay as they are, by name too.
            match self.book().change(added, &removed) {
                Ok(made) => {
                    self.rename(&ids, draft);
                    change.classifier = Some(made.classifier);
                    change.deltas = made.deltas;
                }
                Err(error) => unfit = Some(error),
            }
        }
        if changes_settings(draft) {
            let settings = settings(draft, numbers);
            if settings != *self.settings {
                change.deltas.extend(setting_deltas(&self.settings, &settings, draft));
                self.settings = Arc::new(settings);
                change.settings = Some(self.settings.clone());
            }
        }
        if all {
            change.classifier = Some(Arc::clone(self.book().classifier()));
            change.settings = Some(self.settings.clone());
            change.deltas = vec![Delta::All];
        }
        ((change.classifier.is_some() || change.settings.is_some()).then_some(change), unfit)
    }

    /// Rules to add, one a filter there is after the change, and ids of rules to remove. A rule's id is never used for
    /// another.
    fn rules(&self, draft: &Draft<'_>, numbers: &Numbers) -> (Vec<Rule>, Vec<FilterId>) {
        // By the ids of rules there are, not by what was before: of a change that could not be taken back rules are left whose
        // filters are gone, and the next of the same name takes their place.
        let removed = draft.changed(Kind::Filter).filter_map(|(key, _, _)| self.ids.get(&key.name).copied());
        let specs = draft.changed(Kind::Filter).filter_map(|(key, _, after)| match after.map(|e| &*e.spec) {
            Some(Spec::Filter(f)) => Some((&key.name, f)),
            _ => None,
        });
        let rule = |(id, (name, spec))| rule(FilterId(id), name, spec, numbers);
        ((self.next..).zip(specs).map(rule).collect(), removed.collect())
    }
}

fn settings(draft: &Draft<'_>, numbers: &Numbers) -> Settings {
    let mut settings = Settings { trusted: vec![false; numbers.cx.ports.len()], ..Settings::default() };
    for (key, entry) in draft.of_kind(Kind::Port) {
        if let (Spec::Port(p), Some(id)) = (&*entry.spec, numbers.port(&key.name)) {
            settings.trusted[id.index()] = p.trust_dscp;
        }
    }
    for (name, c, _) in draft.classes() {
        let id = numbers.classes.id(c.logical_name(name));
        for dscp in &c.dscp {
            settings.dscp_classes[dscp.get() as usize] = id;
        }
    }
    let slas = draft.of_kind(Kind::Sla).filter_map(|(key, entry)| match &*entry.spec {
        Spec::Sla(s) => numbers.sla(&key.name).map(|id| (id, s.prefixes.clone())),
        _ => None,
    });
    settings.slas = SlaMap::new(slas.flat_map(|(id, nets)| nets.into_iter().map(move |n| (n, id))));
    for (_, entry) in draft.of_kind(Kind::Detector) {
        let Spec::Detector(d) = &*entry.spec else { continue };
        let rtp = RtpSettings::new(d.packets, d.within, d.idle).expect(RANGES);
        let rtp = d.regular.map_or(rtp, |n| rtp.with_regular(n).expect(RANGES));
        let limits =
            || Statistical::new(d.statistical_after, d.statistical_size, d.statistical_rate).expect(RANGES);
        settings.detector = Some(Detector {
            enabled: d.enabled,
            rtp,
            stages: Stages { wrapped: d.wrapped, statistical: d.statistical.then(limits) },
            promote_class: numbers.class(&d.class),
            in_ports: d.in_ports.iter().map(|p| numbers.port(p).expect(PORTS)).collect(),
        });
        settings.admission = d.admission.as_ref().and_then(|a| admission(draft, numbers, d, a));
    }
    settings
}

/// IP length of a G.711 packet of 20 ms, by which what is said at IP length is known on a link.
const CALL_PACKET: u64 = 200;
/// Ethernet header, which a port's rate counts.
const FRAME_HEADER: u32 = 14;

/// What flows share by each port, and what a packet counts there beyond its IP length.
fn caps(draft: &Draft<'_>, numbers: &Numbers, d: &DetectorSpec, a: &AdmissionSpec) -> (Vec<Cap>, u32) {
    if a.cap > Rate::ZERO {
        return (vec![Cap { port: PortId::NONE, rate: a.cap }], 0);
    }
    let (mut caps, mut overhead): (Vec<Cap>, u32) = (Vec::new(), 0);
    for (name, rate) in class_rates(draft, d) {
        let Some(port) = numbers.port(name) else { continue };
        caps.push(Cap { port, rate });
        let of_port = draft.find(&Key { kind: Kind::Port, name: name.clone() });
        if let Some(Spec::Port(spec)) = of_port.map(|entry| &*entry.spec) {
            overhead = overhead.max(FRAME_HEADER + spec.framing().0);
        }
    }
    caps.sort_by_key(|cap| cap.port);
    (caps, overhead)
}

/// `None`: a class without a rate has nothing to reserve.
fn admission(
    draft: &Draft<'_>,
    numbers: &Numbers,
    d: &DetectorSpec,
    a: &AdmissionSpec,
) -> Option<AdmissionSettings> {
    let (caps, overhead) = match a.method {
        AdmissionMethod::Measured => (Vec::new(), 0),
        AdmissionMethod::Reserved => Some(caps(draft, numbers, d, a)).filter(|(caps, _)| !caps.is_empty())?,
    };
    let on_link =
        (u128::from(a.new_flow.0) * u128::from(CALL_PACKET + u64::from(overhead))) / u128::from(CALL_PACKET);
    let new_flow = Rate(u64::try_from(on_link).unwrap_or(u64::MAX));
    let cap = caps.iter().map(|cap| cap.rate).min().unwrap_or(a.cap);
    let premium = draft.of_kind(Kind::Sla).filter_map(|(key, entry)| match &*entry.spec {
        Spec::Sla(s) if s.premium => numbers.sla(&key.name),
        _ => None,
    });
    let mut premium: Vec<SlaId> = premium.collect();
    premium.sort_unstable();
    Some(AdmissionSettings {
        cap,
        accept_pct: a.accept_pct,
        drop_pct: a.drop_pct,
        interval: a.interval,
        windows: a.windows,
        policy: match a.policy {
            AdmissionPolicy::Random => Victim::Random,
            AdmissionPolicy::Largest => Victim::Largest,
            AdmissionPolicy::Smallest => Victim::Smallest,
            AdmissionPolicy::Oldest => Victim::Oldest,
        },
        turned: match a.excess {
            ExcessPolicy::Drop => Turned::Drop,
            ExcessPolicy::Demote => Turned::Demote,
        },
        idle: a.idle,
        retry: a.retry,
        new_flow,
        locked: a.locked,
        cancel: a.cancel,
        caps,
        overhead,
        premium,
    })
}

fn rule(id: FilterId, name: &Name, f: &FilterSpec, numbers: &Numbers) -> Rule {
    let m = &f.matches;
    let range = |r: perhop_model::PortRange| PortRange { first: r.first, last: r.last };
    let masked = |b: perhop_model::MaskedByte| Masked { value: b.value, mask: b.mask };
    Rule {
        id,
        tier: f.tier,
        priority: f.priority,
        name: Arc::from(name.as_str()),
        matches: Match {
            in_port: m.in_port.as_ref().and_then(|p| numbers.port(p)),
            vlan: m.vlan,
            src: m.src,
            dst: m.dst,
            protocol: m.protocol,
            src_ports: m.src_ports.map(range),
            dst_ports: m.dst_ports.map(range),
            dscp: m.dscp.map(masked),
            tcp_flags: m.tcp_flags.map(masked),
            fragment: m.fragment,
        },
        action: Action {
            class: f.class.as_ref().map(|c| numbers.class(c)),
            sla: f.sla.as_ref().and_then(|s| numbers.sla(s)),
            profile: f.profile.as_ref().and_then(|p| numbers.profile(p)),
            trust_dscp: false,
            realtime: f.realtime,
        },
    }
}

/// Whether settings may differ: what they hold of each object, before and after.
fn changes_settings(draft: &Draft<'_>) -> bool {
    let class = |name: &Name, e: Option<&Arc<Entry>>| match e.map(|e| &*e.spec) {
        Some(Spec::Class(c)) if !c.dscp.is_empty() => Some((c.logical_name(name).to_owned(), c.dscp.clone())),
        _ => None,
    };
    // What flows share is what their class may send.
    let shared: Vec<&str> = draft
        .of_kind(Kind::Detector)
        .filter_map(|(_, entry)| match &*entry.spec {
            Spec::Detector(d) if d.admission.is_some() => Some(d.class.as_str()),
            _ => None,
        })
        .collect();
    let is_shared = |name: &Name, e: Option<&Arc<Entry>>| match e.map(|e| &*e.spec) {
        Some(Spec::Class(c)) => shared.contains(&c.logical_name(name)),
        _ => false,
    };
    let contract = |e: Option<&Arc<Entry>>| match e.map(|e| &*e.spec) {
        Some(Spec::Sla(s)) => (s.prefixes.clone(), s.premium),
        _ => (Vec::new(), false),
    };
    draft.touches(&[Kind::Port, Kind::Detector])
        || draft.changed(Kind::Class).any(|(k, before, after)| {
            class(&k.name, before) != class(&k.name, after)
                || is_shared(&k.name, before)
                || is_shared(&k.name, after)
        })
        || draft.changed(Kind::Sla).any(|(_, before, after)| contract(before) != contract(after))
}

/// Whose verdicts may differ between two settings.
fn setting_deltas(old: &Settings, new: &Settings, draft: &Draft<'_>) -> Vec<Delta> {
    if old.same_verdicts(new) {
        return Vec::new();
    }
    let only_slas = Settings { slas: old.slas.clone(), ..new.clone() };
    if !old.same_verdicts(&only_slas) {
        return vec![Delta::All];
    }
    let mut deltas = Vec::new();
    for (_, before, after) in draft.changed(Kind::Sla) {
        for entry in [before, after].into_iter().flatten() {
            if let Spec::Sla(s) = &*entry.spec {
                deltas.extend(s.prefixes.iter().map(|n| Delta::Sla(*n)));
            }
        }
    }
    deltas
}

fn rule_error(e: &RuleError) -> ErrorItem {
    let (name, code) = match e {
        RuleError::TooManyTables { name }
        | RuleError::ChainTooLong { name }
        | RuleError::TooManyRules { name } => (Some(name), Code::LimitReached),
        _ => (None, Code::OutOfRange),
    };
    let path = name.map_or_else(|| "filter".to_owned(), |n| format!("filter/{n}"));
    ErrorItem::new(code, path, e.to_string())
}
