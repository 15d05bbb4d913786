use super::tlv::{HEAD, Head};
use super::*;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use perhop_units::Dscp;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

fn net(v6: bool) -> BoxedStrategy<IpNet> {
    if v6 {
        (any::<u128>(), 0..=128u8)
            .prop_map(|(a, l)| IpNet::V6(Ipv6Net::new(Ipv6Addr::from(a), l).expect("in range").trunc()))
            .boxed()
    } else {
        (any::<u32>(), 0..=32u8)
            .prop_map(|(a, l)| IpNet::V4(Ipv4Net::new(Ipv4Addr::from(a), l).expect("in range").trunc()))
            .boxed()
    }
}

fn ports() -> impl Strategy<Value = Option<(u16, u16)>> {
    of((any::<u16>(), any::<u16>()).prop_map(|(a, b)| (a.min(b), a.max(b))))
}

fn alternative() -> impl Strategy<Value = Alternative> {
    any::<bool>().prop_flat_map(|v6| {
        let tos = of((any::<u8>(), any::<u8>()).prop_map(|(tos, mask)| (tos & mask, mask)));
        (of(net(v6)), of(net(v6)), of(any::<u8>()), ports(), ports(), tos).prop_map(
            |(src, dst, protocol, src_ports, dst_ports, tos)| Alternative {
                src,
                dst,
                protocol,
                src_ports,
                dst_ports,
                tos,
            },
        )
    })
}

