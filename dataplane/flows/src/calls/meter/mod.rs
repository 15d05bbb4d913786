//! The quality of one recognised RTP flow, from its packets as they pass.
//!
//! In constant memory and time: which of the last 128 sequence numbers came and which of them in time for a playout
//! buffer, totals of those further back, runs of what was not heard, and RFC 3550 jitter. A packet is in time when it is
//! no further behind the fastest packet of the last half to full minute than the buffer is deep: receivers follow the
//! sender's clock too, and one of 30 ppm is 40 ms away after 22 minutes. Three late ones in succession begin anew, as the path
//! has become longer ([`perhop_quality::playout`]; what jitter would make of the depth is not followed here). Where in the network one looks matters: what is lost
//! or delayed further on is not seen. So each call is measured twice, where it comes in and where it leaves ([`super::way`]).
//!
//! The rating is that of [`perhop_quality::ip_rating`] with the codec that the payload type names (RFC 3551); a codec
//! negotiated dynamically counts as G.711 with concealment. The one-way delay cannot be measured from one place: the
//! part of it that the buffer and the packets make is known, the path's is assumed.
//!
//! Source: RFC 3550 A.1, A.8; ITU-T G.107.

use crate::realtime::clock::{VIDEO_HZ, nearest_clock};
use crate::realtime::rtp::Header;
use perhop_packet::prefetch;
use perhop_quality::playout::ANEW;
use perhop_quality::{Codec, IpImpairment, JitterNs, ip_rating, mos_from_rating};
use perhop_units::{Duration, Instant};
use serde::Serialize;

/// A jump forward of this many packets is a restart of the sender, not loss, once the packet after it has come as well (RFC
/// 3550 A.1).
const MAX_DROPOUT: u16 = 3_000;
/// No sequence number.
const NO_JUMP: u32 = u32::MAX;
/// Sequence numbers whose fate is still open.
const WINDOW: u32 = u128::BITS;
/// The clock is taken from the payload type, else from what the first packets show, and again after this time.
const CLOCK_AFTER: Duration = Duration::from_secs(2);
/// How long the fastest packet is looked for before a new search begins; the one before still counts meanwhile.
const FASTEST_OF: Duration = Duration::from_secs(30);

/// What the rating assumes of the receiver and the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumed {
    /// One-way delay of the fastest packet, from mouth to playout buffer without packetisation.
    pub path_delay: Duration,
    /// Depth of the playout buffer.
    pub playout: Duration,
    /// Whether the receiver conceals lost packets (matters for G.711).
    pub concealment: bool,
}

impl Default for Assumed {
    /// 40 ms of path, 40 ms of buffer, with concealment.
    fn default() -> Self {
        Self { path_delay: Duration::from_millis(40), playout: Duration::from_millis(40), concealment: true }
    }
}

/// Quality of a call so far, as it comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CallInfo {
    /// Packets that should have come since the flow was recognised.
    pub expected: u64,
    /// Different packets that came.
    pub received: u64,
    /// Of these, too late for the playout buffer.
    pub late: u64,
    /// Second and further copies.
    pub duplicate: u64,
    /// Runs of packets that were not heard: lost or late.
    pub loss_runs: u64,
    /// Longest of them, packets.
    pub longest_run: u32,
    /// Interarrival jitter, µs.
    pub jitter_us: u64,
    /// Clock of the timestamps, Hz.
    pub clock_hz: u32,
    /// R factor × 10; `None` for video.
    pub r_tenths: Option<u16>,
    /// Mean opinion score × 1000; `None` for video.
    pub mos_thousandths: Option<u16>,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Meter {
    /// Bit i: number `highest − i` has arrived, and in time.
    arrived: u128,
    heard: u128,
    jitter: JitterNs,
    /// Extended sequence number of the newest packet; `open` is how many before it count.
    highest: u64,
    /// Arrival and timestamp that the search for the fastest packet began with.
    first_at: Instant,
    first_timestamp: u32,
    open: u32,
    /// Smallest arrival − media time, ns, against that packet: of this search and of the one before.
    fastest_ns: i64,
    fastest_before_ns: i64,
    clock_hz: u32,
    clock_known: bool,
    payload_type: u8,
    /// Packets in succession that came too late.
    late: u8,
    /// Ticks from one packet to the next.
    step: u32,
    newest_timestamp: u32,
    closed: Closed,
    duplicate: u32,
    /// The sequence number that would continue the last jump, or [`NO_JUMP`].
    after_jump: u32,
}

/// What has left the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Closed {
    pub expected: u64,
    pub received: u64,
    pub heard: u64,
    runs: u32,
    run: u32,
    longest: u32,
}

impl Closed {
    fn take(&mut self, arrived: bool, heard: bool) {
        self.expected += 1;
        self.received += u64::from(arrived);
        self.heard += u64::from(heard);
        if heard {
            self.run = 0;
        } else {
            self.runs += u32::from(self.run == 0);
            self.run += 1;
            self.longest = self.longest.max(self.run);
        }
    }

