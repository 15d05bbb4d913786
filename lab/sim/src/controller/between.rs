//! What a controller has with controllers of neighbouring domains: the very machine of `perhop controller run`. Its messages take
//! the propagation delay between the two, more where the scenario says so, and some are lost.

use super::{CLIENT, Controller, Delivered, Due, State};
use crate::random::Stream;
use perhop_broker::flow::Flow;
use perhop_broker::lease::{self, FlowId};
use perhop_broker::ledger::{Granted, Refusal, Request};
use perhop_broker::peer::{
    Account, Booking, DealId, Details, Envelope, Far, FlowAsk, Input, Note, Output, Peers, Settings,
    Snapshot, booked, booking,
};
use perhop_broker::record::ReservationId;
use perhop_reason::Code;
use perhop_scenario::ControllerConfig;
use perhop_units::{Duration, Instant};
use serde_json::Value;
use std::collections::BTreeMap;

/// Most agreements of a domain at a time.
const MOST_DEALS: usize = 100_000;

/// See the module.
pub(super) struct Between {
    settings: Settings,
    /// Of the instance that is here.
    peers: Option<Peers>,
    /// While none is: what the database has.
    kept: Snapshot,
    /// Neighbours, with the time to them.
    neighbours: BTreeMap<String, Duration>,
    faults: perhop_scenario::MessageFaults,
    stream: Stream,
    /// Whose request a flow is.
    flows: BTreeMap<FlowId, (usize, u32)>,
    /// Reservations of agreements, and what is to be said of those that the ledger took back.
    booked: BTreeMap<ReservationId, DealId>,
    taken: Vec<(ReservationId, u64)>,
}

impl Between {
    /// None where a domain has no neighbours.
    pub(super) fn new(
        name: &str,
        config: &ControllerConfig,
        stream: Stream,
        delay: impl Fn(&str) -> Option<Duration>,
    ) -> Result<Option<Self>, String> {
        if config.peers.is_empty() {
            return Ok(None);
        }
        let far = |name: &String| delay(name).ok_or_else(|| format!("no links lead to \"{name}\""));
        let neighbours =
            config.peers.iter().map(|peer| Ok::<_, String>((peer.name.clone(), far(&peer.name)?)));
        Ok(Some(Self {
            settings: Settings::of(name, config.peers.iter(), MOST_DEALS),
            peers: None,
            kept: Snapshot::default(),
            neighbours: neighbours.collect::<Result<_, _>>()?,
            faults: config.faults,
            stream,
            flows: BTreeMap::new(),
            booked: BTreeMap::new(),
            taken: Vec::new(),
        }))
    }

    /// Agreements that there are.
    pub(super) fn left(&self) -> usize {
        self.peers.as_ref().map_or(self.kept.deals.len(), |peers| peers.deals().count())
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        self.peers.as_ref()?.next_wakeup()
    }

    /// The instance is gone; the neighbours, with the time until they notice.
    pub(super) fn leave(&mut self) -> Vec<(String, Duration)> {
        if let Some(peers) = self.peers.take() {
            self.kept = peers.snapshot();
        }
        self.flows.clear();
        self.neighbours.iter().map(|(name, delay)| (name.clone(), *delay)).collect()
    }

    /// Whose reservation the ledger has changed by itself.
    pub(super) fn take_back(&mut self, id: ReservationId, bps: u64) {
        self.taken.push((id, bps));
    }
}

impl Controller {
    /// The next instance goes on with what the database has, and its neighbours hear that it is there.
    pub(super) fn begin_between(&mut self, now: Instant) -> Result<(), String> {
        let Some(between) = &mut self.between else { return Ok(()) };
        let kept = std::mem::take(&mut between.kept);
        let peers = Peers::restore(between.settings.clone(), now.0 + 1, now, kept);
        between.peers = Some(peers.map_err(|error| error.to_string())?);
        let neighbours = between.neighbours.clone();
        let name = self.name.clone();
        for (neighbour, delay) in neighbours {
            let due = Box::new(Due::Reach { neighbour: name.clone(), here: true });
            self.delivered.push(Delivered::Peer { to: neighbour.clone(), at: now + delay, due });
            // An answer to its greeting comes back.
            self.at(now + delay + delay, Due::Reach { neighbour, here: true });
        }
        self.go_on_between(now);
        Ok(())
    }

