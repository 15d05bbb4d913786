//! What scenarios want to be so before a request.

use super::scenario::Play;
use super::world::{session, token, without};
use serde_json::{Value, json};

/// What is between the first and the last of some quotes.
pub fn quoted(step: &str) -> Vec<&str> {
    step.split('"').skip(1).step_by(2).collect()
}

/// Makes it so; `false` = the words are not known.
pub fn given(play: &mut Play<'_>, step: &str) -> bool {
    let (quotes, bare) = (quoted(step), step.to_owned());
    let is = |words: &str| bare.starts_with(words);
    if is("the header ") || is("a valid request for") || is("the threshold") {
        header(play, step, &quotes)
    } else if is("the path param") || is("path parameter") {
        path(play, step, &quotes)
    } else if is("the request body")
        || is("the request property")
        || is("a request body")
        || is("the number of items")
        || is("each item within")
        || is("at least one item")
        || is("at least two items")
    {
        body(play, step, &quotes)
    } else {
        situation(play, step)
    }
}

fn header(play: &mut Play<'_>, step: &str, quotes: &[&str]) -> bool {
    let client = |name: &str| Some(token(name));
    match quotes {
        ["Content-Type", "application/json"] => {}
        ["x-correlator", schema] if step.contains("does not comply") => {
            play.correlator = "not one of these: \u{7e}!".into();
            let schema = play.documents.schema(play.file, schema);
            assert!(!play.documents.errors(schema, &play.correlator.as_str().into()).is_empty());
        }
        ["x-correlator", _] => play.correlator = "b4333c46-49c0-4f62-80d7-f0ef930f1c46".into(),
        ["Authorization", scope] => play.token = client(&without(scope)),
        ["Authorization"] => {
            play.token = match step.split("\"Authorization\" is ").nth(1).unwrap() {
                "set to a valid access token" => client("app"),
                "set to a valid access token which does not identify a single device" => client("app"),
                "set to a valid access token identifying a device" => client("phone"),
                "set to a valid 3-legged access token associated to a valid testing device supported by the service" => {
                    client("phone")
                }
                "set to a valid access token emitted to a client which did not created the QoS session" => {
                    client("other")
                }
                // A token has no time in it: it is over when its client is taken out of the domain.
                "set to an expired access token" => client("gone"),
                "set to an invalid access token" => Some("of nobody".into()),
                "not sent" => None,
                other => panic!("{other}"),
            }
        }
        [_] if step.starts_with("a valid request for") => {}
        [] => {
            play.token = client("slow");
            // One a second: this is the one.
            let _ = play.send();
        }
        _ => return false,
    }
    true
}

fn path(play: &mut Play<'_>, step: &str, quotes: &[&str]) -> bool {
    let value = match (quotes[0], step) {
        ("sessionId", s) if s.contains("not a UUID format") => "17".to_owned(),
        ("sessionId", s) if s.contains("random UUID") => "3fa85f64-5717-4562-b3fc-2c963f66afa6".to_owned(),
        ("sessionId", s) if s.contains("by default") => {
            play.default_session();
            return true;
        }
        ("sessionId", s) if s.contains("value for that QoS session") => {
            play.session["sessionId"].as_str().expect("there is one").to_owned()
        }
        ("name", s) if s.contains("does not match the regular expression") => "voice%21call".to_owned(),
        ("name", s) if s.contains("has a length not between") => "ab".to_owned(),
        ("name", s) if s.contains("random string") => "nowhere-to-be-found".to_owned(),
        ("name", s)
            if s.contains("existing QoS profile name") || s.contains("value for that QoS profile") =>
        {
            "voice".to_owned()
        }
        _ => return false,
    };
    play.parameter = value;
    true
}

/// Sets `$.a.b`, where `[*]` and keys of elements mean the first one; what is on the way is made.
fn set(body: &mut Value, path: &str, value: Value) {
    let mut at = body;
    for key in path.trim_start_matches("$.").split('.') {
        let (key, list) = key.strip_suffix("[*]").map_or((key, false), |key| (key, true));
        if at.is_array() {
            at = &mut at[0];
        }
        at = &mut at[key];
        if list {
            at = &mut at[0];
        }
    }
    *at = value;
}

fn remove(body: &mut Value, path: &str) {
    let pointer = path.replace("$.", "/").replace('.', "/");
    let (parent, key) = pointer.rsplit_once('/').expect("a path");
    if let Some(Value::Object(map)) = body.pointer_mut(parent) {
        map.remove(key);
    }
}

