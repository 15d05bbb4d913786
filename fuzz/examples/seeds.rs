//! Writes the seed corpora: `cargo run --example seeds` in `fuzz/`. What is there by other names stays.
//!
//! Seeds show a fuzzer the shape of good inputs: one of every protocol, one of every element, one of every operation.
//! The router file has none here; `make fuzz` gives it the examples and the broken files of its own tests.

use perhop_radius::{Attribute, Authorization, Code, Secret, kind, request};
use perhop_units::{Dscp, Rate};
use perhop_wire::build::{self, FrameBuilder};
use perhop_wire::{arp, ethernet, ethertype, icmpv4, icmpv6, ndp, protocol, rtp, tcp::flags};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::{fs, io};

const LAN_HOST: [u8; 4] = [10, 0, 0, 2];
const WAN_HOST: [u8; 4] = [10, 1, 0, 2];
const LAN_HOST_6: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2];
const WAN_HOST_6: [u16; 8] = [0x2001, 0xdb8, 1, 0, 0, 0, 0, 2];

/// A folder of `corpus` and what goes into it.
struct Corpus {
    folder: PathBuf,
}

impl Corpus {
    fn new(target: &str) -> io::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }
    fn add(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        fs::write(self.folder.join(name), bytes)
    }
}

fn udp4() -> FrameBuilder {
    build::udp4(LAN_HOST, WAN_HOST).ports(5004, 5006)
}
fn udp6() -> FrameBuilder {
    build::udp6(LAN_HOST_6, WAN_HOST_6).ports(5004, 5006)
}
fn tcp4() -> FrameBuilder {
    build::tcp4(LAN_HOST, WAN_HOST).ports(40_000, 443)
}

/// A G.711 packet.
fn voice() -> Vec<u8> {
    let header =
        rtp::Repr { payload_type: 8, sequence: 7, timestamp: 1120, ssrc: 0xabcd_0001, ..Default::default() };
    let mut packet = vec![0; header.len() + 20];
    header.emit(&mut packet);
    packet
}

fn rtp_packets() -> Vec<(&'static str, Vec<u8>)> {
    let header = rtp::Repr {
        marker: true,
        payload_type: 96,
        sequence: 0xffff,
        csrc: vec![1, 2],
        extension: Some((0xbede, vec![0x10, 1, 0, 0])),
        padded: true,
        ..Default::default()
    };
    let mut full = vec![0; header.len() + 8];
    header.emit(&mut full);
    full.extend([0, 0, 0, 4]);
    vec![
        ("voice", voice()),
        ("full", full),
        ("rtcp", vec![0x81, 200, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
    ]
}

fn syn() -> FrameBuilder {
    tcp4().flags(flags::SYN).tcp(|tcp| {
        tcp.options.mss = Some(1460);
        tcp.options.window_scale = Some(7);
        tcp.options.sack_permitted = true;
        tcp.options.timestamps = Some((1, 0));
    })
}

fn sack() -> FrameBuilder {
    tcp4().tcp(|tcp| {
        tcp.options.timestamps = Some((5, 4));
        tcp.options.sack = perhop_wire::tcp_options::SackBlocks::new(&[(100, 200), (300, 400)]);
    })
}

fn arp_packet() -> Vec<u8> {
    let repr = arp::Repr {
        operation: arp::REQUEST,
        sender_mac: Default::default(),
        sender_ip: LAN_HOST.into(),
        target_mac: Default::default(),
        target_ip: [10, 0, 0, 1].into(),
    };
    let mut packet = vec![0; repr.len()];
    repr.emit(&mut packet);
    packet
}

fn arp_frame() -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN];
    ethernet::Repr { ethertype: ethertype::ARP, ..Default::default() }.emit(&mut frame);
    frame.extend(arp_packet());
    frame
}

