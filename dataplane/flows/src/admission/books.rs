//! Admission's books: of one worker, or of all workers of a router together.
//!
//! What admitted flows carry counts wherever they are, so several workers keep one set of books and take it in turns: for a
//! packet of a recognised flow, when an interval ends, and when a flow goes. Each knows its own flows by its own numbers.

use super::{Admission, AdmissionCounters, AdmissionSettings, Origin, Shortage, Standing, Turned};
use perhop_units::{Instant, Rate};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The books of several workers.
#[derive(Clone, Debug)]
pub struct SharedAdmission {
    all: Arc<Mutex<Admission>>,
    /// Numbers of flows that each worker has.
    owners: u32,
}

impl SharedAdmission {
    /// For `workers`, each with flows numbered below `owners`.
    pub(crate) fn new(workers: usize, owners: usize) -> Self {
        Self { all: Arc::new(Mutex::new(Admission::new(workers * owners))), owners: owners as u32 }
    }
}

/// See the module. As [`Admission`], method for method.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one a worker, and that of a worker alone is asked often"
)]
pub(crate) enum Books {
    Own(Admission),
    Shared(Share),
}

/// A worker's part in the books of all.
#[derive(Debug)]
pub(crate) struct Share {
    with: SharedAdmission,
    /// Number of this worker's first flow in the books, and whether it tells the totals.
    first: u32,
    settings: Option<AdmissionSettings>,
    /// End of the interval, as of the last look.
    next: Instant,
    dropped: Vec<(u32, Shortage)>,
}

impl Share {
    fn take(&self) -> MutexGuard<'_, Admission> {
        self.with.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what is over, and fetches which of this worker's flows were dropped.
    fn look(&mut self, act: impl FnOnce(&mut Admission)) {
        let Self { with, first, next, dropped, .. } = self;
        let mut all = with.all.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut all);
        *next = all.next;
        let mine = *first..*first + with.owners;
        all.dropped.retain(|(owner, shortage)| {
            let here = mine.contains(owner);
            dropped.extend(here.then(|| (owner - mine.start, *shortage)));
            !here
        });
    }

    fn tells(&self) -> bool {
        self.first == 0
    }
}

impl Books {
    /// The part of worker `worker` in the books of all.
    pub fn join(shared: &SharedAdmission, worker: usize) -> Self {
        let first = worker as u32 * shared.owners;
        let (settings, next) = (None, Instant::ZERO);
        Self::Shared(Share { with: shared.clone(), first, settings, next, dropped: Vec::new() })
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.settings().is_some()
    }

    pub fn settings(&self) -> Option<&AdmissionSettings> {
        match self {
            Self::Own(own) => own.settings(),
            Self::Shared(share) => share.settings.as_ref(),
        }
    }

    /// What happens to packets of flows that are not admitted.
    pub fn turned(&self) -> Turned {
        self.settings().map_or(Turned::Demote, |s| s.turned)
    }

    pub fn seed(&mut self, seed: u64) {
        match self {
            Self::Own(own) => own.seed(seed),
            Self::Shared(share) => share.take().seed(seed),
        }
    }

    /// Of the same settings the first of several workers makes the change.
    pub fn set(&mut self, now: Instant, settings: Option<&AdmissionSettings>) {
        match self {
            Self::Own(own) => own.set(now, settings),
            Self::Shared(share) => {
                share.look(|all| all.set(now, settings));
                share.settings = settings.cloned();
            }
        }
    }

    pub fn packet(
        &mut self,
        now: Instant,
        owner: u32,
        len: u64,
        origin: Origin,
        known: bool,
    ) -> (bool, Option<Shortage>) {
        match self {
            Self::Own(own) => own.packet(now, owner, len, origin, known),
            Self::Shared(share) => share.take().packet(now, share.first + owner, len, origin, known),
        }
    }

    pub fn end(&mut self, owner: u32) {
        match self {
            Self::Own(own) => own.end(owner),
            // Without admission nobody has flows in the books.
            Self::Shared(share) if share.settings.is_none() => {}
            Self::Shared(share) => share.take().end(share.first + owner),
        }
    }

    /// Number of this worker's flow in the books of all.
    pub fn number(&self, owner: u32) -> u32 {
        match self {
            Self::Own(_) => owner,
            Self::Shared(share) => share.first + owner,
        }
    }

