//! The policy of a domain: editions, agents, routers, in namespaces.

use super::domain::{Domain, until};
use super::http::Http;
use super::{Ended, Scratch, perhop, root};
use serde_json::{Value, json};

fn policy(controller: &str, words: &[&str]) -> Ended {
    perhop(&[&["policy"], words, &["--controller", controller]].concat())
}

fn example() -> String {
    std::fs::read_to_string(root().join("examples/domain/policy.toml")).unwrap()
}

/// The example's policy in a file, with a hint changed so that it differs by `rate` of the contract `home`.
fn file(scratch: &Scratch, name: &str, rate: &str) -> String {
    scratch.file(name, &example().replace("rate = \"2 Mbit/s\"", &format!("rate = \"{rate}\"")))
}

/// Objects of a router: by kind and name, with owner, number and version.
fn objects(router: &str) -> Vec<(String, String, String, Value, Value)> {
    let mut http = Http::connect(&std::path::PathBuf::from(format!("/run/perhop/{router}.sock")));
    let page = http.read("/v1/state?limit=10000");
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let row = |row: &Value| {
        (text(row, "kind"), text(row, "name"), text(row, "owner"), row["id"].clone(), row["spec"].clone())
    };
    page["objects"].as_array().unwrap().iter().map(row).collect()
}

/// What the policy has in a router, without what numbers it there.
fn own(router: &str) -> Vec<(String, String, Value)> {
    let own = objects(router).into_iter().filter(|(_, _, owner, ..)| owner == "api:policy");
    own.map(|(kind, name, _, _, spec)| (kind, name, spec)).collect()
}

fn others(router: &str) -> Vec<(String, String, String, Value, Value)> {
    objects(router).into_iter().filter(|(_, _, owner, ..)| owner != "api:policy").collect()
}

/// A domain whose agents follow the policy.
fn domain(test: &str) -> Option<Domain> {
    Domain::with(test, |_, agent| format!("{agent}\n[policy]\n"))
}

/// Waits until the routers of the policy have this edition, refuse nothing, and it is shown.
fn until_converged(controller: &str, edition: u64) {
    let is_there = || {
        let rows = perhop(&["status", "--controller", controller, "--json"]).json();
        let has = |row: &&Value| {
            row["wanted"] == true && row["converged"] == true && row["report"]["edition"] == edition
        };
        rows.iter().filter(has).count() == 2
    };
    until(&format!("edition {edition} is in both routers"), is_there);
}

