//! The published experiments in the fluid model: `cargo run --release -p perhop-allocate --example published`.

use perhop_allocate::fluid::published::{
    LONG_WINDOW, WINDOW, bed_threshold, class, ideal, measured, sources, staircase, threshold,
};
use perhop_allocate::fluid::{Control, FluidConfig, FluidResult, OnOff, Spread, run};
use perhop_allocate::{CongestionConfig, Law, LogarithmicConfig, Metering, Unstable};
use perhop_units::{Duration, Rate};

const SEEDS: u64 = 10;

fn main() -> Result<(), Unstable> {
    static_and_ideal()?;
    by_thresholds()?;
    delays()?;
    logarithmic()?;
    staircases()
}

fn table(name: &str, config: &FluidConfig) -> Result<(), Unstable> {
    let results = (0..SEEDS).map(|seed| run(config, seed)).collect::<Result<Vec<_>, _>>()?;
    let spread = |value: fn(&FluidResult) -> f64| {
        let values: Vec<f64> = results.iter().map(value).collect();
        Spread::of(&values).unwrap_or_default()
    };
    let [eff, est, req] = [
        spread(|r| r.efficiency),
        spread(|r| r.estimate_efficiency.unwrap_or(f64::NAN)),
        spread(|r| r.requests_per_sec),
    ];
    let [mean, max, over, loss] = [
        spread(|r| r.mean_delay_ms),
        spread(|r| r.max_delay_ms),
        spread(|r| r.over_limit),
        spread(|r| r.loss),
    ];
    println!(
        "{name:<34} eff {:.4} ± {:.4} ({:.4}–{:.4})  est {:.3}  req/s {:.4} ± {:.4}  delay mean {:.4} ms, max {:.1} (worst {:.1})  over {:.4}  loss {:.4}",
        eff.mean,
        eff.deviation,
        eff.least,
        eff.greatest,
        est.mean,
        req.mean,
        req.deviation,
        mean.mean,
        max.mean,
        max.greatest,
        over.mean,
        loss.mean
    );
    Ok(())
}

fn static_and_ideal() -> Result<(), Unstable> {
    for (name, of) in [("C-IV-2 static, type 1", OnOff::TYPE_1), ("C-IV-2 static, type 3", OnOff::TYPE_3)] {
        table(name, &sources(of, Control::Static(of.peak_of_all())))?;
    }
    for lower in [50, 60, 70, 80] {
        let config = sources(OnOff::TYPE_1, ideal(threshold(lower, 90)));
        table(&format!("C-IV-3 ideal, l_min {lower} %"), &config)?;
    }
    Ok(())
}

fn by_thresholds() -> Result<(), Unstable> {
    for lower in [50, 60, 70, 80] {
        let config = sources(OnOff::TYPE_1, measured(threshold(lower, 90), WINDOW, None));
        table(&format!("C-IV-4 measured, l_min {lower} %"), &config)?;
    }
    for (target, lower) in [(5, 70), (15, 50), (15, 60), (15, 70), (15, 80), (50, 70)] {
        let congestion =
            CongestionConfig { target: Duration::from_millis(target), ..CongestionConfig::default() };
        let config = sources(OnOff::TYPE_1, measured(threshold(lower, 90), WINDOW, Some(congestion)));
        table(&format!("C-IV-6 T_s {target} ms, l_min {lower} %"), &config)?;
    }
    Ok(())
}

fn delays() -> Result<(), Unstable> {
    for (name, of, intervals, law) in [
        ("type 1", OnOff::TYPE_1, WINDOW, threshold(70, 90)),
        ("type 3", OnOff::TYPE_3, LONG_WINDOW, threshold(60, 80)),
    ] {
        for (with, congestion) in [("without", None), ("with", Some(CongestionConfig::default()))] {
            let config = sources(of, measured(law, intervals, congestion));
            table(&format!("C-IV-5 {name} {with} control"), &config)?;
        }
    }
    Ok(())
}

fn logarithmic() -> Result<(), Unstable> {
    let types =
        [("1", OnOff::TYPE_1, WINDOW), ("2", OnOff::TYPE_2, WINDOW), ("3", OnOff::TYPE_3, LONG_WINDOW)];
    let point = |name: String, of: OnOff, intervals, config: LogarithmicConfig| {
        // The published sweeps go where carried load could never make a class grow, so they meter what is offered.
        let mut class = class(Law::Logarithmic(config), intervals, None);
        class.window.metering = Metering::Offered;
        table(&name, &sources(of, Control::Measured(class)))
    };
    let base = LogarithmicConfig::default();
    for (name, of, intervals) in types {
        for gain in [500, 600, 800, 1000] {
            let config = LogarithmicConfig { gain: Rate::from_kbit(gain), ..base };
            point(format!("C-IV-12 type {name}, K {gain} kbit/s"), of, intervals, config)?;
        }
        for margin in [5, 10, 15, 20] {
            let config = LogarithmicConfig { margin_ppm: margin * 10_000, ..base };
            point(format!("C-IV-14 type {name}, margin {margin} %"), of, intervals, config)?;
        }
    }
    for least in [20, 50, 100, 150] {
        let config = LogarithmicConfig { least_change: Rate::from_kbit(least), ..base };
        point(format!("C-IV-13 least change {least} kbit/s"), OnOff::TYPE_1, WINDOW, config)?;
    }
    Ok(())
}

fn staircases() -> Result<(), Unstable> {
    let log = LogarithmicConfig::default();
    let laws = [
        ("threshold", Law::Threshold(bed_threshold()), None),
        ("log", Law::Logarithmic(log), None),
        ("log faithful", Law::Logarithmic(LogarithmicConfig { faithful: true, ..log }), None),
        ("log, 15 ms", Law::Logarithmic(log), Some(CongestionConfig::default())),
        (
            "log, 100 us",
            Law::Logarithmic(log),
            Some(CongestionConfig {
                target: Duration::from_micros(100),
                margin_ppm: 0,
                ..CongestionConfig::default()
            }),
        ),
    ];
    for (name, law, congestion) in laws {
        for step in [64, 128, 256, 512, 1024, 2048] {
            let config = staircase(law, congestion, Rate::from_kbit(step));
            table(&format!("C-IV-17 {name}, step {step} kbit/s"), &config)?;
        }
    }
    Ok(())
}
