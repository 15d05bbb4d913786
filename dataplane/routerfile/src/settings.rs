//! What a router file says about the program itself: `[router]`, `[kernel]` and `[log]`.

use super::value;
use perhop_config::TableReader;
use perhop_flows::MAX_WORKERS;
use perhop_graph::router::EdgeOptions;
use perhop_model::{Name, PortMode};

/// `[router]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterSettings {
    /// `name`: what `--router NAME` finds it by; none = the file's name without its ending.
    pub name: Option<Name>,
    /// `mode`: `"route"` (default) or `"bridge"`, for all ports.
    pub mode: PortMode,
    /// `max_flows`: connections remembered at most, 1,024 … 16,777,216; default 262,144.
    pub max_flows: u32,
    /// `max_abr_connections`: connections whose TCP rate is controlled at most, 16 … 4,194,304; see
    /// [`RouterSettings::abr_connections`] for none.
    pub max_abr_connections: Option<u32>,
    /// `abr_credit`: whether the TCP rate control makes up for what windows are short of because senders use whole
    /// segments; default true. Without it for comparison only.
    pub abr_credit: bool,
    /// `abr_spread`: whether the TCP rate control holds acknowledgments, so that what they let go is spread over the round trip;
    /// default false.
    pub abr_spread: bool,
    /// `io`: how frames reach the ports; default `"af_packet"`. Of a running router only.
    pub io: PortIo,
    /// `wait`: what packet threads do without work; default `"adaptive"`. Of a running router only.
    pub wait: Waiting,
    /// `workers`: packet threads, 1 … 16; default 1. Of a running router only.
    pub workers: usize,
    /// `placement`: whether flows stay with the worker that their addresses name (`"static"`, default), or go to another when one
    /// has too much (`"adaptive"`, with 2 workers and more). Of a running router only.
    pub adaptive: bool,
    /// `storm_limit`: copies a second that a bridge of more than two ports makes of frames for everybody, 0 (no limit) …
    /// 10,000,000; default 10,000.
    pub storm_limit: u32,
}

/// How frames reach the ports of a router that runs on real interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortIo {
    /// By packet sockets.
    #[default]
    AfPacket,
    /// By AF_XDP, in the driver or behind it; by packet sockets where it is not possible.
    AfXdp,
    /// By AF_XDP where it works in the driver, by packet sockets elsewhere.
    Auto,
}

/// What the packet threads of a router do without work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// They sleep, and stay awake for some tens of µs while packets follow each other that closely.
    #[default]
    Adaptive,
    /// They never sleep. With AF_XDP they poll the card, too.
    Poll,
}

impl RouterSettings {
    /// Connections whose TCP rate is controlled at most: 65,536, or `max_flows` if that is less, unless the file says
    /// otherwise.
    pub fn abr_connections(&self) -> u32 {
        let usual = EdgeOptions::DEFAULT_ABR_CONNECTIONS.min(self.max_flows);
        self.max_abr_connections.unwrap_or(usual)
    }
}

/// `[kernel]`: how a router stands to the kernel that it runs beside. Of a running router only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelSettings {
    /// `bypass_netfilter`: forwards although rules of the packet filter would do something to what is forwarded, which they do
    /// not see; default false, which refuses to start then.
    pub bypass_netfilter: bool,
}

/// `[tcapi]`: programs may reserve bandwidth by the traffic-control API. Of a running router only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcapiSettings {
    /// `classes`: logical classes that clients may call by number, the first by 0.
    pub classes: Vec<Name>,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// `level`; default `"info"`.
    pub level: LogLevel,
    /// `format`; default `"text"`.
    pub format: LogFormat,
    /// `file`: path; none = standard error.
    pub file: Option<String>,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the usual ones")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogLevel {
    /// The name as written in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

const DEFAULT_FLOWS: u32 = EdgeOptions::DEFAULT_CONNECTIONS;

