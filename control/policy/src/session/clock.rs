//! Which contract counts at a time, and when that may change.

use super::row::{SessionRow, Usage};
use crate::model::{Period, Policy, Quota, Sla, Then};
use perhop_model::Name;

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// From Monday to the day on which 1970 began.
const FIRST_DAY: u64 = 3;

/// The time of day of a place: how far it is before the world's, in minutes, −1440 … 1440.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone(pub i32);

impl Zone {
    fn local_ms(self, ms: u64) -> u64 {
        ms.saturating_add_signed(i64::from(self.0) * MINUTE_MS as i64)
    }

    fn minute_of_week(self, ms: u64) -> u16 {
        ((self.local_ms(ms) + FIRST_DAY * DAY_MS) / MINUTE_MS % (7 * 24 * 60)) as u16
    }

    /// When the period began that a time is in, and when the next one begins; none of a session's.
    pub(super) fn period(self, per: Period, ms: u64) -> Option<(u64, u64)> {
        let (length, shift) = match per {
            Period::Session => return None,
            Period::Day => (DAY_MS, 0),
            Period::Week => (7 * DAY_MS, FIRST_DAY * DAY_MS),
        };
        let begun = (self.local_ms(ms) + shift) % length;
        let start = ms.saturating_sub(begun);
        Some((start, ms - begun.min(ms) + length))
    }
}

/// What may end or change a session, at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This contract counts until then, ms; none = until something is reported.
    Goes(Name, Option<u64>),
    /// It ends.
    Ends(Why),
}

/// Why a session ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nobody has heard of it for too long.
    Idle,
    /// It has lasted as long as it may.
    Expired,
    /// Its quota is used up.
    Quota,
    /// The policy has no such subscriber, router or port any more, or says that it is always elsewhere.
    Policy,
    /// Another session has its address, or its name on its router.
    Replaced,
}

/// Judges a session at `ms` since 1970.
pub(super) fn judge(policy: &Policy, zone: Zone, row: &SessionRow, usage: Usage, ms: u64) -> Verdict {
    let Some(subscriber) =
        policy.subscribers.get(&row.subscriber).filter(|subscriber| subscriber.at.is_none())
    else {
        return Verdict::Ends(Why::Policy);
    };
    let is_there = policy.routers.get(&row.router).is_some_and(|router| router.ports.contains_key(&row.port));
    let given = row.given.as_ref().filter(|given| policy.slas.contains_key(given)).unwrap_or(&subscriber.sla);
    let Some(sla) = policy.slas.get(given).filter(|_| is_there) else { return Verdict::Ends(Why::Policy) };
    let mut until = Vec::new();
    let millis = |time: perhop_units::Duration| time.as_nanos() / 1_000_000;
    let idle = row.idle_ms.or(sla.idle_timeout.map(millis)).map(|idle| row.seen_ms + idle);
    let lasts = sla.session_timeout.map(|lasts| row.began_ms + millis(lasts));
    for (end, why) in [(idle, Why::Idle), (lasts, Why::Expired), (row.expires_ms, Why::Expired)] {
        match end {
            Some(end) if end <= ms => return Verdict::Ends(why),
            end => until.extend(end),
        }
    }
    let mut counts = given;
    if let Some(slot) = sla.schedule.iter().find(|slot| slot.has(zone.minute_of_week(ms))) {
        counts = &slot.sla;
    }
    until.extend(next_edge(sla, zone, ms));
    if let Some(quota) = &sla.quota {
        until.extend(zone.period(quota.per, ms).map(|(_, end)| end));
        if used(quota, zone, row, usage, ms) >= quota.amount.0 {
            match &quota.then {
                Then::Disconnect => return Verdict::Ends(Why::Quota),
                Then::Sla(then) => counts = then,
            }
        }
    }
    Verdict::Goes(counts.clone(), until.into_iter().min())
}

fn used(quota: &Quota, zone: Zone, row: &SessionRow, usage: Usage, ms: u64) -> u64 {
    match zone.period(quota.per, ms) {
        None => row.octets,
        Some((start, _)) if usage.since_ms >= start => usage.octets,
        Some(_) => 0,
    }
}

/// When a contract's schedule says something else, ms.
fn next_edge(sla: &Sla, zone: Zone, ms: u64) -> Option<u64> {
    let minute = zone.minute_of_week(ms);
    let edge = sla.schedule.iter().filter_map(|slot| slot.next_edge(minute)).min()?;
    Some(ms - zone.local_ms(ms) % MINUTE_MS + u64::from(edge) * MINUTE_MS)
}
