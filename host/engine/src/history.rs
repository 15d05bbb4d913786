//! What a router remembers of itself for who looks later: packets dropped in the last hour, calls that have ended, and what
//! classes had sent a while ago, from which their rates follow.
//!
//! It is told all counters every [`LOOK`], and again when somebody wants to see them. Everything has a limit: of
//! places and reasons of drops the first [`PLACES`] are kept, and of calls the latest [`CALLS`].

use crate::graph_forwarder::is_reason;
use crate::report::Row;
use crate::show::{REALTIME, flow_text, quality};
use perhop_flows::{CallInfo, FlowEvent, FlowEventKind, HereInfo};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Time between two looks at all counters.
pub(crate) const LOOK: Duration = Duration::from_secs(10);
/// A look less than this after another does not replace it; they are never evenly spaced.
const LOOKS_APART: Duration = Duration::from_secs(9);
/// Places and reasons of drops that are told apart.
const PLACES: usize = 4_096;
/// Calls kept, and for how long.
const CALLS: usize = 1_000;
const HOUR: Duration = Duration::from_secs(3_600);
/// Ends of calls that their last reports may be behind: packet threads tell them one after the other.
const LAST_REPORTS: usize = 64;
/// Parts of an hour in which drops are counted.
const MINUTES: usize = 60;
const MINUTE_NS: u64 = 60_000_000_000;

/// Drops at one place for one reason.
#[derive(Clone, Debug)]
struct Drops {
    total: u64,
    /// Of the last hour, by minute of the router's clock, and the minute counted last.
    minutes: Box<[u64; MINUTES]>,
    minute: u64,
}

impl Drops {
    fn new(minute: u64) -> Self {
        Self { total: 0, minutes: Box::new([0; MINUTES]), minute }
    }

    /// Empties minutes of an hour ago.
    fn advance(&mut self, minute: u64) {
        for passed in self.minute + 1..=minute.min(self.minute + MINUTES as u64) {
            self.minutes[(passed % MINUTES as u64) as usize] = 0;
        }
        self.minute = self.minute.max(minute);
    }

    fn note(&mut self, minute: u64, total: u64) {
        self.advance(minute);
        self.minutes[(self.minute % MINUTES as u64) as usize] += total.saturating_sub(self.total);
        self.total = total;
    }
}

/// What a class had sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    packets: u64,
    bytes: u64,
    waited_us: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct History {
    drops: BTreeMap<(String, String), Drops>,
    /// Of classes by name, at the last look and the one before.
    looks: [(Instant, HashMap<String, Sent>); 2],
    last_reports: VecDeque<(String, CallInfo, HereInfo)>,
    ended: VecDeque<(Instant, Row)>,
}

/// Counters of ports that count packets which ended there.
const PORT: [&str; 11] = [
    "rx_no_buffer",
    "rx_too_long",
    "rx_ring_lost",
    "rx_not_ip",
    "tx_failed",
    "tx_too_long",
    "tx_refused",
    "tx_not_ip",
    "tx_down_dropped",
    "tx_overflow",
    "own_too_long",
];

/// Why packets ended that a row's counter of this name counts; `None` if they did not, or are another row's: trees and
/// conditioners have some for each class, contract and profile.
fn reason<'c>(row: &Row, counter: &'c str) -> Option<&'c str> {
    let is_counted_apart = || row.facts.get("type").is_some_and(|t| t == "Egress" || t == "Conditioner");
    match row.kind.as_str() {
        "port" => PORT.contains(&counter).then_some(counter),
        "class" if counter == "dropped_bytes" => None,
        "class" => counter.strip_prefix("dropped_"),
        "element" if is_counted_apart() => None,
        // Queues count by themselves what they dropped for all reasons together.
        "element" => counter.strip_prefix("dropped_").filter(|name| is_reason(name)),
        REALTIME | "profile" => (counter == "dropped_packets").then_some("policed"),
        "sla" => (counter == "dropped_packets").then_some("sla_policy"),
        _ => None,
    }
}

/// Why packets ended here, and how many.
fn drops(row: &Row) -> Vec<(String, u64)> {
    let counters = row.counters.iter().filter(|(_, count)| **count > 0);
    counters.filter_map(|(name, count)| Some((reason(row, name)?.to_owned(), *count))).collect()
}

