//! The bucket inside every meter.

use perhop_units::{Bytes, Instant, Rate, Tokens};

/// The largest burst a meter takes: two of them together stay below [`Tokens::MAX`].
pub const MAX_BURST: Bytes = Bytes(500_000_000);

/// A token bucket: earns `rate` up to `burst`, starts full. Exact: rate × Δt is a whole number of tokens
/// (10⁻⁹ bit), so many short gaps earn as much as one long gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: Rate,
    burst: Tokens,
    level: Tokens,
    last: Instant,
}

impl Bucket {
    /// A full bucket whose clock starts at [`Instant::ZERO`]; `burst` is clamped to [`MAX_BURST`].
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let burst = Tokens::from_bytes(burst.min(MAX_BURST));
        Self { rate, burst, level: burst, last: Instant::ZERO }
    }

    /// Credits the time up to `now`; an earlier `now` than before changes nothing. Returns what did not fit.
    #[inline]
    pub fn refill(&mut self, now: Instant) -> Tokens {
        if now <= self.last {
            return Tokens::ZERO;
        }
        let earned = self.rate.earned(now.since(self.last));
        self.last = now;
        self.add(earned)
    }

    /// Adds tokens from elsewhere; returns what did not fit.
    #[inline]
    pub fn add(&mut self, tokens: Tokens) -> Tokens {
        // The level is never negative and never above the burst, so the room cannot overflow.
        let room = self.burst.0 - self.level.0;
        let taken = tokens.0.min(room);
        self.level.0 += taken;
        Tokens(tokens.0 - taken)
    }

    /// Whether `cost` is there now.
    #[inline]
    pub fn covers(&self, cost: Tokens) -> bool {
        self.level >= cost
    }

    /// Takes `cost`, which [`Bucket::covers`] has confirmed.
    #[inline]
    pub fn take(&mut self, cost: Tokens) {
        debug_assert!(self.covers(cost), "taking more than the bucket holds");
        self.level = Tokens((self.level.0 - cost.0).max(0));
    }

    /// Tokens inside, as of the last refill.
    pub fn level(&self) -> Tokens {
        self.level
    }

    /// What it earns.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// What it holds at most.
    pub fn burst(&self) -> Tokens {
        self.burst
    }

    /// Continues where `old` stood at `now`: same level, as far as the own burst allows.
    pub fn adopt(&mut self, mut old: Self, now: Instant) {
        old.refill(now);
        self.level = old.level.min(self.burst);
        self.last = old.last;
    }
}
