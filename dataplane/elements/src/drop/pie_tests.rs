use super::*;
use crate::plumbing::UdpFrame;
use crate::queue::fifo::laws::{calls, check};
use crate::testbed::Line;
use perhop_element::BuildCx;
use perhop_element::testkit::args;
use perhop_units::{Bytes, QueueLimit};
use proptest::prelude::*;

/// The pseudo-code of RFC 8033 appendix A with §5.1, §5.4 and §5.5, in floating point; times in seconds.
struct Rfc {
    target: f64,
    update: f64,
    max_burst: f64,
    alpha: f64,
    beta: f64,
    mark_below: f64,
    mean: f64,
    derandomize: bool,
    drop_prob: f64,
    qdelay_old: f64,
    current_qdelay: f64,
    burst_allowance: f64,
    accu_prob: f64,
}

impl Rfc {
    fn new(c: &PieConfig) -> Self {
        let seconds = |d: Duration| d.0 as f64 / 1e9;
        Self {
            target: seconds(c.target),
            update: seconds(c.update),
            max_burst: seconds(c.max_burst),
            alpha: f64::from(c.alpha) / 16.0,
            beta: f64::from(c.beta) / 16.0,
            mark_below: f64::from(c.mark_below.0) / 4_294_967_296.0,
            mean: c.mean.0 as f64,
            derandomize: c.derandomize,
            drop_prob: 0.0,
            qdelay_old: 0.0,
            current_qdelay: 0.0,
            burst_allowance: 0.0,
            accu_prob: 0.0,
        }
    }

    /// `None` where the answer hangs on the last digits.
    fn enque(&mut self, qlen: f64, capable: bool, u: f64) -> Option<PieVerdict> {
        if self.burst_allowance <= 1e-12 && self.drop_early(qlen, u)? {
            self.accu_prob = 0.0;
            if (self.drop_prob - self.mark_below).abs() < 1e-9 {
                return None;
            }
            let marks = self.drop_prob < self.mark_below && capable;
            return Some(if marks { PieVerdict::Mark } else { PieVerdict::Drop });
        }
        let half = self.target / 2.0;
        if self.drop_prob == 0.0 && self.current_qdelay < half && self.qdelay_old < half {
            self.burst_allowance = self.max_burst;
        }
        Some(PieVerdict::Keep)
    }

    fn drop_early(&mut self, qlen: f64, u: f64) -> Option<bool> {
        let short = self.qdelay_old < self.target / 2.0 && self.drop_prob < 0.2;
        if short || qlen <= 2.0 * self.mean {
            return Some(false);
        }
        if self.derandomize {
            if self.drop_prob == 0.0 {
                self.accu_prob = 0.0;
            }
            self.accu_prob += self.drop_prob;
            if (self.accu_prob - 0.85).abs() < 1e-9 || (self.accu_prob - 8.5).abs() < 1e-9 {
                return None;
            }
            if self.accu_prob < 0.85 {
                return Some(false);
            }
            if self.accu_prob >= 8.5 {
                return Some(true);
            }
        }
        ((u - self.drop_prob).abs() > 1e-9).then_some(u < self.drop_prob)
    }

