//! One flow under observation, from its first packet to a verdict and beyond: what the element and the reader of
//! captures share.
//!
//! Stages, each asked only when the one before says nothing of a packet:
//!
//! 1. what the first bytes tell (RFC 7983): STUN, DTLS, ZRTP and RTCP are evidence for the whole connection, TURN
//!    channel data is looked into;
//! 2. RTP at the beginning of the payload: it continues one of two trains, or begins one;
//! 3. mini frames of IAX2 whose call a full frame announced; T.38 fax;
//! 4. RTP behind a header of unknown kind, at an offset of 1 … 36: two packets in succession that agree at one offset on
//!    the SSRC and make a plausible step begin a train there. It must then come to the full number of packets, and its
//!    timestamps to a usual clock or to equal steps. Two mini frames of IAX2 that no full frame announced begin one too, which
//!    must go on in equal steps and lengths of a codec;
//! 5. if configured, statistics, once 32 packets have been searched in vain.
//!
//! Interleaved SSRCs are counted side by side, two of them, and so are two payload types of one SSRC that have sequence
//! numbers of their own, as media and its forward error correction may. Another takes the place of a train that is stale, that
//! has hardly begun and not gone on for a fifth of the window or did not continue, whose timestamp has not moved for that
//! time, or that is no media after a whole window. So of several sources in turns each is counted when those before it are
//! recognised, and none is kept out by what never will be.

mod iax;
mod search;

use super::Stages;
use super::demux::{Evidence, Kind, Payload, kind};
use super::reason::{Decision, Reason, header_at};
use super::rtp::{HEADER_LEN, Header, NotRtp, RtpSettings, Train};
use super::statistics::{Says, Statistics};
use super::{content, iax as frames, t38};
use perhop_units::Instant;
use search::agreement;

/// Farthest a wrapped header begins: behind a Send indication of TURN with an IPv4 peer.
const MAX_OFFSET: usize = 36;
/// Bytes remembered of a packet for the search, from the second on.
const PREFIX: usize = MAX_OFFSET + HEADER_LEN - 1;
/// Packets searched before statistics begin, and before the search is made of two in eight only.
const SEARCHED: u8 = 32;
const SEARCHED_ALL: u8 = 128;
/// Bytes of channel data before what it carries.
const CHANNEL: usize = 4;
/// UDPTL packets that decide, and how many times the RTP window they may take: pages are sent at walking pace.
const UDPTL_PACKETS: u8 = 6;
const UDPTL_WINDOWS: u64 = 10;
/// Packets of a train that has hardly begun, and which part of the window it keeps its place without another one. Were
/// it less than from one packet of a source to the next, three sources in turns would drive each other out for ever.
const BEGUN: u8 = 3;
const KEPT_PART: u64 = 5;
/// Packets that do not fit, without one that does in between, after which a recognised flow is none.
pub(crate) const MISFITS: u8 = 32;

/// What the stages need besides the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub rtp: &'a RtpSettings,
    pub stages: &'a Stages,
    /// Changes whenever the settings do, so that counts made under others are not mixed in.
    pub epoch: u8,
}

/// What is known of a flow that is not recognised: 120 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Undecided {
    trains: [Train; 2],
    /// When the remembered packet came, µs.
    prefix_us: u32,
    epoch: u8,
    /// Packets searched in vain; goes round between [`SEARCHED_ALL`] and 255 once there.
    searched: u8,
    prefix_len: u8,
    memory: Memory,
}

/// The search and the statistics take turns.
#[derive(Clone, Copy, Debug)]
enum Memory {
    /// The second and further bytes of the packet before.
    Prefix([u8; PREFIX]),
    Statistics(Statistics),
}

impl Default for Undecided {
    fn default() -> Self {
        Self {
            trains: [Train::free(); 2],
            prefix_us: 0,
            epoch: 0,
            searched: 0,
            prefix_len: 0,
            memory: Memory::Prefix([0; PREFIX]),
        }
    }
}

