//! Segments that no end would believe, and those who send them: the rate holds on.

use super::*;

/// Data up, an acknowledgment 100 ms later, `n` times: windows in octets.
fn up(wire: &mut Wire, seq: &mut u32, n: usize) -> Vec<u32> {
    (0..n)
        .map(|_| {
            wire.send(CLIENT, |f| f.seq_ack(*seq, 5000).payload_len(1460));
            wire.later(100);
            *seq += 1460;
            let window = u32::from(wire.send(SERVER, |f| f.seq_ack(5000, *seq).window(60_000))) << 2;
            wire.later(20);
            window
        })
        .collect()
}

/// A connection and what its windows are, all of them about the same.
fn held() -> (Wire, u32, u32) {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.open();
    let mut seq = 1000;
    let windows = up(&mut wire, &mut seq, 6);
    let most = windows.iter().copied().max().expect("six");
    assert!(most < 20_000, "{windows:?}");
    (wire, seq, most)
}

/// Whether windows stay what they were, and follow another rate.
fn is_held(wire: &mut Wire, seq: &mut u32, most: u32) {
    let windows = up(wire, seq, 6);
    assert!(windows.iter().all(|window| (1460..=most + 1460).contains(window)), "{windows:?} after {most}");
    wire.abr().commit(AbrChange { settings: Some(settings(vec![policy(300_000)])) });
    let lower = *up(wire, seq, 20).last().expect("twenty");
    assert!(lower < most / 2, "{lower} after {most}");
}

#[test]
fn an_acknowledgment_of_what_was_never_sent_changes_nothing() {
    let (mut wire, mut seq, most) = held();
    wire.send(SERVER, |f| f.seq_ack(5000, seq + (1 << 30)).window(60_000));
    is_held(&mut wire, &mut seq, most);
}

#[test]
fn data_beyond_every_window_change_nothing() {
    let (_, _, most) = held();
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.open();
    let mut seq = 1000;
    wire.send(CLIENT, |f| f.seq_ack(seq + (1 << 29), 5000).payload_len(1460));
    is_held(&mut wire, &mut seq, most);
}

#[test]
fn a_handshake_between_lively_ends_changes_nothing() {
    let (mut wire, mut seq, most) = held();
    wire.send(CLIENT, |f| f.flags(SYN).seq_ack(77, 0).tcp(|t| t.options = Wire::options(14)));
    wire.later(30);
    wire.send(SERVER, |f| f.flags(SYN | ACK).seq_ack(99, 78).tcp(|t| t.options = Wire::options(14)));
    wire.later(30);
    wire.send(CLIENT, |f| f.seq_ack(78, 100));
    is_held(&mut wire, &mut seq, most);
}

#[test]
fn a_reset_that_is_not_the_next_octet_changes_nothing() {
    let (mut wire, mut seq, most) = held();
    wire.send(CLIENT, |f| f.seq_ack(seq, 5000).payload_len(1460));
    wire.send(CLIENT, |f| f.flags(RST).seq_ack(seq + 1, 0));
    wire.later(100);
    is_held(&mut wire, &mut seq, most);
}

#[test]
fn a_flow_that_was_without_a_policy_keeps_what_it_has_sent() {
    let only = |port| Policy {
        matches: Match { dst_ports: Some(port..=port), ..Match::default() },
        ..policy(1_000_000)
    };
    let mut wire = Wire::new(vec![only(80)]);
    wire.open();
    let mut seq = 1000u32;
    up(&mut wire, &mut seq, 4);
    wire.abr().commit(AbrChange { settings: Some(settings(vec![only(81)])) });
    assert_eq!(up(&mut wire, &mut seq, 4).last(), Some(&240_000), "free");
    let acked = seq + 1460;
    for _ in 0..70 {
        wire.send(CLIENT, |f| f.seq_ack(seq, 5000).payload_len(1460));
        seq += 1460;
    }
    wire.abr().commit(AbrChange { settings: Some(settings(vec![only(80)])) });
    wire.send(CLIENT, |f| f.seq_ack(seq, 5000).payload_len(1460));
    seq += 1460;
    wire.later(100);
    let window = u32::from(wire.send(SERVER, |f| f.seq_ack(5000, acked).window(60_000))) << 2;
    assert!(acked + window >= seq, "the edge is {} octets short of what was sent", seq - acked - window);
}

