use super::*;
use crate::channel::{Inlet, channel, outlet};
use crate::driven::Driven;
use crate::run::{End, run};
use crate::testing::{Counting, Told, VirtualTime, Wants, block_on, words};
use perhop_units::Instant;
use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;

/// What happens on the way, with its time in ms.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<(u64, String)>>>, VirtualTime);

impl Log {
    fn note(&self, what: impl Into<String>) {
        self.0.borrow_mut().push((self.1.now().0 / 1_000_000, what.into()));
    }

    /// The times of one kind of line.
    fn times(&self, what: &str) -> Vec<u64> {
        self.0.borrow().iter().filter(|(_, said)| said == what).map(|(at, _)| *at).collect()
    }
}

/// A peer that is there from time to time.
#[derive(Clone, Default)]
struct Peer {
    log: Log,
    /// There or not; changes wake whoever listens.
    there: Rc<Cell<bool>>,
    /// What it says next without having been asked.
    says: Rc<RefCell<Vec<Told>>>,
    /// It takes requests and does not answer.
    stuck: Rc<Cell<bool>>,
    /// Attempts left before the connector gives up.
    patience: Rc<Cell<Option<u32>>>,
}

impl Connector for Peer {
    type Connection = Peer;

    async fn connect(&mut self) -> Result<Peer, &'static str> {
        self.log.note("connect");
        if self.there.get() { Ok(self.clone()) } else { Err("away") }
    }

    fn appeared(&self) -> Told {
        Told::Appeared
    }

    fn gone(&self) -> Told {
        Told::Gone
    }

    fn failed(&mut self, error: &'static str) -> Result<(), &'static str> {
        let left = self.patience.get();
        self.patience.set(left.map(|left| left.saturating_sub(1)));
        if left == Some(0) { Err(error) } else { Ok(()) }
    }

    fn lost(&mut self, why: Broken<&'static str>) {
        self.log.note(format!("lost: {why}"));
    }
}

impl Connection for Peer {
    type Request = u64;
    type Input = Told;
    type Error = &'static str;

    async fn send(&mut self, request: u64) -> Result<Option<Told>, &'static str> {
        self.log.note(format!("asked {request}"));
        while self.stuck.get() && self.there.get() {
            tokio::task::yield_now().await;
        }
        if self.there.get() { Ok(Some(Told::Add(100))) } else { Err("cut") }
    }

    async fn listen(&mut self) -> Result<Told, &'static str> {
        loop {
            if !self.there.get() {
                return Err("cut");
            }
            if let Some(said) = self.says.borrow_mut().pop() {
                return Ok(said);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn keep_alive(&mut self) -> Result<(), &'static str> {
        self.log.note("alive");
        Ok(())
    }
}

const LEAST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_millis(1_000);

/// Runs a counting machine that asks its sum of the peer when that appears, and what `happens` to the peer, until that ends.
fn kept(
    peer: &Peer,
    seed: u64,
    happens: impl AsyncFnOnce(Inlet<Told>),
) -> (Driven<Counting>, Result<(), &'static str>) {
    let (inlet, mut inputs) = channel(4);
    let (outlet, requests) = outlet(4);
    let time = &peer.log.1;
    let keeping = Keeping {
        timer: time.clone(),
        backoff: Backoff::new(LEAST, MOST, words(seed)),
        idle: Duration::from_secs(10),
    };
    let mut driven = Driven::new(Counting::default(), Instant::ZERO);
    let end = block_on(async {
        let keeper = keep(peer.clone(), requests, inlet.clone(), keeping);
        let stop = async {
            tokio::select! { () = happens(inlet) => Ok(()), ended = keeper => ended }
        };
        run(&mut driven, &mut inputs, time, stop, |_, wants| {
            if let Wants::Ask(sum) = wants {
                outlet.offer(sum);
            }
            Ok::<_, &str>(None)
        })
        .await
    });
    let Ok(End::Stopped(ended)) = end else { panic!("{end:?}") };
    (driven, ended)
}

async fn until(peer: &Peer, ms: u64) {
    peer.log.1.until(Instant(ms * 1_000_000)).await;
}

