//! Admission by reservation: every admitted flow has a rate of its own, and all of them together fit what the class has.
//!
//! A flow is admitted with a part of what is free, at least what a call carries. What it sends beyond its rate goes its ordinary
//! way, packet by packet, so that whoever was admitted before loses nothing by it: not by many new flows, not by fat ones,
//! and not by admitted ones that grow. Its rate follows what it sends, by a part of what is free in each interval; and what it
//! has grown by since it was admitted it gives back first, when others ask whom that makes room where it is lacking. A flow that is silent for two intervals, or
//! for half as long as it has spoken, has no rate any more until it speaks again.
//!
//! Which way a flow leaves is not known yet, only that it is not the port it came in by: so it must fit into the class of
//! each other port that has it. Between two ports that is exact.

use super::settings::Cap;
use super::{Admission, AdmissionSettings, Flow, Shortage, Standing};
use perhop_packet::PortId;
use perhop_units::{Instant, Rate};
use std::collections::BinaryHeap;

/// A new flow gets this part of what is free, and a growing one in an interval.
const PART: u64 = 8;
/// No flow has more than this part of all.
const MOST: u64 = 2;
/// More than it sends, as calls are not perfectly even: a sixteenth.
const ROOM: (u64, u64) = (17, 16);
/// What a flow may send at once, in time of its rate and in bytes at least.
const BURST_NS: u64 = 100_000_000;
const LEAST_BURST: u64 = 3_000;
/// Intervals of silence after which a flow has no rate; half as many as it has spoken in, if that is more.
const QUIET: u8 = 2;
/// 10⁻⁹ bit in a byte.
const BYTE: u64 = 8_000_000_000;

/// What a flow may send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reservation {
    /// Bit/s; 0: none now.
    pub rate: u64,
    /// What it was admitted for: what a call is given at least.
    base: u64,
    /// 10⁻⁹ bit.
    tokens: u64,
    filled: Instant,
    /// Intervals without a packet, and with.
    quiet: u8,
    spoke: u8,
    /// What it sent lately while it spoke, bit/s.
    peak: u64,
    /// When the interval's first packet came, and its bytes.
    first: (Instant, u64),
}

impl Reservation {
    /// What it has grown by since it was admitted, and gives back when others ask.
    fn grown(self) -> u64 {
        self.rate.saturating_sub(self.base)
    }

    fn burst(self) -> u64 {
        self.rate.saturating_mul(BURST_NS).max(LEAST_BURST * BYTE)
    }

    /// Whether a packet of `len` bytes is within the rate.
    fn spend(&mut self, now: Instant, len: u64) -> bool {
        let earned = self.rate.saturating_mul(now.since(self.filled).0.min(1_000_000_000));
        self.tokens = self.tokens.saturating_add(earned).min(self.burst());
        self.filled = self.filled.max(now);
        let cost = len.saturating_mul(BYTE);
        let fits = self.tokens >= cost;
        if fits {
            self.tokens -= cost;
        }
        fits
    }
}

fn with_room(rate: u64) -> u64 {
    rate.saturating_mul(ROOM.0) / ROOM.1
}

/// Packets a second of a call, by which a packet says what a call of its codec needs.
const CALL_PPS: u64 = 50;

impl AdmissionSettings {
    /// What a new flow is given at least, by a packet of `len` bytes of it: what its call needs, or any call.
    fn floor(&self, len: u64) -> u64 {
        with_room(self.new_flow.0.min(len.saturating_mul(8 * CALL_PPS))).max(1)
    }
}

/// A class that flows share, and what they have of it, bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    cap: Cap,
    /// What flows have reserved.
    reserved: u64,
    /// The part of it that they have grown by.
    grown: u64,
    /// While room is made: what is still lacking.
    lack: u64,
}

impl Shared {
    fn new(cap: Cap) -> Self {
        Self { cap, reserved: 0, grown: 0, lack: 0 }
    }

    /// Whether flows from a port may leave by it.
    fn is_for(&self, from: PortId) -> bool {
        self.cap.port != from || !from.is_some()
    }

    /// What flows may reserve up to `pct`.
    fn limit(&self, pct: u8) -> u64 {
        (u128::from(self.cap.rate.0) * u128::from(pct) / 100) as u64
    }

    /// Counts a flow that had `before` and has `now`.
    fn count(&mut self, before: Reservation, now: Reservation) {
        self.reserved = (self.reserved + now.rate).saturating_sub(before.rate);
        self.grown = (self.grown + now.grown()).saturating_sub(before.grown());
    }
}

/// Classes that flows from a port may leave by.
fn classes_for(classes: &[Shared], from: PortId) -> impl Iterator<Item = &Shared> {
    classes.iter().filter(move |class| class.is_for(from))
}

