//! `[tcp]` and `[traffic.NAME.tcp]`: how transports behave.

use super::table::Table;
use crate::model::{SlowStart, Tcp};
use perhop_units::{Bytes, Duration, Rate};

/// Reads the table `tcp` of `table` over `before`.
pub(super) fn read(table: &mut Table<'_>, before: &Tcp) -> Tcp {
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
            let warning =
                table.cx.warning(exit.at, "has no effect: newreno leaves slow start at the first loss");
            table.cx.push(warning.hint("HyStart is part of congestion = \"cubic\""));
        }
    }
    let mut boolean = |key, value: &mut bool| {
        if let Some(given) = table.boolean(key) {
            *value = given.value;
        }
    };
    boolean("sack", &mut tcp.sack);
    boolean("ecn", &mut tcp.ecn);
    boolean("timestamps", &mut tcp.timestamps);
    boolean("window_scaling", &mut tcp.window_scaling);
    if let Some(window) = table.integer("initial_window", 1..=10) {
        tcp.initial_window = window.value as u8;
    }
    if let Some(mss) = table.integer("mss", 88..=1460) {
        tcp.mss = mss.value as u16;
    }
    let buffers = Bytes(u64::from(tcp.mss))..=Bytes(1 << 30);
    if let Some(buffer) = table.value_in("send_buffer", buffers.clone()) {
        tcp.send_buffer = buffer.value;
    }
    if let Some(buffer) = table.value_in("receive_buffer", buffers) {
        tcp.receive_buffer = buffer.value;
    }
    let ms = Duration::from_millis;
    if let Some(rto) = table.value_in("min_rto", ms(1)..=ms(60_000)) {
        tcp.min_rto = rto.value;
    }
    let initial = table.value_in("initial_rto", ms(1)..=ms(60_000));
    if let Some(rto) = &initial {
        tcp.initial_rto = rto.value;
    }
    if tcp.initial_rto < tcp.min_rto {
        let hint = format!("min_rto is {}", tcp.min_rto);
        let cx = table.cx;
        match initial {
            Some(rto) => cx.push(cx.error(rto.at, "is below the least time-out").hint(hint)),
            // Only the least one was raised: the first is at least that.
            None => tcp.initial_rto = tcp.min_rto,
        }
    }
    delayed_ack(&mut table, &mut tcp);
    if let Some(share) = table.value_in("share", Rate(1)..=Rate(1_000_000_000_000)) {
        tcp.share = Some(share.value);
    }
    table.finish();
    tcp
}

fn delayed_ack(table: &mut Table<'_>, tcp: &mut Tcp) {
    let off = table.find("delayed_ack").and_then(|at| match &table.cx.tree.node(at).value {
        super::tree::Value::Text(text) | super::tree::Value::Given(text) => Some(text == "off"),
        _ => None,
    });
    if off == Some(true) {
        tcp.delayed_ack = None;
    } else if let Some(wait) = table.value_in("delayed_ack", Duration::ZERO..=Duration::from_millis(500)) {
        tcp.delayed_ack = Some(wait.value);
    }
}
