//! One order, carried out: requests and what their answers come to.

use super::super::super::Event;
use crate::client::{Client, ClientError, KeptConnection};
use crate::controller::CreateReservation;
use crate::domain::Packets;
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use ipnet::IpNet;
use perhop_reason::Code;
use perhop_sip::quality::{Order, Request, ReservationId, sum};
use perhop_sip::sdp::Flow;
use serde_json::{Value, json};

/// UDP.
const UDP: u8 = 17;

/// A reservation as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    number: u64,
    /// From where to where, of which class, in both directions or one: none of it can be changed.
    way: (String, String, String, bool),
}

/// What became of an order.
pub(super) struct Done {
    pub(super) order: Order,
    /// To be used again.
    pub(super) connection: Option<KeptConnection>,
    pub(super) known: Option<Known>,
    pub(super) events: Vec<Event>,
    /// Why the controller could not be asked, if it could not.
    pub(super) failed: Option<String>,
    /// It may have heard of it all the same.
    pub(super) is_said: bool,
}

/// The way to the controller.
pub(super) struct Wire {
    client: Client,
    connection: Option<KeptConnection>,
}

/// Why nothing is reserved.
enum Failure {
    Refused(Code),
    /// Nobody knows what the controller has done.
    Unknown(ClientError),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Unknown(error)
    }
}

impl Failure {
    fn code(&self) -> Code {
        match self {
            Self::Refused(code) => *code,
            Self::Unknown(ClientError::Silent { .. }) => Code::Timeout,
            Self::Unknown(_) => Code::BackendFailed,
        }
    }
}

impl Wire {
    pub(super) fn new(client: Client, connection: Option<KeptConnection>) -> Self {
        Self { client, connection }
    }

    /// Everything that is asked here may be asked twice: a connection that was kept may have been closed meanwhile.
    async fn ask(
        &mut self,
        method: Method,
        uri: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), ClientError> {
        let body: Bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default().into();
        if let Some(mut kept) = self.connection.take() {
            match kept.exchange(method.clone(), uri, body.clone()).await {
                Ok(answer) => {
                    self.connection = Some(kept);
                    return Ok(answer);
                }
                Err(silent @ ClientError::Silent { .. }) => return Err(silent),
                Err(_) => {}
            }
        }
        let mut made = self.client.connect().await?;
        let answer = made.exchange(method, uri, body).await?;
        self.connection = Some(made);
        Ok(answer)
    }

    /// Has a reservation be as the request says, whatever there is of it.
    async fn put(
        &mut self,
        id: ReservationId,
        request: &Request,
        known: &mut Option<Known>,
    ) -> Result<(), Failure> {
        let wanted = wanted(id, request)?;
        if known.is_none() {
            match self.create(&wanted, known).await {
                Err(Failure::Refused(Code::TxnIdReused)) => *known = self.find(id).await?,
                done => return done,
            }
        }
        match known {
            Some(found) if found.way == way(&wanted) => {
                let number = found.number;
                let mut change = json!({ "bps": wanted.bps, "lifetime_ms": wanted.lifetime_ms,
                    "packets": wanted.packets });
                if let Some(bps) = wanted.back_bps {
                    change["back_bps"] = bps.into();
                }
                let (status, body) = self.ask(Method::PATCH, &one(number), Some(&change)).await?;
                if status != StatusCode::NOT_FOUND && !is_gone(&body) {
                    return accepted(status, &body);
                }
            }
            // Another way is another reservation.
            Some(found) => drop(self.ask(Method::DELETE, &one(found.number), None).await?),
            None => {}
        }
        *known = None;
        self.create(&wanted, known).await
    }

    async fn create(&mut self, wanted: &CreateReservation, known: &mut Option<Known>) -> Result<(), Failure> {
        let (status, body) = self.ask(Method::POST, "/v1/reservations", Some(&json!(wanted))).await?;
        accepted(status, &body)?;
        let number = body["id"].as_u64().ok_or(Failure::Refused(Code::Malformed))?;
        *known = Some(Known { number, way: way(wanted) });
        Ok(())
    }

    /// What there is of an earlier instance.
    async fn find(&mut self, id: ReservationId) -> Result<Option<Known>, Failure> {
        let uri = format!("/v1/reservations?key={}", key(id));
        let (status, body) = self.ask(Method::GET, &uri, None).await?;
        accepted(status, &body)?;
        let row = &body["reservations"][0];
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let way = (text("from"), text("to"), text("class"), !row["twin"].is_null());
        Ok(row["id"].as_u64().map(|number| Known { number, way }))
    }

    async fn renew(
        &mut self,
        id: ReservationId,
        request: &Request,
        known: &mut Option<Known>,
    ) -> Result<(), Failure> {
        let Some(Known { number, .. }) = known else { return self.put(id, request, known).await };
        let life = json!({ "lifetime_ms": millis(request) });
        let (status, body) = self.ask(Method::PATCH, &one(*number), Some(&life)).await?;
        if status == StatusCode::NOT_FOUND || is_gone(&body) {
            // While the controller was away for long it has ended. There may be room for it still.
            *known = None;
            return self.put(id, request, known).await;
        }
        accepted(status, &body)
    }