#[test]
fn an_authentication_header_covers_the_window() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    let (a, b) = ([0xfd00, 0, 0, 0, 0, 0, 0, 1], [0xfd00, 0, 0, 0, 0, 0, 0, 2]);
    let mut go = |from: bool, f: build::FrameBuilder| {
        let ports = if from == CLIENT { (40_000, 80) } else { (80, 40_000) };
        let frame = f.ports(ports.0, ports.1).extension(perhop_wire::protocol::AH, &[0x55; 22]).build();
        wire.push(from, &frame);
        assert_eq!(wire.bench.arrived(0).pop().expect("it passes").1, frame);
        wire.later(50);
    };
    go(CLIENT, build::tcp6(a, b).flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Wire::options(7)));
    go(SERVER, build::tcp6(b, a).flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = Wire::options(2)));
    go(CLIENT, build::tcp6(a, b).seq_ack(1000, 5000).window(500));
    go(CLIENT, build::tcp6(a, b).seq_ack(1000, 5000).payload_len(1000));
    go(SERVER, build::tcp6(b, a).seq_ack(5000, 2000).window(60_000));
}

#[test]
fn handshakes_that_nobody_completes_give_way() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    for i in 0..16u16 {
        (wire.number, wire.port) = (u32::from(i), 1000 + i);
        wire.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Wire::options(7)));
        wire.send(SERVER, |f| f.flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = Wire::options(2)));
    }
    (wire.number, wire.port) = (99, 99);
    wire.open();
    let windows = up(&mut wire, &mut 1000, 4);
    assert!(windows.iter().all(|window| *window < 20_000), "{windows:?}");
}

#[test]
fn a_handshake_that_comes_again_late_changes_nothing() {
    // Before anything is acknowledged: an answer with data right behind it, and the answer again.
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    let answer =
        |f: build::FrameBuilder| f.flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = Wire::options(2));
    wire.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Wire::options(7)));
    wire.later(50);
    wire.send(SERVER, answer);
    wire.send(SERVER, |f| f.seq_ack(5000, 1000).payload_len(500));
    wire.send(SERVER, answer);
    wire.later(50);
    wire.send(CLIENT, |f| f.seq_ack(1000, 5500));
    wire.send(SERVER, |f| f.seq_ack(5500, 1000).payload_len(500));
    wire.later(50);
    wire.send(CLIENT, |f| f.seq_ack(1000, 6000));
    let mut seq = 1000;
    let windows = up(&mut wire, &mut seq, 6);
    let most = windows.iter().copied().max().expect("six");
    assert!(most < 20_000, "{windows:?}");
    // And after a silence, in the midst of data.
    wire.later(2_000);
    wire.send(SERVER, answer);
    wire.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = Wire::options(7)));
    let windows = up(&mut wire, &mut seq, 6);
    assert!(windows.iter().all(|window| *window < 20_000), "{windows:?}");
}

