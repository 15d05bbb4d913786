use super::*;
use crate::reading::Readings;
use crate::testing::{Pair, Simple, reply};
use perhop_model::Name;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn session(fence: u64) -> Session<Pair> {
    Session::new(Pair(Simple { forced: true, ..Simple::default() }, Simple::default()), fence)
}

fn told(session: &mut Session<Pair>, s: u64, input: Input) -> Vec<Output<Notice>> {
    session.handle_input(Instant(s * SECOND), input);
    std::iter::from_fn(|| session.poll_output()).collect()
}

fn wish(name: &str) -> Op {
    let (kind, name) = (Kind::Allocation, Name::new(name).unwrap());
    Op::Delete { kind, name, if_version: None, drain_ms: None }
}

fn objects(revision: u64) -> Input {
    Input::Objects { revision, objects: Vec::new() }
}

fn readings(epoch: u64, revision: u64) -> Input {
    let (classes, policies) = (Vec::new(), Vec::new());
    Input::Readings(Readings { epoch, revision, at: Instant::ZERO, classes, policies })
}

fn answer(epoch: u64, revision: u64, code: Option<Code>) -> Input {
    let errors = code.map(|code| ErrorItem::new(code, "", "no")).into_iter().collect();
    Input::Reply(reply(epoch, revision, TxnId([0; 16]), errors))
}

fn refused(code: Code) -> Input {
    Input::Claimed(Err(ErrorItem::new(code, "owner", "no")))
}

fn claim(fence: u64) -> Output<Notice> {
    Output::Claim(Claim::new(Owner::Agent, fence))
}

/// A session whose router has answered everything, at revision 3 of epoch 7.
fn running() -> Session<Pair> {
    let mut session = session(5);
    assert_eq!(told(&mut session, 0, Input::Appeared), [claim(5)]);
    let kinds = vec![Kind::Port, Kind::Class, Kind::AbrPolicy];
    assert_eq!(told(&mut session, 0, Input::Claimed(Ok(()))), [Output::ReadObjects(kinds)], "each kind once");
    session.parts.1.look = Some(Instant::ZERO);
    assert_eq!(told(&mut session, 0, objects(3)), [Output::ReadClasses]);
    assert_eq!(told(&mut session, 0, readings(7, 3)), []);
    assert!(session.is_settled());
    session
}

#[test]
fn wishes_are_submitted_one_after_the_other_and_looks_go_on_meanwhile() {
    let mut session = running();
    (session.parts.0.wish, session.parts.1.wish) = (vec![wish("a")], vec![wish("b")]);
    let look = Some(Instant(SECOND));
    (session.parts.0.look, session.parts.1.look) = (look, look);
    assert_eq!(session.next_wakeup(), look);
    let outputs = told(&mut session, 1, Input::Tick);
    let [Output::ReadClasses, Output::Submit(first)] = &outputs[..] else { panic!("{outputs:?}") };
    assert!(first.force && first.fence == 5 && first.ops == [wish("a")]);
    assert_eq!(told(&mut session, 1, readings(7, 3)), []);
    let outputs = told(&mut session, 1, answer(7, 4, None));
    let [Output::Submit(second)] = &outputs[..] else { panic!("{outputs:?}") };
    assert!(!second.force && second.txn_id != first.txn_id && second.ops == [wish("b")]);
    let outputs = told(&mut session, 1, answer(7, 4, Some(Code::NoCapacity)));
    assert!(matches!(outputs[..], [Output::Say(Notice::Refused { .. }), Output::ReadObjects(_)]));
    assert_eq!((session.parts.0.committed, session.parts.1.refused.len()), (1, 1));
}

#[test]
fn a_claim_waits_for_a_busy_router_and_rises_above_an_older_instance() {
    let mut session = session(5);
    told(&mut session, 0, Input::Appeared);
    assert_eq!(told(&mut session, 1, refused(Code::Overload)), []);
    assert_eq!(session.next_wakeup(), Some(Instant(2 * SECOND)));
    assert_eq!(told(&mut session, 1, Input::Tick), []);
    assert_eq!(told(&mut session, 2, Input::Tick), [claim(5)]);
    assert_eq!(told(&mut session, 2, refused(Code::Fenced)), [claim(5 + FIRST_RAISE)]);
    assert_eq!(told(&mut session, 2, refused(Code::Fenced)), [claim(5 + 3 * FIRST_RAISE)]);
    told(&mut session, 2, Input::Claimed(Ok(())));
    // Once it was taken, a higher fence is another's.
    told(&mut session, 3, Input::Gone);
    told(&mut session, 3, Input::Appeared);
    let outputs = told(&mut session, 3, refused(Code::Fenced));
    assert!(matches!(outputs[..], [Output::Say(Notice::Superseded { .. })]) && session.is_superseded());
    assert_eq!(told(&mut session, 4, Input::Appeared), []);
}

