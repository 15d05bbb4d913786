//! A router from its start to its end, in a network namespace of its own.

use super::http::Http;
use super::{Ended, Scratch, command, perhop, piped, skip};
use perhop_netlink::sysctl::{self, IpVersion};
use perhop_netlink::{Namespace, Netlink, is_privileged_for_net};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub const FILE: &str = r#"
[log]
file = "/dev/full"
[[port]]
name = "lan"
[[port]]
name = "wan"
rate = "10 Mbit/s"
[[class]]
name = "ef"
port = "wan"
guarantee = "5 Mbit/s"
ceiling = "5 Mbit/s"
tier = 0
queue = "20 ms"
[[class]]
name = "rest"
port = "wan"
default = true
queue = "100 ms"
[detector]
class = "ef"
calls = 20
"#;

/// Time for a confirmation that does not come before the test ends, ms.
pub const UNCONFIRMED_MS: u64 = 60_000;

/// A namespace with the interfaces `lan` and `wan`, and a router to run there.
pub struct World {
    namespace: Namespace,
    scratch: Scratch,
    name: String,
    file: String,
}

/// A machine behind a port.
pub struct Host {
    namespace: Namespace,
    address: &'static str,
}

impl Host {
    /// A socket of its own.
    pub fn bind(&self, port: u16) -> UdpSocket {
        self.namespace.run(|| UdpSocket::bind((self.address, port))).unwrap().unwrap()
    }
}

/// A running process; killed when the test fails.
pub struct Running(Child);

/// A command that goes on, and what it prints.
pub struct Watch {
    _running: Running,
    out: BufReader<ChildStdout>,
}