    async fn release(&mut self, id: ReservationId, known: &mut Option<Known>) -> Result<(), Failure> {
        if known.is_none() {
            *known = self.find(id).await?;
        }
        let Some(Known { number, .. }) = known else { return Ok(()) };
        let (status, body) = self.ask(Method::DELETE, &one(*number), None).await?;
        if status != StatusCode::NOT_FOUND && !is_gone(&body) {
            accepted(status, &body)?;
        }
        *known = None;
        Ok(())
    }
}

/// Carries an order out.
pub(super) async fn carry_out(mut wire: Wire, order: Order, mut known: Option<Known>) -> Done {
    let result = match &order {
        Order::Reserve(id, _, request) | Order::Change(id, _, request) => {
            wire.put(*id, request, &mut known).await
        }
        Order::Renew(id, request) => wire.renew(*id, request, &mut known).await,
        Order::Release(id, _) => wire.release(*id, &mut known).await,
    };
    let mut events = Vec::new();
    let refused = result.as_ref().err().map(Failure::code);
    match &order {
        Order::Reserve(id, serial, _) | Order::Change(id, serial, _) => {
            events.push(Event::Answer(*id, *serial, refused.map_or(Ok(()), Err)));
            // A change that cost what there was.
            if let (Some(code), Order::Change(..), None) = (refused, &order, &known) {
                events.push(Event::Taken(*id, code));
            }
        }
        // Nothing is lost yet when nobody was there to be asked.
        Order::Renew(id, _) => {
            if let (Err(Failure::Refused(code)), None) = (&result, &known) {
                events.push(Event::Taken(*id, *code));
            }
        }
        Order::Release(..) => {}
    }
    let is_said = !matches!(result, Err(Failure::Unknown(ClientError::Connect { .. })));
    let failed = match result {
        Err(Failure::Unknown(error)) => Some(error.to_string()),
        // What stands in the way may pass.
        Err(Failure::Refused(code)) if is_passing(code) && !is_asking(&order) => Some(code.to_string()),
        _ => None,
    };
    Done { order, connection: wire.connection, known, events, failed, is_said }
}

const fn is_asking(order: &Order) -> bool {
    matches!(order, Order::Reserve(..) | Order::Change(..))
}

const fn is_passing(code: Code) -> bool {
    matches!(code, Code::BackendFailed | Code::Overload | Code::HeldElsewhere | Code::ShuttingDown)
}

fn key(id: ReservationId) -> String {
    format!("sip-{:016x}", id.0)
}

fn one(number: u64) -> String {
    format!("/v1/reservations/{number}")
}

fn way(wanted: &CreateReservation) -> (String, String, String, bool) {
    (wanted.from.clone(), wanted.to.clone(), wanted.class.clone(), wanted.back_bps.is_some())
}

fn millis(request: &Request) -> u64 {
    (request.lifetime.0 / 1_000_000).max(1)
}

fn wanted(id: ReservationId, request: &Request) -> Result<CreateReservation, Failure> {
    let Some(to) = request.to() else { return Err(Failure::Refused(Code::NoPath)) };
    let ((from, to), (flows, back)) = match request.flows.is_empty() {
        false => ((request.from.as_str(), to), (&request.flows, &request.back)),
        // Nothing goes there: what comes back is all.
        true => ((to, request.from.as_str()), (&request.back, &request.flows)),
    };
    Ok(CreateReservation {
        key: key(id),
        from: from.to_owned(),
        to: to.to_owned(),
        class: request.class.clone(),
        bps: sum(flows).0,
        back_bps: (!back.is_empty()).then(|| sum(back).0),
        floor_bps: None,
        priority: request.priority,
        lifetime_ms: Some(millis(request)),
        packets: flows.iter().map(packets).collect(),
        dscp: None,
        note: None,
    })
}

fn packets(flow: &Flow) -> Packets {
    let to = flow.to.ip();
    let from = flow.from.filter(|from| from.is_ipv4() == to.is_ipv4());
    Packets {
        src: from.map(IpNet::from),
        dst: Some(to.into()),
        protocol: Some(UDP),
        src_ports: None,
        dst_ports: Some((flow.to.port(), flow.to.port())),
    }
}

fn is_gone(body: &Value) -> bool {
    code(body) == Some(Code::NotFound)
}

fn code(body: &Value) -> Option<Code> {
    [&body["refusal"]["code"], &body["errors"][0]["code"]]
        .into_iter()
        .find_map(|code| serde_json::from_value(code.clone()).ok())
}

fn accepted(status: StatusCode, body: &Value) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    Err(Failure::Refused(code(body).unwrap_or(Code::BackendFailed)))
}
