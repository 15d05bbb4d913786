//! Scripts of loss found by time and of tail loss probes: RFC 8985, computed by hand.

use crate::script::play;
use crate::scripts_data::plain;
use perhop_tcp::Config;

/// A round trip of 100 ms, and a first flight of `segments`.
fn opened(segments: u64, rest: &str) {
    let config = Config { sack: true, ..plain(10) };
    let mut script = "
        0 connect
        0 > S 0:0 mss 1000 sackOK
        100 < S. 0:0 ack 1 mss 1000 sackOK
        100 > . 1:1 ack 1
        "
    .to_owned();
    script += &format!("200 write {}\n", segments * 1000);
    for n in 0..segments {
        script += &format!("200 > . {}:{}\n", n * 1000 + 1, n * 1000 + 1001);
    }
    play(config, &format!("{script}{rest}"));
}

#[test]
fn a_probe_follows_two_round_trips_after_several_segments_and_later_after_one() {
    opened(3, "400 > . 2001:3001\n 500 < . 1:1 ack 3001");
    // §7.2: a peer may wait 200 ms with the acknowledgment of a single segment.
    opened(1, "600 > . 1:1001\n 700 < . 1:1 ack 1001");
}

#[test]
fn without_a_round_trip_time_a_probe_follows_after_a_second() {
    // The SYN was sent twice, so its answer is no sample (Karn); the timeout is 3 s then (RFC 6298 §5.7).
    let config = Config { sack: true, ..plain(10) };
    play(
        config,
        "0 connect
         0 > S 0:0 mss 1000 sackOK
         1000 > S 0:0 mss 1000 sackOK
         1100 < S. 0:0 ack 1 mss 1000 sackOK
         + > . 1:1 ack 1
         1200 write 2000
         + > . 1:1001
         # A window of one segment after a lost SYN; a probe is new data where there is any.
         2200 > . 1001:2001
         2300 < . 1:1 ack 2001",
    );
}

#[test]
fn a_probe_waits_no_longer_than_the_retransmission_timer() {
    let config = Config { sack: true, ..plain(10) };
    let rto = perhop_tcp::RtoLimits { min: perhop_units::Duration::from_millis(150), ..config.rto };
    // RTO = 100 + 4 · 50 ms = 300 ms after the first sample; two round trips and 200 ms are 400.
    play(
        Config { rto, ..config },
        "0 connect
         0 > S 0:0 mss 1000 sackOK
         100 < S. 0:0 ack 1 mss 1000 sackOK
         + > . 1:1 ack 1
         200 write 1000
         + > . 1:1001
         500 > . 1:1001
         + = phase Open
         600 < . 1:1 ack 1001",
    );
}

#[test]
fn a_probe_that_repaired_a_loss_reduces_the_window_and_one_for_nothing_does_not() {
    // §7.4. More is acknowledged than the probe, and nobody told of a duplicate: the last segment had been lost.
    let more = "550 write 1000\n + > . 3001:4001\n 650 < . 1:1 ack 4001\n";
    let probed = "400 > . 2001:3001\n 500 < . 1:1 ack 3001\n";
    opened(3, &format!("{probed}{more} + = ssthresh 2000"));
    let whole = u64::MAX;
    // A report of the duplicate that the probe was.
    opened(3, &format!("{probed} 501 < . 1:1 ack 3001 sack 2001:3001\n {more} + = ssthresh {whole}"));
    // The same of a receiver that does not report (case 3 of TLP_process_ack).
    opened(3, &format!("{probed} 501 < . 1:1 ack 3001\n {more} + = ssthresh {whole}"));
    // A report of something else says nothing of the probe.
    opened(3, &format!("{probed} 501 < . 1:1 ack 3001 sack 1:1001\n {more} + = ssthresh 2000"));
}

/// Kernels do not take the report of a probe's duplicate for reordering: a quarter of the round trip is waited, not a half.
#[test]
fn a_duplicate_that_a_probe_made_does_not_widen_the_reordering_window() {
    opened(
        3,
        "400 > . 2001:3001
         500 < . 1:1 ack 3001
         501 < . 1:1 ack 3001 sack 2001:3001
         550 write 1000
         + > . 3001:4001
         551 write 1000
         + > . 4001:5001
         651 < . 1:1 ack 3001 sack 4001:5001
         675 > . 3001:4001
         775 < . 1:1 ack 5001",
    );
}
