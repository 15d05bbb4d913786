//! How a port shares its link between its classes.

use perhop_units::{Duration, Rate};
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
    /// Strict priority of sixteen levels, which are tiers: a class sends only when none of a lower tier has a packet that
    /// may go. Within a tier turns are by weight. Ceilings hold; classes have no parents or guarantees.
    Priority,
    /// Class-based queueing (Floyd and Jacobson 1995): guarantees are shares, a class borrows from those above unless its
    /// ceiling is its guarantee; tiers from 7 on are one priority; a burst is what a class that has rested may send at once. The
    /// port has a rate, and classes have guarantees.
    Cbq,
    /// Hybrid proportional delay (Dovrolis, Stiliadis and Ramanathan 2002): waiting times as [`crate::ClassSpec::delay`] says.
    /// Classes have no parents, guarantees or ceilings. The port has a rate.
    Hpd,
    /// Joint buffer management and scheduling (Christin, Liebeherr and Abdelzaher 2002): waiting times and losses as
    /// [`crate::ClassSpec::delay`] and [`crate::ClassSpec::loss`] say, guarantees are rates. The port's queue has the limit of
    /// all classes together. Classes have no parents or ceilings. The port has a rate.
    Jobs,
}

impl Scheduler {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Tree, Self::Hfsc, Self::Htb, Self::Wf2q, Self::Priority, Self::Cbq, Self::Hpd, Self::Jobs];

    /// Its name in files and in the interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Hfsc => "hfsc",
            Self::Htb => "htb",
            Self::Wf2q => "wf2q",
            Self::Priority => "priority",
            Self::Cbq => "cbq",
            Self::Hpd => "hpd",
            Self::Jobs => "jobs",
        }
    }
}

/// The first piece of a guarantee: what a class gets when it begins to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FirstPiece {
    /// bit/s. Above the guarantee: less delay than that alone would give; below it: more.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub rate: Rate,
    /// For how long, ns; 1 µs … 60 s.
    #[cfg_attr(feature = "schema", schema(value_type = u64))]
    pub time: Duration,
}

/// How long packets of a class should wait, on a port that keeps waiting times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DelayGoal {
    /// In proportion to the others, 1 … 1,000,000; none: 1, but with [`Scheduler::Jobs`] in no proportion when there is a bound.
    #[serde(default)]
    pub proportion: Option<u32>,
    /// At most, ns; 1 µs … 60 s.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>))]
    pub bound: Option<Duration>,
}

/// How much of a class should be lost, on a port with [`Scheduler::Jobs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LossGoal {
    /// In proportion to the others, 1 … 1,000,000; none: 1.
    #[serde(default)]
    pub proportion: Option<u32>,
    /// At most, parts per million of its bytes; to 1,000,000.
    #[serde(default)]
    pub bound_ppm: Option<u32>,
}
