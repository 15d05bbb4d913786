//! As much of Gherkin as the scenarios use.

/// A scenario, one for each row of examples, with the steps that come before all.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its tag, and the number of the row.
    pub name: String,
    /// Words of its steps, without the keyword.
    pub steps: Vec<String>,
}

/// A scenario while it is read: name, steps, and the rows of its examples.
type Open = (String, Vec<String>, Vec<Vec<String>>);

/// Reads a feature.
pub fn read(text: &str) -> Vec<Scenario> {
    let (mut all, mut background) = (Vec::new(), Vec::new());
    let mut tag = String::new();
    let mut open: Option<Open> = None;
    let mut in_background = false;
    let finish = |open: &mut Option<Open>, background: &[String]| {
        let Some((name, steps, rows)) = open.take() else { return Vec::new() };
        let steps = [background, &steps].concat();
        let Some((head, rows)) = rows.split_first() else { return vec![Scenario { name, steps }] };
        let of = |(at, row): (usize, &Vec<String>)| {
            let fill = |step: &String| {
                head.iter()
                    .zip(row)
                    .fold(step.clone(), |s, (key, value)| s.replace(&format!("<{key}>"), value))
            };
            Scenario { name: format!("{name}#{}", at + 1), steps: steps.iter().map(fill).collect() }
        };
        rows.iter().enumerate().map(of).collect()
    };
    for line in text.lines().map(str::trim) {
        let step = ["Given ", "When ", "Then ", "And "].iter().find_map(|word| line.strip_prefix(word));
        if line.is_empty() || line.starts_with('#') || line.starts_with("Feature:") || line == "Examples:" {
        } else if let Some(name) = line.strip_prefix('@') {
            all.extend(finish(&mut open, &background));
            tag = name.to_owned();
            in_background = false;
        } else if line.starts_with("Background:") {
            in_background = true;
        } else if line.starts_with("Scenario") {
            in_background = false;
            open = Some((std::mem::take(&mut tag), Vec::new(), Vec::new()));
        } else if let Some(step) = step {
            let step = step.split_whitespace().collect::<Vec<_>>().join(" ");
            match &mut open {
                Some((_, steps, _)) => steps.push(step),
                None if in_background => background.push(step),
                None => panic!("a step of nothing: {line}"),
            }
        } else if let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) {
            let (.., rows) = open.as_mut().expect("a table belongs to a scenario");
            rows.push(row.split('|').map(|cell| cell.trim().to_owned()).collect());
        } else {
            panic!("this is beyond the subset: {line}");
        }
    }
    all.extend(finish(&mut open, &background));
    all
}

#[test]
fn an_outline_is_a_scenario_for_each_row() {
    let text = "Feature: f\n  Background: b\n    Given x\n  @one\n  Scenario: s\n    # no\n    When y\n  @two\n  Scenario Outline: o\n    Then <a> is  <b>\n    Examples:\n      | a | b |\n      | 1 | 2 |\n      | 3 | 4 |\n";
    let all: Vec<(String, String)> = read(text).into_iter().map(|s| (s.name, s.steps.join(";"))).collect();
    let expected = [("one", "x;y"), ("two#1", "x;1 is 2"), ("two#2", "x;3 is 4")];
    assert_eq!(all, expected.map(|(name, steps)| (name.to_owned(), steps.to_owned())));
}
