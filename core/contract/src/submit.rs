//! Serving one transaction: authorise, replay, draft, validate, install.

use super::commit::{GraphRequest, RESET_ALL};
use super::replay::{KEPT_FOR, KEPT_MAX, Known, RequestDigest, Room};
use super::store::Draft;
use super::work::{Finished, Work};
use super::{
    Cause, Control, Limits, MAX_PENDING, OWNERS_LIMIT, Pending, Planner, Waiting, item, only_checks,
    validate, whole,
};
use perhop_model::{
    Credentials, ErrorItem, Key, MAX_OPS, Op, OpOutcome, OpResult, Outcome, Owner, Reply, Role, Transaction,
    TxnId,
};
use perhop_reason::Code;
use perhop_units::{Duration, Instant};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Errors that an answer says at the most; the last item says how many more there are.
pub const ERRORS_MAX: usize = 1_000;
/// Bytes of paths, messages and values of them.
const ERROR_BYTES_MAX: usize = 256 << 10;

impl<P: Planner> Control<P> {
    pub(super) fn serve(&mut self, now: Instant, waiting: Waiting) {
        let digest = digest(&waiting.transaction);
        // Before anything is looked up or kept under the owner's name: is it the owner who asks?
        if let Err(error) = permitted(&waiting.who, &waiting.transaction) {
            return self.reject(&waiting, vec![error], None);
        }
        if !only_checks(&waiting.transaction) && self.answered_before(now, &waiting, &digest) {
            return;
        }
        let worked = self.admit(&waiting.transaction).map_err(|e| vec![e]);
        match worked.and_then(|()| self.work_out(now, &waiting.transaction)) {
            Ok(finished) => self.settle(now, waiting, digest, finished),
            Err(errors) => self.refuse(now, &waiting, digest, errors),
        }
    }

    /// Answers a repetition as before, and refuses what could not be answered again. `false`: it is new and its answer
    /// can be kept.
    fn answered_before(&mut self, now: Instant, waiting: &Waiting, digest: &RequestDigest) -> bool {
        let t = &waiting.transaction;
        let Limits { owners, kept_bytes_each, kept_bytes, .. } = self.limits;
        if !self.takes_owner(&t.owner) {
            self.hits.hit(OWNERS_LIMIT, owners);
            let why = format!("all {owners} owners have objects, or committed or claimed a short while ago");
            self.reject(waiting, vec![limited(why, owners)], Some(retry_after_ms(KEPT_FOR)));
            return true;
        }
        if self.owners.keeps_answers(&t.owner) {
            return false;
        }
        let room = Room { owner: kept_bytes_each, all: kept_bytes, owners };
        match self.replays.find(now, &t.owner, t.txn_id, digest, room) {
            Known::New => return false,
            Known::Same(kept) => {
                let again = Reply { replayed: true, ..kept.reply(self.epoch, t.txn_id) };
                self.answer(waiting.request, Arc::new(again));
            }
            Known::Other => {
                let why = "this transaction id was used for another request".to_owned();
                self.reject(waiting, vec![whole(Code::TxnIdReused, why)], None);
            }
            Known::Full(wait) => {
                self.hits.hit("kept_answers", KEPT_MAX);
                let why = "too many answers are kept for this owner".to_owned();
                self.reject(waiting, vec![full(why, KEPT_MAX)], Some(retry_after_ms(wait)));
            }
            Known::NoRoom(limit, wait) => {
                self.hits.hit("kept_bytes", limit);
                let why = format!("the answers kept for repetitions take up their {limit} bytes");
                self.reject(waiting, vec![full(why, limit)], Some(retry_after_ms(wait)));
            }
        }
        true
    }

    /// Keeps an answer for who may ask again.
    pub(super) fn keep(&mut self, now: Instant, owner: &Owner, digest: RequestDigest, reply: &Reply) {
        if !self.owners.keeps_answers(owner) {
            self.replays.keep(now, owner, digest, reply);
        }
    }

