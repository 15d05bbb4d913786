use super::*;
use std::net::Ipv4Addr;

/// `struct bpf_attr` of `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    verdict: u32,
    length_in: u32,
    length_out: u32,
    frame_in: u64,
    frame_out: u64,
    repeat: u32,
    took: u32,
    context: [u64; 3],
    flags: u64,
    batch: u64,
}

/// The program as the kernel has taken it, without a socket: what is not left to the kernel goes there uncounted.
struct Loaded {
    program: OwnedFd,
    passed: Map<u32, u64>,
    _sockets: Map<u32, u32>,
}

impl Loaded {
    fn new(host: &HostTraffic) -> Self {
        let sockets = Map::new(MapKind::Sockets, c"test_sockets", 1).unwrap();
        let passed = Map::new(MapKind::Array, c"test_passed", 1).unwrap();
        let (v4, v6) = (host.v4.number(), host.v6.number());
        let maps = Maps { sockets: sockets.number(), passed: passed.number(), v4, v6 };
        let program = program(host.sharing, &maps);
        let program = bpf::load(ProgramKind::Xdp, c"perhop_port", &program).expect("the verifier takes it");
        Self { program, passed, _sockets: sockets }
    }

    /// Whether the kernel keeps the frame, by its own account.
    fn keeps(&self, frame: &[u8]) -> bool {
        let before = self.passed.value(&0).unwrap();
        let mut request = TestRun {
            program: self.program.as_raw_fd() as u32,
            length_in: frame.len() as u32,
            frame_in: frame.as_ptr() as u64,
            ..TestRun::default()
        };
        let (at, len) = (std::ptr::from_mut(&mut request), size_of::<TestRun>());
        // SAFETY: pointer and length describe `request`, which the kernel reads and writes; it reads as much of `frame`
        // as the request says.
        let rc = unsafe { libc::syscall(libc::SYS_bpf, 10, at, len) };
        assert_eq!(rc, 0, "{}", io::Error::last_os_error());
        assert_eq!(request.verdict, PASS as u32, "without a socket the kernel gets it in the end");
        match self.passed.value(&0).unwrap() - before {
            0 => false,
            1 => true,
            n => panic!("{n} of one frame"),
        }
    }
}

