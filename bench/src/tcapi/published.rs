//! The original's server, as what was published of it says how long it takes.
//!
//! S. Giordano et al., *Dynamic resource configuration in DiffServ network*: figure 7 and its text give 0.5 ms for the first allocation and
//! a straight line up to 2,048; table 1 says how many there are when an allocation takes as long as requests are apart; figures 9
//! and 10 say that whoever has once had more than 2,048 never gets back below what the 2,049th took. What lies between the published points is
//! taken for straight.

/// Allocations up to which it is fast.
pub(super) const FAST: u64 = 2_048;
/// The first, ms, and what each that is live adds: table 1 has 992 at 1 ms.
const FIRST_MS: f64 = 0.5;
const EACH_MS: f64 = 0.000_504;
/// Live allocations and ms beyond that.
const SLOW: [(f64, f64); 6] = [
    (2_049.0, 20.1),
    (2_914.0, 50.0),
    (3_743.0, 100.0),
    (4_419.0, 200.0),
    (6_246.0, 500.0),
    (10_000.0, 1_000.0),
];
/// Requests a second and the most allocations, of table 1; at one a second there were more than 10,000.
pub(super) const TABLE_1: [(u64, u64); 10] = [
    (1, 10_000),
    (2, 6_246),
    (5, 4_419),
    (10, 3_743),
    (20, 2_914),
    (50, 2_048),
    (100, 2_048),
    (200, 2_048),
    (500, 2_048),
    (1_000, 992),
];

/// A server that takes as long as that, without waiting for it.
#[derive(Debug, Default)]
pub(super) struct Published {
    live: u64,
    /// Has once had more than [`FAST`].
    slow: bool,
}

impl Published {
    /// One allocation more: how long it takes, ns.
    pub(super) fn request_ns(&mut self) -> f64 {
        self.live += 1;
        self.slow |= self.live > FAST;
        let live = self.live as f64;
        1e6 * if self.slow { slow_ms(live) } else { FIRST_MS + EACH_MS * live }
    }

    /// One less.
    pub(super) fn release_ns(&mut self) -> f64 {
        self.live = self.live.saturating_sub(1);
        1e6 * FIRST_MS
    }
}

fn slow_ms(live: f64) -> f64 {
    let [(first, least), .., (last, most)] = SLOW;
    if live <= first {
        return least;
    }
    for pair in SLOW.windows(2) {
        let [(a, low), (b, high)] = [pair[0], pair[1]];
        if live <= b {
            return low + (high - low) * (live - a) / (b - a);
        }
    }
    most * live / last
}

#[cfg(test)]
mod tests {
    use super::super::compare::most_at;
    use super::*;

    fn grown(to: u64) -> Vec<f64> {
        let mut server = Published::default();
        (0..to).map(|_| server.request_ns()).collect()
    }

    #[test]
    fn table_1_follows_from_it() {
        let times = grown(10_000);
        for (per_second, most) in TABLE_1 {
            assert_eq!(most_at(&times, per_second, 1), most, "{per_second} a second");
        }
        assert_eq!(most_at(&times, 3_000, 1), 0);
        // 2,000 a second is the bound that the text names: the first takes just that.
        assert!((times[0] / 1e6 - 0.5).abs() < 0.001);
    }

    #[test]
    fn what_was_exceeded_once_stays_slow_and_what_was_not_does_not() {
        let mut server = Published::default();
        for _ in 0..400 {
            server.request_ns();
        }
        for _ in 0..400 {
            server.release_ns();
        }
        let later: Vec<f64> = (0..2_049).map(|_| server.request_ns()).collect();
        // Request 2,848 is the last that is fast: 400, 400 and 2,048.
        assert!(later[2_047] < 2e6 && later[2_048] > 20e6);
        (0..2_049).for_each(|_| assert!(server.release_ns() <= 0.5e6));
        assert!(server.request_ns() > 20e6, "into an empty server");
    }
}
