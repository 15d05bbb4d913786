//! What the windows of a connection have to be, told from its packets before and after the rate control alone: an oracle
//! for tests and fuzzing that shares nothing with the machine it judges.
//!
//! Its rules are those of the source and of the RFCs, as the two ends see them:
//!
//! * nothing but window and checksum changes, of acknowledgments without RST; a right checksum stays right;
//! * a window is never raised and never shut; it has a segment at least (two in a SYN/ACK, see below);
//! * signed and multipath connections, SYNs, and windows whose scale nobody can know are not touched;
//! * an acknowledgment that repeats a number repeats its window, so that it still counts as a duplicate (RFC 5681 §2);
//! * the right edge never moves left of where it stood, unless the policy allows it; when limiting begins it does not
//!   move left of the data that the sender has used it for;
//! * of what is scaled, nothing is said in a SYN (RFC 7323 §2.2).
//!
//! A connection is followed by its rules from a handshake on as long as both ends would believe what passes. What they would
//! not is passed over; where they may differ in what they believe (a number used again at once, a reset, an end after
//! long silence) only the rules for single packets are left, until another handshake.

mod following;
mod tcp;

pub use tcp::complete;

use following::{Connection, Pass};
use perhop_units::Instant;
use std::collections::HashMap;
use tcp::{Ends, Tcp, sums};

/// What the policy of the flow that a packet acknowledges allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The right edge may move left.
    pub allow_shrink: bool,
    /// A SYN/ACK may be limited.
    pub limit_syn_ack: bool,
    /// Scale taken for granted where no handshake was seen.
    pub assume_shift: Option<u8>,
}

/// How often each rule had something to say: a test that never gets there proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Packets.
    pub packets: u64,
    /// Windows that were lowered.
    pub lowered: u64,
    /// … of connections followed by their rules.
    pub followed: u64,
    /// Acknowledgments that repeated the number of a lowered one.
    pub repeated: u64,
    /// Windows that would have been lower but for the right edge.
    pub edges: u64,
    /// Edges at the beginning, that would have been left of data.
    pub begun: u64,
    /// SYN/ACKs that were limited.
    pub opened: u64,
}

impl Judged {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.lowered += other.lowered;
        self.followed += other.followed;
        self.repeated += other.repeated;
        self.edges += other.edges;
        self.begun += other.begun;
        self.opened += other.opened;
    }
}

/// The oracle: see the module.
#[derive(Debug, Default)]
pub struct Oracle {
    connections: HashMap<Ends, Connection>,
    /// What was judged.
    pub judged: Judged,
}

impl Oracle {
    /// Connections may have been forgotten, or their policies have changed: rules for more than a packet begin anew.
    pub fn lose_all(&mut self) {
        for connection in self.connections.values_mut() {
            connection.certain = false;
        }
    }

    /// Packet `before` went in at `now` and came out as `after`. `allowed`: by the policy of the flow that it acknowledges, if it
    /// has one. `partial`: the checksum is for a network card to complete.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn judge(
        &mut self,
        now: Instant,
        allowed: Option<&Allowed>,
        before: &[u8],
        after: &[u8],
        partial: bool,
    ) -> Result<(), String> {
        self.judged.packets += 1;
        let lowered = before != after;
        self.judged.lowered += u64::from(lowered);
        if lowered {
            alike(before, after, partial)?;
        }
        let Some((ends, from, was)) = Tcp::read(before) else {
            return if lowered { Err("what is no whole TCP segment was changed".into()) } else { Ok(()) };
        };
        let Some(is) = Tcp::read(after).map(|(_, _, is)| is.window) else {
            return Err("what came out is no TCP segment".into());
        };
        let connection = self.connections.entry(ends).or_insert_with(|| Connection::new(now));
        let pass = Pass { from, was: &was, is, lowered };
        let verdict = connection.judge(now, allowed, &pass, &mut self.judged);
        verdict.map_err(|why| format!("{ends:?} {why}: {was:?} became {is}, {connection:?}"))
    }
}

/// Window and checksum alone differ, and as they may.
fn alike(before: &[u8], after: &[u8], partial: bool) -> Result<(), String> {
    let Some((segment, pseudo)) = sums(before) else {
        return Err("what is no whole TCP segment was changed".into());
    };
    let mut same = after.to_vec();
    let (window, end) = (segment.start + 14, segment.start + 18);
    if same.len() != before.len() {
        return Err("the length changed".into());
    }
    same[window..end].copy_from_slice(&before[window..end]);
    if same != before {
        return Err("more than window and checksum changed".into());
    }
    let (a, b) = (&before[segment.clone()], &after[segment]);
    if partial && a[16..18] != b[16..18] {
        return Err("a checksum that is still to be completed was touched".into());
    }
    if !partial && pseudo.bytes(a).is_valid() && !pseudo.bytes(b).is_valid() {
        return Err("the checksum was right and is not any more".into());
    }
    Ok(())
}
