//! What holds of any octets: for tests and fuzz targets.

use crate::packet::{Code, HEAD, MAX_PACKET, Packet};
use crate::server::{Answer, Input, Nas, Output, Server, Settings};
use crate::sign::{Secret, check_request, sealed};
use perhop_units::Instant;
use std::net::{IpAddr, Ipv4Addr};

/// Any datagram is read to what writes it again, or is malformed. Signed, it is asked for at most once however often it comes,
/// and each answer is a packet; unsigned, nothing comes of it.
pub fn any_datagram(data: &[u8]) {
    if let Ok(packet) = Packet::read(data) {
        let written = packet.write().expect("what was read fits");
        assert_eq!(written, data[..written.len()]);
    }
    let Some(secret) = Secret::new(b"testing123") else { return };
    let nas = Nas { name: "edge".into(), secret: secret.clone(), proven: false };
    let codes = [Code::AccountingRequest, Code::CoaRequest, Code::DisconnectRequest];
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let settings = Settings { known: [(address, nas)].into(), ..Settings::new(&codes, 1_800_000_000) };
    let mut server = Server::new(settings);
    let mut tell = |bytes: &[u8]| {
        let from = (address, 1813).into();
        server.handle_input(Instant(0), Input::Datagram { from, bytes: bytes.to_vec() });
        std::iter::from_fn(|| server.poll_output()).collect::<Vec<_>>()
    };
    let is_signed = check_request(data, &secret, false).is_ok();
    assert!(is_signed || matches!(tell(data)[..], [Output::Dropped { .. }]), "unsigned");
    // As its sender would have made it.
    let mut own = data[..data.len().min(MAX_PACKET)].to_vec();
    own.resize(own.len().max(HEAD), 0);
    own[0] = codes[usize::from(own[0]) % codes.len()] as u8;
    let length = own.len() as u16;
    own[2..4].copy_from_slice(&length.to_be_bytes());
    let own = sealed(&own, &secret);
    let first = tell(&own);
    assert_eq!(first.len(), 1, "one thing comes of it");
    let again = tell(&own);
    match &first[0] {
        Output::Ask { ticket, .. } => {
            assert_eq!(again, [], "it is being done");
            let (ticket, answer) = (*ticket, Answer::Done);
            server.handle_input(Instant(0), Input::Answer { ticket, answer });
            if let Some(Output::Send { bytes, .. }) = server.poll_output() {
                let packet = Packet::read(&bytes).expect("an answer is a packet");
                assert_eq!(packet.identifier, own[1]);
            }
        }
        _ => assert_eq!(again, first, "the same again"),
    }
}
