//! A phone that does what a test says: text of SIP over a datagram socket or a TCP connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// How long a message may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message, as it came.
#[derive(Clone, Debug)]
pub struct Message(pub String);

impl Message {
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.split("\r\n\r\n").next().unwrap().split("\r\n").skip(1)
    }

    /// The method of a request, or the status of a response.
    pub fn what(&self) -> &str {
        let first = self.0.split("\r\n").next().unwrap();
        let mut words = first.split(' ');
        match words.next().unwrap() {
            "SIP/2.0" => words.next().unwrap(),
            method => method,
        }
    }

    /// All values of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.lines()
            .filter_map(|line| line.split_once(':'))
            .filter(|(key, _)| key.trim().eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }

    /// The value of a header that must be there.
    pub fn one(&self, name: &str) -> &str {
        self.all(name).first().copied().unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }

    pub fn has(&self, name: &str) -> bool {
        !self.all(name).is_empty()
    }

    pub fn uri(&self) -> &str {
        self.0.split(' ').nth(1).unwrap()
    }

    pub fn body(&self) -> &str {
        self.0.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }
}

enum Line {
    Udp(UdpSocket, SocketAddr),
    Tcp(BufReader<TcpStream>),
}

/// A phone.
pub struct Phone {
    line: Line,
    pub name: String,
    /// Where it is reached.
    pub address: SocketAddr,
    calls: u32,
}

/// What one end of a call has to know to go on with it.
#[derive(Clone, Debug)]
pub struct Dialog {
    call_id: String,
    local: String,
    remote: String,
    target: String,
    routes: Vec<String>,
    cseq: u32,
}

/// A description of one stream of G.711, of 20 ms a packet.
pub fn sdp(address: SocketAddr) -> String {
    let ip = address.ip();
    format!(
        "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\nm=audio {} RTP/AVP 8\r\na=ptime:20\r\n",
        address.port() ^ 1
    )
}

impl Dialog {
    /// The proxies that requests go through.
    pub fn routes(&self) -> &[String] {
        &self.routes
    }
}

impl Phone {
    /// At an address of loopback, behind this proxy.
    pub fn udp(name: &str, ip: &str, proxy: SocketAddr) -> Self {
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = socket.local_addr().unwrap();
        Self { line: Line::Udp(socket, proxy), name: name.to_owned(), address, calls: 0 }
    }

    /// With a connection to this proxy.
    pub fn tcp(name: &str, proxy: SocketAddr) -> Self {
        let stream = TcpStream::connect(proxy).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = stream.local_addr().unwrap();
        Self { line: Line::Tcp(BufReader::new(stream)), name: name.to_owned(), address, calls: 0 }
    }

    /// From now on it talks to this proxy.
    pub fn turn_to(&mut self, proxy: SocketAddr) {
        if let Line::Udp(_, to) = &mut self.line {
            *to = proxy;
        }
    }

    pub fn send(&mut self, text: &str) {
        match &mut self.line {
            Line::Udp(socket, proxy) => drop(socket.send_to(text.as_bytes(), *proxy).unwrap()),
            Line::Tcp(stream) => stream.get_mut().write_all(text.as_bytes()).unwrap(),
        }
    }

    /// The next message.
    pub fn receive(&mut self) -> Message {
        match &mut self.line {
            Line::Udp(socket, _) => {
                let mut room = vec![0; 65_535];
                let length =
                    socket.recv(&mut room).unwrap_or_else(|e| panic!("{} hears nothing: {e}", self.name));
                room.truncate(length);
                Message(String::from_utf8(room).unwrap())
            }
            Line::Tcp(stream) => {
                let mut text = String::new();
                while !text.ends_with("\r\n\r\n") {
                    assert!(stream.read_line(&mut text).unwrap() > 0, "{} is cut off", self.name);
                }
                let length: usize = Message(text.clone()).one("Content-Length").parse().unwrap();
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                Message(text + &String::from_utf8(body).unwrap())
            }
        }
    }

    /// The next message that is this, past provisional responses and repetitions of what was expected before.
    pub fn expect(&mut self, what: &str) -> Message {
        loop {
            let message = self.receive();
            let found = message.what();
            if found == what {
                return message;
            }
            let is_provisional = found.starts_with('1');
            assert!(is_provisional, "{} expects {what}: {}", self.name, message.0);
        }
    }

