//! What the router's own host sends by a port with a rate.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

const FILE: &str = r#"
[[port]]
name = "p0"

[[port]]
name = "p1"
rate = "10 Mbit/s"

[[class]]
name = "voice"
port = "p1"
guarantee = "1 Mbit/s"
queue = "20 ms"

[[class]]
name = "default"
port = "p1"
default = true

[[filter]]
name = "calls"
class = "voice"
match = { protocol = "udp", dst_ports = "7000" }
"#;

/// A flood of this host's own, three times and more what the port carries, costs a call nothing that has a guarantee; it waits
/// in the port's tree, and what is too much is dropped there.
#[test]
fn what_this_host_sends_itself_takes_nothing_from_a_guarantee() {
    if !may_run("what_this_host_sends_itself_takes_nothing_from_a_guarantee") {
        return;
    }
    let w = World::new("own", 2);
    let (engine, handle) = Engine::start(w.config_of("own", FILE)).unwrap();
    assert!(!engine.warnings().iter().any(|w| w.contains("does not wait")), "{:?}", engine.warnings());
    assert!(w.reaches(&w.socket(0, "10.20.0.2:0"), &w.socket(1, "10.20.1.2:0")));
    // The host speaks and is heard: TCP in both directions.
    let listener = w.hosts[1].run(|| std::net::TcpListener::bind("10.20.1.2:9000")).unwrap().unwrap();
    let mut stream = w.router.run(|| std::net::TcpStream::connect("10.20.1.2:9000")).unwrap().unwrap();
    let mut other = listener.accept().unwrap().0;
    let text = vec![7; 200_000];
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stream, &text).map(|()| stream));
    std::io::Read::read_exact(&mut other, &mut vec![0; 200_000]).unwrap();
    let _stream = writer.join().unwrap().unwrap();

    let stop = AtomicBool::new(false);
    let flood = w.router.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    let (call, heard) = (w.socket(0, "10.20.0.2:0"), w.socket(1, "10.20.1.2:7000"));
    let _sink = w.socket(1, "10.20.1.2:7001");
    heard.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // 32 Mbit/s.
                for _ in 0..4 {
                    let _ = flood.send_to(&[0; 1000], "10.20.1.2:7001");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        std::thread::sleep(Duration::from_millis(500));
        scope.spawn(|| {
            for i in 0..150_u16 {
                call.send_to(&[i.to_be_bytes().to_vec(), vec![0; 170]].concat(), "10.20.1.2:7000").unwrap();
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mut buffer = [0; 512];
        let mut received = 0;
        while heard.recv(&mut buffer).is_ok() {
            received += 1;
        }
        stop.store(true, Ordering::Relaxed);
        received
    });
    assert_eq!(received, 150, "of the call");
    let own = counter(&handle, "port", "p1", "own_packets");
    assert!(own > 1_000, "{own} through the router");
    assert!(counter(&handle, "class", "default", "dropped_queue_full") > 0, "more than the link carries");
    let passed_by = counter(&handle, "port", "p1", "kernel_packets");
    assert!(passed_by < 100, "{passed_by}: ARP and the like");
    engine.stop();
    // Without the router the host sends by itself.
    let direct = w.router.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    assert!(w.reaches(&direct, &w.socket(1, "10.20.1.2:0")));
}

/// Whatever becomes of the interface that its packets are led by, the host is not cut off.
#[test]
fn a_detour_that_is_switched_off_or_deleted_does_not_cut_the_host_off() {
    if !may_run("a_detour_that_is_switched_off_or_deleted_does_not_cut_the_host_off") {
        return;
    }
    let w = World::new("ownlost", 2);
    let (engine, handle) = Engine::start(w.config_of("ownlost", FILE)).unwrap();
    let detour = format!("own.{}", w.net.link("p1").unwrap().index);
    let ours = w.router.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    let (own, passed) = (
        || counter(&handle, "port", "p1", "own_packets"),
        || counter(&handle, "port", "p1", "kernel_packets"),
    );
    assert!(w.reaches(&ours, &w.socket(1, "10.20.1.2:0")));
    w.net.set_down(&detour).unwrap();
    eventually("it is switched on again", || w.net.link(&detour).unwrap().up);
    let before = own();
    eventually("what the host sends goes through the router again", || {
        w.reaches(&ours, &w.socket(1, "10.20.1.2:0")) && own() > before
    });
    w.net.delete_link(&detour).unwrap();
    eventually("what the host sends goes as without the router", || {
        let (led, sent) = (own(), passed());
        w.reaches(&ours, &w.socket(1, "10.20.1.2:0")) && own() == led && passed() > sent
    });
    // A descriptor that is always ready would keep the packet thread busy.
    let turns = || counter(&handle, "driver", "driver", "turns");
    let (begin, from) = (std::time::Instant::now(), turns());
    assert!(from > 0);
    std::thread::sleep(Duration::from_millis(500));
    let each_ms = (turns() - from) / begin.elapsed().as_millis().max(1) as u64;
    assert!(each_ms < 20, "{each_ms} turns a millisecond without a packet");
    engine.stop();
}
