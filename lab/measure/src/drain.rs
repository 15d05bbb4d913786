//! The end of a repetition: sources stop, and what is on its way is waited for, so that only what was dropped is lost.

use crate::recording::StreamRecord;
use perhop_units::{Duration, Instant};

/// How long a world waits at most, after its sources have stopped, for what is still on its way. It goes on as soon as
/// no packet is inside.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// Takes what is still inside a network after [`DRAIN_LIMIT`] out of the records: `inside` packets, of those that did not
/// arrive the ones sent last. They count neither as sent nor as lost. Says so, with the number. O(packets log packets)
/// when something is inside.
pub fn set_aside(streams: &mut [StreamRecord], inside: u64) -> Option<String> {
    if inside == 0 {
        return None;
    }
    let waiting = |stream: &StreamRecord| {
        let of_stream = stream.packets.iter().filter(|packet| packet.arrived == Instant::FAR_FUTURE);
        of_stream.map(|packet| packet.sent).collect::<Vec<Instant>>()
    };
    let mut sent: Vec<Instant> = streams.iter().flat_map(waiting).collect();
    sent.sort_unstable_by(|a, b| b.cmp(a));
    let count = usize::try_from(inside).unwrap_or(usize::MAX).min(sent.len());
    let last = count.checked_sub(1).and_then(|i| sent.get(i))?;
    let mut left = count;
    for stream in streams {
        stream.packets.retain(|packet| {
            let aside = packet.arrived == Instant::FAR_FUTURE && packet.sent >= *last && left > 0;
            left -= usize::from(aside);
            !aside
        });
        // Numbers mean nothing from here on.
        stream.jumps.clear();
    }
    let s = DRAIN_LIMIT.as_secs_f64();
    Some(format!(
        "{count} datagrams were still on their way {s:.0} s after the end; they count neither as sent nor as lost"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Toward;
    use crate::tests::{of, stream};

    #[test]
    fn what_is_inside_is_what_was_sent_last_and_did_not_arrive() {
        let toward = Toward::Second;
        let mut streams = [
            stream(of(0, 0, toward), None, &[None, Some(9), None, None]),
            stream(of(0, 1, toward), None, &[Some(5), None]),
        ];
        assert_eq!(set_aside(&mut streams, 0), None);
        let warning = set_aside(&mut streams, 2).expect("some are inside");
        assert!(warning.starts_with("2 datagrams were still on their way 30 s after"), "{warning}");
        assert_eq!(streams.each_ref().map(|s| s.packets.len()), [2, 2]);
        assert_eq!(set_aside(&mut streams, 9).map(|w| w.starts_with("2 ")), Some(true));
        assert_eq!(streams.each_ref().map(|s| s.packets.len()), [1, 1]);
        assert_eq!(set_aside(&mut streams, 9), None, "what is inside is no datagram");
    }
}
