//! tshark as oracle: it reads what is written here without complaint, and as it was meant.

use crate::dra::{self, Tag, Told};
use crate::pr::{self, ClassCode, GlobalCode, Object, Oid, Value};
use crate::rig::*;
use crate::session::{Key, Keyring};
use crate::wire::*;
use crate::{pdp, pep};
use perhop_reason::Code;
use perhop_tcapi::wire::{
    Answer, FlowId, Refusal, Request as Reservation, Reservation as Amount, ServiceClass,
};
use perhop_units::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::process::Command as Process;
use std::sync::Arc;

/// What tshark must not say of any packet.
const COMPLAINTS: [&str; 7] = [
    "_ws.malformed",
    "_ws.expert.message",
    "cops.bad_cops_object_length",
    "cops.bad_cops_pr_object_length",
    "cops.unknown_c_num",
    "cops.trailing_garbage",
    "cops.pepid.not_null",
];

/// A capture of one connection between a PEP's port and that of a PDP, a segment a message; longer ones in several.
fn capture(trace: &[(bool, Vec<u8>)]) -> Vec<u8> {
    const SEGMENT: usize = 1400;
    let mut out = Vec::new();
    // Little-endian, microseconds, raw IP.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        out.extend(word.to_le_bytes());
    }
    let mut sequence = [1u32, 1];
    let mut n = 0u32;
    let mut packet = |from_pep: bool, sequence: [u32; 2], flags: u8, payload: &[u8]| {
        let length = 40 + payload.len();
        let (from, to) = if from_pep { (1u8, 2u8) } else { (2, 1) };
        let (source, target) = if from_pep { (40_000u16, PORT) } else { (PORT, 40_000) };
        let [own, other] = if from_pep { sequence } else { [sequence[1], sequence[0]] };
        n += 1;
        for word in [n / 1000, n % 1000 * 1000, length as u32, length as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend([0x45, 0]);
        out.extend((length as u16).to_be_bytes());
        out.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, from, 192, 0, 2, to]);
        out.extend(source.to_be_bytes());
        out.extend(target.to_be_bytes());
        out.extend(own.to_be_bytes());
        out.extend(other.to_be_bytes());
        out.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        out.extend(payload);
    };
    packet(true, [0, 0], 0x02, &[]);
    packet(false, [1, 0], 0x12, &[]);
    packet(true, [1, 1], 0x10, &[]);
    for (from_pep, bytes) in trace {
        for piece in bytes.chunks(SEGMENT) {
            packet(*from_pep, sequence, 0x18, piece);
            sequence[usize::from(!from_pep)] += piece.len() as u32;
        }
    }
    out
}

/// Of each packet with COPS the values of fields; several of one field have commas between them. `None`: it cannot be asked.
fn ask(test: &str, trace: &[(bool, Vec<u8>)], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if let Err(error) = Process::new("tshark").arg("--version").output() {
        eprintln!("SKIPPED {test}: tshark: {error}");
        let required =
            std::env::var("PERHOP_REQUIRE").is_ok_and(|l| l.split(',').any(|item| item == "tshark"));
        assert!(!required, "{test} is required by PERHOP_REQUIRE but cannot run: {error}");
        return None;
    }
    let path = std::env::temp_dir().join(format!("perhop-cops-{}-{test}.pcap", std::process::id()));
    std::fs::write(&path, capture(trace)).expect("a temporary file");
    let mut command = Process::new("tshark");
    command.arg("-r").arg(&path).args(["-Y", "cops", "-T", "fields", "-E", "separator=|"]);
    COMPLAINTS.iter().chain(fields).for_each(|field| _ = command.args(["-e", field]));
    let output = command.output().expect("it has just said its version");
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let mut rows = Vec::new();
    for line in text.lines() {
        let mut row: Vec<String> = line.split('|').map(str::to_owned).collect();
        let values = row.split_off(COMPLAINTS.len());
        for (complaint, value) in COMPLAINTS.iter().zip(row) {
            assert!(value.is_empty(), "{complaint} {value:?} of {values:?}");
        }
        rows.push(values);
    }
    assert!(!rows.is_empty(), "there is COPS in it");
    Some(rows)
}

fn column(rows: &[Vec<String>], n: usize) -> Vec<&str> {
    rows.iter().map(|row| row[n].as_str()).collect()
}

fn info(octets: &[u8]) -> Opaque {
    Opaque::new(octets.to_vec()).expect("short")
}

