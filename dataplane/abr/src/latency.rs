//! The latency of one side of a path, without the time that packets wait in queues.
//!
//! Latency hardly changes, waiting does: the low edge of the samples is the latency. Taking the waiting for latency would
//! widen windows, which lengthens queues. Source: S. Reddy, chapter 4 (weights), K. Nichols' windowed minimum.

use crate::settings::Latency;

/// Samples longer than this are refused, µs.
const LONGEST_US: u32 = 60_000_000;
/// Parts of a µs that an average is kept in; 60 s fit.
pub(crate) const PARTS_SHIFT: u32 = 6;
/// "No sample yet" among the minima.
const NONE: u32 = u32::MAX;
/// In place of a run: long samples are those of a queue until a short one comes.
const BARRED: u32 = NONE - 1;
/// In place of a run: the filter has started anew and is watched; the rest is the latency before, µs.
const ON_TRIAL: u32 = 1 << 31;
/// What a step upwards is at least, µs: below it the slow weight follows soon enough, and waiting looks the same.
const LEAST_STEP_US: u32 = 10_000;
/// What may pass between two samples of a busy sender besides the path, µs: what its receiver waits before it acknowledges, twice.
const BETWEEN_US: u64 = 1_000_000;

/// The least weight that a timed average is moved by: 1/1024.
const LEAST_WEIGHT: u32 = 1 << 22;

/// Filter of one side.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Filter {
    /// 1/64 µs; 0: no sample yet.
    filtered: u32,
    /// When the run of long samples, the trial or the younger span of the minimum began, µs.
    since: u32,
    /// Shortest of the run's first round trip (of the younger span), or [`NONE`], [`BARRED`], [`ON_TRIAL`].
    early: u32,
    /// Shortest of the run after two round trips, of the trial after three (of the older span).
    late: u32,
    /// When the last sample came, µs.
    last: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self { filtered: 0, since: 0, early: NONE, late: NONE, last: 0 }
    }
}

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sampled {
    /// Counted in.
    Taken,
    /// Not positive, or longer than a minute.
    Refused,
    /// The path has become longer: started anew.
    Reinitialised,
}

impl Filter {
    /// The latency in 1/64 µs; 0 without a sample.
    #[inline]
    pub const fn parts(&self) -> u32 {
        self.filtered
    }

    /// The latency in whole µs.
    #[inline]
    pub const fn us(&self) -> u32 {
        self.filtered >> PARTS_SHIFT
    }

    /// Takes a sample of `rtt_us`; `other_us` is the latency of the path's other side.
    #[inline]
    pub fn sample(&mut self, how: &Latency, now_us: u32, rtt_us: u32, other_us: u32) -> Sampled {
        if rtt_us == 0 || rtt_us > LONGEST_US {
            return Sampled::Refused;
        }
        let (up, down) = match *how {
            Latency::Minimum { window } => {
                self.minimum(window.as_nanos() / 1_000, now_us, rtt_us);
                return Sampled::Taken;
            }
            Latency::Average { up, down } => (up, down),
            Latency::Timed { up, down } => {
                let since_last = u64::from(now_us.wrapping_sub(self.last));
                (one_less_exp(since_last, up.as_nanos() / 1_000), down)
            }
        };
        if self.filtered == 0 {
            self.last = now_us;
            self.filtered = rtt_us << PARTS_SHIFT;
            return Sampled::Taken;
        }
        if self.has_stepped(now_us, rtt_us, other_us, false) {
            return Sampled::Reinitialised;
        }
        let rtt = rtt_us << PARTS_SHIFT;
        let part = |difference: u32, weight: u32| (u64::from(difference) * u64::from(weight) >> 32) as u32;
        if rtt < self.filtered {
            self.filtered -= part(self.filtered - rtt, down);
        } else if up < LEAST_WEIGHT && matches!(how, Latency::Timed { .. }) {
            // The step would be lost in the rounding: a later sample takes this one's time along.
            return Sampled::Taken;
        } else {
            self.filtered += part(rtt - self.filtered, up);
        }
        self.last = now_us;
        Sampled::Taken
    }

