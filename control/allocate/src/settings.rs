//! Everything a class's allocation is configured with.

use crate::bounds::Bounds;
use crate::congestion::CongestionConfig;
use crate::logarithmic::LogarithmicConfig;
use crate::threshold::ThresholdConfig;
use crate::window::WindowConfig;
use perhop_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// The rule that turns use into an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Multiply outside a band.
    Threshold(ThresholdConfig),
    /// Follow the logarithm of the use.
    Logarithmic(LogarithmicConfig),
}

impl Law {
    /// What the class should have if it uses `used` of `allocated`; `None` to leave it.
    pub fn decide(&self, used: Rate, allocated: Rate, bounds: &Bounds) -> Option<Rate> {
        match self {
            Self::Threshold(config) => config.decide(used, allocated, bounds),
            Self::Logarithmic(config) => config.decide(used, allocated, bounds),
        }
    }
}

/// How patient a class is with its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Patience {
    /// A request without an answer counts as refused after this; above 0.
    pub timeout: Duration,
    /// After a request that was not granted in full, none in the same direction for this long; above 0.
    pub first_retry: Duration,
    /// The pause doubles with every further one up to this.
    pub longest_retry: Duration,
}

impl Default for Patience {
    /// 2 s, 0.8 s, 30 s.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(2),
            first_retry: Duration::from_millis(800),
            longest_retry: Duration::from_secs(30),
        }
    }
}

/// Configuration of one class's [`Allocator`](crate::Allocator).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Settings {
    /// Range and grid of the allocation.
    pub bounds: Bounds,
    /// Allocation at the start, inside the range.
    pub initial: Rate,
    /// The meter.
    pub window: WindowConfig,
    /// The law.
    pub law: Law,
    /// Congestion control, if any.
    pub congestion: Option<CongestionConfig>,
    /// Dealing with the broker.
    pub patience: Patience,
}

impl Settings {
    /// Logarithmic allocation with the published standard values between `least` and `most`, starting at `least`, with
    /// congestion control.
    pub fn new(least: Rate, most: Rate) -> Self {
        Self {
            bounds: Bounds::new(least, most),
            initial: least,
            window: WindowConfig::default(),
            law: Law::Logarithmic(LogarithmicConfig::default()),
            congestion: Some(CongestionConfig::default()),
            patience: Patience::default(),
        }
    }
}
