//! Reading what the kernel writes, well-formed or not.

use super::super::{attribute, begin, end};
use super::*;
use proptest::prelude::*;

/// A packet's message as the kernel writes it, with attributes around it that nobody asked for.
fn written(id: u32, hook: u8, payload: &[u8], info: Option<u32>, full: Option<u32>) -> Vec<u8> {
    let mut out = Vec::new();
    let at = begin(&mut out, PACKET, 0, 0, 7);
    attribute(&mut out, PACKET_HEADER, &[&id.to_be_bytes(), &[8, 0, hook]]);
    attribute(&mut out, 5, &[&3u32.to_be_bytes()]);
    if let Some(info) = info {
        attribute(&mut out, PACKET_INFO, &[&info.to_be_bytes()]);
    }
    if let Some(full) = full {
        attribute(&mut out, FULL_LENGTH, &[&full.to_be_bytes()]);
    }
    attribute(&mut out, PAYLOAD, &[payload]);
    end(&mut out, at);
    out
}

#[test]
fn a_message_has_the_layout_of_the_kernels_headers() {
    let mut datagram = written(0x0102_0304, 3, &[0x45, 0, 0, 60], Some(1), None);
    if cfg!(target_endian = "little") {
        assert_eq!(
            &datagram[..24],
            &[56, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 11, 0, 1, 0]
        );
    }
    let first = datagram.len();
    datagram.extend(written(9, 2, &[], None, Some(70_000)));
    let Some((Message::Packet(packet), next)) = read(&datagram, 0).unwrap() else { panic!("a packet") };
    assert_eq!((packet.id, packet.hook, next), (0x0102_0304, Hook::Output, first));
    assert_eq!((packet.checksum_missing, packet.several, packet.cut), (true, false, false));
    assert_eq!(&datagram[packet.payload], &[0x45, 0, 0, 60]);
    let Some((Message::Packet(packet), next)) = read(&datagram, next).unwrap() else { panic!("a packet") };
    assert_eq!((packet.id, packet.hook, packet.cut), (9, Hook::Forward, true));
    assert_eq!(read(&datagram, next), Ok(None));
}

#[test]
fn an_answer_has_the_number_of_its_request() {
    let mut out = Vec::new();
    let at = begin(&mut out, ERROR, 0, 77, 0);
    // The error takes the place of nfnetlink's header.
    out.truncate(at + 16);
    out.extend((-16i32).to_ne_bytes());
    out.extend([0; 16]);
    end(&mut out, at);
    let len = out.len();
    assert_eq!(read(&out, 0), Ok(Some((Message::Answer { sequence: 77, error: 16 }, len))));
}

#[test]
fn what_is_missing_has_a_name() {
    let whole = written(1, 1, &[1, 2, 3, 4], None, None);
    let at = HEADER;
    let mut none = whole.clone();
    none[at + 2] = 99;
    assert_eq!(read(&none, 0), Err(MessageError::NoNumber { at: 0 }));
    let mut long = whole.clone();
    long[at..at + 2].copy_from_slice(&200u16.to_ne_bytes());
    assert_eq!(read(&long, 0), Err(MessageError::Attribute { at, len: 200 }));
    let mut short = whole;
    short[at..at + 2].copy_from_slice(&6u16.to_ne_bytes());
    assert_eq!(read(&short, 0), Err(MessageError::Short { kind: PACKET_HEADER, at }));
}

proptest! {
    #[test]
    fn packets_are_read_as_they_were_written(
        id: u32, hook in 0u8..8, payload in prop::collection::vec(any::<u8>(), 0..200), info in prop::option::of(0u32..8),
        full in prop::option::of(any::<u32>()),
    ) {
        let datagram = written(id, hook, &payload, info, full);
        let (message, next) = read(&datagram, 0).unwrap().unwrap();
        let Message::Packet(packet) = message else { return Err(TestCaseError::fail("no packet")) };
        prop_assert_eq!((packet.id, packet.hook, next), (id, Hook::from_number(hook), datagram.len()));
        prop_assert_eq!(&datagram[packet.payload], &payload[..]);
        let info = info.unwrap_or(0);
        prop_assert_eq!((packet.checksum_missing, packet.several), (info & 1 != 0, info & 2 != 0));
        prop_assert_eq!(packet.cut, full.is_some());
    }

    #[test]
    fn a_message_that_is_cut_short_is_an_error(
        payload in prop::collection::vec(any::<u8>(), 0..40), keep in 1usize..80,
    ) {
        let datagram = written(1, 3, &payload, Some(3), None);
        prop_assume!(keep < datagram.len());
        let cut = matches!(read(&datagram[..keep], 0), Err(MessageError::Cut { at: 0, len, .. }) if len == keep);
        prop_assert!(cut);
    }

    #[test]
    fn no_datagram_panics_and_reading_ends(
        mut datagram in prop::collection::vec(any::<u8>(), 0..300), lengths in prop::collection::vec((0usize..280, 0u8..64), 0..6),
        as_packet: bool,
    ) {
        if as_packet && datagram.len() >= 24 {
            let len = datagram.len() as u32;
            datagram[..4].copy_from_slice(&len.to_ne_bytes());
            datagram[4..6].copy_from_slice(&PACKET.to_ne_bytes());
        }
        for (at, value) in lengths {
            if let Some(octet) = datagram.get_mut(at) {
                *octet = value;
            }
        }
        let (mut at, mut steps) = (0, 0);
        while let Ok(Some((message, next))) = read(&datagram, at) {
            if let Message::Packet(packet) = message {
                prop_assert!(packet.payload.end <= datagram.len());
            }
            prop_assert!(next >= at + 16);
            (at, steps) = (next, steps + 1);
            prop_assert!(steps <= datagram.len());
        }
    }
}
