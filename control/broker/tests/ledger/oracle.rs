//! What must become of a request, by recounting everything.

use crate::database::recount;
use perhop_broker::ledger::{Request, Reserve, Way};
use perhop_broker::record::{ONE_LINK, ReservationRow, Snapshot};
use perhop_broker::topology::Topology;
use perhop_reason::Code;
use std::collections::BTreeMap;

/// Times of everything are whole multiples of this, ms.
pub const STEP_MS: u64 = 500;

/// All that decides: rows, and what is known of links beside them.
pub struct Oracle<'a> {
    pub rows: &'a Snapshot,
    pub topology: &'a Topology,
    /// Rates of links that were told.
    pub told: &'a BTreeMap<u64, u64>,
    pub now_ms: u64,
    pub lifetime_ms: u64,
    pub preempt: bool,
}

impl Oracle<'_> {
    /// What a class may reserve of a link at a time.
    pub fn capacity(&self, link: u64, class: &str, ms: u64) -> u64 {
        let row = self.rows.links.iter().find(|row| row.id == link).expect("it is there");
        let Some(link) = self.topology.links.get(&(row.node.clone(), row.port.clone())) else { return 0 };
        let told = self.told.get(&row.id).copied().unwrap_or(u64::MAX);
        let rate = link.profile.schedule.rate_at(ms, link.profile.rate).0.min(told);
        link.profile.class_bps(class, rate)
    }

    /// The least of it from now until just before `until_ms`.
    fn least(&self, link: u64, class: &str, until_ms: u64) -> u64 {
        let times = (self.now_ms..until_ms.max(self.now_ms + 1)).step_by(STEP_MS as usize);
        times.map(|ms| self.capacity(link, class, ms)).min().expect("there is a now")
    }

    /// Whether a reservation may have `bps` on a path until `until_ms`, beside all but `except`, and `also` on other paths.
    fn fits(
        &self,
        way: (u64, &str, u64),
        bps: u64,
        except: Option<u64>,
        also: Option<(u64, u64)>,
        priority: u8,
    ) -> bool {
        let (path, class, until_ms) = way;
        let stays =
            |row: &&ReservationRow| Some(row.id) != except && !(self.preempt && row.priority < priority);
        let rest = Snapshot {
            paths: self.rows.paths.clone(),
            reservations: self.rows.reservations.iter().filter(stays).cloned().collect(),
            ..Snapshot::default()
        };
        let sums = recount(&rest);
        self.links(path).into_iter().all(|link| {
            let other = also.filter(|(path, _)| self.links(*path).contains(&link)).map_or(0, |(_, bps)| bps);
            let used = sums.get(&(link, class.to_owned())).copied().unwrap_or(0) + other;
            used + bps <= self.least(link, class, until_ms)
        })
    }

    fn links(&self, path: u64) -> Vec<u64> {
        if let Some(link) = path.checked_sub(ONE_LINK) {
            return vec![link];
        }
        self.rows.paths.iter().find(|row| row.id == path).map_or_else(Vec::new, |row| row.links.clone())
    }

    fn path(&self, from: &str, to: &str) -> Option<u64> {
        let of_pair = self.rows.paths.iter().filter(|row| row.from_node == from && row.to_node == to);
        of_pair.map(|row| row.id).max()
    }

    fn has_class(&self, path: u64, class: &str) -> bool {
        let has = |link: &u64| self.rows.capacities.iter().any(|row| row.link == *link && row.class == class);
        self.links(path).iter().all(has)
    }

    /// The answer to a well-formed wish for something new.
    pub fn reserve(&self, client: &str, wish: &Reserve, before: &BTreeMap<u64, Reserve>) -> Result<(), Code> {
        let Some(row) = self.rows.clients.iter().find(|row| row.name == client) else {
            return Err(Code::Unauthenticated);
        };
        let mut own = self.rows.reservations.iter().filter(|row| row.owner == client);
        if let Some(there) = own.clone().find(|row| row.idem == wish.idem) {
            return if before[&there.id] == *wish { Ok(()) } else { Err(Code::TxnIdReused) };
        }
        let (path, back) = match &wish.way {
            Way::Between { from, to } => (self.path(from, to), self.path(to, from)),
            Way::Link { node, port } => {
                let link = self.rows.links.iter().find(|row| (&row.node, &row.port) == (node, port));
                (link.map(|row| ONE_LINK | row.id), None)
            }
            Way::Path(_) => panic!("paths have their own tests"),
        };
        let path = path.ok_or(Code::NoPath)?;
        let back = back.filter(|_| wish.back_bps.is_some());
        if wish.back_bps.is_some() && back.is_none() {
            return Err(Code::NoPath);
        }
        if [Some(path), back].iter().flatten().any(|path| !self.has_class(*path, &wish.class)) {
            return Err(Code::BadReference);
        }
        let count = own.clone().filter(|row| row.twin.is_none_or(|twin| row.id < twin)).count() as u64;
        let sum: u64 = own.by_ref().map(|row| row.bps).sum();
        let more = wish.bps + wish.back_bps.unwrap_or(0);
        if row.most_count.is_some_and(|most| count + 1 > most)
            || row.most_bps.is_some_and(|most| sum + more > most)
        {
            return Err(Code::Quota);
        }
        let until_ms = self.now_ms + wish.lifetime_ms.unwrap_or(self.lifetime_ms);
        let there = self.fits((path, &wish.class, until_ms), wish.bps, None, None, wish.priority);
        let and_back = back.zip(wish.back_bps).is_none_or(|(back, bps)| {
            let way = (back, wish.class.as_str(), until_ms);
            self.fits(way, bps, None, Some((path, wish.bps)), wish.priority)
        });
        if there && and_back { Ok(()) } else { Err(Code::NoCapacity) }
    }

    /// The answer to a wish for another rate of what has one direction and an owner that asks; none = it takes more to say.
    pub fn change(&self, client: &str, request: &Request) -> Option<Result<(), Code>> {
        let Request::Change { id, bps: Some(bps), back_bps: None, lifetime_ms: None, .. } = request else {
            return None;
        };
        let row = self.rows.reservations.iter().find(|row| row.id == *id)?;
        let owner = self.rows.clients.iter().find(|row| row.name == client)?;
        if row.owner != client || owner.most_bps.is_some() {
            return None;
        }
        let way = (row.path, row.class.as_str(), row.expires_ms);
        let fits = *bps <= row.bps || self.fits(way, *bps, Some(row.id), None, row.priority);
        Some(if fits { Ok(()) } else { Err(Code::NoCapacity) })
    }
}
