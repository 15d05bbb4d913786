//! Rows of what the control thread knows by itself: events, and routes.

use crate::kernel_routes::kernel_metric;
use crate::report::Row;
use perhop_elements::route::{NextHop, Origin, RouteEntry, RouteKind};
use perhop_model::Event;
use perhop_packet::PortId;
use perhop_units::Instant;
use serde_json::Value;

/// Kinds of the rows.
pub(crate) const EVENT: &str = "event";
pub(crate) const ROUTE: &str = "route";

/// An event with its age: its name is what happened, and the rest a fact.
pub(crate) fn event_row(now: Instant, event: &Event) -> Row {
    let fields = match serde_json::to_value(&event.kind) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let name = fields.get(EVENT_TAG).and_then(Value::as_str).unwrap_or_default();
    let words = fields.iter().filter(|(name, _)| *name != EVENT_TAG).map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    let what = words.collect::<Vec<_>>().join(" ");
    let mut row = Row::new(EVENT, name);
    row.id = event.seq;
    let ms = now.as_nanos().saturating_sub(event.at_ns) / 1_000_000;
    row.facts.insert("ago".to_owned(), format!("{}.{} s", ms / 1_000, ms % 1_000 / 100));
    row.facts.insert("what".to_owned(), what);
    row
}

/// Name of the field that says which event it is.
const EVENT_TAG: &str = "type";

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
    let (origin, metric) = match route.origin {
        Origin::Object => ("object", route.metric),
        // As `ip route` says it.
        Origin::Kernel => ("kernel", kernel_metric(route.metric)),
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
    row.counters.insert("metric".to_owned(), u64::from(metric));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::{EventKind, FlowShortage};
    use perhop_units::Rate;

    #[test]
    fn an_event_of_a_refused_flow_says_how_full_it_was() {
        let full = FlowShortage {
            class: "ef".to_owned(),
            port: Some("wan".to_owned()),
            used: Rate(190_000),
            cap: Rate(200_000),
            locked: true,
        };
        let flow = "udp 10.0.0.1:1>10.0.0.2:2".to_owned();
        let row = |shortage| {
            let kind = EventKind::FlowRefused { flow: flow.clone(), shortage };
            event_row(Instant(2_000_000_000), &Event { epoch: 1, seq: 7, at_ns: 500_000_000, kind })
        };
        // Where all flows share a cap there is no port to name.
        let shared = row(FlowShortage { port: None, ..full.clone() });
        let row = row(full);
        let (flow, numbers) = ("flow=udp 10.0.0.1:1>10.0.0.2:2", "used_bps=190000");
        let what = format!("cap_bps=200000 class=ef {flow} locked=true port=wan {numbers}");
        assert_eq!((row.name.as_str(), &row.facts["what"]), ("flow_refused", &what));
        assert_eq!(row.facts["ago"], "1.5 s");
        assert_eq!(shared.facts["what"], what.replace(" port=wan", ""));
    }

    #[test]
    fn a_route_of_the_kernel_has_the_metric_that_the_kernel_says() {
        let metric = |origin, metric| {
            let route = RouteEntry {
                metric,
                origin,
                ..RouteEntry::new("10.0.0.0/8".parse().unwrap(), RouteKind::Throw)
            };
            route_row(&[], &route).counters["metric"]
        };
        assert_eq!((metric(Origin::Kernel, 1_025), metric(Origin::Object, 1_025)), (1_024, 1_025));
    }
}
