//! What a traffic sends: the keys that belong to its kind.

use super::cx::Cx;
use super::{companions, tcp};
use crate::model::{Tcp, TrafficKind};
use perhop_config::TableReader;
use perhop_quality::Codec;
use perhop_traffic::{Activity, GopConfig, LognormalSize, TimeUnit, WebConfig};
use perhop_units::{Bytes, Duration, Rate};

/// Most streams of datagrams of a scenario: each has its ports.
pub(super) const MAX_STREAMS: i64 = 24_000;
/// Shortest and longest IP packet: headers and the stamp that the receiver needs; the MTU.
const PACKETS: (u64, u64) = (44, 1_500);
/// Shortest IP packet of RTP: its header too.
const SHORTEST_RTP: u64 = 56;
/// Longest mean period, thinking time and step.
const DAY: Duration = Duration::from_secs(86_400);
/// Largest object.
const MAX_OBJECT: Bytes = Bytes(1_000_000_000_000);

#[derive(Clone, Copy)]
enum Kind {
    Voice,
    Video,
    Constant,
    Poisson,
    OnOff,
    Mmpp,
    Staircase,
    Rtp,
    Replay,
    Bulk,
    Files,
    Web,
}

/// Kinds by name.
const KINDS: [(&str, Kind); 12] = [
    ("voice", Kind::Voice),
    ("video", Kind::Video),
    ("constant", Kind::Constant),
    ("poisson", Kind::Poisson),
    ("on-off", Kind::OnOff),
    ("mmpp", Kind::Mmpp),
    ("staircase", Kind::Staircase),
    ("rtp", Kind::Rtp),
    ("replay", Kind::Replay),
    ("bulk", Kind::Bulk),
    ("files", Kind::Files),
    ("web", Kind::Web),
];

/// Reads the kind and its keys; `None` if the kind, or something without a default, is missing or wrong.
pub(super) fn read(cx: &Cx<'_>, table: &mut TableReader<'_>, defaults: &Tcp) -> Option<TrafficKind> {
    table.require("kind", "\"voice\"");
    match table.choice("kind", &KINDS)?.value {
        Kind::Voice => Some(voice(table)),
        Kind::Video => Some(video(cx, table)),
        Kind::Constant => {
            let (count, rate, size) = (count(table, "count"), rate(cx, table), packet(table));
            Some(TrafficKind::Constant { count, rate, size })
        }
        Kind::Poisson => {
            let (count, rate, size) = (count(table, "count"), rate(cx, table), packet(table));
            Some(TrafficKind::Poisson { count, rate, size })
        }
        Kind::OnOff => Some(on_off(cx, table)),
        Kind::Mmpp => Some(TrafficKind::Mmpp { count: count(table, "count"), rate: rate(cx, table) }),
        Kind::Staircase => Some(staircase(cx, table)),
        Kind::Rtp => Some(rtp(cx, table)),
        Kind::Replay => Some(replay(cx, table)),
        Kind::Bulk => {
            let size = table.value_in("size", Bytes(1)..=MAX_OBJECT).map(|s| s.value);
            let (count, spacing) = (count(table, "count"), spacing(table));
            let at_once = table.integer("at_once", 1..=MAX_STREAMS).map_or(1, |n| n.value as u16);
            let stagger = table.value_in("stagger", Duration::ZERO..=DAY).map_or(Duration::ZERO, |s| s.value);
            let access_delay = span(cx, table, "access_delay", (Duration::ZERO, Duration::ZERO));
            let tcp = tcp::read(cx, table, defaults);
            Some(TrafficKind::Bulk { count, size, spacing, at_once, stagger, access_delay, tcp })
        }
        Kind::Files => {
            let (count, size) = (count(table, "count"), object(table, LognormalSize::FILE));
            Some(TrafficKind::Files { count, size, tcp: tcp::read(cx, table, defaults) })
        }
        Kind::Web => Some(web(cx, table, defaults)),
    }
}

fn count(table: &mut TableReader<'_>, key: &'static str) -> u16 {
    table.integer(key, 1..=MAX_STREAMS).map_or(1, |n| n.value as u16)
}

/// A rate that must be given; the default only stands for one that is wrong.
fn rate(cx: &Cx<'_>, table: &mut TableReader<'_>) -> Rate {
    table.require("rate", "\"1 Mbit/s\"");
    optional_rate(cx, table).unwrap_or(Rate::from_mbit(1))
}

