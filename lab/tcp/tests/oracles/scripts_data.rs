//! Scripts of data transfer: each behaviour as its RFC words it, computed by hand.

use crate::script::play;
use perhop_tcp::{Config, DelayedAck};
use perhop_units::Duration;

/// NewReno without options, segments of 1000 bytes, timeout of at least 1 s, acknowledgments after 200 ms.
pub fn plain(initial_window: u8) -> Config {
    Config {
        mss: 1000,
        initial_window,
        send_buffer: 1_000_000,
        delayed_ack: DelayedAck { segments: 2, timeout: Duration::from_millis(200) },
        ..Config::rfc()
    }
}

/// The same with SACK, without PRR.
fn with_sack(initial_window: u8) -> Config {
    Config { sack: true, prr: false, ..plain(initial_window) }
}

/// A connection opened by us: a round trip of 100 ms.
const OPEN: &str = "
    0 connect
    0 > S 0:0 mss 1000
    100 < S. 0:0 ack 1 mss 1000
    100 > . 1:1 ack 1
    + ! Established
";
const OPEN_SACK: &str = "
    0 connect
    0 > S 0:0 mss 1000 sackOK
    100 < S. 0:0 ack 1 mss 1000 sackOK
    100 > . 1:1 ack 1
";

pub fn opened(config: Config, rest: &str) {
    play(config, &format!("{OPEN}{rest}"));
}

fn opened_sack(config: Config, rest: &str) {
    play(config, &format!("{OPEN_SACK}{rest}"));
}

#[test]
fn slow_start_sends_two_segments_for_each_acknowledged() {
    // RFC 5681 §3.1, RFC 3465 with L = 2.
    opened(
        plain(2),
        "200 write 20000
         + > . 1:1001
         + > . 1001:2001
         300 < . 1:1 ack 2001
         + > . 2001:3001
         + > . 3001:4001
         + > . 4001:5001
         + > . 5001:6001
         + = cwnd 4000
         400 < . 1:1 ack 4001
         + > . 6001:7001
         + > . 7001:8001
         + > . 8001:9001
         + > . 9001:10001
         410 < . 1:1 ack 5001
         + > . 10001:11001
         + > . 11001:12001
         + = cwnd 7000",
    );
}

#[test]
fn three_duplicates_retransmit_without_waiting() {
    // RFC 5681 §3.2 with limited transmit (RFC 3042) and the end of RFC 6582 §3.2.
    opened(
        plain(10),
        "200 write 30000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         + > . 3001:4001
         + > . 4001:5001
         + > . 5001:6001
         + > . 6001:7001
         + > . 7001:8001
         + > . 8001:9001
         + > . 9001:10001
         # The first is lost. Two duplicates release new segments, the third the lost one.
         300 < . 1:1 ack 1
         + > . 10001:11001
         301 < . 1:1 ack 1
         + > . 11001:12001
         302 < . 1:1 ack 1
         + > . 1:1001
         + = ssthresh 5000
         + = phase NewReno
         303 < . 1:1 ack 1
         304 < . 1:1 ack 1
         305 < . 1:1 ack 1
         306 < . 1:1 ack 1
         307 < . 1:1 ack 1
         + > . 12001:13001
         308 < . 1:1 ack 1
         + > . 13001:14001
         402 < . 1:1 ack 12001
         + > . 14001:15001
         + = cwnd 3000
         + = phase Open
         + = retransmits 1",
    );
}

#[test]
fn partial_acknowledgments_repair_one_loss_a_round_trip() {
    // RFC 6582 §3.2: the first and the fifth of ten are lost.
    opened(
        Config { limited_transmit: false, ..plain(10) },
        "200 write 30000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         + > . 3001:4001
         + > . 4001:5001
         + > . 5001:6001
         + > . 6001:7001
         + > . 7001:8001
         + > . 8001:9001
         + > . 9001:10001
         300 < . 1:1 ack 1
         301 < . 1:1 ack 1
         302 < . 1:1 ack 1
         + > . 1:1001
         303 < . 1:1 ack 1
         304 < . 1:1 ack 1
         305 < . 1:1 ack 1
         + > . 10001:11001
         306 < . 1:1 ack 1
         + > . 11001:12001
         307 < . 1:1 ack 1
         + > . 12001:13001
         402 < . 1:1 ack 4001
         + > . 4001:5001
         + > . 13001:14001
         + = phase NewReno
         502 < . 1:1 ack 10001
         + > . 14001:15001
         + = cwnd 5000
         + = phase Open
         + = retransmits 2",
    );
}

