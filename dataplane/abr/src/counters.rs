//! What the rate control counts.

use perhop_element::CounterSink;

/// Counters of all policies together, in segments unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Whole TCP segments looked at.
    pub segments: u64,
    /// Windows lowered.
    pub rewritten: u64,
    /// Acknowledgments whose window was left alone: the connection is signed by MD5,
    pub bypassed_md5: u64,
    /// authenticated (TCP-AO),
    pub bypassed_ao: u64,
    /// or multipath;
    pub bypassed_mptcp: u64,
    /// the handshake that tells the window's scale was not seen;
    pub bypassed_unknown_shift: u64,
    /// the latency is not known yet;
    pub bypassed_no_latency: u64,
    /// no policy is for the flow.
    pub bypassed_not_matched: u64,
    /// Latency samples counted in.
    pub samples: u64,
    /// Latency samples that cannot be: not positive, or longer than a minute.
    pub samples_refused: u64,
    /// Filters that started anew because the path had become longer.
    pub reinitialised: u64,
    /// New acknowledgments with a window of one segment, which is more than the rate.
    pub floor_limited: u64,
    /// Acknowledgments held back.
    pub held: u64,
    /// Held packets let go early because the store was full.
    pub hold_full: u64,
    /// Segments without a place for their connection.
    pub table_full: u64,
    /// Connections that gave their place to another.
    pub evicted: u64,
    /// Connections begun.
    pub created: u64,
    /// Connections ended by RST, FINs, silence or a successor between the same endpoints.
    pub ended: u64,
    /// Segments with data, SYN or FIN seen again.
    pub retransmissions: u64,
}

impl Counters {
    /// Reports all of them.
    pub fn report(&self, sink: &mut dyn CounterSink) {
        for (name, value) in [
            ("segments", self.segments),
            ("rewritten", self.rewritten),
            ("bypassed_md5", self.bypassed_md5),
            ("bypassed_ao", self.bypassed_ao),
            ("bypassed_mptcp", self.bypassed_mptcp),
            ("bypassed_unknown_shift", self.bypassed_unknown_shift),
            ("bypassed_no_latency", self.bypassed_no_latency),
            ("bypassed_not_matched", self.bypassed_not_matched),
            ("samples", self.samples),
            ("samples_refused", self.samples_refused),
            ("reinitialised", self.reinitialised),
            ("floor_limited", self.floor_limited),
            ("held_packets", self.held),
            ("hold_full", self.hold_full),
            ("table_full", self.table_full),
            ("evicted", self.evicted),
            ("created", self.created),
            ("ended", self.ended),
            ("retransmissions", self.retransmissions),
        ] {
            sink.counter(name, value);
        }
    }
}
