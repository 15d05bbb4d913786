//! What an agent looks after for its domain, what of it is wanted, and what the router still lacks.

use perhop_agent::{DECIDED_HERE, DomainFlow};
use perhop_model::{ErrorItem, Name};
use perhop_units::{Duration, Instant, Rate};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// An item that was refused waits as long at first, twice as long each time, and at most as long.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// One thing that the router has or lacks. What is first is done first: classes have room before flows use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Item {
    /// The share of a class, by its object's name.
    Class(Name),
    /// The flow of this reservation.
    Flow(u64),
}

/// Something that a person, or the controller, should know.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// How the router stands to what the domain wants.
    Standing(Standing),
    /// There are reservations in a class that the router has not.
    NoClass {
        /// Port.
        port: Name,
        /// Logical class.
        class: Name,
    },
    /// The router refuses an item. It is asked again later.
    NotReserved {
        /// Which.
        item: Item,
        /// Its reasons.
        errors: Vec<ErrorItem>,
    },
}

/// How a router stands to what its domain wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Flows that it is to have.
    pub flows: usize,
    /// Items, flows and shares, that it does not have as they are to be, among them shares of classes that it has not.
    pub owed: usize,
    /// Everything that is wanted is known, and the router has it.
    pub settled: bool,
}

/// A flow, and until when.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lived {
    pub(super) flow: DomainFlow,
    pub(super) until: Instant,
}

/// A class of a port, by its logical name.
pub(super) type ClassOfPort = (Name, Name);

/// What the domain wants.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) shares: BTreeMap<ClassOfPort, Rate>,
    pub(super) flows: BTreeMap<u64, Lived>,
    ends: BTreeSet<(Instant, u64)>,
    /// What has been told since all of it is told anew.
    told: Option<(BTreeSet<ClassOfPort>, BTreeSet<u64>)>,
}

impl Wanted {
    pub(super) fn begin(&mut self) {
        self.told = Some(Default::default());
    }

    pub(super) fn abandon(&mut self) {
        self.told = None;
    }

    /// All of it is being told anew.
    pub(super) fn is_being_told(&self) -> bool {
        self.told.is_some()
    }

    /// What has not been told again is not there any more.
    pub(super) fn complete(&mut self) {
        let Some((shares, flows)) = self.told.take() else { return };
        self.shares.retain(|key, _| shares.contains(key));
        self.flows.retain(|id, _| *id >= DECIDED_HERE || flows.contains(id));
        let left = &self.flows;
        self.ends.retain(|(_, id)| left.contains_key(id));
    }

    pub(super) fn share(&mut self, port: &Name, class: &Name, bps: Rate) {
        let key = (port.clone(), class.clone());
        if let Some((shares, _)) = &mut self.told {
            shares.insert(key.clone());
        }
        self.shares.insert(key, bps);
    }

    pub(super) fn flow(&mut self, now: Instant, flow: &DomainFlow) {
        self.flow_gone(flow.id);
        // The class's share is all that there is of it.
        if flow.packets.is_empty() {
            return;
        }
        if let Some((_, flows)) = &mut self.told {
            flows.insert(flow.id);
        }
        let until = now + Duration::from_millis(flow.remaining_ms);
        self.ends.insert((until, flow.id));
        self.flows.insert(flow.id, Lived { flow: flow.clone(), until });
    }

    pub(super) fn flow_gone(&mut self, id: u64) {
        if let Some(lived) = self.flows.remove(&id) {
            self.ends.remove(&(lived.until, id));
        }
        if let Some((_, flows)) = &mut self.told {
            flows.remove(&id);
        }
    }

    /// Flows whose time is over: they are forgotten.
    pub(super) fn ended(&mut self, now: Instant) -> Vec<u64> {
        let mut ended = Vec::new();
        while let Some((_, id)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            self.flow_gone(id);
            ended.push(id);
        }
        ended
    }

    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends.first().map(|(until, _)| *until)
    }
}

/// Items that the router lacks, and before when each is not tried.
#[derive(Debug, Default)]
pub(super) struct Owed {
    retries: BTreeMap<Item, Retry>,
    by_time: BTreeSet<(Instant, Item)>,
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    at: Instant,
    pause: Duration,
}

impl Owed {
    /// Whether an item is owed. One that is already keeps the time before which it is not tried, unless it is level again.
    pub(super) fn set(&mut self, item: &Item, is_owed: bool) {
        if is_owed {
            if !self.retries.contains_key(item) {
                self.put(item, Retry { at: Instant::ZERO, pause: Duration::ZERO });
            }
        } else if let Some(retry) = self.retries.remove(item) {
            self.by_time.remove(&(retry.at, item.clone()));
        }
    }

    fn put(&mut self, item: &Item, retry: Retry) {
        if let Some(before) = self.retries.insert(item.clone(), retry) {
            self.by_time.remove(&(before.at, item.clone()));
        }
        self.by_time.insert((retry.at, item.clone()));
    }

    /// It was refused.
    pub(super) fn blame(&mut self, now: Instant, item: &Item) {
        let [least, most] = PAUSES;
        if let Some(before) = self.retries.get(item).copied() {
            let pause = Duration(before.pause.0.saturating_mul(2).clamp(least.0, most.0));
            self.put(item, Retry { at: now + pause, pause });
        }
    }

    pub(super) fn keep(&mut self, keep: impl Fn(&Item) -> bool) {
        self.retries.retain(|item, _| keep(item));
        self.by_time.retain(|(_, item)| keep(item));
    }

    pub(super) fn len(&self) -> usize {
        self.retries.len()
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = Item> + '_ {
        self.by_time.iter().take_while(move |(at, _)| *at <= now).map(|(_, item)| item.clone())
    }
}
