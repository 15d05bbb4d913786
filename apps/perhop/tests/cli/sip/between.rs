//! Another maker's proxy between two of ours.

use super::reserving::{call, hang_up, proxies_at};
use super::{CALL, Proxy, World, free, until};
use crate::router::Running;
use crate::{Scratch, skip};
use rustix::process::Signal;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Kamailio at this address: it records routes, and sends calls to `a.example` and `b.example` to these.
fn kamailio(scratch: &Scratch, at: SocketAddr, [a, b]: [SocketAddr; 2]) -> Running {
    let folder = scratch.0.join("kamailio");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("kamailio.cfg");
    let text = format!(
        "listen=udp:{at}\nchildren=1\nauto_aliases=no\ndisable_tcp=yes\nlog_stderror=yes\n\
         loadmodule \"tm.so\"\nloadmodule \"sl.so\"\nloadmodule \"rr.so\"\nloadmodule \"pv.so\"\nloadmodule \"siputils.so\"\n\
         request_route {{\nif (has_totag()) {{ loose_route(); t_relay(); exit; }}\nrecord_route();\n\
         if ($rd == \"b.example\") {{ $du = \"sip:{b}\"; }} else {{ $du = \"sip:{a}\"; }}\nt_relay();\n}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let mut command = Command::new("kamailio");
    command.args(["-DD", "-E", "-m", "64", "-f"]).arg(&file).arg("-Y").arg(&folder);
    let running = Running::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log));
    let asks = UdpSocket::bind("127.3.0.1:0").unwrap();
    asks.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let own = asks.local_addr().unwrap();
    until("Kamailio passes something on", || {
        let text = format!(
            "OPTIONS sip:u@{own} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKo{}\r\nMax-Forwards: 70\r\nFrom: <sip:u@{own}>;tag=1\r\n\
             To: <sip:u@{own}>;tag=2\r\nCall-ID: o\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
            own.port()
        );
        asks.send_to(text.as_bytes(), at).unwrap();
        asks.recv(&mut [0; 4_096]).is_ok()
    });
    running
}

#[test]
fn what_proxies_tell_each_other_passes_another_makers() {
    if let Err(why) = Command::new("kamailio").arg("-v").output() {
        return skip("what_proxies_tell_each_other_passes", "kamailio", &format!("kamailio: {why}"));
    }
    let world = World::new("sip-between", "3 Mbit/s");
    let at = ["127.1.0.1", "127.2.0.1"].map(free);
    let between = free("127.3.0.1");
    let mut kamailio = kamailio(&world.scratch, between, at);
    let reserve = [world.by_http(""), world.by_http("")];
    let (mut proxies, mut phones) = proxies_at(&world, at, "udp", "", reserve, Some(between));
    for _ in 0..3 {
        let [mut of_alice, mut of_bob] = call(&mut phones, "sip:bob@b.example");
        assert_eq!(of_alice.routes().len(), 3, "each proxy has recorded itself");
        world.until_booked(&CALL);
        let [alice, bob] = &mut phones;
        bob.within(&mut of_bob, "OPTIONS", false);
        let options = alice.expect("OPTIONS");
        alice.reply(&options, "200 OK", false);
        bob.expect("200");
        hang_up(&mut phones, &mut of_alice);
        world.until_booked(&[]);
    }
    proxies.iter_mut().for_each(Proxy::ends);
    // It ends those that it has started with it.
    kamailio.signal(Signal::TERM);
    kamailio.end();
}
