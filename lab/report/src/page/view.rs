//! What a page shows side by side, and how many points each of its lines may have.

use crate::details::{ConfigurationDetails, GroupFigures};
use crate::directory::{ResultDirectory, TimedMark};
use crate::plot::Mark;

/// Most configurations drawn over each other.
const MAX_CONFIGURATIONS: usize = 4;
/// Most groups with charts of their own.
const MAX_GROUPS: usize = 40;
/// Points that all lines over time together may have; a point and its share of a band are about 24 bytes.
const POINT_BUDGET: usize = 48_000;
/// Points that a line has at most: about two pixels each.
const MOST_POINTS: usize = 250;
/// … and at least.
const LEAST_POINTS: usize = 24;

/// A configuration with its name and colour on the page.
pub(super) struct Shown<'a> {
    pub(super) name: String,
    pub(super) details: &'a ConfigurationDetails,
    pub(super) color: usize,
}

/// The configurations of a page.
pub(super) struct View<'a> {
    pub(super) configurations: Vec<Shown<'a>>,
    /// End of the time axis, s.
    pub(super) end_s: f64,
    /// Time that is not measured, s: of two runs the longer.
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
    pub(super) fn of_two(first: (&str, &'a ResultDirectory), second: (&str, &'a ResultDirectory)) -> Self {
        let mut configurations = Vec::new();
        for ours in &first.1.configurations {
            configurations.push((format!("{} {}", first.0, first.1.shown_name(ours)), ours));
            if let Some(theirs) = second.1.configuration(&ours.name) {
                configurations.push((format!("{} {}", second.0, second.1.shown_name(theirs)), theirs));
            }
        }
        for theirs in &second.1.configurations {
            if first.1.configuration(&theirs.name).is_none() {
                configurations.push((format!("{} {}", second.0, second.1.shown_name(theirs)), theirs));
            }
        }
        let end = first.1.result.sim_s.max(second.1.result.sim_s);
        let mut marks: Vec<&TimedMark> = first.1.about.marks.iter().collect();
        marks.extend(second.1.about.marks.iter().filter(|mark| !first.1.about.marks.contains(mark)));
        let warm_up = first.1.about.warm_up_s.max(second.1.about.warm_up_s);
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
            .take(MAX_CONFIGURATIONS)
            .enumerate()
            .map(|(color, (name, details))| Shown { name, details, color })
            .collect();
        let mut view = Self { configurations, end_s, warm_up_s, marks, points: MOST_POINTS };
        let queues: usize =
            view.configurations.iter().map(|shown| super::queues::drawn(shown.details).count()).sum();
        let each = view.configurations.len();
        let lines = 3 * (view.groups().len() * each + queues) + view.classes().len() * each;
        view.points = (POINT_BUDGET / lines.max(1)).clamp(LEAST_POINTS, MOST_POINTS);
        view
    }

    /// Names of the groups that have charts, in order. `name.down` is what `name` shows already.
    pub(super) fn groups(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for figures in self.all_groups() {
            if !names.contains(&figures.result.name.as_str()) {
                names.push(&figures.result.name);
            }
        }
        names.retain(|name| !name.ends_with(".down"));
        names.truncate(MAX_GROUPS);
        names
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
