//! Who goes next by the hierarchical fair service curve, as a plain structure.

use super::super::heap::Heap;
use super::super::law::Law;
use super::super::leaves::Alone;
use super::curve::{Curve, Placed, service_of};
use perhop_element::CounterSink;
use perhop_units::{Duration, Instant};

/// The curves of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curves {
    /// Index of its parent, which comes before it; `None`: the root.
    pub parent: Option<usize>,
    /// Service that is guaranteed; leaves only.
    pub real_time: Option<Curve>,
    /// Share of what the parent has.
    pub link_share: Option<Curve>,
    /// Service that is not exceeded.
    pub upper_limit: Option<Curve>,
}

/// Virtual time is in units of 2¹⁰ ns, so that it lasts: a class with a 100,000th of a line that it has for itself takes
/// six years to the end.
const COARSE: u32 = 10;

/// A class: its curves, placed where its present backlog began, and its times.
#[derive(Debug)]
struct Class {
    curves: Curves,
    is_leaf: bool,
    /// Service by guarantee, and in all.
    guaranteed: u128,
    total: u128,
    deadline: Placed,
    eligible: Placed,
    shared: Placed,
    limit: Placed,
    /// Deadline of the packet at the head.
    due_at: u64,
    /// Virtual time, and what was added to it because the class was not allowed to send.
    vt: u64,
    vt_skipped: u64,
    /// When the class may send by its own upper limit.
    fit_at: u64,
    /// The parent's backlog in which it had `vt`.
    period: u64,
    by_guarantee: u64,
    by_share: u64,
}

/// What a parent knows of its active children.
#[derive(Debug)]
struct Children {
    /// Those that may send, by virtual time; those that may not yet, by when.
    fit: Heap,
    late: Heap,
    /// All of them, the largest virtual time first.
    latest: Heap,
    active: usize,
    /// Virtual time of the child that went last.
    vt_min: u64,
    /// The largest virtual time of children that became idle.
    vt_idle: u64,
    /// Counts its backlogs.
    period: u64,
}

/// All classes.
#[derive(Debug)]
pub(in super::super) struct HfscLaw {
    classes: Vec<Class>,
    /// By class, and last of the root.
    children: Vec<Children>,
    /// Leaves with a guarantee: by when they become eligible; the eligible ones by deadline.
    to_come: Heap,
    due: Heap,
    /// Whether the leaf that was chosen goes by its guarantee.
    by_guarantee: bool,
    /// How far back a class may make good what its upper limit allowed.
    slack: Duration,
}

fn coarse(curve: Curve) -> Curve {
    Curve { d: Duration(curve.d.0 >> COARSE), ..curve }
}

impl HfscLaw {
    /// Idle classes. `slack` is the time of a largest packet on the line, in which nobody else may send.
    pub(in super::super) fn new(curves: &[Curves], slack: Duration) -> Self {
        let count = curves.len();
        let placed = |curve: Option<Curve>| Placed::new(curve.unwrap_or_default(), 0, 0);
        let class = |(n, c): (usize, &Curves)| Class {
            curves: c.clone(),
            is_leaf: !curves.iter().any(|c| c.parent == Some(n)),
            guaranteed: 0,
            total: 0,
            deadline: placed(c.real_time),
            eligible: placed(c.real_time),
            shared: placed(c.link_share.map(coarse)),
            limit: placed(c.upper_limit),
            due_at: 0,
            vt: 0,
            vt_skipped: 0,
            fit_at: 0,
            period: 0,
            by_guarantee: 0,
            by_share: 0,
        };
        let children = |_| Children {
            fit: Heap::new(count),
            late: Heap::new(count),
            latest: Heap::new(count),
            active: 0,
            vt_min: 0,
            vt_idle: 0,
            period: 0,
        };
        Self {
            classes: curves.iter().enumerate().map(class).collect(),
            children: (0..=count).map(children).collect(),
            to_come: Heap::new(count),
            due: Heap::new(count),
            by_guarantee: false,
            slack,
        }
    }

    /// Index of a class's parent among `children`.
    fn parent(&self, class: usize) -> usize {
        self.classes[class].curves.parent.unwrap_or(self.classes.len())
    }

