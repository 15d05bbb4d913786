//! The default graph of an edge router, as text.

use perhop_model::{Object, PortMode, PortSpec, Spec};
use perhop_units::Duration;
use std::fmt::Write as _;

/// A port as the graph needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgePort {
    /// Object name.
    pub name: String,
    /// Specification.
    pub spec: PortSpec,
}

impl EdgePort {
    /// The ports among objects, in the order in which a router numbers them.
    pub fn of_objects(objects: &[Object]) -> Vec<Self> {
        let port = |object: &Object| match &object.spec {
            Spec::Port(spec) => Some(Self { name: object.name.to_string(), spec: spec.clone() }),
            _ => None,
        };
        objects.iter().filter_map(port).collect()
    }

    /// Its interface.
    pub fn device(&self) -> &str {
        self.spec.device_of(&self.name)
    }
}

/// Name of the element that passes packets to the workers that have their flows.
pub const STEER: &str = "steer";
/// Name of the element that keeps connections and chooses classes.
pub const FLOWS: &str = "flows";
/// Name of the element that meters, marks and polices.
pub const CONDITION: &str = "condition";
/// Name of the element that keeps TCP flows to their rates.
pub const ABR: &str = "abr";
/// Name of the element that routes or bridges.
pub const FORWARD: &str = "forward";
/// Name of the element that answers rejected packets.
pub const ICMP: &str = "icmp";

/// A name of the graph language for something of port `i`: it allows fewer characters than object names do, so where
/// one had to be replaced the port's number keeps two names apart.
fn identifier(prefix: &str, i: usize, name: &str) -> String {
    let clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if clean == name { format!("{prefix}_{clean}") } else { format!("{prefix}_{clean}_{i}") }
}

/// What the line of a port makes of frames, as arguments of its element.
fn framing(spec: &PortSpec) -> String {
    let (overhead, framing) = spec.framing();
    let mut text = String::new();
    let sizes =
        [("overhead", overhead), ("less", framing.less().into()), ("minimum", framing.minimum().into())];
    for (key, bytes) in sizes.into_iter().filter(|(_, bytes)| *bytes > 0) {
        let _ = write!(text, ", {key} = {bytes} B");
    }
    if framing.cells() {
        text.push_str(", cells = atm");
    }
    text
}

/// What the edge graph is told besides its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeOptions {
    /// Most connections remembered.
    pub connections: u32,
    /// Most of them whose rate is controlled.
    pub abr_connections: u32,
    /// Whether windows have credit for what they are short of, see `Abr`.
    pub abr_credit: bool,
    /// Whether acknowledgments are held to spread what they let go, see `Abr`.
    pub abr_spread: bool,
    /// How far a line that was served late may catch up.
    pub catchup: Duration,
    /// How far ahead a port may be filled.
    pub ring_time: Duration,
    /// Workers that share the connections, at least 1.
    pub workers: usize,
    /// Whether flows go from one worker to another, so that each has room for all of them.
    pub adaptive: bool,
    /// Copies a second that a bridge of more than two ports makes of frames for everybody; 0 = no limit.
    pub storm_limit: u32,
}

impl EdgeOptions {
    /// Connections that a router remembers unless its file says otherwise.
    pub const DEFAULT_CONNECTIONS: u32 = 262_144;

    /// Copies of flooded frames a second unless the file says otherwise.
    pub const DEFAULT_STORM_LIMIT: u32 = 10_000;

    /// Connections whose rate is controlled unless the file says otherwise.
    pub const DEFAULT_ABR_CONNECTIONS: u32 = 65_536;

    const fn of(connections: u32, catchup: Duration) -> Self {
        let most = Self::DEFAULT_ABR_CONNECTIONS;
        let abr_connections = if connections < most { connections } else { most };
        Self {
            connections,
            abr_connections,
            abr_credit: true,
            abr_spread: false,
            catchup,
            ring_time: Duration::ZERO,
            workers: 1,
            adaptive: false,
            storm_limit: Self::DEFAULT_STORM_LIMIT,
        }
    }

    /// For virtual time: timers are exact, so nothing is caught up and nothing sent ahead.
    pub const fn exact(connections: u32) -> Self {
        Self::of(connections, Duration::ZERO)
    }

    /// For this machine's clock: a thread that wakes up to 1 ms late loses none of the link's rate. Nothing is sent
    /// ahead: the queue stays ours.
    pub const fn live(connections: u32) -> Self {
        Self::of(connections, Duration::from_millis(1))
    }

    /// With the rate control for so many connections.
    #[must_use]
    pub const fn with_abr(self, abr_connections: u32) -> Self {
        Self { abr_connections, ..self }
    }