impl Undecided {
    /// Whether a train is under way.
    #[inline]
    pub fn is_train(&self) -> bool {
        self.trains.iter().any(|t| t.offset != Train::FREE)
    }

    /// Looks at one packet. `recognised` says that the flow is real time by statistics so far.
    pub fn observe(
        &mut self,
        rules: &Rules<'_>,
        evidence: &mut Evidence,
        now: Instant,
        payload: &Payload<'_>,
        recognised: bool,
    ) -> Result<Decision, NotRtp> {
        if self.epoch != rules.epoch {
            *self = Self { epoch: rules.epoch, ..Self::default() };
        }
        let now_us = (now.as_nanos() / 1_000) as u32;
        let channel = match kind(payload.bytes, payload.len) {
            Kind::Signal(why, seen) => {
                evidence.note(seen);
                return Err(why);
            }
            Kind::Rtcp => return Err(NotRtp::Rtcp),
            Kind::Channel => true,
            Kind::Other => false,
        };
        let plain = if channel { CHANNEL } else { 0 };
        if channel
            && let Some(inside) = payload.bytes.get(CHANNEL..)
            && let Kind::Signal(why, seen) = kind(inside, payload.len - CHANNEL)
        {
            evidence.note(seen);
            return Err(why);
        }
        if let Some(frame) = frames::full(payload) {
            evidence.note(Evidence::IAX2);
            let word = payload.bytes[8..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
            self.announced(rules, now_us, frame, word);
        }
        let header = header_at(payload, plain);
        let mut why = match header {
            Ok(header) => match self.train(rules, Some(*evidence), now_us, plain as u8, &header) {
                Err(NotRtp::NoProgress) => NotRtp::NoProgress,
                Err(why @ NotRtp::Timestamp) => why,
                said => return said,
            },
            Err(why) => why,
        };
        if header.is_err()
            && let Some(said) = self.mini(rules, now_us, payload)
        {
            return said;
        }
        if let Some(sequence) = t38::sequence(payload) {
            why = match self.fax(rules, now_us, sequence) {
                Err(NotRtp::NoProgress) => why,
                said => return said,
            };
        }
        if let Some(said) = self.wrapped(rules, now_us, payload) {
            return said;
        }
        self.statistics(rules, now, payload, recognised, why)
    }

    /// A header at `offset`: continues its train, or begins one if there is a place. No `evidence` supports a header that
    /// was found by searching.
    fn train(
        &mut self,
        rules: &Rules<'_>,
        evidence: Option<Evidence>,
        now_us: u32,
        offset: u8,
        header: &Header,
    ) -> Result<Decision, NotRtp> {
        let Some(own) = self.own(offset, header) else {
            if let Some(place) = self.place(rules, now_us, 1) {
                self.trains[place] = Train::begin(offset, now_us, header);
            }
            return Err(NotRtp::NoProgress);
        };
        let within_us = (rules.rtp.within().as_nanos() / 1_000).max(1);
        let train = &mut self.trains[own];
        match train.step(within_us, now_us, header) {
            Ok(()) => {}
            Err(NotRtp::Late) => return Err(NotRtp::Late),
            Err(NotRtp::NoProgress) if train.is_beside(header) => {
                train.forget_type(header.payload_type);
                // Not at the cost of the train that it is beside.
                if let Some(place) = self.place(rules, now_us, 1).filter(|place| *place != own) {
                    self.trains[place] = Train::begin(offset, now_us, header);
                }
                return Err(NotRtp::NoProgress);
            }
            Err(why) => {
                train.begin_anew(now_us, header, why);
                return Err(why);
            }
        }
        let wrapped = evidence.is_none();
        let regular = train.is_regular(rules.rtp.regular());
        let supported = evidence.is_some_and(|e| e.any() || usize::from(offset) == CHANNEL);
        let needed = match () {
            () if supported => rules.rtp.supported().min(rules.rtp.regular()),
            () if regular && !wrapped => rules.rtp.regular(),
            () => rules.rtp.packets(),
        };
        if train.count() < needed {
            return Err(NotRtp::TooFew);
        }
        let clock_hz = train.clock_hz(now_us);
        let (confidence, usual) = match train.clock(now_us, within_us, supported) {
            Ok(found) => found,
            // One frame so far.
            Err(NotRtp::TooFew) if supported && train.count() >= rules.rtp.packets() => (84, false),
            Err(NotRtp::TooFew) => return Err(NotRtp::TooFew),
            Err(why) => {
                train.begin_anew(now_us, header, why);
                return Err(why);
            }
        };
        if wrapped && !usual && !train.is_regular(rules.rtp.packets()) {
            return Err(NotRtp::Timestamp);
        }
        *train = Train::free();
        Ok(Decision {
            reason: reason(offset, evidence),
            ssrc: header.ssrc,
            payload_type: header.payload_type,
            confidence: if wrapped { confidence - 9 } else { confidence },
            offset,
            clock_hz,
            packet: 0,
        })
    }

    /// The train a header may continue. An SSRC may have two, of payload types with sequence numbers of their own: that
    /// which has seen the header's type comes first.
    fn own(&self, offset: u8, header: &Header) -> Option<usize> {
        let of = |t: &Train| t.is_of(offset, header);
        let first = self.trains.iter().position(of)?;
        let typed = |t: &Train| of(t) && t.has_type(header.payload_type);
        Some(if typed(&self.trains[first]) {
            first
        } else {
            self.trains.iter().position(typed).unwrap_or(first)
        })
    }

    /// A place for a new train of `count` packets: a free one, a stale one, else one that has hardly begun and does not go
    /// on or is shorter, that failed, or that had its time.
    fn place(&self, rules: &Rules<'_>, now_us: u32, count: u8) -> Option<usize> {
        let within_us = rules.rtp.within().as_nanos() / 1_000;
        let worth = |t: &Train| match t.count() {
            shorter if shorter > 0 && shorter < count => shorter,
            _ => t.worth(now_us, within_us, within_us / KEPT_PART, BEGUN),
        };
        let side_by_side =
            self.trains.iter().enumerate().map(|(i, t)| (worth(t), u32::MAX - t.age_us(now_us), i));
        side_by_side.min().filter(|(worth, ..)| *worth < BEGUN).map(|(.., i)| i)
    }

    fn fax(&mut self, rules: &Rules<'_>, now_us: u32, sequence: u16) -> Result<Decision, NotRtp> {
        let begin = Header { sequence, timestamp: 0, ssrc: 0, payload_type: 0 };
        let Some(own) = self.trains.iter().position(|t| t.offset == Train::UDPTL) else {
            if let Some(place) = self.place(rules, now_us, 1) {
                self.trains[place] = Train::begin(Train::UDPTL, now_us, &begin);
            }
            return Err(NotRtp::NoProgress);
        };
        let train = &mut self.trains[own];
        let within_us = rules.rtp.within().as_nanos() / 1_000 * UDPTL_WINDOWS;
        match train.step_udptl(within_us, now_us, sequence) {
            Ok(()) => {}
            Err(NotRtp::Late) => return Err(NotRtp::Late),
            Err(why) => {
                *train = Train::begin(Train::UDPTL, now_us, &begin);
                return Err(why);
            }
        }
        if train.count() < UDPTL_PACKETS {
            return Err(NotRtp::TooFew);
        }
        *train = Train::free();
        Ok(Decision {
            reason: Reason::T38,
            ssrc: 0,
            payload_type: 0,
            confidence: 95,
            offset: 0,
            clock_hz: 0,
            packet: 0,
        })
    }

    /// Headers behind something else: the offsets of trains first, then all of them. `None` when nothing is there.
    fn wrapped(
        &mut self,
        rules: &Rules<'_>,
        now_us: u32,
        payload: &Payload<'_>,
    ) -> Option<Result<Decision, NotRtp>> {
        if !rules.stages.wrapped {
            return None;
        }
        for i in 0..self.trains.len() {
            let Train { offset, ssrc, .. } = self.trains[i];
            if (1..=MAX_OFFSET as u8).contains(&offset)
                && let Ok(header) = header_at(payload, usize::from(offset))
                && header.ssrc == ssrc
            {
                return Some(self.train(rules, None, now_us, offset, &header));
            }
        }
        let turn = self.searched;
        self.searched = if turn == u8::MAX { SEARCHED_ALL } else { turn + 1 };
        if turn >= SEARCHED_ALL && turn & 7 > 1 {
            return None;
        }
        let minis = self.minis(rules, now_us, payload);
        let Memory::Prefix(before) = &mut self.memory else { return None };
        let found = agreement(&before[..usize::from(self.prefix_len)], payload);
        let elapsed_us = now_us.wrapping_sub(self.prefix_us);
        let then_us = self.prefix_us;
        let behind_first = payload.bytes.get(1..).unwrap_or_default();
        let known = behind_first.len().min(PREFIX);
        before[..known].copy_from_slice(&behind_first[..known]);
        (self.prefix_len, self.prefix_us) = (known as u8, now_us);
        if minis.is_some() {
            return minis;
        }
        let (offset, first, second) = found?;
        let within_us = (rules.rtp.within().as_nanos() / 1_000).max(1);
        let mut train = Train::begin(offset, then_us, &first);
        if first.payload_type != second.payload_type {
            train = Train::begin(offset, now_us, &second);
        } else if u64::from(elapsed_us) > within_us || train.step(within_us, now_us, &second).is_err() {
            return None;
        }
        let place = self.place(rules, now_us, train.count())?;
        self.trains[place] = train;
        Some(Err(NotRtp::TooFew))
    }

    fn statistics(
        &mut self,
        rules: &Rules<'_>,
        now: Instant,
        payload: &Payload<'_>,
        recognised: bool,
        why: NotRtp,
    ) -> Result<Decision, NotRtp> {
        let Some(limits) = &rules.stages.statistical else { return Err(why) };
        if matches!(self.memory, Memory::Prefix(_)) {
            if self.searched < SEARCHED && rules.stages.wrapped {
                return Err(why);
            }
            self.memory = Memory::Statistics(Statistics::default());
        }
        let Memory::Statistics(statistics) = &mut self.memory else { return Err(why) };
        let now_ms = (now.as_nanos() / 1_000_000) as u32;
        let said = statistics.observe(limits, now_ms, payload.ip_len, recognised);
        if !recognised && content::is_plain(payload) {
            statistics.interrupt();
            return Err(why);
        }
        match said {
            Says::RealTime => Ok(Decision {
                reason: Reason::Statistical,
                ssrc: 0,
                payload_type: 0,
                confidence: 50,
                offset: 0,
                clock_hz: 0,
                packet: 0,
            }),
            Says::Over => Err(NotRtp::Statistics),
            Says::Nothing => Err(why),
        }
    }
}

fn reason(offset: u8, evidence: Option<Evidence>) -> Reason {
    let Some(evidence) = evidence else { return Reason::RtpAtOffset };
    match () {
        () if usize::from(offset) == CHANNEL => Reason::RtpInTurnChannel,
        () if evidence.has(Evidence::DTLS) => Reason::SrtpAfterDtls,
        () if evidence.has(Evidence::ZRTP) => Reason::SrtpAfterZrtp,
        () if evidence.has(Evidence::RTCP) => Reason::RtpWithRtcp,
        () if evidence.has(Evidence::STUN) => Reason::RtpAfterStun,
        () => Reason::Rtp,
    }
}
