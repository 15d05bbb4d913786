//! What the fluid model says of settings.

use perhop_allocate::fluid::{OnOff, Spread, published, run as simulate};
use perhop_allocate::threshold::ThresholdConfig;
use perhop_allocate::tune::Outcome;

/// Spread over the seeds of one point: efficiency and requests a second.
type Spreads = [Spread; 2];

/// What the model was asked so far, with its spread.
#[derive(Default)]
pub(super) struct Points(Vec<(ThresholdConfig, Spreads)>);

impl Points {
    /// Means over so many seeds, of a published `kind` of sources. The procedure stays where settings are stable; if one were not, it would be the worst.
    pub(super) fn evaluate(&mut self, kind: u8, seeds: u64, law: &ThresholdConfig) -> Outcome {
        let (traffic, intervals) = match kind {
            1 => (OnOff::TYPE_1, published::WINDOW),
            2 => (OnOff::TYPE_2, published::WINDOW),
            _ => (OnOff::TYPE_3, published::LONG_WINDOW),
        };
        let config = published::sources(traffic, published::measured(*law, intervals, None));
        let worst = Outcome { efficiency: 0.0, over_limit: 1.0, requests_per_sec: f64::MAX };
        let Ok(runs) = (0..seeds).map(|seed| simulate(&config, seed)).collect::<Result<Vec<_>, _>>() else {
            return worst;
        };
        let spread = |values: Vec<f64>| Spread::of(&values);
        let efficiency = spread(runs.iter().map(|run| run.efficiency).collect());
        let over_limit = spread(runs.iter().map(|run| run.over_limit).collect());
        let requests = spread(runs.iter().map(|run| run.requests_per_sec).collect());
        let (Some(efficiency), Some(over_limit), Some(requests)) = (efficiency, over_limit, requests) else {
            return worst;
        };
        self.0.push((*law, [efficiency, requests]));
        let (efficiency, over_limit) = (efficiency.mean, over_limit.mean);
        Outcome { efficiency, over_limit, requests_per_sec: requests.mean }
    }

    /// Half the width of the 95 % intervals at settings that were tried; `None` of one seed.
    pub(super) fn spread(&self, law: &ThresholdConfig) -> Option<[f64; 2]> {
        let (_, spreads) = self.0.iter().find(|(tried, _)| tried == law)?;
        (spreads[0].count > 1).then(|| spreads.map(|spread| spread.half_width_95()))
    }
}
