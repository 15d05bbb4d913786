//! A domain: controller, agents and routers as one, in namespaces.

use super::http::Http;
use super::router::Running;
use super::{Ended, Scratch, command, perhop, root, skip};
use perhop_netlink::{Namespace, Netlink, is_privileged_for_net};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const NODES: [&str; 3] = ["west", "core", "east"];

/// `examples/domain` with names of this process, and a host behind each edge.
pub(super) struct Domain {
    pub(super) scratch: Scratch,
    pub(super) name: String,
    namespaces: Vec<Namespace>,
    pub(super) hosts: [Namespace; 2],
    /// Controller, routers and agents, in the order of the nodes.
    pub(super) running: Vec<Running>,
}

pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A controller in a folder, as `perhop controller run` starts it.
pub(super) fn controller(scratch: &Scratch, name: &str, more: &[&str]) -> Running {
    let folder = scratch.0.to_str().unwrap();
    let log = std::fs::File::create(scratch.0.join("controller.log")).unwrap();
    let args = [&["controller", "run", folder, "--name", name], more].concat();
    let running = Running::of(command(&args).stdout(Stdio::null()).stderr(log));
    until("the controller answers", || reserve(name, &["list"]).code == Some(0));
    running
}

pub(super) fn reserve(controller: &str, words: &[&str]) -> Ended {
    perhop(&[&["reserve"], words, &["--controller", controller]].concat())
}

pub(super) fn socket(name: &str) -> PathBuf {
    PathBuf::from("/run/perhop").join(format!("{name}.controller"))
}

impl Domain {
    pub(super) fn new(test: &str) -> Option<Self> {
        Self::with(test, |_, agent| agent)
    }

    /// With the files of agents changed: by node, and what the example has.
    pub(super) fn with(test: &str, change: impl Fn(&str, String) -> String) -> Option<Self> {
        if !is_privileged_for_net() {
            skip(test, "netns", "needs CAP_NET_ADMIN and CAP_SYS_ADMIN: run as root or under `unshare -Urn`");
            return None;
        }
        let scratch = Scratch::new(test);
        let name = format!("cli-domain-{}-{test}", std::process::id());
        let namespaces: Vec<Namespace> = NODES.iter().map(|_| Namespace::create().unwrap()).collect();
        let hosts = [Namespace::create().unwrap(), Namespace::create().unwrap()];
        let [west, core, east] = &namespaces[..] else { panic!("three nodes") };
        wire(&hosts[0], "eth0", "10.1.0.2/24", west, "lan0", "10.1.0.1/24");
        wire(west, "wan0", "10.9.1.1/30", core, "west0", "10.9.1.2/30");
        wire(core, "east0", "10.9.2.1/30", east, "wan0", "10.9.2.2/30");
        wire(east, "lan0", "10.2.0.1/24", &hosts[1], "eth0", "10.2.0.2/24");
        for (namespace, dest, gateway) in [
            (&hosts[0], "0.0.0.0/0", "10.1.0.1"),
            (&hosts[1], "0.0.0.0/0", "10.2.0.1"),
            (west, "0.0.0.0/0", "10.9.1.2"),
            (east, "0.0.0.0/0", "10.9.2.1"),
            (core, "10.1.0.0/24", "10.9.1.1"),
            (core, "10.2.0.0/24", "10.9.2.2"),
        ] {
            let net = Netlink::open_in(namespace).unwrap();
            net.add_route(dest.parse().unwrap(), Some(gateway.parse().unwrap()), None).unwrap();
        }
        let text = |file: &str| std::fs::read_to_string(root().join("examples/domain").join(file)).unwrap();
        scratch.file("domain.toml", &text("domain.toml"));
        for node in NODES {
            scratch.file(&format!("{node}.toml"), &text(&format!("{node}.toml")));
            let agent = text(&format!("{node}-agent.toml")).replace("\"example\"", &format!("\"{name}\""));
            scratch.file(&format!("{node}-agent.toml"), &change(node, agent));
        }
        let mut domain = Self { scratch, name, namespaces, hosts, running: Vec::new() };
        domain.running.push(controller(&domain.scratch, &domain.name, &[]));
        for number in 0..NODES.len() {
            let router = domain.start_router(number);
            domain.running.push(router);
        }
        for node in NODES {
            let agent = domain.start_agent(node);
            domain.running.push(agent);
        }
        Some(domain)
    }

