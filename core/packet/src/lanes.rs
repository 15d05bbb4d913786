//! One number beside eight at a time.

/// A bit each of the eight that are `wanted`, the first's lowest. O(1), without branches.
#[inline(always)]
pub fn equal_lanes(lanes: &[u16; 8], wanted: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
        };
        // SAFETY: the sixteen bytes read are those of `lanes`, for which no alignment is asked; the instructions are
        // there, as the condition above says.
        let bits = unsafe {
            let lanes = _mm_loadu_si128(std::ptr::from_ref(lanes).cast::<__m128i>());
            let same = _mm_cmpeq_epi16(lanes, _mm_set1_epi16(wanted.cast_signed()));
            // All ones or none in 16 bits are the same in eight.
            _mm_movemask_epi8(_mm_packs_epi16(same, same))
        };
        bits.cast_unsigned() & 0xff
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    lanes.iter().enumerate().fold(0, |bits, (i, lane)| bits | u32::from(*lane == wanted) << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_its_bit() {
        let values = [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xff00, u16::MAX];
        for wanted in values {
            for other in values.into_iter().filter(|v| *v != wanted) {
                for bits in 0..256 {
                    let lanes = std::array::from_fn(|i| if bits >> i & 1 == 1 { wanted } else { other });
                    assert_eq!(equal_lanes(&lanes, wanted), bits, "{wanted} among {other}");
                }
            }
        }
    }
}