    /// Whether this owner's instance may change this revision at all.
    fn admit(&self, t: &Transaction) -> Result<(), ErrorItem> {
        let fence = self.owners.fence(&t.owner);
        if t.fence < fence {
            let why = format!("fence {} of {} is older than {fence}", t.fence, t.owner);
            return Err(whole(Code::Fenced, why));
        }
        if self.soft.has_lapsed(self.now, &t.owner) {
            return Err(whole(Code::Fenced, format!("the lease of {} has ended: claim it again", t.owner)));
        }
        if let Some(r) = t.if_revision.filter(|r| *r != self.revision) {
            let why = format!("the router is at revision {}, not {r}", self.revision);
            return Err(whole(Code::StaleRevision, why));
        }
        if t.ops.is_empty() || t.ops.len() > MAX_OPS {
            let mut item =
                whole(Code::Malformed, format!("{} operations; allowed are 1 to {MAX_OPS}", t.ops.len()));
            item.limit = Some(MAX_OPS as u64);
            return Err(item);
        }
        if t.confirm_within_ms.is_some_and(|ms| ms == 0 || ms > 86_400_000) {
            return Err(whole(Code::OutOfRange, "confirm_within_ms is 1 to 86400000".to_owned()));
        }
        Ok(())
    }

    /// The whole judgement of a transaction.
    fn work_out(&self, now: Instant, t: &Transaction) -> Result<Finished, Vec<ErrorItem>> {
        let mut work = self.draft(now, t);
        let mut errors = std::mem::take(&mut work.errors);
        errors.extend(self.conflicts(&work));
        if !errors.is_empty() {
            // What can be said of the others in spite of it.
            errors.extend(validate::validate_partly(&work.draft, &work.ops, &work.broken));
            return Err(errors);
        }
        errors = validate::validate(&work.draft, &work.ops, &self.limits);
        if errors.is_empty() {
            errors = self.planner.check(&work.draft, work.graph.as_ref());
        }
        if errors.is_empty() {
            errors = self.survives_reverts(&work);
        }
        if errors.is_empty() && t.confirm_within_ms.is_some() {
            errors.extend(self.too_many_pending(work.confirms.len()));
        }
        if errors.is_empty() { Ok(work.finish()) } else { Err(errors) }
    }

    fn too_many_pending(&self, confirmed: usize) -> Option<ErrorItem> {
        let why = format!("{MAX_PENDING} commits wait for their confirmation already");
        let full = self.pending.len() - confirmed >= MAX_PENDING;
        full.then(|| ErrorItem { limit: Some(MAX_PENDING as u64), ..whole(Code::LimitReached, why) })
    }

