//! Text forms of quantities: `10 Mbit/s`, `30 ms`, `1500 B`, `100 packets`, `40 %`, `EF`, `AF21`.
//!
//! Numbers may have a decimal fraction; the value must come out as a whole number of base units. Arithmetic is exact:
//! no float is involved. White space around the text and between number and unit does not matter; units are spelled
//! exactly (`Mbit/s`, not `mbit/s`: m is milli), names of code points and colours in any case.
//!
//! `Display` prints what `FromStr` reads back to the same value: rates in the largest unit that needs at most three
//! decimals (`1.536 Mbit/s`), times likewise up to seconds and above that in whole minutes and hours (`90 s`, `2 min`),
//! sizes in the largest unit that they are a whole multiple of (`1500 B`, `64 KiB`).

mod meant;
mod names;
mod probability;

use crate::{Bytes, Duration, Instant, QueueLimit, Rate, Share};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not {what}: {kind}{}", self.question())]
pub struct ParseUnitError {
    /// What was expected, with an article: `a rate`.
    pub what: &'static str,
    /// The text as given (first 64 characters).
    pub text: String,
    /// What is wrong with it.
    pub kind: UnitErrorKind,
}

/// The ways a quantity's text can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UnitErrorKind {
    /// Nothing there.
    #[error("it is empty")]
    Empty,
    /// No number at the start.
    #[error("it does not start with a number")]
    NoNumber,
    /// A number below 0.
    #[error("it must not be negative")]
    Negative,
    /// A number without a unit.
    #[error("it has no unit; write for example {0}")]
    NoUnit(&'static str),
    /// Not a unit of this quantity.
    #[error("its unit is not known here; use one of {0}")]
    UnknownUnit(&'static str),
    /// Not a name of this quantity's values.
    #[error("it is not a name known here; use one of {0}")]
    UnknownName(&'static str),
    /// Not a whole number of base units.
    #[error("it is not a whole number of {0}")]
    NotWhole(&'static str),
    /// Too large.
    #[error("it is out of range; allowed is {0}")]
    OutOfRange(&'static str),
}

impl ParseUnitError {
    fn new(what: &'static str, text: &str, kind: UnitErrorKind) -> Self {
        Self { what, text: text.chars().take(64).collect(), kind }
    }
}

/// A quantity whose values are a number and a unit.
struct Quantity {
    what: &'static str,
    example: &'static str,
    /// Names of the units, for messages.
    names: &'static str,
    base: &'static str,
    range: &'static str,
    /// Unit and how many base units it is, larger ones last. Of equal ones `Display` uses the first.
    units: &'static [(&'static str, u64)],
}

const RATE: Quantity = Quantity {
    what: "a rate",
    example: "10 Mbit/s",
    names: "bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s",
    base: "bit/s",
    range: "0 bit/s to 18446744073709551615 bit/s",
    units: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
    ],
};

const TIME: Quantity = Quantity {
    what: "a time",
    example: "30 ms",
    names: "ns, us, µs, ms, s, min, h",
    base: "ns",
    range: "0 ns to 18446744073709551615 ns (584 years)",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        // Greek mu looks like the micro sign.
        ("\u{3bc}s", 1_000),
        ("ms", 1_000_000),
        ("s", SECOND),
        ("min", 60 * SECOND),
        ("h", 3600 * SECOND),
    ],
};
const SECOND: u64 = 1_000_000_000;

const SIZE: Quantity = Quantity {
    what: "a size",
    example: "1500 B",
    names: "B, kB, KiB, MB, MiB, GB, GiB",
    base: "bytes",
    range: "0 B to 18446744073709551615 B",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ],
};

const PACKETS: Quantity = Quantity {
    what: "a queue limit",
    example: "100 packets",
    names: "packets, B, kB, KiB, MB, MiB, GB, GiB, ns, us, ms, s",
    base: "packets",
    range: "0 to 4294967295 packets",
    units: &[("packets", 1), ("packet", 1)],
};

const PERCENT: Quantity = Quantity {
    what: "a share",
    example: "40 %",
    names: "%, bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s",
    base: "parts per million (0.0001 %)",
    range: "0 % to 100 %",
    units: &[("%", 10_000)],
};

/// A non-negative decimal number: `digits / 10^decimals`, without trailing zeros behind the point.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u128,
    decimals: u32,
}

