//! TCP options (RFC 9293 §3.2; window scale and timestamps RFC 7323; selective acknowledgment RFC 2018).
//!
//! ```text
//! +--------+   +--------+--------+--------- - - -+
//! | 0 or 1 |   |  kind  | length |     data      |
//! +--------+   +--------+--------+--------- - - -+
//! kind 2 MSS (4), 3 window scale (3), 4 SACK permitted (2), 5 SACK (2 + 8n), 8 timestamps (10)
//! ```

use crate::HeaderError;
use crate::field::{be16, be32, put16, put32};

/// The most bytes of options.
pub const MAX_LEN: usize = 40;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Ranges a receiver holds beyond its acknowledgment number: `[left, right)` in sequence numbers, at most four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); 4],
    count: u8,
}

impl SackBlocks {
    /// No blocks.
    pub const NONE: Self = Self { blocks: [(0, 0); 4], count: 0 };

    /// The first four of `blocks`.
    #[must_use]
    pub fn new(blocks: &[(u32, u32)]) -> Self {
        let mut all = Self::default();
        for (slot, block) in all.blocks.iter_mut().zip(blocks) {
            *slot = *block;
            all.count += 1;
        }
        all
    }
    /// The blocks, most recent first.
    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Largest segment the sender can receive, in bytes (SYN only).
    Mss(u16),
    /// Shift of the sender's windows as sent; above 14 counts as 14 (RFC 7323 §2.3; SYN only).
    WindowScale(u8),
    /// The sender understands SACK (SYN only).
    SackPermitted,
    /// What the sender holds beyond its acknowledgment number.
    Sack(SackBlocks),
    /// The sender's clock and the echo of the other's.
    Timestamps {
        /// TSval.
        value: u32,
        /// TSecr.
        echo: u32,
    },
    /// Any other.
    Unknown {
        /// Its kind, for example 19 (MD5, RFC 2385) or 29 (TCP-AO, RFC 5925).
        kind: u8,
        /// What follows kind and length.
        data: &'a [u8],
    },
}

/// The walk over options: an iterator that ends at the end option, the end of the bytes, or the first error.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Starts at `bytes`: what lies between the fixed header and the payload.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.rest {
                [] | [END, ..] => return None,
                [NO_OPERATION, ref rest @ ..] => self.rest = rest,
                [kind, len, ..] if len >= 2 && usize::from(len) <= self.rest.len() => {
                    let (option, rest) = self.rest.split_at(usize::from(len));
                    self.rest = rest;
                    return Some(Ok(read(kind, &option[2..])));
                }
                _ => {
                    self.rest = &[];
                    return Some(Err(HeaderError::MalformedOption));
                }
            }
        }
    }
}

fn read(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data.len()) {
        (MSS, 2) => TcpOption::Mss(be16(data, 0)),
        (WINDOW_SCALE, 1) => TcpOption::WindowScale(data[0]),
        (SACK_PERMITTED, 0) => TcpOption::SackPermitted,
        (SACK, 8 | 16 | 24 | 32) => {
            let mut all = SackBlocks::default();
            for (slot, block) in all.blocks.iter_mut().zip(data.as_chunks::<8>().0) {
                *slot = (be32(block, 0), be32(block, 4));
                all.count += 1;
            }
            TcpOption::Sack(all)
        }
        (TIMESTAMPS, 8) => TcpOption::Timestamps { value: be32(data, 0), echo: be32(data, 4) },
        // One whose length is not that of its kind means nothing to an end, and those behind it do (RFC 9293 §3.2 lets it, and
        // Linux and the BSDs go on).
        _ => TcpOption::Unknown { kind, data },
    }
}

/// The options an end-point uses. Unknown ones are dropped when parsed; of a repeated one the last counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Maximum segment size in bytes.
    pub mss: Option<u16>,
    /// Window shift.
    pub window_scale: Option<u8>,
    /// SACK permitted.
    pub sack_permitted: bool,
    /// Clock value and echo.
    pub timestamps: Option<(u32, u32)>,
    /// Blocks held. Only those that fit behind the other options are emitted: three with timestamps (RFC 2018 §3).
    pub sack: SackBlocks,
}

impl Repr {
    /// Collects `options`.
    ///
    /// # Errors
    /// [`HeaderError::MalformedOption`].
    pub fn parse(options: Options<'_>) -> Result<Self, HeaderError> {
        let mut all = Self::default();
        for option in options {
            match option? {
                TcpOption::Mss(mss) => all.mss = Some(mss),
                TcpOption::WindowScale(shift) => all.window_scale = Some(shift),
                TcpOption::SackPermitted => all.sack_permitted = true,
                TcpOption::Sack(blocks) => all.sack = blocks,
                TcpOption::Timestamps { value, echo } => all.timestamps = Some((value, echo)),
                TcpOption::Unknown { .. } => {}
            }
        }
        Ok(all)
    }

    /// Bytes of everything but SACK, unpadded: at most 19.
    const fn len_without_sack(&self) -> usize {
        4 * self.mss.is_some() as usize
            + 3 * self.window_scale.is_some() as usize
            + 2 * self.sack_permitted as usize
            + 10 * self.timestamps.is_some() as usize
    }

