use super::*;
use crate::decode::describe;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::Index;
use std::net::{IpAddr, SocketAddr};

fn opaque() -> impl Strategy<Value = Opaque> {
    vec(any::<u8>(), 0..40).prop_map(|octets| Opaque::new(octets).expect("short"))
}

fn handle() -> impl Strategy<Value = Handle> {
    vec(any::<u8>(), 1..=MAX_HANDLE).prop_map(|octets| Handle::new(&octets).expect("of a length that fits"))
}

fn context() -> impl Strategy<Value = Context> {
    any::<(u16, u16)>().prop_map(|(r_type, m_type)| Context { r_type, m_type })
}

fn interface() -> impl Strategy<Value = Interface> {
    any::<(IpAddr, u32)>().prop_map(|(address, ifindex)| Interface { address, ifindex })
}

fn client_si() -> impl Strategy<Value = ClientSi> {
    prop_oneof![opaque().prop_map(ClientSi::Signaled), opaque().prop_map(ClientSi::Named)]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let data = (of(opaque()), of(opaque()), of(opaque()), of(opaque()));
    (0..3u16, any::<u16>(), data).prop_map(|(command, flags, (stateless, replacement, client_si, named))| {
        Verdict { command: Command(command), flags, stateless, replacement, client_si, named }
    })
}

fn address() -> impl Strategy<Value = SocketAddr> {
    any::<(IpAddr, u16)>().prop_map(|(address, port)| SocketAddr::new(address, port))
}

fn error() -> impl Strategy<Value = Error> {
    any::<(u16, u16)>().prop_map(|(code, sub_code)| Error { code: ErrorCode(code), sub_code })
}

fn request() -> impl Strategy<Value = Body> {
    let local = (of(context()), verdict()).prop_map(|(context, verdict)| LocalDecision { context, verdict });
    let parts = (of(interface()), of(interface()), vec(client_si(), 0..4), vec(local, 0..3));
    (handle(), context(), parts).prop_map(
        |(handle, context, (in_interface, out_interface, client_si, local))| {
            Body::Request(Box::new(Request {
                handle,
                context,
                in_interface,
                out_interface,
                client_si,
                local,
            }))
        },
    )
}

fn decided() -> impl Strategy<Value = Decided> {
    let decision = (context(), verdict()).prop_map(|(context, verdict)| Decision { context, verdict });
    prop_oneof![error().prop_map(Decided::Error), vec(decision, 1..4).prop_map(Decided::Decisions)]
}

fn open() -> impl Strategy<Value = Body> {
    ("[ -~]{1,60}", of(client_si()), of(address())).prop_map(|(id, client_si, last_pdp)| {
        Body::Open(Box::new(Open { pep_id: PepId::new(&id).expect("ASCII"), client_si, last_pdp }))
    })
}

fn integrity() -> impl Strategy<Value = Integrity> {
    any::<(u32, u32, [u8; DIGEST])>().prop_map(|(key_id, sequence, digest)| Integrity::Hmac {
        key_id,
        sequence,
        digest,
    })
}

/// Any message that a program can make.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let report = (handle(), 1..4u16, vec(client_si(), 0..3)).prop_map(|(handle, report, client_si)| {
        Body::Report(Box::new(Report { handle, report_type: ReportType(report), client_si }))
    });
    let delete = (handle(), any::<(u16, u16)>()).prop_map(|(handle, (code, sub_code))| Body::Delete {
        handle,
        reason: Reason { code: ReasonCode(code), sub_code },
    });
    let body = prop_oneof![
        request(),
        (handle(), decided()).prop_map(|(handle, decided)| Body::Decision { handle, decided }),
        report,
        delete,
        of(handle()).prop_map(Body::SyncRequest),
        open(),
        (any::<u16>(), any::<Option<u16>>())
            .prop_map(|(keep_alive_s, accounting_s)| Body::Accept(Accept { keep_alive_s, accounting_s })),
        (error(), of(address())).prop_map(|(error, redirect)| Body::Close(Close { error, redirect })),
        Just(Body::KeepAlive),
        of(handle()).prop_map(Body::SyncComplete),
    ];
    (1..=u16::MAX, any::<bool>(), body, of(integrity())).prop_map(|(number, solicited, body, integrity)| {
        let of_connection = matches!(body, Body::KeepAlive);
        let client_type = ClientType(if of_connection { 0 } else { number });
        Message { client_type, solicited, body, integrity }
    })
}

fn frames(bytes: &[u8], piece: usize) -> Result<Vec<Frame>, Lost> {
    let (mut frames, mut out) = (Frames::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        frames.push(piece);
        while let Some(frame) = frames.next()? {
            out.push(frame);
        }
    }
    Ok(out)
}

