//! CUBIC (RFC 9438), with the arithmetic of Linux.
//!
//! RFC 9438 computes windows as fractions of segments. Kernels count whole segments, and with the small windows of a path
//! that loses packets the parts make a difference, so this follows them: windows and thresholds are whole segments, a
//! target is, and the window grows by one segment for so many acknowledged ([`Cubic::per_segment`]). Three rules are
//! Linux's own: the growth beside Reno's (§4.3) stays 8/15 of a segment a round trip after the window before the reduction
//! is reached; the least round-trip time is what the function looks ahead, not the smoothed one; before a first loss, and
//! after a timeout, the window grows by a twentieth a round trip at least.

use super::hystart::{Growth, HyStart};
use super::hystart_plus::HyStartPlusPlus;
use super::{Acked, Congestion, Reduction, Window, slow_start};
use crate::config::{CubicConfig, SlowStartExit};
use perhop_units::{Duration, Instant};

/// C of §4.1, in segments per second cubed.
const C: f64 = 0.4;
/// β of §4.6, of [`SCALE`].
const BETA: u64 = 717;
const SCALE: u64 = 1024;
/// Reno's window grows by one segment for so many eighths of a window acknowledged: 1/α of §4.3.
const FRIENDLY_EIGHTHS: u64 = 15;
/// What a window is divided by while no loss has shown how large it may be.
const UNKNOWN_LIMIT: u64 = 20;
/// An unchanged window is judged anew after this.
const JUDGED_FOR: Duration = Duration::from_nanos(31_250_000);

/// RFC 9438.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    choices: CubicConfig,
    byte_counting: bool,
    /// W_max: the window at the last reduction, lowered by fast convergence (§4.7), segments; 0 when unknown.
    w_max: u64,
    epoch: Option<Epoch>,
    /// Window, in segments, that `per_segment` was judged for, and when.
    judged: (u64, Instant),
    /// So many segments acknowledged let the window grow by one.
    per_segment: u64,
    /// Bytes acknowledged since the window last grew.
    counted: u64,
    least_rtt: Option<Duration>,
    last_ack: Instant,
    exit: Exit,
}

/// What watches slow start until a loss.
#[derive(Clone, Copy, Debug)]
enum Exit {
    AtLoss,
    HyStart(HyStart),
    HyStartPlusPlus(HyStartPlusPlus),
}

impl Exit {
    fn new(choices: &CubicConfig) -> Self {
        match choices.slow_start {
            SlowStartExit::AtLoss => Self::AtLoss,
            SlowStartExit::HyStart => Self::HyStart(HyStart::new()),
            SlowStartExit::HyStartPlusPlus => Self::HyStartPlusPlus(HyStartPlusPlus::new()),
        }
    }
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Seconds until the window is `origin` (§4.2).
    k: f64,
    /// Segments.
    origin: u64,
    /// The window that Reno would have (§4.3), segments, and the bytes acknowledged since it last grew.
    reno: u64,
    reno_counted: u64,
}

impl Epoch {
    /// W_cubic (§4.2 figure 1) after `t` seconds, its distance from the origin in whole segments.
    fn cubic(&self, t: f64) -> u64 {
        let d = t - self.k;
        let distance = (C * d * d * d).abs() as u64;
        if d < 0.0 { self.origin.saturating_sub(distance) } else { self.origin.saturating_add(distance) }
    }
}

impl Cubic {
    /// `byte_counting` affects slow start only: the cubic function depends on time.
    #[must_use]
    pub fn new(choices: CubicConfig, byte_counting: bool) -> Self {
        Self {
            choices,
            byte_counting,
            w_max: 0,
            epoch: None,
            judged: (0, Instant::ZERO),
            per_segment: 1,
            counted: 0,
            least_rtt: None,
            last_ack: Instant::ZERO,
            exit: Exit::new(&choices),
        }
    }

    /// Slow start; the bytes left over for congestion avoidance.
    fn slow_start(&mut self, window: &mut Window, ack: &Acked) -> u64 {
        let growth = match &mut self.exit {
            Exit::AtLoss => return slow_start(window, ack, self.byte_counting),
            Exit::HyStart(hystart) => {
                if hystart.acked(window.cwnd, ack) == Growth::Standard {
                    return slow_start(window, ack, self.byte_counting);
                }
                Growth::End
            }
            Exit::HyStartPlusPlus(hystart) => hystart.acked(ack),
        };
        match growth {
            Growth::Standard => slow_start(window, ack, self.byte_counting),
            Growth::Bytes(bytes) => {
                let used = bytes.min(window.ssthresh.saturating_sub(window.cwnd));
                window.cwnd += used;
                if window.in_slow_start() { 0 } else { bytes - used }
            }
            Growth::End => {
                window.ssthresh = window.cwnd;
                self.exit = Exit::AtLoss;
                ack.bytes
            }
        }
    }

