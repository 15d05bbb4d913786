//! Times as RFC 3339 writes them.

const DAY_MS: u64 = 86_400_000;

/// Of ms since 1970 UTC: `2026-11-28T06:30:00.250Z`.
pub(super) fn rfc3339(ms: u64) -> String {
    let (days, rest) = (ms / DAY_MS, ms % DAY_MS);
    let (year, month, day) = date(days);
    let (hour, minute, second, ms) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a day since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // Years from March to February, so that the leap day is the last; eras of 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let turn = month >= 10;
    let month = if turn { month - 9 } else { month + 3 };
    (era * 400 + year + u64::from(turn), month, day - first + 1)
}

/// Whether a text is a time with a zone (RFC 3339 §5.6).
pub(super) fn is_rfc3339(text: &str) -> bool {
    let Some(zone) = text.get(19..).and_then(|rest| rest.find(['Z', 'z', '+', '-'])).map(|at| at + 19) else {
        return false;
    };
    let (time, zone) = text.split_at(zone);
    let offset_is_one = match zone.strip_prefix(['+', '-']) {
        None => zone.len() == 1,
        Some(offset) => {
            let number = |text: Option<&str>| text.and_then(|t| t.parse::<u8>().ok());
            let shape = offset.len() == 5
                && offset
                    .bytes()
                    .enumerate()
                    .all(|(at, b)| if at == 2 { b == b':' } else { b.is_ascii_digit() });
            shape
                && number(offset.get(..2)).is_some_and(|h| h < 24)
                && number(offset.get(3..)).is_some_and(|m| m < 60)
        }
    };
    offset_is_one
        && perhop_broker::topology::parse_utc_ms(&format!("{}Z", time.replacen('t', "T", 1))).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_broker::topology::parse_utc_ms;

    #[test]
    fn a_time_is_read_as_it_was_written() {
        // Steps of a prime number of ms, about a month each, until the year 9999.
        for ms in (0..253_402_300_800_000_u64).step_by(2_633_000_117) {
            assert_eq!(parse_utc_ms(&rfc3339(ms)), Some(ms));
            assert!(is_rfc3339(&rfc3339(ms)));
        }
        for day in 0..200_000_u64 {
            assert_eq!(parse_utc_ms(&rfc3339(day * DAY_MS)), Some(day * DAY_MS));
        }
    }

    #[test]
    fn times_have_a_zone() {
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        for good in ["2023-07-03T12:27:08Z", "2023-07-03T12:27:08.312+02:00", "2023-07-03t12:27:08z"] {
            assert!(is_rfc3339(good), "{good}");
        }
        for bad in [
            "",
            "2023-07-03",
            "2023-07-03T12:27:08",
            "2023-07-03T12:27:08+2:00",
            "2023-02-30T12:27:08Z",
            "2023-07-03T12:27:08+24:00",
            "2023-07-03T25:27:08Z",
        ] {
            assert!(!is_rfc3339(bad), "{bad}");
        }
    }
}
