//! Several workers are one router to everybody outside.

use super::*;
use std::collections::BTreeMap;

const WORKERS: &str = "[router]\nworkers = 3\n";

/// Numbers that arrived at a socket, by flow, until nothing comes any more.
fn arrived(socket: &UdpSocket) -> BTreeMap<u8, Vec<u16>> {
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut buffer, mut flows) = ([0; 64], BTreeMap::<u8, Vec<u16>>::new());
    while let Ok(n) = socket.recv(&mut buffer) {
        if let [flow, high, low] = buffer[..n] {
            flows.entry(flow).or_default().push(u16::from_be_bytes([high, low]));
        }
    }
    flows
}

#[test]
fn flows_that_cross_workers_arrive_once_and_in_order_while_classes_change() {
    if !may_run("flows_that_cross_workers_arrive_once_and_in_order_while_classes_change") {
        return;
    }
    let w = World::new("workers", 4);
    let classes = "[[class]]\nname = \"p1/best\"\nport = \"p1\"\ndefault = true\n";
    let (engine, handle) = Engine::start(w.config("workers", &format!("{WORKERS}{classes}"))).unwrap();
    // Ports 0 and 3 belong to the first worker, 1 to the second, 2 to the third.
    for (from, to) in [(0, 1), (2, 3)] {
        let right = w.socket(to, &format!("10.20.{to}.2:0"));
        let left: Vec<UdpSocket> = (0..24).map(|_| w.socket(from, &format!("10.20.{from}.2:0"))).collect();
        assert!(w.reaches(&left[0], &right) && w.reaches(&right, &left[0]), "{from} to {to}");
        arrived(&right);
        let target = right.local_addr().unwrap();
        let send = |n: u16| {
            for (flow, socket) in left.iter().enumerate() {
                let [high, low] = n.to_be_bytes();
                socket.send_to(&[flow as u8, high, low], target).unwrap();
            }
            let spec = serde_json::json!({ "port": "p1", "weight": 1 + n });
            let name = name("p1/other");
            commit(&handle, Owner::Cli, Op::put(Given::read(Kind::Class, name, spec, None)));
        };
        let flows = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| arrived(&right));
            (0..60).for_each(send);
            receiver.join().unwrap()
        });
        let all: Vec<u16> = (0..60).collect();
        assert_eq!(flows.len(), left.len());
        assert!(flows.values().all(|numbers| *numbers == all), "{flows:?}");
    }
    let drops = counter(&handle, "element", "steer", "dropped_ring_full");
    assert_eq!((drops, counter(&handle, "pool", "pool", "leaked")), (0, 0));
    let elements =
        handle.wait(|done| Call::Show(ShowQuery::new("elements", 100), done)).unwrap().unwrap().rows;
    let element = |name: &str| elements.iter().find(|r| r.name == name).unwrap().clone();
    assert!(element("steer").counter("steered") > 500, "{:?}", element("steer"));
    assert!(element("queue_p1").counter("handed_over") > 300, "{:?}", element("queue_p1"));
    let ports = handle.wait(|done| Call::Show(ShowQuery::new("ports", 100), done)).unwrap().unwrap().rows;
    let mut names: Vec<&str> = ports.iter().map(|r| r.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["p0", "p1", "p2", "p3"]);
    let packet = "in=p0 udp 10.20.0.2:5004>10.20.1.2:5004 len=200";
    let explained = handle.wait(|done| Call::Explain(packet.to_owned(), done)).unwrap().unwrap().to_string();
    assert!(explained.contains("p1/best"), "the queue of another worker's port: {explained}");
    let classes = handle.wait(|done| Call::Show(ShowQuery::new("classes", 100), done)).unwrap().unwrap().rows;
    let best: Vec<_> = classes.iter().filter(|r| r.name == "p1/best").collect();
    assert!(best.len() == 1 && best[0].counter("packets") >= 24 * 60, "{best:?}");
    let report = engine.stop();
    assert!(report.restore_error.is_none() && report.failure.is_none(), "{report:?}");
    assert!((0..4).all(|i| report.report.find("port", &format!("p{i}")).is_some()));
    let steered = report.report.find("element", "steer").unwrap().counter("steered");
    assert!(steered >= element("steer").counter("steered"));
}