#[test]
fn an_edition_is_in_all_routers_at_once_and_outlives_every_program() {
    let Some(mut domain) = domain("policy") else { return };
    let name = domain.name.clone();
    let (west, east) = (domain.router("west"), domain.router("east"));
    let before = [others(&west), others(&east)];
    assert_eq!((own(&west), own(&east)), (vec![], vec![]), "a domain without a policy wants nothing");

    // All of it is there, and nothing else is touched. How long that took is measured.
    let applied = policy(&name, &["apply", "examples/domain/policy.toml", "--reason", "begin"]);
    assert_eq!((applied.code, applied.out.as_str()), (Some(0), "edition 1 is in force\n"), "{}", applied.err);
    until_converged(&name, 1);
    let rows = perhop(&["status", "--controller", &name, "--json"]).json();
    for row in rows.iter().filter(|row| row["wanted"] == true) {
        let took = row["converged_after_ms"].as_u64().unwrap_or_else(|| panic!("{row}"));
        eprintln!("{} has the edition after {took} ms", row["router"]);
    }
    let names = |router: &str| own(router).into_iter().map(|(kind, name, _)| format!("{kind} {name}"));
    let at_west: Vec<String> = names(&west).collect();
    for wanted in [
        "class wan/business",
        "filter policy/web",
        "sla user/office",
        "profile user/office",
        "filter user/office/mail",
    ] {
        assert!(at_west.iter().any(|has| has == wanted), "{wanted} in {at_west:?}");
    }
    let at_east: Vec<String> = names(&east).collect();
    assert!(
        at_east.iter().any(|has| has == "sla user/flat") && !at_east.iter().any(|has| has.contains("office"))
    );
    assert_eq!([others(&west), others(&east)], before, "no other object is touched");

    // What somebody else changes is put right, and is told.
    let first = own(&west);
    let drop = json!({
        "txn_id": "000000000000000000000000000000ab", "owner": "cli", "fence": 0, "mode": "commit", "force": true,
        "ops": [{ "op": "delete", "kind": "filter", "name": "policy/web" }],
    });
    let mut http = Http::connect(&std::path::PathBuf::from(format!("/run/perhop/{west}.sock")));
    let (status, reply) = http.ask("POST", "/v1/transactions", &drop.to_string());
    assert_eq!(status, 200, "{reply}");
    until("the drift is repaired", || own(&west) == first);
    until("the drift is told", || {
        let rows = perhop(&["status", "--controller", &name, "--json"]).json();
        rows.iter().any(|row| row["router"] == "west" && row["report"]["drift"] == 1)
    });

    // A stale parent changes nothing.
    let faster = file(&domain.scratch, "faster.toml", "3 Mbit/s");
    let stale = policy(&name, &["apply", &faster, "--base", "0"]);
    assert_eq!((stale.code, stale.out.as_str()), (Some(1), ""));
    assert!(
        stale.err.contains("stale_revision") && stale.err.contains("edition 1 is in force"),
        "{}",
        stale.err
    );

    // Killed between a commit and the report of it, controller or agent: the routers have it in the end.
    let mut edition = 1;
    for number in [0, 4, 6, 0] {
        edition += 1;
        let text = file(&domain.scratch, "next.toml", &format!("{edition} Mbit/s"));
        let applied = policy(&name, &["apply", &text]);
        assert_eq!(applied.code, Some(0), "{}", applied.err);
        domain.restart(number);
        until_converged(&name, edition);
        let flat = own(&east).into_iter().find(|(_, name, _)| name == "user/flat").unwrap();
        assert_eq!(flat.2["rate"], json!(edition * 1_000_000), "{flat:?}");
    }
    // And a router.
    domain.restart(1);
    until("the next life of the router has all of it", || own(&west).len() == first.len());

    // Without a controller an agent goes on with what it knows.
    domain.running[0].kill();
    for (router, agent) in [(1, 4), (3, 6)] {
        for number in [agent, router] {
            domain.running[number].kill();
        }
        let node = super::domain::NODES[router - 1];
        domain.running[router] = domain.start_router(router - 1);
        domain.running[agent] = domain.start_agent(node);
    }
    let want = [first.len(), at_east.len()];
    until("the journal is in force", || [own(&west).len(), own(&east).len()] == want);
    domain.running[0] = super::domain::controller(&domain.scratch, &name, &[]);
    until_converged(&name, edition);

    // Octet by octet what it was.
    let shown = |edition: &str| policy(&name, &["export", "--form", "json", "--edition", edition]).out;
    let rolled = policy(&name, &["rollback", "1", "--reason", "back"]);
    assert_eq!(rolled.out, "edition 6 is in force, with the policy of edition 1\n", "{}", rolled.err);
    assert_eq!(shown("6"), shown("1"));
    until_converged(&name, 6);
    assert_eq!(own(&west), first);
    let history = policy(&name, &["history", "--json"]).json();
    assert_eq!(history.iter().map(|row| row["n"].as_u64().unwrap()).collect::<Vec<_>>(), [6, 5, 4, 3, 2, 1]);
    assert_eq!((&history[0]["reason"], &history[5]["reason"]), (&json!("back"), &json!("begin")));

    // One that is to be confirmed returns by itself.
    let applied = policy(&name, &["apply", &faster, "--confirm-within", "2s"]);
    assert!(
        applied.out.contains("unless it is confirmed (perhop policy confirm 7)"),
        "{}{}",
        applied.out,
        applied.err
    );
    until_converged(&name, 7);
    until_converged(&name, 8);
    assert_eq!(own(&west), first);
    let applied = policy(&name, &["apply", &faster, "--confirm-within", "10min"]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    assert_eq!(policy(&name, &["confirm", "7"]).code, Some(1), "another waits");
    assert_eq!(policy(&name, &["confirm", "9"]).out, "edition 9 stays in force\n");
}

/// A controller alone, whose domain has these clients beside its nodes.
fn alone(test: &str, more: &str) -> (Scratch, String, super::router::Running) {
    let scratch = Scratch::new(test);
    let name = format!("cli-policy-{}-{test}", std::process::id());
    let domain = std::fs::read_to_string(root().join("examples/domain/domain.toml")).unwrap();
    scratch.file("domain.toml", &format!("{domain}\n{more}"));
    let running = super::domain::controller(&scratch, &name, &[]);
    (scratch, name, running)
}

fn clear(name: &str) {
    for ending in ["controller", "controller.lock"] {
        let _ = std::fs::remove_file(format!("/run/perhop/{name}.{ending}"));
    }
}

#[test]
fn all_that_is_wrong_with_a_policy_is_said_and_nothing_of_it_is_applied() {
    let (_scratch, name, running) = alone("broken", "");
    let good = policy(&name, &["apply", "examples/domain/policy.toml"]);
    assert_eq!(good.code, Some(0), "{}", good.err);
    let before = policy(&name, &["show"]).out;
    let broken: Vec<String> = super::files("control/policy/tests/broken", ".toml");
    assert!(broken.len() >= 50);
    for path in &broken {
        let refused = policy(&name, &["apply", path]);
        assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""), "{path}: {}", refused.err);
        let short = path.rsplit('/').next().unwrap();
        let expected = std::fs::read_to_string(root().join(path.replace(".toml", ".expected"))).unwrap();
        let expected = expected.replace(short, path);
        for line in expected.lines().filter(|line| !line.trim().is_empty()) {
            assert!(refused.err.contains(line), "{path}: {line} is not in\n{}", refused.err);
        }
        assert!(refused.err.contains("nothing is changed"), "{path}: {}", refused.err);
    }
    assert_eq!(policy(&name, &["show"]).out, before);
    assert_eq!(policy(&name, &["history", "--json"]).json().len(), 1);
    drop(running);
    clear(&name);
}

