//! Time, addresses, management and logs.
//!
//! Source: RFC 5905 §7.3 (NTP), RFC 2131 §2 (DHCP), RFC 3416 §3 and RFC 1157 (SNMP in BER), RFC 3164 (syslog).

use super::exchange::Exchange;
use perhop_units::Duration;

/// Clients in their initial burst or polling, each packet answered.
pub(super) fn ntp(x: &mut Exchange) {
    let mut legs = if x.one_in(2) { x.legs(123, 123) } else { x.client_legs(123) };
    let mut at = Duration::ZERO;
    for i in 0..x.number(8, 20) {
        // Leap, version and mode; stratum, poll, precision; then times.
        for (end, first) in [(0, 0x23), (1, 0x24)] {
            let mut bytes = vec![first, 2 * end as u8, 6, 0xe9];
            x.fill(&mut bytes, 44);
            let later = if end == 0 { at } else { at + x.ms(5, 80) };
            x.send(&mut legs[end], later, bytes);
        }
        at = at + if i < 8 { x.ms(1_900, 2_100) } else { x.ms(15_000, 17_000) };
    }
}

/// A renewal.
pub(super) fn dhcp(x: &mut Exchange) {
    let mut legs = x.legs(68, 67);
    let id = x.bytes(4);
    for (end, leg) in legs.iter_mut().enumerate() {
        let mut bytes = vec![end as u8 + 1, 1, 6, 0];
        bytes.extend_from_slice(&id);
        bytes.resize(28, 0);
        x.fill(&mut bytes, 6);
        bytes.resize(236, 0);
        bytes.extend_from_slice(&[0x63, 0x82, 0x53, 0x63, 53, 1, if end == 0 { 3 } else { 5 }, 255]);
        bytes.resize(300, 0);
        let at = x.ms(0, 50) + Duration::from_millis(100 * end as u64);
        x.send(leg, at, bytes);
    }
}

/// A manager asks in turn for values; request identifiers count.
pub(super) fn snmp(x: &mut Exchange) {
    let mut legs = x.client_legs(161);
    let first = x.number(1, 1 << 24) as u32;
    let pause = x.ms(10, 500);
    let mut at = Duration::ZERO;
    let last = first + x.number(10, 150) as u32;
    for request in first..last {
        for (end, pdu) in [(0, 0xa0), (1, 0xa2)] {
            let values = if end == 0 { 14 } else { x.number(15, 60) as usize };
            let mut bytes = vec![0x30, 27 + values as u8, 2, 1, 1, 4, 6];
            bytes.extend_from_slice(b"public");
            bytes.extend_from_slice(&[pdu, 14 + values as u8, 2, 4]);
            bytes.extend_from_slice(&request.to_be_bytes());
            bytes.extend_from_slice(&[2, 1, 0, 2, 1, 0, 0x30, values as u8]);
            x.fill(&mut bytes, values);
            let later = if end == 0 { at } else { at + x.ms(1, 30) };
            x.send(&mut legs[end], later, bytes);
        }
        at = at + pause;
    }
}

/// Lines of text, some of them in bursts.
pub(super) fn syslog(x: &mut Exchange) {
    let mut legs = x.client_legs(514);
    let mut at = Duration::ZERO;
    for i in 0..x.number(10, 150) {
        let (priority, second) = (x.number(0, 191), i % 60);
        let mut bytes = format!("<{priority}>Oct 11 22:14:{second:02} edge kernel[{i}]: ").into_bytes();
        let len = x.number(10, 200) as usize;
        let text = x.bytes(len);
        bytes.extend(text.iter().map(|b| b' ' + b % 95));
        x.send(&mut legs[0], at, bytes);
        at = at + if x.one_in(10) { x.ms(100, 2_000) } else { x.ms(0, 40) };
    }
}
