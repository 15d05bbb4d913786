//! Where a request goes (RFC 3261 §16.3 to §16.5).

use super::Proxy;
use super::context::{Hop, Plan};
use super::settings::Settings;
use super::token::{Token, loop_mark, loop_mark_of};
use crate::message::{Head, Message, Method, Name, NameAddr, Scheme, Transport, Uri, Via};
use crate::peer::Peer;
use crate::quality::Quality;
use perhop_units::Instant;
use std::net::SocketAddr;

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Routed {
    /// It is sent on.
    To {
        /// Each a branch.
        plans: Vec<Plan>,
        /// What our own Route said.
        token: Option<Token>,
        /// Our own Route, as it stands.
        route: Option<Vec<u8>>,
    },
    /// It is answered.
    Answer(u16),
}

impl<Q: Quality> Proxy<Q> {
    /// Checks a valid request (§16.3 items 2 to 5) and finds where it goes.
    pub(super) fn route(&self, now: Instant, peer: &Peer, message: &Message, head: &Head<'_>) -> Routed {
        let Some(uri) = head.uri else { return Routed::Answer(400) };
        if uri.scheme == Scheme::Other {
            return Routed::Answer(416);
        }
        if head.max_forwards == Some(0) {
            return Routed::Answer(483);
        }
        if head.method != Method::Ack && message.values(Name::ProxyRequire).next().is_some() {
            return Routed::Answer(420);
        }
        if head.method != Method::Ack && self.is_loop(message, head) {
            return Routed::Answer(482);
        }
        let settings = &self.settings;
        let mut routes: Vec<&[u8]> = message.values(Name::Route).collect();
        let mut plan = Plan { uri: uri.text.to_vec(), ..Plan::default() };
        let mut token = own(settings, &uri);
        let mut route = None;
        if token.is_some() {
            // A strict router has put our Record-Route into the request-URI (§16.4).
            let Some(last) = routes.pop().and_then(NameAddr::read) else { return Routed::Answer(400) };
            route = Some(uri.text.to_vec());
            plan.uri = last.uri.text.to_vec();
            plan.pop_last = true;
        }
        while let Some(first) = routes.first().and_then(|route| NameAddr::read(route)) {
            let found = own(settings, &first.uri);
            let names_us = found.is_some() || settings.is_self(first.uri.host, first.uri.port);
            // The second of a pair, one for each transport, goes with the first.
            let pair = found.is_some() && found.map(|f| f.call) == token.map(|t: Token| t.call);
            if !names_us || (plan.pop > 0 && !pair) {
                break;
            }
            token = token.or(found);
            route.get_or_insert_with(|| first.uri.text.to_vec());
            plan.pop += 1;
            routes.remove(0);
        }
        if let Some(first) = routes.first().and_then(|route| NameAddr::read(route)) {
            return self.along(plan, first.uri, token, route);
        }
        if let Some(flow) = token.and_then(|token| token.toward(peer)) {
            plan.hop = Some(Hop::Address(flow));
            return Routed::To { plans: vec![plan], token, route };
        }
        let target = plan.uri.clone();
        let Some(target) = Uri::read(&target) else { return Routed::Answer(400) };
        match self.targets(now, head.method, &target, plan) {
            Ok(mut plans) => {
                if target.scheme == Scheme::Sips {
                    // Nothing less than TLS (§16.6 item 7).
                    plans.retain(|plan| {
                        plan.hop.as_ref().is_some_and(|hop| hop.transport() == Transport::Tls)
                    });
                }
                if plans.is_empty() { Routed::Answer(480) } else { Routed::To { plans, token, route } }
            }
            Err(status) => Routed::Answer(status),
        }
    }

    /// Along a Route (§16.6 items 6 and 7).
    fn along(&self, mut plan: Plan, first: Uri<'_>, token: Option<Token>, route: Option<Vec<u8>>) -> Routed {
        if !first.is_loose() {
            plan.append = Some([b"<", &plan.uri[..], b">"].concat());
            plan.uri = first.text.to_vec();
            plan.pop += 1;
        }
        plan.hop = hop(&first);
        if plan.hop.is_none() { Routed::Answer(416) } else { Routed::To { plans: vec![plan], token, route } }
    }

