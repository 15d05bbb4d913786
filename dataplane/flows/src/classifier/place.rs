//! The rules under one pair of prefixes, while they are few.

use super::entry::Entry;
use super::key::{Packed, field};
use super::secret::Secret;
use super::sieve::{STEPS, Steps, Words, pair, steps_of_pair, words};
use perhop_packet::equal_lanes;
use std::iter;

/// Rules of one place that are a list; more are split.
pub(super) const LIST: usize = 8;
pub(super) const NO_SPLIT: u32 = u32::MAX;

/// The rules under one pair of prefixes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Place<const A: usize> {
    /// In order, the first `len` of them, when there is no split.
    list: [u32; LIST],
    /// The destination port of each that takes one alone.
    ports: [u16; LIST],
    /// A bit each of the others.
    any_port: u8,
    pub len: u8,
    pub steps: Steps,
    pub split: u32,
    /// The prefixes.
    addresses: [u64; A],
}

const _: () = assert!(size_of::<Place<1>>() == 64);

impl<const A: usize> Place<A> {
    /// A place with a first rule.
    pub fn new(steps: Steps, number: u32, entry: &Entry<A>) -> Self {
        let mut place = Self {
            list: [0; LIST],
            ports: [0; LIST],
            any_port: 0,
            len: 0,
            steps,
            split: NO_SPLIT,
            addresses: entry.words().addresses,
        };
        place.put(0, number, entry);
        place
    }

    /// The words of its prefixes.
    pub fn words(&self) -> Words {
        words(&self.addresses)
    }

    /// The hash it is found by.
    pub fn hash(&self, secret: &Secret) -> u64 {
        hash::<A>(secret, &self.words(), pair(self.steps))
    }

    /// Whether it is that of prefixes, and not of others that share its tag by chance. Exact for IPv4; two whole IPv6
    /// addresses may be taken for one, which then share a place and are told apart by their rules.
    pub fn is_of(&self, steps: Steps, wanted: &Words) -> bool {
        let own = self.words();
        let [src, dst] = steps.map(usize::from);
        self.steps == steps && own[0][src] == wanted[0][src] && own[1][dst] == wanted[1][dst]
    }

    /// The list's rules.
    pub fn list(&self) -> &[u32] {
        &self.list[..usize::from(self.len)]
    }

    /// The list's rules that the packet's destination port does not rule out, in order.
    #[inline]
    pub fn likely(&self, key: &Packed<A>) -> impl Iterator<Item = u32> {
        let port = (key.transport >> field::DST_PORT) as u16;
        let mut left = (u32::from(self.any_port) | equal_lanes(&self.ports, port)) & ((1 << self.len) - 1);
        iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            self.list.get(at).copied()
        })
    }

    /// Puts a rule into the list, which has room.
    pub fn put(&mut self, at: usize, number: u32, entry: &Entry<A>) {
        let len = usize::from(self.len);
        self.list.copy_within(at..len, at + 1);
        self.ports.copy_within(at..len, at + 1);
        let earlier = self.any_port & ((1 << at) - 1);
        let later = self.any_port & !((1 << at) - 1);
        let port = entry.dst_port();
        self.any_port = earlier | u8::from(port.is_none()) << at | later << 1;
        (self.list[at], self.ports[at]) = (number, port.unwrap_or(0));
        self.len += 1;
    }

    /// Takes a rule out of the list.
    pub fn take(&mut self, at: usize) -> u32 {
        let (number, len) = (self.list[at], usize::from(self.len));
        self.list.copy_within(at + 1..len, at);
        self.ports.copy_within(at + 1..len, at);
        let earlier = self.any_port & ((1 << at) - 1);
        self.any_port = earlier | (self.any_port >> 1) & !((1 << at) - 1);
        self.len -= 1;
        number
    }
}

/// The hash of a place.
#[inline]
pub(super) fn hash<const A: usize>(secret: &Secret, words: &Words, pair: usize) -> u64 {
    let [src, dst] = steps_of_pair(pair).map(usize::from);
    let hash = secret.hash_pair(words[0][src % STEPS], words[1][dst % STEPS]);
    // Words of IPv6 may be the same at several steps, which would find each other's places.
    if A == 1 { hash } else { hash ^ (pair as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}
