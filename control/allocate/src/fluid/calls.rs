//! Calls that come and go in one class, with implicit admission and dropping.
//!
//! A fixed number of flows cycles through silence, half rate and full rate; how long each phase lasts is uniform. A flow
//! that speaks again after the idle time is a new call. Packets of calls that are refused or dropped do not use the
//! class.

use super::pipe::Pipe;
use crate::admission::{Admission, AdmissionConfig, FlowCounters, FlowId, Rank, Verdict};
use crate::allocator::{Allocator, Input, Output};
use crate::broker::{Broker, BrokerAsk, ClassId, EmulatedBroker, EmulatedBrokerConfig};
use crate::random::{Random, SplitMix64};
use crate::settings::Settings;
use crate::stability::Unstable;
use perhop_units::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

/// One experiment with calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsConfig {
    /// The class; its admission is the next field.
    pub settings: Settings,
    /// Admission and dropping.
    pub admission: AdmissionConfig,
    /// How many flows; the first `premium` of them have premium rank.
    pub flows: u32,
    /// Of these, premium.
    pub premium: u32,
    /// Full rate of a flow; the middle phase has half of it.
    pub peak: Rate,
    /// Longest phase.
    pub phase: Duration,
    /// The broker.
    pub broker: EmulatedBrokerConfig,
    /// What the queue holds at most; `None` for everything.
    pub queue: Option<Bytes>,
    /// Time of the run.
    pub time: Duration,
}

impl CallsConfig {
    /// The published experiment: 16 flows of 0, 8 and 16 packets of 256 B a second, phases up to 20 s, a queue of 100
    /// packets; 1200 s.
    pub fn published(settings: Settings, admission: AdmissionConfig) -> Self {
        Self {
            settings,
            admission,
            flows: 16,
            premium: 0,
            peak: Rate(32_768),
            phase: Duration::from_secs(20),
            broker: EmulatedBrokerConfig::default(),
            queue: Some(Bytes(25_600)),
            time: Duration::from_secs(1200),
        }
    }
}

/// What became of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallsResult {
    /// Of regular rank.
    pub regular: FlowCounters,
    /// Of premium rank.
    pub premium: FlowCounters,
    /// Share of measurement intervals in which admitted flows sent more than the cap.
    pub over_cap: f64,
    /// Mean carried by the cap.
    pub utilisation: f64,
    /// Longest time in the queue, ms.
    pub max_delay_ms: f64,
}

impl CallsResult {
    /// Refused of those offered, per cent, all ranks.
    pub fn refused_pct(&self) -> Option<f64> {
        self.all().refused_pct()
    }

    /// Dropped of those admitted, per cent, all ranks.
    pub fn dropped_pct(&self) -> Option<f64> {
        self.all().dropped_pct()
    }

    fn all(&self) -> FlowCounters {
        let (r, p) = (&self.regular, &self.premium);
        FlowCounters {
            offered: r.offered + p.offered,
            admitted: r.admitted + p.admitted,
            refused: r.refused + p.refused,
            table_full: r.table_full + p.table_full,
            dropped: r.dropped + p.dropped,
            ended: r.ended + p.ended,
        }
    }
}

/// Runs the experiment with the random numbers of `seed`.
///
/// # Errors
/// [`Unstable`] if the settings are.
pub fn run_calls(config: &CallsConfig, seed: u64) -> Result<CallsResult, Unstable> {
    let mut world = Calls::new(config, seed)?;
    let end = Instant::ZERO + config.time;
    while world.now < end {
        world.step(end);
    }
    let sums = world.pipe.sums();
    Ok(CallsResult {
        regular: world.counters[0],
        premium: world.counters[1],
        over_cap: world.intervals_over as f64 / world.intervals.max(1) as f64,
        utilisation: sums.carried as f64
            / 1e9
            / config.time.as_secs_f64()
            / config.admission.cap.0.max(1) as f64,
        max_delay_ms: 1e3 * world.pipe.longest_delay_s(),
    })
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// 0 silent, 1 half rate, 2 full rate.
    phase: u64,
    until: Instant,
    /// When a silence becomes the end of the call.
    idle_at: Instant,
    /// The call that goes on, and whether it is admitted.
    call: Option<(FlowId, bool)>,
    rank: Rank,
}

struct Calls<'a> {
    config: &'a CallsConfig,
    idle: Duration,
    cap: Rate,
    now: Instant,
    flows: Vec<Flow>,
    next_call: u64,
    phases: SplitMix64,
    victims: SplitMix64,
    allocator: Allocator,
    admission: Admission,
    /// By rank.
    counters: [FlowCounters; 2],
    broker: EmulatedBroker<SplitMix64>,
    pipe: Pipe,
    allocated: Rate,
    metered: u128,
    intervals: u64,
    intervals_over: u64,
    /// Offered at the start of the interval.
    interval_offered: u128,
    interval_start: Instant,
    sample: Instant,
}

impl<'a> Calls<'a> {
    fn new(config: &'a CallsConfig, seed: u64) -> Result<Self, Unstable> {
        let admission = config.admission;
        let settings = Settings { admission: Some(admission), ..config.settings };
        let mut allocator = Allocator::new(&settings, Instant::ZERO)?;
        while allocator.poll_output().is_some() {}
        let mut phases = SplitMix64::new(seed, 1);
        let flows = (0..config.flows)
            .map(|number| Flow {
                phase: 0,
                until: Instant::ZERO + uniform(&mut phases, config.phase),
                idle_at: Instant::ZERO,
                call: None,
                rank: if number < config.premium { Rank::Premium } else { Rank::Regular },
            })
            .collect();
        Ok(Self {
            config,
            idle: admission.idle,
            cap: admission.cap,
            now: Instant::ZERO,
            flows,
            next_call: 0,
            phases,
            victims: SplitMix64::new(seed, 3),
            allocated: allocator.allocated(),
            allocator,
            admission: Admission::new(admission, config.flows as usize),
            counters: [FlowCounters::default(); 2],
            broker: EmulatedBroker::new(config.broker.clone(), SplitMix64::new(seed, 2)),
            pipe: Pipe::new(config.queue),
            metered: 0,
            intervals: 0,
            intervals_over: 0,
            interval_offered: 0,
            interval_start: Instant::ZERO,
            sample: Instant::FAR_FUTURE,
        })
    }

