//! What clients send.

use super::tlv::{self, Each, Head, Value};
use super::{Answer, MAX_ALTERNATIVES, Malformed, VERSION, kind, part};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use perhop_units::Dscp;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of what each message begins with: version, transaction, epoch.
const BEGIN: usize = 20;
/// A code point that is none: packets keep theirs.
const NO_DSCP: u8 = 0xff;
/// Of [`Alternative`]: what is compared.
const HAS: [u8; 6] = [1, 2, 4, 8, 16, 32];

/// What a client calls a reservation: unique among its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowId {
    /// A number.
    Number(u64),
    /// Sixteen octets.
    Opaque([u8; 16]),
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Opaque(octets) => {
                f.write_str("x")?;
                octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
            }
        }
    }
}

/// The service that a flow or an aggregate is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceClass {
    /// Number of the class, where it has no name: what it stands for is the server's to say.
    pub number: u16,
    /// Code point that its packets get; none = they keep theirs.
    pub dscp: Option<Dscp>,
    /// Name of the logical class; empty = the number counts.
    pub name: String,
}

/// How much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// bit/s at IP length.
    pub rate_bps: u64,
    /// Token bucket, bytes; 0 = the server's choice.
    pub burst_bytes: u32,
    /// Not more than this at any time, bit/s; 0 = as fast as it comes within the burst.
    pub peak_bps: u64,
    /// Longest packet, bytes; 0 = any.
    pub max_packet: u16,
    /// Shorter packets count as this, bytes.
    pub min_policed: u16,
}

/// Packets that a flow is, as one of several ways to say it: all that is given must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alternative {
    /// Source addresses.
    pub src: Option<IpNet>,
    /// Destination addresses, of the same family.
    pub dst: Option<IpNet>,
    /// Transport protocol.
    pub protocol: Option<u8>,
    /// First and last source port.
    pub src_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub dst_ports: Option<(u16, u16)>,
    /// Octet of the type of service or traffic class, and the bits of it that are compared.
    pub tos: Option<(u8, u8)>,
}

/// Between which ports of the router; an empty name is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Where packets come in.
    pub ingress: String,
    /// Where they leave.
    pub egress: String,
}

/// For which direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// That of the filter.
    #[default]
    One,
    /// Also the opposite one: both or none.
    Both,
}

/// What is to be done with a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is made.
    Request,
    /// It gets another rate or life time.
    Modify,
    /// It goes.
    Release,
}

/// A reservation, as far as a message says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which.
    pub flow: FlowId,
    /// Service.
    pub class: Option<ServiceClass>,
    /// Amount.
    pub reservation: Option<Reservation>,
    /// Packets of a flow; none = the whole class, an aggregate.
    pub filter: Vec<Alternative>,
    /// Ports.
    pub scope: Option<Scope>,
    /// It ends so many seconds from now unless a later message says so again; 0 = it does not end by itself.
    pub lifetime_s: Option<u32>,
    /// Directions.
    pub direction: Direction,
}

impl Request {
    /// Names a reservation and says nothing else.
    pub fn of(flow: FlowId) -> Self {
        let (class, reservation, scope, lifetime_s) = (None, None, None, None);
        Self { flow, class, reservation, filter: Vec::new(), scope, lifetime_s, direction: Direction::One }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Chosen by the client; a message that comes again with it is answered again and done once.
    pub txn: u64,
    /// The client's instance: one with a lower number than before is shut out.
    pub epoch: u64,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A client is there. With a lease its reservations with a life time end together so many seconds from now unless it is
    /// said again.
    Hello {
        /// Seconds; none = no lease, or none any more.
        lease_s: Option<u32>,
        /// Which client it is; none = that of its user.
        client: Option<String>,
    },
    /// Something is to be done.
    Do(Verb, Box<Request>),
    /// Something was done, or not.
    Answer(Box<Answer>),
}

impl Message {
    /// Reads a message without its head, which `head` is.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn read(head: Head, value: &[u8]) -> Result<Self, Malformed> {
        let (txn, epoch) = begin(value)?;
        let parts = Each::of(&value[BEGIN..], tlv::HEAD + BEGIN);
        let body = match head.kind {
            kind::REQUEST => Body::Do(Verb::Request, Box::new(request(Verb::Request, parts)?)),
            kind::MODIFY => Body::Do(Verb::Modify, Box::new(request(Verb::Modify, parts)?)),
            kind::RELEASE => Body::Do(Verb::Release, Box::new(request(Verb::Release, parts)?)),
            kind::HELLO => hello(parts)?,
            kind::ACK => Body::Answer(Box::new(Answer::read(true, parts)?)),
            kind::NACK => Body::Answer(Box::new(Answer::read(false, parts)?)),
            kind => return Err(Malformed::UnknownMessage { kind }),
        };
        Ok(Self { txn, epoch, body })
    }

