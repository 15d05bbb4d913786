//! Packets without a connection of their own: later fragments, a full table, no IP.

use super::{Flows, Outcome};
use crate::classifier::Key;
use crate::table::{FragmentKey, Told};
use perhop_packet::{Meta, NO_CONNECTION};
use perhop_units::Instant;
use perhop_wire::Fragment;

impl Flows {
    /// A packet for which the table has no room.
    #[cold]
    pub(super) fn stateless(&mut self, meta: &mut Meta, frame: &[u8]) {
        self.counters.table_full_stateless += 1;
        let key = Key::of(frame, &meta.layout, meta.in_port).filter(|_| self.stateless_left > 0);
        let verdict = match key {
            Some(key) => {
                self.stateless_left -= 1;
                self.classify(&key)
            }
            None => {
                self.counters.stateless_over_budget += 1;
                self.default_verdict()
            }
        };
        let outcome = Outcome { verdict, connection: NO_CONNECTION, reverse: false, realtime: false };
        self.write(meta, &outcome);
        if meta.layout.fragment == Fragment::First {
            self.note_fragment(meta, frame, &outcome);
        }
    }

    /// A later fragment, or no IP packet.
    #[cold]
    pub(super) fn unconnected(&mut self, meta: &mut Meta, frame: &[u8], now: Instant) {
        let key = if meta.parsed { Key::of(frame, &meta.layout, meta.in_port) } else { None };
        let Some(key) = key else {
            self.counters.not_ip += 1;
            let verdict = self.default_verdict();
            return self.write(
                meta,
                &Outcome { verdict, connection: NO_CONNECTION, reverse: false, realtime: false },
            );
        };
        let fragment = self.fragment_key(&key, meta);
        if let Some(told) = self.table.fragments.find(now, self.table.seed(), &fragment) {
            let Told { verdict, connection, reverse, realtime } = *told;
            self.counters.fragments_followed += 1;
            // The connection may be another by now only if it went silent before its own fragments came.
            return self.write(meta, &Outcome { verdict, connection, reverse, realtime });
        }
        self.counters.fragments_orphaned += 1;
        let verdict = if self.stateless_left > 0 {
            self.stateless_left -= 1;
            self.classify(&key)
        } else {
            self.counters.stateless_over_budget += 1;
            self.default_verdict()
        };
        self.write(meta, &Outcome { verdict, connection: NO_CONNECTION, reverse: false, realtime: false });
    }

    fn fragment_key(&self, key: &Key, meta: &Meta) -> FragmentKey {
        FragmentKey::new(key.src, key.dst, &meta.layout, self.settings.domain(meta.in_port))
    }

    #[cold]
    pub(super) fn note_fragment(&mut self, meta: &Meta, frame: &[u8], outcome: &Outcome) {
        let Some(key) = Key::of(frame, &meta.layout, meta.in_port) else { return };
        let until = meta.received_at + self.longest_life();
        if let Some(buckets) = &mut self.buckets {
            buckets.note_piece(meta, frame, until);
        }
        let Outcome { verdict, connection, reverse, realtime } = *outcome;
        let fragment = self.fragment_key(&key, meta);
        let seed = self.table.seed();
        let told = Told { verdict, connection, reverse, realtime };
        let lost = self.table.fragments.note(meta.received_at, seed, fragment, told);
        self.counters.fragments_displaced += u64::from(lost);
    }
}
