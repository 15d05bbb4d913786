//! What this router does to one call: packets that left, packets that it dropped and why, and the time that they spent here.

use super::meter::{Assumed, CallInfo, Closed, Meter, score};
use perhop_element::PacketEnd;
use perhop_packet::{ClassId, DropReason};
use perhop_units::Duration;
use serde::{Serialize, Serializer};

/// Drops by reason: a call counts four apart, as what it meets is a full queue or a policer, rarely anything else.
type Reasons = [Option<(DropReason, u64)>; 4];

/// What this router has done to a call so far, and how that sounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HereInfo {
    /// Packets that left by a port, or were for this machine.
    pub left: u64,
    /// Packets dropped here.
    pub dropped: u64,
    /// By reason, the first four that the call met; of others `dropped` has the sum alone.
    #[serde(serialize_with = "by_name")]
    pub reasons: Reasons,
    /// Packets dropped here since the call was last reported.
    pub dropped_lately: u64,
    /// Logical class of the packet dropped last.
    #[serde(skip)]
    pub dropped_in: ClassId,
    /// Packets that have come in and neither left nor been dropped.
    pub waiting: u64,
    /// Of what left: too late for the playout buffer.
    pub late: u64,
    /// Time from coming in to leaving, µs.
    pub delay_mean_us: u64,
    /// The longest of them.
    pub delay_max_us: u64,
    /// R factor × 10 of the call as it leaves; `None` for video.
    pub r_tenths: Option<u16>,
    /// Mean opinion score × 1000 of the call as it leaves; `None` for video.
    pub mos_thousandths: Option<u16>,
}

impl HereInfo {
    /// Names of the reasons of [`HereInfo::reasons`], with how many packets each.
    pub fn reasons(&self) -> impl Iterator<Item = (String, u64)> {
        named(&self.reasons)
    }
}

fn named(reasons: &Reasons) -> impl Iterator<Item = (String, u64)> {
    reasons.iter().flatten().map(|(reason, count)| (reason.name(), *count))
}

fn by_name<S: Serializer>(reasons: &Reasons, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(named(reasons))
}

/// A call from where it came in to where it leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    left: u64,
    dropped: u64,
    /// How many were dropped when it was last reported.
    reported: u64,
    dropped_in: ClassId,
    /// The first reasons met, with how many packets each. Of others there is the sum alone.
    reasons: Reasons,
    delay_sum_ns: u64,
    delay_max_ns: u64,
    /// Of what leaves; from the first one on.
    meter: Option<Meter>,
}

impl Way {
    /// A packet ended. `inward` measures what comes in.
    pub fn end(&mut self, end: &PacketEnd, inward: &Meter, playout: Duration) {
        if let Some(reason) = end.drop {
            (self.dropped, self.dropped_in) = (self.dropped + 1, end.class);
            let mut places = self.reasons.iter_mut();
            match places.find(|place| place.is_none_or(|(known, _)| known == reason)) {
                Some(Some((_, count))) => *count += 1,
                Some(free) => *free = Some((reason, 1)),
                None => {}
            }
            return;
        }
        self.left += 1;
        let here = end.at.since(end.received_at).as_nanos();
        self.delay_sum_ns = self.delay_sum_ns.saturating_add(here);
        self.delay_max_ns = self.delay_max_ns.max(here);
        let header = inward.header(end.sequence, end.timestamp);
        match &mut self.meter {
            Some(meter) => meter.packet(end.at, &header, playout),
            None => self.meter = Some(inward.of_the_same(end.at, &header)),
        }
    }

    /// It has been reported.
    pub fn reported(&mut self) {
        self.reported = self.dropped;
    }

    /// What is known of it, beside what `inward` and its `info` say of the call as it came; the ends of `marked` of its
    /// packets have been told or will be.
    pub fn info(&self, marked: u64, inward: &Meter, info: &CallInfo, assumed: &Assumed) -> HereInfo {
        let waiting = marked.saturating_sub(self.left + self.dropped);
        // What was marked and has neither left nor been dropped will do one of both; what came before the first that was
        // marked has gone.
        let expected = info.expected.saturating_sub(waiting);
        let mut out = self.meter.as_ref().map_or_else(Closed::default, Meter::total);
        let unmarked = info.received.saturating_sub(marked);
        out.expected += unmarked;
        out.received += unmarked;
        out.heard += unmarked;
        if let Some(count) = expected.checked_sub(out.expected).filter(|count| *count > 0) {
            out.lost(count);
        }
        let delay_mean_us = self.delay_sum_ns.checked_div(self.left).unwrap_or(0) / 1_000;
        let there =
            Assumed { path_delay: assumed.path_delay + Duration::from_micros(delay_mean_us), ..*assumed };
        let (r_tenths, mos_thousandths) = score(inward.is_speech().then(|| inward.rating(&out, &there)));
        HereInfo {
            left: self.left,
            dropped: self.dropped,
            reasons: self.reasons,
            dropped_lately: self.dropped - self.reported,
            dropped_in: self.dropped_in,
            waiting,
            delay_mean_us,
            delay_max_us: self.delay_max_ns / 1_000,
            late: out.received.saturating_sub(out.heard),
            r_tenths,
            mos_thousandths,
        }
    }
}
