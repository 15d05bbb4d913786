//! Queues against the rates of their ports.

use super::tree::Trees;
use super::{Checker, rounded_up};
use crate::read::{Declarations, keeps_short, key_of};
use perhop_config::Location;
use perhop_contract::FRAME_MTU;
use perhop_model::{Name, QueueSpec, Scheduler};
use perhop_units::{Bytes, Duration, QueueLimit, Rate};
use std::collections::BTreeSet;

/// A queue that takes longer to empty is warned about.
const LONG: Duration = Duration::from_millis(500);

pub(super) fn check(c: Checker<'_>, declared: &Declarations, trees: &Trees) {
    let with_classes: BTreeSet<&Name> = declared.classes.iter().map(|d| &d.spec.port).collect();
    for port in &declared.ports {
        let Some(queue) = &port.spec.queue else { continue };
        let shared = port.spec.scheduler == Scheduler::Jobs;
        if with_classes.contains(&port.name) && !shared {
            let d = c.warning(port.at, "queue", "has no effect: the port has classes");
            c.push(d.value("").hint("each class has its own queue. Remove it"));
        } else {
            if let Some(key) = key_of(&queue.kind) {
                let (why, hint) = if with_classes.contains(&port.name) {
                    (
                        "has no effect: classes share its limit alone",
                        "only queues of classes drop early. Remove it",
                    )
                } else {
                    (
                        "has no effect: the port has no classes",
                        "only queues of classes drop early. Give the port a class",
                    )
                };
                c.push(c.warning(port.at, &format!("queue.{key}"), why).value("").hint(hint));
            }
            let rate = if c.sound(port.at, "rate") { port.spec.rate } else { Rate::ZERO };
            one(c, port.at, queue, &port.name, rate);
        }
    }
    for (i, class) in declared.classes.iter().enumerate() {
        if trees.leaf[i] {
            one(c, class.at, &class.spec.queue, &class.spec.port, trees.port_rate[i]);
        }
    }
}

fn one(c: Checker<'_>, at: Location, queue: &QueueSpec, port: &Name, rate: Rate) {
    let field = "queue.limit";
    if !c.sound(at, field) {
        return;
    }
    let frame = Bytes(FRAME_MTU);
    let never = "a full-size packet could never be queued.";
    match queue.limit {
        QueueLimit::Bytes(n) if n < Bytes(FRAME_MTU) => {
            let message = format!("is below the largest frame of port \"{port}\" ({frame})");
            c.push(c.error(at, field, message).hint(format!("{never} Use at least {frame}, or \"30 ms\"")));
            return;
        }
        // Whatever its time, a queue holds two frames: the default, which nobody had to write, stands at any rate.
        limit if limit == QueueSpec::default().limit => {}
        QueueLimit::Time(ns) if rate.0 > 0 && rate.bytes_in(ns) < frame => {
            let holds = rate.bytes_in(ns);
            let message =
                format!("is {holds} at the rate of port \"{port}\" ({rate}), less than a frame of {frame}");
            let least = rounded_up(rate.time_for(frame));
            c.push(c.error(at, field, message).hint(format!("{never} Use at least \"{least}\"")));
            return;
        }
        _ => {}
    }
    if rate.0 == 0 || keeps_short(&queue.kind) {
        return;
    }
    let longest = match queue.limit {
        QueueLimit::Time(ns) => ns,
        QueueLimit::Bytes(n) => rate.time_for(n),
        QueueLimit::Packets(n) => rate.time_for(Bytes(u64::from(n) * FRAME_MTU)),
    };
    if longest > LONG {
        let takes = rounded_up(longest);
        let message = match queue.limit {
            QueueLimit::Time(_) => format!("is longer than {LONG}"),
            _ => format!(
                "takes up to {takes} to send at the rate of port \"{port}\" ({rate}), more than {LONG}"
            ),
        };
        let d = c.warning(at, field, message);
        c.push(d.hint("who waits that long has sent again by then. Use for example \"100 ms\""));
    }
}
