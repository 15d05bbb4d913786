//! Links emulated by the router's own elements, each in a namespace of its own between two veth pairs.

use super::error::of_engine;
use super::network::{MIDDLE, Network};
use crate::error::LabError;
use crate::shaping::widened;
use perhop_engine::{Emulator, EmulatorConfig, EmulatorReport};
use perhop_scenario::{Change, FaultKind, JitterShape, Link, NodeIndex, Scenario, Way};
use perhop_units::{Duration, QueueLimit};
use std::path::Path;

/// Least and most packet buffers of a link.
const BUFFERS: (u64, u64) = (4_096, 262_144);
/// Bytes of the packets that a long fat link is filled with, for the number of its buffers.
const SMALL_PACKET: u64 = 200;

/// Names of a direction's elements: the link itself, and the discipline before it.
pub(super) const WAYS: [&str; 2] = ["ab", "ba"];
/// Suffix of a discipline's name.
pub(super) const DISCIPLINE: &str = "_queue";
/// Suffixes of the names of what loses packets while the node before a direction has stopped, and the one behind it.
pub(super) const STOPPED: [&str; 2] = ["_from", "_to"];

/// One direction as it is now.
#[derive(Clone, Debug)]
struct Current {
    way: Way,
    up: bool,
    /// A router decides what leaves when, so the line is a little faster than it is said to be.
    led: bool,
}

/// The node at an end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It never stops.
    Steady,
    /// It has a fault that stops it, and works now.
    Works,
    /// It has stopped.
    Stopped,
}

impl End {
    fn of(scenario: &Scenario, node: NodeIndex) -> Self {
        let stops = scenario.faults.iter().any(|fault| fault.node == node && fault.kind == FaultKind::Stop);
        if stops { Self::Works } else { Self::Steady }
    }

    /// The element that loses its packets while it has stopped. It is there from the start, so that what it counts goes
    /// on over stops and restarts.
    fn gate(self, name: &str, suffix: &str) -> String {
        match self {
            Self::Steady => String::new(),
            Self::Works => format!("{name}{suffix} :: Loss(0 %) -> "),
            Self::Stopped => format!("{name}{suffix} :: Loss(100 %) -> "),
        }
    }
}

/// A link being emulated.
pub(super) struct EmulatedLink {
    emulator: Emulator,
    ways: [Current; 2],
    ends: [End; 2],
    name: String,
}

impl EmulatedLink {
    /// Starts every link that needs it.
    pub(super) fn start_all(
        scenario: &Scenario,
        network: &Network,
        led: &[[bool; 2]],
        seed: u64,
        captures: Option<&Path>,
    ) -> Result<Vec<Option<Self>>, LabError> {
        let start = |(i, link): (usize, &Link)| match &network.middles[i] {
            None => Ok(None),
            Some(middle) => {
                let [near, far] = link.ways.clone();
                let [led, led_back] = led[i];
                let ways = [(near, led), (far, led_back)].map(|(way, led)| Current { way, up: true, led });
                let ends = link.ends.map(|node| End::of(scenario, node));
                let mut config = EmulatorConfig::new(&link.name, Some(middle.clone()), &graph(&ways, ends));
                for port in MIDDLE {
                    config = config.port(port, port);
                }
                config.pool_size = buffers(link);
                config.seed = seed ^ ((i as u64) << 32);
                // The network must not wait for those who use it.
                config.fifo = true;
                config.record = Some(scenario.probes.queue_interval);
                config.pcap_dir = captures.map(|directory| directory.join(&link.name));
                let name = format!("link \"{}\"", link.name);
                let emulator =
                    Emulator::start(config).map_err(of_engine(name.clone(), "start its emulation"))?;
                Ok(Some(Self { emulator, ways, ends, name }))
            }
        };
        scenario.links.iter().enumerate().map(start).collect()
    }

