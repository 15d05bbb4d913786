//! Answers kept so that a repeated transaction is answered again instead of applied again (rule 6).

use super::kept::{KeptReply, details};
use perhop_model::{Owner, Reply, TxnId};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Answers every owner may rely on.
pub const KEPT_TRANSACTIONS: usize = 65_536;
/// For at least this long.
pub const KEPT_FOR: Duration = Duration::from_secs(600);
/// Answers of one owner at the most; more transactions than this in [`KEPT_FOR`] are `overload`.
pub const KEPT_MAX: usize = 4 * KEPT_TRANSACTIONS;
/// Bytes that an answer takes besides its results and errors, with the tables' spare room: an upper bound.
pub const KEPT_EACH: usize = 384;

/// SHA-256 of a request's canonical bytes.
pub type RequestDigest = [u8; 32];

#[derive(Debug, Default)]
struct OwnerReplies {
    by_id: HashMap<TxnId, (RequestDigest, KeptReply)>,
    order: VecDeque<(Instant, TxnId)>,
    /// Results and errors, alike ones once.
    details: HashSet<Arc<[u8]>>,
    bytes: usize,
}

impl OwnerReplies {
    fn forget_oldest(&mut self) {
        let Some((_, id)) = self.order.pop_front() else { return };
        let Some((_, kept)) = self.by_id.remove(&id) else { return };
        self.bytes -= KEPT_EACH;
        // The answer's own and the set's.
        if Arc::strong_count(&kept.details) == 2 {
            self.details.remove(&kept.details);
            self.bytes -= kept.details.len();
        }
    }
}

/// Room for kept answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes for one owner.
    pub owner: usize,
    /// Bytes for all owners together. An owner with less than its even share goes on when others have used up the
    /// rest.
    pub all: usize,
    /// Owners that share them.
    pub owners: usize,
}

/// Kept answers of all owners.
#[derive(Debug, Default)]
pub struct Replays {
    owners: BTreeMap<Owner, OwnerReplies>,
    bytes: usize,
}

/// What is known of a transaction id.
#[derive(Debug)]
pub enum Known {
    /// Never seen (or long ago).
    New,
    /// The same request: the answer given then.
    Same(KeptReply),
    /// The id was used for another request.
    Other,
    /// Too many answers have to be kept; try again later.
    Full,
    /// The answers that have to be kept take up all of this many bytes.
    NoRoom(usize),
}

impl Replays {
    /// Looks a request up. O(1) but for answers that may be forgotten now.
    pub fn find(
        &mut self,
        now: Instant,
        owner: &Owner,
        id: TxnId,
        digest: &RequestDigest,
        room: Room,
    ) -> Known {
        let all = self.bytes;
        let share = room.all / room.owners.max(1);
        let Some(kept) = self.owners.get_mut(owner) else { return Known::New };
        match kept.by_id.get(&id) {
            Some((d, reply)) if d == digest => return Known::Same(reply.clone()),
            Some(_) => return Known::Other,
            None => {}
        }
        let before = kept.bytes;
        while kept.order.len() >= KEPT_TRANSACTIONS
            && kept.order.front().is_some_and(|(at, _)| now.since(*at) > KEPT_FOR)
        {
            kept.forget_oldest();
        }
        self.bytes = all - (before - kept.bytes);
        let limit = match kept.bytes {
            mine if mine >= room.owner => Some(room.owner),
            mine if self.bytes >= room.all && mine >= share => Some(room.all),
            _ => None,
        };
        match limit {
            // Time helps only those that keep more than their answers' number allows to forget.
            _ if kept.order.len() >= KEPT_MAX => Known::Full,
            Some(_) if kept.order.len() >= KEPT_TRANSACTIONS => Known::Full,
            Some(limit) => Known::NoRoom(limit),
            None => Known::New,
        }
    }

    /// Keeps an answer, of which there is none with its id. O(its size).
    pub fn keep(&mut self, now: Instant, owner: &Owner, digest: RequestDigest, reply: &Reply) {
        let kept = self.owners.entry(owner.clone()).or_default();
        let before = kept.bytes;
        let details: Arc<[u8]> = details(reply).into();
        let details = match kept.details.get(&details) {
            Some(same) => same.clone(),
            None => {
                kept.bytes += details.len();
                kept.details.insert(details.clone());
                details
            }
        };
        kept.bytes += KEPT_EACH;
        kept.order.push_back((now, reply.txn_id));
        kept.by_id.insert(reply.txn_id, (digest, KeptReply::new(reply, details)));
        self.bytes += kept.bytes - before;
    }

