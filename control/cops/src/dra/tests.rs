use super::*;
use perhop_tcapi::wire::{Direction, Reservation as Amount, Scope, ServiceClass};

fn reservation() -> Reservation {
    Reservation {
        class: Some(ServiceClass { number: 1, dscp: None, name: "voice".into() }),
        reservation: Some(Amount {
            rate_bps: 80_000,
            burst_bytes: 400,
            peak_bps: 0,
            max_packet: 200,
            min_policed: 0,
        }),
        scope: Some(Scope { ingress: "lan".into(), egress: "wan".into() }),
        lifetime_s: Some(60),
        direction: Direction::Both,
        ..Reservation::of(FlowId::Number(7))
    }
}

const TAG: Tag = Tag { txn: 5, epoch: 2 };

#[test]
fn what_is_asked_and_told_is_read_as_it_was_meant() {
    let request = ask(Handle::from(1), TAG, &reservation()).expect("short");
    assert_eq!(asked(&request), Ok(Asked::Reservation(TAG, Box::new(reservation()))));
    assert_eq!(asked(&subscribe(Handle::from(2))), Ok(Asked::Provisioning));
    let refusal = Refusal {
        link: "wan".into(),
        class: "voice".into(),
        asked_bps: 80_000,
        free_bps: 16_000,
        ..Refusal::new(Code::NoCapacity, "full")
    };
    for (what, command, flags) in [
        (Told::Granted(Box::new(reservation())), Command::INSTALL, 0),
        (Told::Refused(Box::new(refusal.clone())), Command::REMOVE, Verdict::TRIGGER_ERROR),
        (Told::Provided(Box::new(reservation())), Command::INSTALL, 0),
        (Told::Withdrawn(FlowId::Number(7)), Command::REMOVE, 0),
    ] {
        let decision = decision(TAG, &what).expect("short");
        assert_eq!((decision.verdict.command, decision.verdict.flags), (command, flags));
        assert_eq!(told(&decision), Ok(Some((TAG, what))));
    }
    assert_eq!(told(&nothing()), Ok(None));
    let answer = Answer { refusal: Some(refusal), timing: None, router_epoch: 9 };
    let info = report(TAG, answer.clone()).expect("short");
    assert_eq!(reported(&[info]), Ok(Some((TAG, answer))));
    assert_eq!(reported(&[]), Ok(None));
    assert!(DEFAULT_CLIENT_TYPE.is_private());
}

#[test]
fn what_is_none_of_it_is_refused_with_an_error_and_a_reason() {
    let with = |client_si| Request { client_si, ..ask(Handle::from(1), TAG, &reservation()).expect("short") };
    let data = |octets: &[u8]| ClientSi::Signaled(Opaque::new(octets.to_vec()).expect("short"));
    let whole = with(vec![]);
    assert_eq!(asked(&whole), Err(Unreadable::Missing));
    assert_eq!(Unreadable::Missing.error().code, ErrorCode::MANDATORY_CLIENT_INFO_MISSING);
    let good = ask(Handle::from(1), TAG, &reservation()).expect("short").client_si;
    let octets = good[0].contents().octets().to_vec();
    assert_eq!(asked(&with(vec![data(&octets[..octets.len() - 4])])), Err(Unreadable::NotOne));
    assert_eq!(asked(&with(vec![data(&[&octets[..], &octets].concat())])), Err(Unreadable::NotOne));
    assert_eq!(asked(&with([good.clone(), good.clone()].concat())), Err(Unreadable::Unexpected));
    let mut bad = octets.clone();
    bad[8] = 9;
    let unreadable = asked(&with(vec![data(&bad)])).expect_err("of another version");
    assert_eq!(unreadable.error().sub_code, Code::Unsupported.number());
    // A refusal is none of provisioning, a release none of outsourcing.
    let mut wrong = decision(TAG, &Told::Withdrawn(FlowId::Number(7))).expect("short");
    wrong.context = Context::of(Context::ALLOCATION);
    assert_eq!(told(&wrong), Err(Unreadable::Unexpected));
    assert_eq!(unable(Code::Overload).sub_code, Code::Overload.number());
}
