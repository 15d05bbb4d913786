//! Clocks of media.

/// Above this clock a flow of dynamic payload type is no speech.
pub(crate) const VIDEO_HZ: u32 = 90_000;

/// The usual clock nearest to `hz` by ratio.
pub(crate) fn nearest_clock(hz: u32) -> u32 {
    const USUAL: [u32; 8] = [8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, VIDEO_HZ];
    let off = |usual: u32| {
        let (a, b) = (u64::from(usual.max(hz)), u64::from(usual.min(hz).max(1)));
        a * 1_000 / b
    };
    USUAL.into_iter().min_by_key(|usual| off(*usual)).unwrap_or(8_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_by_ratio() {
        let near = [7_000, 9_000, 15_000, 46_500, 60_000, 80_000, 0, u32::MAX].map(nearest_clock);
        assert_eq!(near, [8_000, 8_000, 16_000, 48_000, 48_000, 90_000, 8_000, 90_000]);
    }
}
