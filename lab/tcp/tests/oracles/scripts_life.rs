//! Scripts: opening, closing, resets, options, and what is refused, computed by hand.

use crate::script::play;
use crate::scripts_data::{opened, plain};
use perhop_tcp::Config;
use perhop_units::Duration;

#[test]
fn a_lost_syn_is_repeated_and_starts_the_window_at_one_segment() {
    // RFC 6298 §5.7 (3 s afterwards), RFC 5681 §3.1.
    play(
        plain(10),
        "0 connect
         0 > S 0:0 mss 1000
         1000 > S 0:0 mss 1000
         3000 > S 0:0 mss 1000
         3100 < S. 0:0 ack 1 mss 1000
         + > . 1:1 ack 1
         + = cwnd 1000
         + = rto 3000
         3200 write 5000
         + > . 1:1001
         3300 < . 1:1 ack 1001
         + > . 1001:2001
         + > . 2001:3001",
    );
    play(
        Config { syn_retries: 2, ..plain(10) },
        "0 connect
         0 > S 0:0
         1000 > S 0:0
         3000 > S 0:0
         7001 ! TimedOut
         + ! Closed
         + = state Closed",
    );
}

#[test]
fn an_old_timestamp_is_refused_and_the_echo_is_the_oldest_unacknowledged() {
    // RFC 7323 §4.3 and §5.
    play(
        Config { timestamps: true, ..plain(10) },
        "0 connect
         0 > S 0:0 ts 0 0
         100 < S. 0:0 ack 1 mss 1000 ts 5000 0
         + > . 1:1 ack 1 ts 100 5000
         200 < . 1:989 ack 1 ts 5100 100
         201 < . 989:1977 ack 1 ts 5101 100
         + > . 1:1 ack 1977 ts 201 5100
         # Older than what was seen: answered, not taken.
         300 < . 1977:2965 ack 1 ts 5050 201
         + > . 1:1 ack 1977 ts 300 5100
         # Without a time-stamp: dropped.
         310 < . 1977:2965 ack 1
         + = readable 1976
         # A reset needs none.
         320 < R 1977:1977
         + ! Reset
         + = state Closed",
    );
}

#[test]
fn we_close_first() {
    // RFC 9293 §3.6, figure 12.
    opened(
        Config { time_wait: Duration::from_secs(2), ..plain(10) },
        "200 write 500
         + > . 1:501
         200 close
         + > F. 501:501 ack 1
         + = state FinWait1
         300 < . 1:1 ack 502
         + = state FinWait2
         310 < . 1:101 ack 502
         400 < F. 101:101 ack 502
         + > . 502:502 ack 102
         + ! Finished
         + = state TimeWait
         # The peer did not get it and repeats; the time starts again.
         1000 < F. 101:101 ack 502
         + > . 502:502 ack 102
         3000 ! Closed
         + = state Closed
         + = readable 100",
    );
}

#[test]
fn the_peer_closes_first() {
    opened(
        plain(10),
        "200 < F. 1:101 ack 1
         + > . 1:1 ack 102
         + ! Finished
         + = state CloseWait
         300 write 1000
         + > . 1:1001 ack 102
         310 close
         + > F. 1001:1001 ack 102
         + = state LastAck
         400 < . 102:102 ack 1002
         + ! Closed
         + = state Closed",
    );
}

#[test]
fn both_close_at_once() {
    // RFC 9293 §3.6, figure 13.
    opened(
        plain(10),
        "200 close
         + > F. 1:1 ack 1
         250 < F. 1:1 ack 1
         + > . 2:2 ack 2
         + = state Closing
         300 < . 2:2 ack 2
         + = state TimeWait",
    );
}

#[test]
fn both_open_at_once() {
    // RFC 9293 §3.5, figure 8.
    play(
        plain(10),
        "0 connect
         0 > S 0:0
         50 < S 0:0 mss 1000
         + > S. 0:0 ack 1
         + = state SynReceived
         100 < S. 0:0 ack 1 mss 1000
         + ! Established
         + = state Established
         200 write 100
         + > . 1:101 ack 1
         300 < . 1:1 ack 101",
    );
}

#[test]
fn a_lost_fin_is_repeated() {
    opened(
        plain(10),
        "200 close
         + > F. 1:1
         1200 > F. 1:1
         3200 > F. 1:1
         3300 < . 1:1 ack 2
         + = state FinWait2",
    );
}

#[test]
fn a_reset_counts_only_at_the_very_number_expected() {
    // RFC 5961 §3 and §4: otherwise a challenge.
    opened(
        plain(10),
        "200 < R 500:500
         + > . 1:1 ack 1
         210 < S 500:500
         + > . 1:1 ack 1
         220 < R 70000:70000
         230 < . 1:1 ack 5000
         + > . 1:1 ack 1
         + = state Established
         300 < R 1:1
         + ! Reset
         + ! Closed
         + = state Closed",
    );
}

#[test]
fn a_refused_connection_and_a_foreign_answer() {
    play(
        plain(10),
        "0 connect
         0 > S 0:0
         50 < . 7:7 ack 77
         + > R 77:77
         100 < R. 0:0 ack 1
         + ! Reset
         + = state Closed",
    );
    play(
        plain(10),
        "0 listen
         10 < . 1:1 ack 99
         + > R 99:99
         20 < R 1:1
         30 < S 0:0 mss 1000
         + > S. 0:0 ack 1
         # The SYN comes again: our answer was lost.
         500 < S 0:0 mss 1000
         + > S. 0:0 ack 1
         600 < . 1:1 ack 1
         + ! Established",
    );
}

#[test]
fn an_abort_resets_the_peer() {
    opened(
        plain(10),
        "200 write 100
         + > . 1:101
         210 abort
         + > R. 101:101 ack 1
         + ! Closed",
    );
    play(
        plain(10),
        "0 listen
         10 < S 0:0 mss 1000
         + > S. 0:0 ack 1
         20 abort
         + > R. 1:1 ack 1",
    );
}

#[test]
fn a_silent_peer_is_given_up() {
    opened(
        Config { data_retries: 3, ..plain(10) },
        "200 write 100
         + > . 1:101
         1200 > . 1:101
         3200 > . 1:101
         7200 > . 1:101
         15201 ! TimedOut
         + = state Closed",
    );
}

#[test]
fn options_are_used_only_if_both_offer_them() {
    let all = Config { mss: 1460, receive_buffer: 1 << 20, ..Config::default() };
    play(
        all,
        "0 connect
         0 > S 0:0 win 65535 mss 1460 ws 5 sackOK ts 0 0
         100 < S. 0:0 ack 1 win 8000 mss 1400
         + > . 1:1 ack 1 win 65535
         200 write 3000
         + > . 1:1401
         + > . 1401:2801
         + > . 2801:3001
         300 < . 1:1 ack 3001",
    );
    play(
        all,
        "0 listen
         10 < S 0:0 mss 1200 ws 3 sackOK ts 900 0
         + > S. 0:0 ack 1 win 65535 mss 1460 ws 5 sackOK ts 10 900
         110 < . 1:1 ack 1 win 300 ts 1000 10
         # 300 · 2³ = 2400 bytes; segments of 1200 − 12.
         200 write 5000
         + > . 1:1189 ts 200 1000
         + > . 1189:2377
         300 < . 1:1 ack 2377 win 1000 ts 1100 200
         + > . 2377:3565
         + > . 3565:4753
         + > . 4753:5001
         400 < . 1:1 ack 5001 ts 1200 300",
    );
}
