//! Weighted max–min shares of flows over a path of several segments, by progressive filling.
//!
//! Every flow first gets its minimum; then the rates of all flows rise in proportion to their weights until a flow
//! reaches its peak or a segment on its path is full, and what has stopped rising stays. No flow could have more
//! without another that has less by its weight having less still.
//!
//! Source: the distribution that S. Reddy, chapter 2, leaves open; D. Bertsekas and Gallager, *Data Networks*, §6.5.2.

use perhop_units::Rate;
use thiserror::Error;

/// A number of equal flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many; a group of none takes nothing.
    pub flows: u32,
    /// How fast each rises against those of other groups, above 0.
    pub weight: u64,
    /// What each gets in any case.
    pub least: Rate,
    /// What each gets at most; at least `least`. `None`: no limit of its own.
    pub most: Option<Rate>,
    /// Numbers of the segments that each crosses; one at least, each once.
    pub path: Vec<usize>,
}

/// The minima come to more than a segment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("segment {segment}: what is promised comes to {promised}, and {available} is available")]
pub struct Overcommitted {
    /// Number of the segment.
    pub segment: usize,
    /// Sum of the minima of the flows that cross it.
    pub promised: Rate,
    /// What it has.
    pub available: Rate,
}

/// What each flow of a group gets, in the order of `groups`, and nowhere more in sum than is `available` on a segment.
/// A group of no flows gets its minimum. Whole bit/s, rounded down. O(groups · (groups + segments)) at worst: each round
/// stops one group or fills one segment.
///
/// # Errors
/// The first segment on which the minima do not fit.
///
/// # Panics
/// If a path names a segment that is not there.
pub fn max_min(available: &[Rate], groups: &[Group]) -> Result<Vec<Rate>, Overcommitted> {
    let live = |group: &Group| f64::from(group.flows);
    let mut left: Vec<f64> = available.iter().map(|rate| rate.0 as f64).collect();
    for group in groups {
        for segment in &group.path {
            left[*segment] -= live(group) * group.least.0 as f64;
        }
    }
    if let Some(segment) = left.iter().position(|left| *left < 0.0) {
        let available = available[segment];
        let promised = Rate((available.0 as f64 - left[segment]).round() as u64);
        return Err(Overcommitted { segment, promised, available });
    }
    let mut rates: Vec<f64> = groups.iter().map(|group| group.least.0 as f64).collect();
    let mut rising: Vec<bool> = groups.iter().map(|group| group.flows > 0).collect();
    while rising.contains(&true) {
        let mut weights = vec![0.0; available.len()];
        for (group, _) in groups.iter().zip(&rising).filter(|(_, rising)| **rising) {
            for segment in &group.path {
                weights[*segment] += live(group) * group.weight as f64;
            }
        }
        let room = |i: usize| groups[i].most.map_or(f64::INFINITY, |most| most.0 as f64 - rates[i]);
        let peaks =
            (0..groups.len()).filter(|i| rising[*i]).map(|i| room(i).max(0.0) / groups[i].weight as f64);
        let fills = left.iter().zip(&weights).filter(|(_, w)| **w > 0.0).map(|(left, w)| left.max(0.0) / w);
        let step = peaks.chain(fills).fold(f64::INFINITY, f64::min);
        let full: Vec<bool> =
            left.iter().zip(&weights).map(|(left, w)| *w > 0.0 && left.max(0.0) / w <= step).collect();
        let done: Vec<bool> =
            (0..groups.len()).map(|i| room(i).max(0.0) / groups[i].weight as f64 <= step).collect();
        for (i, group) in groups.iter().enumerate().filter(|(i, _)| rising[*i]) {
            rates[i] += group.weight as f64 * step;
            for segment in &group.path {
                left[*segment] -= live(group) * group.weight as f64 * step;
            }
        }
        for (i, group) in groups.iter().enumerate() {
            rising[i] &= !done[i] && !group.path.iter().any(|segment| full[*segment]);
        }
    }
    let mut rates: Vec<Rate> = rates.into_iter().map(|rate| Rate(rate as u64)).collect();
    trim(available, groups, &mut rates);
    Ok(rates)
}

