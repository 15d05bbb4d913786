//! The engine's handle as what the socket serves.

use super::file_owner;
use super::reloader::{self, Reloader};
use perhop_contract::{EVENT_RING, KEPT_MAX, MAX_PENDING, QUEUE_LIMIT};
use perhop_engine::Handle;
use perhop_model::{
    Claim, CountersPage, CountersRow, Credentials, ErrorItem, Event, MAX_OPS, Outcome, Reply, ShowPage,
    ShowQuery, StatePage, StateQuery, Transaction,
};
use perhop_reason::Code;
use perhop_serve::{Done, LimitRow, PAGE_OBJECTS, Reloaded, RouterApi, SHOWN_ROWS};
use std::sync::Arc;

/// Rows shown unless the client says how many.
const SHOW_LIMIT: usize = 1_000;

/// What ports and classes have besides counters: shown, but no counter, as those never fall.
const GAUGES: [&str; 4] = ["rate_bps", "backlog_packets", "backlog_bytes", "throttled_now"];

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

    /// The reply to a transaction that does not get as far as the router, which therefore says no revision.
    fn rejection(&self, transaction: &Transaction, error: ErrorItem) -> Reply {
        Reply {
            epoch: self.handle.epoch(),
            revision: 0,
            generation: 0,
            txn_id: transaction.txn_id,
            outcome: Outcome::Rejected,
            replayed: false,
            received_ns: perhop_io::clock::monotonic().as_nanos(),
            committed_ns: 0,
            ops: Vec::new(),
            errors: vec![error],
            retry_after_ms: None,
        }
    }
}

impl RouterApi for Adapter {
    fn submit(&self, who: Credentials, transaction: Transaction, done: Done<Arc<Reply>>) {
        match file_owner::refusal(&who, &transaction.owner, transaction.fence) {
            None => self.handle.submit(who, transaction, done),
            Some(error) => done(Arc::new(self.rejection(&transaction, error))),
        }
    }

    fn claim(&self, who: Credentials, claim: Claim, done: Done<Result<(), ErrorItem>>) {
        if let Some(error) = file_owner::refusal(&who, &claim.owner, claim.fence) {
            return done(Err(error));
        }
        let refused = |code: Code| {
            ErrorItem::new(
                code,
                if code == Code::Fenced { "fence" } else { "owner" },
                format!("the claim is refused: {code}"),
            )
        };
        self.handle.claim(who, claim, move |done_so| done(done_so.map_err(refused)));
    }

    fn state(&self, query: StateQuery, done: Done<Result<StatePage, ErrorItem>>) {
        self.handle.state(query, done);
    }

    fn counters(&self, done: Done<CountersPage>) {
        self.handle.counters(move |mut page| {
            let of_object = |r: &CountersRow| r.kind == "port" || r.kind == "class";
            for row in page.rows.iter_mut().filter(|r| of_object(r)) {
                row.counters.retain(|name, _| !GAUGES.contains(&name.as_str()));
            }
            done(page);
        });
    }

    fn events(&self, seq: u64, limit: usize, done: Done<Vec<Event>>) {
        self.handle.events(seq, limit, done);
    }

    fn on_events(&self, wake: Box<dyn FnMut() -> bool + Send>) {
        self.handle.on_events(wake);
    }

    fn show(&self, query: ShowQuery, done: Done<Result<ShowPage, ErrorItem>>) {
        self.handle.show(&query.what, query.limit.unwrap_or(SHOW_LIMIT), done);
    }

    fn explain(&self, packet: String, done: Done<Result<serde_json::Value, ErrorItem>>) {
        self.handle.explain(&packet, done);
    }

    fn reload(&self, done: Done<Reloaded>) {
        self.reloader.reload(done);
    }

    fn limits(&self) -> Vec<LimitRow> {
        // The engine runs with these.
        let of_control = perhop_contract::Limits::default();
        [
            ("transaction.operations", "operations", MAX_OPS),
            ("transactions.waiting", "transactions", QUEUE_LIMIT),
            ("transactions.unconfirmed", "transactions", MAX_PENDING),
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
