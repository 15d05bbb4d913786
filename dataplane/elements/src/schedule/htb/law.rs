//! Who goes next by hierarchical token buckets, as a plain structure.

use super::super::heap::Heap;
use super::super::law::Law;
use super::super::leaves::Alone;
use perhop_element::CounterSink;
use perhop_units::{Bytes, Instant, Rate, Tokens};

/// Priorities of leaves, 0 … 7; the lowest number is served first.
pub const PRIORITIES: usize = 8;

/// What one class is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// Index of its parent, which comes before it; `None`: the line.
    pub parent: Option<usize>,
    /// What it has of its own.
    pub rate: Rate,
    /// What it has with all it borrows; at least `rate`.
    pub ceil: Rate,
    /// Bytes that it may send at once at `rate`.
    pub burst: Bytes,
    /// Bytes that it may send at once at `ceil`.
    pub cburst: Bytes,
    /// Of a leaf: 0 … 7, the lowest first.
    pub priority: u8,
    /// Of a leaf: bytes of a turn; at least 1.
    pub quantum: u32,
}

/// What a class may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Send at its own rate, and lend.
    Send,
    /// Send if its parent lends.
    Borrow,
    /// Nothing: it is at its ceiling.
    Wait,
}

/// A set of classes in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Feed {
    members: u128,
    /// The first class with this number or a higher one has its turn.
    cursor: u8,
}

impl Feed {
    fn add(&mut self, class: usize) {
        self.members |= 1 << class;
    }

    fn remove(&mut self, class: usize) {
        self.members &= !(1 << class);
    }

    fn is_empty(self) -> bool {
        self.members == 0
    }

    /// The class whose turn it is; `None` past the last.
    fn current(self) -> Option<usize> {
        let left = self.members.checked_shr(u32::from(self.cursor)).unwrap_or(0);
        (left != 0).then(|| usize::from(self.cursor) + left.trailing_zeros() as usize)
    }

    fn advance(&mut self) {
        if let Some(class) = self.current() {
            self.cursor = class as u8 + 1;
        }
    }
}

#[derive(Debug)]
struct Class {
    config: HtbClass,
    /// 0 of a leaf, otherwise one above its highest child.
    level: usize,
    mode: Mode,
    tokens: Tokens,
    ceil_tokens: Tokens,
    filled: Instant,
    /// Priorities of leaves below it that want to send.
    active: u8,
    /// Children that borrow from it, by priority.
    feeds: [Feed; PRIORITIES],
    /// Of a leaf: bytes left of its turn, by the level it borrows from; negative: it owes them to later turns.
    left: Box<[i64]>,
    lends: u64,
    borrows: u64,
}

/// All classes; the last one is the line, which always lends.
#[derive(Debug)]
pub(in super::super) struct HtbLaw {
    classes: Vec<Class>,
    /// By level and priority: classes that send at their own rate.
    rows: Vec<[Feed; PRIORITIES]>,
    /// Classes that do not send at their own rate, by when that may change.
    waits: Heap,
    /// Level and priority by which the leaf was chosen.
    chosen: (usize, usize),
}

impl HtbLaw {
    /// Full buckets and nothing to send; at most 127 classes.
    pub(in super::super) fn new(configs: &[HtbClass]) -> Self {
        let line = configs.len();
        let mut levels = vec![0; line + 1];
        for (n, config) in configs.iter().enumerate().rev() {
            let parent = config.parent.unwrap_or(line);
            levels[parent] = levels[parent].max(levels[n] + 1);
        }
        let none = HtbClass {
            parent: None,
            rate: Rate::ZERO,
            ceil: Rate::ZERO,
            burst: Bytes(0),
            cburst: Bytes(0),
            priority: 0,
            quantum: 1,
        };
        let class = |(n, config): (usize, HtbClass)| Class {
            config,
            level: levels[n],
            mode: Mode::Send,
            tokens: Tokens::from_bytes(config.burst),
            ceil_tokens: Tokens::from_bytes(config.cburst),
            filled: Instant::ZERO,
            active: 0,
            feeds: [Feed::default(); PRIORITIES],
            left: vec![i64::from(config.quantum); levels[line] + 1].into(),
            lends: 0,
            borrows: 0,
        };
        Self {
            classes: configs.iter().copied().chain([none]).enumerate().map(class).collect(),
            rows: vec![[Feed::default(); PRIORITIES]; levels[line] + 1],
            waits: Heap::new(line),
            chosen: (0, 0),
        }
    }

