//! Detection inside the table: begins, decides, ends.

use super::Flows;
use crate::event::{FlowEvent, FlowEventKind};
use crate::realtime::rtp::{HEADER_LEN, Header};
use crate::table::{NONE, Verdict, elapsed_ms};
use perhop_packet::Meta;
use perhop_units::{Duration, Instant};

/// A recognised flow's other packets are not looked at while its SSRC was heard within this time.
const OTHER_SSRC_AFTER_MS: u32 = 1_000;

impl Flows {
    /// Follows detection of one half by one UDP packet; whether the flow is recognised, this packet included.
    #[inline]
    pub(super) fn detect(
        &mut self,
        n: u32,
        half: usize,
        meta: &Meta,
        frame: &[u8],
        verdict: &Verdict,
    ) -> bool {
        let at = usize::from(meta.layout.payload_offset);
        let end = usize::from(meta.layout.l3_offset) + usize::from(meta.layout.ip_len);
        let payload = if at == 0 { &[][..] } else { frame.get(at..end.min(frame.len())).unwrap_or_default() };
        let header =
            payload.first_chunk::<HEADER_LEN>().and_then(|head| Header::read(payload.len(), head).ok());
        let entry = self.table.entry_mut(n);
        let h = &mut entry.halves[half];
        if h.realtime && header.is_some_and(|x| x.ssrc == h.ssrc) {
            h.ssrc_ms = h.last_ms;
            return true;
        }
        if !h.realtime && header.is_none() {
            return false;
        }
        self.undecided_packet(n, half, meta, header, verdict)
    }

    /// A packet that may begin, decide or end something.
    #[inline(never)]
    fn undecided_packet(
        &mut self,
        n: u32,
        half: usize,
        meta: &Meta,
        header: Option<Header>,
        verdict: &Verdict,
    ) -> bool {
        let Self { settings, table, undecided, events, counters, epoch, .. } = self;
        let Some(detector) = &settings.detector else { return false };
        let promoted = detector.promote_class;
        let moves = verdict.promotable() && promoted.is_some() && promoted != verdict.class;
        let owner = n << 1 | half as u32;
        let entry = table.entry_mut(n);
        let h = &mut entry.halves[half];
        if h.realtime {
            let silent = elapsed_ms(h.last_ms, h.ssrc_ms);
            if u64::from(silent) > detector.rtp.idle().as_nanos() / 1_000_000 {
                h.realtime = false;
                let event = FlowEvent::of(meta.received_at, FlowEventKind::Ended, n, entry, half);
                events.push(event);
                counters.ended += 1;
                counters.moved += u64::from(moves);
            } else if silent < OTHER_SSRC_AFTER_MS {
                return true;
            }
        }
        let h = &mut entry.halves[half];
        let Some(header) = header.filter(|_| settings.detects(meta.in_port)) else { return h.realtime };
        let now_ms = h.last_ms;
        let state = undecided.of(&mut h.undecided, owner, now_ms);
        let Ok((confidence, payload_type)) = state.observe(&detector.rtp, *epoch, meta.received_at, &header)
        else {
            return h.realtime;
        };
        undecided.forget(h.undecided, owner);
        h.undecided = NONE;
        let was = std::mem::replace(&mut h.realtime, true);
        h.ssrc = header.ssrc;
        h.ssrc_ms = now_ms;
        h.payload_type = payload_type;
        h.confidence = confidence;
        if !was {
            entry.decided_at[half] = u32::try_from(entry.halves[half].packets).unwrap_or(u32::MAX);
            let event = FlowEvent::of(meta.received_at, FlowEventKind::Detected, n, entry, half);
            events.push(event);
            counters.detected += 1;
            counters.moved += u64::from(moves);
        }
        true
    }

    /// Looks at up to `budget` connections that may have gone silent. Returns whether there is more to do.
    pub(super) fn sweep(&mut self, now: Instant, budget: usize) -> bool {
        let Self { table, undecided, events, counters, config, settings, .. } = self;
        let now_ms = (now.as_nanos() / 1_000_000) as u32;
        let idle = settings.detector.as_ref().map_or(Duration::from_secs(30), |d| d.rtp.idle());
        let realtime_ms = idle.as_nanos() / 1_000_000;
        let crowded = table.crowded();
        table.sweep(now, budget, |n, entry| {
            let timeout = config.timeouts.of_ms(entry, realtime_ms, crowded);
            let idle = u64::from(entry.idle_ms(now_ms));
            let over = idle >= timeout;
            for half in 0..2 {
                let h = &entry.halves[half];
                let silent = u64::from(elapsed_ms(now_ms, h.ssrc_ms)) > realtime_ms;
                if h.realtime && (over || silent) {
                    events.push(FlowEvent::of(now, FlowEventKind::Ended, n, entry, half));
                    counters.ended += 1;
                    entry.halves[half].realtime = false;
                }
            }
            if over {
                for (half, h) in entry.halves.iter().enumerate() {
                    undecided.forget(h.undecided, n << 1 | half as u32);
                }
                counters.expired += 1;
                return None;
            }
            Some(timeout - idle)
        })
    }
}
