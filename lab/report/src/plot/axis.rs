//! Axes: from values to pixels, and where to put ticks.
//!
//! Nothing here asks the platform for a logarithm or a power, so that a page is the same to the byte everywhere: decades
//! are found by comparison with literals, which every compiler reads alike, and logarithms by squaring.

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equal lengths.
    Linear,
    /// Equal ratios are equal lengths; limits must be above zero.
    Logarithmic,
}

/// One axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// Smallest value shown.
    pub min: f64,
    /// Largest value shown.
    pub max: f64,
    /// Layout.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis from `min` to the first tick at or above `max`. Limits that make no axis become 0 … 1.
    pub fn linear(label: impl Into<String>, min: f64, max: f64) -> Self {
        let (min, max) = if min.is_finite() && max.is_finite() && max > min {
            (min, max)
        } else if min.is_finite() {
            (min, min + 1.0)
        } else {
            (0.0, 1.0)
        };
        let step = step(max - min, TICKS);
        let rounded = ((max - min) / step - 1e-9).ceil() * step + min;
        Self { label: label.into(), min, max: rounded, scale: Scale::Linear }
    }

    /// A linear axis that ends exactly at `max`, for time.
    pub fn exact(label: impl Into<String>, min: f64, max: f64) -> Self {
        let end = if max.is_finite() && max > min { max } else { min + 1.0 };
        Self { max: end, ..Self::linear(label, min, end) }
    }

    /// A logarithmic axis over whole steps of 1, 2, 5; `min` is held above a thousandth of `max`… and above zero.
    pub fn logarithmic(label: impl Into<String>, min: f64, max: f64) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let min = if min.is_finite() { min.clamp(max * 1e-6, max * 0.5) } else { max * 0.1 };
        let below = one_two_five(min).into_iter().rev().find(|t| *t <= min * (1.0 + 1e-9)).unwrap_or(min);
        let above = one_two_five(max).into_iter().find(|t| *t >= max * (1.0 - 1e-9)).unwrap_or(max);
        Self { label: label.into(), min: below, max: above, scale: Scale::Logarithmic }
    }

    /// Position of a value between the ends, 0 … 1; values outside are held at the ends, no number stays none.
    pub fn position(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Logarithmic => log2(value.max(self.min) / self.min) / log2(self.max / self.min),
        };
        share.clamp(0.0, 1.0)
    }

    /// Ticks with their text.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => ticks(self.min, self.max, TICKS),
            Scale::Logarithmic => log_ticks(self.min, self.max),
        }
    }
}

/// Ticks an axis aims at.
const TICKS: usize = 5;

/// Ten to the power of `exponent`, correctly rounded: as the literal is read. 0 and infinity beyond the range of numbers.
fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::INFINITY)
}

/// The largest whole `d` with 10^d ≤ `value`, which is above zero and finite: the exponent it is written with.
fn decade(value: f64) -> i32 {
    let written = format!("{value:e}");
    written.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// The logarithm to base 2 of a number above zero, to 2^-44: the exponent, then a binary digit for each squaring of the
/// mantissa. Multiplications alone, which IEEE 754 rounds alike everywhere. None of no number, and of none above zero.
fn log2(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return if value == f64::INFINITY { value } else { f64::NAN };
    }
    let (mut mantissa, mut whole) = (value, 0.0);
    while mantissa >= 2.0 {
        mantissa /= 2.0;
        whole += 1.0;
    }
    while mantissa < 1.0 {
        mantissa *= 2.0;
        whole -= 1.0;
    }
    let (mut digits, mut digit) = (0.0, 0.5);
    for _ in 0..44 {
        mantissa *= mantissa;
        if mantissa >= 2.0 {
            mantissa /= 2.0;
            digits += digit;
        }
        digit /= 2.0;
    }
    whole + digits
}

/// The step of 1, 2 or 5 times a power of ten that divides `span` into about `wanted` parts.
fn step(span: f64, wanted: usize) -> f64 {
    let raw = span / wanted.max(1) as f64;
    let power = power_of_ten(decade(raw));
    let factor = raw / power;
    let nice = match factor {
        f if f <= 1.5 => 1.0,
        f if f <= 3.5 => 2.0,
        f if f <= 7.5 => 5.0,
        _ => 10.0,
    };
    nice * power
}