#[test]
fn sack_repairs_several_losses_in_one_round_trip() {
    // RFC 6675 §5: the first and the fifth of ten are lost; the pipe decides when the second hole is filled.
    opened_sack(
        with_sack(10),
        "200 write 30000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         + > . 3001:4001
         + > . 4001:5001
         + > . 5001:6001
         + > . 6001:7001
         + > . 7001:8001
         + > . 8001:9001
         + > . 9001:10001
         300 < . 1:1 ack 1 sack 1001:2001
         + > . 10001:11001
         301 < . 1:1 ack 1 sack 1001:3001
         + > . 11001:12001
         302 < . 1:1 ack 1 sack 1001:4001
         + > . 1:1001
         + = phase Sack
         + = cwnd 5000
         303 < . 1:1 ack 1 sack 5001:6001 1001:4001
         304 < . 1:1 ack 1 sack 5001:7001 1001:4001
         305 < . 1:1 ack 1 sack 5001:8001 1001:4001
         306 < . 1:1 ack 1 sack 5001:9001 1001:4001
         + > . 4001:5001
         307 < . 1:1 ack 1 sack 5001:10001 1001:4001
         + > . 12001:13001
         400 < . 1:1 ack 1 sack 5001:11001 1001:4001
         + > . 13001:14001
         401 < . 1:1 ack 1 sack 5001:12001 1001:4001
         + > . 14001:15001
         402 < . 1:1 ack 4001 sack 5001:12001
         + > . 15001:16001
         406 < . 1:1 ack 12001
         + > . 16001:17001
         + = phase Open
         + = cwnd 5000
         + = retransmits 2",
    );
}

#[test]
fn with_prr_the_window_falls_in_step_with_what_is_delivered() {
    // RFC 6937: ssthresh 5000 of 10,000 in flight, so every second delivery releases a segment.
    opened_sack(
        Config { prr: true, limited_transmit: false, rack: false, ..with_sack(10) },
        "200 write 30000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         + > . 3001:4001
         + > . 4001:5001
         + > . 5001:6001
         + > . 6001:7001
         + > . 7001:8001
         + > . 8001:9001
         + > . 9001:10001
         300 < . 1:1 ack 1 sack 1001:2001
         301 < . 1:1 ack 1 sack 1001:3001
         302 < . 1:1 ack 1 sack 1001:4001
         + > . 1:1001
         303 < . 1:1 ack 1 sack 1001:5001
         304 < . 1:1 ack 1 sack 1001:6001
         305 < . 1:1 ack 1 sack 1001:7001
         + > . 10001:11001
         306 < . 1:1 ack 1 sack 1001:8001
         + > . 11001:12001
         307 < . 1:1 ack 1 sack 1001:9001
         + > . 12001:13001
         308 < . 1:1 ack 1 sack 1001:10001
         + > . 13001:14001
         402 < . 1:1 ack 10001
         + > . 14001:15001
         + = cwnd 5000
         + = phase Open",
    );
}

#[test]
fn the_timeout_doubles_and_a_retransmission_gives_no_sample() {
    // RFC 6298 §5.4–5.6 and §3 (Karn): the backed-off timeout stays until a segment sent once is acknowledged.
    opened(
        plain(2),
        "100 = rto 1000
         200 write 1000
         + > . 1:1001
         1200 > . 1:1001
         + = cwnd 1000
         + = ssthresh 2000
         + = phase Loss
         3200 > . 1:1001
         7200 > . 1:1001
         15200 > . 1:1001
         15300 < . 1:1 ack 1001
         + = phase Open
         + = rto 16000
         15300 write 1000
         + > . 1001:2001
         31300 > . 1001:2001
         31400 < . 1:1 ack 2001
         31500 write 1000
         + > . 2001:3001
         31600 < . 1:1 ack 3001
         + = rto 1000",
    );
}

#[test]
fn after_a_timeout_everything_is_sent_again_in_slow_start() {
    opened(
        plain(4),
        "200 write 20000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         + > . 3001:4001
         1200 > . 1:1001
         1300 < . 1:1 ack 1001
         + > . 1001:2001
         + > . 2001:3001
         + = cwnd 2000
         + = ssthresh 2000
         1400 < . 1:1 ack 2001
         + > . 3001:4001
         1401 < . 1:1 ack 4001
         + > . 4001:5001
         + > . 5001:6001
         + > . 6001:7001
         + = cwnd 3000
         + = phase Open",
    );
}

