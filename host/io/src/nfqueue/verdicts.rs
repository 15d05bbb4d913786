//! Verdicts on their way to the kernel.

use super::{MOST_PACKET, REQUEST, VERDICT, VERDICT_BATCH, attribute, begin, end};

const VERDICT_HEADER: u16 = 2;
const PAYLOAD: u16 = 10;
/// Takes its usual way.
const ACCEPT: u32 = 1;

/// More than this waits for no further verdict before it is sent: a socket takes messages of 200 kB without being asked to.
const ENOUGH: usize = 64 * 1024;

/// Verdicts gathered for one send. A run of unchanged packets is one message, which accepts every packet of the queue up
/// to a number; so while a packet is kept back, those behind it are answered one by one.
///
/// Every packet gets one of [`Verdicts::accept`], [`Verdicts::replace`] and [`Verdicts::keep`] in the order in which they came, and
/// after `keep` later [`Verdicts::accept_kept`].
#[derive(Debug)]
pub struct Verdicts {
    queue: u16,
    out: Vec<u8>,
    /// Last packet of the run not written yet.
    run: Option<u32>,
    /// Packets kept back.
    kept: usize,
}

impl Verdicts {
    /// For queue `queue`.
    pub fn new(queue: u16) -> Self {
        Self { queue, out: Vec::with_capacity(2 * ENOUGH), run: None, kept: 0 }
    }

    /// Packet `id` goes on as it is.
    #[inline]
    pub fn accept(&mut self, id: u32) {
        if self.kept == 0 {
            self.run = Some(id);
        } else {
            self.single(id, None);
        }
    }

    /// Packet `id` goes on with other contents of the same length, the checksum included. What is longer than a message
    /// holds goes as it was.
    pub fn replace(&mut self, id: u32, packet: &[u8]) {
        self.end_run();
        self.single(id, Some(packet));
    }

    /// The packet whose turn it is stays in the queue.
    pub fn keep(&mut self) {
        self.end_run();
        self.kept += 1;
    }

    /// A packet that was kept goes on, with other contents if there are some.
    pub fn accept_kept(&mut self, id: u32, packet: Option<&[u8]>) {
        debug_assert!(self.kept > 0 && self.run.is_none(), "no run is open while a packet is kept");
        self.single(id, packet);
        self.kept = self.kept.saturating_sub(1);
    }

    /// Packets kept back.
    pub const fn kept(&self) -> usize {
        self.kept
    }

    /// Whether so much is gathered that it should be sent.
    pub const fn is_much(&self) -> bool {
        self.out.len() >= ENOUGH
    }

    /// Everything gathered, to be sent; empty when there is nothing. [`Verdicts::clear`] forgets it.
    pub fn messages(&mut self) -> &[u8] {
        self.end_run();
        &self.out
    }

    /// Forgets what was sent.
    pub fn clear(&mut self) {
        self.out.clear();
    }

    fn single(&mut self, id: u32, packet: Option<&[u8]>) {
        let at = begin(&mut self.out, VERDICT, REQUEST, 0, self.queue);
        attribute(&mut self.out, VERDICT_HEADER, &[&ACCEPT.to_be_bytes(), &id.to_be_bytes()]);
        if let Some(packet) = packet.filter(|packet| packet.len() <= MOST_PACKET) {
            attribute(&mut self.out, PAYLOAD, &[packet]);
        }
        end(&mut self.out, at);
    }

    fn end_run(&mut self) {
        if let Some(id) = self.run.take() {
            let at = begin(&mut self.out, VERDICT_BATCH, REQUEST, 0, self.queue);
            attribute(&mut self.out, VERDICT_HEADER, &[&ACCEPT.to_be_bytes(), &id.to_be_bytes()]);
            end(&mut self.out, at);
        }
    }
}

#[cfg(test)]
#[path = "verdicts_tests.rs"]
mod tests;
