//! Calls as such: one proxy that reserves nothing.

use super::phone::{Message, Phone};
use super::{Proxy, free, listen};
use crate::Scratch;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// A proxy, and a phone of its domain that others call.
fn plain(test: &str, more: impl Fn(SocketAddr) -> String) -> (Scratch, Proxy, Phone) {
    let scratch = Scratch::new(test);
    let address = free("127.0.0.1");
    let bob = Phone::udp("bob", "127.2.0.2", address);
    let text = format!(
        "{}{}[[domain]]\nname = \"a.example\"\nusers = {{ bob = \"sip:bob@{}\" }}\n{}",
        listen("udp", address),
        listen("tcp", address),
        bob.address,
        more(address)
    );
    let proxy = Proxy::start(&scratch, "proxy", address, &text);
    (scratch, proxy, bob)
}

const BOB: &str = "sip:bob@a.example";

#[test]
fn a_call_goes_through_a_proxy_from_its_beginning_to_its_end() {
    let (_scratch, mut proxy, mut bob) = plain("sip-basic", |_| String::new());
    let mut alice = Phone::udp("alice", "127.1.0.2", proxy.address);
    // A stranger's header is not for phones.
    let sent =
        alice.invite(BOB, "QoS-Proxy: er=west;realm=a;mode=uni;dir=send\r\nX-Unknown: kept as it is\r\n");
    assert_eq!(alice.receive().what(), "100");
    let invite = bob.expect("INVITE");
    assert!(!invite.has("QoS-Proxy"), "{}", invite.0);
    assert_eq!(invite.one("X-Unknown"), "kept as it is");
    assert_eq!((invite.one("Max-Forwards"), invite.all("Via").len()), ("69", 2));
    assert_eq!((invite.uri(), invite.body()), (&*format!("sip:bob@{}", bob.address), sent.body()));
    bob.reply(&invite, "180 Ringing", false);
    assert_eq!(alice.receive().what(), "180");
    bob.reply(&invite, "200 OK", true);
    let answer = alice.expect("200");
    assert_eq!(answer.all("Via").len(), 1, "{}", answer.0);
    let mut call = alice.dialog(&answer);
    alice.within(&mut call, "ACK", false);
    let ack = bob.expect("ACK");
    assert!(!ack.has("Route"), "{}", ack.0);
    // Both ends may go on with it.
    let mut of_bob = bob.answered(&invite);
    bob.within(&mut of_bob, "OPTIONS", false);
    let options = alice.expect("OPTIONS");
    alice.reply(&options, "200 OK", false);
    bob.expect("200");
    alice.within(&mut call, "BYE", false);
    let bye = bob.expect("BYE");
    bob.reply(&bye, "200 OK", false);
    alice.expect("200");
    proxy.ends();
    assert!(proxy.said().contains("live_calls=0"), "{}", proxy.said());
}

#[test]
fn what_comes_again_is_answered_again_and_passed_on_once() {
    let (_scratch, proxy, mut bob) = plain("sip-again", |_| String::new());
    let mut alice = Phone::udp("alice", "127.1.0.2", proxy.address);
    let sent = alice.invite(BOB, "");
    assert_eq!(alice.receive().what(), "100");
    let invite = bob.expect("INVITE");
    bob.reply(&invite, "180 Ringing", false);
    assert_eq!(alice.receive().what(), "180");
    for _ in 0..3 {
        alice.send(&sent.0);
        assert_eq!(alice.receive().what(), "180");
    }
    bob.reply(&invite, "486 Busy Here", false);
    bob.expect("ACK");
    let busy = alice.expect("486");
    assert!(busy.one("To").contains(";tag=bob"));
    // Nobody has acknowledged it yet.
    assert_eq!(alice.receive().what(), "486", "it comes again");
    let ack = sent
        .0
        .replace("INVITE", "ACK")
        .replace("To: <sip:bob@a.example>", &format!("To: {}", busy.one("To")));
    alice.send(&ack);
    assert!(bob.is_left_alone(Duration::from_millis(300)));
}

#[test]
fn a_call_that_rings_can_be_given_up() {
    let (_scratch, proxy, mut bob) = plain("sip-cancel", |_| String::new());
    let mut alice = Phone::udp("alice", "127.1.0.2", proxy.address);
    let sent = alice.invite(BOB, "");
    let invite = bob.expect("INVITE");
    bob.reply(&invite, "180 Ringing", false);
    alice.expect("180");
    let head = sent.0.split("Content-Type").next().unwrap();
    alice.send(&format!("{}Content-Length: 0\r\n\r\n", head.replace("INVITE", "CANCEL")));
    alice.expect("200");
    let cancel = bob.expect("CANCEL");
    assert_eq!(cancel.one("CSeq"), "1 CANCEL");
    bob.reply(&cancel, "200 OK", false);
    bob.reply(&invite, "487 Request Terminated", false);
    bob.expect("ACK");
    alice.expect("487");
}

