//! The rate control of a host between real TCP stacks, in namespaces of their own.

use super::{Ended, Scratch, command, perhop, skip};
use perhop_engine::{Emulator, EmulatorConfig};
use perhop_netlink::{Namespace, Netlink, is_privileged_for_net, laboratory};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A busy machine disturbs a rate; of so many two-second windows one must fit.
const WINDOWS: usize = 8;
/// Until the latency is known and the window has grown to it.
const SETTLE: Duration = Duration::from_secs(2);

/// Two hosts, and what is between them.
struct World {
    here: Namespace,
    there: Namespace,
    /// Delays; none when the hosts have a cable.
    _wire: Option<Emulator>,
}

const V4: [&str; 2] = ["10.40.0.1", "10.40.0.2"];
const V6: [&str; 2] = ["fd40::1", "fd40::2"];

fn tools() -> Option<[String; 2]> {
    let places = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let find = |names: [&str; 2]| {
        let places = || places.split(':').map(PathBuf::from);
        names.into_iter().flat_map(|name| places().map(move |p| p.join(name))).find(|path| path.is_file())
    };
    let v4 = find(["iptables-legacy", "iptables"])?;
    let v6 = find(["ip6tables-legacy", "ip6tables"])?;
    Some([v4, v6].map(|path| path.to_str().unwrap().to_owned()))
}

impl World {
    /// With a delay of 20 ms each way, or with a cable and everything that cards do for a host.
    fn new(test: &str, delayed: bool) -> Option<Self> {
        if !is_privileged_for_net() {
            skip(test, "netns", "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`");
            return None;
        }
        let Some(tools) = tools() else {
            skip(test, "nfqueue", "needs iptables and ip6tables");
            return None;
        };
        let (here, there) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        let rule = [
            "-t",
            "mangle",
            "-A",
            "OUTPUT",
            "-p",
            "tcp",
            "-j",
            "NFQUEUE",
            "--queue-num",
            "1",
            "--queue-bypass",
        ];
        // A namespace where it does no harm.
        let tried = there.run(|| Command::new(&tools[0]).args(rule).output().unwrap()).unwrap();
        if !tried.status.success() {
            skip(test, "nfqueue", &format!("no NFQUEUE: {}", String::from_utf8_lossy(&tried.stderr).trim()));
            return None;
        }
        let net = Netlink::open_in(&here).unwrap();
        let wire = if delayed {
            let middle = Namespace::create().unwrap();
            let between = Netlink::open_in(&middle).unwrap();
            for (host, device) in [(&here, "a"), (&there, "b")] {
                between.create_veth(device, "eth0", Some(host)).unwrap();
                between.set_up(device).unwrap();
            }
            for host in [&here, &there] {
                Netlink::open_in(host).unwrap().disable_offloads("eth0").unwrap();
            }
            let graph = "FromPort(a) -> up :: Link(100 Mbit/s, 20 ms, limit = 2000 packets) -> ToPort(b);\n\
                         FromPort(b) -> down :: Link(100 Mbit/s, 20 ms, limit = 2000 packets) -> ToPort(a);";
            let config = EmulatorConfig::new("wire", Some(middle), graph).port("a", "a").port("b", "b");
            Self::address(&here, 0);
            Self::address(&there, 1);
            Some(Emulator::start(config).unwrap())
        } else {
            net.create_veth("eth0", "eth0", Some(&there)).unwrap();
            Self::address(&here, 0);
            Self::address(&there, 1);
            None
        };
        Some(Self { here, there, _wire: wire })
    }

    fn address(host: &Namespace, which: usize) {
        let net = Netlink::open_in(host).unwrap();
        laboratory::disable_duplicate_detection(host, "eth0").unwrap();
        net.add_address("eth0", format!("{}/24", V4[which]).parse().unwrap()).unwrap();
        net.set_up("eth0").unwrap();
        net.set_up("lo").unwrap();
        net.add_address_now("eth0", format!("{}/64", V6[which]).parse().unwrap()).unwrap();
    }

    /// A connection of `here` to a listener of `there`.
    fn connect(&self, v6: bool) -> (TcpStream, TcpStream) {
        let address = if v6 { format!("[{}]:0", V6[1]) } else { format!("{}:0", V4[1]) };
        let listener = self.there.run(|| TcpListener::bind(address)).unwrap().unwrap();
        let to = listener.local_addr().unwrap();
        let connecting = self.here.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let streams = (connecting.unwrap(), accepted);
        for stream in [&streams.0, &streams.1] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        streams
    }

