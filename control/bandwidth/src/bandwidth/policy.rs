//! A policy: what the router says of it, and what it wants.

use super::requests::Standing;
use super::settings::{PolicySettings, RequestSettings};
use super::share::Demand;
use perhop_model::{AbrPolicySpec, Name, ObjectState, Owner};
use perhop_reason::Code;
use perhop_units::{Instant, Rate};
use serde::Serialize;

/// A policy as the router has it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) id: u64,
    pub(super) owner: Owner,
    pub(super) rate: Rate,
    pub(super) weight: u32,
    pub(super) min: Rate,
    /// `None`: no limit.
    pub(super) peak: Option<Rate>,
    /// It bears the reason of an earlier refusal.
    pub(super) bears_refusal: bool,
}

/// What an object is told of its request, besides its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing new.
    None,
    /// It is granted, and bears the reason of an earlier refusal.
    Granted,
    /// It is refused.
    Refused(Code),
}

/// A change of a policy's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateChange {
    pub(super) from: Rate,
    pub(super) to: Rate,
    /// What it may carry until its flows know.
    pub(super) used: Rate,
}

/// A policy, named by the file or asked for.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) settings: PolicySettings,
    /// `None`: the router does not have it now.
    pub(super) found: Option<Found>,
    pub(super) flows: u32,
    /// Of a request; `None`: the file names it.
    pub(super) standing: Option<Standing>,
    /// Most that a flow of a request gets.
    pub(super) cap: Option<Rate>,
    /// The router did not take its rate: until then it keeps what it has.
    pub(super) fixed_until: Option<Instant>,
    /// What it should have in the end, once that is known.
    pub(super) due: Option<Rate>,
    /// What of that it can have now, the rest being in use still.
    pub(super) wanted: Option<Rate>,
}

/// State of a policy, to be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyReport {
    /// The policy.
    pub policy: Name,
    /// Whether the router has it.
    pub present: bool,
    /// Flows that sent at the last look.
    pub flows: u32,
    /// In force, bit/s; 0 = its flows are not held.
    pub rate: Rate,
    /// Whether its minimum is promised to a client.
    pub granted: bool,
}

impl Policy {
    pub(super) fn new(settings: PolicySettings, standing: Option<Standing>) -> Self {
        let (found, flows, cap, fixed_until) = (None, 0, None, None);
        Self { settings, found, flows, standing, cap, fixed_until, due: None, wanted: None }
    }

    /// What the router has now.
    pub(super) fn take(&mut self, found: Found, requests: Option<&RequestSettings>) {
        if let (Some(standing), Some(_)) = (&mut self.standing, requests) {
            *standing = standing.of_known(&found, self.found.as_ref());
        }
        self.found = Some(found);
    }

    /// Whether it can be given another rate: the rates of all its links are known.
    pub(super) fn knows(&self, links: &[Option<Rate>]) -> bool {
        self.fixed_until.is_none() && self.settings.path.iter().all(|link| links[*link].is_some())
    }

    /// What it wants; `None` if the router does not have it. One that cannot be given another rate wants what it has.
    pub(super) fn demand(&self, links: &[Option<Rate>]) -> Option<Demand> {
        let found = self.found.as_ref()?;
        let PolicySettings { weighted, path, .. } = self.settings.clone();
        if !self.knows(links) {
            let (least, most, reserve) = (found.rate, Some(found.rate), found.rate);
            return Some(Demand { flows: 1, weight: 1, weighted, least, most, reserve, path });
        }
        let promise = self.standing.map(Standing::promise);
        let least = promise.or(self.settings.min).unwrap_or(found.min);
        let peak = self.settings.peak.or(found.peak).into_iter().chain(self.cap).min();
        Some(Demand {
            // A client is told what it can have before it begins.
            flows: if promise.is_some_and(|min| min > Rate::ZERO) { self.flows.max(1) } else { self.flows },
            weight: self.settings.weight.unwrap_or(found.weight),
            weighted,
            least,
            most: peak.map(|peak| peak.max(least)),
            reserve: self.settings.reserve.unwrap_or(least),
            path,
        })
    }

    /// What the router has is not what it should have.
    pub(super) fn differs(&self) -> bool {
        let rate = self.found.as_ref().map(|found| found.rate);
        self.wanted.is_some_and(|wanted| rate.is_some_and(|rate| rate != wanted)) || self.has_answer()
    }

    /// What the object is yet to say of its request.
    pub(super) fn answer(&self) -> Answer {
        let Some(found) = self.found.as_ref().filter(|_| self.wanted.is_some()) else { return Answer::None };
        match self.standing {
            Some(Standing::Refused(code)) if found.min > Rate::ZERO => Answer::Refused(code),
            Some(Standing::Granted(_)) if found.bears_refusal => Answer::Granted,
            _ => Answer::None,
        }
    }

    /// Whether there is such a thing.
    pub(super) fn has_answer(&self) -> bool {
        self.answer() != Answer::None
    }

    /// What it has in the router, what it should have, and what its flows may use until they know: the higher of both
    /// while some send. `None` if it is not to change, or was not held at any rate.
    pub(super) fn change(&self) -> Option<RateChange> {
        let (from, to) = (self.found.as_ref()?.rate, self.wanted?);
        let used = if self.flows > 0 { from.max(to) } else { to };
        (from > Rate::ZERO).then_some(RateChange { from, to, used })
    }

    /// The router has this rate and answer; whether the rate is another.
    pub(super) fn committed(&mut self, rate: Rate, answer: Answer) -> bool {
        let Some(found) = &mut self.found else { return false };
        match answer {
            Answer::None => {}
            Answer::Granted => found.bears_refusal = false,
            Answer::Refused(_) => (found.min, found.bears_refusal) = (Rate::ZERO, true),
        }
        std::mem::replace(&mut found.rate, rate) != rate
    }
}

impl Found {
    pub(super) fn of(object: &ObjectState, spec: &AbrPolicySpec) -> Self {
        Self {
            id: object.id,
            owner: object.owner.clone(),
            rate: spec.rate,
            weight: spec.weight.max(1),
            min: spec.min,
            peak: (spec.peak > Rate::ZERO).then_some(spec.peak),
            bears_refusal: spec.refused.is_some(),
        }
    }

    /// Whether a client asks for it, as opposed to the router's own file.
    pub(super) fn is_request(&self) -> bool {
        !matches!(self.owner, Owner::File | Owner::Agent)
    }
}