impl Watch {
    /// The next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.out.read_line(&mut line).unwrap() > 0, "it has ended");
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// What a command starts.
    pub fn of(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ends it at once, and waits for that.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.end();
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits for its end: the code, none if a signal killed it.
    pub fn end(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "the process does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for World {
    /// What a router that a failing test killed leaves behind goes away too.
    fn drop(&mut self) {
        for ending in LEFT {
            let _ = std::fs::remove_file(self.runtime_file(ending));
        }
    }
}

/// What a router has in /run/perhop.
const LEFT: [&str; 5] = ["sock", "tcapi", "lock", "state.json", "state.new"];

impl World {
    pub fn runtime_file(&self, ending: &str) -> PathBuf {
        PathBuf::from("/run/perhop").join(format!("{}.{ending}", self.name))
    }

    /// The files of the router that exist.
    fn runtime_files(&self) -> Vec<&'static str> {
        LEFT.into_iter().filter(|e| self.runtime_file(e).symlink_metadata().is_ok()).collect()
    }

    pub fn new(test: &str) -> Option<Self> {
        if !is_privileged_for_net() {
            skip(test, "netns", "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`");
            return None;
        }
        let namespace = Namespace::create().unwrap();
        let net = Netlink::open_in(&namespace).unwrap();
        for (port, address) in [("lan", "10.0.0.1/24"), ("wan", "10.1.0.1/24")] {
            let peer = format!("{port}-peer");
            net.create_veth(port, &peer, None).unwrap();
            net.add_address(port, address.parse().unwrap()).unwrap();
            net.set_up(port).unwrap();
            net.set_up(&peer).unwrap();
        }
        net.add_address("lan-peer", "10.9.0.1/24".parse().unwrap()).unwrap();
        net.add_route("239.0.0.0/8".parse().unwrap(), None, Some("lan-peer")).unwrap();
        let scratch = Scratch::new(test);
        let file = scratch.file("router.toml", FILE);
        let name = format!("cli-test-{}-{test}", std::process::id());
        let world = Self { namespace, scratch, name, file };
        world.forwarding(Some("1"));
        Some(world)
    }

    /// The kernel's forwarding switch of `lan`, after setting it if told to.
    fn forwarding(&self, set: Option<&str>) -> String {
        let path = "/proc/sys/net/ipv4/conf/lan/forwarding";
        let work = || {
            if let Some(value) = set {
                std::fs::write(path, value).unwrap();
            }
            std::fs::read_to_string(path).unwrap().trim().to_owned()
        };
        self.namespace.run(work).unwrap()
    }

    /// Runs the router in the namespace and waits until it answers.
    pub fn start(&self) -> Running {
        self.start_with(&[])
    }

    /// The same with more arguments.
    pub fn start_with(&self, more: &[&str]) -> Running {
        let args = ["router", "run", &self.file, "--name", &self.name, "--set", "port.wan.rate=8 Mbit/s"];
        let args = [&args[..], more].concat();
        let spawn = || command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut running = Running(self.namespace.run(spawn).unwrap());
        let end = Instant::now() + PATIENCE;
        while self.ask(&["show", "ports"]).code != Some(0) {
            let ended = running.0.try_wait().unwrap();
            assert!(ended.is_none(), "the router ended: {ended:?}");
            assert!(Instant::now() < end, "the router does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }

    /// Runs the agent of a file and records what it is told; what it prints as JSON goes into another file.
    pub fn start_recorded(&self, file: &str, record: &str) -> (Running, PathBuf) {
        let said = PathBuf::from(self.scratch.file("said", ""));
        let out = std::fs::File::create(&said).unwrap();
        let args = ["agent", "run", file, "--router", &self.name, "--json", "--record", record];
        (Running(command(&args).stdout(out).stderr(Stdio::null()).spawn().unwrap()), said)
    }

    /// Runs the agent of a file, whose complaints go into another file.
    pub fn start_agent(&self, name: &str, text: &str) -> (Running, PathBuf) {
        let file = self.scratch.file(&format!("{name}.toml"), text);
        let errors = PathBuf::from(self.scratch.file(&format!("{name}.log"), ""));
        let log = std::fs::File::create(&errors).unwrap();
        let mut agent = command(&["agent", "run", &file, "--router", &self.name]);
        (Running(agent.stdout(Stdio::null()).stderr(log).spawn().unwrap()), errors)
    }

    /// Runs a server of reservations for the interface `wan` of the kernel, and where it listens.
    pub fn start_shaper(&self) -> (Running, PathBuf) {
        let socket = PathBuf::from(self.scratch.file("sockets", "")).with_file_name("wan.tcapi");
        let path = socket.to_str().unwrap();
        let args = ["tcapi", "serve", "--interface", "wan", "--socket", path, "--rate", "10 Mbit/s"];
        let args = [&args[..], &["--class", "voice=1 Mbit/s@ef", "--class", "video=2 Mbit/s"]].concat();
        let spawn = || command(&args).stderr(Stdio::null()).spawn().unwrap();
        let mut running = Running(self.namespace.run(spawn).unwrap());
        let end = Instant::now() + PATIENCE;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            let ended = running.0.try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {ended:?}");
            assert!(Instant::now() < end, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        (running, socket)
    }

    /// The kind of the queueing discipline at the root of an interface, and whether it is more than the kernel's default.
    pub fn root_discipline(&self, interface: &str) -> (String, bool) {
        let all = Netlink::open_in(&self.namespace).unwrap().qdiscs(interface).unwrap();
        let root = all.into_iter().find(|q| q.parent == perhop_netlink::tc::Handle::ROOT).unwrap();
        (root.spec.kind().to_owned(), root.handle != perhop_netlink::tc::Handle::NONE)
    }

    /// What a router started from here on reads.
    pub fn with_file(&self, text: &str) {
        self.scratch.file("router.toml", text);
    }

    /// A socket in place of the router's: it takes connections and never answers.
    pub fn silence(&self) -> (std::os::unix::net::UnixListener, PathBuf) {
        std::fs::create_dir_all("/run/perhop").unwrap();
        let path = self.runtime_file("sock");
        (std::os::unix::net::UnixListener::bind(&path).unwrap(), path)
    }

    /// A connection to the router's socket.
    pub fn http(&self) -> Http {
        Http::connect(&self.runtime_file("sock"))
    }

    /// Sends some packets to the port `lan`, which the router counts.
    pub fn traffic(&self) {
        let send = || {
            let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
            for _ in 0..20 {
                socket.send_to(&[0; 100], "239.1.1.1:9").unwrap();
            }
        };
        self.namespace.run(send).unwrap();
    }

    /// Another user who can open the socket may read, and change nothing.
    pub fn as_reader_it_is_forbidden(&self) {
        let skipped = |why: &str| skip("as_reader_it_is_forbidden", "reader", why);
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            return skipped("only root can be another user");
        }
        let ops = json!([{ "op": "put", "kind": "class", "name": "r", "spec": { "port": "wan" } }]);
        let transaction = json!({ "txn_id": format!("{:032x}", 99), "mode": "commit", "ops": ops });
        let file = self.scratch.file("reader.json", &transaction.to_string());
        let as_reader = |words: &[&str]| {
            let mut command = command(&[words, &["--router", &self.name]].concat());
            let output = command.uid(65_534).gid(0).output().ok()?;
            Some((output.status.code(), String::from_utf8(output.stdout).unwrap()))
        };
        // Who may not open the socket is told so, not that no router runs.
        let mut stranger = command(&["show", "ports", "--router", &self.name]);
        if let Ok(output) = stranger.uid(65_534).gid(65_534).output() {
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3));
            assert!(
                err.contains("this user may not talk to the router") && !err.contains("start one"),
                "{err}"
            );
        }
        let Some((code, _)) = as_reader(&["show", "ports"]) else {
            return skipped("user 65534 cannot execute the program where it is built");
        };
        assert_eq!(code, Some(0));
        for words in [&["router", "apply", &file, "--json"][..], &["router", "reload", "--json"]] {
            let (code, out) = as_reader(words).unwrap();
            let reply: Value = serde_json::from_str(&out).unwrap();
            assert_eq!((code, reply["errors"][0]["code"].as_str()), (Some(1), Some("forbidden")), "{out}");
        }
    }

    /// Puts a host behind each port, 10.0.0.2 and 10.1.0.2, whose default route is the router.
    pub fn hosts(&self) -> [Host; 2] {
        let net = Netlink::open_in(&self.namespace).unwrap();
        let hosts = [("lan", "10.0.0.2", "10.0.0.1"), ("wan", "10.1.0.2", "10.1.0.1")];
        let hosts = hosts.map(|(port, address, router)| {
            let host = Namespace::create().unwrap();
            net.delete_link(port).unwrap();
            net.create_veth(port, "eth0", Some(&host)).unwrap();
            let own = Netlink::open_in(&host).unwrap();
            for (net, device, address) in [(&net, port, router), (&own, "eth0", address)] {
                net.add_address_now(device, format!("{address}/24").parse().unwrap()).unwrap();
                net.set_up(device).unwrap();
            }
            own.add_route("0.0.0.0/0".parse().unwrap(), Some(router.parse().unwrap()), Some("eth0")).unwrap();
            Host { namespace: host, address }
        });
        sysctl::write(&self.namespace, IpVersion::V4, "all", "forwarding", 1).unwrap();
        hosts
    }

    /// A command on the router, to be started.
    pub fn command(&self, words: &[&str]) -> Command {
        command(&[words, &["--router", &self.name]].concat())
    }

    /// Starts a command on the router that goes on.
    pub fn watch(&self, words: &[&str]) -> Watch {
        let mut child = self.command(words).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Watch { _running: Running(child), out }
    }

    /// Runs a command on the router.
    pub fn ask(&self, words: &[&str]) -> Ended {
        perhop(&[words, &["--router", &self.name]].concat())
    }

    /// What is shown.
    pub fn rows(&self, what: &str) -> Vec<Value> {
        let pages = self.ask(&["show", what, "--json"]).json();
        assert_eq!(pages.len(), 1);
        pages[0]["rows"].as_array().unwrap().clone()
    }

    fn classes(&self) -> Vec<String> {
        let rows = self.rows("classes");
        let owned = rows.iter().filter(|r| r["owner"] != "");
        let name = |r: &Value| format!("{}:{}", r["owner"].as_str().unwrap(), r["name"].as_str().unwrap());
        let mut names: Vec<String> = owned.map(name).collect();
        names.sort();
        names
    }

    fn apply(&self, id: u8, ops: Value) -> Ended {
        self.apply_whole(&json!({ "txn_id": format!("{id:032x}"), "mode": "commit", "ops": ops }))
    }

    fn apply_whole(&self, transaction: &Value) -> Ended {
        let args = ["router", "apply", "-", "--json", "--router", &self.name];
        piped(&args, transaction.to_string().as_bytes())
    }
}

/// The log goes to a full disk all the while.
#[test]
fn a_router_runs_is_changed_and_stops_cleanly() {
    let Some(world) = World::new("lifecycle") else { return };
    let mut running = world.start();
    assert_eq!(world.forwarding(None), "1", "the kernel's switch is its own");

    let ports = world.rows("ports");
    let wan = ports.iter().find(|r| r["name"] == "wan").unwrap();
    assert_eq!(wan["counters"]["rate_bps"], 8_000_000, "the file says 10 Mbit/s, --set says 8");
    assert_eq!(world.classes(), ["file:ef", "file:rest"]);
    for what in ["ports", "classes", "flows", "profiles", "calls", "filters", "elements"] {
        assert_eq!(world.ask(&["show", what]).code, Some(0), "{what}");
    }
    let names = |args: &[&str]| -> Vec<String> {
        let page = &world.ask(&[&["show", "classes", "--json"], args].concat()).json()[0];
        let rows = page["rows"].as_array().unwrap().iter();
        assert_eq!(
            page["total"].as_u64(),
            Some(if args.contains(&"--limit=1") { 2 } else { rows.len() as u64 })
        );
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["--filter", "owner=file", "--sort", "-name"]), ["rest", "ef"]);
    assert_eq!(names(&["--filter=owner=file", "--filter=name~S", "--filter=throttled<1"]), ["rest"]);
    assert_eq!(names(&["--filter=state=unused", "--sort=name"]), ["lan/default", "wan/default"]);
    assert_eq!(names(&["--filter=owner=file", "--sort=name", "--limit=1"]), ["ef"]);
    let unknown = world.ask(&["show", "classes", "--sort", "-nmae"]);
    assert!(
        unknown.code == Some(2) && unknown.err.contains("There are kind, name, id, owner,"),
        "{}",
        unknown.err
    );

    let put = |name: &str, port: &str| json!([{ "op": "put", "kind": "class", "name": name, "spec": { "port": port } }]);
    let done = world.apply(1, put("guests", "wan"));
    assert_eq!((done.code, done.json()[0]["outcome"].as_str()), (Some(0), Some("committed")), "{}", done.err);
    let refused = world.apply(2, put("guests2", "wam"));
    assert_eq!(
        (refused.code, refused.json()[0]["errors"][0]["code"].as_str()),
        (Some(1), Some("bad_reference"))
    );

    // A reload changes what the file owns, and nothing else.
    let more = FILE.replace("[detector]", "[[class]]\nname = \"more\"\nport = \"wan\"\n[detector]");
    world.scratch.file("router.toml", &more);
    assert_eq!(world.ask(&["router", "reload"]).code, Some(0));
    assert_eq!(world.classes(), ["cli:guests", "file:ef", "file:more", "file:rest"]);
    let wan = world.rows("ports").into_iter().find(|r| r["name"] == "wan").unwrap();
    assert_eq!(wan["counters"]["rate_bps"], 8_000_000, "--set holds for a reload too");
    world.scratch.file("router.toml", "[[port]]\nname = 7\n");
    let broken = world.ask(&["router", "reload"]);
    assert!(broken.code == Some(1) && broken.err.contains("router.toml:2:8"), "{}", broken.err);
    assert_eq!(world.classes().len(), 4, "a broken file changes nothing");
    // What only the router can refuse is said at its place in the file too, and answered with a status of its own.
    world.scratch.file("router.toml", &FILE.replace("name = \"lan\"", "name = \"lan\"\ndevice = \"wan0\""));
    let refused = world.ask(&["router", "reload"]);
    assert!(refused.code == Some(1) && refused.err.contains("router.toml:4:1: port"), "{}", refused.err);
    assert!(refused.err.contains("nothing is changed") && refused.out.is_empty(), "{}", refused.out);
    let refused = world.ask(&["router", "reload", "--json"]).json();
    assert_eq!(refused[0]["outcome"], "rejected");
    assert_eq!(refused[0]["errors"][0]["code"], "unsupported");
    world.scratch.file("router.toml", FILE);
    running.signal(Signal::HUP);
    let end = Instant::now() + PATIENCE;
    while world.classes() != ["cli:guests", "file:ef", "file:rest"] {
        assert!(Instant::now() < end, "SIGHUP does not reload: {:?}", world.classes());
        std::thread::sleep(Duration::from_millis(5));
    }
    let wan = world.rows("ports").into_iter().find(|r| r["name"] == "wan").unwrap();
    assert_eq!(wan["counters"]["rate_bps"], 8_000_000, "--set holds for the signal as well");

    let packet = "in=lan udp 10.0.0.2:1000>10.1.0.2:2000";
    let explained = world.ask(&["router", "explain", "--packet", packet, "--json"]);
    assert!(explained.code == Some(0) && explained.json().len() == 1, "{}", explained.err);
    assert_eq!(
        explained.json()[0]["outcome"],
        "sent by wan from queue rest",
        "the kernel's route is known now"
    );

    let second = perhop(&["router", "run", &world.file, "--name", &world.name]);
    assert!(second.code == Some(3) && second.err.contains("another one with this name is running"));
    assert_eq!(perhop(&["router", "restore", "--name", &world.name]).code, Some(3), "it lives");

    assert_eq!(world.runtime_files(), ["sock", "lock", "state.json"]);
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(0));
    assert_eq!(world.forwarding(None), "1", "as it was");
    assert_eq!(world.runtime_files(), [""; 0], "a clean stop leaves nothing behind");
    assert_eq!(world.ask(&["show", "ports"]).code, Some(3));
}

