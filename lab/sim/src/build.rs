//! From a scenario to a world at time zero.

use crate::agenda::Agenda;
use crate::buffers::Buffers;
use crate::capture::Capture;
use crate::controller::Controller;
use crate::datagrams::{Datagrams, MAX_STREAMS, Sender};
use crate::error::SimError;
use crate::frame::{Hop, mac};
use crate::front::Front;
use crate::node::{Books, Kind, Node};
use crate::random::{AGENTS, CONTROLLERS, DISCIPLINES, ROUTERS, Stream};
use crate::router::{RouterNode, RouterSeeds};
use crate::sample::LaneQueues;
use crate::transport::Transport;
use crate::way::Way;
use crate::world::{Lane, Step, Who, World};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use perhop_measure::{Membership, Toward};
use perhop_scenario::{
    Clock, Discipline, NodeIndex, NodeKind, Paths, Scenario, Traffic, TrafficKind, generators,
};
use perhop_traffic::Seed;
use perhop_units::{Duration, Instant};
use std::path::PathBuf;

/// Seed of tables whose order is never looked at.
const TABLE_SEED: u64 = 0x9E37_79B9;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed.
    pub seed: u64,
    /// Which repetition, from 0: a stream of the seed.
    pub repetition: u32,
    /// Most packets at once; `None`: 2 million.
    pub buffers: Option<usize>,
    /// Check conservation every simulated second and at the end.
    pub check_books: bool,
    /// Directory for a capture of every link.
    pub trace: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, repetition: 0, buffers: None, check_books: true, trace: None }
    }
}

impl World {
    /// The world of a scenario.
    pub(crate) fn new(scenario: &Scenario, options: &Options) -> Result<Self, SimError> {
        let mut agenda = Agenda::default();
        let script_entity = agenda.add();
        let access_entity = agenda.add();
        let hasher = FixedState::with_seed(TABLE_SEED);
        let mut node_of = HashMap::with_hasher(hasher);
        for (i, node) in scenario.nodes.iter().enumerate() {
            node_of.insert(node.address, i);
        }
        let mut world = Self {
            now: Instant::ZERO,
            agenda,
            who: vec![Who::Script, Who::AccessLines],
            buffers: Buffers::new(options.buffers),
            paths: Paths::of(scenario),
            nodes: Vec::new(),
            node_of,
            lanes: Vec::new(),
            ends: scenario.links.iter().map(|link| [link.ends[0].0, link.ends[1].0]).collect(),
            captures: Vec::new(),
            datagrams: Datagrams::default(),
            transport: Transport::new(scenario, options, access_entity),
            script: Vec::new(),
            script_entity,
            quiet: false,
            check_books: options.check_books,
            sampling: true,
            sampled: Vec::new(),
            controllers: Vec::new(),
        };
        world.add_links(scenario, options)?;
        world.add_nodes(scenario, options)?;
        world.add_controllers(scenario, options)?;
        for (i, traffic) in scenario.traffic.iter().enumerate() {
            world.add_traffic(scenario, options, i, traffic)?;
        }
        world.write_script(scenario);
        Ok(world)
    }

    fn add_links(&mut self, scenario: &Scenario, options: &Options) -> Result<(), SimError> {
        let window = (Instant(scenario.warm_up.as_nanos()), Instant(scenario.length().as_nanos()));
        let probes = &scenario.probes;
        for (i, link) in scenario.links.iter().enumerate() {
            for (end, described) in link.ways.iter().enumerate() {
                let number = (i * 2 + end) as u64;
                let random = Stream::new(options.seed, options.repetition, number);
                let mut way = Way::new(described, window, probes.throughput_bin, random);
                let recorded = if probes.links.is_empty() {
                    described.rate.is_some() || described.trace.is_some()
                } else {
                    probes.links.iter().any(|l| l.0 == i)
                };
                if recorded {
                    way.record_queue(probes.queue_interval, !probes.links.is_empty());
                }
                let near = &scenario.nodes[link.ends[end].0];
                let plain =
                    described.discipline == Discipline::Fifo && !matches!(near.kind, NodeKind::Router(_));
                if !plain {
                    self.sampled.push(LaneQueues::new(i * 2 + end, probes.queue_interval, recorded));
                }
                let lane = self.lanes.len();
                let entity = self.entity(Who::Lane(lane));
                let front = match described.discipline_element() {
                    None => None,
                    Some(text) => {
                        let seed = Stream::seed(options.seed, options.repetition, DISCIPLINES + number);
                        let front = Front::new(&text, self.buffers.first(), seed)
                            .map_err(|why| SimError::Discipline { link: link.name.clone(), why })?;
                        let entity = self.entity(Who::Front(lane));
                        Some((front, entity))
                    }
                };
                self.lanes.push(Lane { way, entity, front });
            }
            let capture = options.trace.as_ref().map(|directory| Capture::create(directory, &link.name));
            self.captures.push(capture.transpose()?);
        }
        Ok(())
    }

