//! A small language in the manner of packetdrill: what is done to an endpoint and what it must send, with times.
//!
//! ```text
//! TIME connect | listen | write N | read N | close | abort
//! TIME < FLAGS SEQ:END [ack N] [win N] [OPTION …] [ce]       a segment arrives
//! TIME > FLAGS SEQ:END [ack N] [win N] [OPTION …] [ect0]     a segment must leave
//! TIME = NAME VALUE                                          a variable has this value
//! TIME ! EVENT                                               the application is told
//! ```
//! TIME is in ms, or `+` for the same as the line before. FLAGS are letters of `SFRP.EW` (`.` is ACK, `W` is CWR; PSH is
//! not compared). Numbers count from each side's initial one, so the first byte of data is 1. Options: `mss N`, `ws N`,
//! `sackOK`, `ts VALUE ECHO`, `sack A:B …`. What is not written of a segment that must leave is not compared, except
//! SACK blocks. Everything that leaves must be in the script, at that time and in that order.

use perhop_tcp::{Config, Endpoint, Event, Segment, SegmentOut};
use perhop_units::Instant;
use perhop_wire::Ecn;
use perhop_wire::tcp::{Repr, flags};
use perhop_wire::tcp_options::SackBlocks;
use std::collections::VecDeque;

const OURS: u32 = 0xffff_fc00;
const PEERS: u32 = 0x8000_0000;

struct Run<'a> {
    config: Config,
    endpoint: Option<Endpoint>,
    now: Instant,
    left: VecDeque<(Instant, SegmentOut)>,
    events: Vec<Event>,
    line: &'a str,
}

/// Runs `script`; panics at the first line that does not hold.
pub fn play(config: Config, script: &str) {
    let endpoint = None;
    let mut run =
        Run { config, endpoint, now: Instant::ZERO, left: VecDeque::new(), events: Vec::new(), line: "" };
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        run.line = line;
        let mut words = line.split_whitespace();
        let time = words.next().unwrap();
        let at = if time == "+" { run.now } else { Instant((time.parse::<f64>().unwrap() * 1e6) as u64) };
        let verb = words.next().unwrap();
        run.pass_until(at, verb == ">");
        let rest: Vec<&str> = words.collect();
        match verb {
            ">" => run.must_leave(&rest),
            "=" => run.compare(rest[0], rest[1]),
            "!" => run.must_tell(rest[0]),
            _ => run.act(verb, &rest),
        }
    }
    run.line = "the end";
    assert!(run.left.is_empty(), "not in the script: {:?}", run.show());
}

