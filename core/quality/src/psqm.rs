//! A surrogate for PSQM (ITU-T P.861) scores, from loss alone.
//!
//! The real score compares signals; the instrument whose scores Huttunen published derived them from loss, jitter and
//! codec by a matrix that is not public. This curve is fitted to the rows of his table 8.3 and its floor (largest
//! residual 0.016) and serves only to set runs of the laboratory beside those rows: G.711, jitter up to about 6 ms.
//! Whatever prints it must call it a surrogate. Delay is not in it; the E-model is the score to trust.

/// Score without loss for G.711.
pub const FLOOR: f64 = 0.4;
/// Worst score of the scale.
pub const WORST: f64 = 6.5;

/// Surrogate score for this network loss in percent (held to 0 … 100): 0.4 (best for G.711) upwards, at most 6.5.
pub fn surrogate(loss_pct: f64) -> f64 {
    let loss = loss_pct.clamp(0.0, 100.0);
    (FLOOR + 3.042 * (1.0 - libm::exp(-loss / 5.38))).min(WORST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loss and score of the five runs of table 8.3, and the two-class runs without loss of table 8.4.
    #[test]
    fn published_rows_are_met() {
        let rows = [(10.44, 3.01), (8.39, 2.81), (10.33, 3.00), (10.03, 2.97), (9.43, 2.90), (0.0, 0.40)];
        for (loss, psqm) in rows {
            assert!((surrogate(loss) - psqm).abs() <= 0.0165, "{loss} %: {} for {psqm}", surrogate(loss));
        }
        assert!(surrogate(100.0) <= WORST && surrogate(-1.0) == FLOOR);
    }
}