/// Ticks at multiples of a nice step inside [`min`, `max`], with as many decimals as the step needs.
pub fn ticks(min: f64, max: f64, wanted: usize) -> Vec<(f64, String)> {
    let span = max - min;
    if !span.is_finite() || span <= 0.0 {
        return Vec::new();
    }
    let step = step(span, wanted);
    let decimals = (-decade(step * (1.0 + 1e-9))).clamp(0, 9) as usize;
    let first = (min / step - 1e-9).ceil();
    let count = (max / step + 1e-9).floor() - first;
    (0..=count.max(0.0) as usize)
        .map(|i| {
            let value = (first + i as f64) * step + 0.0;
            (value, format!("{value:.decimals$}"))
        })
        .collect()
}

/// 1, 2 and 5 times the powers of ten around a value.
fn one_two_five(value: f64) -> Vec<f64> {
    let decade = decade(value);
    (decade - 1..=decade + 1).flat_map(|d| [1.0, 2.0, 5.0].map(|m| m * power_of_ten(d))).collect()
}

fn log_ticks(min: f64, max: f64) -> Vec<(f64, String)> {
    let first = decade(min);
    let last = decade(max) + i32::from(power_of_ten(decade(max)) < max);
    let multiples: &[f64] = if last - first > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    (first..=last)
        .flat_map(|d| multiples.iter().map(move |m| (d, m * power_of_ten(d))))
        .filter(|(_, v)| *v >= min * (1.0 - 1e-9) && *v <= max * (1.0 + 1e-9))
        .map(|(d, v)| {
            let decimals = usize::try_from(-d).unwrap_or(0);
            (v, format!("{v:.decimals$}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(list: Vec<(f64, String)>) -> Vec<String> {
        list.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(texts(ticks(0.0, 25.0, 5)), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!(texts(ticks(0.0, 0.73, 5)), ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"]);
        assert_eq!(texts(ticks(-1.0, 1.0, 4)), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(
            texts(Axis::logarithmic("", 18.0, 640.0).ticks()),
            ["10", "20", "50", "100", "200", "500", "1000"]
        );
        assert_eq!(texts(Axis::logarithmic("", 0.2, 3000.0).ticks()), ["1", "10", "100", "1000"]);
        assert_eq!(Axis::linear("", 0.0, 612.0).max, 700.0);
        assert_eq!((Axis::linear("", f64::NAN, 3.0).max, Axis::linear("", 0.0, 0.0).max), (1.0, 1.0));
    }

    #[test]
    fn logarithms_and_decades_are_exact_where_they_can_be() {
        for (value, expected) in [(1.0, 0.0), (8.0, 3.0), (0.25, -2.0), (1024.0, 10.0)] {
            assert_eq!(log2(value), expected);
        }
        // 2^-44 and the rounding of 44 squarings.
        assert!((log2(10.0) - std::f64::consts::LOG2_10).abs() < 1e-12, "{}", log2(10.0));
        assert!(log2(f64::NAN).is_nan() && log2(f64::INFINITY) == f64::INFINITY);
        for (value, expected) in [(1.0, 0), (9.99, 0), (10.0, 1), (1000.0, 3), (0.001, -3), (0.00099, -4)] {
            assert_eq!(decade(value), expected, "{value}");
        }
        assert_eq!([power_of_ten(-3), power_of_ten(0), power_of_ten(6)], [0.001, 1.0, 1e6]);
        let position = Axis::logarithmic("", 1.0, 1000.0).position(10.0);
        assert!((position - 1.0 / 3.0).abs() < 1e-12, "{position}");
        let source = include_str!("axis.rs");
        let (code, _) = source.split_once("#[cfg(test)]").expect("these tests");
        for platform in [".log10()", ".powi(", ".powf(", ".ln()", ".log2()", ".exp("] {
            assert!(!code.contains(platform), "{platform}");
        }
    }

    proptest! {
        #[test]
        fn axes_of_any_limits_have_a_few_ticks_inside(a in -1e9f64..1e9, span in 1e-6f64..1e9) {
            let axis = Axis::linear("", a, a + span);
            let list = axis.ticks();
            prop_assert!((2..=12).contains(&list.len()), "{:?}", list);
            prop_assert!(axis.max >= a + span * (1.0 - 1e-6));
            for (value, _) in list {
                prop_assert!((-1e-6..=1.0 + 1e-6).contains(&axis.position(value)));
            }
        }

        #[test]
        fn logarithmic_axes_hold_their_limits(min in 1e-3f64..1e6, ratio in 1.0f64..1e5) {
            let axis = Axis::logarithmic("", min, min * ratio);
            prop_assert!(axis.max >= min * ratio * 0.999_999 && axis.min > 0.0);
            prop_assert!(axis.ticks().len() >= 2, "{:?}", axis);
            prop_assert_eq!(axis.position(axis.min), 0.0);
        }
    }
}