/// Whole frames: one of every kind that dissection tells apart.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let unreachable = icmpv4::Repr::Unreachable { code: 1 };
    let quoted = udp4().build_ip();
    vec![
        ("udp4", udp4().dscp(Dscp::EF).payload(&voice()).build()),
        ("udp6", udp6().payload(&voice()).build()),
        ("tcp4-syn", syn().build()),
        ("tcp4-sack", sack().vlan(7, 5).build()),
        ("tcp6", build::tcp6(LAN_HOST_6, WAN_HOST_6).ports(1, 2).payload(b"x").build()),
        ("icmp4", build::icmp4_echo(LAN_HOST, WAN_HOST, 1, 2).build()),
        (
            "icmp4-error",
            build::icmp4_echo(LAN_HOST, WAN_HOST, 1, 2).icmpv4(unreachable).payload(&quoted).build(),
        ),
        ("icmp6", build::icmp6_echo(LAN_HOST_6, WAN_HOST_6, 1, 2).build()),
        ("tagged-twice", udp4().vlan(100, 1).vlan(200, 2).build()),
        ("options", udp4().options(&[7, 7, 4, 0, 0, 0, 0]).build()),
        ("first-fragment", udp4().identification(9).fragment(0, true).payload_len(16).build()),
        ("later-fragment", udp4().identification(9).fragment(24, false).payload_len(16).build()),
        ("fragment6", udp6().identification(9).fragment(0, true).payload_len(16).build()),
        ("later-fragment6", udp6().identification(9).fragment(24, false).payload_len(16).build()),
        (
            "extensions",
            udp6().extension(protocol::IPV6_HOP_BY_HOP, &[5, 2, 0, 0]).extension(60, &[0; 14]).build(),
        ),
        ("arp", arp_frame()),
    ]
}

/// A message of the traffic-control API: type, transaction, parts of type and value.
fn tcapi_message(kind: u16, txn: u64, parts: &[(u16, &[u8])]) -> Vec<u8> {
    let part = |kind: u16, value: &[u8]| {
        let mut part =
            [&kind.to_be_bytes()[..], &[0x80, 0], &(value.len() as u32).to_be_bytes(), value].concat();
        part.resize(part.len().next_multiple_of(4), 0);
        part
    };
    let mut value = [&1_u32.to_be_bytes()[..], &txn.to_be_bytes(), &1_u64.to_be_bytes()].concat();
    parts.iter().for_each(|(kind, bytes)| value.extend(part(*kind, bytes)));
    part(kind, &value)
}

