//! Netlink messages as bytes, where no library knows their layout: told apart, received, listed (netlink(7)).

use std::os::fd::BorrowedFd;

use netlink_packet_core::NLM_F_DUMP_INTR;
use rustix::net::RecvFlags;

use crate::error::NetlinkError;

/// A listing that changes under its reader is repeated this often.
pub(crate) const DUMP_ATTEMPTS: u32 = 16;
/// The kernel answers inside the system call; this bounds only a broken one.
pub(crate) const ANSWER_WITHIN_S: u64 = 10;
/// The kernel fills dump buffers of at most 32 KiB; one message is smaller.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;
/// `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;
/// Kinds of the two messages that end an answer.
pub(crate) const ERROR: u16 = 2;
pub(crate) const DONE: u16 = 3;

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// All of it, with its header.
    pub(crate) whole: &'a [u8],
}

impl<'a> Frame<'a> {
    /// What is behind the header.
    pub(crate) fn body(self) -> &'a [u8] {
        &self.whole[HEADER..]
    }

    /// The positive errno of an answer, 0 if all is well.
    pub(crate) fn errno(self) -> i32 {
        self.body().first_chunk::<4>().map_or(libc::EBADMSG, |code| i32::from_ne_bytes(*code).wrapping_neg())
    }
}

/// The messages of a datagram.
pub(crate) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<HEADER>()?;
        let word =
            |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let length = (word(0) as usize).clamp(HEADER, bytes.len());
        let frame = Frame { kind: half(4), flags: half(6), sequence: word(8), whole: &bytes[..length] };
        // Messages are aligned to four bytes; the last may lack the pad.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(frame)
    })
}

/// Appends one message: kind, flags and sequence number; its body.
pub(crate) fn push_frame(bytes: &mut Vec<u8>, (kind, flags, sequence): (u16, u16, u32), body: &[&[u8]]) {
    // Requests are some hundred bytes long.
    let length = HEADER + body.iter().map(|part| part.len()).sum::<usize>();
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    body.iter().for_each(|part| bytes.extend(*part));
}

/// Waits for one datagram; its length.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    operation: &'static str,
    object: &str,
) -> Result<usize, NetlinkError> {
    loop {
        match rustix::net::recv(fd, &mut *buffer, RecvFlags::empty()) {
            Ok((length, _)) => return Ok(length),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let (object, waited_s) = (object.into(), ANSWER_WITHIN_S);
                return Err(NetlinkError::NoAnswer { operation, object, waited_s });
            }
            Err(error) => return Err(NetlinkError::os(operation, object, error)),
        }
    }
}

/// Reads a listing to its end: `each` gets the bodies. The errno it ended with, 0 if all is well, and whether the table changed
/// meanwhile.
pub(crate) fn read_listing(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    (operation, sequence): (&'static str, u32),
    mut each: impl FnMut(&[u8]),
) -> Result<(i32, bool), NetlinkError> {
    let mut interrupted = false;
    loop {
        let length = receive(fd, buffer, operation, "")?;
        let mut end = None;
        for frame in frames(&buffer[..length]).filter(|frame| frame.sequence == sequence) {
            interrupted |= frame.flags & NLM_F_DUMP_INTR != 0;
            match frame.kind {
                // A listing that fails on its way ends with why, if with anything.
                DONE if frame.body().len() < 4 => end = Some(0),
                DONE | ERROR => end = Some(frame.errno()),
                _ => each(frame.body()),
            }
        }
        if let Some(end) = end {
            return Ok((end, interrupted));
        }
    }
}

/// The kernel has said no, and not why.
pub(crate) fn refused(operation: &'static str, object: &str, errno: i32) -> NetlinkError {
    NetlinkError::Kernel { operation, object: object.into(), errno, detail: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_listing_ends_with_what_its_end_says() {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let mut buffer = vec![0; 256];
        let mut listed = |end: &[u8], flags: u16| {
            let mut bytes = Vec::new();
            push_frame(&mut bytes, (16, flags, 7), &[b"row!"]);
            push_frame(&mut bytes, (DONE, 0, 6), &[&[0; 4]]);
            push_frame(&mut bytes, (DONE, 0, 7), &[end]);
            theirs.send(&bytes).unwrap();
            let mut rows = 0;
            let end = read_listing(ours.as_fd(), &mut buffer, ("list", 7), |_| rows += 1).unwrap();
            (end, rows)
        };
        assert_eq!(listed(&[0; 4], 0), ((0, false), 1));
        assert_eq!(listed(&[], NLM_F_DUMP_INTR), ((0, true), 1));
        assert_eq!(listed(&(-libc::EINTR).to_ne_bytes(), 0), ((libc::EINTR, false), 1));
    }

    #[test]
    fn messages_of_a_datagram_are_told_apart() {
        let mut bytes = Vec::new();
        push_frame(&mut bytes, (ERROR, 0, 3), &[&[0; 4]]);
        push_frame(&mut bytes, (DONE, NLM_F_DUMP_INTR, 4), &[&[0; 4], &[1, 2, 3, 4]]);
        let seen: Vec<_> = frames(&bytes).map(|f| (f.kind, f.flags, f.sequence, f.body().len())).collect();
        assert_eq!(seen, [(ERROR, 0, 3, 4), (DONE, NLM_F_DUMP_INTR, 4, 8)]);
        assert_eq!(frames(&bytes[..10]).count(), 0, "short input is no panic");
    }
}
