use super::*;
use crate::packet::Code;

fn packet(attributes: Vec<Attribute>) -> Packet {
    Packet { code: Code::CoaRequest, identifier: 0, authenticator: [0; 16], attributes }
}

#[test]
fn rate_limits_are_read_as_mikrotik_writes_them() {
    let cases = [
        ("128k/2M", Some((128_000, 2_000_000))),
        ("256000", Some((256_000, 256_000))),
        ("1M/1G 2M/2M 512k/512k 8/8 5 64k/64k", Some((1_000_000, 1_000_000_000))),
        ("", None),
        ("0/1M", None),
        ("1M/", None),
        ("-1k", None),
        ("+1k", None),
        ("1.5M", None),
        ("99999999999M", None),
        ("18446744073709551615G", None),
        ("k", None),
        ("1é", None),
    ];
    for (text, rates) in cases {
        let rates = rates.map(|(up, down)| (Rate(up), Rate(down)));
        assert_eq!(rate_limit(text), rates, "{text}");
    }
}

#[test]
fn what_is_written_in_every_dialect_is_read_the_same() {
    for (up, down) in [(64_000, 5_000_000_000), (1, 2), (10_000_000, 4_294_967_295)] {
        let given = Authorization { sla: Some("gold".into()), up: Some(Rate(up)), down: Some(Rate(down)) };
        let attributes = given.attributes().expect("it fits");
        assert_eq!(Authorization::of(&packet(attributes.clone())), given);
        let of_mikrotik = attributes.into_iter().filter(|a| a.value.get(2..4) != Some(&[0x37, 0x2a]));
        assert_eq!(Authorization::of(&packet(of_mikrotik.collect())), given, "Mikrotik's alone");
    }
}

#[test]
fn wispr_goes_before_mikrotik_and_nonsense_is_nothing() {
    let mikrotik =
        Attribute::of_vendor(vendor::MIKROTIK, vendor::MIKROTIK_RATE_LIMIT, b"1M/2M").expect("it fits");
    let wispr = |kind, value: &[u8]| Attribute::of_vendor(vendor::WISPR, kind, value).expect("it fits");
    let up = wispr(vendor::WISPR_BANDWIDTH_MAX_UP, &9_000u32.to_be_bytes());
    let zero = wispr(vendor::WISPR_BANDWIDTH_MAX_DOWN, &[0; 4]);
    let short = wispr(vendor::WISPR_BANDWIDTH_MAX_DOWN, &[1; 3]);
    let found = Authorization::of(&packet(vec![mikrotik, up, zero.clone(), short.clone()]));
    assert_eq!((found.up, found.down), (Some(Rate(9_000)), Some(Rate(2_000_000))));
    assert!(Authorization::of(&packet(vec![zero, short])).is_empty());
}