    pub(super) fn router(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    pub(super) fn start_router(&self, number: usize) -> Running {
        let (node, name) = (NODES[number], self.router(NODES[number]));
        let file = self.scratch.0.join(format!("{node}.toml"));
        let args = ["router", "run", file.to_str().unwrap(), "--name", &name];
        let spawn = || Running::of(command(&args).stdout(Stdio::null()).stderr(Stdio::null()));
        let running = self.namespaces[number].run(spawn).unwrap();
        until("the router answers", || perhop(&["show", "ports", "--router", &name]).code == Some(0));
        running
    }

    pub(super) fn start_agent(&self, node: &str) -> Running {
        let file = self.scratch.0.join(format!("{node}-agent.toml"));
        let args = ["agent", "run", file.to_str().unwrap(), "--router", &self.router(node)];
        let log = self.scratch.0.join(format!("{node}-agent.log"));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        Running::of(command(&args).stdout(Stdio::null()).stderr(log))
    }

    /// Starts what stands at a number among those that run.
    pub(super) fn start(&self, number: usize) -> Running {
        match number {
            0 => controller(&self.scratch, &self.name, &[]),
            1..=3 => self.start_router(number - 1),
            _ => self.start_agent(NODES[number - 4]),
        }
    }

    /// Kills it first.
    pub(super) fn restart(&mut self, number: usize) {
        self.running[number].kill();
        self.running[number] = self.start(number);
    }

    /// What a router shows.
    pub(super) fn rows(&self, node: &str, what: &str) -> Vec<Value> {
        let pages = perhop(&["show", what, "--router", &self.router(node), "--json"]).json();
        // A router that was just killed has nothing to show.
        pages.first().and_then(|page| page["rows"].as_array().cloned()).unwrap_or_default()
    }

    /// What a class of a router has, and how many reservations have filters there.
    pub(super) fn has(&self, node: &str, class: &str) -> (String, usize) {
        let classes = self.rows(node, "classes");
        let Some(row) = classes.iter().find(|row| row["name"] == class) else { return Default::default() };
        let filters = self.rows(node, "filters");
        let own =
            filters.iter().filter(|row| row["name"].as_str().is_some_and(|n| n.starts_with("reserved/")));
        (row["facts"]["allocated"].as_str().unwrap_or("-").to_owned(), own.count())
    }

    /// Whether the class of calls has this on the way from west to east.
    pub(super) fn has_voice(&self, rate: &str) -> bool {
        [("west", "wan/voice"), ("core", "east/voice")]
            .iter()
            .all(|(node, class)| self.has(node, class).0 == rate)
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.running.clear();
        let standby = format!("{}-standby", self.name);
        for name in NODES.map(|node| self.router(node)).iter().chain([&self.name, &standby]) {
            for ending in ["sock", "lock", "state.json", "state.new", "controller", "controller.lock"] {
                let _ = std::fs::remove_file(format!("/run/perhop/{name}.{ending}"));
            }
        }
    }
}

fn wire(a: &Namespace, a_name: &str, a_address: &str, b: &Namespace, b_name: &str, b_address: &str) {
    let net = Netlink::open_in(a).unwrap();
    net.create_veth(a_name, b_name, Some(b)).unwrap();
    let far = Netlink::open_in(b).unwrap();
    for (net, name, address) in [(&net, a_name, a_address), (&far, b_name, b_address)] {
        net.add_address(name, address.parse().unwrap()).unwrap();
        net.set_up(name).unwrap();
    }
}

#[test]
fn a_reservation_is_in_all_routers_and_outlives_every_program() {
    let Some(mut domain) = Domain::new("whole") else { return };
    let name = domain.name.clone();
    let call = [
        "create",
        "--from",
        "west",
        "--to",
        "east",
        "--class",
        "voice",
        "--rate",
        "500 kbit/s",
        "--back",
        "400 kbit/s",
    ];
    let packets =
        ["--packets", "protocol=udp dst=10.2.0.2 dst-port=5004", "--key", "call-1", "--for", "10min"];
    let made = reserve(&name, &[&call[..], &packets].concat());
    assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    assert!(
        made.out.starts_with("reservation 1: 500 kbit/s of class voice from west to east"),
        "{}",
        made.out
    );
    let expected = [
        ("west", "wan/voice", "500 kbit/s", 1),
        ("core", "east/voice", "500 kbit/s", 0),
        ("core", "west/voice", "400 kbit/s", 0),
        ("east", "wan/voice", "400 kbit/s", 1),
    ];
    let in_force = |domain: &Domain| {
        expected
            .iter()
            .all(|(node, class, rate, filters)| domain.has(node, class) == ((*rate).to_owned(), *filters))
    };
    until("the routers have it", || in_force(&domain));

    // The same again, and more than there is.
    let again = reserve(&name, &[&call[..], &packets].concat());
    assert!(again.out.starts_with("reservation 1:"), "{}{}", again.out, again.err);
    let much = ["create", "--from", "west", "--to", "east", "--class", "voice", "--rate", "2600 kbit/s"];
    let refused = reserve(&name, &much);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), ""));
    let why = "no_capacity: link west/wan, class voice, 2.6 Mbit/s asked, 2.5 Mbit/s free";
    assert!(refused.err.contains(why), "{}", refused.err);
    let why = reserve(&name, &[&["why"], &much[1..]].concat());
    assert!(why.code == Some(1) && why.out.contains("2.5 Mbit/s free"), "{}", why.out);

    // What has a reservation arrives, whatever else there is.
    let bind = |host: &Namespace, address: &str| host.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    let (from, to) = (bind(&domain.hosts[0], "10.1.0.2:0"), bind(&domain.hosts[1], "10.2.0.2:5004"));
    to.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut arrived, mut buffer) = (0, [0; 2_000]);
    // The neighbours know each other first.
    until("a packet arrives", || {
        from.send_to(&[1; 160], "10.2.0.2:5004").unwrap();
        to.recv(&mut buffer).is_ok()
    });
    while to.recv(&mut buffer).is_ok() {}
    for _ in 0..100 {
        for _ in 0..25 {
            let _ = from.send_to(&[0; 1_200], "10.2.0.2:9");
        }
        from.send_to(&[1; 160], "10.2.0.2:5004").unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    while to.recv(&mut buffer).is_ok() {
        arrived += 1;
    }
    assert_eq!(arrived, 100, "24 Mbit/s beside it on 10 Mbit/s");

    // Each program is killed in turn: nothing is lost.
    for number in [0, 1, 2, 4] {
        domain.restart(number);
        until("it is there again", || in_force(&domain));
    }
    let listed = reserve(&name, &["list", "--json"]).json();
    assert_eq!(
        listed.iter().map(|row| row["bps"].as_u64()).collect::<Vec<_>>(),
        [Some(500_000), Some(400_000)]
    );

    // An agent reports, and a report is shown.
    until("all are settled", || {
        let mut http = Http::connect(&socket(&name));
        let nodes = http.read("/v1/nodes");
        nodes["nodes"]
            .as_array()
            .is_some_and(|all| all.len() == 3 && all.iter().all(|n| n["agent"]["settled"] == true))
    });

    assert_eq!(reserve(&name, &["release", "2"]).code, Some(0), "by the number of either");
    until("the routers have it no more", || {
        let nothing = ("-".to_owned(), 0);
        expected.iter().all(|(node, class, ..)| domain.has(node, class) == nothing)
    });
}

