//! A class that is measured asks its domain: what it gets is booked, and others see it.

use super::domain::{Domain, reserve, socket, until};
use super::http::Http;
use rustix::process::Signal;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where west's router and agent stand among what a domain runs.
const ROUTER: usize = 1;
const AGENT: usize = 4;

const FILE: &str = r#"
[broker]
kind = "controller"
lifetime = "12 s"

[[class]]
name = "wan/voice"
least = "64 kbit/s"
most = "9 Mbit/s"
interval = "200 ms"
intervals = 5
metering = "offered"
law = "threshold"
increase = 1.5
decrease = 0.7
lower = "40 %"
upper = "90 %"
longest_retry = "1 s"
"#;

/// Sends packets with the code point of calls at a rate that changes, until the test ends.
struct Sender {
    kbit: Arc<AtomicU64>,
}

impl Sender {
    fn start(domain: &Domain) -> Self {
        let socket = domain.hosts[0].run(|| UdpSocket::bind("10.1.0.2:0")).unwrap().unwrap();
        // EF.
        rustix::net::sockopt::set_ip_tos(&socket, 46 << 2).unwrap();
        let kbit = Arc::new(AtomicU64::new(0));
        let rate = Arc::downgrade(&kbit);
        std::thread::spawn(move || {
            // Each packet of 1,250 octets at IP is 10 kbit: what is sent in a second at the rate of 10 kbit/s.
            let (payload, mut last, mut owed) = ([0; 1_222], Instant::now(), 0.0);
            while let Some(kbit) = rate.upgrade().map(|kbit| kbit.load(Ordering::Relaxed)) {
                owed += last.elapsed().as_secs_f64() * kbit as f64 / 10.0;
                last = Instant::now();
                for _ in 0..owed as u64 {
                    let _ = socket.send_to(&payload, "10.2.0.2:5004");
                }
                owed = owed.fract();
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { kbit }
    }

    fn sends(&self, kbit: u64) {
        self.kbit.store(kbit, Ordering::Relaxed);
    }
}

impl Domain {
    /// What is leased for the class, bit/s.
    fn leased(&self) -> u64 {
        let page = Http::connect(&socket(&self.name)).read("/v1/reservations");
        let rows = page["reservations"].as_array().unwrap();
        let leases = rows.iter().filter(|row| row["kind"] == "lease");
        leases.map(|row| row["bps"].as_u64().unwrap()).sum()
    }

    /// What class voice has reserved of a link.
    fn reserved(&self, node: &str, port: &str) -> u64 {
        let page = Http::connect(&socket(&self.name)).read("/v1/links");
        let link = page["links"]
            .as_array()
            .unwrap()
            .iter()
            .find(|link| link["node"] == node && link["port"] == port);
        link.unwrap()["classes"]["voice"]["reserved_bps"].as_u64().unwrap()
    }

    /// What the router gives the class, bit/s.
    fn given(&self) -> u64 {
        let (text, _) = self.has("west", "wan/voice");
        text.parse::<perhop_units::Rate>().map_or(0, |rate| rate.0)
    }
}

#[test]
fn a_measured_class_leases_of_its_domain_what_it_needs_and_others_see_it() {
    let Some(mut domain) = Domain::new("measured") else { return };
    let name = domain.name.clone();
    // Hosts mark as they should.
    let file = domain.scratch.0.join("west.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let trusting = text.replace("device = \"lan0\"\n", "device = \"lan0\"\ntrust_dscp = true\n");
    assert_ne!(trusting, text);
    std::fs::write(&file, trusting).unwrap();
    domain.running[ROUTER].signal(Signal::TERM);
    domain.running[ROUTER].end();
    domain.running[ROUTER] = domain.start_router(0);
    let file = domain.scratch.0.join("west-agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + FILE).unwrap();
    domain.running[AGENT].signal(Signal::TERM);
    domain.running[AGENT].end();
    domain.running[AGENT] = domain.start_agent("west");
    until("what it begins with is leased", || domain.leased() == 64_000);

    // It grows with what is sent, of the link that leaves by the port and of no other.
    let sender = Sender::start(&domain);
    sender.sends(1_000);
    until("it has what is sent", || (1_100_000..=2_800_000).contains(&domain.leased()));
    let grows = |domain: &Domain| {
        let (leased, given) = (domain.leased(), domain.given());
        leased == given && domain.reserved("west", "wan") == leased
    };
    until("the router has as much", || grows(&domain));
    assert_eq!(domain.reserved("core", "east"), 0);
    let call = |words: &[&str], rate: &str| {
        let path = ["--from", "west", "--to", "east", "--class", "voice", "--rate", rate];
        reserve(&name, &[words, &path].concat())
    };
    let refused = call(&["create"], "3 Mbit/s");
    let why = "no_capacity: link west/wan, class voice, 3 Mbit/s asked";
    assert!(refused.code == Some(1) && refused.err.contains(why), "{}{}", refused.out, refused.err);

    // What is sent has the traffic of reservations in it: it is not booked twice.
    assert_eq!(call(&["create"], "200 kbit/s").code, Some(0));
    until("the lease has become less", || domain.leased() + 200_000 == domain.given());
    // Nothing more is to be had while others have it.
    until("others have all that is free", || {
        let free = 3_000_000 - domain.reserved("west", "wan");
        call(&["create"], &format!("{free} bit/s")).code == Some(0)
    });
    sender.sends(8_000);
    let log = || std::fs::read_to_string(domain.scratch.0.join("west-agent.log")).unwrap();
    until("its refusal is told", || {
        assert!(domain.reserved("west", "wan") <= 3_000_000);
        log().contains("of the domain: no_capacity: link west/wan")
    });
    assert!(domain.given() <= 3_000_000, "{}", domain.given());

    // What is not needed any more is given back, and what nobody renews ends.
    let listed = reserve(&name, &["list", "--json"]).json();
    let flows = listed.iter().filter(|row| row["kind"] == "flow").map(|row| row["id"].to_string());
    let flows: Vec<String> = flows.collect();
    let words: Vec<&str> = std::iter::once("release").chain(flows.iter().map(String::as_str)).collect();
    assert_eq!(reserve(&name, &words).code, Some(0));
    until("it grows into what is free", || domain.leased() == 3_000_000);
    sender.sends(0);
    until("it has its least again", || domain.leased() == 64_000 && domain.given() == 64_000);
    domain.running[AGENT].kill();
    until("its lease has ended", || domain.leased() == 0);
    domain.running[AGENT] = domain.start_agent("west");
    until("another instance leases what the router has", || domain.leased() == 64_000);
}
