//! # Synopsis
//! `CheckFrame([local])` dissects frames that did not come through [`super::FromPort`], or were changed since.
//!
//! # Ports
//! Input 0: frames. Output 0: well-formed frames. Output 1 (only with `local = yes`): well-formed frames that the
//! bridge or router must give to this machine: everything that is not IP (ARP among it).
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `local` | yes, no | | no | |
//!
//! # Behaviour
//! Sets layout and `parsed`. A malformed frame is dropped for the reason that makes it so. Order is kept per output.
//!
//! # Counters
//! None of its own.
//!
//! # Invariants
//! Every packet behind it has a valid layout.
//!
//! # Example
//! `TimedSource(1 Mbit/s, 200 B) -> CheckFrame() -> Discard()`
//!
//! # Source
//! The checks are those of [`perhop_wire::dissect`].

use super::adapter::as_any;
use perhop_element::{Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, DropReason, prefetch};

/// Packets further on whose frame is asked for while earlier ones are dissected.
const FRAMES_AHEAD: usize = 4;

/// The element.
#[derive(Debug)]
pub struct CheckFrame {
    local: bool,
}

impl CheckFrame {
    /// `local` separates frames that are not IP.
    pub fn new(local: bool) -> Self {
        Self { local }
    }
}

impl Element for CheckFrame {
    fn type_name(&self) -> &'static str {
        "CheckFrame"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        dissect_batch(cx, batch, self.local.then_some(1), false);
    }

    as_any!();
}

/// Dissects every frame: well-formed ones go to output 0, those that are not IP to `not_ip` if given. `bridged`: what is malformed behind
/// its Ethernet header goes on as a frame of unknown content.
pub(super) fn dissect_batch(cx: &mut Cx<'_>, batch: &mut Batch, not_ip: Option<PortIndex>, bridged: bool) {
    let mut plain = true;
    let packets = batch.as_mut_slice();
    for n in 0..packets.len() {
        if let Some(later) = packets.get(n + FRAMES_AHEAD) {
            prefetch(later.frame());
        }
        let (meta, frame) = packets[n].parts_mut();
        let dissected = match perhop_wire::dissect(frame) {
            Err(_) if bridged => perhop_wire::dissect_link(frame),
            dissected => dissected,
        };
        match dissected {
            Ok(layout) => {
                plain &= layout.ip_version != 0 || not_ip.is_none();
                meta.layout = layout;
                meta.parsed = true;
            }
            Err(_) => {
                meta.parsed = false;
                plain = false;
            }
        }
    }
    // The usual batch has nothing to sort out and moves whole.
    if plain {
        return cx.emit_all(0, batch);
    }
    for packet in batch.drain() {
        if packet.meta().parsed {
            let ip = packet.meta().layout.ip_version != 0;
            let output = if ip { 0 } else { not_ip.unwrap_or(0) };
            cx.emit(output, packet);
        } else if let Err(why) = perhop_wire::dissect(packet.frame()) {
            cx.drop(packet, DropReason::Malformed(why));
        } else {
            // Dissection is a function of the frame, so it cannot succeed the second time.
            cx.drop(packet, DropReason::Discarded);
        }
    }
}

pub(super) const TYPE: ElementType = ElementType {
    name: "CheckFrame",
    synopsis: "dissects frames, drops malformed ones",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Between(1, 2),
    build: |args, _| {
        let mut r = Reader::new(args);
        let local = r.flag("local", false);
        r.finish(Box::new(CheckFrame::new(local)) as _)
    },
    sample: |rng| if rng.next_u32() & 1 == 0 { String::new() } else { "local = yes".to_owned() },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;

    #[test]
    fn what_is_not_ip_leaves_by_the_second_output() {
        let mut bench = Bench::new(CheckFrame::new(true), 2);
        let mut other = udp(60);
        other[12..14].copy_from_slice(&[0x88, 0xcc]);
        for frame in [&udp(60)[..], &other, &[0; 5]] {
            bench.push(frame);
        }
        assert_eq!((bench.arrived(0).len(), bench.arrived(1).len()), (1, 1));
        assert_eq!(bench.driver.counters(bench.node).unwrap().dropped, 1);
    }
}
