use super::*;
use ezk_sdp_types as ezk;
use perhop_units::Rate;
use proptest::prelude::*;

fn read(text: &str) -> Description {
    Description::read(text.as_bytes()).unwrap_or_else(|fault| panic!("{fault}: {text}"))
}

/// A description of one stream of sound.
fn audio(address: &str, port: u16, formats: &str, more: &str) -> Description {
    let family = if address.contains(':') { "IP6" } else { "IP4" };
    read(&format!(
        "v=0\r\no=- 1 1 IN {family} {address}\r\ns=-\r\nc=IN {family} {address}\r\nt=0 0\r\nm=audio {port} RTP/AVP {formats}\r\n{more}"
    ))
}

/// What is sent to somebody who answers so, bit/s.
fn bps(formats: &str, more: &str, table: &CodecTable) -> u64 {
    let offer = audio("192.0.2.1", 4000, formats, "");
    let answer = audio("192.0.2.2", 5000, formats, more);
    negotiate(&offer, &answer, table).of_offerer[0].rate.bits_per_sec()
}

#[test]
fn well_known_codecs_take_what_everybody_counts() {
    let ip = CodecTable::default();
    let ethernet = CodecTable { link_bytes: 18, ..CodecTable::default() };
    assert_eq!(bps("0", "a=ptime:20\r\n", &ip), 80_000, "G.711, 20 ms");
    assert_eq!(bps("8", "", &ethernet), 87_200, "with Ethernet and its check sum");
    assert_eq!(bps("18", "a=ptime:20\r\n", &ip), 24_000, "G.729");
    assert_eq!(bps("4", "", &ip), 17_067, "G.723.1, 30 ms, rounded up");
    assert_eq!(bps("3", "", &ip), 29_200, "GSM");
    assert_eq!(bps("0", "a=ptime:10\r\n", &ip), 96_000, "shorter packets have more headers");
    assert_eq!(bps("18", "a=ptime:15\r\n", &ip), 24_000, "frames are whole: 20 ms");
    assert_eq!(bps("96", "a=rtpmap:96 opus/48000/2\r\n", &ip), 144_000, "two channels");
}

#[test]
fn of_several_formats_the_one_that_takes_most_counts_and_events_do_not() {
    let table = CodecTable::default();
    assert_eq!(bps("18 0 101", "a=rtpmap:101 telephone-event/8000\r\n", &table), 80_000);
    assert_eq!(bps("18 101 13", "a=rtpmap:101 telephone-event/8000\r\n", &table), 24_000);
    let own = Codec { name: "x-tiny".into(), clock: 8_000, frame_us: 20_000, frame_bytes: 10, ptime_ms: 20 };
    let mut with_own = table.clone();
    with_own.codecs.insert(0, own);
    assert_eq!(bps("97", "a=rtpmap:97 X-TINY/8000\r\n", &with_own), 20_000);
    assert_eq!(bps("97", "a=rtpmap:97 X-TINY/8000\r\n", &table), table.audio_bps, "unknown: the default");
}

#[test]
fn what_is_told_counts_where_the_codec_is_unknown() {
    let table = CodecTable::default();
    let ethernet = CodecTable { link_bytes: 18, ..table.clone() };
    assert_eq!(bps("97", "b=AS:64\r\n", &table), 64_000, "with IP and UDP");
    assert_eq!(bps("97", "b=AS:64\r\n", &ethernet), 64_000 + 50 * 18 * 8);
    assert_eq!(bps("97", "b=AS:64\r\nb=TIAS:32000\r\na=maxprate:25.5\r\n", &table), 32_000 + 255 * 4 * 8);
    assert_eq!(bps("97", "b=TIAS:32000\r\n", &table), 32_000 + 50 * 40 * 8);
    let both = read(
        "v=0\r\nc=IN IP4 192.0.2.1\r\nb=AS:1000\r\nm=audio 1 RTP/AVP 97\r\nm=video 2 RTP/AVP 98\r\nm=video 0 RTP/AVP 98\r\n",
    );
    assert_eq!(
        both.streams.iter().map(|s| s.as_bps).collect::<Vec<_>>(),
        [Some(500_000), Some(500_000), None]
    );
    assert_eq!(bps("0", "b=AS:10\r\n", &table), 80_000, "a known codec is known better");
}

