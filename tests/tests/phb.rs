//! Expedited and assured forwarding as the example files have them, under virtual time.

use crate::support::{LAN, WAN, exact, mac, router_of};
use perhop_graph::router::VirtualRouter;
use perhop_units::{Dscp, Duration, Instant};
use perhop_wire::{build, dissect};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

const EF_FILE: &str = include_str!("../../examples/ef.toml");
const AF_FILE: &str = include_str!("../../examples/af.toml");
const LINK: u64 = 10_000_000;

fn below(random: &mut Pcg64Mcg, n: u64) -> u64 {
    random.next_u64() % n
}

/// A numbered packet with a code point.
fn frame(src: [u8; 4], port: u16, dscp: Dscp, ip_len: u16, number: u32) -> Vec<u8> {
    let frame = build::udp4(src, [10, 1, 0, 2]).macs(mac(0x12), mac(1)).ports(port, 9).dscp(dscp);
    frame.payload(&number.to_be_bytes()).ip_len(ip_len).build()
}

fn number(frame: &[u8]) -> u32 {
    frame[42..46].try_into().map_or(0, u32::from_be_bytes)
}

fn dscp(frame: &[u8]) -> u8 {
    dissect(frame).map_or(0, |l| l.tos >> 2)
}

/// A packet that came: when (ns), and its bits on the link.
#[derive(Clone, Copy, Debug)]
struct Came {
    at: u64,
    bits: u64,
}

/// RFC 3246 §2.2: the least E_a and E_p, ns, for which a node that is configured with rate `rate` keeps equations 1 and 3.
/// `came`: EF packets in order of arrival; `left`: which of them left in this order, and when their last bit did.
fn error_terms(came: &[Came], left: &[(usize, u64)], rate: u64) -> [i64; 2] {
    let time = |bits: u64| (bits * 1_000_000_000).div_ceil(rate);
    let least = |packets: &mut dyn Iterator<Item = (u64, u64, u64)>| {
        // (arrival, departure, bits) of packet j, in the order of the equation.
        let (mut before, mut error): (Option<(u64, u64)>, i64) = (None, 0);
        for (arrival, departure, bits) in packets {
            let begin = before.map_or(arrival, |(d, f)| arrival.max(d.min(f)));
            let target = begin + time(bits);
            error = error.max(departure as i64 - target as i64);
            before = Some((departure, target));
        }
        error
    };
    let mut arrivals: Vec<u64> = left.iter().map(|(n, _)| came[*n].at).collect();
    arrivals.sort_unstable();
    // The j-th to arrive and the j-th to depart need not be the same packet.
    let e_a =
        least(&mut left.iter().zip(&arrivals).map(|((n, departure), at)| (*at, *departure, came[*n].bits)));
    let mut individual = left.to_vec();
    individual.sort_unstable();
    let e_p = least(&mut individual.iter().map(|(n, departure)| (came[*n].at, *departure, came[*n].bits)));
    [e_a, e_p]
}

#[test]
fn the_error_terms_of_a_server_that_is_late_by_a_known_time_are_that_time() {
    // Three packets of 1,000 bits at 1 Mbit/s: the targets are 1, 2 and 3 ms when all come at once.
    let came = [Came { at: 0, bits: 1000 }; 3];
    assert_eq!(error_terms(&came, &[(0, 1_000_000), (1, 2_000_000), (2, 3_000_000)], 1_000_000), [0, 0]);
    assert_eq!(
        error_terms(&came, &[(0, 1_500_000), (1, 2_500_000), (2, 3_700_000)], 1_000_000),
        [700_000; 2]
    );
    // One that leaves early lends nothing to the next: it is due a packet's time after that.
    assert_eq!(error_terms(&came[..2], &[(0, 200_000), (1, 1_300_000)], 1_000_000), [100_000; 2]);
    // Overtaking counts for the packet, not for the aggregate.
    let swapped = [(1, 1_000_000), (0, 2_000_000), (2, 3_000_000)];
    assert_eq!(error_terms(&came, &swapped, 1_000_000), [0, 1_000_000]);
}

/// Bytes on the link of the example: frame, preamble, FCS and gap.
const OVERHEAD: u64 = 24;

struct Ef {
    terms: [i64; 2],
    packets: usize,
}