fn request() -> impl Strategy<Value = Request> {
    let flow = prop_oneof![any::<u64>().prop_map(FlowId::Number), any::<[u8; 16]>().prop_map(FlowId::Opaque)];
    let class = (any::<u16>(), of(0..64u8), "[a-z:/]{0,40}").prop_map(|(number, dscp, name)| ServiceClass {
        number,
        dscp: dscp.map(|d| Dscp::new(d).expect("in range")),
        name,
    });
    let amount = any::<(u64, u32, u64, u16, u16)>().prop_map(|(rate_bps, burst_bytes, peak_bps, a, b)| {
        Reservation { rate_bps, burst_bytes, peak_bps, max_packet: a, min_policed: b }
    });
    let scope = ("[a-z0-9.]{0,20}", ".{0,20}").prop_map(|(ingress, egress)| Scope { ingress, egress });
    (flow, class, amount, vec(alternative(), 0..4), of(scope), of(any::<u32>()), any::<bool>()).prop_map(
        |(flow, class, amount, filter, scope, lifetime_s, both)| Request {
            flow,
            class: Some(class),
            reservation: Some(amount),
            filter,
            scope,
            lifetime_s,
            direction: if both { Direction::Both } else { Direction::One },
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let code = (1..=28u16).prop_map(|n| Code::from_number(n).expect("all are codes"));
    let refusal = (code, any::<u32>(), ".{0,60}", "[a-z]{0,9}", any::<(u64, u64, u32)>()).prop_map(
        |(code, offset, message, link, (asked_bps, free_bps, retry_after_ms))| Refusal {
            offset,
            class: link.clone(),
            link,
            asked_bps,
            free_bps,
            retry_after_ms,
            ..Refusal::new(code, message)
        },
    );
    let timing =
        any::<(u64, u64)>().prop_map(|(received_ns, committed_ns)| Timing { received_ns, committed_ns });
    (of(refusal), of(timing), any::<u64>()).prop_map(|(refusal, timing, router_epoch)| Answer {
        refusal,
        timing,
        router_epoch,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let body = prop_oneof![
        (of(1..u32::MAX), of("[a-z]{0,9}")).prop_map(|(lease_s, client)| Body::Hello { lease_s, client }),
        (request(), 0..3usize).prop_map(|(request, verb)| {
            Body::Do([Verb::Request, Verb::Modify, Verb::Release][verb], Box::new(request))
        }),
        answer().prop_map(|answer| Body::Answer(Box::new(answer))),
    ];
    (any::<u64>(), any::<u64>(), body).prop_map(|(txn, epoch, body)| Message { txn, epoch, body })
}

/// All messages of a stream that comes in pieces of these lengths.
fn frames(bytes: &[u8], lengths: &[usize]) -> Result<Vec<Frame>, Lost> {
    let (mut frames, mut out, mut rest) = (Frames::default(), Vec::new(), bytes);
    let mut lengths = lengths.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        frames.push(piece);
        rest = more;
        while let Some(frame) = frames.next()? {
            out.push(frame);
        }
    }
    Ok(out)
}

proptest! {
    #[test]
    fn what_is_written_is_read_in_whatever_pieces_it_comes(
        messages in vec(message(), 1..5), lengths in vec(1..200usize, 1..8),
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(Message::to_bytes).collect();
        let read = frames(&bytes, &lengths).expect("whole messages");
        prop_assert_eq!(read.iter().map(|f| f.bytes.len()).sum::<usize>(), bytes.len());
        let read: Vec<Message> = read.into_iter().map(|f| f.message.expect("as written")).collect();
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn what_is_cut_is_waited_for_and_never_read_as_something_else(message in message(), cut in any::<prop::sample::Index>()) {
        let bytes = message.to_bytes();
        let cut = cut.index(bytes.len());
        prop_assert_eq!(frames(&bytes[..cut], &[usize::MAX]).map(|f| f.len()), Ok(0));
    }

    #[test]
    fn octets_that_are_anything_are_read_as_they_were_meant_or_refused(
        message in message(), changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        noise in vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = message.to_bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.extend(noise);
        if let Ok(read) = frames(&bytes, &[7]) {
            for frame in read {
                let Ok(message) = frame.message else { continue };
                // What is passed over is not written again, all else is.
                let again = message.to_bytes();
                let head = Head::read(&again).expect("a head");
                prop_assert_eq!(Message::read(head, &again[HEAD..HEAD + head.length as usize]), Ok(message));
            }
        }
    }
}

/// As `docs/tcapi.md` shows it.
#[test]
fn a_request_is_these_octets() {
    let request = Request {
        class: Some(ServiceClass { number: 1, dscp: Some(Dscp::EF), name: "voice".into() }),
        reservation: Some(Reservation {
            rate_bps: 80_000,
            burst_bytes: 400,
            peak_bps: 0,
            max_packet: 200,
            min_policed: 0,
        }),
        filter: vec![Alternative {
            src: Some("192.0.2.5/32".parse().expect("a prefix")),
            protocol: Some(17),
            dst_ports: Some((5004, 5004)),
            ..Alternative::default()
        }],
        lifetime_s: Some(60),
        ..Request::of(FlowId::Number(7))
    };
    let message = Message { txn: 1, epoch: 3, body: Body::Do(Verb::Request, Box::new(request)) };
    let hex = concat!(
        "0001800000000080",
        "00000001",
        "0000000000000001",
        "0000000000000003",
        "0101800000000008",
        "0000000000000007",
        "0102800000000008",
        "00012e766f696365",
        "0103800000000018",
        "0000000000013880",
        "00000190",
        "0000000000000000",
        "00c8",
        "0000",
        "0104800000000018",
        "04152000",
        "11000000",
        "00000000138c138c",
        "c0000205",
        "00000000",
        "0106800000000004",
        "0000003c",
    );
    let written: String = message.to_bytes().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(written, hex);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let whole = |kind: u16, parts: &[u8]| {
        let mut bytes = kind.to_be_bytes().to_vec();
        bytes.extend([0x80, 0, 0, 0]);
        bytes.extend(((20 + parts.len()) as u16).to_be_bytes());
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        bytes.extend(parts);
        bytes
    };
    let flow = [1, 1, 0x80, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7];
    let of = |kind, parts: &[&[u8]]| {
        let bytes = whole(kind, &parts.concat());
        let mut read = frames(&bytes, &[usize::MAX]).expect("framed");
        assert_eq!(read[0].begin.is_some(), read[0].message != Err(Malformed::Version { version: 9 }));
        read.remove(0).message
    };
    let begin = 28;
    for (kind, parts, expected) in [
        (3, vec![&flow[..8], &[0, 0, 0, 0]], Malformed::Cut { at: begin }),
        (3, vec![], Malformed::Missing { kind: part::FLOW_ID }),
        (3, vec![&flow, &flow], Malformed::Twice { kind: part::FLOW_ID, at: begin + 16 }),
        (1, vec![&flow], Malformed::Missing { kind: part::SERVICE_CLASS }),
        (9, vec![&flow], Malformed::UnknownMessage { kind: 9 }),
        (
            3,
            vec![&flow, &[7, 7, 0x80, 0, 0, 0, 0, 0]],
            Malformed::UnknownPart { kind: 0x0707, at: begin + 16 },
        ),
        (
            3,
            vec![&flow, &[1, 7, 0x80, 0, 0, 0, 0, 1, 2, 0, 0, 0]],
            Malformed::Value { kind: part::DIRECTION, at: begin + 25 },
        ),
        (3, vec![&flow, &[1, 7, 0x80, 0, 0, 0, 0, 1, 1, 0, 9, 0]], Malformed::NotZero { at: begin + 25 }),
        (
            6,
            vec![&[1, 6, 0x80, 0, 0, 0, 0, 4, 0, 0, 0, 0]],
            Malformed::Value { kind: part::LIFETIME, at: begin + 12 },
        ),
        (5, vec![], Malformed::Missing { kind: part::ERROR }),
    ] {
        assert_eq!(of(kind, &parts), Err(expected));
    }
    // A part that need not be understood is passed over.
    assert!(of(3, &[&flow, &[7, 7, 0, 0, 0, 0, 0, 3, 1, 2, 3, 0]]).is_ok());
    let mut other = whole(3, &flow);
    other[11] = 9;
    assert_eq!(frames(&other, &[9]).expect("framed")[0].message, Err(Malformed::Version { version: 9 }));
    let long = [0, 1, 0x80, 0, 0, 0x10, 0, 0];
    assert_eq!(frames(&long, &[1]), Err(Lost { length: 0x10_0008 }));
}