#[test]
fn addresses_of_version_six_and_authentication_make_packets_longer() {
    let table = CodecTable::default();
    let offer = audio("2001:db8::1", 4000, "0", "");
    let answer = audio("2001:db8::2", 5000, "0", "");
    let flows = negotiate(&offer, &answer, &table);
    assert_eq!(flows.of_answerer[0].rate, Rate::from_bits_per_sec(88_000));
    assert_eq!(flows.of_answerer[0].to, "[2001:db8::1]:4000".parse().expect("an address"));
    assert_eq!(flows.of_answerer[0].from, "2001:db8::2".parse().ok());
    let secure = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 4000 UDP/TLS/RTP/SAVPF 0\r\na=ice-ufrag:x\r\na=candidate:1 1 UDP 1 203.0.113.1 9 typ host\r\n";
    let flows = negotiate(&read(secure), &read(secure), &table);
    assert_eq!(flows.of_offerer[0].rate, Rate::from_bits_per_sec(84_000));
    assert_eq!(flows.of_offerer[0].to.ip().to_string(), "192.0.2.1", "candidates are not looked at");
}

#[test]
fn who_sends_follows_from_both_descriptions() {
    let table = CodecTable::default();
    let directions = ["sendrecv", "sendonly", "recvonly", "inactive"];
    for ours in directions {
        for theirs in directions {
            let offer = audio("192.0.2.1", 4000, "0", &format!("a={ours}\r\n"));
            let answer = audio("192.0.2.2", 5000, "0", &format!("a={theirs}\r\n"));
            let flows = negotiate(&offer, &answer, &table);
            let sends = |d: &str| d.starts_with("send");
            let receives = |d: &str| d == "sendrecv" || d == "recvonly";
            let expected = (sends(ours) && receives(theirs), sends(theirs) && receives(ours));
            assert_eq!(
                (!flows.of_offerer.is_empty(), !flows.of_answerer.is_empty()),
                expected,
                "{ours} {theirs}"
            );
            assert_eq!(flows.streams, 1);
        }
    }
    let held = negotiate(&audio("0.0.0.0", 4000, "0", ""), &audio("192.0.2.2", 5000, "0", ""), &table);
    assert_eq!((held.of_offerer.len(), held.of_answerer.len()), (1, 0), "an address of zeros is hold");
    let named = read("v=0\r\nc=IN IP4 phone.example\r\nm=audio 4000 RTP/AVP 0\r\n");
    assert!(
        negotiate(&named, &audio("192.0.2.2", 5, "0", ""), &table).of_answerer.is_empty(),
        "no address, no flow"
    );
}

#[test]
fn several_streams_are_told_apart_and_rejected_ones_left_out() {
    let offer = "v=0\r\nc=IN IP4 192.0.2.1\r\na=sendonly\r\nm=audio 4000 RTP/AVP 0\r\na=sendrecv\r\nm=video 4002 RTP/AVP 31\r\nb=AS:384\r\n\
                 m=application 4004 UDP/BFCP *\r\nm=audio 4006 RTP/AVP 8\r\nc=IN IP4 192.0.2.9\r\n";
    let answer = "v=0\nc=IN IP4 192.0.2.2\nm=audio 5000 RTP/AVP 0\nm=video 0 RTP/AVP 31\nm=application 5004 UDP/BFCP *\nm=audio 5000 RTP/AVP 8\na=recvonly\n";
    let flows = negotiate(&read(offer), &read(answer), &CodecTable::default());
    assert_eq!(flows.streams, 3);
    let tos: Vec<_> = flows.of_offerer.iter().map(|f| (f.to.to_string(), f.rate.bits_per_sec())).collect();
    assert_eq!(
        tos,
        [
            ("192.0.2.2:5000".into(), 80_000),
            ("192.0.2.2:5004".into(), 64_000),
            ("192.0.2.2:5000".into(), 80_000)
        ],
        "the third stream comes from another address"
    );
    let bundle = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 4000 RTP/AVP 0\r\nm=audio 4000 RTP/AVP 8\r\n";
    let flows = negotiate(&read(bundle), &read(bundle), &CodecTable::default());
    assert_eq!(flows.of_offerer.iter().map(|f| f.rate.bits_per_sec()).collect::<Vec<_>>(), [160_000]);
}