    /// Starts a stage of congestion avoidance at window `cwnd` (§4.2).
    fn begin_epoch(&self, now: Instant, cwnd: u64) -> Epoch {
        let origin = self.w_max.max(cwnd);
        let k = libm::cbrt((origin - cwnd) as f64 / C);
        Epoch { start: now, k, origin, reno: cwnd, reno_counted: 0 }
    }

    /// Judges how fast a window of `cwnd` segments is to grow, `bytes` having been acknowledged.
    fn judge(&mut self, cwnd: u64, bytes: u64, ack: &Acked) {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(ack.now, cwnd),
        };
        epoch.reno_counted += bytes;
        let (judged, at) = self.judged;
        if self.epoch.is_some() && judged == cwnd && ack.now.since(at) <= JUDGED_FOR {
            self.epoch = Some(epoch);
            return;
        }
        self.judged = (cwnd, ack.now);
        let ahead = ack.now.since(epoch.start) + self.least_rtt.unwrap_or(Duration::ZERO);
        let target = epoch.cubic(ahead.as_secs_f64());
        self.per_segment = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.w_max == 0 {
            self.per_segment = self.per_segment.min(UNKNOWN_LIMIT);
        }
        if self.choices.reno_friendly {
            let each = (cwnd * FRIENDLY_EIGHTHS / 8).max(1) * ack.mss;
            // It grows when more than that is acknowledged, not when as much is.
            let grown = epoch.reno_counted.saturating_sub(1) / each;
            epoch.reno += grown;
            epoch.reno_counted -= grown * each;
            if epoch.reno > cwnd {
                self.per_segment = self.per_segment.min(cwnd / (epoch.reno - cwnd));
            }
        }
        // At most by half a round trip (§4.4).
        self.per_segment = self.per_segment.max(2);
        self.epoch = Some(epoch);
    }

    /// Additive increase by one segment for `per_segment` acknowledged.
    fn increase(&mut self, window: &mut Window, bytes: u64, mss: u64) {
        let each = self.per_segment * mss;
        // What was counted while growth was slower must not come as a burst.
        if self.counted >= each {
            self.counted = 0;
            window.cwnd += mss;
        }
        self.counted += bytes;
        window.cwnd += self.counted / each * mss;
        self.counted %= each;
    }
}

impl Congestion for Cubic {
    fn acked(&mut self, window: &mut Window, ack: &Acked) {
        if let Some(sample) = ack.sample {
            self.least_rtt = Some(self.least_rtt.map_or(sample, |least| least.min(sample)));
        }
        if !ack.limited {
            self.resumed(ack.now);
            return;
        }
        self.last_ack = ack.now;
        let mut rest = ack.bytes;
        if window.in_slow_start() {
            rest = self.slow_start(window, ack);
        }
        if rest == 0 {
            return;
        }
        self.judge((window.cwnd / ack.mss).max(1), rest, ack);
        self.increase(window, rest, ack.mss);
    }

    /// The window itself counts, as in kernels, where it is not less than what is in flight.
    fn reduce(&mut self, window: &mut Window, at: &Reduction) {
        let cwnd = window.cwnd.max(at.flight) / at.mss;
        let falls = self.choices.fast_convergence && cwnd < self.w_max;
        self.w_max = if falls { cwnd * (SCALE + BETA) / (2 * SCALE) } else { cwnd };
        window.ssthresh = (cwnd * BETA / SCALE).max(2) * at.mss;
        self.epoch = None;
        self.counted = 0;
        self.exit = Exit::AtLoss;
    }

    /// What was known of the path is forgotten (§4.8).
    fn timed_out(&mut self, window: &mut Window, at: &Reduction) {
        self.reduce(window, at);
        self.w_max = 0;
        self.least_rtt = None;
        self.exit = Exit::new(&self.choices);
    }

    /// Time in which the window was not used does not count (§4.2).
    fn resumed(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start += now.since(self.last_ack);
        }
        self.last_ack = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    fn ack(ms: u64, bytes: u64) -> Acked {
        Acked {
            now: Instant(ms * 1_000_000),
            bytes,
            mss: MSS,
            acked: 0,
            sent: 0,
            sample: None,
            limited: true,
            after_timeout: false,
        }
    }

    /// Acknowledges a window every `step` ms for `ms`, from a reduction of `w` segments on; the window at the end.
    fn window_after(ms: u64, w: u64, choices: CubicConfig) -> f64 {
        let mut window = Window { cwnd: w * MSS, ssthresh: u64::MAX };
        let mut cubic = Cubic::new(choices, true);
        cubic.reduce(&mut window, &Reduction { flight: w * MSS, mss: MSS });
        window.cwnd = window.ssthresh;
        for at in (0..=ms).step_by(10) {
            let cwnd = window.cwnd;
            cubic.acked(&mut window, &ack(at, cwnd));
        }
        window.cwnd as f64 / MSS as f64
    }

