//! One socket on one queue of an interface, and its four rings.

use super::XdpError;
use super::ring::{Consumer, Offsets, Producer, Ring};
use perhop_packet::{BUFFER_LEN, Pool};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

const SO_PREFER_BUSY_POLL: libc::c_int = 69;
const SO_BUSY_POLL_BUDGET: libc::c_int = 70;
/// Frames that one busy poll handles at most.
const BUSY_POLL_BUDGET: libc::c_int = 64;
/// The kernel lets go of a queue some time after its socket was closed: how often, and how long apart, to try.
const ATTEMPTS: u32 = 200;
const APART: Duration = Duration::from_millis(5);

/// What to open.
#[derive(Clone, Debug)]
pub(super) struct Plan<'p> {
    pub(super) interface: &'p str,
    pub(super) index: u32,
    /// Entries of the rings, powers of two.
    pub(super) rx_slots: u32,
    pub(super) tx_slots: u32,
    /// `XDP_COPY`, or 0 for whatever the driver offers.
    pub(super) copy: u16,
    pub(super) busy_poll_us: u32,
}

/// A socket that is bound to a queue. Its buffers are those of a pool.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) rx: Consumer<libc::xdp_desc>,
    pub(super) fill: Producer<u64>,
    pub(super) tx: Producer<libc::xdp_desc>,
    pub(super) completion: Consumer<u64>,
    pub(super) number: u32,
    /// Buffers that the kernel has for frames to come, or with frames that were not taken yet.
    pub(super) given: u32,
    /// Whether the card itself reads and writes the buffers.
    pub(super) zero_copy: bool,
    pub(super) fd: OwnedFd,
}

/// How a kick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kicked {
    Done,
    /// With this error number.
    Refused(i32),
}

impl Queue {
    /// Opens, maps and binds.
    pub(super) fn open(plan: &Plan<'_>, number: u32, pool: &Pool) -> Result<Self, XdpError> {
        for _ in 1..ATTEMPTS {
            match Self::try_open(plan, number, pool) {
                Err(XdpError::QueueInUse { .. }) => std::thread::sleep(APART),
                other => return other,
            }
        }
        Self::try_open(plan, number, pool)
    }

    fn try_open(plan: &Plan<'_>, number: u32, pool: &Pool) -> Result<Self, XdpError> {
        let mut queue = Self::unbound(plan, number, pool)?;
        queue.prepare(plan)?;
        queue.bind(plan)?;
        Ok(queue)
    }

