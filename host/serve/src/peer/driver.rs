//! The task: inputs to the machine, its rows to the database, and then what it wants done.

use super::journal::{Journal, named};
use super::{Say, ShownPeer, account, not_kept, shown};
use crate::domain::{Domain, News, woken};
use perhop_broker::lease::{self, FlowId};
use perhop_broker::ledger::{Input as Told, Refusal, Request, Reserve, Told as Gone, Way};
use perhop_broker::peer::{
    Account, DealId, Details, Envelope, FlowAsk, Input, Note, Output, Peers, Snapshot,
};
use perhop_broker::record::ReservationId;
use perhop_io::clock;
use perhop_reason::Code;
use perhop_units::Instant;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Questions that are taken together: what they change is written at once.
const TOGETHER: usize = 256;
/// Between two attempts to write rows.
const AGAIN: Duration = Duration::from_millis(200);

/// Somebody who waits for the number of a reservation, or why there is none.
pub(super) type Done = oneshot::Sender<Result<ReservationId, Refusal>>;

/// What the task is told.
#[derive(Debug)]
pub(super) enum Question {
    /// By a neighbour.
    Heard(String, Vec<Envelope>),
    /// Whether a neighbour is there.
    Reach(String, bool),
    /// By a client, with what is needed for the first time.
    Flow { ask: FlowAsk, details: Option<Details>, done: Done },
    /// By a client.
    Release { flow: FlowId, done: oneshot::Sender<Result<(), Refusal>> },
    /// By the ledger.
    Debited { deal: DealId, number: u64, result: Result<Option<ReservationId>, Refusal> },
    /// What is shown of it.
    Show(oneshot::Sender<Vec<ShownPeer>>),
}

/// See the module.
pub(super) struct Driver {
    peers: Peers,
    now: Instant,
    domain: Domain,
    own: String,
    lines: BTreeMap<String, mpsc::Sender<Envelope>>,
    here: BTreeSet<String>,
    inlet: mpsc::Sender<Question>,
    journal: Arc<dyn Journal>,
    say: Say,
    waiting: HashMap<(FlowId, u64), Vec<Done>>,
    releasing: HashMap<FlowId, Vec<oneshot::Sender<Result<(), Refusal>>>>,
    details: HashMap<FlowId, Details>,
    /// What was asked for, for the audit log.
    asked: HashMap<(FlowId, u64), FlowAsk>,
    /// Why this domain's own ledger refused a flow.
    own_refusals: HashMap<FlowId, Refusal>,
    /// Reservations of accounts.
    booked: HashMap<DealId, ReservationId>,
    deals: HashMap<ReservationId, DealId>,
    /// Debits that are not answered yet, and what the ledger has told meanwhile of reservations that nobody knows: it may be theirs.
    debits: usize,
    early: HashMap<ReservationId, u64>,
    /// Requests to the ledger that are not answered yet.
    tasks: JoinSet<()>,
}