    /// Works the operations out against the current state.
    fn draft(&self, now: Instant, t: &Transaction) -> Work<'_> {
        let mut work = Work::new(Draft::indexed(&self.objects, &self.index), self.next_id);
        let version = self.revision + 1;
        for (i, op) in t.ops.iter().enumerate() {
            let result = match op {
                Op::Confirm { txn_id } => self.confirm(&mut work, i, &t.owner, *txn_id),
                op => work.apply(now, i, op, t, version),
            };
            match result {
                Ok(r) => work.results.push(r),
                Err(e) => {
                    work.errors.push(e);
                    match op {
                        Op::Put(put) => drop(work.broken.insert(put.given.key())),
                        Op::Patch { kind, name, .. } => {
                            work.broken.insert(Key { kind: *kind, name: name.clone() });
                        }
                        _ => {}
                    }
                }
            }
        }
        work
    }

    fn confirm(
        &self,
        work: &mut Work<'_>,
        op: usize,
        owner: &Owner,
        txn_id: TxnId,
    ) -> Result<OpResult, ErrorItem> {
        let Some(at) = self.pending.iter().position(|p| p.txn_id == txn_id && p.owner == *owner) else {
            let why = format!("no transaction {txn_id} of {owner} waits for confirmation");
            return Err(item(op, "txn_id", Code::NotFound, why));
        };
        if work.confirms.contains(&at) {
            let why = format!("transaction {txn_id} is confirmed twice");
            return Err(item(op, "txn_id", Code::Malformed, why));
        }
        work.confirms.push(at);
        Ok(OpResult { outcome: OpOutcome::Updated, id: 0, version: 0 })
    }

    /// Objects that wait for another transaction's confirmation must not be touched.
    fn conflicts(&self, work: &Work<'_>) -> Vec<ErrorItem> {
        let mut errors = Vec::new();
        for (at, p) in self.pending.iter().enumerate() {
            if work.confirms.contains(&at) {
                continue;
            }
            let waiting =
                |what: &str| format!("{what} waits for {} to confirm transaction {}", p.owner, p.txn_id);
            for key in work.draft.changes().keys().filter(|k| p.undo.contains_key(*k)) {
                let op = work.ops.get(key).copied();
                errors.push(ErrorItem {
                    op,
                    path: format!("{}/{}", key.kind, key.name),
                    ..whole(Code::PendingConfirm, waiting(&key.to_string()))
                });
            }
            if let (Some(g), Some(_)) = (&work.graph, &p.undo_graph) {
                errors.push(item(g.op, "text", Code::PendingConfirm, waiting("the graph")));
            }
        }
        errors
    }

    /// A pending commit may be taken back at any time, so the draft must be valid without it too.
    fn survives_reverts(&self, work: &Work<'_>) -> Vec<ErrorItem> {
        let Some((at, errors)) = self.broken_by_reverts(&work.draft, &work.ops, &work.confirms) else {
            return Vec::new();
        };
        let p = &self.pending[at];
        let pending = |e: ErrorItem| ErrorItem {
            code: Code::PendingConfirm,
            message: format!(
                "it would not be valid if {}'s unconfirmed transaction {} were taken back: {}",
                p.owner, p.txn_id, e.message
            ),
            ..e
        };
        errors.into_iter().map(pending).collect()
    }

    fn settle(&mut self, now: Instant, waiting: Waiting, digest: RequestDigest, done: Finished) {
        let Waiting { request, transaction: t, received, .. } = waiting;
        let mut reply = self.reply(&t, received, Outcome::Checked);
        reply.ops = done.results;
        if only_checks(&t) {
            return self.answer(request, Arc::new(reply));
        }
        // Only now: what is refused must not shut the owner's running instance out.
        self.owners.accepted(now, &t.owner, t.fence);
        let mut confirms = done.confirms;
        confirms.sort_unstable();
        for at in confirms.into_iter().rev() {
            self.pending.remove(at);
        }
        assert!(done.next_id >= self.next_id, "ids are given upwards, and none twice");
        self.next_id = done.next_id;
        reply.outcome = Outcome::Committed;
        let next = done.next;
        let forced =
            t.force && next.changes.keys().any(|k| self.objects.get(k).is_some_and(|e| e.owner != t.owner));
        if let Some(ms) = t.confirm_within_ms {
            let undo = next.changes.keys().map(|k| (k.clone(), self.objects.get(k).cloned())).collect();
            let undo_graph = next.graph.as_ref().map(|_| self.graph_to_return_to());
            let deadline = now + Duration::from_millis(ms);
            let (owner, txn_id) = (t.owner.clone(), t.txn_id);
            assert!(self.pending.len() < MAX_PENDING, "`work_out` has refused what would be one too many");
            self.pending.push(Pending { owner, txn_id, deadline, undo, undo_graph });
        }
        if done.quiet {
            // Nothing for the workers to do: the state is what was asked for already.
            next.changes.into_iter().for_each(|(key, entry)| self.put_object(key, entry));
            reply.committed_ns = now.as_nanos();
            self.keep(now, &t.owner, digest, &reply);
            return self.answer(request, Arc::new(reply));
        }
        let cause =
            Cause::Transaction { request, reply: Box::new(reply), digest, owner: t.owner.clone(), forced };
        self.install(now, next, cause);
    }

    /// The present graph as a request that cannot be refused: state that does not fit back is lost.
    fn graph_to_return_to(&self) -> GraphRequest {
        let text = self.graph.as_ref().map_or(String::new(), |g| g.text.clone());
        GraphRequest { text, reset: vec![RESET_ALL.to_owned()], op: 0 }
    }

    /// Rejects and keeps the answer for repetitions.
    fn refuse(&mut self, now: Instant, waiting: &Waiting, digest: RequestDigest, errors: Vec<ErrorItem>) {
        let mut reply = self.reply(&waiting.transaction, waiting.received, Outcome::Rejected);
        reply.errors = cut(errors);
        if !only_checks(&waiting.transaction) {
            let owner = &waiting.transaction.owner;
            self.owners.refused(now, owner);
            self.keep(now, owner, digest, &reply);
        }
        self.answer(waiting.request, Arc::new(reply));
    }

    /// Rejects without keeping the answer.
    fn reject(&mut self, waiting: &Waiting, errors: Vec<ErrorItem>, retry_after_ms: Option<u64>) {
        let mut reply = self.reply(&waiting.transaction, waiting.received, Outcome::Rejected);
        reply.errors = errors;
        reply.retry_after_ms = retry_after_ms;
        self.answer(waiting.request, Arc::new(reply));
    }
}

