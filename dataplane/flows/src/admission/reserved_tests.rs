use super::*;
use crate::admission::Origin;
use perhop_packet::SlaId;
use perhop_units::Duration;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const MS: u64 = 1_000_000;
const KBIT: u64 = 1_000;

/// Classes of the ports from 0, kbit/s, of which everything may be reserved.
fn settings(kbit: &[u64]) -> AdmissionSettings {
    let cap = |(port, kbit): (usize, &u64)| Cap { port: PortId(port as u16), rate: Rate(kbit * KBIT) };
    AdmissionSettings {
        caps: kbit.iter().enumerate().map(cap).collect(),
        accept_pct: 100,
        drop_pct: 100,
        interval: Duration::from_millis(100),
        new_flow: Rate(80_000),
        idle: Duration::from_secs(2),
        ..AdmissionSettings::default()
    }
}

fn admission(settings: &AdmissionSettings) -> Admission {
    let mut a = Admission::new(64);
    a.set(Instant::ZERO, Some(settings));
    a
}

/// A flow from a port that was admitted for `base` and has `rate` now, kbit/s.
fn admitted(a: &mut Admission, owner: u32, from: u16, base: u64, rate: u64) {
    let at = a.enter(owner).expect("room") as usize;
    a.admitted += 1;
    let flow = &mut a.flows[at];
    (flow.standing, flow.from) = (Standing::Admitted, PortId(from));
    flow.reservation = Reservation { base: base * KBIT, ..Reservation::default() };
    a.reserve(at, rate * KBIT);
}

/// A call of 80 kbit/s from a port asks; what is said of it, and what the flows have, kbit/s.
fn ask(a: &mut Admission, owner: u32, from: u16) -> (bool, Option<Shortage>, Vec<u64>) {
    let origin = Origin { sla: SlaId::NONE, from: PortId(from) };
    let (admitted, refused) = a.packet(Instant::ZERO, owner, 200, origin, false);
    check_sums(a);
    (admitted, refused, a.flows.iter().map(|flow| flow.reservation.rate / KBIT).collect())
}

/// What flows have in each class, and have grown by, added up anew.
fn sums(a: &Admission) -> Vec<(u64, u64)> {
    let sum = |class: &Shared, of: fn(&Reservation) -> u64| {
        a.flows.iter().filter(|f| f.live && class.is_for(f.from)).map(|f| of(&f.reservation)).sum()
    };
    let grown = |r: &Reservation| r.rate.saturating_sub(r.base);
    a.classes.iter().map(|class| (sum(class, |r| r.rate), sum(class, grown))).collect()
}

fn check_sums(a: &Admission) {
    let kept: Vec<_> = a.classes.iter().map(|class| (class.reserved, class.grown)).collect();
    assert_eq!(kept, sums(a));
    let none = |f: &&Flow| !f.live || f.standing != Standing::Admitted;
    assert!(a.flows.iter().filter(none).all(|f| f.reservation.rate == 0), "only admitted flows have a rate");
}

#[test]
fn growth_elsewhere_makes_no_room_and_is_left_alone() {
    // From port 0 a flow may leave by 1 and 2; that of port 2 is full of calls from port 1, which have not grown.
    let mut a = admission(&settings(&[2_000, 1_000, 200]));
    admitted(&mut a, 0, 1, 90, 90);
    admitted(&mut a, 1, 1, 90, 90);
    // By 0 and 1 alone.
    admitted(&mut a, 2, 2, 80, 900);
    let (admitted, refused, rates) = ask(&mut a, 3, 0);
    assert_eq!((admitted, rates), (false, vec![90, 90, 900, 0]));
    let of_port_2 = Shortage { port: PortId(2), used: Rate(180_000), cap: Rate(200_000), locked: false };
    assert_eq!(refused, Some(of_port_2));
}

