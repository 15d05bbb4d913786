//! What links did: from the counters of their emulation and of the router queues that feed them.

use super::emulation::{DISCIPLINE, STOPPED, WAYS};
use super::receive::Times;
use super::routers::Ended;
use super::samples::{Lengths, Line, Samples, queue_series};
use crate::shaping::unwidened;
use perhop_engine::{EmulatorReport, Recording};
use perhop_measure::{LinkRecord, QueueSeries};
use perhop_packet::DropReason;
use perhop_scenario::{LinkIndex, NodeKind, Scenario, Way};
use perhop_units::{Duration, Instant};

/// Name of a discipline's queue in results; that of the link behind it is `queue`.
const DISCIPLINE_QUEUE: &str = "discipline";
/// Most waiting times of one direction.
const MAX_WAITS: usize = 1 << 18;
/// From a router to the link behind it: by how much the kernel's stamp of an arrival may be before the router's time of
/// the departure, and after what time a packet that did not arrive was lost.
const BETWEEN: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(5)];

/// The records of all links, both directions of each. `end` is the end of the run.
pub(super) fn records(
    scenario: &Scenario,
    led: &[[bool; 2]],
    emulated: &[Option<EmulatorReport>],
    routers: &[Ended],
    times: &Times,
) -> Vec<LinkRecord> {
    let mut records = Vec::new();
    for (link, (report, led)) in emulated.iter().zip(led).enumerate() {
        for (way, led) in led.iter().enumerate() {
            let own = report.as_ref().and_then(|report| report.recording.as_ref());
            let feeding = routers.iter().find_map(|router| {
                let port = router.ports.iter().find(|p| (p.link, p.end) == (LinkIndex(link), way))?;
                Some((port.name.as_str(), router.report.recording.as_ref()?))
            });
            let mut record = record(scenario, link, way, own, feeding, times);
            if *led {
                // What it sent took less time than it takes at the link's rate.
                record.busy = unwidened(record.busy);
            }
            records.push(record);
        }
    }
    records
}

/// One queue: its length, its drops by reason, what it borrowed.
struct Queue<'a> {
    name: String,
    bytes: Lengths<'a>,
    drops: Vec<(String, Line<'a>)>,
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
    let own_recording = own.unwrap_or(&empty);
    let own = Samples::new(own_recording, times.epoch);
    let (port, fed) = feeding.unwrap_or(("", &empty));
    let fed_waits = fed.waits.get(port).map_or(&[][..], Vec::as_slice);
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
    let lost_at_ends = lost_at_ends(scenario, link, way, &own, times);
    if lost_at_ends > 0 {
        *record.drops.entry(DropReason::PortDown.name()).or_default() += lost_at_ends;
    }
    record.waits_ns = waits(described, own_recording, WAYS[way], fed_waits, times);
    let wanted = scenario.probes.links.iter().any(|l| l.0 == link);
    let limited = described.rate.is_some() || described.trace.is_some();
    if wanted || scenario.probes.links.is_empty() && limited {
        record.queues = series(&queues, scenario.probes.queue_interval, until, wanted);
    }
    record
}

/// Packets that stopped nodes lost: those that the direction had brought, and those that waited in a router for it. What
/// the kernel of a stopped host still sends was never the scenario's.
fn lost_at_ends(scenario: &Scenario, link: usize, way: usize, own: &Samples<'_>, times: &Times) -> u64 {
    let near = scenario.links[link].ends[way];
    let lost = |suffix: &str| {
        let counter = format!("{}{suffix}.dropped_{}", WAYS[way], DropReason::EmulatedLoss.name());
        own.line(&counter).growth(times.window.0, times.window.1)
    };
    let [from, to] = STOPPED.map(lost);
    to + if scenario.nodes[near.0].kind == NodeKind::Host { 0 } else { from }
}

fn is_reason(name: &str) -> bool {
    (0..).map_while(DropReason::name_of_index).any(|reason| reason == name)
}

/// The counters `PREFIXREASON` of drops.
fn drops<'a>(samples: &'a Samples<'a>, prefix: &str) -> Vec<(String, Line<'a>)> {
    let reasons = samples.names(prefix).filter(|reason| is_reason(reason));
    reasons.map(|reason| (reason.to_owned(), samples.line(&format!("{prefix}{reason}")))).collect()
}

