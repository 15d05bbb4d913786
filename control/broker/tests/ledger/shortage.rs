//! Links that lose rate under reservations, by measurement, by schedule, or by a new description.

use crate::domains::{BEGIN_MS, DOMAIN, World, reserve, topology};
use perhop_broker::ledger::{Input, OnShort, Request, Reserve, Settings, Told};
use perhop_broker::record::ReservationState;
use perhop_reason::Code;

const HOUR_MS: u64 = 3_600_000;

/// Three reservations of 10 bit/s on the voice class of every link from a to b: the second is important, and the third may
/// be shrunk to 4.
fn full(on_short: OnShort) -> (World, [u64; 3]) {
    let mut world = World::new(Settings { on_short, ..Settings::default() }, DOMAIN);
    let shapes = [(0, None), (9, None), (0, Some(4))];
    let mut number = 0;
    let ids = shapes.map(|(priority, floor_bps)| {
        number += 1;
        let request = Reserve { priority, floor_bps, ..reserve(&number.to_string(), "a", "b", 10) };
        world.reserve("ann", request).expect("30 bit/s fit three").id
    });
    world.told.clear();
    (world, ids)
}

/// What owners are told, in order; shares of routers are not theirs.
fn told(world: &mut World) -> Vec<Told> {
    let all = std::mem::take(&mut world.told);
    all.into_iter().filter(|told| !matches!(told, Told::Share { .. })).collect()
}

#[test]
fn what_is_kept_is_told_the_least_important_and_youngest_first_and_nothing_new_fits_until_the_link_is_whole()
{
    let (mut world, ids) = full(OnShort::Keep);
    world.rate("c", "to-d", 25);
    // voice has 30 and video half of the rate: 42 of 25 do not fit, so voice has 30 · 25 / 42.
    let link = world.ledger.link("c", "to-d").expect("it is there");
    let short = |id| Told::Short { id, owner: "ann".into(), link };
    assert_eq!(told(&mut world), [short(ids[2]), short(ids[0])]);
    assert_eq!(world.ledger.reservations(), 3);
    let row = &world.database.capacities[&(link, "voice".into())];
    assert_eq!((row.bps, row.reserved, row.short), (17, 30, true));
    let refusal = world.reserve("ben", reserve("1", "a", "b", 1)).expect_err("it is short");
    assert_eq!((refusal.code, refusal.link.as_str(), refusal.free_bps), (Code::NoCapacity, "c/to-d", 0));
    assert!(refusal.message.contains("lost rate"), "{}", refusal.message);
    world.ask("ann", Request::Renew { id: ids[0], lifetime_ms: None }).expect("what is kept may be kept");
    world.release("ann", ids[1]).expect("it is hers");
    assert!(world.reserve("ben", reserve("1", "a", "b", 1)).is_err(), "20 of 17");
    world.rate("c", "to-d", 1_000);
    world.reserve("ben", reserve("1", "a", "b", 10)).expect("it is whole");
}

#[test]
fn what_can_be_shrunk_is_shrunk_to_its_floor_and_the_rest_is_told_that_it_is_short() {
    let (mut world, ids) = full(OnShort::Shrink);
    let link = world.ledger.link("c", "to-d").expect("it is there");
    world.rate("c", "to-d", 41);
    // 30 · 41 / 50 = 24.
    let shrunk = |bps| Told::Shrunk { id: ids[2], owner: "ann".into(), link, bps };
    assert_eq!(told(&mut world), [shrunk(4)]);
    let row = &world.database.reservations[&ids[2]];
    assert_eq!((row.bps, row.state), (4, ReservationState::Shrunk));
    assert_eq!(world.free("a", "up", "voice"), 6, "it is less everywhere");
    world.rate("c", "to-d", 25);
    assert_eq!(
        told(&mut world),
        [
            Told::Short { id: ids[2], owner: "ann".into(), link },
            Told::Short { id: ids[0], owner: "ann".into(), link }
        ]
    );
    world.rate("c", "to-d", 100);
    let change = Request::Change { id: ids[2], bps: Some(10), back_bps: None, lifetime_ms: None, flow: None };
    world.ask("ann", change).expect("it may grow back");
    assert_eq!(world.database.reservations[&ids[2]].state, ReservationState::Held);
}

#[test]
fn as_many_as_needed_are_released_the_least_important_and_youngest_first() {
    let (mut world, ids) = full(OnShort::Release);
    world.rate("c", "to-d", 25);
    let gone = |told: &Told| match told {
        Told::Gone { id, code, .. } => (*id, *code),
        other => panic!("{other:?}"),
    };
    let told: Vec<(u64, Code)> = told(&mut world).iter().map(gone).collect();
    assert_eq!(told, [(ids[2], Code::NoCapacity), (ids[0], Code::NoCapacity)]);
    assert_eq!(world.database.reservations.keys().copied().collect::<Vec<_>>(), [ids[1]]);
    assert_eq!(world.database.log_of(&ids[0].to_string()), ["reserve", "release"]);
    world.reserve("ben", reserve("1", "a", "b", 7)).expect("17 are whole again");
}

