//! What a port's own traffic says of the link behind it.

use super::*;
use std::io::{Read, Write};

/// A link of a quarter of the port's rate, with a quarter of a second of room, as a modem has it: it fills, and that is told.
#[test]
fn packets_that_wait_behind_a_port_are_told() {
    if !may_run("packets_that_wait_behind_a_port_are_told") {
        return;
    }
    let w = World::new("behind", 1);
    let (modem, far) = (Namespace::create().unwrap(), Namespace::create().unwrap());
    w.net.create_veth("p1", "a", Some(&modem)).unwrap();
    Netlink::open_in(&modem).unwrap().create_veth("b", "eth0", Some(&far)).unwrap();
    let far_net = Netlink::open_in(&far).unwrap();
    for (net_, device, address) in [(&w.net, "p1", "10.20.1.1/24"), (&far_net, "eth0", "10.20.1.2/24")] {
        net_.add_address_now(device, net(address)).unwrap();
        net_.disable_offloads(device).unwrap();
        net_.set_up(device).unwrap();
    }
    far_net.add_route(net("0.0.0.0/0"), Some("10.20.1.1".parse().unwrap()), Some("eth0")).unwrap();
    let graph = "FromPort(a) -> up :: Link(5 Mbit/s, 5 ms, limit = 100 packets) -> ToPort(b);\n\
                 FromPort(b) -> down :: Link(50 Mbit/s, 5 ms, limit = 100 packets) -> ToPort(a);";
    let emulator =
        Emulator::start(EmulatorConfig::new("modem", Some(modem), graph).port("a", "a").port("b", "b"));
    let emulator = emulator.unwrap();
    let text = "[[port]]\nname = \"p0\"\n[[port]]\nname = \"p1\"\nrate = \"2 Gbit/s\"\n";
    let (engine, handle) = Engine::start(w.config_of("behind", text)).unwrap();
    // It is watched from the moment on at which it has such a rate, whatever it had at the start.
    let rate = |rate: u64| {
        let fields = serde_json::json!({ "rate": rate });
        let op = Op::Patch { kind: Kind::Port, name: name("p1"), fields, if_version: None };
        let reply = commit(&handle, Owner::File, op);
        assert!(reply.errors.is_empty(), "{:?}", reply.errors);
    };
    rate(20_000_000);
    // What a queue that is full from the beginning adds is not known: the connection comes when it is watched.
    std::thread::sleep(Duration::from_millis(1_500));
    let notes = || handle.wait(|done| Call::Show(ShowQuery::new("ports", 9), done)).unwrap().unwrap().notes;
    let told = || notes().into_iter().find(|note| note.contains("packets wait"));
    assert_eq!(told(), None);
    let listener = far.run(|| std::net::TcpListener::bind("10.20.1.2:9000")).unwrap().unwrap();
    let drain = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut buffer = [0; 65_536];
        while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let connect = || std::net::TcpStream::connect("10.20.1.2:9000");
    let mut stream = w.hosts[0].run(connect).unwrap().unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let end = Instant::now() + 2 * PATIENCE;
    let note = loop {
        if let Some(note) = told() {
            break note;
        }
        assert!(Instant::now() < end, "{:?}", notes());
        stream.write_all(&[0; 100_000]).unwrap();
    };
    let wait: u64 = note.split(" ms behind it").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    // 100 frames of 1,514 bytes at 5 Mbit/s are 242 ms.
    assert!(note.contains("port \"p1\"") && (20..=250).contains(&wait), "{note}");
    // What is told goes with the rate that now is.
    rate(19_000_000);
    assert!(
        told().unwrap().contains("less than 18.81 Mbit/s") || told().unwrap().contains("less than 19 Mbit/s"),
        "{:?}",
        told()
    );
    rate(0);
    assert_eq!(told(), None);
    drop(stream);
    drain.join().unwrap();
    engine.stop();
    drop(emulator);
}
