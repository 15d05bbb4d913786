//! Leases of a domain that runs, whose database takes everything.

use super::*;
use crate::domain::{Keeper, Marks, News, NotKept, Writing};
use http_body_util::BodyExt;
use perhop_agent::DomainNews;
use perhop_broker::ledger::{ClientChange, OnShort, Settings};
use perhop_broker::record::{AuditRow, Group};
use perhop_broker::topology::DomainFile;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;

const FILE: &str = r#"
node = [{ name = "west", kind = "edge" }, { name = "east", kind = "edge" }, { name = "north", kind = "edge" }]
[[link]]
from = "west"
port = "wan"
to = "east"
rate = "10 Mbit/s"
classes = { voice = "3 Mbit/s" }
[[link]]
from = "west"
port = "up"
to = "north"
rate = "10 Mbit/s"
classes = { voice = "3 Mbit/s" }
"#;

struct Taken;

impl Keeper for Taken {
    fn write<'a>(&'a self, _: &'a Group) -> Writing<'a> {
        Box::pin(async { Ok(()) })
    }

    fn audit(
        &self,
        _: Option<u64>,
        _: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<AuditRow>, NotKept>> + Send + '_>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

async fn domain() -> Domain {
    let settings = Settings { on_short: OnShort::Release, ..Settings::default() };
    let loaded = Domain::load(settings, Default::default(), Marks::new(), Arc::new(Taken), |_| ());
    let (domain, task) = loaded.expect("nothing is loaded");
    drop(tokio::spawn(task.run(std::future::pending())));
    let (file, diagnostics) = DomainFile::read("d.toml", FILE);
    let topology = file.unwrap_or_else(|| panic!("{diagnostics}")).topology;
    domain.set_topology("test", Arc::new(topology)).await.expect("it is good");
    let client = super::super::local_client();
    domain.change_client("test", ClientChange::Put(client)).await.expect("it is good");
    domain
}

/// What is answered to a question: status, number, what it has, and the refusal.
async fn ask(domain: &Domain, to: &str, number: u64, kbit: u64) -> (u16, u64, u64, Value) {
    ask_of(domain, "voice/x", (to, None), number, kbit).await
}

/// The same of any lease: where it leads, or the port whose link it is of.
async fn ask_of(
    domain: &Domain,
    name: &str,
    (to, port): (&str, Option<&str>),
    number: u64,
    kbit: u64,
) -> (u16, u64, u64, Value) {
    let note = LeaseNote { node: "west".into(), name: name.into(), number };
    let asked = LeaseAsk {
        to: to.into(),
        port: port.map(str::to_owned),
        class: "voice".into(),
        bps: kbit * 1_000,
        number,
        lifetime_ms: Some(60_000),
    };
    let key = LeaseNote::key(&note.node, &note.name);
    let answer = decide(domain, "local", note, key, asked).await.into_response();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let number = |key: &str| body[key].as_u64().unwrap_or(u64::MAX);
    (status, number("number"), number("bps") / 1_000, body["refusal"].clone())
}

async fn reserved(domain: &Domain) -> u64 {
    let sum = |ledger: &perhop_broker::ledger::Ledger| {
        ledger.links().iter().flat_map(|link| &link.classes).map(|class| class.reserved_bps / 1_000).sum()
    };
    domain.look(sum).await.expect("it leads")
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test);
}

#[test]
fn a_question_says_what_a_lease_has_in_all_and_counts_once() {
    run(async {
        let domain = domain().await;
        assert_eq!(
            ask(&domain, "east", 1, 0).await,
            (200, 1, 0, Value::Null),
            "there is nothing to give back"
        );
        assert_eq!(ask(&domain, "east", 5, 1_000).await, (200, 5, 1_000, Value::Null));
        for (number, kbit) in [(5, 1_000), (5, 2_000), (4, 3_000)] {
            assert_eq!(
                ask(&domain, "east", number, kbit).await,
                (200, 5, 1_000, Value::Null),
                "again, or late"
            );
        }
        assert_eq!(ask(&domain, "east", 6, 2_000).await, (200, 6, 2_000, Value::Null));
        assert_eq!(reserved(&domain).await, 2_000);
        assert_eq!(ask(&domain, "east", 7, 500).await, (200, 7, 500, Value::Null));
        assert_eq!(ask(&domain, "east", 8, 0).await, (200, 8, 0, Value::Null));
        assert_eq!(reserved(&domain).await, 0);
    });
}

#[test]
fn a_refusal_names_link_class_and_what_is_free_beyond_what_the_lease_has() {
    run(async {
        let domain = domain().await;
        assert_eq!(ask(&domain, "east", 1, 2_000).await, (200, 1, 2_000, Value::Null));
        let (status, number, kbit, refusal) = ask(&domain, "east", 2, 4_000).await;
        assert_eq!((status, number, kbit), (422, 2, 2_000), "it has what it had");
        let shown = [&refusal["code"], &refusal["link"], &refusal["class"]];
        assert_eq!(shown, [&json!("no_capacity"), &json!("west/wan"), &json!("voice")]);
        assert_eq!((&refusal["asked_bps"], &refusal["free_bps"]), (&json!(4_000_000), &json!(1_000_000)));
        let (status, _, kbit, refusal) = ask(&domain, "north", 3, 1_000).await;
        assert_eq!((status, kbit, &refusal["code"]), (422, 2_000, &json!("txn_id_reused")), "another way");
        let (status, _, kbit, refusal) = ask(&domain, "south", 4, 1_000).await;
        assert_eq!((status, kbit, &refusal["code"]), (422, 2_000, &json!("txn_id_reused")));
        assert_eq!(reserved(&domain).await, 2_000);
    });
}

#[test]
fn questions_at_the_same_time_leave_what_the_last_of_them_says() {
    run(async {
        let domain = domain().await;
        let turns = Turns::default();
        let asks = (1..=20_u64).map(|number| {
            let (domain, turns) = (&domain, &turns);
            async move {
                let _turn = turns.of("west/voice/x").await;
                // Later ones first.
                ask(domain, "east", 21 - number, (21 - number) * 100).await
            }
        });
        for answer in futures_util::future::join_all(asks).await {
            assert_eq!(answer, (200, 20, 2_000, Value::Null));
        }
        assert_eq!(reserved(&domain).await, 2_000);
    });
}

#[test]
fn the_holder_is_told_what_is_taken_from_a_lease_and_nothing_of_what_it_gives_back() {
    run(async {
        let domain = domain().await;
        ask(&domain, "east", 1, 2_000).await;
        let (whole, mut news) = domain.follow("west").await.expect("it leads");
        assert!(whole.exists);
        let link = domain.look(|ledger| ledger.link("west", "wan")).await.expect("it leads").expect("a link");
        domain.set_rate("test", link, 1_000_000).await.expect("it leads");
        let lease = loop {
            let told = news.recv().await.expect("there is news");
            if let News::Node { news: news @ DomainNews::Lease { .. }, .. } = &*told {
                break news.clone();
            }
        };
        assert_eq!(lease, DomainNews::Lease { name: "voice/x".into(), number: 1, bps: 0 });
        assert_eq!(ask(&domain, "east", 2, 100).await, (200, 2, 100, Value::Null));
        assert_eq!(ask(&domain, "east", 3, 0).await, (200, 3, 0, Value::Null));
        domain.look(|_| ()).await.expect("it leads");
        while let Ok(news) = news.try_recv() {
            assert!(!matches!(&*news, News::Node { news: DomainNews::Lease { .. }, .. }), "{news:?}");
        }
    });
}

#[test]
fn a_lease_of_one_link_and_leases_over_it_see_each_other() {
    run(async {
        let domain = domain().await;
        let wan = ("", Some("wan"));
        assert_eq!(ask_of(&domain, "m", wan, 1, 2_000).await, (200, 1, 2_000, Value::Null));
        let (status, _, has, refusal) = ask(&domain, "east", 1, 1_500).await;
        assert_eq!(
            (status, has, &refusal["link"], &refusal["free_bps"]),
            (422, 0, &json!("west/wan"), &json!(1_000_000))
        );
        assert_eq!(ask(&domain, "east", 2, 1_000).await.0, 200);
        // More is not to be had; what it has it keeps.
        let (status, number, has, refusal) = ask_of(&domain, "m", wan, 2, 2_500).await;
        assert_eq!((status, number, has, &refusal["free_bps"]), (422, 2, 2_000, &json!(0)));
        assert_eq!(ask_of(&domain, "m", ("", Some("up")), 3, 2_000).await.3["code"], "txn_id_reused");
        assert_eq!(ask_of(&domain, "m", ("east", None), 4, 2_000).await.3["code"], "txn_id_reused");
        assert_eq!(ask_of(&domain, "n", ("east", Some("wan")), 5, 1).await.3["code"], "malformed");
        let (status, _, _, refusal) = ask_of(&domain, "n", ("", Some("down")), 6, 1).await;
        assert_eq!((status, &refusal["code"]), (422, &json!("no_path")));
        assert_eq!(ask_of(&domain, "m", wan, 7, 0).await, (200, 7, 0, Value::Null));
        assert_eq!(reserved(&domain).await, 1_000);
    });
}