/// `None`, with a sentence, where programs may not be loaded.
fn host(name: &str, sharing: Sharing) -> Option<HostTraffic> {
    match HostTraffic::new(sharing) {
        Err(why @ XdpError::NotPermitted { .. }) => {
            eprintln!("SKIPPED {name}: {why}");
            let required = std::env::var("PERHOP_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|i| i == "netns"), "{name} is required but cannot run: {why}");
            None
        }
        host => Some(host.unwrap()),
    }
}

/// To a station, unless the first byte of its address is odd.
fn frame(station: u8, ether_type: u16, payload: &[(usize, &[u8])]) -> Vec<u8> {
    let mut frame = vec![0; 74];
    frame[0] = station;
    frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
    for (at, bytes) in payload {
        frame[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    frame
}

fn to(station: u8, ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => frame(station, 0x0800, &[(30, &ip.octets())]),
        IpAddr::V6(ip) => frame(station, 0x86dd, &[(38, &ip.octets())]),
    }
}

/// An ARP request for an address.
fn request(ip: [u8; 4]) -> Vec<u8> {
    frame(0xff, 0x0806, &[(14, &[0, 1, 8, 0, 6, 4, 0, 1]), (38, &ip)])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const LOCAL: [(&str, u8); 5] =
    [("10.0.0.1", 32), ("127.0.0.0", 8), ("10.0.0.255", 32), ("2001:db8::1", 128), ("2001:db8:7::", 48)];
/// Addresses at and beside the edges of those.
const HOSTS: [(&str, bool); 12] = [
    ("10.0.0.1", true),
    ("10.0.0.2", false),
    ("10.0.0.0", false),
    ("126.255.255.255", false),
    ("127.0.0.0", true),
    ("127.255.255.255", true),
    ("128.0.0.0", false),
    ("10.0.0.255", true),
    ("2001:db8::1", true),
    ("2001:db8::2", false),
    ("2001:db8:7:ffff:ffff:ffff:ffff:ffff", true),
    ("2001:db8:8::", false),
];

fn local() -> Vec<Prefix> {
    LOCAL.map(|(address, bits)| (ip(address), bits)).to_vec()
}

#[test]
fn a_routing_port_leaves_the_kernel_what_is_its_own() {
    let name = "a_routing_port_leaves_the_kernel_what_is_its_own";
    let Some(host) = host(name, Sharing::Route) else { return };
    host.set(&local(), &[]).unwrap();
    let program = Loaded::new(&host);
    for (address, mine) in HOSTS {
        assert_eq!(program.keeps(&to(2, ip(address))), mine, "{address}");
        assert!(program.keeps(&to(1, ip(address))), "{address} by a frame to a group");
    }
    for always in ["0.0.0.1", "224.0.0.5", "255.255.255.255", "fe80::1", "ff02::5", "::1"] {
        assert!(program.keeps(&to(2, ip(always))), "{always}");
    }
    assert!(program.keeps(&request([10, 0, 0, 9])));
    assert!(program.keeps(&frame(2, 0x8100, &[(16, &[0x08, 0])])), "tagged");
    let whole = (to(2, ip("10.0.0.2")), to(2, ip("2001:db8::2")));
    assert!(program.keeps(&whole.0[..33]) && !program.keeps(&whole.0[..34]));
    assert!(program.keeps(&whole.1[..53]) && !program.keeps(&whole.1[..54]));
    assert!(program.keeps(&whole.0[..14]), "an empty frame");
}

#[test]
fn a_bridging_port_takes_all_but_what_is_told() {
    let name = "a_bridging_port_takes_all_but_what_is_told";
    let Some(host) = host(name, Sharing::Bridge) else { return };
    let program = Loaded::new(&host);
    for (address, _) in HOSTS {
        assert!(!program.keeps(&to(2, ip(address))), "{address} before anything was told");
    }
    host.set(&local(), &[]).unwrap();
    for (address, mine) in HOSTS {
        assert_eq!(program.keeps(&to(2, ip(address))), mine, "{address}");
    }
    for other in ["224.0.0.5", "255.255.255.255", "fe80::1", "ff02::5"] {
        assert!(!program.keeps(&to(3, ip(other))), "{other}");
    }
    assert!(program.keeps(&request([10, 0, 0, 1])) && !program.keeps(&request([10, 0, 0, 2])));
    assert!(program.keeps(&to(3, ip("ff02::1:ff00:1"))), "whoever asks for 2001:db8::1");
    assert!(!program.keeps(&to(3, ip("ff02::1:ff00:2"))));
    assert!(!program.keeps(&frame(2, 0x8100, &[(16, &[0x08, 0]), (30, &[10, 0, 0, 1])])), "tagged");
    for cut in [14, 33, 41, 53] {
        assert!(!program.keeps(&to(2, ip("10.0.0.1"))[..cut.min(33)]));
        assert!(!program.keeps(&request([10, 0, 0, 1])[..cut.min(41)]));
        assert!(!program.keeps(&to(2, ip("2001:db8::1"))[..cut]));
    }
}

#[test]
fn addresses_come_and_go_while_the_program_runs() {
    let name = "addresses_come_and_go_while_the_program_runs";
    let Some(host) = host(name, Sharing::Route) else { return };
    let program = Loaded::new(&host);
    let sets: [&[(&str, u8)]; 4] = [&[("10.0.0.1", 32)], &LOCAL, &[("10.0.0.0", 8), ("2001:db8::", 32)], &[]];
    for set in sets {
        let set: Vec<Prefix> = set.iter().map(|(address, bits)| (ip(address), *bits)).collect();
        host.set(&set, &[]).unwrap();
        for (address, _) in HOSTS {
            let address = ip(address);
            let mine = set.iter().any(|p| contains(p, address));
            assert_eq!(program.keeps(&to(2, address)), mine, "{address} of {set:?}");
        }
    }
}

#[test]
fn the_port_takes_what_is_its_inside_of_what_is_the_kernels() {
    let name = "the_port_takes_what_is_its_inside_of_what_is_the_kernels";
    let Some(host) = host(name, Sharing::Route) else { return };
    let program = Loaded::new(&host);
    let keeps = |address: &str| program.keeps(&to(2, ip(address)));
    let prefix = |(address, bits): &(&str, u8)| (ip(address), *bits);
    let pass: Vec<Prefix> =
        [("0.0.0.0", 0), ("10.1.2.0", 24), ("10.1.0.1", 32), ("2001:db8::", 32)].iter().map(prefix).collect();
    let take: Vec<Prefix> = [("10.0.0.0", 8), ("10.1.2.128", 25), ("10.1.0.1", 32), ("2001:db8:1::", 48)]
        .iter()
        .map(prefix)
        .collect();
    host.set(&pass, &take).unwrap();
    for (address, kernels) in [
        ("20.0.0.1", true),
        ("10.3.0.1", false),
        ("10.1.0.1", true),
        ("10.1.2.1", true),
        ("10.1.2.129", false),
        ("2001:db8::1", true),
        ("2001:db8:1::1", false),
        ("2001:db9::1", false),
    ] {
        assert_eq!(keeps(address), kernels, "{address}");
    }
    host.set(&take, &pass).unwrap();
    assert!(keeps("10.3.0.1") && !keeps("20.0.0.1") && keeps("10.1.2.129") && !keeps("10.1.2.1"));
}

/// Bit by bit.
fn contains((network, bits): &Prefix, address: IpAddr) -> bool {
    let bytes = |a: IpAddr| match a {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let (a, b) = (bytes(*network), bytes(address));
    let bit = |of: &[u8], i: usize| of[i / 8] >> (7 - i % 8) & 1;
    a.len() == b.len() && (0..usize::from(*bits)).all(|i| bit(&a, i) == bit(&b, i))
}

#[test]
fn too_many_addresses_are_refused_with_a_reason() {
    let name = "too_many_addresses_are_refused_with_a_reason";
    let Some(host) = host(name, Sharing::Bridge) else { return };
    let many: Vec<Prefix> =
        (0..=MAX_HOST_PREFIXES).map(|i| (Ipv4Addr::from_bits(i << 8).into(), 24)).collect();
    let error = host.set(&many, &[]).unwrap_err();
    assert!(matches!(&error, XdpError::Os { .. }), "{error}");
    host.set(&many[1..], &[]).unwrap();
}
