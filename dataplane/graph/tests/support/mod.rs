//! Operations on objects, as tests write them.

use perhop_model::{Given, Kind, Name, Op};
use serde_json::Value;

pub fn n(name: &str) -> Name {
    Name::new(name).expect("a good name")
}

pub fn put(kind: Kind, name: &str, spec: Value) -> Op {
    Op::put(Given::read(kind, n(name), spec, None))
}

pub fn delete(kind: Kind, name: &str) -> Op {
    Op::Delete { kind, name: n(name), if_version: None, drain_ms: None }
}
