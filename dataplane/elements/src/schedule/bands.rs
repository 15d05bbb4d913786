//! # Synopsis
//! [`Bands`] sorts packets by logical class into child disciplines, for the schedulers that choose among a few.
//!
//! # Ports
//! None: part of [`super::Priority`] and [`super::Drr`].
//!
//! # Configuration
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `classes` (or first) | class names, by spaces | | required | 1 … 16 |
//! | `rate` | rate | bit/s | 0 = unlimited | 0 … 10¹² |
//! | `overhead` | size | byte a packet | 0 | 0 … 256 |
//! | `limit` | packets, size or duration | each class | 100 ms (1,000 packets when unlimited) | |
//!
//! # Behaviour
//! A packet goes to the child of its class, or to the last child when none has it.
//!
//! # Counters
//! Those of each child, behind `band.N.`.
//!
//! # Invariants
//! Order is kept inside a child.
//!
//! # Example
//! `Priority(voice video be, rate = 2 Mbit/s, limit = 100 packets)`
//!
//! # Source
//! None.

use super::pump::Pump;
use super::transmitter::{Transmitter, TransmitterConfig};
use crate::plumbing::set_class::{NAME, is_name};
use crate::queue::{Fifo, FifoConfig};
use perhop_element::{
    ArgError, Args, Budget, BuildCx, CounterSink, Cx, Delta, Discipline, Element, ElementState, Reader,
};
use perhop_packet::{Batch, ClassId};
use perhop_units::{Bytes, Duration, Instant, QueueLimit, Rate};

/// Most children.
pub const MAX_BANDS: usize = 16;

/// Child disciplines and the table that sorts packets into them.
pub struct Bands {
    children: Vec<Box<dyn Discipline>>,
    by_class: Vec<u8>,
    sorted: Vec<Batch>,
    held: u64,
    held_bytes: u64,
}

/// What bands hand to their successors: one state a child, with its type.
pub(super) struct BandsState(Vec<(&'static str, Option<ElementState>)>);

impl Bands {
    /// One child for each list of classes; at least one and at most [`MAX_BANDS`] (the rest is ignored).
    pub fn new(children: Vec<(Vec<ClassId>, Box<dyn Discipline>)>) -> Self {
        let mut bands =
            Self { children: Vec::new(), by_class: Vec::new(), sorted: Vec::new(), held: 0, held_bytes: 0 };
        for (classes, child) in children.into_iter().take(MAX_BANDS) {
            let band = bands.children.len() as u8;
            for class in classes.into_iter().filter(|c| c.is_some()) {
                if bands.by_class.len() <= class.index() {
                    bands.by_class.resize(class.index() + 1, u8::MAX);
                }
                bands.by_class[class.index()] = band;
            }
            bands.children.push(child);
            bands.sorted.push(Batch::new());
        }
        bands
    }

    /// Number of children.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Whether there is no child: every packet is then dropped as without class.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// The child that takes packets of `class`.
    #[inline]
    pub fn band_of(&self, class: ClassId) -> usize {
        let last = self.children.len().saturating_sub(1);
        self.by_class.get(class.index()).map_or(last, |band| (*band as usize).min(last))
    }

    /// A child.
    pub(super) fn child(&mut self, band: usize) -> &mut dyn Discipline {
        self.children[band].as_mut()
    }

    /// Sorts and enqueues; calls `active` for each child that got packets.
    pub(super) fn enqueue(
        &mut self,
        cx: &mut Cx<'_>,
        batch: &mut Batch,
        mut active: impl FnMut(usize),
    ) -> Delta {
        let mut sum = Delta::default();
        let before = self.held;
        if self.children.is_empty() {
            for packet in batch.drain() {
                cx.drop(packet, perhop_packet::DropReason::NoClass);
            }
            return sum;
        }
        for packet in batch.drain() {
            let band = self.band_of(packet.meta().class);
            self.sorted[band].push(packet);
        }
        for (band, packets) in self.sorted.iter_mut().enumerate().filter(|(_, b)| !b.is_empty()) {
            let delta = self.children[band].enqueue(cx, packets);
            sum.packets += delta.packets;
            sum.bytes += delta.bytes;
            active(band);
        }
        self.note(&mut sum, before);
        sum
    }

    /// Takes up to `budget` from `band`; gives what it was.
    pub(super) fn take(
        &mut self,
        cx: &mut Cx<'_>,
        band: usize,
        budget: Budget,
        out: &mut Batch,
        sum: &mut Delta,
    ) -> Budget {
        let before = (out.len(), self.held);
        let delta = self.children[band].dequeue(cx, budget, out);
        let mut own = Delta { packets: delta.packets, bytes: delta.bytes, ..Delta::default() };
        self.note(&mut own, before.1);
        sum.packets += own.packets;
        sum.bytes += own.bytes;
        sum.became_idle |= own.became_idle;
        let given = &out.as_slice()[before.0..];
        // Only a limit in bytes needs their sum.
        let bytes = if budget.bytes == u64::MAX { 0 } else { given.iter().map(|p| p.len() as u64).sum() };
        Budget { bytes, packets: given.len() as u32 }
    }

    fn note(&mut self, delta: &mut Delta, before: u64) {
        self.held = self.held.saturating_add_signed(delta.packets);
        self.held_bytes = self.held_bytes.saturating_add_signed(delta.bytes);
        delta.became_active = before == 0 && self.held > 0;
        delta.became_idle = before > 0 && self.held == 0;
    }

    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        self.children.iter().filter_map(|c| c.next_wakeup()).min()
    }

    pub(super) fn held(&self) -> u64 {
        self.children.iter().map(|c| c.held()).sum()
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.children.iter().map(|c| c.held_bytes()).sum()
    }

    pub(super) fn counters(&self, sink: &mut dyn CounterSink) {
        for (band, child) in self.children.iter().enumerate() {
            child.counters(&mut Prefixed { prefix: format!("band.{band}."), sink });
        }
    }

    pub(super) fn drain(&mut self, out: &mut Batch) {
        for child in &mut self.children {
            child.drain(out);
        }
        self.held = 0;
        self.held_bytes = 0;
    }

    pub(super) fn export(&mut self) -> BandsState {
        self.held = 0;
        self.held_bytes = 0;
        BandsState(self.children.iter_mut().map(|c| (c.type_name(), c.export_state())).collect())
    }

    /// Adopts a predecessor's children one by one. Refused unless number and types are the same.
    pub(super) fn import(&mut self, mut state: BandsState) -> Result<(), BandsState> {
        let same = state.0.len() == self.children.len()
            && state.0.iter().zip(&self.children).all(|((name, _), child)| *name == child.type_name());
        if !same {
            return Err(state);
        }
        for (child, (_, slot)) in self.children.iter_mut().zip(&mut state.0) {
            if let Some(inner) = slot.take()
                && let Err(inner) = child.import_state(inner)
            {
                *slot = Some(inner);
                return Err(state);
            }
        }
        self.held = self.held();
        self.held_bytes = self.held_bytes();
        Ok(())
    }
}

struct Prefixed<'a> {
    prefix: String,
    sink: &'a mut dyn CounterSink,
}

