//! The messages of RFC 4475 §3, each by the name of its file. What the RFC leaves open is decided here once; what a proxy answers beyond
//! this is tested with the proxy.

use super::*;
use crate::testing::torture;

/// The message, with its octets as they came.
fn read(name: &str) -> Option<(Message, Vec<u8>)> {
    let bytes = torture(name)?;
    Some((Message::datagram(&bytes).expect("it has a start line"), bytes))
}

/// A well-formed one, which is passed on octet for octet.
fn good(name: &str, test: impl Fn(&Message, Head<'_>)) {
    let Some((message, bytes)) = read(name) else { return };
    let head = message.check().unwrap_or_else(|fault| panic!("{name}: {fault}"));
    assert_eq!(Edit::new(&message).finish(false), bytes, "{name} is passed on as it came");
    test(&message, head);
}

/// One that is refused, and with which status.
fn refused(name: &str, fault: Fault, status: u16) {
    let Some((message, _)) = read(name) else { return };
    assert_eq!(message.check().map(drop), Err(fault), "{name}");
    assert_eq!(fault.answer().0, status, "{name}");
    let reply = Reply::new(&message, status).tag("x".into()).bytes();
    let reply = Message::datagram(&reply).expect("a response");
    assert_eq!(reply.status(), Some(status));
    assert_eq!(reply.fields(Name::Via).count(), message.fields(Name::Via).count(), "it finds its way back");
}

#[test]
fn wsinv_a_short_tortuous_invite_is_well_formed() {
    good("wsinv", |message, head| {
        assert_eq!((head.method, head.cseq, head.max_forwards), (Method::Invite, 9, Some(68)));
        assert_eq!(head.to.tag(), Some(&b"1918181833n"[..]));
        assert_eq!(head.from.tag(), Some(&b"98asjd8"[..]));
        assert_eq!(head.from.display, br#""J Rosenberg \\\"""#);
        assert_eq!(head.call_id, b"wsinv.ndaksdj@192.0.2.1");
        let vias: Vec<_> = message.values(Name::Via).map(|v| Via::read(v).expect("a Via")).collect();
        assert_eq!(vias.len(), 3);
        assert_eq!(vias[0].branch(), Some(&b"390skdjuw"[..]), "no cookie: RFC 2543");
        assert_eq!((vias[1].transport, vias[1].host), (Some(Transport::Tcp), &b"spindle.example.com"[..]));
        assert_eq!(vias[2].branch(), Some(&b"z9hG4bK30239"[..]));
        let contact = message.contacts().next().expect("one").expect("good");
        assert_eq!(contact.params.get("q"), Some(&b"0.33"[..]));
        assert_eq!(contact.params.get("secondparam"), Some(&b""[..]));
        assert!(NameAddr::read(message.value(Name::Route).expect("one")).expect("good").uri.is_loose());
        assert_eq!(message.other("unknownheaderwithunusualvalue").next(), Some(&b";;,,;;,;"[..]));
        assert_eq!(message.body().len(), 150);
    });
}

#[test]
fn intmeth_a_wide_range_of_characters_is_well_formed() {
    good("intmeth", |message, head| {
        assert_eq!((head.method, head.max_forwards), (Method::Other, Some(255)));
        assert_eq!(head.method_text, b"!interesting-Method0123456789_*+`.%indeed'~");
        let uri = head.uri.expect("a request");
        assert_eq!(uri.host, b"example.com");
        assert!(uri.user.expect("one").starts_with(b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"));
        assert_eq!(head.call_id, br#"intmeth.word%ZK-!.*_+'@word`~)(><:\/"][?}{"#);
        assert_eq!(head.from.tag(), Some(&b"_token~1'+`*%!-."[..]));
        assert_eq!(message.other("extensionHeader-!.%*+_`'~").count(), 1);
    });
}

#[test]
fn esc01_escapes_are_those_characters() {
    good("esc01", |message, head| {
        let uri = head.uri.expect("a request");
        assert_eq!(uri.user_unescaped().expect("one"), b"sips:user@example.com");
        assert_eq!(uri.host, b"example.net");
        assert_eq!(head.to.uri.user_unescaped().expect("one"), b"user");
        assert_eq!(head.from.uri.user_unescaped().expect("one"), b"I have spaces");
        let contact = message.contacts().next().expect("one").expect("good");
        assert_eq!(contact.uri.user_unescaped().expect("one"), b"caller");
        assert!(contact.uri.is_loose(), "lr in escapes");
    });
}

#[test]
fn escnull_a_null_in_a_user_shortens_no_name() {
    good("escnull", |message, head| {
        assert_eq!(head.to.uri.user_unescaped().expect("one"), b"null-\0-null");
        let users: Vec<_> =
            message.contacts().map(|c| c.expect("good").uri.user_unescaped().expect("one")).collect();
        assert_eq!(users, [vec![0], vec![0, 0]], "two contacts");
    });
}

#[test]
fn esc02_a_percent_that_is_no_escape_makes_another_method_and_header() {
    good("esc02", |message, head| {
        assert_eq!((head.method, head.method_text), (Method::Other, &b"RE%47IST%45R"[..]));
        assert_eq!(message.fields(Name::Contact).count(), 2);
        assert_eq!(head.to.display, br#""%Z%45""#);
    });
}

#[test]
fn lwsdisp_no_space_before_the_bracket_is_forgiven() {
    good("lwsdisp", |_, head| {
        assert_eq!(head.from.display, b"caller");
        assert_eq!(head.from.uri.user, Some(&b"caller"[..]));
    });
}

#[test]
fn longreq_long_values_are_well_formed() {
    good("longreq", |message, head| {
        assert_eq!(message.values(Name::Via).count(), 34);
        assert!(head.call_id.len() > 100);
        assert_eq!(head.from.tag().map(<[u8]>::len).map(|len| len > 100), Some(true));
        assert_eq!(head.to.uri.port, Some(6000));
    });
}

#[test]
fn dblreq_what_follows_a_message_in_its_datagram_is_noise() {
    let Some((message, bytes)) = read("dblreq") else { return };
    assert_eq!(message.check().expect("good").method, Method::Register);
    let passed = Edit::new(&message).finish(false);
    assert!(bytes.starts_with(&passed) && passed.len() < bytes.len());
    assert!(!passed.windows(6).any(|w| w == b"INVITE"));
}

#[test]
fn semiuri_a_semicolon_before_the_at_is_the_users() {
    good("semiuri", |message, head| {
        let uri = head.uri.expect("a request");
        assert_eq!(uri.user_unescaped().expect("one"), b"user;par=u@example.net");
        assert_eq!(uri.params.iter().count(), 0);
        assert_eq!(message.other("accept").count(), 1);
    });
}

#[test]
fn transports_of_any_name_are_well_formed() {
    good("transports", |message, _| {
        let vias: Vec<_> =
            message.values(Name::Via).map(|v| Via::read(v).expect("a Via").transport).collect();
        assert_eq!(vias, [Some(Transport::Udp), None, Some(Transport::Tls), None, Some(Transport::Tcp)]);
    });
}

#[test]
fn mpart01_a_binary_body_is_kept_whole() {
    good("mpart01", |message, _| {
        assert_eq!(message.body().len(), 553);
        assert!(message.body().contains(&0));
        assert_eq!(message.body_of("text/plain"), Some(&b"Hello"[..]));
        assert!(message.body_of("application/octet-stream").expect("one").len() > 300);
        assert_eq!(message.body_of("application/sdp"), None);
    });
}

#[test]
fn unreason_a_reason_phrase_may_be_anything() {
    good("unreason", |message, _| {
        assert_eq!(message.status(), Some(200));
        assert!(std::str::from_utf8(message.reason()).expect("UTF-8").starts_with("= 2**3 * 5**2 "));
    });
}

#[test]
fn noreason_a_reason_phrase_may_be_empty() {
    good("noreason", |message, _| assert_eq!((message.status(), message.reason()), (Some(100), &b""[..])));
}

#[test]
fn badinv01_separators_without_values_are_refused() {
    refused("badinv01", Fault::Value(Name::Via), 400);
}

#[test]
fn clerr_a_body_shorter_than_told_is_refused_and_a_stream_waits() {
    refused("clerr", Fault::Short, 400);
    let Some(bytes) = torture("clerr") else { return };
    let mut stream = Stream::default();
    stream.push(&bytes);
    assert!(matches!(stream.next(), Ok(None)));
    assert!(stream.held() > 0);
}

#[test]
fn ncl_a_negative_length_is_refused_and_ends_a_stream() {
    refused("ncl", Fault::Value(Name::ContentLength), 400);
    let Some(bytes) = torture("ncl") else { return };
    let mut stream = Stream::default();
    stream.push(&bytes);
    assert_eq!(stream.next().map(drop), Err(Unreadable::Length));
}

#[test]
fn scalar02_a_cseq_too_large_is_refused() {
    refused("scalar02", Fault::Value(Name::CSeq), 400);
}

#[test]
fn scalarlg_a_response_with_a_cseq_too_large_is_thrown_away() {
    let Some((message, _)) = read("scalarlg") else { return };
    assert_eq!(message.check().map(drop), Err(Fault::Value(Name::CSeq)));
    assert!(!message.is_request(), "nobody answers a response");
}

#[test]
fn quotbal_an_open_quote_is_refused() {
    refused("quotbal", Fault::Value(Name::To), 400);
}

#[test]
fn ltgtruri_brackets_around_the_request_uri_are_refused() {
    refused("ltgtruri", Fault::Uri, 400);
}

#[test]
fn lwsruri_a_space_in_the_request_uri_is_refused() {
    refused("lwsruri", Fault::Uri, 400);
}

/// Passed on with one space between the parts of the start line.
fn respaced(name: &str, line: &[u8]) {
    let Some((message, bytes)) = read(name) else { return };
    message.check().expect("good");
    let passed = Edit::new(&message).finish(false);
    assert!(passed.starts_with(line), "{name}");
    let end = |text: &[u8]| text.windows(2).position(|w| w == b"\r\n").expect("lines");
    assert_eq!(passed[end(&passed)..], bytes[end(&bytes)..], "all else is as it came");
}

#[test]
fn lwsstart_spaces_between_the_parts_of_a_start_line_are_not_passed_on() {
    respaced("lwsstart", b"INVITE sip:user@example.com SIP/2.0\r\n");
}

#[test]
fn trws_spaces_behind_the_start_line_are_not_passed_on() {
    respaced("trws", b"OPTIONS sip:remote-target@example.com SIP/2.0\r\n");
}

#[test]
fn escruri_headers_in_a_request_uri_are_refused() {
    refused("escruri", Fault::UriHeaders, 400);
}

#[test]
fn baddate_a_date_that_nobody_needs_is_not_judged() {
    good("baddate", |message, _| assert_eq!(message.other("date").count(), 1));
}

#[test]
fn regbadct_a_contact_whose_uri_needs_brackets_is_refused() {
    refused("regbadct", Fault::Value(Name::Contact), 400);
}

#[test]
fn badaspec_spaces_within_brackets_are_refused() {
    refused("badaspec", Fault::Value(Name::To), 400);
}

#[test]
fn baddn_a_display_name_that_needs_quotes_is_refused() {
    refused("baddn", Fault::Value(Name::From), 400);
}

#[test]
fn badvers_another_version_is_refused() {
    refused("badvers", Fault::Version, 505);
}

#[test]
fn mismatch01_another_method_in_cseq_is_refused() {
    refused("mismatch01", Fault::CSeqMethod, 400);
}

#[test]
fn mismatch02_an_unknown_method_with_another_in_cseq_is_not_implemented() {
    refused("mismatch02", Fault::UnknownMethod, 501);
}

#[test]
fn bigcode_a_status_code_beyond_699_is_thrown_away() {
    let Some((message, _)) = read("bigcode") else { return };
    assert_eq!(message.check().map(drop), Err(Fault::Status));
    assert!(!message.is_request());
}

#[test]
fn badbranch_a_branch_of_the_cookie_alone_is_refused() {
    refused("badbranch", Fault::Branch, 400);
}

#[test]
fn insuf_missing_header_fields_are_refused() {
    refused("insuf", Fault::Missing(Name::From), 400);
}

#[test]
fn unkscm_an_unknown_scheme_is_well_formed() {
    good("unkscm", |_, head| assert_eq!(head.uri.expect("a request").scheme, Scheme::Other));
}

#[test]
fn novelsc_a_known_scheme_of_other_protocols_is_well_formed() {
    good("novelsc", |_, head| {
        let uri = head.uri.expect("a request");
        assert_eq!((uri.scheme, uri.text), (Scheme::Other, &b"soap.beep://192.0.2.103:3002"[..]));
    });
}

#[test]
fn unksm2_unknown_schemes_in_header_fields_are_well_formed() {
    good("unksm2", |message, head| {
        assert_eq!(head.to.uri.scheme, Scheme::Other);
        assert_eq!(head.from.uri.text, b"http://www.example.com");
        assert_eq!(message.contacts().next().expect("one").expect("good").uri.scheme, Scheme::Other);
    });
}

#[test]
fn bext01_required_extensions_are_well_formed() {
    good("bext01", |message, _| {
        let asked: Vec<_> = message.values(Name::ProxyRequire).collect();
        assert_eq!(asked, [&b"noProxiesSupportThis"[..], b"norDoAnyProxiesSupportThis"]);
    });
}

#[test]
fn invut_a_body_of_an_unknown_type_is_well_formed() {
    good("invut", |message, _| {
        assert_eq!(message.body().len(), 40);
        assert_eq!(message.body_of("application/sdp"), None);
    });
}

#[test]
fn regaut01_an_unknown_authorization_is_passed_on() {
    good("regaut01", |message, _| assert_eq!(message.other("authorization").count(), 1));
}

#[test]
fn multi01_fields_that_may_be_there_once_are_refused_twice() {
    refused("multi01", Fault::Twice(Name::From), 400);
}

#[test]
fn mcl01_two_lengths_are_refused_and_end_a_stream() {
    refused("mcl01", Fault::Twice(Name::ContentLength), 400);
    let Some(bytes) = torture("mcl01") else { return };
    let mut stream = Stream::default();
    stream.push(&bytes);
    assert_eq!(stream.next().map(drop), Err(Unreadable::Length));
}

#[test]
fn bcast_a_response_to_many_hosts_has_nowhere_to_go() {
    good("bcast", |message, _| {
        let second = message.values(Name::Via).nth(1).expect("two");
        assert_eq!(Via::read(second).expect("a Via").reply_address(), None);
    });
}

#[test]
fn zeromf_no_hops_left_is_well_formed() {
    good("zeromf", |_, head| assert_eq!(head.max_forwards, Some(0)));
}

#[test]
fn cparam01_a_parameter_without_brackets_is_the_contacts() {
    good("cparam01", |message, _| {
        let contact = message.contacts().next().expect("one").expect("good");
        assert_eq!(contact.params.get("unknownparam"), Some(&b""[..]));
        assert_eq!(contact.uri.params.get("unknownparam"), None);
    });
}

#[test]
fn cparam02_a_parameter_within_brackets_is_the_uris() {
    good("cparam02", |message, _| {
        let contact = message.contacts().next().expect("one").expect("good");
        assert_eq!(contact.uri.params.get("unknownparam"), Some(&b""[..]));
        assert_eq!(contact.params.get("unknownparam"), None);
    });
}

#[test]
fn regescrt_headers_of_a_contact_are_kept() {
    good("regescrt", |message, _| {
        let contact = message.contacts().next().expect("one").expect("good");
        assert_eq!(contact.uri.headers, Some(&b"Route=%3Csip:sip.example.com%3E"[..]));
    });
}

#[test]
fn sdp01_what_a_caller_accepts_is_not_a_proxys_business() {
    good("sdp01", |message, _| assert_eq!(message.body_of("application/sdp").map(<[u8]>::len), Some(150)));
}

#[test]
fn inv2543_a_request_of_rfc_2543_is_accepted() {
    good("inv2543", |message, head| {
        assert_eq!((head.via.branch(), head.from.tag(), head.max_forwards), (None, None, None));
        assert!(!message.body().is_empty(), "to the end of the datagram");
        assert_eq!(head.from.uri.params.get("user"), Some(&b"phone"[..]));
    });
}
