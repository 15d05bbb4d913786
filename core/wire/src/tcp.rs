//! The TCP header (RFC 9293 §3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                        sequence number                        |
//! |                     acknowledgment number                     |
//! +-------+-------+-+-+-+-+-+-+-+-+-------------------------------+
//! |offset |  res  |C|E|U|A|P|R|S|F|            window             |
//! +-------+-------+-+-+-+-+-+-+-+-+-------------------------------+
//! |           checksum            |        urgent pointer         |
//! +-------------------------------+-------------------------------+
//! |              options, 0 to 40 bytes: `tcp_options`            |
//! +---------------------------------------------------------------+
//! ```

use crate::HeaderError;
use crate::checksum::Sum;
use crate::field::{be16, be32, put16, put32, replace_summed};
use crate::tcp_options::{self, Options};

/// Length of the header without options, in bytes.
pub const HEADER_LEN: usize = 20;

/// Bits of the flags octet.
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
    /// All of them by name, lowest bit first (RFC 9293 §3.1).
    pub const NAMES: [(&str, u8); 8] = [
        ("fin", FIN),
        ("syn", SYN),
        ("rst", RST),
        ("psh", PSH),
        ("ack", ACK),
        ("urg", URG),
        ("ece", ECE),
        ("cwr", CWR),
    ];
}

/// A segment: header, options, payload.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    fixed: &'a [u8; HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Looks at an IP payload. Options are checked when they are read.
    ///
    /// # Errors
    /// `Truncated`, `Length` (data offset below 5).
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let (fixed, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(HeaderError::Truncated)?;
        let header_len = usize::from(fixed[12] >> 4) * 4;
        let options_len = header_len.checked_sub(HEADER_LEN).ok_or(HeaderError::Length)?;
        let (options, payload) = rest.split_at_checked(options_len).ok_or(HeaderError::Truncated)?;
        Ok(Self { fixed, options, payload })
    }
    /// Header length in bytes, options included: 20–60.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }
    /// Source port.
    pub fn src_port(&self) -> u16 {
        be16(self.fixed, 0)
    }
    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        be16(self.fixed, 2)
    }
    /// Sequence number of the first payload byte, or of SYN.
    pub fn seq(&self) -> u32 {
        be32(self.fixed, 4)
    }
    /// Next sequence number expected, valid with [`flags::ACK`].
    pub fn ack(&self) -> u32 {
        be32(self.fixed, 8)
    }
    /// The eight [`flags`].
    pub fn flags(&self) -> u8 {
        self.fixed[13]
    }
    /// Receive window, before scaling (RFC 7323 §2).
    pub fn window(&self) -> u16 {
        be16(self.fixed, 14)
    }
    /// Checksum.
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, 16)
    }
    /// Urgent pointer.
    pub fn urgent(&self) -> u16 {
        be16(self.fixed, 18)
    }
    /// Whether the checksum is right over `pseudo`. O(len).
    pub fn checksum_is_valid(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.fixed).bytes(self.options).bytes(self.payload).is_valid()
    }
    /// Walks the options.
    pub fn options(&self) -> Options<'a> {
        Options::new(self.options)
    }
    /// What follows the header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A header to rewrite; every change keeps a right checksum right (RFC 1624). A checksum that a network card is still
/// to complete must not be rewritten this way.
#[derive(Debug)]
pub struct ViewMut<'a> {
    header: &'a mut [u8; HEADER_LEN],
}

impl<'a> ViewMut<'a> {
    /// Looks at the fixed part of the header.
    ///
    /// # Errors
    /// `Truncated` below 20 bytes.
    pub fn new_checked(bytes: &'a mut [u8]) -> Result<Self, HeaderError> {
        bytes.first_chunk_mut().map(Self::over).ok_or(HeaderError::Truncated)
    }
    /// A header known to be one.
    #[inline]
    pub(crate) fn over(header: &'a mut [u8; HEADER_LEN]) -> Self {
        Self { header }
    }
    /// The window as it is, before scaling.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.header, 14)
    }
    /// Writes the window, before scaling.
    #[inline]
    pub fn set_window(&mut self, window: u16) {
        replace_summed(self.header, 14, 16, window);
    }
}

