//! What the tests' routers have and answer.

use perhop_model::{ErrorItem, Name, ObjectState, Outcome, Owner, Reply, Spec, Status, TxnId};

/// An object of the router's file.
pub(crate) fn object(name: &str, spec: Spec) -> ObjectState {
    ObjectState {
        kind: spec.kind(),
        name: Name::new(name).unwrap(),
        owner: Owner::File,
        id: 1,
        version: 1,
        status: Status::Active,
        expires_at_ns: None,
        spec,
    }
}

/// The answer to a transaction: committed unless there are errors.
pub(crate) fn reply(epoch: u64, revision: u64, txn_id: TxnId, errors: Vec<ErrorItem>) -> Reply {
    Reply {
        epoch,
        revision,
        generation: 1,
        txn_id,
        outcome: if errors.is_empty() { Outcome::Committed } else { Outcome::Rejected },
        replayed: false,
        received_ns: 0,
        committed_ns: 0,
        ops: Vec::new(),
        errors,
        retry_after_ms: None,
    }
}
