//! Phones: a caller's and a callee's socket, and calls between them at a constant rate.

use super::process::CALLEE;
use crate::error::BenchError;
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// After the last call was begun: how long its end may take.
const REST: Duration = Duration::from_secs(3);
/// Octets that the kernel is asked to keep of each socket.
const KEPT: usize = 8 << 20;

/// What is to be done.
pub(super) struct Load {
    /// Calls that are begun in a second.
    pub(super) rate: u32,
    pub(super) time: Duration,
    /// Whether calls end.
    pub(super) ends: bool,
}

/// What became of it.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) begun: u64,
    /// Calls that came to where they were to.
    pub(super) done: u64,
    /// Messages that came again.
    pub(super) repeated: u64,
    /// How long messages were on their way, ns.
    ways: Vec<u64>,
}

impl Outcome {
    /// So much of all messages were on their way for no longer than this, ns.
    pub(super) fn added(&self, part: f64) -> f64 {
        let mut sorted = self.ways.clone();
        sorted.sort_unstable();
        let at = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(at).map_or(0.0, |ns| *ns as f64)
    }
}

/// A message as it came.
struct Came {
    text: String,
    at: Instant,
    by_caller: bool,
}

impl Load {
    /// Has them be, through the proxy at `address`.
    pub(super) fn run(&self, address: SocketAddr) -> Result<Outcome, BenchError> {
        let bind = |at: &str| -> Result<UdpSocket, BenchError> {
            let socket = UdpSocket::bind(at).map_err(|source| BenchError::Environment {
                what: format!("a phone at {at}"),
                why: format!("{source}; end what listens there"),
            })?;
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, KEPT);
            socket.set_read_timeout(Some(Duration::from_millis(200)))?;
            socket.connect(address)?;
            Ok(socket)
        };
        let (caller, callee) = (bind("127.0.0.2:0")?, bind(CALLEE)?);
        let (tell, came) = mpsc::channel();
        let end = Instant::now() + self.time + REST;
        std::thread::scope(|scope| {
            for (socket, by_caller) in [(&caller, true), (&callee, false)] {
                let tell = tell.clone();
                scope.spawn(move || {
                    let mut room = [0; 8_192];
                    while Instant::now() < end {
                        let Ok(length) = socket.recv(&mut room) else { continue };
                        let text = String::from_utf8_lossy(&room[..length]).into_owned();
                        if tell.send(Came { text, at: Instant::now(), by_caller }).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(tell);
            let mut phones = Phones {
                caller: &caller,
                callee: &callee,
                own: caller.local_addr()?,
                ends: self.ends,
                sent: HashMap::new(),
                outcome: Outcome::default(),
            };
            phones.run(self, &came, end)?;
            Ok(phones.outcome)
        })
    }
}

struct Phones<'a> {
    caller: &'a UdpSocket,
    callee: &'a UdpSocket,
    own: SocketAddr,
    ends: bool,
    /// When a message of a call was sent.
    sent: HashMap<(u64, &'static str), Instant>,
    outcome: Outcome,
}

impl Phones<'_> {
    fn run(&mut self, load: &Load, came: &mpsc::Receiver<Came>, end: Instant) -> Result<(), BenchError> {
        let begin = Instant::now();
        let all = (load.time.as_secs_f64() * f64::from(load.rate)) as u64;
        loop {
            let due = begin + Duration::from_secs_f64(self.outcome.begun as f64 / f64::from(load.rate));
            let now = Instant::now();
            if self.outcome.begun < all && now >= due {
                self.invite(self.outcome.begun)?;
                self.outcome.begun += 1;
                continue;
            }
            let is_over = self.outcome.begun == all && (now >= end || self.outcome.done == all);
            if is_over {
                return Ok(());
            }
            let wait = if self.outcome.begun < all { due - now } else { Duration::from_millis(50) };
            if let Ok(message) = came.recv_timeout(wait) {
                self.came(&message)?;
            }
        }
    }

    fn invite(&mut self, call: u64) -> Result<(), BenchError> {
        let own = self.own;
        let body = sdp(own);
        let text = format!(
            "INVITE sip:v@bench.example SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKi{call};rport\r\nMax-Forwards: 70\r\n\
             From: \"Caller\" <sip:u@bench.example>;tag=u{call}\r\nTo: <sip:v@bench.example>\r\nCall-ID: {call}@bench\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:u@{own}>\r\nUser-Agent: perhop bench\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.sent.insert((call, "INVITE"), Instant::now());
        self.caller.send(text.as_bytes())?;
        Ok(())
    }

    fn came(&mut self, came: &Came) -> Result<(), BenchError> {
        let first = came.text.split("\r\n").next().unwrap_or_default();
        let call = value(&came.text, "Call-ID").and_then(|id| id.split('@').next()?.parse().ok());
        let Some(call) = call else { return Ok(()) };
        let of_bye = value(&came.text, "CSeq").is_some_and(|cseq| cseq.ends_with("BYE"));
        match (came.by_caller, first.split(' ').next().unwrap_or_default()) {
            (false, "INVITE") => {
                if !self.arrived(call, "INVITE", came.at) {
                    return Ok(());
                }
                self.callee.send(reply(&came.text, "180 Ringing", call, false).as_bytes())?;
                self.sent.insert((call, "200"), Instant::now());
                self.callee.send(reply(&came.text, "200 OK", call, true).as_bytes())?;
            }
            (false, "ACK") if !self.ends => self.outcome.done += 1,
            (false, "BYE") => {
                self.arrived(call, "BYE", came.at);
                self.callee.send(reply(&came.text, "200 OK", call, false).as_bytes())?;
            }
            (true, "SIP/2.0") if first.contains(" 200 ") && of_bye => self.outcome.done += 1,
            (true, "SIP/2.0") if first.contains(" 200 ") => {
                let is_first = self.arrived(call, "200", came.at);
                self.caller.send(self.within(&came.text, "ACK", 1, call).as_bytes())?;
                if is_first && self.ends {
                    self.sent.insert((call, "BYE"), Instant::now());
                    self.caller.send(self.within(&came.text, "BYE", 2, call).as_bytes())?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes how long a message was on its way. `false`: it has come before.
    fn arrived(&mut self, call: u64, what: &'static str, at: Instant) -> bool {
        let Some(sent) = self.sent.remove(&(call, what)) else {
            self.outcome.repeated += 1;
            return false;
        };
        self.outcome
            .ways
            .push(u64::try_from(at.saturating_duration_since(sent).as_nanos()).unwrap_or(u64::MAX));
        true
    }

    fn within(&self, answer: &str, method: &str, cseq: u32, call: u64) -> String {
        let own = self.own;
        let mut routes: Vec<&str> = values(answer, "Record-Route").collect();
        routes.reverse();
        let routes: String = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
        let of = |name| value(answer, name).unwrap_or_default();
        let (from, to, id) = (of("From"), of("To"), of("Call-ID"));
        format!(
            "{method} sip:v@{CALLEE} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{method}{call};rport\r\nMax-Forwards: 70\r\n{routes}\
             From: {from}\r\nTo: {to}\r\nCall-ID: {id}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
        )
    }
}

fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    head.split("\r\n").filter_map(move |line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

fn value<'a>(text: &'a str, name: &'a str) -> Option<&'a str> {
    values(text, name).next()
}

fn reply(request: &str, status: &str, call: u64, answers: bool) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for name in ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"] {
        for value in values(request, name) {
            let is_new = name == "To" && !value.contains(";tag=");
            let tag = if is_new { format!(";tag=v{call}") } else { String::new() };
            text += &format!("{name}: {value}{tag}\r\n");
        }
    }
    let body = if answers { CALLEE.parse().map(sdp).unwrap_or_default() } else { String::new() };
    let kind = if answers { "Content-Type: application/sdp\r\n" } else { "" };
    text + &format!("Contact: <sip:v@{CALLEE}>\r\n{kind}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn sdp(address: SocketAddr) -> String {
    let ip = address.ip();
    format!(
        "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0 8 18 101\r\n\
         a=rtpmap:101 telephone-event/8000\r\na=ptime:20\r\na=sendrecv\r\n"
    )
}
