//! Calls of IAX2 under observation.

use super::super::iax::{Frame, is_speech, mini};
use super::{Decision, Header, Memory, NotRtp, Payload, Reason, Rules, Train, Undecided};

/// What stands for the payload type of a train: whether a full frame announced it.
const ANNOUNCED: u8 = 1;
const FOUND: u8 = 0;
const CONFIDENCE: (u8, u8) = (95, 85);

fn header(frame: Frame, how: u8) -> Header {
    Header { sequence: frame.len, timestamp: frame.stamp.into(), ssrc: frame.call.into(), payload_type: how }
}

impl Undecided {
    /// A full frame with voice: mini frames of its call are expected.
    pub(super) fn announced(&mut self, rules: &Rules<'_>, now_us: u32, frame: Frame, word: u32) {
        // The same in every packet is an SSRC.
        if self.trains.iter().any(|t| t.offset == 0 && t.ssrc == word) {
            return;
        }
        let begin = Train::begin(Train::IAX, now_us, &header(frame, ANNOUNCED));
        match self.call(frame) {
            // One in the course of a call goes on with it.
            Some(own) if self.trains[own].has_type(ANNOUNCED) => {}
            Some(own) => self.trains[own] = begin,
            None => {
                if let Some(place) = self.place(rules, now_us, 1) {
                    self.trains[place] = begin;
                }
            }
        }
    }

    fn call(&self, frame: Frame) -> Option<usize> {
        self.trains.iter().position(|t| t.offset == Train::IAX && t.ssrc == u32::from(frame.call))
    }

    /// A mini frame, if its call is known.
    pub(super) fn mini(
        &mut self,
        rules: &Rules<'_>,
        now_us: u32,
        payload: &Payload<'_>,
    ) -> Option<Result<Decision, NotRtp>> {
        if self.trains.iter().all(|t| t.offset != Train::IAX) {
            return None;
        }
        let frame = mini(payload)?;
        let own = self.call(frame)?;
        let train = &mut self.trains[own];
        let announced = train.has_type(ANNOUNCED);
        let within_us = (rules.rtp.within().as_nanos() / 1_000).max(1);
        let stepped = train.step_iax(within_us, now_us, frame.stamp, frame.len);
        let regular = train.is_regular(rules.rtp.regular());
        let needed = if announced && regular { rules.rtp.regular() } else { rules.rtp.packets() };
        Some(match stepped.and_then(|()| train.milliseconds(now_us)) {
            Err(why @ (NotRtp::Late | NotRtp::TooFew)) if stepped != Err(NotRtp::TooFew) => Err(why),
            Err(why) if announced => {
                *train = Train::begin(Train::IAX, now_us, &header(frame, ANNOUNCED));
                Err(why)
            }
            Ok(()) if announced || train.is_regular(train.count()) => {
                if train.count() < needed {
                    return Some(Err(NotRtp::TooFew));
                }
                *train = Train::free();
                Ok(Decision {
                    reason: Reason::Iax2,
                    ssrc: frame.call.into(),
                    payload_type: 0,
                    confidence: if announced { CONFIDENCE.0 } else { CONFIDENCE.1 },
                    offset: 0,
                    clock_hz: 0,
                    packet: 0,
                })
            }
            // Nothing but its regularity spoke for it.
            Err(why) => {
                *train = Train::free();
                Err(why)
            }
            Ok(()) => {
                *train = Train::free();
                Err(NotRtp::Timestamp)
            }
        })
    }

    /// Two packets in succession that look like mini frames of one call, of a length that a codec makes in the time
    /// between them, begin a train without a full frame.
    pub(super) fn minis(
        &mut self,
        rules: &Rules<'_>,
        now_us: u32,
        payload: &Payload<'_>,
    ) -> Option<Result<Decision, NotRtp>> {
        let frame = mini(payload)?;
        let Memory::Prefix(before) = &self.memory else { return None };
        let before = &before[..usize::from(self.prefix_len)];
        let [low, high, rest, ..] = *before else { return None };
        let then = Frame { stamp: u16::from_be_bytes([high, rest]), ..frame };
        let within_us = (rules.rtp.within().as_nanos() / 1_000).max(1);
        if low != frame.call as u8 || !is_speech(frame.stamp.wrapping_sub(then.stamp), frame.len) {
            return None;
        }
        let mut train = Train::begin(Train::IAX, self.prefix_us, &header(then, FOUND));
        train.step_iax(within_us, now_us, frame.stamp, frame.len).ok()?;
        let place = self.place(rules, now_us, train.count())?;
        self.trains[place] = train;
        Some(Err(NotRtp::TooFew))
    }
}
