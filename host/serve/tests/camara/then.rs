//! What scenarios say of answers.

use super::given::quoted;
use super::scenario::Play;
use super::world::header;
use serde_json::Value;

/// `$.a.b` in a value; of a list with `$[0].a` of its first.
fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let pointer = path.trim_start_matches('$').replace("[0]", "/0").replace('.', "/");
    value.pointer(&pointer)
}

/// Whether it is so; panics where it is not, `false` = the words are not known.
pub fn then(play: &mut Play<'_>, step: &str) -> bool {
    let quotes = quoted(step);
    if step.starts_with("an event is received") {
        play.event = Some(play.world.event());
        return true;
    }
    if step.starts_with("the event") {
        return event(play, step, &quotes);
    }
    if let Some(code) = step.strip_prefix("the response status code is ") {
        assert_eq!(play.answer.status.to_string(), code, "{}", play.answer.body);
        return true;
    }
    if step.starts_with("the response header") {
        let expected = match quotes[..] {
            ["x-correlator", "x-correlator"] => play.correlator.as_str(),
            ["Content-Type", expected] => expected,
            _ => return false,
        };
        assert_eq!(header(&play.answer.headers, quotes[0]), Some(expected), "{step}");
        return true;
    }
    if step == "the response body is []" {
        assert_eq!(play.answer.body, serde_json::json!([]));
        return true;
    }
    if step.contains("complies with the OAS schema at") {
        let schema = play.documents.schema(play.file, quotes[quotes.len() - 1]);
        let body = &play.answer.body;
        let all = match step.starts_with("each item") || step.starts_with("the response array") {
            true => body.as_array().expect("a list").iter().collect(),
            false => vec![body],
        };
        assert!(!step.contains("only one item") || all.len() == 1, "{body}");
        for value in all {
            assert_eq!(play.documents.errors(schema, value), Vec::<String>::new(), "{value}");
        }
        return true;
    }
    if let Some(rest) = step.strip_prefix("in all items in the response, property ") {
        let items = play.answer.body.as_array().expect("a list");
        assert!(!items.is_empty());
        let rule = rest.split_once("\" ").expect("a rule").1;
        return items.iter().all(|item| property(play, item, &format!("$.{}", quotes[0]), rule, &quotes));
    }
    match step {
        "the restricted QoS Profiles are returned in the response" => assert!(names(play).contains(&"vip")),
        "no restricted QoS Profile is included in the response" => {
            assert!(!names(play).contains(&"vip") && names(play).contains(&"voice"));
        }
        s if s.contains("has property \"$[*].status\" equal to ") => {
            let status = s.rsplit(' ').next().unwrap();
            let all = play.answer.body.as_array().expect("a list");
            assert!(!all.is_empty() && all.iter().all(|item| item["status"] == status), "{all:?}");
        }
        s => {
            let Some(rest) = s.strip_prefix("the response property ") else { return false };
            let rule = rest.split_once("\" ").expect("a rule").1;
            let rule = rule.strip_prefix("matches the rule: ").unwrap_or(rule);
            return property(play, &play.answer.body, quotes[0], rule, &quotes);
        }
    }
    true
}

fn names<'p>(play: &'p Play<'_>) -> Vec<&'p str> {
    let all = play.answer.body.as_array().expect("a list");
    all.iter().filter_map(|item| item["name"].as_str()).collect()
}