fn tcapi() -> io::Result<()> {
    let corpus = Corpus::new("tcapi")?;
    let flow: (u16, &[u8]) = (0x0101, &[0, 0, 0, 0, 0, 0, 0, 7]);
    let class: (u16, &[u8]) = (0x0102, b"\0\x01\x2evoice");
    let amount: (u16, &[u8]) =
        (0x0103, &[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let filter: (u16, &[u8]) =
        (0x0104, &[4, 5, 32, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0x13, 0x8c, 0x13, 0x8c, 192, 0, 2, 5, 0, 0, 0, 0]);
    let scope: (u16, &[u8]) = (0x0105, b"\0\x03wan");
    let lifetime: (u16, &[u8]) = (0x0106, &[0, 0, 0, 60]);
    let both: (u16, &[u8]) = (0x0107, &[1]);
    let hello = tcapi_message(6, 1, &[lifetime, (0x0108, b"site-3")]);
    let request = tcapi_message(1, 2, &[flow, class, amount, filter, lifetime, both]);
    let aggregate = tcapi_message(1, 3, &[flow, class, amount, scope]);
    let modify = tcapi_message(2, 4, &[flow, amount]);
    let release = tcapi_message(3, 5, &[flow]);
    corpus.add("aggregate", &aggregate)?;
    corpus.add("call", &[hello, request.clone(), request, modify, release].concat())
}

/// A description of a session, as most phones make it.
const DESCRIPTION: &str = "v=0\r\no=- 1 1 IN IP4 10.1.0.1\r\ns=-\r\nc=IN IP4 10.1.0.1\r\nb=AS:512\r\nt=0 0\r\n\
    m=audio 4000 RTP/AVP 0 8 96\r\na=rtpmap:96 opus/48000/2\r\na=ptime:20\r\na=sendrecv\r\n\
    m=video 4002 RTP/SAVP 97\r\nc=IN IP6 2001:db8::1\r\nb=TIAS:384000\r\na=maxprate:50.5\r\na=rtpmap:97 H264/90000\r\n";

fn sip_request(method: &str, uri: &str, more: &str, body: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 10.1.0.1;branch=z9hG4bK{method};rport\r\nMax-Forwards: 70\r\n\
         f: \"A, B\" <sip:a@b.example>;tag=1\r\nTo: <sip:bob@b.example>\r\nCall-ID: 1@a\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:a@10.1.0.1>\r\n{more}Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A datagram as a step of the target, from the sender of this number.
fn sip_step(sender: u8, text: &str) -> Vec<u8> {
    [&[sender][..], &(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

fn sip() -> io::Result<()> {
    let corpus = Corpus::new("sip")?;
    let more = "Route: <sip:10.1.0.254;lr>,\r\n <sip:p.example>\r\nSession-Expires: 90;refresher=uac\r\n";
    let invite = sip_request("INVITE", "sip:bob@b.example", "", DESCRIPTION);
    let told = sip_request(
        "INVITE",
        "sip:bob@b.example",
        "QoS-Proxy: er=x;realm=a;mode=uni;dir=send\r\n",
        DESCRIPTION,
    );
    corpus.add(
        "request",
        sip_request("INVITE", "sips:bob@[2001:db8::1]:5061;lr", more, DESCRIPTION).as_bytes(),
    )?;
    corpus.add(
        "response",
        b"SIP/2.0 180 Ringing\r\nv: SIP / 2.0 / UDP a;branch=z9hG4bK1, SIP/2.0/TCP b\r\n\r\n",
    )?;
    // Rings, answers, time passes; is cancelled; is refused; comes from a proxy that reserves; registers.
    let cancel = sip_request("CANCEL", "sip:bob@b.example", "", "").replace("z9hG4bKCANCEL", "z9hG4bKINVITE");
    let register = sip_request("REGISTER", "sip:b.example", "Expires: 60\r\n", "");
    let options = sip_request("OPTIONS", "sip:x@far.example", more, "");
    corpus.add("call", &[sip_step(0, &invite), vec![129, 131, 0xc1, 131, 0xff]].concat())?;
    corpus.add("cancelled", &[sip_step(0, &invite), vec![129], sip_step(0, &cancel), vec![0xff]].concat())?;
    corpus.add("refused", &[vec![0xc1], sip_step(0, &invite), vec![130, 131, 0xc1, 131]].concat())?;
    corpus.add("told", &[sip_step(2, &told), vec![131, 0xc0], sip_step(0, &register), vec![131]].concat())?;
    corpus.add("far", &[sip_step(3, &options), vec![134, 0xff]].concat())
}

fn sdp() -> io::Result<()> {
    let corpus = Corpus::new("sdp")?;
    corpus.add("phone", DESCRIPTION.as_bytes())?;
    corpus
        .add("hold", DESCRIPTION.replace("sendrecv", "inactive").replace("10.1.0.1", "0.0.0.0").as_bytes())?;
    corpus.add(
        "lines",
        b"v=0\nm=audio 0 RTP/AVP 18\nm=text 9/2 RTP/AVP 1\nm=application 5 UDP/BFCP *\nb=CT:1\n",
    )
}

/// A message of COPS of our client type: operation, whether it is solicited, objects of C-Num, C-Type and contents.
fn cops_message(op: u8, solicited: bool, objects: &[(u8, u8, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (c_num, c_type, contents) in objects {
        let length = contents.len() as u16 + 4;
        body.extend([&length.to_be_bytes()[..], &[*c_num, *c_type], contents].concat());
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let length = body.len() as u32 + 8;
    [&[0x10 | u8::from(solicited), op, 0x4d, 0x41][..], &length.to_be_bytes(), &body].concat()
}

fn cops() -> io::Result<()> {
    let corpus = Corpus::new("cops")?;
    let handle: (u8, u8, &[u8]) = (1, 1, &[0, 0, 0, 0, 0, 0, 0, 1]);
    let allocation: (u8, u8, &[u8]) = (2, 1, &[0, 2, 0, 0]);
    let configuration: (u8, u8, &[u8]) = (2, 1, &[0, 8, 0, 0]);
    let install: (u8, u8, &[u8]) = (6, 1, &[0, 1, 0, 0]);
    let amount: (u16, &[u8]) =
        (0x0103, &[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let asked = tcapi_message(1, 2, &[(0x0101, &[0, 0, 0, 0, 0, 0, 0, 7]), (0x0102, b"\0\x01\x2evoice"), amount]);
    let open = cops_message(6, false, &[(11, 1, b"edge-1\0\0")]);
    let again = cops_message(6, false, &[(11, 1, b"edge-1\0\0"), (14, 1, &[192, 0, 2, 1, 0, 0, 0x0c, 0xd8])]);
    let request = cops_message(1, false, &[handle, allocation, (9, 1, &asked)]);
    let delete = cops_message(4, false, &[handle, (5, 1, &[0, 4, 0, 0])]);
    let keep_alive = [0x10, 9, 0, 0, 0, 0, 0, 8];
    let complete = cops_message(10, false, &[]);
    let report = cops_message(3, true, &[handle, (12, 1, &[0, 1, 0, 0])]);
    let of_client = [&open, &request, &report, &keep_alive[..], &request, &delete].concat();
    corpus.add("pep", &of_client)?;
    corpus.add("resumed", &[&again[..], &request, &complete].concat())?;
    let accept = cops_message(7, false, &[(10, 1, &[0, 0, 0, 60])]);
    let decided = cops_message(2, true, &[handle, allocation, install, (6, 4, &asked)]);
    let failed = cops_message(2, true, &[handle, (8, 1, &[0, 4, 0, 19])]);
    let provided = cops_message(2, false, &[handle, configuration, install, (6, 4, &asked)]);
    let sync = cops_message(5, false, &[]);
    let close = cops_message(8, false, &[(8, 1, &[0, 11, 0, 0]), (13, 1, &[192, 0, 2, 2, 0, 0, 0x0c, 0xd8])]);
    corpus.add("pdp", &[&accept[..], &decided, &provided, &sync, &failed, &close].concat())
}

fn headers() -> io::Result<()> {
    let corpus = |name| Corpus::new(name);
    for (name, frame) in frames() {
        corpus("dissect")?.add(name, &frame)?;
    }
    for (name, frame) in
        frames().into_iter().filter(|(name, _)| ["udp4", "arp", "tagged-twice"].contains(name))
    {
        corpus("ethernet")?.add(name, &frame)?;
        corpus("vlan")?.add(name, &frame[14..])?;
    }
    corpus("arp")?.add("request", &arp_packet())?;
    for (name, packet) in [
        ("udp", udp4().dscp(Dscp::EF).build_ip()),
        ("tcp", syn().build_ip()),
        ("options", udp4().options(&[7, 7, 4, 0, 0, 0, 0]).build_ip()),
        ("fragment", udp4().fragment(24, true).payload_len(8).build_ip()),
    ] {
        corpus("ipv4")?.add(name, &packet)?;
    }
    let (icmp, icmp6) =
        (build::icmp4_echo(LAN_HOST, WAN_HOST, 1, 2), build::icmp6_echo(LAN_HOST_6, WAN_HOST_6, 1, 2));
    let too_long = icmp.clone().icmpv4(icmpv4::Repr::FragmentationNeeded { mtu: 1400 });
    let too_big = icmp6.clone().icmpv6(icmpv6::Repr::PacketTooBig { mtu: 1280 });
    for (name, packet) in [("udp", udp6().build_ip()), ("icmp", icmp6.build_ip())] {
        corpus("ipv6")?.add(name, &packet)?;
    }
    corpus("icmpv4")?.add("echo", &icmp.build_ip()[20..])?;
    corpus("icmpv4")?.add("too-long", &too_long.payload(&udp4().build_ip()).build_ip()[20..])?;
    corpus("icmpv6")?.add("echo", &icmp6.build_ip()[40..])?;
    corpus("icmpv6")?.add("too-big", &too_big.payload(&udp6().build_ip()).build_ip()[40..])?;
    let chain =
        udp6().extension(0, &[5, 2, 0, 0]).extension(protocol::AH, &[0; 10]).fragment(0, true).build_ip();
    corpus("ipv6_ext")?.add("chain", &[&chain[6..7], &chain[40..]].concat())?;
    corpus("ipv6_ext")?.add("none", &[17, 0, 1, 0, 2, 0, 8, 0, 0])?;
    corpus("udp")?.add("datagram", &udp4().payload(b"hello").build_ip()[20..])?;
    corpus("udp")?.add("empty", &udp6().build_ip()[40..])?;
    for (name, packet) in [("syn", syn().build_ip()), ("sack", sack().payload(b"data").build_ip())] {
        corpus("tcp")?.add(name, &packet[20..])?;
        corpus("tcp_options")?.add(name, &packet[40..])?;
    }
    for (name, packet) in rtp_packets() {
        corpus("rtp")?.add(name, &packet)?;
    }
    neighbours(&corpus("ndp")?)
}

fn neighbours(corpus: &Corpus) -> io::Result<()> {
    let (target, mac) = (LAN_HOST_6.into(), perhop_wire::MacAddr([2, 0, 0, 0, 0, 9]));
    let advertisement = ndp::Repr::Advertisement {
        router: true,
        solicited: true,
        overrides: false,
        target,
        link_layer: Some(mac),
    };
    for (name, repr) in [
        ("solicitation", ndp::Repr::Solicitation { target, link_layer: Some(mac) }),
        ("probe", ndp::Repr::Solicitation { target, link_layer: None }),
        ("advertisement", advertisement),
    ] {
        let mut message = vec![0; repr.len()];
        repr.emit(&mut message);
        corpus.add(name, &message)?;
    }
    Ok(())
}

/// One record of the target `capture`: link type by index, milliseconds, length, bytes.
fn captured(link: u8, frame: &[u8]) -> Vec<u8> {
    [&[link, 20][..], &(frame.len() as u16).to_be_bytes(), frame].concat()
}

fn captures() -> io::Result<()> {
    let corpus = Corpus::new("capture")?;
    let call = udp4().payload(&voice()).build();
    let mut long = captured(0, &call);
    (0..20).for_each(|_| long.extend([0, 20, 0x80, 0]));
    corpus.add("call", &long)?;
    let mixed: Vec<u8> = frames().iter().flat_map(|(_, frame)| captured(0, frame)).collect();
    corpus.add("mixed", &mixed)?;
    let packet = udp4().payload(&voice()).build_ip();
    let cooked = [&[0; 14][..], &[8, 0], &packet].concat();
    let cooked2 = [&[8, 0][..], &[0; 18], &packet].concat();
    let loopback = [&[2, 0, 0, 0][..], &packet].concat();
    for (name, link, frame) in
        [("raw", 1, packet), ("loopback", 2, loopback), ("cooked", 4, cooked), ("cooked2", 5, cooked2)]
    {
        corpus.add(name, &captured(link, &frame))?;
    }
    Ok(())
}

/// One record of the target `data_path`: a frame to be repaired, at port 0, after `gap` (an index).
fn arriving(port: u8, gap: u8, frame: &[u8]) -> Vec<u8> {
    let units = frame.len().div_ceil(255).clamp(1, 8);
    let len = frame.len().div_ceil(units);
    let kind = 0xc0 | gap << 4 | (units as u8 - 1) << 1 | port;
    let mut record = vec![kind, len as u8];
    record.extend(frame);
    record.resize(2 + len * units, 0);
    record
}

fn traffic() -> io::Result<()> {
    let corpus = Corpus::new("data_path")?;
    for (name, frame) in frames() {
        corpus.add(name, &arriving(0, 1, &frame))?;
    }
    let mut call = arriving(0, 3, &udp4().payload(&voice()).build());
    (0..20).for_each(|_| call.push(0x70));
    // Filters and classes come and go while it lasts.
    call.extend([0, 0, 0x40, 0, 1, 0x40, 0, 3, 0, 4, 0x40, 0, 2, 0, 5, 0x70]);
    corpus.add("call", &call)?;
    let mut flood = arriving(0, 0, &udp4().payload_len(1400).build());
    (0..100).for_each(|_| flood.push(0x40));
    corpus.add("flood", &flood)?;
    corpus.add("unknown-neighbour", &arriving(0, 3, &build::udp4(LAN_HOST, [10, 1, 0, 99]).build()))?;
    corpus.add("no-route", &arriving(0, 3, &build::udp4(LAN_HOST, [192, 0, 2, 1]).build()))?;
    corpus.add("dying", &arriving(1, 3, &build::udp6(WAN_HOST_6, LAN_HOST_6).ttl(1).build()))?;
    let too_long = build::udp4(WAN_HOST, LAN_HOST).payload_len(1600);
    corpus.add("to-fragment", &arriving(1, 3, &too_long.clone().build()))?;
    corpus.add("too-long", &arriving(1, 3, &too_long.dont_fragment().build()))?;
    Ok(())
}

fn graphs() -> io::Result<()> {
    let corpus = Corpus::new("graph")?;
    let edge = "flows :: Flows(connections = 64);\ncondition :: Conditioner();\nforward :: Route(ports = 2);\n\
        host :: ToHost(); icmp :: IcmpError();\nin :: FromPort(lan); q :: Egress(wan, rate = 10 Mbit/s); out :: ToPort(wan);\n\
        in -> flows -> condition -> forward; forward [1] -> q -> out; forward [2] -> host; icmp -> forward;\n";
    corpus.add("edge", edge.as_bytes())?;
    corpus.add(
        "anonymous",
        b"// a comment\na :: Counter -> Tee(2) -> /* here */ Discard(); a [0] -> [0] Discard();",
    )?;
    corpus.add("several", b"a, b :: Counter(); a -> b -> [0] c :: Discard;")?;
    corpus.add("quotes", b"a :: Classify(\"x, y = (1)\", key = \"\", z={1,[2]}); a [3] -> Discard();")?;
    corpus.add("broken", b"a :: ; b -> ; (c) [300] -> a")?;
    (1..=3).try_for_each(|n| {
        corpus.add(&format!("types-{n}"), perhop_tests::properties::graph::types(n).as_bytes())
    })
}

fn operation(op: Value) -> Value {
    json!({ "txn_id": "000102030405060708090a0b0c0d0e0f", "owner": "file", "fence": 0, "mode": "commit", "ops": [op] })
}

fn transactions() -> io::Result<()> {
    let corpus = Corpus::new("transaction")?;
    let class = json!({ "port": "wan", "weight": 5, "guarantee": { "rate": 1_000_000 }, "queue": { "limit": { "packets": 9 } } });
    let all = [
        ("put", json!({ "op": "put", "kind": "class", "name": "wan/x", "spec": class, "ttl_ms": 1500 })),
        (
            "filter",
            json!({ "op": "put", "kind": "filter", "name": "f", "spec": {
            "priority": 5, "class": "voice",
            "match": { "protocol": 17, "dst": "10.0.0.0/8", "dst_ports": { "first": 1, "last": 9 }, "dscp": [46] } } }),
        ),
        (
            "route",
            json!({ "op": "put", "kind": "route", "name": "r", "spec": { "dest": "10.0.0.0/8", "port": "lan" } }),
        ),
        (
            "profile",
            json!({ "op": "put", "kind": "profile", "name": "p", "spec": {
            "meter": { "tr_tcm": { "cir": 1000000, "cbs": 3000, "pir": 2000000, "pbs": 3000 } } } }),
        ),
        ("detector", json!({ "op": "put", "kind": "detector", "name": "d", "spec": { "class": "voice" } })),
        (
            "patch",
            json!({ "op": "patch", "kind": "port", "name": "wan", "fields": { "rate": 5000000 }, "if_version": 1 }),
        ),
        ("delete", json!({ "op": "delete", "kind": "filter", "name": "calls", "drain_ms": 10 })),
        ("replace", json!({ "op": "replace_owned", "kinds": ["filter"], "objects": [] })),
        ("graph", json!({ "op": "replace_graph", "text": "a :: Discard();", "reset": ["*"] })),
        ("renew", json!({ "op": "renew", "ttl_ms": 1000 })),
        ("confirm", json!({ "op": "confirm", "txn_id": "000102030405060708090a0b0c0d0e0f" })),
    ];
    for (name, op) in all {
        corpus.add(name, operation(op).to_string().as_bytes())?;
    }
    let mut tentative = operation(json!({ "op": "delete", "kind": "filter", "name": "calls" }));
    tentative["confirm_within_ms"] = json!(800);
    let mut confirm = operation(json!({ "op": "confirm", "txn_id": "000102030405060708090a0b0c0d0e0f" }));
    confirm["txn_id"] = json!("ff0102030405060708090a0b0c0d0e0f");
    corpus.add("confirmed", format!("{tentative}\n{confirm}").as_bytes())?;
    corpus.add(
        "reverted",
        format!("{tentative}\n\n{}", operation(json!({ "op": "renew", "ttl_ms": 1 }))).as_bytes(),
    )
}

fn descriptions() -> io::Result<()> {
    let corpus = Corpus::new("describe")?;
    let all = [
        ("udp", "in=lan udp 10.0.0.1:5004>10.1.0.2:5004 dscp=EF len=200"),
        ("tcp6", "in=wan tcp [2001:db8::1]:80>[2001:db8:1::2]:4000 flags=syn,ack ttl=1"),
        ("rtp", "in=lan udp 10.0.0.1:5004>10.1.0.2:5004 rtp pt=8 ssrc=0xabcd seq=7 ts=1120 vlan=100,200"),
        ("fragment", "in=lan udp 10.0.0.1>10.1.0.2 frag=1480 id=77"),
        ("first", "in=lan udp 10.0.0.1:1>10.1.0.2:2 frag=first"),
        ("icmp", "in=lan icmp 10.0.0.1>10.1.0.2 type=3 code=1 df"),
        ("number", "in=lan 50 10.0.0.1>10.1.0.2"),
        ("broken", "udp 10.0.0.1:99999>2001:db8::1 dscp=ee lenn=3"),
    ];
    all.iter().try_for_each(|(name, text)| corpus.add(name, text.as_bytes()))
}

/// Requests of every code, signed, one unsigned and one cut.
fn radius() -> io::Result<()> {
    let corpus = Corpus::new("radius")?;
    let secret = Secret::new(b"testing123").expect("not empty");
    let authorization = Authorization {
        sla: Some("gold".into()),
        up: Some(Rate::from_mbit(1)),
        down: Some(Rate::from_mbit(2)),
    };
    let mut all = vec![
        Attribute::number(kind::ACCT_STATUS_TYPE, 3),
        Attribute::text(kind::ACCT_SESSION_ID, "81a2"),
        Attribute::text(kind::USER_NAME, "ann"),
        Attribute::text(kind::NAS_IDENTIFIER, "edge"),
        Attribute::octets(kind::FRAMED_IP_ADDRESS, &[10, 0, 0, 7]),
        Attribute::number(kind::ACCT_INPUT_OCTETS, 7),
        Attribute::number(kind::ACCT_INPUT_GIGAWORDS, 1),
        Attribute::text(kind::PROXY_STATE, "p"),
        Attribute::text(kind::STATE, "s"),
        Attribute::number(kind::EVENT_TIMESTAMP, 1_800_000_000),
    ];
    all.extend(authorization.attributes().expect("short"));
    let requests = [
        ("interim", Code::AccountingRequest),
        ("coa", Code::CoaRequest),
        ("disconnect", Code::DisconnectRequest),
    ];
    for (name, code) in requests {
        corpus.add(name, &request(code, 7, &all, &secret).expect("short").bytes)?;
    }
    let on = [Attribute::number(kind::ACCT_STATUS_TYPE, 7), Attribute::text(kind::NAS_IDENTIFIER, "edge")];
    let bytes = request(Code::AccountingRequest, 8, &on, &secret).expect("short").bytes;
    corpus.add("on", &bytes)?;
    corpus.add("cut", &bytes[..bytes.len() - 2])
}

fn main() -> io::Result<()> {
    radius()?;
    descriptions()?;
    headers()?;
    tcapi()?;
    sip()?;
    sdp()?;
    cops()?;
    captures()?;
    traffic()?;
    graphs()?;
    transactions()
}