    /// How many SACK blocks fit.
    const fn sack_fit(&self) -> usize {
        let fit = (MAX_LEN - 2 - self.len_without_sack()) / 8;
        let count = self.sack.count as usize;
        if count < fit { count } else { fit }
    }

    /// Writes the options to the front of `buffer`, padded with no-operations.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let buffer = &mut buffer[..self.len()];
        buffer.fill(NO_OPERATION);
        let mut at = 0;
        let mut start = |kind: u8, len: usize| {
            buffer[at] = kind;
            buffer[at + 1] = len as u8;
            at += len;
            at + 2 - len
        };
        let mss = self.mss.map(|mss| (start(MSS, 4), mss));
        if self.sack_permitted {
            start(SACK_PERMITTED, 2);
        }
        let timestamps = self.timestamps.map(|stamps| (start(TIMESTAMPS, 10), stamps));
        let scale = self.window_scale.map(|shift| (start(WINDOW_SCALE, 3), shift));
        let blocks = &self.sack.as_slice()[..self.sack_fit()];
        let sack = (!blocks.is_empty()).then(|| start(SACK, 2 + 8 * blocks.len()));
        if let Some((at, mss)) = mss {
            put16(buffer, at, mss);
        }
        if let Some((at, (value, echo))) = timestamps {
            put32(buffer, at, value);
            put32(buffer, at + 4, echo);
        }
        if let Some((at, shift)) = scale {
            buffer[at] = shift;
        }
        if let Some(at) = sack {
            for (i, (left, right)) in blocks.iter().enumerate() {
                put32(buffer, at + 8 * i, *left);
                put32(buffer, at + 8 * i + 4, *right);
            }
        }
    }

    /// Bytes that [`Self::emit`] writes: a multiple of 4, at most 40.
    pub const fn len(&self) -> usize {
        let blocks = self.sack_fit();
        let sack = if blocks == 0 { 0 } else { 2 + 8 * blocks };
        (self.len_without_sack() + sack).next_multiple_of(4)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any_repr() -> impl Strategy<Value = Repr> {
        let syn = (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>());
        let data = (any::<Option<(u32, u32)>>(), proptest::collection::vec(any::<(u32, u32)>(), 0..5));
        (syn, data).prop_map(|((mss, window_scale, sack_permitted), (timestamps, sack))| {
            let mut repr =
                Repr { mss, window_scale, sack_permitted, timestamps, sack: SackBlocks::new(&sack) };
            repr.sack = SackBlocks::new(&sack[..repr.sack_fit()]);
            repr
        })
    }

    proptest! {
        #[test]
        fn round_trip(repr in any_repr()) {
            let mut bytes = vec![0xff; repr.len()];
            repr.emit(&mut bytes);
            prop_assert!(bytes.len() <= MAX_LEN && bytes.len().is_multiple_of(4));
            prop_assert_eq!(Repr::parse(Options::new(&bytes)), Ok(repr));
        }

        #[test]
        fn the_walk_ends(bytes in proptest::collection::vec(0u8..12, 0..41)) {
            prop_assert!(Options::new(&bytes).count() <= bytes.len());
        }
    }

    #[test]
    fn what_linux_sends() {
        let syn = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7];
        let found: Result<Vec<_>, _> = Options::new(&syn).collect();
        let expected = [
            TcpOption::Mss(1460),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: 9, echo: 0 },
            TcpOption::WindowScale(7),
        ];
        assert_eq!(found.unwrap(), expected);
    }

    #[test]
    fn timestamps_leave_room_for_three_blocks() {
        let blocks = SackBlocks::new(&[(1, 2), (3, 4), (5, 6), (7, 8)]);
        let repr = Repr { timestamps: Some((1, 2)), sack: blocks, ..Repr::default() };
        let mut bytes = [0; MAX_LEN];
        repr.emit(&mut bytes);
        assert_eq!(repr.len(), 36);
        assert_eq!(Repr::parse(Options::new(&bytes[..36])).unwrap().sack.as_slice(), &blocks.as_slice()[..3]);
    }

    #[test]
    fn malformed() {
        for bytes in [&[2u8, 4, 5][..], &[9, 1], &[9], &[8, 0]] {
            let error = Options::new(bytes).last();
            assert_eq!(error, Some(Err(HeaderError::MalformedOption)), "{bytes:?}");
        }
        assert_eq!(Options::new(&[30, 3, 1, 0, 2]).count(), 1);
    }

    #[test]
    fn an_option_of_a_wrong_length_hides_none_behind_it() {
        let found: Result<Vec<_>, _> =
            Options::new(&[2, 5, 4, 0xb4, 1, 3, 3, 2, 5, 9, 0, 0, 0, 0, 0, 0, 0]).collect();
        let unknown = |kind, data| TcpOption::Unknown { kind, data };
        let expected = [unknown(2, &[4, 0xb4, 1][..]), TcpOption::WindowScale(2), unknown(5, &[0; 7])];
        assert_eq!(found.unwrap(), expected);
    }
}
