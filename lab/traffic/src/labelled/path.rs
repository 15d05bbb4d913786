//! What the network does to one direction of an exchange.

use crate::random::Generator;
use perhop_units::Duration;

/// Delay, jitter, loss and reordering of one direction; packets keep their order but for those that are reordered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    delay: Duration,
    jitter: Duration,
    /// Probabilities in 10⁻⁴.
    loss: u64,
    reorder: u64,
    last: Duration,
}

impl Path {
    /// A path as access networks have them: 1 … 60 ms, exponential jitter of up to 8 ms in the mean, no loss in every
    /// second and up to 5 % in the others, reordering of up to 1 % in every fourth.
    pub fn draw(random: &mut Generator) -> Self {
        let chance = |random: &mut Generator, one_in, most| match random.below(one_in) {
            0 => random.below(most),
            _ => 0,
        };
        Self {
            delay: random.between(Duration::from_millis(1), Duration::from_millis(60)),
            jitter: random.between(Duration::from_micros(10), Duration::from_millis(8)),
            loss: chance(random, 2, 501),
            reorder: chance(random, 4, 101),
            last: Duration::ZERO,
        }
    }

    /// When what is sent at `at` passes the observer; `None` when it is lost.
    pub fn pass(&mut self, random: &mut Generator, at: Duration) -> Option<Duration> {
        if random.below(10_000) < self.loss {
            return None;
        }
        let arrival = at + self.delay + random.exponential(self.jitter);
        if random.below(10_000) < self.reorder {
            // Overtaken by what comes in this time.
            return Some(
                self.last.max(arrival) + random.between(Duration::from_millis(5), Duration::from_millis(40)),
            );
        }
        self.last = self.last.max(arrival);
        Some(self.last)
    }
}
