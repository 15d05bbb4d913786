//! What is decided and not yet in the database.

use super::Ledger;
use super::ask::{AskId, Granted, Output, Refusal, Told};
use super::books::Undo;
use crate::record::{AuditRow, Change, Group, LinkId, PathId, ReservationId};
use std::collections::BTreeMap;

/// By which a row of a domain's description is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKey {
    Node(String),
    Link(LinkId),
    Path(PathId),
    Client(String),
}

/// What has been decided since the last group was handed out.
#[derive(Debug, Default)]
pub(super) struct Forming {
    pub asks: Vec<(AskId, Result<Granted, Refusal>)>,
    pub audit: Vec<AuditRow>,
    pub tells: Vec<Told>,
    pub rows: BTreeMap<RowKey, Change>,
    /// Reservations that have ended by themselves.
    pub ended: usize,
}

/// The group that is being written.
#[derive(Debug)]
pub(super) struct Flight {
    pub number: u64,
    pub undo: Vec<Undo>,
    pub asks: Vec<(AskId, Result<Granted, Refusal>)>,
    pub tells: Vec<Told>,
    pub audits: u64,
}

impl Ledger {
    /// Whether something waits for the next group.
    pub(super) fn has_news(&self) -> bool {
        let forming = &self.forming;
        self.books.mark() > 0
            || self.books.has_noted()
            || !(forming.asks.is_empty() && forming.audit.is_empty() && forming.rows.is_empty())
    }

    /// Makes a group of all that was decided. As everything decided is in it, its rows are those of the books.
    pub(super) fn seal(&mut self) -> Group {
        let forming = std::mem::take(&mut self.forming);
        let (undo, noted) = self.books.take_changes();
        self.number += 1;
        let mut ids: Vec<ReservationId> = undo
            .iter()
            .filter_map(|undo| match undo {
                Undo::Reservation(id, _) => Some(*id),
                _ => None,
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let mut changes =
            Vec::with_capacity(ids.len() + noted.len() + forming.audit.len() + forming.rows.len());
        let gone = ids.iter().filter(|id| self.books.reservation(**id).is_none());
        changes.extend(gone.map(|id| Change::ReservationGone(*id)));
        let mut tells = forming.tells;
        let mut capacities = Vec::with_capacity(noted.len());
        for number in noted {
            let cell = &self.books.cells[number as usize];
            let class = self.books.classes.name(cell.class).clone();
            if let Some(row) = self.books.map.links.get(&cell.link) {
                let (node, port) = (row.node.as_str().into(), row.port.as_str().into());
                let class = class.clone();
                tells.push(Told::Share { link: cell.link, node, port, class, reserved_bps: cell.share() });
            }
            match cell.terms.present {
                true => capacities.push(Change::Capacity(self.books.capacity_row(cell))),
                false => changes.push(Change::CapacityGone(cell.link, class.to_string())),
            }
        }
        let (mut rows_gone, rows): (Vec<_>, Vec<_>) = forming.rows.into_values().partition(is_gone);
        // What refers to others goes before them.
        rows_gone.reverse();
        changes.extend(rows_gone);
        let is_path_or_client = |row: &Change| matches!(row, Change::Path(_) | Change::Client(_));
        let (after, before): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_path_or_client);
        changes.extend(before);
        changes.append(&mut capacities);
        changes.extend(after);
        let standing = ids.iter().filter_map(|id| self.books.reservation(*id));
        changes.extend(standing.map(|resv| Change::Reservation(self.books.row(resv))));
        let audits = forming.audit.len() as u64;
        let numbered = forming.audit.into_iter().zip(self.audit_seq + 1..);
        changes.extend(numbered.map(|(row, seq)| Change::Audit(AuditRow { seq, ..row })));
        self.flight = Some(Flight { number: self.number, undo, asks: forming.asks, tells, audits });
        Group { number: self.number, fence: self.settings.fence, changes }
    }

    /// The group on its way is in the database.
    pub(super) fn written(&mut self) {
        let Some(flight) = self.flight.take() else { return };
        self.audit_seq += flight.audits;
        let answers = flight.asks.into_iter().map(|(ask, result)| Output::Answer { ask, result });
        self.outputs.extend(answers);
        self.outputs.extend(flight.tells.into_iter().map(Output::Tell));
    }

    /// Nothing that is not in the database was ever decided: the books are as they were, and all who wait hear `refusal`.
    pub(super) fn undo_all(&mut self, refusal: &Refusal) {
        let forming = std::mem::take(&mut self.forming);
        self.books.rollback_to(0);
        let mut asks = Vec::new();
        if let Some(flight) = self.flight.take() {
            self.books.rollback(flight.undo);
            asks = flight.asks;
        }
        for (ask, _) in asks.into_iter().chain(forming.asks) {
            self.outputs.push_back(Output::Answer { ask, result: Err(refusal.clone()) });
        }
    }

    /// Answers with the group on whose decisions the answer rests; at once if all of them are in the database.
    pub(super) fn answer_in_turn(&mut self, ask: AskId, result: Result<Granted, Refusal>) {
        let in_flight = self.flight.as_mut().filter(|flight| !flight.undo.is_empty());
        match in_flight {
            _ if self.books.mark() > 0 => self.forming.asks.push((ask, result)),
            Some(flight) => flight.asks.push((ask, result)),
            None => self.outputs.push_back(Output::Answer { ask, result }),
        }
    }
}

fn is_gone(row: &Change) -> bool {
    matches!(row, Change::NodeGone(_) | Change::LinkGone(_) | Change::PathGone(_) | Change::ClientGone(_))
}