#[test]
fn who_looks_after_a_router_sees_its_own_rows_and_who_may_see_changes_nothing() {
    let token = |text: &str| {
        use sha2::{Digest, Sha256};
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let client = |name: &str, role: &str| {
        format!(
            "[[client]]\nname = \"{name}\"\nkind = \"http\"\nrole = \"{role}\"\ntoken_sha256 = \"{}\"\n",
            token(name)
        )
    };
    let clients = [
        client("west", "agent"),
        client("viewer", "viewer"),
        client("operator", "operator"),
        client("proxy", "proxy"),
    ];
    let (_scratch, name, running) = alone("roles", &clients.concat());
    let path = super::domain::socket(&name);
    let ask = |who: &str, method: &str, uri: &str, body: &Value| {
        Http::connect(&path).ask_as(who, method, uri, body)
    };
    let commit = json!({ "policy": { "toml": example() }, "base": 0, "reason": "begin" });
    for who in ["viewer", "west", "proxy"] {
        for (method, uri, body) in [
            ("POST", "/v1/policy/editions", &commit),
            ("PUT", "/v1/policy/candidate", &json!({ "policy": { "toml": example() }, "base": 0 })),
            ("POST", "/v1/policy/confirm", &json!({})),
            ("POST", "/v1/policy/rollback", &json!({ "to": 1, "reason": "" })),
        ] {
            let (status, body) = ask(who, method, uri, body);
            assert_eq!((status, &body["refusal"]["code"]), (403, &json!("forbidden")), "{who} {uri}");
        }
    }
    let (status, made) = ask("operator", "POST", "/v1/policy/editions", &commit);
    assert_eq!((status, &made["edition"], &made["tried"]), (201, &json!(1), &json!(false)), "{made}");
    let (status, shown) = ask("viewer", "GET", "/v1/policy", &Value::Null);
    assert_eq!((status, &shown["row"]["author"]), (200, &json!("operator")), "{shown}");
    assert_eq!(ask("viewer", "GET", "/v1/policy/routers/west/wanted", &Value::Null).0, 200);

    // Its own, and nothing else.
    let report = json!({ "seq": 1, "edition": 1, "converged": true });
    assert_eq!(ask("west", "GET", "/v1/policy/routers/west/wanted", &Value::Null).0, 200);
    assert_eq!(ask("west", "POST", "/v1/policy/routers/west/report", &report).0, 204);
    for (method, uri, body) in [
        ("GET", "/v1/policy/routers/east/wanted", &Value::Null),
        ("POST", "/v1/policy/routers/east/report", &report),
        ("GET", "/v1/policy/routers", &Value::Null),
        ("GET", "/v1/policy", &Value::Null),
        ("GET", "/v1/policy/editions", &Value::Null),
        ("GET", "/v1/policy/editions/1", &Value::Null),
    ] {
        assert_eq!(ask("west", method, uri, body).0, 403, "{method} {uri}");
    }
    assert_eq!(ask("viewer", "POST", "/v1/policy/routers/west/report", &report).0, 403);

    // A trial is not claimed to have been made.
    let tried = json!({ "policy": { "toml": example() }, "base": 1, "trial": true });
    let (status, refused) = ask("operator", "PUT", "/v1/policy/candidate", &tried);
    assert_eq!((status, &refused["refusal"]["code"]), (422, &json!("unsupported")), "{refused}");
    // Another's candidate is not committed by mistake.
    let candidate = |rate: &str| {
        let text = example().replace("rate = \"2 Mbit/s\"", &format!("rate = \"{rate}\""));
        let (status, made) =
            ask("operator", "PUT", "/v1/policy/candidate", &json!({ "policy": { "toml": text }, "base": 1 }));
        assert_eq!(status, 200, "{made}");
        made["sha256"].clone()
    };
    let (first, second) = (candidate("3 Mbit/s"), candidate("4 Mbit/s"));
    let of = |sha256: &Value| json!({ "candidate": sha256, "reason": "faster" });
    assert_eq!(ask("operator", "POST", "/v1/policy/editions", &of(&first)).0, 409);
    let (status, made) = ask("operator", "POST", "/v1/policy/editions", &of(&second));
    assert_eq!((status, &made["edition"]), (201, &json!(2)), "{made}");
    let (_, document) = ask("viewer", "GET", "/v1/openapi.json", &Value::Null);
    for path in ["/v1/policy", "/v1/policy/editions/{n}", "/v1/policy/routers/{router}/wanted"] {
        assert!(document["paths"][path]["get"].is_object(), "{path}");
    }
    drop(running);
    clear(&name);
}

#[test]
fn what_is_exported_is_imported_as_the_same() {
    let (scratch, name, running) = alone("forms", "");
    assert_eq!(policy(&name, &["apply", "examples/domain/policy.toml"]).code, Some(0));
    let json = |edition: &str| policy(&name, &["export", "--form", "json", "--edition", edition]).out;
    let first = json("1");
    // What `show` prints can be applied, once: then it is of an earlier edition.
    let shown = scratch.file("shown.toml", &policy(&name, &["show"]).out);
    let applied = policy(&name, &["apply", &shown]);
    assert_eq!(applied.out, "edition 2 is in force\n", "{}", applied.err);
    assert_eq!(json("2").replace(' ', ""), first.replace(' ', ""));
    assert_eq!(policy(&name, &["apply", &shown]).code, Some(1));
    let text = scratch.file("p.json", &first);
    assert_eq!(policy(&name, &["import", &text, "--form", "json"]).out, "edition 3 is in force\n");
    // Subscribers by the line.
    let table = policy(&name, &["export", "--form", "csv"]).out;
    assert_eq!(table.lines().count(), 4, "{table}");
    let more = scratch.file("more.csv", &format!("{table}eve,home,10.1.0.77/32,west,lan\n"));
    let imported = policy(&name, &["import", &more, "--form", "csv", "--reason", "eve"]);
    assert_eq!(imported.out, "edition 4 is in force\n", "{}", imported.err);
    let differs = policy(&name, &["diff", "--from", "3", "--to", "4"]);
    assert!(differs.out.starts_with("+ subscriber eve\nrouter west: "), "{}", differs.out);
    let wrong = scratch.file("wrong.csv", "name,sla,prefixes,router,port\nbob,home,10.1.0.300,,\n,,,,\n");
    let refused = policy(&name, &["import", &wrong, "--form", "csv"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("line 2") && refused.err.contains("line 3"), "{}", refused.err);
    // The tree of a router, and back: of what a tree can say. A queue there is so many packets.
    let plain = scratch.file("plain.toml", &example().replace("queue = \"60 kB\"\n", ""));
    assert_eq!(policy(&name, &["apply", &plain]).out, "edition 5 is in force\n");
    let tree = scratch.0.join("tree");
    let exported =
        policy(&name, &["export", "--form", "tree", "--router", "west", "--out", tree.to_str().unwrap()]);
    assert!(tree.join("class/business/bandwidth").exists(), "{}", exported.err);
    let args = ["import", tree.to_str().unwrap(), "--form", "tree", "--router", "west", "--output", "wan"];
    let imported = policy(&name, &args);
    assert_eq!(imported.out, "edition 6 is in force\n", "{}", imported.err);
    let checked = perhop(&["policy", "check", "examples/domain/policy.toml"]);
    assert_eq!(checked.out, "examples/domain/policy.toml: good, 2 routers, 1 classes, 3 subscribers\n");
    drop(running);
    clear(&name);
}

#[test]
fn a_subscriber_that_moves_has_its_contract_at_one_place_and_outlives_the_controller() {
    let Some(mut domain) = domain("users") else { return };
    let name = domain.name.clone();
    let (west, east) = (domain.router("west"), domain.router("east"));
    let user = |words: &[&str]| perhop(&[&["user"], words, &["--controller", &name]].concat());
    assert_eq!(policy(&name, &["apply", "examples/domain/policy.toml"]).code, Some(0));
    until_converged(&name, 1);
    let of_ann =
        |router: &str| own(router).into_iter().filter(|(_, name, _)| name.starts_with("user/ann")).count();
    assert_eq!((of_ann(&west), of_ann(&east)), (0, 0));
    let refused = user(&["login", "ann", "--router", "west", "--port", "lan"]);
    assert_eq!(refused.code, Some(1), "no address: {}", refused.err);
    let login = [
        "login",
        "ann",
        "--router",
        "west",
        "--port",
        "lan",
        "--address",
        "10.1.0.77",
        "--down",
        "700 kbit/s",
    ];
    let came = user(&login);
    assert_eq!((came.code, came.out.as_str()), (Some(0), "ann is at west/lan\n"), "{}", came.err);
    // A contract, a profile, a filter for each of the profile's.
    until("west has it", || of_ann(&west) == 4);
    let contract =
        own(&west).into_iter().find(|(kind, name, _)| kind == "sla" && name == "user/ann").unwrap();
    assert_eq!(contract.2["rate"], 700_000);

    assert_eq!(user(&["move", "ann", "--router", "east", "--port", "lan"]).code, Some(0));
    until("east has it", || of_ann(&east) == 4);
    until("west has it no more", || of_ann(&west) == 0);
    let listed = user(&["list", "--json"]).json();
    assert_eq!((listed.len(), &listed[0]["router"], &listed[0]["moves"]), (1, &json!("east"), &json!(1)));
    until("it is where it is alone", || user(&["list", "--json"]).json()[0]["leaving"] == json!([]));

    domain.running[0].kill();
    domain.running[0] = super::domain::controller(&domain.scratch, &name, &[]);
    assert_eq!(user(&["list", "--json"]).json()[0]["router"], "east");
    // An edition reaches those who are logged in.
    let less = example().replace("cir = \"3 Mbit/s\"", "cir = \"1 Mbit/s\"");
    let less = domain.scratch.file("less.toml", &less);
    assert_eq!(policy(&name, &["apply", &less]).code, Some(0));
    until("the profile is the new one", || {
        own(&east).into_iter().any(|(kind, name, spec)| {
            kind == "profile" && name == "user/ann" && spec["meter"]["cir"] == 1_000_000
        })
    });
    assert_eq!(user(&["logout", "ann"]).out, "ann is gone\n");
    until("east has it no more", || of_ann(&east) == 0);
    assert_eq!(user(&["logout", "ann"]).code, Some(1));
}

#[test]
fn what_a_router_refuses_is_told_and_holds_nothing_else_up() {
    let Some(domain) = domain("quarantine") else { return };
    let name = domain.name.clone();
    let east = domain.router("east");
    // More than the port has left beside the classes of the router's own file, of which the policy knows nothing.
    let much = example().replace("guarantee = \"2 Mbit/s\"", "guarantee = \"9900 kbit/s\"");
    let much = domain.scratch.file("much.toml", &much);
    assert_eq!(policy(&name, &["apply", &much]).code, Some(0));
    let of_east = || {
        let rows = perhop(&["status", "--controller", &name, "--json"]).json();
        rows.into_iter().find(|row| row["router"] == "east").unwrap_or_default()
    };
    until("it is told", || {
        let row = of_east();
        row["converged"] == true && row["report"]["quarantined"].as_u64().is_some_and(|held| held > 0)
    });
    let row = of_east();
    let held = row["report"]["quarantine"].as_array().unwrap();
    let class = held.iter().find(|held| held["kind"] == "class").unwrap_or_else(|| panic!("{row}"));
    assert_eq!(
        (&class["name"], &class["error"]["code"]),
        (&json!("wan/business"), &json!("no_capacity")),
        "{row}"
    );
    // The rest is there.
    assert!(own(&east).iter().any(|(kind, name, _)| kind == "sla" && name == "user/flat"));
    assert!(!own(&east).iter().any(|(kind, ..)| kind == "class"));
    let status = perhop(&["status", "--controller", &name]);
    assert_eq!(status.code, Some(1), "{}", status.out);
    assert!(status.out.contains("\neast refuses class wan/business: no_capacity: "), "{}", status.out);
    // What fits is taken at once.
    assert_eq!(policy(&name, &["apply", "examples/domain/policy.toml"]).code, Some(0));
    until("nothing is refused", || perhop(&["status", "--controller", &name]).code == Some(0));
    assert!(own(&east).iter().any(|(kind, name, _)| kind == "class" && name == "wan/business"));
}
