//! Times of the week: minutes since the midnight before Monday.

use perhop_model::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const DAY: u16 = 24 * 60;
const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A time of the day, in minutes, 0 to 1440 (the end of the day).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Minute(pub u16);

/// Days of the week, Monday in the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Days(pub u8);

impl Days {
    /// All of them.
    pub const ALL: Self = Self(0x7f);
}

/// A contract for a time of the day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// Days on which it begins.
    #[serde(default = "all")]
    pub days: Days,
    /// From then on.
    pub from: Minute,
    /// Up to then; of the next day if that is not after `from`.
    pub until: Minute,
    /// The contract.
    pub sla: Name,
}

fn all() -> Days {
    Days::ALL
}

impl Slot {
    /// Whether it is now, at this minute of the week, 0 to 10,079.
    pub fn has(&self, minute: u16) -> bool {
        let (day, at) = (minute / DAY % 7, minute % DAY);
        let begins = |day: u16| self.days.0 & 1 << day != 0;
        if self.from < self.until {
            return begins(day) && (self.from.0..self.until.0).contains(&at);
        }
        begins(day) && at >= self.from.0 || begins((day + 6) % 7) && at < self.until.0
    }

    /// Minutes from this minute of the week until it begins or ends; none if it never does.
    pub fn next_edge(&self, minute: u16) -> Option<u16> {
        let now = self.has(minute);
        (1..=7 * DAY).find(|after| self.has((minute + after) % (7 * DAY)) != now)
    }
}

impl FromStr for Minute {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "is not a time of the day".to_owned();
        let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
        let number = |text: &str| match text.len() == 2 && text.bytes().all(|c| c.is_ascii_digit()) {
            true => text.parse::<u16>().ok(),
            false => None,
        };
        let (hours, minutes) = number(hours).zip(number(minutes)).ok_or_else(wrong)?;
        let all = hours * 60 + minutes;
        if minutes < 60 && all <= DAY { Ok(Self(all)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl TryFrom<String> for Minute {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Minute> for String {
    fn from(minute: Minute) -> String {
        minute.to_string()
    }
}

/// The days that a text names: `mon`, or `mon-fri`, also over Sunday.
pub(crate) fn days(text: &str) -> Option<Days> {
    let day = |text: &str| NAMES.iter().position(|name| *name == text.trim());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (day(first)?, day(last)?);
    let count = (last + 7 - first) % 7 + 1;
    Some(Days((0..count).fold(0, |bits, step| bits | 1 << ((first + step) % 7))))
}

impl TryFrom<Vec<String>> for Days {
    type Error = String;
    fn try_from(texts: Vec<String>) -> Result<Self, String> {
        texts.iter().try_fold(Self(0), |all, text| {
            let these = days(text).ok_or_else(|| format!("{text:?} is not a day: {}", NAMES.join(", ")))?;
            Ok(Self(all.0 | these.0))
        })
    }
}

impl From<Days> for Vec<String> {
    fn from(days: Days) -> Vec<String> {
        let named = NAMES.iter().enumerate().filter(|(day, _)| days.0 & 1 << day != 0);
        named.map(|(_, name)| (*name).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slot(days: Days, from: u16, until: u16) -> Slot {
        Slot { days, from: Minute(from), until: Minute(until), sla: Name::new("x").expect("a name") }
    }

    #[test]
    fn days_and_minutes_are_read_as_they_are_written() {
        assert_eq!(days("mon-fri"), Some(Days(0x1f)));
        assert_eq!(days("sat-mon"), Some(Days(0x61)));
        assert_eq!(days("moon"), None);
        assert_eq!("24:00".parse::<Minute>(), Ok(Minute(1440)));
        for wrong in ["24:01", "8:00", "08:60", "0800", "+1:00", "99:99", ""] {
            assert!(wrong.parse::<Minute>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_night_belongs_to_the_day_on_which_it_begins() {
        let night = slot(Days(1 << 6), 22 * 60, 6 * 60);
        assert!(night.has(6 * DAY + 23 * 60) && night.has(5 * 60), "Sunday night reaches into Monday");
        assert!(!night.has(6 * 60) && !night.has(DAY + 5 * 60) && !night.has(6 * DAY + 5 * 60));
    }

    proptest! {
        /// Against the minutes of each day, marked one by one.
        #[test]
        fn a_slot_has_the_minutes_that_it_says(bits in 0u8..128, from in 0u16..=1440, until in 0u16..=1440, at in 0u16..10_080) {
            let slot = slot(Days(bits), from, until);
            let mut marked = vec![false; usize::from(7 * DAY)];
            for day in (0..7).filter(|day| bits & 1 << day != 0) {
                let end = if from < until { until } else { until + DAY };
                for minute in from..end {
                    marked[usize::from((day * DAY + minute) % (7 * DAY))] = true;
                }
            }
            prop_assert_eq!(slot.has(at), marked[usize::from(at)]);
            let edge = slot.next_edge(at);
            if let Some(edge) = edge {
                prop_assert!((1..edge).all(|after| marked[usize::from((at + after) % (7 * DAY))] == marked[usize::from(at)]));
                prop_assert!(marked[usize::from((at + edge) % (7 * DAY))] != marked[usize::from(at)]);
            } else {
                prop_assert!(marked.iter().all(|now| *now == marked[0]));
            }
        }
    }
}