impl History {
    /// All counters as they are at `at`.
    pub(crate) fn note(&mut self, at: Instant, rows: &[Row]) {
        self.note_drops(at, rows);
        let [last, before] = &mut self.looks;
        if at.since(last.0) >= LOOKS_APART {
            std::mem::swap(last, before);
            let classes = rows.iter().filter(|row| row.kind == "class");
            *last = (at, classes.map(|row| (row.name.clone(), sent(row))).collect());
        }
    }

    fn note_drops(&mut self, at: Instant, rows: &[Row]) {
        let minute = at.0 / MINUTE_NS;
        for row in rows {
            for (reason, total) in drops(row) {
                let note = if row.kind == REALTIME { " (real-time)" } else { "" };
                let key = (format!("{}{note}", row.name), reason);
                if self.drops.len() < PLACES || self.drops.contains_key(&key) {
                    self.drops.entry(key).or_insert_with(|| Drops::new(minute)).note(minute, total);
                }
            }
        }
    }

    /// Gives classes their rates and waiting times since 10 to 20 s ago, or since the last look there was.
    pub(crate) fn rates(&self, at: Instant, rows: &mut [Row]) {
        let [last, before] = &self.looks;
        for row in rows.iter_mut().filter(|row| row.kind == "class") {
            let then = [before, last].into_iter().find_map(|(then, sent)| {
                Some((at.since(*then).as_nanos(), sent.get(&row.name)?)).filter(|(ns, _)| *ns > 0)
            });
            let Some((ns, then)) = then else { continue };
            let now = sent(row);
            let a_second = |more: u64| (u128::from(more) * 1_000_000_000 / u128::from(ns)) as u64;
            let packets = now.packets.saturating_sub(then.packets);
            row.counters.insert("rate_bps".to_owned(), a_second(8 * now.bytes.saturating_sub(then.bytes)));
            row.counters.insert("packets_per_second".to_owned(), a_second(packets));
            let waited = now.waited_us.saturating_sub(then.waited_us).checked_div(packets);
            row.counters.insert("wait_mean_us".to_owned(), waited.unwrap_or(0));
        }
    }

    /// Drops by place and reason, those with most in the last hour first.
    pub(crate) fn drop_rows(&mut self, at: Instant) -> Vec<Row> {
        let minute = at.0 / MINUTE_NS;
        let mut rows: Vec<Row> = self
            .drops
            .iter_mut()
            .map(|((place, reason), drops)| {
                drops.advance(minute);
                let mut row = Row::new("drop", place);
                row.facts.insert("reason".to_owned(), reason.clone());
                row.counters.insert("last_hour".to_owned(), drops.minutes.iter().sum());
                row.counters.insert("total".to_owned(), drops.total);
                row
            })
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.counter("last_hour"), row.counter("total"))));
        rows
    }

    /// Something happened to a flow.
    pub(crate) fn flow(&mut self, event: &FlowEvent) {
        match event.kind {
            FlowEventKind::Quality { call, here } => {
                if self.last_reports.len() == LAST_REPORTS {
                    self.last_reports.pop_front();
                }
                self.last_reports.push_back((flow_text(&event.flow), call, here));
            }
            FlowEventKind::Ended => self.ended(event),
            _ => {}
        }
    }

    fn ended(&mut self, event: &FlowEvent) {
        let name = flow_text(&event.flow);
        let mut row = Row::new("call", &name);
        row.facts.insert("state".to_owned(), "ended".to_owned());
        row.facts.insert("realtime".to_owned(), "no".to_owned());
        row.facts.extend(event.reason.map(|reason| ("reason".to_owned(), reason.name().to_owned())));
        row.counters.extend([("packets".to_owned(), event.packets), ("bytes".to_owned(), event.bytes)]);
        // The report at its end came just before.
        if let Some(at) = self.last_reports.iter().rposition(|(of, ..)| *of == name)
            && let Some((_, call, here)) = self.last_reports.remove(at)
        {
            quality(&call, &here, &mut row);
        }
        if self.ended.len() == CALLS {
            self.ended.pop_front();
        }
        self.ended.push_back((event.at, row));
    }

    /// Calls that ended in the last hour, the latest first, with how long ago.
    pub(crate) fn ended_rows(&mut self, now: Instant) -> Vec<Row> {
        self.ended.retain(|(at, _)| now.since(*at) < HOUR);
        let rows = self.ended.iter().rev().map(|(at, row)| {
            let mut row = row.clone();
            row.counters.insert("idle_ms".to_owned(), now.since(*at).as_nanos() / 1_000_000);
            row
        });
        rows.collect()
    }
}

