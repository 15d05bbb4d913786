//! Reservations by COPS-DRA: of a controller, or of an agent beside its router.
//!
//! A reservation's handle is its number here. Whoever decides renews what stands as long as the connection does, and is told again by
//! the machine of COPS what there is when it comes back. What an earlier instance had is given back when this one opens.

use super::super::Event;
use crate::cops::{ClientTls, CopsClient, Notice};
use ipnet::IpNet;
use perhop_cops::dra::{self, Tag, Told};
use perhop_cops::pep::{Answers, Client, Config, Failure, Security};
use perhop_cops::wire::{ClientType, Decision, Handle, PepId, Reason, ReasonCode};
use perhop_io::clock;
use perhop_reason::Code;
use perhop_sip::quality::{Order, Request, ReservationId, sum};
use perhop_sip::sdp::Flow;
use perhop_tcapi::wire::{
    Alternative, Direction, FlowId, Request as Reservation, Reservation as Amount, Scope, ServiceClass,
};
use perhop_units::Duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use tokio::sync::mpsc;

/// Longest time for a decision, and for each step of opening. Calls are less patient.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Most reservations.
const MOST: usize = 400_000;
/// UDP.
const UDP: u8 = 17;

/// The name of a client of a domain, as COPS takes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopsName(PepId);

impl CopsName {
    /// Of 1 to 255 characters of ASCII; `None` if they are not.
    pub fn new(name: &str) -> Option<Self> {
        PepId::new(name).map(Self)
    }
}

/// A door for COPS.
#[derive(Clone)]
pub struct CopsTarget {
    /// As which client it is asked.
    pub client: CopsName,
    /// Where, the preferred one first; at least one.
    pub servers: Vec<SocketAddr>,
    /// The client type that is spoken.
    pub client_type: ClientType,
    /// How it is secured.
    pub tls: Option<ClientTls>,
    /// In words, for the log.
    pub name: String,
    /// How long reservations live without being renewed, and are known without a connection.
    pub lifetime: Duration,
}

struct Cops {
    client: CopsClient,
    client_type: ClientType,
    name: String,
    epoch: u64,
    events: mpsc::Sender<Event>,
    is_open: bool,
    /// What is reserved or asked for, as it was granted last.
    held: HashMap<ReservationId, Option<Box<Reservation>>>,
}

/// Takes orders until there will be no more.
pub(super) async fn run(
    target: CopsTarget,
    mut orders: mpsc::Receiver<Order>,
    events: mpsc::Sender<Event>,
    seed: u64,
) {
    let config = Config {
        id: target.client.0,
        servers: target.servers,
        clients: vec![Client { client_type: target.client_type, client_si: None }],
        security: Security::None,
        patience: PATIENCE,
        keep: target.lifetime,
        retry: RETRY,
        max_requests: MOST,
    };
    let (client, mut notices) = CopsClient::start(config, target.tls, seed);
    let (client_type, name) = (target.client_type, target.name);
    let epoch = clock::wall().0;
    let mut cops = Cops { client, client_type, name, epoch, events, is_open: false, held: HashMap::new() };
    loop {
        tokio::select! {
            // Its notices have to be taken, lest it waits.
            biased;
            notice = notices.recv() => match notice {
                Some(notice) => cops.notice(notice).await,
                None => return,
            },
            order = orders.recv() => match order {
                Some(order) => cops.order(order).await,
                None => break,
            },
        }
    }
    cops.client.end().await;
}

impl Cops {
    async fn order(&mut self, order: Order) {
        match order {
            Order::Reserve(id, serial, request) | Order::Change(id, serial, request) => {
                // Nobody waits for one who is not there.
                let asked = match self.is_open {
                    true => self.ask(id, serial, wanted(id, &request)).await,
                    false => Err(Code::BackendFailed),
                };
                if let Err(code) = asked {
                    self.tell(Event::Answer(id, serial, Err(code))).await;
                } else {
                    self.held.entry(id).or_insert(None);
                }
            }
            Order::Renew(..) => {}
            Order::Release(id, _) => {
                if self.held.remove(&id).is_some() {
                    self.drop(id, ReasonCode::TEAR).await;
                }
            }
        }
    }

    async fn ask(&self, id: ReservationId, serial: u32, wanted: Option<Reservation>) -> Result<(), Code> {
        let wanted = wanted.ok_or(Code::NoPath)?;
        let tag = Tag { txn: serial.into(), epoch: self.epoch };
        let request = dra::ask(id.0.into(), tag, &wanted).map_err(|_| Code::LimitReached)?;
        self.client.ask(self.client_type, request).await;
        Ok(())
    }