#[test]
fn a_reload_warns_of_what_a_check_warns_of() {
    let Some(world) = World::new("warns") else { return };
    let _running = world.start();
    assert_eq!(world.ask(&["router", "reload"]).err, "", "nothing to say about a good file");
    world.scratch.file("router.toml", &FILE.replace("default = true\n", ""));
    let checked = perhop(&["router", "check", &world.file]);
    let warning = "is the default of port \"wan\" only because no class says default = true";
    assert!(checked.code == Some(0) && checked.out.contains(warning), "{}", checked.out);
    let reloaded = world.ask(&["router", "reload"]);
    assert!(reloaded.code == Some(0) && reloaded.err.contains(warning), "{}", reloaded.err);
    assert!(reloaded.err.contains("router.toml:17:8: warning:"), "{}", reloaded.err);
    // What only a start can change is told, too.
    std::fs::write(&world.file, FILE.replace("/dev/full", "/dev/null")).unwrap();
    let reloaded = world.ask(&["router", "reload"]);
    assert!(
        reloaded.code == Some(0) && reloaded.err.contains("router.toml:3:8: warning:"),
        "{}",
        reloaded.err
    );
}

/// A fence of owner `file` above the reload's would shut every later reload out.
#[test]
fn nobody_locks_the_file_out() {
    let Some(world) = World::new("fence") else { return };
    let _running = world.start();
    let as_file = |id: u8, fence: u64| {
        let ops = json!([{ "op": "patch", "kind": "class", "name": "rest", "fields": { "weight": 7 } }]);
        json!({ "txn_id": format!("{id:032x}"), "owner": "file", "fence": fence, "mode": "commit", "ops": ops })
    };
    let raised = world.apply_whole(&as_file(1, 1));
    let error = &raised.json()[0]["errors"][0];
    assert_eq!((raised.code, error["code"].as_str()), (Some(1), Some("out_of_range")), "{}", raised.out);
    assert_eq!((error["path"].as_str(), error["allowed"].as_str()), (Some("fence"), Some("0")));
    assert_eq!(world.ask(&["router", "reload"]).code, Some(0));
    let corrected = world.apply_whole(&as_file(2, 0));
    assert_eq!(corrected.json()[0]["ops"][0]["outcome"], "updated", "{}", corrected.out);
    let before = corrected.json()[0]["revision"].as_u64().unwrap();
    let reloaded = world.ask(&["router", "reload", "--json"]);
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.err);
    assert!(
        reloaded.json()[0]["revision"].as_u64().unwrap() > before,
        "the file says otherwise and holds again"
    );
}