/// Every message, with every object.
fn all_messages() -> Vec<(bool, Message)> {
    let v6: IpAddr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).into();
    let interface = |address, ifindex| Some(Interface { address, ifindex });
    let verdict = Verdict {
        flags: Verdict::TRIGGER_ERROR,
        stateless: Some(info(b"one")),
        replacement: Some(info(b"four")),
        client_si: Some(info(b"three")),
        ..Verdict::of(Command::INSTALL)
    };
    let local = LocalDecision { context: None, verdict: verdict.clone() };
    let mut asked = Request {
        in_interface: interface(IpAddr::from([192, 0, 2, 7]), 3),
        out_interface: interface(v6, 4),
        client_si: vec![ClientSi::Signaled(info(b"abcde"))],
        local: vec![local],
        ..request(1, Context::ALLOCATION)
    };
    asked.handle = Handle::new(&[0, 0, 0, 77]).expect("short");
    let handle = asked.handle.clone();
    let open = Open { pep_id: name(), client_si: None, last_pdp: Some(SocketAddr::new(v6, PORT)) };
    let decided = Decided::Decisions(vec![Decision { context: asked.context, verdict }]);
    let report = Report { handle: handle.clone(), report_type: ReportType::ACCOUNTING, client_si: vec![] };
    let refused = Decided::Error(Error { code: ErrorCode::UNKNOWN_OBJECT, sub_code: 0x1101 });
    let of = |body| Message::new(TYPE, body);
    let close = Close { error: Error::of(ErrorCode::REDIRECT), redirect: Some(server(9)) };
    vec![
        (true, of(Body::Open(Box::new(open)))),
        (false, of(Body::Accept(Accept { keep_alive_s: 30, accounting_s: Some(10) }))),
        (true, of(Body::Request(Box::new(asked)))),
        (false, Message { solicited: true, ..of(Body::Decision { handle: handle.clone(), decided }) }),
        (true, of(Body::Report(Box::new(report)))),
        (false, of(Body::SyncRequest(Some(handle.clone())))),
        (true, of(Body::SyncComplete(Some(handle.clone())))),
        (false, of(Body::Decision { handle: handle.clone(), decided: refused })),
        (true, of(Body::Delete { handle, reason: Reason::of(ReasonCode::PREEMPTED) })),
        (true, Message::new(ClientType::CONNECTION, Body::KeepAlive)),
        (false, of(Body::Close(close))),
    ]
}

