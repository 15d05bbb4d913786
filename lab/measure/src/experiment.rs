//! A whole experiment: the product's configuration and the variants, all repetitions, judged.

use crate::groups::groups;
use crate::judge::judge;
use crate::links::links;
use crate::recording::Recording;
use perhop_report::result::{ScenarioResult, Variant};
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
        Variant { groups: groups(&self.scenario, recordings), links: links(&self.scenario, recordings) }
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
        result.expect = self.expected().map(|expect| judge(expect, &result, &each, &self.changed)).collect();
        result
    }

    /// The expected values that count in this world.
    pub(crate) fn expected(&self) -> impl Iterator<Item = &Expect> {
        let all = self.product.scenario.expect.iter();
        all.filter(|expect| expect.mode.as_ref().is_none_or(|mode| *mode == self.mode))
    }

    /// Whether the machine, not the network, was the bottleneck of any repetition: why.
    pub fn saturated(&self) -> Option<String> {
        self.configurations().flat_map(|c| &c.recordings).find_map(|recording| recording.saturated.clone())
    }

    pub(crate) fn configurations(&self) -> impl Iterator<Item = &Configuration> {
        std::iter::once(&self.product).chain(self.variants.iter().map(|(_, configuration)| configuration))
    }

    fn of<'a>(&'a self, part: impl Fn(&'a Configuration) -> &'a [Recording]) -> ScenarioResult {
        let product = self.product.variant(part(&self.product));
        let variants = self.variants.iter();
        let mut result = ScenarioResult {
            scenario: self.product.scenario.id.clone(),
            mode: self.mode.clone(),
            seed: self.seed,
            repetitions: self.product.recordings.len() as u32,
            sim_s: self.product.scenario.length().as_secs_f64(),
            groups: product.groups,
            links: product.links,
            variants: variants.map(|(name, c)| (name.clone(), c.variant(part(c)))).collect(),
            ..ScenarioResult::default()
        };
        for recording in self.configurations().flat_map(|c| &c.recordings) {
            merge(&mut result.warnings, &recording.warnings);
            merge(&mut result.machine_warnings, &recording.machine_warnings);
        }
        result
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
