use super::*;
use std::path::PathBuf;

/// (time in ns, link type, bytes) of a pcap or pcapng file of either byte order.
fn read(bytes: &[u8]) -> Vec<(Instant, u32, Vec<u8>)> {
    match bytes[..4] {
        [0x0a, 0x0d, 0x0d, 0x0a] => pcapng(bytes),
        [0xd4, 0xc3, 0xb2, 0xa1] => pcap(bytes, u32::from_le_bytes, 1_000),
        [0x4d, 0x3c, 0xb2, 0xa1] => pcap(bytes, u32::from_le_bytes, 1),
        [0xa1, 0xb2, 0xc3, 0xd4] => pcap(bytes, u32::from_be_bytes, 1_000),
        _ => panic!("neither pcap nor pcapng"),
    }
}

fn pcap(bytes: &[u8], int: fn([u8; 4]) -> u32, fraction_ns: u64) -> Vec<(Instant, u32, Vec<u8>)> {
    let at = |i: usize| int(bytes[i..i + 4].try_into().unwrap());
    let (link, mut i, mut frames) = (at(20), 24, Vec::new());
    while i + 16 <= bytes.len() {
        let time = u64::from(at(i)) * 1_000_000_000 + u64::from(at(i + 4)) * fraction_ns;
        let end = (i + 16 + at(i + 8) as usize).min(bytes.len());
        frames.push((Instant(time), link, bytes[i + 16..end].to_vec()));
        i = end;
    }
    frames
}

fn pcapng(bytes: &[u8]) -> Vec<(Instant, u32, Vec<u8>)> {
    let int: fn([u8; 4]) -> u32 =
        if bytes[8..12] == [0x4d, 0x3c, 0x2b, 0x1a] { u32::from_le_bytes } else { u32::from_be_bytes };
    let at = |i: usize| int(bytes[i..i + 4].try_into().unwrap());
    let (mut links, mut i, mut frames) = (Vec::new(), 0, Vec::new());
    while i + 12 <= bytes.len() {
        let len = at(i + 4) as usize;
        match at(i) {
            1 => {
                let link = int([bytes[i + 8], bytes[i + 9], 0, 0]) & 0xffff;
                // Option 9: resolution of time stamps, a power of ten here.
                let (mut o, mut tick_ns) = (i + 16, 1_000);
                while o + 4 < i + len - 4 {
                    let (code, n) = (at(o) & 0xffff, (at(o) >> 16) as usize);
                    if code == 9 {
                        tick_ns = 10_u64.pow(9 - u32::from(bytes[o + 4]).min(9));
                    }
                    o += 4 + n.div_ceil(4) * 4;
                }
                links.push((link, tick_ns));
            }
            6 => {
                let (link, tick_ns) = links[at(i + 8) as usize];
                let time = (u64::from(at(i + 12)) << 32 | u64::from(at(i + 16))) * tick_ns;
                frames.push((Instant(time), link, bytes[i + 28..i + 28 + at(i + 20) as usize].to_vec()));
            }
            _ => {}
        }
        i += len.max(12);
    }
    frames
}

fn capture(test: &str, name: &str) -> Option<Classified> {
    let Some(data) = std::env::var_os("PERHOP_TEST_DATA") else {
        println!("SKIPPED {test}: PERHOP_TEST_DATA unset");
        return None;
    };
    let path = PathBuf::from(data).join("pcap").join(name);
    let frames = read(&std::fs::read(&path).unwrap());
    assert!(!frames.is_empty(), "{name}");
    let settings = RtpSettings::default().with_regular(6).unwrap();
    let found = classify_capture(name, settings, Stages::default(), frames);
    let media: Vec<_> = found.rows.iter().filter(|r| r.verdict == "media").collect();
    let udp = found.rows.iter().filter(|r| r.flow.starts_with("udp")).count();
    println!(
        "{name}: {} flows ({udp} UDP), {} media, {} other frames, {} unreadable",
        found.rows.len(),
        media.len(),
        found.other,
        found.unreadable
    );
    for row in &found.rows {
        if row.verdict == "media" || (row.packets >= 20 && row.flow.starts_with("udp")) {
            println!("  {row:?}");
        }
    }
    assert!(media.iter().all(|r| r.flow.starts_with("udp")));
    Some(found)
}

