//! Every pair of state and event.

use super::*;

const STATES: [State; 6] =
    [State::None, State::Asking, State::Held, State::Changing, State::Returning, State::Frozen];

/// What follows, as a picture would show it; `-` = nothing.
fn row(event: Event) -> String {
    let name = |state: State| match state {
        State::None => 'N',
        State::Asking => 'A',
        State::Held => 'H',
        State::Changing => 'C',
        State::Returning => 'R',
        State::Frozen => 'F',
    };
    STATES.iter().map(|state| step(*state, event).map_or('-', |(to, _)| name(to))).collect()
}

#[test]
fn the_table_is_that_of_the_picture() {
    //          from                        NAHCRF
    assert_eq!(row(Event::More(2)), /*   */ "A-C---");
    assert_eq!(row(Event::Less(1)), /*   */ "--R---");
    assert_eq!(row(Event::Renew), /*     */ "--C-R-");
    assert_eq!(row(Event::Lowered), /*   */ "----R-");
    assert_eq!(row(Event::Decided(1)), /**/ "-H-HH-");
    assert_eq!(row(Event::Decided(0)), /**/ "-N-NN-");
    assert_eq!(row(Event::Retry(1)), /*  */ "-A-C--");
    assert_eq!(row(Event::TimedOut), /*  */ "-R-C--");
    assert_eq!(row(Event::Lost), /*      */ "-FFFF-");
    assert_eq!(row(Event::Back(true)), /**/ "-----C");
    assert_eq!(row(Event::Back(false)), /* */ "-----R");
    assert_eq!(row(Event::Expired), /*   */ "--RRRN");
    assert_eq!(row(Event::TakenBack(1)), "--HCRF");
    assert_eq!(row(Event::TakenBack(0)), "--NCRF");
}

#[test]
fn nothing_is_asked_for_while_nobody_is_there() {
    let events = [Event::More(1), Event::Less(1), Event::Renew, Event::Retry(1), Event::TimedOut];
    assert!(events.iter().all(|event| step(State::Frozen, *event).is_none()));
}

#[test]
fn what_is_taken_or_lost_leaves_nothing_behind() {
    assert_eq!(step(State::Frozen, Event::Expired), Some((State::None, Action::End)));
    assert_eq!(step(State::Held, Event::TakenBack(0)), Some((State::None, Action::Shrink(0))));
    assert_eq!(step(State::Returning, Event::Lowered), Some((State::Returning, Action::Return)));
    assert_eq!(step(State::Asking, Event::TimedOut), Some((State::Returning, Action::Return)));
    assert_eq!(step(State::Changing, Event::TimedOut), Some((State::Changing, Action::Renew)));
}
