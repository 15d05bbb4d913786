//! How a port shares its link between its classes.

use serde::{Deserialize, Serialize};

/// Who goes next on a port with classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// Guarantees by tier, then what is left over by weight, below ceilings.
    #[default]
    Tree,
    /// Hierarchical fair service curves (Stoica, Zhang, Ng 1997): the guarantees of leaves with their
    /// [`crate::ClassSpec::guarantee_first`] are real-time curves, weights are link-sharing curves and ceilings upper
    /// limits. Tiers and bursts have no effect. The port has a rate.
    Hfsc,
    /// Hierarchical token buckets (Devera 2002): guarantees are rates, ceilings ceilings, with their bursts; tiers from 7 on
    /// are one priority; a leaf's weight is its turn. The port has a rate.
    Htb,
    /// Worst-case fair weighted fair queueing (Bennett and Zhang 1996) by weight, to a packet. Classes have no parents,
    /// guarantees or ceilings.
    Wf2q,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tree, Self::Hfsc, Self::Htb, Self::Wf2q];

    /// Its name in files and in the interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Hfsc => "hfsc",
            Self::Htb => "htb",
            Self::Wf2q => "wf2q",
        }
    }
}

/// The first piece of a guarantee: what a class gets when it begins to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FirstPiece {
    /// bit/s. Above the guarantee: less delay than that alone would give; below it: more.
    pub rate: u64,
    /// For how long, ns; 1 µs … 60 s.
    pub time: u64,
}
