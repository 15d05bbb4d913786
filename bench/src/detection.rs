//! `bench detection`: what real-time detection adds to a packet, by what it knows of the packet's flow.
//!
//! The same packets go through two routers in turns, one with the detector of the default edge graph and one whose detector
//! does not run: first flows of random octets, then RTP that is recognised, then RTP on which the detector never decides.
//! Everything else is as in `bench forward`. Flows send 50 packets a second of virtual time each.

use crate::error::BenchError;
use crate::forward::{Buffers, Case, Rig};
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::router::Detection;
use crate::traffic::Payload;
use crate::turns::{Runs, Turns};
use perhop_packet::Batch;

/// Options of `bench detection`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Concurrent flows, 1 to 1,000,000
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flows: u32,
    /// Seed of traffic and routers
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    pub measured: Runs,
}

/// What detection knows of the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flows {
    /// They are no media.
    Other,
    /// They are recognised, and their quality is measured.
    Media,
    /// They may be media, and it is never known.
    Undecided,
}

impl Flows {
    const ALL: [Self; 3] = [Self::Other, Self::Media, Self::Undecided];

    fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Media => "media",
            Self::Undecided => "undecided",
        }
    }

    fn case(self, options: &Options, detection: Detection) -> Case {
        let flows = options.flows as usize;
        Case {
            flows,
            filters: 1,
            new_per_cent: 0,
            packet: 64,
            batch: Batch::MAX,
            buffers: Buffers::Rotating,
            payload: if self == Self::Other { Payload::Random } else { Payload::Rtp },
            detection,
            pace_ns: (20_000_000 / flows as u64).max(1),
            seed: options.seed,
        }
    }
}

/// Measures every state of flows.
///
/// # Errors
/// A router that cannot be set up, or a detector that does not do what it should.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    for flows in Flows::ALL {
        sink.point(&measure(options, flows, cpu)?)?;
    }
    Ok(())
}

fn warm(case: Case) -> Result<Rig, BenchError> {
    let mut rig = Rig::new(case)?;
    rig.warm_up();
    Ok(rig)
}

fn measure(options: &Options, flows: Flows, cpu: usize) -> Result<Point, BenchError> {
    let detection = if flows == Flows::Undecided { Detection::Endless } else { Detection::On };
    let mut with = warm(flows.case(options, detection))?;
    let mut without = warm(flows.case(options, Detection::Off))?;
    let detected = with.router.worker.flows().map_or(0, |f| f.flow_counters().detected);
    let expected = if flows == Flows::Media { u64::from(options.flows) } else { 0 };
    if detected < expected || flows == Flows::Undecided && detected > 0 {
        return Err(BenchError::Wrong(format!("{detected} of {} flows were recognised", options.flows)));
    }
    let watch = Watch::start();
    let turns = Turns::take(options.measured.runs, &mut with, &mut without, Rig::timed_round)?;
    let mut point = Point { bench: "detection", ..Point::default() };
    turns.describe(&mut point);
    point.metrics.insert("recognised", Metric::new(Spread::exactly(detected as f64), "flow"));
    let params = [
        ("of", flows.name().into()),
        ("flows", options.flows.into()),
        ("packet", 64.into()),
        ("cpu", cpu.into()),
        ("seed", options.seed.into()),
    ];
    point.params.extend(params);
    point.warnings = watch.warnings();
    point.warn_of_spread();
    Ok(point)
}
