//! Calls that are reserved for.

use super::phone::{Dialog, Phone};
use super::{CALL, Proxy, World, free, listen, until, zones};
use crate::{Scratch, perhop};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::time::Duration;

/// A proxy that both phones are behind.
fn one_proxy(world: &World, reserve: &str) -> (Proxy, [Phone; 2]) {
    let address = free("127.0.0.1");
    let phones = [Phone::udp("alice", "127.1.0.2", address), Phone::udp("bob", "127.2.0.2", address)];
    let text = format!(
        "{}[[domain]]\nname = \"a.example\"\nusers = {{ bob = \"sip:bob@{}\" }}\n[[zone]]\n\
         prefixes = [\"127.1.0.0/16\", \"127.2.0.0/16\"]\nside = \"phones\"\n{}{reserve}",
        listen("udp", address),
        phones[1].address,
        zones()
    );
    (Proxy::start(&world.scratch, "proxy", address, &text), phones)
}

/// A proxy beside each phone; what they say to each other goes by `transport`.
fn two_proxies(world: &World, transport: &str, more: &str, reserve: [String; 2]) -> ([Proxy; 2], [Phone; 2]) {
    let at = ["127.1.0.1", "127.2.0.1"].map(free);
    proxies_at(world, at, transport, more, reserve, None)
}

/// The same at these addresses, with another proxy between them.
pub(super) fn proxies_at(
    world: &World,
    at: [SocketAddr; 2],
    transport: &str,
    more: &str,
    reserve: [String; 2],
    through: Option<SocketAddr>,
) -> ([Proxy; 2], [Phone; 2]) {
    let stream = ["127.1.0.1", "127.2.0.1"].map(free);
    let phones = [Phone::udp("alice", "127.1.0.2", at[0]), Phone::udp("bob", "127.2.0.2", at[1])];
    let between = |side: usize| {
        if transport == "udp" {
            through.unwrap_or(at[side]).to_string()
        } else {
            format!("{};transport={transport}", stream[side])
        }
    };
    let proxy = |side: usize, name: &str, reserve: &str| {
        let own = if side == 0 { "a" } else { "b" };
        let other = if side == 0 { "b" } else { "a" };
        let user = if side == 0 { "alice" } else { "bob" };
        let second = if transport == "udp" { String::new() } else { listen(transport, stream[side]) };
        let text = format!(
            "{}{second}{more}[[domain]]\nname = \"{own}.example\"\nusers = {{ {user} = \"sip:{user}@{}\" }}\n\
             [[domain]]\nname = \"{other}.example\"\nregistrar = \"sip:{}\"\n\
             [[zone]]\nprefixes = [\"127.1.0.1\", \"127.2.0.1\", \"127.3.0.1\"]\nside = \"trusted\"\n\
             [[zone]]\nprefixes = [\"127.{}.0.0/16\"]\nside = \"phones\"\n{}{reserve}",
            listen("udp", at[side]),
            phones[side].address,
            between(1 - side),
            side + 1,
            zones()
        );
        Proxy::start(&world.scratch, name, at[side], &text)
    };
    ([proxy(0, "west", &reserve[0]), proxy(1, "east", &reserve[1])], phones)
}

/// Sets a call up.
pub(super) fn call([alice, bob]: &mut [Phone; 2], uri: &str) -> [Dialog; 2] {
    alice.invite(uri, "");
    let invite = bob.expect("INVITE");
    assert!(!invite.has("QoS-Proxy"), "{}", invite.0);
    bob.reply(&invite, "180 Ringing", false);
    bob.reply(&invite, "200 OK", true);
    let answer = alice.expect("200");
    assert!(!answer.has("QoS-Proxy"), "{}", answer.0);
    let mut dialog = alice.dialog(&answer);
    alice.within(&mut dialog, "ACK", false);
    assert!(!bob.expect("ACK").has("QoS-Proxy"));
    [dialog, bob.answered(&invite)]
}

pub(super) fn hang_up([alice, bob]: &mut [Phone; 2], dialog: &mut Dialog) {
    alice.within(dialog, "BYE", false);
    let bye = bob.expect("BYE");
    bob.reply(&bye, "200 OK", false);
    alice.expect("200");
}

/// One phone goes on at another port, which is the number.
fn moves(phone: &mut Phone, other: &mut Phone, dialog: &mut Dialog) -> u64 {
    let spare = Phone::udp("spare", &phone.address.ip().to_string(), phone.address);
    let own = std::mem::replace(&mut phone.address, spare.address);
    phone.within(dialog, "INVITE", true);
    phone.address = own;
    let again = other.expect("INVITE");
    other.reply(&again, "200 OK", true);
    phone.expect("200");
    phone.within(dialog, "ACK", false);
    other.expect("ACK");
    u64::from(spare.address.port() ^ 1)
}