    /// Transaction and epoch of a message, whatever else is wrong with it.
    pub fn begin_of(value: &[u8]) -> Option<(u64, u64)> {
        begin(value).ok()
    }

    /// As octets.
    pub fn write(&self, out: &mut Vec<u8>) {
        let kind = match &self.body {
            Body::Hello { .. } => kind::HELLO,
            Body::Do(Verb::Request, _) => kind::REQUEST,
            Body::Do(Verb::Modify, _) => kind::MODIFY,
            Body::Do(Verb::Release, _) => kind::RELEASE,
            Body::Answer(answer) if answer.refusal.is_none() => kind::ACK,
            Body::Answer(_) => kind::NACK,
        };
        tlv::put(out, kind, true, |out| {
            out.extend(VERSION.to_be_bytes());
            out.extend(self.txn.to_be_bytes());
            out.extend(self.epoch.to_be_bytes());
            match &self.body {
                Body::Hello { lease_s, client } => {
                    put_seconds(out, *lease_s);
                    if let Some(client) = client {
                        tlv::put(out, part::CLIENT, true, |out| out.extend(client.as_bytes()));
                    }
                }
                Body::Do(_, request) => write_request(out, request),
                Body::Answer(answer) => answer.write(out),
            }
        });
    }

    /// As octets of its own.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

fn begin(value: &[u8]) -> Result<(u64, u64), Malformed> {
    let cut = || Malformed::Cut { at: tlv::HEAD };
    let (front, _) = value.split_first_chunk::<BEGIN>().ok_or_else(cut)?;
    let [a, b, c, d, rest @ ..] = *front;
    let version = u32::from_be_bytes([a, b, c, d]);
    if version != VERSION {
        return Err(Malformed::Version { version });
    }
    let number = |at: usize| {
        let mut octets = [0; 8];
        octets.copy_from_slice(&rest[at..at + 8]);
        u64::from_be_bytes(octets)
    };
    Ok((number(0), number(8)))
}

/// Sets what is to be there once.
pub(super) fn once<T>(place: &mut Option<T>, kind: u16, at: usize, value: T) -> Result<(), Malformed> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Malformed::Twice { kind, at: at - tlv::HEAD }),
    }
}

/// What is not known is passed over, unless it must be understood.
pub(super) fn unknown(head: Head, value: Value<'_>) -> Result<(), Malformed> {
    match head.mandatory {
        true => Err(Malformed::UnknownPart { kind: head.kind, at: value.at() - tlv::HEAD }),
        false => Ok(()),
    }
}

fn hello(parts: Each<'_>) -> Result<Body, Malformed> {
    let (mut lease_s, mut client) = (None, None);
    for item in parts {
        let (head, mut value) = item?;
        let at = value.at();
        match head.kind {
            part::LIFETIME => {
                let seconds = value.u32()?;
                if seconds == 0 {
                    return Err(value.wrong());
                }
                value.end()?;
                once(&mut lease_s, head.kind, at, seconds)?;
            }
            part::CLIENT => once(&mut client, head.kind, at, value.rest_text()?.to_owned())?,
            _ => unknown(head, value)?,
        }
    }
    Ok(Body::Hello { lease_s, client })
}