#[test]
fn a_session_of_an_application_is_in_the_routers_and_outlives_the_controller() {
    let Some(mut domain) = Domain::new("camara") else { return };
    let name = domain.name.clone();
    let token = "authorization: Bearer example-token\r\n";
    let wanted = json!({
        "device": { "ipv4Address": { "publicAddress": "10.1.0.2", "privateAddress": "10.1.0.2" } },
        "applicationServer": { "ipv4Address": "10.2.0.2" },
        "applicationServerPorts": { "ports": [5004] },
        "qosProfile": "QOS_VOICE",
        "duration": 600,
    });
    let mut http = Http::connect(&socket(&name));
    let sessions = "/quality-on-demand/v1/sessions";
    let (status, made) = http.ask_with(token, "POST", sessions, &wanted.to_string());
    assert_eq!((status, &made["qosStatus"]), (201, &json!("AVAILABLE")), "{made}");
    // One filter for each of TCP and UDP, where packets enter.
    let expected = [
        ("west", "wan/voice", 2),
        ("core", "east/voice", 0),
        ("core", "west/voice", 0),
        ("east", "wan/voice", 2),
    ];
    let in_force = |domain: &Domain| {
        expected
            .iter()
            .all(|(node, class, filters)| domain.has(node, class) == ("100 kbit/s".to_owned(), *filters))
    };
    until("the routers have it", || in_force(&domain));
    let listed = reserve(&name, &["list", "--json"]).json();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["owner"], "video-app");

    // Another instance knows it by the same number.
    domain.restart(0);
    let uri = format!("{sessions}/{}", made["sessionId"].as_str().unwrap());
    let mut http = Http::connect(&socket(&name));
    assert_eq!(http.ask_with(token, "GET", &uri, ""), (200, made));
    // Administrators of the machine see it as a reservation; the session is the application's.
    assert_eq!(http.ask("GET", &uri, "").1["code"], "PERMISSION_DENIED");

    let much = json!({ "qosProfile": "QOS_VIDEO", "duration": 60, "device": wanted["device"],
        "applicationServer": { "ipv4Address": "10.2.0.3" } });
    let refused: Vec<(u16, Value)> = (3..6)
        .map(|host| {
            let mut body = much.clone();
            body["applicationServer"]["ipv4Address"] = json!(format!("10.2.0.{host}"));
            http.ask_with(token, "POST", sessions, &body.to_string())
        })
        .collect();
    assert_eq!(refused[0].1["qosStatus"], "AVAILABLE", "{}", refused[0].1);
    assert_eq!((refused[2].0, &refused[2].1["code"]), (429, &json!("QUOTA_EXCEEDED")), "{}", refused[2].1);

    until("the routers have it no more", || {
        let (status, _) = http.ask_with(token, "DELETE", &uri, "");
        assert!(matches!(status, 204 | 404));
        expected.iter().all(|(node, class, _)| domain.has(node, class).0 == "-")
    });
}