#[test]
fn a_receiver_tells_what_it_holds_latest_first() {
    // RFC 2018 §4; acknowledged at once (RFC 5681 §4.2).
    opened_sack(
        with_sack(10),
        "200 < . 2001:3001 ack 1
         + > . 1:1 ack 1 sack 2001:3001
         201 < . 4001:5001 ack 1
         + > . 1:1 ack 1 sack 4001:5001 2001:3001
         202 < . 6001:7001 ack 1
         + > . 1:1 ack 1 sack 6001:7001 4001:5001 2001:3001
         203 < . 3001:4001 ack 1
         + > . 1:1 ack 1 sack 2001:5001 6001:7001
         204 < . 1:1001 ack 1
         + > . 1:1 ack 1001 sack 2001:5001 6001:7001
         + = readable 1000
         205 < . 1001:2001 ack 1
         + > . 1:1 ack 5001 sack 6001:7001
         206 < . 5001:6001 ack 1
         + > . 1:1 ack 7001
         + = readable 7000",
    );
}

#[test]
fn a_closed_window_is_probed_ever_more_seldom_until_it_opens() {
    // RFC 9293 §3.8.6.1.
    opened(
        plain(10),
        "150 < . 1:1 ack 1 win 2000
         200 write 3000
         + > . 1:1001
         + > . 1001:2001
         300 < . 1:1 ack 2001 win 0
         1300 > . 2000:2000 ack 1
         1310 < . 1:1 ack 2001 win 0
         3300 > . 2000:2000 ack 1
         3310 < . 1:1 ack 2001 win 0
         7300 > . 2000:2000 ack 1
         7310 < . 1:1 ack 2001 win 5000
         + > . 2001:3001
         7400 < . 1:1 ack 3001 win 5000
         + = retransmits 0",
    );
}

#[test]
fn a_window_too_small_for_a_segment_is_used_only_after_the_timer() {
    // The sender's part against silly windows, RFC 9293 §3.8.6.2.1.
    opened(
        plain(10),
        "150 < . 1:1 ack 1 win 5000
         200 write 1000
         + > . 1:1001
         300 < . 1:1 ack 1001 win 300
         400 write 3000
         1400 > . 1001:1301
         1500 < . 1:1 ack 1301 win 5000
         + > . 1301:2301
         + > . 2301:3301
         + > . 3301:4001
         1600 < . 1:1 ack 4001",
    );
}

#[test]
fn reordering_by_two_places_retransmits_nothing() {
    opened_sack(
        with_sack(4),
        "200 write 4000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         + > . 3001:4001
         300 < . 1:1 ack 1 sack 1001:2001
         301 < . 1:1 ack 1 sack 1001:3001
         302 < . 1:1 ack 3001
         303 < . 1:1 ack 4001
         + = retransmits 0
         + = phase Open
         + = ssthresh 18446744073709551615",
    );
    opened(
        plain(4),
        "200 write 4000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         + > . 3001:4001
         300 < . 1:1 ack 1
         301 < . 1:1 ack 1
         302 < . 1:1 ack 3001
         303 < . 1:1 ack 4001
         + = retransmits 0
         + = ssthresh 18446744073709551615",
    );
}

#[test]
fn limited_transmit_keeps_two_segments_flowing_and_can_be_off() {
    let on = "200 write 9000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         300 < . 1:1 ack 1
         + > . 3001:4001
         301 < . 1:1 ack 1
         + > . 4001:5001
         302 < . 1:1 ack 1
         + > . 1:1001
         + = ssthresh 2000";
    opened(plain(3), on);
    let off = "200 write 9000
         + > . 1:1001
         + > . 1001:2001
         + > . 2001:3001
         300 < . 1:1 ack 1
         301 < . 1:1 ack 1
         1200 > . 1:1001
         + = phase Loss";
    opened(Config { limited_transmit: false, ..plain(3) }, off);
}

#[test]
fn every_second_segment_is_acknowledged_at_once_and_a_single_one_later() {
    // RFC 5681 §4.2.
    opened(
        plain(10),
        "200 < . 1:1001 ack 1
         + ! Readable
         400 > . 1:1 ack 1001
         500 < . 1001:2001 ack 1
         510 < . 2001:3001 ack 1
         + > . 1:1 ack 3001
         + = readable 3000
         # Data carries the acknowledgment.
         600 < . 3001:4001 ack 1
         610 write 500
         + > . 1:501 ack 4001
         700 < . 4001:4001 ack 501
         900 = readable 4000",
    );
}

