//! The world: nodes, links and everything on its way between them, under one virtual clock.
//!
//! An event wakes one entity: a direction of a link whose next packet arrives, a sender, an end of a connection, a
//! router's timer. What it causes at the same instant is done before the next event. Nothing here asks the machine for
//! time or chance, so a seed fixes a run to the byte.

use crate::agenda::{Agenda, Entity};
use crate::buffers::Buffers;
use crate::capture::Capture;
use crate::controller::{Controller, Delivered};
use crate::datagrams::Datagrams;
use crate::error::SimError;
use crate::frame::{FRAME_LEN, IP_LEN, datagram, mac};
use crate::front::Front;
use crate::node::{Kind, Node, age, destination};
use crate::sample::LaneQueues;
use crate::transport::Transport;
use crate::way::Way;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use perhop_packet::{DropReason, Packet};
use perhop_scenario::{Change, FaultKind, LinkIndex, NodeIndex, Paths, RouterChange};
use perhop_units::{Duration, Instant};
use perhop_wire::protocol;
use std::net::Ipv4Addr;

/// One direction of a link with what stands before it.
pub(crate) struct Lane {
    pub(crate) way: Way,
    pub(crate) entity: Entity,
    pub(crate) front: Option<(Front, Entity)>,
}

/// Who an entity is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// A direction of a link: [`World::lanes`].
    Lane(usize),
    /// The discipline before it.
    Front(usize),
    /// A node's own timers.
    Node(usize),
    /// A source of datagrams.
    Sender(usize),
    /// An end of a connection.
    End(usize),
    /// A driver of connections.
    Application(usize),
    /// The controller of a domain.
    Controller(usize),
    /// What the scenario says.
    Script,
    /// Segments between hosts and their first links.
    AccessLines,
}

/// Something the scenario says.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Change { lane: usize, change: Change },
    Fault { node: usize, kind: FaultKind },
    Router { node: usize, change: RouterChange },
    WindowBegins,
    WindowEnds,
    Sample,
    Second,
}

/// See the module.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) agenda: Agenda,
    pub(crate) who: Vec<Who>,
    pub(crate) buffers: Buffers,
    pub(crate) paths: Paths,
    pub(crate) nodes: Vec<Node>,
    pub(crate) node_of: HashMap<Ipv4Addr, usize, FixedState>,
    /// Two for each link: from its first end, and back.
    pub(crate) lanes: Vec<Lane>,
    /// Nodes at the ends of each link.
    pub(crate) ends: Vec<[usize; 2]>,
    pub(crate) captures: Vec<Option<Capture>>,
    pub(crate) datagrams: Datagrams,
    pub(crate) transport: Transport,
    /// What the scenario says, by time, last first.
    pub(crate) script: Vec<(Instant, Step)>,
    pub(crate) script_entity: Entity,
    /// The measurement is over: hosts send nothing more.
    pub(crate) quiet: bool,
    pub(crate) check_books: bool,
    pub(crate) sampling: bool,
    pub(crate) sampled: Vec<LaneQueues>,
    pub(crate) controllers: Vec<Controller>,
}

impl World {
    /// A new entity.
    pub(crate) fn entity(&mut self, who: Who) -> Entity {
        let entity = self.agenda.add();
        let index = entity.0 as usize;
        if index < self.who.len() {
            self.who[index] = who;
        } else {
            self.who.push(who);
        }
        entity
    }

