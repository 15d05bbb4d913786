//! # Synopsis
//! [`Transmitter`] knows when a line of a given rate can take the next packet.
//!
//! # Ports
//! None: plain state inside [`super::Pump`].
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `rate` | rate | bit/s | 0 = unlimited | 0 … 2⁶⁴−1 |
//! | `overhead` | integer | byte a packet | 0 | 0 … 256 |
//! | `framing` | | | every frame takes its own bytes | see [`Framing`] |
//! | `catchup` | duration | ns | 0 | 0 … 1 s |
//! | `ring_time` | duration | ns | 0 | 0 … 1 s |
//!
//! # Behaviour
//! A packet of `len` bytes occupies the line for `(len + overhead) · 8 / rate`: 1,250 bytes at 10 Mbit/s for exactly 1 ms. `framing` may
//! make these bytes more: a minimum, whole cells.
//! The line is busy until `busy_until = max(busy_until, now − catchup) + wire time`; a packet may be pulled while `busy_until ≤ now` or
//! `busy_until < now + ring_time`. `catchup` lets a driver that woke late send what it missed, `ring_time` bounds what
//! waits in the card. Both are 0 in virtual time. When the rate changes, the bits still on the line go on at the new rate:
//! line time committed before is stretched or shrunk with them, so that neither a stall nor a burst follows.
//!
//! # Counters
//! None of its own; the pump reports `busy_ns`.
//!
//! # Invariants
//! Time is whole nanoseconds with the remainder kept, so that over any busy period exactly `rate` is used: no drift.
//!
//! # Example
//! `FromPort(lan) -> Egress(wan, rate = 10 Mbit/s, overhead = 24 B, catchup = 1 ms, ring_time = 200 us)
//! -> ToPort(wan)`
//!
//! # Source
//! None.

use perhop_units::{Duration, Framing, Instant, Rate};

/// Settings of a [`Transmitter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmitterConfig {
    /// Rate of the line; zero = unlimited.
    pub rate: Rate,
    /// Bytes added to each frame on the wire (preamble, FCS, gap, lower-layer headers).
    pub overhead_bytes: u32,
    /// What the line makes of a frame with them.
    pub framing: Framing,
    /// How much line time a late wake-up may make good.
    pub catchup: Duration,
    /// How much line time may be committed ahead of now.
    pub ring_time: Duration,
}

/// The state of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmitter {
    config: TransmitterConfig,
    busy_until: Instant,
    /// Beyond `busy_until`: `remainder / rate` ns, below 1 ns.
    remainder: u64,
    busy: Duration,
    /// Time counted as used and then given back by a higher rate: not counted again.
    given_back: Duration,
}

impl Transmitter {
    /// A line that is free since the start of the clock.
    pub fn new(config: TransmitterConfig) -> Self {
        Self {
            config,
            busy_until: Instant::ZERO,
            remainder: 0,
            busy: Duration::ZERO,
            given_back: Duration::ZERO,
        }
    }

    /// The settings.
    pub fn config(&self) -> TransmitterConfig {
        self.config
    }

    /// The rate; zero = unlimited.
    pub fn rate(&self) -> Rate {
        self.config.rate
    }

    /// Whether a packet may be pulled now.
    #[inline]
    pub fn has_room(&self, now: Instant) -> bool {
        self.config.rate.0 == 0 || self.busy_until <= now || self.busy_until < now + self.config.ring_time
    }

    /// Earliest time at which [`Transmitter::has_room`] holds; `now` if it does.
    pub fn next_room(&self, now: Instant) -> Instant {
        if self.has_room(now) {
            return now;
        }
        let ring = self.config.ring_time;
        // With a ring: the first time at which busy_until < t + ring.
        if ring.0 == 0 { self.busy_until } else { (self.busy_until - ring) + Duration(1) }
    }

    /// Wire bytes that may be pulled before the line's time is used up; at least 1 while there is room.
    pub fn room_bytes(&self, now: Instant) -> u64 {
        if self.config.rate.0 == 0 {
            return u64::MAX;
        }
        if !self.has_room(now) {
            return 0;
        }
        let from = self.busy_until.max(now - self.config.catchup);
        self.config.rate.bytes_in((now + self.config.ring_time).since(from)).0.max(1)
    }

