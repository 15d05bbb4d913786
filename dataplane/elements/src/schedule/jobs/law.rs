//! Rates of classes by feedback from delays, and whom to drop by feedback from losses, as plain structures.

use super::super::law::{Law, Loss, Waiting};
use super::super::leaves::Alone;
use perhop_element::CounterSink;
use perhop_units::{Bytes, Duration, Instant, Probability, QueueLimit, Rate, Tokens};

/// What one class is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobsClass {
    /// Its delay in proportion to that of the others, at least 1; `None`: in no proportion.
    pub delay: Option<u32>,
    /// The longest its packets should wait.
    pub bound: Option<Duration>,
    /// Its loss in proportion to that of the others; at least 1.
    pub loss: u32,
    /// The largest part of its bytes that should be lost.
    pub loss_bound: Option<Probability>,
    /// What it gets at least while it has packets.
    pub rate: Rate,
}

/// What all classes together may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffer {
    Packets(u64),
    /// On the line; one packet is always within it.
    Bytes(u64),
}

impl Buffer {
    /// A limit behind a line of `rate`. One of packets is at least one.
    fn new(limit: QueueLimit, rate: Rate) -> Self {
        match limit {
            QueueLimit::Packets(n) => Self::Packets(u64::from(n.max(1))),
            limit => Self::Bytes(limit.in_bytes(rate).unwrap_or_default().0),
        }
    }

    /// Whether so many packets, of so many bytes on the line, are more.
    fn is_exceeded_by(self, packets: u64, wire_bytes: u64) -> bool {
        match self {
            Self::Packets(most) => packets > most,
            Self::Bytes(most) => packets > 1 && wire_bytes > most,
        }
    }
}

/// All classes: their rates, what these have earned, and what was lost. The owner of the queues says what waits, drops
/// whom it is told to drop and sends for whom it is told to send.
#[derive(Clone, Debug)]
pub(in super::super) struct JobsLaw {
    line: Rate,
    buffer: Buffer,
    classes: Vec<JobsClass>,
    waiting: Vec<Waiting>,
    needs: Vec<u64>,
    rates: Vec<u64>,
    /// What a rate has earned, less what its class sent, in 10⁻⁹ bit.
    credits: Vec<i128>,
    losses: Vec<Losses>,
    /// Packets sent after their bounds, and dropped although it was forbidden.
    broken: Vec<(u64, u64)>,
    /// When rates last earned credit.
    earned: Instant,
}

impl JobsLaw {
    /// Classes without packets, which together hold at most `limit`.
    pub(in super::super) fn new(line: Rate, limit: QueueLimit, classes: Vec<JobsClass>) -> Self {
        let count = classes.len();
        Self {
            line,
            buffer: Buffer::new(limit, line),
            classes,
            waiting: vec![Waiting::default(); count],
            needs: vec![0; count],
            rates: vec![0; count],
            credits: vec![0; count],
            losses: vec![Losses::default(); count],
            broken: vec![(0, 0); count],
            earned: Instant::ZERO,
        }
    }

    /// Gives classes with packets credit at their rates until `now`.
    fn earn(&mut self, now: Instant) {
        let time = now.since(self.earned);
        self.earned = self.earned.max(now);
        for (n, credit) in self.credits.iter_mut().enumerate().filter(|(n, _)| self.waiting[*n].bytes > 0) {
            *credit += i128::from(Rate(self.rates[n]).earned(time).0);
        }
    }

    /// The class that loses its oldest packet, and why. `exceeds`: whether all of them hold too much.
    fn loser(&mut self, exceeds: bool) -> Option<(usize, Loss)> {
        if exceeds {
            // A full buffer must lose somebody's packet, whatever was promised.
            let class = self.least_lost(true, |_| true).or_else(|| self.least_lost(false, |_| true))?;
            return Some((class, Loss::Full));
        }
        let mut sum = 0u64;
        for (n, class) in self.classes.iter().enumerate() {
            self.needs[n] = needed(class, self.waiting[n]).unwrap_or(self.line.0);
            sum = sum.saturating_add(self.needs[n]);
        }
        if sum <= self.line.0 {
            return None;
        }
        Some((self.least_lost(true, |class| class.bound.is_some())?, Loss::Late))
    }

    /// The class with packets whose loss is least in proportion, of those that `may`, and `within` their bounds of loss.
    fn least_lost(&self, within: bool, may: impl Fn(&JobsClass) -> bool) -> Option<usize> {
        let open = (0..self.classes.len()).filter(|n| {
            let (class, head) = (&self.classes[*n], self.waiting[*n].head);
            head > 0 && may(class) && (!within || self.losses[*n].allow(class, Bytes(head)))
        });
        open.min_by_key(|n| self.losses[*n].normal(&self.classes[*n]))
    }

