//! Every interleaving of a small ring's two threads: `cargo xtask rings`.
#![allow(unexpected_cfgs, reason = "`loom` is set on the command line of its tests alone")]
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use loom::sync::Arc;
use loom::thread;
use perhop_ring::{Bell, Rounds, ring};

#[test]
fn everything_arrives_once_and_in_order() {
    loom::model(|| {
        let (mut to, mut from) = ring::<Box<u32>>(2);
        let sender = thread::spawn(move || {
            for n in 0..3 {
                let mut item = Box::new(n);
                while let Err(back) = to.push(item) {
                    item = back;
                    thread::yield_now();
                }
            }
        });
        for n in 0..3 {
            let item = loop {
                match from.pop() {
                    Some(item) => break item,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(*item, n);
        }
        sender.join().unwrap();
        assert!(from.is_empty());
    });
}

#[test]
fn batches_are_seen_whole_or_not_at_all() {
    loom::model(|| {
        let (mut to, mut from) = ring::<u32>(4);
        let sender = thread::spawn(move || {
            let first = to.push_batch(&mut vec![0, 1].into_iter());
            let second = to.push_batch(&mut vec![2, 3].into_iter());
            assert_eq!((first, second), (2, 2));
        });
        let mut taken = Vec::new();
        let seen = from.len();
        assert_eq!(seen % 2, 0);
        from.pop_batch(4, |item| taken.push(item));
        assert!(taken.len() >= seen && taken.len().is_multiple_of(2));
        sender.join().unwrap();
        from.pop_batch(4, |item| taken.push(item));
        assert_eq!(taken, [0, 1, 2, 3]);
    });
}

#[test]
fn either_end_may_go_first_and_what_is_left_is_freed() {
    loom::model(|| {
        let (mut to, mut from) = ring::<loom::sync::Arc<()>>(2);
        let item = Arc::new(());
        let put = item.clone();
        let sender = thread::spawn(move || {
            let _ = to.push(put.clone());
            let _ = to.push(put);
        });
        drop(from.pop());
        drop(from);
        sender.join().unwrap();
        assert_eq!(Arc::strong_count(&item), 1);
    });
}

#[test]
fn a_sleeper_has_either_seen_the_item_or_is_woken() {
    loom::model(|| {
        let (mut to, from) = ring::<u32>(2);
        let bell = Arc::new(Bell::new());
        let theirs = bell.clone();
        let sender = thread::spawn(move || {
            to.push(1).unwrap();
            theirs.ring()
        });
        bell.doze();
        let sleeps = from.is_empty();
        let woken = sender.join().unwrap();
        assert!(!sleeps || woken, "it would sleep for ever");
    });
}

#[test]
fn who_was_answered_finds_room_for_as_much_again() {
    loom::model(|| {
        let (mut to, mut from) = ring::<u32>(2);
        let rounds = Arc::new(Rounds::new(1));
        let theirs = rounds.clone();
        let receiver = thread::spawn(move || {
            let question = theirs.question();
            from.pop_batch(2, drop);
            theirs.answer(0, question);
            from
        });
        assert_eq!(to.push_batch(&mut vec![0, 1].into_iter()), 2);
        rounds.ask();
        let answered = rounds.is_answered();
        let more = to.push_batch(&mut vec![2, 3].into_iter());
        assert!(!answered || more == 2, "{more} more found room");
        drop(receiver.join().unwrap());
    });
}
