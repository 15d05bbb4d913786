//! A router port on an interface: may go and come back, and may be captured.

use crate::behind::{Behind, Seen};
use crate::capture::Tap;
use crate::report::Row;
use perhop_element::Port as _;
use perhop_io::{DevicePort, af_packet::KernelSent};
use perhop_packet::{Batch, Pool, PortId};
use perhop_units::Instant;
use std::collections::BTreeMap;

/// Packets that may wait for a port beyond its ring: what elements without a queue of their own sent too fast.
pub(crate) const BACKLOG_LIMIT: usize = 1024;

pub(crate) struct LivePort {
    pub(crate) id: PortId,
    pub(crate) name: String,
    socket: Option<DevicePort>,
    /// Number of the last socket, the first being 0.
    number: u32,
    tap: Option<Tap>,
    /// Where what this host itself sends by the port comes out.
    own: Option<perhop_io::Tap>,
    /// Watches the link behind a port that has a rate.
    behind: Option<Behind>,
    /// Counters of sockets that are gone.
    past: BTreeMap<String, u64>,
    down_dropped: u64,
    overflow: u64,
    times_down: u64,
}

/// The interface went down or away.
pub(crate) struct Lost;

impl LivePort {
    pub(crate) fn new(id: PortId, name: String, socket: DevicePort, tap: Option<Tap>) -> Self {
        let past = BTreeMap::new();
        Self {
            id,
            name,
            socket: Some(socket),
            number: 0,
            tap,
            own: None,
            behind: None,
            past,
            down_dropped: 0,
            overflow: 0,
            times_down: 0,
        }
    }

    /// With what this host itself sends by it.
    pub(crate) fn with_own(self, own: Option<perhop_io::Tap>) -> Self {
        Self { own, ..self }
    }

    /// Watches what is behind it, or does not any more.
    pub(crate) fn watch(&mut self, now: Instant, watched: bool) {
        self.behind = watched.then(|| Behind::new(now));
    }

    /// What was seen of the link behind it, when there is something new.
    pub(crate) fn look_behind(&mut self, now: Instant) -> Option<Seen> {
        self.behind.as_mut()?.look(now)
    }

    /// Where what this host itself sends by it comes out.
    pub(crate) fn own(&self) -> Option<&perhop_io::Tap> {
        self.own.as_ref()
    }

    /// Its interface has gone: nothing comes out there any more, and who waits for it would not sleep.
    pub(crate) fn forget_own(&mut self) {
        if let Some(own) = self.own.take() {
            let mut last: Vec<(String, u64)> = Vec::new();
            own.counters(&mut last);
            self.keep(last);
        }
    }

    fn keep(&mut self, last: Vec<(String, u64)>) {
        for (name, value) in last {
            *self.past.entry(name).or_default() += value;
        }
    }

    /// Takes what this host itself wants to send by it.
    pub(crate) fn receive_own(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) {
        if let Some(own) = &mut self.own {
            own.receive(now, pool, batch);
        }
    }

    pub(crate) fn socket(&self) -> Option<&DevicePort> {
        self.socket.as_ref()
    }

    /// Which of the port's sockets, one after the other, is or was the last.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Puts another socket of a number in place; the old one comes back to be closed elsewhere.
    pub(crate) fn replace(&mut self, next: Option<(u32, DevicePort)>) -> Option<DevicePort> {
        self.number = next.as_ref().map_or(self.number, |(number, _)| *number);
        let mut old = std::mem::replace(&mut self.socket, next.map(|(_, socket)| socket));
        if let Some(old) = &mut old {
            self.times_down += u64::from(self.socket.is_none());
            let mut last: Vec<(String, u64)> = Vec::new();
            old.counters(&mut last);
            self.keep(last);
        }
        old
    }

    pub(crate) fn has_input(&self) -> bool {
        self.socket.as_ref().is_some_and(DevicePort::has_input)
    }

    /// Has the kernel look for frames, where it would be told by the card otherwise.
    pub(crate) fn poll_card(&mut self) {
        if let Some(socket) = &mut self.socket {
            socket.poll_card();
        }
    }

    pub(crate) fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) -> Result<usize, Lost> {
        let Some(socket) = &mut self.socket else { return Ok(0) };
        let n = socket.receive(now, pool, batch).map_err(|_| Lost)?;
        if let Some(behind) = &mut self.behind {
            let before = batch.len() - n;
            batch.as_slice()[before..].iter().for_each(|packet| behind.received(now, packet.frame()));
        }
        if let Some(tap) = &mut self.tap {
            tap.received(batch);
        }
        Ok(n)
    }

    pub(crate) fn take_kernel_sent(&mut self) -> KernelSent {
        self.socket.as_mut().map(DevicePort::take_kernel_sent).unwrap_or_default()
    }

    /// Sends what the ring takes; beyond [`BACKLOG_LIMIT`] the rest is dropped. Gives the room left.
    pub(crate) fn transmit(&mut self, now: Instant, queue: &mut Batch) -> Result<u32, Lost> {
        let Some(socket) = &mut self.socket else {
            self.down_dropped += queue.len() as u64;
            queue.release_all();
            return Ok(0);
        };
        if let Some(tap) = &mut self.tap {
            let room = socket.room() as usize;
            tap.sent(now, &queue.as_slice()[..room.min(queue.len())]);
        }
        if let Some(behind) = &mut self.behind {
            let room = socket.room() as usize;
            let goes = &queue.as_slice()[..room.min(queue.len())];
            goes.iter().for_each(|packet| behind.sent(now, packet.frame()));
        }
        let sent = socket.transmit(queue);
        while queue.len() > BACKLOG_LIMIT {
            if let Some(packet) = queue.pop() {
                self.overflow += 1;
                packet.release();
            }
        }
        sent.map_err(|_| Lost)?;
        Ok(socket.room())
    }

    /// Whether frames in the ring need another [`LivePort::transmit`].
    pub(crate) fn has_pending_output(&self) -> bool {
        self.socket.as_ref().is_some_and(DevicePort::has_pending_output)
    }

    pub(crate) fn room(&mut self) -> u32 {
        self.socket.as_mut().map_or(0, perhop_element::Port::room)
    }

    /// After `poll(2)` reported an error.
    pub(crate) fn check_link(&mut self) -> Result<(), Lost> {
        self.socket.as_mut().map_or(Ok(()), |s| s.check_link().map_err(|_| Lost))
    }

    pub(crate) fn row(&mut self) -> Row {
        let mut row = Row::new("port", &self.name);
        let mut now: Vec<(String, u64)> = Vec::new();
        if let Some(socket) = &mut self.socket {
            socket.counters(&mut now);
        }
        if let Some(own) = &self.own {
            own.counters(&mut now);
        }
        for (name, value) in self.past.iter().map(|(n, v)| (n.clone(), *v)).chain(now) {
            *row.counters.entry(name).or_default() += value;
        }
        if let Some(socket) = &self.socket {
            row.facts.insert("io".into(), socket.way());
        }
        row.facts.insert("state".into(), if self.socket.is_some() { "up" } else { "down" }.into());
        row.counters.insert("tx_down_dropped".into(), self.down_dropped);
        row.counters.insert("tx_overflow".into(), self.overflow);
        row.counters.insert("times_down".into(), self.times_down);
        if let Some(tap) = &self.tap {
            row.counters.insert("capture_lost".into(), tap.lost());
        }
        row
    }
}
