//! One repetition of a scenario, from time zero to its end.

use crate::build::Options;
use crate::controller::Controller;
use crate::error::SimError;
use crate::sample::LaneQueues;
use crate::world::World;
use perhop_measure::{DRAIN_LIMIT, Recording, set_aside};
use perhop_scenario::Scenario;
use perhop_units::{Duration, Instant};

/// Simulated time between two calls of the progress function.
const PROGRESS: Duration = Duration::from_millis(250);

/// Simulated time between two looks at whether anything is still on its way.
const DRAIN_STEP: Duration = Duration::from_millis(1);

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
    match play(&mut world, end, &mut progress) {
        Ok(stopped) => {
            let ended = world.now.min(end);
            finish(world, scenario, ended, stopped)
        }
        Err(error) => {
            // Packets on their way must end somewhere; what was recorded of an impossible run is worth nothing.
            drop(finish(world, scenario, end, false));
            Err(error)
        }
    }
}

/// Runs the world to its end; whether it was stopped before.
fn play(
    world: &mut World,
    end: Instant,
    progress: &mut impl FnMut(Duration) -> bool,
) -> Result<bool, SimError> {
    let mut stopped = false;
    while world.now < end && !stopped {
        let next = (world.now + PROGRESS).min(end);
        // What is due at the very end belongs to the time behind it.
        let until = if next == end { Instant(end.as_nanos() - 1) } else { next };
        world.run_until(until)?;
        world.now = next;
        stopped = !progress(Duration(world.now.as_nanos()));
    }
    if !stopped {
        drain(world, end)?;
    }
    world.check_conservation()?;
    Ok(stopped)
}

/// Lets what was sent before the end arrive or be dropped: what is still on its way was not lost.
fn drain(world: &mut World, end: Instant) -> Result<(), SimError> {
    world.quiet = true;
    let limit = end + DRAIN_LIMIT;
    let mut until = end;
    world.run_until(until)?;
    while until < limit && world.buffers.used() > 0 {
        until = (until + DRAIN_STEP).min(limit);
        world.run_until(until)?;
    }
    Ok(())
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
    if !scenario.programs.is_empty() {
        let names: Vec<&str> = scenario.programs.iter().map(|program| program.name.as_str()).collect();
        let names = names.join(", ");
        recording.warnings.push(format!("programs run on real kernels only; left out: {names}"));
    }
    let inside = world.buffers.used();
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
    for (node, described) in world.nodes.iter_mut().zip(&scenario.nodes) {
        let Some(router) = node.router() else { continue };
        recording.admissions.extend(router.admission_record());
        if let Some(agent) = router.agent() {
            agent.finish(&described.name, &mut recording);
        }
    }
    recording.reserved = world.controllers.iter().flat_map(Controller::records).collect();
    recording.foreign = world.datagrams.foreign;
    recording.unopened = world.transport.unopened();
    recording.streams = world.datagrams.into_streams();
    if !stopped {
        recording.warnings.extend(set_aside(&mut recording.streams, inside));
    }
    recording.connections = world.transport.into_records();
    Ok(recording)
}
