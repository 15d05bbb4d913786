//! Detection inside the table: begins, decides, contradicts itself, ends.

use super::{Flows, Look};
use crate::admission::Books;
use crate::calls::{Assumed, CallSlab, Meter};
use crate::event::{EventQueue, FlowEvent, FlowEventKind};
use crate::realtime::UndecidedSlab;
use crate::realtime::demux::{Evidence, Kind, Payload, kind};
use crate::realtime::machine::{MISFITS, Rules};
use crate::realtime::reason::{Decision, Fit, Reason, fit, header_at};
use crate::realtime::rtp::{HEADER_LEN, Header, NotRtp};
use crate::table::{Entry, Finding, NONE, TICK_MS, Verdict, elapsed_ms};
use perhop_packet::Meta;
use perhop_units::{Duration, Instant};

/// First packets of a half that are followed whatever they look like, and how many of each so many later on.
const FOLLOWED: u64 = 64;
const FOLLOWED_AGAIN: u64 = 8;
/// A recognised flow's other packets are not looked at while its SSRC was heard within this time.
const OTHER_SSRC_AFTER_MS: u32 = 1_000;
/// Time from one report of a call's quality to the next, and how many are made at most in one go: each takes as long as
/// some packets do.
const REPORT_MS: u32 = 10_000;
const REPORTS: u32 = 8;

impl Flows {
    /// Follows detection of one half by one UDP packet; whether the flow is recognised, this packet included. Of a call that
    /// is measured, the packet's end will be told.
    #[inline]
    pub(super) fn detect(
        &mut self,
        n: u32,
        half: usize,
        meta: &mut Meta,
        frame: &[u8],
        verdict: &Verdict,
    ) -> bool {
        let at = usize::from(meta.layout.payload_offset);
        let end = usize::from(meta.layout.l3_offset) + usize::from(meta.layout.ip_len);
        let bytes = if at == 0 { &[][..] } else { frame.get(at..end.min(frame.len())).unwrap_or_default() };
        let entry = self.table.entry_mut(n);
        let finding = entry.findings[half];
        let h = &mut entry.halves[half];
        if h.realtime {
            // The cheap check for contradiction: version and SSRC of every packet.
            let rtp = bytes.get(usize::from(finding.offset())..).and_then(|b| b.first_chunk::<HEADER_LEN>());
            let header =
                rtp.and_then(|head| Header::read(bytes.len() - usize::from(finding.offset()), head).ok());
            if finding.has_ssrc()
                && let Some(header) = header
                && header.ssrc == h.ssrc
            {
                h.ssrc_ms = h.last_ms;
                let slot = h.undecided;
                if finding.misfits() > 0 {
                    entry.findings[half] = finding.with_misfits(0);
                }
                if let Some(call) = self.calls.find_mut(slot, n << 1 | half as u32) {
                    call.meter.packet(meta.received_at, &header, self.config.assumed.playout);
                    call.marked += 1;
                    (meta.media, meta.home) = (finding.offset(), self.me);
                }
                return true;
            }
        }
        let payload = Payload { bytes, len: end.saturating_sub(at), ip_len: meta.layout.ip_len };
        if let Kind::Signal(_, seen) = kind(bytes, payload.len) {
            entry.evidence.note(seen);
            if !h.realtime {
                return false;
            }
        }
        // What does not look like RTP by its first bytes is followed for a while, and then now and again. A flow of a
        // single packet, as floods of made-up addresses are, takes no memory at all.
        let likely = bytes.first_chunk().is_some_and(|head| Header::read(bytes.len(), head).is_ok())
            || kind(bytes, payload.len) == Kind::Channel;
        // One flow between two exchanges is for all of their calls.
        let calls = entry.evidence.has(Evidence::IAX2);
        let followed = match h.packets {
            0 | 1 => false,
            2..=FOLLOWED => true,
            n => n % FOLLOWED < FOLLOWED_AGAIN || calls || self.settings.statistical(),
        };
        if !h.realtime && !likely && !followed {
            return false;
        }
        self.unusual_packet(n, half, meta, &payload, verdict, likely)
    }

