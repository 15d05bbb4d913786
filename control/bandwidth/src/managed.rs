//! A class that the agent looks after, and what the router has of it.

use crate::file::ClassSettings;
use crate::notice::ClassReport;
use perhop_allocate::allocator::Allocator;
use perhop_model::{AllocationSpec, Object, Op, Spec};
use perhop_units::{Duration, Instant, Rate};

/// A class that the router has refused is not submitted for this long; twice as long each time, up to 32 times.
const RETRY: Duration = Duration::from_secs(1);

/// A class it looks after.
#[derive(Debug)]
pub(crate) struct Managed {
    pub(crate) settings: ClassSettings,
    pub(crate) allocator: Allocator,
    /// The router has it.
    pub(crate) present: bool,
    /// Its allocation in the router, whoever has put it there.
    on_router: Option<AllocationSpec>,
    /// What it holds there: what it began with or was committed last.
    held: Option<AllocationSpec>,
    /// The rate that was told last.
    told: Option<Rate>,
    /// Refusals since the router took anything.
    refusals: u32,
    /// It is not submitted before.
    pub(crate) retry_at: Instant,
}

impl Managed {
    pub(crate) fn new(settings: &ClassSettings, now: Instant) -> Self {
        Self {
            settings: settings.clone(),
            allocator: Allocator::of(&settings.allocation, now),
            present: false,
            on_router: None,
            held: None,
            told: None,
            refusals: 0,
            retry_at: now,
        }
    }

    /// To be shown.
    pub(crate) fn report(&self) -> ClassReport {
        ClassReport {
            class: self.settings.class.clone(),
            present: self.present,
            allocated: self.in_force().unwrap_or(Rate::ZERO),
            estimate: self.allocator.estimate(),
            congested: self.allocator.congested(),
            counters: self.allocator.counters(),
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.allocator.next_wakeup().is_some_and(|at| at <= now)
    }

    /// What it holds in the router.
    pub(crate) fn held(&self) -> Option<&AllocationSpec> {
        self.held.as_ref()
    }

    /// What the router has; none if it has no allocation of the class.
    pub(crate) fn in_force(&self) -> Option<Rate> {
        self.on_router.as_ref()?.guarantee
    }

    /// The most that it has, will have or asks for.
    pub(crate) fn claimed(&self) -> Rate {
        self.allocator.claimed().max(self.in_force().unwrap_or(Rate::ZERO))
    }

    /// Whether the router does not have what it should.
    pub(crate) fn is_owed(&self) -> bool {
        self.present && self.on_router.as_ref() != Some(&self.spec())
    }

    /// Whether what is owed is less than what the router has.
    pub(crate) fn is_lowered(&self) -> bool {
        self.in_force().is_some_and(|rate| self.allocator.allocated() < rate)
    }

    /// Whether the router has refused it lately.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusals > 0
    }

    /// What the router says that it has; of the first reading that is what an instance before held.
    pub(crate) fn found(&mut self, spec: Option<AllocationSpec>, first: bool) {
        if first {
            self.held.clone_from(&spec);
        }
        self.on_router = spec;
    }

    /// The router has committed this.
    pub(crate) fn committed(&mut self, spec: AllocationSpec) {
        (self.held, self.on_router, self.refusals) = (Some(spec.clone()), Some(spec), 0);
    }

    /// The rate in force, if it has not been told yet.
    pub(crate) fn news(&mut self) -> Option<Rate> {
        let rate = self.in_force()?;
        (self.told.replace(rate) != Some(rate)).then_some(rate)
    }

    /// The router has refused it.
    pub(crate) fn refused(&mut self, now: Instant) {
        self.retry_at = now + RETRY.saturating_mul(1 << self.refusals.min(5));
        self.refusals = self.refusals.saturating_add(1);
    }

    /// What was refused is not wanted any more.
    pub(crate) fn gave_way(&mut self, now: Instant) {
        (self.refusals, self.retry_at) = (0, now);
    }

    /// What it should have.
    pub(crate) fn spec(&self) -> AllocationSpec {
        let rate = self.allocator.allocated();
        AllocationSpec {
            class: self.settings.class.clone(),
            guarantee: Some(rate),
            ceiling: self.settings.limit.then_some(rate),
            shared: false,
        }
    }

    /// The operation that gives the router a specification of this class.
    pub(crate) fn put(&self, spec: &AllocationSpec) -> Op {
        Op::put(Object::new(self.settings.class.clone(), Spec::Allocation(spec.clone())))
    }
}