    fn calculate_drop_prob(&mut self, current_qdelay: f64) {
        self.current_qdelay = current_qdelay;
        let mut p =
            self.alpha * (current_qdelay - self.target) + self.beta * (current_qdelay - self.qdelay_old);
        p /= match self.drop_prob {
            d if d < 0.000_001 => 2048.0,
            d if d < 0.000_01 => 512.0,
            d if d < 0.000_1 => 128.0,
            d if d < 0.001 => 32.0,
            d if d < 0.01 => 8.0,
            d if d < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.drop_prob >= 0.1 && p > 0.02 {
            p = 0.02;
        }
        self.drop_prob = (self.drop_prob + p).clamp(0.0, 1.0);
        if current_qdelay < self.target / 2.0 && self.qdelay_old < self.target / 2.0 {
            self.drop_prob *= 0.98;
        }
        self.qdelay_old = current_qdelay;
        self.burst_allowance = (self.burst_allowance - self.update).max(0.0);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Update(u64),
    Arrive(u64, bool, u32),
}

/// Delays that drift, so that every part of the range of probabilities is visited.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let phase = (0u64..120_000, 1usize..60, 0u64..5_000, 0usize..6);
    prop::collection::vec((phase, any::<u64>(), 0u64..9_000, any::<bool>()), 1..12).prop_map(|phases| {
        let mut steps = vec![];
        for ((micros, updates, jitter, arrivals), mut seed, queued, capable) in phases {
            for _ in 0..updates {
                let mut next = || {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    seed >> 32
                };
                steps.push(Step::Update(1000 * (micros + next() % (jitter + 1))));
                for _ in 0..arrivals {
                    steps.push(Step::Arrive(queued, capable, next() as u32));
                }
            }
        }
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn agrees_with_the_pseudo_code(
        steps in steps(),
        target_us in 1_000u64..40_000,
        alpha in 1u32..40,
        beta in 1u32..200,
        derandomize: bool,
    ) {
        let target = Duration::from_micros(target_us);
        let config = PieConfig { target, alpha, beta, derandomize, ..PieConfig::default() };
        let (mut ours, mut rfc) = (PieState::new(config), Rfc::new(&config));
        for step in steps {
            match step {
                Step::Update(ns) => {
                    ours.update(Duration(ns));
                    rfc.calculate_drop_prob(ns as f64 / 1e9);
                    let p = ours.probability as f64 / ONE as f64;
                    prop_assert!((p - rfc.drop_prob).abs() < 1e-12, "{} instead of {}", p, rfc.drop_prob);
                    // Both begin the next step from the same place: an error of 10⁻¹⁶ may fall on the other side of a
                    // scale, or of nothing at all.
                    rfc.drop_prob = p;
                }
                Step::Arrive(queued, capable, random) => {
                    let verdict = ours.arrives(Bytes(queued), capable, random);
                    let u = f64::from(random) / 4_294_967_296.0;
                    let Some(expected) = rfc.enque(queued as f64, capable, u) else { return Ok(()) };
                    prop_assert_eq!(verdict, expected);
                }
            }
        }
    }

    #[test]
    fn pie_reports_what_it_does(calls in calls(), target_us in 1u64..3_000, ecn: bool, derandomize: bool) {
        let queue = FifoConfig { limit: QueueLimit::Bytes(Bytes(20_000)), rate: Rate::ZERO, overhead: 4 };
        let config = PieConfig {
            target: Duration::from_micros(target_us),
            update: Duration::from_millis(1),
            max_burst: Duration::ZERO,
            alpha: 512,
            beta: 512,
            ecn,
            derandomize,
            mean: Bytes(1),
            ..PieConfig::default()
        };
        check(Pie::new(config, queue), &calls);
    }
}

/// A shaper of 1000 bytes a ms that has had `load` packets of 1000 bytes in each ten ms, for so many seconds.
fn run(settings: &str, load: u64, seconds: u64, ecn: u8) -> Line {
    let settings = format!("8 Mbit/s, discipline = pie, limit = 400 packets, {settings}");
    let mut line = Line::new("Shaper", &settings, 3);
    for _ in 0..seconds * 100 * load {
        line.push("", &UdpFrame { ip_len: 986, ecn, ..UdpFrame::default() });
        line.run_for(Duration(10_000_000 / load));
    }
    line
}

/// Packets that cannot be marked, 25 % too many: what waits settles at the target, what is lost at a fifth.
#[test]
fn a_steady_overload_is_held_at_the_target() {
    for (settings, target_ms) in [("target = 15 ms", 15.0), ("target = 30 ms, derandomize = no", 30.0)] {
        let (half, whole) = (run(settings, 12, 5, 0), run(settings, 12, 12, 0));
        let settled = &whole.gone()[half.gone().len()..];
        let mean = settled.iter().map(|p| p.waited.0 as f64 / 1e6).sum::<f64>() / settled.len() as f64;
        assert!((mean - target_ms).abs() < target_ms / 4.0, "{settings}: {mean} ms");
        let lost = (whole.report("early") - half.report("early")) as f64 / (7.0 * 1200.0);
        assert!((lost - 1.0 / 6.0).abs() < 0.01, "{settings}: {lost}");
        assert_eq!(
            whole.report("dropped_packets"),
            whole.report("early"),
            "{settings}: the bound is not met"
        );
    }
}

#[test]
fn a_burst_passes_and_a_load_within_the_rate_loses_nothing() {
    // 120 packets at once take 120 ms, within the 150 ms after a calm time.
    let mut line = Line::new("Shaper", "8 Mbit/s, discipline = pie, limit = 400 packets", 3);
    for _ in 0..3 {
        for _ in 0..120 {
            line.push("", &UdpFrame { ip_len: 986, ..UdpFrame::default() });
        }
        // The probability is gone a while after.
        line.run_for(Duration::from_secs(8));
    }
    assert_eq!((line.report("early"), line.gone().len()), (0, 360));
    assert_eq!(run("", 9, 5, 0).report("dropped_packets"), 0);
}

#[test]
fn marks_end_where_drops_begin() {
    // Senders that do not obey: the probability passes the mark within a second, and drops follow.
    let line = run("", 12, 4, 2);
    let marks = line.gone().iter().filter(|p| p.tos & 3 == 3).count() as u64;
    assert_eq!(line.report("marked"), marks);
    assert!(marks > 0 && line.report("early") > 100, "{marks}");
    let probability = line.report("probability_ppm");
    assert!(probability > 100_000, "beyond the mark: {probability}");
    let all = run("mark_below = 100 %", 12, 4, 2);
    assert_eq!((all.report("early"), all.report("marked") > 300), (0, true));
    assert_eq!(run("ecn = no", 12, 2, 2).report("marked"), 0);
}

#[test]
fn updates_missed_are_made_up_for() {
    let config = PieConfig::default();
    let queue = FifoQueue::new(QueueLimit::Packets(9), Rate::ZERO, 0);
    let (mut at_once, mut one_by_one) = (PieState::new(config), PieState::new(config));
    let ms = |n: u64| Instant(n * 1_000_000);
    for pie in [&mut at_once, &mut one_by_one] {
        pie.advance(ms(0), &queue);
        pie.probability = ONE / 4;
        pie.waited = Duration::from_millis(40);
    }
    (1..=700).for_each(|n| one_by_one.advance(ms(15 * n), &queue));
    at_once.advance(ms(15 * 700), &queue);
    assert_eq!(at_once, one_by_one);
    assert!(at_once.is_at_rest());
    // A day is no loop of millions.
    at_once.advance(ms(86_400_001), &queue);
    assert_eq!(at_once.due, Some(ms(86_400_015)));
}

#[test]
fn ranges_are_told() {
    let build = crate::shape::types().into_iter().find(|t| t.name == "Shaper").expect("registered").build;
    let text =
        "1 Mbit/s, discipline = pie, target = 2 s, update = 1 us, alpha = 0, beta = 513, mark_below = 2";
    let errors = build(&args(text), &mut BuildCx::default()).err().unwrap_or_default();
    let keys: Vec<_> = errors.iter().filter_map(|e| e.key.as_deref()).collect();
    assert_eq!(keys, ["target", "update", "alpha", "beta", "mark_below"]);
}
