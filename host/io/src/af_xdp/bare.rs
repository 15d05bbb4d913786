//! The least that a forwarder can do with AF_XDP, as a measure for ports: it says what the sockets alone cost.
//!
//! Frames go from the receive ring of one interface to the transmit ring of another, with both MAC addresses written and
//! nothing else done: no look at the frame, no packet, no queue. What was sent goes back to where frames are received.
//! Sockets, buffers, rings and the program on the interface are those of [`AfXdp`], so that the way frames come and go is
//! the same.

use super::{AfXdp, AfXdpConfig, HostTraffic, Mode, XdpError};
use perhop_element::PortError;
use perhop_packet::Pool;

/// Frames of one turn, as many as a batch holds.
const MOST: usize = perhop_packet::Batch::MAX;

/// Forwards everything that one interface receives by another, in the receiving one's first queue.
#[derive(Debug)]
pub struct BareForwarder {
    /// Closed first: buffers that it has are those of `from`.
    to: AfXdp,
    from: AfXdp,
    macs: [u8; 12],
}

impl BareForwarder {
    /// Opens both. Every frame gets `macs`, destination first. Frames that are `host`'s go to the kernel, as with ports.
    ///
    /// # Errors
    /// As of [`AfXdp::open`].
    pub fn open(
        from: AfXdpConfig,
        to: AfXdpConfig,
        pool: &Pool,
        host: &HostTraffic,
        macs: [u8; 12],
    ) -> Result<Self, XdpError> {
        let from = AfXdp::open(from, pool, host)?;
        Ok(Self { to: AfXdp::open(to, pool, host)?, from, macs })
    }

    /// How the receiving interface and the sending one were opened.
    pub fn modes(&self) -> [Mode; 2] {
        [self.from.mode(), self.to.mode()]
    }

    /// Takes what came, sends it, and takes back what was sent. Gives how many frames went to the transmit ring.
    ///
    /// # Errors
    /// The sending interface is down or gone.
    pub fn turn(&mut self) -> Result<usize, PortError> {
        self.take_back();
        let memory = self.from.pool.memory();
        let (Some(from), Some(to)) = (self.from.queues.first_mut(), self.to.queues.first_mut()) else {
            return Ok(0);
        };
        let (mut sent, mut taken) = (0, 0);
        while taken < MOST {
            let Some(descriptor) = from.rx.pop() else { break };
            taken += 1;
            let at = descriptor.addr as usize;
            let inside = at.checked_add(self.macs.len()).is_some_and(|end| end <= memory.len());
            if inside && descriptor.len as usize >= super::ETHERNET {
                // SAFETY: inside the pool's memory, which lives as long as `from`. The buffer is of a packet that `from`
                // has lent and never takes back before it is closed; the kernel has handed it over and nobody else
                // knows of it.
                unsafe {
                    let frame = memory.cast::<u8>().as_ptr().add(at);
                    std::ptr::copy_nonoverlapping(self.macs.as_ptr(), frame, self.macs.len());
                }
                if to.tx.push(libc::xdp_desc { options: 0, ..descriptor }) {
                    sent += 1;
                    continue;
                }
            }
            // There are no more buffers than the fill ring has entries.
            from.fill.push(descriptor.addr);
        }
        if taken > 0 {
            from.rx.give_back();
            from.fill.publish();
            to.tx.publish();
        }
        if from.zero_copy && from.fill.needs_wakeup() {
            // It is told again next time.
            let _ = from.kick_receive();
        }
        if self.to.has_pending_output() {
            self.to.kick()?;
        }
        Ok(sent)
    }

    /// Buffers whose frames were sent are free for others.
    fn take_back(&mut self) {
        let (Some(from), Some(to)) = (self.from.queues.first_mut(), self.to.queues.first_mut()) else {
            return;
        };
        let mut any = false;
        while let Some(place) = to.completion.pop() {
            any = true;
            from.fill.push(place);
        }
        if any {
            to.completion.give_back();
            from.fill.publish();
        }
    }
}
