//! Filters, contracts' prefixes, code points and detection as a change of the flows element.

use super::plan::{RouterPlanner, changed, item, touches};
use crate::control::Draft;
use perhop_flows::classifier::{Action, Classifier, Delta, Masked, Match, PortRange, Rule, RuleError};
use perhop_flows::realtime::{Detector, rtp::RtpSettings};
use perhop_flows::{FlowsChange, Settings, SlaMap};
use perhop_model::{ErrorItem, FilterSpec, Kind, Name, Spec};
use perhop_packet::{ClassId, FilterId, PortId, ProfileId, SlaId};
use perhop_reason::Code;
use perhop_units::Duration;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What was last sent to the flows element.
#[derive(Clone, Debug, Default)]
pub(super) struct Filters {
    classifier: Arc<Classifier>,
    settings: Arc<Settings>,
    ids: BTreeMap<Name, FilterId>,
    names: HashMap<FilterId, Name>,
    next: u32,
}

impl Filters {
    pub(super) fn name_of(&self, id: FilterId) -> Option<&Name> {
        self.names.get(&id)
    }

    /// A new id for a filter; ids are never used twice.
    fn fresh(&mut self, name: &Name) -> FilterId {
        let id = FilterId(self.next);
        self.next += 1;
        if let Some(old) = self.ids.insert(name.clone(), id) {
            self.names.remove(&old);
        }
        self.names.insert(id, name.clone());
        id
    }

    fn forget(&mut self, name: &Name) -> Option<FilterId> {
        let id = self.ids.remove(name)?;
        self.names.remove(&id);
        Some(id)
    }
}

impl RouterPlanner {
    /// What the classifier cannot take: too many combinations of masks, too long chains.
    pub(super) fn check_filters(&self, draft: &Draft<'_>) -> Vec<ErrorItem> {
        if !touches(draft, &[Kind::Filter]) {
            return Vec::new();
        }
        // A dry run on copies: the classifier shares what does not change.
        let mut cx = self.cx.clone();
        let mut filters = self.filters.clone();
        let lookup = Lookup { planner: self };
        let (added, removed) = filter_changes(draft, &mut filters, &lookup, &mut |n| cx.class(n));
        match self.filters.classifier.with_changes(added, &removed) {
            Ok(_) => Vec::new(),
            Err(e) => vec![rule_error(&e)],
        }
    }

    pub(super) fn plan_flows(&mut self, draft: &Draft<'_>, all: bool) -> Option<FlowsChange> {
        let mut change = FlowsChange::default();
        if touches(draft, &[Kind::Filter]) {
            let mut filters = std::mem::take(&mut self.filters);
            let mut cx = std::mem::take(&mut self.cx);
            let lookup = Lookup { planner: self };
            let ports = cx.ports.clone();
            let (added, removed) =
                filter_changes_with(draft, &mut filters, &lookup, &ports, &mut |n| cx.class(n));
            // The same change passed `check`, so it cannot fail now.
            if let Ok(made) = filters.classifier.with_changes(added, &removed) {
                filters.classifier = made.classifier.clone();
                change.classifier = Some(made.classifier);
                change.deltas = made.deltas;
            }
            self.filters = filters;
            self.cx = cx;
        }
        if touches(draft, &[Kind::Port, Kind::Class, Kind::Sla, Kind::Detector]) {
            let settings = self.settings(draft);
            if settings != *self.filters.settings {
                change.deltas.extend(setting_deltas(&self.filters.settings, &settings, draft));
                self.filters.settings = Arc::new(settings);
                change.settings = Some(self.filters.settings.clone());
            }
        }
        if all {
            change.classifier = Some(self.filters.classifier.clone());
            change.settings = Some(self.filters.settings.clone());
            change.deltas = vec![Delta::All];
        }
        (change.classifier.is_some() || change.settings.is_some()).then_some(change)
    }

