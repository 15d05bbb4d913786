//! Keys that two ends share (RFC 2748 §4.2).

use perhop_units::Instant;

/// A secret for HMAC-MD5-96.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// Its number, the same at both ends.
    pub id: u32,
    /// The secret.
    pub secret: Box<[u8]>,
    /// It is of use from then on.
    pub from: Instant,
    /// It is of no use from then on.
    pub until: Instant,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key {{ id: {}, from: {:?}, until: {:?} }}", self.id, self.from, self.until)
    }
}

impl Key {
    fn is_valid(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }
}

/// Keys whose lifetimes may overlap, for a change without a gap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    /// In no order; ids differ.
    pub keys: Vec<Key>,
}

impl Keyring {
    /// With which key messages are sealed: of those that are valid the one that ends first, until half of the time is over in
    /// which the next one is valid beside it. O(keys²).
    pub fn sending(&self, now: Instant) -> Option<&Key> {
        let valid = || self.keys.iter().filter(|key| key.is_valid(now));
        let mut chosen = valid().min_by_key(|key| key.until)?;
        loop {
            let later = valid().filter(|key| key.until > chosen.until).min_by_key(|key| key.until);
            match later {
                Some(next) if now.0 >= next.from.0.midpoint(chosen.until.0) => chosen = next,
                _ => return Some(chosen),
            }
        }
    }

    /// The key of a number, if messages that are sealed with it are taken now.
    pub fn accepting(&self, now: Instant, id: u32) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id && key.is_valid(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u32, from: u64, until: u64) -> Key {
        Key { id, secret: Box::new([id as u8]), from: Instant(from), until: Instant(until) }
    }

    #[test]
    fn rfc2748_4_2_lifetimes_overlap_and_senders_change_at_the_middle_of_the_overlap() {
        let ring = Keyring { keys: vec![key(2, 60, 200), key(1, 0, 100)] };
        let id = |now| ring.sending(Instant(now)).map(|key| key.id);
        assert_eq!(
            [0, 59, 79, 80, 100, 199, 200].map(id),
            [Some(1), Some(1), Some(1), Some(2), Some(2), Some(2), None]
        );
        let takes = |now, id| ring.accepting(Instant(now), id).is_some();
        assert!(takes(60, 1) && takes(60, 2) && takes(99, 1));
        assert!(!takes(59, 2) && !takes(100, 1) && !takes(60, 3));
    }
}