/// The gauges of a queue: `bytes` of a link with what follows, or `backlog_bytes`, `backlog_least`, `backlog_most`.
fn lengths<'a>(samples: &'a Samples<'a>, gauge: &str, class: &str) -> Lengths<'a> {
    let now =
        if gauge.ends_with("backlog") { format!("{gauge}_bytes{class}") } else { format!("{gauge}{class}") };
    let [least, most] = ["least", "most"].map(|end| samples.line(&format!("{gauge}_{end}{class}")));
    Lengths { now: samples.line(&now), least, most }
}

/// The link's own queue.
fn own_queue<'a>(samples: &'a Samples<'a>, element: &str) -> Queue<'a> {
    Queue {
        name: "queue".to_owned(),
        bytes: lengths(samples, &format!("{element}.bytes"), ""),
        drops: drops(samples, &format!("{element}.dropped_")),
        borrows: None,
    }
}

/// The queue of a discipline before the link, and those of its classes where it has some of its own: gauges
/// `backlog_bytes_NAME` and counters `borrows_NAME`.
fn discipline_queues<'a>(samples: &'a Samples<'a>, element: &str) -> Vec<Queue<'a>> {
    let line = |counter: &str| samples.line(&format!("{element}.{counter}"));
    let whole = Queue {
        name: DISCIPLINE_QUEUE.to_owned(),
        bytes: lengths(samples, &format!("{element}.backlog"), ""),
        drops: drops(samples, &format!("{element}.dropped_")),
        borrows: None,
    };
    let prefix = format!("{element}.backlog_bytes_");
    let classes = samples.names(&prefix).map(|class| Queue {
        name: class.to_owned(),
        bytes: lengths(samples, &format!("{element}.backlog"), &format!("_{class}")),
        drops: Vec::new(),
        borrows: Some(line(&format!("borrows_{class}"))),
    });
    [whole].into_iter().chain(classes).collect()
}

/// The queues of a router's classes at a port.
fn class_queues<'a>(samples: &'a Samples<'a>, port: &str) -> Vec<Queue<'a>> {
    let prefix = format!("{port}/");
    let classes = samples.names(&prefix).filter_map(|name| name.strip_suffix(".backlog_bytes"));
    let queue = |class: &str| Queue {
        name: class.to_owned(),
        bytes: lengths(samples, &format!("{prefix}{class}.backlog"), ""),
        drops: drops(samples, &format!("{prefix}{class}.dropped_")),
        borrows: Some(samples.line(&format!("{prefix}{class}.borrowed_bytes"))),
    };
    // Inner classes hold nothing.
    let holds =
        |queue: &Queue<'_>| !queue.bytes.is_silent() || queue.drops.iter().any(|(_, d)| !d.is_silent());
    classes.map(queue).filter(holds).collect()
}

/// How long packets waited for the line that it began on inside the window: from their arrival at the machine before the
/// link, as in the simulator. `own` are the waits at the emulated line, where packets come straight from a forwarder or
/// host; `fed` those in the router before it. None where the line has no limit.
fn waits(way: &Way, own: &Recording, element: &str, fed: &[(u64, u64)], times: &Times) -> Vec<u64> {
    if way.rate.is_none() && way.trace.is_none() {
        return Vec::new();
    }
    let mut own = own.waits.get(element).cloned().unwrap_or_default();
    // A discipline before the line may change the order.
    own.sort_unstable();
    let (from, until) = times.window;
    let mut before = Before::of(fed);
    let mut waits = Vec::new();
    for (came, waited) in own {
        let earlier = before.wait(came);
        let began = Instant(came + waited);
        if began >= times.epoch && (from..until).contains(&times.of(began)) {
            waits.push(waited + earlier);
        }
    }
    let stride = waits.len().div_ceil(MAX_WAITS).max(1);
    waits.into_iter().step_by(stride).collect()
}

/// How long packets had waited in a router when they came to the link behind it. They come in the order in which they
/// left, so the next one is the next one; some may be lost between, and others come from the router's kernel.
struct Before<'a> {
    /// When each came to the router, and how long it waited there, by the time it left.
    waits: &'a [(u64, u64)],
    next: usize,
    last: u64,
}

