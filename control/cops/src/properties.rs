//! What holds whatever octets come, as functions that panic where it does not: for fuzzing and for tests.

use crate::pdp::{self, On, Pdp};
use crate::pep::{self, Client, Pep};
use crate::wire::{
    Accept, Body, ClientType, Command, Context, Decided, Decision, Frames, Message, PepId, Request, Verdict,
};
use crate::{decode, dra, pr};
use perhop_units::{Duration, Instant};
use std::net::SocketAddr;

const TYPE: ClientType = dra::DEFAULT_CLIENT_TYPE;
const NOW: Instant = Instant(1);

fn install() -> Decided {
    let context = Context::of(Context::CONFIGURATION);
    Decided::Decisions(vec![Decision { context, verdict: Verdict::of(Command::INSTALL) }])
}

/// The messages of octets that this crate has written.
fn own(bytes: &[u8]) -> Vec<Message> {
    let (mut frames, mut all) = (Frames::default(), Vec::new());
    frames.push(bytes);
    while let Some(frame) = frames.next().expect("own messages have an end") {
        all.push(frame.message.expect("own messages are well formed"));
    }
    assert_eq!(frames.held(), 0, "own messages are whole");
    all
}

/// What is read is written as it was read, can be shown, and whoever gets it says what can be read. A PDP decides once on
/// each request, and a PEP reports once on each decision, at most.
///
/// # Panics
/// It is not so.
pub fn both_ends(data: &[u8]) {
    let _ = decode::describe(data).to_string();
    if let Ok(objects) = pr::read_all(data)
        && let Ok(again) = pr::write_all(&objects)
    {
        assert_eq!(pr::read_all(again.octets()), Ok(objects), "objects are written as they were read");
    }
    let mut frames = Frames::default();
    frames.push(data);
    while let Ok(Some(frame)) = frames.next() {
        if let Ok(message) = frame.message {
            if let Body::Request(request) = &message.body {
                let _ = dra::asked(request);
            }
            assert_eq!(
                Message::read(&message.to_bytes()),
                Ok(message),
                "messages are written as they were read"
            );
        }
    }
    to_pdp(data);
    to_pep(data);
}

/// Octets for a PDP that accepts and installs everything.
fn to_pdp(data: &[u8]) {
    let mut pdp = Pdp::new(pdp::Config {
        client_types: vec![TYPE],
        security: pdp::Security::None,
        keep: Duration::from_secs(60),
        patience: Duration::from_secs(60),
        max_peers: 4,
        max_requests: 16,
    });
    pdp.handle_input(NOW, pdp::Input::Connected { connection: 1, sequence: 1 });
    let (mut asked, mut decided) = (0, 0);
    for piece in data.chunks(13) {
        pdp.handle_input(NOW, pdp::Input::Bytes(1, piece.to_vec()));
        while let Some(output) = pdp.poll_output() {
            match output {
                pdp::Output::Send(_, bytes) => {
                    let is_decision = |message: &Message| {
                        matches!(message.body, Body::Decision { decided: Decided::Decisions(_), .. })
                    };
                    decided += own(&bytes).iter().filter(|message| is_decision(message)).count();
                }
                pdp::Output::Notice(pdp::Notice::Opening { connection, peer, .. }) => {
                    let accept = Accept { keep_alive_s: 30, accounting_s: None };
                    // One that has opened and closed at once is not there any more.
                    let _ = pdp.accept(NOW, connection, peer.client_type, accept);
                }
                pdp::Output::Notice(pdp::Notice::Asked { peer, question, request, .. }) => {
                    asked += 1;
                    let _ = pdp.decide(NOW, &peer, &request.handle, On::Question(question), install());
                }
                _ => {}
            }
        }
    }
    assert!(decided <= asked, "no request is decided on twice");
    pdp.handle_input(NOW, pdp::Input::Disconnected(1));
    pdp.handle_input(Instant(u64::MAX), pdp::Input::Tick);
    assert_eq!(pdp.peers().count(), 0, "nothing is kept for good");
}

/// Octets for a PEP with an open client and a request.
fn to_pep(data: &[u8]) {
    let config = pep::Config {
        id: PepId::new("fuzz").expect("a name"),
        servers: vec![SocketAddr::from(([192, 0, 2, 1], crate::wire::PORT))],
        clients: vec![Client { client_type: TYPE, client_si: None }],
        security: pep::Security::None,
        patience: Duration::from_secs(5),
        keep: Duration::from_secs(60),
        retry: (Duration::from_secs(1), Duration::from_secs(8)),
        max_requests: 16,
    };
    let mut pep = Pep::new(NOW, config, 1);
    let context = Context::of(Context::CONFIGURATION);
    let (in_interface, out_interface) = (None, None);
    let request =
        Request { handle: 1.into(), context, in_interface, out_interface, client_si: vec![], local: vec![] };
    pep.handle_input(NOW, pep::Input::Tick);
    pep.handle_input(NOW, pep::Input::Connected { sequence: 1 });
    let accept = Accept { keep_alive_s: 30, accounting_s: None };
    pep.handle_input(NOW, pep::Input::Bytes(Message::new(TYPE, Body::Accept(accept)).to_bytes()));
    pep.ask(NOW, TYPE, request).expect("there is room for one");
    let (mut decided, mut reported) = (0, 0);
    for piece in data.chunks(13) {
        pep.handle_input(NOW, pep::Input::Bytes(piece.to_vec()));
        while let Some(output) = pep.poll_output() {
            match output {
                pep::Output::Send(bytes) => {
                    reported += own(&bytes).iter().filter(|m| matches!(m.body, Body::Report(_))).count();
                }
                pep::Output::Notice(pep::Notice::Decided { client_type, handle, decisions, .. }) => {
                    decided += 1;
                    decisions.iter().for_each(|decision| _ = dra::told(decision));
                    let _ = pr::Transaction::read(&decisions);
                    let _ = pep.report(NOW, client_type, &handle, true, Vec::new());
                }
                _ => {}
            }
        }
    }
    assert!(reported <= decided, "no decision is reported on twice");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::message;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ends_bear_whatever_comes(
            messages in vec(message(), 1..8), ours in any::<bool>(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let mut bytes = Vec::new();
            for mut message in messages {
                if ours && message.client_type != ClientType::CONNECTION {
                    message.client_type = TYPE;
                    message.integrity = None;
                    if let Body::Decision { handle, .. } = &mut message.body {
                        *handle = 1.into();
                    }
                }
                bytes.extend(message.to_bytes());
            }
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            both_ends(&bytes);
        }
    }
}
