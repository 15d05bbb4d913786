//! Packets between the kernel's queue and the machine.

use super::machine::HostAbr;
use super::rows::HostPage;
use perhop_io::clock;
use perhop_io::nfqueue::{Inbox, Message, Nfqueue, Verdicts, read};
use perhop_units::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// A call to stop is heard within this time.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often there is something to tell.
const TELLING: Duration = Duration::from_secs(1);
/// Rounds over the queue at the end, without rules that fill it.
const LAST_ROUNDS: usize = 1_000;

/// A queue and its machine.
#[derive(Debug)]
pub struct HostLoop {
    queue: Nfqueue,
    machine: HostAbr,
    inbox: Inbox,
    verdicts: Verdicts,
    /// Datagrams that could not be read, and answers that were errors: a packet was gone before its verdict.
    unreadable: u64,
    refused: u64,
}

impl HostLoop {
    /// A loop that has not begun.
    pub fn new(queue: Nfqueue, machine: HostAbr) -> Self {
        let verdicts = Verdicts::new(queue.number());
        Self { queue, machine, inbox: Inbox::new(), verdicts, unreadable: 0, refused: 0 }
    }

    /// Its machine.
    pub fn machine(&self) -> &HostAbr {
        &self.machine
    }

    /// What there is to show now.
    pub fn page(&self) -> HostPage {
        HostPage::of(&self.machine, self.queue.number(), clock::monotonic())
    }

    /// Messages of the kernel that could not be read, and verdicts for packets that were gone.
    pub fn oddities(&self) -> (u64, u64) {
        (self.unreadable, self.refused)
    }

    /// Answers for every packet until `stop`, then lets everything go that waits. `tell` is called every second; it must not
    /// wait.
    ///
    /// # Errors
    /// The socket's: the queue is gone, and packets pass.
    pub fn run(&mut self, stop: &AtomicBool, tell: &mut dyn FnMut(&HostAbr, Instant)) -> io::Result<()> {
        let mut next_telling = clock::monotonic() + TELLING;
        while !stop.load(Ordering::Relaxed) {
            let received = self.round()?;
            let now = clock::monotonic();
            if now >= next_telling {
                tell(&self.machine, now);
                next_telling = (next_telling + TELLING).max(now);
            }
            if received == 0 {
                let until = self.machine.next_wakeup().unwrap_or(next_telling).min(next_telling);
                self.wait(until.since(now).min(PATIENCE))?;
            }
        }
        self.machine.release_all(&mut self.verdicts);
        self.queue.send(&mut self.verdicts)?;
        for _ in 0..LAST_ROUNDS {
            if self.round()? == 0 {
                break;
            }
            self.machine.release_all(&mut self.verdicts);
            self.queue.send(&mut self.verdicts)?;
        }
        Ok(())
    }

    /// What has come, and what has waited long enough. How many datagrams there were.
    fn round(&mut self) -> io::Result<usize> {
        let received = self.queue.receive(&mut self.inbox)?;
        let now = clock::monotonic();
        self.machine.release(now, &mut self.verdicts);
        for index in 0..received {
            self.datagram(index);
            if self.verdicts.is_much() {
                self.queue.send(&mut self.verdicts)?;
            }
        }
        self.machine.tick(now);
        self.queue.send(&mut self.verdicts)?;
        Ok(received)
    }

    fn datagram(&mut self, index: usize) {
        let datagram = self.inbox.datagram_mut(index);
        let mut at = 0;
        loop {
            match read(datagram, at) {
                Ok(Some((message, next))) => {
                    at = next;
                    match message {
                        Message::Packet(queued) => {
                            let packet = &mut datagram[queued.payload.clone()];
                            self.machine.packet(clock::monotonic(), &queued, packet, &mut self.verdicts);
                        }
                        Message::Answer { error, .. } => self.refused += u64::from(error != 0),
                        Message::Other => {}
                    }
                }
                Ok(None) => return,
                Err(_) => {
                    self.unreadable += 1;
                    return;
                }
            }
        }
    }

    fn wait(&self, most: Duration) -> io::Result<()> {
        let mut fds = [PollFd::new(&self.queue, PollFlags::IN)];
        let timeout =
            Timespec { tv_sec: (most.0 / 1_000_000_000) as i64, tv_nsec: (most.0 % 1_000_000_000) as _ };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
