//! Who goes next by WF²Q+, as a plain structure.

use super::super::law::Law;
use super::calendar::{Calendar, SLOTS};
use perhop_units::Instant;

/// Fraction bits of virtual time, whose unit is a byte sent by the line.
const FRACTION: u32 = 12;
/// How far back of the present the buckets reach, in buckets.
const BEHIND: u64 = SLOTS as u64 / 4;
/// How far ahead.
const AHEAD: u64 = SLOTS as u64 / 2;

/// Where a leaf is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Idle,
    /// Its packet would not have begun yet in the ideal: by start tag.
    Waiting,
    /// By finish tag.
    Eligible,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    /// Virtual time that a byte takes, with [`FRACTION`] fraction bits.
    per_byte: u64,
    start: u64,
    finish: u64,
    place: Place,
}

/// Virtual time and the tags of all leaves. Tags go round after 2⁵² bytes; differences count.
#[derive(Debug)]
pub struct Wf2qTags {
    leaves: Vec<Leaf>,
    virtual_time: u64,
    /// A bucket is 2 to this power wide.
    width_log2: u32,
    waiting: Calendar,
    eligible: Calendar,
    backlogged: usize,
}

/// `a` − `b` of tags that go round.
fn apart(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}

impl Wf2qTags {
    /// Idle leaves with these weights, 1 … 65,535 of them, each 1 … 1,000. `frame` is the largest frame in bytes, at most
    /// 65,536.
    pub fn new(weights: &[u32], frame: u64) -> Self {
        let weight = |w: &u32| u64::from((*w).clamp(1, 1000));
        let sum: u64 = weights.iter().map(weight).sum();
        let per_byte = |w: &u32| (sum << FRACTION).div_ceil(weight(w));
        let leaf = |w: &u32| Leaf { per_byte: per_byte(w), start: 0, finish: 0, place: Place::Idle };
        let leaves: Vec<Leaf> = weights.iter().take(usize::from(u16::MAX)).map(leaf).collect();
        let slowest = leaves.iter().map(|l| l.per_byte).max().unwrap_or(1);
        // The tags of the largest frame of the smallest weight reach half round, those of a frame of the line's a
        // sixteenth back.
        let least = (slowest * frame).div_ceil(AHEAD).max((frame << FRACTION).div_ceil(BEHIND / 4)).max(1);
        Self {
            waiting: Calendar::new(leaves.len()),
            eligible: Calendar::new(leaves.len()),
            leaves,
            virtual_time: 0,
            width_log2: least.next_power_of_two().trailing_zeros(),
            backlogged: 0,
        }
    }

    /// Leaves that have a packet.
    pub fn backlogged(&self) -> usize {
        self.backlogged
    }

    /// The width of a bucket, rounded up: tags are right within so many bytes of the line.
    pub fn quantum_bytes(&self) -> u64 {
        (1u64 << self.width_log2).div_ceil(1 << FRACTION)
    }

    fn slot(&self, tag: u64) -> usize {
        // A tag beyond the ring's reach, which only frames above the largest have, is put at its end.
        let bucket = tag >> self.width_log2;
        let present = self.virtual_time >> self.width_log2;
        let mask = u64::MAX >> self.width_log2;
        let distance = bucket.wrapping_sub(present).wrapping_add(BEHIND) & mask;
        let distance = if distance > mask / 2 { 0 } else { distance.min(SLOTS as u64 - 1) };
        self.origin().wrapping_add(distance as usize) % SLOTS
    }

    /// The bucket that is furthest back.
    fn origin(&self) -> usize {
        ((self.virtual_time >> self.width_log2).wrapping_sub(BEHIND) % SLOTS as u64) as usize
    }

    /// An idle leaf got a packet of `len` bytes. O(1).
    pub fn became_active(&mut self, leaf: usize, len: u64) {
        let finish = self.leaves[leaf].finish;
        let start = if apart(finish, self.virtual_time) > 0 { finish } else { self.virtual_time };
        self.backlogged += 1;
        self.enter(leaf, start, len);
    }

