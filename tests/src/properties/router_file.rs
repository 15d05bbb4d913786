//! Router files: a file without errors is a router.

use super::transaction::{everything, transaction};
use perhop_graph::router::{EdgePort, VirtualRouter};
use perhop_model::{Credentials, Key, Kind, Mode, Object, Op, Outcome, Owner, Spec, Transaction};
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
        let key = Key { kind: object.kind, name: object.name.clone() };
        let at = file.position(&key, "").expect("an object of the file has a place");
        assert!((1..=lines).contains(&at.line), "{key}: line {}", at.line);
        assert!(keys.insert(key), "declared twice");
        canonical(object);
    }
    let reply = everything(&start(&file, Mode::Check));
    assert_eq!(reply.outcome, Outcome::Checked, "{}", file.diagnose(&reply.errors));
    let ports = ports_of(&file);
    if ports.len() <= 8 && file.objects.len() <= 64 {
        let mut router = VirtualRouter::with_connections(ports, 16, 16, 1)
            .expect("the edge graph of a router file builds");
        let reply = router.submit(Credentials::ADMIN, start(&file, Mode::Commit)).expect("an answer");
        assert_eq!(reply.outcome, Outcome::Committed, "{}", file.diagnose(&reply.errors));
    }
}

/// What a specification says does not change by being read and written.
fn canonical(object: &Object) {
    let spec = Spec::from_value(object.kind, object.spec.clone()).expect("made from a specification");
    assert_eq!(serde_json::to_value(&spec).expect("plain data"), object.spec);
}

/// The transaction with which a router starts.
fn start(file: &RouterFile, mode: Mode) -> Transaction {
    let (kinds, objects) = (RouterFile::KINDS.to_vec(), file.objects.clone());
    Transaction { mode, ..transaction(Owner::File, 1, vec![Op::ReplaceOwned { kinds, objects }]) }
}

/// The file's ports as a graph needs them.
pub fn ports_of(file: &RouterFile) -> Vec<EdgePort> {
    let ports = file.objects.iter().filter(|o| o.kind == Kind::Port);
    let spec = |o: &Object| match Spec::from_value(Kind::Port, o.spec.clone()) {
        Ok(Spec::Port(spec)) => spec,
        other => panic!("a port of the file is {other:?}"),
    };
    ports.map(|o| EdgePort { name: o.name.to_string(), spec: spec(o) }).collect()
}
