//! Traces of frame sizes in the four-column form of the video trace library of Arizona State University.
//!
//! One frame a line: number, type, time, size in bytes. `#` begins a comment. Columns are separated by blanks, tabs,
//! commas or semicolons; further columns (quality values) are left out. Times are in ms in the MPEG-4 traces and in
//! seconds in newer ones. Traces list frames in the order of coding, in which a P-frame comes before the B-frames that
//! refer to it, with the times of display. Frames are sent in the order of the file; the k-th goes at the k-th smallest
//! time.
//!
//! Source: Fitzek, Reisslein, "MPEG-4 and H.263 Video Traces for Network Performance Evaluation", IEEE Network 2001.

use crate::video::Frame;
use perhop_units::Duration;
use thiserror::Error;

/// Most frames of a trace: eleven hours at 25 frames/s.
pub const MAX_FRAMES: usize = 1_000_000;
/// Largest frame in bytes.
pub const MAX_FRAME_BYTES: u32 = 16 << 20;
/// Latest time in a trace: one week.
pub const MAX_TRACE_TIME: Duration = Duration::from_secs(7 * 86_400);
/// Time to the next pass of a trace that has a single frame.
pub const SINGLE_FRAME_PERIOD: Duration = Duration::from_millis(40);
/// Characters of a wrong value that an error repeats.
const QUOTED: usize = 32;

/// Unit of the third column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Milliseconds, as in the MPEG-4 and H.263 traces.
    Milliseconds,
    /// Seconds, as in the H.264 traces.
    Seconds,
}

/// A trace that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTrace {
    frames: Vec<Frame>,
    period: Duration,
}

/// Why a text is not a trace. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// A line has fewer than four columns.
    #[error("line {line}: {found} of the columns number, type, time, size; all four are needed")]
    Columns {
        /// Where.
        line: usize,
        /// Columns found.
        found: usize,
    },
    /// A column cannot be read.
    #[error("line {line}: {column} is `{given}`; it must be {needed}")]
    Value {
        /// Where.
        line: usize,
        /// The column.
        column: &'static str,
        /// Beginning of what is there.
        given: String,
        /// What could be there.
        needed: &'static str,
    },
    /// A number is too large.
    #[error("line {line}: {column} is `{given}`; the most is {most}")]
    TooLarge {
        /// Where.
        line: usize,
        /// The column and its unit.
        column: &'static str,
        /// Beginning of what is there.
        given: String,
        /// Largest value.
        most: u64,
    },
    /// More frames than [`MAX_FRAMES`].
    #[error("line {line}: more than {MAX_FRAMES} frames")]
    TooMany {
        /// Where the first frame too many is.
        line: usize,
    },
    /// Nothing but comments, or only frames of 0 B.
    #[error("no frame with a size above 0 in {lines} lines")]
    NoFrames {
        /// Lines read.
        lines: usize,
    },
    /// Several frames, all at the same time.
    #[error("all {frames} frames have the same time")]
    NoTime {
        /// Frames read.
        frames: usize,
    },
}

impl FrameTrace {
    /// Reads a trace; O(n log n) for n frames.
    ///
    /// # Errors
    /// The first line that is not a frame, or what is wrong with all of them together.
    pub fn parse(text: &str, unit: TimeUnit) -> Result<Self, TraceError> {
        let mut frames = Vec::new();
        let mut lines = 0;
        for content in text.trim_start_matches('\u{feff}').lines() {
            lines += 1;
            let content = content.split('#').next().unwrap_or_default();
            let is_gap = |c: char| c.is_whitespace() || c == ',' || c == ';';
            let columns: Vec<&str> = content.split(is_gap).filter(|c| !c.is_empty()).take(4).collect();
            if columns.is_empty() {
                continue;
            }
            let &[number, kind, time, size] = columns.as_slice() else {
                return Err(TraceError::Columns { line: lines, found: columns.len() });
            };
            if frames.len() == MAX_FRAMES {
                return Err(TraceError::TooMany { line: lines });
            }
            check_number(lines, number)?;
            check_kind(lines, kind)?;
            frames.push(Frame { at: read_time(lines, time, unit)?, bytes: read_size(lines, size)? });
        }
        if frames.iter().all(|frame| frame.bytes == 0) {
            return Err(TraceError::NoFrames { lines });
        }
        Self::ordered(frames)
    }

