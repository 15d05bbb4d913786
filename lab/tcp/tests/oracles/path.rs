//! Two endpoints and the path between them, in virtual time: delay, a rate with a queue, and what a test does to each
//! segment. Small on purpose; the simulator proper is another crate.

use perhop_tcp::{Endpoint, Event, Segment, SegmentOut, State};
use perhop_units::{Duration, Instant};
use perhop_wire::Ecn;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What happens to a segment on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    pub lost: bool,
    pub later: Duration,
    pub copies: u8,
    pub window: Option<u16>,
}

impl Fate {
    pub const LOST: Self = Self { lost: true, ..Self::PASSED };
    pub const PASSED: Self = Self { lost: false, later: Duration::ZERO, copies: 1, window: None };
}

pub type Judge = Box<dyn FnMut(Instant, &SegmentOut) -> Fate>;

/// Queue management at the rate limit.
pub enum Queue {
    /// At most so many packets.
    Tail(usize),
    /// RFC 8289 with these values, and whether it marks instead of dropping.
    Codel(Codel),
}

/// One direction.
pub struct Link {
    pub delay: Duration,
    /// In bit/s, of bytes of TCP plus `overhead`.
    pub rate: Option<u64>,
    pub overhead: u64,
    pub queue: Queue,
    pub judge: Judge,
    waiting: VecDeque<(Instant, Segment, u64)>,
    waiting_bytes: u64,
    busy: bool,
    pub dropped: u64,
}

impl Link {
    pub fn new(delay: Duration) -> Self {
        Self {
            delay,
            rate: None,
            overhead: 20,
            queue: Queue::Tail(usize::MAX),
            judge: Box::new(|_, _| Fate::PASSED),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            busy: false,
            dropped: 0,
        }
    }
    pub fn judged(mut self, judge: impl FnMut(Instant, &SegmentOut) -> Fate + 'static) -> Self {
        self.judge = Box::new(judge);
        self
    }
    pub fn limited(mut self, rate: u64, queue: Queue) -> Self {
        (self.rate, self.queue) = (Some(rate), queue);
        self
    }
}

/// CoDel as RFC 8289 §5 gives it.
pub struct Codel {
    pub target: Duration,
    pub interval: Duration,
    pub mark: bool,
    pub count: u32,
    pub last_count: u32,
    pub dropping: bool,
    pub first_above: Option<Instant>,
    pub drop_next: Instant,
}

impl Codel {
    pub fn new(mark: bool) -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            mark,
            count: 0,
            last_count: 0,
            dropping: false,
            first_above: None,
            drop_next: Instant::ZERO,
        }
    }
    fn law(&self, from: Instant) -> Instant {
        from + Duration((self.interval.0 as f64 / libm::sqrt(f64::from(self.count))) as u64)
    }
    fn may_drop(&mut self, now: Instant, head: Option<Instant>, bytes_behind: u64) -> bool {
        let Some(queued) = head else {
            self.first_above = None;
            return false;
        };
        if now.since(queued) < self.target || bytes_behind < 1500 {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.interval);
                false
            }
            Some(at) => now > at,
        }
    }
}

type Waiting = VecDeque<(Instant, Segment, u64)>;

fn codel_next(
    codel: &mut Codel,
    now: Instant,
    queue: &mut Waiting,
    bytes: &mut u64,
    dropped: &mut u64,
) -> Option<Segment> {
    let pop = |queue: &mut Waiting, bytes: &mut u64| {
        let item = queue.pop_front();
        *bytes -= item.map_or(0, |item| item.2);
        item
    };
    let mut item = pop(queue, bytes);
    let mut may = codel.may_drop(now, item.map(|item| item.0), *bytes);
    if codel.dropping {
        if !may {
            codel.dropping = false;
        }
        while codel.dropping && now >= codel.drop_next {
            codel.count += 1;
            if codel.mark
                && let Some(item) = &mut item
                && item.1.ecn != Ecn::NotEct
            {
                item.1.ecn = Ecn::Ce;
                codel.drop_next = codel.law(now);
                break;
            }
            *dropped += 1;
            item = pop(queue, bytes);
            may = codel.may_drop(now, item.map(|item| item.0), *bytes);
            if may { codel.drop_next = codel.law(codel.drop_next) } else { codel.dropping = false }
        }
    } else if may {
        if codel.mark
            && let Some(item) = &mut item
            && item.1.ecn != Ecn::NotEct
        {
            item.1.ecn = Ecn::Ce;
        } else {
            *dropped += 1;
            item = pop(queue, bytes);
            codel.may_drop(now, item.map(|item| item.0), *bytes);
        }
        codel.dropping = true;
        let delta = codel.count - codel.last_count;
        let recent = now.since(codel.drop_next) < codel.interval.saturating_mul(16);
        codel.count = if delta > 1 && recent { delta } else { 1 };
        codel.last_count = codel.count;
        codel.drop_next = codel.law(now);
    }
    item.map(|item| item.1)
}

/// An endpoint with an application that writes so many bytes, closes, and reads at once.
pub struct End {
    pub endpoint: Endpoint,
    pub to_write: u64,
    pub closes: bool,
    pub read: u64,
    pub events: Vec<Event>,
    woken_for: Option<Instant>,
}

