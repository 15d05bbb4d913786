//! Logical classes come and go for ever, and two never have one number.

use super::Bench;
use crate::support::{delete, put};
use perhop_model::{Kind, Op, Outcome};
use perhop_packet::ClassId;
use perhop_reason::Code;
use serde_json::json;

const LIMIT: u32 = 400;
const AT_ONCE: u32 = 100;

fn names(bench: &mut Bench) -> Vec<String> {
    let planner = bench.router.halves().0.planner();
    (0..).map_while(|id| planner.class_name(ClassId(id))).map(str::to_owned).collect()
}

fn class(i: u32) -> Op {
    put(Kind::Class, &format!("wan/c{i:06}"), json!({"port": "wan"}))
}

/// A detector of the class, so that it has a policer.
fn detector(i: u32) -> Op {
    put(Kind::Detector, "rtp", json!({"class": format!("c{i:06}"), "rate": 100_000}))
}

#[test]
fn names_that_nothing_uses_give_their_numbers_back() {
    let mut bench = Bench::with(|planner| planner.with_class_names(LIMIT));
    for round in 0..20 {
        let first = round * AT_ONCE;
        let mut ops: Vec<Op> = (first..first + AT_ONCE).map(class).collect();
        ops.push(detector(first + 7));
        if round > 0 {
            let gone = |i: u32| delete(Kind::Class, &format!("wan/c{i:06}"));
            ops.extend((first - AT_ONCE..first).map(gone));
        }
        bench.commit(ops);
        let wanted = format!("c{:06}", first + 7);
        let number = names(&mut bench).iter().position(|n| *n == wanted).expect("it has a number");
        let policer = |id| bench.router.halves().1.conditioner().and_then(|c| c.class_counters(id));
        assert!(policer(ClassId(number as u32)).is_some(), "{wanted} is policed");
        let others = (0..LIMIT).filter(|id| *id != number as u32);
        assert!(others.into_iter().all(|id| policer(ClassId(id)).is_none()), "and no other");
    }
    assert!(names(&mut bench).len() <= (2 * AT_ONCE + 65) as usize);
    // Those of the last round have theirs still, and 64 rest.
    let reply = bench.submit((10_000..10_300).map(class).collect());
    assert_eq!(reply.outcome, Outcome::Rejected);
    let error = &reply.errors[0];
    assert_eq!((reply.errors.len(), error.code, error.limit), (1, Code::LimitReached, Some(400)));
    let free = error.free.expect("what is free") as u32;
    assert!((LIMIT - AT_ONCE - 64..=LIMIT - AT_ONCE).contains(&free), "{free}");
    bench.commit((10_000..10_000 + free).map(class).collect());
    let reply = bench.submit(vec![class(20_000)]);
    assert_eq!((reply.errors[0].code, reply.errors[0].free), (Code::LimitReached, Some(0)));
    // A name that exists needs no number, and the same name on another port none of its own.
    bench.commit(vec![put(Kind::Class, "lan/c010000", json!({"port": "lan", "weight": 2}))]);
    bench.commit(vec![delete(Kind::Class, "wan/c010000")]);
    assert!(names(&mut bench).contains(&"c010000".to_owned()));
}

#[test]
fn what_the_graph_names_keeps_its_number_while_the_graph_runs() {
    let mut bench = Bench::new();
    let graph = |text: &str| vec![Op::ReplaceGraph { text: text.to_owned(), reset: vec!["*".to_owned()] }];
    let text = "in :: FromPort(lan); set :: SetClass(marked); q :: Egress(wan, rate = 1 Mbit/s); \
                out :: ToPort(wan); in -> set -> q -> out;";
    bench.commit(graph(text));
    bench.commit(vec![put(Kind::Class, "wan/first", json!({"port": "wan"}))]);
    assert_eq!(names(&mut bench), ["marked", "first"]);
    bench.commit(vec![put(Kind::Class, "wan/marked", json!({"port": "wan"}))]);
    bench.commit(vec![delete(Kind::Class, "wan/marked")]);
    for i in 0..200 {
        let gone = (i > 0).then(|| delete(Kind::Class, &format!("wan/c{:06}", i - 1)));
        bench.commit(gone.into_iter().chain([class(i)]).collect());
    }
    assert_eq!(names(&mut bench)[0], "marked");
    // Another graph: the name is free, and some time later its number is another's.
    bench.commit(graph(""));
    for i in 200..300 {
        bench.commit(vec![delete(Kind::Class, &format!("wan/c{:06}", i - 1)), class(i)]);
    }
    assert!(!names(&mut bench).contains(&"marked".to_owned()));
}
