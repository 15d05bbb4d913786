//! The loop that moves packets between ports and a [`Forwarder`].
//!
//! One turn: a batch from each port in rotation, due timers, transmit queues to the ports, one slice of a waiting job,
//! messages. A turn without work waits: it goes on for as long as traffic makes it worth it, then sleeps in `ppoll(2)` until
//! a port, a message or the next timer. A real-time thread rests besides, work or not. How late timers are served is measured.

use crate::forwarder::{Forwarder, Notice, Step};
use crate::inlet::Inlet;
use crate::machine::{Scheduling, pool_counters, schedule};
use crate::port::LivePort;
use crate::recorder::Recorder;
use crate::report::{Recording, Row};
use crate::rest::Rest;
use crate::survey::{SLICE, Survey};
use crate::wait::{Awake, Waiter, Wake};
use crossbeam_channel::Receiver;
use perhop_element::Histogram;
use perhop_io::{DevicePort, clock};
use perhop_packet::{Batch, PortId};
use perhop_routerfile::Waiting;
use perhop_units::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

/// A ring that the kernel did not empty, or that is full, is tried again after this long: a card sends the frames of a
/// ring in about that time, and nothing else tells when it takes more.
const RETRY: Duration = Duration(50_000);

/// Notices for which there was no room are told again after this long.
const TELL_AGAIN: Duration = Duration(1_000_000);

/// A busy thread looks for what this host itself sends once in this time.
const OWN_LOOK: Duration = Duration(50_000);

/// Jobs taken from the inlet at most; more wait there, which slows down whoever sends them.
const JOBS: usize = 256;

/// What a packet thread is told.
pub(crate) enum Message<F: Forwarder> {
    /// Work for the forwarder, one after the other.
    Job(F::Job),
    /// A port's interface is back: its socket, and the number of it, which is higher than that of the one before.
    PortUp(PortId, u32, Box<DevicePort>),
    /// A port's interface is down or gone.
    PortDown(PortId),
    /// The link behind a port is to be watched, or not any more.
    Watch(PortId, bool),
    /// Call, between two batches, with the rows of ports, pool and driver. For what is small, or for tests.
    Count(Count<F>),
    /// Count, a slice between two batches, after the jobs that came before.
    Survey(Box<dyn Survey<F>>),
    /// Call between two batches.
    Ask(Ask<F>),
    /// Begin sampling.
    Record(Duration),
    /// End.
    Stop,
}

/// Called on the packet thread: must be quick.
pub(crate) type Count<F> = Box<dyn FnOnce(Instant, Vec<Row>, &mut F) + Send>;

/// Called on the packet thread: must be quick.
pub(crate) type Ask<F> = Box<dyn FnOnce(&mut F) + Send>;

/// What is done in slices, one after the other.
enum Work<F: Forwarder> {
    Job(F::Job),
    /// With the rows of the ports that were counted already.
    Survey(Box<dyn Survey<F>>, Vec<Row>),
}

/// What is left when a packet thread ends.
pub(crate) struct Ended<F> {
    pub(crate) forwarder: F,
    pub(crate) rows: Vec<Row>,
    pub(crate) recording: Option<Recording>,
}

pub(crate) struct PacketThread<F: Forwarder> {
    forwarder: F,
    ports: Vec<LivePort>,
    /// First port of the next turn.
    turn: usize,
    messages: Receiver<Message<F>>,
    wake: Arc<Wake>,
    jobs: VecDeque<Work<F>>,
    batch: Batch,
    /// Ports whose ring is full.
    blocked: u64,
    /// Ports whose ring holds frames that the kernel has not taken.
    pending: u64,
    /// When to try `blocked` and `pending` again.
    retry: Instant,
    /// When to look again for what this host itself sends: nothing but a system call tells.
    own_due: Instant,
    /// Whether notices wait for room on their way.
    untold: bool,
    /// How late timers are served, ns: the driver error of a live router.
    late: Histogram,
    /// When the forwarder's next timer is due, as of the end of the last turn.
    due: Option<Instant>,
    now: Instant,
    last_work: Instant,
    recorder: Option<Recorder>,
    longest_slice: Duration,
    turns: u64,
    sleeps: u64,
    local: u64,
    /// Never sleeps, and polls cards that have to be.
    polls: bool,
    stop: bool,
}

/// The calling end of a packet thread.
pub(crate) struct Line<F: Forwarder> {
    pub(crate) messages: Inlet<Message<F>>,
    pub(crate) wake: Arc<Wake>,
}

