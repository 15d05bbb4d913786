//! Calls through `perhop sip-proxy run`, between phones of the test, with a domain that reserves for them.

mod agents;
mod baresip;
mod between;
mod calls;
mod files;
mod phone;
mod reserving;
mod sipp;

use super::router::Running;
use super::{Scratch, command, perhop, root};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that is free now, for datagrams and connections, at an address of loopback.
fn free(ip: &str) -> SocketAddr {
    loop {
        let udp = UdpSocket::bind((ip, 0)).unwrap().local_addr().unwrap();
        if TcpListener::bind(udp).is_ok() {
            return udp;
        }
    }
}

/// A proxy that runs.
struct Proxy {
    running: Running,
    folder: PathBuf,
    log: PathBuf,
    address: SocketAddr,
}

impl Proxy {
    /// Starts one by a file in a folder of its own, which listens at `address`.
    fn start(scratch: &Scratch, name: &str, address: SocketAddr, text: &str) -> Self {
        let folder = scratch.0.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("sip-proxy.toml"), text).unwrap();
        let log = folder.join("log");
        let running = Self::spawn(&folder, &log);
        let proxy = Self { running, folder, log, address };
        proxy.until_it_listens();
        proxy
    }

    fn spawn(folder: &Path, log: &Path) -> Running {
        let log = File::create(log).unwrap();
        let words = ["sip-proxy", "run", folder.to_str().unwrap()];
        Running::of(command(&words).stdout(Stdio::null()).stderr(log))
    }

    fn until_it_listens(&self) {
        let line = format!("listening for SIP over UDP at {}", self.address);
        until("the proxy listens", || self.said().contains(&line));
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills it, and starts the next.
    fn killed(&mut self) {
        self.running.kill();
        self.running = Self::spawn(&self.folder, &self.log);
        self.until_it_listens();
    }

    fn ends(&mut self) {
        self.running.signal(Signal::TERM);
        assert_eq!(self.running.end(), Some(0), "{}", self.said());
    }

    /// Records of calls.
    fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.join("calls.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// What files of proxies have in common: where phones are, and behind which edge.
fn zones() -> String {
    "[[edge]]\nname = \"west\"\nprefixes = [\"127.1.0.0/16\"]\n[[edge]]\nname = \"east\"\nprefixes = [\"127.2.0.0/16\"]\n\
     [records]\nfile = \"calls.jsonl\"\n"
        .to_owned()
}

fn listen(transport: &str, address: SocketAddr) -> String {
    format!("[[listen]]\ntransport = \"{transport}\"\naddress = \"{address}\"\n")
}

/// A domain of two edges that runs.
struct World {
    scratch: Scratch,
    name: String,
    /// Its door for COPS.
    cops: SocketAddr,
    controller: Running,
}

impl World {
    /// `voice` is what may be reserved of class voice.
    fn new(test: &str, voice: &str) -> Self {
        let scratch = Scratch::new(test);
        let cops = free("127.0.0.1");
        let domain = std::fs::read_to_string(root().join("examples/domain/domain.toml")).unwrap();
        let domain = domain.replace("voice = \"3 Mbit/s\"", &format!("voice = \"{voice}\""));
        let clients = ["phones", "west-phones", "east-phones"]
            .map(|name| format!("[[client]]\nname = \"{name}\"\nkind = \"cops\"\nrole = \"proxy\"\n"));
        scratch
            .file("domain.toml", &format!("{domain}\n[[cops]]\naddress = \"{cops}\"\n{}", clients.concat()));
        let name = format!("cli-{test}-{}", std::process::id());
        let controller = Self::controller(&scratch, &name);
        Self { scratch, name, cops, controller }
    }

    fn controller(scratch: &Scratch, name: &str) -> Running {
        let log = File::create(scratch.0.join("controller.log")).unwrap();
        let words = ["controller", "run", scratch.0.to_str().unwrap(), "--name", name];
        let running = Running::of(command(&words).stdout(Stdio::null()).stderr(log));
        until("the controller answers", || {
            perhop(&["reserve", "list", "--controller", name]).code == Some(0)
        });
        running
    }

    /// From where to where how much is reserved.
    fn booked(&self) -> Vec<(String, String, u64)> {
        let listed = perhop(&["reserve", "list", "--json", "--controller", &self.name]);
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let row = |row: &Value| (text(row, "from"), text(row, "to"), row["bps"].as_u64().unwrap());
        let mut all: Vec<_> = listed.json().iter().map(row).collect();
        all.sort();
        all
    }

    fn until_booked(&self, expected: &[(&str, &str, u64)]) {
        let expected: Vec<_> =
            expected.iter().map(|(from, to, bps)| ((*from).to_owned(), (*to).to_owned(), *bps)).collect();
        let mut booked = Vec::new();
        let end = Instant::now() + PATIENCE;
        while booked != expected {
            assert!(Instant::now() < end, "{expected:?} is expected, {booked:?} is reserved");
            booked = self.booked();
        }
    }

    /// The part of a proxy's file that says who reserves.
    fn by_http(&self, more: &str) -> String {
        let more = patient(more);
        format!("[reserve]\nby = \"http\"\ncontroller = \"{}\"\nclass = \"voice\"\n{more}\n", self.name)
    }

    fn by_cops(&self, client: &str, more: &str) -> String {
        let (cops, more) = (self.cops, patient(more));
        format!(
            "[reserve]\nby = \"cops\"\nservers = [\"{cops}\"]\nclient = \"{client}\"\nclass = \"voice\"\n{more}\n"
        )
    }
}

/// A machine that does much else may take longer than calls wait.
fn patient(more: &str) -> String {
    if more.contains("patience") { more.to_owned() } else { format!("patience = \"10 s\"\n{more}") }
}

impl Drop for World {
    fn drop(&mut self) {
        self.controller.kill();
        for ending in ["controller", "controller.lock"] {
            let _ = std::fs::remove_file(format!("/run/perhop/{}.{ending}", self.name));
        }
    }
}

/// What a call of G.711 takes at 20 ms a packet (200 octets of IP, 50 a second), both ways.
const CALL: [(&str, &str, u64); 2] = [("east", "west", 80_000), ("west", "east", 80_000)];