fn request(verb: Verb, parts: Each<'_>) -> Result<Request, Malformed> {
    let (mut flow, mut class, mut reservation) = (None, None, None);
    let (mut scope, mut lifetime_s, mut direction) = (None, None, None);
    let mut filter = Vec::new();
    for item in parts {
        let (head, mut value) = item?;
        let at = value.at();
        match head.kind {
            part::FLOW_ID => once(&mut flow, head.kind, at, flow_id(value)?)?,
            part::SERVICE_CLASS => once(&mut class, head.kind, at, service_class(value)?)?,
            part::RESERVATION => once(&mut reservation, head.kind, at, amount(value)?)?,
            part::FILTER if filter.len() >= MAX_ALTERNATIVES => return Err(Malformed::TooMany { at }),
            part::FILTER => filter.push(alternative(value)?),
            part::SCOPE => {
                let ingress = value.text()?.to_owned();
                let egress = value.text()?.to_owned();
                value.end()?;
                once(&mut scope, head.kind, at, Scope { ingress, egress })?;
            }
            part::LIFETIME => {
                let seconds = value.u32()?;
                value.end()?;
                once(&mut lifetime_s, head.kind, at, seconds)?;
            }
            part::DIRECTION => {
                let direction_of = match value.u8()? {
                    0 => Direction::One,
                    1 => Direction::Both,
                    _ => return Err(value.wrong()),
                };
                value.end()?;
                once(&mut direction, head.kind, at, direction_of)?;
            }
            _ => unknown(head, value)?,
        }
    }
    let flow = flow.ok_or(Malformed::Missing { kind: part::FLOW_ID })?;
    if verb == Verb::Request {
        for (is_there, kind) in
            [(class.is_some(), part::SERVICE_CLASS), (reservation.is_some(), part::RESERVATION)]
        {
            if !is_there {
                return Err(Malformed::Missing { kind });
            }
        }
    }
    let direction = direction.unwrap_or_default();
    Ok(Request { flow, class, reservation, filter, scope, lifetime_s, direction })
}

fn flow_id(mut value: Value<'_>) -> Result<FlowId, Malformed> {
    let id = match value.rest().len() {
        8 => FlowId::Number(value.u64()?),
        _ => FlowId::Opaque(value.take()?),
    };
    value.end().map(|()| id)
}

fn service_class(mut value: Value<'_>) -> Result<ServiceClass, Malformed> {
    let number = value.u16()?;
    let dscp = match value.u8()? {
        NO_DSCP => None,
        dscp => Some(Dscp::new(dscp).ok_or_else(|| value.wrong())?),
    };
    Ok(ServiceClass { number, dscp, name: value.rest_text()?.to_owned() })
}

fn amount(mut value: Value<'_>) -> Result<Reservation, Malformed> {
    let reservation = Reservation {
        rate_bps: value.u64()?,
        burst_bytes: value.u32()?,
        peak_bps: value.u64()?,
        max_packet: value.u16()?,
        min_policed: value.u16()?,
    };
    value.end().map(|()| reservation)
}

fn alternative(mut value: Value<'_>) -> Result<Alternative, Malformed> {
    let [family, has, src_length, dst_length] = value.take()?;
    let [protocol, tos, mask, zero] = value.take()?;
    let mut port = || value.u16();
    let ports = [(port()?, port()?), (port()?, port()?)];
    let net = |value: &mut Value<'_>, length| match family {
        4 => Ok(Ipv4Net::new(Ipv4Addr::from(value.take::<4>()?), length).ok().map(IpNet::V4)),
        6 => Ok(Ipv6Net::new(Ipv6Addr::from(value.take::<16>()?), length).ok().map(IpNet::V6)),
        _ => Err(value.wrong()),
    };
    let (src, dst) = (net(&mut value, src_length)?, net(&mut value, dst_length)?);
    let is = |bit: usize| has & HAS[bit] != 0;
    let empty = ports.iter().zip([3, 4]).any(|((first, last), bit)| is(bit) && first > last);
    let beyond = |net: Option<IpNet>, bit: usize| is(bit) && net.is_none_or(|net| net.trunc() != net);
    if zero != 0 || has & !HAS.iter().sum::<u8>() != 0 || empty || beyond(src, 0) || beyond(dst, 1) {
        return Err(value.wrong());
    }
    if is(5) && tos & !mask != 0 {
        return Err(value.wrong());
    }
    value.end()?;
    Ok(Alternative {
        src: src.filter(|_| is(0)),
        dst: dst.filter(|_| is(1)),
        protocol: is(2).then_some(protocol),
        src_ports: is(3).then_some(ports[0]),
        dst_ports: is(4).then_some(ports[1]),
        tos: is(5).then_some((tos, mask)),
    })
}