    /// Runs the rate control in `here` until it says that packets come.
    fn start(&self, args: &[&str]) -> Running {
        let scratch = Scratch::new(&format!("abr-{:?}", std::thread::current().id()));
        let args = [&["abr", "--host", "--json"], args].concat();
        let open = |name: &str| std::fs::File::create(scratch.0.join(name)).unwrap();
        let (out, err) = (open("out"), open("err"));
        let child = self.here.run(|| command(&args).stdout(out).stderr(err).spawn().unwrap()).unwrap();
        let mut running = Running { child, scratch };
        let end = Instant::now() + PATIENCE;
        while !running.text("err").contains("send TCP to queue") {
            assert!(running.child.try_wait().unwrap().is_none(), "it ended: {}", running.text("err"));
            assert!(Instant::now() < end, "it does not start: {}", running.text("err"));
            std::thread::sleep(Duration::from_millis(10));
        }
        running
    }

    /// Rules that are in force in `here`, of both versions.
    fn rules(&self) -> usize {
        let count = |tool: String| {
            let listed = self.here.run(|| Command::new(&tool).args(["-t", "mangle", "-S"]).output().unwrap());
            String::from_utf8(listed.unwrap().stdout).unwrap().matches("-j NFQUEUE").count()
        };
        tools().unwrap().map(count).iter().sum()
    }

    /// Segments with a wrong checksum that either host has received.
    fn damaged(&self) -> u64 {
        [&self.here, &self.there].map(|host| host.run(damaged).unwrap()).iter().sum()
    }
}

/// `InCsumErrors` of TCP in this thread's namespace; the only place where the kernel tells.
fn damaged() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs.find(|(name, _)| *name == "InCsumErrors").unwrap().1.parse().unwrap()
}

/// The program; killed when a test fails.
struct Running {
    child: Child,
    scratch: Scratch,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.scratch.0.join(name)).unwrap()
    }

    fn end(&mut self, signal: Signal) -> Ended {
        kill_process(Pid::from_raw(self.child.id().try_into().unwrap()).unwrap(), signal).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Ended { code: status.code(), out: self.text("out"), err: self.text("err") };
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A row of the last page.
fn row<'a>(page: &'a Value, kind: &str) -> &'a Value {
    let rows = page["rows"].as_array().unwrap();
    rows.iter().find(|row| row["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {page}"))
}

/// What is sent: no two places are alike for long.
fn octet(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Sends so many bytes, or until it is told to stop, and says how many it were.
fn send(mut to: TcpStream, most: u64, stop: Arc<AtomicBool>) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut sent = 0;
        while sent < most && !stop.load(Ordering::Relaxed) {
            let part: Vec<u8> = (sent..most.min(sent + 65_536)).map(octet).collect();
            to.write_all(&part).unwrap();
            sent += part.len() as u64;
        }
        to.shutdown(Shutdown::Write).unwrap();
        sent
    })
}

/// Receives to the end, compares, and counts on the way.
fn receive(mut from: TcpStream, received: Arc<AtomicU64>) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let (mut buffer, mut at) = (vec![0; 65_536], 0);
        loop {
            let len = from.read(&mut buffer).unwrap();
            if len == 0 {
                return at;
            }
            assert!(
                buffer[..len].iter().zip(at..).all(|(is, at)| *is == octet(at)),
                "wrong bytes behind {at}"
            );
            at += len as u64;
            received.store(at, Ordering::Relaxed);
        }
    })
}

/// Payload a second over two seconds, bit/s.
fn goodput(received: &AtomicU64) -> f64 {
    let (begin, before) = (Instant::now(), received.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_secs(2));
    (received.load(Ordering::Relaxed) - before) as f64 * 8.0 / begin.elapsed().as_secs_f64()
}