    /// For so many workers: each has its part of the connections, and passes on what others have.
    #[must_use]
    pub const fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// With flows that stay with their worker, or go to another.
    #[must_use]
    pub const fn with_adaptive(self, adaptive: bool) -> Self {
        Self { adaptive, ..self }
    }

    /// With so many copies of flooded frames a second.
    #[must_use]
    pub const fn with_storm_limit(self, storm_limit: u32) -> Self {
        Self { storm_limit, ..self }
    }

    /// With or without credit for what windows are short of.
    #[must_use]
    pub const fn with_abr_credit(self, abr_credit: bool) -> Self {
        Self { abr_credit, ..self }
    }

    /// With or without acknowledgments that are held to spread what they let go.
    #[must_use]
    pub const fn with_abr_spread(self, abr_spread: bool) -> Self {
        Self { abr_spread, ..self }
    }
}

/// The graph every port's packets pass: in → flows → condition → abr → forward → the port's tree → out.
pub fn edge_graph(ports: &[EdgePort], options: &EdgeOptions) -> String {
    let EdgeOptions {
        connections,
        abr_connections,
        abr_credit,
        abr_spread,
        catchup,
        ring_time,
        workers,
        adaptive,
        storm_limit,
    } = options;
    // Flows are not spread quite evenly, so each worker has room for an eighth more than its part.
    let part = |all: u32| match *workers as u32 {
        0 | 1 => all,
        n => (all.div_ceil(n) + all.div_ceil(8 * n)).clamp(16, all.max(16)),
    };
    // Where they go to others, all may be in one place.
    let connections = if *adaptive { *connections } else { part(*connections) };
    let abr_connections = part(*abr_connections);
    let bridge = ports.iter().any(|p| p.spec.mode == PortMode::Bridge);
    let n = ports.len();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{FLOWS} :: Flows(connections = {connections});\n{CONDITION} :: Conditioner();");
    let credit = if *abr_credit { "" } else { ", credit = false" };
    let spread = if *abr_spread { ", spread = true" } else { "" };
    let _ = writeln!(text, "{ABR} :: Abr(connections = {abr_connections}{credit}{spread});");
    if bridge {
        // Between two ports nothing is copied.
        let storm = match *storm_limit {
            EdgeOptions::DEFAULT_STORM_LIMIT => String::new(),
            limit => format!(", storm_rate = {limit}"),
        };
        let _ = writeln!(text, "{FORWARD} :: Bridge(ports = {n}{storm});");
    } else {
        // All workers together answer as often as one would.
        let rate =
            if *workers > 1 { format!("rate = {}", 1_000usize.div_ceil(*workers)) } else { String::new() };
        let _ = writeln!(
            text,
            "{FORWARD} :: Route(ports = {n});\nhost :: ToHost();\n{ICMP} :: IcmpError({rate});"
        );
    }
    let bridged = if bridge { ", bridged = yes" } else { "" };
    for (i, p) in ports.iter().enumerate() {
        let overhead = framing(&p.spec);
        let limit = p.spec.queue.map_or(String::new(), |q| format!(", limit = {}", q.limit));
        let mut pacing = String::new();
        for (key, time) in [("catchup", catchup), ("ring_time", ring_time)] {
            if *time > Duration::ZERO {
                let _ = write!(pacing, ", {key} = {time}");
            }
        }
        let _ = writeln!(
            text,
            "{} :: FromPort({1}{bridged});\n{2} :: Egress({1}{overhead}{limit}{pacing});\n{3} :: ToPort({1});",
            identifier("in", i, &p.name),
            p.name,
            identifier("queue", i, &p.name),
            identifier("out", i, &p.name),
        );
    }
    let mut first = FLOWS;
    if *workers > 1 {
        first = STEER;
        let _ = writeln!(text, "{STEER} :: Steer();\n{STEER} -> {FLOWS};");
    }
    for (i, p) in ports.iter().enumerate() {
        let _ = writeln!(text, "{} -> {first};", identifier("in", i, &p.name));
    }
    let _ = writeln!(text, "{FLOWS} -> {CONDITION} -> {ABR} -> {FORWARD};");
    for (i, p) in ports.iter().enumerate() {
        let _ = writeln!(
            text,
            "{FORWARD} [{i}] -> {} -> {};",
            identifier("queue", i, &p.name),
            identifier("out", i, &p.name)
        );
    }
    if !bridge {
        let _ = writeln!(text, "{FORWARD} [{n}] -> host;\n{ICMP} -> {FORWARD};");
    }
    text
}
