//! Spreading a flow's segments over the round trip, by holding back the acknowledgments that let them go.
//!
//! A window is whole segments, and what once left together comes back together. Where acknowledgments are held so that each goes
//! when the rate has room for what it lets go, the window need not say the rate. If the next number of segments above what the rate
//! needs is close, it is the window: by what it is too large the acknowledgments wait here, and so much less if something waits
//! elsewhere. If it is not, windows change by a segment, as a flow is ahead of its rate and behind it.

use crate::hold::Spell;
use crate::window::Times;
use perhop_units::Duration;

/// The longest that an acknowledgment waits, µs: a fifth of the least time-out that is recommended (RFC 6298 §2.4), and what hosts
/// add to the round trip at least.
const LONGEST_US: u32 = 200_000;
/// Part of a round trip that windows are to be larger than the rate needs: queues may become as long.
const MARGIN: u64 = 16;
/// The most octets that a window says (RFC 7323 §2.3).
const MOST: u64 = 1 << 30;

/// The longest that acknowledgments of a flow wait, µs: a quarter of its round trip, and 200 ms.
fn longest_us(rtt_us: u32) -> u32 {
    (rtt_us / 4).min(LONGEST_US)
}

/// The window of whole steps, octets, with which a flow that needs `optimal` 1/256 octet is held at its rate by what its
/// acknowledgments wait; `None`: they would have to wait too long.
pub(crate) fn window(optimal: u64, step: u32, times: &Times) -> Option<u32> {
    let (rtt, step) = (u64::from(times.rtt_us.max(1)), u64::from(step.max(1)));
    let needs = (optimal >> 8).min(MOST);
    let window = (needs + needs / MARGIN).div_ceil(step) * step;
    let most = needs * (rtt + u64::from(longest_us(times.rtt_us))) / rtt;
    u32::try_from(window).ok().filter(|_| (1..=most).contains(&window))
}

/// The spell of an acknowledgment of `octets` for which the rate needs `time`, of a window of `limit` octets that changes by `step`.
pub(crate) fn spell(time: Duration, octets: u32, (step, limit): (u32, u32), times: &Times) -> Spell {
    let part_us = u64::from(times.rtt_us) * u64::from(octets) / u64::from(limit.max(1));
    // A little less than an even part of the round trip, so that what lags behind comes near.
    let gap = Duration::from_micros(part_us - part_us / 16).min(time);
    // A window of a step less and one of a step more differ by two.
    let slack = Duration(time.as_nanos().saturating_mul(2 * u64::from(step)) / u64::from(octets.max(1)));
    Spell { time, gap, slack, longest: Duration::from_micros(longest_us(times.rtt_us).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_000;

    fn times(rtt_us: u32) -> Times {
        Times { rtt_us, left_us: 0, apart_us: 0, waited_us: 0 }
    }

    /// Hundredths of a segment that the rate needs in a round trip of 400 ms: the window, segments.
    fn segments(needs: u64) -> Option<u32> {
        window((needs * 10) << 8, MSS, &times(400_000)).map(|window| window / MSS)
    }

    #[test]
    fn a_window_is_a_sixteenth_larger_than_needed_and_at_most_a_quarter() {
        // 3.8 · 17/16 = 4.04, and 5 segments would wait for 1.2 · 400/3.8 ms, more than a quarter of the round trip.
        assert_eq!([370, 376, 377, 380].map(segments), [Some(4), Some(4), None, None]);
        assert_eq!([399, 400, 470, 471].map(segments), [None, Some(5), Some(5), None]);
        assert_eq!([80, 94, 95].map(segments), [Some(1), Some(1), None]);
        assert_eq!(segments(0), None);
        // 200 ms are less than a quarter of 2 s: a tenth.
        let far = |needs: u64| window((needs * 10) << 8, MSS, &times(2_000_000));
        assert_eq!(
            [(360, None), (364, Some(4_000)), (376, Some(4_000))],
            [360, 364, 376].map(|n| (n, far(n)))
        );
        // What no window says is none.
        assert_eq!(window(u64::MAX, MSS, &times(u32::MAX)), None);
    }

    #[test]
    fn a_spell_is_what_the_rate_needs_and_no_longer_than_a_part_of_the_round_trip() {
        let second = Duration::from_secs(1);
        let one = spell(second, MSS, (MSS, 4 * MSS), &times(400_000));
        assert_eq!((one.time, one.slack), (second, second.saturating_mul(2)));
        assert_eq!((one.gap, one.longest), (Duration::from_micros(93_750), Duration::from_millis(100)));
        let two = spell(second, 2 * MSS, (MSS, 4 * MSS), &times(4_000_000));
        assert_eq!((two.slack, two.gap, two.longest), (second, second, Duration::from_millis(200)));
        let extreme = spell(Duration::MAX, 0, (u32::MAX, 0), &times(u32::MAX));
        assert_eq!(extreme.longest, Duration::from_millis(200));
    }
}
