//! The link sharing of CBQ over queues that are somebody else's.

use super::super::law::Law;
use super::config::{CbqConfig, ClassConfig, PRIORITIES, RedSettings};
use super::link_share::{Choice, LinkShare};
use crate::classify::DscpTable;
use perhop_units::{Bytes, Instant, Probability, Rate};

/// What the line is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CbqLine {
    /// Its rate; above zero.
    pub rate: Rate,
    /// Largest frame on the line, in bytes.
    pub frame: u32,
    /// Ticks a second at which suspensions end, 1 … 1,000,000.
    pub hz: u64,
    /// Whether a class that may borrow sends when nobody else does, whatever it has used.
    pub efficient: bool,
}

/// What one class is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CbqClass {
    /// Index of its parent, which comes before it; `None`: the line.
    pub parent: Option<usize>,
    /// Its share, 1 bit/s … the line's rate.
    pub share: Rate,
    /// Whether it may use its parent's spare share.
    pub borrow: bool,
    /// 0 … 7; the highest is served first.
    pub priority: u8,
    /// Packets that it may send at once after a rest, 1 … 64; `None`: as [`super::EstimatorConfig::maxburst`].
    pub maxburst: Option<u32>,
}

/// All classes.
#[derive(Debug)]
pub(in super::super) struct CbqLaw {
    share: LinkShare,
    chosen: Option<Choice>,
}

impl CbqLaw {
    /// Classes that have rested.
    pub(in super::super) fn new(line: &CbqLine, classes: &[CbqClass]) -> Self {
        let class = |class: &CbqClass| ClassConfig {
            name: String::new(),
            parent: class.parent,
            share: class.share.clamp(Rate(1), line.rate),
            borrow: class.borrow,
            priority: class.priority.min(PRIORITIES as u8 - 1),
            limit: 1,
            red: false,
            packet: line.frame,
            maxburst: class.maxburst.map(|n| n.clamp(1, 64)),
            minburst: 2,
            floor: None,
        };
        let none = Probability::ZERO;
        let share = LinkShare::new(&CbqConfig {
            rate: line.rate,
            overhead: 0,
            hz: line.hz,
            efficient: line.efficient,
            weighted: true,
            adjust_cutoff: true,
            mtu: line.frame,
            red: RedSettings { min: none, max: none, max_p: none, weight: None, ecn: false },
            classes: classes.iter().map(class).collect(),
            dscp: DscpTable::default(),
        });
        Self { share, chosen: None }
    }
}

impl Law for CbqLaw {
    fn adopt(&mut self, _now: Instant, class: usize, old: &Self, of: usize) {
        let (at, old) = (&mut self.share.classes[class + 1], &old.share.classes[of + 1]);
        at.estimator.adopt(&old.estimator);
        at.asleep = old.asleep;
    }

    fn arrives(&mut self, now: Instant, leaf: usize, _len: u64) {
        self.share.expire(now);
        self.share.arrives(now, leaf + 1);
    }

    fn became_active(&mut self, _now: Instant, leaf: usize, _len: u64) {
        self.share.classes[leaf + 1].elsewhere = true;
    }

    fn choose(&mut self, now: Instant) -> Option<usize> {
        self.share.expire(now);
        self.chosen = self.share.choose(now);
        self.chosen.map(|choice| choice.class - 1)
    }

    fn sent(&mut self, now: Instant, leaf: usize, len: u64, next: Option<u64>, _came: Instant) {
        self.share.classes[leaf + 1].elsewhere = next.is_some();
        if let Some(choice) = self.chosen.take() {
            self.share.sent(now, choice, Bytes(len));
        }
    }

    fn withdrawn(&mut self, _now: Instant, leaf: usize) {
        self.share.classes[leaf + 1].elsewhere = false;
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.share.next_wakeup()
    }
}
