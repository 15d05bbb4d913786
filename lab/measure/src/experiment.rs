//! A whole experiment: the product's configuration and the variants, all repetitions, judged.

use crate::admissions::admissions;
use crate::agents::agents;
use crate::groups::groups;
use crate::judge::{is_excused, judge};
use crate::links::links;
use crate::recording::{ProgramFailure, Recording};
use crate::reserved::reserved;
use crate::warnings;
use perhop_report::details::PRODUCT;
use perhop_report::result::{Expectation, ScenarioResult, Variant};
use perhop_scenario::{Expect, Scenario};

/// All repetitions of one configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The configuration.
    pub scenario: Scenario,
    /// Its repetitions, in order.
    pub recordings: Vec<Recording>,
}

impl Configuration {
    fn variant(&self, recordings: &[Recording]) -> Variant {
        Variant {
            groups: groups(&self.scenario, recordings),
            links: links(&self.scenario, recordings),
            agents: agents(recordings),
            admissions: admissions(recordings),
            reserved: reserved(recordings),
        }
    }
}

/// What was run.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// World it ran in: `sim` or `netns`.
    pub mode: String,
    /// Seed.
    pub seed: u64,
    /// Paths that the user set.
    pub changed: Vec<String>,
    /// The product's configuration.
    pub product: Configuration,
    /// The others, by name.
    pub variants: Vec<(String, Configuration)>,
}

impl Experiment {
    /// The result; expected values are those of the product's configuration.
    pub fn result(&self) -> ScenarioResult {
        let mut result = self.of(|configuration| &configuration.recordings);
        let each: Vec<ScenarioResult> = (0..self.product.recordings.len())
            .map(|i| self.of(|configuration| configuration.recordings.get(i..=i).unwrap_or_default()))
            .collect();
        for expect in self.expected() {
            let (judged, undecided) = judge(expect, &result, &each, &self.changed);
            result.expect.push(judged);
            result.warnings.extend(undecided);
        }
        self.excuse_stalls(&mut result);
        self.judge_programs(&mut result);
        result
    }

    /// A largest delay that misses its target by no more than the machine once stood still has no verdict.
    fn excuse_stalls(&self, result: &mut ScenarioResult) {
        let recordings = self.configurations().flat_map(|c| &c.recordings);
        let stall_ms = recordings.map(|r| r.longest_stall.as_millis_f64()).fold(0.0, f64::max);
        let expected = self.expected().zip(&mut result.expect);
        for (_, judged) in expected.filter(|(expect, judged)| is_excused(expect, judged, stall_ms)) {
            judged.ok = None;
            result.machine_warnings.push(format!(
                "{}: no verdict, because it misses its target by no more than the {stall_ms:.1} ms that this machine \
                 once stood still",
                judged.metric
            ));
        }
    }

    /// A program that ended otherwise than expected is a target missed; the figures stand.
    fn judge_programs(&self, result: &mut ScenarioResult) {
        for failure in self.configurations().flat_map(|c| &c.recordings).flat_map(|r| &r.programs) {
            let ProgramFailure { program, expected, found } = failure;
            merge(
                &mut result.warnings,
                &[format!("program \"{program}\": expected {expected}, but {found}")],
            );
            let metric = format!("program.{program}");
            if result.expect.iter().all(|judged| judged.metric != metric) {
                let target = Some(expected.clone());
                result.expect.push(Expectation { metric, target, ok: Some(false), ..Expectation::default() });
            }
        }
    }

    /// The expected values that count in this world.
    pub(crate) fn expected(&self) -> impl Iterator<Item = &Expect> {
        let all = self.product.scenario.expect.iter();
        all.filter(|expect| expect.mode.as_ref().is_none_or(|mode| *mode == self.mode))
    }

    /// Whether the machine, not the network, was the bottleneck of any repetition: why. A machine that was only short of
    /// processors has to answer for the targets that `result` misses, and for nothing if it misses none.
    pub fn saturated(&self, result: &ScenarioResult) -> Option<String> {
        let recordings = || self.configurations().flat_map(|c| &c.recordings);
        let missed = result.expect.iter().any(|expect| expect.ok == Some(false));
        let starved = || recordings().find_map(|recording| recording.starved.clone()).filter(|_| missed);
        recordings().find_map(|recording| recording.saturated.clone()).or_else(starved)
    }

    pub(crate) fn configurations(&self) -> impl Iterator<Item = &Configuration> {
        self.named().map(|(_, configuration)| configuration)
    }

    /// Every configuration by its name in results, the product's first.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, &Configuration)> {
        let variants = self.variants.iter().map(|(name, configuration)| (name.as_str(), configuration));
        std::iter::once((PRODUCT, &self.product)).chain(variants)
    }

    fn of<'a>(&'a self, part: impl Fn(&'a Configuration) -> &'a [Recording]) -> ScenarioResult {
        let product = self.product.variant(part(&self.product));
        let variants = self.variants.iter();
        let has_calls = product.groups.iter().any(|group| group.mos.is_some());
        let playout = has_calls.then(|| self.product.scenario.probes.scoring.playout.into());
        let mut result = ScenarioResult {
            scenario: self.product.scenario.id.clone(),
            label: self.product.scenario.label.clone(),
            mode: self.mode.clone(),
            seed: self.seed,
            repetitions: self.product.recordings.len() as u32,
            sim_s: self.product.scenario.length().as_secs_f64(),
            groups: product.groups,
            links: product.links,
            playout,
            agents: product.agents,
            admissions: product.admissions,
            reserved: product.reserved,
            variants: variants.map(|(name, c)| (name.clone(), c.variant(part(c)))).collect(),
            ..ScenarioResult::default()
        };
        merge(&mut result.warnings, &warnings::of_traffic(&self.product.scenario, "", part(&self.product)));
        for (name, configuration) in &self.variants {
            let of = format!(" in variant {name}");
            let recordings = part(configuration);
            merge(&mut result.warnings, &warnings::of_traffic(&configuration.scenario, &of, recordings));
        }
        for configuration in self.configurations() {
            merge(&mut result.warnings, &warnings::of_clocks(&configuration.scenario).collect::<Vec<_>>());
        }
        let variants = self.variants.iter().map(|(name, c)| (format!(" of variant {name}"), c));
        for (of, configuration) in std::iter::once((String::new(), &self.product)).chain(variants) {
            let recordings = &configuration.recordings;
            merge_repetitions(&mut result.warnings, &of, recordings, |r| &r.warnings);
            merge_repetitions(&mut result.machine_warnings, &of, recordings, |r| &r.machine_warnings);
        }
        result
    }
}

/// Adds the warnings of repetitions; those that not all of them have name theirs. `of` tells the configuration.
fn merge_repetitions(
    into: &mut Vec<String>,
    of: &str,
    recordings: &[Recording],
    warnings: impl Fn(&Recording) -> &[String],
) {
    for (number, recording) in (1..).zip(recordings) {
        for warning in warnings(recording) {
            let shared = recordings.iter().all(|other| warnings(other).contains(warning));
            let named = || format!("repetition {number}{of}: {warning}");
            merge(into, &[if shared { warning.clone() } else { named() }]);
        }
    }
}

/// Adds what is not there yet.
fn merge(into: &mut Vec<String>, from: &[String]) {
    for warning in from {
        if !into.contains(warning) {
            into.push(warning.clone());
        }
    }
}