#[test]
fn an_empty_folder_is_a_domain_and_what_is_wrong_is_said() {
    let scratch = Scratch::new("empty-domain");
    let name = format!("cli-empty-{}", std::process::id());
    let mut running = controller(&scratch, &name, &[]);
    let second = perhop(&["controller", "run", scratch.0.to_str().unwrap(), "--name", &name]);
    assert!(second.code == Some(3) && second.err.contains("is running"), "{}", second.err);
    let refused =
        reserve(&name, &["create", "--from", "a", "--to", "b", "--class", "voice", "--rate", "1 Mbit/s"]);
    assert!(refused.code == Some(1) && refused.err.contains("no_path"), "{}", refused.err);
    assert_eq!(reserve(&name, &["release", "7"]).code, Some(1));
    // A domain comes by HTTP, too.
    let toml = std::fs::read_to_string(root().join("examples/domain/domain.toml")).unwrap();
    let toml = toml.split("[broker]").nth(1).map(|rest| format!("[broker]{rest}")).unwrap();
    let nodes =
        toml[..toml.find("# The code points").unwrap()].to_owned() + &toml[toml.find("[[node]]").unwrap()..];
    // What is not of the domain itself is the file's alone.
    let nodes = &nodes[..nodes.find("# What follows").unwrap()];
    let mut http = Http::connect(&socket(&name));
    let (status, body) = http.ask("PUT", "/v1/topology", &json!({ "toml": nodes }).to_string());
    assert_eq!(status, 200, "{body}");
    let (status, body) =
        http.ask("PUT", "/v1/topology", &json!({ "toml": "[[node]]\nkind = \"edge\"" }).to_string());
    assert!(status == 422 && body["messages"][0].as_str().unwrap().starts_with("topology:1:1"), "{body}");
    let made = reserve(
        &name,
        &["create", "--from", "west", "--to", "east", "--class", "voice", "--rate", "1 Mbit/s"],
    );
    assert_eq!(made.code, Some(0), "{}", made.err);
    let much = ["create", "--from", "west", "--to", "east", "--class", "voice", "--rate", "5 Mbit/s"];
    assert_eq!(reserve(&name, &much).code, Some(1));
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(0));
    let log = std::fs::read_to_string(scratch.0.join("controller.log")).unwrap();
    let refused = log.lines().find(|line| line.contains("no_capacity")).unwrap_or_else(|| panic!("{log}"));
    for word in ["local", "reserve", "west/wan", "voice", "5000000", "2000000"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
    assert!(!socket(&name).exists());
    assert!(scratch.0.join("domain.db").exists());
    let gone = reserve(&name, &["list"]);
    assert!(gone.code == Some(3) && gone.err.contains("perhop controller run"), "{}", gone.err);
}

#[test]
fn a_domains_file_is_checked_and_a_wrong_one_does_not_start() {
    let scratch = Scratch::new("bad-domain");
    let good = perhop(&["controller", "check", "examples/domain/domain.toml"]);
    assert_eq!(
        (good.code, good.out.trim()),
        (Some(0), "examples/domain/domain.toml: good, 3 nodes, 4 links")
    );
    let file =
        scratch.file("domain.toml", "[[node]]\nname = \"a\"\nkind = \"egde\"\n[[link]]\nfrom = \"b\"\n[x]\n");
    for words in [["controller", "check"], ["controller", "run"]] {
        let ended = perhop(&[&words[..], &[&file]].concat());
        assert_eq!(ended.code, Some(2), "{words:?}");
        for place in ["domain.toml:3:8", "domain.toml:5:8", "domain.toml:6:"] {
            assert!(ended.err.contains(place), "{words:?} {place}: {}", ended.err);
        }
    }
    let file = scratch.file("other.toml", "[controller]\ndatabase = \"sqlite:nowhere/at/all.db\"\n");
    let ended = perhop(&["controller", "run", &file]);
    assert!(ended.code == Some(3) && ended.err.contains("nowhere/at/all.db"), "{}", ended.err);
}

/// The line that a command prints, as a value of TOML.
fn value(ended: &Ended, key: &str) -> String {
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let line =
        ended.out.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{}", ended.out));
    line.split('"').nth(1).unwrap().to_owned()
}

/// What a controller says where it listens.
fn secured(scratch: &Scratch) -> String {
    let log = std::fs::read_to_string(scratch.0.join("controller.log")).unwrap();
    let at = log.split("listening at https://").nth(1).unwrap_or_else(|| panic!("{log}"));
    format!("https://{}", at.split_whitespace().next().unwrap())
}

