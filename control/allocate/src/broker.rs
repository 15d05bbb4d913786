//! Who decides about requests: the interface of a bandwidth broker, and an emulated one.
//!
//! A real broker takes time, may be asked for several classes, refuses, grants less, and loses answers. The emulated
//! one does all of that on purpose, the same way for the same random bits.
//!
//! Source: L. Calarco, "Software Techniques for Multiservice IP Networks", I.3 (message sequence); refusals, partial
//! grants and losses are not exercised there.

use crate::allocator::Answer;
use crate::random::Random;
use crate::request::AskId;
use perhop_units::{Duration, Instant, Probability, Rate};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// A class as the broker knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClassId(pub u32);

/// A request for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BrokerAsk {
    /// For which class.
    pub class: ClassId,
    /// To be returned.
    pub id: AskId,
    /// What the class wants to have in all.
    pub rate: Rate,
    /// What it has.
    pub allocated: Rate,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BrokerAnswer {
    /// For which class.
    pub class: ClassId,
    /// Of the request.
    pub id: AskId,
    /// What it says.
    pub answer: Answer,
}

/// A bandwidth broker, sans-I/O: requests go in, answers come out later or never.
pub trait Broker {
    /// Takes a request. Its answer, if any, comes out of [`Broker::poll_answer`].
    fn ask(&mut self, now: Instant, ask: BrokerAsk);

    /// The next answer that has arrived.
    fn poll_answer(&mut self, now: Instant) -> Option<BrokerAnswer>;

    /// When the next answer arrives, if that is known.
    fn next_wakeup(&self) -> Option<Instant>;

    /// What a class has without having asked: at the start, when a link forces it, or when the router did not take what
    /// was granted; nothing while the router has no such class. It may come to more than the broker would have granted.
    fn register(&mut self, class: ClassId, rate: Rate);
}

/// What the emulated broker says to one request of its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedAnswer {
    /// As much as the capacity allows.
    Grant,
    /// This part of what is asked for on top, in parts per million.
    Part(u32),
    /// No.
    Refuse,
    /// The request is granted, but its answer is lost.
    Lose,
}

/// Configuration of an emulated broker. Probabilities are tried in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmulatedBrokerConfig {
    /// T_bb: from a request to its answer.
    pub delay: Duration,
    /// How likely an increase is refused.
    pub refuse: Probability,
    /// How likely an increase is granted in part: a uniform part of what is asked for on top.
    pub partial: Probability,
    /// How likely an answer is lost after the decision.
    pub lose: Probability,
    /// What all classes may have together; `None` for no limit. Increases beyond it are granted in part, or refused if
    /// nothing is left.
    pub capacity: Option<Rate>,
    /// What the first requests are answered with, before the probabilities hold.
    pub script: VecDeque<ScriptedAnswer>,
}

/// A broker that behaves as configured.
#[derive(Clone, Debug)]
pub struct EmulatedBroker<R> {
    config: EmulatedBrokerConfig,
    random: R,
    /// What every class has by the broker's books.
    held: BTreeMap<ClassId, Rate>,
    /// In the order of arrival: the delay is the same for all.
    answers: VecDeque<(Instant, BrokerAnswer)>,
}

impl<R: Random> EmulatedBroker<R> {
    /// A broker whose chances are drawn from `random`.
    pub fn new(config: EmulatedBrokerConfig, random: R) -> Self {
        Self { config, random, held: BTreeMap::new(), answers: VecDeque::new() }
    }

    /// What all classes have together by the broker's books, lost answers included.
    pub fn held(&self) -> Rate {
        self.held.values().fold(Rate::ZERO, |sum, rate| sum.saturating_add(*rate))
    }

    fn happens(&mut self, probability: Probability) -> bool {
        probability != Probability::ZERO && probability.happens((self.random.bits() >> 32) as u32)
    }

    fn decide(&mut self, ask: &BrokerAsk) -> ScriptedAnswer {
        if let Some(scripted) = self.config.script.pop_front() {
            return scripted;
        }
        if ask.rate > ask.allocated {
            if self.happens(self.config.refuse) {
                return ScriptedAnswer::Refuse;
            }
            if self.happens(self.config.partial) {
                return ScriptedAnswer::Part(self.random.below(1_000_000) as u32);
            }
        }
        if self.happens(self.config.lose) { ScriptedAnswer::Lose } else { ScriptedAnswer::Grant }
    }

    /// Grants up to `rate` and books it. A request tells what the class has, which the books believe: an answer may have
    /// been lost before.
    fn granted(&mut self, ask: &BrokerAsk, rate: Rate) -> Answer {
        self.held.insert(ask.class, ask.allocated);
        let others = self.held().saturating_sub(ask.allocated);
        let room = self.config.capacity.map_or(rate, |capacity| capacity.saturating_sub(others));
        let more = ask.rate > ask.allocated;
        let granted = if more { rate.min(room) } else { ask.rate };
        if more && granted <= ask.allocated {
            return Answer::Refused;
        }
        self.held.insert(ask.class, granted);
        Answer::Granted(granted)
    }
}

