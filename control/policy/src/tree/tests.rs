use super::*;
use crate::validate::faults;
use perhop_model::Name;
use perhop_units::Rate;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// The source's databases, with the two of each kind.
fn tree() -> Tree {
    let mut tree = Tree::new();
    let mut folder = |folder: &str, values: &[(&str, &str)]| {
        tree.extend(values.iter().map(|(name, value)| (format!("{folder}/{name}"), format!("{value}\n"))));
    };
    let class = |parent| {
        [("parent", parent), ("bandwidth", "2000000"), ("priority", "7"), ("borrow", "1"), ("queue", "50")]
    };
    folder("class/root", &class("NULL"));
    folder("class/ef", &class("root"));
    let any = [("dst", "0"), ("dst_port", "0"), ("src", "0"), ("src_port", "0"), ("protocol", "0")];
    folder("class_filter/ef/f1", &any);
    folder("class_filter/ef/f1", &[("tos", "0xb8/0xfc")]);
    let profile = [
        ("interface", "fxp0"),
        ("cir", "1000000"),
        ("cbs", "15000"),
        ("pir", "2000000"),
        ("pbs", "15000"),
        ("green", "mark 0x28"),
        ("yellow", "pass"),
        ("red", "drop"),
    ];
    folder("profile/ann", &profile);
    let web = [
        ("dst", "0"),
        ("dst_port", "443"),
        ("src", "10.0.0.0/24"),
        ("src_port", "0"),
        ("protocol", "6"),
        ("tos", "0"),
    ];
    folder("profile_filter/ann/web", &web);
    tree
}

#[test]
fn a_tree_is_a_policy_and_the_policy_the_same_tree() {
    let contents = read_maintenance(&tree()).expect("sound");
    assert_eq!(write_maintenance(&contents), tree());
    let ports = [(name("fxp0"), Rate::ZERO), (name("fxp1"), Rate::from_mbit(10))].into();
    let output = BTreeSet::from([name("fxp1")]);
    let policy = to_policy(&contents, &name("edge"), &ports, &output).expect("sound");
    assert_eq!(faults(&policy), []);
    let ann = &policy.subscribers[&name("ann")];
    assert_eq!(ann.prefixes, ["10.0.0.0/24".parse().expect("a prefix")]);
    assert_eq!(policy.classes[&name("ef")].tier, 8);
    assert_eq!(from_policy(&policy, &name("edge")), (contents, vec![]));
    assert_eq!(from_policy(&policy, &name("other")).0, Contents::default());
}

#[test]
fn what_is_wrong_is_told_by_path_and_nothing_is_taken() {
    let mut broken = tree();
    broken.remove("class/ef/queue");
    broken.insert("class/ef/colour".into(), "red".into());
    broken.insert("profile_filter/bob/web/dst".into(), "0".into());
    broken.insert("readme".into(), String::new());
    let errors = read_maintenance(&broken).expect_err("broken");
    let found: BTreeSet<String> = errors.iter().map(ToString::to_string).collect();
    for wanted in [
        "class/ef has no queue",
        "class/ef/colour is not a path of such a tree",
        "readme is not a path of such a tree",
        "profile_filter/bob/web has no tos",
        "profile_filter/bob/web is of something that is not there",
    ] {
        assert!(found.contains(wanted), "{wanted}: {found:?}");
    }
    let mut values = tree();
    for (path, value) in [
        ("class/ef/priority", "16"),
        ("class/ef/borrow", "yes"),
        ("profile/ann/red", "mark 0x29"),
        ("profile/ann/cir", "-1"),
        ("profile_filter/ann/web/dst_port", "9-1"),
        ("profile_filter/ann/web/src", "10.0.0.0/33"),
    ] {
        values.insert(path.into(), value.into());
    }
    let contents = read_maintenance(&values).expect("it has the form of one");
    let errors = to_policy(&contents, &name("edge"), &BTreeMap::new(), &BTreeSet::new()).expect_err("broken");
    assert_eq!(errors.len(), 6, "{errors:?}");
}

