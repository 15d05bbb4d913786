//! Which part of the traffic, and which part of the time, figures are of.

use crate::recording::{ConnectionRecord, Membership, Recording, StreamRecord, Toward};
use perhop_scenario::figures::{self, Group, GroupWay};
use perhop_scenario::{Scenario, Traffic};
use perhop_units::{Duration, Instant};

/// Which part of the traffic a group has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) traffic: usize,
    pub(crate) pair: Option<usize>,
    toward: Option<Toward>,
    pub(crate) phase: Option<usize>,
    /// Packets of each stream that are left out before what counts.
    pub(crate) after_packets: u32,
}

/// The part of a repetition that figures are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// The window of the recording.
    Window,
    /// From one instant until before another.
    Part(Instant, Instant),
}

impl Measured {
    /// Of a group.
    pub(crate) fn by(scenario: &Scenario, selection: Selection) -> Self {
        let phase = selection.phase.and_then(|phase| scenario.probes.phases.get(phase));
        let at = |time: Duration| Instant(time.as_nanos());
        phase.map_or(Self::Window, |phase| Self::Part(at(phase.from), at(phase.until)))
    }

    /// Beginning and end in a recording, which may have been stopped early.
    pub(crate) fn of(self, recording: &Recording) -> (Instant, Instant) {
        match self {
            Self::Window => recording.window,
            Self::Part(from, until) => (from.min(recording.window.1), until.min(recording.window.1)),
        }
    }
}

impl Selection {
    pub(crate) fn has(&self, of: &Membership) -> bool {
        of.traffic == self.traffic
            && self.pair.is_none_or(|pair| pair == of.pair)
            && self.toward.is_none_or(|toward| toward == of.toward)
    }

    /// Which part of a window counts of a stream: that behind the packets which are left out.
    pub(crate) fn part_of(&self, window: (Instant, Instant), stream: &StreamRecord) -> (Instant, Instant) {
        if self.after_packets == 0 {
            return window;
        }
        let first = stream.packets.get(self.after_packets as usize);
        (first.map_or(window.1, |packet| packet.sent).max(window.0).min(window.1), window.1)
    }
}

/// Every group with its name, apart from [`figures::TOTAL`].
pub(crate) fn selections(scenario: &Scenario) -> Vec<(String, Selection)> {
    let groups = figures::groups(scenario).into_iter();
    groups
        .map(|Group { name, traffic, pair, way, phase, after_packets }| {
            let toward = way.map(|way| match way {
                GroupWay::Down => Toward::Second,
                GroupWay::Up => Toward::First,
            });
            (name, Selection { traffic, pair, toward, phase, after_packets })
        })
        .collect()
}

/// The whole of a traffic in its first direction, which [`figures::TOTAL`] sums.
pub(crate) fn first_direction(index: usize, traffic: &Traffic) -> Selection {
    let toward = traffic.both.then_some(Toward::Second);
    Selection { traffic: index, toward, ..Selection::default() }
}

/// Payload rate of a connection over the part of its life that is inside a part of the time, kbit/s; `None` if no part is,
/// or where it is not the window and reads are not followed.
pub(crate) fn payload_kbps(
    recording: &Recording,
    connection: &ConnectionRecord,
    measured: Measured,
) -> Option<f64> {
    let (from, until) = measured.of(recording);
    let begin = connection.opened.max(from);
    let end = connection.ended.unwrap_or(until).min(until);
    let bytes = match measured {
        Measured::Window => connection.window_bytes,
        Measured::Part(..) => connection.reads.as_ref()?.bytes(from, until),
    };
    (begin < end).then(|| bytes as f64 * 8.0 / end.since(begin).as_secs_f64() / 1e3)
}