/// A link with a rate of 40 from six to half past eight, and of 4 in one announced minute at noon.
fn scheduled() -> World {
    let text = DOMAIN.replacen("[[link]]\nfrom = \"d\"\nport = \"to-b\"", "[[link]]\nfrom = \"d\"\nport = \"to-b\"\n[link.schedule]\n\
        changes = [{ at = \"6 h\", rate = \"40 bit/s\" }, { at = \"510 min\", rate = \"100 bit/s\" }]\n\
        announced = [{ from = \"2026-12-01T12:00:00Z\", until = \"2026-12-01T12:01:00Z\", rate = \"4 bit/s\" }]\n[x]", 1);
    // A table in the middle of another's keys is none: the schedule goes behind them.
    let (before, after) = text.split_once("[link.schedule]").expect("it is in");
    let (schedule, after) = after.split_once("[x]").expect("it is in");
    let (keys, rest) = after.split_once("[[link]]").expect("there is another");
    let text = format!("{before}{keys}[link.schedule]{schedule}\n[[link]]{rest}");
    World::new(Settings { on_short: OnShort::Release, ..Settings::default() }, &text)
}

#[test]
fn a_reservation_has_no_more_than_the_least_rate_of_its_time() {
    let mut world = scheduled();
    let until = |ms: u64| Reserve { lifetime_ms: Some(ms), ..reserve("1", "a", "b", 30) };
    // At eight the link has 40: 30 · 40 / 50 for voice.
    let refusal = world.reserve("ann", until(60_000)).expect_err("it is eight");
    assert_eq!((refusal.link.as_str(), refusal.free_bps), ("d/to-b", 24));
    world.pass(HOUR_MS / 2);
    let refusal = world.reserve("ann", until(4 * HOUR_MS)).expect_err("it reaches into the announced minute");
    // 30 · 4 / 32.
    assert_eq!(refusal.free_bps, 3);
    let held = world.reserve("ann", until(3 * HOUR_MS + HOUR_MS / 2)).expect("it ends before");
    assert_eq!(held.expires_ms, BEGIN_MS + 4 * HOUR_MS);
    let renew = Request::Renew { id: held.id, lifetime_ms: Some(3 * HOUR_MS + HOUR_MS / 2 + 1) };
    assert_eq!(world.ask("ann", renew).expect_err("not into it").code, Code::NoCapacity);
    let shorter = Request::Renew { id: held.id, lifetime_ms: Some(HOUR_MS) };
    world.ask("ann", shorter).expect("it has what it asks for");
}

#[test]
fn what_a_schedule_takes_is_taken_when_it_is_time_and_given_back_after() {
    let mut world = scheduled();
    assert_eq!(world.free("d", "to-b", "voice"), 24);
    let wake = world.ledger.next_wakeup().expect("the rate changes");
    assert_eq!(wake.0 / 1_000_000, BEGIN_MS + 60_000, "first what was before the start is forgotten");
    world.pass(60_000);
    assert_eq!(world.ledger.next_wakeup().map(|at| at.0 / 1_000_000), Some(BEGIN_MS + HOUR_MS / 2));
    world.pass(HOUR_MS / 2 - 60_000);
    assert_eq!(world.free("d", "to-b", "voice"), 30);
    world.pass(3 * HOUR_MS + HOUR_MS / 2);
    assert_eq!(world.free("d", "to-b", "voice"), 3);
    world.pass(60_000);
    assert_eq!(world.free("d", "to-b", "voice"), 30);
    world.rate("d", "to-b", 50);
    assert_eq!(world.free("d", "to-b", "voice"), 27);
    world.pass(18 * HOUR_MS);
    assert_eq!(world.free("d", "to-b", "voice"), 24, "the lower of both");
}

#[test]
fn a_new_description_with_less_makes_links_short_and_what_is_used_cannot_go() {
    let (mut world, ids) = full(OnShort::Keep);
    let less = DOMAIN.replacen("voice = \"30 bit/s\"", "voice = \"10 bit/s\"", 1);
    world.become_(&topology(&less)).expect("capacity may shrink under reservations");
    let link = world.ledger.link("a", "up").expect("it is there");
    assert!(world.database.capacities[&(link, "voice".into())].short);
    assert_eq!(told(&mut world).len(), 2);

    let groups = world.database.audit.len();
    let without_class = DOMAIN.replacen("voice = \"30 bit/s\", ", "", 1);
    let refusal = world.become_(&topology(&without_class)).expect_err("voice is in use");
    assert_eq!(refusal.code, Code::InUse);
    assert_eq!(refusal.message, "class voice of link a/up has 30 bit/s reserved");
    let rerouted = DOMAIN.replacen("port = \"up\"\nto = \"c\"", "port = \"over\"\nto = \"c\"", 1);
    let refusal = world.become_(&topology(&rerouted)).expect_err("a/up is in use");
    assert_eq!(refusal.message, "link a/up carries reservations");
    let core = DOMAIN.replacen("name = \"b\", kind = \"edge\"", "name = \"b\", kind = \"core\"", 1);
    let refusal = world.become_(&topology(&core)).expect_err("b is in use");
    assert_eq!(refusal.message, "reservations begin or end at node b");
    assert_eq!(world.database.audit.len(), groups + 3, "each refusal is logged");

    for id in ids {
        world.release("ann", id).expect("they are hers");
    }
    world.become_(&topology(&rerouted)).expect("nothing is in use");
    assert_eq!(world.free("a", "over", "voice"), 30);
    assert!(world.ledger.link("a", "up").is_none());
    world.reserve("ann", reserve("9", "a", "b", 30)).expect("by the new link");
}