#[test]
fn a_peer_that_is_away_is_asked_less_and_less_often_up_to_the_bound() {
    for seed in 0..20 {
        let peer = Peer::default();
        kept(&peer, seed, async |_| until(&peer, 20_000).await).1.unwrap();
        let times = peer.log.times("connect");
        let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (i, pause) in pauses.iter().enumerate() {
            let whole = (100 << i.min(4)).min(1_000);
            assert!((whole / 2..=whole + 1).contains(pause), "seed {seed}, pause {i}: {pauses:?}");
        }
        assert!(pauses.len() > 20, "{pauses:?}");
    }
}

#[test]
fn a_connection_that_is_lost_is_told_and_made_again() {
    let peer = Peer::default();
    peer.there.set(true);
    let (driven, ended) = kept(&peer, 1, async |_| {
        until(&peer, 5_000).await;
        assert_eq!(peer.log.times("asked 0"), [0]);
        peer.there.set(false);
        until(&peer, 5_500).await;
        assert_eq!(peer.log.times("lost: cut"), [5_000]);
        peer.there.set(true);
        until(&peer, 10_000).await;
    });
    ended.unwrap();
    // It lasted, so that the first pause after it was a short one.
    let again = peer.log.times("connect")[1];
    assert!((5_050..=5_101).contains(&again), "{again}");
    assert_eq!((driven.machine().sum, peer.log.times("asked 100").len()), (200, 1));
}

#[test]
fn one_that_breaks_at_once_again_and_again_is_left_alone_all_the_same() {
    let peer = Peer::default();
    kept(&peer, 2, async |_| {
        for ms in 1..10_000 {
            peer.there.set(true);
            until(&peer, ms).await;
            peer.there.set(false);
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
    })
    .1
    .unwrap();
    let attempts = peer.log.times("connect").len();
    assert!((10..30).contains(&attempts), "{attempts}");
}

#[test]
fn what_a_peer_says_unasked_is_told_and_a_silent_one_is_kept_alive() {
    let peer = Peer::default();
    peer.there.set(true);
    let (driven, ended) = kept(&peer, 3, async |_| {
        until(&peer, 4_000).await;
        peer.says.borrow_mut().push(Told::Add(5));
        until(&peer, 30_000).await;
    });
    ended.unwrap();
    assert_eq!(driven.machine().sum, 105);
    assert_eq!(peer.log.times("alive"), [14_000, 24_000]);
    assert_eq!(peer.log.times("connect"), [0]);
}

#[test]
fn a_slow_peer_delays_no_timer_and_what_was_asked_of_it_is_forgotten_with_it() {
    let peer = Peer::default();
    peer.there.set(true);
    peer.stuck.set(true);
    let (driven, ended) = kept(&peer, 4, async |inlet| {
        inlet.send(Told::Every(Duration::from_millis(1))).await.unwrap();
        until(&peer, 10).await;
        inlet.send(Told::Appeared).await.unwrap();
        until(&peer, 1_000).await;
        peer.there.set(false);
        until(&peer, 1_010).await;
        peer.stuck.set(false);
        peer.there.set(true);
        until(&peer, 2_000).await;
    });
    ended.unwrap();
    assert!(driven.counters().ticks > 1_000);
    assert_eq!(driven.counters().latest, Duration::ZERO);
    // One of each connection; the one in between was made to the first.
    let said = peer.log.0.borrow();
    let asked: Vec<&u64> =
        said.iter().filter(|(_, what)| what.starts_with("asked")).map(|(at, _)| at).collect();
    assert!(matches!(asked[..], [0, 1_050..=1_101]), "{said:?}");
}

#[test]
fn a_peer_that_does_not_keep_up_loses_its_connection() {
    let peer = Peer::default();
    peer.there.set(true);
    peer.stuck.set(true);
    kept(&peer, 5, async |inlet| {
        for _ in 0..6 {
            inlet.told(Told::Appeared).await.unwrap();
        }
        peer.stuck.set(false);
        until(&peer, 1_000).await;
    })
    .1
    .unwrap();
    assert_eq!(peer.log.times("lost: it does not keep up: more requests wait for it than may"), [0]);
    assert_eq!(peer.log.times("connect").len(), 2);
}

#[test]
fn a_connector_that_gives_up_ends_it_all() {
    let peer = Peer::default();
    peer.patience.set(Some(3));
    let (_, ended) = kept(&peer, 6, async |_| pending().await);
    assert_eq!(ended, Err("away"));
    assert_eq!(peer.log.times("connect").len(), 4);
}