#[test]
fn what_is_no_description_is_refused_by_its_line() {
    let fault = |text: &str| Description::read(text.as_bytes()).expect_err(text);
    assert_eq!(fault(""), SdpFault::Version);
    assert_eq!(fault("v=1\r\n"), SdpFault::Version);
    assert_eq!(fault("v=0\r\nm =video 3227 RTP/AVP 31\r\n"), SdpFault::Line(2));
    assert_eq!(fault("v=0\r\nm=audio x RTP/AVP 0\r\n"), SdpFault::Stream(2));
    assert_eq!(fault("v=0\r\ns=-\r\nm=audio 70000 RTP/AVP 0\r\n"), SdpFault::Stream(3));
    assert_eq!(fault("v=0\r\nc=IN IP4\r\n"), SdpFault::Connection(2));
    assert_eq!(fault("v=0\r\nb=AS:-1\r\n"), SdpFault::Number(2));
    assert_eq!(fault("v=0\r\nm=audio 1 RTP/AVP 0\r\na=ptime:x\r\n"), SdpFault::Number(3));
    assert_eq!(
        fault(&format!("v=0\r\n{}", "m=audio 1 RTP/AVP 0\r\n".repeat(MAX_STREAMS + 1))),
        SdpFault::TooMuch
    );
    assert_eq!(
        fault(&format!("v=0\r\nm=audio 1 RTP/AVP {}\r\n", "0 ".repeat(MAX_FORMATS + 1))),
        SdpFault::TooMuch
    );
    assert_eq!(fault(&format!("v=0\r\ns={}\r\n", "x".repeat(MAX_DESCRIPTION))), SdpFault::TooMuch);
}

#[derive(Clone, Debug)]
struct Made {
    text: String,
}

fn made() -> impl Strategy<Value = Made> {
    let direction = prop::sample::select(vec![
        "",
        "a=sendrecv\r\n",
        "a=sendonly\r\n",
        "a=recvonly\r\n",
        "a=inactive\r\n",
    ]);
    let connection = prop::sample::select(vec![
        "",
        "c=IN IP4 192.0.2.7\r\n",
        "c=IN IP6 2001:db8::7\r\n",
        "c=IN IP4 host.example\r\n",
        "c=IN IP4 224.2.1.1/127\r\n",
    ]);
    let band = prop::sample::select(vec![
        "",
        "b=AS:512\r\n",
        "b=TIAS:64000\r\n",
        "b=AS:9\r\nb=TIAS:7\r\n",
        "b=CT:1\r\n",
    ]);
    let protocol = prop::sample::select(vec![
        "RTP/AVP",
        "RTP/AVPF",
        "RTP/SAVP",
        "RTP/SAVPF",
        "UDP/TLS/RTP/SAVPF",
        "UDP/TLS/RTP/SAVP",
    ]);
    let kind = prop::sample::select(vec!["audio", "video", "text"]);
    let format =
        (0_u8..128, prop::option::of(("[A-Za-z0-9]{1,8}", 1_u32..96_001, prop::option::of(1_u8..9))));
    let stream = (
        kind,
        any::<u16>(),
        protocol,
        prop::collection::vec(format, 1..6),
        connection.clone(),
        direction.clone(),
        band.clone(),
    );
    (connection, direction, prop::collection::vec(stream, 0..5)).prop_map(
        |(connection, direction, streams)| {
            let mut text =
                format!("v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=-\r\n{connection}t=0 0\r\n{direction}");
            for (kind, port, protocol, formats, connection, direction, band) in streams {
                let numbers: Vec<_> = formats.iter().map(|(n, _)| n.to_string()).collect();
                text += &format!(
                    "m={kind} {port} {protocol} {}\r\n{connection}{band}{direction}",
                    numbers.join(" ")
                );
                for (number, map) in formats {
                    if let Some((name, clock, channels)) = map {
                        let channels = channels.map(|c| format!("/{c}")).unwrap_or_default();
                        text += &format!("a=rtpmap:{number} {name}/{clock}{channels}\r\n");
                    }
                }
            }
            Made { text }
        },
    )
}