#[test]
fn the_window_closes_with_unread_data_and_opens_in_worthwhile_steps() {
    opened(
        Config {
            receive_buffer: 4000,
            delayed_ack: DelayedAck { segments: 1, timeout: Duration::ZERO },
            ..plain(10)
        },
        "200 < . 1:2001 ack 1
         + > . 1:1 ack 2001 win 2000
         210 < . 2001:4001 ack 1
         + > . 1:1 ack 4001 win 0
         # A probe is answered, beyond the window nothing is taken.
         220 < . 4001:4002 ack 1
         + > . 1:1 ack 4001 win 0
         230 read 500
         240 read 1500
         + > . 1:1 ack 4001 win 2000
         250 read 2000
         + > . 1:1 ack 4001 win 4000",
    );
}

#[test]
fn ecn_is_agreed_upon_and_halves_the_window_once_a_round_trip() {
    // RFC 3168 §6.1.
    play(
        Config { ecn: true, ..plain(10) },
        "0 connect
         0 > SEW 0:0
         100 < SE. 0:0 ack 1 mss 1000
         + > . 1:1 ack 1
         200 write 30000
         + > . 1:1001 ect0
         + > . 1001:2001 ect0
         + > . 2001:3001 ect0
         + > . 3001:4001 ect0
         + > . 4001:5001 ect0
         + > . 5001:6001 ect0
         + > . 6001:7001 ect0
         + > . 7001:8001 ect0
         + > . 8001:9001 ect0
         + > . 9001:10001 ect0
         300 < .E 1:1 ack 2001
         + = cwnd 4000
         301 < .E 1:1 ack 4001
         302 < .E 1:1 ack 6001
         303 < .E 1:1 ack 8001
         + > .W 10001:11001 ect0
         + > . 11001:12001 ect0
         304 < .E 1:1 ack 10001
         + > . 12001:13001 ect0
         + > . 13001:14001 ect0
         + = cwnd 4000
         400 < . 1:1 ack 12001
         + > . 14001:15001 ect0
         + > . 15001:16001 ect0
         401 < . 1:1 ack 14001
         + > . 16001:17001 ect0
         + > . 17001:18001 ect0
         + > . 18001:19001 ect0
         + = cwnd 5000",
    );
}

#[test]
fn a_mark_is_echoed_until_the_sender_has_reduced() {
    play(
        Config { ecn: true, ..plain(10) },
        "0 listen
         10 < SEW 0:0 mss 1000
         + > SE. 0:0 ack 1
         110 < . 1:1 ack 1
         200 < . 1:1001 ack 1 ce
         201 < . 1001:2001 ack 1 ect0
         + > .E 1:1 ack 2001
         202 < . 2001:3001 ack 1 ect0
         203 < . 3001:4001 ack 1 ect0
         + > .E 1:1 ack 4001
         204 < .W 4001:5001 ack 1 ect0
         205 < . 5001:6001 ack 1 ect0
         + > . 1:1 ack 6001",
    );
    // A peer without ECN: nothing is marked as capable.
    play(
        Config { ecn: true, ..plain(10) },
        "0 connect
         0 > SEW 0:0
         100 < S. 0:0 ack 1 mss 1000
         + > . 1:1 ack 1
         200 write 1000
         + > . 1:1001
         300 < . 1:1 ack 1001",
    );
}

#[test]
fn small_writes_wait_for_the_acknowledgment_with_nagle() {
    opened(
        Config { nagle: true, ..plain(10) },
        "200 write 100
         + > . 1:101
         210 write 100
         220 write 100
         300 < . 1:1 ack 101
         + > . 101:301
         310 write 900
         320 write 100
         + > . 301:1301
         400 < . 1:1 ack 1301",
    );
    opened(
        plain(10),
        "200 write 100
         + > . 1:101
         210 write 100
         + > . 101:201
         300 < . 1:1 ack 201",
    );
}

#[test]
fn an_idle_connection_starts_again_with_the_initial_window() {
    // RFC 5681 §4.1.
    opened(
        plain(2),
        "200 write 6000
         + > . 1:1001
         + > . 1001:2001
         300 < . 1:1 ack 2001
         + > . 2001:3001
         + > . 3001:4001
         + > . 4001:5001
         + > . 5001:6001
         400 < . 1:1 ack 4001
         401 < . 1:1 ack 6001
         5000 write 5000
         + > . 6001:7001
         + > . 7001:8001
         5100 < . 1:1 ack 8001
         + > . 8001:9001
         + > . 9001:10001
         + > . 10001:11001
         5200 < . 1:1 ack 11001",
    );
}