proptest! {
    #[test]
    fn what_is_written_is_read_in_whatever_pieces_it_comes(messages in vec(message(), 1..4), piece in 1..300usize) {
        let bytes: Vec<u8> = messages.iter().flat_map(Message::to_bytes).collect();
        let read = frames(&bytes, piece).expect("whole messages");
        let read: Vec<Message> = read.into_iter().map(|frame| frame.message.expect("as written")).collect();
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn what_is_cut_is_waited_for_and_what_says_it_is_shorter_is_refused(message in message(), cut in any::<Index>()) {
        let mut bytes = message.to_bytes();
        let cut = cut.index(bytes.len());
        prop_assert_eq!(frames(&bytes[..cut], usize::MAX).map(|read| read.len()), Ok(0));
        // A length that ends inside an object, or before a mandatory one, is never read as the same message.
        let shorter = cut & !3;
        bytes[4..8].copy_from_slice(&(shorter as u32).to_be_bytes());
        match frames(&bytes[..shorter], usize::MAX) {
            Ok(read) => prop_assert!(read.first().is_none_or(|frame| frame.message.as_ref() != Ok(&message))),
            Err(lost) => prop_assert!(shorter < HEADER, "{lost}"),
        }
    }

    #[test]
    fn octets_that_are_anything_are_read_as_they_were_meant_or_refused(
        message in message(), changes in vec((any::<Index>(), any::<u8>()), 0..6), noise in vec(any::<u8>(), 0..32),
    ) {
        let mut bytes = message.to_bytes();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.extend(noise);
        // People can read it, whatever it is.
        prop_assert!(!describe(&bytes).to_string().is_empty());
        if let Ok(read) = frames(&bytes, 7) {
            for frame in read {
                match frame.message {
                    Ok(message) => prop_assert_eq!(Message::read(&message.to_bytes()), Ok(message)),
                    Err(fault) => prop_assert!(fault.malformed.at() < frame.bytes.len() + 1),
                }
            }
        }
    }

    #[test]
    fn a_digest_proves_the_message_the_key_and_the_number(
        message in message(), at in any::<Index>(), bit in 0..8u8, sequence in any::<u32>(),
    ) {
        let bytes = message.sealed(3, b"secret", sequence);
        let read = Message::read(&bytes).expect("as written");
        prop_assert_eq!(&Message { integrity: read.integrity, ..message.clone() }, &read);
        let named = matches!(read.integrity, Some(Integrity::Hmac { key_id: 3, sequence: n, .. }) if n == sequence);
        prop_assert!(named);
        prop_assert!(Message::is_sealed_with(&bytes, b"secret") && !Message::is_sealed_with(&bytes, b"Secret"));
        let mut changed = bytes;
        let at = at.index(changed.len());
        changed[at] ^= 1 << bit;
        prop_assert!(!Message::is_sealed_with(&changed, b"secret"));
    }
}

fn read_hex(hex: &str) -> Result<Message, Fault> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let octet = |pair: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("two hexadecimal digits")
    };
    Message::read(&digits.chunks(2).map(octet).collect::<Vec<_>>())
}

#[test]
fn messages_are_the_octets_of_the_figures() {
    // §2.1 and §2.2: version 1, solicited, DEC; Handle of five octets with three of padding; Context; install; named data.
    let expected = concat!(
        "11024d4100000030 00090101 61626364 65000000 00080201 00080000 ",
        "00080601 00010000 00050605 ff000000"
    );
    let mut read = read_hex(&expected.replace("00000030", "0000002c")).expect("a decision");
    assert!(read.solicited && read.client_type == ClientType(0x4d41) && read.integrity.is_none());
    let Body::Decision { handle, decided: Decided::Decisions(decisions) } = &read.body else {
        panic!("it is {:?}", read.body)
    };
    assert_eq!((handle.octets(), decisions.len()), (&b"abcde"[..], 1));
    assert!(decisions[0].context.is_configuration() && decisions[0].verdict.command == Command::INSTALL);
    assert_eq!(decisions[0].verdict.named.as_ref().map(Opaque::octets), Some(&[0xff][..]));
    // RFC 4261 §4.1.
    read = read_hex("10060000 0000001c 000c0b01 65310000 00000000 00081002 00000001").expect("OPN");
    assert_eq!(read.integrity, Some(Integrity::StartTls));
    assert_eq!(read.to_bytes().len(), 28 - 4, "the name is filled up to a multiple of 4, no further");
}