    /// A packet that may begin, decide, contradict or end something.
    #[inline(never)]
    fn unusual_packet(
        &mut self,
        n: u32,
        half: usize,
        meta: &mut Meta,
        payload: &Payload<'_>,
        verdict: &Verdict,
        likely: bool,
    ) -> bool {
        let Self { settings, table, undecided, calls, events, counters, epoch, config, me, .. } = self;
        let Some(detector) = &settings.detector else { return false };
        let promoted = detector.promote_class;
        let moves = verdict.promotable() && promoted.is_some() && promoted != verdict.class;
        let owner = n << 1 | half as u32;
        let entry = table.entry_mut(n);
        let was = entry.halves[half].realtime;
        // Then its slot is that of a call.
        let was_rtp = was && entry.findings[half].has_ssrc();
        let mut over = match goes_on(entry, half, detector.rtp.idle(), payload) {
            GoesOn::Yes => return true,
            GoesOn::Perhaps => false,
            GoesOn::Silent => true,
            GoesOn::Contradicted => {
                counters.contradicted += 1;
                true
            }
        };
        let mut made = None;
        if settings.detects(meta.in_port) {
            let statistical = was && entry.findings[half].reason() == Some(Reason::Statistical);
            let h = &mut entry.halves[half];
            let state = if was_rtp {
                calls.find_mut(h.undecided, owner).map(|call| &mut call.others)
            } else {
                // The first packet drives nobody out: of a flood every packet is a first one.
                let urgent = was || likely && h.packets > 1;
                undecided.of(&mut h.undecided, owner, h.last_ms, urgent)
            };
            let rules = Rules { rtp: &detector.rtp, stages: &detector.stages, epoch: *epoch };
            let seen = &mut entry.evidence;
            let said = state.map(|s| s.observe(&rules, seen, meta.received_at, payload, statistical));
            over |= said == Some(Err(NotRtp::Statistics));
            made = said.and_then(Result::ok);
        }
        if let Some(decision) = made {
            settle(entry, half, owner, &decision, meta.received_at, payload, undecided, calls);
            if let Some(call) = calls.find_mut(entry.halves[half].undecided, owner) {
                call.marked += 1;
                (meta.media, meta.home) = (entry.findings[half].offset(), *me);
            }
            if !was {
                entry.decided_at[half] = u16::try_from(entry.halves[half].packets).unwrap_or(u16::MAX);
                events.push(FlowEvent::of(meta.received_at, FlowEventKind::Detected, n, entry, half));
                counters.detected += 1;
                counters.moved += u64::from(moves);
            }
        } else if was && over {
            let h = &mut entry.halves[half];
            h.realtime = false;
            if was_rtp {
                last_report(events, calls, &config.assumed, meta.received_at, n, entry, half);
                let h = &mut entry.halves[half];
                calls.close(h.undecided, owner);
                h.undecided = NONE;
            }
            events.push(FlowEvent::of(meta.received_at, FlowEventKind::Ended, n, entry, half));
            counters.ended += 1;
            counters.moved += u64::from(moves);
        }
        entry.halves[half].realtime
    }

    /// Makes room for a connection in a full table.
    #[cold]
    pub(super) fn displace(&mut self, now: Instant, look: &Look, half: usize) -> Option<u32> {
        let Self { table, undecided, admission, config, .. } = self;
        let key = look.oriented.key;
        let gone = |n: u32, entry: &Entry| forget(n, entry, undecided, admission);
        let n = table.displace(now, look.hash, key, half as u8, &config.timeouts, gone)?;
        self.counters.displaced += 1;
        Some(n)
    }

    /// Looks at up to `budget` connections that may have gone silent. Returns whether there is more to do.
    pub(super) fn sweep(&mut self, now: Instant, budget: usize) -> bool {
        let Self { table, undecided, calls, admission, events, counters, config, settings, .. } = self;
        let now_ms = (now.as_nanos() / 1_000_000) as u32;
        let idle = settings.detector.as_ref().map_or(Duration::from_secs(30), |d| d.rtp.idle());
        let realtime_ms = idle.as_nanos() / 1_000_000;
        let crowded = table.crowded();
        let mut reports = REPORTS;
        table.sweep(now, budget, |n, entry| {
            let timeout = config.timeouts.of_ms(entry, realtime_ms, crowded);
            let idle = u64::from(entry.idle_ms(now_ms));
            let over = idle >= timeout;
            let mut again_ms = timeout.saturating_sub(idle);
            for half in 0..2 {
                let h = &entry.halves[half];
                let silent = u64::from(elapsed_ms(now_ms, h.ssrc_ms)) > realtime_ms;
                if h.realtime && (over || silent) {
                    if entry.findings[half].has_ssrc() {
                        last_report(events, calls, &config.assumed, now, n, entry, half);
                        calls.close(entry.halves[half].undecided, n << 1 | half as u32);
                        entry.halves[half].undecided = NONE;
                    }
                    events.push(FlowEvent::of(now, FlowEventKind::Ended, n, entry, half));
                    counters.ended += 1;
                    entry.halves[half].realtime = false;
                } else if h.realtime && entry.findings[half].has_ssrc() {
                    let due_ms = report(events, calls, &config.assumed, now, n, entry, half, &mut reports);
                    again_ms = again_ms.min(due_ms);
                }
            }
            if over {
                forget(n, entry, undecided, admission);
                counters.expired += 1;
                return None;
            }
            Some(again_ms)
        })
    }
}

