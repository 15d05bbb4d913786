//! What the packet thread drives: a router's worker or an emulated link.

use crate::behind::Seen;
use perhop_element::CounterSink;
use perhop_elements::queue::Wait;
use perhop_io::DevicePort;
use perhop_packet::{Batch, Pool, PortId};
use perhop_units::{Duration, Instant};

/// What a packet thread tells of its own accord.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The port's socket, the one of this number, reported that the interface is down or gone: it wants another.
    PortLost(PortId, u32),
    /// A socket that is no longer used, whatever the reason, to be closed elsewhere: that takes long.
    Closed(Box<DevicePort>),
    /// What round trips say of the link behind a port.
    Behind(PortId, Seen),
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Let packets pass and call again.
    More,
    /// Finished.
    Done,
}

/// A packet processor without I/O; the packet thread feeds it. `now` never goes back.
pub(crate) trait Forwarder: Send + 'static {
    /// Work done in slices between batches.
    type Job: Send;
    /// A timer that is served late by no more than this is told the time it was due: an emulated line then loses
    /// nothing of its rate. Zero where elements have their own way to catch up.
    const PRETEND: Duration;
    /// Frames are taken at the instants of their stamps, before the timers that fell due since, however late the thread is.
    const BY_STAMP: bool = false;

    fn pool(&self) -> &Pool;
    fn receive(&mut self, now: Instant, port: PortId, batch: &mut Batch);
    /// What this host itself sends by a port.
    fn send_own(&mut self, _now: Instant, _port: PortId, batch: &mut Batch) {
        batch.release_all();
    }
    fn poll(&mut self, now: Instant) -> usize;
    fn next_wakeup(&mut self) -> Option<Instant>;
    fn transmit_queue(&mut self, port: PortId) -> Option<&mut Batch>;
    fn local_queue(&mut self) -> &mut Batch;
    fn set_port_room(&mut self, now: Instant, port: PortId, packets: u32);
    fn sent_by_kernel(&mut self, now: Instant, port: PortId, packets: u64, bytes: u64);
    fn port_down(&mut self, now: Instant, port: PortId);
    fn port_up(&mut self, now: Instant, port: PortId);
    /// One slice, 20 µs at most.
    fn run(&mut self, now: Instant, job: &mut Self::Job) -> Step;
    /// A job is done; called after the slice that finished it.
    fn finished(&mut self, now: Instant, job: Self::Job);
    /// Tell the outside of a port.
    fn notice(&mut self, notice: Notice);
    /// Goes on with what other threads handed over; `clock` is asked after it was taken. `false` when there was nothing.
    fn exchange(&mut self, _clock: &mut dyn FnMut() -> Instant) -> bool {
        false
    }
    /// Whether it waits for other threads: then only [`Forwarder::run`] and what is transmitted goes on.
    fn is_halted(&self) -> bool {
        false
    }
    /// The thread is about to sleep. `false` when there is something to do, and it must not.
    fn doze(&mut self) -> bool {
        true
    }
    /// The thread is awake again.
    fn rouse(&mut self) {}
    /// Called after every turn of the loop: tell the outside what happened. `false` when something could not be told yet:
    /// another turn must follow soon.
    fn turn_ended(&mut self, now: Instant) -> bool;
    /// Notices that were dropped because the outside did not keep up.
    fn notices_dropped(&self) -> u64;
    /// Gauges for the recorder; from the first time on, how long packets wait is kept for [`Forwarder::take_waits`].
    fn sample(&mut self, now: Instant, sink: &mut dyn CounterSink);
    /// How long packets waited, by queue, in the order in which they left it; keeps no more until the next sample.
    fn take_waits(&mut self) -> Vec<(String, Vec<Wait>)>;
}
