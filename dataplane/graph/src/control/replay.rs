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
