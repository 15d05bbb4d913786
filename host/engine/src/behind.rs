//! Delay behind a port: what waits in a modem or a card because the link is slower than the port's rate says.
//!
//! The router sees it in round trips of TCP, from a segment that leaves by the port to its acknowledgment that comes back by it.
//! While a queue behind the port grows, the round trips of all connections do, above the least that each has had.
//!
//! | event | becomes of the connection |
//! |---|---|
//! | data or a SYN leaves, nothing is noted | its end and the time are noted |
//! | what was noted, or something before it, leaves again | the note is void: the acknowledgment would be of either (Karn and Partridge, 1987) |
//! | an acknowledgment of it comes | one round trip more |
//! | nothing has left for [`FORGET`] | another connection may have its place |
//! | [`WINDOW`] has passed | how much its least round trip in the window is above its least of the last [`AGE`] to twice that |
//!
//! ```text
//!            leaves                acknowledged
//!  (unknown) ──────▶ noted ───────────────────────▶ known ──┐
//!                      ▲  └─ leaves again: void ─────▲      │ leaves
//!                      └───────────────────────────────────-┘
//! ```
//!
//! Of the connections that were known before the window the median counts: a far end that is slow itself concerns its own
//! connections only.

use perhop_units::{Duration, Instant, Rate};

/// How long is looked before something is said.
pub(crate) const WINDOW: Duration = Duration(2_000_000_000);
/// A connection that sends nothing for so long may be forgotten,
const FORGET: Duration = Duration(10_000_000_000);
/// and a note whose acknowledgment does not come.
const NO_ANSWER: Duration = Duration(3_000_000_000);
/// What round trips were at least is forgotten after twice this: paths change, and nobody can lower a rate until one is short again.
/// A queue that stands for so long without once being empty looks like that.
const AGE: Duration = Duration(300_000_000_000);
/// Round trips of a window that say something.
const LEAST_SAMPLES: u32 = 3;
/// Connections that are watched; a power of two.
const PLACES: usize = 64;

/// What a window has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How much longer round trips are than they can be.
    pub(crate) growth: Duration,
    /// Connections that tell.
    pub(crate) connections: u32,
    /// Bytes of frames that left, and in which time.
    pub(crate) sent: (u64, Duration),
}

/// One port's connections.
#[derive(Debug)]
pub(crate) struct Behind {
    places: Box<[Option<Connection>; PLACES]>,
    since: Instant,
    bytes: u64,
    /// When the least round trips began that are gathered now.
    aged: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    key: u64,
    left: Instant,
    noted: Option<(u32, Instant)>,
    /// Least round trip of the windows before, of this age and of the one before it.
    base: [Option<Duration>; 2],
    least: Option<Duration>,
    samples: u32,
}

/// What counts of a TCP segment.
struct Segment {
    /// Of its connection, as it goes and as answers come.
    keys: [u64; 2],
    end: u32,
    /// Whether it takes room in the stream.
    counts: bool,
    acknowledges: Option<u32>,
}

/// What is made of it, window by window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judge {
    /// Loaded windows in a row that say otherwise than is told.
    contrary: u32,
    /// What waits as far as is known, if it is told.
    growth: Option<Duration>,
    /// What the log has of it, and since when.
    logged: Option<(Duration, Instant)>,
}

/// What the log is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// So much waits: for the first time, or it is twice what was told.
    Waits(Duration),
    /// Nothing does any more.
    Gone,
}

/// Less than this is nobody's trouble.
const HARM: Duration = Duration(20_000_000);
/// Growth is told again after this at the earliest.
const AGAIN: Duration = Duration(60_000_000_000);
/// So many windows in a row change what is told.
const WINDOWS: u32 = 3;

impl Judge {
    /// What is news behind a port of this rate. While the port sends less than a twentieth of it, its load is not what waits; a
    /// link that carries a tenth of it is filled with that.
    pub(crate) fn judge(&mut self, now: Instant, seen: Seen, rate: Rate) -> Option<News> {
        let (bytes, span) = seen.sent;
        let bits_in_second = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(span.0.max(1));
        if seen.connections == 0 || bits_in_second * 20 < u128::from(rate.0) {
            return None;
        }
        let current = Some(seen.growth).filter(|growth| *growth >= HARM);
        if current.is_some() == self.growth.is_some() {
            (self.contrary, self.growth) = (0, current);
        } else {
            self.contrary += 1;
            if self.contrary < WINDOWS {
                return None;
            }
            (self.contrary, self.growth) = (0, current);
        }
        match (self.growth, self.logged) {
            (None, None) => None,
            (None, Some(_)) => {
                self.logged = None;
                Some(News::Gone)
            }
            (Some(growth), Some((logged, at))) if growth.0 < 2 * logged.0 || now.since(at) < AGAIN => None,
            (Some(growth), _) => {
                self.logged = Some((growth, now));
                Some(News::Waits(growth))
            }
        }
    }

