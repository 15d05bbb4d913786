//! Playout buffers: which packets of a call a receiver hears, and how long it holds them.
//!
//! [`PlayoutBuffer`] is that of a receiver which adapts. Packets come in the order of their arrival. Each may be
//! heard if its delay is no larger than the buffer's playout delay, which is found anew
//!
//! | when | as |
//! |---|---|
//! | the first packet comes | its delay + the least depth |
//! | a packet of a new talk spurt comes | what was needed in the last five spurts: the slowest packet of each but one, at least the least depth and at most the largest one above the fastest |
//! | three packets in succession come too late | as with the first: what was before counts no more |
//!
//! A spurt is a second of sending time, about as long as people talk without a pause (ITU-T P.59 clause 3): a pause is where a
//! receiver can change its delay unheard. So a path that gets longer costs three packets, and jitter costs depth rather than
//! packets.
//!
//! Source: S. Moon, J. Kurose, D. Towsley, *Packet audio playout delay adjustment: performance bounds and algorithms*, Multimedia
//! Systems 6 (1998), algorithm 3: a quantile of the last packets' delays, spurt by spurt, with a way into and out of spikes.
//! Memory and time for a packet are constant.

use perhop_units::{Duration, Instant};

/// The receiver's playout buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Playout {
    /// One playout delay for the whole part of a call that is scored.
    Fixed {
        /// Time that the packet with the smallest delay waits.
        depth: Duration,
    },
    /// See the module above.
    Adaptive {
        /// Least depth: time that the fastest of the last packets waits, at least.
        least: Duration,
        /// Largest depth.
        most: Duration,
    },
}

impl Playout {
    /// Depth, or least depth, of a buffer that nobody has set.
    pub const DEPTH: Duration = Duration::from_millis(40);
    /// Largest depth of a buffer that nobody has set.
    pub const MOST: Duration = Duration::from_millis(300);
}

impl Default for Playout {
    fn default() -> Self {
        Self::Adaptive { least: Self::DEPTH, most: Self::MOST }
    }
}

/// Length of a talk spurt.
const SPURT: Duration = Duration::from_secs(1);
/// How many of them are remembered.
const SPURTS: usize = 5;
/// Packets of a spurt that are not waited for.
const LEFT_OUT: usize = 1;
/// Packets in succession that are too late for the buffer to begin anew.
pub const ANEW: u8 = 3;

/// Delays of the packets of a spurt, ns.
#[derive(Clone, Copy, Debug)]
struct Spurt {
    fastest: i64,
    /// The slowest ones, descending.
    slowest: [i64; LEFT_OUT + 1],
}

impl Spurt {
    const NONE: Self = Self { fastest: i64::MAX, slowest: [i64::MIN; LEFT_OUT + 1] };

    fn add(&mut self, delay: i64) {
        self.fastest = self.fastest.min(delay);
        let mut value = delay;
        for slow in &mut self.slowest {
            if value > *slow {
                std::mem::swap(&mut value, slow);
            }
        }
    }

    /// What it takes to hear all of them but one.
    fn needed(&self) -> i64 {
        self.slowest[LEFT_OUT]
    }
}

/// A buffer that adapts, see the module.
#[derive(Clone, Copy, Debug)]
pub struct PlayoutBuffer {
    least: i64,
    most: i64,
    /// The last spurts in a ring, the present one at `number` modulo their number.
    spurts: [Spurt; SPURTS],
    number: u64,
    begin: Option<Instant>,
    delay: i64,
    late: u8,
}

impl PlayoutBuffer {
    /// An empty buffer of these depths; `most` below `least` counts as `least`.
    pub fn new(least: Duration, most: Duration) -> Self {
        let ns = |depth: Duration| i64::try_from(depth.as_nanos()).unwrap_or(i64::MAX);
        Self {
            least: ns(least),
            most: ns(most.max(least)),
            spurts: [Spurt::NONE; SPURTS],
            number: 0,
            begin: None,
            delay: 0,
            late: 0,
        }
    }

    /// A packet arrives that was sent at `sent` and took `delay_ns`, which two clocks may make negative. Whether it is heard.
    pub fn arrives(&mut self, sent: Instant, delay_ns: i64) -> bool {
        let Some(begin) = self.begin else {
            self.begin = Some(sent);
            self.begin_anew(delay_ns);
            return true;
        };
        let number = sent.since(begin).as_nanos() / SPURT.as_nanos();
        if number > self.number {
            self.next_spurt(number, delay_ns);
        }
        self.spurts[self.number as usize % SPURTS].add(delay_ns);
        let heard = delay_ns <= self.delay;
        self.late = if heard { 0 } else { self.late + 1 };
        if self.late == ANEW {
            self.begin_anew(delay_ns);
        }
        heard
    }

    /// Playout delay now, ns; 0 before the first packet.
    pub fn delay_ns(&self) -> i64 {
        self.delay
    }

    fn begin_anew(&mut self, delay: i64) {
        self.spurts = [Spurt::NONE; SPURTS];
        self.spurts[self.number as usize % SPURTS].add(delay);
        self.delay = delay.saturating_add(self.least);
        self.late = 0;
    }

