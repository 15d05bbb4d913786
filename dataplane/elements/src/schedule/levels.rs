//! Who goes next by strict priority of sixteen levels, as a plain structure: the first level whose leaves have packets, and
//! in a level the leaves in turn, by bytes. A leaf with a ceiling stays below it and lets others go meanwhile.
//!
//! Source: ALTQ's PRIQ (Cho, *A Framework for Alternate Queueing*, USENIX 1998) has the sixteen levels; RFC 3246 §2 names
//! priority as an implementation of expedited forwarding, with a rate limit, which is the ceiling. Turns inside a level are
//! deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).

use super::law::Law;
use perhop_units::{Bytes, Instant, Rate, Tokens};
use std::collections::VecDeque;

/// Levels, 0 … 15; the lowest number is served first.
pub const LEVELS: usize = 16;

/// What one leaf is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelClass {
    /// 0 … 15, the lowest first.
    pub level: u8,
    /// Bytes of a turn among leaves of its level; at least the largest frame, or turns are of one frame.
    pub quantum: u32,
    /// What it never exceeds, and the bytes it may send at once after a rest.
    pub ceiling: Option<(Rate, Bytes)>,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    told: LevelClass,
    deficit: i64,
    tokens: Tokens,
    filled: Instant,
}

impl Leaf {
    /// Earns tokens until `now`. Whether it may send; otherwise when.
    fn ready(&mut self, now: Instant) -> Result<(), Instant> {
        let Some((rate, burst)) = self.told.ceiling else { return Ok(()) };
        let time = now.since(self.filled);
        self.filled = self.filled.max(now);
        self.tokens = self.tokens.saturating_add(rate.earned(time)).min(Tokens::from_bytes(burst));
        if self.tokens >= Tokens::ZERO {
            return Ok(());
        }
        Err(now + rate.time_to_earn(Tokens::ZERO.saturating_sub(self.tokens)))
    }
}

/// All leaves. O(leaves of a level) for each packet while some wait at their ceilings, O(levels) otherwise.
#[derive(Debug)]
pub(super) struct Levels {
    leaves: Vec<Leaf>,
    /// Leaves with packets, in the order of their turns.
    turns: [VecDeque<usize>; LEVELS],
    wakeup: Option<Instant>,
}

impl Levels {
    /// Leaves without packets.
    pub(super) fn new(told: &[LevelClass]) -> Self {
        let mut sizes = [0; LEVELS];
        let leaf = |told: &LevelClass| {
            let told = LevelClass { level: told.level.min(LEVELS as u8 - 1), ..*told };
            sizes[usize::from(told.level)] += 1;
            let tokens = told.ceiling.map_or(Tokens::ZERO, |(_, burst)| Tokens::from_bytes(burst));
            Leaf { told, deficit: i64::from(told.quantum), tokens, filled: Instant::ZERO }
        };
        let leaves = told.iter().map(leaf).collect();
        Self { leaves, turns: sizes.map(VecDeque::with_capacity), wakeup: None }
    }

    /// A leaf without packets got some.
    pub(super) fn became_active(&mut self, leaf: usize) {
        let at = &mut self.leaves[leaf];
        at.deficit = i64::from(at.told.quantum);
        self.turns[usize::from(at.told.level)].push_back(leaf);
    }

    /// The leaf that was chosen sent `len` bytes, and has packets still or not.
    pub(super) fn sent(&mut self, leaf: usize, len: u64, more: bool) {
        let at = &mut self.leaves[leaf];
        at.deficit -= len as i64;
        if at.told.ceiling.is_some() {
            at.tokens = at.tokens.saturating_sub(Tokens::from_bytes(Bytes(len)));
        }
        let ends = at.deficit <= 0;
        if ends {
            at.deficit += i64::from(at.told.quantum);
        }
        if more && !ends {
            return;
        }
        let turns = &mut self.turns[usize::from(at.told.level)];
        if let Some(place) = turns.iter().position(|other| *other == leaf) {
            turns.remove(place);
        }
        if more {
            turns.push_back(leaf);
        }
    }
}

impl Law for Levels {
    fn adopt(&mut self, _now: Instant, leaf: usize, old: &Self, of: usize) {
        let (at, old) = (&mut self.leaves[leaf], &old.leaves[of]);
        if let (Some((_, burst)), Some(_)) = (at.told.ceiling, old.told.ceiling) {
            (at.tokens, at.filled) = (old.tokens.min(Tokens::from_bytes(burst)), old.filled);
        }
    }

    fn became_active(&mut self, _now: Instant, leaf: usize, _len: u64) {
        self.became_active(leaf);
    }

    fn choose(&mut self, now: Instant) -> Option<usize> {
        self.wakeup = None;
        for turns in &self.turns {
            for leaf in turns {
                match self.leaves[*leaf].ready(now) {
                    Ok(()) => return Some(*leaf),
                    Err(at) => self.wakeup = Some(self.wakeup.map_or(at, |first| first.min(at))),
                }
            }
        }
        None
    }