    fn add_nodes(&mut self, scenario: &Scenario, options: &Options) -> Result<(), SimError> {
        for (i, node) in scenario.nodes.iter().enumerate() {
            let kind = match &node.kind {
                NodeKind::Host | NodeKind::Controller(_) => Kind::Host,
                NodeKind::Forwarder => Kind::Forwarder,
                NodeKind::Router(_) => {
                    let seed = |group| Stream::seed(options.seed, options.repetition, group + i as u64);
                    let seeds = RouterSeeds { router: seed(ROUTERS), agent: seed(AGENTS) };
                    let router =
                        RouterNode::new(scenario, NodeIndex(i), &self.paths, self.buffers.first(), seeds)?;
                    Kind::Router(Box::new(router))
                }
            };
            let entity = self.entity(Who::Node(i));
            self.nodes.push(Node {
                entity,
                kind,
                up: true,
                clock: Clock::default(),
                identification: 0,
                books: Books::default(),
            });
            self.after_router(i);
        }
        Ok(())
    }

    fn add_controllers(&mut self, scenario: &Scenario, options: &Options) -> Result<(), SimError> {
        for (i, node) in scenario.nodes.iter().enumerate() {
            let NodeKind::Controller(config) = &node.kind else { continue };
            let entity = self.entity(Who::Controller(self.controllers.len()));
            let stream = Stream::new(options.seed, options.repetition, CONTROLLERS + i as u64);
            let made = Controller::new(scenario, NodeIndex(i), config, &self.paths, entity, stream);
            let made = made.map_err(|why| SimError::Controller { node: node.name.clone(), why })?;
            self.controllers.push(made);
        }
        for index in 0..self.controllers.len() {
            self.carry_out(index);
        }
        Ok(())
    }

    fn add_traffic(
        &mut self,
        scenario: &Scenario,
        options: &Options,
        index: usize,
        traffic: &Traffic,
    ) -> Result<(), SimError> {
        for pair in 0..traffic.pairs.len() {
            let of = |toward| Membership { traffic: index, pair, toward };
            match &traffic.kind {
                TrafficKind::Bulk { .. } | TrafficKind::Files { .. } | TrafficKind::Web { .. } => {
                    self.add_application(scenario, options, of(Toward::Second), traffic)?;
                    if traffic.both {
                        self.add_application(scenario, options, of(Toward::First), traffic)?;
                    }
                }
                _ => {
                    let first = self.datagrams.count() as u16;
                    self.add_sender(scenario, options, of(Toward::Second), traffic, first)?;
                    if traffic.both {
                        self.add_sender(scenario, options, of(Toward::First), traffic, first)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// One direction of the datagrams of one pair.
    fn add_sender(
        &mut self,
        scenario: &Scenario,
        options: &Options,
        of: Membership,
        traffic: &Traffic,
        first_port_of: u16,
    ) -> Result<(), SimError> {
        let (a, b) = traffic.pairs[of.pair];
        let (from, to) = if of.toward == Toward::Second { (a, b) } else { (b, a) };
        let first_stream = self.datagrams.count();
        let wrong = |why: String| SimError::Traffic { traffic: traffic.name.clone(), why };
        let seed = Seed { seed: options.seed, repetition: options.repetition };
        let made =
            generators::datagrams(traffic, first_stream as u16, seed).map_err(|e| wrong(e.to_string()))?;
        let Some(made) = made else { return Ok(()) };
        if first_stream + usize::from(made.streams) > MAX_STREAMS {
            return Err(wrong(format!("more than {MAX_STREAMS} datagram streams in one scenario")));
        }
        self.datagrams.add_streams(of, made.streams, made.codec);
        let hop = self.first_hop(scenario, traffic, from, to)?;
        let entity = self.entity(Who::Sender(self.datagrams.senders.len()));
        let at = made.source.upcoming().map_or(Instant::FAR_FUTURE, |at| Instant(at.as_nanos()));
        self.datagrams.senders.push(Sender {
            entity,
            source: made.source,
            from,
            due: None,
            hop,
            addresses: (scenario.nodes[from.0].address, scenario.nodes[to.0].address),
            dscp: traffic.dscp,
            first_port_of,
            first_stream: first_stream as u16,
        });
        self.agenda.arm(entity, at);
        Ok(())
    }

    /// Interfaces of the first link from one host towards another.
    pub(crate) fn first_hop(
        &self,
        scenario: &Scenario,
        traffic: &Traffic,
        from: NodeIndex,
        to: NodeIndex,
    ) -> Result<Hop, SimError> {
        let (link, end) = self.paths.first_link(from, to).ok_or_else(|| SimError::Unreachable {
            traffic: traffic.name.clone(),
            from: scenario.nodes[from.0].name.clone(),
            to: scenario.nodes[to.0].name.clone(),
        })?;
        Ok(Hop { src: mac(link, end), dst: mac(link, 1 - end) })
    }

    fn write_script(&mut self, scenario: &Scenario) {
        self.schedule(scenario.warm_up, Step::WindowBegins);
        self.schedule(scenario.length(), Step::WindowEnds);
        for (i, link) in scenario.links.iter().enumerate() {
            for (end, way) in link.ways.iter().enumerate() {
                for change in &way.changes {
                    self.schedule(change.at, Step::Change { lane: i * 2 + end, change: change.clone() });
                }
            }
        }
        for (i, node) in scenario.nodes.iter().enumerate() {
            let NodeKind::Router(config) = &node.kind else { continue };
            for change in &config.changes {
                self.schedule(change.at, Step::Router { node: i, change: change.clone() });
            }
        }
        for fault in &scenario.faults {
            self.schedule(fault.at, Step::Fault { node: fault.node.0, kind: fault.kind });
        }
        if !self.sampled.is_empty() {
            self.schedule(Duration::ZERO, Step::Sample);
        }
        if self.check_books {
            self.schedule(Duration::from_secs(1), Step::Second);
        }
        self.arm_script();
    }
}