/// Flows with media of each capture, both directions of a call counted. Zoom's capture holds the probing of its
/// bandwidth only, Webex's none at all, and the two look-alikes are what their names say.
#[test]
fn media_of_captures_is_found_and_nothing_else() {
    for (name, expected) in [
        ("g711a.pcap", 1),
        ("rtp.pcapng", 4),
        ("sip.pcap", 1),
        ("stun_dtls_rtp.pcapng", 1),
        ("stun_wa_call.pcapng", 6),
        ("KakaoTalk_talk.pcap", 4),
        ("teams.pcap", 1),
        ("zoom.pcap", 0),
        ("webex.pcap", 0),
        ("rtps.pcap", 0),
        ("dnscrypt_skype_false_positive.pcapng", 0),
    ] {
        let Some(found) = capture("media_of_captures_is_found_and_nothing_else", name) else { return };
        let media: Vec<_> = found.rows.iter().filter(|r| r.verdict == "media").collect();
        assert_eq!(media.len(), expected, "{name}: {media:#?}");
        assert!(media.iter().all(|r| r.reason.contains("rtp") && r.confidence > 0.8));
    }
}

/// A G.711 packet as IPv4 from 10.0.0.1:5004 to 10.0.0.2:5006.
fn g711(i: u16) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 200, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = perhop_wire::checksum::of(&p);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend_from_slice(&[0x13, 0x8c, 0x13, 0x8e, 0, 180, 0, 0, 0x80, 0]);
    p.extend_from_slice(&i.to_be_bytes());
    p.extend_from_slice(&(u32::from(i) * 160).to_be_bytes());
    p.extend_from_slice(&[0, 0, 0, 7]);
    p.resize(200, 0x55);
    p
}

