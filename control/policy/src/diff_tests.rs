use super::*;
use proptest::prelude::*;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn policy(slas: &BTreeMap<u8, u64>) -> Policy {
    let sla = |(own, rate): (&u8, &u64)| {
        let rate = perhop_units::Rate(1_000 + *rate);
        (name(&format!("s{own}")), crate::model::Sla { rate, ..Default::default() })
    };
    Policy { slas: slas.iter().map(sla).collect(), ..Policy::default() }
}

proptest! {
    #[test]
    fn changes_make_of_one_policy_the_other(
        before in proptest::collection::btree_map(0u8..8, 0u64..3, 0..6),
        after in proptest::collection::btree_map(0u8..8, 0u64..3, 0..6),
    ) {
        let (before, after) = (policy(&before), policy(&after));
        let mut kept = rows(&before);
        for change in row_changes(&before, &after) {
            let key = (change.section, change.name);
            match change.spec {
                Some(spec) => drop(kept.insert(key, spec)),
                None => prop_assert!(kept.remove(&key).is_some(), "only what is there goes"),
            }
        }
        prop_assert_eq!(assemble(&kept), Ok(after.clone()));
        prop_assert_eq!(row_changes(&after, &after), vec![]);
        let fields = field_changes(&before, &after);
        prop_assert!(fields.iter().all(|(_, fields)| !fields.is_empty()));
    }
}

#[test]
fn fields_are_shown_by_their_paths() {
    let (before, after) = (policy(&[(1, 0)].into()), policy(&[(1, 1), (2, 0)].into()));
    let found = field_changes(&before, &after);
    let paths: Vec<Vec<&str>> =
        found.iter().map(|(_, all)| all.iter().map(|f| f.path.as_str()).collect()).collect();
    assert_eq!(paths, [vec!["rate"], vec![""]]);
    let row = Rows::from([((Section::Sla, name("x")), "{}".to_owned())]);
    assert_eq!(assemble(&row), Err(RowError { section: Section::Sla, name: name("x") }));
}
