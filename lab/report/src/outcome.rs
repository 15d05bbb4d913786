//! Whether a scenario did what it had to: the one answer that page, terminal and exit code give.

use crate::result::ScenarioResult;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every target that could be judged is met.
    Met {
        /// How many were judged.
        judged: usize,
    },
    /// Some are not.
    Missed {
        /// How many are not.
        missed: usize,
        /// Of so many that were judged.
        judged: usize,
    },
    /// The scenario has no target, or what was set by the user leaves none to judge.
    NothingToJudge,
    /// The machine, not the network, limited the run: there is no verdict.
    Saturated(
        /// Why.
        String,
    ),
}

impl Outcome {
    /// The outcome of a result. A saturated machine comes before every target.
    pub fn of(result: &ScenarioResult, saturated: Option<&str>) -> Self {
        if let Some(why) = saturated {
            return Self::Saturated(why.to_owned());
        }
        let judged = result.expect.iter().filter(|expect| expect.ok.is_some()).count();
        let missed = result.expect.iter().filter(|expect| expect.ok == Some(false)).count();
        match (judged, missed) {
            (0, _) => Self::NothingToJudge,
            (judged, 0) => Self::Met { judged },
            (judged, missed) => Self::Missed { missed, judged },
        }
    }

    /// Whether all is well; `None` without a verdict.
    pub fn ok(&self) -> Option<bool> {
        match self {
            Self::Met { .. } => Some(true),
            Self::Missed { .. } => Some(false),
            Self::NothingToJudge | Self::Saturated(_) => None,
        }
    }

    /// One sentence.
    pub fn headline(&self) -> String {
        let targets = |n: usize| if n == 1 { "target" } else { "targets" };
        match self {
            Self::Met { judged: 1 } => "The target is met.".to_owned(),
            Self::Met { judged } => format!("All {judged} targets are met."),
            Self::Missed { missed, judged } => {
                format!(
                    "{missed} of {judged} {} {} not met.",
                    targets(*judged),
                    if *missed == 1 { "is" } else { "are" }
                )
            }
            Self::NothingToJudge => "No target was judged.".to_owned(),
            Self::Saturated(why) => {
                format!("No verdict: the machine, not the network, was the bottleneck: {why}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Expectation;

    #[test]
    fn the_worst_target_decides_and_a_saturated_machine_before_it() {
        let result = |all: &[Option<bool>]| ScenarioResult {
            expect: all.iter().map(|ok| Expectation { ok: *ok, ..Expectation::default() }).collect(),
            ..ScenarioResult::default()
        };
        let of = |all: &[Option<bool>]| Outcome::of(&result(all), None);
        assert_eq!(of(&[Some(true), None]), Outcome::Met { judged: 1 });
        assert_eq!(of(&[Some(true), Some(false)]).headline(), "1 of 2 targets is not met.");
        assert_eq!((of(&[None]).ok(), of(&[]).ok()), (None, None));
        let saturated = Outcome::of(&result(&[Some(false)]), Some("the CPU was busy"));
        assert_eq!(saturated.ok(), None);
        assert!(saturated.headline().ends_with("the CPU was busy"));
    }
}
