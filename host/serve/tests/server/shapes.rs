//! Whatever is refused, and by whom: the body is JSON in the contract's shape.

use super::fake::{Answer, Serving};
use perhop_model::{Kind, Spec};
use perhop_reason::Code;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;

/// The code of the first error, after a look at the shape of all.
fn code(answer: &Answer) -> Code {
    assert!(answer.head.contains("\r\ncontent-type: application/json"), "{answer:?}");
    let body = answer.json();
    let errors = body["errors"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    assert!(!errors.is_empty(), "{answer:?}");
    for error in errors {
        assert!(error["path"].is_string() && error["message"].as_str().is_some_and(|m| !m.is_empty()));
        for field in error.as_object().unwrap().keys() {
            let known = ["op", "path", "code", "message", "value", "allowed", "limit", "free"];
            assert!(known.contains(&field.as_str()), "{field}");
        }
    }
    serde_json::from_value(errors[0]["code"].clone()).unwrap()
}

fn raw(serving: &Serving, bytes: &[u8]) -> Answer {
    let mut stream = serving.connect();
    // The server may have had enough before everything is written.
    let _ = stream.write_all(bytes);
    Answer::read(stream)
}

#[test]
fn what_is_no_request_of_this_interface_is_refused_in_its_shape() {
    let serving = Serving::start();
    for (method, uri, body, status, expected) in [
        ("GET", "/", "", 404, Code::NotFound),
        ("GET", "/v1/nothing", "", 404, Code::NotFound),
        ("DELETE", "/v1/state", "", 405, Code::Unsupported),
        ("GET", "/v1/transactions", "", 405, Code::Unsupported),
        ("GET", "/v1/state?limit=many", "", 422, Code::Malformed),
        ("GET", "/v1/state?limit=0", "", 422, Code::OutOfRange),
        ("GET", "/v1/state?limit=10001", "", 422, Code::OutOfRange),
        ("GET", "/v1/state?kind=clas", "", 422, Code::UnknownKind),
        ("GET", "/v1/state?owner=nobody", "", 422, Code::Malformed),
        ("GET", "/v1/state?clas=ef", "", 422, Code::UnknownField),
        ("GET", "/v1/counters?id=-1", "", 422, Code::Malformed),
        ("GET", "/v1/counters?what=1", "", 422, Code::UnknownField),
        ("GET", "/v1/events?after=x", "", 422, Code::Malformed),
        ("GET", "/v1/show", "", 422, Code::Malformed),
        ("GET", "/v1/show?what=ports&limit=0", "", 422, Code::OutOfRange),
        ("POST", "/v1/transactions", "", 422, Code::Malformed),
        ("POST", "/v1/transactions", "{\"txn_id\":", 422, Code::Malformed),
        ("POST", "/v1/transactions", "[]", 422, Code::Malformed),
        ("POST", "/v1/claim", r#"{"owner":"cli","fence":1,"why":2}"#, 422, Code::UnknownField),
        ("POST", "/v1/explain", r#"{"packet":7}"#, 422, Code::Malformed),
    ] {
        let answer = serving.ask(method, uri, body);
        assert_eq!((answer.status, code(&answer)), (status, expected), "{method} {uri} {body}");
    }
    assert!(serving.ask("DELETE", "/v1/state", "").head.contains("\r\nallow: get,head"), "says what is");
}

#[test]
fn what_is_no_http_is_refused_in_json_too() {
    let serving = Serving::start();
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(300_000));
    for (bytes, status, expected) in [
        (&b"hello\r\n\r\n"[..], 400, Code::Malformed),
        (b"GET / HTTP/9.9\r\n\r\n", 400, Code::Malformed),
        (b"GET / HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400, Code::Malformed),
        (long.as_bytes(), 431, Code::LimitReached),
    ] {
        let answer = raw(&serving, bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        assert_eq!((answer.status, code(&answer)), (status, expected), "{shown}: {answer:?}");
    }
}

/// A body of any content type is taken for JSON, so nothing is 415.
#[test]
fn a_content_type_does_not_matter() {
    let serving = Serving::start();
    let body = r#"{"packet":"x"}"#;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/json"] {
        let head = format!(
            "POST /v1/explain HTTP/1.1\r\nhost: r\r\nconnection: close\r\ncontent-type: {content_type}"
        );
        let answer =
            raw(&serving, format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        assert_eq!(answer.status, 200, "{content_type}");
    }
}

#[test]
fn the_document_names_every_address_and_every_limit() {
    let serving = Serving::start();
    let document = serving.ask("GET", "/v1/openapi.json", "").json();
    let text = document["info"]["description"].as_str().unwrap();
    for row in serving.ask("GET", "/v1/limits", "").json()["rows"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        assert!(text.contains(name), "{name} is not described");
        assert!(row["limit"].as_u64().is_some_and(|l| l > 0));
    }
    for (address, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            if address != "/v1/events" {
                let status = serving.ask(&method.to_uppercase(), address, "").status;
                assert!(status != 404 && status != 405, "{method} {address}: {status}");
            }
        }
    }
}

/// The fields of a kind's canonical specification are exactly those of its schema, and so are those of parts of it.
#[test]
fn what_a_router_reports_of_each_kind_is_what_its_schema_says() {
    let serving = Serving::start();
    let document = serving.ask("GET", "/v1/openapi.json", "").json();
    let schemas = &document["components"]["schemas"];
    for (kind, schema, given) in [
        (Kind::Port, "PortSpec", json!({ "queue": { "limit": { "time": 5 } } })),
        (Kind::Class, "ClassSpec", json!({ "port": "wan", "queue": { "limit": { "bytes": 9 } } })),
        (Kind::Profile, "ProfileSpec", json!({})),
        (Kind::Filter, "FilterSpec", json!({ "match": { "dscp": { "value": 46, "mask": 63 } } })),
        (Kind::Sla, "SlaSpec", json!({ "rate": 1 })),
        (Kind::Route, "RouteSpec", json!({ "dest": "10.0.0.0/8" })),
        (Kind::Detector, "DetectorSpec", json!({ "class": "ef" })),
        (Kind::Allocation, "AllocationSpec", json!({ "class": "ef" })),
        (Kind::AbrPolicy, "AbrPolicySpec", json!({ "match": { "src_ports": { "first": 1, "last": 2 } } })),
    ] {
        let reported = serde_json::to_value(Spec::from_value(kind, &given).unwrap()).unwrap();
        same_fields(&reported, &schemas[schema], schemas, schema);
        let properties = schemas[schema]["properties"].as_object().unwrap();
        let required = schemas[schema]["required"].as_array().cloned().unwrap_or_default();
        for field in required {
            assert!(properties.contains_key(field.as_str().unwrap()));
        }
        let text = document["info"]["description"].as_str().unwrap();
        assert!(text.contains(&format!("{kind} {schema}")), "{kind} is not told");
    }
    for (schema, field, unit) in [
        ("PortSpec", "rate", "bit/s"),
        ("ClassSpec", "burst", "bytes"),
        ("DetectorSpec", "idle", "ns"),
        ("AllocationSpec", "ceiling", "bit/s"),
        ("AbrPolicySpec", "rate", "bit/s"),
        ("AbrPolicySpec", "idle", "ns"),
    ] {
        let text = schemas[schema]["properties"][field]["description"].as_str().unwrap();
        assert!(text.contains(unit), "{schema}.{field}: {text}");
    }
}

fn same_fields(reported: &Value, schema: &Value, schemas: &Value, path: &str) {
    let Some(fields) = reported.as_object() else { return };
    let schema = resolved(schema, schemas);
    // A choice says of each of its kinds what it has.
    let Some(properties) = schema["properties"].as_object() else {
        assert!(schema["oneOf"].is_array(), "{path}: {schema}");
        return;
    };
    let names = |o: &serde_json::Map<String, Value>| o.keys().cloned().collect::<BTreeSet<String>>();
    assert_eq!(names(fields), names(properties), "{path}");
    for (name, value) in fields {
        same_fields(value, &properties[name], schemas, &format!("{path}.{name}"));
    }
}

/// The schema behind a reference, or behind one that may be null.
fn resolved<'s>(schema: &'s Value, schemas: &'s Value) -> &'s Value {
    if let Some(name) = schema["$ref"].as_str() {
        return &schemas[name.rsplit('/').next().unwrap()];
    }
    let choices = schema["oneOf"].as_array().or(schema["allOf"].as_array());
    let one = choices.and_then(|c| c.iter().find(|s| s["$ref"].is_string()));
    one.map_or(schema, |s| resolved(s, schemas))
}
