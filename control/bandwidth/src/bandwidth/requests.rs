//! Reservations by request.
//!
//! A client asks by putting a policy of its own into the router, with `min`, `peak`, a match on its flow, and `rate` 0 (or
//! at most 1 kbit/s, which holds the flow back until there is an answer). The answer stands in the same object:
//!
//! * granted: `rate` is set, between `min` and `peak`, and is changed later, never below `min` while the link has enough
//!   for what was promised;
//! * refused: `min` is 0, and `refused` the reason. The flow has its share without a promise, as if the client had not
//!   asked for one. Reasons are `no_capacity` when the minimum does not fit on each link of the path beside what has been
//!   promised, `limit_reached` when it has granted as many as it may, `out_of_range` when it is more than one flow may have.
//!
//! A client gives back by deleting the policy or letting its life time end. It renews with `renew`: a `put` would set its
//! rate back until the agent's next look. It asks anew with a higher `min`.

use super::policy::{Found, Policy};
use super::settings::RequestSettings;
use super::share::LEAST_RATE;
use crate::notice::Notice;
use perhop_model::Name;
use perhop_reason::Code;
use perhop_units::Rate;
use std::collections::BTreeMap;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not decided.
    Asked,
    /// So much is promised to each flow.
    Granted(Rate),
    /// Refused, and the router is yet to be told why.
    Refused(Code),
    /// Without a promise.
    Plain,
}

impl Standing {
    /// Of a policy that was not there before. What an agent finds when it starts, and another agent has given a rate that
    /// keeps the promise, that one has granted.
    pub(super) fn of_new(found: &Found, started: bool) -> Self {
        match () {
            () if found.min == Rate::ZERO => Self::Plain,
            () if !started && found.rate > LEAST_RATE && found.rate >= found.min => Self::Granted(found.min),
            () => Self::Asked,
        }
    }

    /// Of a policy that was there before, as `before`.
    pub(super) fn of_known(self, found: &Found, before: Option<&Found>) -> Self {
        let is_same = before.is_some_and(|before| before.id == found.id);
        match self {
            _ if found.min == Rate::ZERO => Self::Plain,
            Self::Granted(min) if is_same && found.min <= min => Self::Granted(found.min),
            Self::Refused(_) if is_same && before.is_some_and(|before| before.min == found.min) => self,
            _ => Self::Asked,
        }
    }

    /// What each flow gets in any case.
    pub(super) fn promise(self) -> Rate {
        match self {
            Self::Granted(min) => min,
            Self::Asked | Self::Refused(_) | Self::Plain => Rate::ZERO,
        }
    }
}

/// Decides what has been asked, in the order in which it was.
pub(super) fn decide(
    policies: &mut BTreeMap<Name, Policy>,
    available: &[Option<Rate>],
    settings: Option<&RequestSettings>,
    notices: &mut Vec<Notice>,
) {
    let Some(settings) = settings else { return };
    let asked = |(name, policy): (&Name, &Policy)| {
        let found = policy.found.as_ref().filter(|_| policy.standing == Some(Standing::Asked))?;
        Some((found.id, name.clone(), found.min))
    };
    let mut asked: Vec<(u64, Name, Rate)> = policies.iter().filter_map(asked).collect();
    asked.sort_by_key(|(id, _, _)| *id);
    for (_, name, min) in asked {
        if settings.path.iter().any(|link| available[*link].is_none()) {
            continue;
        }
        let refusal = refusal(policies, &name, min, available, settings);
        let Some(policy) = policies.get_mut(&name) else { continue };
        policy.standing = Some(refusal.map_or(Standing::Granted(min), |(code, _)| Standing::Refused(code)));
        notices.push(match refusal {
            None => Notice::Granted { policy: name, min },
            Some((code, free)) => Notice::NotGranted { policy: name, code, min, free },
        });
    }
}

/// Why a minimum cannot be promised, if so, and what could be at most.
fn refusal(
    policies: &BTreeMap<Name, Policy>,
    name: &Name,
    min: Rate,
    available: &[Option<Rate>],
    settings: &RequestSettings,
) -> Option<(Code, Rate)> {
    let granted = |policy: &&Policy| matches!(policy.standing, Some(Standing::Granted(_)));
    if policies.values().filter(granted).count() >= settings.limit {
        return Some((Code::LimitReached, Rate::ZERO));
    }
    if let Some(most) = settings.most.filter(|most| min > *most) {
        return Some((Code::OutOfRange, most));
    }
    let free = |link: &usize| {
        let others =
            policies.iter().filter(|(other, policy)| *other != name && policy.settings.path.contains(link));
        let promised = others.filter_map(|(_, policy)| Some(policy.demand(available)?.promised()));
        promised.fold(available[*link].unwrap_or(Rate::ZERO), Rate::saturating_sub)
    };
    let free = settings.path.iter().map(free).min().unwrap_or(Rate::ZERO);
    (min > free).then_some((Code::NoCapacity, free))
}