    /// Takes a sample that may contain more than the path: as the first, or when it is shorter.
    pub fn bound(&mut self, how: &Latency, now_us: u32, rtt_us: u32, other_us: u32) -> Sampled {
        if self.filtered != 0 && rtt_us << PARTS_SHIFT >= self.filtered {
            return Sampled::Refused;
        }
        self.sample(how, now_us, rtt_us, other_us)
    }

    /// Takes a sample of the side towards a sender: from an acknowledgment to what it sent then. It may contain a pause of the
    /// sender, so it only bounds the latency. Unless the acknowledgment was `awaited`, as the sender had used up its window: of a run of
    /// such samples the filter believes that the path has become longer, on trial, but it averages none. For a pause may fall in
    /// there by chance; it would do so again and again only if the sender used up larger windows too.
    pub fn echo(&mut self, how: &Latency, now_us: u32, rtt_us: u32, other_us: u32, awaited: bool) -> Sampled {
        let known = self.us();
        if let Some(before) = self.trial() {
            if rtt_us <= longest_as_long_as(before) {
                (self.filtered, self.early) = (self.filtered.min(before << PARTS_SHIFT), NONE);
            } else {
                let round_trip = (u64::from(known) + u64::from(other_us)).max(1);
                let age = u64::from(now_us.wrapping_sub(self.since));
                let round_trips = age / round_trip;
                if awaited && round_trips > 3 && self.late == NONE && age < 6 * round_trip + BETWEEN_US {
                    self.late = rtt_us;
                }
                if awaited || round_trips > 3 {
                    self.judge(round_trips, rtt_us, true);
                }
            }
        }
        if self.filtered == 0 || rtt_us << PARTS_SHIFT < self.filtered {
            return self.sample(how, now_us, rtt_us, other_us);
        }
        let may_be_new = awaited || rtt_us <= longest_as_long_as(known);
        let is_watched = !matches!(how, Latency::Minimum { .. }) && self.trial().is_none();
        if rtt_us > LONGEST_US || !is_watched || !may_be_new {
            return Sampled::Refused;
        }
        match self.has_stepped(now_us, rtt_us, other_us, true) {
            true => Sampled::Reinitialised,
            false => Sampled::Refused,
        }
    }

    /// What the latency was before the new start that is on trial, µs.
    #[inline]
    const fn trial(&self) -> Option<u32> {
        if self.early & ON_TRIAL != 0 && self.early < BARRED { Some(self.early & !ON_TRIAL) } else { None }
    }

    /// Whether everything of the last three round trips was more than a quarter above the filtered latency, while the
    /// shortest of them stayed the same to an eighth: then the path has become longer, and the filter starts anew from there.
    ///
    /// Unless it is a queue that stands, because the rates of all flows together are more than the link has. Nothing that
    /// was measured so far tells the two apart; what windows do that are larger now does: a longer path takes them up, a
    /// queue grows by at least as much again. So a new start is on trial for four round trips.
    ///
    /// `sparse`: samples come only while a sender is busy. Then there has to be one from the third round trip on, and another one
    /// shortly after.
    fn has_stepped(&mut self, now_us: u32, rtt_us: u32, other_us: u32, sparse: bool) -> bool {
        let known = self.us();
        let round_trip = u64::from(rtt_us) + u64::from(other_us);
        let age = u64::from(now_us.wrapping_sub(self.since));
        if self.trial().is_some() {
            self.judge(age / round_trip, rtt_us, false);
            return false;
        }
        if rtt_us <= longest_as_long_as(known) {
            self.early = NONE;
            return false;
        }
        if self.early == BARRED {
            return false;
        }
        if self.early != NONE && age < 3 * round_trip {
            if age < round_trip {
                self.early = self.early.min(rtt_us);
            } else if age >= 2 * round_trip {
                self.late = self.late.min(rtt_us);
            }
            return false;
        }
        let is_run = !sparse || age < 5 * round_trip + BETWEEN_US;
        if sparse && is_run && self.early != NONE && self.late == NONE {
            self.late = rtt_us;
            return false;
        }
        let (early, late) = (self.early, self.late.min(rtt_us));
        let steady = is_run && early != NONE && late.abs_diff(early) <= early / 8;
        if steady {
            self.filtered = early.min(late) << PARTS_SHIFT;
            (self.since, self.early, self.late) = (now_us, ON_TRIAL | known, NONE);
        } else {
            (self.since, self.early, self.late) = (now_us, rtt_us, NONE);
        }
        steady
    }

