//! Queues inside routers and disciplines, looked at each interval: what they hold, and between which lengths they were
//! since the last look.

use crate::node::Kind;
use crate::series::SeriesRecorder;
use crate::world::{Step, World};
use perhop_graph::router::VirtualRouter;
use perhop_measure::QueueSeries;
use perhop_packet::{DropReason, PortId};
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;

/// What one queue shows at a time.
#[derive(Clone, Debug, Default)]
struct Reading {
    /// Smallest and largest since the last time, and now.
    bytes: [u64; 3],
    /// Drops so far, by reason.
    drops: BTreeMap<String, u64>,
    borrowed: Option<u64>,
}

/// The queues in front of one direction of a link.
pub(crate) struct LaneQueues {
    lane: usize,
    interval: Duration,
    /// Looked at each interval; the others only where the window begins and ends, for what they drop inside.
    recorded: bool,
    queues: BTreeMap<String, Sampled>,
}

struct Sampled {
    recorder: SeriesRecorder,
    last: Reading,
    before_window: BTreeMap<String, u64>,
}

impl LaneQueues {
    pub(crate) fn new(lane: usize, interval: Duration, recorded: bool) -> Self {
        Self { lane, interval, recorded, queues: BTreeMap::new() }
    }

    fn take(&mut self, now: Instant, readings: Vec<(String, Reading)>) {
        for (name, reading) in readings {
            let sampled = self.queues.entry(name).or_insert_with_key(|name| Sampled {
                recorder: SeriesRecorder::new(name, self.interval),
                last: Reading::default(),
                before_window: BTreeMap::new(),
            });
            let sum = |reading: &Reading| reading.drops.values().sum::<u64>();
            sampled.recorder.range(now, reading.bytes);
            let dropped = sum(&reading).saturating_sub(sum(&sampled.last));
            if dropped > 0 {
                // They were before: an instant that ends an interval begins the next.
                sampled.recorder.dropped(Instant(now.as_nanos().saturating_sub(1)), dropped as u32);
            }
            if let Some(total) = reading.borrowed {
                sampled.recorder.borrowed(now, total);
            }
            sampled.last = reading;
        }
    }

    /// Lane, series, and drops inside the window.
    pub(crate) fn finish(self, end: Instant) -> (usize, Vec<QueueSeries>, BTreeMap<String, u64>) {
        let mut drops = BTreeMap::new();
        let mut series = Vec::new();
        for sampled in self.queues.into_values() {
            for (reason, count) in &sampled.last.drops {
                let inside = count - sampled.before_window.get(reason).copied().unwrap_or(0);
                if inside > 0 {
                    *drops.entry(reason.clone()).or_default() += inside;
                }
            }
            if self.recorded {
                series.push(sampled.recorder.finish(end));
            }
        }
        (self.lane, series, drops)
    }
}

impl World {
    /// Reads every queue that is recorded, and asks for the next time.
    pub(crate) fn sample(&mut self) {
        self.read_queues(|queues| queues.recorded);
        let recorded = self.sampled.iter().find(|queues| queues.recorded);
        if let Some(interval) = recorded.map(|queues| queues.interval) {
            let at = Duration(self.now.as_nanos()) + interval;
            self.schedule_next(at, Step::Sample);
        }
    }

    /// The window begins: drops so far do not count.
    pub(crate) fn sample_baseline(&mut self) {
        self.sample_once();
        for queues in &mut self.sampled {
            for sampled in queues.queues.values_mut() {
                sampled.before_window = sampled.last.drops.clone();
            }
        }
    }

    /// Reads every queue.
    pub(crate) fn sample_once(&mut self) {
        self.read_queues(|_| true);
    }

    fn read_queues(&mut self, which: impl Fn(&LaneQueues) -> bool) {
        let mut sampled = std::mem::take(&mut self.sampled);
        for queues in sampled.iter_mut().filter(|queues| which(queues)) {
            let readings = self.readings(queues.lane);
            queues.take(self.now, readings);
        }
        self.sampled = sampled;
    }