impl<'a> Before<'a> {
    fn of(waits: &'a [(u64, u64)]) -> Self {
        Self { waits, next: 0, last: 0 }
    }

    fn left(&self, number: usize) -> Option<u64> {
        self.waits.get(number).map(|(came, waited)| came + waited)
    }

    /// The wait of the packet that comes to the link at `came`, which never goes back.
    fn wait(&mut self, came: u64) -> u64 {
        let [early, lost] = BETWEEN.map(Duration::as_nanos);
        let is_due = |left: u64| left <= came + early;
        while self.left(self.next).is_some_and(|left| left + lost <= came)
            && self.left(self.next + 1).is_some_and(is_due)
        {
            self.next += 1;
        }
        if self.left(self.next).is_some_and(is_due) {
            self.last = self.waits[self.next].1;
            self.next += 1;
        }
        self.last
    }
}

/// The queues over time; those of a link that lost nothing only where they were asked for.
fn series(queues: &[Queue<'_>], interval: Duration, end: Instant, wanted: bool) -> Vec<QueueSeries> {
    let one = |queue: &Queue<'_>| {
        let drops: Vec<Line<'_>> = queue.drops.iter().map(|(_, line)| *line).collect();
        queue_series(&queue.name, interval, end, queue.bytes, &drops, queue.borrows)
    };
    let dropped = queues.iter().flat_map(|queue| &queue.drops).any(|(_, line)| !line.is_silent());
    if wanted || dropped || queues.len() > 1 { queues.iter().map(one).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::Rate;

    const LIMITED: Rate = Rate(1_000_000_000);

    fn limited() -> Way {
        Way { rate: Some(LIMITED), ..Way::default() }
    }

    fn times() -> Times {
        Times { epoch: Instant(1000), window: (Instant(10), Instant(100)), bin: Duration(10) }
    }

    fn at_the_line(waits: &[(u64, u64)]) -> Recording {
        Recording { waits: [("ab".to_owned(), waits.to_vec())].into(), ..Recording::default() }
    }

    #[test]
    fn waits_are_those_of_the_packets_that_began_inside_the_window() {
        // They begin at −2, 9, 10, 40, 99 and 100 of the run; the fourth was overtaken by the fifth.
        let own = at_the_line(&[(990, 8), (1005, 4), (1010, 0), (1020, 79), (1015, 25), (1050, 50)]);
        assert_eq!(waits(&limited(), &own, "ab", &[], &times()), [0, 25, 79]);
        assert!(waits(&limited(), &own, "ba", &[], &times()).is_empty());
        assert!(
            waits(&Way::default(), &own, "ab", &[], &times()).is_empty(),
            "no limit, no wait: null, not 0"
        );
    }

    #[test]
    fn a_packet_that_waited_in_a_router_and_at_the_link_waited_for_both() {
        let own = at_the_line(&[(1020, 1), (1021, 2), (1022, 3)]);
        // Two left together, in the router's order.
        let fed = [(1019, 1), (1000, 20), (1005, 16)];
        assert_eq!(waits(&limited(), &own, "ab", &fed, &times()), [2, 22, 19]);
    }

    #[test]
    fn what_is_lost_before_the_link_or_comes_from_the_kernel_shifts_nothing() {
        let ms = 1_000_000;
        // A packet that waited 1 ms and one that waited 7 ms leave together every 10 ms.
        let pair = |i: u64| [(i * 10 * ms - ms, ms), (i * 10 * ms - 7 * ms, 7 * ms)];
        let fed: Vec<(u64, u64)> = (1..=4).flat_map(pair).collect();
        let found = |came: &[u64]| -> Vec<u64> {
            let mut before = Before::of(&fed);
            came.iter().map(|tenth| before.wait(tenth * ms + 1000) / ms).collect()
        };
        assert_eq!(found(&[10, 10, 20, 20, 30, 30, 40, 40]), [1, 7, 1, 7, 1, 7, 1, 7]);
        assert_eq!(found(&[10, 10, 20, 30, 30, 40, 40]), [1, 7, 1, 1, 7, 1, 7], "one is lost");
        assert_eq!(found(&[10, 10, 12, 20, 20, 30, 30]), [1, 7, 7, 1, 7, 1, 7], "one is the kernel's");
    }
}
