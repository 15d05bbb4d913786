//! Operations on objects, as tests write them.

use perhop_model::{Kind, Name, Op};
use serde_json::Value;

pub fn n(name: &str) -> Name {
    Name::new(name).expect("a good name")
}

pub fn put(kind: Kind, name: &str, spec: Value) -> Op {
    Op::Put { kind, name: n(name), spec, if_version: None, ttl_ms: None }
}

pub fn delete(kind: Kind, name: &str) -> Op {
    Op::Delete { kind, name: n(name), if_version: None, drain_ms: None }
}
