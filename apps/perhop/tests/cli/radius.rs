//! RADIUS: access servers say who is where, and are told what changes.

use super::domain::{controller, socket, until};
use super::router::Running;
use super::{Ended, Scratch, perhop, root, skip};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

const SECRET: &str = "a secret of this test";

struct World {
    scratch: Scratch,
    name: String,
    running: Option<Running>,
    accounting: SocketAddr,
    changes: SocketAddr,
    /// Where the access server hears of changes.
    server: UdpSocket,
}

fn has_radclient(test: &str) -> bool {
    let is_there = Command::new("radclient").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if is_there.is_err() {
        skip(test, "radius", "needs radclient (freeradius-utils)");
    }
    is_there.is_ok()
}

impl World {
    fn new(test: &str) -> Self {
        let scratch = Scratch::new(test);
        let name = format!("cli-radius-{}-{test}", std::process::id());
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        scratch.file("nas.secret", &format!("{SECRET}\n"));
        let domain = std::fs::read_to_string(root().join("examples/domain/domain.toml")).unwrap();
        let radius = format!(
            "[radius]\naccounting = \"127.0.0.1:0\"\nchanges = \"127.0.0.1:0\"\n[[nas]]\nname = \"west-nas\"\n\
             address = \"127.0.0.1\"\nsecret_file = \"nas.secret\"\nrouter = \"west\"\nport = \"lan\"\nchanges = \"{}\"\n",
            server.local_addr().unwrap()
        );
        scratch.file("domain.toml", &format!("{domain}\n{radius}"));
        let running = controller(&scratch, &name, &[]);
        let log = std::fs::read_to_string(scratch.0.join("controller.log")).unwrap();
        let at = |what: &str| {
            let behind = log.split_once(&format!("listening for RADIUS {what} at ")).unwrap().1;
            behind.split_whitespace().next().unwrap().parse().unwrap()
        };
        let (accounting, changes) = (at("accounting"), at("changes"));
        let applied = perhop(&["policy", "apply", "examples/domain/policy.toml", "--controller", &name]);
        assert_eq!(applied.code, Some(0), "{}", applied.err);
        Self { scratch, name, running: Some(running), accounting, changes, server }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.0.join("controller.log")).unwrap()
    }

    /// Who is where: subscriber, router, port, contract, source.
    fn sessions(&self) -> Vec<[String; 5]> {
        let rows = perhop(&["user", "list", "--json", "--controller", &self.name]).json();
        let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
        rows.iter()
            .map(|row| ["subscriber", "router", "port", "sla", "source"].map(|key| text(row, key)))
            .collect()
    }

    /// What a client says, once.
    fn radclient(&self, what: &str, secret: &str, attributes: &str) -> Ended {
        let to = if what == "acct" { self.accounting } else { self.changes };
        let mut child = Command::new("radclient")
            .args(["-x", "-r", "1", "-t", "2", &to.to_string(), what, secret])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(attributes.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        Ended {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn account(&self, status: &str, more: &str) -> Ended {
        let attributes = format!(
            "User-Name = \"ann\", Acct-Session-Id = \"s-1\", Acct-Status-Type = {status}, NAS-IP-Address = 127.0.0.1, \
             Framed-IP-Address = 10.1.0.77{more}\n"
        );
        self.radclient("acct", SECRET, &attributes)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.running = None;
        let path = socket(&self.name);
        let _ = std::fs::remove_file(path.with_extension("controller.lock"));
        let _ = std::fs::remove_file(path);
    }
}

fn session(sla: &str) -> Vec<[String; 5]> {
    vec![["ann", "west", "lan", sla, "radius:west-nas"].map(str::to_owned)]
}

#[test]
fn who_logs_in_by_radius_has_its_contract_and_another_one_by_a_change() {
    let test = "who_logs_in_by_radius_has_its_contract_and_another_one_by_a_change";
    if !has_radclient(test) {
        return;
    }
    let world = World::new("radius");
    let begun = world.account("Start", "");
    assert!(begun.out.contains("Accounting-Response"), "{}{}", begun.out, begun.err);
    // What is answered is on record.
    assert_eq!(world.sessions(), session("business"));

    // Another contract, and what does not exist.
    let of = |who: &str, more: &str| format!("User-Name = \"{who}\"{more}, Message-Authenticator = 0x00\n");
    let changed = world.radclient("coa", SECRET, &of("ann", ", Filter-Id = \"home\""));
    assert!(changed.out.contains("CoA-ACK"), "{}{}", changed.out, changed.err);
    assert_eq!(world.sessions(), session("home"));
    let unknown = world.radclient("coa", SECRET, &of("bob", ", Filter-Id = \"home\""));
    assert!(unknown.out.contains("CoA-NAK"), "{}{}", unknown.out, unknown.err);
    let other = world.radclient("disconnect", SECRET, &of("ann", ", Acct-Session-Id = \"s-2\""));
    assert!(other.out.contains("Disconnect-NAK"), "{}{}", other.out, other.err);

    // What is not proven changes nothing and is not answered, but counted.
    let forged = world.radclient("disconnect", "another secret", &of("ann", ""));
    assert!(!forged.out.contains("Disconnect-ACK"), "{}", forged.out);
    let unsigned = world.radclient("disconnect", SECRET, "User-Name = \"ann\"\n");
    assert!(!unsigned.out.contains("Disconnect-ACK"), "{}", unsigned.out);
    world.server.send_to(&[4, 1, 0, 9, 0], world.accounting).unwrap();
    assert_eq!(world.sessions(), session("home"));
    until("what was dropped is logged", || {
        let log = world.log();
        log.contains("dropped: ") && log.contains("unsigned=1") && log.contains("malformed=1")
    });

    let over = world.radclient("disconnect", SECRET, &of("ann", ", Acct-Session-Id = \"s-1\""));
    assert!(over.out.contains("Disconnect-ACK"), "{}{}", over.out, over.err);
    assert_eq!(world.sessions(), Vec::<[String; 5]>::new());
    let stopped = world.account("Stop", ", Acct-Input-Octets = 5, Acct-Output-Octets = 6");
    assert!(stopped.out.contains("Accounting-Response"), "one that is over: {}{}", stopped.out, stopped.err);
}

#[test]
fn an_access_server_is_told_when_a_session_is_over_here_and_a_restart_ends_all_of_its() {
    let test = "an_access_server_is_told_when_a_session_is_over_here_and_a_restart_ends_all_of_its";
    if !has_radclient(test) {
        return;
    }
    let world = World::new("radius-out");
    let begun = world.account("Start", ", WISPr-Bandwidth-Max-Down = 700000");
    assert!(begun.out.contains("Accounting-Response"), "{}{}", begun.out, begun.err);
    assert_eq!(world.sessions().len(), 1);
    // The policy has no such subscriber any more.
    let text = std::fs::read_to_string(root().join("examples/domain/policy.toml")).unwrap();
    let without = text.split_once("\n# One that logs in").unwrap().0;
    let file = world.scratch.file("without.toml", without);
    // The door outwards looks for who leads once a second.
    std::thread::sleep(Duration::from_millis(1_500));
    let applied = perhop(&["policy", "apply", &file, "--controller", &world.name]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    let mut octets = [0; 4_096];
    let (length, _) = world.server.recv_from(&mut octets).unwrap();
    // A Disconnect-Request (RFC 5176) of the session.
    assert_eq!(octets[0], 40);
    let says = |text: &[u8]| octets[..length].windows(text.len()).any(|part| part == text);
    assert!(says(b"ann") && says(b"s-1"), "{:?}", &octets[..length]);
    assert_eq!(world.sessions().len(), 0);

    let applied = perhop(&["policy", "apply", "examples/domain/policy.toml", "--controller", &world.name]);
    assert_eq!(applied.code, Some(0), "{}", applied.err);
    assert!(world.account("Start", ", Acct-Delay-Time = 0").out.contains("Accounting-Response"));
    assert_eq!(world.sessions().len(), 1);
    let restart = "Acct-Status-Type = Accounting-On, NAS-IP-Address = 127.0.0.1, Acct-Session-Id = \"0\"\n";
    assert!(world.radclient("acct", SECRET, restart).out.contains("Accounting-Response"));
    until("a new access server has no sessions of before", || world.sessions().is_empty());
}

#[test]
fn all_that_is_wrong_with_radius_in_a_file_is_said() {
    let scratch = Scratch::new("radius-file");
    let text = "[radius]\n[[nas]]\nname = \"a\"\naddress = \"127.0.0.1\"\nsecret_file = \"none\"\nrouter = \"west\"\n\
                [[nas]]\nname = \"b\"\naddress = \"127.0.0.1:7\"\nsecret_file = \"none\"\n";
    let file = scratch.file("d.toml", text);
    let ended = perhop(&["controller", "check", &file]);
    assert_eq!(ended.code, Some(2));
    for words in ["accounting is missing", "cannot be read", "belong together", "without a port"] {
        assert!(ended.err.contains(words), "{words} is not in\n{}", ended.err);
    }
}