proptest! {
    #[test]
    fn another_reader_reads_the_same(made in made()) {
        let ours = read(&made.text);
        let theirs = ezk::SessionDescription::parse(&made.text.clone().into()).expect("it reads it too");
        prop_assert_eq!(ours.streams.len(), theirs.media_descriptions.len());
        for (stream, other) in ours.streams.iter().zip(&theirs.media_descriptions) {
            let kind = match other.media.media_type {
                ezk::MediaType::Audio => Kind::Audio,
                ezk::MediaType::Video => Kind::Video,
                _ => Kind::Other,
            };
            prop_assert_eq!((stream.kind, stream.port), (kind, other.media.port));
            let direction = match other.direction {
                ezk::Direction::SendRecv => Direction::Both,
                ezk::Direction::SendOnly => Direction::SendOnly,
                ezk::Direction::RecvOnly => Direction::ReceiveOnly,
                ezk::Direction::Inactive => Direction::Inactive,
            };
            prop_assert_eq!(stream.direction, direction);
            let address = match other.connection.as_ref().or(theirs.connection.as_ref()).map(|c| &c.address) {
                Some(ezk::TaggedAddress::IP4(a)) => Some(IpAddr::V4(*a)),
                Some(ezk::TaggedAddress::IP6(a)) => Some(IpAddr::V6(*a)),
                _ => None,
            };
            prop_assert_eq!(stream.address, address);
            let secure = !matches!(other.media.proto, ezk::TransportProtocol::RtpAvp | ezk::TransportProtocol::RtpAvpf);
            prop_assert_eq!((stream.secure, stream.rtp), (secure, true));
            let band = |kind: &str| other.bandwidth.iter().rfind(|b| &*b.type_ == kind).map(|b| u64::from(b.bandwidth));
            prop_assert_eq!((stream.as_bps, stream.tias_bps), (band("AS").map(|k| k * 1_000), band("TIAS")));
            let numbers: Vec<_> = stream.formats.iter().map(|f| f.payload_type).collect();
            prop_assert_eq!(&numbers, &other.media.fmts);
            for map in &other.rtpmap {
                let last = other.rtpmap.iter().rfind(|m| m.payload == map.payload).expect("there");
                let format = stream.formats.iter().find(|f| f.payload_type == map.payload).expect("listed");
                prop_assert_eq!((&*format.name, format.clock), (&*last.encoding, last.clock_rate));
            }
        }
    }

    #[test]
    fn octets_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(description) = Description::read(&[b"v=0\r\n", &bytes[..]].concat()) {
            negotiate(&description, &description, &CodecTable::default());
        }
    }

    #[test]
    fn damaged_text_never_panics(made in made(), at: prop::sample::Index, octet: u8) {
        let mut bytes = made.text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = octet;
        if let Ok(description) = Description::read(&bytes) {
            negotiate(&description, &description, &CodecTable::default());
        }
    }
}
