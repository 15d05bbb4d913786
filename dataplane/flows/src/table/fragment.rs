//! Later fragments follow the first of their datagram.

use super::entry::Verdict;
use crate::fold::fold;
use perhop_units::{Duration, Instant};
use perhop_wire::Layout;
use std::net::IpAddr;

const WAYS: usize = 4;

/// What the first fragment was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub verdict: Verdict,
    pub connection: u32,
    pub reverse: bool,
    pub realtime: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentKey {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    protocol: u8,
    domain: u16,
}

impl FragmentKey {
    /// Fragments of one IPv6 datagram need not agree in what follows the fragment header.
    pub fn new(src: IpAddr, dst: IpAddr, layout: &Layout, domain: u16) -> Self {
        let protocol = if layout.ip_version == 4 { layout.protocol } else { 0 };
        Self { src, dst, id: layout.fragment_id, protocol, domain }
    }

    fn hash(&self, seed: u64) -> u64 {
        let bits = |a: IpAddr| match a {
            IpAddr::V4(a) => u64::from(a.to_bits()),
            IpAddr::V6(a) => (a.to_bits() >> 64) as u64 ^ (a.to_bits() as u64).rotate_left(29),
        };
        let mut h = seed;
        for word in [bits(self.src), bits(self.dst), u64::from(self.id) << 32 | u64::from(self.domain)] {
            h = fold(h ^ word, 0xa076_1d64_78bd_642f) ^ h.rotate_left(17);
        }
        h
    }
}

/// When the first fragment came, of which datagram, and what it was told.
type Way = Option<(Instant, FragmentKey, Told)>;

/// Datagrams being fragmented now, in sets of four: a new one replaces the oldest of its set.
#[derive(Debug)]
pub(crate) struct FragmentTable {
    sets: Box<[[Way; WAYS]]>,
    timeout: Duration,
}

impl FragmentTable {
    /// About `capacity` datagrams, each for `timeout`.
    pub fn new(capacity: usize, timeout: Duration) -> Self {
        let sets = capacity.div_ceil(WAYS).next_power_of_two();
        Self { sets: vec![[None; WAYS]; sets].into(), timeout }
    }

    /// Notes a first fragment. Returns whether one that could still have been asked for was replaced.
    pub fn note(&mut self, now: Instant, seed: u64, key: FragmentKey, told: Told) -> bool {
        let at = key.hash(seed) as usize & (self.sets.len() - 1);
        let set = &mut self.sets[at];
        let same = set.iter().position(|way| way.as_ref().is_some_and(|(_, k, _)| *k == key));
        let way = same.or_else(|| set.iter().position(Option::is_none));
        let way = way.unwrap_or_else(|| {
            let age = |w: &usize| set[*w].as_ref().map(|(at, ..)| *at);
            (0..WAYS).min_by_key(age).unwrap_or(0)
        });
        let lost = set[way].as_ref().is_some_and(|(at, k, _)| *k != key && now.since(*at) <= self.timeout);
        set[way] = Some((now, key, told));
        lost
    }

    /// What the first fragment of the datagram was told.
    pub fn find(&self, now: Instant, seed: u64, key: &FragmentKey) -> Option<&Told> {
        let at = key.hash(seed) as usize & (self.sets.len() - 1);
        self.sets[at]
            .iter()
            .flatten()
            .find(|(at, k, _)| k == key && now.since(*at) <= self.timeout)
            .map(|(_, _, told)| told)
    }
}
