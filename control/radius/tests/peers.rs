//! FreeRADIUS's radclient asks our server, and our client asks a server made with pyrad: both over real datagrams.
//!
//! Where one of them is not there its test says so and skips; with `radius` in `PERHOP_REQUIRE` a skip is a failure.

#[cfg(test)]
mod live {
    #![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests with real sockets")]

    use perhop_radius::{
        Act, Answer, Authorization, Change, Client, ClientInput, ClientOutput, Code, ErrorCause, Input, Nas,
        Output, Patience, Request, Secret, Server, Settings, Status, Verdict,
    };
    use perhop_units::{Instant, Rate};
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::net::{IpAddr, Ipv4Addr, UdpSocket};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    fn skip(name: &str, why: &str) {
        let required =
            std::env::var("PERHOP_REQUIRE").is_ok_and(|list| list.split(',').any(|item| item == "radius"));
        assert!(!required, "{name} is required by PERHOP_REQUIRE but cannot run: {why}");
        eprintln!("SKIPPED {name}: {why}");
    }

    fn unix() -> u64 {
        std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs()
    }

    fn known() -> BTreeMap<IpAddr, Nas> {
        let secret = Secret::new(b"testing123").expect("a secret");
        let nas = Nas { name: "peer".into(), secret, proven: false };
        [(Ipv4Addr::LOCALHOST.into(), nas)].into()
    }

