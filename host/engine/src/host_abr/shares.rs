//! What a link has, divided between policies: weighted max–min shares of their flows.
//!
//! Both directions of the link have the same rate. A policy for data of one direction takes its share there, any other in
//! both. A policy without flows has what it would get if every such policy began a flow now, so that its first flow need
//! not wait; it takes nothing from the others until then.

use perhop_allocate::{Group, max_min};
use perhop_routerfile::host::HostPolicy;
use perhop_units::Rate;

/// No policy has less; 0 would be no limit at all.
const LEAST: Rate = Rate(1_000);

/// The state of the division.
#[derive(Debug)]
pub(super) struct Shares {
    link: Rate,
    demands: Vec<Demand>,
    /// Flows of each policy at the last division.
    flows: Vec<u32>,
    rates: Vec<Rate>,
}

/// What a policy asks for.
#[derive(Debug)]
struct Demand {
    weight: u64,
    /// Each flow's least and most, and the most of all together; 0: none.
    min: u64,
    peak: u64,
    all: u64,
    path: Vec<usize>,
}

impl Demand {
    fn of(policy: &HostPolicy) -> Self {
        let spec = &policy.spec;
        let path = match spec.matches.class.as_ref().map(|class| class.as_str()) {
            Some("sent") => vec![0],
            Some("received") => vec![1],
            _ => vec![0, 1],
        };
        Self {
            weight: u64::from(spec.weight.max(1)),
            min: spec.min.0,
            peak: spec.peak.0,
            all: spec.rate.0,
            path,
        }
    }

    /// Its flows as one; they share its rate equally by themselves.
    fn group(&self, flows: u32, scale: (u64, u64)) -> Group {
        let n = u64::from(flows);
        let limits = [self.peak.saturating_mul(n), self.all].into_iter().filter(|limit| *limit > 0);
        let most = limits.min().map(Rate);
        let promised =
            u128::from(self.min.saturating_mul(n)) * u128::from(scale.0) / u128::from(scale.1.max(1));
        let least = Rate(u64::try_from(promised).unwrap_or(u64::MAX));
        let least = most.map_or(least, |most| least.min(most));
        Group {
            flows: u32::from(flows > 0),
            weight: self.weight * n.max(1),
            least,
            most,
            path: self.path.clone(),
        }
    }
}

impl Shares {
    /// Nothing is divided yet.
    pub fn new(link: Rate, policies: &[HostPolicy]) -> Self {
        Self {
            link,
            demands: policies.iter().map(Demand::of).collect(),
            flows: Vec::new(),
            rates: Vec::new(),
        }
    }

    /// The rate of each policy, its flows together; `None` when as many flows send as the last time. O(policies²) when not.
    pub fn divide(&mut self, flows: impl Iterator<Item = u32> + Clone) -> Option<&[Rate]> {
        if self.flows.iter().copied().eq(flows.clone()) && !self.rates.is_empty() {
            return None;
        }
        self.flows = flows.collect();
        let now = self.assign(&self.flows);
        let begun: Vec<u32> = self.flows.iter().map(|flows| (*flows).max(1)).collect();
        let then = self.assign(&begun);
        let pick = |((flows, now), then): ((&u32, Rate), Rate)| if *flows == 0 { then } else { now };
        self.rates = self.flows.iter().zip(now).zip(then).map(pick).map(|rate| rate.max(LEAST)).collect();
        Some(&self.rates)
    }