/// Splits `text` into its number and its unit, which may be empty.
fn split(text: &str) -> Result<(Decimal, &str), SplitError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SplitError::Empty);
    }
    if text
        .strip_prefix(['-', '\u{2212}'])
        .is_some_and(|rest| rest.trim_start().starts_with(|c: char| c.is_ascii_digit()))
    {
        return Err(SplitError::Negative);
    }
    let whole_len = text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(whole_len);
    if whole.is_empty() {
        return Err(SplitError::NoNumber);
    }
    let (fraction, unit) = match rest.strip_prefix('.') {
        Some(behind) => behind.split_at(behind.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("", rest),
    };
    if rest.starts_with('.') && fraction.is_empty() {
        return Err(SplitError::NoNumber);
    }
    let fraction = fraction.trim_end_matches('0');
    let mut digits = 0u128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        let next = digits.checked_mul(10).and_then(|d| d.checked_add(u128::from(digit - b'0')));
        digits = next.ok_or(if fraction.len() > 18 { SplitError::TooFine } else { SplitError::TooLarge })?;
    }
    Ok((Decimal { digits, decimals: fraction.len() as u32 }, unit.trim_start()))
}

/// Why a text does not start with a usable number.
enum SplitError {
    Empty,
    NoNumber,
    Negative,
    TooLarge,
    TooFine,
}

impl Quantity {
    fn error(&self, text: &str, kind: UnitErrorKind) -> ParseUnitError {
        ParseUnitError::new(self.what, text, kind)
    }

    fn split<'a>(&self, text: &'a str) -> Result<(Decimal, &'a str), ParseUnitError> {
        split(text).map_err(|why| {
            let kind = match why {
                SplitError::Empty => UnitErrorKind::Empty,
                SplitError::NoNumber => UnitErrorKind::NoNumber,
                SplitError::Negative => UnitErrorKind::Negative,
                SplitError::TooLarge => UnitErrorKind::OutOfRange(self.range),
                SplitError::TooFine => UnitErrorKind::NotWhole(self.base),
            };
            self.error(text, kind)
        })
    }

    /// The factor of a unit of this quantity.
    fn factor(&self, unit: &str) -> Option<u64> {
        self.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
    }

    /// `number` times `factor` in base units, at most `max`.
    fn scale(&self, text: &str, number: Decimal, factor: u64, max: u64) -> Result<u64, ParseUnitError> {
        let out_of_range = || self.error(text, UnitErrorKind::OutOfRange(self.range));
        let not_whole = || self.error(text, UnitErrorKind::NotWhole(self.base));
        let product = number.digits.checked_mul(u128::from(factor)).ok_or_else(out_of_range)?;
        // No factor has more than 19 trailing zeros, so a longer fraction without trailing zeros leaves a remainder.
        let divisor = 10u128.checked_pow(number.decimals).ok_or_else(not_whole)?;
        if !product.is_multiple_of(divisor) {
            return Err(not_whole());
        }
        u64::try_from(product / divisor).ok().filter(|value| *value <= max).ok_or_else(out_of_range)
    }

    /// The value of `text` in base units.
    fn parse(&self, text: &str) -> Result<u64, ParseUnitError> {
        let (number, unit) = self.split(text)?;
        let factor = self.factor(unit).ok_or_else(|| self.unit_error(text, unit))?;
        self.scale(text, number, factor, u64::MAX)
    }

    fn unit_error(&self, text: &str, unit: &str) -> ParseUnitError {
        let none = unit.is_empty();
        self.error(
            text,
            if none { UnitErrorKind::NoUnit(self.example) } else { UnitErrorKind::UnknownUnit(self.names) },
        )
    }

    /// `value` in the largest unit that it is at least one of and that needs at most `decimals`; zero in `zero`.
    fn print(&self, value: u64, decimals: impl Fn(u64) -> u32, zero: &str) -> String {
        if value == 0 {
            return format!("0 {zero}");
        }
        let fits = |factor: u64| {
            // What is left behind the allowed decimals must be nothing.
            let step = 10u128.pow(decimals(factor));
            value >= factor && (u128::from(value) * step).is_multiple_of(u128::from(factor))
        };
        let best = self.units.iter().rev().find(|(_, factor)| fits(*factor)).unwrap_or(&self.units[0]);
        let factor = best.1;
        // Several names of one factor: the first is the one to print.
        let name = self.units.iter().find(|(_, f)| *f == factor).map_or(best.0, |(name, _)| *name);
        let places = decimals(factor);
        let fraction = u128::from(value % factor) * 10u128.pow(places) / u128::from(factor);
        format!("{} {name}", with_fraction(value / factor, fraction, places))
    }
}

