//! One run of the model: load, queue, control, broker.

use super::load::{Load, Traffic};
use super::pipe::Pipe;
use crate::allocator::{Allocator, Answer, Input, Output};
use crate::bounds::Bounds;
use crate::broker::{Broker, BrokerAsk, ClassId, EmulatedBroker, EmulatedBrokerConfig};
use crate::counters::Counters;
use crate::random::SplitMix64;
use crate::request::AskId;
use crate::settings::Settings;
use crate::stability::Unstable;
use crate::threshold::ThresholdConfig;
use crate::window::Metering;
use perhop_units::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

/// Who decides about the allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Nobody: it is constant.
    Static(Rate),
    /// Threshold allocation that knows the load at every instant.
    Ideal {
        /// The thresholds.
        law: ThresholdConfig,
        /// Range and grid.
        bounds: Bounds,
        /// Allocation at the start.
        initial: Rate,
    },
    /// An allocator with a meter.
    Measured(Settings),
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FluidConfig {
    /// The load.
    pub traffic: Traffic,
    /// Who decides.
    pub control: Control,
    /// The broker.
    pub broker: EmulatedBrokerConfig,
    /// What the queue holds at most; `None` for everything.
    pub queue: Option<Bytes>,
    /// Time before anything counts.
    pub warm_up: Duration,
    /// Time that counts, above 0.
    pub time: Duration,
}

impl FluidConfig {
    /// The published simulations: answers after 10 ms, always granted, no limit of the queue; 3600 s after 200 s.
    pub fn simulation(traffic: Traffic, control: Control) -> Self {
        Self {
            traffic,
            control,
            broker: EmulatedBrokerConfig {
                delay: Duration::from_millis(10),
                ..EmulatedBrokerConfig::default()
            },
            queue: None,
            warm_up: Duration::from_secs(200),
            time: Duration::from_secs(3600),
        }
    }
}

/// What a run gave, without its warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FluidResult {
    /// Mean load, bit/s.
    pub offered_bits_per_sec: f64,
    /// Mean allocation, bit/s.
    pub allocated_bits_per_sec: f64,
    /// Mean carried by mean allocated.
    pub efficiency: f64,
    /// Mean estimate by mean allocated; `None` without a meter.
    pub estimate_efficiency: Option<f64>,
    /// Bits offered above the allocation by bits offered.
    pub over_limit: f64,
    /// Bits lost by bits offered.
    pub loss: f64,
    /// Requests to the broker a second.
    pub requests_per_sec: f64,
    /// Mean time in the queue of what was carried, ms.
    pub mean_delay_ms: f64,
    /// Longest time in the queue, ms.
    pub max_delay_ms: f64,
    /// Share of time in congestion; `None` without a meter.
    pub congested: Option<f64>,
}

/// Runs an experiment with the random numbers of `seed`.
///
/// # Errors
/// [`Unstable`] if the settings of the allocator are.
pub fn run(config: &FluidConfig, seed: u64) -> Result<FluidResult, Unstable> {
    let mut world = World::new(config, seed)?;
    world.run_to(Instant::ZERO + config.warm_up);
    world.pipe.forget_delays();
    let before = world.snapshot();
    world.run_to(Instant::ZERO + config.warm_up + config.time);
    Ok(result(&world, &before, config.time))
}

/// What a result is the difference of.
struct Snapshot {
    sums: super::pipe::Sums,
    requests: u64,
    counters: Option<Counters>,
}

fn result(world: &World<'_>, before: &Snapshot, time: Duration) -> FluidResult {
    let after = world.snapshot();
    let (sums, seconds) = (after.sums.since(&before.sums), time.as_secs_f64());
    let ratio = |part: u128, whole: u128| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let counters = after.counters.zip(before.counters);
    FluidResult {
        offered_bits_per_sec: sums.offered as f64 / 1e9 / seconds,
        allocated_bits_per_sec: sums.allocated as f64 / 1e9 / seconds,
        efficiency: ratio(sums.carried, sums.allocated),
        estimate_efficiency: counters
            .and_then(|(after, before)| after.efficiency.since(&before.efficiency).estimated()),
        over_limit: ratio(sums.over, sums.offered),
        loss: ratio(sums.lost, sums.offered),
        requests_per_sec: (after.requests - before.requests) as f64 / seconds,
        mean_delay_ms: if sums.carried == 0 { 0.0 } else { 1e3 * sums.waiting / sums.carried as f64 },
        max_delay_ms: 1e3 * world.pipe.longest_delay_s(),
        congested: counters
            .map(|(after, before)| (after.congested - before.congested).as_secs_f64() / seconds),
    }
}