    /// Takes `count` lost ones, at least one, at once.
    pub fn lost(&mut self, count: u64) {
        self.take(false, false);
        self.expected += count - 1;
        self.run = self.run.saturating_add(u32::try_from(count - 1).unwrap_or(u32::MAX));
        self.longest = self.longest.max(self.run);
    }
}

impl Meter {
    /// Begins with the packet that decided. `clock_hz` is what its train showed.
    pub fn new(now: Instant, header: &Header, clock_hz: Option<u32>) -> Self {
        let known = clock_of(header.payload_type);
        let clock = known.or(clock_hz).unwrap_or(8_000);
        let mut jitter = JitterNs::new(clock);
        jitter.update(now, header.timestamp);
        Self {
            arrived: 1,
            heard: 1,
            jitter,
            highest: u64::from(header.sequence),
            first_at: now,
            first_timestamp: header.timestamp,
            open: 1,
            fastest_ns: 0,
            fastest_before_ns: i64::MAX,
            clock_hz: clock,
            clock_known: known.is_some(),
            payload_type: header.payload_type,
            late: 0,
            step: 0,
            newest_timestamp: header.timestamp,
            closed: Closed::default(),
            duplicate: 0,
            after_jump: NO_JUMP,
        }
    }

    /// Of the same stream at another place, which this packet passes first.
    pub fn of_the_same(&self, now: Instant, header: &Header) -> Self {
        Self { clock_known: self.clock_known, ..Self::new(now, header, Some(self.clock_hz)) }
    }

    /// The header of a packet of this stream.
    pub fn header(&self, sequence: u16, timestamp: u32) -> Header {
        Header { sequence, timestamp, ssrc: 0, payload_type: self.payload_type }
    }