/// The header's fields. Reserved bits are not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// The eight [`flags`].
    pub flags: u8,
    /// Receive window, before scaling.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options that end-points use.
    pub options: tcp_options::Repr,
}

impl Repr {
    /// The fields of `view`.
    ///
    /// # Errors
    /// [`HeaderError::MalformedOption`].
    pub fn parse(view: &View<'_>) -> Result<Self, HeaderError> {
        Ok(Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: tcp_options::Repr::parse(view.options())?,
        })
    }
    /// Writes the header to the front of `buffer`, without checksum: see [`fill_checksum`].
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Self::len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let header = &mut buffer[..self.len()];
        put16(header, 0, self.src_port);
        put16(header, 2, self.dst_port);
        put32(header, 4, self.seq);
        put32(header, 8, self.ack);
        header[12] = ((header.len() / 4) as u8) << 4;
        header[13] = self.flags;
        put16(header, 14, self.window);
        put16(header, 16, 0);
        put16(header, 18, self.urgent);
        self.options.emit(&mut header[HEADER_LEN..]);
    }
    /// Bytes that [`Self::emit`] writes.
    pub const fn len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }
}

/// Computes the checksum of `segment` (header and payload) over `pseudo` and writes it. O(len).
///
/// # Panics
/// If `segment` is shorter than the header.
pub fn fill_checksum(segment: &mut [u8], pseudo: Sum) {
    put16(segment, 16, 0);
    let sum = pseudo.bytes(segment).checksum();
    put16(segment, 16, sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::pseudo_header_v6;
    use proptest::prelude::*;

    fn any_repr() -> impl Strategy<Value = Repr> {
        let numbers = (any::<[u16; 4]>(), any::<[u32; 2]>(), any::<u8>());
        (numbers, tcp_options::tests::any_repr()).prop_map(|((w, d, flags), options)| Repr {
            src_port: w[0],
            dst_port: w[1],
            seq: d[0],
            ack: d[1],
            flags,
            window: w[2],
            urgent: w[3],
            options,
        })
    }

    fn segment(repr: &Repr, payload: &[u8]) -> (Vec<u8>, Sum) {
        let mut bytes = vec![0xff; repr.len()];
        repr.emit(&mut bytes);
        bytes.extend(payload);
        let pseudo = pseudo_header_v6([1; 16], [2; 16], 6, bytes.len() as u32);
        fill_checksum(&mut bytes, pseudo);
        (bytes, pseudo)
    }

    proptest! {
        #[test]
        fn round_trip(repr in any_repr(), payload in proptest::collection::vec(any::<u8>(), 0..40)) {
            let (bytes, pseudo) = segment(&repr, &payload);
            let view = View::new_checked(&bytes).unwrap();
            prop_assert_eq!(Repr::parse(&view), Ok(repr));
            prop_assert_eq!(view.payload(), payload.as_slice());
            prop_assert!(view.checksum_is_valid(pseudo));
        }

        #[test]
        fn a_new_window_equals_a_new_segment(repr in any_repr(), window: u16) {
            let (mut bytes, _) = segment(&repr, b"data");
            ViewMut::new_checked(&mut bytes).unwrap().set_window(window);
            prop_assert_eq!(bytes, segment(&Repr { window, ..repr }, b"data").0);
        }

        #[test]
        fn no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(view) = View::new_checked(&bytes) {
                let _ = Repr::parse(&view);
            }
        }
    }

    #[test]
    fn errors() {
        let mut bytes = [0u8; 20];
        assert_eq!(View::new_checked(&bytes[..19]).unwrap_err(), HeaderError::Truncated);
        assert_eq!(View::new_checked(&bytes).unwrap_err(), HeaderError::Length);
        bytes[12] = 0x60;
        assert_eq!(View::new_checked(&bytes).unwrap_err(), HeaderError::Truncated);
    }
}
