//! SIPp's phones: many calls at the same time, over each transport, given up, and with reliable provisional responses.

use super::{Proxy, World, free, listen, zones};
use crate::{Scratch, perhop, skip};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(90);

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<scenario name=\"of the test\">\n";

const SDP: &str = "v=0\no=- 1 1 IN IP[local_ip_type] [local_ip]\ns=-\nc=IN IP[local_ip_type] [local_ip]\nt=0 0\n\
    m=audio [media_port] RTP/AVP 8\na=ptime:20\n";

/// A request of a caller, in SIPp's words.
fn request(method: &str, cseq: u32, more: &str, body: &str) -> String {
    let (uri, to) = match method {
        "INVITE" | "CANCEL" => ("sip:[service]@b.example", ""),
        _ => ("[next_url]", "[peer_tag_param]"),
    };
    let branch = if method == "CANCEL" { "[branch-3]" } else { "[branch]" };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
    format!(
        "<send{}><![CDATA[\n{method} {uri} SIP/2.0\nVia: SIP/2.0/[transport] [local_ip]:[local_port];branch={branch}\n\
         From: <sip:u@a.example>;tag=[pid]-[call_number]\nTo: <sip:[service]@b.example>{to}\nCall-ID: [call_id]\nCSeq: {cseq} {method}\n\
         Contact: <sip:u@[local_ip]:[local_port];transport=[transport]>\nMax-Forwards: 70\n{more}{kind}Content-Length: [len]\n\n{body}]]></send>\n",
        if matches!(method, "INVITE" | "BYE" | "PRACK") { " retrans=\"500\"" } else { "" }
    )
}

/// A response of a callee.
fn response(status: &str, more: &str, body: &str) -> String {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/sdp\n" };
    format!(
        "<send{}><![CDATA[\nSIP/2.0 {status}\n[last_Via:]\n[last_From:]\n[last_To:];tag=[pid]-[call_number]\n[last_Call-ID:]\n[last_CSeq:]\n\
         [last_Record-Route:]\nContact: <sip:v@[local_ip]:[local_port];transport=[transport]>\n{more}{kind}Content-Length: [len]\n\n{body}]]></send>\n",
        if status.starts_with("200") && !body.is_empty() { " retrans=\"500\"" } else { "" }
    )
}

/// A response within a call, whose To has a tag already.
fn within(status: &str) -> String {
    response(status, "", "").replace("[last_To:];tag=[pid]-[call_number]", "[last_To:]")
}

/// An INVITE, of which a later response has to know something.
fn invite_to_remember() -> String {
    let remember = |header: &str, occurrence: u32, variable: u32| {
        format!(
            "<ereg regexp=\".*\" search_in=\"hdr\" header=\"{header}:\" occurrence=\"{occurrence}\" assign_to=\"{variable}\"/>\n"
        )
    };
    let all = [remember("Via", 1, 1), remember("Via", 2, 2), remember("Record-Route", 1, 3)].concat();
    format!("<recv request=\"INVITE\"><action>\n{all}</action></recv>\n")
}

/// A response to that INVITE, when something else has come since.
fn to_invite(status: &str) -> String {
    format!(
        "<send><![CDATA[\nSIP/2.0 {status}\nVia:[$1]\nVia:[$2]\nRecord-Route:[$3]\n[last_From:]\nTo: <sip:v@b.example>;tag=[pid]-[call_number]\n\
         [last_Call-ID:]\nCSeq: 1 INVITE\nContact: <sip:v@[local_ip]:[local_port];transport=[transport]>\nContent-Length: 0\n\n]]></send>\n"
    )
}

/// Scenarios of caller and callee.
struct Scenario {
    caller: String,
    callee: String,
}

fn recv(what: &str) -> String {
    format!("<recv {what}/>\n")
}