/// The most that a flow from a port can do against what is lacking, by what it gives.
fn lack(classes: &[Shared], from: PortId) -> u64 {
    classes_for(classes, from).map(|class| class.lack).max().unwrap_or(0)
}

/// The most that one flow from a port gets.
fn most(classes: &[Shared], from: PortId) -> u64 {
    classes_for(classes, from).map(|class| class.cap.rate.0 / MOST).min().unwrap_or(u64::MAX)
}

impl Admission {
    /// What a flow from a port could still be given; `None`: as much as it wants.
    fn free(&self, settings: &AdmissionSettings, from: PortId, premium: bool) -> Option<u64> {
        let pct = settings.pct(premium);
        let left = |class: &Shared| class.limit(pct).saturating_sub(class.reserved);
        classes_for(&self.classes, from).map(left).min()
    }

    /// Gives a flow another rate, and keeps the sums. O(classes).
    fn reserve(&mut self, at: usize, rate: u64) {
        let flow = &mut self.flows[at];
        let before = flow.reservation;
        flow.reservation.rate = rate;
        let flow = *flow;
        for class in self.classes.iter_mut().filter(|class| class.is_for(flow.from)) {
            class.count(before, flow.reservation);
        }
    }

    /// The sums anew, for other classes. O(flows · classes).
    pub(super) fn recount(&mut self, caps: &[Cap]) {
        self.classes.clear();
        self.classes.extend(caps.iter().copied().map(Shared::new));
        for flow in self.flows.iter().filter(|flow| flow.live) {
            for class in self.classes.iter_mut().filter(|class| class.is_for(flow.from)) {
                class.count(Reservation::default(), flow.reservation);
            }
        }
    }

    /// How full it is where a flow from a port may leave: of several classes the one in which least room could be made.
    pub(super) fn fullest(&self, settings: &AdmissionSettings, from: PortId, premium: bool) -> Shortage {
        let pct = settings.pct(premium);
        // Less than nothing where more is reserved than this flow's kind may have of it.
        let room = |class: &&Shared| {
            i128::from(class.limit(pct)) + i128::from(class.grown) - i128::from(class.reserved)
        };
        let locked = settings.locked;
        classes_for(&self.classes, from).min_by_key(room).map_or(
            Shortage { locked, ..Shortage::default() },
            |class| Shortage {
                port: class.cap.port,
                used: Rate(class.reserved),
                cap: class.cap.rate,
                locked,
            },
        )
    }

    /// Takes a flow's rate back: it is none any more.
    pub(super) fn give_back(&mut self, at: usize) {
        self.reserve(at, 0);
    }

    /// A rate for a flow that has none, whether it is new or was silent; others give back what they have grown by.
    pub(super) fn begin(&mut self, now: Instant, at: usize, len: u64, how: Begin) -> bool {
        let Some(settings) = self.settings.take() else { return true };
        let accepted = self.begin_with(&settings, now, (at, len), how);
        self.settings = Some(settings);
        accepted
    }

    fn begin_with(
        &mut self,
        settings: &AdmissionSettings,
        now: Instant,
        (at, len): (usize, u64),
        how: Begin,
    ) -> bool {
        let Flow { from, premium, .. } = self.flows[at];
        if settings.locked && how == Begin::New {
            return false;
        }
        let floor = settings.floor(len);
        let most = most(&self.classes, from);
        // A class that is made for less than one such flow takes one.
        let alone = classes_for(&self.classes, from).all(|class| class.reserved == 0);
        let fits = self.make_room(settings, (from, premium), floor, how == Begin::AsItIs);
        if !(fits || alone || how == Begin::AsItIs) {
            return false;
        }
        let free = self.free(settings, from, premium);
        let floor = if alone { free.map_or(floor, |free| floor.min(free.max(1))) } else { floor };
        // Where it could not be limited by anybody it is not.
        let rate = free.map_or(0, |free| (free / PART).clamp(floor, most.max(floor)));
        let base = rate.min(floor);
        self.flows[at].reservation = Reservation {
            rate: 0,
            base,
            tokens: u64::MAX,
            filled: now,
            quiet: 0,
            spoke: 0,
            peak: 0,
            first: (now, 0),
        };
        self.reserve(at, rate);
        true
    }

