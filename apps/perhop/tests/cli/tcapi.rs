//! Programs that reserve bandwidth in a running router.

use super::clients::{STRANGER, as_user};
use super::router::{FILE, World};
use super::{perhop, skip};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

fn call(world: &World, words: &[&str]) -> (Option<i32>, Value) {
    let ended = world.ask(&[&["tcapi", "call"], words, &["--json"]].concat());
    let answer = ended.json().pop().unwrap_or_else(|| panic!("{}", ended.err));
    (ended.code, answer)
}

fn request<'a>(flow: &'a str, rate: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let packets = ["--packets", "protocol=udp dst=10.1.0.9 dst-port=5004"];
    [&["request", "--flow", flow, "--class", "ef", "--rate", rate], &packets[..], more].concat()
}

#[test]
fn flows_are_reserved_up_to_what_their_class_has_and_no_more() {
    let Some(world) = World::new("tcapi") else { return };
    world.with_file(&format!("[tcapi]\nclasses = [\"rest\", \"ef\"]\n{FILE}"));
    let mut running = world.start();
    // 5 Mbit/s are guaranteed to the class.
    for flow in ["1", "2"] {
        let (code, answer) = call(&world, &request(flow, "2 Mbit/s", &[]));
        assert_eq!((code, &answer["done"]), (Some(0), &Value::Bool(true)), "{answer}");
    }
    let (code, answer) = call(&world, &request("3", "2 Mbit/s", &[]));
    let refused = &answer["refused"];
    assert_eq!((code, &refused["code"]), (Some(1), &Value::from("no_capacity")), "{answer}");
    assert_eq!(
        (&refused["link"], &refused["class"], &refused["asked_bps"], &refused["free_bps"]),
        (&"wan".into(), &"ef".into(), &2_000_000.into(), &1_000_000.into())
    );
    // A person reads it too.
    let ended = world.ask(&[&["tcapi", "call"], &request("3", "2 Mbit/s", &[])[..]].concat());
    assert!(ended.err.contains("no_capacity") && ended.err.contains("1000000 bit/s left"), "{}", ended.err);
    assert_eq!(call(&world, &["modify", "--flow", "1", "--rate", "1 Mbit/s"]).0, Some(0));
    assert_eq!(call(&world, &request("3", "2 Mbit/s", &["--for", "1 s"])).0, Some(0));
    // What is reserved is in force, and seen.
    let profiles = world.rows("profiles");
    let names: Vec<&str> = profiles.iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tcapi/user-0/1", "tcapi/user-0/2", "tcapi/user-0/3"]);
    assert_eq!(profiles[0]["owner"], "tcapi:user-0");
    // The file takes half of it away: new ones are measured by that, old ones stay; the third ends by itself.
    world.with_file(&format!(
        "[tcapi]\nclasses = [\"rest\", \"ef\"]\n{}",
        FILE.replace("\"5 Mbit/s\"", "\"3 Mbit/s\"")
    ));
    assert_eq!(world.ask(&["router", "reload"]).code, Some(0));
    let eventually = |what: &str, is_so: &dyn Fn() -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !is_so() {
            assert!(std::time::Instant::now() < end, "{what}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let free = || call(&world, &request("4", "100 Mbit/s", &[])).1["refused"]["free_bps"].as_u64();
    eventually("all is reserved", &|| free() == Some(0));
    eventually("the third has ended", &|| world.rows("profiles").len() == 2);
    assert_eq!(free(), Some(0), "3 Mbit/s are reserved of 3");
    assert_eq!(call(&world, &["release", "--flow", "2"]).0, Some(0));
    assert_eq!(call(&world, &["release", "--flow", "2"]).1["refused"]["code"], "not_found");
    assert_eq!(call(&world, &request("4", "2 Mbit/s", &["--client", "pbx"])).0, Some(0));
    assert!(world.rows("profiles").iter().any(|r| r["owner"] == "tcapi:pbx"));
    // The socket is for whom the router's is, and goes with it.
    let socket = world.runtime_file("tcapi");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o660);
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.end(), Some(0));
    assert!(!socket.exists());
}

