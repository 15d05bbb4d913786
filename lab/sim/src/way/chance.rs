//! What chance does to the packets of one direction: the laws of the data plane's emulated links, so that a scenario
//! means the same here and in namespaces.

use crate::random::Stream;
use perhop_elements::emulate::{BurstLoss, JitterShape};
use perhop_scenario as scenario;
use perhop_units::{Duration, Probability};

/// Loss, copies and delays of one direction, drawn from its stream.
#[derive(Debug)]
pub(super) struct Chance {
    delay: Duration,
    spread: Duration,
    shape: JitterShape,
    loss: Probability,
    burst: Option<BurstLoss>,
    /// State of the burst model.
    bad: bool,
    duplicate: Probability,
    reorder: Probability,
    random: Stream,
}

impl Chance {
    /// What a scenario says of a direction.
    pub(super) fn new(way: &scenario::Way, random: Stream) -> Self {
        let shape = match way.jitter.map(|jitter| jitter.shape).unwrap_or_default() {
            scenario::JitterShape::Uniform => JitterShape::Uniform,
            scenario::JitterShape::Normal => JitterShape::Normal,
            scenario::JitterShape::Pareto => JitterShape::Pareto,
        };
        let burst = way.burst_loss.map(|model| {
            let scenario::GilbertElliott { p, r, loss_good, loss_bad } = model;
            BurstLoss { p, r, loss_good, loss_bad }
        });
        Self {
            delay: way.delay,
            spread: way.jitter.map_or(Duration::ZERO, |jitter| jitter.spread),
            shape,
            loss: way.loss,
            burst,
            bad: false,
            duplicate: way.duplicate,
            reorder: way.reorder,
            random,
        }
    }

    /// Another mean delay from now on.
    pub(super) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Another independent loss from now on.
    pub(super) fn set_loss(&mut self, loss: Probability) {
        self.loss = loss;
    }

    fn happens(&mut self, probability: Probability) -> bool {
        probability != Probability::ZERO && probability.happens(self.random.bits())
    }

    /// Whether the next packet comes twice.
    pub(super) fn duplicates(&mut self) -> bool {
        self.happens(self.duplicate)
    }

    /// Whether the next packet is lost on its way.
    pub(super) fn loses(&mut self) -> bool {
        let burst = self.burst.is_some_and(|model| model.loses(&mut self.bad, || self.random.bits()));
        burst || self.happens(self.loss)
    }

    /// Whether the next packet skips the delay.
    pub(super) fn overtakes(&mut self) -> bool {
        self.happens(self.reorder)
    }

    /// How long the next packet is on its way.
    pub(super) fn delay(&mut self) -> Duration {
        self.shape.delay(self.delay, self.spread, || self.random.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The element draws from the same numbers what a direction does.
    #[test]
    fn draws_are_those_of_an_emulated_link() {
        let shapes = [
            (scenario::JitterShape::Uniform, JitterShape::Uniform),
            (scenario::JitterShape::Normal, JitterShape::Normal),
            (scenario::JitterShape::Pareto, JitterShape::Pareto),
        ];
        let (delay, spread) = (Duration::from_millis(20), Duration::from_millis(5));
        let half = Probability(1 << 31);
        let burst =
            scenario::GilbertElliott { p: half, r: half, loss_good: Probability::ZERO, loss_bad: half };
        for (shape, same) in shapes {
            let jitter = Some(scenario::Jitter { spread, shape });
            let way = scenario::Way { delay, jitter, burst_loss: Some(burst), ..scenario::Way::default() };
            let mut chance = Chance::new(&way, Stream::new(3, 1, 4));
            let mut random = Stream::new(3, 1, 4);
            let model = BurstLoss { p: half, r: half, loss_good: Probability::ZERO, loss_bad: half };
            let mut bad = false;
            for _ in 0..1000 {
                assert_eq!(chance.loses(), model.loses(&mut bad, || random.bits()));
                assert_eq!(chance.delay(), same.delay(delay, spread, || random.bits()));
            }
        }
    }
}