fn sent(row: &Row) -> Sent {
    Sent { packets: row.counter("packets"), bytes: row.counter("bytes"), waited_us: row.counter("waited_us") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, name: &str, counters: &[(&str, u64)]) -> Row {
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Row { counters, ..Row::new(kind, name) }
    }

    fn minutes(n: u64) -> Instant {
        Instant(n * MINUTE_NS)
    }

    #[test]
    fn what_was_dropped_in_the_last_hour_is_told_apart_from_what_was_before() {
        let mut history = History::default();
        let mut look = |minute, full| {
            let rows = [row("class", "wan/be", &[("dropped_queue_full", full), ("dropped_bytes", 9)])];
            history.note(minutes(minute), &rows);
            let rows = history.drop_rows(minutes(minute));
            let of = |name| rows.first().map(|row| row.counter(name));
            (rows.len(), of("last_hour"), of("total"))
        };
        assert_eq!(look(0, 0), (0, None, None));
        assert_eq!(look(1, 5), (1, Some(5), Some(5)));
        assert_eq!(look(30, 12), (1, Some(12), Some(12)));
        assert_eq!(look(60, 12), (1, Some(12), Some(12)));
        assert_eq!(look(61, 12), (1, Some(7), Some(12)));
        assert_eq!(look(90, 13), (1, Some(1), Some(13)));
        assert_eq!(look(500, 13), (1, Some(0), Some(13)));
    }

    #[test]
    fn each_packet_is_counted_at_one_place() {
        let of = |type_: &str| {
            let totals = [("dropped", 4), ("dropped_packets", 4), ("dropped_bytes", 400), ("dropped_ef", 3)];
            let mut element = row("element", "x", &totals);
            element.counters.insert("dropped_no_route".to_owned(), 4);
            element.facts.insert("type".to_owned(), type_.to_owned());
            drops(&element)
        };
        assert_eq!(of("Route"), [("no_route".to_owned(), 4)]);
        assert_eq!((of("Egress"), of("Conditioner")), (Vec::new(), Vec::new()));
        let policed = [("policed".to_owned(), 3)];
        let counters = [("dropped_packets", 3), ("dropped_bytes", 600), ("demoted_packets", 1)];
        assert_eq!(
            ["realtime", "profile"].map(|kind| drops(&row(kind, "ef", &counters))),
            [policed.clone(), policed]
        );
        assert_eq!(
            drops(&row("port", "wan", &[("rx_packets", 3), ("rx_ring_lost", 2)])),
            [("rx_ring_lost".to_owned(), 2)]
        );
    }

    #[test]
    fn classes_have_rates_since_some_seconds_ago() {
        let mut history = History::default();
        let mut look = |ms: u64, packets| {
            let counters = [("packets", packets), ("bytes", 125 * packets), ("waited_us", 3_000 * packets)];
            // Classes that are no objects have no id.
            let mut rows =
                [row("class", "wan/ef", &counters), row("class", "wan/default", &[("packets", 9)])];
            history.note(Instant(ms * 1_000_000), &rows);
            history.rates(Instant(ms * 1_000_000), &mut rows);
            ["rate_bps", "packets_per_second", "wait_mean_us"].map(|name| rows[0].counters.get(name).copied())
        };
        assert_eq!(look(20_000, 100), [None; 3], "nothing is known of before");
        assert_eq!(look(21_000, 150), [50_000, 50, 3_000].map(Some));
        assert_eq!(look(29_900, 595), [50_000, 50, 3_000].map(Some));
        assert_eq!(look(30_000, 600), [50_000, 50, 3_000].map(Some));
        // From the look before the last on.
        assert_eq!(look(32_000, 1_300), [100_000, 100, 3_000].map(Some));
        assert_eq!(look(42_000, 1_300), [58_264, 58, 3_000].map(Some));
    }
}