/// Octets of a message: type, transaction, epoch 1, parts.
fn message(kind: u16, txn: u64, parts: &[u8]) -> Vec<u8> {
    let length = 20 + parts.len() as u32;
    [
        &kind.to_be_bytes()[..],
        &[0x80, 0],
        &length.to_be_bytes(),
        &1_u32.to_be_bytes(),
        &txn.to_be_bytes(),
        &1_u64.to_be_bytes(),
        parts,
    ]
    .concat()
}

fn part(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut part = [&kind.to_be_bytes()[..], &[0x80, 0], &(value.len() as u32).to_be_bytes(), value].concat();
    part.resize(part.len().next_multiple_of(4), 0);
    part
}

/// A client that knows the page and nothing of this program.
#[test]
fn a_strangers_client_sends_thousands_without_waiting_and_each_is_answered() {
    let Some(world) = World::new("tcapi-many") else { return };
    world.with_file(&format!("[tcapi]\nclasses = [\"rest\", \"ef\"]\n{FILE}"));
    let _running = world.start();
    let mut stream = UnixStream::connect(world.runtime_file("tcapi")).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let many = 3_000_u64;
    let class = part(0x0102, &[0, 1, 0xff]);
    let amount = part(0x0103, &[&1_000_u64.to_be_bytes()[..], &[0; 4], &[0; 8], &[0; 4]].concat());
    let mut all = Vec::new();
    for flow in 0..many {
        let id = part(0x0101, &flow.to_be_bytes());
        let address = (flow as u32 + 0x0a02_0000).to_be_bytes();
        let filter = [&[4, 2, 0, 32, 0, 0, 0, 0][..], &[0; 8], &[0; 4], &address].concat();
        let parts = [id, class.clone(), amount.clone(), part(0x0104, &filter)].concat();
        all.extend(message(1, flow, &parts));
    }
    for flow in 0..many {
        all.extend(message(3, many + flow, &part(0x0101, &flow.to_be_bytes())));
    }
    let writer = {
        let mut stream = stream.try_clone().unwrap();
        std::thread::spawn(move || stream.write_all(&all).unwrap())
    };
    let (mut acknowledged, mut refused) = (0, Vec::new());
    while acknowledged + refused.len() < 2 * many as usize {
        let mut head = [0; 8];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[4..].try_into().unwrap()).next_multiple_of(4);
        let mut value = vec![0; length as usize];
        stream.read_exact(&mut value).unwrap();
        match head[1] {
            4 => acknowledged += 1,
            _ => refused.push(u64::from_be_bytes(value[4..12].try_into().unwrap())),
        }
    }
    writer.join().unwrap();
    // Beyond the queue some are told to come again; nothing else is refused, and nothing is left of what was released.
    let left = world.rows("profiles").len();
    let requests = refused.iter().filter(|txn| **txn < many).count();
    let releases = refused.len() - requests;
    assert!(left <= releases, "{left} left, {releases} releases refused");
    assert!(acknowledged > many as usize, "{acknowledged}");
}

