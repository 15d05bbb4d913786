use super::*;
use perhop_model::{ErrorItem, Outcome, TxnId};
use perhop_reason::Code;
use perhop_units::Instant;
use std::collections::BTreeSet;

/// The table once more, as names of states and events.
const TABLE: &[(&str, &str, &str)] = &[
    ("Away", "appeared", "Claiming"),
    ("Away", "gone", "Away"),
    ("Claiming", "gone", "Away"),
    ("Reading", "gone", "Away"),
    ("Running", "gone", "Away"),
    ("Submitting", "gone", "Away"),
    // Missed: it cannot be used where nothing was read before.
    ("Away", "read", "Away"),
    ("Away", "read anew", "Away"),
    ("Claiming", "read", "Claiming"),
    ("Claiming", "read anew", "Claiming"),
    ("Reading", "read", "Reading"),
    ("Reading", "read anew", "Reading"),
    ("Claiming", "taken", "Reading"),
    ("Claiming", "busy", "Claiming"),
    ("Claiming", "due", "Claiming"),
    ("Claiming", "too low", "Claiming"),
    ("Claiming", "barred", "Superseded"),
    ("Reading", "objects", "Running"),
    ("Running", "wish", "Submitting"),
    ("Running", "changed", "Claiming"),
    ("Running", "read", "Running"),
    ("Running", "read anew", "Claiming"),
    ("Submitting", "read", "Submitting"),
    ("Submitting", "read anew", "Claiming"),
    ("Submitting", "committed", "Running"),
    ("Submitting", "refused", "Reading"),
    ("Submitting", "replied anew", "Claiming"),
    ("Submitting", "shut out", "Superseded"),
];
const STATES: [State; 6] =
    [State::Away, State::Claiming, State::Reading, State::Running, State::Submitting, State::Superseded];

#[test]
fn a_pair_that_is_not_in_the_table_changes_nothing() {
    let error = ErrorItem::new(Code::Fenced, "fence", "no");
    let readings =
        Readings { epoch: 1, revision: 1, at: Instant::ZERO, classes: Vec::new(), policies: Vec::new() };
    let reply = crate::testing::reply(1, 1, TxnId([0; 16]), Vec::new());
    assert_eq!(reply.outcome, Outcome::Committed);
    let mut found = BTreeSet::new();
    for state in STATES {
        let events = [
            ("appeared", Event::Appeared),
            ("gone", Event::Gone),
            ("taken", Event::Taken),
            ("busy", Event::Busy),
            ("too low", Event::TooLow),
            ("due", Event::Due),
            ("barred", Event::Barred(&error)),
            ("shut out", Event::ShutOut(&error)),
            ("objects", Event::Objects(1, &[])),
            ("read", Event::Read(&readings)),
            ("read anew", Event::ReadAnew(2)),
            ("changed", Event::Changed(2)),
            ("wish", Event::Wish(Vec::new(), false)),
            ("committed", Event::Committed(&reply)),
            ("refused", Event::Refused(&reply)),
            ("replied anew", Event::RepliedAnew(2)),
        ];
        for (name, event) in events {
            let Some((next, _)) = step(state, event) else { continue };
            assert!(found.insert((format!("{state:?}"), name.to_owned(), format!("{next:?}"))));
        }
    }
    let owned = |(state, event, next): &(&str, &str, &str)| {
        ((*state).to_owned(), (*event).to_owned(), (*next).to_owned())
    };
    assert_eq!(found, TABLE.iter().map(owned).collect());
}
