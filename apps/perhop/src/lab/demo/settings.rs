//! What the options of `perhop demo` set in its scenario.

use super::super::find;
use super::{DemoArgs, SCENARIO};
use crate::error::{AppError, LabCommandError};
use perhop_quality::Codec;
use perhop_quality::emodel::{DEFAULT_RATING, mos_from_rating};
use perhop_report::summary::FLOOD;
use perhop_units::{Duration, Rate};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Flood rate without `--flood`, in tenths of the link's rate: 16 Mbit/s on 10 Mbit/s.
const FLOOD_TENTHS: u64 = 16;
/// IP length of the flood's datagrams is what the link carries in a ms, within these: on a slow link a call should not
/// wait for large packets that have already begun, as no router can help that.
const FLOOD_SIZE: RangeInclusive<u64> = 228..=1_200;
/// When the first call begins.
const CALLS_START: Duration = Duration::from_millis(1_500);
/// Time before the measurement: by then the flood has filled the queue.
const WARM_UP: Duration = Duration::from_millis(1_300);
/// So much of the link's time all queues of examples/edge.toml hold together.
const EDGE_QUEUES: Duration = Duration::from_millis(60);
/// That of its class for calls.
const CALLS_QUEUE: Duration = Duration::from_millis(20);
/// A full-size Ethernet frame, bytes.
const FULL_FRAME: u64 = 1_514;
/// What queueing may add to the link's delay at the 99th percentile, ms.
const QUEUEING_MS: f64 = 5.0;
/// The mean opinion score asked for with G.711.
const SCORE: f64 = 4.3;

/// The rating whose mean opinion score is `mos`, by bisection: the score rises with the rating from 10 on.
fn rating_of(mos: f64) -> f64 {
    let (mut low, mut high) = (10.0, DEFAULT_RATING);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if mos_from_rating(middle) < mos { low = middle } else { high = middle }
    }
    high
}

/// The score asked for: with other codecs the same budget of impairment as with G.711. The E-model adds impairments as
/// ratings (G.107 §7.1), so that is where the budget is the same; the score is no linear function of the rating.
fn score_asked(codec: Codec) -> f64 {
    mos_from_rating(rating_of(SCORE) - codec.equipment_impairment())
}

impl DemoArgs {
    fn flood_rate(&self) -> Rate {
        self.flood.unwrap_or(Rate(self.rate.0 * FLOOD_TENTHS / 10))
    }

    /// The values that the options give the scenario, as `path=value`.
    fn settings(&self) -> Vec<String> {
        let length = Duration::from_secs(u64::from(self.seconds));
        // Starts are spread so that no two calls are in step, and all meet a queue that is full already.
        let spread = Duration::from_secs(4).min(Duration(length.0 / 4));
        let frames = self.rate.bytes_in(EDGE_QUEUES).get().div_ceil(FULL_FRAME);
        let size = self.rate.bytes_in(Duration::from_millis(1)).get();
        let size = size.clamp(*FLOOD_SIZE.start(), *FLOOD_SIZE.end());
        // What the port leaves free of it.
        let port = Rate(self.rate.0 * 99 / 100);
        let set = |path: &str, value: &dyn Display| format!("{path}={value}");
        let mut settings = vec![
            set(
                "duration",
                &(Duration(CALLS_START.0 - WARM_UP.0) + spread + length + self.codec.packet_interval()),
            ),
            set("link.wan.rate", &self.rate),
            set("link.wan.delay", &self.delay),
            set("node.edge.router.port.wan.rate", &self.rate),
            set("variants.fifo.node.edge.router.port.wan.queue", &format_args!("{frames} packets")),
            set("traffic.calls.calls", &self.calls),
            set("traffic.calls.codec", &self.codec.name()),
            set("traffic.calls.spacing", &Duration(spread.0 / u64::from(self.calls))),
            set("traffic.calls.stop", &(CALLS_START + length)),
            set("expect[3].target", &format_args!("<= {}", self.delay.as_millis_f64() + QUEUEING_MS)),
            set("expect[4].target", &format_args!(">= {:.6}", score_asked(self.codec))),
        ];
        if port.bytes_in(CALLS_QUEUE).get() < FULL_FRAME {
            // A queue must have room for a frame.
            settings.push(set("node.edge.router.class.ef.queue", &format_args!("{FULL_FRAME} B")));
        }
        if self.flood_rate() != Rate::ZERO {
            settings.push(set("traffic.flood.rate", &self.flood_rate()));
            settings.push(set("traffic.flood.size", &format_args!("{size} B")));
        }
        settings
    }

    /// The scenario with what the options set, and the transfers' congestion control where it is not to be the file's.
    pub(super) fn scenario(&self, congestion: Option<&str>) -> Result<find::Ready, AppError> {
        let found = find::shipped(SCENARIO)
            .ok_or_else(|| LabCommandError::Unknown { given: SCENARIO.to_owned(), near: None })?;
        let mut settings = self.settings();
        settings.extend(congestion.map(|name| format!("tcp.congestion={name}")));
        let mut ready = find::read(&found, &settings)?;
        if self.flood_rate() == Rate::ZERO {
            // It is the last, so that no other changes its number.
            let variants = ready.loaded.variants.iter_mut().map(|(_, scenario)| scenario);
            for scenario in std::iter::once(&mut ready.loaded.product).chain(variants) {
                scenario.traffic.retain(|traffic| traffic.name != FLOOD);
            }
        }
        Ok(ready)
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
