//! What links did: from the counters of their emulation and of the router queues that feed them.

use super::emulation::{DISCIPLINE, WAYS};
use super::receive::Times;
use super::routers::Ended;
use super::samples::{Line, Samples, queue_series};
use perhop_engine::{EmulatorReport, Recording};
use perhop_measure::{LinkRecord, QueueSeries};
use perhop_packet::DropReason;
use perhop_scenario::{LinkIndex, Scenario, Way};
use perhop_units::{Bytes, Duration, Instant, Rate};

/// Name of a discipline's queue in results; that of the link behind it is `queue`.
const DISCIPLINE_QUEUE: &str = "discipline";
/// Most waiting times of one direction.
const MAX_WAITS: u64 = 1 << 18;

/// The records of all links, both directions of each. `end` is the end of the run.
pub(super) fn records(
    scenario: &Scenario,
    emulated: &[Option<EmulatorReport>],
    routers: &[Ended],
    times: &Times,
) -> Vec<LinkRecord> {
    let mut records = Vec::new();
    for (link, report) in emulated.iter().enumerate() {
        for way in 0..2 {
            let own = report.as_ref().and_then(|report| report.recording.as_ref());
            let feeding = routers.iter().find_map(|router| {
                let port = router.ports.iter().find(|p| (p.link, p.end) == (LinkIndex(link), way))?;
                Some((port.name.as_str(), router.report.recording.as_ref()?))
            });
            records.push(record(scenario, link, way, own, feeding, times));
        }
    }
    records
}

/// One queue: its length, its drops by reason, what it borrowed.
struct Queue<'a> {
    name: String,
    bytes: Line<'a>,
    drops: Vec<(String, Line<'a>)>,
    /// Its bytes are part of another queue's.
    part: bool,
    borrows: Option<Line<'a>>,
}

fn record(
    scenario: &Scenario,
    link: usize,
    way: usize,
    own: Option<&Recording>,
    feeding: Option<(&str, &Recording)>,
    times: &Times,
) -> LinkRecord {
    let described = &scenario.links[link].ways[way];
    let (from, until) = times.window;
    let mut record = LinkRecord { link, way, ..LinkRecord::default() };
    let empty = Recording::default();
    let own = Samples::new(own.unwrap_or(&empty), times.epoch);
    let (port, fed) = feeding.unwrap_or(("", &empty));
    let fed = Samples::new(fed, times.epoch);
    let name = |counter: &str| format!("{}.{counter}", WAYS[way]);
    let [frames, packets, busy] = ["sent_bytes", "sent_packets", "busy_ns"].map(|c| own.line(&name(c)));
    let overhead = described.overhead.get();
    record.busy = Duration(busy.growth(from, until));
    record.wire_bytes = frames.growth(from, until) + overhead * packets.growth(from, until);
    let bins = frames.bins(times.bin, until).into_iter().zip(packets.bins(times.bin, until));
    record.bins = bins.map(|(bytes, packets)| bytes + overhead * packets).collect();
    let mut queues = vec![own_queue(&own, WAYS[way])];
    if described.discipline_element().is_some() {
        queues.extend(discipline_queues(&own, &format!("{}{DISCIPLINE}", WAYS[way])));
    }
    if !port.is_empty() {
        queues.extend(class_queues(&fed, port));
    }
    for (reason, line) in queues.iter().flat_map(|queue| &queue.drops) {
        let dropped = line.growth(from, until);
        if dropped > 0 {
            *record.drops.entry(reason.clone()).or_default() += dropped;
        }
    }
    record.waits_ns = waits(described, &queues, packets, scenario.probes.queue_interval, times);
    let wanted = scenario.probes.links.iter().any(|l| l.0 == link);
    let limited = described.rate.is_some() || described.trace.is_some();
    if wanted || scenario.probes.links.is_empty() && limited {
        record.queues = series(&queues, scenario.probes.queue_interval, until, wanted);
    }
    record
}

fn is_reason(name: &str) -> bool {
    (0..).map_while(DropReason::name_of_index).any(|reason| reason == name)
}

/// The counters `PREFIXREASON` of drops.
fn drops<'a>(samples: &'a Samples<'a>, prefix: &str) -> Vec<(String, Line<'a>)> {
    let reasons = samples.names(prefix).filter(|reason| is_reason(reason));
    reasons.map(|reason| (reason.to_owned(), samples.line(&format!("{prefix}{reason}")))).collect()
}