    /// The parent of a class; the line has none.
    fn parent(&self, class: usize) -> Option<usize> {
        let line = self.classes.len() - 1;
        (class != line).then(|| self.classes[class].config.parent.unwrap_or(line))
    }

    /// Lets a class, as its mode says, send for the priorities it is active for, or its parent for it, and so on.
    fn join(&mut self, class: usize) {
        let (mut class, mut priorities) = (class, self.classes[class].active);
        while self.classes[class].mode == Mode::Borrow && priorities != 0 {
            let Some(parent) = self.parent(class) else { return };
            let at = &mut self.classes[parent];
            let mut news = 0;
            for priority in each(priorities) {
                // Where others borrow already, the parent has done what follows.
                if at.feeds[priority].is_empty() {
                    news |= 1 << priority;
                }
                at.feeds[priority].add(class);
            }
            at.active |= news;
            (class, priorities) = (parent, news);
        }
        let Class { mode, level, .. } = self.classes[class];
        if mode == Mode::Send {
            each(priorities).for_each(|priority| self.rows[level][priority].add(class));
        }
    }

    /// Takes back what [`HtbLaw::join`] did, before mode or activity change.
    fn leave(&mut self, class: usize) {
        let (mut class, mut priorities) = (class, self.classes[class].active);
        while self.classes[class].mode == Mode::Borrow && priorities != 0 {
            let Some(parent) = self.parent(class) else { return };
            let at = &mut self.classes[parent];
            let mut gone = 0;
            for priority in each(priorities) {
                at.feeds[priority].remove(class);
                if at.feeds[priority].is_empty() {
                    gone |= 1 << priority;
                }
            }
            (class, priorities) = (parent, gone);
            // A parent that borrows itself must be found active by its own parent's feeds until they are cleared.
            self.classes[parent].active &= !gone;
        }
        let Class { mode, level, .. } = self.classes[class];
        if mode == Mode::Send {
            each(priorities).for_each(|priority| self.rows[level][priority].remove(class));
        }
    }

    /// Earns tokens until `now`.
    fn fill(&mut self, now: Instant, class: usize) {
        let at = &mut self.classes[class];
        let time = now.since(at.filled);
        at.filled = at.filled.max(now);
        let filled = |tokens: Tokens, rate: Rate, most: Bytes| {
            tokens.saturating_add(rate.earned(time)).min(Tokens::from_bytes(most))
        };
        at.tokens = filled(at.tokens, at.config.rate, at.config.burst);
        at.ceil_tokens = filled(at.ceil_tokens, at.config.ceil, at.config.cburst);
    }

    /// Finds the mode of a class whose tokens are of `now`, and when it may change by itself.
    fn change_mode(&mut self, now: Instant, class: usize) {
        let at = &self.classes[class];
        let (mode, lacks, rate) = match (at.ceil_tokens < Tokens::ZERO, at.tokens < Tokens::ZERO) {
            (true, _) => (Mode::Wait, at.ceil_tokens, at.config.ceil),
            (false, true) => (Mode::Borrow, at.tokens, at.config.rate),
            (false, false) => (Mode::Send, Tokens::ZERO, at.config.rate),
        };
        match mode {
            Mode::Send => self.waits.remove(class),
            Mode::Borrow | Mode::Wait => {
                let time = rate.time_to_earn(Tokens::ZERO.saturating_sub(lacks));
                self.waits.set(class, (now + time).0);
            }
        }
        if mode != at.mode {
            self.leave(class);
            self.classes[class].mode = mode;
            self.join(class);
        }
    }

    /// The classes in turn below `class`, or those of a row.
    fn feed(&mut self, row: (usize, usize), class: Option<usize>) -> &mut Feed {
        match class {
            None => &mut self.rows[row.0][row.1],
            Some(class) => &mut self.classes[class].feeds[row.1],
        }
    }

