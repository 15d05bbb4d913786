//! Opening a port: the best way that the interface offers.

use super::kernel_sent::KernelSentCount;
use super::program::{Attached, GENERIC, HostTraffic, IN_DRIVER};
use super::socket::{Plan, Probe, Queue};
use super::{AfXdp, AfXdpConfig, Counters, Lent, Mode, Place, XdpError};
use crate::interface::{self, Interface};
use perhop_packet::{BUFFER_LEN, Pool};
use rustix::event::epoll;
use std::io;
use std::os::fd::OwnedFd;

/// Most receive queues of an interface.
pub const MAX_QUEUES: u32 = 128;
/// Least buffers of a queue.
const LEAST: u32 = 64;
/// `ENOTSUPP`, which the kernel keeps for itself and some drivers let out.
const NOT_SUPPORTED: i32 = 524;
/// Drivers whose senders are on this machine or on its host, and may leave checksums to a card that there is not.
const VIRTUAL: [&str; 4] = ["veth", "virtio_net", "tun", "xen_netfront"];

impl AfXdp {
    /// Opens a port on an interface of the calling thread's network namespace. The memory of `pool` is locked; packets are
    /// received into its buffers and sent from them. What `host` says goes to the kernel.
    ///
    /// Cost: the kernel touches all buffers of the pool and keeps some 150 bytes of its own for each.
    ///
    /// # Errors
    /// See [`XdpError`]. Nothing stays changed then.
    pub fn open(config: AfXdpConfig, pool: &Pool, host: &HostTraffic) -> Result<Self, XdpError> {
        let Some(index) = interface::index(&config.interface) else {
            return Err(XdpError::NoInterface { interface: config.interface });
        };
        let device = Interface::open(index).map_err(|e| XdpError::of("opening a control socket", e))?;
        let queues = device.receive_queues();
        if queues > MAX_QUEUES {
            return Err(XdpError::TooManyQueues { interface: config.interface, queues, most: MAX_QUEUES });
        }
        let opening = Opening { config: &config, index, queues, device: &device, pool, host };
        let (opened, why_not_in_driver) = opening.first_that_works()?;
        let promiscuous = config
            .promiscuous
            .then(|| device.promiscuous())
            .transpose()
            .map_err(|e| XdpError::of("entering promiscuous mode", e))?;
        let poll = (queues > 1).then(|| any_of(&opened.queues)).transpose();
        let by_card = opened.queues.iter().filter(|q| q.zero_copy);
        let probes = by_card.map(|q| Probe::new(index, q.number)).collect::<Result<Vec<_>, XdpError>>()?;
        let fill = opening.fill();
        let mut port = Self {
            attached: Some(opened.attached),
            // Without it the port works; the kernel's own frames are not charged to it then.
            kernel_sent: KernelSentCount::new(index).ok(),
            queues: opened.queues,
            lent: Lent::new(pool.clone()),
            pool: pool.clone(),
            host_driver: VIRTUAL.contains(&device.driver().as_str()),
            mode: opened.mode,
            why_not_in_driver,
            probes,
            device,
            poll: poll.map_err(|e| XdpError::of("waiting for several queues", e))?,
            _promiscuous: promiscuous,
            fill,
            tx_slots: slots(config.tx_slots),
            tx_in_flight: 0,
            tx_longest: BUFFER_LEN,
            turn: 0,
            down: false,
            counters: Counters::default(),
            config,
        };
        port.read_mtu();
        port.start()?;
        Ok(port)
    }

    /// Gives every queue its first buffers and has the program send frames there.
    fn start(&mut self) -> Result<(), XdpError> {
        for i in 0..self.queues.len() {
            self.refill(i);
        }
        // What is left of them in the cache of this thread may be wanted by another.
        self.pool.flush_thread_cache();
        let Some(attached) = &self.attached else { return Ok(()) };
        for queue in &self.queues {
            attached
                .direct(queue.number, &queue.fd)
                .map_err(|e| XdpError::of("directing frames to a socket", e))?;
        }
        Ok(())
    }
}