#[test]
fn on_the_network_a_client_is_known_by_token_or_certificate_and_else_not_at_all() {
    let scratch = Scratch::new("tls");
    let folder = scratch.0.to_str().unwrap().to_owned();
    let name = format!("cli-tls-{}", std::process::id());
    let file = |name: &str| scratch.0.join(name).to_str().unwrap().to_owned();
    assert_eq!(perhop(&["pki", "init", &folder]).code, Some(0));
    assert!(perhop(&["pki", "init", &folder]).err.contains("there is an authority already"));
    let issued = perhop(&["pki", "issue", "controller", "--host", "127.0.0.1", "--dir", &folder]);
    value(&issued, "certificate");
    let west = value(&perhop(&["pki", "issue", "west", "--dir", &folder]), "certificate");
    value(&perhop(&["pki", "issue", "stranger", "--dir", &folder]), "certificate");
    let token = value(&perhop(&["pki", "token", "--out", &file("phones.token")]), "token_sha256");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file("west.key")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let domain = std::fs::read_to_string(root().join("examples/domain/domain.toml")).unwrap();
    let more = format!(
        "[[listen]]\naddress = \"127.0.0.1:0\"\ncertificate = \"controller.pem\"\nkey = \"controller.key\"\n\
         authority = \"authority.pem\"\n[[client]]\nname = \"phones\"\nkind = \"http\"\nrole = \"proxy\"\n\
         token_sha256 = \"{token}\"\nmost = \"1 Mbit/s\"\n[[client]]\nname = \"west\"\nkind = \"agent\"\nrole = \"agent\"\n\
         certificate = \"{west}\"\n"
    );
    scratch.file("domain.toml", &format!("{domain}\n{more}"));
    let running = controller(&scratch, &name, &[]);
    let url = secured(&scratch);
    let authority = file("authority.pem");
    let asked = |words: &[&str], more: &[&str]| {
        let known = ["--controller", &url, "--authority", &authority];
        perhop(&[&["reserve"], words, &known, more].concat())
    };
    let call = ["create", "--from", "west", "--to", "east", "--class", "voice", "--rate", "600 kbit/s"];
    let phones = ["--token-file", &file("phones.token")];
    let made = asked(&call, &phones);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let refused = asked(&call, &phones);
    assert!(refused.code == Some(1) && refused.err.contains("quota"), "{}", refused.err);

    // Whoever is not known learns nothing; whoever is, only what its role may see.
    let list = ["list", "--json"];
    let nobody = asked(&list, &[]);
    assert_eq!((nobody.code, nobody.out.as_str()), (Some(1), ""));
    for words in ["refused: unauthenticated: say who you are", "--token-file FILE"] {
        assert!(nobody.err.contains(words), "{}", nobody.err);
    }
    scratch.file("wrong.token", "0123\n");
    assert!(
        asked(&list, &["--token-file", &file("wrong.token")]).err.contains("of no client"),
        "a wrong token"
    );
    let shows = |who: &str| {
        asked(
            &list,
            &["--certificate", &file(&format!("{who}.pem")), "--key-file", &file(&format!("{who}.key"))],
        )
    };
    assert!(shows("stranger").err.contains("of no client"), "a certificate of the authority that nobody has");
    let west = shows("west");
    assert_eq!((west.code, west.out.as_str()), (Some(0), ""), "an agent sees its own: {}", west.err);
    assert_eq!(asked(&list, &phones).json().len(), 1);

    // Another authority's client or server is not believed.
    let other = Scratch::new("other-authority");
    let folder = other.0.to_str().unwrap();
    assert_eq!(perhop(&["pki", "init", folder]).code, Some(0));
    assert_eq!(perhop(&["pki", "issue", "west", "--dir", folder]).code, Some(0));
    let path = |name: &str| other.0.join(name).to_str().unwrap().to_owned();
    let forged = asked(&list, &["--certificate", &path("west.pem"), "--key-file", &path("west.key")]);
    assert_eq!((forged.code, forged.out.as_str()), (Some(3), ""), "{}", forged.err);
    let doubtful = ["--controller", &url, "--authority", &path("authority.pem")];
    let doubted = || perhop(&[&["reserve", "list"], &doubtful[..], &phones].concat());
    let refused = doubted();
    assert!(refused.code == Some(3) && refused.err.contains("certificate"), "{}", refused.err);

    // Certificates are read again with the file, and stay as they were where what is there now is none.
    assert_eq!(perhop(&["pki", "issue", "controller", "--host", "127.0.0.1", "--dir", folder]).code, Some(0));
    for name in ["authority.pem", "controller.pem", "controller.key"] {
        std::fs::copy(path(name), file(name)).unwrap();
    }
    running.signal(Signal::HUP);
    until("the new certificate is shown", || doubted().code == Some(0));
    scratch.file("controller.pem", "none\n");
    running.signal(Signal::HUP);
    let log = || std::fs::read_to_string(scratch.0.join("controller.log")).unwrap();
    until("it says so", || log().contains("certificates stay as they were"));
    assert_eq!(doubted().code, Some(0));
}

