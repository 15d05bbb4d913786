//! # Synopsis
//! `Abr(connections)` lowers the receive windows of TCP acknowledgments so that each flow keeps to its policy's rate.
//!
//! # Ports
//! One input, one output, behind `Flows` and the conditioner: it reads connection, direction, filter, contract and class.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `connections` | integer | connections | 65536 | 16 … 4194304 |
//! | `held` | integer | packets | 4096 | 1 … 65536 |
//! | `credit` | boolean | | true | |
//! | `spread` | boolean | | false | |
//!
//! Policies come as an [`AbrChange`] and change while packets flow.
//!
//! # Behaviour
//! Without a policy every packet passes untouched, at the cost of one comparison a batch.
//!
//! A flow is one direction of a TCP connection with data; the first policy that matches its packets decides. The live
//! flows of a policy share its rate equally. Of a flow both sides' latency is measured: from a segment to the
//! acknowledgment that covers it, never across a retransmission unless time-stamps tell the copies apart, the handshake
//! first; while nothing else is known, what passed twice gives the time since its first copy, up to 1.5 s. An
//! acknowledgment that acknowledges something new gets the window rate × latency × data per packet, in whole segments for
//! a round trip, the rest being credit for the next (lost with `credit = false`, which is for comparison); one that repeats
//! a number repeats its window. The window is never raised, never below one segment, and its right edge does not move
//! left, except when limiting begins, when what the receiver offered beyond the data seen is withdrawn, and where the
//! policy allows it.
//!
//! A flow whose rate is below one segment a round trip has a window of one segment, or, if the policy paces, its
//! acknowledgments are held besides, for 0.8 s at most; everything else of that direction then stays behind them. What
//! finds the store full lets the oldest go.
//!
//! With `spread` an acknowledgment of something new without data goes no sooner than the rate has room for what the one before let
//! go, and waits for a quarter of the round trip and for 200 ms at most; longer only behind others. Windows are
//! then the next whole segments above what the rate needs, if those are a sixteenth more at least and no more than such a wait makes
//! up for. Otherwise they change by a segment as the flow is ahead of its rate and behind it. Flows that repair a loss are not held.
//!
//! Left alone are: fragments, everything but TCP, connections with MD5, TCP-AO or multipath options or an authentication
//! header, those whose handshake did not pass here (without it the window's scale is not known) unless the policy
//! assumes a shift, and those whose latency is not known yet. A SYN is never changed, a SYN/ACK if the policy says so.
//!
//! A connection is forgotten 10 s after both ends have closed it, on a RST within what is outstanding, and after 300 s of
//! silence (30 s if only one end was ever heard). A SYN with another number begins it anew, unless both ends were heard within
//! the last second. Segments and acknowledgments that no end would believe tell nothing. In a full table a new
//! connection takes the place of one that was never answered or is silent for 10 s; of four looked at. When there is
//! none it is not followed.
//!
//! # Counters
//! Segments: `segments`, `rewritten`, `retransmissions`, `floor_limited`, `held_packets`, `hold_full`, `table_full`; left
//! alone, by reason: `bypassed_md5`, `bypassed_ao`, `bypassed_mptcp`, `bypassed_unknown_shift`, `bypassed_no_latency`,
//! `bypassed_not_matched`. Latency: `samples`, `samples_refused`, `reinitialised`. Connections: `connections` (gauge),
//! `created`, `ended`, `evicted`. `waiting` (gauge): packets held now.
//!
//! # Invariants
//! Nothing of a packet changes but window and checksum, and the checksum stays right if it was. A window is never raised
//! and never written as zero. With `spread` no more is let go in any time than the rate has in it and five segments. Acknowledgments with the same number carry the same limit. The mean of the limits is what
//! the rate needs. Nothing is dropped, and whole segments keep their order within a direction of a connection. No
//! allocation per packet.
//!
//! # Example
//! `abr :: Abr(connections = 1000)`
//!
//! # Source
//! S. Reddy (`docs/sources.md`), chapters 4 to 6; RFC 9293, RFC 7323, RFC 1624.

use crate::controller::{Controller, Verdict};
use crate::hold::Held;
use crate::live::LiveFlows;
use crate::policies::{Facts, PolicyCounters};
use crate::segment::Checksum;
use crate::settings::{AbrPolicyId, Settings};
use crate::state::FlowState;
use crate::table::Locator;
use perhop_element::{
    ArgError, Args, BuildCx, CounterSink, Cx, Element, ElementState, ElementType, PortCount, PortIndex,
    Reader, TimerId,
};
use perhop_packet::{Batch, Direction, Meta, NO_CONNECTION, Packet};
use perhop_units::{Duration, Instant};
use perhop_wire::protocol;
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// A prepared change of the element's settings.
#[derive(Clone, Debug, Default)]
pub struct AbrChange {
    /// New settings, `None`: as before.
    pub settings: Option<Arc<Settings>>,
}