    /// Forgets losses and credit.
    fn begin_anew(&mut self) {
        self.losses.fill(Losses::default());
        self.credits.fill(0);
    }
}

impl Law for JobsLaw {
    fn follows_waits(&self) -> bool {
        true
    }

    fn shares_buffer(&self) -> bool {
        true
    }

    fn adopt(&mut self, _now: Instant, class: usize, old: &Self, of: usize) {
        self.earned = self.earned.max(old.earned);
        self.rates[class] = old.rates[of];
        self.credits[class] = old.credits[of];
        self.losses[class] = old.losses[of];
    }

    fn arrives(&mut self, now: Instant, leaf: usize, len: u64) {
        self.earn(now);
        if self.waiting[leaf].bytes == 0 {
            // As far behind as the others in the mean: neither its rest nor theirs is held against anybody.
            let others = || (0..self.classes.len()).filter(|n| self.waiting[*n].bytes > 0);
            let sum: i128 = others().map(|n| self.credits[n]).sum();
            self.credits[leaf] = sum / others().count().max(1) as i128;
        }
        self.losses[leaf].offered += len;
    }

    fn see(&mut self, leaf: usize, waiting: Waiting) {
        self.waiting[leaf] = waiting;
    }

    /// The class that is furthest behind its rate.
    fn choose(&mut self, now: Instant) -> Option<usize> {
        self.earn(now);
        let open = (0..self.classes.len()).filter(|n| self.waiting[*n].head > 0);
        open.max_by_key(|n| (self.credits[*n], std::cmp::Reverse(*n)))
    }

    fn sent(&mut self, now: Instant, leaf: usize, len: u64, _next: Option<u64>, came: Instant) {
        self.credits[leaf] -= i128::from(len) * i128::from(Tokens::PER_BYTE);
        let bound = self.classes[leaf].bound;
        self.broken[leaf].0 += u64::from(bound.is_some_and(|bound| now.since(came) > bound));
    }

    fn lost(&mut self, leaf: usize, len: u64) {
        self.broken[leaf].1 += u64::from(!self.losses[leaf].allow(&self.classes[leaf], Bytes(len)));
        self.losses[leaf].lost += len;
    }

    /// When it names nobody, rates move. When nothing waits, losses so far do not count any more.
    fn loses(&mut self, packets: u64, bytes: u64) -> Option<(usize, Loss)> {
        let loser = self.loser(self.buffer.is_exceeded_by(packets, bytes));
        if loser.is_none() {
            move_rates(self.line, &self.classes, &self.waiting, &self.losses, &self.needs, &mut self.rates);
            if self.waiting.iter().all(|w| w.bytes == 0) {
                self.begin_anew();
            }
        }
        loser
    }
}

impl Alone for JobsLaw {
    const NAME: &'static str = "Jobs";

    fn fresh(&self) -> Self {
        let mut fresh = self.clone();
        fresh.begin_anew();
        fresh.waiting.fill(Waiting::default());
        fresh.rates.fill(0);
        fresh
    }

    fn succeed(&mut self, old: Self) {
        let classes = std::mem::take(&mut self.classes);
        *self = Self { line: self.line, buffer: self.buffer, classes, ..old };
    }

    fn report(&self, class: usize, name: &str, sink: &mut dyn CounterSink) {
        sink.counter(&format!("late_{name}"), self.broken[class].0);
        sink.counter(&format!("over_loss_{name}"), self.broken[class].1);
        let rate = if self.waiting[class].bytes > 0 { self.rates[class] } else { 0 };
        sink.gauge(&format!("rate_bps_{name}"), rate);
    }
}

/// One part of normalised delays and losses.
const UNIT: u128 = 1 << 20;

/// The least rate of a class that has packets, so that it goes on: the line's divided by this.
const LEAST: u64 = 1000;

/// What a class needs from now on to keep its rate and, for all that waits, its bound; `None`: its oldest packet is late.
fn needed(class: &JobsClass, backlog: Waiting) -> Option<u64> {
    if backlog.bytes == 0 {
        return Some(0);
    }
    let Some(bound) = class.bound else { return Some(class.rate.0) };
    let left = bound.0.saturating_sub(backlog.waited.0);
    if left == 0 {
        return None;
    }
    let service = u128::from(backlog.bytes) * Tokens::PER_BYTE as u128;
    let rate = u64::try_from(service.div_ceil(u128::from(left))).unwrap_or(u64::MAX);
    Some(rate.max(class.rate.0))
}

