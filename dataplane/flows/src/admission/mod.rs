//! Implicit admission: which recognised flows may be real-time, so that those that are fit into what the class has.
//!
//! A flow is offered with the packet that recognises it. It is accepted if what admitted flows carry, and what those just
//! admitted are going to, is less than a part T_a of the cap. An admitted flow lives until it falls silent, or until
//! more than T_d of the cap is carried at the end of an interval: then one is dropped, chosen by a policy. The estimate
//! is corrected by what that flow carried and its window begins anew, so that one overload drops no flow twice over.
//! What was refused or dropped stays so until it falls silent, or is looked at again after a time, if there is one.
//!
//! That is one way, by measuring; `reserved` is another, in which every admitted flow has a rate of its own.
//!
//! Flows of premium contracts are refused last (they are accepted until T_d) and dropped last.
//!
//! Time comes with every call. Intervals end with the first call after them. A packet costs O(1), the end of an interval
//! O(flows), and so does every flow that is dropped, or for which others give what they have grown by (`reserved`).
//!
//! Source: Calarco, Software Techniques for Multiservice IP Networks, chapter V, with a fixed cap as the base of both
//! percentages and a hold-off of one interval between two drops.

mod books;
mod pending;
mod reserved;
mod settings;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use books::Books;
pub use books::SharedAdmission;
pub use settings::{AdmissionSettings, Cap, Shortage, Turned, Victim};

use pending::Pending;
use perhop_packet::{PortId, SlaId};
use perhop_units::{Duration, Instant, Rate, mix};
use reserved::{Begin, Reservation, Shared};
use serde::Serialize;
use window::{WindowMeter, rate};

/// Flows that admission knows at once, admitted or not. Beyond them flows are refused and forgotten.
pub const MAX_FLOWS: usize = 1 << 14;
/// Flows dropped by one call because `cancel` went up.
const CANCELS: u64 = 16;
/// Intervals made up for by one call; after a longer silence nothing is carried.
const INTERVALS: u64 = 256;

/// What admission says about a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Real-time.
    Admitted,
    /// Was not accepted.
    Refused,
    /// Was admitted, and then chosen to go.
    Dropped,
}

/// Counters of admission. `flows_admitted` = those that are admitted now + `flows_dropped` + `flows_expired`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionCounters {
    /// Flows that asked, by being recognised: admitted or refused.
    pub flows_offered: u64,
    /// Accepted.
    pub flows_admitted: u64,
    /// Not accepted.
    pub flows_refused: u64,
    /// Admitted ones that were chosen to go.
    pub flows_dropped: u64,
    /// Admitted ones that fell silent.
    pub flows_expired: u64,
    /// Packets of flows for which there was no room.
    pub table_full: u64,
    /// Packets of flows that are not admitted.
    pub turned_packets: u64,
    /// Intervals that carried more than the cap.
    pub intervals_over_cap: u64,
    /// Intervals.
    pub intervals: u64,
}

impl AdmissionCounters {
    /// Every counter by its name.
    pub fn list(&self) -> [(&'static str, u64); 9] {
        [
            ("flows_offered", self.flows_offered),
            ("flows_admitted", self.flows_admitted),
            ("flows_refused", self.flows_refused),
            ("flows_dropped", self.flows_dropped),
            ("flows_expired", self.flows_expired),
            ("admission_full", self.table_full),
            ("turned_packets", self.turned_packets),
            ("intervals_over_cap", self.intervals_over_cap),
            ("intervals", self.intervals),
        ]
    }
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    owner: u32,
    standing: Standing,
    premium: bool,
    /// The port it came in by.
    from: PortId,
    /// What it may send, where each flow has a rate of its own.
    reservation: Reservation,
    live: bool,
    /// Of the offer that was decided.
    since: Instant,
    seen: Instant,
    /// Bytes in the interval that is going on, and in the one before.
    bytes: u64,
    before: u64,
}

/// The contract of a flow and where it came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub sla: SlaId,
    pub from: PortId,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Admission {
    settings: Option<AdmissionSettings>,
    flows: Vec<Flow>,
    capacity: usize,
    free: Vec<u32>,
    /// Place in `flows` + 1, by owner; 0 = none.
    places: Vec<u32>,
    meter: WindowMeter,
    /// What flows admitted in this interval and in the one before are going to carry.
    pending: Pending,
    /// What flows that have rates of their own share.
    classes: Vec<Shared>,
    /// Flows that give what they have grown by, while room is made: what that is, and their places.
    grown: Vec<(u64, u32)>,
    admitted: u32,
    next: Instant,
    hold_off: Instant,
    /// Until then flows that were recognised before admission began are admitted as they are.
    grace: Instant,
    cancels: u64,
    random: u64,
    pub counters: AdmissionCounters,
    /// Owners of flows dropped and not told yet, with how full it was.
    dropped: Vec<(u32, Shortage)>,
}

impl Admission {
    /// For owners below `owners`, which are connections and halves; admits everything. Reserves all memory it will use
    /// and touches it as it fills.
    pub fn new(owners: usize) -> Self {
        let capacity = owners.min(MAX_FLOWS);
        Self {
            settings: None,
            flows: Vec::with_capacity(capacity),
            capacity,
            free: Vec::with_capacity(capacity),
            places: vec![0; owners],
            meter: WindowMeter::default(),
            pending: Pending::new(),
            classes: Vec::new(),
            grown: Vec::with_capacity(capacity),
            admitted: 0,
            next: Instant::ZERO,
            hold_off: Instant::ZERO,
            grace: Instant::ZERO,
            cancels: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            counters: AdmissionCounters::default(),
            dropped: Vec::with_capacity((CANCELS + INTERVALS) as usize),
        }
    }

