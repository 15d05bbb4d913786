//! `explain`: what would become of a packet described in words. A dry run that changes nothing.

use perhop_elements::route::{Action, RouteKind};
use perhop_flows::Explanation;
use perhop_graph::control::Control;
use perhop_graph::router::{RouterPlanner, Worker};
use perhop_model::ErrorItem;
use perhop_packet::{ClassId, Meta, PortId, ProfileId, SlaId};
use perhop_reason::Code;
use perhop_units::Dscp;
use perhop_wire::build::{FrameBuilder, icmp4_echo, icmp6_echo, tcp4, tcp6, udp4, udp6};
use perhop_wire::{Layout, dissect};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

/// How a packet is described.
const FORM: &str = "in=PORT udp|tcp|icmp SOURCE[:PORT]>DESTINATION[:PORT] [dscp=0-63|NAME] [len=IP LENGTH] [ttl=N], for \
                    example: in=lan udp 10.0.0.1:5004>10.1.0.2:5004 dscp=0 len=200";

/// A described packet.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    in_port: PortId,
    dst: IpAddr,
    ttl: u8,
    frame: Vec<u8>,
    layout: Layout,
}

/// The parts of a description.
struct Words<'t> {
    in_port: Option<PortId>,
    protocol: &'t str,
    flow: Option<(SocketAddr, SocketAddr)>,
    dscp: Dscp,
    len: u16,
    ttl: u8,
}

/// What the worker says, by number.
pub(crate) struct Explained {
    described: Described,
    flows: Option<Explanation>,
    route: Value,
    out: Option<PortId>,
    leaf: Option<u32>,
}

fn wrong(message: String) -> ErrorItem {
    ErrorItem {
        op: None,
        path: "packet".to_owned(),
        code: Code::Malformed,
        message,
        value: None,
        allowed: Some(FORM.to_owned()),
        limit: None,
        free: None,
    }
}

/// `10.0.0.1:5004`, `10.0.0.1`, `[2001:db8::1]:5004`, `2001:db8::1`.
fn endpoint(text: &str) -> Result<SocketAddr, ErrorItem> {
    if let Ok(full) = text.parse::<SocketAddr>() {
        return Ok(full);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let ip: IpAddr =
        bare.parse().map_err(|_| wrong(format!("{text:?} is not an address with or without a port")))?;
    Ok(SocketAddr::new(ip, 0))
}

impl Described {
    pub(crate) fn parse(text: &str, ports: &[String]) -> Result<Self, ErrorItem> {
        let mut words =
            Words { in_port: None, protocol: "udp", flow: None, dscp: Dscp::default(), len: 200, ttl: 64 };
        for word in text.split_ascii_whitespace() {
            read_word(&mut words, word, ports)?;
        }
        let in_port = words.in_port.ok_or_else(|| wrong("in=PORT is missing".to_owned()))?;
        let (src, dst) = words.flow.ok_or_else(|| wrong("SOURCE>DESTINATION is missing".to_owned()))?;
        let frame = frame(&words, src, dst)?;
        let layout = dissect(&frame).map_err(|e| wrong(format!("this packet would be malformed: {e:?}")))?;
        Ok(Self { in_port, dst: dst.ip(), ttl: words.ttl, frame, layout })
    }

    /// On the packet thread, between two batches.
    pub(crate) fn explain(self, worker: &Worker) -> Explained {
        let flows = worker.flows().map(|f| f.explain(&self.frame, &self.layout, self.in_port));
        let (route, out) = self.route(worker);
        let leaf = out.and_then(|port| {
            let egress = worker.egress(port)?;
            let e = flows.as_ref();
            let meta = Meta {
                class: ClassId(e.and_then(|e| e.class).unwrap_or(u32::MAX)),
                sla: SlaId(e.and_then(|e| e.sla).unwrap_or(u32::MAX)),
                ..Meta::default()
            };
            Some(egress.leaf_for(&meta).0)
        });
        Explained { described: self, flows, route, out, leaf }
    }

    fn route(&self, worker: &Worker) -> (Value, Option<PortId>) {
        let Some(route) = worker.route() else { return (json!({"action": "bridge"}), None) };
        let fib = route.fib();
        let action = fib.lookup(self.dst);
        let prefix = fib.route_to(self.dst).map(|r| r.dest.to_string());
        let several = matches!(action, Action::Group { .. });
        let index = match action {
            Action::Hop(hop) => Some(hop),
            // Which one depends on the flow; the first stands for all.
            Action::Group { first, count } => Some(fib.member(first, count, 0)),
            _ => None,
        };
        let hop = index.and_then(|i| fib.next_hops().get(i as usize));
        let word = match action {
            _ if self.ttl <= 1 && index.is_some() => "time exceeded",
            Action::Hop(_) | Action::Group { .. } => "forward",
            Action::Local | Action::Broadcast => "deliver to this machine",
            Action::Blackhole => "drop (blackhole)",
            Action::Unreachable => "reject (unreachable)",
            Action::Prohibit => "reject (prohibited)",
            Action::NoRoute => "reject (no route)",
        };
        let unicast = fib.route_to(self.dst).is_some_and(|r| matches!(r.kind, RouteKind::Unicast { .. }));
        let value = json!({
            "action": word,
            "prefix": prefix,
            "next_hop": hop.filter(|_| unicast).map(|h| h.via.unwrap_or(self.dst).to_string()),
            "one_of_several": several,
        });
        (value, hop.map(|h| h.port).filter(|_| self.ttl > 1))
    }
}

impl Explained {
    /// On the control thread: numbers become names.
    pub(crate) fn finish(
        self,
        control: &Control<RouterPlanner>,
        ports: &[String],
    ) -> Result<Value, ErrorItem> {
        let planner = control.planner();
        let port_name = |p: PortId| ports.get(p.index()).cloned();
        let mut value = json!({
            "in": port_name(self.described.in_port),
            "ip_len": self.described.layout.ip_len,
            "route": self.route,
        });
        if let Some(out) = self.out {
            value["out"] = json!(port_name(out));
            let class = self.leaf.and_then(|leaf| planner.leaf_class(out, leaf));
            value["queue"] = json!(class.map_or_else(|| "default".to_owned(), |(name, _)| name.to_string()));
        }
        if let Some(flows) = self.flows {
            let mut names = serde_json::to_value(&flows)
                .map_err(|e| wrong(format!("the explanation cannot be written: {e}")))?;
            names["class"] = json!(flows.class.and_then(|c| planner.class_name(ClassId(c))));
            names["sla"] = json!(flows.sla.and_then(|c| planner.sla_name(SlaId(c))).map(ToString::to_string));
            names["profile"] = json!(
                flows.profile.and_then(|c| planner.profile_name(ProfileId(c))).map(ToString::to_string)
            );
            value["classification"] = names;
        }
        Ok(value)
    }
}

fn read_word<'t>(words: &mut Words<'t>, word: &'t str, ports: &[String]) -> Result<(), ErrorItem> {
    let number = |text: &str, range: std::ops::RangeInclusive<u16>| {
        text.parse::<u16>().ok().filter(|n| range.contains(n)).ok_or_else(|| {
            wrong(format!("{word}: a number of {} to {} is needed", range.start(), range.end()))
        })
    };
    match word.split_once('=') {
        Some(("in", name)) => {
            let found = ports.iter().position(|p| p == name);
            let i = found
                .ok_or_else(|| wrong(format!("there is no port {name:?}; ports are {}", ports.join(", "))))?;
            words.in_port = Some(PortId(i as u16));
        }
        Some(("dscp", text)) => {
            words.dscp = text.parse().map_err(|e| wrong(format!("{word}: {e}")))?;
        }
        Some(("len", text)) => words.len = number(text, 20..=1500)?,
        Some(("ttl", text)) => words.ttl = number(text, 0..=255)? as u8,
        Some((key, _)) => return Err(wrong(format!("{key:?} is not understood"))),
        None if matches!(word, "udp" | "tcp" | "icmp") => words.protocol = word,
        None => {
            let (src, dst) =
                word.split_once('>').ok_or_else(|| wrong(format!("{word:?} is not understood")))?;
            words.flow = Some((endpoint(src)?, endpoint(dst)?));
        }
    }
    Ok(())
}

