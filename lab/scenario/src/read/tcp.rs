//! `[tcp]` and `[traffic.NAME.tcp]`: how transports behave.

use super::cx::{Cx, over};
use crate::model::{SlowStart, Tcp};
use perhop_config::TableReader;
use perhop_units::{Bytes, Duration, Rate};

/// Reads the table `tcp` of `table` over `before`.
pub(super) fn read(cx: &Cx<'_>, table: &mut TableReader<'_>, before: &Tcp) -> Tcp {
    let mut tcp = before.clone();
    let Some(mut table) = table.table_or_empty("tcp") else { return tcp };
    let algorithms = [("newreno", "newreno"), ("cubic", "cubic"), ("bbr", "bbr")];
    if let Some(congestion) = table.choice("congestion", &algorithms) {
        tcp.congestion = congestion.value.to_owned();
    }
    let exits = [("standard", SlowStart::Standard), ("hystart", SlowStart::HyStart)];
    if let Some(exit) = table.choice("slow_start", &exits) {
        tcp.slow_start = exit.value;
        if exit.value == SlowStart::HyStart && tcp.congestion == "newreno" {
            let warning = cx.warning(exit.span, "has no effect: newreno leaves slow start at the first loss");
            cx.push(warning.hint("HyStart is part of congestion = \"cubic\""));
        }
    }
    over(&mut tcp.sack, table.boolean("sack"));
    over(&mut tcp.rack, table.boolean("rack"));
    over(&mut tcp.ecn, table.boolean("ecn"));
    over(&mut tcp.timestamps, table.boolean("timestamps"));
    over(&mut tcp.window_scaling, table.boolean("window_scaling"));
    let window = table.integer("initial_window", 1..=10);
    over(&mut tcp.initial_window, window.map(|window| window.map(|n| n as u8)));
    let mss = table.integer("mss", 88..=1460).map(|mss| mss.map(|n| n as u16));
    over(&mut tcp.mss, mss);
    let buffers = Bytes(u64::from(tcp.mss))..=Bytes(1 << 30);
    over(&mut tcp.send_buffer, table.value_in("send_buffer", buffers.clone()));
    over(&mut tcp.receive_buffer, table.value_in("receive_buffer", buffers));
    // What this table gives was compared; what it takes over may be of smaller segments.
    for (key, size) in [("send_buffer", tcp.send_buffer), ("receive_buffer", tcp.receive_buffer)] {
        if let Some(mss) =
            mss.filter(|mss| size < Bytes(mss.value.into()) && table.location_of(key).is_none())
        {
            let error = cx.error(mss.span, format!("is more than {key} holds ({size})"));
            cx.push(error.hint(format!("Give {key} here too: it holds a segment at least")));
        }
    }
    let ms = Duration::from_millis;
    over(&mut tcp.min_rto, table.value_in("min_rto", ms(1)..=ms(60_000)));
    let initial = table.value_in("initial_rto", ms(1)..=ms(60_000));
    over(&mut tcp.initial_rto, initial);
    if tcp.initial_rto < tcp.min_rto {
        let hint = format!("min_rto is {}", tcp.min_rto);
        match initial {
            Some(rto) => cx.push(cx.error(rto.span, "is below the least time-out").hint(hint)),
            // Only the least one was raised: the first is at least that.
            None => tcp.initial_rto = tcp.min_rto,
        }
    }
    delayed_ack(&mut table, &mut tcp);
    if let Some(share) = table.value_in("share", Rate(1)..=Rate::MOST) {
        tcp.share = Some(share.value);
    }
    table.finish();
    tcp
}

fn delayed_ack(table: &mut TableReader<'_>, tcp: &mut Tcp) {
    let given = table.location_of("delayed_ack").and_then(|at| table.document().text_of(at));
    if given == Some("off") {
        tcp.delayed_ack = None;
    } else if let Some(wait) = table.value_in("delayed_ack", Duration::ZERO..=Duration::from_millis(500)) {
        tcp.delayed_ack = Some(wait.value);
    }
}
