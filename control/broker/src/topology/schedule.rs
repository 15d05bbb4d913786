//! When a link has less than its rate: by a repetition, as a satellite's passes, or in spans that are announced, as a
//! radio link's.

use perhop_units::Rate;

/// Most changes of a repetition, and most announced spans.
pub const MAX_CHANGES: usize = 1_000;

/// A span with another rate, from `from_ms` until just before `until_ms`, ms since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its begin.
    pub from_ms: u64,
    /// Its end.
    pub until_ms: u64,
    /// The rate in it.
    pub rate: Rate,
}

/// Known changes of a link's rate. Where several speak of one time, the lowest rate counts; a rate above the link's own is
/// the link's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Length of a repetition, ms, at least 1 where there are changes. One begins at 1970-01-01T00:00:00Z.
    pub repeat_ms: u64,
    /// From when in a repetition which rate, in order of time, all before its end. Before the first the last one counts.
    pub changes: Vec<(u64, Rate)>,
    /// Spans out of the repetition.
    pub announced: Vec<Announced>,
}

impl Schedule {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.announced.is_empty()
    }

    /// The rate at a time, if the link's own is `own`.
    pub fn rate_at(&self, ms: u64, own: Rate) -> Rate {
        let announced = self.announced.iter().filter(|span| (span.from_ms..span.until_ms).contains(&ms));
        let least = announced.map(|span| span.rate).min().unwrap_or(own);
        own.min(least).min(self.repeated(ms).unwrap_or(own))
    }

    /// The least rate from `from_ms` until just before `until_ms`, of a link whose own is `own`. Costs as many steps as there
    /// are changes, however long the span.
    pub fn least(&self, from_ms: u64, until_ms: u64, own: Rate) -> Rate {
        let mut least = self.rate_at(from_ms, own);
        let touches = |span: &&Announced| span.from_ms.max(from_ms) < span.until_ms.min(until_ms);
        for span in self.announced.iter().filter(touches) {
            least = least.min(span.rate);
        }
        for (at, rate) in &self.changes {
            if self.next(*at, from_ms) < until_ms {
                least = least.min(*rate);
            }
        }
        least
    }

    /// When the rate may change the next time after `ms`.
    pub fn next_change(&self, ms: u64) -> Option<u64> {
        let spans = self.announced.iter().flat_map(|span| [span.from_ms, span.until_ms]);
        let repeated = self.changes.iter().map(|(at, _)| self.next(*at, ms));
        spans.filter(|at| *at > ms).chain(repeated).min()
    }

    fn repeated(&self, ms: u64) -> Option<Rate> {
        let within = ms.checked_rem(self.repeat_ms)?;
        let now = self.changes.iter().rev().find(|(at, _)| *at <= within).or(self.changes.last());
        now.map(|(_, rate)| *rate)
    }

    /// The first time after `ms` that is `at` ms into a repetition.
    fn next(&self, at: u64, ms: u64) -> u64 {
        let repeat = self.repeat_ms.max(1);
        let begin = ms - ms % repeat;
        let this = begin.saturating_add(at);
        if this > ms { this } else { this.saturating_add(repeat) }
    }
}

/// Reads a time of UTC as RFC 3339 §5.6 writes it, `2026-12-01T08:00:00Z`, with `Z` alone as its offset; ms since 1970, from
/// then to the year 9999. A fraction of a second is read to the ms. Leap seconds are none.
pub fn parse_utc_ms(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let (time, fraction) = time.split_once('.').map_or((time, ""), |(time, fraction)| (time, fraction));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let ms = match fraction {
        "" if text.contains('.') => return None,
        "" => 0,
        digits if digits.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{digits:0<3}")[..3].parse().ok()?
        }
        _ => return None,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month_index = usize::try_from(month.checked_sub(1)?).ok()?;
    let length: u64 = *lengths.get(month_index)?;
    if year < 1970 || !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let before = year - 1;
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let days =
        (year - 1970) * 365 + leaps(before) - leaps(1969) + lengths[..month_index].iter().sum::<u64>() + day
            - 1;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms)
}

fn numbers(text: &str, between: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut out = [0; 3];
    let mut parts = text.split(between);
    for (number, digits) in out.iter_mut().zip(digits) {
        let part = parts.next().filter(|p| p.len() == digits && p.bytes().all(|b| b.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_of_utc_are_read_as_rfc_3339_writes_them_and_nothing_else_is() {
        // Seconds as `date -u +%s -d TIME` prints them.
        let known = [
            ("1970-01-01T00:00:00Z", 0),
            ("1985-04-12T23:20:50.52Z", 482_196_050_520),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-12-01T08:00:00Z", 1_796_112_000_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ];
        for (text, ms) in known {
            assert_eq!(parse_utc_ms(text), Some(ms), "{text}");
        }
        let wrong = [
            "",
            "Z",
            "2026-12-01",
            "2026-12-01T08:00:00",
            "2026-13-01T08:00:00Z",
            "2026-02-29T08:00:00Z",
            "2026-12-01T24:00:00Z",
            "2026-12-1T08:00:00Z",
            "2026-12-01T08:00:00.Z",
            "2026-00-01T08:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-12-01T08:00:+0Z",
            "2026-12-01T08:00:00.1234567890Z",
        ];
        for text in wrong {
            assert_eq!(parse_utc_ms(text), None, "{text}");
        }
    }

    fn any_schedule() -> impl Strategy<Value = Schedule> {
        let changes = prop::collection::btree_map(0..60_u64, 0..100_u64, 0..5);
        let announced = prop::collection::vec((0..200_u64, 0..60_u64, 0..100_u64), 0..4);
        (changes, announced).prop_map(|(changes, announced)| Schedule {
            repeat_ms: 60,
            changes: changes.into_iter().map(|(at, rate)| (at, Rate(rate))).collect(),
            announced: announced
                .into_iter()
                .map(|(from_ms, long, rate)| Announced {
                    from_ms,
                    until_ms: from_ms + long,
                    rate: Rate(rate),
                })
                .collect(),
        })
    }

    proptest! {
        #[test]
        fn the_least_rate_is_that_of_looking_at_every_millisecond(
            schedule in any_schedule(), from in 0..200_u64, long in 1..150_u64, own in 0..120_u64,
        ) {
            let every = (from..from + long).map(|ms| schedule.rate_at(ms, Rate(own))).min();
            prop_assert_eq!(Some(schedule.least(from, from + long, Rate(own))), every);
        }

        #[test]
        fn between_two_changes_the_rate_stands_still(schedule in any_schedule(), ms in 0..200_u64) {
            let next = schedule.next_change(ms).unwrap_or(ms + 100).min(ms + 100);
            for at in ms..next {
                prop_assert_eq!(schedule.rate_at(at, Rate(50)), schedule.rate_at(ms, Rate(50)));
            }
        }
    }
}