impl<F: Forwarder> Clone for Line<F> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), wake: self.wake.clone() }
    }
}

impl<F: Forwarder> Line<F> {
    /// `false` when the thread is gone.
    pub(crate) fn send(&self, message: Message<F>) -> bool {
        let sent = self.messages.send(message);
        self.wake.wake();
        sent
    }
}

impl<F: Forwarder> PacketThread<F> {
    pub(crate) fn new(
        forwarder: F,
        ports: Vec<LivePort>,
        messages: Receiver<Message<F>>,
        wake: Arc<Wake>,
    ) -> Self {
        let now = clock::monotonic();
        Self {
            forwarder,
            ports,
            turn: 0,
            messages,
            wake,
            jobs: VecDeque::new(),
            batch: Batch::new(),
            blocked: 0,
            pending: 0,
            retry: now,
            own_due: now,
            untold: false,
            late: Histogram::default(),
            due: None,
            now,
            last_work: now,
            recorder: None,
            longest_slice: Duration(0),
            turns: 0,
            sleeps: 0,
            local: 0,
            polls: false,
            stop: false,
        }
    }

    /// Runs until told to stop. Call on the thread that it is to run on, in the ports' namespace.
    pub(crate) fn run(mut self, scheduling: Scheduling) -> Ended<F> {
        let real_time = schedule(scheduling);
        let mut waiter = Waiter::new();
        let mut awake = Awake::new(scheduling.waiting);
        self.polls = scheduling.waiting == Waiting::Poll;
        self.now = clock::monotonic();
        for i in 0..self.ports.len() {
            self.forwarder.port_up(self.now, self.ports[i].id);
            self.update_room(i);
        }
        // Who polls has a processor for itself.
        let mut rest = (real_time && !self.polls).then(|| Rest::new(self.now));
        while !self.stop {
            let worked = self.one_turn();
            if worked {
                self.last_work = self.now;
            }
            // While all threads stand for a change each of them holds up the others.
            if !self.forwarder.is_halted() && rest.as_mut().is_some_and(|rest| rest.is_due(self.now)) {
                let before = clock::monotonic();
                std::thread::sleep(Rest::LENGTH.to_std());
                let now = clock::monotonic();
                rest.iter_mut().for_each(|rest| rest.took(now, now.since(before)));
                continue;
            }
            if worked || !self.jobs.is_empty() || awake.stays(self.now.since(self.last_work)) {
                continue;
            }
            self.sleeps += 1;
            let sample = self.recorder.as_ref().map(Recorder::next);
            let retry = (self.blocked | self.pending != 0).then_some(self.retry);
            let untold = self.untold.then_some(self.now + TELL_AGAIN);
            let deadline = [self.due, sample, retry, untold].into_iter().flatten().min();
            if !self.forwarder.doze() {
                continue;
            }
            let ports = self.ports.iter().map(|port| (port.socket(), port.own()));
            let woken = waiter.wait(self.now, deadline, &awake, &self.wake, ports);
            self.forwarder.rouse();
            let now = clock::monotonic();
            rest.iter_mut().for_each(|rest| rest.took(now, woken.slept));
            awake.slept(now, now.since(self.last_work), woken.input);
            self.own_due = now;
            for i in 0..self.ports.len() {
                if woken.own_gone & (1 << i) != 0 {
                    self.ports[i].forget_own();
                }
                if woken.errors & (1 << i) != 0 && self.ports[i].check_link().is_err() {
                    self.lose(i);
                }
            }
        }
        self.end()
    }

    fn one_turn(&mut self) -> bool {
        self.turns += 1;
        let before = self.now;
        self.now = clock::monotonic();
        if self.forwarder.is_halted() {
            return self.halted_turn();
        }
        // An emulated network takes frames at the instants they came: first what came, then what was due since.
        let mut worked = !F::BY_STAMP && self.run_timers(before);
        for k in 0..self.ports.len() {
            let i = (self.turn + k) % self.ports.len();
            worked |= self.receive(i);
        }
        worked |= self.take_own();
        if F::BY_STAMP {
            worked |= self.run_timers(before);
        }
        worked |= self.forwarder.exchange(&mut || {
            self.now = clock::monotonic();
            self.now
        });
        self.turn = (self.turn + 1) % self.ports.len().max(1);
        for i in 0..self.ports.len() {
            worked |= self.transmit(i);
            if let Some(seen) = self.ports[i].look_behind(self.now) {
                self.forwarder.notice(Notice::Behind(self.ports[i].id, seen));
            }
        }
        let local = self.forwarder.local_queue();
        // The packet socket saw a copy; the kernel has the frame itself.
        self.local += local.len() as u64;
        local.release_all();
        self.run_job();
        self.untold = !self.forwarder.turn_ended(self.now);
        self.sample();
        if self.wake.take() {
            worked = true;
            self.read_messages();
        }
        self.due = self.forwarder.next_wakeup();
        worked
    }