#[test]
fn a_sender_keeps_its_rate_and_goes_on_when_the_program_is_killed() {
    let Some(world) = World::new("a_sender_keeps_its_rate_and_goes_on_when_the_program_is_killed", true)
    else {
        return;
    };
    let mut running = world.start(&["--rate", "2 Mbit/s", "--only", "sent"]);
    assert_eq!(world.rules(), 4);
    let (near, far) = world.connect(false);
    let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let sending = send(near, u64::MAX, Arc::clone(&stop));
    let receiving = receive(far, Arc::clone(&received));
    // Segments of 1,500 bytes carry 1,448, with time-stamps.
    let expected = 2e6 * 1_448.0 / 1_500.0;
    std::thread::sleep(SETTLE);
    let rates: Vec<f64> = (0..WINDOWS)
        .map(|_| goodput(&received))
        .scan(false, |found, rate| {
            (!std::mem::replace(found, (rate / expected - 1.0).abs() < 0.15)).then_some(rate)
        })
        .collect();
    let last = rates.last().unwrap();
    assert!((last / expected - 1.0).abs() < 0.15, "{rates:?} of {expected}");
    running.end(Signal::KILL);
    assert_eq!(world.rules(), 4, "nobody took them out");
    let before = received.load(Ordering::Relaxed);
    let end = Instant::now() + PATIENCE;
    while received.load(Ordering::Relaxed) < before + 4_000_000 {
        assert!(
            Instant::now() < end,
            "without the program nothing holds the flow: {}",
            received.load(Ordering::Relaxed)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(receiving.join().unwrap(), sending.join().unwrap());
    assert_eq!(world.damaged(), 0);
    // The next one takes over what was left, and leaves nothing.
    let mut next = world.start(&["--rate", "2 Mbit/s"]);
    assert_eq!(world.rules(), 4);
    let ended = next.end(Signal::TERM);
    assert_eq!((ended.code, world.rules()), (Some(0), 0), "{}", ended.err);
    assert_eq!(ended.json().last().unwrap()["rows"][0]["kind"], "host");
}

/// A cable's round trip is shorter than the way to the program and back.
#[test]
fn a_sender_keeps_its_rate_over_a_cable() {
    let Some(world) = World::new("a_sender_keeps_its_rate_over_a_cable", false) else { return };
    // Without optimisation there is no time for more.
    let rates: &[u32] = if cfg!(debug_assertions) { &[100] } else { &[100, 300, 900] };
    for rate in rates.iter().copied() {
        let mut running = world.start(&["--rate", &format!("{rate} Mbit/s"), "--only", "sent"]);
        let (near, far) = world.connect(false);
        let (stop, received) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let sending = send(near, u64::MAX, Arc::clone(&stop));
        let receiving = receive(far, Arc::clone(&received));
        let expected = f64::from(rate) * 1e6 * 1_448.0 / 1_500.0;
        let mut rates = Vec::new();
        let fits = |rate: &f64| (0.9..1.03).contains(&(rate / expected));
        while rates.len() < WINDOWS && !rates.last().is_some_and(fits) {
            rates.push(goodput(&received));
        }
        println!(
            "{rate} Mbit/s: {:.1} of {:.1} Mbit/s of payload",
            rates[rates.len() - 1] / 1e6,
            expected / 1e6
        );
        assert!(rates.iter().all(|rate| *rate < 1.03 * expected), "{rates:?} of {expected}");
        assert!(fits(rates.last().unwrap()), "{rates:?} of {expected}");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(receiving.join().unwrap(), sending.join().unwrap());
        assert_eq!((running.end(Signal::INT).code, world.damaged()), (Some(0), 0));
    }
}

#[test]
fn a_receiver_holds_its_sender_at_a_rate_far_below_the_links() {
    let Some(world) = World::new("a_receiver_holds_its_sender_at_a_rate_far_below_the_links", true) else {
        return;
    };
    let mut running = world.start(&["--link", "3 Mbit/s", "--only", "received"]);
    let (stop, pairs) = (Arc::new(AtomicBool::new(false)), [false, true].map(|v6| world.connect(v6)));
    let mut transfers = Vec::new();
    for (near, far) in pairs {
        let received = Arc::new(AtomicU64::new(0));
        transfers.push((
            send(far, u64::MAX, Arc::clone(&stop)),
            receive(near, Arc::clone(&received)),
            received,
        ));
    }
    // Half for each, and a little more for headers of IPv6.
    let fits = |rates: &[f64]| {
        rates
            .iter()
            .zip([1_448.0 / 1_500.0, 1_428.0 / 1_500.0])
            .all(|(rate, part)| (rate / (1.5e6 * part) - 1.0).abs() < 0.15)
    };
    let mut seen = Vec::new();
    std::thread::sleep(SETTLE);
    for _ in 0..WINDOWS {
        let counts = || transfers.iter().map(|(_, _, received)| received.load(Ordering::Relaxed)).collect();
        let (begin, before): (Instant, Vec<u64>) = (Instant::now(), counts());
        std::thread::sleep(Duration::from_secs(2));
        let (took, after): (f64, Vec<u64>) = (begin.elapsed().as_secs_f64(), counts());
        seen.push(after.iter().zip(&before).map(|(a, b)| (a - b) as f64 * 8.0 / took).collect::<Vec<f64>>());
        if fits(seen.last().unwrap()) {
            break;
        }
    }
    assert!(fits(seen.last().unwrap()), "{seen:?}");
    stop.store(true, Ordering::Relaxed);
    // What is in the senders' buffers would take long.
    let ended = running.end(Signal::INT);
    for (sending, receiving, _) in transfers {
        assert_eq!(receiving.join().unwrap(), sending.join().unwrap());
    }
    assert_eq!((ended.code, world.damaged()), (Some(0), 0), "{}", ended.err);
    let pages = ended.json();
    assert!(pages.len() >= 2, "one every second");
    let flows: Vec<&Value> =
        pages.iter().flat_map(|p| p["rows"].as_array().unwrap()).filter(|r| r["kind"] == "abr").collect();
    let held =
        flows.iter().any(|f| f["counters"]["rate_bps"] == 1_500_000 && f["facts"]["limited_by"] == "abr");
    assert!(held && flows.iter().any(|f| f["name"].as_str().unwrap().contains(V6[1])), "{flows:?}");
}

/// A cable between the hosts: segments of up to 64 KiB in one, whose checksums nobody has completed.
#[test]
fn large_segments_with_unfinished_checksums_arrive_whole_both_ways() {
    let Some(world) = World::new("large_segments_with_unfinished_checksums_arrive_whole_both_ways", false)
    else {
        return;
    };
    let mut running = world.start(&["--rate", "500 Mbit/s", "--floor", "clamp"]);
    for v6 in [false, true] {
        let (near, far) = world.connect(v6);
        let never = Arc::new(AtomicBool::new(false));
        let most = 6_000_000;
        let both = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
        let ends = both.map(|(from, to)| (send(from, most, Arc::clone(&never)), receive(to, Arc::default())));
        for (sending, receiving) in ends {
            assert_eq!((sending.join().unwrap(), receiving.join().unwrap()), (most, most));
        }
    }
    let ended = running.end(Signal::INT);
    assert_eq!((ended.code, world.damaged()), (Some(0), 0), "{}", ended.err);
    let pages = ended.json();
    let counters = &row(pages.last().unwrap(), "host")["counters"];
    let count = |name: &str| counters[name].as_u64().unwrap();
    assert!(count("large") > 0 && count("completed") > 0 && count("rewritten") > 0, "{counters}");
}

#[test]
fn what_cannot_start_says_why() {
    let ended = perhop(&["abr", "--host"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("--rate") && ended.err.contains("--link"), "{}", ended.err);
    assert_eq!(perhop(&["abr", "--rate", "1 Mbit/s"]).code, Some(2), "a router has it in its file");
    let scratch = Scratch::new("abr-file");
    let file =
        scratch.file("host.toml", "[host]\nrate = \"3 Mbit\"\n[[abr]]\nmatch = { class = \"recieved\" }\n");
    let ended = perhop(&["abr", "--host", &file]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.err.contains("host.toml:2:") && ended.err.contains("did you mean \"received\"?"),
        "{}",
        ended.err
    );
    let ended = perhop(&["abr", "--host", "--rate", "1 bit/s"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
}

/// A second one must not take the queue, nor the rules, of the first.
#[test]
fn a_queue_has_one_program() {
    let Some(world) = World::new("a_queue_has_one_program", false) else { return };
    // Nobody outside the namespace has it.
    Netlink::open_in(&world.here).unwrap().create_veth("here0", "here1", None).unwrap();
    let _first = world.start(&["--rate", "1 Mbit/s", "--queue", "9", "--interface", "here0"]);
    let second = || command(&["abr", "--host", "--rate", "1 Mbit/s", "--queue", "9"]).output().unwrap();
    let second = world.here.run(second).unwrap();
    let err = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(3), "{err}");
    assert!(err.contains("queue 9 may not be opened"), "{err}");
    assert_eq!(world.rules(), 4);
}
