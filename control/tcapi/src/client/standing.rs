//! What a client has reserved, to be asked for anew.

use crate::wire::{FlowId, Request, Verb};
use perhop_units::{Duration, Instant};
use std::collections::BTreeMap;

/// Reservations that are in force, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Standing(BTreeMap<FlowId, Stands>);

#[derive(Debug)]
struct Stands {
    request: Box<Request>,
    /// When it ends by itself, without a lease.
    until: Option<Instant>,
}

impl Standing {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn has(&self, flow: FlowId) -> bool {
        self.0.contains_key(&flow)
    }

    /// Those that are so, in order.
    pub(super) fn flows(&self, is_so: impl Fn(&Request) -> bool) -> impl Iterator<Item = FlowId> {
        self.0.iter().filter(move |(_, stands)| is_so(&stands.request)).map(|(flow, _)| *flow)
    }

    pub(super) fn forget(&mut self, flow: FlowId) {
        self.0.remove(&flow);
    }

    /// What the server has acknowledged. With a lease nothing ends before it does.
    pub(super) fn remember(&mut self, now: Instant, leased: bool, verb: Verb, request: &Request) {
        let ends = request.lifetime_s.filter(|s| *s > 0 && !leased);
        let until = ends.map(|seconds| now + Duration::from_secs(u64::from(seconds)));
        match verb {
            Verb::Request => {
                self.0.insert(request.flow, Stands { request: Box::new(request.clone()), until });
            }
            Verb::Release => self.forget(request.flow),
            Verb::Modify => {
                if let Some(stands) = self.0.get_mut(&request.flow) {
                    stands.request.reservation = request.reservation.or(stands.request.reservation);
                    stands.request.lifetime_s = request.lifetime_s.or(stands.request.lifetime_s);
                    stands.until = until.or(stands.until);
                }
            }
        }
    }

    /// What asks for a reservation again, for the rest of its time; `None` if it is not there or has none left.
    pub(super) fn request_anew(&mut self, now: Instant, flow: FlowId) -> Option<Box<Request>> {
        let stands = self.0.get(&flow)?;
        let mut request = stands.request.clone();
        if let Some(until) = stands.until {
            let left = until.since(now).0.div_ceil(1_000_000_000);
            if left == 0 {
                self.forget(flow);
                return None;
            }
            request.lifetime_s = Some(u32::try_from(left).unwrap_or(u32::MAX));
        }
        Some(request)
    }
}
