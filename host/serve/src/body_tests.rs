use super::*;
use crate::limits::Limits;
use axum::body::{Body, Bytes};
use futures_util::stream;
use perhop_model::{Credentials, Speaks};
use serde::Deserialize;
use std::convert::Infallible;
use std::thread::ThreadId;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn gauges(set: &[(&str, &str)]) -> Gauges {
    let mut limits = Limits::default();
    set.iter().for_each(|(name, value)| limits.set(name, value).expect("in range"));
    Gauges::new(limits)
}

fn used(gauges: &Gauges) -> u64 {
    gauges.rows().into_iter().find(|r| r.name == "api.bodies_bytes").and_then(|r| r.now).expect("listed")
}

fn request(is_own: bool, body: Body) -> Request {
    let mut request = Request::new(body);
    let role = if is_own { Role::Admin } else { Role::Read };
    request.extensions_mut().insert(Peer::with(Credentials { role, speaks: Speaks::ForAll }));
    request
}

/// A body that must not be read.
fn untouchable() -> Body {
    Body::from_stream(stream::poll_fn(|_| -> std::task::Poll<Option<Result<Bytes, Infallible>>> {
        panic!("the body is read")
    }))
}

#[test]
fn a_body_of_many_chunks_is_one_charge_until_its_request_is_answered() {
    let gauges = gauges(&[]);
    let chunk = |_| Ok::<_, Infallible>(Bytes::from_static(b" "));
    let body = Body::from_stream(stream::iter((0..1_000).map(chunk)));
    let mut received = block_on(Received::from_request(request(true, body), &gauges)).expect("it fits");
    assert_eq!((received.permit.amount(), used(&gauges)), (1_000, 1_000));
    received.bytes = b"{\"a\":[1,2]}".to_vec();
    let (_, permit) = block_on(received.json::<serde_json::Value>()).expect("good");
    let parsed = 2 * VALUE_BYTES + ARRAY_BYTES + OBJECT_BYTES;
    assert_eq!(used(&gauges), 1_000 + parsed, "what it became is charged too");
    drop(permit);
    assert_eq!(used(&gauges), 0);
}

#[test]
fn what_a_short_text_becomes_is_bounded() {
    let gauges = gauges(&[("api.bodies_bytes", "100000")]);
    let text = format!("[{}{{}}]", r#"{"":0},"#.repeat(1_000));
    let received = block_on(Received::from_request(request(true, Body::from(text)), &gauges)).expect("short");
    let refused = block_on(received.json::<serde_json::Value>()).expect_err("a hundred times the text");
    assert_eq!((refused.status(), used(&gauges)), (StatusCode::PAYLOAD_TOO_LARGE, 0));
    let quoted = format!("{:?}", r#"{"[,"#.repeat(1_000));
    let received =
        block_on(Received::from_request(request(true, Body::from(quoted)), &gauges)).expect("fits");
    assert!(block_on(received.json::<String>()).is_ok(), "a string is no object");
}

struct ParsedBy(ThreadId);

impl<'de> Deserialize<'de> for ParsedBy {
    fn deserialize<D: serde::Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(text).map(|_| Self(std::thread::current().id()))
    }
}

#[test]
fn a_long_body_is_parsed_where_nobody_waits_for_it() {
    let gauges = gauges(&[]);
    for (length, is_here) in [(100, true), (PARSED_AT_ONCE + 100, false)] {
        let body = Body::from(format!("{:length$}", 1));
        let received = block_on(Received::from_request(request(true, body), &gauges)).expect("it fits");
        let (by, _permit) = block_on(received.json::<ParsedBy>()).expect("good");
        assert_eq!(by.0 == std::thread::current().id(), is_here, "{length}");
    }
}

#[test]
fn who_may_only_read_is_refused_before_the_body_is_read() {
    let gauges = gauges(&[]);
    let (mut parts, _) = request(false, untouchable()).into_parts();
    let refused = block_on(Changer::from_request_parts(&mut parts, &gauges)).err().expect("refused");
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let (mut parts, _) = request(true, Body::empty()).into_parts();
    assert!(block_on(Changer::from_request_parts(&mut parts, &gauges)).is_ok());
    // A check of a change is for readers too, within reason.
    let mut long = request(false, untouchable());
    long.headers_mut().insert(header::CONTENT_LENGTH, (READERS_BODY + 1).into());
    let refused = block_on(Received::from_request(long, &gauges)).expect_err("too long for a reader");
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let short = request(false, Body::from("{}"));
    assert!(block_on(Received::from_request(short, &gauges)).is_ok());
}
