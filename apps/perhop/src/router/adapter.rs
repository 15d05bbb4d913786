//! The engine's handle as what the socket serves.

use super::reloader::Reloader;
use perhop_engine::{Handle, Row};
use perhop_model::{
    Claim, CountersPage, Credentials, ErrorItem, Event, Reply, StatePage, StateQuery, Transaction,
};
use perhop_reason::Code;
use perhop_serve::{Done, Reloaded, RouterApi, ShowPage, ShowQuery, ShowRow};
use std::sync::Arc;

/// Rows shown unless the client says how many.
const SHOW_LIMIT: usize = 1_000;

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
    fn submit(&self, who: Credentials, transaction: Transaction, done: Done<Arc<Reply>>) {
        self.handle.submit(who, transaction, done);
    }

    fn claim(&self, who: Credentials, claim: Claim, done: Done<Result<(), Code>>) {
        self.handle.claim(who, claim, done);
    }

    fn state(&self, query: StateQuery, done: Done<Result<StatePage, ErrorItem>>) {
        self.handle.state(query, done);
    }

    fn counters(&self, done: Done<CountersPage>) {
        self.handle.counters(done);
    }

    fn events(&self, seq: u64, limit: usize, done: Done<Vec<Event>>) {
        self.handle.events(seq, limit, done);
    }

    fn on_events(&self, wake: Box<dyn FnMut() -> bool + Send>) {
        self.handle.on_events(wake);
    }

    fn show(&self, query: ShowQuery, done: Done<Result<ShowPage, ErrorItem>>) {
        let limit = query.limit.unwrap_or(SHOW_LIMIT);
        self.handle.show(&query.what, limit, move |page| {
            done(page.map(|p| ShowPage {
                epoch: p.epoch,
                revision: p.revision,
                at_ns: p.at_ns,
                rows: p.rows.into_iter().map(row).collect(),
            }));
        });
    }

    fn explain(&self, packet: String, done: Done<Result<serde_json::Value, ErrorItem>>) {
        self.handle.explain(&packet, done);
    }

    fn reload(&self, done: Done<Reloaded>) {
        self.reloader.reload(done);
    }
}

fn row(row: Row) -> ShowRow {
    let Row { kind, name, id, owner, facts, counters } = row;
    ShowRow { kind, name, id, owner, facts, counters }
}
