//! A port without a link: what is put in is received, what is transmitted can be taken.

use perhop_element::{CounterSink, Port, PortError};
use perhop_packet::{Batch, DropReason, Pool};
use perhop_units::Instant;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Default)]
struct Shared {
    to_router: VecDeque<Vec<u8>>,
    from_router: VecDeque<Vec<u8>>,
    room: Option<u32>,
    down: bool,
}

/// The router's end of a memory link.
#[derive(Debug)]
pub struct MemoryPort {
    name: String,
    shared: Arc<Mutex<Shared>>,
    rx: (u64, u64),
    tx: (u64, u64),
    no_buffer: u64,
}

/// The other end.
#[derive(Clone, Debug)]
pub struct MemoryPeer {
    shared: Arc<Mutex<Shared>>,
}

impl MemoryPort {
    /// A port called `name` and its other end.
    pub fn new(name: &str) -> (Self, MemoryPeer) {
        let shared = Arc::<Mutex<Shared>>::default();
        let port =
            Self { name: name.to_owned(), shared: shared.clone(), rx: (0, 0), tx: (0, 0), no_buffer: 0 };
        (port, MemoryPeer { shared })
    }
}

impl MemoryPeer {
    /// Sends a frame to the router.
    pub fn send(&self, frame: &[u8]) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).to_router.push_back(frame.to_vec());
    }
    /// Takes the next frame the router sent.
    pub fn receive(&self) -> Option<Vec<u8>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).from_router.pop_front()
    }
    /// Limits how many frames the router may send before some are taken; `None` = no limit.
    pub fn set_room(&self, room: Option<u32>) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).room = room;
    }
    /// Takes the link down or up.
    pub fn set_down(&self, down: bool) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).down = down;
    }
}

impl Port for MemoryPort {
    fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) -> Result<usize, PortError> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.down {
            return Err(PortError::Down { port: self.name.clone() });
        }
        let mut n = 0;
        while !batch.is_full() {
            let Some(frame) = shared.to_router.pop_front() else { break };
            match pool.packet(&frame) {
                Some(mut packet) => {
                    packet.meta_mut().received_at = now;
                    self.rx.0 += 1;
                    self.rx.1 += frame.len() as u64;
                    batch.push(packet);
                    n += 1;
                }
                None => self.no_buffer += 1,
            }
        }
        Ok(n)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.down {
            return Err(PortError::Down { port: self.name.clone() });
        }
        let room = shared.room.map_or(usize::MAX, |r| (r as usize).saturating_sub(shared.from_router.len()));
        let mut n = 0;
        for packet in batch.drain_first(room) {
            self.tx.0 += 1;
            self.tx.1 += packet.len() as u64;
            shared.from_router.push_back(packet.frame().to_vec());
            packet.release();
            n += 1;
        }
        Ok(n)
    }

    fn room(&mut self) -> u32 {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.room.map_or(u32::MAX, |r| r.saturating_sub(shared.from_router.len() as u32))
    }

    fn counters(&mut self, sink: &mut dyn CounterSink) {
        sink.counter("rx_packets", self.rx.0);
        sink.counter("rx_bytes", self.rx.1);
        sink.counter(&format!("rx_{}", DropReason::NoBuffer.name()), self.no_buffer);
        sink.counter("tx_packets", self.tx.0);
        sink.counter("tx_bytes", self.tx.1);
    }
}
