use super::*;
use proptest::prelude::*;

const INVITE: &str = "INVITE sip:bob@b.example SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKa;rport, SIP/2.0/TCP x.example;branch=z9hG4bKb\r\n\
    v: SIP/2.0/UDP y.example\r\n\
    Max-Forwards: 70\r\n\
    Route: <sip:p1.example;lr>, <sip:p2.example;lr>,\r\n  <sip:p3.example;lr>\r\n\
    Route: <sip:p4.example;lr>\r\n\
    To: <sip:bob@b.example>\r\n\
    From: \"A, B\" <sip:a@a.example>;tag=1\r\n\
    Call-ID: 1@a\r\n\
    CSeq: 1 INVITE\r\n\
    QoS-Proxy: er=x\r\n\
    Content-Length: 3\r\n\r\nabc";

fn invite() -> Message {
    Message::datagram(INVITE.as_bytes()).expect("readable")
}

fn again(bytes: &[u8]) -> Message {
    let message = Message::datagram(bytes).expect("readable");
    message.check().expect("valid");
    message
}

#[test]
fn values_are_popped_and_pushed_across_lines() {
    let message = invite();
    for count in 0..=4 {
        let routes: Vec<_> = message.values(Name::Route).skip(count).map(<[u8]>::to_vec).collect();
        let edited = again(&Edit::new(&message).pop(Name::Route, count).finish(false));
        assert_eq!(edited.values(Name::Route).collect::<Vec<_>>(), routes, "{count} fewer");
    }
    let edited = again(&Edit::new(&message).push(Name::Via, b"SIP/2.0/TLS me;branch=z9hG4bKc").finish(false));
    assert_eq!(edited.check().expect("valid").via.host, b"me");
    assert_eq!(edited.body(), b"abc");
}

#[test]
fn where_a_request_came_from_is_noted_in_its_first_via() {
    let edited = again(&Edit::new(&invite()).received("198.51.100.7", 4711).finish(false));
    let via = edited.via().expect("one");
    assert_eq!(via.reply_to(), (&b"198.51.100.7"[..], 4711));
    assert_eq!(via.branch(), Some(&b"z9hG4bKa"[..]));
    assert_eq!(edited.values(Name::Via).count(), 3);
    let spoofed = INVITE.replace(";rport", ";received=203.0.113.9;rport=9");
    let spoofed = Message::datagram(spoofed.as_bytes()).expect("readable");
    let edited = again(&Edit::new(&spoofed).received("198.51.100.7", 4711).finish(false));
    assert_eq!(
        edited.via().expect("one").reply_to(),
        (&b"198.51.100.7"[..], 4711),
        "what a sender claims is replaced"
    );
}

#[test]
fn fields_are_set_and_removed_and_the_rest_stays() {
    let message = invite();
    let edited = Edit::new(&message)
        .set(Name::MaxForwards, b"69")
        .remove(Name::QosProxy)
        .uri(b"sip:bob@192.0.2.9")
        .finish(true);
    let expected = INVITE
        .replace("Max-Forwards: 70", "Max-Forwards: 69")
        .replace("QoS-Proxy: er=x\r\n", "")
        .replacen("sip:bob@b.example", "sip:bob@192.0.2.9", 1);
    assert_eq!(String::from_utf8(edited).expect("text"), expected);
    let bare = Message::datagram(INVITE.replace("Content-Length: 3\r\n", "").as_bytes()).expect("readable");
    let edited = again(&Edit::new(&bare).finish(true));
    assert_eq!(edited.value(Name::ContentLength), Some(&b"3"[..]), "a stream needs it");
}

#[test]
fn a_stream_gives_the_same_messages_however_it_is_cut() {
    let whole = [b"\r\n\r\n", INVITE.as_bytes(), b"\r\n", INVITE.as_bytes(), b"\r\n\r\n"].concat();
    for piece in [1, 2, 3, 7, 64, whole.len()] {
        let mut stream = Stream::default();
        let (mut messages, mut pings) = (0, 0);
        for part in whole.chunks(piece) {
            stream.push(part);
            while let Some(piece) = stream.next().expect("good") {
                match piece {
                    Piece::Message(message) => {
                        assert_eq!(message.bytes(), INVITE.as_bytes());
                        messages += 1;
                    }
                    Piece::Ping => pings += 1,
                }
            }
        }
        assert_eq!((messages, pings, stream.held()), (2, 2, 0), "in pieces of {piece}");
    }
}

