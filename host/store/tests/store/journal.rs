//! The agent's journal.

use crate::support::*;
use perhop_store::{Entry, Error, Journal, Limits};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const CHILD: &str = "PERHOP_JOURNAL_CHILD";

fn put(name: &str, value: Value) -> Entry {
    Entry { name: name.into(), value: Some(value) }
}

async fn open(path: &Path) -> Journal {
    Journal::open(path, Limits::default()).await.expect("a journal")
}

#[test]
fn a_journal_has_the_last_value_of_every_name() {
    let folder = Folder::new();
    let path = folder.file("journal.db");
    let mut draw = Draw::new(3);
    let mut model = BTreeMap::new();
    block_on(async {
        let mut journal = open(&path).await;
        for seq in 1..=60 {
            let entries: Vec<_> = (0..draw.below(400))
                .map(|n| {
                    let value = (draw.below(3) > 0).then(|| json!({ "n": n, "of": seq }));
                    Entry { name: format!("reservation/{}", draw.below(500)), value }
                })
                .collect();
            assert_eq!(journal.write(&entries).await.expect("written"), seq);
            for Entry { name, value } in entries {
                match value {
                    Some(value) => drop(model.insert(name, (seq, value))),
                    None => drop(model.remove(&name)),
                }
            }
            if seq % 20 == 0 {
                drop(journal);
                journal = open(&path).await;
            }
        }
        let (seq, kept) = journal.load().await.expect("a journal");
        assert_eq!(seq, 60);
        let kept: BTreeMap<_, _> = kept.into_iter().map(|k| (k.name, (k.seq, k.value))).collect();
        assert_eq!(kept, model);
        assert!(model.len() > 100);
    });
}

#[test]
fn a_full_journal_keeps_what_it_has() {
    let folder = Folder::new();
    block_on(async {
        let limits = Limits { sqlite_pages: Some(30), ..Limits::default() };
        let mut journal = Journal::open(&folder.file("journal.db"), limits).await.expect("a journal");
        journal.write(&[put("edition", json!(7))]).await.expect("written");
        let large = put("edition", json!("x".repeat(1_000_000)));
        for _ in 0..2 {
            let error =
                journal.write(&[put("lease/a", json!(1)), large.clone()]).await.expect_err("too large");
            assert!(matches!(error, Error::Full(_)), "{error:?}");
            let (seq, kept) = journal.load().await.expect("it is readable");
            assert_eq!((seq, kept.len(), &kept[0].value), (1, 1, &json!(7)));
        }
        assert_eq!(journal.write(&[put("edition", json!(8))]).await.expect("written"), 2);
    });
}

#[test]
fn a_child_writes_a_journal_for_its_parent() {
    let Ok(path) = std::env::var(CHILD) else { return };
    block_on(async {
        let mut journal = open(Path::new(&path)).await;
        let (first, _) = journal.load().await.expect("a journal");
        for n in first + 1.. {
            let entries = [put("lease/a", json!(n)), put("lease/b", json!(n)), put("edition", json!(n))];
            assert_eq!(journal.write(&entries).await.expect("written"), n);
            writeln!(std::io::stdout(), "\nwritten {n}").expect("a parent");
        }
    });
}

#[test]
fn a_journal_survives_the_end_of_its_agent() {
    let folder = Folder::new();
    let path = folder.file("journal.db");
    let mut draw = Draw::new(11);
    let mut last = 0;
    for _ in 0..8 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "journal::a_child_writes_a_journal_for_its_parent", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let wait = Duration::from_millis(100 + draw.below(200));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(wait);
            child.kill().expect("our child");
            child.wait().expect("our child");
        });
        let written = lines.map_while(Result::ok).filter_map(|l| l.strip_prefix("written ")?.parse().ok());
        let acknowledged = written.last().unwrap_or(last);
        killer.join().expect("it ended");
        let (seq, kept) = block_on(async { open(&path).await.load().await.expect("a journal") });
        assert!(seq >= acknowledged);
        if seq > 0 {
            let values: Vec<_> = kept.into_iter().map(|k| (k.seq, k.value)).collect();
            assert_eq!(values, vec![(seq, json!(seq)); 3], "all of one write");
        }
        last = seq;
    }
    assert!(last > 8, "only {last} writes in all rounds");
}
