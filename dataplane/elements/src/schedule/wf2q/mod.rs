//! # Synopsis
//! [`Wf2q`] shares a line between classes by weight so evenly that none is ever ahead or behind by more than about a
//! packet: worst-case fair weighted fair queueing (WF²Q+).
//!
//! # Ports
//! A discipline; as the element `Wf2q`, inside a pump: input 0 packets, output 0 packets.
//!
//! # Configuration
//! As [`super::bands`], and
//!
//! | key | type | unit | default | range |
//! |---|---|---|---|---|
//! | `weights` | numbers, by spaces | | 1 each | one a class, 1 … 1,000 |
//! | `frame` | size: largest frame | byte | 1514 | 64 … 65,536 |
//!
//! # Behaviour
//! Of the classes whose next packet would have begun by now, were each class served at its share all the time, the one
//! whose packet would be finished first goes. An idle class earns nothing. Tags are kept in 4,096 buckets whose width is
//! the power of two at or above both a 256th of the largest frame and a 2,048th of what the line sends while the smallest
//! weight sends one; within a bucket it is first come, first served.
//!
//! # Counters
//! Those of [`super::bands`].
//!
//! # Invariants
//! Work conserving. While a class of share r has packets it gets, in any interval, at least r of what is sent less one
//! packet of its own and one of the others; and while all classes have packets at most r of it and as much more. Both
//! within four buckets' width times r. Order is kept inside a class.
//!
//! # Example
//! `Wf2q(voice web bulk, weights = 5 3 1, rate = 10 Mbit/s)`
//!
//! # Source
//! Bennett and Zhang, *Hierarchical Packet Fair Queueing Algorithms*, ACM SIGCOMM 1996, §4 (WF²Q+); the buckets: Stephens,
//! Bennett and Zhang, *Implementing Scheduling Algorithms in High-Speed Networks*, IEEE JSAC 17(6), 1999.

mod calendar;
mod tags;
#[cfg(test)]
mod tests;

pub use tags::Wf2qTags;

use super::bands::{self, Bands, BandsState};
use super::drr;
use crate::plumbing::adapter::{as_any, held_in_bands};
use perhop_element::{Budget, Cx, Delta, Discipline, ElementState, ElementType, Head, PortCount};
use perhop_packet::Batch;
use perhop_units::Bytes;

/// The discipline.
pub struct Wf2q {
    bands: Bands,
    tags: Wf2qTags,
    /// Children that have told the tags of a packet.
    announced: Vec<bool>,
    /// Children that hold packets none of which may leave now.
    stalled: Vec<usize>,
}

impl Wf2q {
    /// Children with their weights; missing weights are 1. `frame` is the largest frame in bytes.
    pub fn new(bands: Bands, weights: &[u32], frame: u64) -> Self {
        let count = bands.len();
        let weights: Vec<u32> = (0..count).map(|n| weights.get(n).copied().unwrap_or(1)).collect();
        Self {
            bands,
            tags: Wf2qTags::new(&weights, frame),
            announced: vec![false; count],
            stalled: Vec::with_capacity(count),
        }
    }

    /// Makes a child known that may have come to have a packet.
    fn announce(&mut self, cx: &mut Cx<'_>, band: usize) {
        if self.announced[band] {
            return;
        }
        match self.bands.child(band).peek(cx) {
            Some(head) => {
                self.announced[band] = true;
                self.tags.became_active(band, u64::from(head.len));
            }
            None if self.bands.child(band).held() > 0 && !self.stalled.contains(&band) => {
                self.stalled.push(band);
            }
            None => {}
        }
    }

    /// The child that goes next and its packet.
    fn choose(&mut self, cx: &mut Cx<'_>) -> Option<(usize, Head)> {
        for _ in 0..self.stalled.len() {
            let band = self.stalled.swap_remove(0);
            self.announce(cx, band);
        }
        loop {
            let band = self.tags.choose()?;
            if let Some(head) = self.bands.child(band).peek(cx) {
                return Some((band, head));
            }
            // A child that drops at its head has dropped what it announced.
            self.tags.withdrawn(band);
            self.announced[band] = false;
            self.announce(cx, band);
        }
    }
}

impl Discipline for Wf2q {
    fn type_name(&self) -> &'static str {
        "Wf2q"
    }

    fn enqueue(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) -> Delta {
        let mut touched = 0u32;
        let delta = self.bands.enqueue(cx, batch, |band| touched |= 1 << band);
        while touched != 0 {
            self.announce(cx, touched.trailing_zeros() as usize);
            touched &= touched - 1;
        }
        delta
    }

    fn peek(&mut self, cx: &mut Cx<'_>) -> Option<Head> {
        self.choose(cx).map(|(_, head)| head)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>, budget: Budget, out: &mut Batch) -> Delta {
        let mut sum = Delta::default();
        let mut bytes = 0;
        for _ in 0..budget.packets {
            let Some((band, head)) = self.choose(cx).filter(|_| bytes < budget.bytes) else { break };
            if self.bands.take(cx, band, Budget::ONE, out, &mut sum).packets == 0 {
                break;
            }
            let next = self.bands.child(band).peek(cx).map(|head| u64::from(head.len));
            self.announced[band] = next.is_some();
            self.tags.sent(band, u64::from(head.len), next);
            self.announce(cx, band);
            bytes += u64::from(head.len);
        }
        sum
    }

    held_in_bands!();

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        self.bands
            .import(*state.downcast::<BandsState>()?)
            .map_err(|state| Box::new(state) as ElementState)?;
        // They begin anew, as if all had come at once.
        self.stalled = (0..self.bands.len()).filter(|band| self.bands.child(*band).held() > 0).collect();
        Ok(())
    }

    as_any!();
}

pub(super) const TYPE: ElementType = ElementType {
    name: "Wf2q",
    synopsis: "shares a line between classes by weight, none ahead or behind by more than a packet",
    inputs: PortCount::Exactly(1),
    outputs: PortCount::Exactly(1),
    build: |args, cx| {
        bands::build("Wf2q", args, cx, |r, bands| {
            let frame = r.optional_in("frame", None, Bytes(1514), Bytes(64)..=Bytes(65_536));
            let weights = drr::weights(r, bands.len());
            Box::new(Wf2q::new(bands, &weights, frame.0))
        })
    },
    sample: |rng| {
        let (rate, weight) = (1 + rng.next_u32() % 50, 1 + rng.next_u32() % 20);
        format!("ef af41 be, weights = 1 {weight} 2, rate = {rate} Mbit/s, limit = 20 packets")
    },
};