impl<R: Random> Broker for EmulatedBroker<R> {
    fn ask(&mut self, now: Instant, ask: BrokerAsk) {
        let answer = match self.decide(&ask) {
            ScriptedAnswer::Grant => self.granted(&ask, ask.rate),
            ScriptedAnswer::Part(ppm) => {
                let more = crate::bounds::share(ask.rate.saturating_sub(ask.allocated), ppm);
                let rate =
                    if ask.rate > ask.allocated { ask.allocated.saturating_add(more) } else { ask.rate };
                self.granted(&ask, rate)
            }
            ScriptedAnswer::Refuse => Answer::Refused,
            ScriptedAnswer::Lose => {
                self.granted(&ask, ask.rate);
                return;
            }
        };
        let BrokerAsk { class, id, .. } = ask;
        self.answers.push_back((now + self.config.delay, BrokerAnswer { class, id, answer }));
    }

    fn poll_answer(&mut self, now: Instant) -> Option<BrokerAnswer> {
        let arrived = self.answers.front().is_some_and(|(at, _)| *at <= now);
        if arrived { self.answers.pop_front().map(|(_, answer)| answer) } else { None }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.answers.front().map(|(at, _)| *at)
    }

    fn register(&mut self, class: ClassId, rate: Rate) {
        self.held.insert(class, rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    const MS: u64 = 1_000_000;

    fn ask(class: u32, id: u64, rate: u64, allocated: u64) -> BrokerAsk {
        BrokerAsk { class: ClassId(class), id: AskId(id), rate: Rate(rate), allocated: Rate(allocated) }
    }

    fn broker(config: EmulatedBrokerConfig) -> EmulatedBroker<SplitMix64> {
        EmulatedBroker::new(config, SplitMix64::new(7, 0))
    }

    #[test]
    fn answers_come_after_the_delay_in_order() {
        let mut broker =
            broker(EmulatedBrokerConfig { delay: Duration::from_millis(10), ..Default::default() });
        broker.ask(Instant(0), ask(1, 5, 200, 100));
        broker.ask(Instant(3 * MS), ask(2, 6, 50, 100));
        assert_eq!(broker.next_wakeup(), Some(Instant(10 * MS)));
        assert_eq!(broker.poll_answer(Instant(10 * MS - 1)), None);
        let first = broker.poll_answer(Instant(10 * MS)).expect("it is due");
        assert_eq!((first.id, first.answer), (AskId(5), Answer::Granted(Rate(200))));
        assert_eq!(broker.poll_answer(Instant(10 * MS)), None);
        assert_eq!(broker.poll_answer(Instant(13 * MS)).map(|a| a.class), Some(ClassId(2)));
        assert_eq!(broker.held(), Rate(250));
    }

    #[test]
    fn the_capacity_is_never_exceeded() {
        let mut broker = broker(EmulatedBrokerConfig { capacity: Some(Rate(1_000)), ..Default::default() });
        broker.register(ClassId(1), Rate(300));
        broker.register(ClassId(2), Rate(300));
        let mut answer = |request: BrokerAsk| {
            broker.ask(Instant(0), request);
            broker.poll_answer(Instant(0)).map(|answer| answer.answer)
        };
        assert_eq!(answer(ask(1, 0, 800, 300)), Some(Answer::Granted(Rate(700))));
        assert_eq!(answer(ask(2, 0, 301, 300)), Some(Answer::Refused));
        assert_eq!(answer(ask(1, 1, 600, 700)), Some(Answer::Granted(Rate(600))));
        assert_eq!(answer(ask(2, 1, 500, 300)), Some(Answer::Granted(Rate(400))));
    }

    #[test]
    fn a_script_comes_before_chance() {
        use ScriptedAnswer::{Lose, Part, Refuse};
        let script = VecDeque::from([Refuse, Part(250_000), Lose]);
        let mut broker =
            broker(EmulatedBrokerConfig { refuse: Probability::ONE, script, ..Default::default() });
        let mut answers = vec![];
        for id in 0..5 {
            broker.ask(Instant(0), ask(1, id, if id == 4 { 50 } else { 200 }, 100));
            answers.push(broker.poll_answer(Instant(0)).map(|answer| answer.answer));
        }
        let granted = |rate| Some(Answer::Granted(Rate(rate)));
        // The last one is a decrease, which chance never refuses.
        assert_eq!(answers, [Some(Answer::Refused), granted(125), None, Some(Answer::Refused), granted(50)]);
    }

    #[test]
    fn the_same_random_bits_give_the_same_answers() {
        let config = EmulatedBrokerConfig {
            refuse: Probability(1 << 30),
            partial: Probability(1 << 30),
            lose: Probability(1 << 30),
            ..Default::default()
        };
        let run = || {
            let mut broker = broker(config.clone());
            let answers: Vec<_> = (0..400)
                .map(|id| {
                    broker.ask(Instant(0), ask(1, id, 200_000, 100_000));
                    broker.poll_answer(Instant(0)).map(|answer| answer.answer)
                })
                .collect();
            answers
        };
        let answers = run();
        assert_eq!(answers, run());
        let count = |test: fn(&Option<Answer>) -> bool| answers.iter().filter(|answer| test(answer)).count();
        let refused = count(|answer| *answer == Some(Answer::Refused));
        // A quarter of 400, deviation 8.7; then 3/4 · 1/4 = 75 in part, 9/16 · 1/4 = 56 lost.
        assert!((70..130).contains(&refused), "{refused}");
        assert!((35..80).contains(&count(Option::is_none)));
        assert!(answers.iter().flatten().any(|a| matches!(a, Answer::Granted(rate) if rate.0 < 200_000)));
    }
}