#[test]
fn a_call_has_its_reservations_while_it_lasts() {
    let world = World::new("sip-one", "3 Mbit/s");
    let (mut proxy, mut phones) = one_proxy(&world, &world.by_http(""));
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    // They are there before the caller hears that it is answered.
    let expected: Vec<_> = CALL.map(|(from, to, bps)| (from.to_owned(), to.to_owned(), bps)).into();
    assert_eq!(world.booked(), expected);
    let listed = perhop(&["reserve", "list", "--json", "--controller", &world.name]);
    let row = listed.json().into_iter().find(|row| row["from"] == "west").unwrap();
    assert_eq!(row["packets"][0]["src"], "127.1.0.2/32");
    assert_eq!(row["packets"][0]["dst"], "127.2.0.2/32");
    let port = u64::from(phones[1].address.port() ^ 1);
    assert_eq!(row["packets"][0]["dst_ports"], serde_json::json!([port, port]));
    hang_up(&mut phones, &mut dialog);
    world.until_booked(&[]);
    proxy.ends();
    let records = proxy.records();
    assert_eq!(records.len(), 1, "{records:?}");
    let record = &records[0];
    assert_eq!((&record["caller"], &record["callee"]), (&"alice@a.example".into(), &"bob@a.example".into()));
    assert_eq!((&record["ending"], &record["bps"]), (&"bye".into(), &160_000.into()));
    assert_eq!(record["reserved"][0]["from"], "east", "{record}");
    let ms = |key: &str| record[key].as_u64().unwrap();
    assert!(ms("begun_ms") <= ms("answered_ms") && ms("answered_ms") <= ms("ended_ms"), "{record}");
}

#[test]
fn two_proxies_reserve_for_one_call_each_what_its_phone_sends() {
    let world = World::new("sip-two", "3 Mbit/s");
    let reserve = [world.by_http(""), world.by_http("")];
    let (mut proxies, mut phones) = two_proxies(&world, "udp", "", reserve);
    let [mut dialog, _] = call(&mut phones, "sip:bob@b.example");
    world.until_booked(&CALL);
    hang_up(&mut phones, &mut dialog);
    world.until_booked(&[]);
    proxies.iter_mut().for_each(Proxy::ends);
    let [west, east] = proxies.map(|proxy| proxy.records().remove(0)["reserved"][0].clone());
    assert_eq!((&west["from"], &west["to"]), (&"west".into(), &"east".into()));
    assert_eq!((&east["from"], &east["to"]), (&"east".into(), &"west".into()));
}

#[test]
fn with_mode_bi_the_callers_proxy_reserves_both_directions_as_one() {
    let world = World::new("sip-bi", "3 Mbit/s");
    let reserve = [world.by_http("mode = \"bi\""), world.by_http("")];
    let (mut proxies, mut phones) = two_proxies(&world, "udp", "", reserve);
    let [mut dialog, mut of_bob] = call(&mut phones, "sip:bob@b.example");
    world.until_booked(&CALL);
    let listed = perhop(&["reserve", "list", "--json", "--controller", &world.name]);
    assert!(listed.json().iter().all(|row| row["twin"].is_u64()), "{}", listed.out);
    let [alice, bob] = &mut phones;
    let port = moves(bob, alice, &mut of_bob);
    until("what comes back is known by the other port", || {
        let listed = perhop(&["reserve", "list", "--json", "--controller", &world.name]);
        let rows = listed.json();
        let back = rows.iter().find(|row| row["from"] == "east").unwrap();
        back["packets"][0]["src_ports"] == serde_json::json!([port, port])
    });
    hang_up(&mut phones, &mut dialog);
    world.until_booked(&[]);
    proxies.iter_mut().for_each(Proxy::ends);
    assert_eq!(proxies[1].records().len(), 0);
}

#[test]
fn proxies_ask_by_cops_as_well() {
    let world = World::new("sip-cops", "3 Mbit/s");
    let reserve = [world.by_cops("west-phones", ""), world.by_cops("east-phones", "")];
    let (mut proxies, mut phones) = two_proxies(&world, "udp", "", reserve);
    until("both can ask", || {
        proxies.iter().all(|proxy| proxy.said().contains("can be asked for reservations"))
    });
    let [mut dialog, _] = call(&mut phones, "sip:bob@b.example");
    world.until_booked(&CALL);
    hang_up(&mut phones, &mut dialog);
    world.until_booked(&[]);
    // More than there is: refused, and the call goes on.
    let small = World::new("sip-cops-small", "100 kbit/s");
    let reserve = [small.by_cops("west-phones", ""), small.by_cops("east-phones", "")];
    let (small_proxies, mut others) = two_proxies(&small, "udp", "", reserve);
    until("both can ask", || {
        small_proxies.iter().all(|proxy| proxy.said().contains("can be asked for reservations"))
    });
    let [mut first, _] = call(&mut others, "sip:bob@b.example");
    small.until_booked(&CALL);
    let [mut second, _] = call(&mut others, "sip:bob@b.example");
    small.until_booked(&CALL);
    hang_up(&mut others, &mut second);
    small.until_booked(&CALL);
    hang_up(&mut others, &mut first);
    small.until_booked(&[]);
    proxies.iter_mut().for_each(Proxy::ends);
}

