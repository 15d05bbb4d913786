//! `bench classify`: the search for the first rule that the first packet of a flow meets.
//!
//! Headers are searched for in groups, in stages that ask for the memory of the next one, as the packet path does with the new flows
//! among 32 packets: in groups of 32 when all are new, of one or two when one in twenty is. `alone` is what a header takes whose
//! search begins when the one before has ended.

use crate::error::BenchError;
use crate::machine::{self, Watch};
use crate::report::{Metric, Point, Sink, Spread};
use crate::turns::Runs;
use perhop_flows::classifier::{Classifier, Key, Rule, Staged, classbench};
use perhop_packet::FilterId;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of `bench classify`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Rule sets in ClassBench's format, a sweep point each
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Copies of each set under other addresses: 10 make 100,000 rules of 10,000
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    copies: u32,
    /// Headers searched for in turns, each inside a rule drawn at random
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    headers: u32,
    /// Headers of a group
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=32))]
    group: u32,
    /// Seed of headers and addresses
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    pub measured: Runs,
}

/// Rounds over the headers a run.
const ROUNDS: usize = 8;

/// Measures every rule set.
///
/// # Errors
/// A file that cannot be read or is none of rules, or rules beyond a limit of the classifier.
pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let cpu = machine::pin_to(options.measured.cpu)?;
    for path in &options.rules {
        let wrong = |e: &dyn std::fmt::Display| BenchError::Options(format!("{}: {e}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| wrong(&e))?;
        let rules = classbench::rules(&text).map_err(|e| wrong(&e))?;
        let rules = copies(&rules, options.copies, options.seed);
        let given = rules.clone();
        let start = machine::thread_time_ns();
        let classifier = Classifier::build(given).map_err(|e| wrong(&e))?;
        let built_s = (machine::thread_time_ns() - start) as f64 / 1e9;
        let keys = keys(&rules, options);
        let mut point = measure(&classifier, &keys, options)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        point.params.insert("rules", rules.len().into());
        point.params.insert("set", name.into());
        point.params.insert("cpu", cpu.into());
        point.params.insert("group", options.group.into());
        point.params.insert("seed", options.seed.into());
        let each = classifier.bytes() as f64 / rules.len().max(1) as f64;
        point.metrics.insert("bytes_per_rule", Metric::new(Spread::exactly(each), "B"));
        point.metrics.insert("build", Metric::new(Spread::exactly(built_s), "s"));
        sink.point(&point)?;
    }
    Ok(())
}

fn measure(classifier: &Classifier, keys: &[Key], options: &Options) -> Result<Point, BenchError> {
    let watch = Watch::start();
    let (mut ns, mut alone, mut found, mut allocations) = (Vec::new(), Vec::new(), 0u64, 0);
    let group = options.group as usize;
    let mut staged = vec![Staged::default(); group];
    // The first run brings the memory near and is not counted.
    for run in 0..=options.measured.runs {
        let before = crate::allocations();
        let start = machine::thread_time_ns();
        for _ in 0..ROUNDS {
            found += keys.chunks(group).map(|group| in_stages(classifier, group, &mut staged)).sum::<u64>();
        }
        let grouped = machine::thread_time_ns();
        for _ in 0..ROUNDS {
            found += keys.iter().filter(|key| classifier.classify(key).is_some()).count() as u64;
        }
        let end = machine::thread_time_ns();
        if run > 0 {
            allocations += crate::allocations().since(before).count;
            ns.push((grouped - start) as f64 / (ROUNDS * keys.len()) as f64);
            alone.push((end - grouped) as f64 / (ROUNDS * keys.len()) as f64);
        }
    }
    let searched = (2 * ROUNDS * keys.len()) as u64;
    if found != searched * u64::from(options.measured.runs + 1) {
        return Err(BenchError::Wrong("a header inside a rule met none".to_owned()));
    }
    let visits: usize = keys.iter().map(|key| classifier.explain(key).len()).sum();
    let mut point = Point { bench: "classify", op: "header", ..Point::default() };
    point.set_ns(&ns);
    point.allocs_per_op = Some(allocations as f64 / (searched * u64::from(options.measured.runs)) as f64);
    let exact = |value: f64, unit| Metric::new(Spread::exactly(value), unit);
    point.metrics.insert("alone", Metric::new(Spread::of(&alone), "ns"));
    point.metrics.insert("tables", exact(classifier.tables().0 as f64, "table"));
    point.metrics.insert("tables_visited", exact(visits as f64 / keys.len() as f64, "table"));
    point.metrics.insert("longest_chain", exact(classifier.longest_chains().0 as f64, "rule"));
    point.warnings = watch.warnings();
    point.warn_of_spread();
    Ok(point)
}

/// How many of the group's headers meet a rule.
fn in_stages(classifier: &Classifier, group: &[Key], staged: &mut [Staged]) -> u64 {
    let staged = &mut staged[..group.len()];
    group.iter().zip(staged.iter_mut()).for_each(|(key, search)| classifier.begin(key, search));
    staged.iter_mut().for_each(|search| classifier.advance(search));
    staged.iter().for_each(|search| classifier.approach(search));
    staged.iter_mut().filter_map(|search| classifier.finish(search)).count() as u64
}

fn keys(rules: &[Rule], options: &Options) -> Vec<Key> {
    let mut random = Pcg64Mcg::seed_from_u64(options.seed);
    let mut key = || {
        let rule = &rules[random.random_range(0..rules.len())];
        classbench::key_inside(&rule.matches, |below| random.random_range(0..below))
    };
    (0..options.headers).map(|_| key()).collect()
}

/// `rules`, and the same under other addresses behind them: each copy flips the bits of one random word in all its
/// prefixes, which keeps what they have in common.
fn copies(rules: &[Rule], copies: u32, seed: u64) -> Vec<Rule> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0xc0b1);
    let mut all = Vec::with_capacity(rules.len() * copies as usize);
    for copy in 0..copies {
        let flip: [u32; 2] = if copy == 0 { [0, 0] } else { random.random() };
        for rule in rules {
            let number = all.len() as u32;
            let mut rule = Rule { id: FilterId(number), priority: number, ..rule.clone() };
            rule.name = Arc::from(format!("r{number}"));
            rule.matches = classbench::elsewhere(&rule.matches, flip);
            all.push(rule);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_other_rules_of_the_same_shape() {
        let text = "@10.1.2.0/24 192.0.2.7/32 0 : 65535 80 : 80 0x06/0xFF\n@0.0.0.0/0 10.0.0.0/8 0 : 65535 0 : 65535 0x11/0xFF\n";
        let rules = classbench::rules(text).unwrap();
        let all = copies(&rules, 3, 1);
        assert_eq!(all[..2], rules[..]);
        assert_eq!(all.iter().map(|r| r.id.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        let lengths = |rule: &Rule| rule.matches.src.map(|net| net.prefix_len());
        assert!(all.chunks(2).all(|pair| lengths(&pair[0]) == Some(24) && lengths(&pair[1]) == Some(0)));
        assert_ne!(all[2].matches.src, all[0].matches.src);
        assert!(Classifier::build(all).is_ok());
    }
}
