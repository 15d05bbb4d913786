//! Answers kept so that a repeated transaction is answered again instead of applied again (rule 6).

use perhop_model::{Owner, Reply, TxnId};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// Answers every owner may rely on.
pub const KEPT_TRANSACTIONS: usize = 65_536;
/// For at least this long.
pub const KEPT_FOR: Duration = Duration::from_secs(600);
/// Answers of one owner at the most; more transactions than this in [`KEPT_FOR`] are `overload`.
pub const KEPT_MAX: usize = 4 * KEPT_TRANSACTIONS;

/// SHA-256 of a request's canonical bytes.
pub type RequestDigest = [u8; 32];

#[derive(Debug, Default)]
struct OwnerReplies {
    by_id: HashMap<TxnId, (RequestDigest, Arc<Reply>)>,
    order: VecDeque<(Instant, TxnId)>,
}

/// Kept answers of all owners.
#[derive(Debug, Default)]
pub struct Replays {
    owners: BTreeMap<Owner, OwnerReplies>,
}

/// What is known of a transaction id.
#[derive(Debug)]
pub enum Known {
    /// Never seen (or long ago).
    New,
    /// The same request: the answer given then.
    Same(Arc<Reply>),
    /// The id was used for another request.
    Other,
    /// Too many answers have to be kept; try again later.
    Full,
}

impl Replays {
    /// Looks a request up. O(1).
    pub fn find(&mut self, now: Instant, owner: &Owner, id: TxnId, digest: &RequestDigest) -> Known {
        let Some(kept) = self.owners.get_mut(owner) else { return Known::New };
        match kept.by_id.get(&id) {
            Some((d, reply)) if d == digest => return Known::Same(reply.clone()),
            Some(_) => return Known::Other,
            None => {}
        }
        while kept.order.len() >= KEPT_TRANSACTIONS {
            match kept.order.front() {
                Some((at, old)) if now.since(*at) > KEPT_FOR => {
                    kept.by_id.remove(old);
                    kept.order.pop_front();
                }
                _ => break,
            }
        }
        if kept.order.len() >= KEPT_MAX { Known::Full } else { Known::New }
    }

    /// Keeps an answer.
    pub fn keep(&mut self, now: Instant, owner: &Owner, digest: RequestDigest, reply: Arc<Reply>) {
        let kept = self.owners.entry(owner.clone()).or_default();
        kept.order.push_back((now, reply.txn_id));
        kept.by_id.insert(reply.txn_id, (digest, reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::Outcome;

    fn reply(n: u32) -> Arc<Reply> {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_be_bytes());
        Arc::new(Reply {
            epoch: 1,
            revision: 1,
            generation: 1,
            txn_id: TxnId(id),
            outcome: Outcome::Committed,
            replayed: false,
            received_ns: 0,
            committed_ns: 0,
            ops: Vec::new(),
            errors: Vec::new(),
            retry_after_ms: None,
        })
    }

    #[test]
    fn answers_of_ten_minutes_are_kept_up_to_the_limit_of_an_owner() {
        let (mut replays, owner) = (Replays::default(), Owner::Cli);
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        for n in 0..KEPT_MAX as u32 {
            assert!(matches!(replays.find(at(1), &owner, reply(n).txn_id, &[0; 32]), Known::New));
            replays.keep(at(1), &owner, [0; 32], reply(n));
        }
        let new = reply(u32::MAX).txn_id;
        let first = reply(0).txn_id;
        assert!(matches!(replays.find(at(601), &owner, new, &[0; 32]), Known::Full));
        assert!(matches!(replays.find(at(601), &owner, first, &[0; 32]), Known::Same(_)));
        assert!(matches!(replays.find(at(601), &owner, first, &[1; 32]), Known::Other));
        assert!(matches!(replays.find(at(601), &Owner::Agent, new, &[0; 32]), Known::New));
        // Older than ten minutes all but the latest 65,535 go.
        assert!(matches!(replays.find(at(602), &owner, new, &[0; 32]), Known::New));
        let kept = |n: u32, replays: &mut Replays| {
            matches!(replays.find(at(602), &owner, reply(n).txn_id, &[0; 32]), Known::Same(_))
        };
        let oldest_kept = (KEPT_MAX - KEPT_TRANSACTIONS) as u32 + 1;
        assert!(!kept(oldest_kept - 1, &mut replays) && kept(oldest_kept, &mut replays));
    }
}
