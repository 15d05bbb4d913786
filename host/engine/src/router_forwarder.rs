//! A router's worker as a [`Forwarder`].

use crate::accounting::{RawCost, RawTrace};
use crate::forwarder::Notice;
use crate::forwarder::{Forwarder, Step};
use crate::graph_forwarder::element_rows;
use crate::outbox::Outbox;
use crate::report::Row;
use crate::told::ToControl;
use crate::wait::Wake;
use crossbeam_channel::Sender;
use perhop_abr::{AbrPolicyId, FlowState, PolicyCounters};
use perhop_element::{CounterSink, NodeId};
use perhop_elements::police::{ConditionCounters, Conditioner};
use perhop_elements::queue::Wait;
use perhop_elements::schedule::{ClassCounters, NodeIndex};
use perhop_flows::{AdmissionReport, FlowEvent, FlowTuple};
use perhop_graph::router::{Change, ChangeStep, Member, Worker, WorkerEvent};
use perhop_packet::{Batch, ClassId, DropReason, Pool, PortId, ProfileId, SlaId};
use perhop_ring::Bell;
use perhop_units::{Duration, Instant, Rate};
use std::sync::Arc;

/// A change on its way: with the ticket of its transaction, or none when it belongs to none.
pub(crate) struct ChangeJob {
    pub(crate) ticket: Option<u64>,
    pub(crate) change: Change,
}

pub(crate) struct RouterForwarder {
    member: Member,
    /// Which of the router's packet threads it is on.
    me: usize,
    /// Of the router's packet threads, in their order.
    alarms: Arc<[Alarm]>,
    port_names: Vec<String>,
    outbox: Outbox<ToControl>,
    flows: Sender<FlowEvent>,
    flows_missed: u64,
    events: Vec<WorkerEvent>,
}

/// Ends the sleep of a packet thread that others hand something to.
pub(crate) struct Alarm {
    bell: Bell,
    wake: Arc<Wake>,
}

impl Alarm {
    pub(crate) fn new(wake: Arc<Wake>) -> Self {
        Self { bell: Bell::new(), wake }
    }
}

/// Counters of one class, by its place in a port's tree.
pub(crate) struct RawClass {
    pub(crate) port: PortId,
    pub(crate) leaf: u32,
    pub(crate) counters: ClassCounters,
    pub(crate) backlog: (u64, u64),
    pub(crate) draining: bool,
    pub(crate) throttled: bool,
    /// Guarantee and ceiling as they are enforced.
    pub(crate) bounds: [Option<Rate>; 2],
}

/// Which tables' counters are wanted.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) profiles: Vec<ProfileId>,
    pub(crate) slas: Vec<SlaId>,
    pub(crate) realtime: Vec<ClassId>,
    pub(crate) abr: Vec<AbrPolicyId>,
}

/// What a worker counts, by number.
#[derive(Default)]
pub(crate) struct Raw {
    pub(crate) elements: Vec<Row>,
    /// In pieces, none of which ever grows beyond what it was made for.
    pub(crate) classes: Vec<Vec<RawClass>>,
    pub(crate) profiles: Vec<(ProfileId, ConditionCounters)>,
    pub(crate) slas: Vec<(SlaId, ConditionCounters)>,
    pub(crate) realtime: Vec<(ClassId, ConditionCounters)>,
    pub(crate) costs: Vec<RawCost>,
    pub(crate) trace: RawTrace,
    pub(crate) admission: Option<AdmissionReport>,
    pub(crate) abr: RawAbr,
}

/// What the TCP rate control says, by number.
#[derive(Default)]
pub(crate) struct RawAbr {
    pub(crate) policies: Vec<(AbrPolicyId, PolicyCounters)>,
    /// With the addresses of the data's direction, while its connection is known.
    pub(crate) flows: Vec<(FlowState, Option<FlowTuple>)>,
}

