//! Sequence numbers: comparisons in modulo-2³² arithmetic (RFC 9293 §3.4).

/// Whether `a` comes before `b`: less than half the number space away.
#[inline]
pub(crate) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Whether `a` comes after `b`.
#[inline]
pub(crate) const fn after(a: u32, b: u32) -> bool {
    before(b, a)
}

/// Octets from `from` up to `to`, 0 when `to` comes before `from`.
#[inline]
pub(crate) const fn octets(from: u32, to: u32) -> u32 {
    if before(to, from) { 0 } else { to.wrapping_sub(from) }
}

/// The later of two.
#[inline]
pub(crate) const fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_survives_wrapping(from: u32, by in 1u32..1 << 31) {
            let to = from.wrapping_add(by);
            prop_assert!(before(from, to) && after(to, from) && !before(to, from) && !before(from, from));
            prop_assert_eq!((octets(from, to), octets(to, from)), (by, 0));
            prop_assert_eq!((later(from, to), later(to, from)), (to, to));
        }
    }
}