    /// Rate of all admitted calls.
    fn load(&self) -> Rate {
        let admitted = self.flows.iter().filter(|flow| matches!(flow.call, Some((_, true))));
        admitted.fold(Rate::ZERO, |sum, flow| sum.saturating_add(self.rate(flow)))
    }

    fn rate(&self, flow: &Flow) -> Rate {
        Rate(self.config.peak.0 / 2 * flow.phase)
    }

    fn step(&mut self, end: Instant) {
        let ends = self.flows.iter().map(|flow| match flow.call {
            Some(_) if flow.phase == 0 => flow.until.min(flow.idle_at),
            _ => flow.until,
        });
        let wakeup = self.allocator.next_wakeup();
        let next = [wakeup, self.broker.next_wakeup(), Some(self.sample), Some(end)]
            .into_iter()
            .flatten()
            .chain(ends)
            .min()
            .unwrap_or(end);
        let load = self.load();
        self.pipe.advance(next, load, self.allocated);
        self.now = next;
        while let Some(answer) = self.broker.poll_answer(next) {
            self.give(Input::Answer { id: answer.id, answer: answer.answer });
        }
        if wakeup.is_some_and(|wakeup| wakeup <= next) {
            self.measure();
        }
        for at in 0..self.flows.len() {
            self.flow(at);
        }
        self.look_at_queue();
    }

    fn measure(&mut self) {
        let sums = self.pipe.sums();
        let elapsed = self.now.since(self.interval_start);
        if elapsed >= self.config.settings.window.interval {
            self.intervals += 1;
            let sent = sums.offered - self.interval_offered;
            self.intervals_over += u64::from(sent > u128::from(self.cap.0) * u128::from(elapsed.0));
            (self.interval_start, self.interval_offered) = (self.now, sums.offered);
        }
        let bits = (sums.carried - self.metered) / 1_000_000_000;
        self.metered += bits * 1_000_000_000;
        self.give(Input::Counted { bits: bits as u64, carried: Some(bits as u64) });
    }

    fn look_at_queue(&mut self) {
        let Some(congestion) = self.config.settings.congestion else { return };
        if self.sample <= self.now {
            self.sample = Instant::FAR_FUTURE;
            self.give(Input::Queue(self.pipe.queue()));
        }
        if self.sample == Instant::FAR_FUTURE && (!self.pipe.is_empty() || self.load() > self.allocated) {
            self.sample = self.now + congestion.sampling();
        }
    }

    /// Ends a call that was silent too long, and begins the next phase.
    fn flow(&mut self, at: usize) {
        let (now, mut flow) = (self.now, self.flows[at]);
        if let Some((id, _)) = flow.call
            && flow.phase == 0
            && flow.idle_at <= now
        {
            flow.call = None;
            if self.admission.ended(id).is_some() {
                self.counters[flow.rank as usize].ended += 1;
            }
        }
        if flow.until <= now {
            flow.phase = (flow.phase + 1) % 3;
            flow.until = now + uniform(&mut self.phases, self.config.phase);
            flow.idle_at = now + self.idle;
            if flow.phase > 0 && flow.call.is_none() {
                flow.call = Some(self.offer(flow.rank));
            }
            if let Some((id, true)) = flow.call {
                self.admission.measured(id, self.rate(&flow));
            }
        }
        self.flows[at] = flow;
    }

    fn offer(&mut self, rank: Rank) -> (FlowId, bool) {
        let id = FlowId(self.next_call);
        self.next_call += 1;
        let verdict = self.admission.offer(self.now, id, rank, self.allocator.estimate());
        let counters = &mut self.counters[rank as usize];
        counters.offered += 1;
        match verdict {
            Verdict::Admitted => counters.admitted += 1,
            Verdict::Refused { .. } => counters.refused += 1,
            Verdict::TableFull => counters.table_full += 1,
        }
        (id, verdict == Verdict::Admitted)
    }

    fn drop_one(&mut self) {
        let Some(victim) = self.admission.drop_one(&mut self.victims) else { return };
        self.counters[victim.rank as usize].dropped += 1;
        for flow in &mut self.flows {
            if flow.call == Some((victim.id, true)) {
                flow.call = Some((victim.id, false));
            }
        }
        self.give(Input::Dropped(victim.rate));
    }

    fn give(&mut self, input: Input) {
        self.allocator.handle_input(self.now, input);
        let mut drops = 0;
        while let Some(output) = self.allocator.poll_output() {
            match output {
                Output::Ask { id, rate, allocated } => {
                    self.broker.ask(self.now, BrokerAsk { class: ClassId(0), id, rate, allocated });
                }
                Output::Allocate(rate) => self.allocated = rate,
                Output::DropOne(_) => drops += 1,
                // The admission of calls asks with the estimate itself.
                Output::LockAdmission(_) => {}
            }
        }
        for _ in 0..drops {
            self.drop_one();
        }
    }
}

fn uniform(random: &mut SplitMix64, most: Duration) -> Duration {
    Duration(random.below(most.0).max(1))
}