/// The link's own queue.
fn own_queue<'a>(samples: &'a Samples<'a>, element: &str) -> Queue<'a> {
    let bytes = samples.line(&format!("{element}.bytes"));
    Queue {
        name: "queue".to_owned(),
        bytes,
        drops: drops(samples, &format!("{element}.dropped_")),
        borrows: None,
        part: false,
    }
}

/// The queue of a discipline before the link, and those of its classes where it has some of its own: gauges
/// `backlog_bytes_NAME` and counters `borrows_NAME`.
fn discipline_queues<'a>(samples: &'a Samples<'a>, element: &str) -> Vec<Queue<'a>> {
    let line = |counter: &str| samples.line(&format!("{element}.{counter}"));
    let whole = Queue {
        name: DISCIPLINE_QUEUE.to_owned(),
        bytes: line("backlog_bytes"),
        drops: drops(samples, &format!("{element}.dropped_")),
        borrows: None,
        part: false,
    };
    let prefix = format!("{element}.backlog_bytes_");
    let classes = samples.names(&prefix).map(|class| Queue {
        name: class.to_owned(),
        bytes: line(&format!("backlog_bytes_{class}")),
        drops: Vec::new(),
        borrows: Some(line(&format!("borrows_{class}"))),
        part: true,
    });
    [whole].into_iter().chain(classes).collect()
}

/// The queues of a router's classes at a port.
fn class_queues<'a>(samples: &'a Samples<'a>, port: &str) -> Vec<Queue<'a>> {
    let prefix = format!("{port}/");
    let classes = samples.names(&prefix).filter_map(|name| name.strip_suffix(".backlog_bytes"));
    let queue = |class: &str| Queue {
        name: class.to_owned(),
        bytes: samples.line(&format!("{prefix}{class}.backlog_bytes")),
        drops: drops(samples, &format!("{prefix}{class}.dropped_")),
        borrows: Some(samples.line(&format!("{prefix}{class}.borrowed_bytes"))),
        part: false,
    };
    // Inner classes hold nothing.
    let holds =
        |queue: &Queue<'_>| !queue.bytes.is_silent() || queue.drops.iter().any(|(_, d)| !d.is_silent());
    classes.map(queue).filter(holds).collect()
}

/// What the rate of a direction is at an instant; `None` without one.
fn rate_at(way: &Way, at: Instant) -> Option<Rate> {
    let changes = way.changes.iter().filter(|change| change.at.as_nanos() <= at.as_nanos());
    changes.filter_map(|change| change.rate).next_back().or(way.rate).filter(|rate| rate.0 > 0)
}

/// Waiting times of the packets sent inside the window: what waited at the sample before each, at the line's rate.
fn waits(way: &Way, queues: &[Queue<'_>], sent: Line<'_>, interval: Duration, times: &Times) -> Vec<u64> {
    let step = interval.as_nanos().max(1);
    let (from, until) = times.window;
    let stride = sent.growth(from, until) / MAX_WAITS + 1;
    let (mut waits, mut packets, mut at) = (Vec::new(), 0, from);
    while at < until {
        let next = (at + Duration(step)).min(until);
        packets += sent.growth(at, next);
        let backlog: u64 = queues.iter().filter(|queue| !queue.part).map(|queue| queue.bytes.at(at)).sum();
        let wait = rate_at(way, at).map_or(0, |rate| rate.time_for(Bytes(backlog)).as_nanos());
        let count = packets / stride;
        waits.extend(std::iter::repeat_n(wait, count as usize));
        packets -= count * stride;
        at = next;
    }
    waits
}

/// The queues over time; those of a link that lost nothing only where they were asked for.
fn series(queues: &[Queue<'_>], interval: Duration, end: Instant, wanted: bool) -> Vec<QueueSeries> {
    let one = |queue: &Queue<'_>| {
        let drops: Vec<Line<'_>> = queue.drops.iter().map(|(_, line)| *line).collect();
        queue_series(&queue.name, interval, end, &[queue.bytes], &drops, queue.borrows)
    };
    let dropped = queues.iter().flat_map(|queue| &queue.drops).any(|(_, line)| !line.is_silent());
    if wanted || dropped || queues.len() > 1 { queues.iter().map(one).collect() } else { Vec::new() }
}
