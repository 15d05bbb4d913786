//! How well flows are recognised: verdicts beside what is known of the flows.
//!
//! A flow is one direction of one 5-tuple. Precision is the share of media among the flows said to be media, recall the
//! share of the media that was said to be so. How long it took is counted in packets of the flow.

use perhop_flows::offline::{Classified, FlowRow, classify_capture};
use perhop_flows::realtime::Stages;
use perhop_flows::realtime::rtp::RtpSettings;
use perhop_traffic::labelled::{Datagram, Kind, LabelledMix};
use perhop_units::Instant;
use serde::Serialize;
use std::collections::BTreeMap;

/// Link type of Ethernet in captures.
const ETHERNET: u32 = 1;

/// What detection has to reach over a mix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RecognitionTargets {
    /// Least precision, 0 … 1.
    pub precision: f64,
    /// Least recall, 0 … 1.
    pub recall: f64,
    /// Most packets until half of the recognised flows are.
    pub median_packets: u64,
}

impl Default for RecognitionTargets {
    fn default() -> Self {
        Self { precision: 0.995, recall: 0.99, median_packets: 12 }
    }
}

/// What became of the flows of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindTally {
    /// Flows.
    pub flows: u64,
    /// Packets of theirs.
    pub packets: u64,
    /// Flows said to be media.
    pub media: u64,
    /// Flows by reason of their verdict.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The packet that decided each recognised flow, ascending.
    pub decided_at: Vec<u64>,
}

/// A flow whose verdict is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// What it is.
    pub kind: Kind,
    /// What was said of it.
    pub row: FlowRow,
}

/// Verdicts by kind of flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recognition {
    kinds: BTreeMap<Kind, KindTally>,
    decided_at: Vec<u64>,
    /// Flows whose verdict is wrong, in the order of their first packets.
    pub mistakes: Vec<Mistake>,
}

impl Recognition {
    /// Compares verdicts with the kinds of the flows, which are named as [`FlowRow::flow`] names them. A flow without a
    /// kind is left out. O(n log n).
    pub fn of(kinds: &BTreeMap<String, Kind>, rows: &[FlowRow]) -> Self {
        let mut result = Self::default();
        for row in rows {
            let Some(kind) = kinds.get(&row.flow).copied() else { continue };
            let tally = result.kinds.entry(kind).or_default();
            let media = row.verdict == "media";
            tally.flows += 1;
            tally.packets += row.packets;
            tally.media += u64::from(media);
            *tally.reasons.entry(row.reason).or_default() += 1;
            tally.decided_at.extend(row.decided_at);
            if kind.is_media() {
                result.decided_at.extend(row.decided_at);
            }
            if media != kind.is_media() {
                result.mistakes.push(Mistake { kind, row: row.clone() });
            }
        }
        for tally in result.kinds.values_mut() {
            tally.decided_at.sort_unstable();
        }
        result.decided_at.sort_unstable();
        result
    }

    /// What became of each kind that occurs.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, &KindTally)> {
        self.kinds.iter().map(|(kind, tally)| (*kind, tally))
    }

    /// Flows that are media (`true`) or are not, and how many of them were said to be media.
    pub fn totals(&self, media: bool) -> (u64, u64) {
        let of_kind = self.kinds.iter().filter(|(kind, _)| kind.is_media() == media);
        of_kind.fold((0, 0), |(flows, said), (_, tally)| (flows + tally.flows, said + tally.media))
    }

    /// Share of media among what was said to be media; `None` when nothing was.
    pub fn precision(&self) -> Option<f64> {
        let (found, wrong) = (self.totals(true).1, self.totals(false).1);
        share(found, found + wrong)
    }

    /// Share of the media that was said to be so; `None` without media.
    pub fn recall(&self) -> Option<f64> {
        let (flows, found) = self.totals(true);
        share(found, flows)
    }

    /// The packets within which `per_mille` of the recognised media flows were; `None` when none was.
    pub fn packets_to_decide(&self, per_mille: u64) -> Option<u64> {
        quantile(&self.decided_at, per_mille)
    }

    /// Whether all targets are met; media must occur, and be found.
    pub fn meets(&self, targets: &RecognitionTargets) -> bool {
        self.precision().is_some_and(|p| p >= targets.precision)
            && self.recall().is_some_and(|r| r >= targets.recall)
            && self.packets_to_decide(500).is_some_and(|n| n <= targets.median_packets)
    }
}