    /// What waits now, as far as is known.
    pub(crate) fn growth(&self) -> Option<Duration> {
        self.growth
    }
}

impl Behind {
    pub(crate) fn new(now: Instant) -> Self {
        Self { places: Box::new([None; PLACES]), since: now, bytes: 0, aged: now }
    }

    /// A frame leaves.
    pub(crate) fn sent(&mut self, now: Instant, frame: &[u8]) {
        self.bytes += frame.len() as u64;
        let Some(Segment { keys: [key, _], end, counts: true, .. }) = Segment::of(frame) else { return };
        let place = self.place(key);
        match place {
            Some(c) if c.key == key => {
                c.left = now;
                c.noted = match c.noted {
                    None => Some((end, now)),
                    Some((noted, _)) if end.wrapping_sub(noted).cast_signed() <= 0 => None,
                    Some((_, at)) if now.since(at) > NO_ANSWER => None,
                    noted => noted,
                };
            }
            Some(c) if now.since(c.left) <= FORGET => {}
            _ => {
                let noted = Some((end, now));
                *place = Some(Connection { key, left: now, noted, base: [None; 2], least: None, samples: 0 });
            }
        }
    }

    /// A frame has come.
    pub(crate) fn received(&mut self, now: Instant, frame: &[u8]) {
        let Some(Segment { keys: [_, key], acknowledges: Some(ack), .. }) = Segment::of(frame) else {
            return;
        };
        let Some(c) = self.place(key).as_mut().filter(|c| c.key == key) else { return };
        if let Some((end, at)) = c.noted
            && ack.wrapping_sub(end).cast_signed() >= 0
        {
            let trip = now.since(at);
            c.noted = None;
            c.least = Some(c.least.map_or(trip, |least| least.min(trip)));
            c.samples += 1;
        }
    }

    /// What the last window has shown, once it has passed.
    pub(crate) fn look(&mut self, now: Instant) -> Option<Seen> {
        let span = now.since(self.since);
        if span < WINDOW {
            return None;
        }
        let ages = now.since(self.aged) >= AGE;
        if ages {
            self.aged = now;
        }
        let mut growths = Vec::with_capacity(PLACES);
        for c in self.places.iter_mut().flatten() {
            if let (Some(base), Some(least)) = (c.base.into_iter().flatten().min(), c.least)
                && c.samples >= LEAST_SAMPLES
            {
                growths.push(Duration(least.0.saturating_sub(base.0)));
            }
            c.base[0] = c.base[0].into_iter().chain(c.least).min();
            (c.least, c.samples) = (None, 0);
            if ages {
                c.base = [None, c.base[0]];
            }
        }
        growths.sort_unstable();
        let growth = growths.get(growths.len().saturating_sub(1) / 2).copied().unwrap_or(Duration::ZERO);
        let seen = Seen { growth, connections: growths.len() as u32, sent: (self.bytes, span) };
        (self.since, self.bytes) = (now, 0);
        Some(seen)
    }

    fn place(&mut self, key: u64) -> &mut Option<Connection> {
        &mut self.places[key as usize % PLACES]
    }
}

