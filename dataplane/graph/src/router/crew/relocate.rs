//! Buckets that go from one member to another, with all their connections, while all members stand still.
//!
//! The members that give look for the connections beforehand, between batches. Then all stop as for any change that they put
//! into force together, but more is on its way between them that must have arrived: packets of the buckets may lie in the
//! rings to who has them now, so these are sorted first, and what leaves by ports of others is taken by those. So when the
//! connections go, no packet of theirs is anywhere between a port and the tree where it waits, and what comes next is
//! sorted by who has them then.
//!
//! A bucket stays when it cannot go whole: while a connection of it may belong to pieces of datagrams, while packets wait in
//! front of the trees (for a neighbour's address), when it has more connections than may go at a time, or when there is
//! no room for them. Who gives and who takes says so before anything is touched.

use super::relocation::{Fate, Relocation, Table};
use super::{Member, Worker};
use perhop_element::TimerId;
use perhop_flows::{BUCKETS, Departure};
use perhop_units::Instant;
use std::sync::atomic::Ordering;

/// Connections that one member gives away at a time, at most.
pub const MOST_CONNECTIONS: u32 = 1024;
/// Places of the table of connections looked at between two batches.
const LOOKS: u32 = 1024;

impl Member {
    /// Looks for the connections that are to go, some at a time; `true` when all are found.
    pub(super) fn stage_relocation(&mut self, relocation: &Relocation) -> bool {
        let Some(buckets) = relocation.asked_of(self.me) else { return true };
        let Some(flows) = self.worker.flows_mut() else { return true };
        if !std::mem::replace(&mut self.looking, true) {
            flows.prepare_to_leave(buckets);
        }
        let found = flows.look_for_leaving(LOOKS);
        self.looking = !found;
        found
    }

    /// Sorts what others have handed over before they stopped, a batch a call and never more than those that it leaves to have
    /// taken. `true` when there is no more.
    pub(super) fn sort_rest(&mut self, now: Instant) -> bool {
        self.take_and_answer(now);
        if !self.rounds[self.me].is_answered() {
            return false;
        }
        for ring in &mut self.flows {
            let batch = &mut self.batch;
            if super::take(ring, batch) {
                self.worker.enter(now, batch);
                self.rounds[self.me].ask();
                return false;
            }
        }
        true
    }

    /// Takes what others have sorted, so that they can go on.
    pub(super) fn take_and_answer(&mut self, now: Instant) {
        let questions: Vec<usize> = self.rounds.iter().map(|rounds| rounds.question()).collect();
        while self.take_ways_out(&mut || now) {}
        for (rounds, question) in self.rounds.iter().zip(questions) {
            rounds.answer(self.me, question);
        }
    }

    /// Says which of the buckets that it has are ready to go.
    pub(super) fn promise(&mut self, now: Instant, relocation: &Relocation) {
        let waiting = self.worker.holds_sorted_packets();
        let Some(flows) = self.worker.flows() else { return };
        let mut table = relocation.table();
        let mut left = MOST_CONNECTIONS;
        for (m, fate) in relocation.moves.iter().zip(&mut table.fates).filter(|(m, _)| m.from == self.me) {
            let connections = flows.leaving(m.bucket);
            let stays = waiting
                || connections > left
                || flows.keeps(now, m.bucket)
                || relocation.map.worker(m.bucket) != self.me;
            *fate = if stays { Fate::Stays } else { Fate::Promised(connections) };
            left -= if stays { 0 } else { connections };
        }
    }

    /// Says which of the buckets that are ready it does not take.
    pub(super) fn object(&mut self, now: Instant, relocation: &Relocation) {
        let Some(flows) = self.worker.flows() else { return };
        let mut room = flows.room();
        let mut table = relocation.table();
        for (m, fate) in relocation.moves.iter().zip(&mut table.fates).filter(|(m, _)| m.to == self.me) {
            let Fate::Promised(connections) = *fate else { continue };
            match room.checked_sub(connections as usize).filter(|_| !flows.keeps(now, m.bucket)) {
                Some(less) => room = less,
                None => *fate = Fate::Stays,
            }
        }
    }

    /// Puts the connections of the buckets that go on the table.
    pub(super) fn depart(&mut self, relocation: &Relocation) {
        let Some(flows) = self.worker.flows_mut() else { return };
        let mut table = relocation.table();
        let Table { fates, departures, connections } = &mut *table;
        for to in 0..relocation.members {
            let (mut buckets, mut about) = ([false; BUCKETS], 0);
            for (m, fate) in relocation.moves.iter().zip(&*fates) {
                if let Fate::Promised(n) = fate
                    && (m.from, m.to) == (self.me, to)
                {
                    buckets[m.bucket] = true;
                    about += *n as usize;
                }
            }
            if buckets.contains(&true) {
                let mut departure = Departure::with_room(about);
                flows.depart(&buckets, &mut departure);
                debug_assert!(departure.len() <= about, "what was promised is all there is, as nobody moves");
                *connections += departure.len() as u64;
                departures.push((to, departure));
            }
        }
        flows.stay();
    }

    /// Takes the connections that are for it, and the buckets.
    pub(super) fn arrive(&mut self, now: Instant, relocation: &Relocation) {
        let mut table = relocation.table();
        let Table { fates, departures, .. } = &mut *table;
        let arrives = departures.iter().any(|(to, _)| *to == self.me);
        if let Some(flows) = self.worker.flows_mut().filter(|_| arrives) {
            let mine = departures.iter_mut().filter(|(to, _)| *to == self.me);
            mine.for_each(|(_, departure)| flows.arrive(now, departure));
            self.worker.wake_flows(now);
        }
        for (m, fate) in relocation.moves.iter().zip(fates) {
            if let Fate::Promised(_) = fate
                && m.to == self.me
            {
                relocation.map.give(m.bucket, m.to);
            }
        }
        drop(table);
        let over = relocation.over.fetch_add(1, Ordering::AcqRel);
        debug_assert!(over < relocation.members, "each member does its part once");
    }
}

/// What a worker is asked when connections go.
impl Worker {
    /// Whether packets that have been sorted wait in front of the trees: they are to leave before any that another sorts.
    fn holds_sorted_packets(&self) -> bool {
        let driver = self.driver();
        self.holding_nodes().into_iter().flatten().any(|id| driver.element(id).is_some_and(|e| e.held() > 0))
    }

    /// So that connections which came without a packet are looked at in time.
    fn wake_flows(&mut self, now: Instant) {
        if let Some(id) = self.flows_node() {
            self.driver_mut().wake(now, id, TimerId::MAIN);
        }
    }
}