    /// Whether nothing comes for a while.
    pub fn is_left_alone(&mut self, time: Duration) -> bool {
        let Line::Udp(socket, _) = &self.line else { panic!("only by datagrams") };
        socket.set_read_timeout(Some(time)).unwrap();
        let heard = socket.recv(&mut [0; 65_535]);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        heard.is_err()
    }

    fn via(&self, branch: &str) -> String {
        let how = if matches!(self.line, Line::Udp(..)) { "UDP" } else { "TCP" };
        format!("Via: SIP/2.0/{how} {};branch=z9hG4bK{branch}{};rport\r\n", self.address, self.calls)
    }

    fn contact(&self) -> String {
        let how = if matches!(self.line, Line::Udp(..)) { "" } else { ";transport=tcp" };
        format!("Contact: <sip:{}@{}{how}>\r\n", self.name, self.address)
    }

    /// An INVITE of a new call.
    pub fn invite(&mut self, uri: &str, more: &str) -> Message {
        let text = self.draft(uri, more);
        self.send(&text);
        Message(text)
    }

    /// One that is not sent yet.
    pub fn draft(&mut self, uri: &str, more: &str) -> String {
        self.calls += 1;
        let (name, address, number) = (&self.name, self.address, self.calls);
        let via = self.via("i");
        let contact = self.contact();
        let body = sdp(address);
        format!(
            "INVITE {uri} SIP/2.0\r\n{via}Max-Forwards: 70\r\nFrom: <sip:{name}@a.example>;tag={name}{number}\r\nTo: <{uri}>\r\n\
             Call-ID: {number}-{name}@{address}\r\nCSeq: 1 INVITE\r\n{contact}{more}Content-Type: application/sdp\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// A response; with `answer` it has a description.
    pub fn reply(&mut self, request: &Message, status: &str, answer: bool) {
        let mut text = format!("SIP/2.0 {status}\r\n");
        for name in ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"] {
            for value in request.all(name) {
                let tag = if name == "To" && !value.contains(";tag=") && status != "100 Trying" {
                    format!(";tag={}", self.name)
                } else {
                    String::new()
                };
                text += &format!("{name}: {value}{tag}\r\n");
            }
        }
        let body = if answer { sdp(self.address) } else { String::new() };
        let kind = if answer { "Content-Type: application/sdp\r\n" } else { "" };
        text += &format!("{}{kind}Content-Length: {}\r\n\r\n{body}", self.contact(), body.len());
        self.send(&text);
    }

    /// The caller's dialog of a response to its INVITE.
    pub fn dialog(&self, response: &Message) -> Dialog {
        let mut routes: Vec<String> = response.all("Record-Route").iter().map(|r| (*r).to_owned()).collect();
        routes.reverse();
        Dialog {
            call_id: response.one("Call-ID").to_owned(),
            local: response.one("From").to_owned(),
            remote: response.one("To").to_owned(),
            target: target(response),
            routes,
            cseq: 1,
        }
    }

    /// The callee's dialog of an INVITE that it has answered.
    pub fn answered(&self, invite: &Message) -> Dialog {
        Dialog {
            call_id: invite.one("Call-ID").to_owned(),
            local: format!("{};tag={}", invite.one("To"), self.name),
            remote: invite.one("From").to_owned(),
            target: target(invite),
            routes: invite.all("Record-Route").iter().map(|r| (*r).to_owned()).collect(),
            cseq: 100,
        }
    }

    /// A request within a call.
    pub fn within(&mut self, dialog: &mut Dialog, method: &str, offer: bool) {
        if method != "ACK" {
            dialog.cseq += 1;
        }
        self.calls += 1;
        let via = self.via(method);
        let routes: String = dialog.routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
        let Dialog { call_id, local, remote, target, cseq, .. } = &*dialog;
        let body = if offer { sdp(self.address) } else { String::new() };
        let kind = if offer { "Content-Type: application/sdp\r\n" } else { "" };
        let text = format!(
            "{method} {target} SIP/2.0\r\n{via}Max-Forwards: 70\r\n{routes}From: {local}\r\nTo: {remote}\r\nCall-ID: {call_id}\r\n\
             CSeq: {cseq} {method}\r\n{}{kind}Content-Length: {}\r\n\r\n{body}",
            self.contact(),
            body.len()
        );
        self.send(&text);
    }
}

fn target(message: &Message) -> String {
    let contact = message.one("Contact");
    contact.trim_start_matches('<').split('>').next().unwrap().to_owned()
}