    fn ordered(mut frames: Vec<Frame>) -> Result<Self, TraceError> {
        let mut times: Vec<Duration> = frames.iter().map(|frame| frame.at).collect();
        times.sort_unstable();
        let (first, last) = (times.first().copied(), times.last().copied());
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        let gaps = times.len() as u64 - 1;
        let period = if gaps == 0 {
            SINGLE_FRAME_PERIOD
        } else if first == last {
            return Err(TraceError::NoTime { frames: frames.len() });
        } else {
            (last - first) + Duration((last - first).as_nanos().div_ceil(gaps))
        };
        for (frame, at) in frames.iter_mut().zip(times) {
            frame.at = at - first;
        }
        Ok(Self { frames, period })
    }

    /// The frames in the order of sending; the first is at 0.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Length of one pass: from the first frame to the last and a mean gap more. Above 0.
    pub fn period(&self) -> Duration {
        self.period
    }
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED).collect()
}

fn check_number(line: usize, text: &str) -> Result<(), TraceError> {
    let needed = "a whole number";
    text.parse::<u64>().map(|_| ()).map_err(|_| TraceError::Value {
        line,
        column: "frame number",
        given: quoted(text),
        needed,
    })
}

fn check_kind(line: usize, text: &str) -> Result<(), TraceError> {
    let known = ["I", "P", "B", "IDR", "PB", "SI", "SP"];
    if known.iter().any(|kind| kind.eq_ignore_ascii_case(text)) {
        return Ok(());
    }
    let needed = "I, P, B, PB, IDR, SI or SP";
    Err(TraceError::Value { line, column: "frame type", given: quoted(text), needed })
}

/// Reads a decimal time exactly: whole part and up to nine digits behind the point; further digits are below 1 ns.
fn read_time(line: usize, text: &str, unit: TimeUnit) -> Result<Duration, TraceError> {
    let (unit_ns, column) = match unit {
        TimeUnit::Milliseconds => (1_000_000u64, "time in ms"),
        TimeUnit::Seconds => (1_000_000_000, "time in s"),
    };
    let needed = "a decimal number of at least 0";
    let wrong = || TraceError::Value { line, column, given: quoted(text), needed };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || whole.len() + part.len() == 0 {
        return Err(wrong());
    }
    let most = MAX_TRACE_TIME.as_nanos() / unit_ns;
    let too_large = || TraceError::TooLarge { line, column, given: quoted(text), most };
    // Only digits, so an error is a number above 64 bits.
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_large())? };
    let mut nanos = u128::from(whole) * u128::from(unit_ns);
    let mut digit_ns = unit_ns;
    for digit in part.bytes() {
        digit_ns /= 10;
        nanos += u128::from(digit - b'0') * u128::from(digit_ns);
    }
    match u64::try_from(nanos) {
        Ok(nanos) if nanos <= MAX_TRACE_TIME.as_nanos() => Ok(Duration(nanos)),
        _ => Err(too_large()),
    }
}

