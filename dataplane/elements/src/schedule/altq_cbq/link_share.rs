//! Who may send next: the scheduler over all classes, borrowing and suspension.

use super::class::Class;
use super::config::{CbqConfig, ClassConfig, PRIORITIES};
use perhop_units::{Bytes, Duration, Instant, Rate};

/// Index of the root.
pub(super) const ROOT: usize = 0;
/// No class is cut off.
const OPEN: u32 = u32::MAX;

/// Who sends the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The class.
    pub class: usize,
    /// The class above whose share it uses; `None`: its own.
    pub lender: Option<usize>,
    /// It sends because nobody else can, and its turn ends.
    forced: bool,
}

/// What a look at a class gave.
enum Limit {
    /// It may send, with the share of a lender if it has used up its own.
    Under(Option<usize>),
    /// It may not.
    Over,
}

/// The classes of a link and whose turn it is.
#[derive(Debug)]
pub(super) struct LinkShare {
    /// The root, then the classes as configured.
    pub(super) classes: Vec<Class>,
    /// Leaves of each priority, in the order configured, and the one whose turn it is.
    rings: [(Vec<usize>, usize); PRIORITIES],
    /// Classes deeper than this do not lend.
    cutoff: u32,
    /// When the link is expected to have sent all it was given.
    free: Instant,
    /// How far ahead of the time `free` may be.
    most_ahead: Duration,
    tick: TickClock,
    link: Rate,
    efficient: bool,
    weighted: bool,
    adjust: bool,
}

/// The clock of the kernel that is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TickClock {
    hz: u64,
}

impl TickClock {
    /// Number of the tick at or before `at`.
    fn before(self, at: Instant) -> u128 {
        u128::from(at.0) * u128::from(self.hz) / 1_000_000_000
    }

    /// The time of a tick, rounded up.
    fn time(self, tick: u128) -> Instant {
        Instant(u64::try_from((tick * 1_000_000_000).div_ceil(u128::from(self.hz))).unwrap_or(u64::MAX))
    }

    /// The tick that wakes who sleeps at `now` until `until`: the remaining time in whole ticks, rounded up, counted from
    /// the tick before the next; at least two, since the next may come at once.
    fn wake(self, now: Instant, until: Instant) -> Instant {
        let rest = u128::from(until.since(now).0) * u128::from(self.hz);
        let ticks = if rest > 2_000_000_000 { rest.div_ceil(1_000_000_000) + 1 } else { 2 };
        self.time(self.before(now) + ticks)
    }
}

impl LinkShare {
    pub(super) fn new(config: &CbqConfig) -> Self {
        let root = ClassConfig {
            name: "root".to_owned(),
            parent: None,
            share: config.rate,
            borrow: false,
            priority: 0,
            limit: 1,
            red: false,
            packet: config.mtu,
            maxburst: None,
            minburst: 2,
            floor: None,
        };
        let mut root = Class::new(config, &root, ROOT);
        root.parent = None;
        let mut classes = vec![root];
        let mut rings: [(Vec<usize>, usize); PRIORITIES] = Default::default();
        for (n, class) in config.classes.iter().enumerate() {
            classes.push(Class::new(config, class, class.parent.map_or(ROOT, |p| p + 1)));
            if !config.is_interior(n) {
                rings[usize::from(class.priority).min(PRIORITIES - 1)].0.push(n + 1);
            }
        }
        // Children come after their parents.
        for n in (1..classes.len()).rev() {
            let parent = classes[n].parent.unwrap_or(ROOT);
            classes[parent].depth = classes[parent].depth.max(classes[n].depth + 1);
        }
        let mut this = Self {
            classes,
            rings,
            cutoff: OPEN,
            free: Instant::ZERO,
            most_ahead: Duration(config.rate.time_for(Bytes(u64::from(config.mtu))).0.saturating_mul(16)),
            tick: TickClock { hz: config.hz.max(1) },
            link: config.rate,
            efficient: config.efficient,
            weighted: config.weighted,
            adjust: config.adjust_cutoff,
        };
        this.set_quanta(config);
        this
    }

