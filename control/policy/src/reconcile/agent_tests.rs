use super::*;
use crate::compile::Wanted;
use perhop_model::{Claim, ColorAction, Key, Kind, MeterSpec, Name, ObjectState, ProfileSpec, Spec, Status};

fn wanted() -> Wanted {
    let key = Key { kind: Kind::Profile, name: Name::new("user/ann").expect("a name") };
    Wanted::from([(
        key,
        Spec::Profile(ProfileSpec {
            meter: MeterSpec::None,
            green: ColorAction::Pass,
            yellow: ColorAction::Pass,
            red: ColorAction::Drop,
            shared: false,
        }),
    )])
}

fn whole(seq: u64, wanted: Wanted) -> Input {
    Input::News(News::Whole(Known { seq, edition: seq, wanted }))
}

fn outputs(agent: &mut PolicyAgent, input: Input) -> Vec<Output> {
    agent.handle_input(Instant(1), input);
    std::iter::from_fn(|| agent.poll_output()).collect()
}

#[test]
fn who_knows_nothing_of_the_policy_asks_the_router_nothing() {
    let mut agent = PolicyAgent::new(7);
    assert_eq!(outputs(&mut agent, Input::Router(OfRouter::Appeared)), []);
    let changes = News::Changes { after: 3, seq: 4, edition: 1, changes: Vec::new() };
    let lost = outputs(&mut agent, Input::News(changes));
    assert_eq!(lost, [Output::NotTaken(NotTaken::Gap { have: 0 })]);
    assert_eq!((outputs(&mut agent, Input::Tick), agent.next_wakeup()), (vec![], None));
    let claim = Output::Router(ToRouter::Claim(Claim::new(owner(), 7)));
    assert_eq!(outputs(&mut agent, whole(4, wanted()))[0], claim);
}

#[test]
fn a_router_that_is_gone_before_anything_is_known_is_waited_for() {
    let mut agent = PolicyAgent::new(7);
    outputs(&mut agent, Input::Router(OfRouter::Appeared));
    outputs(&mut agent, Input::Router(OfRouter::Gone));
    let first = outputs(&mut agent, whole(4, wanted()));
    assert!(
        matches!(&first[..], [Output::Stands { report, .. }] if report.seq == 4 && !report.converged),
        "{first:?}"
    );
    let claim = Output::Router(ToRouter::Claim(Claim::new(owner(), 7)));
    assert_eq!(outputs(&mut agent, Input::Router(OfRouter::Appeared)), [claim]);
}

#[test]
fn how_the_router_stands_is_told_when_it_changes_and_only_then() {
    let mut agent = PolicyAgent::new(7);
    outputs(&mut agent, Input::Router(OfRouter::Appeared));
    outputs(&mut agent, whole(4, wanted()));
    outputs(&mut agent, Input::Router(OfRouter::Claimed(Ok(()))));
    let object = |(key, spec): (Key, Spec)| ObjectState {
        kind: key.kind,
        name: key.name,
        owner: owner(),
        id: 1,
        version: 1,
        status: Status::Active,
        expires_at_ns: None,
        spec,
    };
    let objects = wanted().into_iter().map(object).collect();
    let told = outputs(&mut agent, Input::Router(OfRouter::Objects { revision: 1, objects }));
    let stands = told.iter().filter_map(|output| match output {
        Output::Stands { report, .. } => Some((report.seq, report.converged)),
        _ => None,
    });
    assert_eq!(stands.collect::<Vec<_>>(), [(4, true)]);
    let more = outputs(&mut agent, Input::Tick);
    assert!(!more.iter().any(|output| matches!(output, Output::Stands { .. })), "{more:?}");
    let changes = News::Changes { after: 4, seq: 9, edition: 5, changes: Vec::new() };
    let more = outputs(&mut agent, Input::News(changes));
    let stands = |output: &Output| matches!(output, Output::Stands { report, .. } if report.edition == 5 && report.converged);
    assert!(more.iter().any(stands), "{more:?}");
}