    /// The leaf whose turn it is among those below the classes of a row that is not empty. One that owes more than its
    /// quantum has its turn passed by, so that a quantum may be smaller than a packet. O(levels) where none is; otherwise
    /// for each leaf as often as its quantum goes into a packet.
    fn descend(&mut self, row: (usize, usize)) -> Option<usize> {
        let mut path = [0usize; 128];
        let mut depth = 0usize;
        // Each step goes down, or begins one round anew and goes up; a round begins once for each level before there is a
        // leaf. Leaves that owe are passed by only until their quanta, which are never 0, have paid for it.
        let (most, mut steps) = (4 * self.rows.len() + 4, 0);
        while steps < most {
            steps += 1;
            let above = depth.checked_sub(1).map(|n| path[n]);
            match self.feed(row, above).current() {
                Some(leaf) if self.classes[leaf].level == 0 => {
                    let at = &mut self.classes[leaf];
                    if at.left[row.0] >= 0 {
                        return Some(leaf);
                    }
                    at.left[row.0] += i64::from(at.config.quantum.max(1));
                    self.feed(row, above).advance();
                    steps = 0;
                }
                Some(class) => {
                    path[depth] = class;
                    depth += 1;
                }
                None => {
                    self.feed(row, above).cursor = 0;
                    if depth > 0 {
                        // All children had their turn: so had the class.
                        depth -= 1;
                        let above = depth.checked_sub(1).map(|n| path[n]);
                        self.feed(row, above).advance();
                    }
                }
            }
        }
        None
    }

    /// Charges a class and all above it for a packet: those from the lender up pay from their own rate.
    fn charge(&mut self, now: Instant, leaf: usize, lender: usize, len: u64) {
        let line = self.classes.len() - 1;
        let cost = Tokens::from_bytes(Bytes(len));
        let mut class = leaf;
        while class != line {
            self.fill(now, class);
            let at = &mut self.classes[class];
            at.ceil_tokens = at.ceil_tokens.saturating_sub(cost);
            if at.level >= lender {
                at.tokens = at.tokens.saturating_sub(cost);
                at.lends += u64::from(at.level == lender && at.level > 0);
            } else {
                at.borrows += 1;
            }
            self.change_mode(now, class);
            class = self.classes[class].config.parent.unwrap_or(line);
        }
    }
}

/// The numbers of the bits that are set.
fn each(mut bits: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        bit
    })
}

impl Law for HtbLaw {
    fn adopt(&mut self, now: Instant, class: usize, old: &Self, of: usize) {
        let (at, old) = (&mut self.classes[class], &old.classes[of]);
        at.tokens = old.tokens.min(Tokens::from_bytes(at.config.burst));
        at.ceil_tokens = old.ceil_tokens.min(Tokens::from_bytes(at.config.cburst));
        at.filled = old.filled;
        (at.lends, at.borrows) = (old.lends, old.borrows);
        self.fill(now, class);
        self.change_mode(now, class);
    }

    fn became_active(&mut self, _now: Instant, leaf: usize, _len: u64) {
        self.classes[leaf].active = 1 << self.classes[leaf].config.priority;
        self.join(leaf);
    }

    fn choose(&mut self, now: Instant) -> Option<usize> {
        while let Some((_, class)) = self.waits.first().filter(|(at, _)| *at <= now.0) {
            self.fill(now, class);
            self.change_mode(now, class);
        }
        for level in 0..self.rows.len() {
            for priority in 0..PRIORITIES {
                if !self.rows[level][priority].is_empty() {
                    self.chosen = (level, priority);
                    return self.descend(self.chosen);
                }
            }
        }
        None
    }

    fn sent(&mut self, now: Instant, leaf: usize, len: u64, next: Option<u64>, _came: Instant) {
        let (level, priority) = self.chosen;
        let at = &mut self.classes[leaf];
        at.left[level] -= len as i64;
        if at.left[level] < 0 {
            at.left[level] += i64::from(at.config.quantum);
            let parent = self.parent(leaf).filter(|_| level > 0);
            self.feed((level, priority), parent).advance();
        }
        if next.is_none() {
            self.leave(leaf);
            self.classes[leaf].active = 0;
        }
        self.charge(now, leaf, level, len);
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.waits.first().map(|(at, _)| Instant(at))
    }
}

impl Alone for HtbLaw {
    const NAME: &'static str = "Htb";

    fn fresh(&self) -> Self {
        let line = self.classes.len() - 1;
        let configs: Vec<HtbClass> = self.classes[..line].iter().map(|c| c.config).collect();
        Self::new(&configs)
    }

    fn report(&self, class: usize, name: &str, sink: &mut dyn CounterSink) {
        let at = &self.classes[class];
        sink.counter(&format!("borrows_{name}"), at.borrows);
        if at.level > 0 {
            sink.counter(&format!("lends_{name}"), at.lends);
        }
    }
}
