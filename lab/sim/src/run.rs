//! One repetition of a scenario, from time zero to its end.

use crate::build::Options;
use crate::error::SimError;
use crate::sample::LaneQueues;
use crate::world::World;
use perhop_measure::Recording;
use perhop_scenario::Scenario;
use perhop_units::{Duration, Instant};

/// Simulated time between two calls of the progress function.
const PROGRESS: Duration = Duration::from_millis(250);

/// How long packets may be on their way behind the end of the window.
const GRACE: Duration = Duration::from_secs(2);

/// Runs one repetition. `progress` is told the simulated time now and then and may stop the run by returning `false`;
/// the recording then ends there.
///
/// # Errors
/// The scenario cannot be built, or packets are not conserved.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    mut progress: impl FnMut(Duration) -> bool,
) -> Result<Recording, SimError> {
    let mut world = World::new(scenario, options)?;
    let end = Instant(scenario.length().as_nanos());
    let mut stopped = false;
    while world.now < end && !stopped {
        let next = (world.now + PROGRESS).min(end);
        // What is due at the very end belongs to the time behind it.
        let until = if next == end { Instant(end.as_nanos() - 1) } else { next };
        world.run_until(until)?;
        world.now = next;
        stopped = !progress(Duration(world.now.as_nanos()));
    }
    world.now = world.now.min(end);
    let ended = world.now;
    if !stopped {
        // What was sent at the very end is still on its way; it was not lost.
        world.run_until(end + GRACE)?;
    }
    world.check_conservation()?;
    finish(world, scenario, ended, stopped)
}

/// Ends the world and collects what it left.
fn finish(mut world: World, scenario: &Scenario, end: Instant, stopped: bool) -> Result<Recording, SimError> {
    if stopped {
        world.sample_once();
    }
    let mut recording = Recording {
        window: (Instant(scenario.warm_up.as_nanos()), end),
        events: world.agenda.woken(),
        ..Recording::default()
    };
    if stopped {
        recording.warnings.push(format!("stopped after {:.3} s", end.as_nanos() as f64 / 1e9));
    }
    let buffers = world.buffers.refused();
    if buffers > 0 {
        recording.warnings.push(format!("{buffers} packets could not be made: too few buffers"));
    }
    for capture in world.captures.into_iter().flatten() {
        capture.finish()?;
    }
    for (i, lane) in world.lanes.into_iter().enumerate() {
        let (mut record, series) = lane.way.finish(i / 2, i % 2, end);
        record.queues.extend(series);
        recording.links.push(record);
    }
    for queues in world.sampled {
        let (lane, series, drops) = LaneQueues::finish(queues, end);
        let record = &mut recording.links[lane];
        record.queues.extend(series);
        for (reason, count) in drops {
            *record.drops.entry(reason).or_default() += count;
        }
    }
    recording.streams = world.datagrams.into_streams();
    recording.connections = world.transport.into_records();
    Ok(recording)
}
