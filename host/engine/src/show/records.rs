//! Rows of what the control thread knows by itself: events, and routes.

use crate::report::Row;
use perhop_elements::route::{NextHop, Origin, RouteEntry, RouteKind};
use perhop_flows::Shortage;
use perhop_model::Event;
use perhop_packet::PortId;
use perhop_units::Instant;
use serde_json::Value;

/// Kinds of the rows.
pub(crate) const EVENT: &str = "event";
pub(crate) const ROUTE: &str = "route";

/// An event with its age: its name is what happened, and the rest a fact, with `why` after it.
pub(crate) fn event_row(now: Instant, event: &Event, why: Option<&str>) -> Row {
    let fields = match serde_json::to_value(&event.kind) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let name = fields.get(EVENT_TAG).and_then(Value::as_str).unwrap_or_default();
    let words = fields.iter().filter(|(name, _)| *name != EVENT_TAG).map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    let what = words.chain(why.map(str::to_owned)).collect::<Vec<_>>().join(" ");
    let mut row = Row::new(EVENT, name);
    row.id = event.seq;
    let ms = now.as_nanos().saturating_sub(event.at_ns) / 1_000_000;
    row.facts.insert("ago".to_owned(), format!("{}.{} s", ms / 1_000, ms % 1_000 / 100));
    row.facts.insert("what".to_owned(), what);
    row
}

/// Name of the field that says which event it is.
const EVENT_TAG: &str = "type";

/// How full it was when a flow that would have been of `class` was refused or dropped.
pub(crate) fn shortage(class: &str, ports: &[String], full: &Shortage) -> String {
    let port = ports.get(full.port.index()).map_or_else(String::new, |port| format!(" port={port}"));
    let Shortage { used, cap, locked, .. } = full;
    format!("class={class}{port} used_bps={} cap_bps={} locked={locked}", used.0, cap.0)
}

/// A route of the tables that packets follow.
pub(crate) fn route_row(ports: &[String], route: &RouteEntry) -> Row {
    let mut row = Row::new(ROUTE, &route.dest.to_string());
    let port = |id: PortId| ports.get(id.index()).map_or("?", String::as_str);
    let hop = |hop: &NextHop| match hop.via {
        Some(via) => format!("via {via} by {}", port(hop.port)),
        None => format!("by {}", port(hop.port)),
    };
    let way = match &route.kind {
        RouteKind::Unicast { next_hops } => next_hops.iter().map(hop).collect::<Vec<_>>().join(", "),
        RouteKind::Local => "this machine".to_owned(),
        RouteKind::Kernel => "the kernel forwards it".to_owned(),
        RouteKind::Blackhole => "blackhole".to_owned(),
        RouteKind::Unreachable => "unreachable".to_owned(),
        RouteKind::Prohibit => "prohibited".to_owned(),
        RouteKind::Broadcast => "broadcast".to_owned(),
        RouteKind::Throw => "throw".to_owned(),
    };
    let origin = match route.origin {
        Origin::Object => "object",
        Origin::Kernel => "kernel",
    };
    let mut fact = |name: &str, text: String| row.facts.insert(name.to_owned(), text);
    fact("way", way);
    fact("origin", origin.to_owned());
    fact("table", route.table.to_string());
    if let Some(from) = route.from {
        fact("from", from.to_string());
    }
    if route.tos > 0 {
        fact("tos", format!("{:#04x}", route.tos));
    }
    row.counters.insert("metric".to_owned(), u64::from(route.metric));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::EventKind;
    use perhop_units::Rate;

    #[test]
    fn an_event_of_a_refused_flow_says_how_full_it_was() {
        let ports = ["lan", "wan"].map(str::to_owned);
        let full = Shortage { port: PortId(1), used: Rate(190_000), cap: Rate(200_000), locked: true };
        let why = shortage("ef", &ports, &full);
        let kind = EventKind::FlowRefused { flow: "udp 10.0.0.1:1>10.0.0.2:2".to_owned() };
        let event = Event { epoch: 1, seq: 7, at_ns: 500_000_000, kind };
        let row = event_row(Instant(2_000_000_000), &event, Some(&why));
        let what =
            "flow=udp 10.0.0.1:1>10.0.0.2:2 class=ef port=wan used_bps=190000 cap_bps=200000 locked=true";
        assert_eq!((row.name.as_str(), row.facts["what"].as_str()), ("flow_refused", what));
        assert_eq!(row.facts["ago"], "1.5 s");
        // Where all flows share a cap there is no port to name.
        let shared = Shortage { port: PortId::NONE, ..full };
        assert_eq!(shortage("ef", &ports, &shared), "class=ef used_bps=190000 cap_bps=200000 locked=true");
    }
}