impl Driver {
    pub(super) fn new(
        peers: Peers,
        domain: Domain,
        own: &str,
        lines: BTreeMap<String, mpsc::Sender<Envelope>>,
        inlet: mpsc::Sender<Question>,
        journal: Arc<dyn Journal>,
        say: Say,
    ) -> Self {
        Self {
            peers,
            now: clock::wall(),
            domain,
            own: own.to_owned(),
            lines,
            here: BTreeSet::new(),
            inlet,
            journal,
            say,
            waiting: HashMap::new(),
            releasing: HashMap::new(),
            details: HashMap::new(),
            asked: HashMap::new(),
            own_refusals: HashMap::new(),
            booked: HashMap::new(),
            deals: HashMap::new(),
            debits: 0,
            early: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Works until nobody has a handle any more, or the domain is led no more. `kept` is what the machine began with.
    pub(super) async fn run(
        mut self,
        mut questions: mpsc::Receiver<Question>,
        mut news: broadcast::Receiver<Arc<News>>,
        kept: Snapshot,
    ) {
        if !self.forget(&kept).await {
            return;
        }
        loop {
            if !self.go_on(&mut questions).await {
                return;
            }
            let wakeup = self.peers.next_wakeup();
            tokio::select! {
                question = questions.recv() => {
                    let Some(question) = question else { return };
                    self.take(question);
                    for _ in 1..TOGETHER {
                        let Ok(question) = questions.try_recv() else { break };
                        self.take(question);
                    }
                }
                told = news.recv() => match told {
                    Ok(news) => self.hear(&news).await,
                    Err(RecvError::Lagged(_)) => self.look_again().await,
                    Err(RecvError::Closed) => return,
                },
                () = woken(wakeup) => self.tell(Input::Tick),
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    fn tell(&mut self, input: Input) {
        // A clock that is set back stands still.
        self.now = self.now.max(clock::wall());
        self.peers.handle_input(self.now, input);
    }

    /// Forgets what the machine did not begin with: of neighbours that are none any more.
    async fn forget(&mut self, kept: &Snapshot) -> bool {
        let now: HashSet<String> = self.peers.snapshot().rows().map(|row| named(&row).0).collect();
        let names = kept.rows().map(|row| named(&row).0).filter(|name| !now.contains(name));
        let gone: Vec<_> = names.map(|name| (name, None)).collect();
        gone.is_empty() || self.keep(&gone, None).await
    }

    /// Writes what the machine has to remember, and then does what it wants done. `false`: another instance leads.
    async fn go_on(&mut self, questions: &mut mpsc::Receiver<Question>) -> bool {
        loop {
            let rows: Vec<_> = self.peers.take_rows().iter().map(named).collect();
            if !rows.is_empty() && !self.keep(&rows, Some(questions)).await {
                return false;
            }
            let mut any = false;
            while let Some(output) = self.peers.poll_output() {
                any = true;
                self.carry_out(output);
            }
            if !any {
                return true;
            }
        }
    }

    /// Writes rows however long it takes. Who asks meanwhile is refused.
    async fn keep(
        &mut self,
        rows: &[(String, Option<serde_json::Value>)],
        mut questions: Option<&mut mpsc::Receiver<Question>>,
    ) -> bool {
        let mut complained = false;
        loop {
            let why = match self.journal.write(rows).await {
                Ok(()) => return true,
                Err(why) if matches!(why.code, Code::Fenced | Code::HeldElsewhere) => return false,
                Err(why) => why,
            };
            if !std::mem::replace(&mut complained, true) {
                (self.say)(format!("agreements with neighbours are not in the database: {}", why.message));
            }
            tokio::time::sleep(AGAIN).await;
            let mut later = Vec::new();
            while let Some(question) = questions.as_mut().and_then(|questions| questions.try_recv().ok()) {
                match question {
                    Question::Flow { done, .. } => drop(done.send(Err(not_kept(&why)))),
                    Question::Release { done, .. } => drop(done.send(Err(not_kept(&why)))),
                    // Neighbours ask again.
                    Question::Heard(..) => {}
                    other => later.push(other),
                }
            }
            later.into_iter().for_each(|question| self.take(question));
        }
    }

    fn take(&mut self, question: Question) {
        match question {
            Question::Heard(via, envelopes) => {
                envelopes.into_iter().for_each(|e| self.tell(Input::Message(via.clone(), e)));
            }
            Question::Reach(name, true) => {
                self.here.insert(name.clone());
                self.tell(Input::Back(name));
            }
            Question::Reach(name, false) => {
                self.here.remove(&name);
                self.tell(Input::Lost(name));
            }
            Question::Flow { ask, details, done } => self.flow(ask, details, done),
            Question::Release { flow, done } => {
                self.releasing.entry(flow.clone()).or_default().push(done);
                self.tell(Input::Release(flow));
            }
            Question::Debited { deal, number, result } => {
                let early = result.as_ref().ok().copied().flatten().and_then(|id| self.early.remove(&id));
                let result = self.booked(&deal, result);
                self.tell(Input::Debited(deal.clone(), number, result));
                if let Some(bps) = early {
                    self.tell(Input::Taken(deal, bps));
                }
                self.debits -= 1;
                if self.debits == 0 {
                    self.early.clear();
                }
            }
            Question::Show(done) => {
                drop(done.send(shown(&self.peers, &self.here)));
            }
        }
    }

    fn flow(&mut self, ask: FlowAsk, details: Option<Details>, done: Done) {
        let (flow, key) = (ask.flow.clone(), (ask.flow.clone(), ask.version));
        // The same comes again while it is being decided.
        let again = details.is_some() && self.details.contains_key(&flow);
        self.waiting.entry(key.clone()).or_default().push(done);
        if again {
            return;
        }
        self.asked.insert(key, ask.clone());
        if let Some(details) = details {
            self.details.insert(flow, details);
        }
        self.tell(Input::Flow(ask));
    }

    fn booked(
        &mut self,
        deal: &DealId,
        result: Result<Option<ReservationId>, Refusal>,
    ) -> Result<(), lease::Refusal> {
        match result {
            Ok(id) => {
                self.is_booked(deal, id);
                Ok(())
            }
            Err(refusal) => {
                let told = lease::Refusal {
                    code: refusal.code,
                    link: match (deal, refusal.code) {
                        // That it is the ledger and not the way there.
                        (DealId::Lease(..), Code::BackendFailed) => format!("{}/", self.own),
                        _ => refusal.link.clone(),
                    },
                    class: refusal.class.clone(),
                    asked_bps: refusal.asked_bps,
                    free_bps: refusal.free_bps,
                };
                if let DealId::Flow(flow) = deal {
                    self.own_refusals.insert(flow.clone(), refusal);
                }
                Err(told)
            }
        }
    }

    fn is_booked(&mut self, deal: &DealId, id: Option<ReservationId>) {
        let before = match id {
            Some(id) => {
                self.deals.insert(id, deal.clone());
                self.booked.insert(deal.clone(), id).filter(|before| *before != id)
            }
            None => self.booked.remove(deal),
        };
        if let Some(before) = before {
            self.deals.remove(&before);
        }
    }

    // ---- what the ledger tells

    async fn hear(&mut self, news: &News) {
        let News::Told(told) = news else { return };
        let (id, bps) = match told {
            Gone::Gone { id, flow, .. } if Note::in_text(flow).is_some() => (*id, 0),
            Gone::Shrunk { id, bps, .. } => (*id, *bps),
            Gone::Gone { .. } | Gone::Short { .. } | Gone::Share { .. } => return,
        };
        self.taken(id, bps);
    }

    fn taken(&mut self, id: ReservationId, bps: u64) {
        let Some(deal) = self.deals.get(&id).cloned() else {
            if self.debits > 0 {
                self.early.insert(id, bps);
            }
            return;
        };
        if bps == 0 {
            self.is_booked(&deal, None);
        }
        self.tell(Input::Taken(deal, bps));
    }

    /// Something that the ledger told was missed.
    async fn look_again(&mut self) {
        let ids: Vec<ReservationId> = self.deals.keys().copied().collect();
        let look = move |ledger: &perhop_broker::ledger::Ledger| -> Vec<_> {
            ids.into_iter().map(|id| (id, ledger.reservation(id).map_or(0, |row| row.bps))).collect()
        };
        for (id, bps) in self.domain.look(look).await.unwrap_or_default() {
            self.taken(id, bps);
        }
    }

    // ---- what the machine wants

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send(neighbour, envelope) => {
                // Where there is no room it is as if it were lost on its way.
                if let Some(line) = self.lines.get(&neighbour) {
                    let _ = line.try_send(envelope);
                }
            }
            Output::Debit { account, number, bps, lifetime } => {
                let details = match &account.deal {
                    DealId::Flow(flow) => self.details.get(flow).cloned(),
                    DealId::Lease(..) => None,
                };
                let (domain, inlet) = (self.domain.clone(), self.inlet.clone());
                self.debits += 1;
                self.tasks.spawn(async move {
                    let result = account::debit(&domain, &account, bps, lifetime, details).await;
                    let _ = inlet.send(Question::Debited { deal: account.deal, number, result }).await;
                });
            }
            Output::Renew { account, lifetime } => {
                let domain = self.domain.clone();
                self.tasks.spawn(async move { account::renew(&domain, &account, lifetime).await });
            }
            Output::Answer { flow, version, result } => self.answer(flow, version, result),
            Output::Released(flow) => {
                for done in self.releasing.remove(&flow).into_iter().flatten() {
                    let _ = done.send(Ok(()));
                }
            }
            Output::Ended(flow, why) => {
                (self.say)(format!("reservation {} of {} is no more: {why:?}", flow.idem, flow.owner));
            }
        }
    }

    fn answer(&mut self, flow: FlowId, version: u64, result: Result<(), lease::Refusal>) {
        let key = (flow.clone(), version);
        let waiting = self.waiting.remove(&key).unwrap_or_default();
        let asked = self.asked.remove(&key);
        self.details.remove(&flow);
        let own = self.own_refusals.remove(&flow);
        match result {
            Ok(()) => {
                let domain = self.domain.clone();
                let (deal, class, enter) = (DealId::Flow(flow), String::new(), String::new());
                let account = Account { deal, class, enter, leave: None };
                self.tasks.spawn(async move {
                    let result = account::agreed(&domain, account).await;
                    for done in waiting {
                        let _ = done.send(result.clone());
                    }
                });
            }
            Err(refusal) => {
                let refusal = match own {
                    Some(own) if own.code == refusal.code => own,
                    _ => self.by_others(refusal, asked.as_ref()),
                };
                for done in waiting {
                    let _ = done.send(Err(refusal.clone()));
                }
            }
        }
    }

    /// Why others refuse, and for the audit log.
    fn by_others(&mut self, refusal: lease::Refusal, asked: Option<&FlowAsk>) -> Refusal {
        let refusal = in_words(refusal, asked);
        if let Some(asked) = asked {
            let way =
                Way::Between { from: asked.from.clone(), to: format!("{}@{}", asked.edge, asked.domain) };
            let key = asked.flow.idem.clone();
            let request = Request::Reserve(Box::new(Reserve::new(key, way, asked.class.clone(), asked.bps)));
            let told = Told::Refused {
                client: asked.flow.owner.clone(),
                request: Box::new(request),
                refusal: refusal.clone(),
            };
            let domain = self.domain.clone();
            self.tasks.spawn(async move { domain.note(told).await });
        }
        refusal
    }
}

/// A refusal of others: its link begins with the domain whose it is.
fn in_words(refusal: lease::Refusal, asked: Option<&FlowAsk>) -> Refusal {
    let lease::Refusal { code, link, class, free_bps, .. } = refusal;
    let (domain, link) = link.split_once('/').unwrap_or(("", &link));
    let asked_bps = asked.map_or(0, |asked| asked.bps);
    let (message, retry_after_ms) = match code {
        Code::NoPath if domain.is_empty() => {
            let to = asked.map_or("", |asked| &asked.domain);
            (format!("no neighbouring domain leads to domain {to:?}"), 0)
        }
        Code::Timeout => (format!("domain {domain} has not answered in time"), 1_000),
        Code::PeerRefused if link.is_empty() => {
            (format!("domain {domain} is away, or cannot decide now"), 1_000)
        }
        Code::PeerRefused => {
            (format!("class {class} has {free_bps} bit/s left on link {link} of domain {domain}"), 0)
        }
        Code::Quota if !domain.is_empty() => {
            (format!("domain {domain} lets this one have {free_bps} bit/s more of all it may have"), 0)
        }
        Code::NoPath => (format!("domain {domain} knows no way there"), 0),
        Code::BadReference if domain.is_empty() => {
            (format!("nothing that leads to neighbouring domains is for class {class:?}"), 0)
        }
        _ if domain.is_empty() => (code.name().to_owned(), 0),
        _ => (format!("domain {domain} refuses"), 0),
    };
    Refusal {
        link: link.to_owned(),
        domain: domain.to_owned(),
        class,
        asked_bps: if link.is_empty() && code != Code::Quota { 0 } else { asked_bps },
        free_bps,
        retry_after_ms,
        ..Refusal::new(code, message)
    }
}