#[test]
fn every_link_type_and_a_short_snap_length() {
    let ethernet = |ether_type: [u8; 2]| [&[0; 12][..], &ether_type].concat();
    // An IPv4 header of protocol `number` around `inside` bytes of tunnel header and the packet.
    let outer = |number: u8, inside: &[u8]| {
        let len = (20 + inside.len() as u16 + 200).to_be_bytes();
        let mut p = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, number, 0, 0, 9, 9, 9, 1, 9, 9, 9, 2];
        let sum = perhop_wire::checksum::of(&p);
        p[10..12].copy_from_slice(&sum.to_be_bytes());
        [&p, inside].concat()
    };
    let pppoe = [0x11, 0, 0, 9, 0, 202, 0, 0x21];
    let gtp = [[0x12, 0x34, 8, 0x68, 0, 216, 0, 0], [0x30, 255, 0, 200, 0, 0, 0, 7]].concat();
    let data_frame = [&[0x88, 1][..], &[0; 24], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat();
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let juniper = |flags: &[u8], rest: &[u8]| [&b"MGC"[..], flags, rest].concat();
    let pktap = [108_u32, 1, 101].map(u32::to_le_bytes).concat();
    let pktap = [&pktap[..], &[0; 96]].concat();
    let prefixes: Vec<(u32, Vec<u8>)> = vec![
        (1, ethernet([8, 0])),
        (1, [ethernet([0x88, 0xa8]), vec![0, 5, 0x81, 0, 0, 6, 8, 0]].concat()),
        (1, [&ethernet([0x88, 0x64])[..], &pppoe].concat()),
        (1, [ethernet([0x88, 0x47]), vec![0, 0, 0x10, 64, 0, 0, 0x21, 64]].concat()),
        (101, vec![]),
        (12, vec![]),
        (101, outer(4, &[])),
        (101, outer(47, &[0x20, 0, 8, 0, 0, 0, 0, 1])),
        (101, outer(47, &[&[0, 0, 0x65, 0x58][..], &ethernet([8, 0])].concat())),
        (101, outer(17, &gtp)),
        (113, [vec![0; 14], vec![8, 0]].concat()),
        (276, [vec![8, 0], vec![0; 18]].concat()),
        (0, vec![2, 0, 0, 0]),
        (9, vec![0xff, 3, 0, 0x21]),
        (50, vec![0x21]),
        (51, pppoe.to_vec()),
        (104, vec![15, 0, 8, 0]),
        (105, data_frame.clone()),
        (127, [&[0, 0, 10, 0, 0, 0, 0, 0, 1, 2][..], &data_frame].concat()),
        (192, vec![0, 0, 8, 0, 101, 0, 0, 0]),
        (10, [&[0x57; 13][..], &snap].concat()),
        (6, [&[0x10, 0x40][..], &[7; 12], &snap].concat()),
        // A route of three words.
        (6, [&[0x10, 0x40][..], &[7; 6], &[0x87; 6], &[6, 0, 1, 2, 3, 4], &snap].concat()),
        (242, [&[0; 40][..], &[8, 0, 0, 0]].concat()),
        (107, vec![0x18, 0x41, 3, 0xcc]),
        (258, pktap.clone()),
        (149, pktap),
        (178, juniper(&[0], &ethernet([8, 0]))),
        (167, juniper(&[0x80, 0, 5, 1, 1, 2, 0, 0], &ethernet([8, 0]))),
        (179, juniper(&[1], &[0xff, 3, 0, 0x21])),
        (180, juniper(&[1], &[0x18, 0x41, 3, 0, 0x80, 0, 0, 0, 8, 0])),
        (181, juniper(&[1], &[15, 0, 8, 0])),
        (168, juniper(&[0], &[8, 0])),
        (130, juniper(&[0], &[1, 2, 0, 0x21])),
        (135, juniper(&[0], &[&[9; 8][..], &snap].concat())),
        (137, juniper(&[0], &[9; 4])),
        (133, juniper(&[0], &[9; 8])),
        (136, juniper(&[0], &[9; 8])),
        (164, juniper(&[2], &[0; 4])),
        (1, [ethernet([0x88, 0xa8]), vec![0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7, 8, 0]].concat()),
        (239, vec![2, 0, 0, 0, 6, 0, 10, 0, 1, 2, 0, 0, 204, 0, 9, 0]),
    ];
    for (link, prefix) in prefixes {
        for keep in [200, 40] {
            // A TLV that is cut short holds nothing.
            if link == 239 && keep < 200 {
                continue;
            }
            let frames = (0..12_u16).map(|i| {
                let frame = [prefix.clone(), g711(i)[..keep].to_vec()].concat();
                (Instant(u64::from(i) * 20_000_000), link, frame)
            });
            let found = classify_capture("made", RtpSettings::default(), Stages::default(), frames);
            assert_eq!(found.unreadable, 0, "link type {link}");
            let expected = FlowRow {
                file: "made".to_owned(),
                flow: "udp 10.0.0.1:5004>10.0.0.2:5006".to_owned(),
                vlan: match (prefix.get(12..14), prefix.len()) {
                    (Some([0x88, 0xa8]), 26) => vec![5, 6, 7],
                    (Some([0x88, 0xa8]), _) => vec![5, 6],
                    _ => vec![],
                },
                packets: 12,
                verdict: "media",
                reason: "rtp",
                confidence: 0.99,
                decided_at: Some(10),
                ssrc: vec![7],
                payload_type: vec![0],
            };
            assert_eq!(found.rows, [expected], "link type {link}, {keep} bytes");
        }
    }
    let unknown =
        classify_capture("made", RtpSettings::default(), Stages::default(), [(Instant(0), 9999, g711(0))]);
    assert_eq!((unknown.unreadable, unknown.rows.len()), (1, 0));
}

