//! Clients of a router's socket by user and group, as its file names them.

use super::http::Http;
use super::router::{FILE, World};
use super::skip;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A user and a group that nothing here belongs to.
pub const STRANGER: u32 = 54_321;
const GROUP: u32 = 54_300;

/// What a user without rights gets who does this, in these groups; `None` where a user cannot be had. Who has connected is what
/// counts, whoever uses the connection.
pub fn as_user<T: Send>(user: u32, groups: &[u32], work: impl FnOnce() -> T + Send) -> Option<T> {
    let become_and_work = || {
        let groups: Vec<Gid> = groups.iter().map(|g| Gid::from_raw(*g)).collect();
        // Of this thread alone.
        set_thread_groups(&groups).ok()?;
        set_thread_gid(Gid::from_raw(user)).ok()?;
        set_thread_uid(Uid::from_raw(user)).ok()?;
        Some(work())
    };
    std::thread::scope(|scope| scope.spawn(become_and_work).join().unwrap())
}

fn connect(socket: &Path, user: u32, groups: &[u32]) -> Option<Http> {
    as_user(user, groups, || Http::connect(socket))
}

fn file(clients: &str) -> String {
    format!("{FILE}\n[api]\nclients = [{clients}]\n")
}

fn allocation(id: u32, owner: &str, mode: &str) -> Value {
    json!({
        "txn_id": format!("{id:032x}"), "owner": owner, "fence": 0, "mode": mode,
        "ops": [{ "op": "put", "kind": "allocation", "name": "ef", "spec": { "class": "ef", "guarantee": id } }],
    })
}

fn code(body: &Value) -> &str {
    body["errors"][0]["code"].as_str().unwrap_or("none")
}

#[test]
fn clients_may_do_what_the_file_says_of_their_user_or_group_and_others_nothing() {
    let Some(world) = World::new("clients") else { return };
    world.with_file(&file(&format!(
        "{{ user = {STRANGER}, role = \"write\", owners = [\"agent\", \"api:site-*\"] }}, {{ group = {GROUP} }}"
    )));
    let _running = world.start();
    let socket = world.runtime_file("sock");
    let Some(mut kept) = connect(&socket, STRANGER, &[]) else {
        skip("clients", "users", "needs other users than this one: run as root");
        return;
    };
    let as_user = |user, groups: &[u32]| connect(&socket, user, groups).unwrap();
    let submit = |user, groups: &[u32], t: &Value| as_user(user, groups).submit(t);
    let state = |user, groups: &[u32]| as_user(user, groups).ask("GET", "/v1/state?kind=class", "");

    // The one who is named writes for whom it is named, and for nobody else.
    for (owner, status) in
        [("agent", 200), ("api:site-7", 200), ("api:other", 403), ("file", 403), ("cli", 403)]
    {
        let (got, body) = submit(STRANGER, &[], &allocation(1_000_000, owner, "check"));
        assert_eq!(got, status, "{owner}: {body}");
    }
    assert_eq!(submit(STRANGER, &[], &allocation(1_000_000, "agent", "commit")).0, 200);
    let mut forced = allocation(1_000_001, "agent", "commit");
    forced["force"] = true.into();
    let (got, body) = submit(STRANGER, &[], &forced);
    assert_eq!((got, code(&body)), (403, "forbidden"));
    // A group of many reads and asks what a change would do, whatever its user.
    assert_eq!(state(STRANGER + 1, &[7, GROUP]).0, 200);
    assert_eq!(submit(STRANGER + 1, &[GROUP], &allocation(1_000_002, "agent", "check")).0, 200);
    let (got, body) = submit(STRANGER + 1, &[GROUP], &allocation(1_000_002, "agent", "commit"));
    assert_eq!((got, code(&body)), (403, "forbidden"));
    // Whoever is not named is turned away, with the reason.
    let (got, body) = state(STRANGER + 1, &[7]);
    assert_eq!((got, code(&body)), (403, "forbidden"));
    assert!(body["errors"][0]["message"].as_str().unwrap().contains("54322"), "{body}");

    // A reload changes what open connections may do, and a limit of requests counts those that change something.
    kept.read("/v1/state?kind=class");
    world.with_file(&file(&format!(
        "{{ user = {STRANGER}, role = \"write\", owners = [\"agent\"], per_second = 2 }}"
    )));
    let reloaded = world.ask(&["router", "reload"]);
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.err);
    let got: Vec<(u16, Value)> =
        (0..6).map(|i| kept.submit(&allocation(2_000_000 + i, "agent", "check"))).collect();
    kept.read("/v1/state?kind=class");
    let taken = got.iter().filter(|(status, _)| *status == 200).count();
    assert!((2..6).contains(&taken), "{got:?}");
    let (status, body) = got.iter().find(|(status, _)| *status != 200).unwrap();
    assert_eq!((*status, code(body)), (429, "overload"));
    assert!((1..=500).contains(&body["retry_after_ms"].as_u64().unwrap()), "{body}");
    assert_eq!(state(STRANGER + 1, &[GROUP]).0, 403, "the group is named no more");

    // A user that this host does not know: the start and the reload say where, and the router goes on as it was.
    world.with_file(&file("{ user = \"no-such-user\", role = \"admin\" }"));
    let refused = world.ask(&["router", "reload"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(
        refused.err.contains("no-such-user") && refused.err.contains("is no user of this host"),
        "{}",
        refused.err
    );
    kept.read("/v1/state?kind=class");
    world.with_file(FILE);
    assert_eq!(world.ask(&["router", "reload"]).code, Some(0));
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o660, "for nobody else again");
}