    fn sent(&mut self, _now: Instant, leaf: usize, len: u64, next: Option<u64>, _came: Instant) {
        self.sent(leaf, len, next.is_some());
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_units::Duration;
    use proptest::prelude::*;

    const LINE: Rate = Rate(10_000_000);

    fn told(level: u8, ceiling: Option<(Rate, Bytes)>) -> LevelClass {
        LevelClass { level, quantum: 1514, ceiling }
    }

    proptest! {
        /// Whoever sends, nobody of a better level waits who may send, and whoever has a ceiling never has sent more than
        /// its rate, burst and one packet allow. Nothing waits while the line is free but at ceilings.
        #[test]
        fn the_best_level_goes_first_and_ceilings_hold(
            levels in prop::collection::vec((0u8..16, prop::option::of((100_000u64..9_000_000, 3_000u64..9_000))), 1..9),
            came in prop::collection::vec((0u64..3_000, 0usize..9, 64u64..1515), 1..300),
        ) {
            let classes: Vec<_> =
                levels.iter().map(|(level, c)| told(*level, c.map(|(r, b)| (Rate(r), Bytes(b))))).collect();
            let mut law = Levels::new(&classes);
            let mut queues: Vec<VecDeque<u64>> = vec![VecDeque::new(); classes.len()];
            let mut sent = vec![0u64; classes.len()];
            let mut came = came.into_iter().map(|(gap, leaf, len)| (gap * 1_000, leaf % levels.len(), len)).peekable();
            let (mut now, mut next) = (0u64, 0u64);
            let mut steps = 0;
            loop {
                if let Some((gap, leaf, len)) = came.next_if(|(gap, ..)| next + gap <= now) {
                    next += gap;
                    queues[leaf].push_back(len);
                    if queues[leaf].len() == 1 {
                        law.became_active(leaf);
                    }
                    continue;
                }
                steps += 1;
                prop_assert!(steps < 10_000, "it stands still");
                // By the definition, without buckets: what it may have sent at any time since the beginning.
                let may = |leaf: usize, sent: &[u64]| classes[leaf].ceiling.is_none_or(|(rate, burst)| {
                    u128::from(sent[leaf]) * 8_000_000_000 <= u128::from(rate.0) * u128::from(now) + u128::from(burst.0) * 8_000_000_000
                });
                let Some(leaf) = law.choose(Instant(now)) else {
                    let waits = (0..queues.len()).any(|n| !queues[n].is_empty());
                    let wake = law.next_wakeup();
                    prop_assert_eq!(waits, wake.is_some());
                    let arrival = came.peek().map(|(gap, ..)| next + gap);
                    match arrival.into_iter().chain(wake.map(|at| at.0)).min() {
                        Some(at) => now = now.max(at),
                        None => break,
                    }
                    continue;
                };
                prop_assert!(may(leaf, &sent), "leaf {} is above its ceiling", leaf);
                for better in (0..queues.len()).filter(|n| !queues[*n].is_empty() && classes[*n].level < classes[leaf].level) {
                    // Its bucket may be emptier than all of the past together says, because it was full once.
                    prop_assert!(classes[better].ceiling.is_some(), "{} before {}", leaf, better);
                }
                let len = queues[leaf].pop_front().expect("it has packets");
                sent[leaf] += len;
                law.sent(leaf, len, !queues[leaf].is_empty());
                now += LINE.time_for(Bytes(len)).0;
            }
            prop_assert!(queues.iter().all(VecDeque::is_empty));
        }

        /// Leaves of a level share it in proportion to their turns, within a turn and a frame each.
        #[test]
        fn a_level_is_shared_by_turns(
            quanta in prop::collection::vec(1514u32..9_000, 2..6),
            lens in prop::collection::vec(64u64..1515, 2_000),
        ) {
            let classes: Vec<_> =
                quanta.iter().map(|q| LevelClass { quantum: *q, ..told(3, None) }).collect();
            let mut law = Levels::new(&classes);
            (0..classes.len()).for_each(|leaf| law.became_active(leaf));
            let mut sent = vec![0f64; classes.len()];
            for len in lens {
                let leaf = law.choose(Instant(0)).expect("all have packets");
                sent[leaf] += len as f64;
                law.sent(leaf, len, true);
            }
            for a in 0..quanta.len() {
                for b in 0..quanta.len() {
                    let (qa, qb) = (f64::from(quanta[a]), f64::from(quanta[b]));
                    let apart = (sent[a] / qa - sent[b] / qb).abs();
                    prop_assert!(apart <= 1.0 + 1514.0 / qa + 1514.0 / qb, "{:?} by {:?}", sent, quanta);
                }
            }
        }
    }

    #[test]
    fn a_ceiling_lets_the_next_level_go_and_wakes_in_time() {
        let mut law = Levels::new(&[told(0, Some((Rate::from_mbit(1), Bytes(1000)))), told(9, None)]);
        law.became_active(0);
        // A full bucket and one packet beyond it.
        assert_eq!(law.choose(Instant(0)), Some(0));
        law.sent(0, 1000, true);
        assert_eq!(law.choose(Instant(0)), Some(0));
        law.sent(0, 1000, true);
        assert_eq!(law.choose(Instant(0)), None);
        assert_eq!(law.next_wakeup(), Some(Instant::ZERO + Duration::from_millis(8)));
        law.became_active(1);
        assert_eq!(law.choose(Instant(1)), Some(1));
        assert_eq!(law.choose(Instant(8_000_000)), Some(0));
    }
}
