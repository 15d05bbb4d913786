//! How leases are used.

use perhop_units::{Duration, Rate};
use std::collections::BTreeMap;

/// Who decides about the flows of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// The holder, within leases that grow by chunks.
    #[default]
    Provisioned,
    /// The broker about each flow.
    Outsourced,
    /// The holder within leases of the provisioned minimum; the broker about each flow that does not fit there.
    Mixed,
}

/// How the leases of a class are used. All rates in bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    /// Who decides.
    pub model: Model,
    /// A lease grows and shrinks by multiples of this; 1 or more.
    pub chunk: u64,
    /// More than this free is given back …
    pub high_water: u64,
    /// … so far that this much stays free.
    pub low_water: u64,
    /// A lease never has less than this while it is used; those of [`Settings::beforehand`] are asked for it before. 0 = nothing.
    pub minimum: u64,
}

impl Default for ClassSettings {
    /// Chunks of 1 Mbit/s, of which two may be free before one is given back, and nothing in advance.
    fn default() -> Self {
        Self {
            model: Model::Provisioned,
            chunk: 1_000_000,
            high_water: 2_000_000,
            low_water: 1_000_000,
            minimum: 0,
        }
    }
}

/// How much of everything there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows, those that wait included.
    pub flows: usize,
    /// Flows that wait for a decision.
    pub waiting: usize,
    /// Leases, those of single flows included.
    pub leases: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { flows: 1_000_000, waiting: 65_536, leases: 1_000_000 }
    }
}

/// How a local decision point works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Logical classes whose flows it admits.
    pub classes: BTreeMap<String, ClassSettings>,
    /// Where the minimum of a class is asked for before any flow goes there, by logical class; of one that is not here it is asked
    /// for the lease to anywhere.
    pub beforehand: BTreeMap<String, Vec<String>>,
    /// A flow waits this long for a decision, and is refused then. 1 ms or more; 500 ms by default.
    pub patience: Duration,
    /// A question is sent again when it has not been answered for so long; then after twice that, up to 32 times. 200 ms by default.
    pub resend: Duration,
    /// Leases end so long after they were asked for or renewed, which is at half of it; 60 s by default.
    pub lifetime: Duration,
    /// The holder lets them end this much earlier: time for the router to follow. 5 s by default, below half the lifetime.
    pub margin: Duration,
    /// Limits.
    pub limits: Limits,
}

impl Settings {
    /// Defaults for these classes.
    pub fn new(classes: BTreeMap<String, ClassSettings>) -> Self {
        Self {
            classes,
            beforehand: BTreeMap::new(),
            patience: Duration::from_millis(500),
            resend: Duration::from_millis(200),
            lifetime: Duration::from_secs(60),
            margin: Duration::from_secs(5),
            limits: Limits::default(),
        }
    }

    /// Where the minimum of a class is asked for beforehand.
    pub(super) fn kept(&self, class: &str) -> Vec<Option<String>> {
        let to = self.beforehand.get(class);
        to.map_or_else(|| vec![None], |to| to.iter().cloned().map(Some).collect())
    }

    /// Whether they can be used.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check(&self) -> Result<(), SettingsError> {
        let least = Duration::from_millis(1);
        for (field, time) in
            [("patience", self.patience), ("resend", self.resend), ("lifetime", self.lifetime)]
        {
            if time < least {
                return Err(SettingsError::TooShort { field, time });
            }
        }
        if self.margin >= Duration(self.lifetime.0 / 2) {
            return Err(SettingsError::Margin { margin: self.margin, lifetime: self.lifetime });
        }
        for (name, class) in &self.classes {
            let class_error = |field, value| SettingsError::Class { class: name.clone(), field, value };
            let most =
                |field, value| if value > Rate::MOST.0 { Err(class_error(field, value)) } else { Ok(()) };
            most("chunk", class.chunk)?;
            most("high_water", class.high_water)?;
            most("low_water", class.low_water)?;
            most("minimum", class.minimum)?;
            if class.chunk == 0 {
                return Err(class_error("chunk", 0));
            }
            // Otherwise a chunk that was just granted for a small flow would be given back.
            let least = class.chunk.max(class.low_water);
            if class.high_water < least {
                return Err(SettingsError::HighWater { class: name.clone(), high: class.high_water, least });
            }
        }
        Ok(())
    }
}

/// Settings that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A time is too short.
    #[error("{field} = {} ns is too short: 1 ms at least", .time.0)]
    TooShort {
        /// Which.
        field: &'static str,
        /// What it is.
        time: Duration,
    },
    /// Leases would end before they are renewed.
    #[error("margin = {} ns is too long for a lifetime of {} ns: it has to be below half of it", .margin.0, .lifetime.0)]
    Margin {
        /// The margin.
        margin: Duration,
        /// The lifetime.
        lifetime: Duration,
    },
    /// A rate of a class is out of its range.
    #[error(
        "class {class:?}: {field} = {value} bit/s is not between 1 (a minimum, a water mark: 0) and 10^12"
    )]
    Class {
        /// The class.
        class: String,
        /// Which.
        field: &'static str,
        /// What it is.
        value: u64,
    },
    /// What was just granted would be given back.
    #[error(
        "class {class:?}: high_water = {high} bit/s is below the chunk or the low water: {least} at least"
    )]
    HighWater {
        /// The class.
        class: String,
        /// What it is.
        high: u64,
        /// What it has to be.
        least: u64,
    },
}
