//! Sequence numbers (RFC 9293 §3.4) without wrap-around.
//!
//! Inside, a sequence number is a `u64` whose low 32 bits travel: the initial one is moved up by 2³², so that nothing
//! below it can underflow, and every comparison is plain. What arrives is placed near a number already known.

/// The number under which a SYN with this initial sequence number is known.
pub(crate) const fn first(initial: u32) -> u64 {
    (1 << 32) | initial as u64
}

/// The number whose low bits are `wire` and that lies nearest to `known` (at most 2³¹ away).
pub(crate) const fn near(known: u64, wire: u32) -> u64 {
    let away = wire.wrapping_sub(known as u32) as i32;
    known.wrapping_add_signed(away as i64)
}

/// Whether clock value `a` is before `b` (RFC 7323 §5.2).
pub(crate) const fn stamp_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_within_half_the_space_comes_back(known in (1u64 << 32)..(1 << 60), away in -0x7fff_ffffi64..0x7fff_ffff) {
            let number = known.wrapping_add_signed(away);
            prop_assert_eq!(near(known, number as u32), number);
        }
    }

    #[test]
    fn stamps_compare_over_the_wrap() {
        assert!(stamp_before(u32::MAX, 3));
        assert!(!stamp_before(3, u32::MAX));
        assert!(!stamp_before(7, 7));
    }
}