#[test]
fn a_refusal_names_the_port_that_lacks_room_in_what_new_flows_may_have() {
    // Nine tenths count: 900 by port 1, of which 850 are taken, and 108 by port 2, where 85 would fit.
    let mut a = admission(&AdmissionSettings { accept_pct: 90, ..settings(&[4_000, 1_000, 120]) });
    admitted(&mut a, 0, 2, 850, 850);
    let (admitted, refused, _) = ask(&mut a, 1, 0);
    assert_eq!((admitted, refused.map(|shortage| shortage.port)), (false, Some(PortId(1))));
}

#[test]
fn who_holds_nothing_where_room_is_lacking_gives_nothing() {
    let mut a = admission(&settings(&[4_000, 4_000, 200]));
    admitted(&mut a, 0, 2, 80, 900);
    admitted(&mut a, 1, 1, 80, 110);
    admitted(&mut a, 2, 1, 40, 80);
    // 85 are asked for, and 10 are free: the 75 come from those of port 1 alone, and not all they could give is taken.
    let (admitted, _, rates) = ask(&mut a, 3, 0);
    assert_eq!((admitted, rates), (false, vec![900, 110, 80, 0]), "70 would not be enough");
    a.end(2);
    super::tests::admitted(&mut a, 2, 1, 20, 80);
    let (admitted, _, rates) = ask(&mut a, 4, 0);
    assert_eq!((admitted, rates[0]), (true, 900));
    assert_eq!(rates[1] + rates[2] + rates[4], 200);
    assert!(rates[2] < rates[1], "who has grown most gives first: {rates:?}");
}

#[test]
fn a_locked_class_takes_nothing_from_anybody() {
    let locked = AdmissionSettings { locked: true, ..settings(&[200, 200]) };
    let mut a = admission(&locked);
    admitted(&mut a, 0, 0, 80, 200);
    let (admitted, refused, rates) = ask(&mut a, 1, 0);
    assert_eq!((admitted, rates), (false, vec![200, 0]));
    assert_eq!(refused.map(|shortage| (shortage.port, shortage.locked)), Some((PortId(1), true)));
}

/// What the steps of a run have met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    /// Flows accepted by what others gave, in one class and in several.
    made_room: [u64; 2],
    /// Refused though somebody had grown.
    refused_beside_growth: u64,
}

/// One packet, with what was before: a refusal changes no reservation, and who is accepted takes what it lacks.
fn packet(a: &mut Admission, now: Instant, owner: u32, len: u64, from: PortId, met: &mut Met) {
    let settings = a.settings.clone().expect("is on");
    let (flows, before, counters) = (a.flows.clone(), sums(a), a.counters);
    let origin = Origin { sla: SlaId::NONE, from };
    let (_, refused) = a.packet(now, owner, len, origin, false);
    check_sums(a);
    let at = a.place(owner).map(|at| at as usize);
    let others = flows.iter().enumerate().filter(|(i, _)| Some(*i) != at);
    let gave: Vec<(Flow, u64)> = others
        .map(|(i, flow)| {
            (*flow, flow.reservation.rate.checked_sub(a.flows[i].reservation.rate).expect("less"))
        })
        .filter(|(_, given)| *given > 0)
        .collect();
    let Some(at) = at else { return assert!(gave.is_empty()) };
    let from = a.flows[at].from;
    let own = flows.get(at).filter(|f| f.live).map_or(0, |f| f.reservation.rate);
    let begun =
        a.flows[at].reservation.rate > 0 && (own == 0 || a.counters.flows_admitted > counters.flows_admitted);
    if !begun {
        assert!(gave.is_empty(), "{gave:?}");
    }
    // What the asker had itself before it was silent is free again.
    let own_in = |class: &Shared| if flows.get(at).is_some_and(|f| class.is_for(f.from)) { own } else { 0 };
    let own_grown = flows.get(at).filter(|f| f.live).map_or(0, |f| f.reservation.grown());
    let floor = settings.floor(len);
    let lacks: Vec<u64> = a
        .classes
        .iter()
        .zip(&before)
        .map(|(class, (reserved, _))| {
            let others = reserved - own_in(class);
            if class.is_for(from) { (others + floor).saturating_sub(class.limit(100)) } else { 0 }
        })
        .collect();
    let growth = a
        .classes
        .iter()
        .zip(&before)
        .map(|(class, (_, grown))| grown - if own_in(class) > 0 { own_grown } else { 0 });
    let can_be_made = lacks.iter().zip(growth).all(|(lack, grown)| *lack <= grown);
    if refused.is_some() {
        assert!(settings.locked || !can_be_made);
        met.refused_beside_growth += u64::from(flows.iter().any(|f| f.reservation.grown() > 0));
    }
    if begun && lacks.iter().any(|lack| *lack > 0) {
        let alone = a.classes.iter().zip(&before).all(|(c, (r, _))| !c.is_for(from) || *r == own_in(c));
        assert!(can_be_made || alone);
        let most = |from: PortId| {
            let mine = a.classes.iter().zip(&lacks).filter(|(class, _)| class.is_for(from));
            mine.map(|(_, lack)| *lack).max().unwrap_or(0)
        };
        for (flow, given) in &gave {
            assert!(*given <= flow.reservation.grown() && *given <= most(flow.from), "{flow:?} {given}");
        }
        // In each class what lacked, and altogether no more than once for each.
        for (class, lack) in a.classes.iter().zip(&lacks) {
            let given: u64 = gave.iter().filter(|(f, _)| class.is_for(f.from)).map(|(_, given)| given).sum();
            assert!(given >= *lack || alone, "{class:?} {given} {lack}");
        }
        let given: u64 = gave.iter().map(|(_, given)| given).sum();
        assert!(given <= lacks.iter().sum());
        met.made_room[usize::from(lacks.iter().filter(|lack| **lack > 0).count() > 1)] +=
            u64::from(given > 0);
    } else {
        assert!(gave.is_empty(), "{gave:?}");
    }
}

