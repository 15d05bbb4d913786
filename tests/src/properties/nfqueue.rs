//! Messages of a packet queue: whatever the kernel says, reading them ends, and what they name is there.

use perhop_io::nfqueue::{Message, Verdicts, read};
use perhop_wire::dissect_packet;

/// Reading goes forward by whole headers, a packet lies in its datagram, and its number is the one that is answered.
pub fn messages(data: &[u8]) {
    let (mut at, mut verdicts) = (0, Verdicts::new(7));
    while let Ok(Some((message, next))) = read(data, at) {
        assert!(next >= at + 16, "a message has a header");
        if let Message::Packet(queued) = message {
            let packet = &data[queued.payload.clone()];
            assert!(
                queued.payload.is_empty() || queued.payload.start >= at + 24 && queued.payload.end <= next
            );
            if let Ok(layout) = dissect_packet(packet) {
                assert!(usize::from(layout.ip_len) <= packet.len(), "what a header promises is there");
            }
            verdicts.accept(queued.id);
            let answer = verdicts.messages();
            assert_eq!(answer[answer.len() - 4..], queued.id.to_be_bytes());
            verdicts.clear();
        }
        at = next;
    }
}