#[test]
fn each_role_may_do_what_it_is_for_and_no_more() {
    let scratch = Scratch::new("roles");
    let name = format!("cli-roles-{}", std::process::id());
    let domain = std::fs::read_to_string(root().join("examples/domain/domain.toml")).unwrap();
    let roles = ["viewer", "proxy", "agent", "operator", "admin"];
    let mut clients = String::new();
    let mut tokens = Vec::new();
    // The agent is that of node west.
    for client in ["viewer", "proxy", "west", "operator", "admin", "proxy2"] {
        let role = match client {
            "west" => "agent",
            "proxy2" => "proxy",
            other => other,
        };
        let made = &perhop(&["pki", "token", "--json"]).json()[0];
        let sha256 = made["token_sha256"].as_str().unwrap();
        clients += &format!(
            "[[client]]\nname = \"{client}\"\nkind = \"http\"\nrole = \"{role}\"\ntoken_sha256 = \"{sha256}\"\n"
        );
        tokens.push(made["token"].as_str().unwrap().to_owned());
    }
    scratch.file("domain.toml", &format!("{domain}\n{clients}"));
    let _running = controller(&scratch, &name, &[]);
    let mut http = Http::connect(&socket(&name));
    let mut asked =
        |who: usize, method: &str, uri: &str, body: &Value| http.ask_as(&tokens[who], method, uri, body);
    let wanted =
        |key: &str| json!({ "key": key, "from": "west", "to": "east", "class": "voice", "bps": 1_000 });
    let (status, made) = asked(5, "POST", "/v1/reservations", &wanted("others"));
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_u64().unwrap();
    let one = format!("/v1/reservations/{id}");
    let report = json!({ "flows": 0, "owed": 0, "settled": true });
    let put = json!({ "role": "viewer" });
    let (none, more) = (Value::Null, json!({ "bps": 2_000 }));
    let cases = [
        ("POST", "/v1/reservations".to_owned(), wanted("own"), [403, 201, 201, 201, 201]),
        ("GET", one.clone(), none.clone(), [200, 404, 404, 200, 200]),
        ("PATCH", one.clone(), more, [403, 403, 403, 200, 200]),
        ("GET", "/v1/links".to_owned(), none.clone(), [200, 200, 403, 200, 200]),
        ("GET", "/v1/audit".to_owned(), none.clone(), [200, 200, 403, 200, 200]),
        ("GET", "/v1/clients".to_owned(), none.clone(), [403, 403, 403, 403, 200]),
        ("PUT", "/v1/clients/new".to_owned(), put, [403, 403, 403, 403, 204]),
        ("PUT", "/v1/links/1/rate".to_owned(), json!({ "bps": 10_000_000 }), [403, 403, 403, 403, 204]),
        ("POST", "/v1/nodes/west/report".to_owned(), report.clone(), [403, 403, 204, 204, 204]),
        ("POST", "/v1/nodes/east/report".to_owned(), report, [403, 403, 403, 204, 204]),
        ("GET", "/v1/nodes/east/wanted-".to_owned(), none.clone(), [404; 5]),
        ("DELETE", one, none, [403, 403, 403, 204, 404]),
    ];
    for (method, uri, body, expected) in cases {
        let got: Vec<u16> = (0..roles.len()).map(|who| asked(who, method, &uri, &body).0).collect();
        assert_eq!(got, expected, "{method} {uri} as {roles:?}");
    }
    // What was asked for twice with one key is one, and with another content is refused.
    let (_, first) = asked(1, "POST", "/v1/reservations", &wanted("own"));
    let mut other = wanted("own");
    other["bps"] = json!(3_000);
    let (status, refused) = asked(1, "POST", "/v1/reservations", &other);
    assert_eq!((status, &refused["refusal"]["code"]), (409, &json!("txn_id_reused")), "{refused}");
    let (_, page) = asked(1, "GET", "/v1/reservations", &Value::Null);
    assert_eq!(page["reservations"][0]["id"], first["id"], "{page}");
    assert_eq!(page["reservations"].as_array().map(Vec::len), Some(1), "only its own");
    for (body, code) in [
        (json!({ "key": "a", "from": "west" }), "malformed"),
        (
            json!({ "key": "a", "from": "west", "to": "east", "class": "voice", "bps": 1, "x": 1 }),
            "unknown_field",
        ),
        (json!({ "key": "a", "from": "west", "to": "west", "class": "voice", "bps": 1_000 }), "no_path"),
        (json!({ "key": "a", "from": "west", "to": "east", "class": "voice", "bps": 0 }), "out_of_range"),
        (
            json!({ "key": "a", "from": "west", "to": "east", "class": "voice", "bps": 1_000,
                "packets": [{ "src": "10.0.0.1/8" }] }),
            "out_of_range",
        ),
    ] {
        let (status, refused) = asked(1, "POST", "/v1/reservations", &body);
        let said = &refused["errors"][0]["code"];
        assert!(status == 422 && said == code, "{body}: {status} {refused}");
        assert_eq!(refused["refusal"]["code"], *code, "{body}: {refused}");
    }
    for (method, uri) in [("GET", "/v1/nothing"), ("PUT", "/v1/links"), ("GET", "/v1/reservations?limit=0")] {
        let (status, refused) = asked(1, method, uri, &Value::Null);
        let code = &refused["errors"][0]["code"];
        assert!(status >= 400 && !code.is_null() && refused["refusal"]["code"] == *code, "{uri}: {refused}");
    }
    // Whoever changes what a link has is in the log.
    assert_eq!(asked(4, "PUT", "/v1/links/1/rate", &json!({ "bps": 5_000_000 })).0, 204);
    until("it is logged", || {
        let (_, page) = asked(4, "GET", "/v1/audit?limit=100", &Value::Null);
        let rows = page["audit"].as_array().unwrap();
        let row = rows.iter().find(|row| row["what"] == "capacity");
        row.is_some_and(|row| {
            assert_eq!(row["who"], "admin", "{row}");
            true
        })
    });
}

