//! The bounded ring of events; a reader never blocks the router.

use perhop_model::{Event, EventFilter, EventKind, EventsPage};
use perhop_units::Instant;
use std::collections::VecDeque;

/// Events kept for readers.
pub const RING: usize = 8192;

/// The ring.
#[derive(Debug)]
pub struct Events {
    epoch: u64,
    next_seq: u64,
    ring: VecDeque<Event>,
}

impl Events {
    /// An empty ring; the first event has sequence number 1.
    pub fn new(epoch: u64) -> Self {
        Self { epoch, next_seq: 1, ring: VecDeque::new() }
    }

    /// Appends an event, forgetting the oldest beyond [`RING`].
    pub fn push(&mut self, now: Instant, kind: EventKind) -> &Event {
        if self.ring.len() >= RING {
            self.ring.pop_front();
        }
        let event = Event { epoch: self.epoch, seq: self.next_seq, at_ns: now.as_nanos(), kind };
        self.next_seq += 1;
        self.ring.push_back(event);
        &self.ring[self.ring.len() - 1]
    }

    /// Up to `limit` events after `seq`; starts with a `gap` when some of them are forgotten.
    pub fn after(&self, seq: u64, limit: usize) -> Vec<Event> {
        self.page(seq, &EventFilter::default(), limit).events
    }

    /// Of the events after `seq` up to `limit` that the filter wants, and up to where that is all; starts with a `gap` when
    /// some events are forgotten, be they wanted or not. O(events after `seq`).
    pub fn page(&self, seq: u64, filter: &EventFilter, limit: usize) -> EventsPage {
        // A number from the future was read in another epoch: this one starts from its beginning.
        let seq = if seq >= self.next_seq { 0 } else { seq };
        let first = self.ring.front().map_or(self.next_seq, |e| e.seq);
        let mut out = Vec::new();
        if seq + 1 < first {
            out.push(Event {
                epoch: self.epoch,
                seq: first - 1,
                at_ns: self.ring.front().map_or(0, |e| e.at_ns),
                kind: EventKind::Gap { from: seq + 1, to: first - 1 },
            });
        }
        let skip = (seq + 1).saturating_sub(first) as usize;
        let mut wanted = self.ring.iter().skip(skip).filter(|event| filter.wants(&event.kind));
        out.extend(wanted.by_ref().take(limit).cloned());
        // Where nothing more is wanted all has been looked at.
        let all = wanted.next().is_none();
        let upto = if all { self.latest() } else { out.last().map_or(seq, |event| event.seq) };
        EventsPage { events: out, upto }
    }

    /// Events kept.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks that")]
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// Sequence number of the latest event, 0 before the first.
    pub fn latest(&self) -> u64 {
        self.next_seq - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up() -> EventKind {
        EventKind::PortUp { port: "wan".to_owned() }
    }

    #[test]
    fn a_slow_reader_gets_a_gap_and_goes_on() {
        let mut events = Events::new(7);
        for _ in 0..RING + 10 {
            events.push(Instant::ZERO, up());
        }
        let got = events.after(3, 5);
        assert_eq!(got[0].kind, EventKind::Gap { from: 4, to: 10 });
        assert_eq!(got[1].seq, 11);
        assert_eq!(got.len(), 6);
        assert_eq!(events.after(events.latest(), 5), vec![]);
        assert_eq!(events.after(0, 1)[0].kind, EventKind::Gap { from: 1, to: 10 });
    }

    #[test]
    fn a_reader_gets_what_it_wants_and_goes_on_behind_what_it_does_not() {
        let mut events = Events::new(7);
        let down = || EventKind::PortDown { port: "wan".to_owned() };
        // 1 up, 2 down, 3 up, …
        for i in 0..100 {
            events.push(Instant::ZERO, if i % 2 == 0 { up() } else { down() });
        }
        let ups = EventFilter { types: Some(vec!["port_up"]), ..EventFilter::default() };
        let (mut seq, mut got) = (0, Vec::new());
        while seq < events.latest() {
            let page = events.page(seq, &ups, 7);
            assert!(page.events.len() <= 7 && page.upto > seq);
            got.extend(page.events.iter().map(|e| e.seq));
            seq = page.upto;
        }
        assert_eq!(got, (1..100).step_by(2).collect::<Vec<u64>>());
        let none = EventFilter { types: Some(vec!["expired"]), ..EventFilter::default() };
        assert_eq!(events.page(3, &none, 7), EventsPage { events: Vec::new(), upto: 100 });
        assert_eq!(events.page(0, &ups, 0), EventsPage { events: Vec::new(), upto: 0 });
    }
}
