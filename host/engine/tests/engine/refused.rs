//! Rules of the packet filter where frames leave an interface: they drop what they drop, and nothing else.

use super::*;
use std::io::Write;
use std::process::{Command, Stdio};

/// Has `nft` read rules; what a machine cannot do skips the test, loudly.
fn nft(namespace: &Namespace, name: &str, text: &str) -> bool {
    let mut command = Command::new("nft");
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).args(["-f", "-"]).stdin(Stdio::piped());
    let run = || {
        let mut child = command.spawn().ok()?;
        child.stdin.take()?.write_all(text.as_bytes()).ok()?;
        Some(child.wait().ok()?.success())
    };
    let done = namespace.run(run).unwrap().unwrap_or_default();
    if !done {
        eprintln!("SKIPPED {name}: there is no nft, or no hook where frames leave");
    }
    done
}

/// A port that sends, and one that hears it.
struct Line {
    namespace: Namespace,
    near: AfPacket,
    far: AfPacket,
    pool: Pool,
    batch: Batch,
}

/// Of frames that the rules of these tests drop, and of others.
const BAD: u8 = 0xb6;
const GOOD: u8 = 0xb5;

impl Line {
    fn new() -> Self {
        let namespace = Namespace::create().unwrap();
        let links = Netlink::open_in(&namespace).unwrap();
        links.create_veth("near", "far", None).unwrap();
        links.set_up("near").unwrap();
        links.set_up("far").unwrap();
        eventually("there is a carrier", || links.link("near").unwrap().running);
        let open = |device: &str| {
            let config =
                AfPacketConfig { outgoing: Outgoing::Ignored, ..AfPacketConfig::new(device, device) };
            namespace.run(|| AfPacket::open(config)).unwrap().unwrap()
        };
        let (near, far) = (open("near"), open("far"));
        Self { namespace, near, far, pool: Pool::new(2_048), batch: Batch::new() }
    }

    /// Sends frames of these kinds, numbered.
    fn send(&mut self, kinds: impl IntoIterator<Item = u8>) {
        for (number, kind) in (0_u32..).zip(kinds) {
            let frame = [[2; 12].as_slice(), &[0x88, kind], &number.to_be_bytes(), &[0; 60]].concat();
            self.batch.push(self.pool.packet(&frame).unwrap());
            if self.batch.is_full() {
                self.push();
            }
        }
        self.push();
    }

    fn push(&mut self) {
        let (near, batch) = (&mut self.near, &mut self.batch);
        eventually("the ring takes and empties", || {
            near.room();
            near.transmit(batch).unwrap();
            batch.is_empty() && !near.has_pending_output()
        });
    }

    /// Kinds and numbers that arrived.
    fn heard(&mut self) -> Vec<(u8, u32)> {
        let mut heard = Vec::new();
        // What was sent over a veth pair is there.
        while self.far.receive(perhop_units::Instant(u64::MAX), &self.pool, &mut self.batch).unwrap() > 0 {
            let of = |f: &[u8]| (f[13], u32::from_be_bytes(f[14..18].try_into().unwrap()));
            heard.extend(
                self.batch.iter().map(|p| of(p.frame())).filter(|(kind, _)| [GOOD, BAD].contains(kind)),
            );
            self.batch.release_all();
        }
        heard
    }

    fn count(&mut self, what: &str) -> u64 {
        let mut counters: Vec<(String, u64)> = Vec::new();
        self.near.counters(&mut counters);
        counters.iter().find(|(n, _)| n == what).unwrap().1
    }
}

const DROPS_SOME: &str = "table netdev t { chain e { type filter hook egress device \"near\" priority 0; ether type 0x88b6 drop;\n}\n}";
const DROPS_ALL: &str =
    "table netdev t { chain e { type filter hook egress device \"near\" priority 0; policy drop;\n}\n}";

#[test]
fn frames_that_a_rule_drops_where_they_leave_keep_no_others_back() {
    let name = "frames_that_a_rule_drops_where_they_leave_keep_no_others_back";
    if !may_run(name) {
        return;
    }
    let mut line = Line::new();
    if !nft(&line.namespace, name, DROPS_SOME) {
        return;
    }
    // One in three is dropped, then runs of them.
    let kinds: Vec<u8> = (0..3_000).map(|i| if i % 3 == 0 || i % 500 > 450 { BAD } else { GOOD }).collect();
    line.send(kinds.iter().copied());
    let expected: Vec<(u8, u32)> =
        kinds.iter().zip(0..).filter(|(kind, _)| **kind == GOOD).map(|(kind, i)| (*kind, i)).collect();
    assert_eq!(line.heard(), expected);
    let dropped = (kinds.len() - expected.len()) as u64;
    assert_eq!(line.count("tx_refused"), dropped);
    // Of what a rule drops only the first cost more than a look or two.
    let kicks = line.count("tx_kicks_no_buffers");
    assert!(kicks < dropped + 1_000, "{kicks} for {dropped}");
    line.send([GOOD; 10]);
    assert_eq!((line.heard().len(), line.count("tx_refused")), (10, dropped));
}

#[test]
fn a_rule_that_drops_everything_ends_without_a_trace() {
    let name = "a_rule_that_drops_everything_ends_without_a_trace";
    if !may_run(name) {
        return;
    }
    let mut line = Line::new();
    if !nft(&line.namespace, name, DROPS_ALL) {
        return;
    }
    line.send([GOOD; 200]);
    assert_eq!((line.heard(), line.count("tx_refused")), (vec![], 200));
    assert!(nft(&line.namespace, name, "flush ruleset"));
    line.send([GOOD; 200]);
    assert_eq!((line.heard().len(), line.count("tx_refused")), (200, 200));
}