    /// Mixes the world's randomness into the choice of victims.
    pub fn seed(&mut self, seed: u64) {
        self.random ^= seed;
    }

    /// Other settings; `None`: everything is admitted and what was known of flows is forgotten. Flows keep their
    /// standing otherwise. O(flows) where something goes.
    pub fn set(&mut self, now: Instant, settings: Option<&AdmissionSettings>) {
        if self.settings.as_ref() == settings {
            return;
        }
        match (&self.settings, settings) {
            (Some(old), Some(new)) => {
                self.cancels += new.cancel.saturating_sub(old.cancel);
                // An interval of another length begins.
                if old.interval != new.interval {
                    self.next = now + new.interval;
                }
            }
            (_, Some(new)) => {
                (self.next, self.grace) = (now + new.interval, now + new.idle);
                self.meter = WindowMeter::default();
                self.pending.clear();
            }
            (_, None) => {
                for at in 0..self.flows.len() {
                    if self.flows[at].live {
                        self.end(self.flows[at].owner);
                    }
                }
                self.cancels = 0;
            }
        }
        self.settings = settings.cloned();
        self.recount(settings.map_or(&[], |new| &new.caps));
        self.cancel(now);
    }

    /// The settings in force.
    pub fn settings(&self) -> Option<&AdmissionSettings> {
        self.settings.as_ref()
    }

    /// Whether flows are looked at.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.settings.is_some()
    }

    /// What admitted flows carry, as estimated.
    pub fn used(&self) -> Rate {
        self.meter.used()
    }

    /// Flows admitted now.
    pub fn admitted(&self) -> u32 {
        self.admitted
    }

    /// What is known of a flow.
    pub fn standing(&self, owner: u32) -> Option<Standing> {
        self.place(owner).map(|at| self.flows[at as usize].standing)
    }

    /// A packet of `len` bytes of a recognised flow, `known` if it was recognised before this packet. Whether the flow is
    /// admitted, and if this packet decided that it is not, how full it was.
    pub fn packet(
        &mut self,
        now: Instant,
        owner: u32,
        len: u64,
        origin: Origin,
        known: bool,
    ) -> (bool, Option<Shortage>) {
        let Some(settings) = &self.settings else { return (true, None) };
        let (reserved, len) = (settings.is_reserved(), len + u64::from(settings.overhead));
        let mut decided = false;
        let at = match self.place(owner) {
            Some(at) => {
                let flow = &mut self.flows[at as usize];
                let again = settings.retry.is_some_and(|r| now.since(flow.since) >= r);
                let silent = now.since(flow.seen) >= settings.idle;
                flow.seen = flow.seen.max(now);
                if silent || (again && flow.standing != Standing::Admitted) {
                    decided = true;
                    self.expire(at);
                    self.offer(now, at, (origin, len), false);
                }
                at
            }
            None => {
                let Some(at) = self.enter(owner) else {
                    self.counters.table_full += 1;
                    self.counters.turned_packets += 1;
                    return (false, None);
                };
                decided = true;
                self.offer(now, at, (origin, len), known && now < self.grace);
                at
            }
        };
        let flow = &mut self.flows[at as usize];
        if flow.standing != Standing::Admitted {
            self.counters.turned_packets += 1;
            let refusal = if decided { self.refusal(at as usize) } else { None };
            return (false, refusal);
        }
        if reserved && flow.bytes == 0 {
            self.speaks(now, at as usize, len);
        }
        self.flows[at as usize].bytes += len;
        if reserved {
            match self.within(now, at as usize, len) {
                Some(true) => {}
                Some(false) => {
                    self.counters.turned_packets += 1;
                    return (false, None);
                }
                None => {
                    // It was silent, and what it had is somebody else's now.
                    self.expire(at);
                    self.flows[at as usize].since = now;
                    self.counters.flows_offered += 1;
                    self.counters.flows_refused += 1;
                    self.counters.turned_packets += 1;
                    return (false, self.refusal(at as usize));
                }
            }
        }
        self.meter.count(len);
        (true, None)
    }