#[test]
fn a_modification_removes_before_it_adds_and_profiles_take_their_filters_along() {
    let mut contents = read_maintenance(&tree()).expect("sound");
    let before = contents.clone();
    // Logout and login of one profile in one go, as after a move to another interface.
    let mut change = Tree::new();
    change.insert("profile/logout/ann".into(), String::new());
    for (parameter, value) in &before.profiles["ann"] {
        let value = if *parameter == "interface" { "fxp1" } else { value };
        change.insert(format!("profile/login/ann/{parameter}"), value.into());
    }
    change.insert("class/ef/bandwidth".into(), "3000000".into());
    modify(&mut contents, &change).expect("sound");
    assert_eq!(contents.profiles["ann"]["interface"], "fxp1");
    assert_eq!(
        (contents.profile_filters.len(), contents.classes["ef"]["bandwidth"].as_str()),
        (0, "3000000")
    );
    // What is not there goes without an error, twice; a filter of an absent profile does not come.
    let gone = Tree::from([
        ("profile/logout/nobody".to_owned(), String::new()),
        ("profile_filter/ann/remove/web".to_owned(), String::new()),
    ]);
    modify(&mut contents, &gone).expect("sound");
    let after = contents.clone();
    let orphan: Tree = before.profile_filters[&("ann".into(), "web".into())]
        .iter()
        .map(|(parameter, value)| (format!("profile_filter/bob/add/web/{parameter}"), value.clone()))
        .collect();
    let errors = modify(&mut contents, &orphan).expect_err("an orphan");
    assert_eq!((errors[0].fault.clone(), contents), (Fault::Orphan, after));
}

#[test]
fn what_a_tree_cannot_say_is_told() {
    let contents = read_maintenance(&tree()).expect("sound");
    let ports = [(name("fxp0"), Rate::ZERO), (name("fxp1"), Rate::ZERO)].into();
    let mut policy =
        to_policy(&contents, &name("edge"), &ports, &BTreeSet::from([name("fxp1")])).expect("sound");
    policy.classes.get_mut(&name("ef")).expect("there").weight = 2;
    policy.profiles.get_mut(&name("ann")).expect("there").filters.values_mut().for_each(|filter| {
        filter.matches.vlan = Some(1);
    });
    let (contents, unsaid) = from_policy(&policy, &name("edge"));
    let unsaid: Vec<&str> = unsaid.iter().map(|unsaid| unsaid.name.as_str()).collect();
    assert_eq!((unsaid, contents.profile_filters.len()), (vec!["ef", "ann"], 0));
}

fn parameters(known: &'static [&'static str]) -> impl Strategy<Value = Parameters> {
    proptest::collection::vec("[a-z0-9]{1,4}", known.len())
        .prop_map(|values| known.iter().copied().zip(values).collect())
}

prop_compose! {
    fn contents()(
        classes in proptest::collection::btree_map("[a-c/.]{1,2}", parameters(&CLASS), 0..3),
        profiles in proptest::collection::btree_map("[a-c/.]{1,2}", parameters(&PROFILE), 0..3),
        filters in proptest::collection::btree_map(("[a-c/.]{1,2}", "[a-c.]{1,2}"), parameters(&FILTER), 0..6),
    ) -> Contents {
        let of_profile = |((of, _), _): &(&(String, String), &Parameters)| profiles.contains_key(of);
        let profile_filters = filters.iter().filter(of_profile).map(|(key, spec)| (key.clone(), spec.clone())).collect();
        Contents { classes, class_filters: BTreeMap::new(), profiles, profile_filters }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(contents in contents()) {
        prop_assert_eq!(read_maintenance(&write_maintenance(&contents)), Ok(contents));
    }

    #[test]
    fn a_modification_makes_of_one_content_the_other(before in contents(), mut after in contents()) {
        after.classes.extend(before.classes.iter().filter(|(name, _)| !after.classes.contains_key(*name)).map(|(n, p)| (n.clone(), p.clone())).collect::<Vec<_>>());
        let tree = modification(&before, &after).expect("no filter of a class changes");
        let mut changed = before;
        prop_assert_eq!(modify(&mut changed, &tree), Ok(()));
        prop_assert_eq!(changed, after);
    }

    #[test]
    fn any_paths_are_read_without_harm(tree in proptest::collection::btree_map("(class|profile|profile_filter|login|add|[a-z%/]{0,3})(/[a-z%2F.]{0,4}){0,5}", "[ -~]{0,6}", 0..8)) {
        let mut contents = Contents::default();
        let _ = modify(&mut contents, &tree);
        if let Ok(contents) = read_maintenance(&tree) {
            let _ = to_policy(&contents, &name("edge"), &BTreeMap::new(), &BTreeSet::new());
        }
    }
}