/// `whole.fraction` with `places` decimals, without trailing zeros.
fn with_fraction(whole: u64, fraction: u128, places: u32) -> String {
    if fraction == 0 {
        return whole.to_string();
    }
    let text = format!("{whole}.{fraction:0width$}", width = places as usize);
    text.trim_end_matches('0').to_owned()
}

fn print_time(ns: u64) -> String {
    TIME.print(ns, |factor| if factor > SECOND { 0 } else { 3 }, "s")
}

fn print_size(bytes: u64) -> String {
    SIZE.print(bytes, |_| 0, "B")
}

fn print_rate(rate: u64) -> String {
    RATE.print(rate, |_| 3, "bit/s")
}

impl FromStr for Rate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        RATE.parse(text).map(Self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&print_rate(self.0))
    }
}

impl FromStr for Duration {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        TIME.parse(text).map(Self)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&print_time(self.0))
    }
}

impl fmt::Display for Instant {
    /// Seconds since the clock's start, to the ns: `12.000000345 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:09} s", self.0 / SECOND, self.0 % SECOND))
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        SIZE.parse(text).map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&print_size(self.0))
    }
}

impl FromStr for QueueLimit {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = PACKETS.split(text)?;
        if let Some(factor) = SIZE.factor(unit) {
            return SIZE.scale(text, number, factor, u64::MAX).map(|n| Self::Bytes(Bytes(n)));
        }
        if let Some(factor) = TIME.factor(unit) {
            return TIME.scale(text, number, factor, u64::MAX).map(|n| Self::Time(Duration(n)));
        }
        let factor = PACKETS.factor(unit).ok_or_else(|| PACKETS.unit_error(text, unit))?;
        PACKETS.scale(text, number, factor, u64::from(u32::MAX)).map(|n| Self::Packets(n as u32))
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match *self {
            Self::Packets(1) => "1 packet".to_owned(),
            Self::Packets(n) => format!("{n} packets"),
            Self::Bytes(n) => print_size(n.0),
            Self::Time(ns) => print_time(ns.0),
        })
    }
}