    #[test]
    fn the_window_follows_the_cubic_function() {
        let plain =
            CubicConfig { reno_friendly: false, fast_convergence: false, slow_start: SlowStartExit::AtLoss };
        // K = cbrt(1000 · 0.3 / 0.4) = 9.086 s: back at W_max after K, C · 4³ above it 4 s later.
        assert!((window_after(9_086, 1000, plain) - 1000.0).abs() < 1.5);
        assert!((window_after(13_086, 1000, plain) - 1025.6).abs() < 1.5);
        assert!((window_after(4_543, 1000, plain) - (1000.0 - 300.0 / 8.0)).abs() < 1.5);
    }

    #[test]
    fn on_a_short_path_the_window_is_renos() {
        // 8/15 of a segment every round trip of 10 ms, 31 times: far above the cubic function after 300 ms.
        let friendly = CubicConfig { fast_convergence: false, ..CubicConfig::default() };
        let w = window_after(300, 20, friendly);
        assert!((w - (14.0 + 31.0 * 8.0 / 15.0)).abs() < 1.5, "{w}");
        assert!(window_after(300, 20, CubicConfig { reno_friendly: false, ..friendly }) < 18.0);
    }

    #[test]
    fn windows_and_thresholds_are_whole_segments() {
        for segments in 2..200 {
            let mut window = Window { cwnd: segments * MSS + 999, ssthresh: u64::MAX };
            let mut cubic = Cubic::new(CubicConfig::default(), true);
            cubic.reduce(&mut window, &Reduction { flight: segments * MSS, mss: MSS });
            assert_eq!(window.ssthresh, (segments * 717 / 1024).max(2) * MSS);
            window.cwnd = window.ssthresh;
            for n in 0..100 {
                cubic.acked(&mut window, &ack(n * 40, 1448));
                assert!(window.cwnd.is_multiple_of(MSS), "{window:?}");
            }
            assert!(window.cwnd > window.ssthresh);
        }
    }

    #[test]
    fn before_a_first_loss_the_window_grows_by_a_twentieth_a_round_trip() {
        let mut window = Window { cwnd: 1000 * MSS, ssthresh: 1000 * MSS };
        let mut cubic = Cubic::new(CubicConfig::default(), true);
        (0..1000).for_each(|n| cubic.acked(&mut window, &ack(n / 10, MSS)));
        assert_eq!(window.cwnd, 1050 * MSS);
        cubic.reduce(&mut window, &Reduction { flight: 0, mss: MSS });
        window.cwnd = window.ssthresh;
        (0..1000).for_each(|n| cubic.acked(&mut window, &ack(n / 10, MSS)));
        assert!(window.cwnd < window.ssthresh + 10 * MSS, "K is 9 s away");
    }

    #[test]
    fn time_without_data_does_not_open_the_window() {
        let mut window = Window { cwnd: 100 * MSS, ssthresh: 70 * MSS };
        let mut cubic = Cubic::new(CubicConfig::default(), true);
        cubic.reduce(&mut window, &Reduction { flight: 100 * MSS, mss: MSS });
        window.cwnd = window.ssthresh;
        cubic.acked(&mut window, &ack(100, 70 * MSS));
        cubic.acked(&mut window, &ack(200, 70 * MSS));
        let before = window.cwnd;
        cubic.resumed(Instant(60_200_000_000));
        cubic.acked(&mut window, &Acked { limited: false, ..ack(60_300, 70 * MSS) });
        cubic.acked(&mut window, &ack(60_400, 70 * MSS));
        assert!(window.cwnd - before < 3 * MSS, "{before} {window:?}");
        cubic.acked(&mut window, &ack(120_400, 70 * MSS));
        assert!(window.cwnd - before > 30 * MSS, "the cubic function after a minute of use");
    }

    #[test]
    fn fast_convergence_lowers_the_plateau_of_a_falling_window() {
        let mut window = Window { cwnd: 100 * MSS, ssthresh: u64::MAX };
        let mut cubic = Cubic::new(CubicConfig::default(), true);
        cubic.reduce(&mut window, &Reduction { flight: 100 * MSS, mss: MSS });
        assert_eq!((window.ssthresh, cubic.w_max), (70 * MSS, 100));
        window.cwnd = 80 * MSS;
        cubic.reduce(&mut window, &Reduction { flight: 80 * MSS, mss: MSS });
        assert_eq!(cubic.w_max, 68);
    }
}