    /// Makes room for `wanted` in every class that the asker may leave by: from what others there have grown by, of those first
    /// that have grown most, and no more than is lacking. Where all of it would not suffice nothing is taken, or with
    /// `in_part` what there is. Whether there is room now.
    ///
    /// O(classes) where there is room, or cannot be; else O(flows · classes), and O(log flows) for each flow that gives.
    fn make_room(
        &mut self,
        settings: &AdmissionSettings,
        (from, premium): (PortId, bool),
        wanted: u64,
        in_part: bool,
    ) -> bool {
        let pct = settings.pct(premium);
        let (mut lacks, mut suffices) = (false, true);
        for class in &mut self.classes {
            let room = class.limit(pct);
            let lack = class.reserved.saturating_add(wanted).saturating_sub(room);
            let lack = if class.is_for(from) { lack } else { 0 };
            suffices &= lack <= class.grown;
            class.lack = lack.min(class.grown);
            lacks |= class.lack > 0;
        }
        if !lacks || !(suffices || in_part) {
            return suffices;
        }
        let mut grown = std::mem::take(&mut self.grown);
        grown.clear();
        let flows = self.flows.iter().enumerate();
        let giving = flows.map(|(at, flow)| (flow.reservation.grown(), at as u32, flow.from));
        let giving = giving.filter(|(grown, _, from)| *grown > 0 && lack(&self.classes, *from) > 0);
        grown.extend(giving.map(|(grown, at, _)| (grown, at)));
        let mut most = BinaryHeap::from(grown);
        while self.classes.iter().any(|class| class.lack > 0)
            && let Some((grown, at)) = most.pop()
        {
            let Flow { from, reservation, .. } = self.flows[at as usize];
            let given = lack(&self.classes, from).min(grown);
            self.reserve(at as usize, reservation.rate - given);
            for class in self.classes.iter_mut().filter(|class| class.is_for(from)) {
                class.lack = class.lack.saturating_sub(given);
            }
        }
        self.grown = most.into_vec();
        suffices
    }

    /// Whether an admitted flow's packet is within its rate. A flow that had none asks for one: `None`, there is none left.
    pub(super) fn within(&mut self, now: Instant, at: usize, len: u64) -> Option<bool> {
        if classes_for(&self.classes, self.flows[at].from).next().is_none() {
            return Some(true);
        }
        if self.flows[at].reservation.rate == 0 && !self.begin(now, at, len, Begin::Again) {
            return None;
        }
        let flow = &mut self.flows[at];
        Some(flow.reservation.spend(now, len))
    }

    /// The first packet of an interval, before it is counted.
    pub(super) fn speaks(&mut self, now: Instant, at: usize, len: u64) {
        self.flows[at].reservation.first = (now, len);
    }

    /// An interval has ended: rates follow what was sent.
    pub(super) fn follow_rates(&mut self, settings: &AdmissionSettings) {
        for at in 0..self.flows.len() {
            let Flow { live, standing, from, premium, bytes, seen, reservation, .. } = self.flows[at];
            if !live || standing != Standing::Admitted || reservation.rate == 0 {
                continue;
            }
            let rate = |bytes| super::rate(bytes, settings.interval).0;
            // Who pauses keeps what it had: only what was sent counts.
            let (sent, span) = (rate(bytes), seen.since(reservation.first.0));
            // Between its packets, where it spoke for part of the interval.
            let speaking = if span.0 >= settings.interval.0 / 8 {
                super::rate(bytes.saturating_sub(reservation.first.1), span).0.max(sent)
            } else {
                sent
            };
            let peak = if bytes == 0 { reservation.peak } else { speaking.max(reservation.peak / 8 * 7) };
            let quiet = if bytes == 0 { reservation.quiet.saturating_add(1) } else { 0 };
            let spoke = reservation.spoke.saturating_add(u8::from(bytes > 0));
            self.flows[at].reservation = Reservation { quiet, spoke, peak, ..reservation };
            // What is not used goes a quarter at a time: a call of a small codec leaves room for another.
            let wanted = with_room(peak).max(reservation.rate / 4 * 3).max(1);
            let next = if quiet >= QUIET.max(spoke / 2) {
                0
            } else if with_room(sent) > reservation.rate {
                let most = most(&self.classes, from);
                let free = self.free(settings, from, premium).unwrap_or(u64::MAX);
                let back_to_a_call = reservation.base.saturating_sub(reservation.rate).min(free);
                let grown = reservation.rate.saturating_add((free / PART).max(back_to_a_call));
                grown.min(with_room(sent)).min(most).max(reservation.rate)
            } else if spoke <= 1 || bytes == 0 {
                // It began in the middle of the interval, or pauses.
                reservation.rate
            } else {
                wanted.min(reservation.rate)
            };
            self.reserve(at, next);
        }
    }
}

/// Why a flow is given a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// It asks.
    New,
    /// It was silent.
    Again,
    /// It was recognised before anybody had to ask.
    AsItIs,
}

#[cfg(test)]
#[path = "reserved_tests.rs"]
mod tests;