/// Steps in which few flows grow, before as many in which all ask.
const PHASE: usize = 250;

/// A step: who, how long after the last, how long the packet, from which port, and what else happens.
type Drawn = (u32, u64, u64, u16, u8);

fn run(steps: impl IntoIterator<Item = Drawn>) -> Met {
    let mut met = Met::default();
    let mut set = settings(&[900, 600, 400]);
    let mut a = Admission::new(24);
    a.set(Instant::ZERO, Some(&set));
    let mut ms = 0;
    for (i, (owner, gap, len, from, other)) in steps.into_iter().enumerate() {
        let owner = if (i / PHASE).is_multiple_of(2) { owner % 4 } else { owner };
        ms += gap;
        let now = Instant(ms * MS);
        a.tick(now);
        check_sums(&a);
        match other {
            0 => a.end(owner),
            1 => {
                set.locked = !set.locked;
                a.set(now, Some(&set));
            }
            2 => {
                set.caps[usize::from(from % 3)].rate = Rate((300 + len) * KBIT);
                a.set(now, Some(&set));
            }
            3 => {
                set.cancel += 1;
                a.set(now, Some(&set));
                a.take_dropped().for_each(drop);
            }
            4 => {
                a.set(now, None);
                a.set(now, Some(&set));
            }
            _ => {
                let from = if from < 3 { PortId(from) } else { PortId::NONE };
                packet(&mut a, now, owner, len, from, &mut met);
            }
        }
        check_sums(&a);
    }
    met
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Of three ports: a refusal changes no reservation, who is accepted takes no more than it lacks and from those only who
    /// hold something there, and the sums that are kept are those that are counted anew.
    #[test]
    fn room_is_made_of_growth_where_it_is_lacking(
        steps in prop::collection::vec((0u32..24, 0u64..6, 40u64..1_500, 0u16..4, 0u8..200), 1..600),
    ) {
        run(steps);
    }
}

#[test]
fn room_is_made_and_refused_in_one_class_and_in_several() {
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let mut step = || {
        let owner = rng.random_range(0..24_u32);
        let other = rng.random_range(0..400_u16).min(255) as u8;
        // Each comes by a port of its own.
        (owner, rng.random_range(0..4_u64), rng.random_range(100..1_500_u64), (owner % 3) as u16, other)
    };
    let met = run((0..40_000).map(|_| step()));
    assert!(met.made_room.iter().all(|times| *times > 10) && met.refused_beside_growth > 100, "{met:?}");
}
