//! From what policies want and links have to the rate of each policy: pure.

use perhop_allocate::{Group, Overcommitted, max_min};
use perhop_units::Rate;

/// Lowest rate of a policy that is held at one; a router takes no lower one, and 0 would be none at all.
pub(crate) const LEAST_RATE: Rate = Rate(1_000);

/// Whose weight a policy's is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weighted {
    /// Each of its flows has it: flows of two policies with the same weight get the same.
    #[default]
    Flow,
    /// All its flows together have it, however many they are.
    Policy,
}

/// What a policy wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// How many flows send.
    pub(crate) flows: u32,
    /// Against other policies, at least 1.
    pub(crate) weight: u32,
    /// Of each flow, or of all.
    pub(crate) weighted: Weighted,
    /// What each flow has been promised.
    pub(crate) least: Rate,
    /// What each flow gets at most, at least `least`.
    pub(crate) most: Option<Rate>,
    /// What is kept while no flow sends.
    pub(crate) reserve: Rate,
    /// Links that its flows cross, by number; one at least, each once.
    pub(crate) path: Vec<usize>,
}

impl Demand {
    /// What it has to get in any case, its flows together.
    pub(crate) fn promised(&self) -> Rate {
        match self.flows {
            0 => self.reserve.max(LEAST_RATE),
            flows => Rate(self.least.0.saturating_mul(u64::from(flows))),
        }
    }

    /// What it gets at most, its flows together.
    fn most(&self) -> Option<Rate> {
        let least = self.promised();
        match self.flows {
            0 => Some(least),
            flows => self.most.map(|most| Rate(most.0.saturating_mul(u64::from(flows))).max(least)),
        }
    }

    /// As one group of one: its flows share the rate equally by themselves, so only their sum counts.
    fn group(&self) -> Group {
        let weight = match self.weighted {
            Weighted::Flow => u64::from(self.weight) * u64::from(self.flows.max(1)),
            Weighted::Policy => u64::from(self.weight),
        };
        Group { flows: 1, weight, least: self.promised(), most: self.most(), path: self.path.clone() }
    }
}

/// Who gets what, and whose promises could not be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// By policy, all its flows together; nowhere in sum more than a link has, but [`LEAST_RATE`] for each policy.
    pub(crate) rates: Vec<Rate>,
    /// Links on which the promises come to more than there is. There all are lowered in the same proportion.
    pub(crate) short: Vec<Overcommitted>,
}

/// Weighted max–min shares of the policies.
pub(crate) fn assign(available: &[Rate], demands: &[Demand]) -> Assignment {
    let mut groups: Vec<Group> = demands.iter().map(Demand::group).collect();
    let mut available = available.to_vec();
    for (i, available) in available.iter_mut().enumerate() {
        let crossing = groups.iter().filter(|group| group.path.contains(&i)).count() as u64;
        *available = (*available).max(Rate(LEAST_RATE.0.saturating_mul(crossing)));
    }
    // Who would get less than the lowest rate is given that, as a promise. So few are below it that this is the exception.
    let mut floors = vec![Rate::ZERO; groups.len()];
    let mut short: Vec<Overcommitted> = Vec::new();
    loop {
        let rates = match max_min(&available, &groups) {
            Ok(rates) => rates,
            Err(over) => {
                lower(&mut groups, &floors, &over);
                if short.iter().all(|told| told.segment != over.segment) {
                    short.push(over);
                }
                continue;
            }
        };
        let low: Vec<usize> = (0..rates.len()).filter(|i| rates[*i] < LEAST_RATE).collect();
        if low.is_empty() {
            return Assignment { rates, short };
        }
        for i in low {
            floors[i] = LEAST_RATE;
            groups[i].least = groups[i].least.max(LEAST_RATE);
            groups[i].most = groups[i].most.map(|most| most.max(LEAST_RATE));
        }
    }
}