    /// Who the request-URI is (§16.5).
    fn targets(&self, now: Instant, method: Method, uri: &Uri<'_>, plan: Plan) -> Result<Vec<Plan>, u16> {
        let to = |uri: &[u8], hop: Hop| Plan { uri: uri.to_vec(), hop: Some(hop), ..plan.clone() };
        if let Some(flow) = self.locations.flow(uri.text) {
            return Ok(vec![to(uri.text, Hop::Address(flow))]);
        }
        let Some(domain) = self.settings.domain(uri) else {
            if self.settings.is_self(uri.host, uri.port) {
                return Err(if method == Method::Options && uri.user.is_none() { 200 } else { 404 });
            }
            return hop(uri).map(|hop| vec![to(uri.text, hop)]).ok_or(416);
        };
        let registrar = domain.registrar.as_ref().and_then(|r| Uri::read(r.as_bytes()).and_then(|r| hop(&r)));
        if method == Method::Register {
            return registrar.map(|hop| vec![to(uri.text, hop)]).ok_or(404);
        }
        let record = uri.record();
        let learnt = self.locations.find(now, &record);
        let mut plans: Vec<_> = learnt.map(|b| to(&b.uri, Hop::Address(b.peer))).collect();
        let user = uri.user_unescaped().unwrap_or_default();
        for (_, place) in domain.users.iter().filter(|(name, _)| name.as_bytes() == user) {
            let place = place.as_bytes();
            if let Some(hop) = Uri::read(place).as_ref().and_then(hop)
                && plans.iter().all(|plan| plan.uri != place)
            {
                plans.push(to(place, hop));
            }
        }
        plans.truncate(self.settings.limits.contacts);
        match registrar {
            // Whoever is not known here may be known to the registrar's own proxy.
            Some(hop) if plans.is_empty() => Ok(vec![to(uri.text, hop)]),
            _ if plans.is_empty() => Err(if user.is_empty() { 404 } else { 480 }),
            _ => Ok(plans),
        }
    }

    /// Whether the same request has been here before (§16.3 item 4).
    fn is_loop(&self, message: &Message, head: &Head<'_>) -> bool {
        let mut mark = None;
        message.values(Name::Via).filter_map(Via::read).any(|via| {
            self.settings.is_self(via.host, via.port)
                && via.branch().and_then(loop_mark_of).is_some_and(|found| {
                    found == *mark.get_or_insert_with(|| loop_mark(message, head, &self.settings.secret))
                })
        })
    }
}

/// What our Record-Route says, if the URI is one.
fn own(settings: &Settings, uri: &Uri<'_>) -> Option<Token> {
    if !settings.is_self(uri.host, uri.port) {
        return None;
    }
    Token::read(uri.user?, &settings.secret)
}

/// The next hop of a URI, by what it says itself (RFC 3263 §4.1, §4.2 without NAPTR).
pub(super) fn hop(uri: &Uri<'_>) -> Option<Hop> {
    let told = uri.params.get("transport").map(|name| Transport::of(name).ok_or(()));
    let transport = match (uri.scheme, told) {
        (Scheme::Other, _) | (_, Some(Err(()))) => return None,
        (Scheme::Sips, _) => Transport::Tls,
        (Scheme::Sip, Some(Ok(transport))) => transport,
        (Scheme::Sip, None) => Transport::Udp,
    };
    let host = uri.params.get("maddr").unwrap_or(uri.host);
    Some(match crate::message::uri::address(host) {
        Some(address) => {
            let address = SocketAddr::new(address, uri.port.unwrap_or(transport.port()));
            Hop::Address(Peer { transport, address, connection: None })
        }
        None => Hop::Name(String::from_utf8_lossy(host).into_owned(), uri.port, transport),
    })
}