    /// Other threads are to get as far as this one with a change: in the time of a batch each.
    fn halted_turn(&mut self) -> bool {
        self.run_job();
        self.untold = !self.forwarder.turn_ended(self.now);
        if self.wake.take() {
            self.read_messages();
        }
        self.due = self.forwarder.next_wakeup();
        // Where threads are more than processors, the others need this one.
        std::thread::yield_now();
        true
    }

    /// `before` is the latest time the forwarder was given.
    fn run_timers(&mut self, before: Instant) -> bool {
        let mut worked = false;
        if let Some(due) = self.due.filter(|d| *d <= self.now) {
            self.late.record(self.now.since(due).0);
        }
        let floor = before.max(self.now - F::PRETEND);
        while let Some(due) = self.forwarder.next_wakeup().filter(|d| *d <= self.now) {
            self.forwarder.poll(due.max(floor));
            worked = true;
        }
        worked
    }

    fn receive(&mut self, i: usize) -> bool {
        let port = &mut self.ports[i];
        if self.polls && !port.has_input() {
            port.poll_card();
        }
        if !port.has_input() {
            return false;
        }
        // Frames came before now, but after the turn began, perhaps.
        self.now = clock::monotonic();
        let result = port.receive(self.now, self.forwarder.pool(), &mut self.batch);
        let (id, kernel) = (port.id, port.take_kernel_sent());
        if kernel.packets > 0 {
            self.forwarder.sent_by_kernel(self.now, id, kernel.packets, kernel.bytes);
        }
        if !self.batch.is_empty() {
            self.forwarder.receive(self.now, id, &mut self.batch);
            self.batch.release_all();
        }
        if result.is_err() {
            self.lose(i);
        }
        true
    }

    /// Takes what this host itself sends by the ports. While that is nothing it looks now and then.
    fn take_own(&mut self) -> bool {
        if self.now < self.own_due {
            return false;
        }
        let mut worked = false;
        for port in self.ports.iter_mut().filter(|port| port.own().is_some()) {
            port.receive_own(self.now, self.forwarder.pool(), &mut self.batch);
            if !self.batch.is_empty() {
                worked = true;
                self.forwarder.send_own(self.now, port.id, &mut self.batch);
                self.batch.release_all();
            }
        }
        if !worked {
            self.own_due = self.now + OWN_LOOK;
        }
        worked
    }

    fn transmit(&mut self, i: usize) -> bool {
        let (port, bit) = (&mut self.ports[i], 1 << i);
        let Some(queue) = self.forwarder.transmit_queue(port.id) else { return false };
        let waits = (self.blocked | self.pending) & bit != 0;
        if queue.is_empty() && !(waits && self.now >= self.retry) {
            return false;
        }
        let sent = port.transmit(self.now, queue);
        let rest = !queue.is_empty();
        match sent {
            Ok(room) => {
                let was = (self.blocked, self.pending);
                let full = rest || (room == 0 && port.socket().is_some());
                let pending = port.has_pending_output();
                self.blocked = self.blocked & !bit | u64::from(full) << i;
                self.pending = self.pending & !bit | u64::from(pending) << i;
                if full || pending {
                    self.retry = self.now + RETRY;
                }
                self.forwarder.set_port_room(self.now, port.id, room);
                was != (self.blocked, self.pending) || !(full || pending)
            }
            Err(_) => {
                self.lose(i);
                true
            }
        }
    }

    fn update_room(&mut self, i: usize) {
        let room = self.ports[i].room();
        self.forwarder.set_port_room(self.now, self.ports[i].id, room);
    }

    /// The socket of a port has failed.
    fn lose(&mut self, i: usize) {
        let (id, number) = (self.ports[i].id, self.ports[i].number());
        if self.close(i) {
            self.forwarder.notice(Notice::PortLost(id, number));
        }
    }

    /// Takes a port out of service, if it is not. Nobody is to open it again on this account.
    fn close(&mut self, i: usize) -> bool {
        let old = self.ports[i].replace(None);
        self.blocked &= !(1 << i);
        self.pending &= !(1 << i);
        let Some(old) = old else { return false };
        self.forwarder.port_down(self.now, self.ports[i].id);
        self.forwarder.notice(Notice::Closed(Box::new(old)));
        true
    }