#[test]
fn limits_are_kept() {
    let many = INVITE.replace("QoS-Proxy: er=x\r\n", &"X: y\r\n".repeat(MAX_FIELDS));
    let many = Message::datagram(many.as_bytes()).expect("readable");
    assert_eq!(many.check().map(drop), Err(Fault::Fields));
    let vias = INVITE.replace("v: SIP/2.0/UDP y.example\r\n", &"v: SIP/2.0/UDP y\r\n".repeat(MAX_VALUES));
    let vias = Message::datagram(vias.as_bytes()).expect("readable");
    assert_eq!(vias.check().map(drop), Err(Fault::Values(Name::Via)));
    let long = INVITE.replace("QoS-Proxy: er=x", &format!("X: {}", "y".repeat(MAX_HEAD)));
    assert_eq!(Message::datagram(long.as_bytes()).map(drop), Err(Unreadable::Head));
    let mut stream = Stream::default();
    stream.push(&long.as_bytes()[..MAX_HEAD + 1]);
    assert_eq!(stream.next().map(drop), Err(Unreadable::Head), "it does not wait for ever");
    let big = INVITE.replace("Content-Length: 3", "Content-Length: 70000");
    let mut stream = Stream::default();
    stream.push(big.as_bytes());
    assert_eq!(stream.next().map(drop), Err(Unreadable::Body));
}

#[test]
fn a_lonely_line_end_is_no_header_field() {
    for end in ["\n", "\r"] {
        let message = INVITE.replace("Call-ID: 1@a\r\n", &format!("Call-ID: 1@a{end}X: y\r\n"));
        let message = Message::datagram(message.as_bytes()).expect("readable");
        assert!(
            matches!(message.check(), Err(Fault::Field { .. })),
            "{end:?} would mean two things to two readers"
        );
    }
}

#[test]
fn parts_of_a_body_are_found_as_deep_as_allowed() {
    let mut kind = "application/sdp".to_string();
    let mut body = "v=0".to_string();
    for depth in 1..=MAX_NESTING + 1 {
        body = format!("pre\r\n--b{depth}\r\nContent-Type: {kind}\r\n\r\n{body}\r\n--b{depth}--\r\n");
        kind = format!("multipart/mixed;boundary=\"b{depth}\"");
        let message = INVITE.replace("Content-Length: 3", &format!("c: {kind}")).replace("abc", &body);
        let message = Message::datagram(message.as_bytes()).expect("readable");
        let found = message.body_of("application/sdp");
        assert_eq!(found, (depth <= MAX_NESTING).then_some(&b"v=0"[..]), "{depth} deep");
    }
}

#[test]
fn an_acknowledgment_and_a_cancellation_belong_to_their_request() {
    let message = invite();
    let ack = again(&message.dependent("ACK", Some(b"<sip:bob@b.example>;tag=9")));
    let cancel = again(&message.dependent("CANCEL", None));
    for (made, method) in [(&ack, Method::Ack), (&cancel, Method::Cancel)] {
        let head = made.check().expect("valid");
        assert_eq!((head.method, head.cseq), (method, 1));
        assert_eq!((made.values(Name::Via).count(), made.values(Name::Route).count()), (1, 4));
        assert_eq!(head.via.branch(), Some(&b"z9hG4bKa"[..]));
        assert_eq!(made.uri_text(), message.uri_text());
    }
    assert_eq!(ack.check().expect("valid").to.tag(), Some(&b"9"[..]));
    assert_eq!(cancel.check().expect("valid").to.tag(), None);
}

proptest! {
    #[test]
    fn octets_never_panic_and_stay_as_they_are(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(message) = Message::datagram(&bytes) {
            let _ = message.check();
        }
    }

    #[test]
    fn a_damaged_message_is_refused_or_passed_on_unchanged(at in 0..INVITE.len(), octet: u8) {
        let mut bytes = INVITE.as_bytes().to_vec();
        bytes[at] = octet;
        let Ok(message) = Message::datagram(&bytes) else { return Ok(()) };
        if message.check().is_ok() {
            let passed = Edit::new(&message).finish(false);
            let kept = Message::datagram(&passed).expect("still one");
            prop_assert!(kept.check().is_ok());
            prop_assert_eq!(Edit::new(&kept).finish(false), passed);
            for name in [Name::Via, Name::Route] {
                let all: Vec<_> = message.values(name).map(<[u8]>::to_vec).collect();
                for count in 0..=all.len() {
                    let popped = Message::datagram(&Edit::new(&message).pop(name, count).finish(false)).expect("still one");
                    prop_assert_eq!(popped.values(name).collect::<Vec<_>>(), all[count..].to_vec());
                }
            }
        }
    }
}