impl Run<'_> {
    fn endpoint(&mut self) -> &mut Endpoint {
        self.endpoint.as_mut().unwrap_or_else(|| panic!("no endpoint yet at «{}»", self.line))
    }

    fn drain(&mut self) {
        let now = self.now;
        while let Some(segment) = self.endpoint().poll_output(now) {
            self.left.push_back((now, segment));
        }
        while let Some(event) = self.endpoint().poll_event() {
            self.events.push(event);
        }
    }

    /// Lets time pass; timers that expire at `at` itself count only when output is awaited or nothing else happens.
    fn pass_until(&mut self, at: Instant, output: bool) {
        if self.endpoint.is_some() {
            while let Some(due) = self.endpoint().next_wakeup().filter(|due| *due <= at) {
                assert!(due >= self.now || output, "a wake-up in the past at «{}»", self.line);
                self.now = self.now.max(due);
                self.drain();
            }
        }
        if !output {
            assert!(self.left.is_empty(), "before «{}», not in the script: {:?}", self.line, self.show());
        }
        self.now = self.now.max(at);
    }

    fn show(&self) -> Vec<String> {
        let show = |(at, segment): &(Instant, SegmentOut)| {
            let header = &segment.header;
            let seq = header.seq.wrapping_sub(OURS);
            format!(
                "{} ms flags {:02x} {seq}:{} ack {} win {} {:?}",
                at.as_nanos() as f64 / 1e6,
                header.flags,
                seq.wrapping_add(segment.payload_len),
                header.ack.wrapping_sub(PEERS),
                header.window,
                header.options
            )
        };
        self.left.iter().map(show).collect()
    }

    fn act(&mut self, verb: &str, rest: &[&str]) {
        let now = self.now;
        let number = || rest.first().map_or(u64::MAX, |word| word.parse().unwrap());
        match verb {
            "connect" => self.endpoint = Some(Endpoint::connect(self.config, 1000, 80, OURS, now).unwrap()),
            "listen" => self.endpoint = Some(Endpoint::listen(self.config, 1000, OURS, now).unwrap()),
            "write" => assert_eq!(self.endpoint().write(number()), number(), "«{}»", self.line),
            "read" => assert_eq!(self.endpoint().read(number()), number(), "«{}»", self.line),
            "close" => self.endpoint().close(),
            "abort" => self.endpoint().abort(),
            "<" => {
                let expected = self.segment(rest);
                let (mut header, payload_len) = (expected.header, expected.payload_len);
                (header.src_port, header.dst_port) = (80, 1000);
                header.seq = header.seq.wrapping_add(PEERS);
                if header.flags & flags::ACK != 0 {
                    header.ack = header.ack.wrapping_add(OURS);
                }
                let sack: Vec<(u32, u32)> = header.options.sack.as_slice().to_vec();
                let sack: Vec<(u32, u32)> =
                    sack.iter().map(|(a, b)| (a.wrapping_add(OURS), b.wrapping_add(OURS))).collect();
                header.options.sack = SackBlocks::new(&sack);
                self.endpoint().handle_segment(now, &Segment { header, payload_len, ecn: expected.ecn });
            }
            _ => panic!("unknown verb in «{}»", self.line),
        }
        self.drain();
    }

    /// Reads `FLAGS SEQ:END …`; numbers stay relative.
    fn segment(&self, words: &[&str]) -> Segment {
        let mut header = Repr { window: 65_535, ..Repr::default() };
        for letter in words[0].chars() {
            header.flags |= match letter {
                'S' => flags::SYN,
                'F' => flags::FIN,
                'R' => flags::RST,
                'P' => flags::PSH,
                '.' => flags::ACK,
                'E' => flags::ECE,
                'W' => flags::CWR,
                _ => panic!("unknown flag in «{}»", self.line),
            };
        }
        let span = |word: &str| {
            let (start, end) = word.split_once(':').unwrap_or_else(|| panic!("SEQ:END in «{}»", self.line));
            (start.parse::<u32>().unwrap(), end.parse::<u32>().unwrap())
        };
        let (seq, end) = span(words[1]);
        header.seq = seq;
        let mut ecn = Ecn::NotEct;
        let mut blocks = Vec::new();
        let mut rest = words[2..].iter().copied().peekable();
        while let Some(word) = rest.next() {
            let mut number = || rest.next().unwrap().parse::<u32>().unwrap();
            match word {
                "ack" => header.ack = number(),
                "win" => header.window = number() as u16,
                "mss" => header.options.mss = Some(number() as u16),
                "ws" => header.options.window_scale = Some(number() as u8),
                "sackOK" => header.options.sack_permitted = true,
                "ts" => header.options.timestamps = Some((number(), number())),
                "sack" => {
                    while let Some(word) = rest.next_if(|word| word.contains(':')) {
                        blocks.push(span(word));
                    }
                }
                "ce" => ecn = Ecn::Ce,
                "ect0" => ecn = Ecn::Ect0,
                _ => panic!("unknown word {word} in «{}»", self.line),
            }
        }
        header.options.sack = SackBlocks::new(&blocks);
        Segment { header, payload_len: end - seq, ecn }
    }

    fn must_leave(&mut self, words: &[&str]) {
        let expected = self.segment(words);
        let all = self.show();
        let Some((at, segment)) = self.left.pop_front() else {
            panic!("at «{}» nothing left: {:?}", self.line, self.endpoint);
        };
        let context = format!("at «{}», waiting: {all:#?}", self.line);
        assert_eq!(at, self.now, "time {context}");
        let (ours, theirs) = (&segment.header, &expected.header);
        assert_eq!(ours.flags & !flags::PSH, theirs.flags & !flags::PSH, "flags {context}");
        assert_eq!(ours.seq.wrapping_sub(OURS), theirs.seq, "number {context}");
        assert_eq!(segment.payload_len, expected.payload_len, "length {context}");
        let written = |word| words.contains(&word);
        if written("ack") {
            assert_eq!(ours.ack.wrapping_sub(PEERS), theirs.ack, "acknowledgment {context}");
        }
        if written("win") {
            assert_eq!(ours.window, theirs.window, "window {context}");
        }
        if written("mss") {
            assert_eq!(ours.options.mss, theirs.options.mss, "{context}");
            assert_eq!(ours.options.window_scale, theirs.options.window_scale, "{context}");
            assert_eq!(ours.options.sack_permitted, theirs.options.sack_permitted, "{context}");
        }
        if written("ts") {
            assert_eq!(ours.options.timestamps, theirs.options.timestamps, "{context}");
        }
        let relative = |(a, b): &(u32, u32)| (a.wrapping_sub(PEERS), b.wrapping_sub(PEERS));
        let sack: Vec<_> = ours.options.sack.as_slice().iter().map(relative).collect();
        assert_eq!(sack, theirs.options.sack.as_slice(), "SACK {context}");
        assert_eq!(segment.ecn == Ecn::Ect0, expected.ecn == Ecn::Ect0, "ECN {context}");
    }

    fn compare(&mut self, name: &str, value: &str) {
        let trace = self.endpoint().trace();
        let counters = *self.endpoint().counters();
        let ours = match name {
            "cwnd" => trace.cwnd.to_string(),
            "ssthresh" => trace.ssthresh.to_string(),
            "flight" => trace.flight.to_string(),
            "state" => format!("{:?}", trace.state),
            "phase" => format!("{:?}", trace.phase),
            "rto" => (trace.rto.as_nanos() / 1_000_000).to_string(),
            "readable" => self.endpoint().readable().to_string(),
            "retransmits" => counters.retransmits.to_string(),
            "wakeup" => format!("{:?}", self.endpoint().next_wakeup().map(|at| at.as_nanos() / 1_000_000)),
            _ => panic!("unknown variable in «{}»", self.line),
        };
        assert_eq!(ours, value, "at «{}»: {trace:?}", self.line);
    }

    fn must_tell(&mut self, event: &str) {
        let told = self.events.iter().position(|told| format!("{told:?}") == event);
        let told = told.unwrap_or_else(|| panic!("at «{}» not told: {:?}", self.line, self.events));
        self.events.remove(told);
    }
}
