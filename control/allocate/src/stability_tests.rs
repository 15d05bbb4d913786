use super::*;
use crate::bounds::Bounds;
use crate::settings::Patience;
use crate::window::WindowConfig;
use proptest::prelude::*;

fn sound() -> Settings {
    Settings::new(Rate::from_kbit(64), Rate::from_mbit(10))
}

fn violations(settings: &Settings) -> Vec<Violation> {
    Stability::check(settings).err().map(|unstable| unstable.violations).unwrap_or_default()
}

#[test]
fn published_settings_pass() {
    let threshold = |config| Settings { law: Law::Threshold(config), ..sound() };
    let default = ThresholdConfig::default();
    assert_eq!(violations(&sound()), []);
    assert_eq!(violations(&threshold(default)), []);
    assert_eq!(
        violations(&threshold(ThresholdConfig { lower_ppm: 600_000, upper_ppm: 800_000, ..default })),
        []
    );
    let bed = ThresholdConfig { increase_ppm: 1_200_000, decrease_ppm: 800_000, ..default };
    assert_eq!(violations(&threshold(bed)), []);
}

#[test]
fn a_least_change_that_never_lets_the_class_grow_is_refused_with_both_remedies() {
    let with = |gain, least_change, metering| {
        let law = LogarithmicConfig {
            gain: Rate(gain),
            least_change: Rate(least_change),
            ..LogarithmicConfig::default()
        };
        let window = WindowConfig { metering, ..WindowConfig::default() };
        Settings { law: Law::Logarithmic(law), window, ..sound() }
    };
    // K · ln(1/0.9) = 63 216.3 bit/s for 600 kbit/s; 70 kbit/s need K > 664 385.5 bit/s.
    let refused = violations(&with(600_000, 70_000, Metering::Carried));
    let nearest = (Rate(63_216), Rate(664_386));
    assert_eq!(
        refused,
        [Violation::LeastChange { given: Rate(70_000), nearest: nearest.0, nearest_gain: nearest.1 }]
    );
    assert_eq!(violations(&with(600_000, 63_216, Metering::Carried)), []);
    assert_eq!(violations(&with(664_386, 70_000, Metering::Carried)), []);
    assert_ne!(violations(&with(664_385, 70_000, Metering::Carried)), []);
    assert_eq!(violations(&with(600_000, 70_000, Metering::Offered)), []);
}

#[test]
fn all_violations_are_told_at_once_with_text() {
    let settings = Settings {
        bounds: Bounds { least: Rate(0), most: Rate(0), granularity: Rate(0) },
        initial: Rate(0),
        window: WindowConfig { interval: Duration::ZERO, intervals: 0, metering: Metering::Carried },
        law: Law::Threshold(ThresholdConfig { increase_ppm: 1, decrease_ppm: 0, lower_ppm: 0, upper_ppm: 0 }),
        congestion: Some(CongestionConfig {
            target: Duration::ZERO,
            margin_ppm: 0,
            guard: Duration::ZERO,
            mtu: Bytes(0),
        }),
        patience: Patience {
            timeout: Duration::ZERO,
            first_retry: Duration::ZERO,
            longest_retry: Duration::ZERO,
        },
    };
    let unstable = Stability::check(&settings).expect_err("nothing is right");
    assert_eq!(unstable.violations.len(), 17, "{unstable}");
    for violation in &unstable.violations {
        assert!(violation.to_string().len() > 20);
    }
    assert!(Stability::check(&unstable.nearest).is_ok());
}

#[test]
fn the_guard_time_is_two_measurement_intervals() {
    let mut settings = sound();
    settings.window.interval = Duration::from_millis(801);
    assert_eq!(
        violations(&settings),
        [Violation::Guard { given: Duration::from_millis(1600), nearest: Duration::from_millis(1602) }]
    );
}

#[test]
fn a_grid_on_which_the_class_could_never_shrink_is_refused() {
    let mut settings = Settings { law: Law::Threshold(ThresholdConfig::default()), ..sound() };
    settings.bounds.granularity = Rate(1_250_000);
    assert_eq!(
        violations(&settings),
        [Violation::Granularity { given: Rate(1_250_000), nearest: Rate(1_000_000) }]
    );
    let config = ThresholdConfig::default();
    for (granularity, shrinks) in [(1_000_000, true), (1_250_000, false)] {
        let bounds = Bounds { granularity: Rate(granularity), ..settings.bounds };
        assert_eq!(config.decide(Rate(0), bounds.most, &bounds).is_some(), shrinks);
    }
}

/// Rates, shares and times of every magnitude, zero included.
fn any_settings() -> impl Strategy<Value = Settings> {
    let rate =
        || (any::<u64>(), 20u32..=64).prop_map(|(value, shift)| Rate(value.checked_shr(shift).unwrap_or(0)));
    let ppm = || 0u32..1_200_000;
    let span = || (0u64..3_000).prop_map(Duration::from_millis);
    let law = prop_oneof![
        (0u32..3_000_000, ppm(), ppm(), ppm()).prop_map(
            |(increase_ppm, decrease_ppm, lower_ppm, upper_ppm)| {
                Law::Threshold(ThresholdConfig { increase_ppm, decrease_ppm, lower_ppm, upper_ppm })
            }
        ),
        (rate(), ppm(), rate()).prop_map(|(gain, margin_ppm, least_change)| {
            Law::Logarithmic(LogarithmicConfig { gain, margin_ppm, least_change, faithful: false })
        }),
    ];
    let metering = prop_oneof![Just(Metering::Carried), Just(Metering::Offered)];
    let window = (span(), 0u32..4, metering).prop_map(|(interval, intervals, metering)| WindowConfig {
        interval,
        intervals,
        metering,
    });
    let congestion = (span(), ppm(), span(), 0u64..3).prop_map(|(target, margin_ppm, guard, mtu)| {
        CongestionConfig { target, margin_ppm, guard, mtu: Bytes(mtu) }
    });
    let patience = (span(), span(), span()).prop_map(|(timeout, first_retry, longest_retry)| Patience {
        timeout,
        first_retry,
        longest_retry,
    });
    let bounds =
        (rate(), rate(), rate()).prop_map(|(least, most, granularity)| Bounds { least, most, granularity });
    let options = (prop::option::of(congestion), patience);
    (bounds, rate(), window, law, options).prop_map(
        |(bounds, initial, window, law, (congestion, patience))| Settings {
            bounds,
            initial,
            window,
            law,
            congestion,
            patience,
        },
    )
}

proptest! {
    #[test]
    fn the_nearest_settings_pass(settings in any_settings()) {
        if let Err(unstable) = Stability::check(&settings) {
            prop_assert!(!unstable.violations.is_empty());
            let again = Stability::check(&unstable.nearest);
            prop_assert!(again.is_ok(), "{again:?}");
            prop_assert_ne!(*unstable.nearest, settings);
        }
    }
}
