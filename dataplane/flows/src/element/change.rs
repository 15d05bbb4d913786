//! Changes, prepared where time does not matter.

use crate::classifier::{Changed, Classifier, Delta};
use crate::settings::Settings;
use std::sync::Arc;

/// A change prepared elsewhere; committing it costs a few pointers.
#[derive(Clone, Debug, Default)]
pub struct FlowsChange {
    /// New rules.
    pub classifier: Option<Arc<Classifier>>,
    /// New settings.
    pub settings: Option<Arc<Settings>>,
    /// What may be different for whom: from [`crate::classifier::Changed`], and a [`Delta::Sla`] a prefix for changed
    /// contracts or [`Delta::All`] for other changes of settings.
    pub deltas: Vec<Delta>,
}

impl FlowsChange {
    /// Other rules.
    pub fn of_rules(changed: Changed) -> Self {
        Self { classifier: Some(changed.classifier), settings: None, deltas: changed.deltas }
    }

    /// Other settings; verdicts are made anew only where `old` and `new` may give different ones.
    pub fn of_settings(old: &Settings, new: Settings) -> Self {
        let mut deltas = Vec::new();
        if !old.same_verdicts(&new) {
            let other_slas = Settings { slas: old.slas.clone(), ..new.clone() };
            let prefixes = old.slas.differences(&new.slas);
            if old.same_verdicts(&other_slas) {
                deltas.extend(prefixes.into_iter().map(Delta::Sla));
            } else {
                deltas.push(Delta::All);
            }
        }
        Self { classifier: None, settings: Some(Arc::new(new)), deltas }
    }

    /// Both at once; what `later` names counts.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.classifier = later.classifier.or(self.classifier);
        self.settings = later.settings.or(self.settings);
        self.deltas.extend(later.deltas);
        self
    }
}
