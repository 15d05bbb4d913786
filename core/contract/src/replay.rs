//! Answers kept so that a repeated transaction is answered again instead of applied again (rule 6).
//!
//! Their room is bounded. When it is used up, an owner's oldest answers go that are older than [`KEPT_FOR`], then those
//! that said no: such a request changed nothing, and if it is repeated it is judged again. Answers to what was committed
//! are kept for [`KEPT_FOR`]; until the oldest of them is that old, its owner has to wait. Owner `file` never waits: what
//! the router reads from its own file has one sender, which repeats only its latest.

use super::kept::{KeptReply, details};
use perhop_model::{Outcome, Owner, Reply, TxnId};
use perhop_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Answers every owner may rely on, as long as they have room.
pub const KEPT_TRANSACTIONS: usize = 65_536;
/// For at least this long.
pub const KEPT_FOR: Duration = Duration::from_secs(600);
/// Answers of one owner at the most; more commits than this in [`KEPT_FOR`] are `overload`.
pub const KEPT_MAX: usize = 4 * KEPT_TRANSACTIONS;
/// Bytes that an answer takes besides its results and errors, with the tables' spare room: an upper bound.
pub const KEPT_EACH: usize = 448;

/// SHA-256 of a request's canonical bytes.
pub type RequestDigest = [u8; 32];

#[derive(Debug, Default)]
struct OwnerReplies {
    by_id: HashMap<TxnId, (RequestDigest, KeptReply)>,
    /// By age.
    order: BTreeMap<u64, (Instant, TxnId)>,
    /// Of these, the ones that said no.
    rejected: BTreeSet<u64>,
    next: u64,
    /// Results and errors, alike ones once.
    details: HashSet<Arc<[u8]>>,
    bytes: usize,
}

impl OwnerReplies {
    fn oldest(&self) -> Option<(u64, Instant)> {
        self.order.first_key_value().map(|(n, (at, _))| (*n, *at))
    }

    fn oldest_after(&self, now: Instant) -> Option<u64> {
        self.oldest().filter(|(_, at)| now.since(*at) > KEPT_FOR).map(|(n, _)| n)
    }