    /// Goes on to spurt `number`, whose first packet took `delay`.
    fn next_spurt(&mut self, number: u64, delay: i64) {
        let fastest = self.spurts.iter().map(|spurt| spurt.fastest).min().unwrap_or(delay).min(delay);
        let needed = self.spurts.iter().map(Spurt::needed).max().unwrap_or(delay);
        let [least, most] = [self.least, self.most].map(|depth| fastest.saturating_add(depth));
        self.delay = needed.clamp(least, most);
        // Those in which nothing came hold nothing.
        for gone in (self.number + 1..=number).rev().take(SPURTS) {
            self.spurts[gone as usize % SPURTS] = Spurt::NONE;
        }
        self.number = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    /// Packets every 20 ms with these delays, ms: which are heard, and the playout delay with each, ms.
    fn hear(delays: impl IntoIterator<Item = i64>) -> (Vec<bool>, Vec<i64>) {
        let mut buffer = PlayoutBuffer::new(Playout::DEPTH, Playout::MOST);
        let mut arrive = |(n, delay): (u64, i64)| {
            let heard = buffer.arrives(Instant(1_000_000_000 + n * 20_000_000), delay * MS);
            (heard, buffer.delay_ns() / MS)
        };
        (0..).zip(delays).map(&mut arrive).unzip()
    }

    fn late(heard: &[bool]) -> usize {
        heard.iter().filter(|heard| !**heard).count()
    }

    #[test]
    fn without_jitter_it_is_as_deep_as_the_least() {
        let (heard, delays) = hear((0..500).map(|n| 20 + n * 7 % 40));
        assert_eq!(late(&heard), 0);
        assert!(delays.iter().all(|delay| *delay == 60), "{delays:?}");
    }

    #[test]
    fn a_path_that_gets_longer_costs_three_packets_and_one_that_gets_shorter_none() {
        let (heard, delays) = hear((0..1_500).map(|n| if (500..1_000).contains(&n) { 120 } else { 20 }));
        assert_eq!(late(&heard), 3);
        assert!(!heard[500] && !heard[501] && !heard[502]);
        assert_eq!(delays[502], 160);
        // It is shorter again when the last five spurts are of the shorter path.
        assert_eq!((delays[1_020], delays[1_320]), (120, 60));
    }

    #[test]
    fn jitter_costs_depth_rather_than_packets() {
        // One in ten is up to 100 ms slower than the others.
        let (heard, delays) = hear((0..3_000).map(|n| 20 + if n % 10 == 3 { n * 37 % 100 } else { 0 }));
        assert!(late(&heard[50..]) <= 2_950 / 60, "{}", late(&heard));
        assert!((100..=120).contains(&delays[2_999]), "{}", delays[2_999]);
        // What is slower than the largest depth is late.
        let (heard, delays) = hear((0..3_000).map(|n| 20 + if n % 10 == 3 { 1_000 } else { 0 }));
        assert_eq!((late(&heard), delays[2_999]), (300, 320));
    }

    #[test]
    fn a_spike_is_over_with_its_packets() {
        // 400 ms in which nothing comes, then all of it at once.
        let (heard, _) =
            hear((0..1_000).map(|n| if (500..520).contains(&n) { 420 - (n - 500) * 20 } else { 20 }));
        assert_eq!(late(&heard), 3, "of twenty");
    }

    #[test]
    fn silence_is_no_reason_to_remember() {
        let mut buffer = PlayoutBuffer::new(Playout::DEPTH, Playout::MOST);
        for n in 0..100 {
            buffer.arrives(Instant(n * 20_000_000), if n % 5 == 0 { 150 * MS } else { 20 * MS });
        }
        assert_eq!(buffer.delay_ns(), 150 * MS);
        assert!(buffer.arrives(Instant(3_600_000_000_000), 20 * MS));
        // The first packet behind it still has what was known before.
        assert!(buffer.arrives(Instant(3_601_000_000_000), 20 * MS));
        assert_eq!(buffer.delay_ns(), 60 * MS);
    }

    proptest! {
        /// Whatever comes, in whatever order: the first is heard, the playout delay is never less than what is heard, and four
        /// packets of equal delay in succession are not all too late.
        #[test]
        fn it_never_gives_up(packets in prop::collection::vec((0_u64..100_000, -1_000_i64..5_000), 1..300), least in 0_u64..100, most in 0_u64..1_000) {
            let ms = Duration::from_millis;
            let mut buffer = PlayoutBuffer::new(ms(least), ms(most));
            for (i, (sent, delay)) in packets.iter().enumerate() {
                let before = buffer.delay_ns();
                let heard = buffer.arrives(Instant(sent * 1_000_000), delay * MS);
                prop_assert!(i > 0 || heard);
                prop_assert!(!heard || delay * MS <= buffer.delay_ns().max(before));
            }
            let last = packets[packets.len() - 1];
            let heard = (0..4).map(|n| buffer.arrives(Instant((last.0 + n) * 1_000_000), last.1 * MS));
            prop_assert!(heard.filter(|heard| *heard).count() > 0);
        }
    }
}