/// Moves `rates` so that delays in proportion come together, each class with packets has what it `needs`, and all of them
/// have the line's. That of a class without packets stays until it has some. O(classes).
fn move_rates(
    line: Rate,
    classes: &[JobsClass],
    backlogs: &[Waiting],
    losses: &[Losses],
    needs: &[u64],
    rates: &mut [u64],
) {
    let part = line.0 / classes.len().max(1) as u64;
    for rate in rates.iter_mut() {
        *rate = if *rate == 0 { part } else { (*rate).max(line.0 / LEAST) }.max(1);
    }
    follow_delays(classes, backlogs, losses, rates);
    share_out(line, backlogs, needs, rates);
}

/// Raises the rates of classes whose delay is above the mean in proportion, lowers those of others. The delay of a class
/// is the mean of how long its oldest packet has waited and how long its newest will, so that the feedback does not lag.
/// What waits leaves by losses as well as by its rate: the part that was lost so far is not counted as work ahead.
fn follow_delays(classes: &[JobsClass], backlogs: &[Waiting], losses: &[Losses], rates: &mut [u64]) {
    let service = |n: usize| u128::from(losses[n].to_send(backlogs[n].bytes)) * Tokens::PER_BYTE as u128;
    let delay = |n: usize, rate: u64| {
        let weight = u128::from(classes[n].delay?.max(1));
        let ahead = service(n) / u128::from(rate.max(1));
        let delay = (u128::from(backlogs[n].waited.0) + ahead).min(1 << 60) / 2;
        (backlogs[n].bytes > 0).then_some((delay * UNIT / weight, weight))
    };
    let (mut sum, mut count, mut gain) = (0, 0, u128::MAX);
    for (n, rate) in rates.iter().enumerate() {
        let Some((normal, weight)) = delay(n, *rate) else { continue };
        sum += normal;
        count += 1;
        // One unit of rate changes what is ahead by what waits over the square of the rate. The gain is the least over
        // all classes at which a step would make good the whole error; an eighth is taken.
        let rate = u128::from(*rate).min(1 << 40);
        gain = gain.min(rate * rate * UNIT / service(n).max(1) * weight);
    }
    if count < 2 {
        return;
    }
    let (mean, gain) = ((sum / count) as i128, (gain / 8).min(1 << 50) as i128);
    for (n, rate) in rates.iter_mut().enumerate() {
        let Some((normal, _)) = delay(n, *rate) else { continue };
        // Error and gain have 20 fraction bits each.
        let step = (normal as i128 - mean).clamp(-(1 << 76), 1 << 76) * gain >> 40;
        *rate = (i128::from(*rate) + step).clamp(1, i128::from(u64::MAX >> 1)) as u64;
    }
}

/// Gives each class with packets what it needs, and the rest in proportion to what its rate is above that.
fn share_out(line: Rate, backlogs: &[Waiting], needs: &[u64], rates: &mut [u64]) {
    let needed: u128 = needs.iter().map(|n| u128::from(*n)).sum();
    let line = u128::from(line.0);
    let above = |n: usize, rate: u64| u128::from(rate.saturating_sub(needs[n]));
    let active = || (0..rates.len()).filter(|n| backlogs[*n].bytes > 0);
    let (sum, count) = (active().map(|n| above(n, rates[n])).sum::<u128>(), active().count().max(1) as u128);
    for n in (0..rates.len()).filter(|n| backlogs[*n].bytes > 0) {
        let need = u128::from(needs[n]);
        rates[n] = if needed >= line {
            // More than there is: as much as can be, in proportion.
            need * line / needed.max(1)
        } else {
            let rest = line - needed;
            need + (rest * above(n, rates[n])).checked_div(sum).unwrap_or(rest / count)
        } as u64;
    }
}

/// Bytes that came and were lost since everything was empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Losses {
    offered: u64,
    lost: u64,
}

impl Losses {
    /// Whether `len` more may be lost within the bound.
    fn allow(self, class: &JobsClass, len: Bytes) -> bool {
        class.loss_bound.is_none_or(|bound| {
            let part = if bound == Probability::ONE { 1 << 32 } else { u128::from(bound.0) };
            u128::from(self.lost + len.0) << 32 <= u128::from(self.offered) * part
        })
    }

    /// How many of `waiting` bytes will be sent, if as large a part is lost as of those that are gone.
    fn to_send(self, waiting: u64) -> u64 {
        let gone = u128::from(self.offered.saturating_sub(waiting));
        let sent = gone.saturating_sub(u128::from(self.lost));
        (u128::from(waiting) * sent).checked_div(gone).map_or(waiting, |bytes| bytes as u64)
    }