#[test]
fn each_interface_is_for_clients_of_its_kinds_and_counts_all_that_they_ask() {
    let scratch = Scratch::new("kinds");
    let name = format!("cli-kinds-{}", std::process::id());
    let domain = std::fs::read_to_string(root().join("examples/domain/domain.toml")).unwrap();
    let kinds = ["http", "camara", "cops", "tcapi", "peer", "agent"];
    let (mut clients, mut tokens) = (String::new(), Vec::new());
    for kind in kinds {
        // The agent is that of node west.
        let (client, role) = if kind == "agent" { ("west", "agent") } else { (kind, "proxy") };
        let made = &perhop(&["pki", "token", "--json"]).json()[0];
        clients += &format!(
            "[[client]]\nname = \"{client}\"\nkind = \"{kind}\"\nrole = \"{role}\"\ntoken_sha256 = {}\n\
             [[consumer]]\nclient = \"{client}\"\nscopes = [\"qos-profiles:read\"]\n",
            made["token_sha256"]
        );
        tokens.push(made["token"].as_str().unwrap().to_owned());
    }
    let made = &perhop(&["pki", "token", "--json"]).json()[0];
    clients += &format!(
        "[[client]]\nname = \"often\"\nkind = \"http\"\nrole = \"viewer\"\ntoken_sha256 = {}\nper_second = 2\n",
        made["token_sha256"]
    );
    tokens.push(made["token"].as_str().unwrap().to_owned());
    scratch.file("domain.toml", &format!("{domain}\n{clients}"));
    let _running = controller(&scratch, &name, &[]);
    let mut http = Http::connect(&socket(&name));
    let mut asked =
        |who: usize, method: &str, uri: &str, body: &Value| http.ask_as(&tokens[who], method, uri, body);
    let wanted = json!({ "key": "k", "from": "west", "to": "east", "class": "voice", "bps": 1_000 });
    let cases = [
        ("GET", "/v1/reservations", Value::Null, [200, 403, 403, 403, 403, 200]),
        ("POST", "/v1/reservations", wanted.clone(), [201, 403, 403, 403, 403, 201]),
        // Of the right kind, but no neighbour.
        ("POST", "/v1/peers/messages", json!({ "messages": [] }), [403; 6]),
        ("GET", "/qos-profiles/v1/qos-profiles/QOS_VOICE", Value::Null, [200, 200, 403, 403, 403, 403]),
    ];
    for (method, uri, body, expected) in cases {
        let got: Vec<u16> = (0..kinds.len()).map(|who| asked(who, method, uri, &body).0).collect();
        assert_eq!(got, expected, "{method} {uri} as {kinds:?}");
    }
    let (_, refused) = asked(2, "GET", "/v1/reservations", &Value::Null);
    assert_eq!(refused["refusal"]["code"], "forbidden");
    let why = "client cops is of kind cops, and this interface is for clients of kind http and agent";
    assert_eq!(refused["refusal"]["message"], why);
    // By certificates and COPS: `cops`; between domains: `chain`.
    let mut messages = |who: usize| asked(who, "POST", "/v1/peers/messages", &json!({ "messages": [] })).1;
    for (who, why) in [
        (0, "client http is of kind http, and this interface is for clients of kind peer"),
        (4, "client peer is no [[peer]] of this domain"),
    ] {
        assert_eq!(messages(who)["refusal"]["message"], why);
    }
    let put = json!({ "role": "proxy", "kind": "smtp" });
    let mut local = Http::connect(&socket(&name));
    let (status, refused) = local.ask("PUT", "/v1/clients/new", &put.to_string());
    assert_eq!((status, &refused["refusal"]["code"]), (422, &json!("out_of_range")), "{refused}");

    // Two a second, whatever is asked.
    std::thread::sleep(Duration::from_secs(1));
    let often: Vec<(u16, Value)> = ["/v1/links", "/v1/reservations", "/v1/nodes", "/v1/audit"]
        .map(|uri| asked(6, "GET", uri, &Value::Null))
        .into();
    let refused = &often.last().unwrap().1;
    assert_eq!(often.iter().filter(|(status, _)| *status == 200).count(), 2, "{often:?}");
    assert_eq!((often[3].0, &refused["refusal"]["code"]), (429, &json!("overload")), "{refused}");
    assert!(refused["retry_after_ms"].as_u64().is_some_and(|ms| ms <= 500), "{refused}");
}

