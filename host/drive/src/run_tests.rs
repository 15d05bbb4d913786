use super::*;
use crate::channel::{Over, channel};
use crate::testing::{Counting, Told, VirtualTime, Wants, block_on};
use perhop_units::Duration;
use std::convert::Infallible;
use std::future::{pending, ready};

/// Runs a counting machine until nobody is left, `source` beside it; the machine, its sums and when they were told.
fn counted(
    most: usize,
    time: &VirtualTime,
    source: impl AsyncFnOnce(crate::channel::Inlet<Told>),
) -> (Driven<Counting>, Vec<(u64, u64)>) {
    let (inlet, mut inputs) = channel(most);
    let mut driven = Driven::new(Counting::default(), Instant::ZERO);
    let mut sums = Vec::new();
    let handle = |now: Instant, wants: Wants| {
        let Wants::Sum(at, sum) = wants else { panic!("{wants:?}") };
        assert_eq!(now, at);
        sums.push((now.0, sum));
        Ok::<_, Infallible>(None)
    };
    let end = block_on(async {
        let machine = run(&mut driven, &mut inputs, time, pending::<()>(), handle);
        tokio::join!(machine, source(inlet)).0
    });
    assert_eq!(end, Ok(End::Closed));
    (driven, sums)
}

#[test]
fn a_machine_is_woken_when_it_wants_to_be() {
    let time = VirtualTime::default();
    let (driven, sums) = counted(4, &time, async |inlet| {
        inlet.send(Told::Every(Duration(10))).await.unwrap();
        time.until(Instant(35)).await;
    });
    assert_eq!(sums, [(0, 0), (10, 1), (20, 2), (30, 3)]);
    let counters = driven.counters();
    assert_eq!((counters.inputs, counters.ticks, counters.latest), (4, 3, Duration::ZERO));
}

#[test]
fn how_late_the_latest_wake_up_was_is_counted() {
    let time = VirtualTime::default();
    let (driven, _) = counted(4, &time, async |inlet| {
        inlet.send(Told::Every(Duration(10))).await.unwrap();
        time.until(Instant(10)).await;
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        // The machine waits for 20 by now, and somebody keeps the processor until 27.
        time.pass(Duration(17));
        time.until(Instant(28)).await;
    });
    assert_eq!(driven.counters().latest, Duration(7));
}

#[test]
fn an_input_in_between_neither_delays_a_wake_up_nor_is_delayed() {
    let time = VirtualTime::default();
    let (_, sums) = counted(4, &time, async |inlet| {
        inlet.send(Told::Every(Duration(100))).await.unwrap();
        for at in [30, 99, 150] {
            time.until(Instant(at)).await;
            inlet.told(Told::Add(10)).await.unwrap();
        }
    });
    assert_eq!(sums, [(0, 0), (30, 10), (99, 20), (100, 21), (150, 31)]);
}

#[test]
fn a_source_waits_when_there_is_no_room_and_nothing_is_lost() {
    let time = VirtualTime::default();
    let (driven, _) = counted(3, &time, async |inlet| {
        let other = inlet.clone();
        let put = async |inlet: &crate::channel::Inlet<Told>| {
            for _ in 0..500 {
                inlet.send(Told::Add(1)).await.unwrap();
            }
        };
        tokio::join!(put(&inlet), put(&other));
        assert!(inlet.waited() > 0 && inlet.waited() == other.waited());
    });
    assert_eq!(driven.machine().sum, 1_000);
}

#[test]
fn what_the_handler_answers_comes_before_what_waits() {
    let (inlet, mut inputs) = channel(8);
    let mut driven = Driven::new(Counting::default(), Instant::ZERO);
    let mut sums = Vec::new();
    block_on(async {
        inlet.send(Told::Add(1)).await.unwrap();
        inlet.send(Told::Add(10)).await.unwrap();
        drop(inlet);
        let handle = |_, wants| {
            let Wants::Sum(_, sum) = wants else { return Ok::<_, Infallible>(None) };
            sums.push(sum);
            Ok((sum == 1).then_some(Told::Add(5)))
        };
        run(&mut driven, &mut inputs, &VirtualTime::default(), pending::<()>(), handle).await.unwrap();
    });
    assert_eq!(sums, [1, 6, 16]);
}

#[test]
fn a_stop_leaves_what_waits_and_tells_whoever_waits_for_it() {
    let (inlet, mut inputs) = channel(8);
    let mut driven = Driven::new(Counting::default(), Instant::ZERO);
    let time = VirtualTime::default();
    block_on(async {
        inlet.send(Told::Add(1)).await.unwrap();
        let nothing = |_, _| Ok::<_, Infallible>(None);
        let end = run(&mut driven, &mut inputs, &time, ready("enough"), nothing).await;
        assert_eq!(end, Ok(End::Stopped("enough")));
        let (told, ()) = tokio::join!(inlet.told(Told::Add(2)), async { drop(inputs) });
        assert_eq!(told, Err(Over));
    });
    assert_eq!(driven.into_machine().sum, 0);
}

#[test]
fn a_machine_that_is_over_or_a_handler_that_fails_ends_it() {
    let (inlet, mut inputs) = channel(8);
    let time = VirtualTime::default();
    block_on(async {
        for input in [Told::End, Told::Add(1), Told::Add(2)] {
            inlet.send(input).await.unwrap();
        }
        let mut driven = Driven::new(Counting::default(), Instant::ZERO);
        let end = run(&mut driven, &mut inputs, &time, pending::<()>(), |_, _| Ok::<_, u64>(None)).await;
        assert_eq!(end, Ok(End::Over));
        let mut driven = Driven::new(Counting::default(), Instant::ZERO);
        let failed = run(&mut driven, &mut inputs, &time, pending::<()>(), |_, wants| match wants {
            Wants::Sum(_, sum) => Err::<Option<Told>, _>(sum),
            Wants::Ask(_) => Ok(None),
        });
        assert_eq!(failed.await, Err(1));
    });
}
