//! The loop on a thread of its own.

use super::machine::{HostAbr, HostAbrConfig};
use super::rows::HostPage;
use super::running::HostLoop;
use perhop_io::nfqueue::{Nfqueue, NfqueueConfig, NfqueueError};
use perhop_routerfile::host::HostFile;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

/// Part of the queue that held acknowledgments may take; when it is full, packets pass unseen.
const HELD_PART: u32 = 4;

/// Why a host's rate control does not start or go on. The text says what, then what to do about it.
#[derive(Debug, Error)]
pub enum HostAbrError {
    /// The queue cannot be opened.
    #[error("{0}")]
    Queue(#[from] NfqueueError),
    /// The operating system gives no thread.
    #[error("cannot start the packet thread: {0}\nCheck the limit on threads.")]
    NoThread(io::Error),
    /// The queue was lost.
    #[error("the packet queue is gone: {0}\nPackets pass; start it again.")]
    Lost(io::Error),
    /// The thread ended by itself.
    #[error("the packet thread died; packets pass\nThis is a fault of the program.")]
    Died,
}

/// A thread that carries packets between the kernel's queue and its machine.
#[derive(Debug)]
pub struct HostThread {
    thread: JoinHandle<(HostLoop, io::Result<()>)>,
    stop: Arc<AtomicBool>,
    pages: Receiver<HostPage>,
}

impl HostThread {
    /// Opens the queue and answers for its packets from now on. With `tells` there is a page every second.
    ///
    /// # Errors
    /// The queue cannot be opened, or there is no thread to be had.
    pub fn start(config: &NfqueueConfig, file: HostFile, tells: bool) -> Result<Self, HostAbrError> {
        let queue = Nfqueue::open(config)?;
        let machine = HostAbr::new(HostAbrConfig {
            connections: file.connections as usize,
            held: (config.length / HELD_PART) as usize,
            policies: file.policies,
            link: file.rate,
            // Nobody outside may guess which connections share a place in the table.
            seed: RandomState::new().hash_one(config.queue),
        });
        let (tell, pages) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, number) = (Arc::clone(&stop), queue.number());
        let mut host = HostLoop::new(queue, machine);
        let work = move || {
            let ended = host.run(&stopped, &mut |machine, now| {
                if tells {
                    // A reader that is slow misses some; packets do not wait for it.
                    let _ = tell.try_send(HostPage::of(machine, number, now));
                }
            });
            (host, ended)
        };
        let thread = std::thread::Builder::new().name("packets".into()).spawn(work);
        Ok(Self { thread: thread.map_err(HostAbrError::NoThread)?, stop, pages })
    }

    /// The next page, if there is one in time.
    pub fn page(&self, within: Duration) -> Option<HostPage> {
        self.pages.recv_timeout(within).ok()
    }

    /// Whether it has ended by itself; [`HostThread::end`] says why.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it, when nothing is sent to the queue any more, and lets go what waits.
    ///
    /// # Errors
    /// It has ended by itself before.
    pub fn end(self) -> Result<HostLoop, HostAbrError> {
        self.stop.store(true, Ordering::Relaxed);
        let (host, ended) = self.thread.join().map_err(|_| HostAbrError::Died)?;
        ended.map_err(HostAbrError::Lost).map(|()| host)
    }
}