impl CounterSink for Prefixed<'_> {
    fn counter(&mut self, name: &str, value: u64) {
        self.sink.counter(&format!("{}{name}", self.prefix), value);
    }
    fn gauge(&mut self, name: &str, value: u64) {
        self.sink.gauge(&format!("{}{name}", self.prefix), value);
    }
}

/// Reads the arguments of a pump around bands of FIFOs, and makes it with `discipline`.
pub(super) fn build(
    type_name: &'static str,
    args: &Args,
    cx: &mut BuildCx,
    discipline: impl FnOnce(&mut Reader<'_>, Bands) -> Box<dyn Discipline>,
) -> Result<Box<dyn Element>, Vec<ArgError>> {
    let mut r = Reader::new(args);
    let names: String = r.required("classes", Some(0), NAME);
    let rate = r.optional_in("rate", None, Rate::ZERO, Rate::ZERO..=Rate::MOST);
    let overhead_bytes = r.optional_in("overhead", None, Bytes(0), Bytes(0)..=Bytes(256)).0 as u32;
    let default =
        if rate.0 == 0 { QueueLimit::Packets(1000) } else { QueueLimit::Time(Duration(100_000_000)) };
    let limit = r.optional("limit", None).unwrap_or(default);
    let config = FifoConfig { limit, rate, overhead: overhead_bytes };
    let mut children: Vec<(Vec<ClassId>, Box<dyn Discipline>)> = Vec::new();
    for name in names.split_whitespace() {
        if is_name(name) {
            children.push((vec![cx.class(name)], Box::new(Fifo::new(config))));
        } else {
            let allowed = Some(NAME.to_owned());
            r.fail("classes", format!("{name} is not a class name"), allowed);
        }
    }
    if children.len() > MAX_BANDS {
        let allowed = Some(format!("at most {MAX_BANDS}"));
        r.fail("classes", format!("{} classes are too many", children.len()), allowed);
    }
    let discipline = discipline(&mut r, Bands::new(children));
    let line = Transmitter::new(TransmitterConfig { rate, overhead_bytes, ..Default::default() });
    r.finish(Box::new(Pump::named(type_name, discipline, line, None)) as _)
}