    /// Its part of loss, in proportion; who has the least is dropped from next.
    fn normal(self, class: &JobsClass) -> u128 {
        u128::from(self.lost) * UNIT * UNIT / u128::from(self.offered.max(1)) / u128::from(class.loss.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(delay: Option<u32>) -> JobsClass {
        JobsClass { delay, bound: None, loss: 1, loss_bound: None, rate: Rate::ZERO }
    }

    proptest! {
        /// The line's rate is given out whole to who has packets, each gets what it needs, and a delay that is too long in
        /// proportion never costs rate.
        #[test]
        fn rates_are_the_lines(
            states in prop::collection::vec((0u64..100_000, 0u64..1_000_000_000, 1u32..20, 0u64..3_000_000, 0u64..9_000_000), 1..9),
        ) {
            let line = Rate::from_mbit(10);
            let classes: Vec<_> = states.iter().map(|s| class(Some(s.2))).collect();
            let backlogs: Vec<_> =
                states.iter().map(|s| Waiting { bytes: s.0, waited: Duration(s.1), head: 0 }).collect();
            let needs: Vec<u64> = states.iter().map(|s| if s.0 > 0 { s.3 } else { 0 }).collect();
            let mut rates: Vec<u64> = states.iter().map(|s| s.4).collect();
            let before = rates.clone();
            let losses = vec![Losses::default(); states.len()];
            move_rates(line, &classes, &backlogs, &losses, &needs, &mut rates);
            let with_packets = || (0..states.len()).filter(|n| backlogs[*n].bytes > 0);
            let sum: u64 = with_packets().map(|n| rates[n]).sum();
            let active = with_packets().count() as u64;
            prop_assert!(sum <= line.0 && (active == 0 || sum + active >= line.0), "{}", sum);
            for n in 0..states.len() {
                prop_assert!(backlogs[n].bytes > 0 || rates[n] == before[n] || before[n] < line.0 / LEAST);
                if needs.iter().sum::<u64>() <= line.0 {
                    prop_assert!(rates[n] >= needs[n]);
                }
            }
        }

        /// In a fluid at rest a class that is offered x and loses the part p has x times its delay waiting and x(1 − p) of
        /// the line. Where delays are in proportion there is nothing to move.
        #[test]
        fn rates_rest_where_delays_are_in_proportion_whatever_is_lost(
            states in prop::collection::vec((100u64..1_000, 1u32..20, 0u64..900), 2..9),
            seconds in 1u64..5,
        ) {
            let classes: Vec<_> = states.iter().map(|s| class(Some(s.1))).collect();
            // Offered: multiples of 8 kbit/s, which is one byte a millisecond; lost: thousandths.
            let before: Vec<u64> = states.iter().map(|s| 8 * s.0 * (1_000 - s.2)).collect();
            let line = Rate(before.iter().sum());
            // Whole seconds, so that nothing is rounded.
            let delay_ms = |s: &(u64, u32, u64)| u64::from(s.1) * seconds * 1_000;
            let backlog = |s: &(u64, u32, u64)| {
                Waiting { bytes: s.0 * delay_ms(s), waited: Duration::from_millis(delay_ms(s)), head: 0 }
            };
            let backlogs: Vec<_> = states.iter().map(backlog).collect();
            let gone = |s: &(u64, u32, u64)| s.0 * 1_000_000;
            let losses: Vec<_> = states
                .iter()
                .zip(&backlogs)
                .map(|(s, b)| Losses { offered: gone(s) + b.bytes, lost: gone(s) / 1_000 * s.2 })
                .collect();
            let mut rates = before.clone();
            move_rates(line, &classes, &backlogs, &losses, &vec![0; states.len()], &mut rates);
            prop_assert_eq!(rates, before);
        }

        #[test]
        fn a_bound_needs_all_that_waits_in_the_time_left(bytes in 1u64..1_000_000, left in 1u64..10_000_000_000) {
            let class = JobsClass { bound: Some(Duration(left + 77)), ..class(None) };
            let need = needed(&class, Waiting { bytes, waited: Duration(77), head: 0 }).expect("time is left");
            let sent = |rate: u64| u128::from(rate) * u128::from(left);
            let all = u128::from(bytes) * 8_000_000_000;
            prop_assert!(sent(need) >= all && sent(need - 1) < all);
            prop_assert_eq!(needed(&class, Waiting { bytes, waited: Duration(left + 77), head: 0 }), None);
        }
    }
}