/// RFC 2202, test case 2 of HMAC-MD5, cut to 96 bits.
#[test]
fn digests_are_those_of_published_vectors() {
    use hmac::{Hmac, KeyInit, Mac};
    let digest = Hmac::<md5::Md5>::new_from_slice(b"Jefe")
        .expect("any length")
        .chain_update(b"what do ya want for nothing?")
        .finalize()
        .into_bytes();
    assert_eq!(digest[..DIGEST], [0x75, 0x0c, 0x78, 0x3e, 0x6a, 0xb0, 0xb5, 0x03, 0xea, 0xa8, 0x6e, 0x31]);
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_the_rfcs_error() {
    let (handle, context) = ("00080101 61626364", "00080201 00020000");
    for (op, objects, malformed, error, sub) in [
        (1, String::new(), Malformed::Missing { c_num: 1, at: 8 }, 7, 0x0100),
        (1, handle.to_owned(), Malformed::Missing { c_num: 2, at: 16 }, 7, 0x0200),
        (1, format!("{context}{handle}"), Malformed::Missing { c_num: 1, at: 8 }, 7, 0x0100),
        (1, format!("{handle}{context}{context}"), Malformed::Missing { c_num: 7, at: 32 }, 7, 0x0700),
        (1, format!("{handle}{context}{handle}"), Malformed::Unexpected { c_num: 1, at: 24 }, 3, 0),
        (1, format!("{handle}00070201 00020000"), Malformed::Value { c_num: 2, at: 16 }, 3, 0),
        (1, format!("{handle}{context}000c0301 0a000001"), Malformed::Cut { at: 24 }, 3, 0),
        (1, format!("{handle}{context}00030901"), Malformed::Cut { at: 24 }, 3, 0),
        (
            1,
            format!("{handle}{context}00041101"),
            Malformed::UnknownObject { c_num: 17, c_type: 1, at: 24 },
            13,
            0x1101,
        ),
        (
            1,
            format!("{handle}{context}00040903"),
            Malformed::UnknownObject { c_num: 9, c_type: 3, at: 24 },
            13,
            0x0903,
        ),
        (1, "00040101".into(), Malformed::Handle { at: 8 }, 1, 0),
        (2, format!("{handle}{context}00080601 00030000"), Malformed::Value { c_num: 6, at: 24 }, 3, 0),
        (2, format!("{handle}{context}00040604"), Malformed::Missing { c_num: 6, at: 24 }, 7, 0x0600),
        (
            2,
            format!("{handle}{context}00080601 00010000 00040606"),
            Malformed::UnknownObject { c_num: 6, c_type: 6, at: 32 },
            13,
            0x0606,
        ),
        (6, "000c0b01 61626364 65666768".into(), Malformed::Value { c_num: 11, at: 8 }, 3, 0),
        (7, "00081002 00000001".into(), Malformed::Missing { c_num: 10, at: 8 }, 7, 0x0a00),
        (7, "00080a01 0000001e 00081002 00000001".into(), Malformed::Unexpected { c_num: 16, at: 16 }, 3, 0),
        (9, String::new(), Malformed::ClientType { client_type: ClientType(2) }, 3, 0),
        (11, String::new(), Malformed::UnknownOp { op: 11 }, 3, 0),
    ] {
        let digits = objects.bytes().filter(u8::is_ascii_hexdigit).count();
        let fault =
            read_hex(&format!("10{op:02x}0002{:08x}{objects}", 8 + digits / 2)).expect_err("malformed");
        assert_eq!(fault.malformed, malformed, "{op} {objects}");
        assert_eq!(fault.malformed.error(), Error { code: ErrorCode(error), sub_code: sub }, "{objects}");
    }
}

#[test]
fn a_length_that_no_message_has_loses_the_stream() {
    let header = |length: u32| [&[0x10, 9, 0, 0][..], &length.to_be_bytes()].concat();
    for length in [0, 7, 10, MAX_MESSAGE as u32 + 4, u32::MAX] {
        assert_eq!(frames(&header(length), 1), Err(Lost::Length { length }));
    }
    assert_eq!(frames(&[0x20, 9, 0, 0, 0, 0, 0, 8], 3), Err(Lost::Version));
    assert_eq!(
        frames(&header(8), 3).expect("KA")[0].message,
        Ok(Message::new(ClientType(0), Body::KeepAlive))
    );
}

#[test]
fn what_does_not_fit_is_not_made() {
    assert!(Handle::new(&[]).is_none() && Handle::new(&[0; MAX_HANDLE + 1]).is_none());
    assert!(PepId::new("").is_none() && PepId::new("a\0b").is_none() && PepId::new("ä").is_none());
    assert_eq!(Opaque::new(vec![0; MAX_CONTENTS + 1]), Err(TooLong { length: MAX_CONTENTS + 1 }));
    assert!(Opaque::new(vec![0; MAX_CONTENTS]).is_ok());
}
