//! The machine on one flow, with what came of it.

use super::Stages;
use super::demux::{Evidence, Payload};
use super::machine::{MISFITS, Rules, Undecided};
use super::reason::{Decision, Fit, Reason, fit};
use super::rtp::{NotRtp, RtpSettings};
use perhop_units::Instant;

/// Detection on one flow (one direction of one 5-tuple): pure, for captures and as the model the element is tested
/// against.
#[derive(Clone, Debug)]
pub struct FlowDetector {
    rtp: RtpSettings,
    stages: Stages,
    state: Undecided,
    packets: u64,
    current: Option<Current>,
    contradictions: u64,
    last: Option<NotRtp>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    decision: Decision,
    seen: Instant,
    fitted: u64,
    misfits: u8,
}

impl FlowDetector {
    /// Nothing seen yet.
    pub fn new(rtp: RtpSettings, stages: Stages) -> Self {
        Self {
            rtp,
            stages,
            state: Undecided::default(),
            packets: 0,
            current: None,
            contradictions: 0,
            last: None,
        }
    }

    /// Looks at a UDP packet of a connection with `evidence`. Returns the decision when this packet makes one: the
    /// flow becomes media, or goes on with another SSRC.
    pub fn observe(
        &mut self,
        evidence: &mut Evidence,
        now: Instant,
        payload: &Payload<'_>,
    ) -> Option<Decision> {
        self.packets += 1;
        if self.goes_on(now, payload) {
            return None;
        }
        let rules = Rules { rtp: &self.rtp, stages: &self.stages, epoch: 0 };
        let statistical = self.current.is_some_and(|c| c.decision.reason == Reason::Statistical);
        match self.state.observe(&rules, evidence, now, payload, statistical) {
            Ok(decision) => {
                let decision = Decision { packet: self.packets, ..decision };
                self.current = Some(Current { decision, seen: now, fitted: 0, misfits: 0 });
                Some(decision)
            }
            Err(why) => {
                if why == NotRtp::Statistics {
                    self.current = None;
                }
                self.last = Some(why);
                None
            }
        }
    }

    /// Whether the packet is one of what the flow was recognised as; a contradiction or silence ends that.
    fn goes_on(&mut self, now: Instant, payload: &Payload<'_>) -> bool {
        let Some(current) = &mut self.current else { return false };
        let decision = &current.decision;
        let Some(fits) = fit(decision.reason, decision.offset, decision.ssrc, payload) else {
            // Its statistics go on, and say when it is over.
            current.seen = now;
            return false;
        };
        match fits {
            Fit::Same => {
                (current.seen, current.misfits) = (now, 0);
                current.fitted += 1;
                return true;
            }
            Fit::Beside => {}
            Fit::No => current.misfits = current.misfits.saturating_add(1),
        }
        if current.misfits >= MISFITS {
            // What never fitted after its decision was a mistake.
            self.contradictions += u64::from(current.fitted < u64::from(MISFITS));
            self.current = None;
        } else if now.since(current.seen) > self.rtp.idle() {
            self.current = None;
        }
        false
    }

    /// The decision in force at `now`.
    pub fn current(&self, now: Instant) -> Option<Decision> {
        self.current.filter(|c| now.since(c.seen) <= self.rtp.idle()).map(|c| c.decision)
    }

    /// Decisions taken back so far because hardly a packet after them fitted. Each is the last one before.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }

    /// Why the last packet that was not of a recognised train was none.
    pub fn last_reason(&self) -> Option<NotRtp> {
        self.last
    }
}

#[cfg(test)]
mod tests;