    /// Sets when the next packet, of `len` bytes, becomes eligible and when it is due.
    fn guarantee(&mut self, leaf: usize, len: u64) {
        let class = &mut self.classes[leaf];
        class.due_at = class.deadline.reaches(class.guaranteed + service_of(len));
        let eligible_at = class.eligible.reaches(class.guaranteed);
        self.due.remove(leaf);
        self.to_come.set(leaf, eligible_at);
    }

    /// A leaf begins to have packets: its guarantee begins where it was lower.
    fn begin_guarantee(&mut self, now: Instant, leaf: usize, len: u64) {
        let class = &mut self.classes[leaf];
        let Some(curve) = class.curves.real_time else { return };
        class.deadline.lower(curve, now.0, class.guaranteed);
        let concave = curve.is_concave();
        class.eligible = if concave { class.deadline } else { class.deadline.without_first() };
        self.guarantee(leaf, len);
    }

    /// A class begins to have packets, and with it each parent that had none.
    fn begin_share(&mut self, now: Instant, leaf: usize) {
        let mut class = leaf;
        loop {
            let parent = self.parent(class);
            let first = self.children[parent].active == 0;
            self.enter(now, class, parent);
            if !first || parent == self.classes.len() {
                break;
            }
            class = parent;
        }
        self.place_path(now, leaf);
    }

    /// Gives a class its virtual time among its active siblings: between the least and the most advanced of them.
    fn enter(&mut self, now: Instant, class: usize, parent: usize) {
        let (at, siblings) = (&mut self.classes[class], &mut self.children[parent]);
        match siblings.latest.first() {
            None => {
                siblings.period += 1;
                siblings.vt_min = 0;
                at.vt = siblings.vt_idle;
            }
            Some((key, _)) => {
                let most = !key;
                let middle = if siblings.vt_min == 0 { most } else { siblings.vt_min.midpoint(most) };
                if at.period != siblings.period || middle > at.vt {
                    at.vt = middle;
                }
            }
        }
        at.period = siblings.period;
        at.vt_skipped = 0;
        siblings.active += 1;
        if let Some(curve) = at.curves.link_share {
            at.shared.lower(coarse(curve), at.vt, at.total >> COARSE);
        }
        if let Some(curve) = at.curves.upper_limit {
            at.limit.lower(curve, now.0, at.total);
            at.fit_at = at.limit.reaches(at.total);
        }
    }

    /// Puts a class and all above it where their virtual times and limits belong.
    fn place_path(&mut self, now: Instant, leaf: usize) {
        let mut class = leaf;
        while class < self.classes.len() {
            let parent = self.parent(class);
            self.place(now, class, parent);
            class = parent;
        }
    }

    fn place(&mut self, now: Instant, class: usize, parent: usize) {
        let below = &self.children[class];
        let below_at = if below.fit.is_empty() { below.late.first().map_or(0, |(at, _)| at) } else { 0 };
        let at = &self.classes[class];
        let fit_at = at.fit_at.max(below_at);
        let siblings = &mut self.children[parent];
        siblings.latest.set(class, !at.vt);
        if fit_at <= now.0 {
            siblings.late.remove(class);
            siblings.fit.set(class, at.vt);
        } else {
            siblings.fit.remove(class);
            siblings.late.set(class, fit_at);
        }
    }

    /// Advances a class that shares; `ends`: what was active below it has become idle. Whether it has itself.
    fn advance(&mut self, now: Instant, class: usize, parent: usize, ends: bool) -> bool {
        let ends = ends && self.children[class].active == 0;
        let (at, siblings) = (&mut self.classes[class], &mut self.children[parent]);
        at.vt = at.shared.reaches(at.total >> COARSE).saturating_add(at.vt_skipped);
        if at.vt < siblings.vt_min {
            // It was passed over because it was not allowed to send: that is not made good.
            at.vt_skipped += siblings.vt_min - at.vt;
            at.vt = siblings.vt_min;
        }
        if at.curves.upper_limit.is_some() {
            // What the limit would have allowed long ago is lost.
            at.limit.later(now.0.saturating_sub(self.slack.0).saturating_sub(at.fit_at));
            at.fit_at = at.limit.reaches(at.total);
        }
        if !ends {
            self.place(now, class, parent);
            return false;
        }
        siblings.vt_idle = siblings.vt_idle.max(at.vt);
        siblings.active -= 1;
        siblings.fit.remove(class);
        siblings.late.remove(class);
        siblings.latest.remove(class);
        true
    }
}

