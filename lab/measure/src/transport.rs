//! Figures of TCP connections that are followed one by one: rates of payload, delays of segments, what was sent again.
//!
//! The window of a sliding rate is 5 s and looks back beyond the part of the time that is measured; a rate is sampled
//! whenever data are read, so a stall counts once, when it ends. The delay of a segment that is first sent inside the part
//! is from then to the first acknowledgement that covers it, less the latency of the path there and back (ESDL) or of the
//! way back alone (SDL): propagation by the scenario at the time of sending, without jitter. It holds the time on the lines
//! and the wait of a delayed acknowledgement. A segment that was not acknowledged by the end has none.
//!
//! Source: S. Reddy, WPI 2004, chapter 7 (throughput, SDL and ESDL, utilisation).

use crate::recording::{ConnectionRecord, Recording, Toward};
use crate::selection::{Measured, Selection, payload_kbps};
use perhop_report::details::FlowFigures;
use perhop_report::result::GroupResult;
use perhop_report::transport::{ConnectionUse, Goodput, Retransmits, SegmentDelay, SlidingGoodput};
use perhop_scenario::figures::limit_name;
use perhop_scenario::{Paths, Scenario, Tcp};
use perhop_units::{Duration, Instant};

/// Length of the sliding window.
const SLIDING: Duration = Duration::from_secs(5);

/// Mean and variance, one value after the other (Welford 1962), and the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
    max: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.max = if self.count == 0 { value } else { self.max.max(value) };
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn stdev(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }

    fn delay(&self) -> Option<SegmentDelay> {
        let Self { count, mean, max, .. } = *self;
        (count > 0).then(|| SegmentDelay { mean, stdev: self.stdev(), max, ..SegmentDelay::default() })
    }
}

/// Delays of segments, and how many are at or above each limit.
#[derive(Clone, Debug, Default)]
struct Delays {
    excess: Moments,
    one_way: Moments,
    over: Vec<u64>,
}

/// The path of a connection.
#[derive(Clone, Copy)]
struct Path<'a> {
    scenario: &'a Scenario,
    paths: &'a Paths,
    connection: &'a ConnectionRecord,
}

impl Path<'_> {
    /// Latency from its sender to its receiver and of the way back, for what is sent at an instant.
    fn latency(&self, at: Instant) -> Option<(Duration, Duration)> {
        let of = self.connection.of;
        let traffic = &self.scenario.traffic[of.traffic];
        let (first, second) = traffic.pairs[of.pair];
        let (from, to) = if of.toward == Toward::Second { (first, second) } else { (second, first) };
        let access = traffic.kind.access_delay(self.connection.slot);
        let way = |from, to| {
            let path = self.paths.latency(self.scenario, from, to, Duration(at.as_nanos()))?;
            Some(Duration(path.0.saturating_add(access.0)))
        };
        Some((way(from, to)?, way(to, from)?))
    }

    /// There and back, ms.
    fn round_trip_ms(&self) -> Option<f64> {
        let (there, back) = self.latency(self.connection.opened)?;
        Some(there.as_millis_f64() + back.as_millis_f64())
    }
}

/// Adds the figures of connections to a group of them.
pub(crate) fn add(
    group: &mut GroupResult,
    (scenario, paths): (&Scenario, &Paths),
    (selection, measured): (Selection, Measured),
    recordings: &[Recording],
) {
    let share = share_kbps(scenario.traffic[selection.traffic].kind.tcp());
    let limits = &scenario.probes.delay_limits;
    let (mut goodput, mut used, mut sliding) = (Vec::new(), Vec::new(), Vec::new());
    let mut delays = Delays { over: vec![0; limits.len()], ..Delays::default() };
    let mut sent: Option<(u64, u64)> = None;
    for recording in recordings {
        let part = measured.of(recording);
        for connection in recording.connections.iter().filter(|c| selection.has(&c.of)) {
            let path = Path { scenario, paths, connection };
            if let Some(kbps) = payload_kbps(recording, connection, measured) {
                goodput.push(kbps);
                used.extend(share.zip(path.round_trip_ms()).map(|(share, ms)| (kbps / share * 100.0, ms)));
            }
            sliding.extend(sliding_kbps(connection, part));
            if let Some((first, again)) = counts(connection, part) {
                let (all, repeated) = sent.get_or_insert((0, 0));
                (*all, *repeated) = (*all + first + again, *repeated + again);
            } else if let Some(again) = kernel_count(recording, connection, part) {
                sent.get_or_insert((0, 0)).1 += again;
            }
            add_delays(path, part, limits, &mut delays);
        }
    }
    group.goodput_kbps = Goodput::of(&goodput);
    group.utilisation_pct = ConnectionUse::of(&used);
    group.goodput_5s_kbps = SlidingGoodput::of(&sliding);
    let pct = |n: u64, of: u64| n as f64 / of as f64 * 100.0;
    group.retransmits =
        sent.map(|(all, count)| Retransmits { count, share_pct: (all > 0).then(|| pct(count, all)) });
    group.sdl_ms = delays.one_way.delay();
    group.esdl_ms = delays.excess.delay().map(|delay| SegmentDelay {
        over_pct: limits
            .iter()
            .zip(&delays.over)
            .map(|(limit, over)| (limit_name(*limit), pct(*over, delays.excess.count)))
            .collect(),
        ..delay
    });
}