#[test]
fn a_new_path_is_for_new_reservations_and_the_old_one_goes_when_it_is_unused() {
    let mut world = World::new(Settings::default(), DOMAIN);
    let old = world.reserve("ann", reserve("1", "a", "b", 10)).expect("it fits");
    let shortcut = format!(
        "{DOMAIN}[[link]]\nfrom = \"a\"\nport = \"direct\"\nto = \"b\"\nrate = \"50 bit/s\"\nclasses = {{ voice = \"100 %\" }}\n"
    );
    world.become_(&topology(&shortcut)).expect("more is no harm");
    let new = world.reserve("ann", reserve("2", "a", "b", 40)).expect("by the short way");
    assert_ne!(old.path, new.path);
    assert_eq!(world.free("a", "up", "voice"), 20);
    world.restart(Settings::default());
    let again = world.reserve("ann", reserve("3", "a", "b", 1)).expect("still by the short way");
    assert_eq!(again.path, new.path);
    world.release("ann", old.id).expect("it is hers");
    world.become_(&topology(&shortcut)).expect("nothing new");
    assert!(!world.database.paths.contains_key(&old.path));
}

#[test]
fn a_client_that_the_description_loses_may_not_ask_any_more_and_others_stay() {
    let mut world = World::new(Settings::default(), DOMAIN);
    let without = DOMAIN.replacen("name = \"ben\"", "name = \"bob\"", 1);
    world.become_(&topology(&without)).expect("clients may go");
    assert_eq!(
        world.reserve("ben", reserve("1", "a", "b", 1)).expect_err("gone").code,
        Code::Unauthenticated
    );
    assert!(world.reserve("bob", reserve("1", "a", "b", 1)).is_ok());
    assert!(world.reserve("ann", reserve("1", "a", "b", 1)).is_ok());
}

#[test]
fn after_a_start_a_link_keeps_the_lower_rate_that_it_had_until_it_is_told_or_a_minute_has_passed() {
    for tells in [true, false] {
        let mut world = World::new(Settings::default(), DOMAIN);
        world.rate("c", "to-d", 25);
        world.restart(Settings::default());
        world.become_(&topology(DOMAIN)).expect("the same");
        assert_eq!(world.free("c", "to-d", "voice"), 17);
        if tells {
            world.rate("c", "to-d", 100);
        } else {
            world.pass(60_000);
        }
        assert_eq!(world.free("c", "to-d", "voice"), 30);
        world.same_rows();
    }
}

#[test]
fn routers_hear_of_every_share_that_changes_once_it_is_written() {
    let mut world = World::new(Settings::default(), DOMAIN);
    world.holds = true;
    world.send("ann", Request::Reserve(Box::new(reserve("1", "a", "b", 7))));
    assert_eq!(world.told, []);
    world.write();
    let shares: Vec<_> = world
        .told
        .iter()
        .map(|told| match told {
            Told::Share { node, port, class, reserved_bps, .. } => {
                format!("{node}/{port} {class} {reserved_bps}")
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shares, ["a/up voice 7", "c/to-d voice 7", "d/to-b voice 7"]);
}

#[test]
fn routers_hear_that_nothing_is_reserved_any_more_also_when_the_class_goes_with_it() {
    let mut world = World::new(Settings::default(), DOMAIN);
    let id = world.reserve("ann", reserve("1", "a", "b", 7)).expect("it fits").id;
    world.holds = true;
    // The first of these is on its way while the others make one group.
    world.rate("d", "to-p", 50);
    world.send("ann", Request::Release { id });
    let ask = world.next_ask();
    let classless = topology(&DOMAIN.replacen("voice = \"30 bit/s\", ", "", 1));
    world.input(Input::Topology { ask, who: "file".into(), topology: classless });
    world.write();
    world.told.clear();
    world.write();
    assert!(world.answers[&ask].is_ok());
    let (link, class) = (world.ledger.link("a", "up").expect("it is there"), "voice".into());
    let (node, port) = ("a".into(), "up".into());
    let share = Told::Share { link, node, port, class, reserved_bps: 0 };
    assert!(world.told.contains(&share), "{:?}", world.told);
}
