//! What all meters share as elements: colour each packet, count by colour, one output or three.

use crate::plumbing::adapter::as_any;
use perhop_element::{CounterSink, Cx, Element, ElementState, PortIndex, Reader};
use perhop_packet::{Batch, Packet};
use perhop_units::{Bytes, Color, Instant, Rate};
use std::ops::RangeInclusive;

/// Rates a meter takes.
pub(crate) const RATE_RANGE: RangeInclusive<Rate> = Rate(1)..=Rate::MOST;
/// Bursts a meter takes.
pub(crate) const BURST_RANGE: RangeInclusive<Bytes> = Bytes(1)..=super::MAX_BURST;

/// A metering algorithm.
pub trait Meter: Send + Clone + 'static {
    /// Name of its element in graph text.
    const TYPE_NAME: &'static str;
    /// Colours and charges one packet of IP length `len` that arrived at `now` with colour `pre`; `draw` gives 32 uniform
    /// random bits to a meter that needs them.
    fn meter(&mut self, now: Instant, len: Bytes, pre: Color, draw: impl FnOnce() -> u32) -> Color;
    /// Continues with the tokens `old` has at `now`, clamped to the own bursts.
    fn adopt(&mut self, old: &Self, now: Instant);
}

/// Packets and bytes by colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColorCounters {
    /// Packets by [`Color`] as index.
    pub packets: [u64; 3],
    /// Bytes at IP length by [`Color`] as index.
    pub bytes: [u64; 3],
}

impl ColorCounters {
    /// Counts one packet.
    #[inline]
    pub fn count(&mut self, color: Color, len: Bytes) {
        self.packets[color as usize] += 1;
        self.bytes[color as usize] += len.0;
    }

    /// Reports all six figures.
    pub fn report(&self, sink: &mut dyn CounterSink) {
        for (i, color) in ["green", "yellow", "red"].into_iter().enumerate() {
            sink.counter(&format!("{color}_packets"), self.packets[i]);
            sink.counter(&format!("{color}_bytes"), self.bytes[i]);
        }
    }
}

/// What meters and contracts count: the IP length, or for a frame that is not IP all behind its link header.
#[inline]
pub fn metered_len(packet: &Packet) -> Bytes {
    let layout = &packet.meta().layout;
    if layout.ip_version != 0 {
        return Bytes(u64::from(layout.ip_len));
    }
    Bytes((packet.len() as u64).saturating_sub(u64::from(layout.l3_offset.max(14))))
}

/// A meter as an element.
#[derive(Debug)]
pub struct MeterElement<M> {
    meter: M,
    split: bool,
    colors: ColorCounters,
    last: Instant,
}

impl<M: Meter> MeterElement<M> {
    /// Wraps a meter; `split` sends each colour to its own output.
    pub fn new(meter: M, split: bool) -> Self {
        Self { meter, split, colors: ColorCounters::default(), last: Instant::ZERO }
    }

    /// Packets and bytes by colour so far.
    pub fn colors(&self) -> ColorCounters {
        self.colors
    }
}

impl<M: Meter> Element for MeterElement<M> {
    fn type_name(&self) -> &'static str {
        M::TYPE_NAME
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: PortIndex, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let len = metered_len(packet);
            let meta = packet.meta_mut();
            meta.color = self.meter.meter(meta.received_at, len, meta.color, || cx.random());
            self.colors.count(meta.color, len);
            self.last = self.last.max(meta.received_at);
        }
        if !self.split {
            return cx.emit_all(0, batch);
        }
        for packet in batch.drain() {
            cx.emit(packet.meta().color as PortIndex, packet);
        }
    }

    fn counters(&self, sink: &mut dyn CounterSink) {
        self.colors.report(sink);
    }

    fn export_state(&mut self) -> Option<ElementState> {
        Some(Box::new((self.meter.clone(), self.colors, self.last)))
    }

    fn import_state(&mut self, state: ElementState) -> Result<(), ElementState> {
        let (meter, colors, last) = *state.downcast::<(M, ColorCounters, Instant)>()?;
        self.meter.adopt(&meter, last);
        self.colors = colors;
        self.last = last;
        Ok(())
    }

    as_any!();
}

/// Reads `outputs`: 1 or 3.
pub(super) fn read_outputs(reader: &mut Reader<'_>) -> bool {
    reader.choice("outputs", false, &[("1", false), ("3", true)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::laws::arrivals;
    use crate::meter::{TrTcm, TrTcmConfig};
    use crate::plumbing::frames::udp;
    use perhop_element::testkit::Bench;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// However packets are grouped into batches, each is charged at its own arrival time.
        #[test]
        fn a_batch_is_charged_packet_by_packet(list in arrivals(), size in 2usize..60, cbs in 1u64..5000) {
            let config = TrTcmConfig {
                cir: Rate(5_000_000),
                cbs: Bytes(cbs),
                pir: Rate(9_000_000),
                pbs: Bytes(2 * cbs),
                aware: true,
            };
            let mut alone = TrTcm::new(config);
            let mut bench = Bench::new(MeterElement::new(TrTcm::new(config), false), 1);
            let mut expected = vec![];
            for group in list.chunks(size) {
                let mut batch = Batch::new();
                for a in group {
                    let len = a.len.clamp(28, 1500);
                    let mut packet = bench.packet(&udp(len as u16));
                    (packet.meta_mut().received_at, packet.meta_mut().color) = (Instant(a.at), a.pre);
                    batch.push(packet);
                    expected.push(alone.meter(Instant(a.at), Bytes(len), a.pre));
                }
                bench.driver.push(Instant(group[group.len() - 1].at), bench.node, 0, &mut batch);
            }
            let colors: Vec<_> = bench.sink(0).arrived.iter().map(|(_, p)| p.meta().color).collect();
            prop_assert_eq!(colors, expected);
        }
    }

    #[test]
    fn a_successor_keeps_colors_and_tokens_within_its_bursts() {
        let config = |cbs| TrTcmConfig {
            cir: Rate(8_000),
            cbs: Bytes(cbs),
            pir: Rate(8_000),
            pbs: Bytes(1000),
            aware: false,
        };
        let mut old = Bench::new(MeterElement::new(TrTcm::new(config(300)), false), 1);
        old.push(&udp(100));
        let state =
            old.driver.element_dyn_mut(old.node).and_then(|e| e.export_state()).expect("meters have state");
        let mut new = Bench::new(MeterElement::new(TrTcm::new(config(150)), false), 1);
        let imported = new.driver.element_dyn_mut(new.node).expect("it is there").import_state(state);
        assert!(imported.is_ok());
        // 200 bytes were left, the new bucket holds 150.
        new.push(&udp(100));
        new.push(&udp(100));
        let colors = new.element::<MeterElement<TrTcm>>().colors();
        assert_eq!(colors.packets, [2, 1, 0]);
    }
}