/// A snap length in the options of TCP is no fault of the packet's; a wrong header is, however much was captured.
#[test]
fn headers_that_the_capture_cut_are_told_apart_from_wrong_ones() {
    let mut tcp = vec![0x45, 0, 5, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = perhop_wire::checksum::of(&tcp);
    tcp[10..12].copy_from_slice(&sum.to_be_bytes());
    tcp.extend_from_slice(&[0x13, 0x8c, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0xa0, 2, 0, 9, 0, 0, 0, 0]);
    tcp.extend_from_slice(&[1; 20]);
    let told = |frame: &[u8]| {
        let frames = [(Instant(0), 101, frame)];
        let found = classify_capture("made", RtpSettings::default(), Stages::default(), frames);
        (found.rows.len(), found.unreadable, found.cut)
    };
    assert_eq!(told(&tcp), (1, 0, 0));
    for keep in [54, 40, 33, 30, 20, 10] {
        assert_eq!(told(&tcp[..keep]), (0, 1, 1), "{keep}");
    }
    let mut wrong = tcp.clone();
    wrong[0] = 0x44;
    assert_eq!(told(&wrong), (0, 1, 0));
}

/// IPv4 from 10.0.0.1:5004 to 10.0.0.2:5006 around `payload`.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let total = (28 + payload.len() as u16).to_be_bytes();
    let mut p = vec![0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = perhop_wire::checksum::of(&p);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = (8 + payload.len() as u16).to_be_bytes();
    p.extend_from_slice(&[0x13, 0x8c, 0x13, 0x8e, udp[0], udp[1], 0, 0]);
    p.extend_from_slice(payload);
    p
}

/// Packet `i` of G.711 of `ssrc`.
fn rtp(i: u16, ssrc: u32) -> Vec<u8> {
    let stamp = (u32::from(i) * 160).to_be_bytes();
    datagram(&[&[0x80, 0][..], &i.to_be_bytes(), &stamp, &ssrc.to_be_bytes(), &[0x55; 160]].concat())
}

/// The row of one flow whose packets came at these times, in µs.
fn one_flow(packets: Vec<(u64, Vec<u8>)>) -> FlowRow {
    let frames = packets.into_iter().map(|(us, bytes)| (Instant(us * 1_000), 101, bytes));
    let found = classify_capture("made", RtpSettings::default(), Stages::default(), frames);
    assert_eq!((found.rows.len(), found.unreadable, found.other), (1, 0, 0));
    found.rows.into_iter().next().unwrap()
}

#[test]
fn a_contradiction_takes_back_the_last_decision_and_no_other() {
    let call = (0..1_000).map(|i| rtp(i, 0x11));
    let short = (7..22).map(|i| rtp(i, 0x22));
    let junk = || (0..40).map(|_| datagram(&[1; 62]));
    let row = |packets: Vec<Vec<u8>>| one_flow((0..).step_by(20_000).zip(packets).collect());
    let both = row(call.chain(short.clone()).chain(junk()).collect());
    assert_eq!(
        (both.verdict, both.reason, both.decided_at, both.ssrc),
        ("media", "rtp", Some(10), vec![0x11])
    );
    let mistake = row(short.chain(junk()).collect());
    assert_eq!((mistake.verdict, mistake.reason, mistake.decided_at), ("none", "contradicted", None));
    assert!(mistake.ssrc.is_empty() && mistake.payload_type.is_empty() && mistake.confidence == 0.0);
}

#[test]
fn stamps_that_go_back_do_not_hide_a_call() {
    let second = 1_000_000;
    let at = |stamp: fn(u64) -> u64| {
        let row = one_flow((0..200).map(|i| (stamp(i) + second, rtp(i as u16, 7))).collect());
        (row.verdict, row.reason, row.decided_at)
    };
    let found = ("media", "rtp", Some(10));
    assert_eq!(at(|i| i * 20_000), found);
    // Two queues of a card whose packets were merged; a clock set back in mid-train, by half a second and by all of it.
    assert_eq!(at(|i| i * 20_000 - if i % 5 == 4 { 30_000 } else { 0 }), found);
    assert_eq!(at(|i| i * 20_000 - if i > 5 { 100_000 } else { 0 }).0, "media");
    assert_eq!(at(|i| if i > 5 { i * 20_000 } else { i * 20_000 + 3_600_000_000 }).0, "media");
}

#[test]
fn one_five_tuple_in_two_vlans_is_two_flows() {
    let tagged = |vlan: u8, packet: Vec<u8>| [&[0; 12][..], &[0x81, 0, 0, vlan, 8, 0], &packet].concat();
    let frames = (0..200_u16).map(|i| {
        let (vlan, packet) = if i % 2 == 0 { (1, rtp(i / 2, 7)) } else { (2, datagram(&[1; 100])) };
        (Instant(u64::from(i) * 10_000_000), 1, tagged(vlan, packet))
    });
    let found = classify_capture("made", RtpSettings::default(), Stages::default(), frames);
    let rows: Vec<_> = found.rows.iter().map(|r| (r.vlan.as_slice(), r.packets, r.verdict)).collect();
    assert_eq!(rows, [(&[1][..], 100, "media"), (&[2][..], 100, "none")]);
}
