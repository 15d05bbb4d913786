//! Read-back: pages pinned to one revision, digests by owner.

use super::store::Draft;
use super::validate::implied_defaults;
use super::{Control, Planner};
use perhop_model::{
    ErrorItem, Key, Kind, Name, ObjectState, Owner, OwnerDigest, Spec, StatePage, StateQuery, Status,
};
use perhop_reason::Code;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Objects of a page unless the query says otherwise.
pub const PAGE: usize = 1000;
/// Objects of a page at the most.
pub const PAGE_MAX: usize = 10_000;
/// Revisions kept for readers that are between pages.
const KEPT: usize = 8;

type Digests = BTreeMap<String, OwnerDigest>;

#[derive(Debug)]
struct Snapshot {
    revision: u64,
    objects: Arc<Vec<ObjectState>>,
    digests: Digests,
}

/// Materialised states of recent revisions that somebody reads.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    kept: VecDeque<Snapshot>,
}

impl<P: Planner> Control<P> {
    /// One page of the state. The first page of a read pins the current revision; the cursor carries it on.
    ///
    /// # Errors
    /// `malformed` for a cursor that is none, `stale_revision` when the pinned revision is no longer kept.
    pub fn state(&mut self, query: &StateQuery) -> Result<StatePage, ErrorItem> {
        let (revision, from) = match &query.cursor {
            None => (self.revision, None),
            Some(text) => {
                let (revision, key) = parse_cursor(text).ok_or_else(|| {
                    super::whole(Code::Malformed, format!("{text:?} is not a cursor of this router"))
                })?;
                (revision, Some(key))
            }
        };
        if query.cursor.is_none() {
            self.take_snapshot();
        }
        let snapshot = self.snapshots.kept.iter().find(|s| s.revision == revision).ok_or_else(|| {
            super::whole(Code::StaleRevision, format!("revision {revision} is no longer kept; read again"))
        })?;
        let limit = query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
        let wanted = |o: &&ObjectState| {
            query.owner.as_ref().is_none_or(|w| *w == o.owner)
                && query.kind.is_none_or(|w| w == o.kind)
                && query.prefix.as_ref().is_none_or(|w| o.name.as_str().starts_with(w.as_str()))
                && from.as_ref().is_none_or(|(kind, name, id)| (o.kind, &o.name, o.id) > (*kind, name, *id))
        };
        let mut objects: Vec<ObjectState> =
            snapshot.objects.iter().filter(wanted).take(limit + 1).cloned().collect();
        let more = objects.len() > limit;
        objects.truncate(limit);
        let cursor =
            objects.last().filter(|_| more).map(|o| format!("{revision}.{}.{}.{}", o.kind, o.id, o.name));
        Ok(StatePage { epoch: self.epoch, revision, objects, cursor, digests: snapshot.digests.clone() })
    }

    fn take_snapshot(&mut self) {
        // Draining objects come and go without a new revision, so the newest state is always built anew.
        self.snapshots.kept.retain(|s| s.revision != self.revision);
        let mut objects: Vec<ObjectState> =
            self.objects.iter().map(|(k, e)| e.state(k, Status::Active)).collect();
        // What is read is what is in force: a default that nobody named is one all the same.
        let draft = Draft::indexed(&self.objects, &self.index);
        let implied: BTreeSet<&Name> = implied_defaults(&draft).into_values().collect();
        for o in objects.iter_mut().filter(|o| o.kind == Kind::Class && implied.contains(&o.name)) {
            if let Spec::Class(c) = &mut o.spec {
                c.default = true;
            }
        }
        let digests = digests(&objects);
        objects.extend(self.draining.values().cloned());
        objects.sort_by(|a, b| (a.kind, &a.name, a.id).cmp(&(b.kind, &b.name, b.id)));
        self.snapshots.kept.push_back(Snapshot {
            revision: self.revision,
            objects: Arc::new(objects),
            digests,
        });
        while self.snapshots.kept.len() > KEPT {
            self.snapshots.kept.pop_front();
        }
    }
}

fn parse_cursor(text: &str) -> Option<(u64, (Kind, Name, u64))> {
    let mut parts = text.splitn(4, '.');
    let revision = parts.next()?.parse().ok()?;
    let kind = parts.next()?.parse().ok()?;
    let id = parts.next()?.parse().ok()?;
    let name = Name::new(parts.next()?).ok()?;
    Some((revision, (kind, name, id)))
}

/// SHA-256 over what each owner has: one canonical JSON line an object.
fn digests(objects: &[ObjectState]) -> Digests {
    let mut hashers: BTreeMap<&Owner, (u64, Sha256)> = BTreeMap::new();
    for o in objects {
        let (count, hasher) = hashers.entry(&o.owner).or_insert_with(|| (0, Sha256::new()));
        *count += 1;
        let key = Key { kind: o.kind, name: o.name.clone() };
        hasher.update(key.to_string().as_bytes());
        hasher.update(serde_json::to_vec(&o.spec).expect("a specification is plain data"));
        hasher.update(b"\n");
    }
    hashers
        .into_iter()
        .map(|(owner, (objects, hasher))| {
            let sha256 = hasher.finalize().iter().map(|b| format!("{b:02x}")).collect();
            (owner.to_string(), OwnerDigest { objects, sha256 })
        })
        .collect()
}