    fn forget(&mut self, n: u64) {
        let (_, id) = self.order.remove(&n).expect("only answers that are kept are forgotten");
        self.rejected.remove(&n);
        let (_, kept) = self.by_id.remove(&id).expect("an answer with an age is kept by its id");
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

impl Room {
    /// The limit that answers of `mine` bytes, `all` of all owners, leave no room under.
    fn reached(&self, mine: usize, all: usize) -> Option<usize> {
        let share = self.all / self.owners.max(1);
        match mine {
            mine if mine >= self.owner => Some(self.owner),
            mine if all >= self.all && mine >= share => Some(self.all),
            _ => None,
        }
    }
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
    /// Too many commits of the last ten minutes have to be kept; the oldest is old enough after this.
    Full(Duration),
    /// Commits of the last ten minutes take up all of this many bytes; the oldest is old enough after this.
    NoRoom(usize, Duration),
}

impl Replays {
    /// Looks a request up, and makes room for its answer if it is new. O(log n) but for answers that may be forgotten
    /// now.
    pub fn find(
        &mut self,
        now: Instant,
        owner: &Owner,
        id: TxnId,
        digest: &RequestDigest,
        room: Room,
    ) -> Known {
        let others = self.bytes;
        let Some(kept) = self.owners.get_mut(owner) else { return Known::New };
        match kept.by_id.get(&id) {
            Some((d, reply)) if d == digest => return Known::Same(reply.clone()),
            Some(_) => return Known::Other,
            None => {}
        }
        let others = others - kept.bytes;
        while kept.order.len() >= KEPT_TRANSACTIONS
            && let Some(n) = kept.oldest_after(now)
        {
            kept.forget(n);
        }
        let known = loop {
            let limit = room.reached(kept.bytes, others + kept.bytes);
            if limit.is_none() && kept.order.len() < KEPT_MAX {
                break Known::New;
            }
            let Some((oldest, at)) = kept.oldest() else { break Known::New };
            let next = kept.oldest_after(now).or_else(|| kept.rejected.first().copied());
            let Some(n) = next.or_else(|| (*owner == Owner::File).then_some(oldest)) else {
                let wait = Duration(KEPT_FOR.0.saturating_sub(now.since(at).0));
                break limit.map_or(Known::Full(wait), |limit| Known::NoRoom(limit, wait));
            };
            kept.forget(n);
        };
        self.bytes = others + kept.bytes;
        known
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
        let n = kept.next;
        kept.next += 1;
        kept.order.insert(n, (now, reply.txn_id));
        if reply.outcome == Outcome::Rejected {
            kept.rejected.insert(n);
        }
        let before_it = kept.by_id.insert(reply.txn_id, (digest, KeptReply::new(reply, details)));
        assert!(before_it.is_none(), "a repetition is answered with what is kept, not kept again");
        self.bytes += kept.bytes - before;
    }

    /// Forgets all answers of an owner.
    pub fn forget_owner(&mut self, owner: &Owner) {
        self.bytes -= self.owners.remove(owner).map_or(0, |kept| kept.bytes);
    }

    /// Bytes that kept answers take: of all owners, and of one.
    pub fn bytes(&self, owner: &Owner) -> (usize, usize) {
        (self.bytes, self.owners.get(owner).map_or(0, |kept| kept.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::{Name, OpOutcome, OpResult};

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
        assert!(
            matches!(known(&mut replays, 600, &owner, new, 0), Known::Full(wait) if wait == Duration::from_secs(1))
        );
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
        let room = Room { owner: 100_000, all: 210_000, owners: 10 };
        let mut replays = Replays::default();
        let fill = |replays: &mut Replays, owner: &Owner| {
            for n in 0..1_000 {
                let reply = irregular(n, 1_000);
                match replays.find(at(1), owner, reply.txn_id, &[0; 32], room) {
                    Known::New => replays.keep(at(1), owner, [0; 32], &reply),
                    Known::NoRoom(limit, _) => return limit,
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
        assert_eq!(fill(&mut replays, &Owner::Api(Name::new("a").unwrap())), room.all);
        let (all, third) = replays.bytes(&Owner::Api(Name::new("a").unwrap()));
        assert!((21_000..21_000 + one).contains(&third), "{third}");
        assert!(all < 2 * room.all);
        // Ten minutes later there is room again.
        let find =
            |replays: &mut Replays, s, owner| replays.find(at(s), owner, reply(9_999).txn_id, &[0; 32], room);
        let wait = Duration::from_secs(600);
        assert!(matches!(find(&mut replays, 1, &Owner::Cli), Known::NoRoom(_, w) if w == wait));
        assert!(matches!(find(&mut replays, 602, &Owner::Cli), Known::New));
        let (all, mine) = replays.bytes(&Owner::Cli);
        assert!(mine < room.owner && all == mine + replays.bytes(&Owner::Agent).1 + third);
    }

    #[test]
    fn answers_that_said_no_give_way_and_the_file_always_gets_through() {
        let room = Room { owner: 100_000, all: 210_000, owners: 10 };
        let refusal = |n| Reply { outcome: Outcome::Rejected, ..irregular(n, 1_000) };
        for owner in [Owner::File, Owner::Cli] {
            let mut replays = Replays::default();
            replays.keep(at(1), &owner, [0; 32], &irregular(0, 10));
            for n in 1..1_000 {
                assert!(matches!(replays.find(at(1), &owner, reply(n).txn_id, &[0; 32], room), Known::New));
                replays.keep(at(1), &owner, [0; 32], &refusal(n));
            }
            let known = |replays: &mut Replays, n| {
                matches!(replays.find(at(1), &owner, reply(n).txn_id, &[0; 32], room), Known::Same(_))
            };
            assert!(known(&mut replays, 0), "what was committed stays");
            assert!(!known(&mut replays, 1) && known(&mut replays, 999), "the oldest refusals went");
            assert!(replays.bytes(&owner).1 < 2 * room.owner);
        }
        let mut replays = Replays::default();
        for n in 0..1_000 {
            let known = replays.find(at(1), &Owner::File, reply(n).txn_id, &[0; 32], room);
            assert!(matches!(known, Known::New), "{known:?}");
            replays.keep(at(1), &Owner::File, [0; 32], &irregular(n, 1_000));
        }
        assert!(replays.bytes(&Owner::File).1 < 2 * room.owner);
    }
}