    /// Runs to `until`.
    pub(crate) fn run_until(&mut self, until: Instant) -> Result<(), SimError> {
        while let Some((at, entity)) = self.agenda.take(until) {
            self.now = at;
            match self.who[entity.0 as usize] {
                Who::Lane(lane) => self.arrive(lane),
                Who::Front(lane) => self.wake_front(lane),
                Who::Node(node) => self.wake_node(node),
                Who::Sender(sender) => self.emit(sender),
                Who::End(end) => self.wake_end(end),
                Who::Application(application) => self.wake_application(application),
                Who::Controller(controller) => self.wake_controller(controller)?,
                Who::Script => self.play()?,
                Who::AccessLines => self.wake_access_lines(),
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    // ---- links

    /// Hands a packet to a direction of a link.
    pub(crate) fn offer(&mut self, lane: usize, packet: Packet) {
        let now = self.now;
        let state = &mut self.lanes[lane];
        if state.front.is_some() {
            if let Some((front, _)) = &mut state.front {
                front.offer(now, packet);
            }
            return self.drain_front(lane);
        }
        state.way.offer(now, packet, &mut self.buffers);
        if let Some(at) = state.way.next_arrival() {
            self.agenda.arm(state.entity, at);
        }
    }

    fn wake_front(&mut self, lane: usize) {
        if let Some((front, _)) = &mut self.lanes[lane].front {
            front.wake(self.now);
        }
        self.drain_front(lane);
    }

    fn drain_front(&mut self, lane: usize) {
        let state = &mut self.lanes[lane];
        let Some((front, entity)) = &mut state.front else { return };
        while let Some(packet) = front.released() {
            state.way.offer(self.now, packet, &mut self.buffers);
        }
        if let Some(at) = front.next_wakeup() {
            self.agenda.arm(*entity, at);
        }
        if let Some(at) = state.way.next_arrival() {
            self.agenda.arm(state.entity, at);
        }
    }

    /// Takes what has arrived over a link.
    fn arrive(&mut self, lane: usize) {
        while let Some(packet) = self.lanes[lane].way.arrived(self.now) {
            if let Some(Some(capture)) = self.captures.get_mut(lane / 2) {
                capture.write(self.now, packet.frame());
            }
            self.deliver(lane, packet);
        }
        let state = &self.lanes[lane];
        if let Some(at) = state.way.next_arrival() {
            self.agenda.arm(state.entity, at);
        }
    }

    /// Gives a packet to the node at the far end of a link.
    fn deliver(&mut self, lane: usize, mut packet: Packet) {
        packet.meta_mut().received_at = self.now;
        let (link, end) = (LinkIndex(lane / 2), 1 - lane % 2);
        let index = self.ends[lane / 2][1 - lane % 2];
        let node = &mut self.nodes[index];
        node.books.received += 1;
        if !node.up {
            return self.lose(index, lane, packet, DropReason::PortDown);
        }
        match &mut node.kind {
            Kind::Host => self.host_receives(index, lane, packet),
            Kind::Forwarder => self.forward(index, lane, packet),
            Kind::Router(router) => {
                let way = &mut self.lanes[lane].way;
                router.receive(self.now, link, end, packet, |reason, packets| {
                    way.lost_at_end(reason, packets);
                });
                self.after_router(index);
            }
        }
    }

    // ---- nodes

    /// A node loses a packet, which counts among the drops of the link that brought it.
    fn lose(&mut self, index: usize, lane: usize, packet: Packet, reason: DropReason) {
        self.lanes[lane].way.lost_at_end(reason.index(), 1);
        self.nodes[index].books.drop(packet, reason);
    }

    fn forward(&mut self, index: usize, lane: usize, mut packet: Packet) {
        let to = destination(packet.frame()).and_then(|address| self.node_of.get(&address).copied());
        let Some(to) = to else { return self.lose(index, lane, packet, DropReason::NoRoute) };
        if to == index {
            self.nodes[index].books.consumed += 1;
            return packet.release();
        }
        if let Err(reason) = age(packet.frame_mut()) {
            return self.lose(index, lane, packet, reason);
        }
        let Some((link, end)) = self.paths.first_link(NodeIndex(index), NodeIndex(to)) else {
            return self.lose(index, lane, packet, DropReason::NoRoute);
        };
        self.nodes[index].books.sent += 1;
        let frame = packet.frame_mut();
        frame[..6].copy_from_slice(&mac(link, 1 - end).0);
        frame[6..12].copy_from_slice(&mac(link, end).0);
        self.offer(link.0 * 2 + end, packet);
    }

    /// Carries on what a router let out, and notes when it wants to be woken.
    pub(crate) fn after_router(&mut self, index: usize) {
        let mut left: Vec<(usize, Packet)> = Vec::new();
        let node = &mut self.nodes[index];
        if let Kind::Router(router) = &mut node.kind {
            // A stopped router is silent: its queues end in nothing.
            let (up, books, lanes) = (node.up, &mut node.books, &mut self.lanes);
            router.sent(|link, end, packet| {
                let lane = link.0 * 2 + end;
                if up {
                    left.push((lane, packet));
                } else {
                    lanes[lane].way.lost_at_end(DropReason::PortDown.index(), 1);
                    books.drop(packet, DropReason::PortDown);
                }
            });
            if let Some(at) = router.next_wakeup() {
                self.agenda.arm(node.entity, at.max(self.now));
            }
        }
        for (lane, packet) in left {
            self.offer(lane, packet);
        }
    }

    fn wake_node(&mut self, index: usize) {
        if let Kind::Router(router) = &mut self.nodes[index].kind {
            router.wake(self.now);
            self.after_router(index);
            self.tell_leased(index);
        }
    }

    fn host_receives(&mut self, index: usize, lane: usize, packet: Packet) {
        let frame = packet.frame();
        let ours = destination(frame).is_some_and(|to| self.node_of.get(&to) == Some(&index));
        if !ours {
            return self.lose(index, lane, packet, DropReason::OtherHost);
        }
        let transport = frame.get(FRAME_LEN + 9).copied();
        if transport == Some(protocol::TCP) {
            return self.segment_arrives(index, packet);
        }
        if transport == Some(protocol::UDP) {
            let clock = self.nodes[index].clock.read(self.now);
            let payload = frame.get(FRAME_LEN + IP_LEN + 8..).unwrap_or_default();
            self.datagrams.received(payload, clock);
        }
        self.nodes[index].books.consumed += 1;
        packet.release();
    }

    /// Sends what a source has due.
    fn emit(&mut self, index: usize) {
        while !self.quiet {
            let sender = &mut self.datagrams.senders[index];
            let entity = sender.entity;
            let Some(emission) = sender.due.or_else(|| sender.source.next()) else { return };
            let at = Instant(emission.at.as_nanos());
            if at > self.now {
                sender.due = Some(emission);
                return self.agenda.arm(entity, at);
            }
            sender.due = None;
            let from = sender.from;
            let node = &mut self.nodes[from.0];
            if !node.up {
                continue;
            }
            let clock = node.clock.read(self.now);
            node.identification = node.identification.wrapping_add(1);
            let header = sender.header(node.identification);
            let ports = sender.ports(emission.stream);
            let (hop, to) = (sender.hop, sender.addresses.1);
            self.datagrams.sent(&emission, clock);
            let fill = |payload: &mut [u8]| {
                // The length was asked for, so the payload always fits.
                let written = emission.fill(clock, payload);
                debug_assert!(written.is_ok(), "{written:?}");
            };
            match datagram(&mut self.buffers, hop, header, ports, emission.len, fill) {
                Some(packet) => self.leave_host(from, to, packet),
                None => self.nodes[from.0].books.out_of_buffers(),
            }
        }
    }

    /// A packet a host made goes to its first link.
    pub(crate) fn leave_host(&mut self, from: NodeIndex, to: Ipv4Addr, mut packet: Packet) {
        packet.meta_mut().received_at = self.now;
        let books = &mut self.nodes[from.0].books;
        books.made += 1;
        let first = self.node_of.get(&to).and_then(|to| self.paths.first_link(from, NodeIndex(*to)));
        let Some((link, end)) = first else { return books.drop(packet, DropReason::NoRoute) };
        books.sent += 1;
        self.offer(link.0 * 2 + end, packet);
    }

    // ---- the scenario's script

    fn play(&mut self) -> Result<(), SimError> {
        while self.script.last().is_some_and(|(at, _)| *at <= self.now) {
            let Some((_, step)) = self.script.pop() else { break };
            match step {
                Step::Change { lane, change } => self.change(lane, &change)?,
                Step::Fault { node, kind } => self.fault(node, kind),
                Step::Router { node, change } => self.reconfigure(node, &change)?,
                Step::WindowBegins => {
                    for lane in &mut self.lanes {
                        lane.way.window_begins(self.now);
                    }
                    for router in self.nodes.iter_mut().filter_map(Node::router) {
                        router.window_begins();
                    }
                    self.sample_baseline();
                }
                Step::WindowEnds => {
                    for lane in &mut self.lanes {
                        lane.way.window_ends(self.now);
                    }
                    for router in self.nodes.iter_mut().filter_map(Node::router) {
                        router.window_ends();
                    }
                    // Nothing is sampled behind the end.
                    self.sample_once();
                    self.sampling = false;
                }
                Step::Sample if self.sampling => self.sample(),
                Step::Sample => {}
                Step::Second => {
                    self.check_conservation()?;
                    self.schedule_next(Duration(self.now.as_nanos()) + Duration::from_secs(1), Step::Second);
                }
            }
        }
        if let Some((at, _)) = self.script.last() {
            self.agenda.arm(self.script_entity, *at);
        }
        Ok(())
    }

    fn change(&mut self, lane: usize, change: &Change) -> Result<(), SimError> {
        self.lanes[lane].way.change(self.now, change);
        if let Some(rate) = change.rate {
            if let Some((front, _)) = &mut self.lanes[lane].front {
                front.set_rate(self.now, rate);
            }
            let near = self.ends[lane / 2][lane % 2];
            if let Kind::Router(router) = &mut self.nodes[near].kind {
                router.link_rate(self.now, LinkIndex(lane / 2), lane % 2, rate)?;
                self.after_router(near);
            }
            self.tell_controllers(near, lane, rate.0);
        }
        if self.lanes[lane].front.is_some() {
            self.drain_front(lane);
        }
        let state = &self.lanes[lane];
        if let Some(at) = state.way.next_arrival() {
            self.agenda.arm(state.entity, at);
        }
        Ok(())
    }

    /// The controllers of a router hear that one of its links has another rate.
    fn tell_controllers(&mut self, near: usize, lane: usize, bps: u64) {
        for controller in &mut self.controllers {
            controller.link_rate(self.now, near, lane / 2, bps);
            self.agenda.arm(controller.entity, controller.next_wakeup());
        }
    }

    fn wake_controller(&mut self, index: usize) -> Result<(), SimError> {
        let controller = &mut self.controllers[index];
        let woken = controller.wake(self.now);
        let node = controller.name().to_owned();
        woken.map_err(|why| SimError::Controller { node, why })?;
        self.carry_out(index);
        Ok(())
    }

    /// Carries what a controller has for others, until it has nothing more.
    pub(crate) fn carry_out(&mut self, index: usize) {
        loop {
            let delivered = self.controllers[index].take_delivered();
            if delivered.is_empty() {
                break;
            }
            for one in delivered {
                match one {
                    Delivered::News { router: node, news } => {
                        if let Kind::Router(router) = &mut self.nodes[node].kind {
                            router.hear(self.now, news);
                            self.after_router(node);
                            self.tell_leased(node);
                        }
                    }
                    Delivered::Leased { router: node, class, number, bps } => {
                        if let Kind::Router(router) = &mut self.nodes[node].kind {
                            router.leased(self.now, class, number, bps);
                            self.after_router(node);
                            self.tell_leased(node);
                        }
                    }
                    Delivered::Peer { to, at, due } => {
                        let other = self.controllers.iter_mut().find(|other| other.name() == to);
                        if let Some(other) = other {
                            other.receive(at, *due);
                            self.agenda.arm(other.entity, other.next_wakeup());
                        }
                    }
                }
            }
        }
        let controller = &self.controllers[index];
        self.agenda.arm(controller.entity, controller.next_wakeup());
    }

    /// What became in a router of what is decided beside it.
    pub(crate) fn tell_leased(&mut self, node: usize) {
        let Kind::Router(router) = &mut self.nodes[node].kind else { return };
        for told in router.take_leased() {
            for controller in &mut self.controllers {
                controller.in_router(self.now, node, told.clone());
                // What that gives others waits for the controller's turn, which is now.
                self.agenda.arm(controller.entity, self.now);
            }
        }
    }

    fn reconfigure(&mut self, node: usize, change: &RouterChange) -> Result<(), SimError> {
        if let Kind::Router(router) = &mut self.nodes[node].kind {
            router.reconfigure(self.now, change)?;
            self.after_router(node);
        }
        Ok(())
    }

    fn fault(&mut self, node: usize, kind: FaultKind) {
        match kind {
            FaultKind::ClockDrift { ppm } => self.nodes[node].clock.drift(self.now, ppm),
            FaultKind::Stop => {
                self.nodes[node].up = false;
                self.stop_connections(node);
            }
            FaultKind::Restart => self.nodes[node].up = true,
        }
    }

    /// Plays `step` at `at`.
    pub(crate) fn schedule(&mut self, at: Duration, step: Step) {
        self.script.push((Instant(at.as_nanos()), step));
    }

    /// Plays `step` at `at`, from within the script.
    pub(crate) fn schedule_next(&mut self, at: Duration, step: Step) {
        let at = Instant(at.as_nanos());
        let place = self.script.partition_point(|(other, _)| *other > at);
        // Before those of the same instant, which were there first and are played from the back.
        self.script.insert(place, (at, step));
    }

    /// Sorts the script after the last [`World::schedule`] and arms it.
    pub(crate) fn arm_script(&mut self) {
        // Played from the back; a stable sort of the reversed list keeps steps of one instant in their order.
        self.script.reverse();
        self.script.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        if let Some((at, _)) = self.script.last() {
            self.agenda.arm(self.script_entity, *at);
        }
    }

    /// Checks the books of every node, link and element, and that every buffer in use is somewhere.
    pub(crate) fn check_conservation(&mut self) -> Result<(), SimError> {
        if !self.check_books {
            return Ok(());
        }
        let at_s = self.now.as_nanos() as f64 / 1e9;
        let wrong = |why: String| SimError::Conservation { at_s, why };
        let mut held = 0;
        for (i, lane) in self.lanes.iter().enumerate() {
            let counters = lane.way.counters();
            let dropped: u64 = counters.drops.values().sum();
            let inside = lane.way.held();
            if counters.offered + counters.made != counters.delivered + dropped + inside {
                return Err(wrong(format!("direction {i}: {counters:?}, {inside} inside")));
            }
            held += inside;
            if let Some((front, _)) = &lane.front {
                if let Some(why) = front.check() {
                    return Err(wrong(format!("discipline of direction {i}: {why}")));
                }
                held += front.held();
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            match &node.kind {
                Kind::Router(router) => {
                    if let Err(why) = router.check() {
                        return Err(wrong(format!("node {i}: {why}")));
                    }
                    held += router.held();
                }
                _ => {
                    if let Some(why) = node.books.check() {
                        return Err(wrong(format!("node {i}: {why}")));
                    }
                }
            }
        }
        let used = self.buffers.used();
        if used != held {
            return Err(wrong(format!("{used} buffers are in use, {held} packets are somewhere")));
        }
        Ok(())
    }
}
