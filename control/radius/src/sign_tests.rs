use super::*;
use proptest::prelude::*;

fn secret() -> Secret {
    Secret::new(b"xyzzy5461").expect("a secret")
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

/// Made with Python's hashlib and hmac, which share nothing with what is tested.
const REQUEST: &str =
    "040900329ef7f18a49f598e11d4deade6a7edfd95012e91d756acbb3d7025ccd8087e5b5159901066e656d6f280600000001";
const RESPONSE: &str = "050900266b89645c5fe01d075a211596929d9d0950126a355b59a51cc155a826fc7cf0360fe7";

#[test]
fn packets_made_elsewhere_are_made_here_octet_by_octet() {
    let attributes = [Attribute::text(1, "nemo"), Attribute::number(40, 1)];
    let made = request(Code::AccountingRequest, 9, &attributes, &secret()).expect("it fits");
    assert_eq!(made.bytes, hex(REQUEST));
    let answer = response(Code::AccountingResponse, 9, &[], &made.authenticator, &secret(), true);
    assert_eq!(answer, Ok(hex(RESPONSE)));
    assert_eq!(check_request(&hex(REQUEST), &secret(), true), Ok(()));
    assert_eq!(check_response(&hex(RESPONSE), &made.authenticator, &secret(), true), Ok(()));
}

#[test]
fn each_lack_of_proof_has_its_name() {
    let plain = |attributes: &[Attribute]| {
        sign(Code::CoaRequest, 1, attributes, &[0; 16], &secret(), false).expect("it fits")
    };
    assert_eq!(check_request(&plain(&[]), &secret(), true), Err(Unsigned::Missing));
    assert_eq!(check_request(&plain(&[]), &secret(), false), Ok(()));
    // A right authenticator over a wrong Message-Authenticator: what an attack on MD5 alone would give.
    let mut bytes = request(Code::CoaRequest, 1, &[], &secret()).expect("it fits").bytes;
    bytes[HEAD + 5] ^= 1;
    let authenticator = digest(&bytes, &[0; 16], &secret());
    bytes[4..HEAD].copy_from_slice(&authenticator);
    assert_eq!(check_request(&bytes, &secret(), false), Err(Unsigned::MessageAuthenticator));
    let other = Secret::new(b"other").expect("a secret");
    assert_eq!(check_request(&bytes, &other, false), Err(Unsigned::Authenticator));
    assert_eq!(check_request(&bytes[..9], &other, false), Err(Malformed::Short { octets: 9 }.into()));
    for length in [0, 15, 17] {
        let mut packet = Packet {
            code: Code::CoaRequest,
            identifier: 1,
            authenticator: [0; 16],
            attributes: vec![Attribute::octets(kind::MESSAGE_AUTHENTICATOR, &vec![0; length])],
        };
        packet.authenticator = digest(&packet.write().expect("it fits"), &[0; 16], &secret());
        let bytes = packet.write().expect("it fits");
        assert_eq!(check_request(&bytes, &secret(), false), Err(Unsigned::MessageAuthenticator));
    }
    assert_eq!(Secret::new(b""), None);
    assert_eq!(Secret::new(&[1; 257]), None);
    assert_eq!(format!("{:?}", secret()), "Secret(…)");
}

proptest! {
    #[test]
    fn a_changed_octet_is_noticed(
        name in proptest::collection::vec(any::<u8>(), 0..40),
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let mut bytes = request(Code::DisconnectRequest, 3, &[Attribute::octets(1, &name)], &secret()).expect("it fits").bytes;
        prop_assert_eq!(check_request(&bytes, &secret(), true), Ok(()));
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(check_request(&bytes, &secret(), true).is_err());
    }

    #[test]
    fn any_octets_are_checked_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(check_request(&bytes, &secret(), false).is_err());
    }
}
