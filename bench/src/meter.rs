//! `bench meter`: the two rate three colour marker, with the clock read once a batch.
//!
//! Packets of random length come to meters in a seeded random order at the pace at which they are metered, so that all
//! three colours occur.

use crate::costs::clock;
use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::turns::Runs;
use perhop_elements::meter::{TrTcm, TrTcmConfig};
use perhop_units::{Bytes, Color, Instant, Rate};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Options of `bench meter`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Meters; without it 1, 256 and 100,000
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    meters: Option<u32>,
    /// Packets a reading of the clock
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    batch: u32,
    /// Seed of lengths and order
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    pub measured: Runs,
}

/// Packets in turns.
const PACKETS: usize = 1 << 18;
/// Rounds over them a run.
const ROUNDS: u64 = 16;
/// Packets further on whose meter is asked for.
const AHEAD: usize = 8;
/// About what all meters together are offered: packets of 782 bytes, one in 6 ns.
const OFFERED: u64 = 1_000_000_000_000;

/// Measures every sweep point.
///
/// # Errors
/// A colour that never occurs.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    for meters in options.meters.map_or_else(|| vec![1, 256, 100_000], |n| vec![n]) {
        let mut point = measure(options, meters)?;
        point.params.insert("cpu", cpu.into());
        sink.point(&point)?;
    }
    Ok(())
}

fn measure(options: &Options, meters: u32) -> Result<Point, BenchError> {
    let mut random = Pcg64Mcg::seed_from_u64(options.seed);
    let offered = OFFERED / u64::from(meters);
    let config = TrTcmConfig {
        cir: Rate(offered / 4),
        cbs: Bytes(10_000),
        pir: Rate(offered / 2),
        pbs: Bytes(10_000),
        aware: false,
    };
    let mut all = vec![TrTcm::new(config); meters as usize];
    let packets: Vec<(u32, u16)> =
        (0..PACKETS).map(|_| (random.random_range(0..meters), random.random_range(64..=1500))).collect();
    let mut colors = [0u64; 3];
    let mut ns = Vec::new();
    let mut watch = Watch::start();
    let before = crate::allocations().count;
    // The first run brings the memory near and is not counted.
    for run in 0..=options.measured.runs {
        let start = machine::thread_time_ns();
        for _ in 0..ROUNDS {
            round(&mut all, &packets, options.batch as usize, &mut colors);
        }
        let took = machine::thread_time_ns() - start;
        if run == 0 {
            watch = Watch::start();
            colors = [0; 3];
        } else {
            ns.push(took as f64 / (ROUNDS * PACKETS as u64) as f64);
        }
    }
    let metered: u64 = colors.iter().sum();
    if colors.contains(&0) {
        return Err(BenchError::Wrong(format!("of {metered} packets one colour has none: {colors:?}")));
    }
    let allocations = crate::allocations().count - before;
    let mut point = Point { bench: "meter", ..Point::default() };
    point.set_ns(&ns);
    point.allocs_per_op = Some((allocations as f64 / metered as f64 * 1e4).round() / 1e4);
    let params = [("meters", meters.into()), ("batch", options.batch.into()), ("seed", options.seed.into())];
    point.params.extend(params);
    for (name, count) in ["green", "yellow", "red"].into_iter().zip(colors) {
        let share = count as f64 * 100.0 / metered as f64;
        point.metrics.insert(name, Metric::new(Spread::exactly(share), "%"));
    }
    point.warnings = watch.warnings();
    point.warn_of_spread();
    Ok(point)
}

fn round(all: &mut [TrTcm], packets: &[(u32, u16)], batch: usize, colors: &mut [u64; 3]) {
    for packets in packets.chunks(batch) {
        let now = Instant(clock());
        for (n, (meter, len)) in packets.iter().enumerate() {
            if let Some((later, _)) = packets.get(n + AHEAD) {
                perhop_packet::prefetch(&all[*later as usize]);
            }
            let color = all[*meter as usize].meter(now, Bytes(u64::from(*len)), Color::Green);
            colors[color as usize] += 1;
        }
    }
}