impl RouterForwarder {
    /// The only worker, or one of several that have `alarms`. `control` takes what must be told, `flows` the events of flows
    /// as long as it has room.
    pub(crate) fn new(
        (member, me, alarms): (Member, usize, Arc<[Alarm]>),
        port_names: Vec<String>,
        control: Sender<ToControl>,
        flows: Sender<FlowEvent>,
    ) -> Self {
        let outbox = Outbox::new(control);
        Self { member, me, alarms, port_names, outbox, flows, flows_missed: 0, events: Vec::new() }
    }

    /// To answer the control thread.
    pub(crate) fn outbox(&mut self) -> &mut Outbox<ToControl> {
        &mut self.outbox
    }

    pub(crate) fn worker(&self) -> &Worker {
        self.member.worker()
    }

    #[cfg(test)]
    pub(crate) fn worker_mut(&mut self) -> &mut Worker {
        self.member.worker_mut()
    }

    pub(crate) fn port_count(&self) -> usize {
        self.port_names.len()
    }

    /// Whether an element is the conditioner, whose counters are sums over what it conditions.
    pub(crate) fn is_conditioner(&self, id: NodeId) -> bool {
        self.worker().driver().element_ref::<Conditioner>(id).is_some()
    }

    /// What every element counts, in one go: when nothing is forwarded any more.
    pub(crate) fn element_rows(&self) -> Vec<Row> {
        element_rows(self.worker().driver())
    }
}

impl RouterForwarder {
    /// Wakes the packet threads that sleep and were handed something.
    #[inline]
    fn ring_others(&mut self) {
        let rung = self.member.take_rung();
        if rung == 0 {
            return;
        }
        let rung = self.alarms.iter().enumerate().filter(|(i, _)| rung & 1 << i != 0);
        for (_, alarm) in rung.filter(|(_, alarm)| alarm.bell.ring()) {
            alarm.wake.wake();
        }
    }
}

impl Raw {
    /// Adds a class; a piece is full with `piece` of them.
    pub(crate) fn push(&mut self, class: RawClass, piece: usize) {
        if self.classes.last().is_none_or(|last| last.len() >= piece) {
            self.classes.push(Vec::with_capacity(piece));
        }
        if let Some(last) = self.classes.last_mut() {
            last.push(class);
        }
    }
}

/// Between which lengths each leaf of a port was since the last call, by slot.
fn length_ranges(worker: &mut Worker, now: Instant, port: PortId) -> Vec<(NodeIndex, [u64; 2])> {
    let Some(egress) = worker.egress(port) else { return Vec::new() };
    let leaves = egress.tree().iter().filter(|class| class.params.queue.is_some());
    let leaves: Vec<NodeIndex> = leaves.map(|class| class.index).collect();
    leaves.into_iter().filter_map(|leaf| Some((leaf, worker.length_range(now, port, leaf)?))).collect()
}

impl Forwarder for RouterForwarder {
    type Job = Box<ChangeJob>;
    const PRETEND: Duration = Duration::ZERO;

    fn pool(&self) -> &Pool {
        self.worker().driver().pool()
    }
    fn receive(&mut self, now: Instant, port: PortId, batch: &mut Batch) {
        self.member.receive(now, port, batch);
    }
    fn send_own(&mut self, now: Instant, port: PortId, batch: &mut Batch) {
        self.member.send_own(now, port, batch);
    }
    fn poll(&mut self, now: Instant) -> usize {
        self.member.poll(now)
    }
    fn next_wakeup(&mut self) -> Option<Instant> {
        self.member.worker_mut().next_wakeup()
    }
    fn transmit_queue(&mut self, port: PortId) -> Option<&mut Batch> {
        self.member.worker_mut().transmit_queue(port)
    }
    fn local_queue(&mut self) -> &mut Batch {
        self.member.worker_mut().local_queue()
    }
    fn set_port_room(&mut self, now: Instant, port: PortId, packets: u32) {
        self.member.worker_mut().set_port_room(now, port, packets);
    }
    fn sent_by_kernel(&mut self, now: Instant, port: PortId, packets: u64, bytes: u64) {
        self.member.worker_mut().port_sent_by_kernel(now, port, packets, bytes);
    }
    fn port_down(&mut self, _now: Instant, _port: PortId) {}
    fn port_up(&mut self, _now: Instant, _port: PortId) {}

