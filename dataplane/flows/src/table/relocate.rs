//! Connections that go to another table, and come from one.

use super::{ConnectionTable, Entry, FlowKey, NONE, Overflow, TICK_MS};
use perhop_units::Instant;
use perhop_wire::protocol;

impl ConnectionTable {
    /// Connections for which there is room.
    pub fn room(&self) -> usize {
        self.capacity - self.live - self.departed
    }

    /// Takes connection `n` out, with its further verdicts. Its place stays in the wheel, and comes free when its turn comes.
    pub fn take_out(&mut self, n: u32) -> Option<(Entry, Option<Overflow>)> {
        let entry = *self.entry(n)?;
        debug_assert!(self.find(self.hash(&entry.key), &entry.key) == Some(n), "a connection has one place");
        let hash = self.hash(&entry.key);
        self.index.remove(hash, n);
        self.live -= 1;
        self.departed += 1;
        self.others -= usize::from(entry.key.protocol() != protocol::UDP);
        let overflow = self.overflow.get(entry.overflow as usize).copied();
        if overflow.is_some() {
            self.overflow_free.push(entry.overflow);
        }
        let left = self.entry_mut(n);
        (left.live, left.overflow) = (false, NONE);
        Some((entry, overflow))
    }

    /// Adds a connection that was in another table; its number here, or `None` when it is there already or there is no room.
    /// It is looked at with the next turn of the wheel. Without room for further verdicts they are made again.
    pub fn put_in(&mut self, now: Instant, entry: Entry, overflow: Option<Overflow>) -> Option<u32> {
        let key: FlowKey = entry.key;
        let hash = self.hash(&key);
        if self.find(hash, &key).is_some() {
            return None;
        }
        let n = self.place(now)?;
        self.entries[n as usize] = Entry { next: NONE, overflow: NONE, ..entry };
        self.others += usize::from(key.protocol() != protocol::UDP);
        self.index.insert(hash, n);
        self.link(n, now.as_nanos() / 1_000_000, TICK_MS);
        if let Some(further) = overflow
            && let Some(here) = self.overflow_mut(n)
        {
            *here = further;
        }
        Some(n)
    }
}