/// EF from several sources in bursts, among a flood twice as wide as the link, for two seconds. `kbit`: what all EF sources
/// send together at IP length.
fn ef(text: &str, seed: u64, kbit: u64, sizes: std::ops::Range<u64>) -> Ef {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut router = router_of(text);
    let (mut came, mut next_ef, mut next_flood) = (Vec::new(), 0u64, 0u64);
    let start = router.now().0;
    while next_ef.min(next_flood) < 2_000_000_000 {
        let at = next_ef.min(next_flood);
        router.run_until(Instant(start + at));
        if next_flood <= next_ef {
            let flood = frame([10, 0, 0, 2], 7000 + below(&mut random, 9) as u16, Dscp::BE, 1500, u32::MAX);
            assert!(router.receive(LAN, &flood), "a buffer is free");
            next_flood = at + 500_000 + below(&mut random, 200_000);
            continue;
        }
        let mut bytes = 0;
        for _ in 0..=below(&mut random, 4) {
            let ip_len = sizes.start + below(&mut random, sizes.end - sizes.start);
            let source = [10, 0, 0, 20 + below(&mut random, 5) as u8];
            let packet = frame(source, 5000, Dscp::EF, ip_len as u16, came.len() as u32);
            came.push(Came { at: start + at, bits: (packet.len() as u64 + OVERHEAD) * 8 });
            assert!(router.receive(LAN, &packet), "a buffer is free");
            bytes += ip_len;
        }
        let mean = bytes * 8 * 1_000_000 / kbit;
        next_ef = at + mean / 2 + below(&mut random, mean);
    }
    router.run_for(Duration::from_secs(1));
    let sent = router.sent.iter().filter(|s| s.port == WAN && dscp(s.frame()) == Dscp::EF.get());
    let on_line = |bits: u64| bits * 1_000_000_000 / LINK;
    let left: Vec<(usize, u64)> = sent
        .map(|s| {
            let n = number(s.frame()) as usize;
            (n, s.at.0 + on_line(came[n].bits))
        })
        .collect();
    Ef { terms: error_terms(&came, &left, 2_000_000), packets: left.len() }
}

/// Lateness of a frame of others that is already on the line: 1,514 bytes and the overhead, and a nanosecond of rounding.
const LARGEST: i64 = (1514 + OVERHEAD as i64) * 8 * 100 + 1;
/// The same less what the smallest EF packet has to spare, because the line is faster than its rate.
const BOUND: i64 = LARGEST - (120 + 14 + OVERHEAD as i64) * 8 * (500 - 100);

#[test]
fn ef_leaves_as_if_it_had_its_rate_for_itself_late_by_one_frame_at_most() {
    let mut worst = [0i64; 2];
    for seed in 0..12 {
        // Below its contract, at it, and far above it (the profile drops then).
        let kbit = [400, 1000, 1500, 4000][seed as usize % 4];
        let Ef { terms, packets } = ef(&exact(EF_FILE), seed, kbit, 120..400);
        assert!(packets > 200, "seed {seed}: {packets}");
        let [e_a, e_p] = terms;
        assert!(e_a <= BOUND && e_p <= BOUND, "seed {seed}: E_a {e_a} ns, E_p {e_p} ns of {BOUND}");
        worst = [worst[0].max(e_a), worst[1].max(e_p)];
    }
    println!("E_a {} ns, E_p {} ns of {BOUND} ns; the largest frame takes {LARGEST} ns", worst[0], worst[1]);
    // The bound is met nearly: somebody waits for most of a frame.
    assert!(worst.iter().all(|e| *e > BOUND / 5 * 4), "{worst:?}");
}

#[test]
fn without_its_guarantee_the_error_terms_of_ef_are_those_of_the_queue_it_waits_in() {
    let text = exact(EF_FILE)
        .replace("guarantee = \"2 Mbit/s\"        # R\n", "")
        .replace("tier = 0 ", "tier = 15 ");
    let Ef { terms, .. } = ef(&text, 1, 1500, 120..400);
    assert!(terms.iter().all(|e| *e > 2 * LARGEST), "{terms:?}");
}

/// Time after which averages are what they stay, ns: they remember some 500 packets.
const SETTLED: u64 = 3_000_000_000;

/// What became of packets of one class by precedence: offered and lost.
type Fates = [[u64; 2]; 3];

/// Class, precedence and number of what left with an AF code point.
fn af_packet(sent: perhop_graph::router::Sent) -> Option<(usize, usize, u32)> {
    let code = usize::from(dscp(sent.frame()));
    let (class, precedence) = (code >> 3, code >> 1 & 3);
    (sent.port == WAN && (1..=4).contains(&class)).then(|| (class, precedence, number(sent.frame())))
}