    fn run(&mut self, now: Instant, job: &mut Box<ChangeJob>) -> Step {
        match self.member.apply(now, &mut job.change) {
            ChangeStep::More => Step::More,
            ChangeStep::Done => Step::Done,
        }
    }

    fn exchange(&mut self, clock: &mut dyn FnMut() -> Instant) -> bool {
        self.member.exchange(clock)
    }

    fn is_halted(&self) -> bool {
        self.member.is_halted()
    }

    fn doze(&mut self) -> bool {
        let [_, _, ..] = &*self.alarms else { return true };
        self.alarms[self.me].bell.doze();
        let idle = !self.member.has_input();
        if !idle {
            self.rouse();
        }
        idle
    }

    fn rouse(&mut self) {
        if let Some(mine) = self.alarms.get(self.me) {
            mine.bell.rouse();
        }
    }

    fn finished(&mut self, _now: Instant, job: Box<ChangeJob>) {
        self.outbox.deliver(ToControl::Applied(job));
    }

    fn notice(&mut self, notice: Notice) {
        self.outbox.deliver(ToControl::Notice(notice));
    }

    /// That a leaf is free must be known: its class drains until then. A flow's event may be missed, and so may the wish
    /// for a neighbour, which is repeated as long as packets want it.
    fn turn_ended(&mut self, now: Instant) -> bool {
        self.ring_others();
        self.member.take_events(now, &mut self.events);
        for event in self.events.drain(..) {
            match event {
                WorkerEvent::Freed(freed) => self.outbox.deliver(ToControl::Freed(freed)),
                WorkerEvent::Flow(event) => {
                    self.flows_missed += u64::from(self.flows.try_send(event).is_err());
                }
                WorkerEvent::NeighbourWanted { port, address } => {
                    self.outbox.offer(ToControl::NeighbourWanted(port, address));
                }
            }
        }
        self.outbox.flush()
    }

    fn notices_dropped(&self) -> u64 {
        self.outbox.dropped() + self.flows_missed
    }

    fn sample(&mut self, now: Instant, sink: &mut dyn CounterSink) {
        let worker = self.member.worker_mut();
        worker.log_waits();
        for (i, name) in self.port_names.iter().enumerate() {
            let port = PortId(i as u16);
            let mut ranges = length_ranges(worker, now, port).into_iter().peekable();
            let Some(egress) = worker.egress(port).filter(|e| !e.is_away()) else { continue };
            let (mut packets, mut bytes) = (0, 0);
            for class in egress.tree().iter() {
                packets += class.backlog_packets;
                bytes += class.backlog_bytes;
                sink.gauge(&format!("{name}/{}.backlog_bytes", class.name), class.backlog_bytes);
                if let Some((_, [least, most])) = ranges.next_if(|(of, _)| *of == class.index) {
                    sink.gauge(&format!("{name}/{}.backlog_least", class.name), least);
                    sink.gauge(&format!("{name}/{}.backlog_most", class.name), most);
                }
                let counters = class.counters;
                let early =
                    class.params.queue.as_ref().map_or(DropReason::RedEarly, |leaf| leaf.kind.early());
                let early = format!("dropped_{}", early.name());
                for (counter, value) in [
                    ("sent_bytes", counters.bytes),
                    ("borrowed_bytes", counters.borrowed + counters.shared),
                    ("dropped_queue_full", counters.dropped_queue_full),
                    (&*early, counters.dropped_early),
                    ("dropped_class_removed", counters.dropped_class_removed),
                ] {
                    sink.counter(&format!("{name}/{}.{counter}", class.name), value);
                }
            }
            sink.gauge(&format!("{name}.backlog_packets"), packets);
            sink.gauge(&format!("{name}.backlog_bytes"), bytes);
        }
    }

    fn take_waits(&mut self) -> Vec<(String, Vec<Wait>)> {
        let worker = self.member.worker_mut();
        let ports = self.port_names.iter().enumerate();
        ports.map(|(i, name)| (name.clone(), worker.take_waits(PortId(i as u16)))).collect()
    }
}