    /// A round gives each class bytes in proportion to its share, one packet a class on average.
    fn set_quanta(&mut self, config: &CbqConfig) {
        for (ring, _) in &self.rings {
            let share = |class: &usize| u128::from(config.classes[class - 1].share.0);
            let sum: u128 = ring.iter().map(share).sum();
            for class in ring {
                let whole = share(class) * ring.len() as u128 * u128::from(config.mtu);
                self.classes[*class].quantum = (whole / sum.max(1)).max(1) as i64;
            }
        }
    }

    /// Ends the suspensions whose tick has come.
    pub(super) fn expire(&mut self, now: Instant) {
        for class in &mut self.classes {
            if class.asleep.is_some_and(|at| at <= now) {
                class.asleep = None;
                class.estimator.forgive();
            }
        }
    }

    /// The earliest tick that ends the suspension of a class with packets.
    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        self.classes.iter().filter(|c| c.has_packets()).filter_map(|c| c.asleep).min()
    }

    /// A packet for `class` arrives: classes above those that are within their share need not lend.
    pub(super) fn arrives(&mut self, now: Instant, class: usize) {
        let within = self.chain(class).find(|c| !self.classes[*c].estimator.is_over(now));
        if let Some(within) = within {
            self.cutoff = self.cutoff.min(self.classes[within].depth);
        }
    }

    /// A class and those above it from which it may borrow.
    fn chain(&self, class: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(class), |c| self.classes[*c].borrow)
    }

    /// Chooses who sends next. Classes that are over their share and find no lender are suspended on the way.
    pub(super) fn choose(&mut self, now: Instant) -> Option<Choice> {
        let mut borrower = None;
        loop {
            for priority in (0..PRIORITIES).rev() {
                let ring = &self.rings[priority].0;
                if !ring.iter().any(|class| self.classes[*class].has_packets()) {
                    continue;
                }
                let choice = if self.weighted {
                    self.weighted_round(now, priority, &mut borrower)
                } else {
                    self.packet_round(now, priority, &mut borrower)
                };
                if choice.is_some() {
                    return choice;
                }
            }
            if borrower.is_none() || self.cutoff >= self.classes[ROOT].depth {
                break;
            }
            self.cutoff += 1;
        }
        self.cutoff = OPEN;
        let class = borrower.filter(|_| self.efficient)?;
        let lender = self.classes[class].borrow;
        if let Some(lender) = lender {
            self.cutoff = self.classes[lender].depth;
        }
        Some(Choice { class, lender, forced: true })
    }

    /// Classes of one priority from the one whose turn it is.
    fn in_turn(&self, priority: usize, n: usize) -> usize {
        let (ring, turn) = &self.rings[priority];
        ring[(turn + n) % ring.len()]
    }

    fn weighted_round(
        &mut self,
        now: Instant,
        priority: usize,
        borrower: &mut Option<usize>,
    ) -> Option<Choice> {
        let count = self.rings[priority].0.len();
        let mut waits = false;
        for n in 0..count {
            let at = self.in_turn(priority, n);
            let class = &mut self.classes[at];
            if class.allowance <= 0 {
                class.allowance += class.quantum;
            }
            if class.has_packets() {
                match self.limit(now, at) {
                    Limit::Under(lender) if self.classes[at].allowance > 0 => {
                        return Some(Choice { class: at, lender, forced: false });
                    }
                    Limit::Under(_) => waits = true,
                    Limit::Over => self.note_borrower(at, borrower),
                }
            }
            self.classes[at].allowance = 0;
        }
        // Who was only short of bytes in its turn sends before lower priorities do.
        for n in (0..count).filter(|_| waits) {
            let at = self.in_turn(priority, n);
            if self.classes[at].has_packets() {
                match self.limit(now, at) {
                    Limit::Under(lender) => return Some(Choice { class: at, lender, forced: false }),
                    Limit::Over => self.note_borrower(at, borrower),
                }
            }
            self.classes[at].allowance = 0;
        }
        None
    }

    fn packet_round(
        &mut self,
        now: Instant,
        priority: usize,
        borrower: &mut Option<usize>,
    ) -> Option<Choice> {
        for n in 0..self.rings[priority].0.len() {
            let at = self.in_turn(priority, n);
            if !self.classes[at].has_packets() {
                continue;
            }
            match self.limit(now, at) {
                Limit::Under(lender) => return Some(Choice { class: at, lender, forced: false }),
                Limit::Over => self.note_borrower(at, borrower),
            }
        }
        None
    }

    fn note_borrower(&self, class: usize, borrower: &mut Option<usize>) {
        if borrower.is_none() && self.classes[class].borrow.is_some() {
            *borrower = Some(class);
        }
    }

    /// Whether a class with packets may send now. Suspends it when it may not and cannot borrow.
    fn limit(&mut self, now: Instant, class: usize) -> Limit {
        if self.classes[class].asleep.is_some() {
            let sleeper = &mut self.classes[class];
            if sleeper.estimator.is_over(now) {
                return Limit::Over;
            }
            // Seen before its tick came: the time is over.
            sleeper.asleep = None;
            sleeper.estimator.forgive();
            return Limit::Under(None);
        }
        let mut at = class;
        while self.classes[at].estimator.is_over(now) {
            match self.classes[at].borrow {
                Some(above) if self.classes[above].depth <= self.cutoff => at = above,
                Some(_) if self.adjust => return Limit::Over,
                _ => {
                    self.suspend(now, class);
                    return Limit::Over;
                }
            }
        }
        Limit::Under((at != class).then_some(at))
    }

    fn suspend(&mut self, now: Instant, class: usize) {
        let tick = self.tick;
        let class = &mut self.classes[class];
        class.counters.over_actions += 1;
        if class.asleep.is_none() {
            class.counters.delays += 1;
            let until = class.estimator.suspend(now);
            class.asleep = Some(tick.wake(now, until));
        }
    }

    /// Books a packet of `len` bytes of the class that was chosen.
    pub(super) fn sent(&mut self, now: Instant, choice: Choice, len: Bytes) {
        let Choice { class, lender, forced } = choice;
        self.end_turn(class, len, forced);
        self.pass_time(now, len);
        let end = self.free;
        let mut borrows = lender;
        let mut at = Some(class);
        while let Some(n) = at {
            let node = &mut self.classes[n];
            if node.estimator.sent(now, end, len) {
                node.counters.overlimit += 1;
            } else {
                node.asleep = None;
            }
            borrows = borrows.filter(|lender| *lender != n);
            if borrows.is_some() {
                node.counters.borrows += 1;
            }
            at = node.parent;
        }
        let Some(lender) = lender.filter(|l| self.cutoff >= self.classes[*l].depth) else { return };
        if !self.classes[class].has_packets() || self.classes[lender].estimator.is_over(now) {
            self.cutoff = if self.somebody_waits(now) { 0 } else { OPEN };
        } else {
            self.cutoff = self.classes[lender].depth;
        }
    }

    fn end_turn(&mut self, class: usize, len: Bytes, forced: bool) {
        let node = &mut self.classes[class];
        if node.allowance > 0 {
            node.allowance -= len.0 as i64;
        }
        let ends = !self.weighted || node.allowance <= 0 || forced;
        for (ring, turn) in &mut self.rings {
            if let Some(at) = ring.iter().position(|c| *c == class) {
                *turn = (at + usize::from(ends)) % ring.len();
            }
        }
    }

    /// The link is expected to be busy with the packet after those before it, but no longer than it could be.
    fn pass_time(&mut self, now: Instant, len: Bytes) {
        let time = self.link.time_for(len);
        if now < self.free {
            let ahead = self.free.since(now) + time;
            self.free = now + ahead.min(self.most_ahead.max(time));
        } else {
            self.free = now + time;
        }
    }

    /// Whether a class within its share has packets and is not suspended.
    fn somebody_waits(&self, now: Instant) -> bool {
        self.classes.iter().any(|c| c.has_packets() && c.asleep.is_none() && !c.estimator.is_over(now))
    }
}