    /// What is promised is lowered in proportion where it comes to more than the link has.
    fn assign(&self, flows: &[u32]) -> Vec<Rate> {
        let mut scale = (1, 1);
        // Rounding leaves two directions and a rest.
        for _ in 0..4 {
            let groups: Vec<Group> =
                self.demands.iter().zip(flows).map(|(demand, flows)| demand.group(*flows, scale)).collect();
            match max_min(&[self.link; 2], &groups) {
                Ok(rates) => return rates,
                Err(over) => {
                    let part = u128::from(scale.0) * u128::from(over.available.0) * 1_000_000
                        / (u128::from(scale.1) * u128::from(over.promised.0.max(1)));
                    scale = (u64::try_from(part).unwrap_or(0).saturating_sub(1), 1_000_000);
                }
            }
        }
        vec![LEAST; flows.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_routerfile::host::HostFile;
    use proptest::prelude::*;

    fn shares(text: &str) -> Shares {
        let (file, diagnostics) =
            HostFile::read("host.toml", &format!("[host]\nrate = \"1 Mbit/s\"\n{text}"));
        let file = file.unwrap_or_else(|| panic!("{diagnostics}"));
        Shares::new(file.rate.unwrap(), &file.policies)
    }

    fn divided(shares: &mut Shares, flows: &[u32]) -> Vec<u64> {
        shares.divide(flows.iter().copied()).expect("flows have changed").iter().map(|rate| rate.0).collect()
    }

    #[test]
    fn directions_do_not_share_and_policies_do_by_weight() {
        let mut link = shares(
            "[[abr]]\nname = \"a\"\nmatch = { class = \"sent\", dst_ports = 80 }\nweight = 3\n\
             [[abr]]\nname = \"b\"\nmatch = { class = \"sent\" }\n[[abr]]\nname = \"c\"\nmatch = { class = \"received\" }\n",
        );
        assert_eq!(divided(&mut link, &[1, 1, 4]), [750_000, 250_000, 1_000_000]);
        assert!(link.divide([1, 1, 4].into_iter()).is_none(), "nothing is new");
        // One flow of weight three, five of weight one.
        assert_eq!(divided(&mut link, &[1, 5, 0]), [375_000, 625_000, 1_000_000]);
        // Who sends has everything; who does not would have its share.
        assert_eq!(divided(&mut link, &[0, 2, 0]), [600_000, 1_000_000, 1_000_000]);
    }

    #[test]
    fn least_most_and_rate_are_kept() {
        let mut link = shares(
            "[[abr]]\nname = \"a\"\nmatch = { dst_ports = 1 }\nmin = \"300 kbit/s\"\n\
             [[abr]]\nname = \"b\"\nmatch = { dst_ports = 2 }\npeak = \"100 kbit/s\"\n\
             [[abr]]\nname = \"c\"\nrate = \"50 kbit/s\"\n",
        );
        assert_eq!(divided(&mut link, &[1, 2, 9]), [750_000, 200_000, 50_000]);
        let promised_too_much = divided(&mut link, &[5, 2, 9]);
        assert!(promised_too_much[0] >= 990_000 && promised_too_much.iter().sum::<u64>() <= 1_002_000);
    }

    proptest! {
        #[test]
        fn no_direction_carries_more_than_the_link(flows in prop::collection::vec(0u32..50, 4)) {
            let mut link = shares(
                "[[abr]]\nname = \"a\"\nmatch = { class = \"sent\", dst_ports = 1 }\nmin = \"90 kbit/s\"\n\
                 [[abr]]\nname = \"b\"\nmatch = { class = \"sent\" }\nweight = 7\nmin = \"10 kbit/s\"\n\
                 [[abr]]\nname = \"c\"\nmatch = { class = \"received\" }\n[[abr]]\nname = \"d\"\npeak = \"20 kbit/s\"\n",
            );
            let rates = divided(&mut link, &flows);
            let sum = |of: [usize; 3]| of.iter().filter(|i| flows[**i] > 0).map(|i| rates[*i]).sum::<u64>();
            // Each policy has the least rate in any case.
            prop_assert!(sum([0, 1, 3]) <= 1_003_000 && sum([2, 3, 3]) - rates[3] * u64::from(flows[3] > 0) <= 1_003_000);
            prop_assert!(rates.iter().all(|rate| *rate >= LEAST.0));
        }
    }
}