fn body(play: &mut Play<'_>, step: &str, quotes: &[&str]) -> bool {
    let addresses = ["10.2.0.9", "10.2.0.10", "2001:db8:2::9"];
    let list =
        |play: &mut Play<'_>, list: Value| play.body()["applicationServer"] = json!({ "ipAddresses": list });
    if step == "the request body is not included" {
        play.body = None;
    } else if step == "the request body is set to {}" {
        play.body = Some(json!({}));
    } else if step == "the request body is set to a valid request body" {
        assert!(play.body.is_some());
    } else if step.contains("not compliant with the schema") {
        play.body = Some(json!({ "device": 17, "qosProfile": [], "requestedAdditionalDuration": "long" }));
        play.complies(quotes[0], false);
    } else if step.contains("compliant with the schema at") && quotes.len() == 1 {
        play.body = Some(match quotes[0].rsplit('/').next().unwrap() {
            "CreateSession" => session(),
            "ExtendSessionDuration" => json!({ "requestedAdditionalDuration": 60 }),
            "RetrieveSessionsInput" => json!({ "device": session()["device"] }),
            "QosProfileDeviceRequest" => json!({}),
            other => panic!("{other}"),
        });
        play.complies(quotes[0], true);
    } else if step.contains("ipAddresses\" exists") {
        if step.contains("$.applicationServer") {
            let before = play.body()["applicationServer"].clone();
            list(play, json!(addresses));
            if play.keeps_prefix {
                play.body()["applicationServer"]["ipv4Address"] = before["ipv4Address"].clone();
            }
        }
    } else if step.contains("ipv6Address\" exist and have valid values which include a subnet mask") {
        play.body()["applicationServer"] =
            json!({ "ipv4Address": "10.2.0.0/25", "ipv6Address": "2001:db8:2::/64" });
    } else if step.contains("ipv6Address\" exist") {
        play.keeps_prefix = true;
    } else if let Some(count) =
        step.strip_prefix("the number of items in request body array \"$.applicationServer.ipAddresses\" is ")
    {
        match count {
            "equal to 0" => list(play, json!([])),
            "greater than 16" => list(play, (1..=17).map(|n| json!(format!("10.2.0.{n}"))).collect()),
            "greater than 0" | "greater than 1" | "less than 17" => {
                assert_eq!(play.body()["applicationServer"]["ipAddresses"], json!(addresses));
            }
            _ => return false,
        }
    } else if step.contains("have the same value") {
        list(play, json!(["10.2.0.9", "10.2.0.9"]));
    } else if step.contains("is not a valid single IPv4") {
        list(play, json!(["10.2.0.9", "10.2.0.256"]));
    } else if step.contains("contains the character '/'") {
        list(play, json!(["10.2.0.0/25"]));
    } else if step.starts_with("each item within") {
        assert_eq!(play.body()["applicationServer"]["ipAddresses"], json!(addresses));
    } else if step.contains("not included") || step.contains("does not exist") {
        quotes.iter().for_each(|path| remove(play.body(), path));
    } else {
        return property(play, step, quotes);
    }
    true
}

fn property(play: &mut Play<'_>, step: &str, quotes: &[&str]) -> bool {
    let path = quotes[0];
    if step.contains("does not comply with the OAS schema") {
        let wrong = match path {
            "$.device.phoneNumber" => json!("12"),
            "$.device.ipv4Address" => json!({ "publicAddress": "10.1.0.256" }),
            "$.device.ipv6Address" => json!("2001:db8::g"),
            "$.device.networkAccessIdentifier" => json!("x".repeat(2_049)),
            _ => return false,
        };
        let schema = play.documents.schema(play.file, quotes[1]);
        assert!(!play.documents.errors(schema, &wrong).is_empty(), "{path}");
        set(play.body(), path, wrong);
        return true;
    }
    let sink = play.world.sink();
    let value = match step.split_once(&format!("{path}\" ")).unwrap().1 {
        "is set to: {}" | "is set to {}" => json!({}),
        "only includes device identifiers not supported by the implementation" => {
            json!({ "phoneNumber": "+123456789" })
        }
        "is compliant with the schema but does not identify a valid device" => {
            json!({ "ipv4Address": { "publicAddress": "10.77.0.1", "publicPort": 5_000 } })
        }
        "is set to a valid device" => session()["device"].clone(),
        "is set to a valid application server" => session()["applicationServer"].clone(),
        "is set to a valid QoS Profile as returned by QoS Profiles API" => {
            let all = play.world.ask_as(
                "app",
                "POST",
                "/qos-profiles/vwip/retrieve-qos-profiles",
                Some(&json!({ "name": "voice" })),
            );
            all.body[0]["name"].clone()
        }
        "is set to a valid duration for the selected QoS profile" => json!(600),
        "is set to an invalid duration for the selected qosProfile" => json!(7_201),
        "is set to a non existent qos Profile" => json!("nowhere-to-be-found"),
        "is set to a value not between between 0 and 65535" => json!(65_536),
        "is set to a value other than \"bearer\"" => {
            play.body()["sinkCredential"] = json!({ "credentialType": "ACCESSTOKEN", "accessToken": "t",
                "accessTokenExpiresUtc": "2100-01-01T00:00:00Z" });
            json!("mac")
        }
        "is set to a URL where events can be monitored" => json!(sink),
        "is set to a valid access token accepted by the events receiver" => {
            play.body()["sinkCredential"]["accessTokenExpiresUtc"] = json!("2100-01-01T00:00:00Z");
            json!("sink-token")
        }
        "is set to an existing QoS profile name" => json!("voice"),
        "is set to a valid additional session duration" => json!(60),
        s if s.starts_with("is set to the value ") => json!(s.rsplit(' ').next().unwrap()),
        s if s.starts_with("is set to a value that added to the existing QoS session") => json!(7_000),
        s if s.starts_with("is set to \"") && quotes.len() == 2 => json!(quotes[1]),
        _ => return false,
    };
    // A list of ranges has to be one, and of a range both ends have to be there.
    if let Some((list, _)) = path.split_once(".ranges.") {
        set(play.body(), list, json!({ "ranges": [{ "from": 1, "to": 65_535 }] }));
    } else if let Some(list) = path.strip_suffix(".ports[*]") {
        set(play.body(), list, json!({ "ports": [1] }));
    }
    set(play.body(), path, value);
    true
}

