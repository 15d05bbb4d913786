//! Allocation steps of 10 000 classes, to be timed from outside:
//! `time target/release/examples/step_many 1000`, less the time of `step_many 0`.
//!
//! A step closes an interval of every class, has the law decide, looks at every queue, and answers every request.

use perhop_allocate::{Allocator, Answer, Input, Output, Settings, step_many};
use perhop_units::{Bytes, Instant, Rate};

const CLASSES: usize = 10_000;
const INTERVAL_NS: u64 = 800_000_000;

fn main() {
    let steps: u64 = std::env::args().nth(1).and_then(|steps| steps.parse().ok()).unwrap_or(1000);
    let settings = Settings::new(Rate::from_kbit(64), Rate::from_mbit(100));
    let mut classes: Vec<Allocator> =
        (0..CLASSES).filter_map(|_| Allocator::new(&settings, Instant::ZERO).ok()).collect();
    let mut allocated: Vec<Rate> = classes.iter().map(Allocator::allocated).collect();
    for class in &mut classes {
        while class.poll_output().is_some() {}
    }
    let (mut requests, mut asks) = (0, vec![]);
    for step in 1..=steps {
        let now = Instant(step * INTERVAL_NS);
        // Loads that swing, differently for every class, so that many steps end in a request.
        let counted = allocated.iter().enumerate().map(|(at, rate)| {
            let swing = 60 + (at as u64 * 7 + step * 13) % 40;
            Input::Counted { bits: rate.0 * swing / 125, carried: None }
        });
        step_many(&mut classes, now, counted, |at, output| {
            if let Output::Ask { id, rate, .. } = output {
                asks.push((at, id, rate));
            }
        });
        requests += asks.len();
        for (at, id, rate) in asks.drain(..) {
            classes[at].handle_input(now, Input::Answer { id, answer: Answer::Granted(rate) });
            while classes[at].poll_output().is_some() {}
            allocated[at] = classes[at].allocated();
        }
        step_many(&mut classes, now, std::iter::repeat_n(Input::Queue(Bytes(500)), CLASSES), |_, _| {});
    }
    println!("{steps} steps of {CLASSES} classes, {requests} requests");
}
