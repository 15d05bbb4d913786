//! Values of arguments as text: numbers and words through `FromStr`, quantities with their units.

use perhop_units::{Bytes, Dscp, Duration, Probability, QueueLimit, Rate};

/// A value that can be written in graph text.
pub trait FromText: Sized {
    /// Reads `text`.
    ///
    /// # Errors
    /// Why it is not one.
    fn from_text(text: &str) -> Result<Self, String>;
}

macro_rules! through_from_str {
    ($($t:ty),*) => {$(
        impl FromText for $t {
            fn from_text(text: &str) -> Result<Self, String> {
                text.parse().map_err(|e| format!("{e}"))
            }
        }
    )*};
}
through_from_str!(u8, u16, u32, u64, String);

type Unit = (&'static str, u128);
const RATES: &[Unit] = &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
const TIMES: &[Unit] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
const SIZES: &[Unit] = &[("B", 1), ("kB", 1_000), ("MB", 1_000_000)];

/// Splits `1.5 kB` into digits and unit and gives base units.
fn quantity(text: &str, units: &[Unit]) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
        return Err(format!("its unit is not one of {}", names.join(", ")));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 12 {
        return Err("it does not start with a number".to_owned());
    }
    let scale = 10u128.pow(fraction.len() as u32);
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|e| format!("{e}"))?;
    let value = digits.checked_mul(*factor).ok_or("it is out of range")?;
    if value % scale != 0 {
        return Err("it is not a whole number of base units".to_owned());
    }
    u64::try_from(value / scale).map_err(|_| "it is out of range".to_owned())
}

impl FromText for Rate {
    fn from_text(text: &str) -> Result<Self, String> {
        quantity(text, RATES).map(Self)
    }
}
impl FromText for Duration {
    fn from_text(text: &str) -> Result<Self, String> {
        quantity(text, TIMES).map(Self)
    }
}
impl FromText for Bytes {
    fn from_text(text: &str) -> Result<Self, String> {
        quantity(text, SIZES).map(Self)
    }
}
impl FromText for QueueLimit {
    fn from_text(text: &str) -> Result<Self, String> {
        if let Ok(packets) = quantity(text, &[("packets", 1), ("packet", 1)]) {
            return u32::try_from(packets).map(Self::Packets).map_err(|_| "it is out of range".to_owned());
        }
        if let Ok(bytes) = quantity(text, SIZES) {
            return Ok(Self::Bytes(bytes));
        }
        quantity(text, TIMES)
            .map(Self::Time)
            .map_err(|_| "it is not a queue limit; write for example 100 packets, 64 kB or 30 ms".to_owned())
    }
}
impl FromText for Probability {
    fn from_text(text: &str) -> Result<Self, String> {
        // Parts per 10¹² of the whole, so that 0.000001 % is exact enough for Q0.32.
        let parts = match text.trim().strip_suffix('%') {
            Some(percent) => quantity(percent, &[("", 10_000_000_000)])?,
            None => quantity(text, &[("", 1_000_000_000_000)])?,
        };
        match parts {
            1_000_000_000_000 => Ok(Self::ONE),
            1_000_000_000_001.. => Err("it is above 1".to_owned()),
            _ => Ok(Self(((u128::from(parts) << 32) / 1_000_000_000_000) as u32)),
        }
    }
}
impl FromText for Dscp {
    fn from_text(text: &str) -> Result<Self, String> {
        dscp(text).ok_or_else(|| {
            "it is no DSCP; use 0 to 63, BE, EF, VA, LE, CS0 to CS7 or AF11 to AF43".to_owned()
        })
    }
}

/// Names of RFC 2474, 2597, 3246, 5865 and 8622.
fn dscp(text: &str) -> Option<Dscp> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Dscp::new(number);
    }
    let digit = |c: u8, max: u8| c.checked_sub(b'0').filter(|d| *d <= max);
    match text.to_ascii_uppercase().as_bytes() {
        b"BE" | b"DF" => Some(Dscp::BE),
        b"EF" => Some(Dscp::EF),
        b"VA" => Dscp::new(44),
        b"LE" => Dscp::new(1),
        [b'C', b'S', n] => Dscp::new(digit(*n, 7)? * 8),
        [b'A', b'F', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Dscp::new(digit(*class, 4)? * 8 + digit(*drop, 3)? * 2)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact_or_refused() {
        assert_eq!(Rate::from_text("1.5 Mbit/s"), Ok(Rate(1_500_000)));
        assert_eq!(Duration::from_text("30ms"), Ok(Duration(30_000_000)));
        assert_eq!(QueueLimit::from_text("100 packets"), Ok(QueueLimit::Packets(100)));
        assert_eq!(QueueLimit::from_text("30 ms"), Ok(QueueLimit::Time(30_000_000)));
        assert_eq!(Probability::from_text("50 %"), Ok(Probability(1 << 31)));
        assert_eq!(Probability::from_text("1"), Ok(Probability::ONE));
        assert_eq!(Dscp::from_text("AF41"), Ok(Dscp::new(34).unwrap()));
        for bad in ["", "kB", "1.5 B", "5", "1 2 B", "99999999999999999999999999999 MB"] {
            assert!(Bytes::from_text(bad).is_err(), "{bad}");
        }
        assert!(Dscp::from_text("64").is_err() && Dscp::from_text("AF44").is_err());
    }
}