/// Whether these credentials may ask this at all.
fn permitted(who: &Credentials, t: &Transaction) -> Result<(), ErrorItem> {
    let forbidden = |why: String| Err(whole(Code::Forbidden, why));
    if who.role == Role::Read && !only_checks(t) {
        return forbidden("the role read may not change anything".to_owned());
    }
    if !who.speaks.covers(&t.owner) {
        return forbidden(format!("these credentials speak for {}, not for {}", who.speaks, t.owner));
    }
    if t.force && who.role != Role::Admin {
        return forbidden("force needs the role admin".to_owned());
    }
    Ok(())
}

/// A limit that was reached by a transaction as a whole; nothing is free.
fn limited(why: String, limit: usize) -> ErrorItem {
    ErrorItem { limit: Some(limit as u64), free: Some(0), ..whole(Code::LimitReached, why) }
}

/// A limit that time alone gives room under again.
fn full(why: String, limit: usize) -> ErrorItem {
    ErrorItem { code: Code::Overload, ..limited(why, limit) }
}

fn retry_after_ms(wait: Duration) -> u64 {
    (wait.0 / 1_000_000).max(1_000)
}

/// The errors that an answer says: the first [`ERRORS_MAX`], or less if they have more than [`ERROR_BYTES_MAX`], and how
/// many there are besides, with the code of the first of them.
fn cut(mut errors: Vec<ErrorItem>) -> Vec<ErrorItem> {
    let mut bytes = 0;
    let mut fits = |e: &ErrorItem| {
        bytes += e.path.len() + e.message.len() + e.value.as_ref().map_or(0, |v| v.to_string().len());
        bytes <= ERROR_BYTES_MAX
    };
    let said = errors.iter().take(ERRORS_MAX).take_while(|e| fits(e)).count();
    if said == errors.len() {
        return errors;
    }
    let (first, more) = (errors[said].code, errors.len() - said);
    errors.truncate(said);
    let why = format!(
        "{more} more errors; an answer says {ERRORS_MAX} and {ERROR_BYTES_MAX} bytes of them at most"
    );
    errors.push(ErrorItem { limit: Some(ERRORS_MAX as u64), ..whole(first, why) });
    errors
}

fn digest(t: &Transaction) -> RequestDigest {
    Sha256::digest(serde_json::to_vec(t).expect("a transaction is plain data")).into()
}
