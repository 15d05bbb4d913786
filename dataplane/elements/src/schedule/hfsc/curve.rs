//! Service curves of one or two linear pieces, in integers: time in ns, service in 10⁻⁹ bit.

use perhop_units::{Duration, Rate, Tokens};

/// Service that an idle class may expect: at `m1` for the first `d`, then at `m2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Rate of the first piece.
    pub m1: Rate,
    /// Length of the first piece.
    pub d: Duration,
    /// Rate from then on.
    pub m2: Rate,
}

impl Curve {
    /// One piece.
    pub fn linear(rate: Rate) -> Self {
        Self { m1: rate, d: Duration::ZERO, m2: rate }
    }

    /// Service in the first `t`, in 10⁻⁹ bit.
    pub fn service(&self, t: Duration) -> u128 {
        let first = t.0.min(self.d.0);
        product(self.m1, first) + product(self.m2, t.0 - first)
    }

    /// Whether the first piece is the faster one.
    pub fn is_concave(&self) -> bool {
        self.m1 > self.m2 && self.d > Duration::ZERO
    }
}

/// Service of so many bytes.
pub fn service_of(bytes: u64) -> u128 {
    u128::from(bytes) * Tokens::PER_BYTE as u128
}

fn product(rate: Rate, ns: u64) -> u128 {
    u128::from(rate.0) * u128::from(ns)
}

/// Time for so much service at a rate, rounded up.
fn time(service: u128, rate: Rate) -> u64 {
    match (service, rate.0) {
        (0, _) => 0,
        (_, 0) => u64::MAX,
        (service, rate) => u64::try_from(service.div_ceil(u128::from(rate))).unwrap_or(u64::MAX),
    }
}

/// A curve that begins at a point: two pieces, the first of them `dx` long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Placed {
    x: u64,
    y: u128,
    dx: u64,
    m1: Rate,
    m2: Rate,
}

impl Placed {
    pub(super) fn new(curve: Curve, x: u64, y: u128) -> Self {
        Self { x, y, dx: curve.d.0, m1: curve.m1, m2: curve.m2 }
    }

    fn dy(&self) -> u128 {
        product(self.m1, self.dx)
    }

    /// Without the first piece.
    pub(super) fn without_first(self) -> Self {
        Self { dx: 0, ..self }
    }

    /// Service at a time; before the beginning that of the beginning.
    pub(super) fn at(&self, x: u64) -> u128 {
        let past = x.saturating_sub(self.x);
        let first = past.min(self.dx);
        self.y + product(self.m1, first) + product(self.m2, past - first)
    }

    /// The first time with so much service; that of the beginning for less.
    pub(super) fn reaches(&self, y: u128) -> u64 {
        let more = y.saturating_sub(self.y);
        let first = self.dy();
        let past = if more <= first {
            time(more, self.m1)
        } else {
            self.dx.saturating_add(time(more - first, self.m2))
        };
        self.x.saturating_add(past)
    }

    /// Moves it to begin later by `ns`.
    pub(super) fn later(&mut self, ns: u64) {
        self.x = self.x.saturating_add(ns);
    }

    /// Lowers it to the minimum of itself and `curve` placed at (`x`, `y`), from `x` on. Both have the same rates.
    pub(super) fn lower(&mut self, curve: Curve, x: u64, y: u128) {
        let new = Self::new(curve, x, y);
        if !curve.is_concave() {
            // The later of two equal convex curves is the lower one, if it begins below.
            if self.at(x) >= y {
                *self = new;
            }
            return;
        }
        let here = self.at(x);
        if here <= y {
            return;
        }
        if self.at(x.saturating_add(curve.d.0)) >= y + new.dy() {
            *self = new;
            return;
        }
        // They cross where the faster piece of the new one has made good the lead; rounded up, so that no service is lost.
        let apart = curve.m1.0 - curve.m2.0;
        let lead = u64::try_from((here - y).div_ceil(u128::from(apart))).unwrap_or(u64::MAX);
        // The old one may be in its own faster piece still, as steep as the new one.
        let steep = self.x.saturating_add(self.dx).saturating_sub(x);
        // The lead that is left then was measured at `x`, where the old one is ahead by as much.
        *self = Self { dx: lead.saturating_add(steep), ..new };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve() -> impl Strategy<Value = Curve> {
        (0u64..1_000, 0u64..1_000, 0u64..1_000).prop_map(|(m1, m2, d)| Curve {
            m1: Rate(m1),
            d: Duration(d),
            m2: Rate(m2),
        })
    }

    proptest! {
        #[test]
        fn the_inverse_is_the_first_time_with_so_much(c in curve(), x in 0u64..1000, y in 0u128..1000, more in 0u128..2_000_000) {
            let placed = Placed::new(c, x, y);
            let at = placed.reaches(y + more);
            if at == u64::MAX {
                prop_assert!(c.m2.0 == 0 || more > placed.at(1 << 40) - y);
            } else {
                prop_assert!(placed.at(at) >= y + more);
                prop_assert!(at == x || placed.at(at - 1) < y + more);
            }
        }

        #[test]
        fn a_placed_curve_is_the_curve(c in curve(), t in 0u64..5000) {
            prop_assert_eq!(Placed::new(c, 77, 5).at(77 + t), c.service(Duration(t)) + 5);
        }

        /// Several beginnings one after the other, against the minimum taken point by point; within one ns of the
        /// steeper rate for each crossing.
        #[test]
        fn the_minimum_is_that_of_all_points(
            c in curve(),
            begins in prop::collection::vec((0u64..900, 0u128..300_000), 1..6),
        ) {
            let (mut x, mut y) = (0, 0);
            let mut ours = Placed::new(c, 0, 0);
            let mut all = vec![ours];
            for (later, more) in begins {
                x += later;
                // A class is never ahead of its own curve by what it has not had: service grows.
                y += more;
                ours.lower(c, x, y);
                all.push(Placed::new(c, x, y));
                for t in (x..x + 4000).step_by(97) {
                    let least = all.iter().map(|p| p.at(t)).min().expect("some");
                    let slack = u128::from(c.m1.0.max(c.m2.0)) * all.len() as u128;
                    let got = ours.at(t);
                    if c.is_concave() {
                        prop_assert!(got >= least && got <= least + slack, "{} {} {:?}", got, least, c);
                    } else {
                        // Of convex curves one is kept: never more than the earlier, never less than all.
                        prop_assert!(got >= least, "{} {}", got, least);
                    }
                }
            }
        }
    }
}
