//! Replacing a running graph between two batches.
//!
//! * An element of the new graph that has the name, type and version of a running one takes its place: books, timers
//!   and connections into it stay, and its state, packets included, moves.
//! * One with the name but another type or version is refused by the planner ([`SwapError`]) unless it is to be reset. Then
//!   it is new, and its predecessor goes as if it were no longer named.
//! * What is no longer named takes no more packets. While it, or anything that leads to it, still holds some, it stays
//!   as a retired element, connected as before; at its deadline the rest is dropped
//!   ([`DropReason::GraphReplaced`]).
//!
//! Packets that pass only elements which keep their place are neither lost nor reordered.

use crate::lang::{Built, BuiltNode, EdgeDecl};
use perhop_element::{Driver, Edge, Element, NodeId, TimerId};
use perhop_packet::DropReason;
use perhop_units::{Duration, Instant};
use std::collections::{HashMap, HashSet};
use thiserror::Error;

/// Names of retired elements are `retired:NAME@N`, N being their deadline in ns. No name in graph text has a colon.
pub const RETIRED: &str = "retired:";
/// How long a retired element may drain.
pub const DRAIN: Duration = Duration::from_secs(1);

/// Why a graph may not take the place of the running one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SwapError {
    /// State cannot move between types.
    #[error("element {name} is a {running} now and would become a {new}; list it in reset to lose its state")]
    OtherType {
        /// The element.
        name: String,
        /// Its type now.
        running: String,
        /// Its type in the new graph.
        new: String,
    },
    /// State cannot move between versions.
    #[error(
        "element {name} has state of version {running}, the new one of version {new}; list it in reset to lose it"
    )]
    OtherVersion {
        /// The element.
        name: String,
        /// Version of its state now.
        running: u32,
        /// Version in the new graph.
        new: u32,
    },
}

/// What a swap did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swapped {
    /// Elements that took the place of their predecessor, with its state if it had any.
    pub moved: usize,
    /// Elements that took the name of their predecessor without its state.
    pub reset: usize,
    /// New elements.
    pub added: usize,
    /// Elements that drain, those with a successor included.
    pub retired: usize,
    /// Packets dropped because nothing could hold them any more.
    pub dropped: u64,
}

/// Running elements by name, without those that drain. O(n).
fn running(driver: &Driver) -> HashMap<String, NodeId> {
    let live = driver.ids().filter(|id| !driver.name(*id).starts_with(RETIRED));
    live.map(|id| (driver.name(id).to_owned(), id)).collect()
}

/// Puts `built` in the place of the running graph. Never fails: what cannot keep its
/// state starts without. What is removed at once is moved to `out`. O(elements + connections).
pub fn swap(driver: &mut Driver, now: Instant, built: Built, out: &mut Vec<Box<dyn Element>>) -> Swapped {
    let mut done = Swapped::default();
    let mut leaving = running(driver);
    let Built { graph, nodes } = built;
    let mut ids = Vec::with_capacity(nodes.len());
    let mut moved = Vec::new();
    for BuiltNode { name, element, outputs } in nodes {
        let element = match leaving.get(&name).copied() {
            Some(id) => match take_place(driver, id, element) {
                Ok(()) => {
                    leaving.remove(&name);
                    done.moved += 1;
                    moved.push(id);
                    ids.push(id);
                    continue;
                }
                Err(element) => {
                    done.reset += 1;
                    element
                }
            },
            None => {
                done.added += 1;
                element
            }
        };
        ids.push(driver.add(&name, element, outputs));
    }
    connect(driver, &ids, &graph.edges);
    let until = now + DRAIN;
    for (name, id) in leaving {
        driver.rename(id, &format!("{RETIRED}{name}@{}", until.as_nanos()));
        driver.set_draining(id, until);
        done.retired += 1;
    }
    done.dropped += take_retired(driver, now, out);
    // A new configuration may let out earlier what waits for a timer of the old one.
    for id in moved {
        if driver.element(id).is_some_and(|e| e.held() > 0) {
            driver.wake(now, id, TimerId::MAIN);
        }
    }
    done
}

/// Moves the state of the element at `id` into `new` and puts that in its place. `new` comes back when the two are not
/// alike or the state does not fit; the old element then has its state again.
fn take_place(driver: &mut Driver, id: NodeId, mut new: Box<dyn Element>) -> Result<(), Box<dyn Element>> {
    let old = driver.element_dyn_mut(id).expect("an element that has a name is there");
    if old.type_name() != new.type_name() || old.version() != new.version() {
        return Err(new);
    }
    match old.export_state() {
        Some(state) => {
            if let Err(state) = new.import_state(state) {
                let kept = old.import_state(state);
                assert!(kept.is_ok(), "an element takes its own state, or its packets would be lost with it");
                return Err(new);
            }
        }
        // Packets that cannot move stay where they are.
        None if old.held() > 0 => return Err(new),
        None => {}
    }
    driver.replace(id, new);
    Ok(())
}

fn connect(driver: &mut Driver, ids: &[NodeId], edges: &[EdgeDecl]) {
    let mut outputs: Vec<Vec<Option<Edge>>> =
        ids.iter().map(|id| vec![None; driver.edges(*id).len()]).collect();
    for e in edges {
        let of = &mut outputs[e.from];
        if of.len() <= e.output as usize {
            of.resize(e.output as usize + 1, None);
        }
        of[e.output as usize] = Some(Edge { to: ids[e.to], input: e.input });
    }
    for (id, outputs) in ids.iter().zip(outputs) {
        driver.set_outputs(*id, outputs);
    }
}

/// Removes retired elements that hold nothing and that nothing can reach any more, and moves them to `out`; those whose
/// time is over drop what they hold first. Gives the number of packets dropped. O(retired elements); removing one is
/// O(elements).
pub fn take_retired(driver: &mut Driver, now: Instant, out: &mut Vec<Box<dyn Element>>) -> u64 {
    if driver.draining().is_empty() {
        return 0;
    }
    let retired = driver.draining().to_vec();
    let among: HashSet<NodeId> = retired.iter().map(|(id, _)| *id).collect();
    let mut dropped = 0;
    let mut needed = HashSet::new();
    let mut from = Vec::new();
    for (id, until) in &retired {
        if *until <= now {
            dropped += driver.drop_held(*id, DropReason::GraphReplaced);
        }
        if driver.element(*id).is_some_and(|e| e.held() > 0) {
            needed.insert(*id);
            from.push(*id);
        }
    }
    // What packets may still pass on their way out stays with them.
    while let Some(id) = from.pop() {
        let next = driver.edges(id).iter().flatten().map(|e| e.to);
        from.extend(next.filter(|to| among.contains(to) && needed.insert(*to)));
    }
    for (id, _) in retired.iter().filter(|(id, _)| !needed.contains(id)) {
        out.extend(driver.remove(*id));
    }
    dropped
}
