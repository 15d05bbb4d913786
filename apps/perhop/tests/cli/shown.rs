//! What is shown of traffic that passes a router.

use super::router::{FILE, World};
use serde_json::json;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Packet `number` of a call in G.711, 20 ms of speech.
fn rtp(number: u16, ssrc: u32) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend(number.to_be_bytes());
    packet.extend((u32::from(number) * 160).to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.resize(12 + 160, 0xd5);
    packet
}

/// Speaks on all sockets, a packet of each every 20 ms, until `heard` says that it is enough.
fn speak_until(sockets: &[UdpSocket], mut heard: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    for number in 0_u16.. {
        for (ssrc, socket) in (0x5000_u32..).zip(sockets) {
            socket.send_to(&rtp(number, ssrc), "10.1.0.2:4000").unwrap();
        }
        if number % 25 == 24 && heard() {
            return;
        }
        assert!(Instant::now() < end, "nothing of it is shown");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn of_two_calls_with_room_for_one_the_second_is_refused_and_all_say_why() {
    let Some(world) = World::new("refused") else { return };
    let [from, to] = world.hosts();
    let _heard = to.bind(4000);
    world.with_file(&FILE.replace("5 Mbit/s", "150 kbit/s"));
    let _running = world.start();
    let first = [from.bind(5000)];
    speak_until(&first, || world.rows("calls").iter().any(|row| row["facts"]["admission"] == "admitted"));
    let second = [from.bind(5002)];
    let both = [&first[0], &second[0]].map(|socket| socket.try_clone().unwrap());
    let refused = || world.rows("events").into_iter().find(|row| row["name"] == "flow_refused");
    speak_until(&both, || refused().is_some());
    let what = refused().unwrap()["facts"]["what"].as_str().unwrap().to_owned();
    let flow = "udp 10.0.0.2:5002>10.1.0.2:4000";
    for part in [&format!("flow={flow}"), "class=ef", "port=wan", "cap_bps=150000", "locked=false"] {
        assert!(what.contains(part), "{part} in {what}");
    }
    let mut events = world.http().events("/v1/events?after=0", "");
    let event = std::iter::from_fn(|| Some(events.next())).find(|event| event["type"] == "flow_refused");
    let event = event.unwrap();
    let told = ["flow", "class", "port", "cap_bps", "locked"].map(|field| event[field].clone());
    assert_eq!(told, [json!(flow), json!("ef"), json!("wan"), json!(150_000), json!(false)]);
    // The first call has what G.711 sends, 80 kbit/s, and what that leaves is less than it is.
    let used = event["used_bps"].as_u64().unwrap();
    assert!((80_000..=150_000).contains(&used), "{used}");
}

#[test]
fn a_watch_shows_what_was_added_since() {
    let Some(world) = World::new("since") else { return };
    let [from, to] = world.hosts();
    let _heard = to.bind(4000);
    // What machines say by themselves goes elsewhere.
    let mine = r#"
[[class]]
name = "mine"
port = "wan"
[[filter]]
match = { protocol = "udp", dst_ports = "4000" }
class = "mine"
[detector]"#;
    world.with_file(&FILE.replace("[detector]", mine));
    let _running = world.start();
    let mut watch = world.watch(&["show", "classes", "--watch=1", "--filter=name=mine"]);
    let socket = from.bind(5000);
    let end = Instant::now() + PATIENCE;
    let (mut head, mut sent, mut added) = (Vec::new(), 0, 0);
    while added < 60 {
        assert!(Instant::now() < end, "{added} of {sent}: {head:?}");
        let line = watch.line();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first() {
            Some(&"NAME") => head = words.iter().map(|word| (*word).to_owned()).collect(),
            Some(&"mine") => {
                // What is 0 everywhere has no column at first. Sums of what was sent before would be more in all.
                let of = head.iter().position(|name| name == "+PACKETS");
                assert!(!head.iter().any(|name| name == "PACKETS"), "{head:?}");
                added += of.map_or(0, |of| words[of].parse::<u64>().unwrap());
                // No more than waits until the next hop has answered.
                for _ in 0..if sent < 60 { 15 } else { 0 } {
                    socket.send_to(&[0; 100], "10.1.0.2:4000").unwrap();
                    sent += 1;
                }
            }
            _ => {}
        }
        assert!(added <= sent, "{added} of {sent}");
    }
}
