//! The settings of the published experiments: what tests, examples and `perhop lab tune` begin with.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", IV.3.

use super::{Control, FluidConfig, OnOff, Staircase, Traffic};
use crate::bounds::Bounds;
use crate::broker::EmulatedBrokerConfig;
use crate::congestion::CongestionConfig;
use crate::settings::{Law, Settings};
use crate::threshold::ThresholdConfig;
use crate::window::WindowConfig;
use perhop_units::{Bytes, Duration, Rate};

/// The link.
pub const LINK: Rate = Rate(10_000_000);
/// The least allocation.
pub const LEAST: Rate = Rate(64_000);
/// The allocation at the start.
pub const INITIAL: Rate = Rate(1_000_000);
/// Measurement intervals of a window for sources of types 1 and 2.
pub const WINDOW: u32 = 10;
/// And for those of type 3, which are silent for longer.
pub const LONG_WINDOW: u32 = 50;

/// The threshold law between two shares of use, percent.
pub fn threshold(lower_percent: u32, upper_percent: u32) -> ThresholdConfig {
    ThresholdConfig {
        lower_ppm: lower_percent * 10_000,
        upper_ppm: upper_percent * 10_000,
        ..ThresholdConfig::default()
    }
}

/// The threshold law of the test bed: steps of 20 % between 70 and 90 %.
pub fn bed_threshold() -> ThresholdConfig {
    ThresholdConfig { increase_ppm: 1_200_000, decrease_ppm: 800_000, ..threshold(70, 90) }
}

/// A class under a law that measures over `intervals` intervals.
pub fn class(law: Law, intervals: u32, congestion: Option<CongestionConfig>) -> Settings {
    Settings {
        law,
        congestion,
        initial: INITIAL,
        window: WindowConfig { intervals, ..WindowConfig::default() },
        ..Settings::new(LEAST, LINK)
    }
}

/// Control by thresholds on what is measured.
pub fn measured(law: ThresholdConfig, intervals: u32, congestion: Option<CongestionConfig>) -> Control {
    Control::Measured(class(Law::Threshold(law), intervals, congestion))
}

/// Control by thresholds on what the sources are known to send.
pub fn ideal(law: ThresholdConfig) -> Control {
    Control::Ideal { law, bounds: Bounds::new(LEAST, LINK), initial: INITIAL }
}

/// The simulations: an hour of on-off sources behind 200 s.
pub fn sources(of: OnOff, control: Control) -> FluidConfig {
    FluidConfig::simulation(Traffic::OnOff(of), control)
}

/// The test bed: four steps of a height up and down, 20 s each, once and then three times; a queue of 100 packets of
/// 256 B, and a broker that answers at once.
pub fn staircase(law: Law, congestion: Option<CongestionConfig>, step: Rate) -> FluidConfig {
    let steps = Staircase { step, steps: 4, dwell: Duration::from_secs(20) };
    let control = Control::Measured(class(law, WINDOW, congestion));
    FluidConfig {
        broker: EmulatedBrokerConfig::default(),
        queue: Some(Bytes(25_600)),
        warm_up: Duration::from_secs(160),
        time: Duration::from_secs(480),
        ..FluidConfig::simulation(Traffic::Staircase(steps), control)
    }
}