    /// Commits the line to a packet of `len` frame bytes. Returns when its last bit leaves (rounded down to ns).
    #[inline]
    pub fn send(&mut self, now: Instant, len: u32) -> Instant {
        let rate = self.config.rate.0;
        if rate == 0 {
            return now;
        }
        let floor = now - self.config.catchup;
        if self.busy_until < floor {
            self.busy_until = floor;
            self.remainder = 0;
        }
        let bits = self.config.framing.of(u64::from(len) + u64::from(self.config.overhead_bytes)) * 8;
        // Frames are short enough for 64 bits, whose division is much faster.
        let narrow = bits.checked_mul(1_000_000_000).and_then(|t| t.checked_add(self.remainder));
        let ns = if let Some(time) = narrow {
            self.remainder = time % rate;
            Duration(time / rate)
        } else {
            let time = u128::from(bits) * 1_000_000_000 + u128::from(self.remainder);
            self.remainder = (time % u128::from(rate)) as u64;
            Duration(u64::try_from(time / u128::from(rate)).unwrap_or(u64::MAX))
        };
        self.busy_until += ns;
        self.count(ns);
        self.busy_until
    }

    fn count(&mut self, used: Duration) {
        let again = used.min(self.given_back);
        self.given_back = self.given_back - again;
        self.busy = self.busy + (used - again);
    }

    /// Charges a packet that somebody else (the kernel) sent through the same line.
    pub fn debit(&mut self, now: Instant, len: u32) {
        self.send(now, len);
    }

    /// Changes the rate for what comes later; line time already committed stays, as on an emulated line on which packets
    /// travel already.
    pub fn set_rate(&mut self, rate: Rate) {
        if self.config.rate.0 > 0 {
            let scaled = u128::from(self.remainder) * u128::from(rate.0) / u128::from(self.config.rate.0);
            self.remainder = scaled as u64;
        }
        self.config.rate = rate;
    }

    /// Changes the rate at `now`: bits that are not sent yet go on at the new rate, to the bit. What may be made good of a
    /// late wake-up never becomes more bits than were missed.
    pub fn change_rate(&mut self, now: Instant, rate: Rate) {
        let (old, new) = (u128::from(self.config.rate.0), u128::from(rate.0));
        if old == new {
            return;
        }
        self.config.rate = rate;
        let before = self.busy_until;
        if old == 0 || new == 0 {
            // An unlimited line has nothing on it and missed nothing.
            (self.busy_until, self.remainder) = (now, 0);
        } else if before > now {
            let bits = u128::from(before.since(now).0) * old + u128::from(self.remainder);
            self.busy_until = now + Duration(u64::try_from(bits / new).unwrap_or(u64::MAX));
            self.remainder = (bits % new) as u64;
        } else {
            let missed = now.since(before).min(self.config.catchup);
            let worth = u64::try_from(u128::from(missed.0) * old / new).unwrap_or(u64::MAX);
            (self.busy_until, self.remainder) = (now - Duration(worth.min(missed.0)), 0);
            return;
        }
        if self.busy_until > before {
            self.count(self.busy_until.since(before.max(now)));
        } else {
            self.given_back = self.given_back + before.since(self.busy_until);
        }
    }

    /// Changes the bytes added to each frame.
    pub fn set_overhead(&mut self, bytes: u32) {
        self.config.overhead_bytes = bytes;
    }

    /// When the line is free (rounded down to ns).
    pub fn busy_until(&self) -> Instant {
        self.busy_until
    }

