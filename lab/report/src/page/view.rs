//! What a page shows side by side, and how many points each of its lines may have.

use crate::details::{ConfigurationDetails, GroupFigures};
use crate::directory::{ResultDirectory, TimedMark};
use crate::plot::Mark;
use crate::result::GroupResult;

/// A result and what it is called.
pub(super) type Run<'a> = (&'a str, &'a ResultDirectory);

/// With so many configurations a page has the most of everything; with more it has as much less of each.
const USUAL_CONFIGURATIONS: usize = 4;
/// Most groups with charts of their own.
const MAX_GROUPS: usize = 40;
/// Points that all lines over time together may have; a point and its share of a band are about 24 bytes.
const POINT_BUDGET: usize = 48_000;
/// Points that a line has at most: about two pixels each.
const MOST_POINTS: usize = 250;
/// … and at least.
const LEAST_POINTS: usize = 24;

/// A configuration with its name on the page.
pub(super) struct Shown<'a> {
    pub(super) name: String,
    pub(super) details: &'a ConfigurationDetails,
    /// Its number, which is that of its colour and strokes.
    pub(super) series: usize,
}

/// The configurations of a page.
pub(super) struct View<'a> {
    pub(super) configurations: Vec<Shown<'a>>,
    /// End of the time axis, s.
    pub(super) end_s: f64,
    /// Time that is not measured, s: of several runs the longest.
    pub(super) warm_up_s: f64,
    marks: Vec<&'a TimedMark>,
    /// Points of a line over time.
    pub(super) points: usize,
}

impl<'a> View<'a> {
    pub(super) fn of_one(directory: &'a ResultDirectory) -> Self {
        let configurations = directory.configurations.iter().map(|c| (directory.shown_name(c).to_owned(), c));
        let (end, warm_up) = (directory.result.sim_s, directory.about.warm_up_s);
        Self::of(configurations.collect(), end, warm_up, directory.about.marks.iter().collect())
    }

    /// Configurations of the same name beside each other.
    pub(super) fn of_runs(runs: &[Run<'a>]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for configuration in runs.iter().flat_map(|(_, directory)| &directory.configurations) {
            if !names.contains(&configuration.name.as_str()) {
                names.push(&configuration.name);
            }
        }
        let mut configurations = Vec::new();
        for of in names {
            configurations.extend(runs.iter().filter_map(|(name, directory)| {
                let configuration = directory.configuration(of)?;
                Some((format!("{name} {}", directory.shown_name(configuration)), configuration))
            }));
        }
        let mut marks: Vec<&TimedMark> = Vec::new();
        for mark in runs.iter().flat_map(|(_, directory)| &directory.about.marks) {
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
        let longest =
            |of: fn(&ResultDirectory) -> f64| runs.iter().map(|(_, run)| of(run)).fold(0.0, f64::max);
        let (end, warm_up) = (longest(|run| run.result.sim_s), longest(|run| run.about.warm_up_s));
        Self::of(configurations, end, warm_up, marks)
    }

    fn of(
        configurations: Vec<(String, &'a ConfigurationDetails)>,
        end_s: f64,
        warm_up_s: f64,
        marks: Vec<&'a TimedMark>,
    ) -> Self {
        let configurations: Vec<Shown<'a>> = configurations
            .into_iter()
            .enumerate()
            .map(|(series, (name, details))| Shown { name, details, series })
            .collect();
        let mut view = Self { configurations, end_s, warm_up_s, marks, points: MOST_POINTS };
        let queues: usize =
            view.configurations.iter().map(|shown| super::queues::drawn(&view, shown.details).count()).sum();
        let each = view.configurations.len();
        let lines = 3 * (view.drawn_groups().len() * each + queues) + view.classes().len() * each;
        view.points = (POINT_BUDGET / lines.max(1)).clamp(LEAST_POINTS, MOST_POINTS);
        view
    }

    /// How many of something each configuration may have on the page, at most `most`.
    pub(super) fn room(&self, most: usize) -> usize {
        let configurations = self.configurations.len().max(USUAL_CONFIGURATIONS);
        (most * USUAL_CONFIGURATIONS / configurations).max(1)
    }

    /// Names of the groups, in order. `name.down` is what `name` shows already.
    pub(super) fn groups(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for figures in self.all_groups() {
            if !names.contains(&figures.result.name.as_str()) {
                names.push(&figures.result.name);
            }
        }
        names.retain(|name| !name.ends_with(".down"));
        names
    }

    /// The groups with charts over time: the first, and what leads the page.
    pub(super) fn drawn_groups(&self) -> Vec<&'a str> {
        let (mut names, lead, most) = (self.groups(), self.lead(), self.room(MAX_GROUPS));
        let mut others = 0;
        names.retain(|name| {
            let is_lead = Some(*name) == lead;
            others += usize::from(!is_lead);
            is_lead || others <= most
        });
        names
    }

    /// The group whose picture comes first: of calls, else one with delays, else any that was followed over time.
    pub(super) fn lead(&self) -> Option<&'a str> {
        let groups = || self.all_groups().map(|figures| &figures.result);
        let shown = |group: &&GroupResult| {
            !group.name.ends_with(".down")
                && self.configurations.iter().any(|shown| shown.details.first_series(&group.name).is_some())
        };
        let calls = groups().filter(|group| group.mos.is_some()).find(shown);
        let timed = || groups().filter(|group| group.delay_ms.is_some()).find(shown);
        let lead = calls.or_else(timed).or_else(|| groups().find(shown))?;
        Some(&lead.name)
    }

    /// Names of the classes that agents look after, in order.
    pub(super) fn classes(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for details in self.configurations.iter().map(|shown| shown.details) {
            for trace in &details.allocations {
                if !names.contains(&trace.class.as_str()) {
                    names.push(&trace.class);
                }
            }
        }
        names
    }

    /// Pooled figures of every group of every configuration.
    fn all_groups(&self) -> impl Iterator<Item = &'a GroupFigures> {
        let each = self.configurations.iter().map(|shown| shown.details);
        each.flat_map(|details| details.groups.iter().filter(|figures| figures.repetition.is_none()))
    }

    /// The lines in every chart over time.
    pub(super) fn marks(&self) -> Vec<Mark> {
        self.marks.iter().take(12).map(|m| Mark { x: m.at_s, label: m.label.clone() }).collect()
    }
}

/// An identifier for a drawing: letters, digits and hyphens.
pub(super) fn identifier(kind: &str, numbers: &[usize]) -> String {
    numbers.iter().fold(kind.to_owned(), |id, number| format!("{id}-{number}"))
}
