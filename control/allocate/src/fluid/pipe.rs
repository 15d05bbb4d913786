//! A first-in-first-out queue of fluid, served at a rate that may change.

use perhop_units::{Bytes, Duration, Instant, Rate};
use std::collections::VecDeque;

/// 10⁻⁹ bit of a byte.
const NANOBITS_PER_BYTE: u128 = 8_000_000_000;

/// Integrals over time; subtract two to leave out a warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// All in 10⁻⁹ bit.
    pub(super) offered: u128,
    pub(super) carried: u128,
    pub(super) lost: u128,
    pub(super) allocated: u128,
    /// Offered while the rate was above the allocation, the part above it.
    pub(super) over: u128,
    /// Queue integrated over time, 10⁻⁹ bit · s.
    pub(super) waiting: f64,
}

impl Sums {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            offered: self.offered - earlier.offered,
            carried: self.carried - earlier.carried,
            lost: self.lost - earlier.lost,
            allocated: self.allocated - earlier.allocated,
            over: self.over - earlier.over,
            waiting: self.waiting - earlier.waiting,
        }
    }
}

/// The queue.
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    now: Instant,
    /// 10⁻⁹ bit.
    queue: u128,
    limit: Option<u128>,
    sums: Sums,
    /// Points of the curve of accepted arrivals from before the head of the queue to now, while there is a queue.
    arrivals: VecDeque<(Instant, u128)>,
    accepted: u128,
    departed: u128,
    longest_delay: f64,
}

impl Pipe {
    pub(super) fn new(limit: Option<Bytes>) -> Self {
        Self {
            now: Instant::ZERO,
            queue: 0,
            limit: limit.map(|bytes| u128::from(bytes.0) * NANOBITS_PER_BYTE),
            sums: Sums::default(),
            arrivals: VecDeque::new(),
            accepted: 0,
            departed: 0,
            longest_delay: 0.0,
        }
    }

    pub(super) fn sums(&self) -> Sums {
        self.sums
    }

    /// Length of the queue, rounded up to whole bytes.
    pub(super) fn queue(&self) -> Bytes {
        Bytes(self.queue.div_ceil(NANOBITS_PER_BYTE) as u64)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue == 0
    }

    /// Longest time in the queue so far, s.
    pub(super) fn longest_delay_s(&self) -> f64 {
        self.longest_delay
    }

    pub(super) fn forget_delays(&mut self) {
        self.longest_delay = 0.0;
    }

    /// Lets time pass to `to` with this load and service.
    pub(super) fn advance(&mut self, to: Instant, load: Rate, service: Rate) {
        let dt = to.since(self.now);
        if dt == Duration::ZERO {
            return;
        }
        let of = |rate: u64| u128::from(rate) * u128::from(dt.0);
        self.sums.offered += of(load.0);
        self.sums.allocated += of(service.0);
        self.sums.over += of(load.0.saturating_sub(service.0));
        if self.queue == 0 && load <= service {
            self.sums.carried += of(load.0);
            self.accepted += of(load.0);
            self.departed += of(load.0);
        } else if load >= service {
            self.grow(to, of(load.0), of(service.0));
        } else {
            self.shrink(to, load, service);
        }
        self.now = to;
    }

    fn grow(&mut self, to: Instant, arriving: u128, served: u128) {
        let before = self.queue;
        let wanted = before + (arriving - served);
        self.queue = self.limit.map_or(wanted, |limit| wanted.min(limit.max(before)));
        let lost = wanted - self.queue;
        self.sums.lost += lost;
        self.sums.carried += served;
        self.sums.waiting += (before + self.queue) as f64 / 2.0 * to.since(self.now).as_secs_f64();
        self.arrive(to, arriving - lost);
        self.depart(to, served);
    }