fn optional_rate(cx: &Cx<'_>, table: &mut TableReader<'_>) -> Option<Rate> {
    let rate = table.value::<Rate>("rate")?;
    if rate.value == Rate::ZERO {
        cx.push(cx.error(rate.span, "would send nothing").hint("Remove the traffic instead"));
        return None;
    }
    table.in_range(rate, Rate(1)..=Rate::MOST).map(|r| r.value)
}

/// IP length of datagrams.
fn packet(table: &mut TableReader<'_>) -> Bytes {
    let (least, most) = PACKETS;
    table.value_in("size", Bytes(least)..=Bytes(most)).map_or(Bytes(1_000), |s| s.value)
}

fn object(table: &mut TableReader<'_>, like: LognormalSize) -> Bytes {
    // Larger means would be cut at the largest object of the distribution.
    let size = table.value_in("size", Bytes(1)..=Bytes(like.most_bytes));
    size.map_or(Bytes(like.geometric_mean_bytes), |s| s.value)
}

fn spacing(table: &mut TableReader<'_>) -> Duration {
    table.value_in("spacing", Duration::ZERO..=DAY).map_or(Duration::ZERO, |s| s.value)
}

fn voice(table: &mut TableReader<'_>) -> TrafficKind {
    let codecs = Codec::ALL.map(|codec| (codec.name(), codec));
    let calls = count(table, "calls");
    let codec = table.choice("codec", &codecs).map_or(Codec::G711U, |c| c.value);
    TrafficKind::Voice { calls, codec, spacing: spacing(table), silence_suppression: silence(table) }
}

/// `silence_suppression`: true for the means of a conversation, or a table with both.
fn silence(table: &mut TableReader<'_>) -> Option<(Duration, Duration)> {
    let Activity::TalkSpurts { talk, silence } = Activity::CONVERSATION else { return None };
    if !table.is_table("silence_suppression") {
        return table.boolean("silence_suppression").filter(|s| s.value).map(|_| (talk, silence));
    }
    let mut periods = table.table("silence_suppression")?;
    let period = Duration::from_millis(1)..=DAY;
    let talk = periods.value_in("talk", period.clone()).map_or(talk, |t| t.value);
    let silence = periods.value_in("silence", period).map_or(silence, |s| s.value);
    periods.finish();
    Some((talk, silence))
}

fn video(cx: &Cx<'_>, table: &mut TableReader<'_>) -> TrafficKind {
    let units = [("ms", TimeUnit::Milliseconds), ("s", TimeUnit::Seconds)];
    let count = count(table, "count");
    let unit = table.choice("trace_time", &units);
    let file = table.text("trace");
    let rate = table.value_in("rate", Rate::from_kbit(8)..=Rate(10_000_000_000));
    if let (Some(file), Some(rate)) = (file, rate) {
        let warning =
            cx.warning(rate.span, "has no effect: the trace has its own rate").hint("Remove one of them");
        cx.push(cx.file.with_secondary(warning, file.span, "the trace is here"));
    }
    let unit = unit.map_or(TimeUnit::Milliseconds, |u| u.value);
    let trace = file.and_then(|file| companions::frame_trace(cx, file, unit));
    TrafficKind::Video { count, trace, rate: rate.map_or(GopConfig::MR_BEAN.mean, |r| r.value) }
}

fn on_off(cx: &Cx<'_>, table: &mut TableReader<'_>) -> TrafficKind {
    let (count, rate, size) = (count(table, "count"), rate(cx, table), packet(table));
    let period = Duration::from_micros(1)..=DAY;
    let on = table.value_in("on", period.clone()).map_or(Duration::from_secs(1), |p| p.value);
    let off = table.value_in("off", period).map_or(Duration::from_secs(1), |p| p.value);
    let shape = table.number("pareto_shape", 1.05..=10.0);
    let pareto_shape_milli = shape.map(|s| (s.value * 1_000.0).round() as u32);
    TrafficKind::OnOff { count, rate, size, on, off, pareto_shape_milli }
}

