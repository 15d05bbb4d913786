//! Clients that reserve bandwidth of a domain by COPS-DRA.

mod agent;

use super::router::Running;
use super::{Ended, Scratch, command, perhop, root, skip};
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The example's domain with a door for COPS, and its controller.
struct World {
    scratch: Scratch,
    name: String,
    address: String,
    controller: Running,
}

impl World {
    fn new(test: &str, more: impl Fn(&str) -> String) -> Self {
        let scratch = Scratch::new(test);
        // A port that is free now, so that it is the same after a restart.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let domain = std::fs::read_to_string(root().join("examples/domain/domain.toml")).unwrap();
        let domain = domain.replace("lifetime = \"10 min\"", "lifetime = \"3 s\"");
        scratch.file("domain.toml", &format!("{domain}\n{}", more(&address)));
        let name = format!("cli-{test}-{}", std::process::id());
        let controller = start(&scratch, &name);
        Self { scratch, name, address, controller }
    }

    fn in_the_clear(test: &str) -> Self {
        let client = |name| format!("[[client]]\nname = \"{name}\"\nkind = \"cops\"\nrole = \"proxy\"\n");
        Self::new(test, |address| {
            format!("[[cops]]\naddress = \"{address}\"\n{}{}", client("phones"), client("cameras"))
        })
    }

    /// Owners and rates of all reservations.
    fn booked(&self) -> Vec<(String, u64)> {
        let listed = perhop(&["reserve", "list", "--json", "--controller", &self.name]);
        let row = |row: &serde_json::Value| {
            (row["owner"].as_str().unwrap().to_owned(), row["bps"].as_u64().unwrap())
        };
        listed.json().iter().map(row).collect()
    }

    fn until_booked(&self, expected: &[(&str, u64)]) {
        let expected: Vec<(String, u64)> = expected.iter().map(|(o, bps)| ((*o).into(), *bps)).collect();
        until(&format!("{expected:?} is booked"), || self.booked() == expected);
    }

    fn words<'a>(&'a self, client: &'a str, rate: &'a str) -> Vec<&'a str> {
        let from_to = ["--class", "voice", "--from", "west", "--to-node", "east"];
        let whom = ["cops", "request", "--to", &self.address, "--client", client, "--rate", rate];
        [&whom[..], &from_to].concat()
    }

    fn request(&self, client: &str, rate: &str, more: &[&str]) -> Ended {
        perhop(&[&self.words(client, rate)[..], more].concat())
    }

    /// One that goes on, and what it is told.
    fn hold(&self, client: &str, rate: &str) -> (Running, std::io::PipeWriter) {
        let (read, write) = std::io::pipe().unwrap();
        let log = File::create(self.scratch.0.join(format!("{client}.log"))).unwrap();
        let words = [&self.words(client, rate)[..], &["--hold"]].concat();
        let running = Running::of(command(&words).stdin(read).stdout(Stdio::null()).stderr(log));
        (running, write)
    }
}

fn start(scratch: &Scratch, name: &str) -> Running {
    let log = File::create(scratch.0.join("controller.log")).unwrap();
    let words = ["controller", "run", scratch.0.to_str().unwrap(), "--name", name];
    let running = Running::of(command(&words).stdout(Stdio::null()).stderr(log));
    until("the controller answers", || perhop(&["reserve", "list", "--controller", name]).code == Some(0));
    running
}

