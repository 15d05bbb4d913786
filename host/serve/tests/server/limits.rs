//! Each limit, met by a client that speaks bytes.

use super::fake::{Answer, PATIENCE, Serving};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const HEAD: &str = "POST /v1/explain HTTP/1.1\r\nhost: r\r\nconnection: close\r\n";

fn send(serving: &Serving, text: &str) -> UnixStream {
    let mut stream = serving.connect();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// Asks on a connection that stays.
fn ask_on(stream: &mut UnixStream, uri: &str) -> (u16, serde_json::Value) {
    stream.write_all(format!("GET {uri} HTTP/1.1\r\nhost: r\r\n\r\n").as_bytes()).unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
    loop {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..n]);
        let text = std::str::from_utf8(&bytes).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            return (text[9..12].parse().unwrap(), serde_json::from_str(body).unwrap());
        }
    }
}

#[test]
fn one_connection_too_many_is_told_when_to_come_back() {
    let serving = Serving::with(&[("api.connections", "3")]);
    let mut held: Vec<UnixStream> = (0..3).map(|_| serving.connect()).collect();
    for stream in &mut held {
        assert_eq!(ask_on(stream, "/v1/limits").0, 200);
    }
    for _ in 0..2 {
        let refused = serving.ask("GET", "/v1/limits", "");
        assert_eq!(refused.status, 503, "{refused:?}");
        let body = refused.json();
        assert!(body["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0));
        assert_eq!(
            (body["errors"][0]["code"].as_str(), body["errors"][0]["limit"].as_u64()),
            (Some("limit_reached"), Some(3))
        );
    }
    let (_, page) = ask_on(&mut held[0], "/v1/limits");
    let row =
        page["rows"].as_array().unwrap().iter().find(|r| r["name"] == "api.connections").unwrap().clone();
    assert_eq!((row["now"].as_u64(), row["hits"].as_u64()), (Some(3), Some(2)));
    held.pop();
    let end = std::time::Instant::now() + PATIENCE;
    while serving.ask("GET", "/v1/limits", "").status != 200 {
        assert!(std::time::Instant::now() < end, "the place of the one that left stays taken");
    }
}

#[test]
fn a_body_is_bounded_whether_or_not_it_says_how_long_it_is() {
    let serving = Serving::with(&[("api.body_bytes", "2000")]);
    let announced = Answer::read(send(&serving, &format!("{HEAD}content-length: 2001\r\n\r\n")));
    let chunk = format!("{:x}\r\n{}\r\n", 1500, " ".repeat(1500));
    let chunked =
        Answer::read(send(&serving, &format!("{HEAD}transfer-encoding: chunked\r\n\r\n{chunk}{chunk}")));
    for answer in [announced, chunked] {
        assert_eq!(answer.status, 413, "{answer:?}");
        let error = &answer.json()["errors"][0];
        assert_eq!((error["code"].as_str(), error["limit"].as_u64()), (Some("limit_reached"), Some(2000)));
    }
    assert_eq!(serving.limit("api.body_bytes")["hits"], 2);
    let fits = format!("{:<2000}", r#"{"packet":"x"}"#);
    assert_eq!(serving.ask("POST", "/v1/explain", &fits).status, 200);
}

#[test]
fn bodies_are_bounded_together() {
    let serving = Serving::with(&[("api.bodies_bytes", "3000")]);
    let half = format!("{HEAD}content-length: 4000\r\n\r\n{}", " ".repeat(2000));
    let first = send(&serving, &half);
    let end = std::time::Instant::now() + PATIENCE;
    while serving.limit("api.bodies_bytes")["now"] != 2000 {
        assert!(std::time::Instant::now() < end, "the first half does not arrive");
    }
    let refused = Answer::read(send(&serving, &half));
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.json()["retry_after_ms"].is_u64());
    drop(first);
    while serving.limit("api.bodies_bytes")["now"] != 0 {
        assert!(std::time::Instant::now() < end, "what a client that left had sent stays counted");
    }
}

#[test]
fn what_a_body_takes_is_counted_until_the_answer() {
    let serving = Serving::start();
    *serving.router.holds.lock().unwrap() = true;
    let body =
        r#"{"txn_id":"00000000000000000000000000000001","owner":"cli","fence":0,"mode":"commit","ops":[]}"#;
    let head = HEAD.replace("explain", "transactions");
    let waiting = send(&serving, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    let end = std::time::Instant::now() + PATIENCE;
    while serving.router.unanswered.lock().unwrap().is_empty() {
        assert!(std::time::Instant::now() < end, "the transaction does not arrive");
    }
    let now = |serving: &Serving| serving.limit("api.bodies_bytes")["now"].as_u64().unwrap();
    assert!(now(&serving) > body.len() as u64);
    let reply = serving.router.reply();
    let done = serving.router.unanswered.lock().unwrap().remove(0);
    done(std::sync::Arc::new(reply));
    assert_eq!((Answer::read(waiting).status, now(&serving)), (200, 0));
}

#[test]
fn a_head_that_does_not_end_is_given_up() {
    let serving = Serving::with(&[("api.head_ms", "50")]);
    for text in ["", "GET /v1/limits HT", "GET /v1/limits HTTP/1.1\r\nhost: r\r\n"] {
        let mut rest = Vec::new();
        send(&serving, text).read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"", "closed without an answer");
    }
    assert!(serving.limit("api.head_ms")["hits"].as_u64().unwrap() >= 2);
}

#[test]
fn a_body_that_does_not_end_is_408() {
    let serving = Serving::with(&[("api.body_ms", "50")]);
    let answer = Answer::read(send(&serving, &format!("{HEAD}content-length: 14\r\n\r\n{{\"packet\":")));
    assert_eq!((answer.status, answer.json()["errors"][0]["limit"].as_u64()), (408, Some(50)), "{answer:?}");
    assert_eq!(serving.limit("api.body_ms")["hits"], 1);
}

#[test]
fn a_client_that_reads_nothing_is_given_up() {
    let serving = Serving::with(&[("api.write_ms", "50")]);
    *serving.router.rows.lock().unwrap() = 50_000;
    let stream = send(&serving, "GET /v1/counters HTTP/1.1\r\nhost: r\r\n\r\n");
    serving.wait_for_hit("api.write_ms");
    drop(stream);
    let whole = serving.ask("GET", "/v1/counters", "").json();
    assert_eq!(whole["rows"].as_array().map(Vec::len), Some(50_000), "who reads gets everything");
}

#[test]
fn readers_of_events_are_bounded_and_leave_room_when_they_go() {
    let serving = Serving::with(&[("api.event_readers", "1")]);
    let mut reader = send(&serving, "GET /v1/events HTTP/1.1\r\nhost: r\r\n\r\n");
    let mut head = [0; 12];
    reader.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let refused = serving.ask("GET", "/v1/events", "");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.json()["errors"][0]["limit"], 1);
    assert_eq!(serving.limit("api.event_readers")["hits"], 1);
    assert_eq!(
        serving.router.watchers.lock().unwrap().len(),
        1,
        "the router has one watcher for all readers"
    );
    drop(reader);
    let end = std::time::Instant::now() + PATIENCE;
    while serving.limit("api.event_readers")["now"] != 0 {
        assert!(std::time::Instant::now() < end, "the place of a reader that left stays taken");
    }
}