    async fn drop(&self, id: ReservationId, why: ReasonCode) {
        self.client.drop_request(self.client_type, id.0.into(), Reason::of(why)).await;
    }

    async fn tell(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    async fn reach(&mut self, is_open: bool, why: Option<String>) {
        self.is_open = is_open;
        self.tell(Event::Reach(self.name.clone(), why)).await;
    }

    async fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Opened { .. } => self.reach(true, None).await,
            Notice::Lost => self.reach(false, Some("the connection is lost".into())).await,
            Notice::Closed { close, .. } => {
                let why = match Code::from_number(close.error.sub_code) {
                    Some(code) => format!("{}: {code}", close.error.code),
                    None => close.error.code.to_string(),
                };
                self.reach(false, Some(why)).await;
            }
            Notice::Decided { handle, answers, decisions, .. } => {
                let Some(id) = id_of(&handle) else { return };
                for decision in &decisions {
                    self.decided(id, answers, decision).await;
                }
            }
            Notice::Failed { handle, why, .. } => {
                let Some(id) = id_of(&handle).filter(|id| self.held.remove(id).is_some()) else { return };
                let code = match why {
                    Failure::Timeout | Failure::Expired => Code::Timeout,
                    Failure::Refused(error) => {
                        Code::from_number(error.sub_code).unwrap_or(Code::BackendFailed)
                    }
                    Failure::Unreadable(_) => Code::Malformed,
                };
                self.tell(Event::Taken(id, code)).await;
            }
            Notice::AccountingDue { .. } => {}
        }
    }

    async fn decided(&mut self, id: ReservationId, answers: Answers, decision: &Decision) {
        // One that was given back meanwhile concerns nobody.
        let Some(before) = self.held.get_mut(&id) else { return };
        match dra::told(decision) {
            Ok(Some((tag, Told::Granted(granted)))) => {
                *before = Some(granted);
                let serial = u32::try_from(tag.txn).unwrap_or(0);
                self.tell(Event::Answer(id, serial, Ok(()))).await;
            }
            Ok(Some((tag, Told::Refused(refusal)))) => {
                let serial = u32::try_from(tag.txn).unwrap_or(0);
                let before = before.take().filter(|_| answers != Answers::Nothing);
                match before {
                    // A change was refused: what there was is asked for again, and stands.
                    Some(before) => {
                        self.tell(Event::Answer(id, serial, Err(refusal.code))).await;
                        let _ = self.ask(id, 0, Some(*before)).await;
                    }
                    None => {
                        self.held.remove(&id);
                        self.drop(id, ReasonCode::PDP_DIRECTIVE).await;
                        self.tell(Event::Taken(id, refusal.code)).await;
                    }
                }
            }
            Ok(_) => {}
            Err(unreadable) => {
                self.held.remove(&id);
                self.drop(id, ReasonCode::UNSPECIFIED).await;
                self.tell(Event::Taken(id, unreadable.code())).await;
            }
        }
    }
}

/// Handles are numbers of reservations.
fn id_of(handle: &Handle) -> Option<ReservationId> {
    let octets: [u8; 8] = handle.octets().try_into().ok()?;
    Some(ReservationId(u64::from_be_bytes(octets)))
}

fn wanted(id: ReservationId, request: &Request) -> Option<Reservation> {
    let to = request.to()?.to_owned();
    let from = request.from.clone();
    let ((ingress, egress), (flows, back)) = match request.flows.is_empty() {
        false => ((from, to), (&request.flows, &request.back)),
        true => ((to, from), (&request.back, &request.flows)),
    };
    // Both directions have the same rate.
    let rate_bps = sum(flows).max(sum(back)).0;
    let class = ServiceClass { number: 0, dscp: None, name: request.class.clone() };
    let seconds = request.lifetime.0.div_ceil(1_000_000_000).max(1);
    Some(Reservation {
        class: Some(class),
        reservation: Some(Amount { rate_bps, burst_bytes: 0, peak_bps: 0, max_packet: 0, min_policed: 0 }),
        filter: flows.iter().map(packets).collect(),
        scope: Some(Scope { ingress, egress }),
        lifetime_s: Some(u32::try_from(seconds).unwrap_or(u32::MAX)),
        direction: if back.is_empty() { Direction::One } else { Direction::Both },
        ..Reservation::of(FlowId::Number(id.0))
    })
}

fn packets(flow: &Flow) -> Alternative {
    let to = flow.to.ip();
    let from = flow.from.filter(|from| from.is_ipv4() == to.is_ipv4());
    Alternative {
        src: from.map(IpNet::from),
        dst: Some(to.into()),
        protocol: Some(UDP),
        src_ports: None,
        dst_ports: Some((flow.to.port(), flow.to.port())),
        tos: None,
    }
}