/// Each packet finds everybody asleep, and nothing follows that would wake a worker which missed it.
#[test]
fn a_packet_alone_wakes_every_worker_on_its_way() {
    if !may_run("a_packet_alone_wakes_every_worker_on_its_way") {
        return;
    }
    let w = World::new("asleep", 2);
    let (engine, handle) = Engine::start(w.config("asleep", WORKERS)).unwrap();
    let right = w.socket(1, "10.20.1.2:0");
    let left: Vec<UdpSocket> = (0..40).map(|_| w.socket(0, "10.20.0.2:0")).collect();
    assert!(w.reaches(&left[0], &right));
    arrived(&right);
    right.set_read_timeout(Some(PATIENCE)).unwrap();
    for (n, socket) in left.iter().enumerate() {
        std::thread::sleep(Duration::from_millis(3));
        socket.send_to(&[n as u8, 0, 0], right.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 64];
        assert_eq!(right.recv(&mut buffer).map(|_| buffer[0]).ok(), Some(n as u8));
    }
    assert!(counter(&handle, "element", "steer", "steered") > 10);
    engine.stop();
}

/// One flow has as much as all others together, so its worker has too much, and some of the others go elsewhere.
#[test]
fn flows_go_to_a_worker_with_time_for_them_and_lose_nothing() {
    if !may_run("flows_go_to_a_worker_with_time_for_them_and_lose_nothing") {
        return;
    }
    let w = World::new("adaptive", 2);
    // However slow the machine is: what counts here is which worker has too much.
    let config = EngineConfig {
        adaptive_least_pps: 100,
        ..w.config("adaptive", "[router]\nworkers = 2\nplacement = \"adaptive\"\n")
    };
    let (engine, handle) = Engine::start(config).unwrap();
    let right = w.socket(1, "10.20.1.2:0");
    let left: Vec<UdpSocket> = (0..30).map(|_| w.socket(0, "10.20.0.2:0")).collect();
    assert!(w.reaches(&left[0], &right));
    arrived(&right);
    right.set_read_timeout(Some(PATIENCE)).unwrap();
    let target = right.local_addr().unwrap();
    let (mut numbers, mut last) = ([0u32; 30], [0u32; 30]);
    let begin = Instant::now();
    let moved = || counter(&handle, "driver", "driver", "buckets_moved");
    let mut rounds_after = 0;
    while rounds_after < 300 && begin.elapsed() < PATIENCE {
        let round: Vec<usize> = (0..30).chain(std::iter::repeat_n(0, 29)).collect();
        for flow in &round {
            numbers[*flow] += 1;
            let mut payload = vec![*flow as u8];
            payload.extend(numbers[*flow].to_be_bytes());
            left[*flow].send_to(&payload, target).unwrap();
        }
        for _ in &round {
            let mut buffer = [0; 64];
            assert_eq!(right.recv(&mut buffer).ok(), Some(5), "one is lost");
            let flow = usize::from(buffer[0]);
            let number = u32::from_be_bytes(buffer[1..5].try_into().unwrap());
            assert_eq!(number, last[flow] + 1, "flow {flow}");
            last[flow] = number;
        }
        if rounds_after > 0 || numbers[1].is_multiple_of(100) && moved() > 0 {
            rounds_after += 1;
        }
    }
    assert!(moved() > 0, "{} packets of each", numbers[1]);
    // Both had 128, and each move gives one of them one more; those under way count when they are over.
    eventually("moves and where buckets are agree", || {
        let rows = handle.wait(|done| Call::Show(ShowQuery::new("driver", 100), done)).unwrap().unwrap().rows;
        let buckets: Vec<u64> =
            rows.iter().filter(|r| r.kind == "worker").map(|r| r.counter("buckets")).collect();
        let moves = moved();
        assert!(buckets.len() == 2 && buckets.iter().sum::<u64>() == 256, "{buckets:?}");
        buckets[0].abs_diff(128) <= moves && (moves + buckets[0]).is_multiple_of(2)
    });
    let created = counter(&handle, "element", "flows", "created");
    assert!((31..40).contains(&created), "{created}: no connection is made again");
    let report = engine.stop();
    assert!(report.restore_error.is_none() && report.failure.is_none(), "{report:?}");
}
