//! What the classes below a port, or below a class, can have together.
//!
//! A router refuses guarantees that come to more than what they are taken from. The agent asks for no more than there is,
//! so that nothing is granted in vain, and brings what it has given into what is left when that has become less.

use perhop_model::{ClassSpec, Name, ObjectState, Owner, Spec, Status};
use perhop_units::{Rate, Share};
use std::collections::BTreeMap;

/// Deepest class of a router.
const MAX_DEPTH: usize = 8;

/// Rate of a node: what its children can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    /// A port without a rate.
    Unlimited,
    Rate(Rate),
    /// What a class that is looked after has.
    Class(usize),
}

/// A port or a class with classes below that are looked after.
#[derive(Clone, Debug)]
struct Node {
    whole: Whole,
    /// Guarantees of the children that are not looked after.
    others: Rate,
    /// What those that are looked after have, are about to have, or have asked for.
    held: Rate,
    children: Vec<usize>,
}

/// The classes of one router that are looked after, by number, and the nodes that they are below.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    nodes: Vec<Node>,
    /// By class: its node; none while the router does not have the class.
    place: Vec<Option<usize>>,
    held: Vec<Rate>,
}

impl Capacity {
    /// Without a router: nothing is known of any limit.
    pub(crate) fn new(classes: usize) -> Self {
        Self { nodes: Vec::new(), place: vec![None; classes], held: vec![Rate::ZERO; classes] }
    }

    /// Reads a router's classes and ports. What is held stays as it is until [`Capacity::hold`].
    pub(crate) fn read(&mut self, objects: &[ObjectState], managed: &BTreeMap<Name, usize>) {
        self.nodes.clear();
        self.place.fill(None);
        let tree = Tree::of(objects, managed, &self.held);
        let mut numbers: BTreeMap<(&Name, Option<&Name>), usize> = BTreeMap::new();
        for (name, class) in &tree.classes {
            let Some(i) = managed.get(*name) else { continue };
            let number = *numbers.entry((&class.port, class.parent.as_ref())).or_insert_with(|| {
                self.nodes.push(Node {
                    whole: tree.whole(class),
                    others: Rate::ZERO,
                    held: Rate::ZERO,
                    children: Vec::new(),
                });
                self.nodes.len() - 1
            });
            self.place[*i] = Some(number);
            self.nodes[number].held = self.nodes[number].held.saturating_add(self.held[*i]);
            self.nodes[number].children.push(*i);
        }
        for (name, class) in tree.classes.iter().filter(|(name, _)| !managed.contains_key(**name)) {
            if let Some(number) = numbers.get(&(&class.port, class.parent.as_ref())) {
                let others = &mut self.nodes[*number].others;
                *others = others.saturating_add(tree.guarantee(name, 0));
            }
        }
    }

    /// A class has, will have or asks for this at most.
    pub(crate) fn hold(&mut self, class: usize, rate: Rate) {
        let before = std::mem::replace(&mut self.held[class], rate);
        if let Some(node) = self.place[class] {
            let held = &mut self.nodes[node].held;
            *held = held.saturating_sub(before).saturating_add(rate);
        }
    }

    /// The most that a class can have beside all others.
    pub(crate) fn room(&self, class: usize) -> Rate {
        let Some(node) = self.place[class].map(|node| &self.nodes[node]) else { return Rate(u64::MAX) };
        let others = node.held.saturating_sub(self.held[class]);
        self.available(node).map_or(Rate(u64::MAX), |available| available.saturating_sub(others))
    }

    /// What every class of an overfull node can have: its least, and of the rest a part as large as that of what it has
    /// above its least. `least` and `has` give both by class; where not even the least fit, each gets the same part of it.
    /// The second of each pair is the least that it can be sure of.
    pub(crate) fn squeezed(
        &self,
        least: impl Fn(usize) -> Rate,
        has: impl Fn(usize) -> Rate,
    ) -> BTreeMap<usize, (Rate, Rate)> {
        let mut squeezed = BTreeMap::new();
        for node in &self.nodes {
            let Some(available) = self.available(node) else { continue };
            let above = |i: usize| has(i).saturating_sub(least(i)).0;
            let sum =
                |of: &dyn Fn(usize) -> u64| node.children.iter().map(|i| u128::from(of(*i))).sum::<u128>();
            let (all, leasts) = (sum(&|i| has(i).0.max(least(i).0)), sum(&|i| least(i).0));
            if all <= u128::from(available.0) {
                continue;
            }
            let (rest, wanted) = (u128::from(available.0).saturating_sub(leasts), sum(&above));
            for i in &node.children {
                let sure = part(least(*i).0, u128::from(available.0).min(leasts), leasts);
                let more = part(above(*i), rest, wanted);
                squeezed.insert(*i, (Rate(sure.saturating_add(more)), Rate(sure)));
            }
        }
        squeezed
    }

    /// What those that are looked after can have together; none without a limit.
    fn available(&self, node: &Node) -> Option<Rate> {
        let whole = match node.whole {
            Whole::Unlimited => return None,
            Whole::Rate(rate) => rate,
            Whole::Class(class) => self.held[class],
        };
        Some(whole.saturating_sub(node.others))
    }
}

