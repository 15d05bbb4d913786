//! `[[filter]]`: a condition and what it chooses. The first match by tier, then by order in the file, decides.
//!
//! | key | value | default | range |
//! |---|---|---|---|
//! | `name` | name | `filter-` and its priority | |
//! | `tier` | whole number | 0 | 0 – 255 |
//! | `match.in_port` | port | any | |
//! | `match.vlan` | VLAN, 0 = untagged | any | 0 – 4094 |
//! | `match.src`, `match.dst` | prefix or address | any | one family |
//! | `match.protocol` | name or number | any | 0 – 255 |
//! | `match.src_ports`, `match.dst_ports` | port or `"first-last"` | any | needs TCP, UDP, SCTP or UDP-Lite |
//! | `match.dscp` | code point, or `"value/mask"` | any | 0 – 63 |
//! | `match.tcp_flags` | `"syn/syn+ack"`: set / compared | any | needs TCP |
//! | `match.fragment` | boolean | any | |
//! | `class` | logical class | the default class | |
//! | `sla`, `profile` | contract, profile | none | |
//! | `realtime` | whether detection may move the flows | only without `class` | |
//! | `shared` | boolean | false | |

use super::flag;
use crate::names::{Names, class, reference};
use crate::value;
use perhop_config::{TableReader, packet};
use perhop_model::{FilterMatch, FilterSpec};

/// Protocols with ports: TCP, UDP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 4] = [6, 17, 132, 136];
const TCP: u8 = 6;

/// Reads one filter without its priority; absent and wrong values take their defaults.
pub(super) fn read(table: &mut TableReader<'_>, names: &Names<'_>) -> FilterSpec {
    let tier = table.integer("tier", 0..=255).map_or(0, |t| t.value as u8);
    let matches = match table.table("match") {
        Some(inner) => condition(inner, names),
        None => FilterMatch::default(),
    };
    FilterSpec {
        tier,
        priority: 0,
        matches,
        class: class(table, "class", names),
        sla: reference(table, "sla", "an sla", &names.slas),
        profile: reference(table, "profile", "a profile", &names.profiles),
        realtime: table.boolean("realtime").map(|r| r.value),
        shared: flag(table, "shared", false),
    }
}

fn condition(mut table: TableReader<'_>, names: &Names<'_>) -> FilterMatch {
    let t = &mut table;
    let matches = FilterMatch {
        in_port: reference(t, "in_port", "a port", &names.ports),
        vlan: t.integer("vlan", 0..=4094).map(|v| v.value as u16),
        src: t.value_with("src", "a prefix", value::prefix).map(|p| p.value),
        dst: t.value_with("dst", "a prefix", value::prefix).map(|p| p.value),
        protocol: t.value_with("protocol", "a protocol", packet::protocol).map(|p| p.value),
        src_ports: t.value_with("src_ports", "a port or a range", value::ports).map(|p| p.value),
        dst_ports: t.value_with("dst_ports", "a port or a range", value::ports).map(|p| p.value),
        dscp: t.value_with("dscp", "a code point", value::masked_dscp).map(|d| d.value),
        tcp_flags: t.value_with("tcp_flags", "TCP flags", value::tcp_flags).map(|f| f.value),
        fragment: t.boolean("fragment").map(|f| f.value),
    };
    if let (Some(src), Some(dst)) = (matches.src, matches.dst)
        && src.addr().is_ipv4() != dst.addr().is_ipv4()
    {
        let d = t.error("dst", format!("is not of the family of src ({src})"));
        t.diagnostics().push(d.hint("no packet has both. Write one filter for IPv4 and one for IPv6"));
    }
    // A protocol that could not be read may well be the right one.
    let unread = matches.protocol.is_none() && t.has("protocol");
    for (key, ports) in [("src_ports", matches.src_ports), ("dst_ports", matches.dst_ports)] {
        if ports.is_some() && !unread && !matches.protocol.is_some_and(|p| WITH_PORTS.contains(&p)) {
            let d = t.error(key, "needs a protocol with ports").hint("Add protocol = \"udp\" or \"tcp\"");
            t.diagnostics().push(d);
        }
    }
    if matches.tcp_flags.is_some() && !unread && matches.protocol != Some(TCP) {
        let d = t.error("tcp_flags", "needs protocol = \"tcp\"");
        t.diagnostics().push(d);
    }
    table.finish();
    matches
}