#[test]
fn a_call_without_room_goes_on_without_reservation_or_is_refused_as_the_file_says() {
    let world = World::new("sip-refusal", "100 kbit/s");
    let (_proxy, mut phones) = one_proxy(&world, &world.by_http(""));
    let [mut first, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    let [mut second, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    hang_up(&mut phones, &mut second);
    hang_up(&mut phones, &mut first);
    world.until_booked(&[]);

    let other = World::new("sip-refusal-488", "100 kbit/s");
    let (mut proxy, mut phones) = one_proxy(&other, &other.by_http("on_refusal = \"488\""));
    let [mut first, _] = call(&mut phones, "sip:bob@a.example");
    let [alice, bob] = &mut phones;
    alice.invite("sip:bob@a.example", "");
    let invite = bob.expect("INVITE");
    bob.reply(&invite, "200 OK", true);
    let refused = alice.expect("488");
    assert_eq!(refused.one("Reason"), "SIP;cause=488;text=\"no_capacity\"");
    bob.expect("ACK");
    let bye = bob.expect("BYE");
    bob.reply(&bye, "200 OK", false);
    other.until_booked(&CALL);
    let ack = format!(
        "ACK sip:bob@a.example SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n",
        refused.one("Via"),
        refused.one("From"),
        refused.one("To"),
        refused.one("Call-ID")
    );
    alice.send(&ack);
    hang_up(&mut phones, &mut first);
    other.until_booked(&[]);
    proxy.ends();
    let records = proxy.records();
    assert_eq!((&records[0]["ending"], &records[0]["code"]), (&"refused".into(), &"no_capacity".into()));
    assert_eq!(records[1]["ending"], "bye");
}

#[test]
fn a_call_without_a_controller_goes_on_at_once() {
    let mut world = World::new("sip-away", "3 Mbit/s");
    let (proxy, mut phones) = one_proxy(&world, &world.by_http(""));
    world.controller.kill();
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    until("it is said", || proxy.said().contains("cannot be asked for reservations"));
    hang_up(&mut phones, &mut dialog);
    // It is there again for the next one.
    world.controller = World::controller(&world.scratch, &world.name);
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    hang_up(&mut phones, &mut dialog);
    world.until_booked(&[]);
}

#[test]
fn what_a_killed_proxy_had_is_given_back_at_the_calls_end_or_ends_by_itself() {
    let world = World::new("sip-killed", "3 Mbit/s");
    let (mut proxy, mut phones) = one_proxy(&world, &world.by_http("lifetime = \"5 s\""));
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    proxy.killed();
    world.until_booked(&CALL);
    hang_up(&mut phones, &mut dialog);
    let end = std::time::Instant::now() + Duration::from_secs(2);
    while !world.booked().is_empty() {
        assert!(std::time::Instant::now() < end, "it was given back before its life is over");
    }
    let [_dialog, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    // Longer than a life: it is renewed.
    std::thread::sleep(Duration::from_secs(7));
    world.until_booked(&CALL);
    proxy.killed();
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(world.booked(), []);
}

#[test]
fn by_cops_the_next_instance_gives_back_what_a_killed_one_had_when_it_opens() {
    let world = World::new("sip-cops-killed", "3 Mbit/s");
    let (mut proxy, mut phones) = one_proxy(&world, &world.by_cops("phones", ""));
    let can_ask =
        |proxy: &Proxy| until("it can ask", || proxy.said().contains("can be asked for reservations"));
    can_ask(&proxy);
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    proxy.killed();
    world.until_booked(&[]);
    // The call itself goes on to its end.
    hang_up(&mut phones, &mut dialog);
    can_ask(&proxy);
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    hang_up(&mut phones, &mut dialog);
    world.until_booked(&[]);
}

#[test]
fn an_answer_that_is_late_is_a_refusal_and_what_it_grants_is_given_back() {
    for by_cops in [false, true] {
        let world = World::new(&format!("sip-late-{by_cops}"), "3 Mbit/s");
        let reserve = if by_cops {
            world.by_cops("phones", "patience = \"500 ms\"")
        } else {
            world.by_http("patience = \"500 ms\"")
        };
        let (proxy, mut phones) = one_proxy(&world, &reserve);
        if by_cops {
            until("it can ask", || proxy.said().contains("can be asked for reservations"));
        }
        world.controller.signal(Signal::STOP);
        let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
        until("the call is without", || proxy.records().iter().any(|record| record["code"] == "timeout"));
        world.controller.signal(Signal::CONT);
        // What it was asked for while it stood still it may grant now, for a moment.
        std::thread::sleep(Duration::from_millis(500));
        world.until_booked(&[]);
        hang_up(&mut phones, &mut dialog);
    }
}

#[test]
fn a_release_that_finds_no_controller_is_made_up_for() {
    let mut world = World::new("sip-owed", "3 Mbit/s");
    let (_proxy, mut phones) = one_proxy(&world, &world.by_http(""));
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    world.controller.kill();
    hang_up(&mut phones, &mut dialog);
    std::thread::sleep(Duration::from_millis(500));
    world.controller = World::controller(&world.scratch, &world.name);
    world.until_booked(&[]);
}

#[test]
fn another_description_changes_what_is_reserved() {
    let world = World::new("sip-again-invite", "3 Mbit/s");
    let (_proxy, mut phones) = one_proxy(&world, &world.by_http(""));
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    let [alice, bob] = &mut phones;
    let port = moves(alice, bob, &mut dialog);
    until("its packets are known by the other port", || {
        let listed = perhop(&["reserve", "list", "--json", "--controller", &world.name]);
        let rows = listed.json();
        let row = rows.iter().find(|row| row["from"] == "east").unwrap();
        row["packets"][0]["dst_ports"] == serde_json::json!([port, port])
    });
    world.until_booked(&CALL);
    hang_up(&mut phones, &mut dialog);
    world.until_booked(&[]);
}

#[test]
fn proxies_talk_over_tcp_and_tls() {
    for transport in ["tcp", "tls"] {
        let world = World::new(&format!("sip-{transport}"), "3 Mbit/s");
        let more = if transport == "tls" { certificates(&world.scratch) } else { String::new() };
        let reserve = [world.by_http(""), world.by_http("")];
        let (mut proxies, mut phones) = two_proxies(&world, transport, &more, reserve);
        for _ in 0..2 {
            let [mut dialog, _] = call(&mut phones, "sip:bob@b.example");
            world.until_booked(&CALL);
            hang_up(&mut phones, &mut dialog);
            world.until_booked(&[]);
        }
        // The other way round.
        let [alice, bob] = &mut phones;
        bob.invite("sip:alice@a.example", "");
        let invite = alice.expect("INVITE");
        let vias = invite.all("Via");
        assert!(vias[1].starts_with(&format!("SIP/2.0/{} ", transport.to_uppercase())), "{}", invite.0);
        alice.reply(&invite, "603 Decline", false);
        bob.expect("603");
        proxies.iter_mut().for_each(Proxy::ends);
    }
}

/// Certificates of both proxies, which are known by their addresses.
fn certificates(scratch: &Scratch) -> String {
    let dir = scratch.0.to_str().unwrap();
    assert_eq!(perhop(&["pki", "init", dir]).code, Some(0));
    let hosts = ["--host", "127.1.0.1", "--host", "127.2.0.1"];
    let issued = perhop(&[&["pki", "issue", "proxy"], &hosts[..], &["--dir", dir]].concat());
    assert_eq!(issued.code, Some(0), "{}", issued.err);
    format!(
        "[tls]\ncertificate = \"{dir}/proxy.pem\"\nkey = \"{dir}/proxy.key\"\nauthority = \"{dir}/authority.pem\"\n"
    )
}

#[test]
fn a_file_that_is_read_again_counts_and_calls_go_on() {
    let world = World::new("sip-reload", "3 Mbit/s");
    let (proxy, mut phones) = one_proxy(&world, &world.by_http(""));
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    world.until_booked(&CALL);
    let path = proxy.folder.join("sip-proxy.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, "[nonsense").unwrap();
    proxy.running.signal(Signal::HUP);
    until("it is refused", || proxy.said().contains("the file is refused"));
    std::fs::write(&path, format!("{text}[[rule]]\ncaller = \"alice@a.example\"\nreserve = false\n"))
        .unwrap();
    proxy.running.signal(Signal::HUP);
    until("it is read", || proxy.said().contains("the file is read again"));
    world.until_booked(&CALL);
    hang_up(&mut phones, &mut dialog);
    world.until_booked(&[]);
    let [mut dialog, _] = call(&mut phones, "sip:bob@a.example");
    assert_eq!(world.booked(), []);
    hang_up(&mut phones, &mut dialog);
}
