//! The broker with a controller that is one link, and an allocator and a router that do as they are told.

use super::*;
use perhop_allocate::AskId;
use proptest::prelude::*;

const KBIT: u64 = 1_000;
const LEAST: Rate = Rate(64 * KBIT);
const CLASS: ClassId = ClassId(0);

/// See the module. The controller's side is what the ledger books.
struct World {
    broker: DomainBroker,
    now: Instant,
    /// What the link has for the class, and what reservations over paths and others' leases have of it.
    capacity: u64,
    share: u64,
    others: u64,
    /// What is leased, by which question, and until when.
    lease: (u64, u64),
    ends: Instant,
    is_here: bool,
    /// It has told everything.
    knows: bool,
    /// The router takes nothing.
    stuck: bool,
    allocated: Rate,
    in_router: Rate,
    ids: u64,
    answers: Vec<Answer>,
    asks: Vec<u64>,
    told: Vec<Notice>,
}

fn place() -> Place {
    Place { port: Name::new("wan").expect("a name"), class: "voice".to_owned() }
}

impl World {
    fn new(capacity: u64) -> Self {
        let now = Instant(1_000_000_000);
        let name = Name::new("wan/voice").expect("a name");
        let mut world = Self {
            broker: DomainBroker::new([name], Duration::from_secs(60), 1, now),
            now,
            capacity: capacity * KBIT,
            share: 0,
            others: 0,
            lease: (0, 0),
            ends: Instant::FAR_FUTURE,
            is_here: false,
            knows: false,
            stuck: false,
            allocated: LEAST,
            in_router: Rate::ZERO,
            ids: 0,
            answers: Vec::new(),
            asks: Vec::new(),
            told: Vec::new(),
        };
        world.appears();
        world
    }

    /// The router is read.
    fn appears(&mut self) {
        self.broker.located(CLASS, Some(place()));
        self.broker.in_router(CLASS, self.in_router);
        self.broker.register(CLASS, self.allocated);
        self.settle();
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.share + self.others + self.lease.1)
    }

    /// Does what the broker wants until it wants nothing.
    fn settle(&mut self) {
        loop {
            if self.is_here && self.ends <= self.now {
                (self.lease.1, self.ends) = (0, Instant::FAR_FUTURE);
            }
            if let Some(notice) = self.broker.poll_notice() {
                match notice {
                    Notice::Asks(ask) => self.asked(&ask),
                    other => self.told.push(other),
                }
            } else if let Some(answer) = self.broker.poll_answer(self.now) {
                self.answers.push(answer.answer);
                if let Answer::Granted(rate) = answer.answer {
                    self.allocate(rate);
                }
            } else if let Some((_, most)) = self.broker.poll_limit() {
                self.allocate(self.allocated.min(most).max(LEAST));
            } else if self.in_router != self.allocated && !self.stuck {
                self.in_router = self.allocated;
                self.broker.in_router(CLASS, self.in_router);
            } else {
                break;
            }
        }
        let may = Rate(self.share + self.lease.1).max(LEAST);
        assert!(!self.knows || self.in_router <= may, "{} of {may}", self.in_router);
    }

    fn allocate(&mut self, rate: Rate) {
        self.allocated = rate;
        self.broker.register(CLASS, rate);
    }

    fn asked(&mut self, ask: &LinkAsk) {
        assert_eq!((ask.port.as_str(), ask.class.as_str()), ("wan", "voice"));
        self.asks.push(ask.bps);
        if !self.is_here {
            return;
        }
        let mut refused = None;
        if ask.number > self.lease.0 {
            self.lease.0 = ask.number;
            if ask.bps <= self.lease.1 + self.free() {
                self.lease.1 = ask.bps;
                self.ends = self.now + Duration::from_millis(ask.lifetime_ms);
            } else {
                let error = ErrorItem::new(Code::NoCapacity, "west/wan", "no");
                refused = Some(ErrorItem { free: Some(self.free()), ..error });
            }
        }
        assert!(self.share + self.others + self.lease.1 <= self.capacity.max(self.share + self.others));
        let (number, bps) = self.lease;
        self.broker.decided(self.now, &ask.lease, number, bps, refused.as_ref());
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let next = self.broker.next_wakeup().unwrap_or(end).max(self.now);
            if next >= end {
                break;
            }
            // A wake-up that does not move on is seen to at the next ms.
            self.now = next.max(self.now + Duration::from_millis(1)).min(end);
        }
        self.now = end;
        self.settle();
    }

    fn tell(&mut self, news: DomainNews) {
        self.broker.news(self.now, &news);
        self.settle();
    }

    fn share_news(&self) -> DomainNews {
        let class = Name::new("voice").expect("a name");
        DomainNews::Share { port: place().port, class, bps: Rate(self.share) }
    }

    fn comes(&mut self) {
        self.is_here = true;
        self.tell(DomainNews::Begin);
        self.tell(self.share_news());
        self.knows = true;
        self.tell(DomainNews::Complete);
    }

    fn goes(&mut self) {
        (self.is_here, self.knows) = (false, false);
        self.tell(DomainNews::Away);
    }

    fn reserve(&mut self, kbit: u64) {
        self.share = kbit * KBIT;
        if self.is_here {
            self.tell(self.share_news());
        }
    }

    /// The allocator wants this in all.
    fn want(&mut self, kbit: u64) {
        self.ids += 1;
        let (id, rate) = (AskId(self.ids), Rate(kbit * KBIT));
        let ask = BrokerAsk { class: CLASS, id, rate, allocated: self.allocated };
        self.broker.ask(self.now, ask);
        self.settle();
    }

    /// The domain takes a part of the lease back.
    fn takes_back(&mut self, kbit: u64) {
        self.lease.1 = kbit * KBIT;
        let (number, bps) = self.lease;
        self.tell(DomainNews::Lease { name: place().lease(), number, bps });
    }

    fn kbit(&self) -> (u64, u64) {
        (self.in_router.0 / KBIT, self.lease.1 / KBIT)
    }
}

