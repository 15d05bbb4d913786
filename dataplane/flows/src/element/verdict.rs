//! Verdicts: cached, tested against changes, made.

use super::Flows;
use crate::classifier::{Hit, Key, Packed};
use crate::settings::Settings;
use crate::table::Verdict;
use perhop_packet::{FilterId, Meta, ProfileId, SlaId};

impl Flows {
    /// Whether a packet's addresses, and its other fields after changes without any, tell that no change since a verdict was made
    /// at `stamp` concerns it. Where changes come in a stream, most concern others.
    #[inline(never)]
    pub(super) fn spares(&self, stamp: u32, meta: &Meta, frame: &[u8]) -> bool {
        /// Of an IPv4 header: both addresses.
        const ADDRESSES: usize = 12;
        if meta.layout.ip_version != 4 {
            return false;
        }
        let at = usize::from(meta.layout.l3_offset) + ADDRESSES;
        let octets = frame.get(at..).and_then(|rest| rest.first_chunk());
        octets.is_some_and(|octets| {
            let addresses = [u64::from_be_bytes(*octets)];
            self.log.spares_v4(stamp, addresses, || Packed::of(addresses, &meta.layout, meta.in_port))
        })
    }

    /// The verdict of half `half` of connection `n` for `aux`, when it is not simply the usual one and no change concerned it; `search` is the number of the search that has begun for this packet.
    #[cold]
    #[inline(never)]
    pub(super) fn verdict(
        &mut self,
        (n, half): (u32, usize),
        aux: u32,
        meta: &Meta,
        frame: &[u8],
        search: Option<usize>,
    ) -> Verdict {
        let usual = self.table.entry_mut(n).halves[half].verdict;
        let Some(key) = Key::of(frame, &meta.layout, meta.in_port) else { return self.default_verdict() };
        if !usual.is_valid() || usual.aux == aux {
            let fresh = self.refresh(&usual, aux, &key, search);
            self.table.entry_mut(n).halves[half].verdict = fresh;
            return fresh;
        }
        // Another aux than the last: look among the others, and make it the usual one.
        let other = self.table.overflow(n).and_then(|o| {
            let at = o[half].iter().position(|v| v.is_valid() && v.aux == aux)?;
            Some((at, o[half][at]))
        });
        let fresh = self.refresh(&other.map_or(Verdict::default(), |(_, v)| v), aux, &key, None);
        let entry = self.table.entry_mut(n);
        let h = &mut entry.halves[half];
        let hand = usize::from(h.spare % 3);
        let Some(overflow) = self.table.overflow_mut(n) else {
            self.counters.overflow_full += 1;
            return fresh;
        };
        let free = overflow[half].iter().position(|v| !v.is_valid());
        let at = other.map(|(at, _)| at).or(free).unwrap_or(hand);
        overflow[half][at] = usual;
        let h = &mut self.table.entry_mut(n).halves[half];
        h.spare = h.spare.wrapping_add(u8::from(other.is_none() && free.is_none()));
        h.verdict = fresh;
        fresh
    }

    /// `old` if it still holds for `key`, restamped; else a new verdict.
    fn refresh(&mut self, old: &Verdict, aux: u32, key: &Key, search: Option<usize>) -> Verdict {
        let generation = self.log.generation();
        if old.is_valid() && self.log.holds(old.stamp, key) {
            self.counters.revalidated += u64::from(old.stamp != generation);
            self.counters.hits += u64::from(old.stamp == generation);
            return Verdict { stamp: generation, ..*old };
        }
        let rule = match search {
            Some(at) => self.classifier.finish(&mut self.searches[at]),
            None => self.classifier.classify(key),
        };
        debug_assert_eq!(rule, self.classifier.classify(key), "the search was this packet's");
        let fresh = Verdict { aux, stamp: generation, ..judge(rule, &self.settings, key) };
        self.counters.classified += 1;
        self.counters.moved += u64::from(old.is_valid() && old.class != fresh.class);
        fresh
    }

    /// What rules, contracts and code points say about `key`.
    pub(crate) fn classify(&self, key: &Key) -> Verdict {
        let rule = self.classifier.classify(key);
        judge(rule, &self.settings, key)
    }

    pub(super) fn default_verdict(&self) -> Verdict {
        Verdict { class: self.settings.default_class, flags: Verdict::VALID, ..Verdict::default() }
    }
}

/// What `rule` and the settings make of a packet.
pub(crate) fn judge(rule: Option<Hit>, settings: &Settings, key: &Key) -> Verdict {
    let action = rule.map(|r| r.action).unwrap_or_default();
    let by_code_point = || {
        let trusted = action.trust_dscp || settings.trusts(key.in_port);
        let class = settings.dscp_classes[usize::from(key.dscp & 0x3f)];
        (trusted && class.is_some()).then_some(class)
    };
    Verdict {
        aux: 0,
        stamp: 0,
        filter: rule.map_or(FilterId::NONE, |r| r.id),
        sla: action.sla.or_else(|| settings.slas.of(key.src, key.dst)).unwrap_or(SlaId::NONE),
        profile: action.profile.unwrap_or(ProfileId::NONE),
        class: action.class.or_else(by_code_point).unwrap_or(settings.default_class),
        flags: Verdict::VALID | if action.promotable() { Verdict::PROMOTABLE } else { 0 },
    }
}
