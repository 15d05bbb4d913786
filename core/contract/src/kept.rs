//! Answers in the least room: an answer is kept for hours, and one for 100,000 operations has megabytes.
//!
//! Results of operations are written as runs: what creates or changes many objects in order has one. Of errors only
//! what differs from the one before is written. Alike answers (an agent that sets the same classes again and again)
//! come to alike bytes, so that they can be kept once.

use perhop_model::{ErrorItem, OpOutcome, OpResult, Outcome, Reply, TxnId};
use std::sync::Arc;

/// An answer without the transaction's id and the epoch, which are known where it is kept.
#[derive(Clone, Debug)]
pub struct KeptReply {
    outcome: Outcome,
    revision: u64,
    generation: u64,
    received_ns: u64,
    committed_ns: u64,
    /// Results and errors; see [`details`].
    pub details: Arc<[u8]>,
}

impl KeptReply {
    /// What must be kept of `reply`, with its [`details`], which may be shared with another's.
    pub fn new(reply: &Reply, details: Arc<[u8]>) -> Self {
        Self {
            outcome: reply.outcome,
            revision: reply.revision,
            generation: reply.generation,
            received_ns: reply.received_ns,
            committed_ns: reply.committed_ns,
            details,
        }
    }

    /// The answer again. O(results + errors).
    pub fn reply(&self, epoch: u64, txn_id: TxnId) -> Reply {
        let mut bytes = &self.details[..];
        let (ops, errors) = read(&mut bytes, self.revision).expect("written by `details`");
        Reply {
            epoch,
            revision: self.revision,
            generation: self.generation,
            txn_id,
            outcome: self.outcome,
            replayed: false,
            received_ns: self.received_ns,
            committed_ns: self.committed_ns,
            ops,
            errors,
            // Only said of answers that are not kept.
            retry_after_ms: None,
        }
    }
}

/// Results and errors of an answer. The same for two answers that differ in nothing but their revision and times.
pub fn details(reply: &Reply) -> Vec<u8> {
    let mut out = Vec::new();
    let runs = runs(&reply.ops);
    write_number(&mut out, runs.len() as u64);
    let mut expected = 0_u64;
    for Run { first, step, n } in runs {
        let known = from_revision(first.outcome, first.version, reply.revision);
        write_number(&mut out, (outcome_number(first.outcome) << 2) | (u64::from(known) << 1) | step);
        write_number(&mut out, n);
        write_signed(&mut out, first.id.wrapping_sub(expected));
        if !known {
            write_number(&mut out, first.version);
        }
        expected = first.id.wrapping_add(step * (n - 1)).wrapping_add(1);
    }
    write_number(&mut out, reply.errors.len() as u64);
    let mut before = Parts::default();
    for error in &reply.errors {
        let parts = Parts::of(error);
        write_signed(&mut out, parts.op.wrapping_sub(before.op));
        for (now, before) in [(&parts.path, &before.path), (&parts.message, &before.message)] {
            write_text(&mut out, now, before);
        }
        write_text(&mut out, &parts.rest, &before.rest);
        before = parts;
    }
    out
}

/// Results that differ in their ids alone, each 0 or 1 above the one before.
struct Run {
    first: OpResult,
    step: u64,
    n: u64,
}

fn runs(ops: &[OpResult]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for op in ops {
        if let Some(run) = runs.last_mut()
            && (op.outcome, op.version) == (run.first.outcome, run.first.version)
        {
            let above = op.id.wrapping_sub(run.first.id);
            if run.n == 1 && above <= 1 {
                run.step = above;
            }
            if above == run.step * run.n {
                run.n += 1;
                continue;
            }
        }
        runs.push(Run { first: *op, step: 0, n: 1 });
    }
    runs
}

/// Versions of what a commit makes or changes are its revision.
fn from_revision(outcome: OpOutcome, version: u64, revision: u64) -> bool {
    matches!(outcome, OpOutcome::Created | OpOutcome::Updated) && version == revision
}

const OUTCOMES: [OpOutcome; 4] =
    [OpOutcome::Created, OpOutcome::Updated, OpOutcome::Deleted, OpOutcome::Unchanged];

fn outcome_number(outcome: OpOutcome) -> u64 {
    OUTCOMES.iter().position(|o| *o == outcome).unwrap_or(0) as u64
}

/// An error in the parts in which it differs from its neighbours.
#[derive(Default)]
struct Parts {
    /// 0: none, else the index + 1.
    op: u64,
    path: String,
    message: String,
    /// Everything else as JSON.
    rest: String,
}

impl Parts {
    fn of(error: &ErrorItem) -> Self {
        let rest = ErrorItem { op: None, path: String::new(), message: String::new(), ..error.clone() };
        Self {
            op: error.op.map_or(0, |op| op as u64 + 1),
            path: error.path.clone(),
            message: error.message.clone(),
            // An error is plain data; serialising it cannot fail.
            rest: serde_json::to_string(&rest).unwrap_or_default(),
        }
    }

    fn error(&self) -> Option<ErrorItem> {
        let rest: ErrorItem = serde_json::from_str(&self.rest).ok()?;
        let op = self.op.checked_sub(1).map(|op| op as usize);
        Some(ErrorItem { op, path: self.path.clone(), message: self.message.clone(), ..rest })
    }
}