#[test]
fn another_revision_and_another_life_of_the_router_begin_with_a_claim() {
    let mut session = running();
    assert_eq!(told(&mut session, 1, readings(7, 4)), [claim(5)]);
    assert_eq!(told(&mut session, 1, readings(8, 4)), [], "whose it is, is asked already");
    assert_eq!(session.parts.0.heard, ["objects", "readings", "readings", "missed"]);
    told(&mut session, 1, Input::Claimed(Ok(())));
    told(&mut session, 1, objects(4));
    session.parts.0.wish = vec![wish("a")];
    told(&mut session, 1, Input::Tick);
    assert_eq!(told(&mut session, 1, answer(8, 2, None)), [claim(5)]);
    assert!(session.parts.0.committed == 0 && session.parts.0.heard.last() == Some(&"restarted"));
    assert_eq!(told(&mut session, 1, answer(8, 2, None)), [], "nothing is on its way");
}

/// Readings tell of a restart while a transaction is on its way, which the router that has restarted refuses.
#[test]
fn an_answer_that_comes_after_the_restart_was_seen_is_not_heard() {
    let mut session = running();
    (session.parts.0.wish, session.parts.0.look) = (vec![wish("a")], Some(Instant::ZERO));
    assert!(matches!(told(&mut session, 1, Input::Tick)[..], [Output::ReadClasses, Output::Submit(_)]));
    assert_eq!(told(&mut session, 1, readings(8, 1)), [claim(5)]);
    assert_eq!(told(&mut session, 1, answer(8, 1, Some(Code::Fenced))), []);
    assert!(!session.is_superseded() && session.parts.0.refused.is_empty());
}

fn input(what: u8, which: u64) -> Input {
    match what {
        0 => Input::Appeared,
        1 => Input::Gone,
        2 | 3 => Input::Claimed(Ok(())),
        4 => refused([Code::Overload, Code::Fenced, Code::Fenced, Code::Overload][which as usize]),
        5 | 6 => objects(which),
        7 | 8 => readings(1 + which / 3, which),
        9 | 10 => answer(1 + which / 3, which, None),
        11 => answer(
            1,
            which,
            Some([Code::NoCapacity, Code::Overload, Code::NotFound, Code::Fenced][which as usize]),
        ),
        _ => Input::Tick,
    }
}

proptest! {
    /// Also answers that nobody asked for: one transaction is on its way at most, and only with a router; one that has ended is
    /// silent. The session's own assertions hold.
    #[test]
    fn whatever_it_is_told_there_is_one_transaction_at_a_time(
        inputs in proptest::collection::vec((0u8..14, 0u64..4, any::<bool>()), 0..120),
    ) {
        let mut session = session(5);
        let (mut away, mut under_way) = (true, false);
        for (s, (what, which, wants)) in inputs.into_iter().enumerate() {
            if wants {
                (session.parts.0.wish, session.parts.1.wish) = (vec![wish("a")], vec![wish("b")]);
                session.parts.1.look = Some(Instant::ZERO);
            }
            let (input, ended) = (input(what, which), session.is_superseded());
            match &input {
                Input::Appeared => away = false,
                Input::Gone => (away, under_way) = (true, false),
                Input::Reply(_) => under_way = false,
                Input::Readings(read) if session.is_anew(read.epoch) => under_way = false,
                _ => {}
            }
            let outputs = told(&mut session, s as u64, input);
            prop_assert!(outputs.is_empty() || !ended && !away);
            for output in outputs {
                if let Output::Submit(_) = output {
                    prop_assert!(!std::mem::replace(&mut under_way, true));
                }
            }
        }
    }
}

/// What is told of others is seen at once, and only where it can be.
#[test]
fn what_others_change_is_looked_at_when_it_is_told() {
    let mut session = running();
    assert_eq!(told(&mut session, 1, Input::Touched), [Output::ReadClasses]);
    assert_eq!(told(&mut session, 1, Input::Touched), [], "one look is on its way");
    assert_eq!(told(&mut session, 1, readings(7, 4)), [claim(5)]);
    assert_eq!(told(&mut session, 1, Input::Touched), [], "it is read anyway");
    told(&mut session, 2, Input::Gone);
    assert_eq!(told(&mut session, 2, Input::Touched), []);
}
