//! Whether something fits, and what gives way to it.

use super::Ledger;
use super::ask::{Refusal, Told};
use super::books::{Cell, Resv};
use crate::record::ReservationId;
use perhop_reason::Code;

/// What is to be booked on a lane in place of what is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Booking {
    pub lane: u32,
    /// What it has of the lane now, bit/s, and until when.
    pub old: (u64, u64),
    /// What it is to have, and until when.
    pub new: (u64, u64),
    pub priority: u8,
}

impl Booking {
    /// A reservation that is not there yet.
    pub fn first(resv: &Resv) -> Self {
        let new = (resv.bps, resv.expires_ms);
        Self { lane: resv.lane, old: (0, 0), new, priority: resv.priority }
    }

    /// A reservation that changes.
    pub fn change(old: &Resv, new: &Resv) -> Self {
        let (old, priority) = ((old.bps, old.expires_ms), old.priority);
        Self { lane: new.lane, old, new: (new.bps, new.expires_ms), priority }
    }
}

impl Ledger {
    /// The least that a class may reserve of a link until `until_ms`, bit/s.
    pub(super) fn least(&self, cell: &Cell, from_ms: u64, until_ms: u64) -> u64 {
        let Some(profile) = &cell.terms.scheduled else { return cell.terms.bps };
        let told = self.told.get(&cell.link).copied().unwrap_or(u64::MAX);
        let rate = profile.schedule.least(from_ms, until_ms, profile.rate).0.min(told);
        let least = profile.class_bps(self.books.classes.name(cell.class), rate);
        least.min(cell.remembered.unwrap_or(u64::MAX))
    }

    /// What a booking could have of a cell, bit/s. What has no more than before is asked only whether it may have it longer:
    /// no, if the link will have less then than now, and too little.
    fn room(&self, cell: &Cell, booking: &Booking) -> u64 {
        let (old, new) = (booking.old, booking.new);
        let others = cell.reserved - old.0;
        if new.0 > old.0 {
            return self.least(cell, self.now_ms(), new.1).saturating_sub(others);
        }
        if cell.terms.scheduled.is_none() || new.1 <= old.1 {
            return new.0;
        }
        let later = self.least(cell, old.1.max(self.now_ms()), new.1);
        if later >= cell.terms.bps { new.0 } else { later.saturating_sub(others).min(new.0) }
    }

    /// Makes sure that a booking fits on every link, or says which link has the least room for it.
    pub(super) fn admit(&mut self, booking: &Booking, who: &str) -> Result<(), Refusal> {
        let Some((tightest, room)) = self.tightest(booking) else { return Ok(()) };
        if room >= booking.new.0 {
            return Ok(());
        }
        if self.settings.preempt && booking.new.0 > booking.old.0 && self.make_room(booking, who) {
            return Ok(());
        }
        let cell = &self.books.cells[tightest as usize];
        let class = self.books.classes.name(cell.class).to_string();
        let link = self.books.map.link_name(cell.link);
        let (asked_bps, free_bps) = (booking.new.0, room);
        let message = if cell.is_short() {
            format!("link {link} has lost rate under what class {class} has reserved of it")
        } else {
            format!("class {class} has {free_bps} bit/s left on link {link}")
        };
        Err(Refusal { link, class, asked_bps, free_bps, ..Refusal::new(Code::NoCapacity, message) })
    }

    fn tightest(&self, booking: &Booking) -> Option<(u32, u64)> {
        let cells = self.books.lanes[booking.lane as usize].cells.iter();
        let rooms = cells.map(|number| (*number, self.room(&self.books.cells[*number as usize], booking)));
        // Of those without any room, one that has lost rate says more.
        rooms.min_by_key(|(number, room)| (*room, !self.books.cells[*number as usize].is_short()))
    }

    /// Releases what is less important until a booking fits, the least important first; nothing if it would not even then.
    fn make_room(&mut self, booking: &Booking, who: &str) -> bool {
        let (mark, audits, tells) = (self.books.mark(), self.forming.audit.len(), self.forming.tells.len());
        while let Some((number, room)) = self.tightest(booking) {
            if room >= booking.new.0 {
                return true;
            }
            // A link that is short lacks more than this booking does: victims are taken until it fits.
            let first = self.books.least_important(number).find(|resv| resv.priority < booking.priority);
            let Some(victim) = first.map(|resv| resv.id) else {
                self.books.rollback_to(mark);
                self.forming.audit.truncate(audits);
                self.forming.tells.truncate(tells);
                return false;
            };
            self.end(victim, Code::Preempted, who, "preempt");
        }
        true
    }

    /// A reservation and its twin end without their owner's doing; it is told. `what` is the audit log's word for it.
    pub(super) fn end(&mut self, id: ReservationId, code: Code, who: &str, what: &'static str) {
        let Some(resv) = self.books.reservation(id).cloned() else { return };
        let other = resv.twin.map(|twin| (twin, Some(id)));
        for (id, twin) in [Some((id, resv.twin)), other].into_iter().flatten() {
            self.books.put(id, None);
            let owner = self.books.owners[resv.owner as usize].name.clone();
            let (flow, created_ms) = (resv.flow.clone(), resv.created_ms);
            self.forming.tells.push(Told::Gone { id, twin, owner, code, flow, created_ms });
        }
        let detail = super::audit::resv_detail(&self.books, &resv);
        self.audit(who, what, id.to_string(), None, detail);
    }
}
