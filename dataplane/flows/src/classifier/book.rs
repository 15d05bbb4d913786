//! Control's side of a classifier: who has which number, which copy has seen which change.

use super::delta::{Delta, DeltaLog};
use super::refusal::{RuleError, check};
use super::rule::Rule;
use super::secret::Secret;
use super::uses::Uses;
use super::{AuxMask, Classifier};
use foldhash::fast::FixedState;
use perhop_packet::FilterId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// One rule put in or taken out.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub rule: Arc<Rule>,
    pub slot: u32,
    pub inserts: bool,
}

/// A changed classifier, and what changed, for verdicts that were cached before.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The new set.
    pub classifier: Arc<Classifier>,
    /// One entry a rule added or removed, or a single [`Delta::All`].
    pub deltas: Vec<Delta>,
}

/// The rules as control keeps them: makes each change in a copy that nobody reads, and remembers it for the other.
#[derive(Debug, Default)]
pub struct RuleBook {
    register: Register,
    /// In force.
    front: Arc<Classifier>,
    /// Copies that were in force, the latest last; workers may still hold them.
    spares: Vec<Spare>,
    /// The latest edits, as many as some copy lacks.
    log: VecDeque<Edit>,
    /// Edits made so far.
    made: u64,
    staged: Option<Staged>,
}

#[derive(Debug)]
struct Spare {
    classifier: Arc<Classifier>,
    /// Edits it has seen.
    seen: u64,
}

/// A copy with a change that is not in force.
#[derive(Debug)]
struct Staged {
    classifier: Arc<Classifier>,
    edits: Vec<Edit>,
}

/// Copies kept besides that in force. More than one are needed only while a worker holds one for long.
const SPARES: usize = 3;

impl RuleBook {
    /// The most rules.
    pub const MAX_RULES: usize = 1 << super::entry::SLOT_BITS;

    /// An empty book for rules that others may choose: `seed`, which they must not know, decides which of them meet in one
    /// line of a table. Without it ([`RuleBook::default`]) everything is where it was the last time.
    pub fn keyed(seed: u64) -> Self {
        Self { front: Arc::new(Classifier::new(Secret::of(seed))), ..Self::default() }
    }

    /// A book of `rules`.
    ///
    /// # Errors
    /// Those of [`RuleBook::change`].
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Result<Self, RuleError> {
        let mut book = Self::default();
        book.change(rules.into_iter().collect(), &[])?;
        Ok(book)
    }

    /// The rules in force.
    pub fn classifier(&self) -> &Arc<Classifier> {
        &self.front
    }

    /// The same without what changing them takes.
    pub fn into_classifier(self) -> Arc<Classifier> {
        self.front
    }

    /// Takes `removed` out, then puts `added` in; a changed rule is in both. O(changes), but for a change that finds all
    /// copies in use or far behind, which costs O(rules).
    ///
    /// # Errors
    /// The first change that is wrong or beyond a limit; nothing was changed.
    pub fn change(&mut self, added: Vec<Rule>, removed: &[FilterId]) -> Result<Changed, RuleError> {
        if !self.staged.as_ref().is_some_and(|s| s.is(&added, removed)) {
            self.stage(added, removed)?;
        }
        Ok(self.publish())
    }

    /// Whether [`RuleBook::change`] would succeed; when it is next called with the same rules, the work is already done.
    /// What is in force stays as it is.
    ///
    /// # Errors
    /// Those of [`RuleBook::change`].
    pub fn check(&mut self, added: Vec<Rule>, removed: &[FilterId]) -> Result<(), RuleError> {
        self.stage(added, removed)
    }

    fn stage(&mut self, added: Vec<Rule>, removed: &[FilterId]) -> Result<(), RuleError> {
        self.discard();
        let mut classifier = self.standby();
        let edited = Arc::get_mut(&mut classifier).expect("a standby is held by nobody else");
        let mut edits = Vec::with_capacity(added.len() + removed.len());
        let register = &mut self.register;
        let all = || -> Result<(), RuleError> {
            for id in removed {
                let edit = register.removal(*id)?;
                edited.apply(&edit).expect("taking out meets no limit");
                register.note(&edit);
                edits.push(edit);
            }
            for rule in added {
                let edit = register.insertion(rule)?;
                edited.apply(&edit).map_err(|limit| RuleError::of(limit, &edit.rule))?;
                register.note(&edit);
                edits.push(edit);
            }
            Ok(())
        };
        let done = all();
        self.staged = Some(Staged { classifier, edits });
        if done.is_err() {
            self.discard();
        }
        done
    }

    /// Undoes what is staged.
    fn discard(&mut self) {
        let Some(Staged { mut classifier, edits }) = self.staged.take() else { return };
        let mut whole = true;
        for edit in edits.into_iter().rev() {
            let undo = Edit { inserts: !edit.inserts, ..edit };
            self.register.note(&undo);
            // Where rules lie depends on what came before, so that a limit may be met that was not met then.
            let copy = Arc::get_mut(&mut classifier).expect("nobody has a copy that is staged");
            whole = whole && copy.apply(&undo).is_ok();
        }
        if whole {
            self.spares.push(Spare { classifier, seen: self.made });
        }
    }

