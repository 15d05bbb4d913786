//! Replacing a running graph.
//!
//! An element of the new graph that has the name, type and version of a running one takes its place: books, timers and
//! connections into it stay, and its state (with the packets inside) moves. An element that is not in the new graph
//! and still holds packets stays as a retired one, connected as before, until it is empty or its time is over.

use crate::lang::Built;
use perhop_element::{Driver, Edge, NodeId};
use perhop_packet::DropReason;
use perhop_units::{Duration, Instant};
use std::collections::HashMap;

/// Prefix of the names of retired elements, followed by the time at which what they hold is dropped.
pub const RETIRED: &str = "retired:";
/// How long a retired element may drain.
pub const DRAIN: Duration = Duration::from_secs(1);

/// What a swap did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swapped {
    /// Elements that took the place of their predecessor with its state.
    pub moved: usize,
    /// Elements that took the place of their predecessor without its state.
    pub reset: usize,
    /// New elements.
    pub added: usize,
    /// Elements that drain.
    pub retired: usize,
    /// Packets that could not move.
    pub dropped: u64,
}

/// Puts `built` in the place of the running graph, between two batches.
pub fn swap(driver: &mut Driver, now: Instant, built: Built) -> Swapped {
    let mut done = Swapped::default();
    let running: HashMap<String, NodeId> = driver
        .ids()
        .filter(|id| !driver.name(*id).starts_with(RETIRED))
        .map(|id| (driver.name(id).to_owned(), id))
        .collect();
    let Built { graph, nodes } = built;
    let mut ids = Vec::with_capacity(nodes.len());
    for node in nodes {
        match running.get(&node.name) {
            Some(id) => {
                take_place(driver, *id, node.element, &mut done);
                ids.push(*id);
            }
            None => {
                done.added += 1;
                ids.push(driver.add(&node.name, node.element, node.outputs));
            }
        }
    }
    for (index, id) in ids.iter().enumerate() {
        let mut outputs = vec![None; driver.edges(*id).len()];
        for e in graph.edges.iter().filter(|e| e.from == index) {
            if outputs.len() <= e.output as usize {
                outputs.resize(e.output as usize + 1, None);
            }
            outputs[e.output as usize] = Some(Edge { to: ids[e.to], input: e.input });
        }
        driver.set_outputs(*id, outputs);
    }
    for (name, id) in running.iter().filter(|(_, id)| !ids.contains(id)) {
        done.retired += 1;
        driver.rename(*id, &format!("{RETIRED}{}:{name}", (now + DRAIN).as_nanos()));
    }
    collect_retired(driver, now);
    done
}

fn take_place(
    driver: &mut Driver,
    id: NodeId,
    mut new: Box<dyn perhop_element::Element>,
    done: &mut Swapped,
) {
    let Some(old) = driver.element_dyn_mut(id) else { return };
    let alike = old.type_name() == new.type_name() && old.version() == new.version();
    let state = if alike { old.export_state() } else { None };
    match state.map(|s| new.import_state(s)) {
        Some(Ok(())) => done.moved += 1,
        Some(Err(state)) => {
            // The predecessor takes its state back, so that its packets can be counted out.
            if let Some(old) = driver.element_dyn_mut(id) {
                let _ = old.import_state(state);
            }
            done.reset += 1;
            done.dropped += driver.drop_held(id, DropReason::GraphReplaced);
        }
        None => {
            done.reset += usize::from(!alike);
            done.dropped += driver.drop_held(id, DropReason::GraphReplaced);
        }
    }
    driver.replace(id, new);
}

/// Removes retired elements that are empty, or whose time is over: what they still hold is dropped.
pub fn collect_retired(driver: &mut Driver, now: Instant) -> u64 {
    let mut dropped = 0;
    let retired: Vec<NodeId> = driver.ids().filter(|id| driver.name(*id).starts_with(RETIRED)).collect();
    for id in retired {
        let held = driver.element(id).map_or(0, |e| e.held());
        let until = driver.name(id)[RETIRED.len()..].split(':').next().and_then(|t| t.parse().ok());
        let over = until.is_none_or(|t: u64| t <= now.as_nanos());
        if held > 0 && !over {
            continue;
        }
        dropped += driver.drop_held(id, DropReason::GraphReplaced);
        driver.remove(id);
    }
    dropped
}
