use super::*;
use crate::channel::channel;
use crate::driven::Driven;
use crate::run::run;
use crate::testing::{Counting, Told, VirtualTime, Wants, block_on, words};
use crate::timer::Timer;
use perhop_units::Duration;
use std::convert::Infallible;
use std::future::pending;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A file of its own, gone with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("perhop-record-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    fn record(&self, machine: &str, setup: u64, most: u64) -> (Record, Arc<Mutex<Vec<String>>>) {
        let ends = Arc::<Mutex<Vec<String>>>::default();
        let told = Arc::clone(&ends);
        let ended = move |why: RecordEnd| told.lock().unwrap().push(why.to_string());
        (Record::open(&self.0, most, machine, Instant(5), &setup, ended).unwrap(), ends)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn replayed(text: &str, machine: &str) -> Result<(u64, Vec<(Instant, Wants)>), ReplayError> {
    let mut wanted = Vec::new();
    let make = |_, sum: u64| Counting::from(sum);
    let inputs = replay(text.as_bytes(), machine, make, |now, wants| wanted.push((now, wants)))?;
    Ok((inputs, wanted))
}

#[test]
fn a_replay_wants_what_the_live_machine_wanted() {
    for seed in 0..50 {
        let scratch = Scratch::new(&format!("equal-{seed}"));
        let mut words = words(seed);
        let time = VirtualTime::default();
        time.pass(Duration(5));
        let (inlet, mut inputs) = channel(4);
        let (record, ends) = scratch.record("counting", seed, RECORD_BYTES);
        let mut driven = Driven::new(Counting::from(seed), time.now()).recorded(record);
        let mut wanted = Vec::new();
        let handle = |now, wants: Wants| {
            let answer = matches!(&wants, Wants::Sum(_, sum) if sum % 7 == 3).then_some(Told::Add(2));
            wanted.push((now, wants));
            Ok::<_, Infallible>(answer)
        };
        let source = async {
            for _ in 0..200 {
                let input = match words() >> 60 {
                    0..10 => Told::Add(words() >> 50),
                    10 => Told::Every(Duration(1 + (words() >> 58))),
                    11..14 => Told::Appeared,
                    _ => Told::Gone,
                };
                inlet.send(input).await.unwrap();
                time.until(time.now() + Duration(words() >> 59)).await;
            }
            drop(inlet);
        };
        block_on(async {
            let machine = run(&mut driven, &mut inputs, &time, pending::<()>(), handle);
            tokio::join!(machine, source).0.unwrap();
        });
        let counters = driven.counters();
        assert!(counters.inputs >= 200 && ends.lock().unwrap().is_empty());
        assert_eq!(replayed(&scratch.text(), "counting").unwrap(), (counters.inputs, wanted), "seed {seed}");
    }
}

#[test]
fn a_record_is_one_json_object_a_line_and_only_grows() {
    let scratch = Scratch::new("lines");
    for (machine, setup) in [("one", 7), ("two", 8), ("one", 9)] {
        let (mut record, _) = scratch.record(machine, setup, RECORD_BYTES);
        record.note(Instant(6), &Told::Add(1));
        record.note(Instant(7), &Told::Tick);
    }
    let first =
        "{\"machine\":\"one\",\"now\":5,\"made\":7}\n{\"machine\":\"one\",\"now\":6,\"input\":{\"add\":1}}\n";
    assert!(scratch.text().starts_with(first), "{}", scratch.text());
    let sums = |machine| {
        let (inputs, wanted) = replayed(&scratch.text(), machine).unwrap();
        (inputs, wanted.into_iter().map(|(_, Wants::Sum(_, sum) | Wants::Ask(sum))| sum).collect::<Vec<_>>())
    };
    assert_eq!(sums("two"), (2, vec![8, 9, 9]));
    assert_eq!(sums("one"), (4, vec![7, 8, 8, 9, 10, 10]));
}

#[test]
fn a_record_that_is_full_ends_once_and_with_a_whole_line() {
    let scratch = Scratch::new("full");
    let (mut record, ends) = scratch.record("one", 7, 100);
    for _ in 0..5 {
        record.note(Instant(6), &Told::Tick);
    }
    assert_eq!(*ends.lock().unwrap(), ["it has the 100 B that a record may have"]);
    let text = scratch.text();
    assert!(text.ends_with("\"input\":\"tick\"}\n") && text.len() <= 100, "{text}");
    // There is no room in it for another machine either.
    let (_, ends) = scratch.record("one", 7, 100);
    assert_eq!(ends.lock().unwrap().len(), 1);
    assert_eq!(scratch.text(), text);
}

#[test]
fn a_line_that_was_cut_off_is_passed_over_and_a_wrong_one_is_an_error() {
    let scratch = Scratch::new("cut");
    let (mut record, _) = scratch.record("one", 1, RECORD_BYTES);
    record.note(Instant(6), &Told::Tick);
    let whole = scratch.text();
    for cut in 1..whole.lines().last().unwrap().len() {
        std::fs::write(&scratch.0, &whole[..whole.len() - 1 - cut]).unwrap();
        let (mut record, _) = scratch.record("one", 2, RECORD_BYTES);
        record.note(Instant(6), &Told::Add(1));
        let (inputs, wanted) = replayed(&scratch.text(), "one").unwrap();
        assert_eq!((inputs, wanted.len()), (1, 3), "{}", scratch.text());
    }
    let wrong = whole.replace("\"made\"", "\"mad\"") + &whole;
    assert!(matches!(replayed(&wrong, "one"), Err(ReplayError::Line { line: 1, .. })));
    let garbage = format!("{whole}?\n{}", whole.lines().last().unwrap());
    assert!(matches!(replayed(&garbage, "one"), Err(ReplayError::Line { line: 3, .. })));
    let unmade = whole.lines().last().unwrap();
    assert!(matches!(replayed(unmade, "one"), Err(ReplayError::NotMade(1))));
    assert_eq!(replayed(unmade, "other").unwrap().0, 0);
}