#[test]
fn after_a_crash_the_interfaces_are_put_back() {
    let Some(world) = World::new("crash") else { return };
    let is_off = || Netlink::open_in(&world.namespace).unwrap().offloads("lan").unwrap().is_off();
    let mut running = world.start();
    assert!(is_off());
    running.signal(Signal::KILL);
    assert_eq!(running.end(), None);
    assert!(is_off(), "nobody was there to put it back");
    // What kept the kernel from forwarding is gone with the process: another may have its name and its interfaces.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while let Err(error) = perhop_netlink::nft::ForwardGuard::open_in(&world.namespace, &world.name) {
        assert!(error.is_taken() && std::time::Instant::now() < end, "{error}");
    }
    let restore = || perhop(&["router", "restore", "--name", &world.name, "--json"]);
    let first = world.namespace.run(restore).unwrap();
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert_eq!(first.json()[0]["devices"], json!(["lan", "wan"]));
    assert!(!is_off());
    assert_eq!(world.runtime_files(), [""; 0], "what the crash left is gone");
    let second = restore();
    assert_eq!((second.code, &second.json()[0]["devices"]), (Some(0), &json!([])));
}

/// Says at its end that all is done.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A router that is killed leaves forwarding to the kernel, which has all it needs for it. Prints how many datagrams of one a
/// millisecond a start, the kill and a stop cost.
#[test]
fn after_a_kill_the_kernel_forwards_what_the_router_did() {
    let Some(world) = World::new("kill") else { return };
    let [from, to] = world.hosts().map(|host| host.bind(9));
    to.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let (sent, done) = (AtomicU32::new(0), AtomicBool::new(false));
    // What arrives, each at most once: numbers.
    let seen = Mutex::new(std::collections::BTreeSet::new());
    std::thread::scope(|scope| {
        // Whatever fails: the threads end.
        let _ends = Ends(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                let _ = from.send_to(&number.to_be_bytes(), "10.1.0.2:9");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        scope.spawn(|| {
            let mut number = [0; 4];
            while !done.load(Ordering::Relaxed) {
                if to.recv(&mut number).is_ok() {
                    assert!(seen.lock().unwrap().insert(u32::from_be_bytes(number)), "twice: {number:?}");
                }
            }
        });
        let end = Instant::now() + PATIENCE;
        let passes = |what: &str| {
            // Whatever was sent before may be lost; from here on something arrives again.
            let since = sent.load(Ordering::Relaxed);
            while !seen.lock().unwrap().range(since..).count().gt(&100) {
                assert!(Instant::now() < end, "nothing arrives: {what}");
                std::thread::sleep(Duration::from_millis(5));
            }
            let seen = seen.lock().unwrap();
            let last = seen.last().copied().unwrap_or_default();
            println!("{what}: {} of {last} datagrams are lost in all", last as usize + 1 - seen.len());
        };
        passes("the kernel alone");
        let mut running = world.start();
        passes("after a start");
        running.signal(Signal::KILL);
        assert_eq!(running.end(), None);
        passes("after a kill");
        let mut running = world.start();
        passes("after another start");
        running.signal(Signal::TERM);
        assert_eq!(running.end(), Some(0));
        passes("after a stop");
    });
}

/// Of every thread, as the kernel tells it.
#[test]
fn a_running_router_has_few_rights_and_no_way_to_more() {
    let Some(world) = World::new("rights") else { return };
    let mut running = world.start_with(&["--pcap", world.scratch.0.join("captures").to_str().unwrap()]);
    // CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_BPF of linux/capability.h.
    let may_have: u64 = [12, 13, 14, 39].map(|n| 1 << n).into_iter().sum();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", running.0.id())).unwrap();
    let mut threads = 0;
    for task in tasks {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let value = |key: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(key)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            assert_eq!(value(set) & !may_have, 0, "{set} of {status}");
        }
        assert_eq!(value("NoNewPrivs:"), 1, "{status}");
        threads += 1;
    }
    assert!(threads >= 4, "packet thread, control thread, capture, log");
    // They are enough to read the file again and to put everything back.
    assert_eq!(world.ask(&["router", "reload"]).code, Some(0));
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(0));
    assert_eq!((world.forwarding(None).as_str(), world.runtime_files()), ("1", vec![]));
}