/// Reports how the call of a half sounds if it is time, and if `left` allows; ms until it is time.
#[expect(clippy::too_many_arguments, reason = "parts of the element that are borrowed one by one")]
fn report(
    events: &mut EventQueue,
    calls: &mut CallSlab,
    assumed: &Assumed,
    now: Instant,
    n: u32,
    entry: &Entry,
    half: usize,
    left: &mut u32,
) -> u64 {
    let now_ms = (now.as_nanos() / 1_000_000) as u32;
    let Some(call) = calls.find_mut(entry.halves[half].undecided, n << 1 | half as u32) else {
        return REPORT_MS.into();
    };
    let since_ms = elapsed_ms(now_ms, call.reported_ms);
    if since_ms < REPORT_MS {
        return u64::from(REPORT_MS - since_ms);
    }
    if *left == 0 {
        return TICK_MS;
    }
    *left -= 1;
    call.reported_ms = now_ms;
    last_report(events, calls, assumed, now, n, entry, half);
    REPORT_MS.into()
}

/// Reports how the call of a half sounds now, if it is one of speech: the last time when it ends.
fn last_report(
    events: &mut EventQueue,
    calls: &mut CallSlab,
    assumed: &Assumed,
    now: Instant,
    n: u32,
    entry: &Entry,
    half: usize,
) {
    let info = calls.report(entry.halves[half].undecided, n << 1 | half as u32, assumed);
    if let Some((call, here)) = info.filter(|(call, _)| call.mos_thousandths.is_some()) {
        let kind = FlowEventKind::Quality { call, here };
        events.push_optional(FlowEvent::of(now, kind, n, entry, half));
    }
}

/// Gives back what a connection that goes holds elsewhere.
fn forget(n: u32, entry: &Entry, undecided: &mut UndecidedSlab, admission: &mut Books) {
    for (half, h) in entry.halves.iter().enumerate() {
        undecided.forget(h.undecided, n << 1 | half as u32);
        admission.end(n << 1 | half as u32);
    }
}

/// What a packet means for the recognised half it belongs to.
enum GoesOn {
    /// It is one of the flow's, or need not be looked at while those keep coming.
    Yes,
    /// It may be something new.
    Perhaps,
    /// The flow has been silent for too long.
    Silent,
    /// Too many packets in a row were something else.
    Contradicted,
}

fn goes_on(entry: &mut Entry, half: usize, idle: Duration, payload: &Payload<'_>) -> GoesOn {
    let finding = &mut entry.findings[half];
    let h = &mut entry.halves[half];
    if !h.realtime {
        return GoesOn::Perhaps;
    }
    match fit(finding.reason().unwrap_or(Reason::Rtp), finding.offset(), h.ssrc, payload) {
        // Its statistics say when it is over.
        None => h.ssrc_ms = h.last_ms,
        Some(Fit::Same) => {
            (h.ssrc_ms, *finding) = (h.last_ms, finding.with_misfits(0));
            return GoesOn::Yes;
        }
        Some(Fit::Beside) => {}
        Some(Fit::No) => *finding = finding.with_misfits(finding.misfits() + 1),
    }
    let silent = elapsed_ms(h.last_ms, h.ssrc_ms);
    match () {
        () if finding.misfits() >= MISFITS => GoesOn::Contradicted,
        () if u64::from(silent) > idle.as_nanos() / 1_000_000 => GoesOn::Silent,
        () if finding.has_ssrc() && silent < OTHER_SSRC_AFTER_MS => GoesOn::Yes,
        () => GoesOn::Perhaps,
    }
}

/// Writes a decision into its half, and gives the half the memory it needs from now on.
#[expect(clippy::too_many_arguments, reason = "parts of the element that are borrowed one by one")]
fn settle(
    entry: &mut Entry,
    half: usize,
    owner: u32,
    decision: &Decision,
    now: Instant,
    payload: &Payload<'_>,
    undecided: &mut UndecidedSlab,
    calls: &mut CallSlab,
) {
    let h = &mut entry.halves[half];
    let was_rtp = h.realtime && entry.findings[half].has_ssrc();
    let header = header_at(payload, usize::from(decision.offset)).ok();
    let header = header.filter(|_| decision.reason.is_rtp());
    match (header.map(|header| Meter::new(now, &header, Some(decision.clock_hz))), was_rtp) {
        (Some(meter), true) => {
            calls.begin_again(h.undecided, owner, meter);
        }
        (Some(meter), false) => {
            undecided.forget(h.undecided, owner);
            h.undecided = calls.open(owner, h.last_ms, meter).unwrap_or(NONE);
        }
        (None, true) => {
            calls.close(h.undecided, owner);
            h.undecided = NONE;
        }
        // Statistics go on in their slot, and so may what is beside fax.
        (None, false) => {}
    }
    h.realtime = true;
    h.ssrc = decision.ssrc;
    h.ssrc_ms = h.last_ms;
    h.payload_type = decision.payload_type;
    h.confidence = decision.confidence;
    entry.findings[half] = Finding::new(decision.reason, decision.offset);
}