impl Law for HfscLaw {
    /// By curves that are the same, where they were; by others from now.
    fn adopt(&mut self, now: Instant, class: usize, old: &Self, of: usize) {
        let (at, old) = (&mut self.classes[class], &old.classes[of]);
        (at.guaranteed, at.total) = (old.guaranteed, old.total);
        (at.by_guarantee, at.by_share) = (old.by_guarantee, old.by_share);
        let begin = |curve: Option<Curve>, y| Placed::new(curve.unwrap_or_default(), now.0, y);
        if at.curves.real_time == old.curves.real_time {
            (at.deadline, at.eligible) = (old.deadline, old.eligible);
        } else {
            at.deadline = begin(at.curves.real_time, at.guaranteed);
            at.eligible = at.deadline;
        }
        at.limit = match at.curves.upper_limit == old.curves.upper_limit {
            true => old.limit,
            false => begin(at.curves.upper_limit, at.total),
        };
        // Virtual time begins at 0 here, and so does the share.
        let share = at.curves.link_share.map(coarse).unwrap_or_default();
        at.shared = Placed::new(share, 0, at.total >> COARSE);
    }

    fn became_active(&mut self, now: Instant, leaf: usize, len: u64) {
        self.begin_guarantee(now, leaf, len);
        if self.classes[leaf].curves.link_share.is_some() {
            self.begin_share(now, leaf);
        }
    }

    fn choose(&mut self, now: Instant) -> Option<usize> {
        while let Some((_, leaf)) = self.to_come.first().filter(|(at, _)| *at <= now.0) {
            self.to_come.remove(leaf);
            self.due.set(leaf, self.classes[leaf].due_at);
        }
        self.by_guarantee = !self.due.is_empty();
        if let Some((_, leaf)) = self.due.first() {
            return Some(leaf);
        }
        let mut node = self.classes.len();
        loop {
            let children = &mut self.children[node];
            while let Some((_, class)) = children.late.first().filter(|(at, _)| *at <= now.0) {
                children.late.remove(class);
                children.fit.set(class, self.classes[class].vt);
            }
            let (vt, class) = children.fit.first()?;
            children.vt_min = children.vt_min.max(vt);
            if self.classes[class].is_leaf {
                return Some(class);
            }
            node = class;
        }
    }

    fn sent(&mut self, now: Instant, leaf: usize, len: u64, next: Option<u64>, _came: Instant) {
        let service = service_of(len);
        let by_guarantee = std::mem::take(&mut self.by_guarantee);
        let at = &mut self.classes[leaf];
        at.by_guarantee += u64::from(by_guarantee);
        at.by_share += u64::from(!by_guarantee);
        if at.curves.real_time.is_some() {
            at.guaranteed += if by_guarantee { service } else { 0 };
            match next {
                Some(len) => self.guarantee(leaf, len),
                None => {
                    self.due.remove(leaf);
                    self.to_come.remove(leaf);
                }
            }
        }
        let (mut class, mut ends) = (leaf, next.is_none());
        while class < self.classes.len() {
            let parent = self.parent(class);
            let at = &mut self.classes[class];
            at.total += service;
            // A leaf without a share, and what is above it alone, takes no part in sharing.
            let shares = if at.is_leaf {
                at.curves.link_share.is_some()
            } else {
                self.children[class].active > 0 || ends
            };
            ends = shares && self.advance(now, class, parent, ends);
            class = parent;
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        let guarantee = self.to_come.first().map(|(at, _)| at);
        let share = self.children[self.classes.len()].late.first().map(|(at, _)| at);
        guarantee.into_iter().chain(share).min().map(Instant)
    }
}

impl Alone for HfscLaw {
    const NAME: &'static str = "Hfsc";

    fn fresh(&self) -> Self {
        let curves: Vec<Curves> = self.classes.iter().map(|c| c.curves.clone()).collect();
        Self::new(&curves, self.slack)
    }

    fn report(&self, class: usize, name: &str, sink: &mut dyn CounterSink) {
        let at = &self.classes[class];
        if at.is_leaf {
            sink.counter(&format!("by_guarantee_{name}"), at.by_guarantee);
            sink.counter(&format!("by_share_{name}"), at.by_share);
        }
    }
}