    fn socket() -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of the loopback");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        socket
    }

    /// Asks `server` with radclient; what it says, and what the server was asked.
    fn radclient(kind: &str, attributes: &str, answer: Answer) -> Option<(String, Vec<Request>)> {
        let socket = socket();
        let to = socket.local_addr().expect("it is bound").to_string();
        let spawned = Command::new("radclient")
            .args(["-x", "-r", "1", "-t", "15", &to, kind, "testing123"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            skip(kind, "there is no radclient");
            return None;
        };
        child.stdin.take().expect("piped").write_all(attributes.as_bytes()).expect("it reads");
        let codes = [Code::AccountingRequest, Code::CoaRequest, Code::DisconnectRequest];
        let mut server = Server::new(Settings { known: known(), ..Settings::new(&codes, unix()) });
        let mut datagram = [0; 4096];
        let (octets, from) = socket.recv_from(&mut datagram).expect("radclient sends");
        server.handle_input(Instant(0), Input::Datagram { from, bytes: datagram[..octets].to_vec() });
        let mut asked = Vec::new();
        while let Some(output) = server.poll_output() {
            match output {
                Output::Ask { ticket, request, .. } => {
                    asked.push(request);
                    server.handle_input(Instant(0), Input::Answer { ticket, answer });
                }
                Output::Send { to, bytes } => drop(socket.send_to(&bytes, to).expect("sent")),
                Output::Dropped { why, .. } => panic!("{why}"),
            }
        }
        let said = child.wait_with_output().expect("it ends");
        Some((String::from_utf8_lossy(&said.stdout).into_owned(), asked))
    }

    #[test]
    fn radclient_has_its_accounting_taken() {
        for proof in ["", "Message-Authenticator = 0x00\n"] {
            let attributes = format!(
                "Acct-Status-Type = Start\nAcct-Session-Id = \"a1\"\nUser-Name = \"ann\"\nNAS-Identifier = \"edge\"\n\
             Framed-IP-Address = 10.0.0.7\nFilter-Id = \"gold\"\nWISPr-Bandwidth-Max-Up = 64000\n\
             Mikrotik-Rate-Limit = \"1M/2M\"\nEvent-Timestamp = {}\n{proof}",
                unix()
            );
            let Some((said, asked)) = radclient("acct", &attributes, Answer::Done) else { return };
            assert!(said.contains("Received Accounting-Response"), "{said}");
            let [Request::Account(record)] = &asked[..] else { panic!("{asked:?}") };
            assert_eq!((record.status, record.session.as_str()), (Status::Start, "a1"));
            assert_eq!(record.address, Some("10.0.0.7".parse().expect("an address")));
            let authorization = Authorization {
                sla: Some("gold".into()),
                up: Some(Rate::from_kbit(64)),
                down: Some(Rate::from_mbit(2)),
            };
            assert_eq!(record.authorization, authorization);
        }
    }

    #[test]
    fn radclient_is_told_of_changes_done_and_refused() {
        let attributes = "User-Name = \"ann\"\nFilter-Id = \"gold\"\nMessage-Authenticator = 0x00\n";
        let Some((said, asked)) = radclient("coa", attributes, Answer::Done) else { return };
        assert!(said.contains("Received CoA-ACK"), "{said}");
        assert!(matches!(&asked[..], [Request::Change(_)]));
        let refused = Answer::Refused(ErrorCause::SessionContextNotFound);
        let Some((said, _)) = radclient("disconnect", attributes, refused) else { return };
        assert!(said.contains("Received Disconnect-NAK"), "{said}");
        assert!(said.contains("Session-Context-Not-Found"), "{said}");
    }

    /// A server that says ACK to a change with the rates that it prints, and NAK to the end of a session.
    const PYRAD: &str = r#"
import sys
from pyrad import dictionary, packet, server
class Nas(server.Server):
    def HandleCoaPacket(self, pkt):
        assert pkt.VerifyCoARequest()
        print(pkt["User-Name"][0], pkt["Filter-Id"][0], pkt["WISPr-Bandwidth-Max-Down"][0], flush=True)
        reply = self.CreateReplyPacket(pkt)
        reply.code = packet.CoAACK
        self.SendReplyPacket(pkt.fd, reply)
    def HandleDisconnectPacket(self, pkt):
        reply = self.CreateReplyPacket(pkt, **{"Error-Cause": 503})
        reply.code = packet.DisconnectNAK
        self.SendReplyPacket(pkt.fd, reply)
nas = Nas(dict=dictionary.Dictionary(sys.argv[1]), coaport=int(sys.argv[2]), coa_enabled=True,
          authport=0, acctport=0)
nas.hosts["127.0.0.1"] = server.RemoteHost("127.0.0.1", b"testing123", "peer")
nas.BindToAddress("127.0.0.1")
print("ready", flush=True)
nas.Run()
"#;

    const DICTIONARY: &str = "ATTRIBUTE User-Name 1 string\nATTRIBUTE Filter-Id 11 string\nATTRIBUTE Event-Timestamp 55 integer\n\
    ATTRIBUTE Message-Authenticator 80 octets\nATTRIBUTE Error-Cause 101 integer\nVENDOR WISPr 14122\nBEGIN-VENDOR WISPr\n\
    ATTRIBUTE WISPr-Bandwidth-Max-Up 7 integer\nATTRIBUTE WISPr-Bandwidth-Max-Down 8 integer\nEND-VENDOR WISPr\n\
    VENDOR Mikrotik 14988\nBEGIN-VENDOR Mikrotik\nATTRIBUTE Mikrotik-Rate-Limit 8 string\nEND-VENDOR Mikrotik\n";

    /// Ends with its test.
    struct Running(Child, PathBuf);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
            let _ = std::fs::remove_file(&self.1);
        }
    }

    #[test]
    fn pyrad_takes_our_changes() {
        use std::io::{BufRead, BufReader};
        let name = "pyrad_takes_our_changes";
        let dictionary = std::env::temp_dir().join(format!("perhop-radius-{}", std::process::id()));
        std::fs::write(&dictionary, DICTIONARY).expect("a temporary file");
        let socket = socket();
        let port = self::socket().local_addr().expect("it is bound").port();
        let spawned = Command::new("/usr/bin/python3")
            .args(["-c", PYRAD, &dictionary.to_string_lossy(), &port.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn();
        let Ok(child) = spawned else {
            return skip(name, "there is no /usr/bin/python3");
        };
        let mut running = Running(child, dictionary);
        let mut lines = BufReader::new(running.0.stdout.take().expect("piped")).lines();
        if !lines.next().is_some_and(|line| line.is_ok_and(|line| line == "ready")) {
            return skip(name, "there is no pyrad");
        }
        let to = (Ipv4Addr::LOCALHOST, port).into();
        let mut client = Client::new(known(), Patience::default(), unix(), 1);
        let authorization = Authorization {
            sla: Some("gold".into()),
            up: Some(Rate::from_mbit(1)),
            down: Some(Rate::from_mbit(3)),
        };
        let change = |act| Box::new(Change { user: Some("ann".into()), session: None, address: None, act });
        let changes = [
            (
                change(Act::Authorize { authorization, session_timeout: None, idle_timeout: None }),
                Verdict::Done,
            ),
            (change(Act::Disconnect), Verdict::Refused(Some(503))),
        ];
        for (ticket, (change, wanted)) in (0u64..).zip(changes) {
            client.handle_input(Instant(0), ClientInput::Ask { ticket, to, change });
            let verdict = loop {
                match client.poll_output() {
                    Some(ClientOutput::Send { to, bytes }) => drop(socket.send_to(&bytes, to).expect("sent")),
                    Some(ClientOutput::Done { verdict, .. }) => break verdict,
                    None => {
                        let mut datagram = [0; 4096];
                        let (octets, from) = socket.recv_from(&mut datagram).expect("pyrad answers");
                        let bytes = datagram[..octets].to_vec();
                        client.handle_input(Instant(0), ClientInput::Datagram { from, bytes });
                        assert_eq!(client.forged(), 0);
                    }
                }
            };
            assert_eq!(verdict, wanted);
        }
        assert_eq!(lines.next().expect("a line").expect("text"), "ann gold 3000000");
    }
}