impl KindTally {
    /// The packets within which `per_mille` of the recognised flows were; `None` when none was.
    pub fn packets_to_decide(&self, per_mille: u64) -> Option<u64> {
        quantile(&self.decided_at, per_mille)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The least value that `per_mille` of the values, which ascend, do not exceed.
fn quantile(values: &[u64], per_mille: u64) -> Option<u64> {
    let rank = (values.len() as u64 * per_mille).div_ceil(1_000).max(1);
    values.get(rank as usize - 1).copied()
}

/// Classifies a mix as a capture of it would be, and compares. `each` sees every packet with its frame, in order.
pub fn recognise(
    mix: LabelledMix,
    settings: RtpSettings,
    stages: Stages,
    mut each: impl FnMut(&Datagram, &[u8]),
) -> Recognition {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    let frames = mix.map(|packet| {
        kinds.entry(packet.flow()).or_insert(packet.kind);
        let frame = packet.frame();
        each(&packet, &frame);
        (Instant(packet.at.as_nanos()), ETHERNET, frame)
    });
    let Classified { rows, .. } = classify_capture("mix", settings, stages, frames);
    Recognition::of(&kinds, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_traffic::Seed;
    use perhop_traffic::labelled::LabelledConfig;

    fn row(flow: &str, media: bool, decided_at: Option<u64>) -> FlowRow {
        FlowRow {
            file: "made".to_owned(),
            flow: flow.to_owned(),
            vlan: vec![],
            packets: 20,
            verdict: if media { "media" } else { "none" },
            reason: if media { "rtp" } else { "version" },
            confidence: 0.0,
            decided_at,
            ssrc: Vec::new(),
            payload_type: Vec::new(),
        }
    }

    #[test]
    fn figures_are_those_of_the_table() {
        let kinds: BTreeMap<String, Kind> =
            [("a", Kind::Voice), ("b", Kind::Voice), ("c", Kind::Video), ("d", Kind::Dns), ("e", Kind::Quic)]
                .map(|(flow, kind)| (flow.to_owned(), kind))
                .into();
        let rows = [
            row("a", true, Some(10)),
            row("b", true, Some(14)),
            row("c", false, None),
            row("d", true, Some(3)),
            row("e", false, None),
            row("unknown", true, Some(1)),
        ];
        let found = Recognition::of(&kinds, &rows);
        assert_eq!((found.totals(true), found.totals(false)), ((3, 2), (2, 1)));
        assert_eq!((found.precision(), found.recall()), (Some(2.0 / 3.0), Some(2.0 / 3.0)));
        assert_eq!((found.packets_to_decide(500), found.packets_to_decide(990)), (Some(10), Some(14)));
        assert_eq!(found.mistakes.iter().map(|m| m.kind).collect::<Vec<_>>(), [Kind::Video, Kind::Dns]);
        assert!(!found.meets(&RecognitionTargets::default()));
        let half = RecognitionTargets { precision: 0.6, recall: 0.6, median_packets: 10 };
        assert!(found.meets(&half) && !found.meets(&RecognitionTargets { median_packets: 9, ..half }));
        assert!(!Recognition::default().meets(&half), "nothing found is no success");
    }

    /// As a router is set up by default, and as captures are read.
    #[test]
    fn a_mix_is_recognised_as_well_as_it_must_be() {
        let capture = RtpSettings::default().with_regular(6).unwrap();
        for (seed, settings) in [(1, RtpSettings::default()), (2, capture), (1_000_003, capture)] {
            let mix = LabelledMix::new(LabelledConfig { flows: 500, seed: Seed::new(seed) });
            let found = recognise(mix, settings, Stages::default(), |_, _| {});
            let (media, others) = (found.totals(true), found.totals(false));
            println!(
                "seed {seed}: {media:?} of media, {others:?} of others; packets to decide: median {:?}, 99 % {:?}",
                found.packets_to_decide(500),
                found.packets_to_decide(990)
            );
            assert!(media.0 > 100 && others.0 > 200);
            assert!(found.meets(&RecognitionTargets::default()), "seed {seed}: {:#?}", found.mistakes);
        }
    }
}