impl Segment {
    /// Reads a frame with one VLAN tag at most; `None` for all but whole TCP segments right behind their IP header.
    fn of(frame: &[u8]) -> Option<Self> {
        let ethertype = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let l3 = if ethertype(12)? == 0x8100 { 18 } else { 14 };
        let ip = frame.get(l3..)?;
        let (addresses, header, length) = match ethertype(l3 - 2)? {
            0x0800 if *ip.get(9)? == 6 && [ip[6] & 0x3f, ip[7]] == [0, 0] => {
                let length = u16::from_be_bytes([ip[2], ip[3]]);
                (ip.get(12..20)?, usize::from(ip[0] & 0x0f) * 4, usize::from(length))
            }
            0x86dd if *ip.get(6)? == 6 => {
                (ip.get(8..40)?, 40, 40 + usize::from(u16::from_be_bytes([ip[4], ip[5]])))
            }
            _ => return None,
        };
        let tcp = ip.get(header..)?.first_chunk::<20>()?;
        let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let payload = length.checked_sub(header + usize::from(tcp[12] >> 4) * 4)?;
        let (syn, fin, ack) = (tcp[13] & 2 != 0, tcp[13] & 1 != 0, tcp[13] & 16 != 0);
        let room = payload as u32 + u32::from(syn) + u32::from(fin);
        let (from, to) = addresses.split_at(addresses.len() / 2);
        let (here, there) = (mixed(from, [tcp[0], tcp[1]]), mixed(to, [tcp[2], tcp[3]]));
        let key = |a: u64, b: u64| (a.rotate_left(32) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        Some(Self {
            keys: [key(here, there), key(there, here)],
            end: word(4).wrapping_add(room),
            counts: room > 0,
            acknowledges: ack.then(|| word(8)),
        })
    }
}

/// One end of a connection as a number.
fn mixed(address: &[u8], port: [u8; 2]) -> u64 {
    let seed = u64::from(u16::from_be_bytes(port)) | 1 << 63;
    address.chunks_exact(4).fold(seed, |sum, word| {
        let word = word.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        (sum ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant(n * 1_000_000)
    }

    /// A frame of connection `n`, from us or from the other end: where it begins in the stream, payload, acknowledgment.
    fn frame(n: u16, ours: bool, (sequence, payload): (u32, u16), ack: u32) -> Vec<u8> {
        let mut frame = vec![0; 54 + usize::from(payload)];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&(40 + payload).to_be_bytes());
        frame[23] = 6;
        let (here, there) = (([10, 0, 0, 1], 1000 + n), ([192, 0, 2, 1], 80));
        let (from, to) = if ours { (here, there) } else { (there, here) };
        frame[26..30].copy_from_slice(&from.0);
        frame[30..34].copy_from_slice(&to.0);
        frame[34..36].copy_from_slice(&from.1.to_be_bytes());
        frame[36..38].copy_from_slice(&to.1.to_be_bytes());
        frame[38..42].copy_from_slice(&sequence.to_be_bytes());
        frame[42..46].copy_from_slice(&ack.to_be_bytes());
        frame[46] = 0x50;
        frame[47] = 16;
        frame
    }

    /// Has connection `n` send ten segments in a window that begins at `from`, each acknowledged after `trip` ms.
    fn window(behind: &mut Behind, n: u16, from: u64, trip: u64) {
        for i in 0..10 {
            let (at, sequence) = (from + 190 * i, (from + 190 * i) as u32);
            behind.sent(ms(at), &frame(n, true, (sequence, 100), 1));
            behind.received(ms(at + trip), &frame(n, false, (1, 0), sequence + 100));
        }
    }

    #[test]
    fn round_trips_that_grow_are_told_by_the_median_connection() {
        let mut behind = Behind::new(ms(0));
        (0..3).for_each(|n| window(&mut behind, n, 0, 20 + u64::from(n)));
        assert_eq!(behind.look(ms(1999)), None);
        let seen = behind.look(ms(2000)).unwrap();
        assert_eq!((seen.growth, seen.connections), (Duration::ZERO, 0), "nothing to compare with yet");
        assert_eq!(seen.sent, (30 * 154, Duration::from_millis(2000)));
        // One far end is slow by itself.
        (0..3).for_each(|n| window(&mut behind, n, 2000, if n == 1 { 180 } else { 20 }));
        assert_eq!(behind.look(ms(4000)).unwrap().growth, Duration::ZERO);
        (0..3).for_each(|n| window(&mut behind, n, 4000, 150));
        let seen = behind.look(ms(6000)).unwrap();
        assert_eq!((seen.growth, seen.connections), (Duration::from_millis(130), 3));
        (0..3).for_each(|n| window(&mut behind, n, 6000, 22));
        assert!(behind.look(ms(8000)).unwrap().growth <= Duration::from_millis(2), "and has an end");
    }

    #[test]
    fn growth_is_told_after_a_while_under_load_and_taken_back_so() {
        let mut judge = Judge::default();
        let seen = |growth_ms, mbit: u64| Seen {
            growth: Duration::from_millis(growth_ms),
            connections: 1,
            sent: (mbit * 250_000, WINDOW),
        };
        let mut windows = 0;
        let mut told = |judge: &mut Judge, seen| {
            windows += 1;
            judge.judge(ms(2_000 * windows), seen, Rate::from_mbit(10))
        };
        let waits = |ms| Some(News::Waits(Duration::from_millis(ms)));
        for _ in 0..10 {
            assert_eq!(told(&mut judge, seen(90, 0)), None, "somebody else's load");
            assert_eq!(told(&mut judge, seen(19, 9)), None, "little");
        }
        assert_eq!(told(&mut judge, seen(90, 9)), None);
        assert_eq!(told(&mut judge, seen(90, 1)), None, "a link much slower than the rate");
        assert_eq!(judge.growth(), None);
        assert_eq!(told(&mut judge, seen(90, 9)), waits(90));
        assert_eq!(told(&mut judge, seen(90, 9)), None, "once");
        // What is shown is what is, and the log hears of much more after a while.
        assert_eq!(
            (told(&mut judge, seen(900, 9)), judge.growth()),
            (None, Some(Duration::from_millis(900)))
        );
        let later: Vec<_> = (0..40).filter_map(|_| told(&mut judge, seen(900, 9))).collect();
        assert_eq!(later, [News::Waits(Duration::from_millis(900))]);
        assert_eq!(told(&mut judge, Seen { connections: 0, ..seen(0, 9) }), None);
        assert_eq!(told(&mut judge, seen(3, 9)), None);
        assert_eq!(told(&mut judge, seen(3, 9)), None);
        assert_eq!(told(&mut judge, seen(3, 9)), Some(News::Gone));
        assert_eq!((told(&mut judge, seen(3, 9)), judge.growth()), (None, None));
    }

    #[test]
    fn a_path_that_has_become_longer_is_no_queue_for_ever() {
        let mut behind = Behind::new(ms(0));
        let growth = |behind: &mut Behind, n: u64, trip| {
            window(behind, 0, 2_000 * n, trip);
            behind.look(ms(2_000 * (n + 1))).unwrap().growth
        };
        assert_eq!(growth(&mut behind, 0, 20), Duration::ZERO);
        let grown: Vec<u64> = (1..400).map(|n| growth(&mut behind, n, 50).0 / 1_000_000).collect();
        let length = grown.iter().position(|growth| *growth == 0).unwrap();
        assert!(grown[..length].iter().all(|growth| *growth == 30), "{grown:?}");
        // Five to ten minutes, in windows of two seconds.
        assert!((150..=300).contains(&length) && grown[length..].iter().all(|g| *g == 0), "{length}");
    }

    #[test]
    fn what_is_sent_again_says_nothing_of_its_round_trip() {
        let mut behind = Behind::new(ms(0));
        window(&mut behind, 0, 0, 50);
        behind.look(ms(2000));
        for i in 0..10 {
            let at = 2000 + 150 * i;
            behind.sent(ms(at), &frame(0, true, (at as u32, 100), 1));
            behind.sent(ms(at + 100), &frame(0, true, (at as u32, 100), 1));
            behind.received(ms(at + 101), &frame(0, false, (1, 0), at as u32 + 100));
        }
        assert_eq!(behind.look(ms(4000)).unwrap().connections, 0);
        // An acknowledgment of less, and one of another connection.
        behind.sent(ms(4000), &frame(0, true, (5000, 100), 1));
        behind.received(ms(4001), &frame(0, false, (1, 0), 5099));
        behind.received(ms(4001), &frame(1, false, (1, 0), 5100));
        assert!(behind.places.iter().flatten().all(|c| c.samples == 0));
    }

    #[test]
    fn more_connections_than_places_and_what_is_no_tcp_do_no_harm() {
        let mut behind = Behind::new(ms(0));
        for n in 0..1000 {
            behind.sent(ms(1), &frame(n, true, (7, 100), 1));
        }
        for length in 0..54 {
            let whole = frame(7, true, (7, 0), 1);
            behind.sent(ms(2), &whole[..length]);
            behind.received(ms(2), &whole[..length]);
        }
        assert!(behind.places.iter().flatten().count() > PLACES / 2);
        // An old one leaves its place.
        let (before, late) = (behind.places.iter().flatten().map(|c| c.key).collect::<Vec<_>>(), ms(20_000));
        for n in 1000..2000 {
            behind.sent(late, &frame(n, true, (7, 100), 1));
        }
        assert!(behind.places.iter().flatten().all(|c| !before.contains(&c.key)));
    }
}
