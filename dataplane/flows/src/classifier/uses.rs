//! Which bits rules look at that differ between packets of one flow.

use super::rule::Rule;

/// How many rules look at the bits that differ between packets of one flow: what a cached verdict depends on
/// besides the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    dscp: [u32; 6],
    flags: [u32; 8],
    fragment: u32,
    trust: u32,
}

impl Uses {
    /// Counts `rule` in or out.
    pub fn count(&mut self, rule: &Rule, step: impl Fn(&mut u32)) {
        let m = &rule.matches;
        for (bit, n) in self.dscp.iter_mut().enumerate() {
            if m.dscp.is_some_and(|d| d.mask >> bit & 1 != 0) {
                step(n);
            }
        }
        for (bit, n) in self.flags.iter_mut().enumerate() {
            if m.tcp_flags.is_some_and(|f| f.mask >> bit & 1 != 0) {
                step(n);
            }
        }
        // Ports and flags are unknown in later fragments only, which are never cached.
        if m.fragment.is_some() {
            step(&mut self.fragment);
        }
        if rule.action.trust_dscp {
            step(&mut self.trust);
        }
    }

    /// The bits that some rule looks at.
    pub fn masks(&self) -> AuxMask {
        let bits = |counts: &[u32]| counts.iter().enumerate().map(|(i, n)| u8::from(*n > 0) << i).sum();
        AuxMask {
            dscp: if self.trust > 0 { 0x3f } else { bits(&self.dscp) },
            flags: bits(&self.flags),
            fragment: self.fragment > 0,
        }
    }
}

/// The bits of DSCP, TCP flags and fragment state that some rule looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxMask {
    /// DSCP bits.
    pub dscp: u8,
    /// TCP flags.
    pub flags: u8,
    /// Fragment state.
    pub fragment: bool,
}