fn read_size(line: usize, text: &str) -> Result<u32, TraceError> {
    let column = "size in bytes";
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        let needed = "a whole number of at least 0";
        return Err(TraceError::Value { line, column, given: quoted(text), needed });
    }
    match text.parse() {
        Ok(bytes) if bytes <= MAX_FRAME_BYTES => Ok(bytes),
        _ => {
            Err(TraceError::TooLarge { line, column, given: quoted(text), most: u64::from(MAX_FRAME_BYTES) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(text: &str, unit: TimeUnit) -> Vec<(u64, u32)> {
        let trace = FrameTrace::parse(text, unit).expect("valid");
        trace.frames().iter().map(|f| (f.at.0 / 1_000_000, f.bytes)).collect()
    }

    fn refusal(text: &str) -> String {
        FrameTrace::parse(text, TimeUnit::Milliseconds).expect_err("wrong").to_string()
    }

    #[test]
    fn variants_of_the_form_read_alike() {
        let expected = [(0, 534), (40, 1542), (80, 134), (120, 390)];
        for text in [
            "# Frame\tFrametype\tTime[ms]\tLength [byte]\n1\tI\t0\t534\n2\tP\t40\t1542\n3\tB\t80\t134\n4\tB\t120\t390\n",
            "1 I 0 534\r\n2 P 40 1542\r\n\r\n3 B 80 134\r\n4 B 120 390",
            "0, IDR, 0.0, 534, 38.1\n1, p, 40.00, 1542\n # middle\n2; b; 80; 134 # behind\n3 B 120. 390 35 36",
            // In the order of coding, with times of display and not from 0.
            "5 I 160 534\n8 P 280 1542\n6 B 200 134\n7 B 240 390",
        ] {
            assert_eq!(frames(text, TimeUnit::Milliseconds), expected, "{text}");
        }
        let seconds = "0 I 0.000 534\n1 P 0.04 1542\n2 B .080 134\n3 B 0.1200000000001 390";
        assert_eq!(frames(seconds, TimeUnit::Seconds), expected);
    }

    #[test]
    fn a_pass_lasts_as_long_as_its_frames() {
        let trace = |text| FrameTrace::parse(text, TimeUnit::Milliseconds).expect("valid").period();
        assert_eq!(trace("1 I 0 1\n2 P 40 1\n3 P 80 1"), Duration::from_millis(120));
        assert_eq!(trace("7 I 1000 9"), SINGLE_FRAME_PERIOD);
    }

    #[test]
    fn errors_name_line_column_and_value() {
        let start = "# head\n1 I 0 534\n";
        for (line, message) in [
            ("2 P 40", "line 3: 3 of the columns number, type, time, size; all four are needed"),
            ("x P 40 9", "line 3: frame number is `x`; it must be a whole number"),
            ("2 Q 40 9", "line 3: frame type is `Q`; it must be I, P, B, PB, IDR, SI or SP"),
            ("2 P -1 9", "line 3: time in ms is `-1`; it must be a decimal number of at least 0"),
            ("2 P . 9", "line 3: time in ms is `.`; it must be a decimal number of at least 0"),
            ("2 P 604800001 9", "line 3: time in ms is `604800001`; the most is 604800000"),
            (
                "2 P 999999999999999999999 9",
                "line 3: time in ms is `999999999999999999999`; the most is 604800000",
            ),
            ("2 P 40 1e3", "line 3: size in bytes is `1e3`; it must be a whole number of at least 0"),
            ("2 P 40 16777217", "line 3: size in bytes is `16777217`; the most is 16777216"),
        ] {
            assert_eq!(refusal(&format!("{start}{line}\n3 B 80 1")), message);
        }
        assert_eq!(refusal("# one\n\n3 B 80 0\n"), "no frame with a size above 0 in 3 lines");
        assert_eq!(refusal("1 I 40 1\n2 P 40 1"), "all 2 frames have the same time");
    }

    /// Random bytes of the alphabet of traces never panic and never give an unordered trace.
    #[test]
    fn any_text_is_read_or_refused() {
        let mut generator = crate::random::Seed::new(9).generator(0);
        let alphabet: Vec<char> = "0123459.-,; \t\n#IPBé".chars().collect();
        let mut read = 0;
        for _ in 0..20_000 {
            let length = generator.below(40);
            let text: String =
                (0..length).map(|_| alphabet[generator.below(alphabet.len() as u64) as usize]).collect();
            if let Ok(trace) = FrameTrace::parse(&text, TimeUnit::Seconds) {
                assert!(trace.frames().windows(2).all(|w| w[0].at <= w[1].at));
                assert!(trace.period() > Duration::ZERO);
                read += 1;
            }
        }
        assert!(read > 0);
    }
}