    fn run_job(&mut self) {
        let Some(mut work) = self.jobs.pop_front() else { return };
        let done = match &mut work {
            Work::Job(job) => self.forwarder.run(self.now, job) == Step::Done,
            Work::Survey(survey, rows) => self.survey(&mut **survey, rows),
        };
        match work {
            Work::Job(job) if done => self.forwarder.finished(self.now, job),
            Work::Survey(survey, rows) if done => survey.finish(self.now, rows, &mut self.forwarder),
            more => self.jobs.push_front(more),
        }
    }

    /// A slice of a survey: a port after the other, the machine, then what the forwarder counts.
    fn survey(&mut self, survey: &mut dyn Survey<F>, rows: &mut Vec<Row>) -> bool {
        let begin = clock::monotonic();
        let mut spent = || clock::monotonic().since(begin) >= SLICE;
        let mut done = false;
        while !done {
            match rows.len() {
                i if i < self.ports.len() => rows.push(self.ports[i].row()),
                i if i == self.ports.len() => rows.extend(self.machine_rows()),
                _ => {
                    done = survey.slice(&mut self.forwarder, &mut spent) == Step::Done;
                    break;
                }
            }
            if spent() {
                break;
            }
        }
        self.longest_slice = self.longest_slice.max(clock::monotonic().since(begin));
        done
    }

    fn sample(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        if recorder.next() <= self.now {
            recorder.begin(self.now);
            self.forwarder.sample(self.now, recorder);
        }
    }

    fn read_messages(&mut self) {
        loop {
            if self.jobs.len() >= JOBS {
                self.wake.wake();
                break;
            }
            let Ok(message) = self.messages.try_recv() else { break };
            match message {
                Message::Job(job) => self.jobs.push_back(Work::Job(job)),
                Message::Survey(survey) => self.jobs.push_back(Work::Survey(survey, Vec::new())),
                Message::Ask(ask) => ask(&mut self.forwarder),
                Message::PortDown(id) => {
                    if let Some(i) = self.ports.iter().position(|p| p.id == id) {
                        self.close(i);
                    }
                }
                Message::PortUp(id, number, socket) => self.port_up(id, number, *socket),
                Message::Watch(id, watched) => {
                    if let Some(port) = self.ports.iter_mut().find(|port| port.id == id) {
                        port.watch(self.now, watched);
                    }
                }
                Message::Count(done) => {
                    let rows = self.rows();
                    done(self.now, rows, &mut self.forwarder);
                }
                Message::Record(interval) => self.recorder = Some(Recorder::new(self.now, interval)),
                Message::Stop => self.stop = true,
            }
        }
    }

    fn port_up(&mut self, id: PortId, number: u32, socket: DevicePort) {
        let Some(i) = self.ports.iter().position(|p| p.id == id) else { return };
        if let Some(old) = self.ports[i].replace(Some((number, socket))) {
            self.forwarder.notice(Notice::Closed(Box::new(old)));
        }
        self.forwarder.port_up(self.now, id);
        self.update_room(i);
    }

    fn rows(&mut self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.ports.iter_mut().map(LivePort::row).collect();
        rows.extend(self.machine_rows());
        rows
    }

    /// Of pool and driver.
    fn machine_rows(&self) -> [Row; 2] {
        let pool = self.forwarder.pool().counters();
        let mut pools = Row::new("pool", "pool");
        for (name, value) in pool_counters(&pool) {
            pools.counters.insert(name.to_owned(), value);
        }
        let mut row = Row::new("driver", "driver");
        for (name, value) in [
            ("timers", self.late.count()),
            ("timer_late_p50_ns", self.late.quantile(500)),
            ("timer_late_p99_ns", self.late.quantile(990)),
            ("timer_late_max_ns", self.late.max()),
            ("turns", self.turns),
            ("sleeps", self.sleeps),
            ("local_packets", self.local),
            ("notices_dropped", self.forwarder.notices_dropped()),
            ("survey_slice_max_ns", self.longest_slice.0),
        ] {
            row.counters.insert(name.to_owned(), value);
        }
        [pools, row]
    }

    fn end(mut self) -> Ended<F> {
        let rows = self.rows();
        let recording = self.recorder.map(|recorder| recorder.finish(self.forwarder.take_waits()));
        Ended { forwarder: self.forwarder, rows, recording }
    }
}
