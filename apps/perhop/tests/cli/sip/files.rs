//! Files of proxies.

use crate::{Scratch, perhop};

#[test]
fn the_example_is_good() {
    let ended = perhop(&["sip-proxy", "check", "examples/sip-proxy/sip-proxy.toml", "examples/sip-proxy"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(
        ended.out.lines().filter(|line| line.contains(": good, 2 listeners")).count(),
        2,
        "{}",
        ended.out
    );
}

const GOOD: &str = "[[listen]]\ntransport = \"udp\"\naddress = \"127.0.0.1:5060\"\n";

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place_all_at_once() {
    let scratch = Scratch::new("sip-files");
    for (text, what) in [
        ("", "listen is missing"),
        (
            "[[listen]]\naddress = \"0.0.0.0:5060\"\ntransport = \"udp\"",
            "nobody would know which to answer to",
        ),
        ("[[listen]]\naddress = \"127.0.0.1:5061\"\ntransport = \"tls\"", "without a certificate"),
        ("GOOD[[listen]]\ntransport = \"udp\"\naddress = \"127.0.0.1:5062\"", "has a listener already"),
        ("GOOD[[listen]]\ntransport = \"sctp\"\naddress = \"127.0.0.1:5062\"", "is not known here"),
        ("GOOD[[zone]]\nprefixes = [\"10.0.0.1/8\"]\nside = \"phones\"", "bits beyond its length"),
        ("GOOD[[zone]]\nprefixes = [\"10.0.0.0/8\"]\nside = \"phone\"", "did you mean \"phones\"?"),
        ("GOOD[[domain]]\nname = \"a.example\"\nusers = { bob = \"bob\" }", "is no SIP URI"),
        (
            "GOOD[[edge]]\nname = \"a b\"\nprefixes = [\"10.0.0.0/8\"]",
            "cannot be written into a header of SIP",
        ),
        ("GOOD[reserve]\nby = \"http\"\nclass = \"voice\"", "controller is missing"),
        (
            "GOOD[reserve]\nby = \"cops\"\nclass = \"voice\"\nservers = [\"127.0.0.1:3288\"]",
            "client is missing",
        ),
        ("GOOD[reserve]\nby = \"none\"\nclass = \"voice\"\nedge = \"west\"", "is no [[edge]] of this file"),
        ("GOOD[reserve]\nby = \"none\"\nclass = \"voice\"\nlifetime = \"1 s\"", "out of range"),
        ("GOOD[reserve]\nby = \"none\"\nclass = \"voice\"\non_refusal = \"486\"", "488"),
        ("GOOD[reserve]\nby = \"none\"\nclass = \"voice\"\npriorities = { x = 256 }", "is no priority"),
        ("GOOD[[rule]]\ncaller = \"bob\"\nreserve = true", "is nobody"),
        ("GOOD[[codec]]\nname = \"x\"\nframe_size = 10", "frame is missing"),
        ("GOOD[limits]\nidle = \"1 s\"", "out of range"),
        ("GOOD[records]", "file is missing"),
        ("GOOD[hep]\naddress = \"homer\"", "is not an address with a port"),
        ("GOOD[recrods]", "did you mean \"records\"?"),
    ] {
        let file = scratch.file("sip-proxy.toml", &text.replace("GOOD", GOOD));
        let ended = perhop(&["sip-proxy", "check", &file]);
        assert_eq!(ended.code, Some(2), "{text}: {}{}", ended.out, ended.err);
        assert!(ended.err.contains(what) && ended.err.contains(&format!("{file}:")), "{text}: {}", ended.err);
        assert!(ended.err.contains("1 error\n"), "{text}: {}", ended.err);
        assert_eq!(perhop(&["sip-proxy", "run", &file]).code, Some(2), "{text}");
    }
}

#[test]
fn an_address_that_is_taken_is_said() {
    let scratch = Scratch::new("sip-taken");
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let file = scratch.file("sip-proxy.toml", &super::listen("udp", address));
    let ended = perhop(&["sip-proxy", "run", &file]);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    assert!(
        ended.err.contains(&format!("UDP {address}")) && ended.err.contains("[[listen]]"),
        "{}",
        ended.err
    );
}