/// Takes back what rounding added where an exact share is just below a whole number: no segment carries too much.
fn trim(available: &[Rate], groups: &[Group], rates: &mut [Rate]) {
    for (segment, available) in available.iter().enumerate() {
        let on = |i: &usize| groups[*i].path.contains(&segment);
        let given = |i: usize| u128::from(groups[i].flows) * u128::from(rates[i].0);
        let carried: u128 = (0..groups.len()).filter(on).map(given).sum();
        let mut over = carried.saturating_sub(u128::from(available.0));
        for i in (0..groups.len()).filter(on) {
            if over > 0 && groups[i].flows > 0 && rates[i] > groups[i].least {
                rates[i].0 -= 1;
                over = over.saturating_sub(u128::from(groups[i].flows));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group(flows: u32, weight: u64, path: &[usize]) -> Group {
        Group { flows, weight, least: Rate(0), most: None, path: path.to_vec() }
    }

    #[test]
    fn one_link_is_split_by_weight() {
        // reddy.md: 192,000 B/s for 32 flows, and for four groups of 8 with weights 1:2:4:8.
        let link = [Rate(1_536_000)];
        assert_eq!(max_min(&link, &[group(32, 1, &[0])]), Ok(vec![Rate(48_000)]));
        let groups = [1, 2, 4, 8].map(|weight| group(8, weight, &[0]));
        assert_eq!(max_min(&link, &groups), Ok([12_800, 25_600, 51_200, 102_400].map(Rate).to_vec()));
    }

    #[test]
    fn what_a_peak_leaves_goes_to_the_others_and_a_minimum_comes_first() {
        let link = [Rate(1_000)];
        let peak = Group { most: Some(Rate(100)), ..group(2, 1, &[0]) };
        assert_eq!(max_min(&link, &[peak, group(1, 1, &[0])]), Ok(vec![Rate(100), Rate(800)]));
        let least = Group { least: Rate(400), ..group(1, 1, &[0]) };
        assert_eq!(max_min(&link, &[least, group(1, 1, &[0])]), Ok(vec![Rate(700), Rate(300)]));
    }

    #[test]
    fn a_long_path_gets_what_its_narrowest_segment_gives_and_the_rest_goes_to_the_short_ones() {
        // Bertsekas and Gallager: three sessions cross the first of two links, one of them the second too.
        let links = [Rate(900), Rate(1_200)];
        let groups = [group(1, 1, &[0, 1]), group(2, 1, &[0]), group(1, 1, &[1])];
        assert_eq!(max_min(&links, &groups), Ok(vec![Rate(300), Rate(300), Rate(900)]));
    }

    #[test]
    fn too_many_promises_are_refused_and_nobody_is_no_trouble() {
        let promise = Group { least: Rate(600), ..group(2, 1, &[1]) };
        let refused = max_min(&[Rate(5_000), Rate(1_000)], std::slice::from_ref(&promise));
        let (promised, available) = (Rate(1_200), Rate(1_000));
        assert_eq!(refused, Err(Overcommitted { segment: 1, promised, available }));
        assert_eq!(max_min(&[], &[]), Ok(vec![]));
        let nobody = Group { flows: 0, ..promise };
        assert_eq!(max_min(&[Rate(0), Rate(0)], &[nobody]), Ok(vec![Rate(600)]));
    }

    fn groups() -> impl Strategy<Value = (Vec<Rate>, Vec<Group>)> {
        let group = |segments: usize| {
            let path = proptest::sample::subsequence((0..segments).collect::<Vec<_>>(), 1..=segments);
            (0u32..50, 1u64..100, 0u64..2_000, proptest::option::of(0u64..100_000), path).prop_map(
                |(flows, weight, least, above, path)| {
                    let most = above.map(|above| Rate(least + above));
                    Group { flows, weight, least: Rate(least), most, path }
                },
            )
        };
        (1usize..5).prop_flat_map(move |segments| {
            let links = proptest::collection::vec((1_000_000u64..100_000_000).prop_map(Rate), segments);
            (links, proptest::collection::vec(group(segments), 0..12))
        })
    }

    proptest! {
        /// The definition: no segment carries too much, and every flow below its peak crosses a full segment on which
        /// nobody above its own minimum has risen further.
        #[test]
        fn nobody_could_have_more((available, groups) in groups()) {
            let rates = max_min(&available, &groups).expect("the minima are small");
            let carried = |segment: usize| -> u64 {
                let on = groups.iter().zip(&rates).filter(|(group, _)| group.path.contains(&segment));
                on.map(|(group, rate)| u64::from(group.flows) * rate.0).sum()
            };
            let flows: u64 = groups.iter().map(|group| u64::from(group.flows)).sum();
            for (segment, available) in available.iter().enumerate() {
                prop_assert!(carried(segment) <= available.0, "segment {segment}");
            }
            let risen = |i: usize| (rates[i].0 - groups[i].least.0) as f64 / groups[i].weight as f64;
            for (i, group) in groups.iter().enumerate().filter(|(_, group)| group.flows > 0) {
                prop_assert!(rates[i] >= group.least && group.most.is_none_or(|most| rates[i] <= most));
                if group.most.is_some_and(|most| most.0 - rates[i].0 <= 1) {
                    continue;
                }
                let narrow = group.path.iter().any(|segment| {
                    // Every rate is rounded down by less than one.
                    let full = available[*segment].0 - carried(*segment) <= flows;
                    let others = groups.iter().enumerate().filter(|(_, g)| g.flows > 0 && g.path.contains(segment));
                    full && others.into_iter().all(|(j, _)| risen(j) <= risen(i) + 1.0 + 1.0 / group.weight as f64)
                });
                prop_assert!(narrow, "group {i} could have more: {rates:?}");
            }
        }

        /// Also where a number of this size has no room for a fraction of a bit/s.
        #[test]
        fn no_segment_carries_too_much_at_any_rate(
            available in 1u64..1_000_000_000_000_000,
            groups in proptest::collection::vec((1u32..3_000_000, 1u64..1_000_000_000), 1..8),
        ) {
            let groups: Vec<Group> = groups.iter().map(|(flows, weight)| group(*flows, *weight, &[0])).collect();
            let rates = max_min(&[Rate(available)], &groups).expect("nothing is promised");
            let carried: u128 =
                groups.iter().zip(&rates).map(|(group, rate)| u128::from(group.flows) * u128::from(rate.0)).sum();
            prop_assert!(carried <= u128::from(available));
        }
    }
}