/// Lowers what is promised on a link, in proportion, until it fits, but nobody below its floor.
fn lower(groups: &mut [Group], floors: &[Rate], over: &Overcommitted) {
    let crossing: Vec<usize> =
        (0..groups.len()).filter(|i| groups[*i].path.contains(&over.segment)).collect();
    let kept: u64 = crossing.iter().map(|i| floors[*i].0).sum();
    let (room, asked) = (over.available.0.saturating_sub(kept), over.promised.0.saturating_sub(kept));
    for i in crossing {
        let above = groups[i].least.0.saturating_sub(floors[i].0);
        let fits = u128::from(above) * u128::from(room) / u128::from(asked.max(1));
        groups[i].least = Rate(floors[i].0 + u64::try_from(fits).unwrap_or(above).min(above));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn demand(flows: u32, weight: u32, path: &[usize]) -> Demand {
        let (least, most, reserve) = (Rate(0), None, Rate(0));
        Demand { flows, weight, weighted: Weighted::Flow, least, most, reserve, path: path.to_vec() }
    }

    fn rates(available: &[u64], demands: &[Demand]) -> Vec<u64> {
        let available: Vec<Rate> = available.iter().map(|rate| Rate(*rate)).collect();
        assign(&available, demands).rates.into_iter().map(|rate| rate.0).collect()
    }

    #[test]
    fn weights_are_of_flows_or_of_policies() {
        // reddy.md: 192,000 B/s for four groups of eight with weights 1:2:4:8.
        let groups = [1, 2, 4, 8].map(|weight| demand(8, weight, &[0]));
        assert_eq!(rates(&[1_536_000], &groups), [102_400, 204_800, 409_600, 819_200]);
        // 5:3:2 for code points, however many flows each has.
        let of_policy = |flows, weight| Demand { weighted: Weighted::Policy, ..demand(flows, weight, &[0]) };
        let shares = [of_policy(1, 5), of_policy(7, 3), of_policy(30, 2)];
        assert_eq!(rates(&[1_000_000], &shares), [500_000, 300_000, 200_000]);
        // And for each flow of a code point.
        let shares = [demand(1, 5, &[0]), demand(7, 3, &[0]), demand(12, 2, &[0])];
        assert_eq!(rates(&[1_000_000], &shares), [100_000, 420_000, 480_000]);
    }

    #[test]
    fn one_without_flows_keeps_its_reserve_and_no_more() {
        let idle = Demand { reserve: Rate(50_000), ..demand(0, 100, &[0]) };
        assert_eq!(
            rates(&[1_000_000], &[idle, demand(0, 1, &[0]), demand(3, 1, &[0])]),
            [50_000, 1_000, 949_000]
        );
    }

    #[test]
    fn a_request_gets_between_its_minimum_and_its_peak() {
        // Reddy, chapter 1: 100 to 200 kbit/s are asked for, and 132 are there.
        let asked = Demand { least: Rate(100_000), most: Some(Rate(200_000)), ..demand(1, 1, &[0]) };
        let others = |flows| demand(flows, 1, &[0]);
        assert_eq!(rates(&[420_000], &[asked.clone(), others(9)]), [132_000, 288_000]);
        assert_eq!(rates(&[420_000], &[asked.clone(), others(1)]), [200_000, 220_000]);
        assert_eq!(rates(&[420_000], &[asked, others(319)])[0], 101_000);
    }

    #[test]
    fn promises_that_no_longer_fit_are_lowered_in_proportion_and_told() {
        let promise = |rate| Demand { least: Rate(rate), ..demand(1, 1, &[0, 1]) };
        let available = [Rate(900_000), Rate(400_000)];
        let Assignment { rates, short } = assign(&available, &[promise(600_000), promise(200_000)]);
        assert_eq!(rates, [Rate(300_000), Rate(100_000)]);
        let over = Overcommitted { segment: 1, promised: Rate(800_000), available: Rate(400_000) };
        assert_eq!(short, [over]);
        // Where there is nothing, everybody keeps the lowest rate: none would be no limit.
        assert_eq!(assign(&[Rate(0)], &[demand(3, 1, &[0]), demand(0, 1, &[0])]).rates, [Rate(1_000); 2]);
    }

    fn demands() -> impl Strategy<Value = (Vec<Rate>, Vec<Demand>)> {
        let demand = |links: usize| {
            let path = proptest::sample::subsequence((0..links).collect::<Vec<_>>(), 1..=links);
            let bounds = (0u64..200_000, proptest::option::of(0u64..500_000), 0u64..50_000);
            (0u32..40, 1u32..1_000, any::<bool>(), bounds, path).prop_map(
                |(flows, weight, each, bounds, path)| {
                    let (least, above, reserve) = bounds;
                    let weighted = if each { Weighted::Flow } else { Weighted::Policy };
                    let most = above.map(|above| Rate(least + above));
                    Demand { flows, weight, weighted, least: Rate(least), most, reserve: Rate(reserve), path }
                },
            )
        };
        (1usize..4).prop_flat_map(move |links| {
            let available = proptest::collection::vec((0u64..20_000_000).prop_map(Rate), links);
            (available, proptest::collection::vec(demand(links), 0..10))
        })
    }

    proptest! {
        #[test]
        fn no_link_is_given_more_than_it_has((available, demands) in demands()) {
            let Assignment { rates, short } = assign(&available, &demands);
            prop_assert!(rates.iter().all(|rate| *rate >= LEAST_RATE));
            for (link, available) in available.iter().enumerate() {
                let on = demands.iter().zip(&rates).filter(|(demand, _)| demand.path.contains(&link));
                let (crossing, given) = on.fold((0, 0), |(n, sum), (_, rate)| (n + 1, sum + rate.0));
                prop_assert!(given <= available.0.max(LEAST_RATE.0 * crossing), "{given} on link {link}");
            }
            for (demand, rate) in demands.iter().zip(&rates) {
                let kept = *rate >= demand.promised();
                prop_assert!(kept || short.iter().any(|over| demand.path.contains(&over.segment)));
                let most = demand.most.map_or(u64::MAX, |most| most.0 * u64::from(demand.flows));
                prop_assert!(rate.0 <= most.max(demand.promised().0));
            }
        }
    }
}