    /// The flow that has this number in the books of all is this worker's flow `owner` from now on.
    pub fn take_over(&mut self, number: u32, owner: u32) {
        match self {
            Self::Own(own) => own.rename(number, owner),
            Self::Shared(share) if share.settings.is_none() => {}
            Self::Shared(share) => share.take().rename(number, share.first + owner),
        }
    }

    #[inline]
    pub fn tick(&mut self, now: Instant) {
        match self {
            Self::Own(own) => own.tick(now),
            Self::Shared(share) if now >= share.next => share.look(|all| all.tick(now)),
            Self::Shared(_) => {}
        }
    }

    pub fn take_dropped(&mut self) -> std::vec::Drain<'_, (u32, Shortage)> {
        match self {
            Self::Own(own) => own.take_dropped(),
            Self::Shared(share) => share.dropped.drain(..),
        }
    }

    pub fn next_tick(&self) -> Option<Instant> {
        match self {
            Self::Own(own) => own.next_tick(),
            Self::Shared(share) => share.settings.as_ref().and_then(|_| share.take().next_tick()),
        }
    }

    pub fn standing(&self, owner: u32) -> Option<Standing> {
        match self {
            Self::Own(own) => own.standing(owner),
            Self::Shared(share) => share.take().standing(share.first + owner),
        }
    }

    /// Counters, flows admitted and what they carry: of all workers, by the first alone; zeros by the others.
    pub fn totals(&self) -> (AdmissionCounters, u32, Rate) {
        let of = |a: &Admission| (a.counters, a.admitted(), a.used());
        match self {
            Self::Own(own) => of(own),
            Self::Shared(share) if share.tells() => of(&share.take()),
            Self::Shared(_) => (AdmissionCounters::default(), 0, Rate(0)),
        }
    }

    /// Whether [`Books::totals`] are told here.
    pub fn tells(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared(share) => share.tells(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_packet::{PortId, SlaId};
    use perhop_units::Duration;

    const ANYBODY: Origin = Origin { sla: SlaId::NONE, from: PortId::NONE };

    fn settings(cap: u64) -> AdmissionSettings {
        let (interval, idle) = (Duration::from_millis(100), Duration::from_secs(1));
        AdmissionSettings { cap: Rate(cap), interval, idle, new_flow: Rate(100_000), ..Default::default() }
    }

    /// What two workers decide together is what one decides about the same packets.
    #[test]
    fn several_workers_admit_what_one_would() {
        let shared = SharedAdmission::new(2, 64);
        let mut crew = [0, 1].map(|worker| Books::join(&shared, worker));
        let mut alone = Books::Own(Admission::new(128));
        let config = settings(1_000_000);
        let begin = Instant(1_000_000_000);
        alone.set(begin, Some(&config));
        crew.iter_mut().for_each(|one| one.set(begin, Some(&config)));
        let mut told = [Vec::new(), Vec::new()];
        for step in 0..6_000u64 {
            let now = begin + Duration(step * 1_000_000);
            let flow = (step * 7 % 40) as u32;
            let (worker, owner) = (flow as usize % 2, flow / 2);
            // Later they carry more than was expected, and some must go.
            let len = if step > 3_000 { 900 } else { 300 };
            crew.iter_mut().for_each(|one| one.tick(now));
            alone.tick(now);
            let one = alone.packet(now, worker as u32 * 64 + owner, len, ANYBODY, false);
            assert_eq!(crew[worker].packet(now, owner, len, ANYBODY, false), one, "step {step}");
            told[0].extend(alone.take_dropped().map(|(owner, _)| owner));
            for (worker, books) in crew.iter_mut().enumerate() {
                told[1].extend(books.take_dropped().map(|(owner, _)| worker as u32 * 64 + owner));
            }
        }
        assert_eq!(crew[0].totals(), alone.totals());
        assert_eq!(crew[1].totals(), (AdmissionCounters::default(), 0, Rate(0)));
        let counters = alone.totals().0;
        assert!(counters.flows_refused > 0 && counters.flows_dropped > 0, "{counters:?}");
        assert_eq!(told[0], told[1], "each worker hears of its own");
        crew[1].set(begin + Duration::from_secs(10), None);
        crew[0].set(begin + Duration::from_secs(10), None);
        assert_eq!(crew[0].totals().1, 0);
    }
}