    /// Line time used so far: utilisation is its increase over the time elapsed.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Continues where `old` stood: committed time, time used, and the rate at which both were counted.
    pub fn adopt(&mut self, old: &Self) {
        *self = Self { config: TransmitterConfig { rate: old.config.rate, ..self.config }, ..*old };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(rate: u64) -> Transmitter {
        Transmitter::new(TransmitterConfig { rate: Rate(rate), ..Default::default() })
    }

    #[test]
    fn the_remainder_is_never_lost() {
        let mut t = line(3);
        let mut now = Instant::ZERO;
        for _ in 0..3 {
            now = t.next_room(now);
            t.send(now, 1);
        }
        assert_eq!(t.busy_until(), Instant(8_000_000_000), "three times 8/3 s are 8 s exactly");
    }

    #[test]
    fn a_short_frame_takes_the_least_that_the_line_sends() {
        let framing = Framing::new(0, 84, false);
        let config =
            TransmitterConfig { rate: Rate(8_000_000), overhead_bytes: 24, framing, ..Default::default() };
        let mut t = Transmitter::new(config);
        assert_eq!(t.send(Instant::ZERO, 43), Instant(84_000));
        assert_eq!(t.send(Instant(84_000), 100), Instant(208_000));
    }

    #[test]
    fn unlimited_always_has_room() {
        let mut t = line(0);
        t.send(Instant(5), 1500);
        assert!(t.has_room(Instant(5)));
        assert_eq!(t.room_bytes(Instant(5)), u64::MAX);
    }

    #[test]
    fn ring_time_is_filled_but_not_exceeded_by_more_than_a_packet() {
        let mut t = Transmitter::new(TransmitterConfig {
            rate: Rate(8_000_000),
            ring_time: Duration::from_millis(1),
            ..Default::default()
        });
        let mut sent = 0;
        while t.has_room(Instant::ZERO) {
            t.send(Instant::ZERO, 300);
            sent += 1;
        }
        assert_eq!(sent, 4, "1 ms holds 1000 bytes: the fourth packet of 300 crosses the limit");
        let next = t.next_room(Instant::ZERO);
        assert!(t.has_room(next) && !t.has_room(next - Duration(1)));
    }

    #[test]
    fn catchup_makes_a_late_wake_up_good() {
        let config = TransmitterConfig {
            rate: Rate(8_000_000),
            catchup: Duration::from_millis(2),
            ..Default::default()
        };
        let mut t = Transmitter::new(config);
        t.send(Instant::ZERO, 1000);
        let late = Instant(10_000_000);
        let mut sent = 0;
        while t.has_room(late) {
            t.send(late, 1000);
            sent += 1;
        }
        assert_eq!(sent, 3, "2 ms are made good, and one packet starts now");
    }

    #[test]
    fn a_new_rate_keeps_committed_time() {
        let mut t = line(8_000_000);
        t.send(Instant::ZERO, 1000);
        t.set_rate(Rate(16_000_000));
        assert_eq!(t.busy_until(), Instant(1_000_000));
        t.send(Instant(1_000_000), 1000);
        assert_eq!(t.busy_until(), Instant(1_500_000));
        t.debit(Instant(1_500_000), 2000);
        assert_eq!(t.busy_until(), Instant(2_500_000));
    }

    #[test]
    fn a_change_of_rate_takes_the_bits_on_the_line_along() {
        let mut t = line(8_000_000);
        t.send(Instant::ZERO, 1000);
        let half = Instant(500_000);
        t.change_rate(half, Rate(800_000));
        assert_eq!(t.busy_until(), Instant(5_500_000), "500 bytes at a tenth of the rate");
        assert_eq!(t.busy(), Duration(5_500_000));
        t.change_rate(half, Rate(8_000_000));
        assert_eq!(t.busy_until(), Instant(1_000_000));
        t.send(Instant(1_000_000), 1000);
        assert_eq!((t.busy_until(), t.busy()), (Instant(2_000_000), Duration(5_500_000)), "never less");
        t.change_rate(Instant(1_500_000), Rate(0));
        assert!(t.has_room(Instant(1_500_000)));
        t.change_rate(Instant(9_000_000), Rate(8_000_000));
        assert_eq!(t.send(Instant(9_000_000), 1000), Instant(10_000_000));
    }

    #[test]
    fn what_was_missed_at_a_low_rate_is_not_made_good_at_a_high_one() {
        let catchup = Duration::from_millis(1);
        let mut t =
            Transmitter::new(TransmitterConfig { rate: Rate(1_000_000), catchup, ..Default::default() });
        let now = Instant(10_000_000);
        t.change_rate(now, Rate(100_000_000));
        assert_eq!(t.room_bytes(now), 125, "1 ms at 1 Mbit/s");
    }

    proptest! {
        #[test]
        fn a_busy_line_runs_at_exactly_its_rate(rate in 1u64..100_000_000_000, lens in prop::collection::vec(1u32..2000, 1..200)) {
            let mut t = line(rate);
            let mut now = Instant::ZERO;
            let mut bits = 0u128;
            for len in lens {
                now = t.next_room(now);
                t.send(now, len);
                bits += u128::from(len) * 8;
            }
            prop_assert_eq!(u128::from(t.busy_until().0), bits * 1_000_000_000 / u128::from(rate));
        }
    }
}