    /// How full it was for a flow that was just refused. O(classes).
    fn refusal(&self, at: usize) -> Option<Shortage> {
        self.settings.as_ref().map(|settings| self.shortage(settings, at, self.pending.total()))
    }

    /// How full it is for a flow, where so much is `expected` beside what is measured.
    fn shortage(&self, settings: &AdmissionSettings, at: usize, expected: u64) -> Shortage {
        if settings.is_reserved() {
            let Flow { from, premium, .. } = self.flows[at];
            return self.fullest(settings, from, premium);
        }
        let used = Rate(self.meter.used().0.saturating_add(expected));
        Shortage { port: PortId::NONE, used, cap: settings.cap, locked: settings.locked }
    }

    /// Forgets a flow: its connection is gone.
    pub fn end(&mut self, owner: u32) {
        let Some(at) = self.place(owner) else { return };
        self.expire(at);
        self.places[owner as usize] = 0;
        self.flows[at as usize].live = false;
        self.free.push(at);
    }

    /// A flow has another number from now on, which no other has.
    pub fn rename(&mut self, owner: u32, now: u32) {
        let Some(at) = self.place(owner) else { return };
        self.places[owner as usize] = 0;
        self.places[now as usize] = at + 1;
        self.flows[at as usize].owner = now;
        self.dropped
            .iter_mut()
            .filter(|(dropped, _)| *dropped == owner)
            .for_each(|(dropped, _)| *dropped = now);
    }

    /// Ends the intervals that are over. Call it with every batch.
    #[inline]
    pub fn tick(&mut self, now: Instant) {
        if self.is_on() && now >= self.next {
            self.intervals(now);
        }
    }