    /// Says something to the machine, if an instance is here.
    pub(super) fn tell_between(&mut self, now: Instant, input: Input) {
        let Some(peers) = self.between.as_mut().and_then(|between| between.peers.as_mut()) else { return };
        peers.handle_input(now, input);
        self.go_on_between(now);
    }

    /// Does all that the machine wants done. Of this database everything is durable at once.
    fn go_on_between(&mut self, now: Instant) {
        loop {
            let Some(between) = &mut self.between else { return };
            let Some(peers) = &mut between.peers else { return };
            if let Some((id, bps)) = between.taken.pop() {
                if let Some(deal) = between.booked.get(&id).cloned() {
                    peers.handle_input(now, Input::Taken(deal, bps));
                }
                continue;
            }
            peers.take_rows();
            match peers.poll_output() {
                Some(output) => self.carry_between(now, output),
                None => return,
            }
        }
    }

    fn carry_between(&mut self, now: Instant, output: Output) {
        match output {
            Output::Send(neighbour, envelope) => self.send(now, neighbour, envelope),
            Output::Debit { account, number, bps, lifetime } => {
                let result = self.debit(now, &account, bps, lifetime);
                let input = Input::Debited(account.deal, number, result);
                if let Some(peers) = self.between.as_mut().and_then(|between| between.peers.as_mut()) {
                    peers.handle_input(now, input);
                }
            }
            Output::Renew { account, lifetime } => {
                let State::Here(ledger) = &self.state else { return };
                let lifetime_ms = Some(lifetime.0 / 1_000_000);
                let found = booked(ledger, &account).filter(|_| account.leave.is_some());
                if let Some((id, _)) = found {
                    let client = perhop_broker::peer::place(&account).0;
                    let _ = self.ask_now(now, client, Request::Renew { id, lifetime_ms });
                }
            }
            Output::Answer { flow, result, .. } => self.answer_beyond(now, &flow, result),
            Output::Released(_) => {}
            Output::Ended(flow, why) => {
                let Some((asker, number)) = self.between.as_mut().and_then(|b| b.flows.remove(&flow)) else {
                    return;
                };
                let this = &mut self.askers[asker];
                if this.held.remove(&number).is_some() {
                    this.ended += 1;
                    this.say(now, number, &format!("is gone: {why:?}"));
                }
            }
        }
    }

    fn send(&mut self, now: Instant, neighbour: String, envelope: Envelope) {
        let name = self.name.clone();
        let Some(between) = &mut self.between else { return };
        let Some(delay) = between.neighbours.get(&neighbour).copied() else { return };
        let share = |bits: u32, of: Duration| Duration((u128::from(of.0) * u128::from(bits) >> 32) as u64);
        let (lost, late) = (between.stream.bits(), between.stream.bits());
        self.messages += 1;
        if lost < between.faults.loss.0 {
            self.lost_messages += 1;
            return;
        }
        let at = now + delay + share(late, between.faults.jitter);
        self.delivered.push(Delivered::Peer {
            to: neighbour,
            at,
            due: Box::new(Due::Said { via: name, envelope }),
        });
    }

    fn debit(
        &mut self,
        now: Instant,
        account: &Account,
        bps: u64,
        lifetime: Duration,
    ) -> Result<(), lease::Refusal> {
        let State::Here(ledger) = &self.state else { return Ok(()) };
        let details = match &account.deal {
            DealId::Flow(flow) => self.details(flow),
            DealId::Lease(..) => None,
        };
        let (client, request, had, asks) = match booking(ledger, account, bps, lifetime, details) {
            Booking::Is(_) => return Ok(()),
            Booking::Refused(refusal) => return Err(told(&refusal, 0)),
            Booking::Ask { client, request, had_bps, asks, .. } => (client, request, had_bps, asks),
        };
        match self.ask_now(now, client.clone(), request) {
            Ok(Granted::Held(held)) => {
                if asks {
                    let _ = self.ask_now(now, client, Request::Settle { id: held.id, peer_handle: None });
                }
                if let Some(between) = &mut self.between {
                    between.booked.insert(held.id, account.deal.clone());
                }
                Ok(())
            }
            Ok(_) => {
                if let Some(between) = &mut self.between {
                    between.booked.retain(|_, deal| *deal != account.deal);
                }
                Ok(())
            }
            Err(refusal) => Err(told(&refusal, had)),
        }
    }