    fn readings(&mut self, lane: usize) -> Vec<(String, Reading)> {
        let near = self.ends[lane / 2][lane % 2];
        let mut readings = Vec::new();
        if let Kind::Router(router) = &mut self.nodes[near].kind {
            let link = perhop_scenario::LinkIndex(lane / 2);
            if let Some(port) = router.port_of(link, lane % 2) {
                readings.extend(classes(router.router(), self.now, port));
            }
        }
        if let Some((front, _)) = &mut self.lanes[lane].front {
            readings.extend(discipline(&front.counters(), front.drops(), &front.length_ranges(self.now)));
        }
        readings
    }
}

fn classes(router: &mut VirtualRouter, now: Instant, port: PortId) -> Vec<(String, Reading)> {
    let ranges = length_ranges(router, now, port);
    let (control, worker) = router.halves();
    let Some(egress) = worker.egress(port) else { return Vec::new() };
    let leaves = egress.tree().iter().filter(|class| class.params.queue.is_some());
    leaves
        .zip(ranges)
        .map(|(class, [least, most])| {
            let name = control
                .planner()
                .leaf_class(port, class.index.0)
                .map_or_else(|| "default".to_owned(), |(name, _)| name.to_string());
            let counters = class.counters;
            let early = class.params.queue.as_ref().map_or(DropReason::RedEarly, |leaf| leaf.kind.early());
            let drops = [
                (DropReason::QueueFull, counters.dropped_queue_full),
                (early, counters.dropped_early),
                (DropReason::ClassRemoved, counters.dropped_class_removed),
            ];
            let reading = Reading {
                bytes: [least, most, class.backlog_frame_bytes],
                drops: drops
                    .into_iter()
                    .filter(|(_, n)| *n > 0)
                    .map(|(reason, n)| (reason.name(), n))
                    .collect(),
                borrowed: Some(counters.borrowed + counters.shared),
            };
            (name, reading)
        })
        .collect()
}

/// Between which lengths each leaf of a port was since the last call, by slot.
fn length_ranges(router: &mut VirtualRouter, now: Instant, port: PortId) -> Vec<[u64; 2]> {
    let worker = router.worker();
    let Some(egress) = worker.egress(port) else { return Vec::new() };
    let leaves = egress.tree().iter().filter(|class| class.params.queue.is_some());
    let leaves: Vec<_> = leaves.map(|class| class.index).collect();
    leaves.into_iter().map(|leaf| worker.length_range(now, port, leaf).unwrap_or_default()).collect()
}

/// A discipline's gauges: `backlog_bytes`, and `backlog_bytes_NAME`, `dropped_NAME`, `borrows_NAME` where it has
/// classes of its own. `ranges`: the lengths between which each was since the last time, the whole under no name.
fn discipline(
    counters: &[(String, u64)],
    drops: BTreeMap<String, u64>,
    ranges: &[(String, [u64; 2])],
) -> Vec<(String, Reading)> {
    let bytes = |class: &str, now: u64| {
        let [least, most] =
            ranges.iter().find(|(name, _)| name == class).map_or([now; 2], |(_, range)| *range);
        [least.min(now), most.max(now), now]
    };
    let value = |name: &str| counters.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
    let mut readings = Vec::new();
    let whole = Reading { bytes: bytes("", value("backlog_bytes").unwrap_or(0)), drops, borrowed: None };
    readings.push(("queue".to_owned(), whole));
    for (name, backlog) in counters {
        if let Some(class) = name.strip_prefix("backlog_bytes_") {
            let borrowed = value(&format!("borrows_{class}"));
            let reading = Reading { bytes: bytes(class, *backlog), drops: BTreeMap::new(), borrowed };
            readings.push((class.to_owned(), reading));
        }
    }
    readings
}