/// Nobody asks how the killed ones ended, as in a container without an init process; and somebody else has locked the
/// directory, which everybody can who reads it.
#[test]
fn after_a_crash_it_starts_again_at_once() {
    let Some(world) = World::new("zombie") else { return };
    let running = world.start();
    let directory = std::fs::File::open("/run/perhop").unwrap();
    directory.lock_shared().unwrap();
    running.signal(Signal::KILL);
    let again = world.start();
    again.signal(Signal::KILL);
    let restored = world.namespace.run(|| perhop(&["router", "restore", "--name", &world.name])).unwrap();
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    assert_eq!((world.forwarding(None).as_str(), world.runtime_files()), ("1", vec![]));
}

#[test]
fn a_watch_ends_with_its_reader() {
    let Some(world) = World::new("watch") else { return };
    let mut running = world.start();
    let mut child = world
        .command(&["show", "classes", "--watch=1", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
    let page: Value = serde_json::from_str(&line).unwrap();
    assert!(page["epoch"].is_u64() && page["revision"].is_u64() && page["at_ns"].is_u64());
    drop(reader);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap().as_str()), (Some(0), ""));
    running.signal(Signal::INT);
    assert_eq!(running.end(), Some(0));
}

#[test]
fn a_watch_has_the_time_of_day_above_its_rows() {
    let Some(world) = World::new("watch-time") else { return };
    let running = world.start();
    let mut child = command(&["show", "classes", "--watch", "--router", &world.name])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut head = String::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut head).unwrap();
    drop(reader);
    child.wait().unwrap();
    let time = head.trim_end().rsplit(", ").next().unwrap();
    let parts: Vec<u32> =
        time.strip_suffix(" UTC").unwrap().split(':').map(|part| part.parse().unwrap()).collect();
    assert!(head.contains("classes, revision ") && parts.len() == 3 && parts[0] < 24, "{head}");
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() % 86_400;
    let said = u64::from(parts[0] * 3_600 + parts[1] * 60 + parts[2]);
    assert!((since + 86_400 - said) % 86_400 < 600, "{head} is not now, {since} s of the day");
    drop(running);
}