    /// Applies a change of one direction while packets pass.
    pub(super) fn change(&mut self, way: usize, change: &Change) -> Result<(), LabError> {
        let current = &mut self.ways[way];
        if let Some(rate) = change.rate {
            current.way.rate = Some(rate);
        }
        if let Some(delay) = change.delay {
            current.way.delay = delay;
        }
        if let Some(loss) = change.loss {
            current.way.loss = loss;
        }
        if let Some(up) = change.up {
            current.up = up;
        }
        self.rebuild()
    }

    /// The node at an end stops or starts again.
    pub(super) fn set_node(&mut self, end: usize, up: bool) -> Result<(), LabError> {
        self.ends[end] = if up { End::Works } else { End::Stopped };
        self.rebuild()
    }

    fn rebuild(&self) -> Result<(), LabError> {
        let text = graph(&self.ways, self.ends);
        self.emulator.set_graph(&text).map_err(of_engine(self.name.clone(), "change it"))
    }

    /// Why it carries nothing any more, if so.
    pub(super) fn failure(&self) -> Option<LabError> {
        let reason = self.emulator.failure()?.to_string();
        Some(LabError::Part { part: self.name.clone(), doing: "emulate it", reason })
    }

    /// Packets inside now.
    pub(super) fn held(&self) -> Result<u64, LabError> {
        let report = self.emulator.report().map_err(of_engine(self.name.clone(), "ask what it holds"))?;
        Ok(report.rows.iter().filter(|row| row.kind == "element").map(|row| row.counter("held")).sum())
    }

    /// Stops it: what it counted.
    pub(super) fn stop(self) -> EmulatorReport {
        self.emulator.stop()
    }
}

/// The graph of both directions. Before and behind a node that has stopped everything is lost; elements of the link keep
/// what they hold.
fn graph(ways: &[Current; 2], ends: [End; 2]) -> String {
    let direction = |i: usize| {
        let (from, name, to) = (MIDDLE[i], WAYS[i], MIDDLE[1 - i]);
        let [near, far] =
            [(i, STOPPED[0]), (1 - i, STOPPED[1])].map(|(end, suffix)| ends[end].gate(name, suffix));
        let current = &ways[i];
        let discipline = current
            .way
            .discipline_element()
            .map_or_else(String::new, |element| format!("{name}{DISCIPLINE} :: {element} -> "));
        let arguments = arguments(current);
        format!("FromPort({from}) -> {near}{discipline}{name} :: Link({arguments}) -> {far}ToPort({to});\n")
    };
    direction(0) + &direction(1)
}

fn arguments(current: &Current) -> String {
    let Current { way, up, led } = current;
    let limit = way.queue;
    let rate = way.rate.map(|rate| if *led { widened(rate) } else { rate }).map_or(0, |rate| rate.0);
    let mut text = format!("{rate} bit/s, {} ns, limit = {limit}", way.delay.as_nanos());
    if way.overhead.get() > 0 {
        text += &format!(", overhead = {} B", way.overhead.get());
    }
    if way.loss.0 > 0 {
        text += &format!(", loss = {}", way.loss);
    }
    if let Some(jitter) = way.jitter {
        let shape = match jitter.shape {
            JitterShape::Uniform => "uniform",
            JitterShape::Normal => "normal",
            JitterShape::Pareto => "pareto",
        };
        text += &format!(", jitter = {} ns, shape = {shape}", jitter.spread.as_nanos());
    }
    if let Some(model) = way.burst_loss {
        text += &format!(", burst = {} {} {} {}", model.p, model.r, model.loss_good, model.loss_bad);
    }
    for (key, probability) in [("duplicate", way.duplicate), ("reorder", way.reorder)] {
        if probability.0 > 0 {
            text += &format!(", {key} = {probability}");
        }
    }
    if let Some(trace) = &way.trace {
        let instants: Vec<String> = trace.opportunities_ms.iter().map(u32::to_string).collect();
        text += &format!(", trace = {}", instants.join(" "));
    }
    if !*up {
        text += ", up = no";
    }
    text
}

