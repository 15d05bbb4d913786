use super::*;
use proptest::prelude::*;

/// A packet as RFC 2865 section 7.1 has it, but for its code.
fn example() -> Vec<u8> {
    let mut bytes = vec![4, 0, 0, 0];
    bytes.extend([7; 16]);
    bytes.extend([1, 6, b'n', b'e', b'm', b'o', 4, 6, 192, 168, 1, 16, 5, 6, 0, 0, 0, 3]);
    bytes[3] = bytes.len() as u8;
    bytes
}

#[test]
fn attributes_are_read_by_their_form() {
    let packet = Packet::read(&example()).expect("a packet");
    assert_eq!((packet.code, packet.identifier), (Code::AccountingRequest, 0));
    assert_eq!(packet.text(kind::USER_NAME), Some("nemo"));
    assert_eq!(packet.number(kind::NAS_PORT), Some(3));
    assert_eq!(packet.address(kind::NAS_IP_ADDRESS), Some("192.168.1.16".parse().expect("an address")));
    assert_eq!(
        packet.number(kind::USER_NAME),
        Some(u32::from_be_bytes(*b"nemo")),
        "four octets are a number"
    );
    assert_eq!(packet.text(kind::STATE), None);
}

#[test]
fn what_is_behind_the_length_is_padding() {
    let mut bytes = example();
    let packet = Packet::read(&bytes).expect("a packet");
    bytes.extend([1, 0, 255]);
    assert_eq!(Packet::read(&bytes), Ok(packet));
}

#[test]
fn each_way_to_be_none_has_its_name() {
    let change = |at: usize, octet: u8| {
        let mut bytes = example();
        bytes[at] = octet;
        Packet::read(&bytes).expect_err("malformed")
    };
    assert_eq!(Packet::read(&[4, 0]), Err(Malformed::Short { octets: 2 }));
    assert_eq!(Packet::read(&example()[..37]), Err(Malformed::Short { octets: 37 }));
    assert_eq!(change(3, 19), Malformed::Length { length: 19 });
    assert_eq!(change(2, 0x20), Malformed::Length { length: 0x2026 });
    assert_eq!(change(0, 1), Malformed::Code { code: 1 });
    assert_eq!(change(21, 1), Malformed::Attribute { at: 20 });
    assert_eq!(change(33, 7), Malformed::Attribute { at: 32 });
    assert_eq!(change(3, 21), Malformed::Attribute { at: 20 }, "a lone octet is no attribute");
}

#[test]
fn vendors_attributes_are_found_several_in_one_and_one_in_several() {
    let mut inside = 14_988u32.to_be_bytes().to_vec();
    inside.extend([1, 3, 9, 8, 4, b'1', b'k']);
    let attributes = vec![
        Attribute { kind: kind::VENDOR_SPECIFIC, value: inside },
        Attribute::of_vendor(14_122, 7, &[0, 0, 1, 0]).expect("it fits"),
        Attribute::octets(kind::VENDOR_SPECIFIC, &[0, 0, 0, 9, 1, 200, 1]),
        Attribute::octets(kind::VENDOR_SPECIFIC, &[0]),
    ];
    let packet = Packet { code: Code::CoaRequest, identifier: 1, authenticator: [0; 16], attributes };
    let found: Vec<_> = packet.vendor_attributes().map(|a| (a.vendor, a.kind, a.value.to_vec())).collect();
    assert_eq!(found, [(14_988, 1, vec![9]), (14_988, 8, b"1k".to_vec()), (14_122, 7, vec![0, 0, 1, 0])]);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    assert_eq!(Attribute::of_vendor(1, 1, &[0; 248]), Err(TooLong { octets: 248, most: 247 }));
    let long =
        |attributes| Packet { code: Code::CoaAck, identifier: 0, authenticator: [0; 16], attributes }.write();
    assert_eq!(long(vec![Attribute::octets(1, &[0; 254])]), Err(TooLong { octets: 254, most: 253 }));
    let many = vec![Attribute::octets(1, &[0; 253]); 16];
    assert_eq!(long(many), Err(TooLong { octets: 20 + 16 * 255, most: MAX_PACKET }));
}

proptest! {
    #[test]
    fn any_octets_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(packet) = Packet::read(&bytes) {
            let written = packet.write().expect("what was read fits");
            prop_assert_eq!(&written[..], &bytes[..written.len()]);
            packet.vendor_attributes().for_each(drop);
        }
    }

    #[test]
    fn what_is_written_is_read(
        code in 0usize..8,
        identifier: u8,
        authenticator: [u8; 16],
        attributes in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..=253)), 0..12),
    ) {
        let attributes = attributes.into_iter().map(|(kind, value)| Attribute { kind, value }).collect();
        let packet = Packet { code: Code::ALL[code], identifier, authenticator, attributes };
        prop_assert_eq!(Packet::read(&packet.write().expect("it fits")), Ok(packet));
    }
}