#[test]
fn a_proxy_says_itself_what_cannot_be_passed_on() {
    let (_scratch, proxy, mut bob) = plain("sip-refused", |_| String::new());
    let mut alice = Phone::udp("alice", "127.1.0.2", proxy.address);
    for (from, to, status) in [
        ("Max-Forwards: 70", "Max-Forwards: 0", "483"),
        ("bob@a.example SIP", "carol@a.example SIP", "480"),
        ("sip:bob@a.example SIP", "tel:+1 SIP", "416"),
        ("Max-Forwards: 70", "Proxy-Require: x", "420"),
        ("CSeq: 1 INVITE", "CSeq: x", "400"),
    ] {
        let text = alice.draft(BOB, "").replace(from, to);
        alice.send(&text);
        let answer = alice.expect(status);
        assert_eq!(answer.one("Call-ID"), Message(text.clone()).one("Call-ID"));
        // Whoever is answered says so, lest the answer comes again.
        alice.send(
            &text
                .replace("INVITE", "ACK")
                .replace("To: <sip:bob@a.example>", &format!("To: {}", answer.one("To"))),
        );
    }
    assert!(bob.is_left_alone(Duration::from_millis(300)));
}

#[test]
fn phones_register_through_a_proxy_and_are_found_by_the_connection_that_they_have() {
    let registrar = Phone::udp("registrar", "127.3.0.1", free("127.0.0.1"));
    let at = registrar.address;
    let zone = "[[zone]]\nprefixes = [\"127.0.0.1\"]\nside = \"phones\"\n";
    let (_scratch, proxy, _bob) = plain("sip-register", |_| {
        format!("[[domain]]\nname = \"b.example\"\nregistrar = \"sip:{at}\"\n{zone}")
    });
    let mut registrar = registrar;
    registrar.turn_to(proxy.address);
    let mut carol = Phone::tcp("carol", proxy.address);
    let address = carol.address;
    carol.send(&format!(
        "REGISTER sip:b.example SIP/2.0\r\nVia: SIP/2.0/TCP {address};branch=z9hG4bKr\r\nMax-Forwards: 70\r\nFrom: <sip:carol@b.example>;tag=1\r\n\
         To: <sip:carol@b.example>\r\nCall-ID: r\r\nCSeq: 1 REGISTER\r\nContact: <sip:carol@192.0.2.99:7>\r\nContent-Length: 0\r\n\r\n"
    ));
    let register = registrar.expect("REGISTER");
    let accepted = "Contact: <sip:carol@192.0.2.99:7>;expires=60\r\n";
    let via: String = register.all("Via").iter().map(|via| format!("Via: {via}\r\n")).collect();
    registrar.send(&format!(
        "SIP/2.0 200 OK\r\n{via}From: {}\r\nTo: {};tag=2\r\nCall-ID: r\r\nCSeq: 1 REGISTER\r\n{accepted}Content-Length: 0\r\n\r\n",
        register.one("From"),
        register.one("To")
    ));
    carol.expect("200");
    let mut alice = Phone::udp("alice", "127.1.0.2", proxy.address);
    alice.invite("sip:carol@b.example", "");
    // No other way leads to her: her contact is an address that is not hers.
    let invite = carol.expect("INVITE");
    carol.reply(&invite, "200 OK", true);
    let answer = alice.expect("200");
    let mut call = alice.dialog(&answer);
    alice.within(&mut call, "ACK", false);
    carol.expect("ACK");
    alice.within(&mut call, "BYE", false);
    let bye = carol.expect("BYE");
    carol.reply(&bye, "200 OK", false);
    alice.expect("200");
}

#[test]
fn all_phones_of_a_user_ring_and_the_first_that_answers_has_the_call() {
    let scratch = Scratch::new("sip-fork");
    let address = free("127.0.0.1");
    let mut phones = [Phone::udp("one", "127.2.0.2", address), Phone::udp("two", "127.2.0.3", address)];
    let mut registrar_phone = Phone::udp("registrar", "127.3.0.1", address);
    let text = format!(
        "{}[[domain]]\nname = \"a.example\"\nregistrar = \"sip:{}\"\n[[zone]]\nprefixes = [\"127.2.0.0/16\"]\nside = \"phones\"\n",
        listen("udp", address),
        registrar_phone.address
    );
    let _proxy = Proxy::start(&scratch, "proxy", address, &text);
    let mut contacts = String::new();
    for (number, phone) in phones.iter_mut().enumerate() {
        let at = phone.address;
        phone.send(&format!(
            "REGISTER sip:a.example SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKr{number}\r\nMax-Forwards: 70\r\nFrom: <sip:bob@a.example>;tag=1\r\n\
             To: <sip:bob@a.example>\r\nCall-ID: r{number}\r\nCSeq: 1 REGISTER\r\nContact: <sip:bob@{at}>\r\nContent-Length: 0\r\n\r\n"
        ));
        let register = registrar_phone.expect("REGISTER");
        contacts += &format!("Contact: <sip:bob@{at}>;expires=60\r\n");
        let via: String = register.all("Via").iter().map(|via| format!("Via: {via}\r\n")).collect();
        registrar_phone.send(&format!(
            "SIP/2.0 200 OK\r\n{via}From: {}\r\nTo: {};tag=2\r\nCall-ID: r{number}\r\nCSeq: 1 REGISTER\r\n{contacts}Content-Length: 0\r\n\r\n",
            register.one("From"),
            register.one("To")
        ));
        phone.expect("200");
    }
    let mut alice = Phone::udp("alice", "127.1.0.2", address);
    alice.invite("sip:bob@a.example", "");
    let [one, two] = &mut phones;
    let (first, second) = (one.expect("INVITE"), two.expect("INVITE"));
    one.reply(&first, "180 Ringing", false);
    two.reply(&second, "180 Ringing", false);
    two.reply(&second, "200 OK", true);
    let answer = alice.expect("200");
    assert!(answer.one("To").ends_with(";tag=two"), "{}", answer.0);
    let cancel = one.expect("CANCEL");
    one.reply(&cancel, "200 OK", false);
    one.reply(&first, "487 Request Terminated", false);
    one.expect("ACK");
    let mut call = alice.dialog(&answer);
    alice.within(&mut call, "ACK", false);
    two.expect("ACK");
}

