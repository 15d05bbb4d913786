//! The CUBIC run that ns-3 publishes in its example `tcp-validation` (case `cubic-50ms-no-ecn`).
//!
//! One flow from t = 5 s over 50 Mbit/s with 50 ms of round-trip time and CoDel (5 ms, 100 ms) at the bottleneck;
//! segments of 1448 bytes, initial window 10, recovery by RFC 6675 with PRR, CUBIC without the Reno-friendly region, every second segment
//! acknowledged. Published: "maximum value of cwnd is 511 segments at 5.4593 seconds; cwnd decreases to 173 segments at
//! 5.80304 seconds; another local maximum around 14.2815 seconds of 236 segments, a second around 18.048 seconds of 234".

use crate::path::{Codel, End, Link, Path, Queue};
use perhop_tcp::{Algorithm, Config, CubicConfig, DelayedAck, Endpoint, Phase, RtoLimits, SlowStartExit};
use perhop_units::{Duration, Instant};

/// Congestion window in segments by time in seconds, outside of recovery and inside.
fn run(choices: CubicConfig) -> Vec<(f64, f64, Phase)> {
    let standard = Config::default();
    let config = Config {
        mss: 1460,
        rack: false,
        initial_window: 10,
        send_buffer: 32_768_000,
        receive_buffer: 32_768_000,
        congestion: Algorithm::Cubic(choices),
        delayed_ack: DelayedAck { segments: 2, timeout: Duration::from_millis(200) },
        rto: RtoLimits { min: Duration::from_secs(1), ..standard.rto },
        ..standard
    };
    let start = Instant(5_000_000_000);
    let ends = [
        End::new(Endpoint::connect(config, 1000, 80, 1, start).unwrap(), u64::MAX, false),
        End::new(Endpoint::listen(config, 80, 2, start).unwrap(), 0, false),
    ];
    let delay = Duration::from_millis(25);
    let mut forth = Link::new(delay).limited(50_000_000, Queue::Codel(Codel::new(false)));
    // IPv4 and PPP headers.
    forth.overhead = 22;
    let mut path = Path::new(ends, [forth, Link::new(delay)], start);
    let mut series = Vec::new();
    while path.now < Instant(20_000_000_000) {
        path.step();
        let trace = path.ends[0].endpoint.trace();
        series.push((path.now.as_nanos() as f64 / 1e9, trace.cwnd as f64 / trace.mss as f64, trace.phase));
    }
    series
}

/// The largest value between two times, and when.
fn peak(series: &[(f64, f64, Phase)], from: f64, to: f64) -> (f64, f64) {
    let inside = series.iter().filter(|sample| (from..to).contains(&sample.0));
    inside.fold((0.0, 0.0), |best, sample| if sample.1 > best.1 { (sample.0, sample.1) } else { best })
}

#[test]
fn cubic_runs_as_published() {
    let series =
        run(CubicConfig { reno_friendly: false, fast_convergence: true, slow_start: SlowStartExit::HyStart });
    let (first, second, third) =
        (peak(&series, 5.0, 6.0), peak(&series, 7.0, 16.0), peak(&series, 16.0, 20.0));
    let least = series.iter().filter(|sample| (5.5..7.0).contains(&sample.0)).map(|sample| sample.1);
    let least = least.fold(f64::MAX, f64::min);
    println!("peaks (s, segments) {first:.3?} {second:.3?} {third:.3?}, after the first {least:.1}");
    for (measured, published) in [(first.1, 511.0), (least, 173.0), (second.1, 236.0), (third.1, 234.0)] {
        assert!((measured / published - 1.0f64).abs() < 0.1, "{measured} segments instead of {published}");
    }
    for (measured, published) in [(first.0, 5.459), (second.0, 14.28), (third.0, 18.05)] {
        assert!((measured - published - 0.0f64).abs() < 0.5, "at {measured} s instead of {published}");
    }
}
