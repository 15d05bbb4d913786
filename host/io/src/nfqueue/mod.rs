//! Packets of this host that wait for a verdict of this program: a queue of the kernel's packet filter (NFQUEUE).
//!
//! * [`read`]: messages of the kernel, [`Queued`] packets among them;
//! * [`Verdicts`]: answers, gathered so that one call sends many, with runs of unchanged packets answered at once;
//! * [`Nfqueue`]: the socket, and [`Inbox`], what it fills.
//!
//! Codec and gathering do no input or output. The queue is opened with `fail-open` and with large segments whole: when it
//! is full, packets pass; when the program is gone, the rule's `--queue-bypass` lets them pass.
//!
//! # Checksums
//! A packet whose checksum a card is to complete comes with the pseudo-header's part in the field
//! ([`Queued::checksum_missing`]). Unchanged, the kernel completes it later. A packet that goes back with other contents
//! counts as complete (`nfqnl_mangle` sets `CHECKSUM_NONE`), so whoever changes one completes it first; for a
//! large segment over its whole length, which serves a receiver on this host, and when the kernel cuts it up each part gets
//! its own.
//!
//! Source: Linux `include/uapi/linux/netfilter/nfnetlink_queue.h`, `net/netfilter/nfnetlink_queue.c`; netlink(7).

mod message;
mod queue;
mod verdicts;

pub use message::{Hook, Message, MessageError, Queued, read};
pub use queue::{Inbox, Nfqueue, NfqueueConfig, NfqueueError};
pub use verdicts::Verdicts;

/// Most bytes of a packet that a message holds: an attribute's length has 16 bits and counts its header.
pub const MOST_PACKET: usize = 0xffff - 4;

/// Message types: the subsystem is the upper octet.
const SUBSYSTEM: u16 = 3 << 8;
const PACKET: u16 = SUBSYSTEM;
const VERDICT: u16 = SUBSYSTEM | 1;
const CONFIG: u16 = SUBSYSTEM | 2;
const VERDICT_BATCH: u16 = SUBSYSTEM | 3;

/// Bytes of the netlink header with that of nfnetlink.
const HEADER: usize = 16 + 4;

const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;

/// Attributes and messages begin at multiples of four.
const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Begins a message to the kernel about queue `queue`; returns where, for [`end`].
fn begin(out: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, queue: u16) -> usize {
    let at = out.len();
    out.extend([0; 4]);
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend(sequence.to_ne_bytes());
    out.extend([0; 4]);
    // Family (any) and version.
    out.extend([0, 0]);
    out.extend(queue.to_be_bytes());
    at
}

/// An attribute of at most [`MOST_PACKET`] bytes, given in parts.
fn attribute(out: &mut Vec<u8>, kind: u16, parts: &[&[u8]]) {
    let len: usize = 4 + parts.iter().map(|part| part.len()).sum::<usize>();
    debug_assert!(len <= 0xffff, "the length has 16 bits");
    out.extend((len as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.resize(out.len() + padded(len) - len, 0);
}

/// Ends the message that began `at`.
fn end(out: &mut [u8], at: usize) {
    let len = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&len.to_ne_bytes());
}