fn share_kbps(tcp: Option<&Tcp>) -> Option<f64> {
    Some(tcp?.share?.bits_per_sec() as f64 / 1e3)
}

/// Segments first sent, and sent again, in a part of the time; `None` where they are not followed.
fn counts(connection: &ConnectionRecord, (from, until): (Instant, Instant)) -> Option<(u64, u64)> {
    let log = connection.segments.as_ref()?;
    let inside = |at: Instant| at >= from && at < until;
    let first = log.segments().iter().filter(|segment| inside(segment.sent)).count();
    let again = log.again().iter().filter(|at| inside(**at)).count();
    Some((first as u64, again as u64))
}

/// What the kernel counted of a connection that is followed: over its whole life, so only of a part that has all of it.
fn kernel_count(
    recording: &Recording,
    connection: &ConnectionRecord,
    (from, until): (Instant, Instant),
) -> Option<u64> {
    let whole = connection.opened >= from && until >= recording.window.1;
    connection.retransmits.filter(|_| whole && connection.reads.is_some() && connection.segments.is_none())
}

/// Adds the delays of the segments that a connection first sent in a part of the time.
fn add_delays(path: Path<'_>, (from, until): (Instant, Instant), limits: &[Duration], delays: &mut Delays) {
    let segments = path.connection.segments.iter().flat_map(|log| log.segments());
    for segment in segments.filter(|s| s.sent >= from && s.sent < until && s.covered != Instant::FAR_FUTURE) {
        let Some((there, back)) = path.latency(segment.sent) else { return };
        let took = segment.covered.since(segment.sent).as_nanos() as i64;
        let one_way = took - back.as_nanos() as i64;
        let excess = one_way - there.as_nanos() as i64;
        delays.one_way.add(one_way as f64 / 1e6);
        delays.excess.add(excess as f64 / 1e6);
        for (limit, over) in limits.iter().zip(&mut delays.over) {
            *over += u64::from(excess >= limit.as_nanos() as i64);
        }
    }
}

/// Mean and standard deviation over time of a connection's rate in the sliding window; `None` with fewer than two samples.
fn sliding_kbps(connection: &ConnectionRecord, (from, until): (Instant, Instant)) -> Option<(f64, f64)> {
    let reads = connection.reads.as_ref()?.reads();
    let mut moments = Moments::default();
    let (mut first, mut bytes) = (0, 0);
    for (at, read) in reads.iter().take_while(|(at, _)| *at < until) {
        bytes += read;
        while let Some((_, old)) = reads.get(first).filter(|(begin, _)| at.since(*begin) >= SLIDING) {
            bytes -= old;
            first += 1;
        }
        if *at >= from {
            moments.add(bytes as f64 * 8.0 / SLIDING.as_secs_f64() / 1e3);
        }
    }
    Some((moments.mean, moments.stdev()?))
}

/// Figures of every connection of a group whose segments are followed, in the order in which they were opened.
pub(crate) fn flows(
    scenario: &Scenario,
    paths: &Paths,
    (name, selection, measured): (&str, Selection, Measured),
    (repetition, recording): (u32, &Recording),
) -> Vec<FlowFigures> {
    let part = measured.of(recording);
    let share = share_kbps(scenario.traffic[selection.traffic].kind.tcp());
    let followed =
        |c: &&ConnectionRecord| selection.has(&c.of) && (c.reads.is_some() || c.segments.is_some());
    let of_group = (1..).zip(recording.connections.iter().filter(followed));
    let flows = of_group.map(|(number, connection)| {
        let path = Path { scenario, paths, connection };
        let mut delays = Delays::default();
        add_delays(path, part, &[], &mut delays);
        let goodput = payload_kbps(recording, connection, measured);
        let counts = counts(connection, part);
        FlowFigures {
            group: name.to_owned(),
            repetition,
            number,
            latency_ms: path.round_trip_ms(),
            goodput_kbps: goodput,
            utilisation_pct: goodput.zip(share).map(|(kbps, share)| kbps / share * 100.0),
            sliding_kbps: sliding_kbps(connection, part),
            esdl_ms: delays.excess.stdev().map(|stdev| [delays.excess.mean, stdev, delays.excess.max]),
            segments: counts.map(|(first, _)| first),
            retransmits: counts.map(|(_, again)| again),
        }
    });
    flows.collect()
}

#[cfg(test)]
#[path = "transport_tests.rs"]
pub(crate) mod tests;