fn staircase(cx: &Cx<'_>, table: &mut TableReader<'_>) -> TrafficKind {
    let size = packet(table);
    table.require("steps", "[{ for = \"10 s\", rate = \"1 Mbit/s\" }]");
    let mut steps = Vec::new();
    for mut step in table.tables("steps") {
        let lasts = step.required::<Duration>("for", "\"10 s\"");
        let lasts = lasts.and_then(|d| step.in_range(d, Duration(1)..=DAY));
        step.require("rate", "\"1 Mbit/s\"");
        let rate = step.value_in("rate", Rate::ZERO..=Rate::MOST);
        step.finish();
        steps.extend(lasts.zip(rate).map(|(lasts, rate)| (lasts.value, rate.value)));
    }
    if let Some(at) = table.location_of("steps").filter(|_| steps.iter().all(|(_, rate)| *rate == Rate::ZERO))
        && !cx.is_wrong(at)
        && !cx.diagnostics.has_errors()
    {
        cx.push(cx.error(at, "has no step with a rate above 0").value(""));
    }
    let repeat = table.boolean("repeat").is_some_and(|repeat| repeat.value);
    let within = table.value_in("start_within", Duration::ZERO..=DAY).map_or(Duration::ZERO, |w| w.value);
    TrafficKind::Staircase { steps, size, repeat, start_within: within }
}

/// RTP: `rate` is one, or a list of which each lasts for a time from `stay`.
fn rtp(cx: &Cx<'_>, table: &mut TableReader<'_>) -> TrafficKind {
    let count = count(table, "count");
    let size = table.value_in("size", Bytes(SHORTEST_RTP)..=Bytes(PACKETS.1)).map_or(Bytes(200), |s| s.value);
    let (rates, several) = rates(cx, table);
    let given = table.location_of("stay");
    let stay = span(cx, table, "stay", (Duration::ZERO, Duration::from_secs(20)));
    if let Some(at) = given.filter(|_| !several && !rates.is_empty()) {
        let warning = cx.warning(at, "has no effect: there is one rate");
        cx.push(warning.hint("Write rate as a list, such as [\"0 kbit/s\", \"64 kbit/s\"]"));
    }
    TrafficKind::Rtp { count, rates, stay, size }
}

/// One rate above 0, or a list with one; and whether it is a list. Empty after an error.
fn rates(cx: &Cx<'_>, table: &mut TableReader<'_>) -> (Vec<Rate>, bool) {
    if !table.is_list("rate") {
        return (vec![rate(cx, table)], false);
    }
    let Some(given) = table.values::<Rate>("rate") else { return (Vec::new(), true) };
    let fits = |rate| table.in_range(rate, Rate::ZERO..=Rate::MOST);
    let rates: Vec<Rate> = given.value.into_iter().filter_map(fits).map(|rate| rate.value).collect();
    if rates.len() == cx.file.count(given.span) && rates.iter().all(|rate| *rate == Rate::ZERO) {
        cx.push(cx.error(given.span, "has no rate above 0").value(""));
    }
    (rates, true)
}

fn replay(cx: &Cx<'_>, table: &mut TableReader<'_>) -> TrafficKind {
    let file = table.required_text("capture", "\"capture.pcap\"");
    let capture = file.and_then(|file| companions::capture(cx, file));
    TrafficKind::Replay { capture: capture.unwrap_or_else(|| [].into()), rate: optional_rate(cx, table) }
}

/// A time, or the shortest and the longest.
fn span(
    cx: &Cx<'_>,
    table: &mut TableReader<'_>,
    key: &'static str,
    default: (Duration, Duration),
) -> (Duration, Duration) {
    let Some(given) = table.values::<Duration>(key) else { return default };
    let times: Vec<Duration> = given.value.iter().map(|t| t.value).collect();
    let written = cx.file.count(given.span);
    match times.as_slice() {
        [one] if written < 2 => return (*one, *one),
        [least, most] if least <= most && *most <= DAY => return (*least, *most),
        // What could not be read was told.
        _ if times.len() < written => {}
        _ => {
            let allowed = "two times, the shorter first, at most 24 h";
            let error = cx.error(given.span, "is not a span of times").allowed(allowed);
            cx.push(error.hint("Write for example [\"0 s\", \"12 s\"]"));
        }
    }
    default
}

fn web(cx: &Cx<'_>, table: &mut TableReader<'_>, defaults: &Tcp) -> TrafficKind {
    let client = WebConfig::SIEGE_CLIENT;
    let (count, size) = (count(table, "count"), object(table, LognormalSize::WEB_OBJECT));
    let think = span(cx, table, "think", (client.think_least, client.think_most));
    let objects = table.integer("persistent_objects", 1..=1_000).map(|n| n.value as u16);
    TrafficKind::Web { count, think, size, persistent_objects: objects, tcp: tcp::read(cx, table, defaults) }
}