impl End {
    pub fn new(endpoint: Endpoint, to_write: u64, closes: bool) -> Self {
        Self { endpoint, to_write, closes, read: 0, events: Vec::new(), woken_for: None }
    }
    fn act(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.events.push(event);
        }
        self.read += self.endpoint.read(u64::MAX);
        if self.to_write > 0 {
            self.to_write -= self.endpoint.write(self.to_write);
        }
        let opened = !matches!(self.endpoint.state(), State::Listen | State::SynSent | State::SynReceived);
        if self.closes && self.to_write == 0 && opened {
            self.closes = false;
            self.endpoint.close();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrive(usize, usize),
    Wake(usize),
    Depart(usize),
}

/// The world.
pub struct Path {
    pub now: Instant,
    pub ends: [End; 2],
    /// `links[i]` leads away from `ends[i]`.
    pub links: [Link; 2],
    events: BinaryHeap<Reverse<(Instant, u64, What)>>,
    travelling: Vec<Option<Segment>>,
    free: Vec<usize>,
    sequence: u64,
    pub steps: u64,
}

impl Path {
    pub fn new(ends: [End; 2], links: [Link; 2], now: Instant) -> Self {
        let mut path = Self {
            now,
            ends,
            links,
            events: BinaryHeap::new(),
            travelling: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            steps: 0,
        };
        path.serve(0);
        path.serve(1);
        path
    }

    fn at(&mut self, when: Instant, what: What) {
        self.sequence += 1;
        self.events.push(Reverse((when, self.sequence, what)));
    }

    /// Lets an end act and send.
    pub fn serve(&mut self, end: usize) {
        self.ends[end].act();
        while let Some(segment) = self.ends[end].endpoint.poll_output(self.now) {
            self.depart(end, &segment);
        }
        self.ends[end].act();
        if let Some(at) = self.ends[end].endpoint.next_wakeup() {
            let known = self.ends[end].woken_for.is_some_and(|known| known <= at);
            if !known {
                self.ends[end].woken_for = Some(at);
                self.at(at, What::Wake(end));
            }
        }
    }

    fn depart(&mut self, from: usize, segment: &SegmentOut) {
        let fate = (self.links[from].judge)(self.now, segment);
        if fate.lost {
            self.links[from].dropped += 1;
            return;
        }
        let mut arriving = segment.arrived();
        if let Some(window) = fate.window {
            arriving.header.window = window;
        }
        for _ in 0..fate.copies {
            self.queue(from, arriving, segment.len() as u64, fate.later);
        }
    }

    fn queue(&mut self, from: usize, segment: Segment, len: u64, later: Duration) {
        let link = &mut self.links[from];
        if link.rate.is_none() {
            let delay = link.delay + later;
            self.travel(from, segment, delay);
            return;
        }
        if let Queue::Tail(limit) = link.queue
            && link.waiting.len() >= limit
        {
            link.dropped += 1;
            return;
        }
        let len = len + link.overhead;
        link.waiting.push_back((self.now, segment, len));
        link.waiting_bytes += len;
        if !link.busy {
            self.transmit(from);
        }
    }

    fn transmit(&mut self, from: usize) {
        let now = self.now;
        let link = &mut self.links[from];
        let next = match &mut link.queue {
            Queue::Tail(_) => link.waiting.pop_front().map(|(_, segment, len)| {
                link.waiting_bytes -= len;
                segment
            }),
            Queue::Codel(codel) => {
                codel_next(codel, now, &mut link.waiting, &mut link.waiting_bytes, &mut link.dropped)
            }
        };
        link.busy = next.is_some();
        if let Some(segment) = next {
            let len = segment.header.len() as u64 + u64::from(segment.payload_len) + link.overhead;
            let serial = Duration(len * 8 * 1_000_000_000 / link.rate.expect("limited links transmit"));
            let delay = link.delay + serial;
            self.travel(from, segment, delay);
            self.at(now + serial, What::Depart(from));
        }
    }

    fn travel(&mut self, from: usize, segment: Segment, delay: Duration) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.travelling.push(None);
            self.travelling.len() - 1
        });
        self.travelling[slot] = Some(segment);
        self.at(self.now + delay, What::Arrive(1 - from, slot));
    }

    /// The next event; `false` when there is none.
    pub fn step(&mut self) -> bool {
        let Some(Reverse((at, _, what))) = self.events.pop() else { return false };
        self.now = at;
        self.steps += 1;
        match what {
            What::Arrive(end, slot) => {
                let segment = self.travelling[slot].take().expect("a travelling segment");
                self.free.push(slot);
                self.ends[end].endpoint.handle_segment(at, &segment);
                self.serve(end);
            }
            What::Wake(end) => {
                if self.ends[end].woken_for.is_some_and(|known| known <= at) {
                    self.ends[end].woken_for = None;
                }
                self.serve(end);
            }
            What::Depart(link) => self.transmit(link),
        }
        true
    }

    /// Runs until `end` or until nothing is left to happen.
    pub fn run_until(&mut self, end: Instant) {
        while self.events.peek().is_some_and(|next| next.0.0 <= end) {
            self.step();
        }
    }
}
