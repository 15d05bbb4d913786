use super::*;
use crate::wire::{Command, Context, Decision, Opaque, Verdict};
use proptest::collection::vec;
use proptest::prelude::*;

fn oid() -> impl Strategy<Value = Oid> {
    let rest = prop_oneof![0..200u32, any::<u32>()];
    ((0..3u32, 0..40u32), vec(rest, 0..12)).prop_map(|((first, second), rest)| {
        Oid::new([first, second].into_iter().chain(rest).collect()).expect("parts that fit")
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(Value::Integer),
        vec(any::<u8>(), 0..300).prop_map(Value::Octets),
        Just(Value::Null),
        oid().prop_map(Value::Oid),
        any::<[u8; 4]>().prop_map(Value::Address),
        any::<u32>().prop_map(Value::Unsigned),
    ]
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        oid().prop_map(Object::Prid),
        oid().prop_map(Object::Prefix),
        vec(value(), 0..6).prop_map(Object::Data),
        any::<(u16, u16)>().prop_map(|(code, sub)| Object::Global(GlobalCode(code), sub)),
        any::<(u16, u16)>().prop_map(|(code, sub)| Object::Class(ClassCode(code), sub)),
        oid().prop_map(Object::ErrorPrid),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(objects in vec(object(), 0..6)) {
        let data = write_all(&objects).expect("short");
        prop_assert_eq!(read_all(data.octets()), Ok(objects));
    }

    #[test]
    fn octets_that_are_anything_are_read_as_they_were_meant_or_refused(
        objects in vec(object(), 1..4), at in any::<prop::sample::Index>(), octet in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let mut data = write_all(&objects).expect("short").octets().to_vec();
        let at = at.index(data.len());
        data[at] = octet;
        data.truncate(cut.index(data.len()) + 1);
        if let Ok(read) = read_all(&data) {
            prop_assert_eq!(read_all(write_all(&read).expect("not longer").octets()), Ok(read));
        }
    }

    /// Against a map that is copied, changed, and put back where something is wrong.
    #[test]
    fn a_transaction_is_done_as_a_whole_or_not_at_all(
        changes in vec((vec(0..20u32, 0..3), vec(0..4u32, 0..2), vec((0..20u32, any::<i32>()), 0..6)), 1..12), most in 4..16usize,
    ) {
        // Instances are 1.3.(n / 5).(n): of four classes.
        let name = |n: u32| Oid::new(vec![1, 3, n / 5, n]).expect("an identifier");
        let (mut real, mut model) = (Instances::default(), std::collections::BTreeMap::new());
        for (remove, under, install) in changes {
            let names: Vec<Oid> = remove.iter().map(|n| name(*n)).collect();
            let prefixes: Vec<Oid> = under.iter().map(|n| Oid::new(vec![1, 3, *n]).expect("one")).collect();
            let new: Vec<(Oid, Vec<Value>)> =
                install.iter().map(|(n, v)| (name(*n), vec![Value::Integer(*v)])).collect();
            let mut after = model.clone();
            after.retain(|n: &u32, _: &mut i32| !remove.contains(n) && !under.contains(&(n / 5)));
            after.extend(install.iter().copied());
            let fits = after.len() <= most && install.iter().all(|(_, v)| *v % 7 != 0);
            let judge = |_: &Oid, values: &[Value]| match values {
                [Value::Integer(v)] if v % 7 != 0 => Ok(()),
                _ => Err((ClassCode::ATTR_VALUE_INVALID, 1)),
            };
            let done = real.change(&names, &prefixes, &new, most, judge);
            prop_assert_eq!(done.is_ok(), fits);
            if fits {
                model = after;
            }
            let held: Vec<(Oid, Vec<Value>)> = real.iter().map(|(o, v)| (o.clone(), v.to_vec())).collect();
            let expected: Vec<(Oid, Vec<Value>)> =
                model.iter().map(|(n, v)| (name(*n), vec![Value::Integer(*v)])).collect();
            prop_assert_eq!(held, expected);
        }
    }
}

/// RFC 3084 §4.1, §4.2, §4.3.
#[test]
fn objects_are_those_of_the_rfc() {
    let oid = |arcs: &[u32]| Oid::new(arcs.to_vec()).expect("an identifier");
    let prid = [0, 0x0d, 1, 1, 6, 7, 0x2b, 6, 1, 2, 2, 8, 1, 0, 0, 0];
    let prefix = [0, 0x0b, 2, 1, 6, 5, 0x2b, 6, 1, 2, 2, 0];
    let data = [
        0, 0x30, 3, 1, 2, 1, 8, 0x40, 4, 0xc0, 0x39, 1, 5, 0x40, 4, 0xff, 0xff, 0xff, 0xff, 0x40, 4, 0, 0, 0,
        0, 0x40, 4, 0, 0, 0, 0, 2, 1, 0xff, 2, 1, 6, 5, 0, 5, 0, 5, 0, 5, 0, 2, 1, 1,
    ];
    let address = |address| Value::Address(address);
    let mut values = vec![Value::Integer(8), address([192, 57, 1, 5]), address([255; 4])];
    values.extend([address([0; 4]), address([0; 4]), Value::Integer(-1), Value::Integer(6)]);
    values.extend([Value::Null, Value::Null, Value::Null, Value::Null, Value::Integer(1)]);
    let objects = vec![
        Object::Prid(oid(&[1, 3, 6, 1, 2, 2, 8, 1])),
        Object::Prefix(oid(&[1, 3, 6, 1, 2, 2])),
        Object::Data(values),
    ];
    let octets = [&prid[..], &prefix, &data].concat();
    assert_eq!(read_all(&octets), Ok(objects.clone()));
    assert_eq!(write_all(&objects).expect("short").octets(), octets);
}

#[test]
fn what_is_wrong_is_answered_by_the_rfcs_error() {
    for (data, code, sub) in [
        (&[0, 13, 1, 1, 6, 7, 0x2b, 6, 1, 2, 2, 8, 1, 0, 0, 1][..], GlobalCode::PADDING, 0),
        (&[0, 4, 7, 1], GlobalCode::UNKNOWN_OBJECT, 0x0701),
        (&[0, 4, 1, 2], GlobalCode::UNKNOWN_OBJECT, 0x0102),
        (&[0, 8, 3, 1, 0x47, 2, 1, 1], GlobalCode::UNKNOWN_TAG, 0x47),
        (&[0, 8, 3, 1, 2, 0x80, 1, 1], GlobalCode::LENGTH, 0),
        (&[0, 8, 3, 1, 2, 9, 1, 1], GlobalCode::LENGTH, 0),
        (&[0, 12, 1, 1], GlobalCode::MALFORMED_DECISION, 0),
        (&[0, 8, 1, 1, 2, 1, 7, 0], GlobalCode::MALFORMED_DECISION, 0),
    ] {
        assert_eq!(read_all(data).expect_err("malformed").global(), (code, sub), "{data:02x?}");
    }
}

#[test]
fn decisions_that_do_not_go_together_are_none() {
    let oid = Oid::new(vec![1, 3, 1]).expect("an identifier");
    let of = |command, flags, objects: Option<&[Object]>| {
        let named: Option<Opaque> = objects.map(|objects| write_all(objects).expect("short"));
        Decision {
            context: Context::of(Context::CONFIGURATION),
            verdict: Verdict { flags, named, ..Verdict::of(command) },
        }
    };
    let binding = [Object::Prid(oid.clone()), Object::Data(vec![Value::Null])];
    let install = of(Command::INSTALL, 0, Some(&binding));
    let remove = of(Command::REMOVE, 0, Some(&[Object::Prefix(oid.clone()), Object::Prid(oid.clone())]));
    let state = of(Command::INSTALL, Verdict::REQUEST_STATE, None);
    let null = of(Command::NULL, 0, None);
    assert!(matches!(
        Transaction::read(&[remove.clone(), install.clone(), null.clone()]),
        Ok(Transaction::Change { remove, remove_under, install })
            if (remove.len(), remove_under.len(), install.len()) == (1, 1, 1)
    ));
    assert_eq!(Transaction::read(std::slice::from_ref(&state)), Ok(Transaction::OpenState));
    let delete = of(Command::REMOVE, Verdict::REQUEST_STATE, None);
    assert_eq!(Transaction::read(&[delete]), Ok(Transaction::DeleteState));
    for wrong in [
        // Removals come first; a prefix is not installed; a decision on the state is alone and has no data; NULL has none.
        vec![install.clone(), remove],
        vec![of(Command::INSTALL, 0, Some(&[Object::Prefix(oid.clone()), Object::Data(vec![])]))],
        vec![of(Command::INSTALL, 0, Some(&[Object::Prid(oid)]))],
        vec![state, null],
        vec![of(Command::INSTALL, Verdict::REQUEST_STATE, Some(&binding))],
        vec![of(Command::NULL, 0, Some(&binding))],
        vec![of(Command::INSTALL, 0, None)],
        vec![Decision { context: Context::of(Context::ALLOCATION), ..install }],
    ] {
        assert_eq!(Transaction::read(&wrong), Err(Malformed::Decision), "{wrong:?}");
    }
}

#[test]
fn removing_what_is_not_there_is_a_warning_and_errors_are_reported_by_instance() {
    let name = |n| Oid::new(vec![1, 3, n]).expect("an identifier");
    let mut held = Instances::default();
    let done = held.change(&[name(1)], &[], &[], 9, |_, _| Ok(())).expect("a warning");
    assert_eq!(done.instances.len(), 1);
    let both = [(name(1), vec![]), (name(2), vec![Value::Null])];
    let refused = held
        .change(&[], &[], &both, 9, |_, values| match values {
            [] => Err((ClassCode::TOO_FEW_ATTRS, 0)),
            _ => Ok(()),
        })
        .expect_err("an instance without attributes");
    assert_eq!(held.iter().count(), 0);
    let data = refused.to_data().expect("short");
    let expected = vec![Object::ErrorPrid(name(1)), Object::Class(ClassCode::TOO_FEW_ATTRS, 0)];
    assert_eq!(read_all(data.octets()), Ok(expected));
}