/// Buffers for what queues, line and delay hold together.
fn buffers(link: &Link) -> usize {
    let of = |way: &Way| {
        let rates = way.changes.iter().filter_map(|change| change.rate).chain(way.rate);
        let delays = way.changes.iter().filter_map(|change| change.delay).chain([way.delay]);
        let Some(rate) = rates.max() else { return BUFFERS.0 * 4 };
        let delay = delays.max().unwrap_or(Duration::ZERO);
        let queued = match way.queue {
            QueueLimit::Packets(n) => u64::from(n),
            limit => limit.in_bytes(rate).map_or(0, |bytes| bytes.get() / 64),
        };
        queued + rate.bytes_in(delay + delay).get() / SMALL_PACKET
    };
    (BUFFERS.0 + link.ways.iter().map(of).sum::<u64>()).clamp(BUFFERS.0, BUFFERS.1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_scenario::{DeliveryTrace, GilbertElliott, Jitter};
    use perhop_units::{Bytes, Probability, Rate};

    /// Every fault a scenario knows is an argument that the element takes.
    #[test]
    fn faults_become_arguments_of_the_element() {
        let half = Probability(1 << 31);
        let way = Way {
            jitter: Some(Jitter { spread: Duration::from_millis(2), shape: JitterShape::Pareto }),
            loss: Probability(42_949_673),
            burst_loss: Some(GilbertElliott {
                p: half,
                r: half,
                loss_good: half,
                loss_bad: Probability::ONE,
            }),
            duplicate: half,
            reorder: Probability::ONE,
            trace: Some(DeliveryTrace { origin: "t".into(), opportunities_ms: vec![0, 3, 3] }),
            ..Way::default()
        };
        let text =
            graph(&[way.clone(), way].map(|way| Current { way, up: true, led: false }), [End::Stopped; 2]);
        for argument in [
            "jitter = 2000000 ns, shape = pareto",
            "loss = 1 %",
            "burst = 50 % 50 % 50 % 100 %",
            "duplicate = 50 %",
            "reorder = 100 %",
            "trace = 0 3 3)",
        ] {
            assert!(text.contains(argument), "{argument}: {text}");
        }
        let graph = perhop_graph::lang::parse(&text).unwrap();
        let mut cx = perhop_element::BuildCx::default();
        for (i, port) in MIDDLE.into_iter().enumerate() {
            cx.ports.insert(port.to_owned(), perhop_packet::PortId(i as u16));
        }
        let registry = perhop_graph::router::registry();
        let built = perhop_graph::lang::build(&text, graph, &registry, &mut cx);
        assert!(built.is_ok(), "{:?}", built.err());
    }

    #[test]
    fn a_direction_becomes_an_element_with_all_that_it_does() {
        let way = Way {
            rate: Some(Rate::from_mbit(2)),
            delay: Duration::from_millis(20),
            overhead: Bytes(4),
            queue: QueueLimit::Bytes(Bytes(9000)),
            ..Way::default()
        };
        let ways = [
            Current { way: way.clone(), up: true, led: false },
            Current { way: Way::default(), up: false, led: false },
        ];
        let text = graph(&ways, [End::Stopped, End::Works]);
        assert_eq!(
            text,
            "FromPort(a) -> ab_from :: Loss(100 %) -> ab :: Link(2000000 bit/s, 20000000 ns, limit = 9 kB, overhead = 4 B) \
             -> ab_to :: Loss(0 %) -> ToPort(b);\n\
             FromPort(b) -> ba_from :: Loss(0 %) -> ba :: Link(0 bit/s, 0 ns, limit = 1000 packets, up = no) \
             -> ba_to :: Loss(100 %) -> ToPort(a);\n"
        );
        assert!(!graph(&ways, [End::Steady; 2]).contains("Loss"), "a node that never stops costs nothing");
        let led = arguments(&Current { way, up: true, led: true });
        assert!(led.starts_with("2020203 bit/s, 20000000 ns"), "{led}");
    }
}