fn put_seconds(out: &mut Vec<u8>, seconds: Option<u32>) {
    if let Some(seconds) = seconds {
        tlv::put(out, part::LIFETIME, true, |out| out.extend(seconds.to_be_bytes()));
    }
}

fn write_request(out: &mut Vec<u8>, request: &Request) {
    tlv::put(out, part::FLOW_ID, true, |out| match &request.flow {
        FlowId::Number(number) => out.extend(number.to_be_bytes()),
        FlowId::Opaque(octets) => out.extend(octets),
    });
    if let Some(class) = &request.class {
        tlv::put(out, part::SERVICE_CLASS, true, |out| {
            out.extend(class.number.to_be_bytes());
            out.push(class.dscp.map_or(NO_DSCP, Dscp::get));
            out.extend(class.name.as_bytes());
        });
    }
    if let Some(amount) = &request.reservation {
        tlv::put(out, part::RESERVATION, true, |out| {
            out.extend(amount.rate_bps.to_be_bytes());
            out.extend(amount.burst_bytes.to_be_bytes());
            out.extend(amount.peak_bps.to_be_bytes());
            out.extend(amount.max_packet.to_be_bytes());
            out.extend(amount.min_policed.to_be_bytes());
        });
    }
    for alternative in &request.filter {
        tlv::put(out, part::FILTER, true, |out| write_alternative(out, alternative));
    }
    if let Some(scope) = &request.scope {
        tlv::put(out, part::SCOPE, true, |out| {
            tlv::put_text(out, &scope.ingress);
            tlv::put_text(out, &scope.egress);
        });
    }
    put_seconds(out, request.lifetime_s);
    if request.direction == Direction::Both {
        tlv::put(out, part::DIRECTION, true, |out| out.push(1));
    }
}

fn write_alternative(out: &mut Vec<u8>, a: &Alternative) {
    let is_v6 = a.src.or(a.dst).is_some_and(|net| net.addr().is_ipv6());
    let given = [
        a.src.is_some(),
        a.dst.is_some(),
        a.protocol.is_some(),
        a.src_ports.is_some(),
        a.dst_ports.is_some(),
        a.tos.is_some(),
    ];
    let has: u8 = given.iter().zip(HAS).filter(|(given, _)| **given).map(|(_, bit)| bit).sum();
    let length = |net: Option<IpNet>| net.map_or(0, |net| net.prefix_len());
    let (tos, mask) = a.tos.unwrap_or((0, 0));
    out.extend([if is_v6 { 6 } else { 4 }, has, length(a.src), length(a.dst)]);
    out.extend([a.protocol.unwrap_or(0), tos, mask, 0]);
    for (first, last) in [a.src_ports, a.dst_ports].map(Option::unwrap_or_default) {
        out.extend(first.to_be_bytes());
        out.extend(last.to_be_bytes());
    }
    for net in [a.src, a.dst] {
        match (net, is_v6) {
            (Some(IpNet::V4(net)), false) => out.extend(net.addr().octets()),
            (Some(IpNet::V6(net)), true) => out.extend(net.addr().octets()),
            (_, true) => out.extend([0; 16]),
            (_, false) => out.extend([0; 4]),
        }
    }
}
