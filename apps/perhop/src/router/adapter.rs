//! The engine's handle as what the socket serves.

use super::file_owner;
use super::reloader::{self, Reloader};
use perhop_contract::{EVENT_RING, KEPT_MAX, MAX_PENDING, QUEUE_LIMIT};
use perhop_engine::Handle;
use perhop_model::{Call, MAX_OPS};
use perhop_serve::{LimitRow, PAGE_OBJECTS, RouterApi, SHOWN_ROWS};
use std::sync::Arc;

/// A running router behind its socket.
pub struct Adapter {
    handle: Handle,
    reloader: Reloader,
}

impl Adapter {
    /// `reloader` reads the router's file again when asked.
    pub fn new(handle: Handle, reloader: Reloader) -> Self {
        Self { handle, reloader }
    }
}

impl RouterApi for Adapter {
    fn call(&self, call: Call) {
        match call {
            Call::Submit(who, transaction, done) => {
                match file_owner::refusal(&who, &transaction.owner, transaction.fence) {
                    None => self.handle.call(Call::Submit(who, transaction, done)),
                    Some(error) => done(Arc::new(self.handle.rejection(&transaction, error))),
                }
            }
            Call::Claim(who, claim, done) => match file_owner::refusal(&who, &claim.owner, claim.fence) {
                None => self.handle.call(Call::Claim(who, claim, done)),
                Some(error) => done(Err(error)),
            },
            Call::Reload(done) => self.reloader.reload(done),
            other => self.handle.call(other),
        }
    }

    fn limits(&self) -> Vec<LimitRow> {
        // The engine runs with these.
        let of_control = perhop_contract::Limits::default();
        [
            ("transaction.operations", "operations", MAX_OPS),
            ("transactions.waiting", "transactions", QUEUE_LIMIT),
            ("transactions.unconfirmed", "transactions", MAX_PENDING),
            ("classes", "objects", of_control.classes),
            ("filters", "objects", of_control.filters),
            ("profiles", "objects", of_control.profiles),
            ("contracts", "objects", of_control.others),
            ("routes", "objects", of_control.others),
            ("allocations", "objects", of_control.others),
            ("owners", "owners", of_control.owners),
            ("kept_answers", "answers", KEPT_MAX),
            ("kept_bytes", "B", of_control.kept_bytes),
            ("kept_bytes.each", "B", of_control.kept_bytes_each),
            ("reloads.waiting", "reloads", reloader::WAITING),
            ("events.kept", "events", EVENT_RING),
            ("state.page", "objects", *PAGE_OBJECTS.end()),
            ("show.rows", "rows", *SHOWN_ROWS.end()),
        ]
        .map(|(name, unit, limit)| LimitRow::fixed(name, unit, limit as u64))
        .into()
    }
}
