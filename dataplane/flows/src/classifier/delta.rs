//! What changed since a verdict was cached.

use super::{Key, Match};
use ipnet::IpNet;

/// One change of what a packet's verdict depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// A rule with this condition was added or removed.
    Rule(Match),
    /// A contract's prefix was added, removed or given to another contract.
    Sla(IpNet),
    /// Anything may be different.
    All,
}

impl Delta {
    /// Whether the verdict of `key` may have changed.
    pub fn concerns(&self, key: &Key) -> bool {
        match self {
            Self::Rule(matches) => matches.matches(key),
            Self::Sla(net) => net.contains(&key.src) || net.contains(&key.dst),
            Self::All => true,
        }
    }
}

/// The last [`DeltaLog::LEN`] changes. The generation counts changes and wraps; a verdict is asked for often enough
/// (it goes with its idle connection) that 2³² changes do not happen in between.
#[derive(Clone, Debug)]
pub struct DeltaLog {
    generation: u32,
    last: [Delta; Self::LEN],
}

impl Default for DeltaLog {
    fn default() -> Self {
        Self { generation: 0, last: [Delta::All; Self::LEN] }
    }
}

impl DeltaLog {
    /// Changes kept. A verdict older than that is made anew.
    pub const LEN: usize = 16;

    /// The number of changes so far: the stamp of a verdict made now.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Notes a change.
    pub fn push(&mut self, delta: Delta) {
        self.last[self.generation as usize % Self::LEN] = delta;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Whether a verdict stamped `stamp` still holds for `key`. At most [`DeltaLog::LEN`] comparisons.
    pub fn holds(&self, stamp: u32, key: &Key) -> bool {
        let behind = self.generation.wrapping_sub(stamp);
        behind as usize <= Self::LEN
            && (0..behind).all(|i| {
                let at = stamp.wrapping_add(i) as usize % Self::LEN;
                !self.last[at].concerns(key)
            })
    }
}
