//! Schedulers, the class tree, and the pump that drives them.

pub mod altq_cbq;
pub mod bands;
pub mod class_tree;
pub mod drr;
pub mod egress;
pub(crate) mod heap;
pub mod hfsc;
pub mod hpd;
pub mod htb;
pub mod jobs;
mod law;
mod leaves;
pub mod levels;
mod lists;
pub mod priority;
pub mod pump;
pub mod transmitter;
mod tree_names;
pub mod wf2q;
pub mod wrr;

pub use altq_cbq::AltqCbq;
pub use bands::Bands;
pub use class_tree::{
    Bound, ClassCounters, ClassTree, ClassView, Curve, EarlyDrop, FreedSlot, LeafKind, LeafParams, MAX_RULED,
    NodeIndex, NodeParams, NodeSpec, RuleSpec, RuledLine, TreeChange, TreeEdit, TreeError, TreeErrorKind,
    TreeLink,
};
pub use drr::Drr;
pub use egress::{Egress, EgressChange, EgressConfig, LeafMap};
pub use hpd::Hpd;
pub use priority::Priority;
pub use pump::{Emit, Pump};
pub use transmitter::{Transmitter, TransmitterConfig};
pub use wf2q::{Wf2q, Wf2qTags};

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![
        altq_cbq::TYPE,
        drr::TYPE,
        egress::TYPE,
        hfsc::TYPE,
        hpd::TYPE,
        htb::TYPE,
        jobs::TYPE,
        priority::TYPE,
        wf2q::TYPE,
        wrr::TYPE,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_element::BuildCx;
    use perhop_element::testkit::args;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn every_sample_builds() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for t in types() {
            for _ in 0..50 {
                let text = (t.sample)(&mut rng);
                assert!((t.build)(&args(&text), &mut BuildCx::default()).is_ok(), "{} {text}", t.name);
            }
        }
    }
}
