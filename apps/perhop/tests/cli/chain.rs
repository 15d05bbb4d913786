//! Domains in a row, each with a controller, an authority and a database of its own: reservations over all of them.

use super::domain::{controller, reserve, socket, until};
use super::http::Http;
use super::router::Running;
use super::{Scratch, perhop};
use serde_json::Value;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// What may be reserved of most links, kbit/s.
const WIDE: u64 = 1_000;

/// Domains `d0`, `d1`, …, each with an edge `home` behind a core router `gate`, which leads to its neighbours.
struct Chain {
    scratches: Vec<Scratch>,
    names: Vec<String>,
    controllers: Vec<Option<Running>>,
}

/// What may be reserved in a domain, kbit/s: towards its edge, and towards the next domain.
#[derive(Clone, Copy)]
struct Widths {
    home: u64,
    next: u64,
}

fn issued(dir: &str, words: &[&str]) -> String {
    let ended = perhop(&[&["pki", "issue"], words, &["--dir", dir]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    ended.out.split('"').nth(1).unwrap_or_else(|| panic!("{}", ended.out)).to_owned()
}

fn link(from: &str, to: &str, there: u64, back: u64) -> String {
    let one = |from: &str, to: &str, kbps: u64| {
        format!(
            "[[link]]\nfrom = \"{from}\"\nport = \"{to}\"\nto = \"{to}\"\nrate = \"10 Mbit/s\"\n\
             classes = {{ voice = \"{kbps} kbit/s\" }}\n"
        )
    };
    one(from, to, there) + &one(to, from, back)
}

impl Chain {
    fn new(widths: &[Widths]) -> Self {
        let count = widths.len();
        let name = |no: usize| format!("cli-chain-{}-{count}-d{no}", std::process::id());
        let names: Vec<String> = (0..count).map(name).collect();
        let scratch = |no: usize| Scratch::new(&format!("chain-{count}-d{no}"));
        let scratches: Vec<Scratch> = (0..count).map(scratch).collect();
        // All are open at once, so that no two are the same.
        let doors: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<String> = doors.iter().map(|d| d.local_addr().unwrap().to_string()).collect();
        drop(doors);
        let fingerprints: Vec<String> = scratches
            .iter()
            .map(|scratch| {
                let dir = scratch.0.to_str().unwrap();
                assert_eq!(perhop(&["pki", "init", dir]).code, Some(0));
                issued(dir, &["own", "--host", "127.0.0.1"])
            })
            .collect();
        let authority = |no: usize| std::fs::read_to_string(scratches[no].0.join("authority.pem")).unwrap();
        for (no, scratch) in scratches.iter().enumerate() {
            let beside = [no.checked_sub(1), Some(no + 1).filter(|next| *next < count)];
            let Widths { home, next } = widths[no];
            let mut believed = authority(no);
            let peers = beside.iter().flatten();
            let peers = peers.map(|other| format!(", {{ name = \"{}\", kind = \"peer\" }}", names[*other]));
            let mut text = format!(
                "node = [{{ name = \"home\", kind = \"edge\" }}, {{ name = \"gate\", kind = \"core\" }}{}]\n\
                 [controller]\nname = \"{}\"\n[broker]\nlifetime = \"1 min\"\n[[listen]]\naddress = \"{}\"\n\
                 certificate = \"own.pem\"\nkey = \"own.key\"\nauthority = \"believed.pem\"\n",
                peers.collect::<String>(),
                names[no],
                addresses[no],
            );
            text += &link("gate", "home", home, WIDE);
            for other in beside.into_iter().flatten() {
                let there = if other > no { next } else { WIDE };
                text += &link("gate", &names[other], there, WIDE);
                believed += &authority(other);
                let behind = if other > no { other + 1..count } else { 0..other };
                let behind: Vec<&String> = behind.map(|no| &names[no]).collect();
                scratch.file(&format!("theirs-{other}.pem"), &authority(other));
                text += &format!(
                    "[[client]]\nname = \"{0}\"\nkind = \"peer\"\nrole = \"proxy\"\ncertificate = \"{1}\"\n\
                     [[peer]]\nname = \"{0}\"\naddresses = [\"https://{2}\"]\ncertificate = \"own.pem\"\nkey = \"own.key\"\n\
                     authority = \"theirs-{other}.pem\"\nbehind = {behind:?}\nchunk = \"100 kbit/s\"\nlifetime = \"8 s\"\n\
                     patience = \"5 s\"\n",
                    names[other], fingerprints[other], addresses[other],
                );
            }
            scratch.file("believed.pem", &believed);
            scratch.file("domain.toml", &text);
        }
        let mut chain = Self { scratches, names, controllers: (0..count).map(|_| None).collect() };
        (0..count).for_each(|no| chain.start(no));
        chain.until_reached();
        chain
    }

    fn start(&mut self, no: usize) {
        self.controllers[no] = Some(controller(&self.scratches[no], &self.names[no], &[]));
    }

    fn kill(&mut self, no: usize) {
        let mut running = self.controllers[no].take().unwrap();
        running.kill();
    }

    fn until_reached(&self) {
        until("all neighbours are reached", || {
            self.names.iter().all(|name| {
                let peers = Http::connect(&socket(name)).read("/v1/peers");
                peers["peers"].as_array().is_some_and(|peers| peers.iter().all(|peer| peer["here"] == true))
            })
        });
    }

    fn last(&self) -> &String {
        self.names.last().unwrap()
    }

    /// From the first domain to the last.
    fn ask(&self, word: &str, rate: &str, more: &[&str]) -> super::Ended {
        let to = format!("home@{}", self.last());
        let words = [word, "--from", "home", "--to", &to, "--class", "voice", "--rate", rate];
        reserve(&self.names[0], &[&words[..], more].concat())
    }

    fn booked(&self, no: usize) -> Vec<Value> {
        reserve(&self.names[no], &["list", "--json"]).json()
    }

    /// Reservations of a domain, and what it holds at others.
    fn left(&self, no: usize) -> usize {
        let peers = Http::connect(&socket(&self.names[no])).read("/v1/peers");
        let held = peers["peers"].as_array().into_iter().flatten();
        let held = held.map(|peer| peer["held"].as_array().map_or(0, Vec::len)).sum::<usize>();
        self.booked(no).len() + held
    }

    fn until_empty(&self) {
        until("nothing is left anywhere", || (0..self.names.len()).all(|no| self.left(no) == 0));
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.controllers.clear();
        for name in &self.names {
            for ending in ["controller", "controller.lock"] {
                let _ = std::fs::remove_file(format!("/run/perhop/{name}.{ending}"));
            }
        }
    }
}

/// What a chain of so many domains does for whoever reserves over it.
fn works(count: usize) {
    let (middle, last) = (count / 2, count - 1);
    let wide = Widths { home: WIDE, next: WIDE };
    let mut widths = vec![wide; count];
    widths[last].home = 300;
    if middle < last {
        widths[middle].next = 600;
    }
    let mut chain = Chain::new(&widths);
    let made = chain.ask("create", "200 kbit/s", &["--key", "call-1", "--for", "10 s"]);
    let line =
        format!("reservation 1: 200 kbit/s of class voice from home to home@{}, for 10 s", chain.last());
    assert_eq!((made.code, made.out.trim()), (Some(0), line.as_str()), "{}", made.err);
    let again = chain.ask("create", "200 kbit/s", &["--key", "call-1", "--for", "10 s"]);
    assert_eq!(again.out, made.out, "{}", again.err);
    let other = chain.ask("create", "100 kbit/s", &["--key", "call-1", "--for", "10 s"]);
    assert!(other.code == Some(1) && other.err.contains("txn_id_reused"), "{}", other.err);
    let first = &chain.booked(0)[0];
    assert_eq!((&first["state"], &first["key"]), (&"held".into(), &"call-1".into()), "{first}");
    // In between there are aggregates alone, and at the last domain the flow.
    for no in 1..last {
        let rows = chain.booked(no);
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((&rows[0]["kind"], &rows[0]["bps"]), (&"lease".into(), &200_000.into()), "{rows:?}");
        assert_eq!(rows[0]["owner"], chain.names[no - 1].as_str());
    }
    let rows = chain.booked(last);
    assert_eq!(
        (rows.len(), &rows[0]["bps"], &rows[0]["to"]),
        (1, &200_000.into(), &"home".into()),
        "{rows:?}"
    );

    // Refused by the last, one in the middle, and the first: each says whose link it is.
    let names = chain.names.clone();
    let refused = |rate: &str, expected: &str| {
        let ended = chain.ask("create", rate, &[]);
        assert!(ended.code == Some(1) && ended.err.contains(expected), "{rate}: {} {}", ended.out, ended.err);
    };
    let whose = |no: usize| format!("peer_refused: domain {}, ", names[no]);
    refused(
        "150 kbit/s",
        &format!("{}link gate/home, class voice, 150 kbit/s asked, 100 kbit/s free", whose(last)),
    );
    if middle < last && middle > 0 {
        let next = &names[middle + 1];
        refused("650 kbit/s", &format!("{}link gate/{next}, class voice, 650 kbit/s asked", whose(middle)));
    }
    refused("900 kbit/s", "no_capacity: link ");
    let nowhere = reserve(
        &names[0],
        &["create", "--from", "home", "--to", "home@nowhere", "--class", "voice", "--rate", "1 kbit/s"],
    );
    assert!(nowhere.code == Some(1) && nowhere.err.contains("no_path"), "{}", nowhere.err);
    assert_eq!(chain.booked(0).len(), 1, "nothing is half booked");
    let shown = |what: &str| perhop(&["show", what, "--controller", &names[0], "--json"]).json();
    let rows = |what: &str| shown(what)[0]["rows"].as_array().cloned().unwrap_or_default();
    let of_last = |row: &Value| {
        row["facts"]["refused"] == "peer_refused" && row["facts"]["detail"].to_string().contains(&names[last])
    };
    assert!(rows("audit").iter().any(of_last), "{:?}", rows("audit"));
    assert!(rows("peers").iter().all(|row| row["facts"]["state"] == "reached"), "{:?}", rows("peers"));
    let why = chain.ask("why", "100 kbit/s", &[]);
    assert!(why.code == Some(0) && why.out.contains("this domain would grant it"), "{} {}", why.out, why.err);

    let id = first["id"].to_string();
    let changed = reserve(&names[0], &["change", &id, "--rate", "250 kbit/s"]);
    assert!(changed.code == Some(0) && changed.out.contains("250 kbit/s"), "{} {}", changed.out, changed.err);
    assert_eq!(chain.booked(last)[0]["bps"], 250_000);
    let changed = reserve(&names[0], &["change", &id, "--rate", "350 kbit/s"]);
    assert!(changed.code == Some(1) && changed.err.contains(&whose(last)), "{}", changed.err);
    assert_eq!(chain.booked(0)[0]["bps"], 250_000, "it is as it was");
    assert_eq!(reserve(&names[0], &["release", &id]).code, Some(0));
    chain.until_empty();

    // The one in the middle dies while a flow is there, and comes back: what was agreed stands, and the chain works again.
    let held = chain.ask("create", "100 kbit/s", &["--key", "held"]);
    assert_eq!(held.code, Some(0), "{}", held.err);
    let (victim, gone) = (middle.max(1), Instant::now());
    chain.kill(victim);
    let away = chain.ask("create", "150 kbit/s", &[]);
    assert!(away.code == Some(1) && away.err.contains("try again in"), "{} {}", away.out, away.err);
    assert!(away.err.contains("peer_refused") || away.err.contains("timeout"), "{}", away.err);
    assert_eq!(chain.booked(0).len(), 1, "nothing is half booked");
    chain.start(victim);
    until("the chain works again", || {
        chain.ask("create", "150 kbit/s", &["--key", "call-2", "--for", "1 s"]).code == Some(0)
    });
    // Leases last for three seconds more at least, whenever they were renewed.
    let rows = chain.booked(0);
    let held = rows.iter().find(|row| row["key"] == "held");
    assert!(held.is_some() || gone.elapsed() > Duration::from_secs(3), "{rows:?}");
    if let Some(held) = held {
        let shorter = reserve(&names[0], &["change", &held["id"].to_string(), "--for", "1 s"]);
        assert_eq!(shorter.code, Some(0), "{}", shorter.err);
    }
    // Nobody releases anything.
    chain.until_empty();
}

#[test]
fn two_domains_reserve_through_each_other() {
    works(2);
}

#[test]
fn three_domains_reserve_through_each_other() {
    works(3);
}

#[test]
fn five_domains_reserve_through_each_other() {
    works(5);
}