    fn unbound(plan: &Plan<'_>, number: u32, pool: &Pool) -> Result<Self, XdpError> {
        // SAFETY: plain system call; the result is checked.
        let raw = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(XdpError::last("opening an AF_XDP socket"));
        }
        // SAFETY: `raw` is a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        register(&fd, pool)?;
        let (rx, tx) = (plan.rx_slots, plan.tx_slots);
        for (option, slots, what) in [
            (libc::XDP_UMEM_FILL_RING, rx, "setting up the fill ring"),
            (libc::XDP_UMEM_COMPLETION_RING, tx, "setting up the completion ring"),
            (libc::XDP_RX_RING, rx, "setting up the receive ring"),
            (libc::XDP_TX_RING, tx, "setting up the transmit ring"),
        ] {
            set(&fd, libc::SOL_XDP, option, &slots).map_err(|e| XdpError::of(what, e))?;
        }
        let at = offsets(&fd)?;
        let failed = |e| XdpError::of("mapping the rings", e);
        let fill = Ring::map(&fd, libc::XDP_UMEM_PGOFF_FILL_RING as _, Offsets::of(&at.fr), rx);
        let done = Ring::map(&fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING as _, Offsets::of(&at.cr), tx);
        let rx_ring = Ring::map(&fd, libc::XDP_PGOFF_RX_RING, Offsets::of(&at.rx), rx);
        let tx_ring = Ring::map(&fd, libc::XDP_PGOFF_TX_RING, Offsets::of(&at.tx), tx);
        Ok(Self {
            rx: Consumer::new(rx_ring.map_err(failed)?),
            fill: Producer::new(fill.map_err(failed)?),
            tx: Producer::new(tx_ring.map_err(failed)?),
            completion: Consumer::new(done.map_err(failed)?),
            number,
            given: 0,
            zero_copy: false,
            fd,
        })
    }

    /// Room to send, and busy polling.
    fn prepare(&self, plan: &Plan<'_>) -> Result<(), XdpError> {
        let bytes = libc::c_int::try_from(plan.tx_slots as usize * BUFFER_LEN).unwrap_or(libc::c_int::MAX);
        // What does not fit into a smaller one waits in the ring for another kick.
        if set(&self.fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
            let _ = set(&self.fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
        }
        if plan.busy_poll_us > 0 {
            let time = libc::c_int::try_from(plan.busy_poll_us).unwrap_or(libc::c_int::MAX);
            for (option, value) in [
                (SO_PREFER_BUSY_POLL, 1),
                (libc::SO_BUSY_POLL, time),
                (SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET),
            ] {
                set(&self.fd, libc::SOL_SOCKET, option, &value)
                    .map_err(|e| XdpError::of("asking for busy polling", e))?;
            }
        }
        Ok(())
    }

    fn bind(&mut self, plan: &Plan<'_>) -> Result<(), XdpError> {
        // Without XDP_COPY and XDP_ZEROCOPY the kernel takes what the driver offers, zero copy first.
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_USE_NEED_WAKEUP | plan.copy,
            sxdp_ifindex: plan.index,
            sxdp_queue_id: self.number,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: pointer and length describe `address`.
        let rc = unsafe { libc::bind(self.fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), len) };
        if rc < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.raw_os_error() {
                Some(libc::EBUSY) => {
                    XdpError::QueueInUse { interface: plan.interface.to_owned(), queue: self.number }
                }
                _ => XdpError::of("binding an AF_XDP socket to a queue", error),
            });
        }
        let mut options = libc::xdp_options { flags: 0 };
        self.zero_copy = get(&self.fd, libc::SOL_XDP, libc::XDP_OPTIONS, &mut options).is_ok()
            && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
        Ok(())
    }

    /// Tells the kernel to send what is in the transmit ring.
    pub(super) fn kick_send(&self) -> Kicked {
        // SAFETY: a send without data; no pointer is passed.
        let rc = unsafe {
            libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        kicked(rc)
    }

    /// Tells the kernel to go on receiving: there are buffers again, or it is to poll the card now.
    pub(super) fn kick_receive(&self) -> Kicked {
        // SAFETY: a receive without room for data; no pointer is passed.
        let rc = unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        kicked(rc)
    }

    /// The kernel's counts since the socket was opened.
    pub(super) fn statistics(&self) -> libc::xdp_statistics {
        // SAFETY: all fields are integers, for which zeros are valid.
        let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        // Zeros where the kernel does not say.
        let _ = get(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS, &mut statistics);
        statistics
    }

    /// The socket's pending error, cleared by reading: how an interface that went away shows.
    pub(super) fn pending_error(&self) -> i32 {
        let mut error: libc::c_int = 0;
        let _ = get(&self.fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut error);
        error
    }
}

