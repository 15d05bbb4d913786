//! What proxies send, as another program reads it: tshark must find nothing malformed and the same in each message as we do.

use super::*;
use crate::message::NameAddr;
use crate::testing::phone::Manners;
use crate::testing::world::{PLAIN, World, at, settings};
use perhop_units::Duration;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

/// A capture file of datagrams over IPv4 without a link layer (LINKTYPE_RAW, 101).
fn pcap(datagrams: &[(Instant, SocketAddr, SocketAddr, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        out.extend(word.to_le_bytes());
    }
    for (at, from, to, payload) in datagrams {
        let (udp, total) = (8 + payload.len(), 28 + payload.len());
        for word in
            [(at.0 / 1_000_000_000) as u32, (at.0 % 1_000_000_000 / 1_000) as u32, total as u32, total as u32]
        {
            out.extend(word.to_le_bytes());
        }
        out.extend([0x45, 0]);
        out.extend((total as u16).to_be_bytes());
        out.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        for address in [from, to] {
            let IpAddr::V4(address) = address.ip() else { panic!("IPv4 only") };
            out.extend(address.octets());
        }
        for word in [from.port(), to.port(), udp as u16, 0] {
            out.extend(word.to_be_bytes());
        }
        out.extend(payload);
    }
    out
}

/// The fields of each frame as tshark reads them, or `None` with a word where it is not there.
fn tshark(test: &str, capture: &[u8], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED {test}: tshark is not installed");
        let required =
            std::env::var("PERHOP_REQUIRE").is_ok_and(|l| l.split(',').any(|item| item == "tshark"));
        assert!(!required, "{test} is required by PERHOP_REQUIRE but tshark is not there");
        return None;
    }
    let path = std::env::temp_dir().join(format!("perhop-sip-{}-{test}.pcap", std::process::id()));
    std::fs::write(&path, capture).expect("a temporary file");
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(&path).args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let out = command.output().expect("it runs");
    let _ = std::fs::remove_file(&path);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Some(text.lines().map(|line| line.split('|').map(str::to_string).collect()).collect())
}

#[test]
fn tshark_finds_nothing_malformed_and_reads_the_same() {
    let mut world = World::new(|mut settings| {
        settings.early = true;
        settings.on_refusal = OnRefusal::Refuse(580);
        settings
    });
    let users = vec![("u1".to_string(), "sip:u1@b.example;maddr=10.2.0.254".to_string())];
    let plain = crate::proxy::Proxy::new(settings(PLAIN, "b", users), NoQuality);
    world.add(at(PLAIN), "px", crate::testing::world::Node::Plain(Box::new(plain)));
    world.bob().manners =
        Manners { expires: Some(90), ring: Some((Duration::from_millis(50), true)), ..Manners::default() };
    let number = world.call();
    world.run(Duration::from_secs(5));
    let now = world.now;
    world.alice().invite(now, number, true);
    world.run(Duration::from_secs(5));
    let now = world.now;
    world.alice().hang_up(now, number);
    world.run(Duration::from_secs(5));
    let number = world.call();
    world.run(Duration::from_millis(500));
    let now = world.now;
    world.alice().cancel(now, number);
    world.run(Duration::from_secs(40));
    // Refused, with ACK and BYE of the proxy's own.
    world.agents.get_mut("er-a").expect("there").capacity = 0;
    world.call();
    world.run(Duration::from_secs(40));
    let capture = std::mem::take(&mut world.capture);
    assert!(capture.len() > 60);
    let fields = [
        "sip.Method",
        "sip.Status-Code",
        "sip.CSeq.seq",
        "sip.from.tag",
        "sip.to.tag",
        "sip.Call-ID",
        "sip.Via.branch",
        "sip.Content-Length",
        "_ws.malformed",
        "_ws.expert.severity",
    ];
    let Some(frames) = tshark("calls", &pcap(&capture), &fields) else { return };
    assert_eq!(frames.len(), capture.len());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for (frame, (.., bytes)) in frames.iter().zip(&capture) {
        let message = Message::datagram(bytes).expect("a message");
        let head = message.check().expect("a valid one");
        let tag = |value: NameAddr<'_>| value.tag().map(text).unwrap_or_default();
        let ours = [
            if message.is_request() { text(head.method_text) } else { String::new() },
            message.status().map(|s| s.to_string()).unwrap_or_default(),
            head.cseq.to_string(),
            tag(head.from),
            tag(head.to),
            text(head.call_id),
            head.via.branch().map(text).unwrap_or_default(),
            message.body().len().to_string(),
            String::new(),
        ];
        assert_eq!(frame[..9], ours, "{}", text(bytes));
        // Severities: 0x200000 a comment, 0x400000 a note, 0x600000 a warning, 0x800000 an error.
        let severity: u32 = frame.get(9).and_then(|s| s.parse().ok()).unwrap_or(0);
        assert!(severity < 0x80_0000, "an error to tshark: {}", text(bytes));
    }
}
