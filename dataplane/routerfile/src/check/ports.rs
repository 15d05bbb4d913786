//! Ports and routes: devices, modes, what the file lacks.

use super::Checker;
use crate::read::Declarations;
use perhop_model::PortMode;
use std::collections::BTreeMap;

/// Most ports of a router.
const MAX_PORTS: usize = 256;

pub(super) fn check(c: Checker<'_>, declared: &Declarations) {
    let root = c.document.root_location();
    if declared.ports.is_empty() && !declared.incomplete {
        c.push(
            c.document
                .error(root, "the file declares no port")
                .hint("Write [[port]] with a name for each interface"),
        );
    }
    if let Some(port) = declared.ports.get(MAX_PORTS) {
        let message = format!("is one of {} ports", declared.ports.len());
        c.push(c.error(port.at, "name", message).allowed(format!("at most {MAX_PORTS} ports")));
    }
    if let [port] = declared.ports.as_slice()
        && !declared.incomplete
    {
        let d = c.warning(port.at, "name", "is the only port");
        c.push(d.hint("a router forwards between ports. Declare the other side too"));
    }
    let mut devices = BTreeMap::new();
    for port in &declared.ports {
        let device = port.spec.device_of(port.name.as_str());
        if !c.sound(port.at, "device") {
            continue;
        }
        match devices.get(device) {
            None => {
                devices.insert(device, port);
            }
            Some(&first) if first.name != port.name => {
                let field = if port.spec.device.is_empty() { "name" } else { "device" };
                let d =
                    c.error(port.at, field, format!("is the interface of port \"{}\" already", first.name));
                let field = if first.spec.device.is_empty() { "name" } else { "device" };
                c.push_with(d, first.at, field, "the other port is here");
            }
            Some(_) => {}
        }
    }
    routes(c, declared);
}

fn routes(c: Checker<'_>, declared: &Declarations) {
    let bridge = declared.ports.iter().any(|p| p.spec.mode == PortMode::Bridge);
    let mut first = BTreeMap::new();
    for route in &declared.routes {
        if bridge {
            c.push(
                c.error(route.at, "", "has no meaning in bridge mode")
                    .hint("Remove it, or set router.mode = \"route\""),
            );
            continue;
        }
        let sound = c.sound(route.at, "metric") && c.sound(route.at, "dest");
        match first.get(&(route.spec.dest, route.spec.metric)) {
            Some(&before) if sound => {
                let d = c.error(route.at, "dest", "has a route of the same metric already");
                c.push_with(
                    d.hint("Give one of them another metric"),
                    before,
                    "dest",
                    "the first one is here",
                );
            }
            Some(_) => {}
            None => {
                first.insert((route.spec.dest, route.spec.metric), route.at);
            }
        }
    }
}