/// Everything that a run consists of.
struct World<'a> {
    config: &'a FluidConfig,
    now: Instant,
    load: Load,
    pipe: Pipe,
    allocated: Rate,
    broker: EmulatedBroker<SplitMix64>,
    allocator: Option<Allocator>,
    /// What the meter has been given, 10⁻⁹ bit: the rest of a bit is carried over.
    metered: u128,
    carried: u128,
    /// Requests of the ideal control.
    requests: u64,
    ideal_asks: bool,
    sampling: Duration,
    sample: Instant,
}

impl<'a> World<'a> {
    fn new(config: &'a FluidConfig, seed: u64) -> Result<Self, Unstable> {
        let (allocated, allocator) = match &config.control {
            Control::Static(rate) => (*rate, None),
            Control::Ideal { initial, .. } => (*initial, None),
            Control::Measured(settings) => {
                let mut allocator = Allocator::new(settings, Instant::ZERO)?;
                while allocator.poll_output().is_some() {}
                (allocator.allocated(), Some(allocator))
            }
        };
        let sampling = match &config.control {
            Control::Measured(settings) => settings.congestion.map(|congestion| congestion.sampling()),
            _ => None,
        };
        Ok(Self {
            config,
            now: Instant::ZERO,
            load: Load::new(&config.traffic, seed),
            pipe: Pipe::new(config.queue),
            allocated,
            broker: EmulatedBroker::new(config.broker.clone(), SplitMix64::new(seed, 2)),
            allocator,
            metered: 0,
            carried: 0,
            requests: 0,
            ideal_asks: false,
            sampling: sampling.unwrap_or(Duration::MAX),
            sample: Instant::FAR_FUTURE,
        })
    }

    fn snapshot(&self) -> Snapshot {
        let counters = self.allocator.as_ref().map(Allocator::counters);
        let requests = counters.map_or(self.requests, |counters| counters.asked);
        Snapshot { sums: self.pipe.sums(), requests, counters }
    }

    fn run_to(&mut self, end: Instant) {
        while self.now < end {
            let wakeup = self.allocator.as_ref().and_then(Allocator::next_wakeup);
            let next = [wakeup, self.broker.next_wakeup()]
                .into_iter()
                .flatten()
                .fold(self.load.next_change().min(self.sample), Instant::min)
                .min(end);
            self.pipe.advance(next, self.load.rate(), self.allocated);
            self.now = next;
            self.load.advance(next);
            while let Some(answer) = self.broker.poll_answer(next) {
                self.answered(answer.id, answer.answer);
            }
            if wakeup.is_some_and(|wakeup| wakeup <= next) || next == end {
                self.measure();
            }
            self.look_at_queue();
            self.ideal();
        }
    }

    /// Gives the meter what has passed since it was last given something.
    fn measure(&mut self) {
        let Control::Measured(settings) = &self.config.control else { return };
        let sums = self.pipe.sums();
        let whole_bits = |total: u128, given: &mut u128| {
            let bits = (total - *given) / 1_000_000_000;
            *given += bits * 1_000_000_000;
            bits as u64
        };
        let carried = whole_bits(sums.carried, &mut self.carried);
        let input = match settings.window.metering {
            Metering::Carried => Input::Counted { bits: carried, carried: None },
            Metering::Offered => {
                let bits = whole_bits(sums.offered, &mut self.metered);
                Input::Counted { bits, carried: Some(carried) }
            }
        };
        self.give(input);
    }

    /// Looks at the queue as often as congestion control wants, while there is one.
    fn look_at_queue(&mut self) {
        if self.sampling == Duration::MAX {
            return;
        }
        if self.sample <= self.now {
            self.sample = Instant::FAR_FUTURE;
            self.give(Input::Queue(self.pipe.queue()));
        }
        if self.sample == Instant::FAR_FUTURE && (!self.pipe.is_empty() || self.load.rate() > self.allocated)
        {
            self.sample = self.now + self.sampling;
        }
    }

    fn ideal(&mut self) {
        let Control::Ideal { law, bounds, .. } = &self.config.control else { return };
        if self.ideal_asks {
            return;
        }
        if let Some(rate) = law.decide(self.load.rate(), self.allocated, bounds) {
            self.ideal_asks = true;
            let id = AskId(self.requests);
            self.requests += 1;
            self.broker.ask(self.now, BrokerAsk { class: ClassId(0), id, rate, allocated: self.allocated });
        }
    }

    fn answered(&mut self, id: AskId, answer: Answer) {
        if self.allocator.is_some() {
            return self.give(Input::Answer { id, answer });
        }
        self.ideal_asks = false;
        if let Answer::Granted(rate) = answer {
            self.allocated = rate;
        }
    }

    fn give(&mut self, input: Input) {
        let Some(allocator) = &mut self.allocator else { return };
        allocator.handle_input(self.now, input);
        while let Some(output) = allocator.poll_output() {
            match output {
                Output::Ask { id, rate, allocated } => {
                    self.broker.ask(self.now, BrokerAsk { class: ClassId(0), id, rate, allocated });
                }
                Output::Allocate(rate) => self.allocated = rate,
            }
        }
    }
}
