//! Several sources as one, in order of time.

use crate::source::{Emission, Source};
use perhop_units::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Merges sources; of emissions due at the same instant those of the source given first come first.
#[derive(Default)]
pub struct Mix {
    sources: Vec<Box<dyn Source>>,
    due: BinaryHeap<Reverse<(Duration, usize)>>,
}

impl Mix {
    /// A mix of these sources.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Self {
        let due =
            sources.iter().enumerate().filter_map(|(i, s)| s.upcoming().map(|at| Reverse((at, i)))).collect();
        Self { sources, due }
    }
}

impl Source for Mix {
    fn upcoming(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }
}

impl Iterator for Mix {
    type Item = Emission;

    fn next(&mut self) -> Option<Emission> {
        let Reverse((_, i)) = self.due.pop()?;
        let source = self.sources.get_mut(i)?;
        let emission = source.next();
        if let Some(at) = source.upcoming() {
            self.due.push(Reverse((at, i)));
        }
        emission
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constant::{Constant, ConstantConfig};
    use perhop_units::Rate;

    #[test]
    fn emissions_of_all_sources_come_in_order_and_none_is_lost() {
        let flow = |stream: u16, rate: u64| {
            Constant::new(ConstantConfig {
                rate: Rate(rate),
                payload_bytes: 100,
                overhead_bytes: 28,
                start: Duration::from_millis(u64::from(stream)),
                stop: Duration::from_secs(1),
                stream,
            })
            .expect("valid")
        };
        let flows = [flow(0, 100_000), flow(1, 333_333), flow(2, 100_000)];
        let apart: usize = flows.iter().map(|f| f.clone().count()).sum();
        let boxed = flows.into_iter().map(|f| Box::new(f) as Box<dyn Source>).collect();
        let mixed: Vec<Emission> = Mix::new(boxed).collect();
        assert_eq!(mixed.len(), apart);
        assert!(mixed.windows(2).all(|w| w[0].at <= w[1].at));
    }
}