    fn shrink(&mut self, to: Instant, load: Rate, service: Rate) {
        let dt = to.since(self.now);
        let per_ns = u128::from(service.0 - load.0);
        let empty_after = self.queue.div_ceil(per_ns);
        if empty_after <= u128::from(dt.0) {
            // It empties within the time; what remains of it is served as it arrives.
            let busy = Duration(empty_after as u64);
            self.sums.waiting += self.queue as f64 / 2.0 * busy.as_secs_f64();
            let arriving = u128::from(load.0) * u128::from(busy.0);
            let served = self.queue + arriving;
            self.arrive(self.now + busy, arriving);
            self.depart(self.now + busy, served);
            let rest = u128::from(load.0) * u128::from(dt.0 - busy.0);
            self.queue = 0;
            self.accepted += rest;
            self.departed += rest;
            self.sums.carried += served + rest;
            self.arrivals.clear();
        } else {
            let (arriving, served) =
                (u128::from(load.0) * u128::from(dt.0), u128::from(service.0) * u128::from(dt.0));
            let after = self.queue - per_ns * u128::from(dt.0);
            self.sums.waiting += (self.queue + after) as f64 / 2.0 * dt.as_secs_f64();
            self.queue = after;
            self.sums.carried += served;
            self.arrive(to, arriving);
            self.depart(to, served);
        }
    }

    fn arrive(&mut self, to: Instant, amount: u128) {
        if self.arrivals.is_empty() {
            self.arrivals.push_back((self.now, self.accepted));
        }
        self.accepted += amount;
        self.arrivals.push_back((to, self.accepted));
    }

    /// Serves `amount` from now to `to`. The delay is greatest at the end or where the head passes a point of the curve.
    fn depart(&mut self, to: Instant, amount: u128) {
        let (begin, span) = (self.departed, to.since(self.now).as_secs_f64());
        self.departed += amount;
        while let Some(&(at, cumulated)) = self.arrivals.get(1)
            && cumulated <= self.departed
        {
            if amount > 0 {
                let passed = (cumulated - begin.min(cumulated)) as f64 / amount as f64 * span;
                self.note(self.now.since(Instant::ZERO).as_secs_f64() + passed - at.0 as f64 / 1e9);
            }
            self.arrivals.pop_front();
        }
        if let (Some(&(from, low)), Some(&(at, high))) = (self.arrivals.front(), self.arrivals.get(1)) {
            let part = (self.departed - low) as f64 / (high - low).max(1) as f64;
            let arrived = from.0 as f64 / 1e9 + part * at.since(from).as_secs_f64();
            self.note(to.0 as f64 / 1e9 - arrived);
        }
    }

    fn note(&mut self, delay_s: f64) {
        self.longest_delay = self.longest_delay.max(delay_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn a_burst_waits_as_long_as_geometry_says() {
        let mut pipe = Pipe::new(None);
        // 2 s of twice the service: a queue of 2 s of service, then 4 s at half of it to empty.
        pipe.advance(Instant(2 * S), Rate(2_000), Rate(1_000));
        assert_eq!(pipe.queue(), Bytes(250));
        near(pipe.longest_delay_s(), 1.0);
        pipe.advance(Instant(10 * S), Rate(500), Rate(1_000));
        // What arrived last in the burst leaves 2 s after it.
        near(pipe.longest_delay_s(), 2.0);
        assert!(pipe.is_empty());
        let sums = pipe.sums();
        assert_eq!(sums.carried, u128::from(8_000 * S));
        assert_eq!((sums.lost, sums.over), (0, u128::from(2_000 * S)));
        // Two triangles: 2000 bit high, 2 s and 4 s long.
        near(sums.waiting / 1e9, 6_000.0);
    }

    #[test]
    fn more_service_in_mid_queue_shortens_the_delay() {
        let mut pipe = Pipe::new(None);
        pipe.advance(Instant(2 * S), Rate(2_000), Rate(1_000));
        pipe.advance(Instant(3 * S), Rate(0), Rate(4_000));
        // 2000 bit wait; the last of them needs 0.5 s; the head had waited 1 s.
        near(pipe.longest_delay_s(), 1.0);
    }

    #[test]
    fn a_limit_loses_the_rest_and_bounds_the_delay() {
        let mut pipe = Pipe::new(Some(Bytes(125)));
        for at in 1..=40 {
            pipe.advance(Instant(at * S / 10), Rate(2_000), Rate(1_000));
        }
        assert_eq!(pipe.queue(), Bytes(125));
        assert_eq!(pipe.sums().lost, u128::from(3_000 * S));
        assert!(pipe.longest_delay_s() < 1.0 + 1e-9, "{}", pipe.longest_delay_s());
        let sums = pipe.sums();
        assert_eq!(sums.offered, sums.carried + sums.lost + u128::from(1_000 * S));
    }
}