#[test]
fn tshark_reads_every_message_and_object_of_rfc2748() {
    let trace: Vec<(bool, Vec<u8>)> =
        all_messages().iter().map(|(up, message)| (*up, message.to_bytes())).collect();
    let fields = [
        "cops.op_code",
        "cops.client_type",
        "cops.flags",
        "cops.handle",
        "cops.pepid.id",
        "cops.lastpdpaddr.ipv6",
        "cops.katimer.value",
        "cops.accttimer.value",
        "cops.in-int.ipv4",
        "cops.out-int.ipv6",
        "cops.in-out-int.ifindex",
        "cops.context.r_type",
        "cops.decision.cmd",
        "cops.error",
        "cops.reason",
        "cops.report_type",
        "cops.pdprediraddr.ipv4",
        "cops.pdp.tcp_port",
    ];
    let Some(rows) = ask("every_message", &trace, &fields) else { return };
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).expect("hexadecimal"),
        None => text.parse().expect("decimal"),
    };
    let numbers = |n| column(&rows, n).into_iter().map(number).collect::<Vec<_>>();
    assert_eq!(numbers(0), [6, 7, 1, 2, 3, 5, 10, 2, 4, 9, 8]);
    assert_eq!(numbers(1), [vec![0x4d41; 9], vec![0, 0x4d41]].concat());
    assert_eq!(numbers(2), [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let handles = column(&rows, 3);
    assert!(handles[2..9].iter().all(|handle| number(handle) == 77), "{handles:?}");
    let is = |row: usize, n: usize, expected: &str| assert_eq!(rows[row][n], expected, "{}", fields[n]);
    is(0, 4, "edge-1");
    is(0, 5, "2001:db8::7");
    is(1, 6, "30");
    is(1, 7, "10");
    is(2, 8, "192.0.2.7");
    is(2, 9, "2001:db8::7");
    is(2, 10, "3,4");
    assert_eq!(number(&rows[2][11]), 2);
    is(2, 12, "1");
    is(3, 12, "1");
    is(7, 13, "13");
    is(8, 14, "3");
    is(4, 15, "3");
    is(10, 16, "192.0.2.9");
    assert_eq!((number(&rows[10][17]), number(&rows[0][17])), (u64::from(PORT), u64::from(PORT)));
}

#[test]
fn tshark_reads_a_session_with_digests_that_is_cut_and_resumed() {
    let key = Key { id: 7, secret: Box::from(&b"secret"[..]), from: Instant(0), until: Instant(u64::MAX) };
    let ring = Arc::new(Keyring { keys: vec![key] });
    let pep = pep::Config { security: pep::Security::Digest(ring.clone()), ..pep_config(&[TYPE, OTHER]) };
    let security = pdp::Security::Digest(BTreeMap::from([(name(), ring)]));
    let mut rig = Rig::new(pep, pdp::Config { security, ..pdp_config() }, 3);
    rig.run(seconds(1));
    for n in 1..4 {
        rig.pep.ask(rig.now, TYPE, request(n, Context::CONFIGURATION)).expect("room");
    }
    rig.run(seconds(100));
    rig.cut(true, false);
    rig.run(seconds(100));
    rig.pep.drop_request(rig.now, TYPE, &2.into(), Reason::of(ReasonCode::TEAR)).expect("it is there");
    rig.run(seconds(1));
    let fields = ["cops.op_code", "cops.integrity.key_id", "cops.client_type"];
    let Some(rows) = ask("resumed", &rig.trace, &fields) else { return };
    assert!(column(&rows, 1).iter().all(|key| *key == "7"), "each message has a digest");
    let ops = column(&rows, 0);
    assert_eq!(ops.len(), rig.trace.len());
    let count = |op: &str| ops.iter().filter(|other| **other == op).count();
    assert_eq!((count("6"), count("7"), count("5"), count("10"), count("4")), (6, 6, 1, 1, 1));
    assert_eq!(
        (count("1"), count("2"), count("3")),
        (6, 6, 6),
        "three requests, asked again, decided, reported on"
    );
    assert!(count("9") > 2);
}

fn reservation(rate_bps: u64) -> Reservation {
    let amount = Amount { rate_bps, burst_bytes: 400, peak_bps: 0, max_packet: 200, min_policed: 0 };
    Reservation {
        class: Some(ServiceClass { number: 1, dscp: None, name: "voice".into() }),
        reservation: Some(amount),
        ..Reservation::of(FlowId::Number(7))
    }
}

#[test]
fn tshark_reads_sessions_of_cops_dra() {
    let tag = Tag { txn: 5, epoch: 2 };
    let refusal = Refusal { link: "wan".into(), free_bps: 1, ..Refusal::new(Code::NoCapacity, "full") };
    let decide = |n: u64, solicited, told: &Told| {
        let decided = Decided::Decisions(vec![dra::decision(tag, told).expect("short")]);
        (false, Message { solicited, ..Message::new(TYPE, Body::Decision { handle: n.into(), decided }) })
    };
    let report = |n: u64, refusal: Option<Refusal>| {
        let report_type = if refusal.is_none() { ReportType::SUCCESS } else { ReportType::FAILURE };
        let answer = Answer { refusal, timing: None, router_epoch: 9 };
        let client_si = vec![dra::report(tag, answer).expect("short")];
        let body = Body::Report(Box::new(Report { handle: n.into(), report_type, client_si }));
        (true, Message { solicited: true, ..Message::new(TYPE, body) })
    };
    let ask_for = |n: u64, rate| {
        let request = dra::ask(n.into(), tag, &reservation(rate)).expect("short");
        (true, Message::new(TYPE, Body::Request(Box::new(request))))
    };
    let nothing = Decided::Decisions(vec![dra::nothing()]);
    let session = [
        (true, open(TYPE)),
        (false, Message::new(TYPE, Body::Accept(ACCEPT))),
        ask_for(1, 80_000),
        decide(1, true, &Told::Granted(Box::new(reservation(80_000)))),
        report(1, None),
        ask_for(2, 8_000_000),
        decide(2, true, &Told::Refused(Box::new(refusal.clone()))),
        (
            true,
            Message::new(
                TYPE,
                Body::Delete { handle: 2.into(), reason: Reason::of(ReasonCode::PDP_DIRECTIVE) },
            ),
        ),
        (true, Message::new(TYPE, Body::Request(Box::new(dra::subscribe(3.into()))))),
        (
            false,
            Message {
                solicited: true,
                ..Message::new(TYPE, Body::Decision { handle: 3.into(), decided: nothing })
            },
        ),
        decide(3, false, &Told::Provided(Box::new(reservation(2_000_000)))),
        report(3, Some(refusal)),
        decide(3, false, &Told::Withdrawn(FlowId::Number(7))),
    ];
    let trace: Vec<(bool, Vec<u8>)> = session.iter().map(|(up, message)| (*up, message.to_bytes())).collect();
    let fields = [
        "cops.op_code",
        "cops.decision.cmd",
        "cops.decision.flags",
        "cops.context.r_type",
        "cops.report_type",
    ];
    let Some(rows) = ask("dra", &trace, &fields) else { return };
    assert_eq!(column(&rows, 0), ["6", "7", "1", "2", "3", "1", "2", "4", "1", "2", "2", "3", "2"]);
    assert_eq!(column(&rows, 1), ["", "", "", "1", "", "", "2", "", "", "0", "1", "", "2"]);
    assert!(rows[6][2].ends_with('1'), "the refusal triggers an error: {:?}", rows[6]);
    assert_eq!(column(&rows, 4), ["", "", "", "", "1", "", "", "", "", "", "", "2", ""]);
}

#[test]
fn tshark_reads_a_session_of_cops_pr() {
    let oid = |arcs: &[u32]| Oid::new(arcs.to_vec()).expect("an identifier");
    let name = oid(&[1, 3, 6, 1, 2, 2, 8, 1]);
    let values = vec![
        Value::Integer(-70_000),
        Value::Unsigned(4_000_000_000),
        Value::Octets(vec![7; 300]),
        Value::Null,
        Value::Oid(oid(&[1, 3, 6, 1, 4, 1, 99_999])),
        Value::Address([192, 57, 1, 5]),
    ];
    let data = |objects: &[Object]| pr::write_all(objects).expect("short");
    let binding = data(&[Object::Prid(name.clone()), Object::Data(values)]);
    let decide = |command, named| {
        let context = Context::of(Context::CONFIGURATION);
        Decision { context, verdict: Verdict { named: Some(named), ..Verdict::of(command) } }
    };
    let prefix = data(&[Object::Prefix(oid(&[1, 3, 6, 1, 2, 2]))]);
    let decided =
        Decided::Decisions(vec![decide(Command::REMOVE, prefix), decide(Command::INSTALL, binding.clone())]);
    let failed = data(&[
        Object::Global(GlobalCode::MEMORY_LOW, 0),
        Object::ErrorPrid(name),
        Object::Class(ClassCode::ATTR_VALUE_INVALID, 2),
    ]);
    let report = Report {
        handle: 1.into(),
        report_type: ReportType::FAILURE,
        client_si: vec![ClientSi::Named(failed)],
    };
    let asked = Request { client_si: vec![ClientSi::Named(binding)], ..request(1, Context::CONFIGURATION) };
    let of = |body| Message::new(ClientType(2), body);
    let session = [
        (true, open(ClientType(2))),
        (false, of(Body::Accept(ACCEPT))),
        (true, of(Body::Request(Box::new(asked)))),
        (false, Message { solicited: true, ..of(Body::Decision { handle: 1.into(), decided }) }),
        (true, Message { solicited: true, ..of(Body::Report(Box::new(report))) }),
    ];
    let trace: Vec<(bool, Vec<u8>)> = session.iter().map(|(up, message)| (*up, message.to_bytes())).collect();
    let fields = [
        "cops.prid.instance_id",
        "cops.pprid.prefix_id",
        "cops.errprid.instance_id",
        "cops.epd.int",
        "cops.epd.unsigned32",
        "cops.epd.oid",
        "cops.epd.ipv4",
        "cops.gperror",
        "cops.cperror",
        "cops.cperror_sub",
    ];
    let Some(rows) = ask("pr", &trace, &fields) else { return };
    for row in [2, 3] {
        assert_eq!(rows[row][0], "1.3.6.1.2.2.8.1");
        assert_eq!(rows[row][3..7], ["-70000", "4000000000", "1.3.6.1.4.1.99999", "192.57.1.5"]);
    }
    assert_eq!(rows[3][1], "1.3.6.1.2.2");
    assert_eq!(
        (rows[4][2].as_str(), rows[4][7].as_str(), rows[4][8].as_str()),
        ("1.3.6.1.2.2.8.1", "1", "3")
    );
    assert!(rows[4][9].ends_with('2'), "{:?}", rows[4]);
}
