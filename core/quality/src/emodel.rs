//! The E-model: from delay, loss and codec to the transmission rating R and a mean opinion score.
//!
//! [`ip_rating`] is the form for measured calls: all parameters but delay, loss and codec at their defaults and the echo
//! perfectly controlled, so that R = 93.2 − Idd − Ie,eff, where 93.2 is the rating G.107 publishes for its defaults.
//!
//! Source: ITU-T G.107 (06/2015) clause 7 (equations by number below), Annex B for the opinion score.

use libm::{log10, pow};

/// Transmission rating of G.107 with all parameters at their defaults, as the Recommendation rounds it.
pub const DEFAULT_RATING: f64 = 93.2;

/// Idd, the impairment of absolute delay even with perfect echo cancelling (eq. 7-27, 7-28 with the default delay
/// sensitivity: sT = 1, mT = 100 ms). 0 up to 100 ms.
pub fn absolute_delay_impairment(absolute_delay_ms: f64) -> f64 {
    if absolute_delay_ms <= 100.0 {
        return 0.0;
    }
    let x = log10(absolute_delay_ms / 100.0) / log10(2.0);
    25.0 * (pow(1.0 + pow(x, 6.0), 1.0 / 6.0) - 3.0 * pow(1.0 + pow(x / 3.0, 6.0), 1.0 / 6.0) + 2.0)
}

/// Ie,eff = Ie + (95 − Ie) · Ppl / (Ppl / BurstR + Bpl) (eq. 7-29). `loss_pct` is clamped to 0 … 100, the burst ratio
/// to at least 1: the Recommendation defines none below, and no loss is no impairment whatever the ratio.
pub fn effective_equipment_impairment(ie: f64, bpl: f64, loss_pct: f64, burst_ratio: f64) -> f64 {
    let loss = loss_pct.clamp(0.0, 100.0);
    ie + (95.0 - ie) * loss / (loss / burst_ratio.max(1.0) + bpl)
}

/// What an IP network does to a call, for [`ip_rating`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IpImpairment {
    /// Mouth-to-ear delay Ta in ms: network, packetisation and playout buffer.
    pub absolute_delay_ms: f64,
    /// Packets that did not become sound, percent: lost in the network or too late for playout.
    pub loss_pct: f64,
    /// Burst ratio, 1 for random loss.
    pub burst_ratio: f64,
    /// Ie of the codec.
    pub equipment_impairment: f64,
    /// Bpl of the codec with the receiver's concealment.
    pub loss_robustness: f64,
}

/// Rating of a measured call with echo perfectly controlled: R = 93.2 − Idd − Ie,eff.
pub fn ip_rating(call: &IpImpairment) -> f64 {
    DEFAULT_RATING
        - absolute_delay_impairment(call.absolute_delay_ms)
        - effective_equipment_impairment(
            call.equipment_impairment,
            call.loss_robustness,
            call.loss_pct,
            call.burst_ratio,
        )
}

/// Estimated mean opinion score of a rating (eq. B-4): 1 at R ≤ 0, 4.5 at R ≥ 100. The cubic dips below 1 for R < 6.5;
/// the result is held at 1 there, as a score below "bad" has no meaning.
pub fn mos_from_rating(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(value: f64, digits: usize) -> String {
        format!("{value:.digits$}")
    }

    fn g711(delay: f64, loss: f64) -> IpImpairment {
        IpImpairment {
            absolute_delay_ms: delay,
            loss_pct: loss,
            burst_ratio: 1.0,
            equipment_impairment: 0.0,
            loss_robustness: 25.1,
        }
    }

    #[test]
    fn published_defaults_give_4_41() {
        assert_eq!(printed(mos_from_rating(ip_rating(&g711(0.0, 0.0))), 2), "4.41");
    }

    #[test]
    fn two_percent_loss_at_200_ms_with_concealment() {
        let r = ip_rating(&g711(200.0, 2.0));
        assert_eq!(printed(r, 4), "83.1445");
        assert_eq!(printed(mos_from_rating(r), 3), "4.137");
        assert_eq!(printed(effective_equipment_impairment(0.0, 25.1, 2.0, 1.0), 3), "7.011");
    }

    #[test]
    fn absolute_delay_of_300_ms() {
        assert_eq!(printed(absolute_delay_impairment(300.0), 3), "14.761");
        assert_eq!(absolute_delay_impairment(100.0), 0.0);
    }

    /// Annex B table B.1 rounds its scores up (80 is 4.024 by the equation and printed 4.03), hence the hundredth.
    #[test]
    fn opinion_scores_of_the_annex() {
        for (r, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            let ours = mos_from_rating(r);
            assert!((ours - mos).abs() < 0.01, "R = {r}: {ours} against {mos}");
        }
    }

    proptest! {
        #[test]
        fn more_delay_or_loss_never_sounds_better(
            delay in 0.0f64..1000.0, loss in 0.0f64..100.0, more in 0.0f64..100.0, burst in 1.0f64..5.0,
        ) {
            let call = IpImpairment { burst_ratio: burst, ..g711(delay, loss) };
            let rating = ip_rating(&call);
            let slower = ip_rating(&IpImpairment { absolute_delay_ms: delay + more, ..call });
            let lossier = ip_rating(&IpImpairment { loss_pct: (loss + more).min(100.0), ..call });
            prop_assert!(slower <= rating + 1e-9);
            prop_assert!(lossier <= rating + 1e-9);
            let mos = mos_from_rating(rating);
            prop_assert!((1.0..=4.5).contains(&mos));
        }
    }
}
