//! Waiting for packets, messages and deadlines: long waits sleep, the last stretch before a deadline spins. How long a
//! thread without work looks around before it sleeps depends on how soon work came lately.

use perhop_io::{DevicePort, Tap, clock};
use perhop_routerfile::Waiting;
use perhop_units::{Duration, Instant};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::array;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Ports of one worker.
pub(crate) const MAX_PORTS: usize = 64;
const LEAST_SLACK: Duration = Duration(5_000);
/// What a sleeper in a virtual machine is late when its processor did not rest for long.
const MOST_SLACK: Duration = Duration(50_000);

/// Set in the number of a port: it is of what this host itself sends by it.
const OWN: u8 = 1 << 7;

/// Where packets of a port come from: its interface, and this host itself.
pub(crate) type Ends<'p> = (Option<&'p DevicePort>, Option<&'p Tap>);

/// Wakes a packet thread that sleeps.
#[derive(Debug)]
pub(crate) struct Wake {
    fd: OwnedFd,
    set: AtomicBool,
}

impl Wake {
    pub(crate) fn new() -> std::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd, set: AtomicBool::new(false) })
    }

    /// Ends the current or the next sleep.
    pub(crate) fn wake(&self) {
        if !self.set.swap(true, Ordering::AcqRel) {
            // Full counter: it is awake for sure.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Whether somebody called since the last time; forgets it.
    pub(crate) fn take(&self) -> bool {
        // The flag first: a call in between leaves it set, and `wait` looks at it before it sleeps.
        if !self.set.swap(false, Ordering::AcqRel) {
            return false;
        }
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
        true
    }

    fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// The event has ended a sleep. The call it is of may have been taken before its event came: without the flag nobody would
    /// read that, and it would end every sleep from now on.
    fn heard(&self) {
        self.set.store(true, Ordering::Release);
    }
}

/// How long a thread looks for work before it sleeps.
///
/// A sleeper is woken some tens of µs late. Where packets follow each other in about that time it pays to stay awake for
/// the next; where they do not, and when none come, that would be processor time for nothing. So the time is doubled when
/// a sleep turns out to have been shorter than [`Awake::MOST`], and goes back to the least when one was longer: at most
/// [`Awake::MOST`] is wasted for each such pause.
///
/// A processor that rests for long rests deeply and takes longer to come back (`perhop bench idle --rate 100`, and with 1,000).
/// So while the last two packets that ended a sleep are less than a second ago no sleep is longer than [`Awake::NAP`]. That takes
/// some hundredths of a processor, and nothing when packets have ceased to come, or one a second is what a network without
/// traffic has to say.
///
/// Source: the same rule as for halted virtual processors in Linux `Documentation/virt/guest-halt-polling.rst`.
#[derive(Debug)]
pub(crate) struct Awake {
    /// `None`: always.
    window: Option<Duration>,
    /// When packets last ended a sleep: the last time, and the one before.
    input_at: [Option<Instant>; 2],
}

impl Awake {
    /// Packets often come in groups.
    const LEAST: Duration = Duration(2_000);
    /// About what a sleeper is late: longer sleeps cost less than they spare.
    const MOST: Duration = Duration(50_000);
    /// The longest sleep while packets come now and then.
    pub(crate) const NAP: Duration = Duration(1_000_000);
    /// How long after two packets another one is expected.
    const LATELY: Duration = Duration(1_000_000_000);

    pub(crate) fn new(waiting: Waiting) -> Self {
        Self { window: (waiting == Waiting::Adaptive).then_some(Self::LEAST), input_at: [None; 2] }
    }

    /// Whether to go on looking, so long after the last work.
    pub(crate) fn stays(&self, idle: Duration) -> bool {
        self.window.is_none_or(|window| idle < window)
    }

    /// Whether the next sleep should not be a long one.
    pub(crate) fn naps(&self, now: Instant) -> bool {
        self.input_at[1].is_some_and(|at| now.since(at) < Self::LATELY)
    }

    /// A sleep that is over at `now` began so long after the last work. Was it ended by input?
    pub(crate) fn slept(&mut self, now: Instant, idle: Duration, input: bool) {
        if input {
            self.input_at = [Some(now), self.input_at[0]];
        }
        let Some(window) = &mut self.window else { return };
        if idle > Self::MOST {
            *window = Self::LEAST;
        } else if input {
            *window = Duration(window.0 * 2).min(Self::MOST);
        }
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// Whether a port has input, as far as a sleep was ended by it.
    pub(crate) input: bool,
    /// Bits of ports whose socket reports an error.
    pub(crate) errors: u64,
    /// Bits of ports at which what this host itself sends comes out no more.
    pub(crate) own_gone: u64,
    /// How long others had the processor.
    pub(crate) slept: Duration,
}

/// Sleeps precisely. The kernel wakes a sleeper some tens of µs late; as much as it lately was late is slept less and
/// spun instead.
#[derive(Debug)]
pub(crate) struct Waiter {
    slack: Duration,
}

impl Waiter {
    /// Also asks the kernel for its finest timers on this thread.
    pub(crate) fn new() -> Self {
        if let Some(ns) = NonZeroU64::new(1) {
            let _ = rustix::thread::set_current_timer_slack(Some(ns));
        }
        Self { slack: Duration(15_000) }
    }

    /// Waits until a port has input, `wake` is called or `deadline` is there (or about to be).
    pub(crate) fn wait<'p>(
        &mut self,
        mut now: Instant,
        deadline: Option<Instant>,
        awake: &Awake,
        wake: &Wake,
        ports: impl Iterator<Item = Ends<'p>> + Clone,
    ) -> Woken {
        let mut all = Duration(0);
        loop {
            if wake.is_set() {
                return Woken { slept: all, ..Woken::default() };
            }
            let left = deadline.map(|d| d.since(now));
            if left.is_some_and(|l| l <= self.slack) {
                let input = spin(deadline.unwrap_or(now), wake, ports);
                return Woken { input, slept: all, ..Woken::default() };
            }
            let whole = left.map(|l| Duration(l.0 - self.slack.0));
            let nap = awake.naps(now).then_some(Awake::NAP);
            let timeout = [whole, nap].into_iter().flatten().min();
            let before = clock::monotonic();
            let woken = sleep(timeout, wake, ports.clone());
            let after = clock::monotonic();
            all = Duration(all.0 + after.since(before).0);
            // Only a sleep that was not ended early says how late the kernel is.
            let slept = timeout.filter(|t| woken == Woken::default() && after >= now + *t);
            if let Some(timeout) = slept {
                self.learn(after.since(now + timeout));
            }
            if slept.is_none() || slept == whole {
                return Woken { slept: all, ..woken };
            }
            now = after;
        }
    }

    /// Rises at once, falls slowly.
    fn learn(&mut self, late: Duration) {
        let wanted = late.0 + LEAST_SLACK.0;
        let falling = self.slack.0 - self.slack.0 / 16;
        self.slack = Duration(wanted.max(falling).clamp(LEAST_SLACK.0, MOST_SLACK.0));
    }
}

/// Looks on until then, or until there is something to do. Whether that is input.
fn spin<'p>(deadline: Instant, wake: &Wake, ports: impl Iterator<Item = Ends<'p>> + Clone) -> bool {
    while clock::monotonic() < deadline && !wake.is_set() {
        if ports.clone().filter_map(|(socket, _)| socket).any(DevicePort::has_input) {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

fn sleep<'p>(timeout: Option<Duration>, wake: &Wake, ports: impl Iterator<Item = Ends<'p>>) -> Woken {
    let event = wake.fd.as_fd();
    let mut fds: [PollFd<'_>; 2 * MAX_PORTS + 1] =
        array::from_fn(|_| PollFd::from_borrowed_fd(event, PollFlags::IN));
    let mut bits = [0u8; 2 * MAX_PORTS + 1];
    let mut n = 1;
    for (i, (port, own)) in ports.enumerate().take(MAX_PORTS) {
        if let Some(own) = own {
            fds[n] = PollFd::from_borrowed_fd(own.as_fd(), PollFlags::IN);
            bits[n] = OWN | i as u8;
            n += 1;
        }
        let Some(port) = port else { continue };
        // Not for room to send: a packet socket says there is some when its send buffer is half empty, whatever its
        // ring holds. Full rings have a deadline instead.
        fds[n] = PollFd::from_borrowed_fd(port.as_fd(), PollFlags::IN);
        bits[n] = i as u8;
        n += 1;
    }
    let timeout = timeout
        .map(|t| Timespec { tv_sec: (t.0 / 1_000_000_000) as i64, tv_nsec: (t.0 % 1_000_000_000) as i64 });
    let mut woken = Woken::default();
    // An interrupted call is an early wake-up, which is harmless.
    if poll(&mut fds[..n], timeout.as_ref()).is_ok() {
        if fds[0].revents().contains(PollFlags::IN) {
            wake.heard();
        }
        for (fd, bit) in fds[..n].iter().zip(bits).skip(1) {
            if fd.revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                let which = if bit & OWN == 0 { &mut woken.errors } else { &mut woken.own_gone };
                *which |= 1 << (bit & !OWN);
            }
            woken.input |= fd.revents().contains(PollFlags::IN);
        }
    }
    woken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets at these gaps, µs, each ending a sleep if the thread went to one. How long it was awake for nothing, and
    /// how often it slept.
    fn wait_for(awake: &mut Awake, gaps: impl Iterator<Item = u64>) -> (u64, u64) {
        let (mut looked, mut sleeps) = (0, 0);
        for gap in gaps {
            if awake.stays(Duration(gap * 1000)) {
                looked += gap;
                continue;
            }
            looked += awake.window.map_or(gap, |window| window.0 / 1000);
            sleeps += 1;
            awake.slept(Instant::ZERO, Duration(gap * 1000), true);
        }
        (looked, sleeps)
    }

    #[test]
    fn a_thread_stays_awake_for_packets_that_come_soon_and_sleeps_for_others() {
        let mut awake = Awake::new(Waiting::Adaptive);
        let (_, sleeps) = wait_for(&mut awake, (0..1000).map(|_| 30));
        assert_eq!(sleeps, 4, "2, 4, 8, 16 µs: then it stays awake");
        // The first pause costs what was learnt, those after it the least.
        let (looked, sleeps) = wait_for(&mut awake, (0..1000).map(|_| 10_000));
        assert_eq!((looked, sleeps), (32 + 999 * 2, 1000));
        // A timer is no traffic.
        awake.slept(Instant::ZERO, Duration(10_000), false);
        assert!(!awake.stays(Awake::LEAST));
    }

    #[test]
    fn never_is_more_than_the_most_wasted_for_a_pause() {
        let mut awake = Awake::new(Waiting::Adaptive);
        let gaps = (0..100_000u64).map(|i| [7, 49, 51, 3, 20, 1_000, 45, 45, 45, 45][(i * 7 % 10) as usize]);
        for gap in gaps {
            let before = awake.window.unwrap();
            assert!((Awake::LEAST..=Awake::MOST).contains(&before));
            wait_for(&mut awake, std::iter::once(gap));
        }
        assert!(!awake.stays(Awake::MOST));
    }

    #[test]
    fn who_polls_never_sleeps() {
        let mut awake = Awake::new(Waiting::Poll);
        awake.slept(Instant::ZERO, Duration(1_000_000_000), false);
        assert!(awake.stays(Duration(u64::MAX)));
    }

    #[test]
    fn sleeps_are_short_while_two_packets_that_ended_one_are_less_than_a_second_ago() {
        let mut awake = Awake::new(Waiting::Adaptive);
        let at = |ms: u64| Instant(ms * 1_000_000);
        assert!(!awake.naps(at(0)), "none came yet");
        awake.slept(at(10), Duration(5_000_000), true);
        assert!(!awake.naps(at(10)), "one is no traffic");
        awake.slept(at(20), Duration(5_000_000), false);
        assert!(!awake.naps(at(20)), "nor is a timer");
        awake.slept(at(30), Duration(5_000_000), true);
        assert!(awake.naps(at(30)) && awake.naps(at(1_009)) && !awake.naps(at(1_010)));
        for second in 2..10 {
            awake.slept(at(second * 1_000 + 30), Duration(5_000_000), true);
            assert!(!awake.naps(at(second * 1_000 + 30)), "one a second");
        }
    }

    #[test]
    fn naps_end_at_the_deadline_and_not_before() {
        let wake = Wake::new().unwrap();
        let mut awake = Awake::new(Waiting::Adaptive);
        let start = clock::monotonic();
        for _ in 0..2 {
            awake.slept(start, Duration(0), true);
        }
        let deadline = start + Duration(Awake::NAP.0 * 3 + 700_000);
        let mut waiter = Waiter::new();
        let mut waits = 0;
        // What is left when a wait ends is short enough to be spun.
        while clock::monotonic() < deadline {
            let woken = waiter.wait(clock::monotonic(), Some(deadline), &awake, &wake, std::iter::empty());
            assert_eq!(Woken { slept: Duration(0), ..woken }, Woken::default());
            waits += 1;
        }
        assert!(waits <= 2, "{waits}");
        wake.wake();
        waiter.wait(clock::monotonic(), None, &awake, &wake, std::iter::empty());
    }

    #[test]
    fn an_event_that_comes_behind_its_call_ends_one_sleep_and_no_more() {
        let wake = Wake::new().unwrap();
        assert!(!wake.set.swap(true, Ordering::AcqRel), "the first half of a call");
        assert!(wake.take());
        rustix::io::write(&wake.fd, &1u64.to_ne_bytes()).unwrap();
        let awake = Awake::new(Waiting::Adaptive);
        let mut waiter = Waiter::new();
        let mut taken = 0;
        for _ in 0..5 {
            let now = clock::monotonic();
            waiter.wait(now, Some(now + Duration(1_000_000)), &awake, &wake, std::iter::empty());
            taken += u32::from(wake.take());
        }
        assert_eq!(taken, 1);
        assert!(rustix::io::read(&wake.fd, &mut [0u8; 8]).is_err(), "nothing is left to read");
    }
}