fn basic() -> Scenario {
    let caller = [
        request("INVITE", 1, "", SDP),
        recv("response=\"100\" optional=\"true\""),
        recv("response=\"180\" optional=\"true\""),
        recv("response=\"200\" rrs=\"true\""),
        request("ACK", 1, "[routes]\n", ""),
        "<pause milliseconds=\"300\"/>\n".to_owned(),
        request("BYE", 2, "[routes]\n", ""),
        recv("response=\"200\""),
    ];
    let callee = [
        recv("request=\"INVITE\""),
        response("180 Ringing", "", ""),
        response("200 OK", "", SDP),
        recv("request=\"ACK\" rtd=\"true\""),
        recv("request=\"BYE\""),
        within("200 OK"),
    ];
    Scenario { caller: caller.concat(), callee: callee.concat() }
}

/// The caller gives up while it rings.
fn cancelled() -> Scenario {
    let caller = [
        request("INVITE", 1, "", SDP),
        recv("response=\"100\" optional=\"true\""),
        recv("response=\"180\""),
        request("CANCEL", 1, "", ""),
        recv("response=\"200\""),
        recv("response=\"487\""),
        request("ACK", 1, "", "")
            .replace("ACK [next_url]", "ACK sip:[service]@b.example")
            .replace("[branch]", "[branch-6]"),
    ];
    let callee = [
        invite_to_remember(),
        response("180 Ringing", "", ""),
        recv("request=\"CANCEL\""),
        response("200 OK", "", ""),
        to_invite("487 Request Terminated"),
        recv("request=\"ACK\""),
    ];
    Scenario { caller: caller.concat(), callee: callee.concat() }
}

/// What the phone rings with is acknowledged (RFC 3262).
fn reliable() -> Scenario {
    let caller = [
        request("INVITE", 1, "Supported: 100rel\n", SDP),
        recv("response=\"100\" optional=\"true\""),
        recv("response=\"183\" rrs=\"true\""),
        request("PRACK", 2, "[routes]\nRAck: 1 1 INVITE\n", ""),
        recv("response=\"200\""),
        recv("response=\"200\" rrs=\"true\""),
        request("ACK", 1, "[routes]\n", ""),
        request("BYE", 3, "[routes]\n", ""),
        recv("response=\"200\""),
    ];
    let callee = [
        invite_to_remember(),
        response("183 Session Progress", "Require: 100rel\nRSeq: 1\n", SDP),
        recv("request=\"PRACK\""),
        within("200 OK"),
        to_invite("200 OK"),
        recv("request=\"ACK\""),
        recv("request=\"BYE\""),
        within("200 OK"),
    ];
    Scenario { caller: caller.concat(), callee: callee.concat() }
}

/// SIPp, if it is here: what it says of itself.
fn sipp(test: &str) -> Option<String> {
    match Command::new("sipp").arg("-v").output() {
        Ok(said) => {
            Some(String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr))
        }
        Err(why) => {
            skip(test, "sipp", &format!("sipp: {why}; it is in the package sip-tester"));
            None
        }
    }
}

struct Phone(Child, std::path::PathBuf);

impl Phone {
    fn start(scratch: &Scratch, name: &str, scenario: &str, args: &[String]) -> Self {
        let folder = scratch.0.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("scenario.xml");
        std::fs::write(&file, format!("{HEAD}{scenario}</scenario>\n")).unwrap();
        let mut command = Command::new("sipp");
        command.args(["-sf", file.to_str().unwrap(), "-nostdin", "-trace_err", "-timeout_error"]);
        command.args(args).current_dir(&folder).stdin(Stdio::null()).stderr(Stdio::null());
        Self(command.stdout(std::fs::File::create(folder.join("out")).unwrap()).spawn().unwrap(), folder)
    }

