//! CUBIC (RFC 9438).
//!
//! State, in segments: `w_max` (the window at the last reduction, lowered by fast convergence §4.7), the epoch of
//! congestion avoidance with its K (§4.2), the window `w_est` that Reno would have (§4.3). Windows are fractions of
//! segments inside and bytes outside; what does not make a byte is kept.

use super::hystart::{Growth, HyStart};
use super::hystart_plus::HyStartPlusPlus;
use super::{Acked, Congestion, Reduction, Window, slow_start};
use crate::config::{CubicConfig, SlowStartExit};
use perhop_units::{Duration, Instant};

/// C of §4.1, in segments per second cubed.
const C: f64 = 0.4;
/// β of §4.6.
const BETA: f64 = 0.7;
/// α of §4.3: the increase at which a decrease to β takes as much bandwidth as Reno.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// RFC 9438.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    choices: CubicConfig,
    byte_counting: bool,
    w_max: f64,
    /// The window before the last reduction.
    prior: f64,
    epoch: Option<Epoch>,
    last_ack: Instant,
    after_timeout: bool,
    exit: Exit,
    /// Part of a byte by which the window should have grown.
    remainder: f64,
}

/// What watches the first slow start.
#[derive(Clone, Copy, Debug)]
enum Exit {
    AtLoss,
    HyStart(HyStart),
    HyStartPlusPlus(HyStartPlusPlus),
}

/// A stage of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    k: f64,
    origin: f64,
    w_est: f64,
}

impl Cubic {
    /// `byte_counting` affects slow start only: the cubic function depends on time.
    #[must_use]
    pub fn new(choices: CubicConfig, byte_counting: bool) -> Self {
        Self {
            choices,
            byte_counting,
            w_max: 0.0,
            prior: 0.0,
            epoch: None,
            last_ack: Instant::ZERO,
            after_timeout: false,
            exit: match choices.slow_start {
                SlowStartExit::AtLoss => Exit::AtLoss,
                SlowStartExit::HyStart => Exit::HyStart(HyStart::new()),
                SlowStartExit::HyStartPlusPlus => Exit::HyStartPlusPlus(HyStartPlusPlus::new()),
            },
            remainder: 0.0,
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

    /// Starts a stage of congestion avoidance at window `cwnd` (§4.2; after a timeout §4.8).
    fn begin_epoch(&mut self, now: Instant, cwnd: f64) -> Epoch {
        if self.after_timeout || self.w_max < cwnd {
            self.w_max = cwnd;
            self.after_timeout = false;
        }
        let k = libm::cbrt((self.w_max - cwnd) / C);
        Epoch { start: now, k, origin: self.w_max, w_est: cwnd }
    }

    /// The window that `bytes` acknowledged at `ack` lead to, in segments.
    fn avoid(&mut self, cwnd: f64, bytes: u64, ack: &Acked) -> f64 {
        let mut epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(ack.now, cwnd),
        };
        let segments = bytes as f64 / ack.mss as f64;
        // Once Reno's window has caught up with the window before the reduction, it grows as Reno's (§4.3).
        let alpha = if epoch.w_est >= self.prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * segments / cwnd;
        self.epoch = Some(epoch);
        let t = ack.now.since(epoch.start).as_secs_f64();
        if self.choices.reno_friendly && cubic(&epoch, t) < epoch.w_est {
            return epoch.w_est.max(cwnd);
        }
        let ahead = t + ack.smoothed.unwrap_or(Duration::ZERO).as_secs_f64();
        let target = cubic(&epoch, ahead).max(cwnd).min(1.5 * cwnd);
        cwnd + (target - cwnd) * segments / cwnd
    }
}

/// W_cubic(t), §4.2 figure 1.
fn cubic(epoch: &Epoch, t: f64) -> f64 {
    let d = t - epoch.k;
    C * d * d * d + epoch.origin
}

impl Congestion for Cubic {
    fn acked(&mut self, window: &mut Window, ack: &Acked) {
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
        let mss = ack.mss as f64;
        let grown = self.avoid(window.cwnd as f64 / mss, rest, ack) * mss;
        self.remainder += grown - window.cwnd as f64;
        // The target is at most 1.5 windows away, so this fits.
        let whole = self.remainder.max(0.0) as u64;
        self.remainder -= whole as f64;
        window.cwnd += whole;
    }

    fn reduce(&mut self, window: &mut Window, at: &Reduction) {
        let mss = at.mss as f64;
        let cwnd = window.cwnd as f64 / mss;
        self.prior = cwnd;
        self.w_max =
            if self.choices.fast_convergence && cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        window.ssthresh = ((at.flight as f64 * BETA) as u64).max(2 * at.mss);
        self.epoch = None;
        self.remainder = 0.0;
        self.exit = Exit::AtLoss;
    }

    fn timed_out(&mut self, window: &mut Window, at: &Reduction) {
        self.reduce(window, at);
        self.after_timeout = true;
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
            smoothed: Some(Duration::ZERO),
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
        assert!((window_after(9_086, 1000, plain) - 1000.0).abs() < 1.0);
        assert!((window_after(13_086, 1000, plain) - 1025.6).abs() < 1.0);
        assert!((window_after(4_543, 1000, plain) - (1000.0 - 300.0 / 8.0)).abs() < 1.0);
    }

    #[test]
    fn on_a_short_path_the_window_is_renos() {
        // One segment every 10 ms round trip times α = 0.529: far above the cubic function after 1 s.
        let friendly = CubicConfig { fast_convergence: false, ..CubicConfig::default() };
        let w = window_after(300, 20, friendly);
        assert!((w - (14.0 + 0.529 * 11.3 + 1.0 * 19.0)).abs() < 6.0, "{w}");
        assert!(window_after(300, 20, CubicConfig { reno_friendly: false, ..friendly }) < 16.0);
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
        assert_eq!((window.ssthresh, cubic.w_max), (70 * MSS, 100.0));
        window.cwnd = 80 * MSS;
        cubic.reduce(&mut window, &Reduction { flight: 80 * MSS, mss: MSS });
        assert!((cubic.w_max - 68.0).abs() < 1e-9);
    }
}
