//! Captures: whatever the frames, the books of their classification balance.

use super::{Input, successor};
use perhop_flows::offline::{Classified, classify_capture};
use perhop_flows::realtime::Stages;
use perhop_flows::realtime::rtp::RtpSettings;
use perhop_units::{Duration, Instant};
use std::collections::BTreeSet;

/// Link types that are read, and one that is not.
const LINK_TYPES: [u32; 32] = [
    1, 101, 0, 108, 113, 276, 228, 147, 9, 51, 104, 105, 127, 192, 239, 258, 6, 10, 107, 130, 133, 135, 137,
    149, 164, 167, 168, 178, 179, 180, 181, 242,
];
/// Frames of one input.
const MAX_FRAMES: usize = 256;

type Frame = (Instant, u32, Vec<u8>);

/// An input as a capture: for each frame its link type, the milliseconds since the one before, its length and bytes. A
/// length from 0x8000 stands for the packet that a telephone would send after the frame before.
fn frames(data: &[u8]) -> Vec<Frame> {
    let mut input = Input::new(data);
    let mut frames: Vec<Frame> = Vec::new();
    let mut at = Instant(0);
    while !input.is_empty() && frames.len() < MAX_FRAMES {
        let link = LINK_TYPES[usize::from(input.byte() % 32)];
        at += Duration::from_millis(u64::from(input.byte()));
        let len = input.word();
        let frame = match frames.last() {
            Some((_, link, before)) if len >= 0x8000 => (at, *link, successor(before)),
            _ => (at, link, input.bytes(usize::from(len & 0x7fff)).to_vec()),
        };
        frames.push(frame);
    }
    frames
}

/// Every frame is in a flow, something else, or unreadable; a flow is media when a packet decided so; and what the
/// first half of a capture shows stays true in the whole.
pub fn classification(data: &[u8]) {
    let frames = frames(data);
    let (settings, stages) = (RtpSettings::default(), Stages::default());
    let whole = classify_capture("x", settings, stages, frames.iter().cloned());
    books(&whole, frames.len());
    let half = classify_capture("x", settings, stages, frames[..frames.len() / 2].iter().cloned());
    books(&half, frames.len() / 2);
    for (before, after) in half.rows.iter().zip(&whole.rows) {
        assert_eq!(before.flow, after.flow, "flows stand in the order of first packets");
        assert!(before.packets <= after.packets);
        if before.decided_at.is_some() && after.reason != "contradicted" {
            assert_eq!(before.decided_at, after.decided_at);
            assert!(after.ssrc.starts_with(&before.ssrc));
        }
    }
}

fn books(result: &Classified, frames: usize) {
    let counted: u64 = result.rows.iter().map(|r| r.packets).sum();
    assert_eq!(counted + result.other + result.unreadable, frames as u64);
    let mut flows = BTreeSet::new();
    for row in &result.rows {
        assert!(flows.insert((&row.flow, &row.vlan)), "{} stands twice", row.flow);
        assert!(row.packets > 0);
        let media = row.decided_at.is_some();
        assert_eq!(row.verdict == "media", media);
        let rtp = row.reason.contains("rtp") && media;
        assert!(rtp || !media || ["t38", "iax2"].contains(&row.reason), "{row:?}");
        assert_eq!((!row.ssrc.is_empty(), !row.payload_type.is_empty()), (rtp, rtp));
        assert!((0.0..=1.0).contains(&row.confidence));
        assert_eq!(row.confidence > 0.0, media);
        assert!(row.decided_at.is_none_or(|n| n >= 3 && n <= row.packets), "{row:?}");
        assert!(row.payload_type.is_sorted() && row.payload_type.iter().all(|pt| *pt < 128));
        assert!(!media || row.flow.starts_with("udp "));
    }
}
