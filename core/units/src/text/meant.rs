//! What was probably meant by a quantity that is written in another way.

use super::{ParseUnitError, UnitErrorKind};

/// Between the digits of a long number in one language or another.
const GROUPS: [char; 6] = [' ', '_', '\'', '’', '\u{a0}', '\u{202f}'];

impl ParseUnitError {
    /// The texts that were probably meant, the likelier first: `20 Mbit/s` for `20mbit`, `4 Mbit`, `20M` or `20 Mbps`, and
    /// `10.5 Mbit/s` for `10,5 Mbit/s`. Two where a comma may be the decimal point or stand between groups of digits; none
    /// where nothing is near.
    pub fn meant(&self) -> Vec<String> {
        let UnitErrorKind::UnknownUnit(units) = self.kind else { return Vec::new() };
        let text = self.text.trim();
        let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let Some(unit) = unit(text[number.len()..].trim_start(), units) else { return Vec::new() };
        numbers(number).into_iter().map(|number| format!("{number} {unit}")).collect()
    }

    /// The question whether that was meant, behind `; ` for the end of a message, or nothing.
    pub(super) fn question(&self) -> String {
        match self.meant().as_slice() {
            [] => String::new(),
            meant => format!("; did you mean {}?", meant.join(" or ")),
        }
    }
}

/// The ways to read digits with commas or groups; none if it is something else.
fn numbers(text: &str) -> Vec<String> {
    let plain = text.replace(GROUPS, "");
    if !plain.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',') || plain.matches('.').count() > 1 {
        return Vec::new();
    }
    let whole = plain.replace(',', "");
    match (plain.split(',').skip(1).all(|group| group.len() == 3), plain.matches(',').count()) {
        (_, 0) => vec![plain],
        (true, 1) if !plain.contains('.') => vec![plain.replace(',', "."), whole],
        (_, 1) if !plain.contains('.') => vec![plain.replace(',', ".")],
        (true, _) if !plain.contains('.') => vec![whole],
        _ => Vec::new(),
    }
}

/// The unit of a list that another spelling stands for.
fn unit(given: &str, units: &'static str) -> Option<&'static str> {
    if given.is_empty() {
        return None;
    }
    let known = || units.split(", ");
    if let Some(same) = known().find(|known| known.eq_ignore_ascii_case(given)) {
        return Some(same);
    }
    let lower = given.to_ascii_lowercase();
    let meant = match lower.as_str() {
        "byte" | "bytes" | "octet" | "octets" => "B",
        "sec" | "secs" | "second" | "seconds" => "s",
        "msec" | "msecs" => "ms",
        "usec" | "usecs" => "us",
        "nsec" | "nsecs" => "ns",
        "mins" | "minute" | "minutes" => "min",
        "hour" | "hours" => "h",
        "p" | "pkt" | "pkts" | "pckts" => "packets",
        "percent" => "%",
        _ => {
            let prefix = lower.chars().next().filter(|c| "kmgt".contains(*c));
            // A byte is B, so that "MB/s" is no rate in bits.
            let rest = &given[prefix.map_or(0, char::len_utf8)..];
            let bits = matches!(rest, "" | "b" | "b/s")
                || ["bit", "bits", "bps", "bit/s", "bits/s", "bit/sec", "bits/sec", "bitps"]
                    .iter()
                    .any(|word| word.eq_ignore_ascii_case(rest));
            let prefix = prefix.map_or(String::new(), String::from);
            let wanted = match rest {
                _ if bits && known().any(|u| u == "bit/s") => format!("{prefix}bit/s"),
                // Where a time may stand as well, m alone says nothing.
                "" if units.starts_with("B, ") => format!("{prefix}B"),
                _ => return None,
            };
            return known().find(|known| known.eq_ignore_ascii_case(&wanted));
        }
    };
    known().find(|known| *known == meant)
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, Duration, ParseUnitError, QueueLimit, Rate, Share};
    use std::fmt::Debug;
    use std::str::FromStr;

    fn meant<T: FromStr<Err = ParseUnitError> + Debug>(text: &str) -> Vec<String> {
        let meant = text.parse::<T>().expect_err("another spelling").meant();
        for text in &meant {
            text.parse::<T>().expect("what is proposed can be read");
        }
        meant
    }

    #[test]
    fn rates_in_the_spellings_of_others() {
        for text in
            ["20mbit", "20 Mbit", "20M", "20 Mbps", "20 MBPS", "20mbits/s", "20 Mb/s", "20 m", "20 mbit/s"]
        {
            assert_eq!(meant::<Rate>(text), ["20 Mbit/s"], "{text}");
        }
        assert_eq!(meant::<Rate>("9 bps"), ["9 bit/s"]);
        assert_eq!(meant::<Share>("40 percent"), ["40 %"]);
        assert_eq!(meant::<Share>("4 Mbit"), ["4 Mbit/s"]);
        for text in ["4 apples", "20 MB/s", "20 MB", "20 €"] {
            assert!(meant::<Rate>(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn decimal_commas_and_groups_of_digits() {
        assert_eq!(meant::<Rate>("10,5 Mbit/s"), ["10.5 Mbit/s"]);
        assert_eq!(meant::<Rate>("10,5mbit"), ["10.5 Mbit/s"]);
        assert_eq!(meant::<Rate>("1,536 Mbit/s"), ["1.536 Mbit/s", "1536 Mbit/s"]);
        assert_eq!(meant::<Rate>("1,000,000 bit/s"), ["1000000 bit/s"]);
        assert_eq!(meant::<Rate>("10 000 kbit/s"), ["10000 kbit/s"]);
        assert_eq!(meant::<Rate>("10_000 kbit/s"), ["10000 kbit/s"]);
        assert!(meant::<Rate>("1,5,2 Mbit/s").is_empty());
        assert!(meant::<Rate>("1.000,5 Mbit/s").is_empty());
    }

    #[test]
    fn sizes_times_and_packets() {
        assert_eq!(meant::<Bytes>("1500 bytes"), ["1500 B"]);
        assert_eq!(meant::<Bytes>("15k"), ["15 kB"]);
        assert_eq!(meant::<Duration>("20 msec"), ["20 ms"]);
        assert_eq!(meant::<QueueLimit>("100p"), ["100 packets"]);
        assert_eq!(meant::<QueueLimit>("100 Packets"), ["100 packets"]);
        assert!(meant::<QueueLimit>("100m").is_empty());
    }

    #[test]
    fn the_message_asks() {
        let error = "20mbit".parse::<Rate>().expect_err("no unit here");
        assert!(error.to_string().ends_with("Tbit/s; did you mean 20 Mbit/s?"), "{error}");
    }
}