/// Reads `[router]`.
pub(super) fn router(root: &mut TableReader<'_>) -> RouterSettings {
    let mut settings = RouterSettings {
        name: None,
        mode: PortMode::Route,
        max_flows: DEFAULT_FLOWS,
        max_abr_connections: None,
        abr_credit: true,
        abr_spread: false,
        io: PortIo::AfPacket,
        wait: Waiting::Adaptive,
        workers: 1,
        adaptive: false,
        storm_limit: EdgeOptions::DEFAULT_STORM_LIMIT,
    };
    let Some(mut table) = root.table("router") else { return settings };
    settings.name = table.value_with("name", "a name", value::name).map(|n| n.value);
    let modes = [("route", PortMode::Route), ("bridge", PortMode::Bridge)];
    settings.mode = table.choice("mode", &modes).map_or(settings.mode, |m| m.value);
    let flows = table.integer("max_flows", 1_024..=16_777_216);
    settings.max_flows = flows.map_or(DEFAULT_FLOWS, |f| f.value as u32);
    let abr = table.integer("max_abr_connections", 16..=4_194_304);
    settings.max_abr_connections = abr.map(|n| n.value as u32);
    settings.abr_credit = table.boolean("abr_credit").is_none_or(|b| b.value);
    settings.abr_spread = table.boolean("abr_spread").is_some_and(|b| b.value);
    let ways = [("af_packet", PortIo::AfPacket), ("af_xdp", PortIo::AfXdp), ("auto", PortIo::Auto)];
    settings.io = table.choice("io", &ways).map_or(settings.io, |io| io.value);
    let waits = [("adaptive", Waiting::Adaptive), ("poll", Waiting::Poll)];
    settings.wait = table.choice("wait", &waits).map_or(settings.wait, |wait| wait.value);
    let workers = table.integer("workers", 1..=MAX_WORKERS as i64);
    settings.workers = workers.map_or(1, |n| n.value as usize);
    if settings.workers > 1 && settings.mode == PortMode::Bridge {
        let why = "does not go with mode = \"bridge\": what one worker learns of stations the others would not know";
        let error = table.error("workers", why).hint("Leave it out, or use mode = \"route\".");
        table.diagnostics().push(error);
    }
    let placements = [("static", false), ("adaptive", true)];
    settings.adaptive = table.choice("placement", &placements).is_some_and(|placement| placement.value);
    if settings.adaptive && settings.workers == 1 {
        let why = "is of several workers: with one there is nowhere else for flows to go";
        let error = table.error("placement", why).hint("Leave it out, or use workers = 2 or more.");
        table.diagnostics().push(error);
    }
    if let Some(limit) = table.integer("storm_limit", 0..=10_000_000) {
        settings.storm_limit = limit.value as u32;
        if settings.mode != PortMode::Bridge {
            let d = table.document().warning(limit.span, "has no effect without mode = \"bridge\"");
            table.diagnostics().push(d.hint("a router copies no frames. Remove it"));
        }
    }
    table.finish();
    settings
}

/// Reads `[kernel]`.
pub(super) fn kernel(root: &mut TableReader<'_>) -> KernelSettings {
    let mut settings = KernelSettings::default();
    let Some(mut table) = root.table("kernel") else { return settings };
    settings.bypass_netfilter = table.boolean("bypass_netfilter").is_some_and(|b| b.value);
    table.finish();
    settings
}

/// Reads `[tcapi]`.
pub(super) fn tcapi(root: &mut TableReader<'_>) -> Option<TcapiSettings> {
    let mut table = root.table("tcapi")?;
    let classes = table.values_with("classes", "a name", value::name).map_or(Vec::new(), |l| l.value);
    table.finish();
    Some(TcapiSettings { classes: classes.into_iter().map(|c| c.value).collect() })
}

/// Reads `[log]`.
pub(super) fn log(root: &mut TableReader<'_>) -> LogSettings {
    let mut settings = LogSettings { level: LogLevel::Info, format: LogFormat::Text, file: None };
    let Some(mut table) = root.table("log") else { return settings };
    let levels = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];
    let levels = levels.map(|l| (l.name(), l));
    settings.level = table.choice("level", &levels).map_or(settings.level, |l| l.value);
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    settings.format = table.choice("format", &formats).map_or(settings.format, |f| f.value);
    if table.has("file") {
        settings.file = table.required_text("file", "").map(|f| f.value.to_owned());
    }
    table.finish();
    settings
}