    /// What the reservation of a flow has besides its account.
    fn details(&self, flow: &FlowId) -> Option<Details> {
        let (asker, _) = self.between.as_ref()?.flows.get(flow)?;
        let asker = &self.askers[*asker];
        let mut text: Flow = serde_json::from_str(&asker.flow).unwrap_or_default();
        text.of_interface =
            Note { deal: DealId::Flow(flow.clone()), far: asker.far.clone(), asked: Value::Null }.value();
        Some(Details {
            text: text.text(),
            floor_bps: asker.what.floor.map(|rate| rate.0),
            priority: asker.what.priority,
        })
    }

    // ---- who asks

    /// A request that ends in another domain has reached the controller.
    pub(super) fn ask_beyond(&mut self, now: Instant, asker: usize, number: u32, far: Far) {
        let State::Here(ledger) = &self.state else { return };
        let what = &self.askers[asker].what;
        let lifetime = what.lifetime.unwrap_or(Duration::from_millis(ledger.settings().lifetime_ms));
        let flow = flow_of(&what.name, number);
        let ask = FlowAsk {
            flow: flow.clone(),
            version: 1,
            class: what.class.clone(),
            from: self.name_of(what.from),
            domain: far.domain,
            edge: far.edge,
            bps: what.rate.0,
            lifetime,
        };
        if let Some(between) = &mut self.between {
            between.flows.insert(flow, (asker, number));
        }
        self.tell_between(now, Input::Flow(ask));
    }

    /// Gives one back.
    pub(super) fn release_beyond(&mut self, now: Instant, asker: usize, number: u32) {
        let flow = flow_of(&self.askers[asker].what.name, number);
        if let Some(between) = &mut self.between {
            between.flows.remove(&flow);
        }
        self.tell_between(now, Input::Release(flow));
    }

    fn answer_beyond(&mut self, now: Instant, flow: &FlowId, result: Result<(), lease::Refusal>) {
        let Some((asker, number)) = self.between.as_ref().and_then(|b| b.flows.get(flow)).copied() else {
            return;
        };
        let result = match result {
            Ok(()) => {
                let State::Here(ledger) = &self.state else { return };
                let Some(row) = ledger.by_key(&flow.owner, &flow.idem) else { return };
                let id = row.id;
                let _ = self.ask_now(now, CLIENT.to_owned(), Request::Settle { id, peer_handle: None });
                self.owners.insert(id, asker);
                Ok(id)
            }
            Err(refusal) => Err(Refusal {
                link: refusal.link.clone(),
                class: refusal.class.clone(),
                asked_bps: refusal.asked_bps,
                free_bps: refusal.free_bps,
                ..Refusal::new(refusal.code, refusal.code.name())
            }),
        };
        let at = now + self.askers[asker].delay;
        self.at(at, Due::Answer { asker, number, result });
    }
}

/// How the machine calls a request.
fn flow_of(name: &str, number: u32) -> FlowId {
    FlowId { owner: CLIENT.to_owned(), idem: format!("{name}/{number}") }
}

/// A refusal of the ledger as the machine counts: what is free beyond what there was.
fn told(refusal: &Refusal, had_bps: u64) -> lease::Refusal {
    let beyond = if refusal.code == Code::Quota { 0 } else { had_bps };
    lease::Refusal {
        code: refusal.code,
        link: refusal.link.clone(),
        class: refusal.class.clone(),
        asked_bps: refusal.asked_bps,
        free_bps: refusal.free_bps.saturating_sub(beyond),
    }
}