    fn enter(&mut self, leaf: usize, start: u64, len: u64) {
        let at = &mut self.leaves[leaf];
        at.start = start;
        at.finish = start.wrapping_add(at.per_byte * len);
        let finish = at.finish;
        let waits = apart(start, self.virtual_time) >= 1 << self.width_log2;
        at.place = if waits { Place::Waiting } else { Place::Eligible };
        if waits {
            self.waiting.push(self.slot(start), leaf as u16);
        } else {
            self.eligible.push(self.slot(finish), leaf as u16);
        }
    }

    /// The leaf that goes next; the same until something changes. O(1), but for leaves that have become eligible since.
    pub fn choose(&mut self) -> Option<usize> {
        self.admit();
        let origin = self.origin();
        let slot = origin + self.eligible.first(origin)?;
        self.eligible.front(slot).map(usize::from)
    }

    /// Moves leaves whose packet has begun in the ideal to those that may go.
    fn admit(&mut self) {
        while !self.waiting.is_empty() {
            let origin = self.origin();
            let Some(distance) = self.waiting.first(origin) else { break };
            let mut ahead = distance as u64;
            if ahead > BEHIND {
                if !self.eligible.is_empty() {
                    break;
                }
                // Nobody may go: virtual time is the earliest start.
                let Some(leaf) = self.waiting.front(origin + distance) else { break };
                let start = self.leaves[usize::from(leaf)].start;
                // Others of the bucket may begin earlier by less than its width.
                self.virtual_time = start & !((1 << self.width_log2) - 1);
                ahead = BEHIND;
            }
            let slot = self.origin() as u64 + ahead;
            let Some(leaf) = self.waiting.pop(slot as usize) else { break };
            let leaf_at = &mut self.leaves[usize::from(leaf)];
            leaf_at.place = Place::Eligible;
            let finish = leaf_at.finish;
            self.eligible.push(self.slot(finish), leaf);
        }
    }

    /// The leaf that [`Wf2qTags::choose`] gave sent `len` bytes and has a next packet of `next` bytes, or none. O(1).
    pub fn sent(&mut self, leaf: usize, len: u64, next: Option<u64>) {
        self.remove_chosen(leaf);
        self.virtual_time = self.virtual_time.wrapping_add(len << FRACTION);
        let at = &mut self.leaves[leaf];
        // What it sent counts, even if it announced something else.
        at.finish = at.start.wrapping_add(at.per_byte * len);
        let start = at.finish;
        match next {
            Some(len) => self.enter(leaf, start, len),
            None => self.became_idle(leaf),
        }
    }

    /// The leaf that [`Wf2qTags::choose`] gave has nothing to send after all. O(1).
    pub fn withdrawn(&mut self, leaf: usize) {
        self.remove_chosen(leaf);
        self.leaves[leaf].finish = self.leaves[leaf].start;
        self.became_idle(leaf);
    }

    fn became_idle(&mut self, leaf: usize) {
        self.leaves[leaf].place = Place::Idle;
        self.backlogged -= 1;
    }

    fn remove_chosen(&mut self, leaf: usize) {
        let origin = self.origin();
        if let Some(distance) = self.eligible.first(origin) {
            let taken = self.eligible.pop(origin + distance);
            debug_assert_eq!(taken, Some(leaf as u16), "only the chosen leaf sends");
        }
    }
}

impl Law for Wf2qTags {
    fn became_active(&mut self, _now: Instant, leaf: usize, len: u64) {
        self.became_active(leaf, len);
    }

    fn choose(&mut self, _now: Instant) -> Option<usize> {
        self.choose()
    }

    fn sent(&mut self, _now: Instant, leaf: usize, len: u64, next: Option<u64>, _came: Instant) {
        self.sent(leaf, len, next);
    }

    fn withdrawn(&mut self, _now: Instant, leaf: usize) {
        self.withdrawn(leaf);
    }
}

#[cfg(test)]
impl Wf2qTags {
    /// The same, its tags about to go round after so many bytes.
    pub(super) fn about_to_wrap(mut self, bytes: u64) -> Self {
        self.virtual_time = (bytes << FRACTION).wrapping_neg();
        self.leaves.iter_mut().for_each(|leaf| leaf.finish = self.virtual_time);
        self
    }
}