#[test]
fn a_reservation_by_cops_is_made_changed_refused_and_given_back() {
    let world = World::in_the_clear("cops");
    let made = world.request("phones", "500 kbit/s", &[]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(made.out.starts_with("reserved: 500 kbit/s of class voice from west to east"), "{}", made.out);
    world.until_booked(&[]);
    let (mut phones, mut rates) = world.hold("phones", "500 kbit/s");
    world.until_booked(&[("phones", 500_000)]);
    let refused = world.request("cameras", "2600 kbit/s", &[]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    let why = "no_capacity: link west/wan, class voice, 2.6 Mbit/s asked, 2.5 Mbit/s free";
    assert!(refused.err.contains(why), "{}", refused.err);
    rates.write_all(b"1 Mbit/s\n").unwrap();
    world.until_booked(&[("phones", 1_000_000)]);
    let (mut cameras, _rates) = world.hold("cameras", "2 Mbit/s");
    world.until_booked(&[("phones", 1_000_000), ("cameras", 2_000_000)]);
    // More than its life: both are renewed as long as they are held.
    std::thread::sleep(Duration::from_secs(5));
    world.until_booked(&[("phones", 1_000_000), ("cameras", 2_000_000)]);
    cameras.signal(Signal::TERM);
    assert_eq!(cameras.end(), Some(0));
    world.until_booked(&[("phones", 1_000_000)]);
    // Who dies gives nothing back: it ends by itself.
    phones.kill();
    world.until_booked(&[]);
    let unknown = world.request("nobody", "1 kbit/s", &[]);
    assert_eq!(unknown.code, Some(3));
    assert!(unknown.err.contains("unauthenticated") && unknown.err.contains("[[cops]]"), "{}", unknown.err);
}

#[test]
fn a_controller_that_is_killed_finds_its_clients_again() {
    let mut world = World::in_the_clear("cops-killed");
    let (mut phones, mut rates) = world.hold("phones", "500 kbit/s");
    let (_cameras, _rates) = world.hold("cameras", "1 Mbit/s");
    until("both are booked", || world.booked().len() == 2);
    world.controller.kill();
    rates.write_all(b"700 kbit/s\n").unwrap();
    world.controller = start(&world.scratch, &world.name);
    // Asked anew, and renewed again.
    std::thread::sleep(Duration::from_secs(5));
    until("both are booked again", || {
        let mut booked = world.booked();
        booked.sort();
        booked == [("cameras".to_owned(), 1_000_000), ("phones".to_owned(), 700_000)]
    });
    phones.signal(Signal::INT);
    assert_eq!(phones.end(), Some(0));
    world.until_booked(&[("cameras", 1_000_000)]);
}

#[test]
fn with_certificates_a_client_is_who_its_certificate_says() {
    let folder = Scratch::new("cops-pki");
    let path = |name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let dir = folder.0.to_str().unwrap();
    assert_eq!(perhop(&["pki", "init", dir]).code, Some(0));
    let issue = |words: &[&str]| {
        let ended = perhop(&[&["pki", "issue"], words, &["--dir", dir]].concat());
        let line = ended.out.lines().find(|line| line.starts_with("certificate"));
        line.unwrap_or_else(|| panic!("{}", ended.err)).split('"').nth(1).unwrap().to_owned()
    };
    issue(&["controller", "--host", "127.0.0.1"]);
    let (phones, _, web) = (issue(&["phones"]), issue(&["stranger"]), issue(&["web"]));
    let world = World::new("cops-tls", |address| {
        format!(
            "[[cops]]\naddress = \"{address}\"\ncertificate = \"{}\"\nkey = \"{}\"\nauthority = \"{}\"\n\
             [[client]]\nname = \"phones\"\nkind = \"cops\"\nrole = \"proxy\"\ncertificate = \"{phones}\"\n\
             [[client]]\nname = \"open\"\nkind = \"cops\"\nrole = \"proxy\"\n\
             [[client]]\nname = \"web\"\nkind = \"http\"\nrole = \"proxy\"\ncertificate = \"{web}\"\n",
            path("controller.pem"),
            path("controller.key"),
            path("authority.pem")
        )
    });
    let request = |client: &str, shows: &str| {
        let (certificate, key) = (path(&format!("{shows}.pem")), path(&format!("{shows}.key")));
        let more = ["--authority", &path("authority.pem"), "--certificate", &certificate, "--key-file", &key];
        world.request(client, "500 kbit/s", &more)
    };
    let made = request("phones", "phones");
    assert_eq!(made.code, Some(0), "{}", made.err);
    for (client, shows) in [("phones", "stranger"), ("open", "phones"), ("open", "stranger")] {
        let refused = request(client, shows);
        assert_eq!(refused.code, Some(3), "{client} with {shows}: {}", refused.err);
        assert!(refused.err.contains("authentication failure: unauthenticated"), "{}", refused.err);
    }
    let other = request("web", "web");
    assert_eq!(other.code, Some(3), "a client by HTTP: {}", other.err);
    assert!(other.err.contains("authentication failure: forbidden"), "{}", other.err);
    let bare = world.request("open", "500 kbit/s", &[]);
    assert_eq!((bare.code, bare.out.as_str()), (Some(3), ""), "nothing is taken in the clear");
    world.until_booked(&[]);
}

#[test]
fn tshark_reads_what_passes_without_a_malformed_field() {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_there("tshark") || !is_there("dumpcap") {
        return skip("tshark_reads_what_passes", "tshark", "needs tshark and dumpcap");
    }
    let world = World::in_the_clear("cops-tshark");
    let capture = world.scratch.0.join("cops.pcapng");
    let port = world.address.rsplit_once(':').unwrap().1;
    let filter = format!("tcp port {port}");
    let log = world.scratch.0.join("dumpcap.log");
    let mut dumpcap = Command::new("dumpcap");
    dumpcap.args(["-q", "-i", "lo", "-f", &filter, "-w"]).arg(&capture).stdout(Stdio::null());
    let mut dumping = Running::of(dumpcap.stderr(File::create(&log).unwrap()));
    std::thread::sleep(Duration::from_secs(2));
    if !std::fs::metadata(&capture).is_ok_and(|file| file.len() > 0) {
        let why = std::fs::read_to_string(&log).unwrap();
        return skip("tshark_reads_what_passes", "tshark", &format!("dumpcap cannot capture: {why}"));
    }
    assert_eq!(world.request("phones", "500 kbit/s", &[]).code, Some(0));
    assert_eq!(world.request("phones", "50 Mbit/s", &[]).code, Some(1));
    std::thread::sleep(Duration::from_secs(1));
    dumping.signal(Signal::INT);
    dumping.end();
    let decode = format!("tcp.port=={port},cops");
    let fields = ["-T", "fields", "-e", "cops.op_code", "-e", "_ws.malformed"];
    let mut tshark = Command::new("tshark");
    let read = tshark.args(["-d", &decode, "-Y", "cops", "-r"]).arg(&capture).args(fields).output().unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    let ops: Vec<&str> = text.lines().flat_map(|line| line.split('\t').next().unwrap().split(',')).collect();
    for op in ["6", "7", "1", "2", "4"] {
        assert!(ops.contains(&op), "{op} is missing: {ops:?}");
    }
    let malformed = text.lines().filter(|line| line.split('\t').nth(1).is_some_and(|m| !m.is_empty()));
    assert_eq!(malformed.count(), 0, "{text}");
}