    /// Puts what is staged in force.
    fn publish(&mut self) -> Changed {
        let Some(Staged { mut classifier, edits }) = self.staged.take() else {
            return Changed { classifier: Arc::clone(&self.front), deltas: Vec::new() };
        };
        let aux = self.register.uses.masks();
        Arc::get_mut(&mut classifier).expect("nobody has a copy that is staged").aux = aux;
        assert_eq!(classifier.len(), self.register.by_id.len(), "a copy in force has all edits, each once");
        let deltas = deltas(&edits, self.front.aux, aux);
        let old = std::mem::replace(&mut self.front, classifier);
        self.spares.push(Spare { classifier: old, seen: self.made });
        self.made += edits.len() as u64;
        self.log.extend(edits);
        self.forget();
        Changed { classifier: Arc::clone(&self.front), deltas }
    }

    /// Lets go of copies that it would cost less to make anew, and of edits that all others have seen.
    fn forget(&mut self) {
        let most = self.front.len() as u64 / 8 + 64;
        self.spares.retain(|s| self.made - s.seen <= most);
        let more = self.spares.len().saturating_sub(SPARES);
        self.spares.drain(..more);
        let oldest = self.spares.iter().map(|s| s.seen).min().unwrap_or(self.made);
        let needed = (self.made - oldest) as usize;
        self.log.drain(..self.log.len() - needed);
    }

    /// A copy of the rules in force that nobody else holds.
    fn standby(&mut self) -> Arc<Classifier> {
        let free = self.spares.iter_mut().rposition(|s| Arc::get_mut(&mut s.classifier).is_some());
        let spare = free.map(|at| self.spares.remove(at)).and_then(|mut spare| {
            let edited = Arc::get_mut(&mut spare.classifier)?;
            let lacks = (self.made - spare.seen) as usize;
            let mut edits = self.log.range(self.log.len() - lacks..);
            // As above: a copy that cannot follow is given up.
            edits.all(|edit| edited.apply(edit).is_ok()).then_some(spare.classifier)
        });
        spare.unwrap_or_else(|| Arc::new(Classifier::clone(&self.front)))
    }
}

impl Staged {
    /// Whether this is what `added` and `removed` ask for.
    fn is(&self, added: &[Rule], removed: &[FilterId]) -> bool {
        self.edits.len() == added.len() + removed.len()
            && self.edits.iter().zip(removed).all(|(edit, id)| !edit.inserts && edit.rule.id == *id)
            && self.edits[removed.len()..].iter().zip(added).all(|(edit, rule)| *edit.rule == *rule)
    }
}

fn deltas(edits: &[Edit], before: AuxMask, after: AuxMask) -> Vec<Delta> {
    // A verdict is cached under the bits that were looked at then; under other bits it means something else.
    if before != after || edits.len() > DeltaLog::AT_ONCE {
        return vec![Delta::All];
    }
    edits.iter().map(|e| Delta::Rule(e.rule.matches)).collect()
}

/// Who has which number.
#[derive(Debug, Default)]
struct Register {
    by_id: HashMap<FilterId, u32, FixedState>,
    by_slot: Vec<Option<Arc<Rule>>>,
    free: Vec<u32>,
    uses: Uses,
}

impl Register {
    /// The edit that puts `rule` in.
    fn insertion(&self, rule: Rule) -> Result<Edit, RuleError> {
        check(&rule)?;
        let name = || Arc::clone(&rule.name);
        if !rule.id.is_some() || self.by_id.contains_key(&rule.id) {
            return Err(RuleError::Duplicate { name: name(), id: rule.id });
        }
        if self.by_id.len() >= RuleBook::MAX_RULES {
            return Err(RuleError::TooManyRules { name: name() });
        }
        let slot = self.free.last().copied().unwrap_or(self.by_slot.len() as u32);
        Ok(Edit { rule: Arc::new(rule), slot, inserts: true })
    }

    /// The edit that takes the rule with `id` out.
    fn removal(&self, id: FilterId) -> Result<Edit, RuleError> {
        let slot = self.by_id.get(&id).copied();
        let found = slot.and_then(|s| Some((s, self.by_slot.get(s as usize)?.as_ref()?)));
        let (slot, rule) = found.ok_or(RuleError::Unknown { id })?;
        Ok(Edit { rule: Arc::clone(rule), slot, inserts: false })
    }

    fn note(&mut self, edit: &Edit) {
        let Edit { rule, slot, inserts } = edit;
        let at = *slot as usize;
        if !inserts {
            self.uses.count(rule, |n| *n -= 1);
            assert_eq!(self.by_id.remove(&rule.id), Some(*slot), "a rule that goes has its number");
            self.by_slot[at] = None;
            self.free.push(*slot);
            return;
        }
        self.uses.count(rule, |n| *n += 1);
        assert!(self.by_id.insert(rule.id, *slot).is_none(), "an id is one rule's");
        if at == self.by_slot.len() {
            self.by_slot.push(None);
        } else {
            assert_eq!(self.free.pop(), Some(*slot), "also when undone, it is the latest that became free");
        }
        self.by_slot[at] = Some(Arc::clone(rule));
    }
}