#[test]
fn a_collector_is_told_every_message() {
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let at = collector.local_addr().unwrap();
    let (_scratch, proxy, mut bob) = plain("sip-hep", |_| format!("[hep]\naddress = \"{at}\"\nagent = 7\n"));
    let mut alice = Phone::tcp("alice", proxy.address);
    alice.invite(BOB, "");
    let invite = bob.expect("INVITE");
    bob.reply(&invite, "486 Busy Here", false);
    bob.expect("ACK");
    alice.expect("486");
    let mut told = Vec::new();
    while told.len() < 6 {
        let mut room = [0; 65_535];
        let length = collector.recv(&mut room).unwrap();
        assert_eq!((&room[..4], u16::from_be_bytes([room[4], room[5]])), (&b"HEP3"[..], length as u16));
        let (mut at, mut protocol, mut ports, mut text) = (6, 0, [0, 0], String::new());
        while at < length {
            let number = |at: usize| usize::from(u16::from_be_bytes([room[at], room[at + 1]]));
            let (kind, size) = (number(at + 2), number(at + 4));
            match kind {
                2 => protocol = room[at + 6],
                7 | 8 => ports[kind - 7] = number(at + 6),
                12 => assert_eq!(room[at + 6..at + 10], [0, 0, 0, 7]),
                15 => text = String::from_utf8(room[at + 6..at + size].to_vec()).unwrap(),
                _ => {}
            }
            at += size;
        }
        told.push((protocol, ports, Message(text).what().to_owned()));
    }
    let (own, a, b) = (proxy.address.port(), alice.address.port(), bob.address.port());
    let expected = [
        (6, [a, own], "INVITE"),
        (6, [own, a], "100"),
        (17, [own, b], "INVITE"),
        (17, [b, own], "486"),
        (17, [own, b], "ACK"),
        (6, [own, a], "486"),
    ];
    let expected =
        expected.map(|(protocol, ports, what)| (protocol, ports.map(usize::from), what.to_owned()));
    assert_eq!(told, expected);
}

#[test]
fn one_connection_too_many_is_closed_and_the_others_go_on() {
    let (_scratch, proxy, mut bob) =
        plain("sip-connections", |_| "[limits]\nconnections_of_address = 2\n".into());
    let mut phones = [Phone::tcp("one", proxy.address), Phone::tcp("two", proxy.address)];
    for phone in &mut phones {
        phone.invite(BOB, "");
        assert_eq!(phone.receive().what(), "100");
        bob.expect("INVITE");
    }
    let mut third = std::net::TcpStream::connect(proxy.address).unwrap();
    third.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(std::io::Read::read(&mut third, &mut [0; 10]).unwrap(), 0, "it is closed");
    let [one, _] = &mut phones;
    one.invite(BOB, "");
    assert_eq!(one.receive().what(), "100");
}

#[test]
fn one_listener_serves_phones_of_both_families() {
    let scratch = Scratch::new("sip-families");
    let port = free("::").port();
    let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), port);
    let mut bob = Phone::udp("bob", "::1", at("::1"));
    let mut alice = Phone::udp("alice", "127.1.0.2", at("127.0.0.1"));
    let text = format!(
        "{}name = \"127.0.0.1\"\n[[domain]]\nname = \"a.example\"\nusers = {{ bob = \"sip:bob@{}\" }}\n",
        listen("udp", at("::")),
        bob.address
    );
    let _proxy = Proxy::start(&scratch, "proxy", at("::"), &text);
    alice.invite(BOB, "");
    let invite = bob.expect("INVITE");
    bob.reply(&invite, "200 OK", true);
    let answer = alice.expect("200");
    let mut call = alice.dialog(&answer);
    alice.within(&mut call, "ACK", false);
    bob.expect("ACK");
    let mut of_bob = bob.answered(&invite);
    bob.within(&mut of_bob, "BYE", false);
    let bye = alice.expect("BYE");
    alice.reply(&bye, "200 OK", false);
    bob.expect("200");
}