#[test]
fn what_the_machine_lacks_is_named() {
    let Some(world) = World::new("lacks") else { return };
    let text = FILE.replace("name = \"lan\"", "name = \"lan\"\ndevice = \"nowhere0\"");
    let file = world.scratch.file("lacks.toml", &text);
    let run = || perhop(&["router", "run", &file, "--name", &world.name]);
    let ended = world.namespace.run(run).unwrap();
    assert_eq!(ended.code, Some(3));
    assert!(ended.err.contains("there is no interface \"nowhere0\""), "{}", ended.err);
    assert_eq!(world.runtime_files(), [""; 0], "a start that fails leaves nothing behind");
    let text = text.replace("name = \"wan\"", "name = \"wan\"\ndevice = \"nowhere1\"");
    let file = world.scratch.file("lacks.toml", &text);
    let both = world.namespace.run(|| perhop(&["router", "run", &file, "--name", &world.name])).unwrap();
    assert!(both.err.contains("\"nowhere0\" (port \"lan\"), \"nowhere1\" (port \"wan\")"), "{}", both.err);
    let ended = perhop(&["router", "run", &file, "--name", &world.name, "--set", "port.wam.rate=1 Mbit/s"]);
    assert!(ended.code == Some(2) && ended.err.contains("the file has no port \"wam\""), "{}", ended.err);
}

