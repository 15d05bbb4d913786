//! Admission by reservation: every admitted flow has a rate of its own, and all of them together fit what the class has.
//!
//! A flow is admitted with a part of what is free, at least what a call carries. What it sends beyond its rate goes its ordinary
//! way, packet by packet, so that whoever was admitted before loses nothing by it: not by many new flows, not by fat ones,
//! and not by admitted ones that grow. Its rate follows what it sends, by a part of what is free in each interval; and what it
//! has grown by since it was admitted it gives back first, when others ask. A flow that is silent for two intervals, or
//! for half as long as it has spoken, has no rate any more until it speaks again.
//!
//! Which way a flow leaves is not known yet, only that it is not the port it came in by: so it must fit into the class of
//! each other port that has it. Between two ports that is exact.

use super::settings::Cap;
use super::{Admission, AdmissionSettings, Flow, Standing};
use perhop_packet::PortId;
use perhop_units::Instant;

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

/// Classes that flows from a port may leave by.
fn caps_for(caps: &[Cap], from: PortId) -> impl Iterator<Item = (usize, &Cap)> {
    caps.iter().enumerate().filter(move |(_, cap)| cap.port != from || !from.is_some())
}

/// The most that one flow from a port gets.
fn most(caps: &[Cap], from: PortId) -> u64 {
    caps_for(caps, from).map(|(_, cap)| cap.rate.0 / MOST).min().unwrap_or(u64::MAX)
}

impl Admission {
    /// What a flow from a port could still be given; `None`: as much as it wants.
    fn free(&self, settings: &AdmissionSettings, from: PortId, premium: bool) -> Option<u64> {
        let pct = u64::from(if premium { settings.drop_pct } else { settings.accept_pct });
        let left = |(i, cap): (usize, &Cap)| {
            let limit = (u128::from(cap.rate.0) * u128::from(pct) / 100) as u64;
            limit.saturating_sub(self.reserved.get(i).copied().unwrap_or(0))
        };
        caps_for(&self.caps, from).map(left).min()
    }

    /// Gives a flow another rate, and keeps the sums.
    fn reserve(&mut self, at: usize, rate: u64) {
        let flow = &mut self.flows[at];
        let before = std::mem::replace(&mut flow.reservation.rate, rate);
        for (i, _) in caps_for(&self.caps, flow.from) {
            if let Some(sum) = self.reserved.get_mut(i) {
                *sum = (*sum + rate).saturating_sub(before);
            }
        }
    }

    /// The sums anew, for other classes. O(flows).
    pub(super) fn recount(&mut self, caps: &[Cap]) {
        self.caps = caps.to_vec();
        self.reserved.clear();
        self.reserved.resize(caps.len(), 0);
        for flow in self.flows.iter().filter(|flow| flow.live) {
            for (i, _) in caps_for(caps, flow.from) {
                self.reserved[i] += flow.reservation.rate;
            }
        }
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
        let floor = settings.floor(len);
        let most = most(&self.caps, from);
        let mut free = self.free(settings, from, premium);
        while free.is_some_and(|free| free < floor) && self.reclaim(from, floor) {
            free = self.free(settings, from, premium);
        }
        let locked = settings.locked && how == Begin::New;
        // A class that is made for less than one such flow takes one.
        let alone = caps_for(&self.caps, from).all(|(i, _)| self.reserved.get(i).is_none_or(|sum| *sum == 0));
        let full = free.is_some_and(|free| free < floor) && !alone;
        if how != Begin::AsItIs && (locked || full) {
            return false;
        }
        let floor = if alone { free.map_or(floor, |free| floor.min(free.max(1))) } else { floor };
        // Where it could not be limited by anybody it is not.
        let rate = free.map_or(0, |free| (free / PART).clamp(floor, most.max(floor)));
        let base = rate.min(floor);
        let fresh = Reservation {
            rate: 0,
            base,
            tokens: u64::MAX,
            filled: now,
            quiet: 0,
            spoke: 0,
            peak: 0,
            first: (now, 0),
        };
        self.flows[at].reservation = Reservation { rate: self.flows[at].reservation.rate, ..fresh };
        self.reserve(at, rate);
        true
    }

    /// Takes back up to `wanted` of what the flow that has grown most has grown by; `false`: none has.
    fn reclaim(&mut self, from: PortId, wanted: u64) -> bool {
        let shares = |flow: &Flow| caps_for(&self.caps, from).any(|(_, cap)| cap.port != flow.from);
        let grown = |flow: &Flow| flow.reservation.rate.saturating_sub(flow.reservation.base);
        let flows = self.flows.iter().enumerate();
        let candidates = flows.filter(|(_, f)| f.live && f.standing == Standing::Admitted && shares(f));
        let Some((at, most)) = candidates.map(|(at, f)| (at, grown(f))).max_by_key(|(_, grown)| *grown)
        else {
            return false;
        };
        if most == 0 {
            return false;
        }
        let rate = self.flows[at].reservation.rate - most.min(wanted);
        self.reserve(at, rate);
        true
    }

    /// Whether an admitted flow's packet is within its rate. A flow that had none asks for one: `None`, there is none left.
    pub(super) fn within(&mut self, now: Instant, at: usize, len: u64) -> Option<bool> {
        if caps_for(&self.caps, self.flows[at].from).next().is_none() {
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
                let most = most(&self.caps, from);
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