    /// Bytes that kept answers take: of all owners, and of one.
    pub fn bytes(&self, owner: &Owner) -> (usize, usize) {
        (self.bytes, self.owners.get(owner).map_or(0, |kept| kept.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::{OpOutcome, OpResult, Outcome};

    const ROOM: Room = Room { owner: 1 << 30, all: 1 << 30, owners: 4 };

    fn reply(n: u32) -> Reply {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&n.to_be_bytes());
        Reply {
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
        }
    }

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn answers_of_ten_minutes_are_kept_up_to_the_limit_of_an_owner() {
        let (mut replays, owner) = (Replays::default(), Owner::Cli);
        let known = |replays: &mut Replays, s, owner: &Owner, id, digest: u8| {
            replays.find(at(s), owner, id, &[digest; 32], ROOM)
        };
        for n in 0..KEPT_MAX as u32 {
            assert!(matches!(known(&mut replays, 1, &owner, reply(n).txn_id, 0), Known::New));
            replays.keep(at(1), &owner, [0; 32], &reply(n));
        }
        let new = reply(u32::MAX).txn_id;
        let first = reply(0).txn_id;
        assert!(matches!(known(&mut replays, 601, &owner, new, 0), Known::Full));
        assert!(matches!(known(&mut replays, 601, &owner, first, 0), Known::Same(_)));
        assert!(matches!(known(&mut replays, 601, &owner, first, 1), Known::Other));
        assert!(matches!(known(&mut replays, 601, &Owner::Agent, new, 0), Known::New));
        // Older than ten minutes all but the latest 65,535 go.
        assert!(matches!(known(&mut replays, 602, &owner, new, 0), Known::New));
        let kept = |n: u32, replays: &mut Replays| {
            matches!(known(replays, 602, &owner, reply(n).txn_id, 0), Known::Same(_))
        };
        let oldest_kept = (KEPT_MAX - KEPT_TRANSACTIONS) as u32 + 1;
        assert!(!kept(oldest_kept - 1, &mut replays) && kept(oldest_kept, &mut replays));
        // Alike answers have their details once, and what is forgotten is no longer counted.
        let details = details(&reply(0)).len();
        let bytes = (KEPT_TRANSACTIONS - 1) * KEPT_EACH + details;
        assert_eq!(replays.bytes(&owner), (bytes, bytes));
    }

    /// An answer whose details are its own.
    fn irregular(n: u32, ops: u64) -> Reply {
        let op = |i: u64| OpResult {
            outcome: OpOutcome::Deleted,
            id: i * i + u64::from(n),
            version: u64::from(n),
        };
        Reply { ops: (0..ops).map(op).collect(), ..reply(n) }
    }

    #[test]
    fn bytes_are_bounded_for_each_owner_and_for_all() {
        let room = Room { owner: 100_000, all: 200_000, owners: 10 };
        let mut replays = Replays::default();
        let fill = |replays: &mut Replays, owner: &Owner| {
            for n in 0..1_000 {
                let reply = irregular(n, 1_000);
                match replays.find(at(1), owner, reply.txn_id, &[0; 32], room) {
                    Known::New => replays.keep(at(1), owner, [0; 32], &reply),
                    Known::NoRoom(limit) => return limit,
                    other => panic!("{other:?}"),
                }
            }
            panic!("no limit");
        };
        let one = details(&irregular(1, 1_000)).len() + 1_000;
        assert_eq!(fill(&mut replays, &Owner::Cli), room.owner);
        let (all, mine) = replays.bytes(&Owner::Cli);
        assert!(all == mine && (room.owner..room.owner + one).contains(&mine));
        // What was answered is answered still.
        let known = replays.find(at(9_999), &Owner::Cli, reply(0).txn_id, &[0; 32], room);
        assert!(matches!(known, Known::Same(kept) if kept.reply(1, reply(0).txn_id) == irregular(0, 1_000)));
        assert_eq!(fill(&mut replays, &Owner::Agent), room.owner);
        // The room is used up, but everybody has a share of it.
        assert_eq!(fill(&mut replays, &Owner::File), room.all);
        let (all, file) = replays.bytes(&Owner::File);
        assert!((20_000..20_000 + one).contains(&file), "{file}");
        assert!(all < 2 * room.all);
    }
}
