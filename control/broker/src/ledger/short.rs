//! What becomes of reservations over a link that lost rate, and what links have at a time.

use super::Ledger;
use super::ask::{OnShort, Told};
use super::audit::{DOMAIN, Json, resv_detail};
use super::books::{Resv, Terms};
use crate::record::{LinkId, ReservationId, ReservationState};
use crate::topology::Profile;
use perhop_reason::Code;
use std::sync::Arc;

impl Ledger {
    /// The rate of a link is told. While nothing can be decided it waits: all links are looked at again after that.
    pub(super) fn take_rate(&mut self, who: &str, link: LinkId, bps: u64) {
        let map = self.books.map.clone();
        if !map.links.contains_key(&link) {
            return;
        }
        self.told.insert(link, bps);
        let Some(profile) = map.profiles.get(&link) else { return };
        for class in profile.classes.keys() {
            let cell = self.books.classes.get(class).and_then(|class| self.books.cell(link, class));
            if let Some(cell) = cell {
                self.books.cells[cell as usize].remembered = None;
            }
        }
        if self.closed().is_none() {
            self.reshape(who, link, profile);
        }
    }

    /// Looks at all links again: what their classes may reserve now.
    pub(super) fn reshape_all(&mut self) {
        let (map, now_ms) = (self.books.map.clone(), self.now_ms());
        for (link, profile) in &map.profiles {
            self.reshape(DOMAIN, *link, profile);
        }
        let changes = map.profiles.values().filter_map(|profile| profile.schedule.next_change(now_ms));
        self.next_change_ms = changes.min();
    }

    /// Agents have had time to say what their links have.
    pub(super) fn forget_remembered(&mut self) {
        self.remembered_until_ms = None;
        for cell in &mut self.books.cells {
            cell.remembered = None;
        }
        self.reshape_all();
    }

    /// What a class of a link may reserve now, bit/s.
    pub(super) fn present_bps(&self, link: Option<LinkId>, profile: &Profile, class: &str) -> u64 {
        let told = link.and_then(|link| self.told.get(&link)).copied().unwrap_or(u64::MAX);
        let rate = profile.schedule.rate_at(self.now_ms(), profile.rate).0.min(told);
        let number = self.books.classes.get(class);
        let cell = link.zip(number).and_then(|(link, class)| self.books.cell(link, class));
        let remembered = cell.and_then(|cell| self.books.cells[cell as usize].remembered);
        profile.class_bps(class, rate).min(remembered.unwrap_or(u64::MAX))
    }

    fn reshape(&mut self, who: &str, link: LinkId, profile: &Arc<Profile>) {
        for class in profile.classes.keys() {
            let number = self.books.classes.get(class);
            let Some(cell) = number.and_then(|class| self.books.cell(link, class)) else { continue };
            let bps = self.present_bps(Some(link), profile, class);
            let before = self.books.cells[cell as usize].terms.clone();
            if before.bps == bps || !before.present {
                continue;
            }
            self.books.set_terms(cell, Terms { bps, ..before });
            let mut detail = Json::new();
            detail.text("class", class);
            detail.number("before", before.bps);
            detail.number("bps", bps);
            let subject = self.books.map.link_name(link);
            self.audit(who, "capacity", subject, None, detail.end());
            self.settle_short(cell);
        }
    }

    /// Does by policy with reservations over a link what its lost rate asks for. Costs what is told or changed, and for links
    /// with reservations of many paths a little for each path.
    pub(super) fn settle_short(&mut self, number: u32) {
        let cell = &self.books.cells[number as usize];
        let (link, lacking) = (cell.link, cell.reserved.saturating_sub(cell.terms.bps));
        if lacking == 0 {
            return;
        }
        let gives = |resv: &Resv| match self.settings.on_short {
            OnShort::Keep | OnShort::Release => resv.bps,
            OnShort::Shrink => resv.floor_bps.map_or(0, |floor| resv.bps.saturating_sub(floor.max(1))),
        };
        let (mut left, mut concerned) = (lacking, Vec::new());
        for resv in self.books.least_important(number) {
            if left == 0 {
                break;
            }
            let part = gives(resv).min(left);
            if part > 0 {
                left -= part;
                concerned.push((resv.clone(), part));
            }
        }
        for (resv, part) in concerned {
            match self.settings.on_short {
                OnShort::Keep => self.tell(&resv, |id, owner| Told::Short { id, owner, link }),
                OnShort::Release => self.end(resv.id, Code::NoCapacity, DOMAIN, "release"),
                OnShort::Shrink => self.shrink(resv.id, part, link),
            }
        }
        // What shrinking could not mend stays as it is, and is told.
        if left > 0 {
            let fixed = |resv: &&Arc<Resv>| resv.floor_bps.is_none_or(|floor| floor >= resv.bps);
            let mut rest = Vec::new();
            for resv in self.books.least_important(number).filter(fixed) {
                if left == 0 {
                    break;
                }
                left -= left.min(resv.bps);
                rest.push(resv.clone());
            }
            for resv in rest {
                self.tell(&resv, |id, owner| Told::Short { id, owner, link });
            }
        }
    }

    fn shrink(&mut self, id: ReservationId, by: u64, link: LinkId) {
        let Some(old) = self.books.reservation(id).cloned() else { return };
        let mut new = Resv::clone(&old);
        new.bps -= by;
        // What a neighbouring domain has not agreed to yet still waits for it.
        if new.state == ReservationState::Held {
            new.state = ReservationState::Shrunk;
        }
        let (bps, detail) = (new.bps, resv_detail(&self.books, &new));
        self.books.put(id, Some(Arc::new(new)));
        self.tell(&old, |id, owner| Told::Shrunk { id, owner, link, bps });
        self.audit(DOMAIN, "shrink", id.to_string(), None, detail);
    }
}