/// How often the controller was asked about leases, and granted.
pub(super) fn asks(name: &str) -> Vec<(String, u64)> {
    let page = Http::connect(&socket(name)).read("/v1/audit?limit=1000");
    let rows = page["audit"].as_array().unwrap().iter().rev();
    let of_leases = rows.filter(|row| matches!(row["what"].as_str(), Some("reserve" | "change" | "release")));
    of_leases
        .filter(|row| row["refused"].is_null())
        .map(|row| (row["what"].as_str().unwrap().to_owned(), row["detail"]["bps"].as_u64().unwrap()))
        .collect()
}

#[test]
fn calls_are_admitted_beside_the_router_whether_controller_or_agent_were_killed() {
    let Some(mut domain) = Domain::new("leases") else { return };
    let name = domain.name.clone();
    let router = domain.router("west");
    let decide = |words: &[&str]| perhop(&[&["reserve"], words, &["--agent", &router]].concat());
    // The agent of west becomes one that decides.
    let file = domain.scratch.0.join("west-agent.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let lease = "[leases]\nlifetime = \"1 h\"\npatience = \"10 s\"\n[[lease]]\nname = \"voice\"\nclasses = [\"wan/voice\"]\n\
                 to = [\"east\"]\nchunk = \"1 Mbit/s\"\nlow = \"1 Mbit/s\"\nhigh = \"2 Mbit/s\"\n";
    std::fs::write(&file, text + lease).unwrap();
    domain.restart(4);
    until("the agent decides", || decide(&["list"]).code == Some(0));
    let call = |key: &str, packets: &[&str]| {
        let words = ["create", "--from", "west", "--to", "east", "--class", "voice", "--rate", "80 kbit/s"];
        decide(&[&words[..], &["--for", "1h", "--key", key], packets].concat())
    };
    until("the controller is there", || call("call-0", &[]).code == Some(0));
    for number in 1..30 {
        let made = call(&format!("call-{number}"), &[]);
        assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    }
    let expected: Vec<(String, u64)> = [("reserve", 1), ("change", 2), ("change", 3)]
        .map(|(what, mbit)| (what.to_owned(), mbit * 1_000_000))
        .into();
    assert_eq!(asks(&name), expected, "30 times 80 kbit/s, with 1 Mbit/s a question");
    until("the routers have it", || domain.has_voice("3 Mbit/s"));
    let list = || decide(&["list", "--json"]).json().len();
    assert_eq!(list(), 30);

    // Without the controller: what fits, and no more. With packets the router has them.
    domain.running[0].kill();
    let packets = ["--packets", "protocol=udp dst=10.2.0.2 dst-port=5004"];
    for number in 30..37 {
        let made = call(&format!("call-{number}"), &packets);
        assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    }
    let refused = call("call-37", &[]);
    assert!(
        refused.code == Some(1) && refused.err.contains("backend_failed"),
        "{}{}",
        refused.out,
        refused.err
    );
    until("the router has the packets", || domain.has("west", "wan/voice").1 == 7);

    // The agent is killed, too: it has what it had.
    domain.restart(4);
    until("the agent decides again", || decide(&["list"]).code == Some(0));
    assert_eq!(list(), 37);
    let again = call("call-30", &packets);
    assert!(again.out.starts_with("reservation 31:"), "{}{}", again.out, again.err);
    assert_eq!(domain.has("west", "wan/voice"), ("3 Mbit/s".to_owned(), 7));

    // What is released is given back once the controller is there.
    domain.running[0] = controller(&domain.scratch, &name, &[]);
    let ids: Vec<String> = (1..=37).map(|id| id.to_string()).collect();
    let words: Vec<&str> = std::iter::once("release").chain(ids.iter().map(String::as_str)).collect();
    assert_eq!(decide(&words).code, Some(0));
    until("no more than the high water is held", || {
        let (rate, flows) = domain.has("west", "wan/voice");
        flows == 0 && rate != "3 Mbit/s"
    });
    assert_eq!(list(), 0);
}
