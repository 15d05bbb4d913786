use super::*;
use perhop_wire::Fragment;
use proptest::prelude::*;

fn parse(text: &str) -> Described {
    Described::parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}"))
}

fn errors(text: &str) -> Vec<String> {
    Described::parse(text).expect_err("it is wrong").iter().map(ToString::to_string).collect()
}

#[test]
fn the_example_of_the_manual() {
    let d = parse("in=lan udp 10.0.0.1:5004>10.1.0.2:5006 dscp=0 len=200");
    assert_eq!((d.in_port.as_str(), d.layout.src_port, d.layout.dst_port), ("lan", 5004, 5006));
    assert_eq!((d.layout.ip_len, d.layout.protocol, d.layout.tos), (200, 17, 0));
    assert_eq!(d.to_string(), "udp 10.0.0.1:5004>10.1.0.2:5006, BE, 200 B");
}

#[test]
fn every_word_reaches_the_frame() {
    let d = parse(
        "tcp [2001:db8::1]:80 > [2001:db8::2]:1024 dscp=AF21 ttl=3 vlan=7,9 flags=syn,ece in=wan len=99",
    );
    assert_eq!((d.layout.vlan, d.layout.vlan_tags, d.layout.tcp_flags), ([7, 9], 2, 0x42));
    assert_eq!((d.layout.tos >> 2, d.ttl, d.layout.ip_len, d.layout.ip_version), (18, 3, 99, 6));
    assert_eq!(d.to_string(), "tcp [2001:db8::1]:80>[2001:db8::2]:1024, AF21, 99 B");
    let d = parse("in=a icmp 10.0.0.1>10.0.0.2 type=3 code=1");
    assert_eq!((d.layout.protocol, d.layout.src_port), (1, 0x0301));
    let d = parse("in=a icmp fe80::1>ff02::1");
    assert_eq!((d.layout.protocol, d.layout.src_port), (58, 0x8000));
    let d = parse("in=a 47 10.0.0.1>10.0.0.2 df");
    assert_eq!((d.layout.protocol, d.dont_fragment), (47, true));
    let d = parse("in=a sctp 2001:db8::1>2001:db8::2");
    assert_eq!(d.layout.protocol, 132);
}

#[test]
fn fragments_and_rtp() {
    let d = parse("in=a udp 10.0.0.1>10.0.0.2 frag id=7");
    assert_eq!((d.layout.fragment, d.layout.fragment_id), (Fragment::Later, 7));
    let d = parse("in=a udp [2001:db8::1]:1>[2001:db8::2]:2 frag=first");
    assert_eq!((d.layout.fragment, d.layout.dst_port), (Fragment::First, 2));
    let d = parse("in=a udp 10.0.0.1:1>10.0.0.2:2 pt=8 ssrc=0xdeadbeef seq=9");
    let header = &d.frame[usize::from(d.layout.payload_offset)..][..12];
    assert_eq!(header[..4], [0x80, 8, 0, 9]);
    assert_eq!(header[8..], [0xde, 0xad, 0xbe, 0xef]);
}

#[test]
fn all_errors_at_once_with_their_columns() {
    assert_eq!(
        errors("in=lan udp 10.0.0.1:99999>10.1.0.300:5 dcsp=1 ttl=999 upd"),
        [
            "column 21: port 99999 is out of range; allowed is 0 to 65535",
            "column 27: \"10.1.0.300:5\" is not an address; write 10.0.0.1:5004 or [2001:db8::1]:5004",
            "column 40: dcsp= is not known; did you mean dscp=? known are in, dscp, len, ttl, vlan, flags, frag, id, \
             type, code, pt, ssrc, seq, ts",
            "column 51: ttl 999 is out of range; allowed is 0 to 255",
            "column 55: \"upd\" is not a protocol; did you mean udp? protocols are udp, tcp, icmp, icmpv6, igmp, gre, \
             esp, ospf, sctp, udplite or a number from 0 to 255; an address pair is SOURCE>DESTINATION",
        ]
    );
}

#[test]
fn what_is_missing_or_contradictory_is_said() {
    assert_eq!(
        errors(""),
        [
            "column 1: the port it comes in by is missing; add in=PORT",
            "column 1: the protocol is missing; add udp, tcp, icmp or a number",
            "column 1: the address pair is missing; add SOURCE>DESTINATION",
        ]
    );
    let one = |text: &str| errors(text).join("|");
    assert!(one("in=a udp 10.0.0.1:1>[2001:db8::1]:2").contains("different families"));
    assert!(one("in=a udp 10.0.0.1>10.0.0.2:2").starts_with("column 10: udp needs a port"));
    assert!(one("in=a gre 10.0.0.1:1>10.0.0.2").starts_with("column 10: gre has no ports"));
    assert!(one("in=a tcp 10.0.0.1:1>10.0.0.2:2 rtp").contains("RTP needs a UDP header"));
    assert!(one("in=a udp 10.0.0.1:1>10.0.0.2:2 flags=syn").contains("udp has no flags"));
    assert!(one("in=a udp 10.0.0.1:1>10.0.0.2:2 len=27").contains("at least 28 bytes"));
    assert!(one("in=a in=b udp 10.0.0.1:1>10.0.0.2:2").contains("in is given twice"));
    assert!(one("in=a udp 10.0.0.1:1>10.0.0.2:2 frag=12").contains("write 8 or 16"));
    assert!(one("in=a icmpv6 10.0.0.1>10.0.0.2").contains("write icmp"));
}

#[test]
fn an_unknown_port_is_reported_where_it_stands() {
    let d = parse("udp 10.0.0.1:1>10.0.0.2:2 in=wam");
    let error = d.unknown_port(["lan", "wan"]);
    assert_eq!(
        error.to_string(),
        "column 30: there is no port \"wam\"; did you mean \"wan\"? ports: lan, wan"
    );
}

proptest! {
    /// Any text gets a frame that can be parsed, or errors with columns inside the text.
    #[test]
    fn any_text_is_answered(text in "(in=|udp |tcp |>|10\\.0\\.0\\.1|:|\\[|\\]|::1|frag|rtp |len=|[0-9]{1,5}|vlan=|,| |é){0,24}") {
        match Described::parse(&text) {
            Ok(d) => prop_assert!(d.layout.ip_version == 4 || d.layout.ip_version == 6),
            Err(errors) => {
                let most = text.chars().count() + 1;
                prop_assert!(!errors.is_empty() && errors.iter().all(|e| (1..=most).contains(&e.column)));
            }
        }
    }

    /// What is described is what is parsed.
    #[test]
    fn numbers_survive(src in any::<[u8; 4]>(), dst in any::<[u8; 16]>(), port in any::<u16>(), len in 48u16..65_535, dscp in 0u8..64) {
        let src6 = std::net::Ipv6Addr::from(dst);
        let text = format!("in=p udp [{src6}]:{port}>[::ffff]:1 len={len} dscp={dscp}");
        let d = parse(&text);
        prop_assert_eq!((d.layout.src_port, d.layout.ip_len, d.layout.tos >> 2), (port, len, dscp));
        let src4 = std::net::Ipv4Addr::from(src);
        let d = parse(&format!("in=p tcp {src4}:{port}>{src4}:{port} len={len}"));
        prop_assert_eq!((d.layout.dst_port, d.layout.ip_len, d.src), (port, len, src4.into()));
    }
}