#[test]
fn a_router_without_the_section_says_what_it_lacks() {
    let Some(world) = World::new("no-tcapi") else { return };
    let _running = world.start();
    let ended = world.ask(&["tcapi", "call", "release", "--flow", "1"]);
    assert_eq!(ended.code, Some(3));
    assert!(ended.err.contains("[tcapi]"), "{}", ended.err);
    let wrong = perhop(&["tcapi", "call", "request", "--flow", "1", "--packets", "sorc=1.2.3.4"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("src-port"), "{}", wrong.err);
}

/// What a message to release what is not there is answered by: octets; none when the connection has ended.
fn answered(stream: &mut UnixStream, txn: u64) -> usize {
    stream.write_all(&message(3, txn, &part(0x0101, &7_u64.to_be_bytes()))).unwrap();
    stream.read(&mut [0; 1_000]).unwrap()
}

#[test]
fn a_reload_opens_the_socket_to_clients_and_ends_what_they_have_open() {
    let Some(world) = World::new("tcapi-reload") else { return };
    let reload = |clients: &str| {
        world.with_file(&format!("[tcapi]\n{FILE}\n[api]\nclients = [{clients}]\n"));
        let reloaded = world.ask(&["router", "reload"]);
        assert_eq!(reloaded.code, Some(0), "{}", reloaded.err);
    };
    world.with_file(&format!("[tcapi]\n{FILE}"));
    let _running = world.start();
    let path = world.runtime_file("tcapi");
    let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o660);
    reload(&format!("{{ user = {STRANGER}, role = \"write\", owners = [\"tcapi:a\"] }}"));
    assert_eq!(mode(), 0o666);
    let Some(mut stream) = as_user(STRANGER, &[], || UnixStream::connect(&path).unwrap()) else {
        return skip("tcapi-reload", "users", "needs other users than this one: run as root");
    };
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    assert!(answered(&mut stream, 1) > 0 && answered(&mut stream, 2) > 0);
    reload(&format!("{{ user = {STRANGER}, role = \"read\" }}"));
    assert_eq!(answered(&mut stream, 3), 0, "it may reserve nothing any more");
    reload("");
    assert_eq!(mode(), 0o660, "for nobody else again");
}

#[test]
fn without_a_router_the_kernel_keeps_reservations_as_long_as_they_are_served() {
    let Some(world) = World::new("tcapi-kernel") else { return };
    let before = world.root_discipline("wan");
    let (mut running, socket) = world.start_shaper();
    assert_eq!(world.root_discipline("wan"), ("htb".to_owned(), true));
    let ask = |words: &[&str]| {
        let ended =
            perhop(&[&["tcapi", "call"], words, &["--socket", socket.to_str().unwrap(), "--json"]].concat());
        let answer = ended.json().pop().unwrap_or_else(|| panic!("{}", ended.err));
        (ended.code, answer["refused"]["code"].as_str().map(str::to_owned))
    };
    let call = |flow, rate, port| {
        let packets = format!("protocol=udp dst=10.1.0.9 dst-port={port}");
        ask(&["request", "--flow", flow, "--class", "voice", "--rate", rate, "--packets", &packets])
    };
    let refused = |code: &str| (Some(1), Some(code.to_owned()));
    assert_eq!(call("1", "600 kbit/s", "5004"), (Some(0), None));
    assert_eq!(call("2", "600 kbit/s", "5006"), refused("no_capacity"));
    assert_eq!(ask(&["modify", "--flow", "1", "--rate", "300 kbit/s"]), (Some(0), None));
    assert_eq!(call("2", "600 kbit/s", "5006"), (Some(0), None));
    assert_eq!(call("3", "1 kbit/s", "5000-5002"), refused("unsupported"));
    let aggregate = ["request", "--flow", "9", "--class", "video", "--out", "wan", "--rate", "4 Mbit/s"];
    assert_eq!(ask(&aggregate), (Some(0), None));
    assert_eq!(ask(&["release", "--flow", "1"]), (Some(0), None));
    assert_eq!(ask(&["release", "--flow", "1"]), refused("not_found"));
    running.signal(rustix::process::Signal::TERM);
    assert_eq!(running.end(), Some(0));
    assert_eq!((world.root_discipline("wan"), socket.exists()), (before, false));
    let ended = perhop(&[
        "tcapi",
        "serve",
        "--interface",
        "wan",
        "--socket",
        "x",
        "--rate",
        "1 Mbit/s",
        "--class",
        "voice",
    ]);
    assert!(ended.code == Some(2) && ended.err.contains("NAME=GUARANTEE"), "{}", ended.err);
}
