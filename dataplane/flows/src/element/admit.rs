//! Admission inside the table: asks about every packet of a recognised flow, and tells what became of flows.

use super::Flows;
use crate::admission::{AdmissionCounters, AdmissionSettings, Books, Origin, SharedAdmission, Turned};
use crate::event::{FlowEvent, FlowEventKind};
use crate::table::Verdict;
use perhop_element::{CounterSink, Cx};
use perhop_packet::{Batch, DropReason, Meta};
use perhop_units::{Instant, Rate};

/// What admission has done and how it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionReport {
    /// Counters.
    pub counters: AdmissionCounters,
    /// Flows admitted now.
    pub admitted: u32,
    /// What they carry, as estimated, at IP length.
    pub used: Rate,
    /// What they may carry.
    pub cap: Rate,
    /// Whether nothing new is accepted.
    pub locked: bool,
}

impl Flows {
    /// Whether a packet of a recognised flow may be real-time; `known` if the flow was recognised before it.
    #[inline]
    pub(super) fn admits(
        &mut self,
        n: u32,
        half: usize,
        meta: &Meta,
        verdict: &Verdict,
        known: bool,
    ) -> bool {
        !self.admission.is_on() || !verdict.promotable() || self.ask(n, half, meta, verdict, known)
    }

    #[inline(never)]
    fn ask(&mut self, n: u32, half: usize, meta: &Meta, verdict: &Verdict, known: bool) -> bool {
        let len = u64::from(meta.layout.ip_len);
        let owner = n << 1 | half as u32;
        let origin = Origin { sla: verdict.sla, from: meta.in_port };
        let (admitted, refused) = self.admission.packet(meta.received_at, owner, len, origin, known);
        if let Some(shortage) = refused {
            self.tell(meta.received_at, FlowEventKind::Refused(shortage), owner);
        }
        self.turns_away = !admitted && self.admission.turned() == Turned::Drop;
        admitted
    }

    /// Ends the intervals of admission that are over.
    #[inline]
    pub(super) fn admission_tick(&mut self, now: Instant) {
        if self.admission.is_on() {
            self.admission.tick(now);
            self.tell_dropped(now);
        }
    }

    /// Other settings of admission.
    pub(super) fn admission_set(&mut self, now: Instant, settings: Option<&AdmissionSettings>) {
        self.admission.set(now, settings);
        self.tell_dropped(now);
    }

    fn tell_dropped(&mut self, now: Instant) {
        let Self { admission, table, events, .. } = self;
        for (owner, shortage) in admission.take_dropped() {
            if let Some(entry) = table.entry(owner >> 1) {
                let half = (owner & 1) as usize;
                events.push(FlowEvent::of(now, FlowEventKind::Dropped(shortage), owner >> 1, entry, half));
            }
        }
    }

    fn tell(&mut self, now: Instant, kind: FlowEventKind, owner: u32) {
        if let Some(entry) = self.table.entry(owner >> 1) {
            self.events.push(FlowEvent::of(now, kind, owner >> 1, entry, (owner & 1) as usize));
        }
    }

    /// Sends a batch on without the packets that are turned away.
    #[cold]
    pub(super) fn emit_admitted(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let mut turned = self.turned_away.iter().map(|at| usize::from(*at)).peekable();
        for (at, packet) in batch.drain().enumerate() {
            if turned.next_if_eq(&at).is_some() {
                cx.drop(packet, DropReason::NotAdmitted);
            } else {
                cx.emit(0, packet);
            }
        }
        self.turned_away.clear();
    }

    /// Books for this element and those of other workers, `workers` in all, whose tables have as much room.
    pub fn shared_admission(&self, workers: usize) -> SharedAdmission {
        SharedAdmission::new(workers, 2 * self.config.connections.max(1))
    }

    /// Keeps the books of admission together with others from now on, as worker `worker` of 16 at the most. To be called before the first
    /// packet.
    pub fn join_admission(&mut self, shared: &SharedAdmission, worker: usize) {
        self.admission = Books::join(shared, worker);
        self.me = worker as u8;
        let settings = self.settings.admission.clone();
        self.admission_set(Instant::ZERO, settings.as_ref());
    }

    /// What admission has done; `None` while everything is admitted, and where another worker tells.
    pub fn admission(&self) -> Option<AdmissionReport> {
        let settings = self.admission.settings().filter(|_| self.admission.tells())?;
        let (counters, admitted, used) = self.admission.totals();
        Some(AdmissionReport { counters, admitted, used, cap: settings.cap, locked: settings.locked })
    }

    pub(super) fn admission_counters(&self, sink: &mut dyn CounterSink) {
        let (counters, admitted, used) = self.admission.totals();
        sink.gauge("flows_admitted_now", u64::from(admitted));
        sink.gauge("admitted_bps", used.0);
        for (name, value) in counters.list() {
            sink.counter(name, value);
        }
    }
}
