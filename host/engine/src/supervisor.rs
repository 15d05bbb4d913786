//! The thread that ends a router: when it is told to, or when one of the router's threads has died.

use crate::capture::Capture;
use crate::death::{Stopping, ThreadDeath};
use crate::error::EngineError;
use crate::facts::FactsLine;
use crate::lines::Lines;
use crate::machine::Steal;
use crate::packet_thread::{Ended, Message};
use crate::prepared::Prepared;
use crate::report::{Recording, Report};
use crate::router_forwarder::RouterForwarder;
use crate::show::sums;
use crate::told::ToControl;
use crossbeam_channel::{Receiver, Sender, select};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// What a router has to say at its end.
#[derive(Debug, Default)]
pub struct StopReport {
    /// Final counters of ports, elements, pool and driver.
    pub report: Report,
    /// Queues over time, if recorded.
    pub recording: Option<Recording>,
    /// What could not be put back, if anything; the state file stays then.
    pub restore_error: Option<EngineError>,
    /// The thread whose death ended the router, if that was its end; `report` is without its counters then.
    pub failure: Option<ThreadDeath>,
}

/// Called once with the death of a thread, after the others have ended and the interfaces are as they were.
pub(crate) type OnFailure = Box<dyn FnOnce(&ThreadDeath) + Send>;

/// What a supervisor is told.
pub(crate) enum Order {
    /// Everything there is to end; comes first.
    Watch(Box<Running>),
    /// Call when a thread dies, or at once if one has.
    OnFailure(OnFailure),
    /// End everything.
    Stop,
}

/// What a router's packet thread leaves, unless it panicked.
pub(crate) type PacketHandle = JoinHandle<Option<Ended<RouterForwarder>>>;

/// The threads of a router, and what to put back after them.
pub(crate) struct Running {
    pub(crate) lines: Lines,
    pub(crate) inside: Sender<ToControl>,
    pub(crate) facts_line: Arc<FactsLine>,
    pub(crate) stopping: Stopping,
    pub(crate) packet: Vec<PacketHandle>,
    pub(crate) control: JoinHandle<()>,
    pub(crate) facts: JoinHandle<()>,
    pub(crate) capture: Option<Capture>,
    pub(crate) prepared: Prepared,
    pub(crate) steal: Steal,
}

impl Running {
    /// Stops forwarding and puts the interfaces back; threads that are dead already do not hinder it.
    fn end(self) -> StopReport {
        self.stopping.store(true, Ordering::Release);
        self.facts_line.stop.store(true, Ordering::Release);
        let _ = self.facts.join();
        // The control thread refuses what waits; then the packet threads may go.
        let _ = self.inside.send(ToControl::Stop);
        let _ = self.control.join();
        self.lines.to_all(|| Message::Stop);
        let mut report = StopReport::default();
        let ended: Vec<_> =
            self.packet.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect();
        let mut recordings = Vec::new();
        for Ended { forwarder, rows, recording } in ended {
            sums::add_rows(&mut report.report.rows, rows);
            sums::add_rows(&mut report.report.rows, forwarder.element_rows());
            recordings.extend(recording);
        }
        self.steal.add_to(&mut report.report.rows);
        report.recording = sums::of_recordings(recordings);
        if let Some(capture) = self.capture {
            capture.finish();
        }
        let mut prepared = self.prepared;
        report.restore_error = prepared.put_back().err();
        report
    }
}

/// Runs until told to stop, or until nobody is left who could tell.
pub(crate) fn supervise(orders: &Receiver<Order>, deaths: &Receiver<ThreadDeath>) -> StopReport {
    let mut running: Option<Box<Running>> = None;
    let mut report = StopReport::default();
    let mut watchers: Vec<OnFailure> = Vec::new();
    loop {
        select! {
            recv(deaths) -> death => if let (Ok(death), None) = (death, &report.failure) {
                tracing::error!("{death}");
                if let Some(running) = running.take() {
                    report = running.end();
                }
                watchers.drain(..).for_each(|tell| tell(&death));
                report.failure = Some(death);
            },
            recv(orders) -> order => match order {
                Ok(Order::Watch(all)) => running = Some(all),
                Ok(Order::OnFailure(tell)) => match &report.failure {
                    Some(death) => tell(death),
                    None => watchers.push(tell),
                },
                Ok(Order::Stop) | Err(_) => break,
            },
        }
        // A thread that died before it was handed over.
        if report.failure.is_some()
            && let Some(running) = running.take()
        {
            let failure = report.failure.take();
            report = StopReport { failure, ..running.end() };
        }
    }
    if let Some(running) = running.take() {
        report = running.end();
        // One that died while it was being stopped.
        report.failure = deaths.try_recv().ok();
    }
    report
}
