//! Offer and answer (RFC 3264): what flows of packets a session has.

use super::rate::rate;
use super::{CodecTable, Description, Kind, Stream};
use perhop_units::Rate;
use std::net::{IpAddr, SocketAddr};

/// Packets of RTP in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Who sends. Phones send from where they receive (RFC 4961), but none must: the port is no condition.
    pub from: Option<IpAddr>,
    /// Where they go.
    pub to: SocketAddr,
    /// How much at most, at the link.
    pub rate: Rate,
    /// What it is.
    pub kind: Kind,
}

/// The flows of both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flows {
    /// What the offerer sends.
    pub of_offerer: Vec<Flow>,
    /// What the answerer sends.
    pub of_answerer: Vec<Flow>,
    /// Streams that both sides have, be they on hold or not.
    pub streams: usize,
}

/// What an answer makes of an offer. A stream that the answer has refused or left out is none.
pub fn negotiate(offer: &Description, answer: &Description, table: &CodecTable) -> Flows {
    let mut flows = Flows::default();
    for (offered, answered) in offer.streams.iter().zip(&answer.streams) {
        if offered.is_rejected() || answered.is_rejected() {
            continue;
        }
        flows.streams += 1;
        let direction = |sender: &Stream, receiver: &Stream| {
            let to = receiver.address.filter(|_| sender.direction.sends() && receiver.receives())?;
            Some(Flow {
                from: sender.address.filter(|address| !address.is_unspecified()),
                to: SocketAddr::new(to, receiver.port),
                rate: rate(&answered.formats, receiver, table),
                kind: receiver.kind,
            })
        };
        add(&mut flows.of_offerer, direction(offered, answered));
        add(&mut flows.of_answerer, direction(answered, offered));
    }
    flows
}

/// Streams that share a port (RFC 9143) are one flow.
fn add(flows: &mut Vec<Flow>, flow: Option<Flow>) {
    let Some(flow) = flow else { return };
    match flows.iter_mut().find(|other| (other.from, other.to) == (flow.from, flow.to)) {
        Some(other) => other.rate = other.rate.saturating_add(flow.rate),
        None => flows.push(flow),
    }
}
