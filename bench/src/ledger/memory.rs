//! The ledger alone.

use super::{Options, field, point, put};
use crate::error::BenchError;
use crate::machine::thread_time_ns;
use crate::report::Sink;
use perhop_broker::ledger::{Input, Ledger, Loading, Output, Settings};
use perhop_broker::record::Snapshot;
use perhop_io::clock;

/// Requests of a group.
const GROUP: u64 = 256;
/// Rows that are loaded at a time.
const PAGE: usize = 10_000;

pub fn settings(fence: u64) -> Settings {
    Settings { fence, most_reservations: 20_000_000, ..Settings::default() }
}

pub fn run(options: &Options, sink: &mut Sink) -> Result<(), BenchError> {
    let wrong = |why: String| BenchError::Wrong(why);
    let before = crate::allocations();
    let loaded = Ledger::load(settings(0), field::snapshot(), clock::wall());
    let mut ledger = loaded.map_err(|why| wrong(why.to_string()))?;
    let (mut granted, mut took) = (0, 0);
    for first in (0..options.live).step_by(GROUP as usize) {
        let asks: Vec<_> = (first..(first + GROUP).min(options.live))
            .map(|ask| Input::Ask { ask, client: field::owner(ask), request: field::request(ask) })
            .collect();
        let (now, begun) = (clock::wall(), thread_time_ns());
        for ask in asks {
            ledger.handle_input(now, ask);
        }
        while let Some(output) = ledger.poll_output() {
            match output {
                Output::Write(group) => {
                    ledger.handle_input(now, Input::Written { number: group.number });
                }
                Output::Answer { result, .. } => granted += u64::from(result.is_ok()),
                Output::Tell(_) => {}
            }
        }
        took += thread_time_ns() - begun;
    }
    if granted != options.live {
        return Err(wrong(format!("{granted} of {} were granted", options.live)));
    }
    let live = options.live as f64;
    let each = crate::allocations().since(before).bytes as f64 / live;
    let mut decided = point("decisions", "decision");
    decided.set_ns(&[took as f64 / live]);
    decided.params.insert("live", options.live.into());
    put(&mut decided, "per_second", 1e9 * live / took as f64, "/s");
    put(&mut decided, "bytes_per_reservation", each, "B");
    put(&mut decided, "bytes_target", 1e9 / 1e6, "B");
    sink.point(&decided)?;

    let mut snapshot = Snapshot { last_reservation: options.live, ..field::snapshot() };
    let loading = Loading::new(settings(0), &mut snapshot, clock::wall());
    let mut loading = loading.map_err(|why| wrong(why.to_string()))?;
    let (mut took, mut after) = (0, 0);
    loop {
        let rows = ledger.all(after, PAGE);
        let Some(last) = rows.last() else { break };
        after = last.id;
        let begun = thread_time_ns();
        for row in rows {
            loading.reservation(row).map_err(|why| wrong(why.to_string()))?;
        }
        took += thread_time_ns() - begun;
    }
    let begun = thread_time_ns();
    loading.finish().map_err(|why| wrong(why.to_string()))?;
    took += thread_time_ns() - begun;
    let mut loaded = point("load of rows", "row");
    loaded.set_ns(&[took as f64 / live]);
    loaded.params.insert("live", options.live.into());
    put(&mut loaded, "seconds", took as f64 / 1e9, "s");
    sink.point(&loaded)?;
    Ok(())
}