/// On the machine it is for, a check says what a start would.
#[test]
fn a_check_where_the_interfaces_are_says_what_keeps_a_router_from_starting_there() {
    let name = "a_check_where_the_interfaces_are_says_what_keeps_a_router_from_starting_there";
    let Some(world) = World::new(name) else { return };
    let check = |more: &[&str]| {
        let words = [&["router", "check", &world.file][..], more].concat();
        world.namespace.run(|| perhop(&words)).unwrap()
    };
    let good = check(&[]);
    assert!(good.out.contains("good") && !good.err.contains("would not start"), "{}", good.err);
    perhop_netlink::laboratory::drop_forwarded(&world.namespace).unwrap();
    let noted = check(&["--deny-warnings"]);
    assert_eq!(noted.code, Some(0), "the file is good: {}", noted.err);
    let line = noted.err.lines().find(|line| line.contains("would not start here")).unwrap_or_default();
    assert!(line.contains("inet firewall forward") && line.contains("bypass_netfilter"), "{}", noted.err);
    let json = check(&["--json"]).json();
    assert!(json[0]["refused_here"][0].as_str().unwrap().contains("inet firewall forward"), "{json:?}");
    assert!(!json[0]["notes_here"].to_string().contains("firewall"), "said once: {json:?}");
}