#[test]
fn what_is_wanted_is_leased_and_then_granted() {
    let mut world = World::new(3_000);
    world.comes();
    assert_eq!(world.kbit(), (64, 64), "what it begins with is leased, too");
    world.want(1_000);
    assert_eq!(world.kbit(), (1_000, 1_000));
    // More than there is: what there is.
    world.want(5_000);
    assert_eq!(world.kbit(), (3_000, 3_000));
    assert_eq!(world.answers.last(), Some(&Answer::Granted(Rate(3_000 * KBIT))));
    assert!(world.told.is_empty(), "{:?}", world.told);
    world.want(4_000);
    assert_eq!((world.kbit(), world.answers.last()), ((3_000, 3_000), Some(&Answer::Refused)));
    let [Notice::NotLeased { code: Code::NoCapacity, link, asked, free, .. }] = &world.told[..] else {
        panic!("{:?}", world.told)
    };
    assert_eq!((link.as_str(), asked.0, free.0), ("west/wan", 4_000 * KBIT, 0));
}

#[test]
fn less_is_in_the_router_before_it_is_given_back() {
    let mut world = World::new(3_000);
    world.comes();
    world.want(2_000);
    world.asks.clear();
    world.want(500);
    assert_eq!(world.kbit(), (500, 2_000), "granted at once, and given back a little later");
    assert!(world.asks.is_empty());
    world.pass(Duration::from_secs(2));
    assert_eq!((world.kbit(), &world.asks[..]), ((500, 500), &[500 * KBIT][..]));
    // What the router does not give up is not given back.
    world.want(900);
    world.stuck = true;
    world.want(100);
    world.pass(Duration::from_secs(5));
    assert_eq!((world.allocated.0, world.kbit()), (100 * KBIT, (900, 900)));
    world.stuck = false;
    world.pass(Duration::from_secs(2));
    assert_eq!(world.kbit(), (100, 100));
}

#[test]
fn what_reservations_have_is_not_leased_once_more() {
    let mut world = World::new(3_000);
    world.share = 2_000 * KBIT;
    world.comes();
    assert_eq!(world.kbit(), (64, 0), "its share is more than it has");
    world.want(2_500);
    assert_eq!(world.kbit(), (2_500, 500));
    // A reservation that goes leaves what measurement wants to the lease, and one that comes gives it back.
    world.reserve(1_000);
    assert_eq!(world.kbit(), (2_500, 1_500));
    world.reserve(1_400);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.kbit(), (2_500, 1_100));
    // Others are faster: it has what is left.
    (world.share, world.others) = (400 * KBIT, 1_500 * KBIT);
    world.tell(world.share_news());
    assert_eq!(world.kbit(), (1_500, 1_100));
}

#[test]
fn without_the_controller_a_class_keeps_what_is_leased_until_that_ends() {
    let mut world = World::new(3_000);
    world.pass(Duration::from_secs(100));
    assert_eq!((world.kbit(), world.told.len()), ((64, 0), 0), "nobody was there yet");
    world.comes();
    world.want(2_000);
    world.goes();
    world.want(2_500);
    assert_eq!(world.answers.last(), Some(&Answer::Refused));
    world.pass(Duration::from_secs(50));
    assert_eq!(world.kbit(), (2_000, 2_000));
    world.pass(Duration::from_secs(10));
    assert_eq!(world.kbit(), (64, 2_000), "it counts less time than the controller");
    world.pass(Duration::from_secs(60));
    world.comes();
    assert_eq!(world.kbit(), (64, 64));
    // With it there leases are renewed.
    world.want(1_000);
    world.pass(Duration::from_secs(300));
    assert_eq!(world.kbit(), (1_000, 1_000));
}

