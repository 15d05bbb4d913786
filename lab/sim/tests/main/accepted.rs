//! What the check of a scenario accepts, the simulator runs to its end: networks of three nodes, of few streams and 20 ms.

use perhop_scenario::{Scenario, Settings};
use perhop_sim::{Options, run};
use perhop_units::mix;

/// Values that keys of a table may have, some of them at the ends of their ranges or beyond.
type Keys = &'static [(&'static str, &'static [&'static str])];

const TCP: Keys = &[
    ("congestion", &["\"newreno\"", "\"cubic\""]),
    ("slow_start", &["\"standard\"", "\"hystart\""]),
    ("sack", &["false", "true"]),
    ("rack", &["false", "true"]),
    ("ecn", &["true"]),
    ("timestamps", &["false", "true"]),
    ("window_scaling", &["false"]),
    ("initial_window", &["1", "10", "11"]),
    ("mss", &["87", "88", "536", "1448", "1460"]),
    ("send_buffer", &["\"88 B\"", "\"1448 B\"", "\"64 KiB\"", "\"1 GiB\"", "\"2 GiB\""]),
    ("receive_buffer", &["\"88 B\"", "\"1448 B\"", "\"1459 B\"", "\"1460 B\"", "\"1 GiB\""]),
    ("min_rto", &["\"1 ms\"", "\"3 s\"", "\"60 s\""]),
    ("initial_rto", &["\"1 ms\"", "\"3 s\"", "\"60 s\""]),
    ("delayed_ack", &["\"off\"", "\"0 s\"", "\"500 ms\""]),
    ("share", &["\"1 bit/s\"", "\"1 Tbit/s\""]),
];

const LINK: Keys = &[
    ("rate", &["\"1 bit/s\"", "\"10 Mbit/s\"", "\"1 Tbit/s\""]),
    ("delay", &["\"1 ns\"", "\"5 ms\"", "\"1 h\""]),
    ("jitter", &["\"1 ns\"", "\"2 ms\"", "\"1 h\""]),
    ("jitter_shape", &["\"normal\"", "\"pareto\""]),
    ("loss", &["\"10 %\"", "\"100 %\""]),
    ("burst_loss", &["{ p = \"1 %\", r = \"20 %\" }"]),
    ("duplicate", &["\"5 %\"", "\"100 %\""]),
    ("reorder", &["\"5 %\"", "\"100 %\""]),
    ("overhead", &["\"4 B\"", "\"1500 B\""]),
    ("queue", &["\"1 packets\"", "\"1513 B\"", "\"1514 B\"", "\"30 ms\"", "\"1 GiB\""]),
    (
        "discipline",
        &[
            "\"Shaper(discipline = codel)\"",
            "\"Shaper(discipline = red, min = 20 packets, max = 60 packets)\"",
            "\"Shaper(discipline = red, min = 60 packets, max = 20 packets)\"",
            "\"Shaper(discipline = nobody)\"",
            "\"Emulator(udp : loss 10%, - : delay 1ms)\"",
            "\"Emulator(- : nothing 1ms)\"",
            "\"Nobody\"",
        ],
    ),
];

const TRAFFIC: Keys = &[
    ("both", &["true"]),
    ("count", &["2", "20", "24001"]),
    ("dscp", &["\"EF\"", "\"AF41\""]),
    ("start", &["\"1 ms\"", "\"19 ms\""]),
    ("stop", &["\"1 ns\"", "\"15 ms\""]),
];

/// Kinds with what they need, and what else they may have.
const KINDS: &[(&str, &str, Keys)] = &[
    ("voice", "", &[("codec", &["\"g729\"", "\"g723.1-5.3\""]), ("silence_suppression", &["true"])]),
    ("video", "", &[("rate", &["\"8 kbit/s\"", "\"10 Mbit/s\""])]),
    ("constant", "rate = \"1 bit/s\"\n", &[("size", &["\"44 B\"", "\"1500 B\""])]),
    ("poisson", "rate = \"1 Mbit/s\"\n", &[("size", &["\"44 B\"", "\"1500 B\""])]),
    (
        "on-off",
        "rate = \"1 Mbit/s\"\n",
        &[("on", &["\"1 ms\"", "\"24 h\""]), ("pareto_shape", &["1.05", "10"])],
    ),
    ("mmpp", "rate = \"1 Mbit/s\"\n", &[]),
    ("rtp", "rate = [\"0 bit/s\", \"1 Mbit/s\"]\n", &[("stay", &["\"0 s\"", "[\"0 s\", \"24 h\"]"])]),
    ("staircase", "steps = [{ for = \"1 ms\", rate = \"1 Mbit/s\" }]\n", &[("repeat", &["true"])]),
    (
        "bulk",
        "",
        &[("size", &["\"1 B\"", "\"1 TB\""]), ("access_delay", &["[\"5 ms\", \"100 ms\"]", "\"24 h\""])],
    ),
    ("files", "", &[("size", &["\"1 B\"", "\"3 MB\""])]),
    ("web", "", &[("think", &["[\"0 s\", \"12 s\"]"]), ("persistent_objects", &["1", "1000"])]),
];

/// A choice of `keys`, one in `rarity` of them.
fn some(random: &mut impl FnMut(usize) -> usize, keys: Keys, rarity: usize, text: &mut String) {
    for (key, values) in keys {
        if random(rarity) == 0 {
            *text += &format!("{key} = {}\n", values[random(values.len())]);
        }
    }
}

fn scenario(random: &mut impl FnMut(usize) -> usize) -> String {
    let mut text = "id = \"t\"\ntitle = \"t\"\nduration = \"20 ms\"\n\
                    [node.a]\nkind = \"host\"\n[node.m]\nkind = \"forwarder\"\n[node.b]\nkind = \"host\"\n"
        .to_owned();
    text += "[link.first]\nends = [\"a\", \"m\"]\n";
    some(random, LINK, 8, &mut text);
    text += "[link.first.reverse]\n";
    some(random, LINK, 20, &mut text);
    text += "[link.second]\nends = [\"m\", \"b\"]\n[tcp]\n";
    some(random, TCP, 6, &mut text);
    for n in 0..=random(2) {
        let (kind, needs, keys) = KINDS[random(KINDS.len())];
        text += &format!("[traffic.t{n}]\nkind = \"{kind}\"\nfrom = \"a\"\nto = \"b\"\n{needs}");
        some(random, TRAFFIC, 8, &mut text);
        some(random, keys, 3, &mut text);
        if ["bulk", "files", "web"].contains(&kind) {
            text += &format!("[traffic.t{n}.tcp]\n");
            some(random, TCP, 10, &mut text);
        }
    }
    text
}

#[test]
fn what_the_check_accepts_runs() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..200_u64 {
        let mut state = seed;
        let mut random = |n: usize| (mix::next(&mut state) >> 11) as usize % n.max(1);
        let text = scenario(&mut random);
        let (loaded, _) = Scenario::read("any.toml", &text, &Settings::new(), &|_| Err("none".to_owned()));
        let Some(loaded) = loaded else {
            refused += 1;
            continue;
        };
        accepted += 1;
        if let Err(why) = run(&loaded.product, &Options::default(), |_| true) {
            panic!("seed {seed}: {why}, of\n{text}");
        }
    }
    assert!(accepted > 60 && refused > 30, "{accepted} accepted, {refused} refused");
}