/// Connections whose look-up runs side by side.
const CHUNK: usize = 32;
/// Connections looked at by one push and by one timer.
const LOOKS_PUSH: usize = 16;
const LOOKS_WAKE: usize = 2_048;
/// Most packets held unless said otherwise.
const HELD: usize = 4_096;

/// Held packets, released when they are given up.
#[derive(Debug)]
struct Store(Held<Packet>);

impl Drop for Store {
    fn drop(&mut self) {
        while let Some(packet) = self.0.pop() {
            packet.release();
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Abr {
    controller: Controller,
    held: Store,
    /// What is to become of each packet of the batch.
    until: Vec<Verdict>,
    keyed: bool,
    /// When the timer is set for.
    armed: Option<Instant>,
}

impl Abr {
    /// An element for at most `connections` connections under `settings`. Reserves all memory it will use.
    pub fn new(connections: usize, settings: Arc<Settings>) -> Self {
        Self::with_store(connections, HELD, settings)
    }

    /// As [`Abr::new`], holding at most `held` packets.
    pub fn with_store(connections: usize, held: usize, settings: Arc<Settings>) -> Self {
        Self {
            controller: Controller::new(connections, settings, 0),
            held: Store(Held::new(held)),
            until: Vec::with_capacity(Batch::MAX),
            keyed: false,
            armed: None,
        }
    }

    /// With or without credit for what windows are short of, see [`Controller::set_credit`].
    #[must_use]
    pub fn with_credit(mut self, credit: bool) -> Self {
        self.controller.set_credit(credit);
        self
    }

    /// With or without acknowledgments that are spread, see [`Controller::set_spread`].
    #[must_use]
    pub fn with_spread(mut self, spread: bool) -> Self {
        self.controller.set_spread(spread);
        self
    }

    /// Divides what policies have between the flows of all workers that count in `live`. To be called before the first
    /// packet.
    pub fn share_with_others(&mut self, live: Arc<LiveFlows>) {
        self.controller.share_with_others(live);
    }

    /// Puts a prepared change into force. Returns what was replaced, so that the caller can drop it where that does not
    /// delay packets. Flows find their policies again with their next data. O(policies).
    pub fn commit(&mut self, change: AbrChange) -> AbrChange {
        AbrChange { settings: change.settings.map(|new| self.controller.replace(new)) }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        self.controller.settings()
    }

    /// Slots of the table of connections: [`Abr::flows`] knows those below.
    pub fn slots(&self) -> u32 {
        self.controller.slots()
    }

    /// The flows in the slots of `range` that belong to a policy. O(length of the range).
    pub fn flows(&self, range: Range<u32>) -> impl Iterator<Item = FlowState> + '_ {
        self.controller.flows(range)
    }

    /// What policy `id` has done; zeros if it never was.
    pub fn policy_counters(&self, id: AbrPolicyId) -> PolicyCounters {
        self.controller.policy_counters(id)
    }

    /// A batch in chunks: all numbers on their way from memory, then all connections, then the packets. Whether some are
    /// to be held; `until` says which.
    fn control(&mut self, packets: &mut [Packet]) -> bool {
        let followed =
            |meta: &Meta| meta.layout.protocol == protocol::TCP && meta.connection != NO_CONNECTION;
        let mut some = false;
        self.until.clear();
        for packets in packets.chunks_mut(CHUNK) {
            for meta in packets.iter().map(Packet::meta).filter(|meta| followed(meta)) {
                self.controller.prefetch_number(meta.connection);
            }
            for meta in packets.iter().map(Packet::meta).filter(|meta| followed(meta)) {
                self.controller.prefetch_connection(meta.connection);
            }
            for packet in packets {
                let (meta, frame) = packet.parts_mut();
                let verdict = if followed(meta) { self.segment(meta, frame) } else { Verdict::Pass };
                self.until.push(verdict);
                some |= verdict != Verdict::Pass;
            }
        }
        some
    }

    #[inline]
    fn segment(&mut self, meta: &Meta, frame: &mut [u8]) -> Verdict {
        let locator =
            Locator::Connection { number: meta.connection, reverse: meta.direction == Direction::Reverse };
        let facts = Facts { class: meta.class, sla: meta.sla, filter: meta.filter };
        self.controller.segment(meta.received_at, locator, &facts, &meta.layout, frame, Checksum::Complete)
    }

    /// Sends what may go on and keeps the rest.
    fn emit_or_hold(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        for (packet, verdict) in batch.drain().zip(&self.until) {
            match *verdict {
                Verdict::Pass => cx.emit(0, packet),
                Verdict::HoldUntil(until) => {
                    if let Some(early) = self.held.0.push(until, packet) {
                        self.controller.counters_mut().hold_full += 1;
                        cx.emit(0, early);
                    }
                }
            }
        }
    }

    fn release(&mut self, cx: &mut Cx<'_>) {
        while let Some(packet) = self.held.0.release(cx.now()) {
            cx.emit(0, packet);
        }
    }

    fn arm(&mut self, cx: &mut Cx<'_>, soon: bool) {
        let soon = soon.then(|| cx.now() + Duration::from_millis(1));
        let next =
            [soon, self.controller.next_wakeup(), self.held.0.next_wakeup()].into_iter().flatten().min();
        if let Some(at) = next.filter(|at| self.armed.is_none_or(|armed| *at < armed)) {
            self.armed = Some(at);
            cx.timer_at(at);
        }
    }
}

/// What moves to a successor.
struct State {
    controller: Controller,
    held: Store,
    keyed: bool,
}

impl Element for Abr {
    fn type_name(&self) -> &'static str {
        "Abr"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        if self.controller.is_idle() && self.held.0.is_empty() {
            cx.emit_all(0, batch);
            return;
        }
        if !self.keyed {
            self.keyed = true;
            let seed = u64::from(cx.random()) << 32 | u64::from(cx.random());
            self.controller.rekey(seed);
        }
        self.release(cx);
        let more = self.controller.tick(cx.now(), LOOKS_PUSH);
        if self.control(batch.as_mut_slice()) {
            self.emit_or_hold(cx, batch);
        } else {
            cx.emit_all(0, batch);
        }
        self.arm(cx, more);
    }

    fn wake(&mut self, cx: &mut Cx<'_>, _timer: TimerId) {
        self.armed = None;
        self.release(cx);
        let more = self.controller.tick(cx.now(), LOOKS_WAKE);
        self.arm(cx, more);
    }

    fn held(&self) -> u64 {
        self.held.0.len() as u64
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        sink.gauge("connections", self.controller.connections() as u64);
        sink.gauge("waiting", self.held.0.len() as u64);
        self.controller.counters().report(sink);
    }

    /// Connections and held packets move, with their own limits; the policies too, unless the successor has its own.
    fn export_state(&mut self) -> Option<ElementState> {
        let empty = Self::with_store(1, 1, Arc::clone(self.controller.settings()));
        let old = std::mem::replace(self, empty);
        Some(Box::new(State { controller: old.controller, held: old.held, keyed: old.keyed }))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let State { mut controller, held, keyed } = *state.downcast::<State>()?;
        if !self.controller.is_idle() {
            controller.replace(Arc::clone(self.controller.settings()));
        }
        controller.set_credit(self.controller.credit());
        controller.set_spread(self.controller.spread());
        (self.controller, self.held, self.keyed, self.armed) = (controller, held, keyed, None);
        Ok(())
    }

    fn drain(&mut self, out: &mut Batch) {
        while let Some(packet) = self.held.0.pop() {
            out.push(packet);
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The element types of this crate.
pub fn types() -> Vec<ElementType> {
    vec![ElementType {
        name: "Abr",
        synopsis: "Lowers the receive windows of TCP acknowledgments so that each flow keeps to its rate.",
        inputs: PortCount::Exactly(1),
        outputs: PortCount::Exactly(1),
        build,
        sample: |rng| {
            let (connections, held) = (16 << (rng.next_u32() % 6), 1 + rng.next_u32() % 64);
            let [credit, spread] = [(); 2].map(|()| rng.next_u32() & 1 == 0);
            format!("connections = {connections}, held = {held}, credit = {credit}, spread = {spread}")
        },
    }]
}

fn build(args: &Args, _cx: &mut BuildCx) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let connections = r.optional_in("connections", None, 65_536, 16..=4_194_304);
    let held = r.optional_in("held", None, HELD, 1..=65_536);
    let credit = r.flag("credit", true);
    let spread = r.flag("spread", false);
    r.finish(())?;
    Ok(Box::new(Abr::with_store(connections, held, Arc::default()).with_credit(credit).with_spread(spread)))
}

#[cfg(test)]
#[path = "element_tests.rs"]
mod tests;
