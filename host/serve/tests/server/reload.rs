//! A refused reload is answered as a refused transaction is.

use super::fake::Serving;
use perhop_reason::Code;

const TRANSACTION: &str =
    r#"{"txn_id":"00000000000000000000000000000001","owner":"cli","fence":0,"mode":"commit","ops":[]}"#;

/// Of the contract: 409 stale, fenced, in use, pending; 403; 422 invalid or no capacity; 429 overload; 503.
fn expected(code: Code) -> u16 {
    match code {
        Code::Forbidden | Code::NotOwner => 403,
        Code::Exists
        | Code::InUse
        | Code::Fenced
        | Code::StaleVersion
        | Code::StaleRevision
        | Code::TxnIdReused
        | Code::PendingConfirm
        | Code::Preempted
        | Code::HeldElsewhere => 409,
        Code::Unauthenticated => 401,
        Code::Timeout => 504,
        Code::Overload => 429,
        Code::BackendFailed | Code::ShuttingDown => 503,
        Code::Malformed
        | Code::UnknownField
        | Code::UnknownKind
        | Code::OutOfRange
        | Code::BadReference
        | Code::NotFound
        | Code::NoCapacity
        | Code::LimitReached
        | Code::Unsupported
        | Code::NoPath
        | Code::PeerRefused
        | Code::Quota => 422,
    }
}

#[test]
fn every_code_has_its_status_for_transactions_reloads_and_claims() {
    let serving = Serving::start();
    for code in Code::ALL {
        *serving.router.codes.lock().unwrap() = vec![*code];
        let status = expected(*code);
        let submitted = serving.ask("POST", "/v1/transactions", TRANSACTION);
        assert_eq!(
            (submitted.status, submitted.json()["outcome"].as_str()),
            (status, Some("rejected")),
            "{code}"
        );
        let reloaded = serving.ask("POST", "/v1/reload", "{}");
        let body = reloaded.json();
        assert_eq!((reloaded.status, body["outcome"].as_str()), (status, Some("rejected")), "{code}");
        assert_eq!(body["errors"][0]["code"], code.name());
        assert_eq!(body["messages"][0], "edge.toml:2:8: wrong.");
        let claimed = serving.ask("POST", "/v1/claim", r#"{"owner":"cli","fence":1}"#);
        assert_eq!(
            (claimed.status, claimed.json()["errors"][0]["code"].as_str()),
            (status, Some(code.name()))
        );
    }
    serving.router.codes.lock().unwrap().clear();
    assert_eq!(serving.ask("POST", "/v1/reload", "{}").status, 200);
}

#[test]
fn a_file_that_is_none_is_422_with_errors_and_places() {
    let serving = Serving::start();
    *serving.router.bad_file.lock().unwrap() = true;
    let answer = serving.ask("POST", "/v1/reload", "");
    assert_eq!(answer.status, 422);
    let body = answer.json();
    assert_eq!(body["errors"][0]["code"], "malformed");
    assert_eq!(body["messages"][0], "edge.toml:2:8: wrong.");
}

/// With several reasons, what the client can do least about decides.
#[test]
fn the_gravest_reason_decides() {
    let serving = Serving::start();
    for (codes, status) in [
        (vec![Code::StaleVersion, Code::OutOfRange], 422),
        (vec![Code::OutOfRange, Code::NotOwner], 403),
        (vec![Code::NotOwner, Code::ShuttingDown, Code::Overload], 503),
    ] {
        *serving.router.codes.lock().unwrap() = codes;
        assert_eq!(serving.ask("POST", "/v1/reload", "").status, status);
    }
}