    /// Owners of flows dropped since the last call, with how full it was.
    pub fn take_dropped(&mut self) -> std::vec::Drain<'_, (u32, Shortage)> {
        self.dropped.drain(..)
    }

    /// When [`Admission::tick`] has something to do; `None` while there is nothing to measure.
    pub fn next_tick(&self) -> Option<Instant> {
        (self.is_on() && (self.admitted > 0 || self.used() > Rate(0))).then_some(self.next)
    }

    #[cold]
    fn intervals(&mut self, now: Instant) {
        let Some(settings) = self.settings.take() else { return };
        let over = now.since(self.next).0 / settings.interval.0.max(1);
        if over > INTERVALS {
            self.meter = WindowMeter::default();
            self.pending.clear();
            self.next += settings.interval.saturating_mul(over);
        }
        while now >= self.next {
            let end = self.next;
            self.next = end + settings.interval;
            self.counters.intervals += 1;
            let average = self.meter.close(settings.interval, settings.windows);
            self.counters.intervals_over_cap += u64::from(average > settings.cap);
            if settings.is_reserved() {
                self.follow_rates(&settings);
            }
            self.close_flows(end, &settings);
            if !settings.is_reserved()
                && self.meter.used().0 > settings.part(settings.drop_pct)
                && end >= self.hold_off
            {
                self.drop_one(end, &settings);
                self.hold_off = end + settings.interval;
            }
        }
        self.settings = Some(settings);
        self.cancel(now);
    }

    /// An interval has ended for every flow; those silent for long go.
    fn close_flows(&mut self, end: Instant, settings: &AdmissionSettings) {
        for at in 0..self.flows.len() {
            let flow = &mut self.flows[at];
            flow.before = std::mem::take(&mut flow.bytes);
            if flow.live && end.since(flow.seen) >= settings.idle {
                let owner = flow.owner;
                self.end(owner);
            }
        }
    }

    /// Drops as many flows as `cancel` asks for, a few at once.
    fn cancel(&mut self, now: Instant) {
        if self.cancels == 0 {
            return;
        }
        let Some(settings) = self.settings.take() else { return };
        self.cancels = self.cancels.min(u64::from(self.admitted));
        for _ in 0..self.cancels.min(CANCELS) {
            self.drop_one(now, &settings);
            self.cancels -= 1;
        }
        self.settings = Some(settings);
    }

    fn drop_one(&mut self, now: Instant, settings: &AdmissionSettings) {
        let Some(at) = self.choose(settings.policy) else { return };
        let shortage = self.shortage(settings, at, 0);
        let flow = &mut self.flows[at];
        flow.standing = Standing::Dropped;
        flow.since = now;
        self.meter.less(rate(flow.before, settings.interval));
        self.dropped.push((flow.owner, shortage));
        self.admitted -= 1;
        self.counters.flows_dropped += 1;
        self.give_back(at);
    }

    /// The admitted flow to go: of premium contracts only when there is no other.
    fn choose(&mut self, policy: Victim) -> Option<usize> {
        let admitted = |f: &&Flow| f.live && f.standing == Standing::Admitted;
        let premium = !self.flows.iter().filter(admitted).any(|f| !f.premium);
        let random = self.draw();
        let list = || {
            let all = self.flows.iter().enumerate();
            all.filter(move |(_, f)| f.live && f.standing == Standing::Admitted && f.premium == premium)
        };
        let chosen = match policy {
            Victim::Random => {
                let n = list().count() as u64;
                list().nth(((u128::from(random) * u128::from(n)) >> 64) as usize)
            }
            Victim::Largest => list().max_by_key(|(_, f)| (f.before, f.owner)),
            Victim::Smallest => list().min_by_key(|(_, f)| (f.before, f.owner)),
            Victim::Oldest => list().min_by_key(|(_, f)| (f.since, f.owner)),
        };
        chosen.map(|(at, _)| at)
    }

    /// The next number of a splitmix sequence: victims need no more than to be hard to foretell.
    fn draw(&mut self) -> u64 {
        mix::next(&mut self.random)
    }

    /// Decides about a flow.
    fn offer(&mut self, now: Instant, at: u32, (origin, len): (Origin, u64), as_it_is: bool) {
        let Some(settings) = &self.settings else { return };
        let (premium, reserved) = (settings.is_premium(origin.sla), settings.is_reserved());
        let flow = &mut self.flows[at as usize];
        let (from, reservation) = (origin.from, Reservation::default());
        *flow = Flow { premium, from, reservation, since: now, seen: now, bytes: 0, before: 0, ..*flow };
        let accepted = if reserved {
            self.begin(now, at as usize, len, if as_it_is { Begin::AsItIs } else { Begin::New })
        } else {
            let limit = settings.part(settings.pct(premium));
            let used = self.meter.used().0.saturating_add(self.pending.rate(now, settings.interval));
            let accepted = as_it_is || (!settings.locked && used < limit);
            if accepted {
                self.pending.admit(now, settings.new_flow.0);
            }
            accepted
        };
        self.flows[at as usize].standing = if accepted { Standing::Admitted } else { Standing::Refused };
        self.admitted += u32::from(accepted);
        self.counters.flows_offered += 1;
        self.counters.flows_admitted += u64::from(accepted);
        self.counters.flows_refused += u64::from(!accepted);
    }

    /// An admitted flow is none any more.
    fn expire(&mut self, at: u32) {
        let flow = &mut self.flows[at as usize];
        if flow.standing == Standing::Admitted {
            flow.standing = Standing::Refused;
            self.admitted -= 1;
            self.counters.flows_expired += 1;
            self.give_back(at as usize);
            // What nobody carries any more counts no more.
            if self.admitted == 0 {
                self.meter = WindowMeter::default();
            }
        }
    }

    fn place(&self, owner: u32) -> Option<u32> {
        self.places.get(owner as usize)?.checked_sub(1)
    }

    fn enter(&mut self, owner: u32) -> Option<u32> {
        let place = self.places.get_mut(owner as usize)?;
        let fresh = Flow {
            owner,
            standing: Standing::Refused,
            premium: false,
            from: PortId::NONE,
            reservation: Reservation::default(),
            live: true,
            since: Instant::ZERO,
            seen: Instant::ZERO,
            bytes: 0,
            before: 0,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.flows[at as usize] = fresh;
                at
            }
            None if self.flows.len() < self.capacity => {
                self.flows.push(fresh);
                (self.flows.len() - 1) as u32
            }
            None => return None,
        };
        *place = at + 1;
        Some(at)
    }
}

/// Settings that a router starts from where it is told no other.
impl Default for AdmissionSettings {
    fn default() -> Self {
        Self {
            cap: Rate(0),
            accept_pct: 90,
            drop_pct: 95,
            interval: Duration::from_millis(800),
            windows: 10,
            policy: Victim::Random,
            turned: Turned::Demote,
            idle: Duration::from_secs(5),
            retry: None,
            new_flow: Rate(80_000),
            locked: false,
            cancel: 0,
            caps: Vec::new(),
            overhead: 0,
            premium: Vec::new(),
        }
    }
}
