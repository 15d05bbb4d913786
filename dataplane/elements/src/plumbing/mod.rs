//! Ports, tees, counters, sources and sinks.

pub mod adapter;
pub mod check_frame;
pub mod counter;
pub mod discard;
pub mod frames;
pub mod from_port;
pub mod port_switch;
pub mod set_class;
pub mod source;
pub mod tee;
pub mod to_host;
pub mod to_port;

pub use check_frame::CheckFrame;
pub use counter::Counter;
pub use discard::Discard;
pub use frames::UdpFrame;
pub use from_port::FromPort;
pub use port_switch::PortSwitch;
pub use set_class::SetClass;
pub use source::{RandomSource, TimedSource};
pub use tee::Tee;
pub use to_host::ToHost;
pub use to_port::ToPort;

use perhop_element::ElementType;

/// Registered types of this module.
pub fn types() -> Vec<ElementType> {
    vec![
        check_frame::TYPE,
        counter::TYPE,
        discard::TYPE,
        from_port::TYPE,
        port_switch::TYPE,
        set_class::TYPE,
        source::RANDOM,
        source::TIMED,
        tee::TYPE,
        to_host::TYPE,
        to_port::TYPE,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_element::testkit::Bench;
    use perhop_element::testkit::args;
    use perhop_element::{BuildCx, PortCount, TimerId};
    use perhop_packet::{Batch, ClassId, PortId, ProfileId, SlaId};
    use perhop_units::{Color, Duration, Rate};
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// Random frames, some damaged, with random metadata.
    fn random_batch(traffic: &mut Bench, rng: &mut Pcg64Mcg, into: &Bench) -> Batch {
        traffic.run_for(Duration(rng.next_u64() % 3_000_000));
        let mut batch = Batch::new();
        let fresh = traffic.arrived(0).len() % 7;
        for (_, frame) in traffic.arrived(0).iter().rev().take(fresh) {
            let mut packet = into.packet(frame);
            let meta = packet.meta_mut();
            meta.class = ClassId(rng.next_u32() % 4);
            meta.profile = ProfileId(rng.next_u32() % 4);
            meta.sla = SlaId(rng.next_u32() % 4);
            meta.out_port = PortId((rng.next_u32() % 4) as u16);
            meta.realtime = rng.next_u32() & 1 == 0;
            meta.color = [Color::Green, Color::Yellow, Color::Red][rng.next_u32() as usize % 3];
            batch.push(packet);
        }
        batch
    }

    /// The bench checks the books of the element after every step.
    #[test]
    fn every_type_builds_from_its_samples_and_loses_no_packet() {
        let all = [
            types(),
            crate::classify::types(),
            crate::emulate::types(),
            crate::mark::types(),
            crate::meter::types(),
            crate::police::types(),
            crate::shape::types(),
        ];
        for (n, element_type) in all.concat().iter().enumerate() {
            for round in 0..4u64 {
                let seed = n as u64 * 100 + round;
                let mut rng = Pcg64Mcg::seed_from_u64(seed);
                let text = (element_type.sample)(&mut rng);
                let element = (element_type.build)(&args(&text), &mut BuildCx::default())
                    .unwrap_or_else(|e| panic!("{}({text}): {e:?}", element_type.name));
                assert_eq!(element.type_name(), element_type.name);
                let outputs = element_type.outputs.range().1.min(8);
                let mut bench = Bench::with_seed(element, usize::from(outputs), seed);
                let source = RandomSource::new(Rate::from_mbit(20), 0);
                let mut traffic = Bench::with_seed(Box::new(source), 1, seed);
                traffic.driver.wake(traffic.now(), traffic.node, TimerId::MAIN);
                bench.driver.wake(bench.now(), bench.node, TimerId::MAIN);
                for _ in 0..30 {
                    bench.run_for(Duration(rng.next_u64() % 3_000_000));
                    let mut batch = random_batch(&mut traffic, &mut rng, &bench);
                    bench.push_batch(0, &mut batch);
                }
                bench.run_for(Duration::from_millis(200));
                let counters = bench.driver.counters(bench.node).expect("it is there");
                let place = format!("{}({text}), seed {seed}", element_type.name);
                assert!(counters.received + counters.made > 0, "{place}");
                assert_eq!(bench.driver.left_behind(), 0, "{place}");
                if element_type.inputs == PortCount::Exactly(0) {
                    assert!(counters.emitted > 0, "{place}");
                }
            }
        }
    }
}
