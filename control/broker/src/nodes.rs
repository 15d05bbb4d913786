//! What the agents of a domain's nodes are told of its ledger: what reservations have of the classes of their ports, and which
//! packets that enter there have one.
//!
//! Whoever drives the ledger passes on what it answers and tells, and carries the news to the nodes. News says what has changed
//! since [`Nodes::whole`]; who missed some begins again with the whole.

use crate::flow::{Flow, Marks};
use crate::ledger::{ClassView, Granted, Ledger, Told};
use crate::record::{ReservationId, ReservationRow};
use perhop_agent::DomainNews;
use perhop_model::Name;
use perhop_units::{Instant, Rate};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// See the module. It holds a number a reservation whose packets are known.
#[derive(Debug, Default)]
pub struct Nodes {
    /// Reservations whose packets are known, by the node where they enter.
    flows: BTreeMap<Arc<str>, BTreeSet<ReservationId>>,
    /// Where each of them enters, and its other direction.
    places: HashMap<ReservationId, (Arc<str>, Option<ReservationId>)>,
    marks: Marks,
    news: VecDeque<(Arc<str>, DomainNews)>,
}

impl Nodes {
    /// For a ledger, with the reservations that it has.
    pub fn new(ledger: &Ledger, marks: Marks) -> Self {
        let mut this = Self { marks, ..Self::default() };
        for row in ledger.each().filter(|row| !Flow::of(row).packets.is_empty()) {
            this.place(ledger, &row);
        }
        this
    }

    /// Packets of these classes get these code points from now on. Whether that is a change: then all nodes begin again.
    pub fn set_marks(&mut self, marks: Marks) -> bool {
        std::mem::replace(&mut self.marks, marks) != self.marks
    }

    /// The ledger has answered somebody with this.
    pub fn answered(&mut self, ledger: &Ledger, now: Instant, granted: &Granted) {
        match granted {
            Granted::Held(held) => {
                let both = [Some(held.id), held.twin];
                both.into_iter().flatten().for_each(|id| self.tell_flow(ledger, now, id));
            }
            Granted::Released(id) => {
                let twin = self.places.get(id).and_then(|(_, twin)| *twin);
                [Some(*id), twin].into_iter().flatten().for_each(|id| self.forget(id));
            }
            Granted::Taken => {}
        }
    }

    /// The ledger has told this.
    pub fn told(&mut self, ledger: &Ledger, now: Instant, told: &Told) {
        match told {
            Told::Share { node, port, class, reserved_bps, .. } => {
                let news = share(port, class, *reserved_bps).map(|news| (Arc::clone(node), news));
                self.news.extend(news);
            }
            Told::Gone { id, .. } => self.forget(*id),
            Told::Shrunk { id, .. } => self.tell_flow(ledger, now, *id),
            Told::Short { .. } => {}
        }
    }

    /// The next piece of news, and for which node.
    pub fn poll_news(&mut self) -> Option<(Arc<str>, DomainNews)> {
        self.news.pop_front()
    }

    /// All that a node has, without beginning and end. O(links + its flows).
    pub fn whole(&self, ledger: &Ledger, now: Instant, node: &str) -> Vec<DomainNews> {
        let links = ledger.links_of(node).into_iter();
        let shares = links.flat_map(|link| {
            let of = |class: &ClassView| share(&link.port, &class.class, class.share_bps);
            link.classes.iter().filter_map(of).collect::<Vec<_>>()
        });
        let rows = self.flows.get(node).into_iter().flatten().filter_map(|id| ledger.reservation(*id));
        let flows = rows
            .filter_map(|row| Flow::of(&row).for_agent(&row, &self.marks, now.0 / 1_000_000))
            .map(DomainNews::Flow);
        shares.chain(flows).collect()
    }

    /// Notes where a flow enters; none = its path is not there any more.
    fn place(&mut self, ledger: &Ledger, row: &ReservationRow) -> Option<Arc<str>> {
        let path = ledger.path_numbered(row.path)?;
        let from = path.from_node.as_str();
        let node = match self.flows.get_key_value(from) {
            Some((node, _)) => Arc::clone(node),
            None => Arc::from(from),
        };
        self.flows.entry(Arc::clone(&node)).or_default().insert(row.id);
        self.places.insert(row.id, (Arc::clone(&node), row.twin));
        Some(node)
    }

    fn tell_flow(&mut self, ledger: &Ledger, now: Instant, id: ReservationId) {
        let Some(row) = ledger.reservation(id) else { return };
        let Some(flow) = Flow::of(&row).for_agent(&row, &self.marks, now.0 / 1_000_000) else {
            return self.forget(id);
        };
        if let Some(node) = self.place(ledger, &row) {
            self.news.push_back((node, DomainNews::Flow(flow)));
        }
    }

    fn forget(&mut self, id: ReservationId) {
        let Some((node, _)) = self.places.remove(&id) else { return };
        if let Some(ids) = self.flows.get_mut(&node) {
            ids.remove(&id);
            if ids.is_empty() {
                self.flows.remove(&node);
            }
        }
        self.news.push_back((node, DomainNews::FlowGone { id }));
    }
}

fn share(port: &str, class: &str, bps: u64) -> Option<DomainNews> {
    let (port, class) = (Name::new(port).ok()?, Name::new(class).ok()?);
    Some(DomainNews::Share { port, class, bps: Rate(bps) })
}