#[test]
fn what_the_domain_takes_back_the_class_has_no_more() {
    let mut world = World::new(3_000);
    world.comes();
    world.want(2_000);
    world.others = 2_200 * KBIT;
    world.takes_back(800);
    assert_eq!(world.kbit(), (800, 800));
    world.others = 3_000 * KBIT;
    world.takes_back(0);
    assert_eq!(world.kbit(), (64, 0));
    let codes: Vec<Code> = world
        .told
        .iter()
        .filter_map(|notice| match notice {
            Notice::NotLeased { code, .. } => Some(*code),
            _ => None,
        })
        .collect();
    assert!(codes.contains(&Code::Preempted), "{codes:?}");
    world.others = 0;
    world.pass(Duration::from_secs(40));
    assert_eq!(world.kbit(), (64, 64), "it asks again for what it has");
}

#[test]
fn another_instance_leases_what_the_router_has() {
    let mut world = World::new(3_000);
    world.comes();
    world.want(2_000);
    let name = Name::new("wan/voice").expect("a name");
    world.broker = DomainBroker::new([name], Duration::from_secs(60), 1_000_000, world.now);
    world.asks.clear();
    world.knows = false;
    world.appears();
    assert_eq!(world.kbit(), (2_000, 2_000));
    world.comes();
    assert_eq!((world.kbit(), &world.asks[..]), ((2_000, 2_000), &[2_000 * KBIT][..]));
    // Where somebody else has it now, the class has less.
    let name = Name::new("wan/voice").expect("a name");
    world.broker = DomainBroker::new([name], Duration::from_secs(60), 2_000_000, world.now);
    (world.lease.1, world.others, world.knows) = (0, 2_500 * KBIT, false);
    world.appears();
    world.comes();
    assert_eq!(world.kbit(), (500, 500));
}

#[test]
fn a_class_that_moves_or_goes_takes_its_lease_along() {
    let mut world = World::new(3_000);
    world.comes();
    world.want(2_000);
    world.broker.located(CLASS, None);
    (world.allocated, world.in_router) = (Rate::ZERO, Rate::ZERO);
    world.broker.in_router(CLASS, Rate::ZERO);
    world.broker.register(CLASS, Rate::ZERO);
    world.settle();
    assert_eq!(world.lease.1, 0);
    (world.allocated, world.in_router) = (Rate(100 * KBIT), Rate(100 * KBIT));
    world.appears();
    assert_eq!(world.kbit(), (100, 100));
}

#[derive(Clone, Debug)]
enum Act {
    Want(u64),
    Share(u64),
    Others(u64),
    Pass(u64),
    Comes,
    Goes,
    TakesBack(u64),
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (64..4_000_u64).prop_map(Act::Want),
        3 => (0..2_000_u64).prop_map(Act::Share),
        2 => (0..2_000_u64).prop_map(Act::Others),
        3 => (1..20_000_u64).prop_map(Act::Pass),
        1 => Just(Act::Comes),
        1 => Just(Act::Goes),
        1 => (0..2_000_u64).prop_map(Act::TakesBack),
    ]
}

proptest! {
    /// Whatever happens: once the controller is there and all is quiet, the router has no more for the class than reservations
    /// and its lease have, unless that is less than its least; and not much is leased that nobody wants.
    #[test]
    fn the_router_has_what_is_booked(acts in prop::collection::vec(acts(), 1..60)) {
        let mut world = World::new(3_000);
        for act in acts {
            match act {
                Act::Want(kbit) => world.want(kbit),
                Act::Share(kbit) => {
                    let room = world.capacity - (world.others + world.lease.1).min(world.capacity);
                    world.reserve(kbit.min(room / KBIT));
                }
                Act::Others(kbit) => {
                    let room = world.capacity - (world.share + world.lease.1).min(world.capacity);
                    world.others = (kbit * KBIT).min(room);
                }
                Act::Pass(ms) => world.pass(Duration::from_millis(ms)),
                Act::Comes => world.comes(),
                Act::Goes => world.goes(),
                Act::TakesBack(kbit) if world.is_here => {
                    let less = (kbit * KBIT).min(world.lease.1) / KBIT;
                    world.takes_back(less);
                }
                Act::TakesBack(_) => {}
            }
        }
        world.goes();
        world.comes();
        world.pass(Duration::from_secs(200));
        let may = Rate(world.share + world.lease.1);
        prop_assert!(world.in_router <= may.max(LEAST), "{} of {}", world.in_router, may);
        prop_assert_eq!(world.in_router, world.allocated);
        let needs = world.in_router.saturating_sub(Rate(world.share));
        prop_assert!(world.lease.1 <= needs.0.max(LEAST.0), "{} for {}", world.lease.1, needs);
    }
}
