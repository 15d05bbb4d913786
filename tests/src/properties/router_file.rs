//! Router files: a file without errors is a router.

use super::transaction::{everything, transaction};
use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{Credentials, Key, Mode, Object, Op, Outcome, Owner, Spec, Transaction};
use perhop_routerfile::RouterFile;
use std::collections::BTreeSet;

/// A file is read or has errors; diagnostics print; and of a file that is read, every object is placed inside the text,
/// has a canonical specification, and passes the transaction that would start a router with it, for a data plane that
/// takes everything and for ours.
pub fn reading(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (file, diagnostics) = RouterFile::read("router.toml", text);
    assert_eq!(file.is_none(), diagnostics.errors() > 0);
    let printed = diagnostics.to_string();
    assert_eq!(printed.is_empty(), diagnostics.is_empty());
    let Some(file) = file else { return };
    let lines = text.lines().count().max(1) as u32 + 1;
    let mut keys = BTreeSet::new();
    for object in &file.objects {
        let key = Key { kind: object.kind(), name: object.name.clone() };
        let at = file.position(&key, "").expect("an object of the file has a place");
        assert!((1..=lines).contains(&at.line), "{key}: line {}", at.line);
        assert!(keys.insert(key), "declared twice");
        canonical(object);
    }
    let reply = everything(&start(&file, Mode::Check));
    assert_eq!(reply.outcome, Outcome::Checked, "{}", file.diagnose(&reply.errors));
    let ports = EdgePort::of_objects(&file.objects);
    if ports.len() <= 8 && file.objects.len() <= 64 {
        let mut router = VirtualRouter::with_connections(ports, 16, 16, 1)
            .expect("the edge graph of a router file builds");
        let reply = router.submit(Credentials::ADMIN, start(&file, Mode::Commit)).expect("an answer");
        assert_eq!(reply.outcome, Outcome::Committed, "{}", file.diagnose(&reply.errors));
    }
}

/// What a specification says does not change by being read and written.
fn canonical(object: &Object) {
    let written = serde_json::to_value(&object.spec).expect("plain data");
    assert_eq!(Spec::from_value(object.kind(), &written).as_ref(), Ok(&object.spec));
}

/// The transaction with which a router starts.
fn start(file: &RouterFile, mode: Mode) -> Transaction {
    let op = Op::replace_owned(&RouterFile::KINDS, file.objects.clone());
    Transaction { mode, ..transaction(Owner::File, 1, vec![op]) }
}