fn situation(play: &mut Play<'_>, step: &str) -> bool {
    let other = |play: &mut Play<'_>, address: &str| {
        play.body()["device"] = json!({ "ipv4Address": { "publicAddress": address, "publicPort": 5_000 } });
    };
    let with_sink = |play: &mut Play<'_>| {
        play.default_session_deleted();
        let mut body = session();
        body["sink"] = json!(play.world.sink());
        body["sinkCredential"] = json!({ "credentialType": "ACCESSTOKEN", "accessToken": "sink-token",
            "accessTokenType": "bearer", "accessTokenExpiresUtc": "2100-01-01T00:00:00Z" });
        play.session = play.world.create(&body);
        play.asked = body;
        play.events_begin = play.world.event().body["data"]["qosStatus"] == "AVAILABLE";
        assert!(play.events_begin);
    };
    let step = step.trim_end_matches(" ");
    if step.starts_with("an environment at") || step.starts_with("the resource") {
    } else if step.ends_with("with no QoS active sessions associated") {
        other(play, "10.1.0.99");
    } else if step.ends_with(", with QoS active sessions associated")
        || step == "a QoD session already exists for that device"
    {
        play.default_session();
    } else if step.starts_with("a valid testing device supported by the service") {
        assert!(play.body.is_some());
    } else if step
        .starts_with("a valid device, identified by the token or provided in the request body, for which")
    {
        other(play, "10.3.0.1");
    } else if step.starts_with("that ")
        || step.starts_with("no PRIVATE_KEY_JWT")
        || step.starts_with("no device is provided")
        || step == "an existing QoS profile"
        || step.starts_with("the \"maxDuration\" for the QoS profile")
    {
    } else if step.starts_with("a device suitable for the restricted QoS Profiles") {
        other(play, "10.1.0.9");
    } else if step.starts_with("the requested QoS Profile exists but is not applicable") {
        play.body()["qosProfile"] = json!("off");
    } else if step.contains("with provided values for \"sink\"") {
        with_sink(play);
    } else if step.starts_with("a QoS session has been created successfully and includes a valid sink") {
        // Its first event is what the scenario is about.
        play.default_session_deleted();
        let mut body = session();
        body["sink"] = json!(play.world.sink());
        body["sinkCredential"] = json!({ "credentialType": "ACCESSTOKEN", "accessToken": "sink-token",
            "accessTokenType": "bearer", "accessTokenExpiresUtc": "2100-01-01T00:00:00Z" });
        play.session = play.world.create(&body);
        play.asked = body;
    } else if step.starts_with("an existing QoS session created by operation createSession") {
        play.default_session();
    } else if step.starts_with("an existing QoS session with qosStatus not")
        || step.contains("failed to be created in the last 360")
    {
        play.default_session_deleted();
        let mut body = session();
        body["qosProfile"] = json!("huge");
        play.session = play.world.create(&body);
        play.asked = body;
        assert_eq!(play.session["qosStatus"], "UNAVAILABLE");
    } else {
        return false;
    }
    true
}