fn property(play: &Play<'_>, value: &Value, path: &str, rule: &str, quotes: &[&str]) -> bool {
    let found = at(value, path);
    // What the session was asked for with: by this request, or by the one before it.
    let asked = if play.asked.is_null() { play.body.as_ref().unwrap_or(&Value::Null) } else { &play.asked };
    let text = || found.and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |path: &str, expected: &str| at(value, path).is_some_and(|found| *found == *expected);
    let status = if path.starts_with("$.data") { "$.data.qosStatus" } else { "$.qosStatus" };
    match rule {
        "contains a user friendly text" | "contains a user-friendly text" => {
            assert!(text().len() > 10 && text().contains(' '), "{value}");
        }
        "does not exist" => assert_eq!(found, None),
        r if r.starts_with("exists only if provided") => {
            assert_eq!(found, at(asked, path), "{path} of {value}")
        }
        r if r.starts_with("same value as in the request body")
            || r.starts_with("has the same value as in the request body")
            || r.starts_with("has the value provided for createSession") =>
        {
            assert!(found.is_some() && found == at(asked, path), "{path} of {value}");
        }
        r if r.starts_with("exists only if") && r.contains("in the past") => {
            assert_eq!(found.is_some(), is(status, "AVAILABLE"));
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            let at = perhop_broker::topology::parse_utc_ms(&text());
            assert!(found.is_none() || at.is_some_and(|at| u128::from(at) <= now.as_millis()), "{value}");
        }
        r if r.starts_with("exists only if") && r.contains("later than") => {
            assert_eq!(found.is_some(), !is(status, "REQUESTED"));
            let started = at(value, "$.startedAt").and_then(Value::as_str).unwrap_or_default();
            assert!(text().as_str() > started, "{value}");
        }
        r if r.starts_with("exists only if") && r.contains("UNAVAILABLE") => {
            assert_eq!(found.is_some(), is(status, "UNAVAILABLE"), "{value}");
        }
        r if r.starts_with("is not lower than request property") => {
            let wanted = play.body.as_ref().expect("a body")["requestedAdditionalDuration"].as_u64();
            assert!(found.and_then(Value::as_u64) >= wanted && wanted.is_some(), "{value}");
        }
        r if r.starts_with("does not exceed the \"maxDuration\"") => {
            let profile = play.world.ask_as("app", "GET", "/qos-profiles/v1/qos-profiles/voice", None).body;
            assert_eq!(profile["maxDuration"]["unit"], "Seconds");
            assert!(
                found.and_then(Value::as_u64) <= profile["maxDuration"]["value"].as_u64() && found.is_some()
            );
        }
        "value is equal to path param \"name\"" => assert_eq!(text(), play.parameter),
        "value is equal to the request body property \"$.name\"" => {
            assert_eq!(found, at(play.body.as_ref().expect("a body"), "$.name"));
        }
        r => match r.strip_prefix("is ") {
            Some(number) if !number.contains('"') => {
                assert_eq!(found.map(Value::to_string).as_deref(), Some(number), "{value}");
            }
            Some(_) => {
                assert!(quotes[1..].iter().any(|one| found.is_some_and(|f| *f == **one)), "{rule}: {value}");
            }
            None => return false,
        },
    }
    true
}

fn event(play: &Play<'_>, step: &str, quotes: &[&str]) -> bool {
    let event = play.event.as_ref().expect("there is one");
    if step.starts_with("the event header \"Authorization\"") {
        assert_eq!(header(&event.headers, "authorization"), Some("Bearer sink-token"));
    } else if step.starts_with("the event header") {
        assert_eq!(header(&event.headers, quotes[0]), Some(quotes[1]));
    } else if step.starts_with("the event body complies") {
        let schema = play.documents.schema(play.file, quotes[0]);
        assert_eq!(play.documents.errors(schema, &event.body), Vec::<String>::new(), "{}", event.body);
    } else if step.contains("\"$.id\" is unique") {
        let id = event.body["id"].as_str().expect("a text");
        assert!(id.starts_with(play.session["sessionId"].as_str().expect("a number")), "{id}");
    } else if step.contains("$.data.sessionId") {
        assert_eq!(event.body["data"]["sessionId"], play.session["sessionId"]);
    } else {
        let rule = step.split_once("property \"").expect("a property").1.split_once("\" ").expect("a rule").1;
        return property(play, &event.body, quotes[0], rule, quotes);
    }
    true
}