    fn settings(&mut self, draft: &Draft<'_>) -> Settings {
        let mut settings = Settings { trusted: vec![false; self.ports.len()], ..Settings::default() };
        for (key, entry) in draft.of_kind(Kind::Port) {
            if let (Spec::Port(p), Some(id)) = (&*entry.spec, self.port_of(&key.name)) {
                settings.trusted[id.index()] = p.trust_dscp;
            }
        }
        for (name, c, _) in draft.classes() {
            let id = self.cx.class(c.logical_name(name));
            for dscp in &c.dscp {
                settings.dscp_classes[dscp.get() as usize] = id;
            }
        }
        let slas = draft.of_kind(Kind::Sla).filter_map(|(key, entry)| match &*entry.spec {
            Spec::Sla(s) => self.slas.find(&key.name).map(|id| (SlaId(id), s.prefixes.clone())),
            _ => None,
        });
        settings.slas = SlaMap::new(slas.flat_map(|(id, nets)| nets.into_iter().map(move |n| (n, id))));
        for (_, entry) in draft.of_kind(Kind::Detector) {
            let Spec::Detector(d) = &*entry.spec else { continue };
            // Ranges were checked with the object.
            let rtp = RtpSettings::new(d.packets, Duration(d.within), Duration(d.idle)).unwrap_or_default();
            settings.detector = Some(Detector {
                enabled: d.enabled,
                rtp,
                promote_class: self.cx.class(d.class.as_str()),
                in_ports: d.in_ports.iter().filter_map(|p| self.port_of(p)).collect(),
            });
        }
        settings
    }
}

/// Names that rules refer to.
struct Lookup<'p> {
    planner: &'p RouterPlanner,
}

impl Lookup<'_> {
    fn sla(&self, name: &Name) -> Option<SlaId> {
        self.planner.slas.find(name).map(SlaId)
    }
    fn profile(&self, name: &Name) -> Option<ProfileId> {
        self.planner.profiles.find(name).map(ProfileId)
    }
}

fn filter_changes(
    draft: &Draft<'_>,
    filters: &mut Filters,
    lookup: &Lookup<'_>,
    class: &mut dyn FnMut(&str) -> ClassId,
) -> (Vec<Rule>, Vec<FilterId>) {
    filter_changes_with(draft, filters, lookup, &lookup.planner.cx.ports, class)
}

fn filter_changes_with(
    draft: &Draft<'_>,
    filters: &mut Filters,
    lookup: &Lookup<'_>,
    ports: &BTreeMap<String, PortId>,
    class: &mut dyn FnMut(&str) -> ClassId,
) -> (Vec<Rule>, Vec<FilterId>) {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for (key, before, after) in changed(draft, Kind::Filter) {
        if before.is_some() {
            removed.extend(filters.forget(&key.name));
        }
        if let Some(Spec::Filter(f)) = after.map(|e| &*e.spec) {
            let id = filters.fresh(&key.name);
            added.push(rule(id, &key.name, f, lookup, ports, class));
        }
    }
    (added, removed)
}

fn rule(
    id: FilterId,
    name: &Name,
    f: &FilterSpec,
    lookup: &Lookup<'_>,
    ports: &BTreeMap<String, PortId>,
    class: &mut dyn FnMut(&str) -> ClassId,
) -> Rule {
    let m = &f.matches;
    let range = |r: perhop_model::PortRange| PortRange { first: r.first, last: r.last };
    let masked = |b: perhop_model::MaskedByte| Masked { value: b.value, mask: b.mask };
    Rule {
        id,
        tier: f.tier,
        priority: f.priority,
        name: Arc::from(name.as_str()),
        matches: Match {
            in_port: m.in_port.as_ref().and_then(|p| ports.get(p.as_str())).copied(),
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
            class: f.class.as_ref().map(|c| class(c.as_str())),
            sla: f.sla.as_ref().and_then(|s| lookup.sla(s)),
            profile: f.profile.as_ref().and_then(|p| lookup.profile(p)),
            trust_dscp: false,
            realtime: f.realtime,
        },
    }
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
    for (_, before, after) in changed(draft, Kind::Sla) {
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
    item(&path, code, e.to_string())
}
