//! One flow as the sink sees it: what was sent, what is inside the router, in which order it comes out.

use std::collections::BTreeSet;

/// A flow and the oracle over it.
///
/// A *stretch* is the run of packets between two changes that moved the flow to another class. Inside a stretch
/// nothing may be overtaken; a packet may overtake those of earlier stretches only, which makes one overtaking episode
/// a move: from the first overtaking until the last packet of before has left.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// Next sequence number.
    pub sent: u32,
    /// Sequence numbers that have not left.
    inside: BTreeSet<u32>,
    /// First sequence number of every stretch but the first, from the one on that the oldest packet inside is in.
    stretches: Vec<u32>,
    /// Moves across which a packet was overtaken, of these stretches.
    overtaken: BTreeSet<u32>,
    /// Stretches before them, and how many of those packets overtook: a day has too many to keep each.
    over: (usize, usize),
    pub received: u64,
    /// Dropped by a meter, seen when the packet came in.
    pub policed: u64,
}

impl Flow {
    /// The next packet goes in.
    pub fn send(&mut self) -> u32 {
        let seq = self.sent;
        self.sent += 1;
        self.inside.insert(seq);
        seq
    }

    /// The packet that went in last was dropped by a meter.
    pub fn policed(&mut self) {
        let last = self.inside.pop_last();
        assert_eq!(last, Some(self.sent - 1));
        self.policed += 1;
    }

    /// Packets inside.
    pub fn outstanding(&self) -> usize {
        self.inside.len()
    }

    /// From the next packet on the flow is in another class.
    pub fn moved(&mut self) {
        if self.stretches.last() != Some(&self.sent) {
            self.stretches.push(self.sent);
        }
    }

    /// The packet that went in last is the first in another class.
    pub fn moved_with_last(&mut self) {
        self.stretches.push(self.sent - 1);
    }

    /// Moves so far.
    pub fn moves(&self) -> usize {
        self.over.0 + self.stretches.len()
    }

    /// Moves that were seen in the order of packets.
    pub fn episodes(&self) -> usize {
        self.over.1 + self.overtaken.len()
    }

    /// A packet has left.
    ///
    /// # Errors
    /// In words, when it should not have left now.
    pub fn arrived(&mut self, seq: u32) -> Result<(), String> {
        if !self.inside.remove(&seq) {
            return Err(format!("packet {seq} left twice or was never sent"));
        }
        self.received += 1;
        let stretch = self.stretches.partition_point(|first| *first <= seq);
        let begins = stretch.checked_sub(1).map_or(0, |s| self.stretches[s]);
        if let Some(before) = self.inside.range(begins..seq).next() {
            return Err(format!(
                "packet {seq} left before packet {before}, which is lost or overtaken; the class changed at {:?}",
                self.stretches
            ));
        }
        if self.inside.range(..begins).next().is_some() {
            self.overtaken.insert(begins);
        }
        self.forget();
        Ok(())
    }

    /// Counts the stretches that no packet inside is in any more.
    fn forget(&mut self) {
        let oldest = self.inside.first().copied().unwrap_or(self.sent);
        let ended = self.stretches.partition_point(|first| *first <= oldest).saturating_sub(1);
        if ended > 0 {
            self.stretches.drain(..ended);
            let before = self.overtaken.len();
            self.overtaken = self.overtaken.split_off(&self.stretches[0]);
            self.over = (self.over.0 + ended, self.over.1 + before - self.overtaken.len());
        }
    }
}