fn frame(words: &Words<'_>, src: SocketAddr, dst: SocketAddr) -> Result<Vec<u8>, ErrorItem> {
    let builder: FrameBuilder = match (words.protocol, src.ip(), dst.ip()) {
        ("udp", IpAddr::V4(s), IpAddr::V4(d)) => udp4(s, d).ports(src.port(), dst.port()),
        ("udp", IpAddr::V6(s), IpAddr::V6(d)) => udp6(s, d).ports(src.port(), dst.port()),
        ("tcp", IpAddr::V4(s), IpAddr::V4(d)) => tcp4(s, d).ports(src.port(), dst.port()),
        ("tcp", IpAddr::V6(s), IpAddr::V6(d)) => tcp6(s, d).ports(src.port(), dst.port()),
        ("icmp", IpAddr::V4(s), IpAddr::V4(d)) => icmp4_echo(s, d, 1, 1),
        ("icmp", IpAddr::V6(s), IpAddr::V6(d)) => icmp6_echo(s, d, 1, 1),
        _ => return Err(wrong("source and destination are of different IP versions".to_owned())),
    };
    let least = match (words.protocol, src.is_ipv4()) {
        ("tcp", true) => 40,
        ("tcp", false) => 60,
        (_, true) => 28,
        (_, false) => 48,
    };
    if words.len < least {
        return Err(wrong(format!("len={} is below {least}, the length of the headers", words.len)));
    }
    Ok(builder.dscp(words.dscp).ttl(words.ttl).ip_len(words.len).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_become_packets_or_a_sentence() {
        let ports = ["lan".to_owned(), "wan".to_owned()];
        let d = Described::parse("in=wan udp 10.0.0.1:5004>10.1.0.2:5006 dscp=EF len=200", &ports).unwrap();
        assert_eq!((d.in_port, d.layout.ip_len, d.layout.tos >> 2), (PortId(1), 200, 46));
        let d = Described::parse("in=lan tcp [2001:db8::1]:80>[2001:db8::2]:1025 ttl=1", &ports).unwrap();
        assert_eq!((d.layout.ip_version, d.layout.protocol, d.ttl), (6, 6, 1));
        for (text, says) in [
            ("udp 10.0.0.1:1>10.0.0.2:2", "in=PORT is missing"),
            ("in=lan udp", "SOURCE>DESTINATION is missing"),
            ("in=man udp 10.0.0.1:1>10.0.0.2:2", "no port \"man\"; ports are lan, wan"),
            ("in=lan udp 10.0.0.1:1>[::1]:2", "different IP versions"),
            ("in=lan udp 10.0.0.1:1>10.0.0.2:2 len=20", "below 28"),
            ("in=lan udp 10.0.0.1:1>10.0.0.2:2 len=9000", "20 to 1500"),
            ("in=lan udp 10.0.0.300:1>10.0.0.2:2", "not an address"),
            ("in=lan quic 10.0.0.1:1>10.0.0.2:2", "\"quic\" is not understood"),
        ] {
            let error = Described::parse(text, &ports).unwrap_err();
            assert!(error.message.contains(says), "{text}: {}", error.message);
            assert!(error.allowed.is_some());
        }
    }
}