    /// Takes the new start back when everything of the fourth round trip behind it was longer by half of what the latency
    /// was raised by, and takes no more of them before a sample is short again. The first three fill the path with what the
    /// larger windows let out at once. Of `sparse` samples there has to be one from then on: a sender that does not use up larger
    /// windows was not waiting for the path.
    fn judge(&mut self, round_trips: u64, rtt_us: u32, sparse: bool) {
        if round_trips < 3 {
            return;
        }
        if round_trips == 3 {
            self.late = self.late.min(rtt_us);
            return;
        }
        let (before, known) = (self.early & !ON_TRIAL, self.us());
        let is_shown = self.late != NONE;
        let grew = is_shown && self.late > known + known.saturating_sub(before) / 2;
        if grew || sparse && !is_shown {
            self.filtered = self.filtered.min(before << PARTS_SHIFT);
        }
        self.early = if grew { BARRED } else { NONE };
    }

    /// Minimum over two spans of half the window each.
    fn minimum(&mut self, window_us: u64, now_us: u32, rtt_us: u32) {
        let span = (window_us / 2).clamp(1, u64::from(u32::MAX / 4)) as u32;
        let age = now_us.wrapping_sub(self.since);
        if self.early == NONE || age >= 2 * span {
            (self.since, self.early, self.late) = (now_us, rtt_us, NONE);
        } else if age >= span {
            (self.since, self.late, self.early) = (self.since.wrapping_add(span), self.early, rtt_us);
        } else {
            self.early = self.early.min(rtt_us);
        }
        self.filtered = self.early.min(self.late) << PARTS_SHIFT;
    }
}

/// The longest sample, µs, that does not speak for a path longer than `known` µs.
const fn longest_as_long_as(known: u32) -> u32 {
    let quarter = known / 4;
    known + if quarter > LEAST_STEP_US { quarter } else { LEAST_STEP_US }
}

/// 1 − exp(−`part` / `whole`) as Q0.32, without floating point: four terms of the series for an argument below 1/32,
/// doubled back by w(2x) = 2 w(x) − w(x)². Exact to 2⁻²².
fn one_less_exp(part: u64, whole: u64) -> u32 {
    const ONE: u64 = 1 << 32;
    let whole = whole.max(1);
    // Beyond 23 nothing is left of the exponential in 32 bits.
    if part / whole >= 23 {
        return u32::MAX;
    }
    let mut x = ((u128::from(part) << 40) / u128::from(whole)) as u64;
    let mut doublings = 0;
    while x >= 1 << 35 {
        x = x.div_ceil(2);
        doublings += 1;
    }
    // x in Q24.40; the terms likewise.
    let mul = |a: u64, b: u64| (u128::from(a) * u128::from(b) >> 40) as u64;
    let square = mul(x, x);
    let cube = mul(square, x);
    let mut w = x + cube / 6 - square / 2 - mul(cube, x) / 24;
    for _ in 0..doublings {
        w = 2 * w - mul(w, w);
    }
    (w >> 8).min(ONE - 1) as u32
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
