//! Transactions as clients write them: JSON in, the contract kept.

use perhop_contract::{Control, Draft, Draining, GraphRequest, Input, Limits, Output, Planner};
use perhop_model::{
    Credentials, ErrorItem, Given, Kind, Name, Op, OpOutcome, Outcome, Owner, Reply, Transaction, TxnId,
};
use perhop_units::{Duration, Instant};
use serde_json::{Value, json};
use std::sync::Arc;

/// A data plane that takes everything.
#[derive(Debug, Default)]
pub struct Anything;

impl Planner for Anything {
    type Change = ();
    fn check(&self, _: &Draft<'_>, _: Option<&GraphRequest>) -> Vec<ErrorItem> {
        Vec::new()
    }
    fn plan(&mut self, _: Instant, _: &Draft<'_>, _: &[Draining], _: Option<&GraphRequest>) {}
}

/// A transaction of `ops` that takes effect.
pub fn transaction(owner: Owner, id: u128, ops: Vec<Op>) -> Transaction {
    Transaction::new(TxnId(id.to_be_bytes()), owner, ops)
}

/// The answer of an empty router over a data plane that takes everything.
pub fn everything(transaction: &Transaction) -> Arc<Reply> {
    let mut control = Control::new(1, Anything, Limits::default());
    submit(&mut control, Instant(0), transaction.clone())
}

/// Gives a request and applies what comes of it at once.
fn submit(control: &mut Control<Anything>, now: Instant, transaction: Transaction) -> Arc<Reply> {
    let transaction = Box::new(transaction);
    control.handle_input(now, Input::Request { request: 7, who: Credentials::ADMIN, transaction });
    let mut answer = None;
    while let Some(output) = control.poll_output() {
        match output {
            Output::Apply { ticket, .. } => control.handle_input(now, Input::Applied { ticket }),
            Output::Reply { request, reply } => {
                assert_eq!(request, 7);
                assert!(answer.replace(reply).is_none(), "answered twice");
            }
        }
    }
    answer.expect("every request is answered")
}

fn put(kind: Kind, name: &str, spec: Value) -> Op {
    Op::put(Given::read(kind, Name::new(name).expect("legal"), spec, None))
}

/// A router with two ports, two classes and a filter of the owner `file`.
fn furnished() -> Control<Anything> {
    let mut control = Control::new(1, Anything, Limits::default());
    let ops = vec![
        put(Kind::Port, "lan", json!({})),
        put(Kind::Port, "wan", json!({"rate": 10_000_000})),
        put(Kind::Class, "wan/voice", json!({"port": "wan", "guarantee": {"rate": 2_000_000}, "dscp": [46]})),
        put(Kind::Class, "wan/rest", json!({"port": "wan", "default": true})),
        put(Kind::Filter, "calls", json!({"priority": 10, "match": {"protocol": 17}, "class": "voice"})),
    ];
    let reply = submit(&mut control, Instant(0), transaction(Owner::File, 1, ops));
    assert_eq!(reply.outcome, Outcome::Committed, "{:?}", reply.errors);
    control
}

/// Whether a number of `value` is not an integer: such numbers need not survive being printed and read exactly.
fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(n) => n.is_f64(),
        Value::Array(list) => list.iter().any(has_fraction),
        Value::Object(map) => map.values().any(has_fraction),
        _ => false,
    }
}

/// Every line of the input is a transaction to the same router, half a second after the one before. What is read as a
/// transaction writes back as the same; a reply lists errors or none; a repetition is answered as before and changes
/// nothing; a refusal leaves no trace; and putting what was read changes nothing.
pub fn contract(data: &[u8]) {
    let mut control = furnished();
    let mut now = Instant(0);
    for line in data.split(|b| *b == b'\n').take(64) {
        let Ok(request) = serde_json::from_slice::<Transaction>(line) else { continue };
        let text = serde_json::to_value(&request).expect("plain data");
        if !has_fraction(&text) {
            let again: Transaction = serde_json::from_str(&text.to_string()).expect("written by us");
            assert_eq!(again, request);
        }
        now += Duration::from_millis(500);
        tick(&mut control, now);
        step(&mut control, now, request);
    }
    unchanged_by_its_own_state(&mut control, now);
    // Expiry and missing confirmations come due; afterwards the state still passes its own checks.
    let later = now + Duration::from_secs(7200);
    tick(&mut control, later);
    unchanged_by_its_own_state(&mut control, later);
}

fn tick(control: &mut Control<Anything>, now: Instant) {
    control.handle_input(now, Input::Tick);
    while let Some(output) = control.poll_output() {
        if let Output::Apply { ticket, .. } = output {
            control.handle_input(now, Input::Applied { ticket });
        }
    }
}

fn step(control: &mut Control<Anything>, now: Instant, request: Transaction) {
    let (before, revision) = (control.objects().clone(), control.revision());
    let reply = submit(control, now, request.clone());
    assert_eq!(reply.outcome == Outcome::Rejected, !reply.errors.is_empty(), "{reply:?}");
    match reply.outcome {
        Outcome::Committed => assert_eq!(reply.ops.len(), request.ops.len()),
        _ => {
            assert_eq!(control.revision(), revision);
            assert_eq!(*control.objects(), before, "{:?} left a trace", reply.outcome);
        }
    }
    let (after, revision) = (control.objects().clone(), control.revision());
    let again = submit(control, now, request);
    assert_eq!(again.outcome, reply.outcome, "a repetition is answered differently: {again:?}");
    assert_eq!(*control.objects(), after);
    assert_eq!(control.revision(), revision);
}

/// A put of every object as it is reported, on behalf of its owner, is `unchanged`.
fn unchanged_by_its_own_state(control: &mut Control<Anything>, now: Instant) {
    let objects = control.objects().clone();
    for (n, (key, entry)) in objects.iter().enumerate() {
        let spec = serde_json::to_value(&*entry.spec).expect("plain data");
        // An object with a lifetime would become hard state.
        if entry.expires_at_ns.is_some() {
            continue;
        }
        let op = Op::put(Given::read(key.kind, key.name.clone(), spec, None));
        let id = u128::from(now.0) << 32 | 0xffff_0000 | n as u128;
        let mut request = transaction(entry.owner.clone(), id, vec![op]);
        request.fence = u64::MAX;
        let reply = submit(control, now, request);
        let pending = reply.errors.iter().any(|e| e.code == perhop_reason::Code::PendingConfirm);
        if !pending {
            assert!(reply.errors.is_empty(), "{key}: {:?}", reply.errors);
            assert_eq!(reply.ops[0].outcome, OpOutcome::Unchanged, "{key}");
        }
    }
}