/// Sources of the classes 1 to 4, each in all precedences, and a flood of best effort, for `seconds`. `loads`: kbit/s of each
/// class by precedence.
fn af(seed: u64, loads: [[u64; 3]; 4], seconds: u64) -> [Fates; 4] {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut router = router_of(AF_FILE);
    let start = router.now().0;
    let mut next: BTreeMap<(u64, usize, usize), u64> = BTreeMap::new();
    let mut sources = Vec::new();
    for (class, rates) in loads.iter().enumerate() {
        for (precedence, kbit) in rates.iter().enumerate().filter(|(_, kbit)| **kbit > 0) {
            sources.push((class, precedence, *kbit));
            next.insert((below(&mut random, 10_000_000), class, precedence), *kbit);
        }
    }
    next.insert((0, 4, 0), 8_000);
    let mut fates = [[[0; 2]; 3]; 4];
    let (mut numbers, mut counted) = (0, None);
    let mut gone = Vec::new();
    while let Some(((at, class, precedence), kbit)) = next.pop_first() {
        if at > seconds * 1_000_000_000 {
            break;
        }
        router.run_until(Instant(start + at));
        gone.extend(std::mem::take(&mut router.sent).into_iter().filter_map(af_packet));
        let ip_len = 200 + below(&mut random, 1200);
        let code = if class == 4 { 0 } else { (class as u8 + 1) << 3 | (precedence as u8 + 1) << 1 };
        let dscp = Dscp::try_from(code).expect("a code point");
        // One micro-flow a class: precedences differ inside it.
        let packet = frame([10, 0, 0, 2], 6000 + class as u16, dscp, ip_len as u16, numbers);
        assert!(router.receive(LAN, &packet), "a buffer is free");
        if at >= SETTLED && class < 4 {
            fates[class][precedence][0] += 1;
            counted.get_or_insert(numbers);
        }
        numbers += 1;
        let mean = ip_len * 8 * 1_000_000 / kbit;
        next.insert((at + mean / 2 + below(&mut random, mean), class, precedence), kbit);
    }
    router.run_for(Duration::from_secs(1));
    gone.extend(std::mem::take(&mut router.sent).into_iter().filter_map(af_packet));
    let mut last = [None; 4];
    for (class, precedence, n) in gone {
        assert!(
            last[class - 1].is_none_or(|l| l < n),
            "seed {seed}: a micro-flow of class {class} is reordered"
        );
        last[class - 1] = Some(n);
        fates[class - 1][precedence - 1][1] += u64::from(counted.is_some_and(|first| n >= first));
    }
    fates.map(|f| f.map(|[offered, sent]| [offered, offered - sent]))
}

#[test]
fn each_af_class_drops_by_precedence_and_none_harms_another() {
    // By class: too much red; too much yellow as well; nothing too much; everything in one precedence too much.
    let loads = [[300, 300, 2_000], [1_200, 1_500, 1_500], [500, 500, 500], [0, 9_000, 0]];
    for seed in 0..3 {
        let fates = af(seed, loads, 12);
        let share = |f: [u64; 2]| f[1] as f64 / f[0].max(1) as f64;
        let losses = fates.map(|f| f.map(share));
        for (class, [green, yellow, red]) in losses.iter().enumerate().filter(|(class, _)| *class != 3) {
            assert!(green <= yellow && yellow <= red, "seed {seed}: class {}: {losses:?}", class + 1);
        }
        let [one, two, three, four] = losses;
        // What a class is guaranteed, 1 and 2 Mbit/s, covers its green packets, and in class 1 the yellow ones too.
        assert_eq!([one[0], two[0]], [0.0; 2], "seed {seed}: {losses:?}");
        assert!(one[1] < 0.1 && one[2] > 0.2 && two[2] > 0.5 && two[1] > 0.0, "seed {seed}: {losses:?}");
        // A class within its guarantee loses nothing, whoever else is over his.
        assert_eq!(three, [0.0; 3], "seed {seed}: {losses:?}");
        assert!(four[1] > 0.4, "seed {seed}: {losses:?}");
    }
}

#[test]
fn a_customers_packets_get_their_precedence_by_its_contract() {
    let mut router: VirtualRouter = router_of(AF_FILE);
    let start = router.now().0;
    // 3 Mbit/s of 1,000-byte packets for four seconds: 1 Mbit/s green, 1 yellow, 1 red, and the bursts.
    for n in 0..1_500u32 {
        router.run_until(Instant(start + u64::from(n) * 8_000_000 / 3));
        router.receive(LAN, &frame([192, 0, 2, 9], 80, Dscp::BE, 1000, n));
    }
    router.run_for(Duration::from_secs(1));
    let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
    for sent in router.sent.iter().filter(|s| s.port == WAN) {
        *counts.entry(dscp(sent.frame())).or_default() += 1;
    }
    let of = |code: Dscp| counts.get(&code.get()).copied().unwrap_or(0);
    let [green, yellow, red] = [Dscp::AF21, Dscp::AF22, Dscp::AF23].map(of);
    assert_eq!(green + yellow + red, 1_500, "the link is wide enough: {counts:?}");
    assert!(green.abs_diff(516) <= 2 && yellow.abs_diff(516) <= 17, "{counts:?}");
}
