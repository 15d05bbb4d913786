//! The traffic-control API's server over a router that takes everything.

use perhop_model::{Name, OpOutcome, OpResult, Outcome, Reply, Speaks};
use perhop_tcapi::server::{ClassRoom, Input, Limits, Output, Server, Who};
use perhop_tcapi::wire::{Body, Frames};
use perhop_units::Instant;
use std::sync::Arc;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// No message is shorter than this.
const LEAST: usize = 8;

/// Whatever a client sends is answered by messages, and no class is sold twice. Of messages that come one by one each has its
/// answer; of those that come together one that is there twice has one.
pub fn server(data: &[u8]) {
    let (asked, answered) = answers(data, LEAST - 1);
    assert_eq!(asked, answered, "each is answered once");
    let (asked, answered) = answers(data, data.len().max(1));
    assert!(answered <= asked, "none is answered twice");
}

/// How many messages there are in it, the last of which may have no end, and how many answers.
fn answers(data: &[u8], piece: usize) -> (usize, usize) {
    let mut server = Server::new(7, [(1, name("voice"))].into(), Limits { group: 1, ..Limits::default() });
    let room = ClassRoom {
        port: name("wan"),
        logical: "voice".into(),
        class: name("wan/voice"),
        guarantee_bps: 1_000_000,
    };
    let now = Instant(1);
    server.handle_input(now, Input::Rooms(vec![room]));
    server.handle_input(now, Input::Connected(1, Who { client: name("pbx"), speaks: Speaks::ForAll }));
    let mut sent = Vec::new();
    for piece in data.chunks(piece) {
        server.handle_input(now, Input::Bytes(1, piece.to_vec()));
        while let Some(output) = server.poll_output() {
            match output {
                Output::Send(_, bytes) => sent.extend(bytes),
                Output::Close(_) | Output::Look => {}
                Output::Claim(client, _) => server.handle_input(now, Input::Claimed(client, Ok(()))),
                Output::Submit(client, transaction) => {
                    let done = OpResult { outcome: OpOutcome::Created, id: 1, version: 1 };
                    let reply = Reply {
                        epoch: 7,
                        revision: 1,
                        generation: 1,
                        txn_id: transaction.txn_id,
                        outcome: Outcome::Committed,
                        replayed: false,
                        received_ns: 0,
                        committed_ns: 1,
                        ops: vec![done; transaction.ops.len()],
                        errors: Vec::new(),
                        retry_after_ms: None,
                    };
                    server.handle_input(now, Input::Reply(client, Arc::new(reply)));
                }
            }
        }
    }
    assert!(server.classes().all(|(_, _, has, reserved)| reserved <= has), "sold twice");
    let mut asked = Frames::default();
    asked.push(data);
    let mut messages = 0;
    let ended = loop {
        match asked.next() {
            Ok(Some(_)) => messages += 1,
            Ok(None) => break 0,
            Err(_) => break 1,
        }
    };
    let mut told = Frames::default();
    told.push(&sent);
    let mut number = 0;
    while let Some(frame) = told.next().expect("answers are framed") {
        assert!(matches!(frame.message.map(|m| m.body), Ok(Body::Answer(_))), "an answer is one");
        number += 1;
    }
    assert_eq!(told.held(), 0, "answers are whole");
    (messages + ended, number)
}