    /// Brings what [`Meter::packet`] touches near.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(&self.first_at);
        prefetch(&self.newest_timestamp);
    }

    /// Takes a packet of the flow's SSRC. O(1), and one step a lost packet up to twice the window.
    #[inline]
    pub fn packet(&mut self, now: Instant, header: &Header, playout: Duration) {
        let ahead = header.sequence.wrapping_sub(self.highest as u16);
        if (1..MAX_DROPOUT).contains(&ahead) {
            self.advance(u32::from(ahead));
            if ahead == 1 {
                self.step = header.timestamp.wrapping_sub(self.newest_timestamp);
            }
            self.newest_timestamp = header.timestamp;
        } else if (ahead.wrapping_neg() as u32) < self.open.min(WINDOW) {
            if self.arrived >> ahead.wrapping_neg() & 1 != 0 {
                self.duplicate = self.duplicate.saturating_add(1);
                return;
            }
        } else if u32::from(ahead.wrapping_neg()) < WINDOW {
            // Before the first packet of the count.
            return;
        } else {
            self.jump(now, header);
            return;
        }
        let behind = (self.highest as u16).wrapping_sub(header.sequence);
        self.jitter.update(now, header.timestamp);
        self.arrived |= 1 << behind;
        if self.in_time(now, header.timestamp, playout) {
            self.heard |= 1 << behind;
        }
    }

    /// Opens `ahead` numbers; what falls out of the window is closed.
    fn advance(&mut self, ahead: u32) {
        self.highest += u64::from(ahead);
        if ahead > WINDOW {
            self.closed = self.total();
            self.closed.lost(u64::from(ahead - WINDOW));
            (self.arrived, self.heard, self.open) = (0, 0, WINDOW);
            return;
        }
        for _ in 0..ahead {
            if self.open == WINDOW {
                let top = 1 << (WINDOW - 1);
                self.closed.take(self.arrived & top != 0, self.heard & top != 0);
            } else {
                self.open += 1;
            }
            self.arrived <<= 1;
            self.heard <<= 1;
        }
    }

    /// A packet from elsewhere: a stray one, or the sender has begun again with other numbers, which its second packet
    /// shows.
    #[cold]
    fn jump(&mut self, now: Instant, header: &Header) {
        if u32::from(header.sequence) == self.after_jump {
            self.restart(now, header);
            // The one before, too.
            (self.arrived, self.heard, self.open) = (0b11, 0b11, 2);
        } else {
            self.after_jump = u32::from(header.sequence.wrapping_add(1));
        }
    }

    /// The sender began again with other numbers or timestamps: what was open is closed.
    fn restart(&mut self, now: Instant, header: &Header) {
        let before = self.total();
        let fresh = Self::new(now, header, Some(self.clock_hz));
        *self = Self { closed: Closed { run: 0, ..before }, duplicate: self.duplicate, ..fresh };
    }

    fn in_time(&mut self, now: Instant, timestamp: u32, playout: Duration) -> bool {
        let elapsed = now.since(self.first_at);
        if !self.clock_known && elapsed >= CLOCK_AFTER && self.find_clock(now, timestamp, elapsed) {
            return true;
        }
        let media_ns = self.media_ns(timestamp.wrapping_sub(self.first_timestamp));
        let transit = i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX).saturating_sub(media_ns);
        self.fastest_ns = self.fastest_ns.min(transit);
        let fastest = self.fastest_ns.min(self.fastest_before_ns);
        if elapsed > FASTEST_OF {
            (self.first_at, self.first_timestamp) = (now, timestamp);
            self.fastest_before_ns = self.fastest_ns.saturating_sub(transit);
            self.fastest_ns = 0;
        }
        let depth = i64::try_from(playout.as_nanos()).unwrap_or(i64::MAX);
        let in_time = transit.saturating_sub(fastest) <= depth;
        self.late = if in_time { 0 } else { self.late + 1 };
        if self.late == ANEW {
            self.late = 0;
            // What the search began with may have been this packet, just now.
            self.fastest_ns = if elapsed > FASTEST_OF { 0 } else { transit };
            self.fastest_before_ns = i64::MAX;
        }
        in_time
    }

    fn media_ns(&self, ticks: u32) -> i64 {
        i64::from(ticks as i32) * 1_000_000_000 / i64::from(self.clock_hz.max(1))
    }

    /// The usual clock nearest to what the packets show; whether it is another than was thought.
    #[cold]
    fn find_clock(&mut self, now: Instant, timestamp: u32, elapsed: Duration) -> bool {
        self.clock_known = true;
        let ticks = u64::from(timestamp.wrapping_sub(self.first_timestamp));
        let shown = (u128::from(ticks) * 1_000_000_000 / u128::from(elapsed.as_nanos().max(1))) as u64;
        let found = nearest_clock(u32::try_from(shown).unwrap_or(u32::MAX));
        if found == self.clock_hz {
            return false;
        }
        self.clock_hz = found;
        self.jitter = JitterNs::new(found);
        self.jitter.update(now, timestamp);
        (self.fastest_ns, self.fastest_before_ns) = (0, i64::MAX);
        (self.first_at, self.first_timestamp) = (now, timestamp);
        // What was said of lateness was said by another clock.
        self.heard = self.arrived;
        true
    }

    /// Totals, the window included.
    pub(super) fn total(&self) -> Closed {
        let mut total = self.closed;
        for i in (0..self.open).rev() {
            total.take(self.arrived >> i & 1 != 0, self.heard >> i & 1 != 0);
        }
        total
    }

    /// Quality so far. O(window).
    pub fn info(&self, assumed: &Assumed) -> CallInfo {
        let total = self.total();
        let (r_tenths, mos_thousandths) = score(self.is_speech().then(|| self.rating(&total, assumed)));
        CallInfo {
            expected: total.expected,
            received: total.received,
            late: total.received - total.heard,
            duplicate: u64::from(self.duplicate),
            loss_runs: u64::from(total.runs),
            longest_run: total.longest,
            jitter_us: self.jitter.nanos() / 1_000,
            clock_hz: self.clock_hz,
            r_tenths,
            mos_thousandths,
        }
    }

    pub(super) fn is_speech(&self) -> bool {
        clock_of(self.payload_type).unwrap_or(self.clock_hz) < VIDEO_HZ
    }

    pub(super) fn rating(&self, total: &Closed, assumed: &Assumed) -> f64 {
        let codec = codec_of(self.payload_type);
        let packet = match codec {
            Some(codec) => (codec.packet_interval() + codec.look_ahead()).as_millis_f64(),
            None => f64::from(self.step) * 1_000.0 / f64::from(self.clock_hz.max(1)),
        };
        let unheard = (total.expected - total.heard) as f64;
        let expected = total.expected as f64;
        // Random loss gives runs of mean 1 / (1 − loss).
        let burst_ratio = if total.runs == 0 || total.heard == 0 {
            1.0
        } else {
            (unheard / f64::from(total.runs) * (total.heard as f64 / expected)).max(1.0)
        };
        let codec = codec.unwrap_or(Codec::G711U);
        ip_rating(&IpImpairment {
            absolute_delay_ms: assumed.path_delay.as_millis_f64()
                + assumed.playout.as_millis_f64()
                + packet.min(1_000.0),
            loss_pct: unheard / expected * 100.0,
            burst_ratio,
            equipment_impairment: codec.equipment_impairment(),
            loss_robustness: codec.loss_robustness(assumed.concealment),
        })
    }
}

/// R × 10 and MOS × 1000.
pub(super) fn score(rating: Option<f64>) -> (Option<u16>, Option<u16>) {
    let scaled = |value: f64, unit: f64| (value * unit + 0.5) as u16;
    let r = rating.map(|r| scaled(r.clamp(0.0, 100.0), 10.0));
    (r, rating.map(|r| scaled(mos_from_rating(r), 1_000.0)))
}

/// Codec of a static payload type (RFC 3551 table 4).
fn codec_of(payload_type: u8) -> Option<Codec> {
    Codec::ALL.into_iter().find(|c| c.payload_type() == payload_type)
}

/// Clock of a static payload type (RFC 3551 tables 4 and 5).
fn clock_of(payload_type: u8) -> Option<u32> {
    match payload_type {
        0 | 3..=5 | 7..=9 | 12 | 13 | 15 | 18 => Some(8_000),
        6 => Some(16_000),
        10 | 11 => Some(44_100),
        16 => Some(11_025),
        17 => Some(22_050),
        14 | 25 | 26 | 28 | 31..=34 => Some(90_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