#[test]
fn what_one_end_said_alone_long_ago_is_not_of_a_connection_that_the_other_opens() {
    let windows_after = |old: &dyn Fn(&mut Wire)| {
        let mut wire = Wire::new(vec![policy(1_000_000)]);
        old(&mut wire);
        wire.open();
        up(&mut wire, &mut 1000, 6)
    };
    let alone = windows_after(&|_| ());
    assert!(alone.iter().all(|window| *window < 20_000), "{alone:?}");
    // A SYN that nobody answered, of small segments and without a scale; and data of which the beginning was not seen.
    let unanswered = windows_after(&|wire| {
        wire.send(SERVER, |f| f.flags(SYN).seq_ack(4_998, 0));
        wire.later(2_000);
    });
    let in_the_midst = windows_after(&|wire| {
        wire.send(SERVER, |f| f.seq_ack(3_000, 900).payload_len(1_400));
        wire.later(2_000);
    });
    assert_eq!((&unanswered, &in_the_midst), (&alone, &alone));
    // But both may open at once.
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    let [client, server] = [7, 2].map(Wire::options);
    wire.send(SERVER, |f| f.flags(SYN).seq_ack(4999, 0).tcp(|t| t.options = server));
    wire.later(20);
    wire.send(CLIENT, |f| f.flags(SYN).seq_ack(999, 0).tcp(|t| t.options = client));
    wire.later(100);
    wire.send(SERVER, |f| f.flags(SYN | ACK).seq_ack(4999, 1000).tcp(|t| t.options = server));
    wire.send(CLIENT, |f| f.flags(SYN | ACK).seq_ack(999, 5000).tcp(|t| t.options = client));
    assert_eq!((wire.counter("connections"), wire.counter("ended")), (1, 0));
    // Of what was said twice no latency is known.
    wire.send(SERVER, |f| f.seq_ack(5000, 1000).payload_len(500));
    wire.later(50);
    wire.send(CLIENT, |f| f.seq_ack(1000, 5500));
    let windows = up(&mut wire, &mut 1000, 6);
    assert!(windows.iter().all(|window| *window < 20_000), "{windows:?}");
}

#[test]
fn a_signature_and_last_words_with_numbers_of_another_time_change_nothing() {
    let (mut wire, mut seq, most) = held();
    let far = 1 << 28;
    // The head of a signature in the place of data.
    let mut frame = wire.frame(CLIENT, |f| f.seq_ack(seq.wrapping_sub(far), 5000).payload_len(100));
    frame[14 + 20 + 12] = 0xa0;
    (frame[14 + 40], frame[14 + 41]) = (19, 18);
    wire.push(CLIENT, &frame);
    // What is signed itself is not touched for all that.
    let answer =
        |f: build::FrameBuilder| f.seq_ack(5000u32.wrapping_sub(far), seq).window(60_000).payload_len(100);
    let mut frame = wire.frame(SERVER, answer);
    frame[14 + 20 + 12] = 0xa0;
    (frame[14 + 40], frame[14 + 41]) = (19, 18);
    wire.bench.arrived(0);
    wire.push(SERVER, &frame);
    assert_eq!(wire.bench.arrived(0).pop().expect("it passes").1, frame);
    wire.send(CLIENT, |f| f.flags(FIN | ACK).seq_ack(seq.wrapping_sub(far), 5000));
    wire.send(SERVER, |f| f.flags(FIN | ACK).seq_ack(5000u32.wrapping_sub(far), seq));
    for _ in 0..4 {
        wire.later(5_000);
        up(&mut wire, &mut seq, 1);
    }
    assert_eq!((wire.counter("connections"), wire.counter("ended")), (1, 0));
    is_held(&mut wire, &mut seq, most);
}

#[test]
fn numbers_used_again_right_after_the_end_are_another_connection() {
    let mut wire = Wire::new(vec![policy(1_000_000)]);
    wire.open();
    wire.send(CLIENT, |f| f.flags(FIN | ACK).seq_ack(1000, 5000));
    wire.send(SERVER, |f| f.flags(FIN | ACK).seq_ack(5000, 1001));
    wire.send(CLIENT, |f| f.seq_ack(1001, 5001));
    wire.later(500);
    // The same ends and the same numbers, from a generator that knows no others.
    wire.open();
    let mut seq = 1000;
    for _ in 0..8 {
        up(&mut wire, &mut seq, 1);
        wire.later(2_000);
    }
    assert_eq!((wire.counter("connections"), wire.counter("ended")), (1, 1));
    let windows = up(&mut wire, &mut seq, 6);
    assert!(windows.iter().all(|window| *window < 20_000), "{windows:?}");
}