impl FromStr for Share {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = PERCENT.split(text)?;
        if let Some(factor) = RATE.factor(unit) {
            return RATE.scale(text, number, factor, u64::MAX).map(|rate| Self::Rate(Rate(rate)));
        }
        let factor = PERCENT.factor(unit).ok_or_else(|| PERCENT.unit_error(text, unit))?;
        PERCENT.scale(text, number, factor, 1_000_000).map(|ppm| Self::Ppm(ppm as u32))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match *self {
            Self::Rate(rate) => print_rate(rate.0),
            Self::Ppm(ppm) => {
                format!("{} %", with_fraction(u64::from(ppm / 10_000), u128::from(ppm % 10_000), 4))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Color, Dscp, Probability};
    use proptest::prelude::*;

    fn parse<T: FromStr<Err = ParseUnitError>>(text: &str) -> Result<T, UnitErrorKind> {
        text.parse().map_err(|e: ParseUnitError| e.kind)
    }

    #[test]
    fn rates() {
        assert_eq!(parse("10 Mbit/s"), Ok(Rate(10_000_000)));
        assert_eq!(parse("64kbit/s"), Ok(Rate(64_000)));
        assert_eq!(parse("  1.536   Mbit/s "), Ok(Rate(1_536_000)));
        assert_eq!(parse("0.000000000001 Tbit/s"), Ok(Rate(1)));
        assert_eq!(parse("18446744073709551615 bit/s"), Ok(Rate(u64::MAX)));
        assert_eq!(parse("1.50000000000000000000000000000000000000000000 kbit/s"), Ok(Rate(1500)));
        assert_eq!(parse::<Rate>("18446744073709551616 bit/s"), Err(UnitErrorKind::OutOfRange(RATE.range)));
        assert_eq!(
            parse::<Rate>(&format!("{} kbit/s", "9".repeat(50))),
            Err(UnitErrorKind::OutOfRange(RATE.range))
        );
        assert_eq!(parse::<Rate>("1.5 bit/s"), Err(UnitErrorKind::NotWhole("bit/s")));
        assert_eq!(
            parse::<Rate>(&format!("0.{}1 kbit/s", "0".repeat(60))),
            Err(UnitErrorKind::NotWhole("bit/s"))
        );
        assert_eq!(parse::<Rate>("10"), Err(UnitErrorKind::NoUnit("10 Mbit/s")));
        assert_eq!(parse::<Rate>("10 mbit/s"), Err(UnitErrorKind::UnknownUnit(RATE.names)));
        assert_eq!(parse::<Rate>(" "), Err(UnitErrorKind::Empty));
        for text in ["-1 bit/s", " - 5 Mbit/s", "\u{2212}1"] {
            assert_eq!(parse::<Rate>(text), Err(UnitErrorKind::Negative), "{text}");
        }
        for text in ["-", "-x", "fast", ".5 Mbit/s", "1. Mbit/s", "+1 bit/s"] {
            assert_eq!(parse::<Rate>(text), Err(UnitErrorKind::NoNumber), "{text}");
        }
    }

    #[test]
    fn other_quantities() {
        assert_eq!(parse("1.5 s"), Ok(Duration(1_500_000_000)));
        assert_eq!(parse("2 µs"), parse::<Duration>("2us"));
        assert_eq!(parse("2 \u{3bc}s"), Ok(Duration(2_000)));
        assert_eq!(parse("0.5 h"), Ok(Duration(1_800_000_000_000)));
        assert_eq!(parse("1.5 KiB"), Ok(Bytes(1536)));
        assert_eq!(parse("0.5 GB"), Ok(Bytes(500_000_000)));
        assert_eq!(parse::<Bytes>("1.0001 kB"), Err(UnitErrorKind::NotWhole("bytes")));
        assert_eq!(parse("100 packets"), Ok(QueueLimit::Packets(100)));
        assert_eq!(parse("1500 B"), Ok(QueueLimit::Bytes(Bytes(1500))));
        assert_eq!(parse("30 ms"), Ok(QueueLimit::Time(Duration(30_000_000))));
        assert_eq!(parse::<QueueLimit>("0.5 packets"), Err(UnitErrorKind::NotWhole("packets")));
        assert_eq!(parse::<QueueLimit>("4294967296 packets"), Err(UnitErrorKind::OutOfRange(PACKETS.range)));
        assert_eq!(parse("40 %"), Ok(Share::Ppm(400_000)));
        assert_eq!(parse("33.3333%"), Ok(Share::Ppm(333_333)));
        assert_eq!(parse("2 Mbit/s"), Ok(Share::Rate(Rate(2_000_000))));
        assert_eq!(parse::<Share>("100.0001 %"), Err(UnitErrorKind::OutOfRange(PERCENT.range)));
        assert_eq!(parse::<Share>("0.00001 %"), Err(UnitErrorKind::NotWhole(PERCENT.base)));
        assert_eq!(parse("Yellow"), Ok(Color::Yellow));
        assert_eq!(parse::<Color>("blue"), Err(UnitErrorKind::UnknownName("green, yellow, red")));
    }

    #[test]
    fn code_points() {
        let known = [("BE", 0), ("CS0", 0), ("le", 1), ("CS1", 8), ("AF11", 10), ("AF13", 14), ("AF21", 18)];
        let more = [
            ("AF32", 28),
            ("AF43", 38),
            ("CS5", 40),
            ("VA", 44),
            ("EF", 46),
            ("cs7", 56),
            ("0x2e", 46),
            ("63", 63),
        ];
        for (text, value) in known.into_iter().chain(more) {
            assert_eq!(parse::<Dscp>(text).map(Dscp::get), Ok(value), "{text}");
        }
        for text in ["64", "0x40", "999"] {
            assert_eq!(parse::<Dscp>(text), Err(UnitErrorKind::OutOfRange("0 to 63")));
        }
        for text in ["AF14", "CS8", "0x", "+5", "-1", "46 %"] {
            assert_eq!(parse::<Dscp>(text), Err(UnitErrorKind::UnknownName(names::DSCP_NAMES)));
        }
        for value in 0..64 {
            let dscp = Dscp::new(value).unwrap();
            assert_eq!(parse(&dscp.to_string()), Ok(dscp));
        }
    }

    #[test]
    fn probabilities() {
        assert_eq!(parse("0.5 %"), Ok(Probability(21_474_836)));
        assert_eq!(parse("0.01"), Ok(Probability(42_949_673)));
        assert_eq!(parse("50%"), Ok(Probability(1 << 31)));
        assert_eq!(parse("1"), Ok(Probability::ONE));
        assert_eq!(parse("100 %"), Ok(Probability::ONE));
        assert_eq!(parse("0.99999999999"), Ok(Probability(u32::MAX - 1)));
        assert_eq!(parse("0.25000000000000000000000000000000001"), Ok(Probability(1 << 30)));
        assert_eq!(parse("0"), Ok(Probability::ZERO));
        for text in [
            "1.1",
            "101 %",
            "0.00000000001",
            "0.0000000000000000000000000000001",
            "1.00000000000000000000000000001",
        ] {
            assert_eq!(
                parse::<Probability>(text),
                Err(UnitErrorKind::OutOfRange(probability::PROBABILITY_RANGE))
            );
        }
        assert_eq!(Probability(21_474_836).to_string(), "0.5 %");
        assert_eq!(Probability(u32::MAX - 1).to_string().parse(), Ok(Probability(u32::MAX - 1)));
    }

    #[test]
    fn prints() {
        let rates = [(0, "0 bit/s"), (999, "999 bit/s"), (64_000, "64 kbit/s"), (1_536_000, "1.536 Mbit/s")];
        for (value, text) in
            rates.into_iter().chain([(1_536_001, "1536.001 kbit/s"), (10_000_000_000, "10 Gbit/s")])
        {
            assert_eq!(Rate(value).to_string(), text);
        }
        let times = [
            (0, "0 s"),
            (1_500, "1.5 us"),
            (30_000_000, "30 ms"),
            (90 * SECOND, "90 s"),
            (7200 * SECOND, "2 h"),
        ];
        for (value, text) in times {
            assert_eq!(Duration(value).to_string(), text);
        }
        let sizes =
            [(0, "0 B"), (1500, "1500 B"), (2000, "2 kB"), (65_536, "64 KiB"), (5_000_000_000, "5 GB")];
        for (value, text) in sizes {
            assert_eq!(Bytes(value).to_string(), text);
        }
        assert_eq!(Share::Ppm(333_300).to_string(), "33.33 %");
        assert_eq!(QueueLimit::Packets(1).to_string(), "1 packet");
        assert_eq!(Instant(12_000_000_345).to_string(), "12.000000345 s");
        assert_eq!(format!("[{:>9}]", Rate(64_000)), "[64 kbit/s]");
        assert_eq!(format!("[{:<12}]", Duration(30)), "[30 ns       ]");
    }

    #[test]
    fn messages_name_the_remedy() {
        let message = |e: ParseUnitError| e.to_string();
        assert_eq!(
            message("10 mbit/s".parse::<Rate>().unwrap_err()),
            "\"10 mbit/s\" is not a rate: its unit is not known here; use one of bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s; did you mean 10 Mbit/s?"
        );
        assert_eq!("x".repeat(200).parse::<Bytes>().unwrap_err().text.len(), 64);
    }

    /// Values of every magnitude, and round ones.
    fn any_value() -> impl Strategy<Value = u64> {
        prop_oneof![
            (any::<u64>(), 0u32..64).prop_map(|(v, shift)| v >> shift),
            (0u64..100_000, 0u32..15).prop_map(|(v, e)| v * 10u64.pow(e)),
            (0u64..100_000, 0u32..40).prop_map(|(v, e)| v << e),
        ]
    }

    proptest! {
        #[test]
        fn display_reads_back(v in any_value()) {
            prop_assert_eq!(Rate(v).to_string().parse(), Ok(Rate(v)));
            prop_assert_eq!(Duration(v).to_string().parse(), Ok(Duration(v)));
            prop_assert_eq!(Bytes(v).to_string().parse(), Ok(Bytes(v)));
            for limit in [QueueLimit::Packets(v as u32), QueueLimit::Bytes(Bytes(v)), QueueLimit::Time(Duration(v))] {
                // Zero has no unit of its own to tell the kinds apart but its base unit, which is printed.
                prop_assert_eq!(limit.to_string().parse(), Ok(limit));
            }
            for share in [Share::Rate(Rate(v)), Share::Ppm((v % 1_000_001) as u32)] {
                prop_assert_eq!(share.to_string().parse(), Ok(share));
            }
            prop_assert_eq!(Probability(v as u32).to_string().parse(), Ok(Probability(v as u32)));
        }

        #[test]
        fn a_fraction_is_exact(whole in 0u64..1_000_000, thousandths in 0u64..1000) {
            let text = format!("{whole}.{thousandths:03} kbit/s");
            prop_assert_eq!(text.parse(), Ok(Rate(whole * 1000 + thousandths)));
        }

        #[test]
        fn no_panic(text in "[0-9.]{0,45} ?[%a-zA-Zµ/]{0,8}", any in "\\PC{0,12}") {
            for text in [text, any] {
                let _ = (text.parse::<Rate>(), text.parse::<QueueLimit>(), text.parse::<Share>());
                let _ = (text.parse::<Probability>(), text.parse::<Dscp>(), text.parse::<Duration>());
            }
        }
    }
}