struct Opening<'a> {
    config: &'a AfXdpConfig,
    index: u32,
    queues: u32,
    device: &'a Interface,
    pool: &'a Pool,
    host: &'a HostTraffic,
}

struct Opened {
    attached: Attached,
    queues: Vec<Queue>,
    mode: Mode,
}

impl Opening<'_> {
    /// The first way that works, and why the driver's own does not where it is not that.
    fn first_that_works(&self) -> Result<(Opened, Option<XdpError>), XdpError> {
        let copy = if self.config.zero_copy { 0 } else { libc::XDP_COPY };
        match self.config.place {
            Place::Driver => Ok((self.attempt(IN_DRIVER, copy)?, None)),
            Place::Generic => Ok((self.attempt(GENERIC, libc::XDP_COPY)?, None)),
            Place::Anywhere => match self.attempt(IN_DRIVER, copy) {
                Ok(opened) => Ok((opened, None)),
                // Not for want of a driver: behind it will be the same.
                Err(
                    e @ (XdpError::NotPermitted { .. }
                    | XdpError::NotInKernel
                    | XdpError::ProgramInPlace { .. }
                    | XdpError::QueueInUse { .. }
                    | XdpError::LockedMemory { .. }),
                ) => Err(e),
                Err(e) => Ok((self.attempt(GENERIC, libc::XDP_COPY)?, Some(e))),
            },
        }
    }

    fn attempt(&self, place: u32, copy: u16) -> Result<Opened, XdpError> {
        let attached = Attached::new(self.index, self.queues, place, self.host)
            .map_err(|e| self.not_attached(place, e))?;
        let mut queues = Vec::with_capacity(self.queues as usize);
        for number in 0..self.queues {
            let plan = Plan {
                interface: &self.config.interface,
                index: self.index,
                rx_slots: slots(self.fill()),
                // Frames are sent by the first queue alone, so that they stay in order.
                tx_slots: if number == 0 { slots(self.config.tx_slots) } else { LEAST },
                copy,
                busy_poll_us: self.config.busy_poll_us,
            };
            queues.push(Queue::open(&plan, number, self.pool)?);
        }
        let mode = match place {
            GENERIC => Mode::GenericCopy,
            _ if queues.iter().all(|q| q.zero_copy) => Mode::DriverZeroCopy,
            _ => Mode::DriverCopy,
        };
        Ok(Opened { attached, queues, mode })
    }

    fn not_attached(&self, place: u32, error: io::Error) -> XdpError {
        let interface = self.config.interface.clone();
        match error.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => XdpError::ProgramInPlace { interface },
            Some(
                libc::EOPNOTSUPP | libc::EINVAL | libc::ERANGE | libc::ENOSPC | libc::ENOMEM | NOT_SUPPORTED,
            ) if place == IN_DRIVER => {
                XdpError::NotInDriver { interface, driver: self.device.driver(), source: error }
            }
            _ => XdpError::of("attaching the program that shares frames out", error),
        }
    }

    /// Buffers that each queue is to have. The pool is for packets that wait, too.
    fn fill(&self) -> u32 {
        let pool = u32::try_from(self.pool.memory().len() / BUFFER_LEN).unwrap_or(u32::MAX);
        (slots(self.config.rx_slots).min(pool / 4) / self.queues).max(LEAST.min(pool))
    }
}

/// Entries of a ring.
fn slots(wanted: u32) -> u32 {
    wanted.clamp(LEAST, 65_536).next_power_of_two()
}

/// A descriptor that is readable when one of several sockets is.
fn any_of(queues: &[Queue]) -> io::Result<OwnedFd> {
    let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for queue in queues {
        let number = epoll::EventData::new_u64(queue.number.into());
        epoll::add(&all, &queue.fd, number, epoll::EventFlags::IN)?;
    }
    Ok(all)
}