/// `value` · `numerator` / `denominator`, rounded down; the numerator is not above the denominator unless both matter not.
fn part(value: u64, numerator: u128, denominator: u128) -> u64 {
    let scaled = u128::from(value).saturating_mul(numerator).checked_div(denominator);
    u64::try_from(scaled.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// The objects that say how much there is.
struct Tree<'a> {
    ports: BTreeMap<&'a Name, Rate>,
    classes: BTreeMap<&'a Name, &'a ClassSpec>,
    /// Of other owners, by class.
    allocated: BTreeMap<&'a Name, Rate>,
    managed: &'a BTreeMap<Name, usize>,
    held: &'a [Rate],
}

impl<'a> Tree<'a> {
    fn of(objects: &'a [ObjectState], managed: &'a BTreeMap<Name, usize>, held: &'a [Rate]) -> Self {
        let mut this = Self {
            ports: BTreeMap::new(),
            classes: BTreeMap::new(),
            allocated: BTreeMap::new(),
            managed,
            held,
        };
        for object in objects.iter().filter(|object| object.status == Status::Active) {
            match &object.spec {
                Spec::Port(port) => drop(this.ports.insert(&object.name, port.rate)),
                Spec::Class(class) => drop(this.classes.insert(&object.name, class)),
                Spec::Allocation(spec) if object.owner != Owner::Agent => {
                    spec.guarantee.map(|rate| this.allocated.insert(&spec.class, rate));
                }
                _ => {}
            }
        }
        this
    }

    fn port(&self, name: &Name) -> Rate {
        self.ports.get(name).copied().unwrap_or_default()
    }

    /// What the siblings of a class share.
    fn whole(&self, class: &ClassSpec) -> Whole {
        match &class.parent {
            Some(parent) => match self.managed.get(parent) {
                Some(i) => Whole::Class(*i),
                None => Whole::Rate(self.guarantee(parent, 0)),
            },
            None => match self.port(&class.port) {
                Rate::ZERO => Whole::Unlimited,
                rate => Whole::Rate(rate),
            },
        }
    }

    fn guarantee(&self, name: &Name, depth: usize) -> Rate {
        if let Some(i) = self.managed.get(name) {
            return self.held[*i];
        }
        if let Some(rate) = self.allocated.get(name) {
            return *rate;
        }
        let Some(class) = self.classes.get(name) else { return Rate::ZERO };
        match (class.guarantee, &class.parent) {
            (Share::Rate(rate), _) => rate,
            (share, Some(parent)) if depth < MAX_DEPTH => share.of(self.guarantee(parent, depth + 1)),
            (share, _) => share.of(self.port(&class.port)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_model::Kind;
    use serde_json::json;

    fn object(kind: Kind, name: &str, spec: serde_json::Value) -> ObjectState {
        crate::testing::object(name, Spec::from_value(kind, &spec).unwrap())
    }

    /// A port of 10 Mbit/s with a, b and one of 1 Mbit/s; below a, which is looked after as b is, c with a fifth of it.
    fn capacity(port: u64) -> Capacity {
        let objects = [
            object(Kind::Port, "wan", json!({ "rate": port })),
            object(Kind::Class, "a", json!({ "port": "wan" })),
            object(Kind::Class, "b", json!({ "port": "wan" })),
            object(Kind::Class, "fixed", json!({ "port": "wan", "guarantee": { "rate": 1_000_000 } })),
            object(Kind::Class, "c", json!({ "port": "wan", "parent": "a" })),
            object(
                Kind::Class,
                "d",
                json!({ "port": "wan", "parent": "a", "guarantee": { "ppm": 200_000 } }),
            ),
        ];
        let managed = ["a", "b", "c"].iter().zip(0..).map(|(n, i)| (Name::new(n).unwrap(), i)).collect();
        let mut capacity = Capacity::new(4);
        for (class, held) in [(0, 4_000_000), (1, 2_000_000), (2, 500_000)] {
            capacity.hold(class, Rate(held));
        }
        capacity.read(&objects, &managed);
        capacity
    }

    #[test]
    fn what_others_leave_is_the_room_of_a_class() {
        let mut capacity = capacity(10_000_000);
        assert_eq!(
            [0, 1, 2, 3].map(|i| capacity.room(i)),
            [7_000_000, 5_000_000, 3_200_000, u64::MAX].map(Rate)
        );
        assert!(capacity.squeezed(|_| Rate(1), |i| capacity.held[i]).is_empty());
        capacity.hold(0, Rate(1_000_000));
        assert_eq!(capacity.room(1), Rate(8_000_000));
        // Nothing is known of a port without a rate.
        assert_eq!(super::tests::capacity(0).room(0), Rate(u64::MAX));
    }

    #[test]
    fn what_is_left_is_divided_above_the_least() {
        // 3 of 10 Mbit/s are left: 2 for the two, 1 of which are their least; above it they have 3.5 and 1.5.
        let capacity = capacity(3_000_000);
        let squeezed = capacity.squeezed(|_| Rate(500_000), |i| capacity.held[i]);
        let expected = [(0, (1_200_000, 500_000)), (1, (800_000, 500_000))];
        assert_eq!(squeezed, expected.map(|(i, (rate, least))| (i, (Rate(rate), Rate(least)))).into());
        // Not even the least.
        let squeezed = capacity.squeezed(|i| Rate([3_000_000, 1_000_000, 0][i]), |i| capacity.held[i]);
        assert_eq!(squeezed[&0], (Rate(1_500_000), Rate(1_500_000)));
        assert_eq!(squeezed[&1], (Rate(500_000), Rate(500_000)));
    }
}