fn kicked(rc: isize) -> Kicked {
    if rc >= 0 {
        return Kicked::Done;
    }
    Kicked::Refused(io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

/// Tells whether the kernel has let go of a queue: made in the interface's namespace, where a later caller may not be.
#[derive(Debug)]
pub(super) struct Probe {
    queue: Queue,
    index: u32,
    _pool: Pool,
}

impl Probe {
    /// For a queue that is in use.
    pub(super) fn new(index: u32, queue: u32) -> Result<Self, XdpError> {
        let pool = Pool::new(2);
        Ok(Self { queue: Queue::unbound(&Self::plan(index), queue, &pool)?, index, _pool: pool })
    }

    /// Waits until the kernel has let go of the queue, whose socket was closed. `false` when it does not in a second.
    pub(super) fn waits_for_release(mut self) -> bool {
        (0..ATTEMPTS).any(|attempt| {
            if attempt > 0 {
                std::thread::sleep(APART);
            }
            self.is_free()
        })
    }

    /// Takes the queue if it is free. Then, and when the interface is gone, nobody has it.
    fn is_free(&mut self) -> bool {
        !matches!(self.queue.bind(&Self::plan(self.index)), Err(XdpError::QueueInUse { .. }))
    }

    fn plan(index: u32) -> Plan<'static> {
        Plan { interface: "", index, rx_slots: 2, tx_slots: 2, copy: libc::XDP_COPY, busy_poll_us: 0 }
    }
}

/// Makes the pool's memory the socket's.
fn register(fd: &OwnedFd, pool: &Pool) -> Result<(), XdpError> {
    let memory = pool.memory();
    let registration = libc::xdp_umem_reg {
        // The kernel will write there: the address is to be known outside.
        addr: memory.as_ptr().cast::<u8>().expose_provenance() as u64,
        len: memory.len() as u64,
        chunk_size: BUFFER_LEN as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration).map_err(|e| match e.raw_os_error() {
        Some(libc::ENOBUFS) => XdpError::LockedMemory { mebibytes: memory.len() >> 20 },
        _ => XdpError::of("registering the packet buffers", e),
    })
}

fn offsets(fd: &OwnedFd) -> Result<libc::xdp_mmap_offsets, XdpError> {
    // SAFETY: all fields are integers, for which zeros are valid.
    let mut at: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    match get(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut at) {
        Ok(len) if len == size_of::<libc::xdp_mmap_offsets>() => Ok(at),
        // The first form, without flags.
        Ok(_) => Err(XdpError::NotInKernel),
        Err(e) => Err(XdpError::of("asking where the rings are", e)),
    }
}

pub(super) fn set<T: Copy>(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`; the kernel copies from it during the call.
    let rc =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `T` is a structure of integers. Gives how many bytes of it were filled in.
fn get<T: Copy>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &mut T) -> io::Result<usize> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let at = std::ptr::from_mut(value).cast();
    // SAFETY: pointer and length describe `value`, and any bytes are a value of it; the kernel writes no more.
    let rc = unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, at, &mut len) };
    if rc == 0 { Ok(len as usize) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface;

    #[test]
    fn a_queue_is_released_when_its_socket_is_closed_and_not_before() {
        let name = "a_queue_is_released_when_its_socket_is_closed_and_not_before";
        // A namespace of its own, which ends with the thread; its loopback has one queue.
        std::thread::spawn(move || {
            // SAFETY: gives this thread a new network namespace; nothing else of it is touched.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                eprintln!("SKIPPED {name}: making a namespace: {}", io::Error::last_os_error());
                let required = std::env::var("PERHOP_REQUIRE").unwrap_or_default();
                assert!(!required.split(',').any(|i| i == "netns"), "{name} is required but cannot run");
                return;
            }
            let index = interface::index("lo").unwrap();
            let plan = Plan { interface: "lo", rx_slots: 64, tx_slots: 64, ..Probe::plan(index) };
            let pool = Pool::new(64);
            let queue = Queue::open(&plan, 0, &pool).unwrap();
            assert!(!queue.zero_copy);
            let mut probe = Probe::new(index, 0).unwrap();
            assert!(!probe.is_free());
            let error = Queue::try_open(&plan, 0, &pool).unwrap_err();
            assert!(error.to_string().contains("another AF_XDP socket"), "{error}");
            drop(queue);
            assert!(probe.waits_for_release());
        })
        .join()
        .unwrap();
    }
}