    fn said(&self) -> String {
        let files = std::fs::read_dir(&self.1).unwrap().map(|file| file.unwrap().path());
        let mut texts: Vec<String> = files
            .filter(|path| path.extension().is_none_or(|e| e != "xml"))
            .map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned())
            .collect();
        texts.sort();
        let all = texts.concat();
        all.chars().skip(all.chars().count().saturating_sub(6_000)).collect()
    }

    fn succeeds(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert_eq!(status.code(), Some(0), "{}", self.said());
                return;
            }
            assert!(Instant::now() < end, "it does not end: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls from one phone through one proxy to another, all of which succeed.
fn calls(world: &World, name: &str, scenario: &Scenario, mode: &str, more: &str, number: u32) {
    let transport = match mode.as_bytes()[0] {
        b'u' => "udp",
        b't' => "tcp",
        _ => "tls",
    };
    let (udp, stream) = (free("127.0.0.1"), free("127.0.0.1"));
    let callee: SocketAddr = free("127.2.0.2");
    let second = if transport == "udp" { String::new() } else { listen(transport, stream) };
    let proxy = if transport == "udp" { udp } else { stream };
    let text = format!(
        "{}{second}{}{more}[[domain]]\nname = \"b.example\"\nusers = {{ v = \"sip:v@{callee};transport={transport}\" }}\n[[zone]]\n\
         prefixes = [\"127.1.0.0/16\", \"127.2.0.0/16\"]\nside = \"phones\"\n{}",
        listen("udp", udp),
        zones(),
        world.by_http("")
    );
    let mut running = Proxy::start(&world.scratch, name, udp, &text);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (count, callee_port) = (number.to_string(), callee.port().to_string());
    let dir = world.scratch.0.to_str().unwrap();
    let (certificate, key) = (format!("{dir}/proxy.pem"), format!("{dir}/proxy.key"));
    let tls =
        if transport == "tls" { words(&["-tls_cert", &certificate, "-tls_key", &key]) } else { Vec::new() };
    let common = [words(&["-t", mode, "-m", &count, "-timeout", "60s"]), tls].concat();
    let answers = [words(&["-i", "127.2.0.2", "-p", &callee_port]), common.clone()].concat();
    let mut callee = Phone::start(&world.scratch, &format!("{name}-callee"), &scenario.callee, &answers);
    std::thread::sleep(Duration::from_millis(500));
    let asks = words(&[&proxy.to_string(), "-s", "v", "-i", "127.1.0.2", "-r", "50", "-l", "200"]);
    let mut caller =
        Phone::start(&world.scratch, &format!("{name}-caller"), &scenario.caller, &[asks, common].concat());
    caller.succeeds();
    callee.succeeds();
    world.until_booked(&[]);
    running.ends();
    assert!(running.said().contains("live_calls=0 live_reservations=0"), "{}", running.said());
}

#[test]
fn sipps_calls_are_set_up_reserved_for_and_ended() {
    if sipp("sipps_calls_are_set_up").is_none() {
        return;
    }
    let world = World::new("sipp-udp", "6 Mbit/s");
    calls(&world, "basic", &basic(), "u1", "", 100);
    calls(&world, "cancelled", &cancelled(), "u1", "", 20);
    calls(&world, "reliable", &reliable(), "u1", "", 20);
}

#[test]
fn sipps_calls_come_over_connections() {
    let Some(version) = sipp("sipps_calls_come_over_connections") else { return };
    let world = World::new("sipp-tcp", "6 Mbit/s");
    calls(&world, "tcp", &basic(), "t1", "", 50);
    if !version.contains("TLS") {
        return skip("sipps_calls_come_over_connections", "sipp-tls", "this sipp was built without TLS");
    }
    let dir = world.scratch.0.to_str().unwrap();
    assert_eq!(perhop(&["pki", "init", dir]).code, Some(0));
    let hosts = ["--host", "127.0.0.1", "--host", "127.2.0.2"];
    let issued = perhop(&[&["pki", "issue", "proxy"], &hosts[..], &["--dir", dir]].concat());
    assert_eq!(issued.code, Some(0), "{}", issued.err);
    let tls = format!(
        "[tls]\ncertificate = \"{dir}/proxy.pem\"\nkey = \"{dir}/proxy.key\"\nauthority = \"{dir}/authority.pem\"\n"
    );
    calls(&world, "tls", &basic(), "l1", &tls, 20);
}