fn read(bytes: &mut &[u8], revision: u64) -> Option<(Vec<OpResult>, Vec<ErrorItem>)> {
    let mut ops = Vec::new();
    let mut expected = 0_u64;
    for _ in 0..read_number(bytes)? {
        let tag = read_number(bytes)?;
        let (outcome, known, step) = (*OUTCOMES.get((tag >> 2) as usize)?, tag & 2 != 0, tag & 1);
        let n = read_number(bytes)?;
        let first = expected.wrapping_add(read_signed(bytes)?);
        let version = if known { revision } else { read_number(bytes)? };
        ops.extend((0..n).map(|i| OpResult { outcome, id: first.wrapping_add(step * i), version }));
        expected = first.wrapping_add(step * n.checked_sub(1)?).wrapping_add(1);
    }
    let mut errors = Vec::new();
    let mut parts = Parts::default();
    for _ in 0..read_number(bytes)? {
        parts.op = parts.op.wrapping_add(read_signed(bytes)?);
        parts.path = read_text(bytes, &parts.path)?;
        parts.message = read_text(bytes, &parts.message)?;
        parts.rest = read_text(bytes, &parts.rest)?;
        errors.push(parts.error()?);
    }
    Some((ops, errors))
}

/// Seven bits a byte, least first; the highest bit says that more follow.
fn write_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(n);
        }
    }
    None
}

/// A difference: small in either direction is short.
fn write_signed(out: &mut Vec<u8>, difference: u64) {
    let n = difference as i64;
    write_number(out, (n << 1 ^ n >> 63) as u64);
}

fn read_signed(bytes: &mut &[u8]) -> Option<u64> {
    let n = read_number(bytes)?;
    Some(n >> 1 ^ (n & 1).wrapping_neg())
}

/// What is between the beginning and the end that `now` has in common with `before`.
fn write_text(out: &mut Vec<u8>, now: &str, before: &str) {
    let (now, before) = (now.as_bytes(), before.as_bytes());
    let alike = |a: &mut dyn Iterator<Item = (&u8, &u8)>| a.take_while(|(a, b)| a == b).count();
    let head = alike(&mut now.iter().zip(before));
    let tail = alike(&mut now[head..].iter().rev().zip(before[head..].iter().rev()));
    let middle = &now[head..now.len() - tail];
    for n in [head, tail, middle.len()] {
        write_number(out, n as u64);
    }
    out.extend(middle);
}

fn read_text(bytes: &mut &[u8], before: &str) -> Option<String> {
    let before = before.as_bytes();
    let (head, tail) = (read_number(bytes)? as usize, read_number(bytes)? as usize);
    let len = read_number(bytes)? as usize;
    let (middle, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    let tail = before.get(before.len().checked_sub(tail)?..)?;
    String::from_utf8([before.get(..head)?, middle, tail].concat()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_reason::Code;
    use proptest::prelude::*;

    fn reply(revision: u64, ops: Vec<OpResult>, errors: Vec<ErrorItem>) -> Reply {
        Reply {
            epoch: 3,
            revision,
            generation: 5,
            txn_id: TxnId([1; 16]),
            outcome: Outcome::Committed,
            replayed: false,
            received_ns: 10,
            committed_ns: 20,
            ops,
            errors,
            retry_after_ms: None,
        }
    }

    fn kept(reply: &Reply) -> KeptReply {
        KeptReply::new(reply, details(reply).into())
    }

    fn error(op: Option<usize>, path: &str, message: &str, value: Option<u64>) -> ErrorItem {
        ErrorItem {
            op,
            path: path.to_owned(),
            code: if op.is_some() { Code::BadReference } else { Code::Malformed },
            message: message.to_owned(),
            value: value.map(Into::into),
            allowed: value.map(|v| format!("0 to {v}")),
            limit: value,
            free: None,
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_answered(
            revision in 0_u64..5,
            ops in prop::collection::vec((0_usize..4, prop_oneof![0_u64..4, any::<u64>()], 0_u64..5), 0..40),
            errors in prop::collection::vec((prop::option::of(0_usize..9), "[a-é]{0,5}", "[a-é]{0,6}", prop::option::of(any::<u64>())), 0..10),
        ) {
            let ops = ops.iter().map(|(o, id, version)| OpResult { outcome: OUTCOMES[*o], id: *id, version: *version });
            let errors = errors.iter().map(|(op, path, message, value)| error(*op, path, message, *value));
            let reply = reply(revision, ops.collect(), errors.collect());
            prop_assert_eq!(kept(&reply).reply(3, TxnId([1; 16])), reply);
        }
    }

    #[test]
    fn large_answers_are_small() {
        let made = (0..100_000).map(|i| OpResult { outcome: OpOutcome::Created, id: 7 + i, version: 4 });
        let reply = reply(4, made.collect(), Vec::new());
        assert!(kept(&reply).details.len() < 16);
        assert_eq!(kept(&reply).reply(3, reply.txn_id), reply);
        let unknown = |i| error(Some(i), &format!("filter/f{i}"), "no class is called \"voice\"", None);
        let refused = Reply { ops: Vec::new(), errors: (0..100_000).map(unknown).collect(), ..reply };
        assert!(kept(&refused).details.len() < 20 * 100_000, "{}", kept(&refused).details.len());
        assert_eq!(kept(&refused).reply(3, refused.txn_id), refused);
    }

    #[test]
    fn the_same_change_at_another_revision_comes_to_the_same_bytes() {
        let at = |revision| {
            let ids = [9, 4, 7, 3, 3, 8].iter();
            let ops = ids.map(|id| OpResult { outcome: OpOutcome::Updated, id: *id, version: revision });
            details(&reply(revision, ops.collect(), Vec::new()))
        };
        assert_eq!(at(1_000), at(77_000));
    }
}
