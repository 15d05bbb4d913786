//! # Synopsis
//! `SetClass(name)` puts packets into a logical class.
//!
//! # Ports
//! Input 0 and output 0: packets.
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `class` (1st) | name | | required | 1 … 128 of `A-Z a-z 0-9 . _ : / -` |
//!
//! # Behaviour
//! Writes `meta.class`; the egress port maps the logical class to a leaf of its tree.
//!
//! # Counters
//! None of its own.
//!
//! # Invariants
//! The frame is not touched; order is kept.
//!
//! # Example
//! `DscpClassifier(EF, -) [0] -> SetClass(voice) -> ToPort(wan)`
//!
//! # Source
//! None: plumbing.

use super::adapter::as_any;
use perhop_element::{BuildCx, Cx, Element, ElementType, PortCount, PortIndex, Reader};
use perhop_packet::{Batch, ClassId};

/// The element.
#[derive(Clone, Copy, Debug)]
pub struct SetClass {
    class: ClassId,
}

impl SetClass {
    /// Puts packets into `class`.
    pub fn new(class: ClassId) -> Self {
        Self { class }
    }
}

impl Element for SetClass {
    fn type_name(&self) -> &'static str {
        "SetClass"
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            packet.meta_mut().class = self.class;
        }
        cx.emit_all(0, batch);
    }

    as_any!();
}

/// Reads a class name and interns it.
pub(crate) fn read_class(
    r: &mut Reader<'_>,
    key: &'static str,
    position: Option<usize>,
    cx: &mut BuildCx,
) -> ClassId {
    let name: String = r.required(key, position, NAME);
    if name.is_empty() {
        return ClassId::NONE;
    }
    if is_name(&name) {
        return cx.class(&name);
    }
    r.fail(key, format!("{key} = {name} is not a class name"), Some(NAME.to_owned()));
    ClassId::NONE
}

/// What [`is_name`] takes, for messages.
pub(crate) const NAME: &str = "1 to 128 of A-Z a-z 0-9 . _ : / -";

/// Whether `name` may name an object of the router.
pub(crate) fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "._:/-".contains(c);
    (1..=128).contains(&name.len()) && name.chars().all(good)
}

pub(super) const TYPE: ElementType = ElementType {
    name: "SetClass",
    synopsis: "puts packets into a logical class",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, cx| {
        let mut r = Reader::new(args);
        let class = read_class(&mut r, "class", Some(0), cx);
        r.finish(Box::new(SetClass::new(class)) as _)
    },
    sample: |rng| format!("class-{}", rng.next_u32() % 4),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;

    #[test]
    fn the_name_is_interned_and_written() {
        let mut cx = BuildCx::default();
        let ef = cx.class("ef");
        let voice = cx.class("voice");
        let mut bench = Bench::with_seed((TYPE.build)(&args("voice"), &mut cx).unwrap(), 1, 1);
        bench.push(&udp(100));
        assert_eq!(bench.sink(0).arrived[0].1.meta().class, voice);
        assert_ne!(voice, ef);
        assert!((TYPE.build)(&args("a b"), &mut cx).is_err());
    }
}
