//! Disciplines that graph text names, in the graph of an emulator: read, printed, read back, and run.

use crate::random_graphs::{build_cx, registry};
use perhop_element::Driver;
use perhop_elements::plumbing::UdpFrame;
use perhop_graph::lang::{build, parse};
use perhop_packet::{Batch, Pool, PortId};
use perhop_units::{Dscp, Duration, Instant};

const CBQ: &str = "queue :: AltqCbq(control top voip ftp, parent = root root top top, rate = 10 Mbit/s, \
                   share = 2% 98% 30% 68%, borrow = no no yes yes, priority = 7 1 1 1, dscp = CS6 none EF+VA -, \
                   limit = 10 1 15 130, queue = fifo fifo fifo red, hz = 100)";
const HPD: &str =
    "queue :: Hpd(voip web ftp, rate = 10 Mbit/s, delays = 1 4 16, bounds = 20ms - -, dscp = EF AF21 -)";
const HFSC: &str = "queue :: Hfsc(voip data web ftp, parent = root root data data, rate = 10 Mbit/s, \
                    rt = 3Mbit/s:10ms:2Mbit/s - - -, ls = 2Mbit/s 8Mbit/s 4Mbit/s 4Mbit/s, ul = - 9Mbit/s - -, \
                    dscp = EF none AF21 -)";
const HTB: &str = "queue :: Htb(voip data web ftp, parent = root root data data, rate = 10 Mbit/s, \
                   rates = 2Mbit/s 8Mbit/s 4Mbit/s 4Mbit/s, ceils = 3Mbit/s 9Mbit/s - -, priority = 0 0 1 2, \
                   dscp = EF none AF21 -)";

/// Pushes calls and a flood into port 0 for a second; gives the counters of the queue and what left by port 1.
fn run(queue: &str) -> (Vec<(String, u64)>, usize) {
    let text = format!("FromPort(p0) -> {queue} -> Link(100 Mbit/s, 5 ms) -> ToPort(p1);");
    let graph = parse(&text).unwrap_or_else(|e| panic!("{e:?}"));
    let printed = graph.to_string();
    assert_eq!(parse(&printed).unwrap_or_else(|e| panic!("{e:?}")).to_string(), printed);
    let built = build(&text, graph, &registry(), &mut build_cx()).unwrap_or_else(|e| panic!("{e:?}"));
    let mut driver = Driver::new(Pool::new(1024), 3);
    driver.set_port_count(2);
    let edges = built.graph.edges.clone();
    let ids: Vec<_> = built.nodes.into_iter().map(|n| driver.add(&n.name, n.element, n.outputs)).collect();
    for e in &edges {
        driver.connect(ids[e.from], e.output, ids[e.to], e.input).expect("each once");
    }
    let mut left = 0;
    for millisecond in 0..1000 {
        let now = Instant::ZERO + Duration::from_millis(millisecond);
        while let Some(at) = driver.next_wakeup().filter(|at| *at <= now) {
            driver.poll(at);
        }
        let mut batch = Batch::new();
        for (dscp, ip_len) in [(Dscp::EF, 204), (Dscp::BE, 1486), (Dscp::BE, 1486)] {
            let frame = UdpFrame { dscp, ip_len, ..UdpFrame::default() }.to_vec();
            batch.push(driver.pool().packet(&frame).expect("queues are short"));
        }
        driver.push(now, ids[0], 0, &mut batch);
        let out = driver.transmit_queue(PortId(1)).expect("there are two");
        left += out.len();
        out.release_all();
        driver.check_conservation().unwrap_or_else(|e| panic!("{e:?}"));
    }
    let mut counters = Vec::new();
    driver.report(driver.find("queue").expect("it is there"), &mut counters);
    driver.ids().collect::<Vec<_>>().into_iter().for_each(|id| {
        driver.drop_held(id, perhop_packet::DropReason::GraphReplaced);
    });
    (counters, left)
}

#[test]
fn disciplines_of_the_laboratory_work_in_an_emulator() {
    for queue in [CBQ, HPD, HFSC, HTB] {
        let (counters, left) = run(queue);
        let value = |name: &str| {
            counters.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name} in {counters:?}")).1
        };
        assert_eq!(value("dropped_voip"), 0, "{queue}");
        assert!(value("packets_voip") >= 990, "{queue}");
        assert!(value("dropped_ftp") > 500 && value("backlog_bytes_ftp") > 0, "{queue}");
        // The names a recording samples.
        assert!(value("backlog_bytes") >= value("backlog_bytes_voip") + value("backlog_bytes_ftp"));
        assert!(left > 1200, "{queue}: {left}");
    }
    assert!(run(CBQ).0.iter().any(|(name, n)| name == "borrows_ftp" && *n > 0));
}
