//! Packet sockets with memory-mapped receive and transmit rings (TPACKET_V2).
//!
//! V2 is used because V3 wakes late at low rates (it hands over whole blocks). Frames are sent past the queueing
//! discipline (`PACKET_QDISC_BYPASS`): the queue is ours. Such frames are not shown to packet sockets, so outgoing frames
//! that this socket sees are the kernel's own; they are not forwarded but reported by [`AfPacket::take_kernel_sent`],
//! so that the transmitter can be debited.
//!
//! Kicks that did not empty the transmit ring are counted by what the kernel answered: `tx_kicks_again` (send buffer full),
//! `tx_kicks_no_buffers` (the card or its driver takes no more, or a rule of the packet filter refuses the frame, which is passed over
//! then and counted as `tx_refused`: see the module `refusals`), `tx_kicks_interrupted`, `tx_kicks_partial` (some frames
//! were taken), `tx_kicks_failed` (the interface is down, or worse).
//!
//! Frames to send are marked to be copied whole into the head of the kernel's buffer (a virtio-net header whose
//! `hdr_len` covers the frame). Without that the kernel points at the ring's pages, and a virtual link, which must not
//! hold on to them, then allocates a page for every frame and copies it there: on veth 0.3 µs more a frame.
//!
//! A superframe hardly ever fits into a slot. The kernel keeps it whole in the socket's queue then (`PACKET_COPY_THRESH`), from where
//! it is read and cut into frames (see the module `superframe`): `rx_segmented` counts the superframes. That is slower than to have none; what the queue
//! has no room for is lost and counted as `rx_too_long`, like a frame that is no superframe.
//!
//! Source: Linux `Documentation/networking/packet_mmap.rst`, packet(7).

mod receive;
mod refusals;
mod send;

use crate::clock::RealtimeOffset;
use crate::superframe::{self, Superframe};
use perhop_element::{CounterSink, Port, PortError};
use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use refusals::Refusals;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// Bytes of one ring slot: the largest frame a packet buffer takes, plus the ring's own header.
const SLOT: usize = 2048;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// `struct virtio_net_hdr` in front of each frame: flags, segmentation type, then four 16-bit numbers: `hdr_len`, which alone is not
/// 0 in front of frames to send, the size of segments, and where a checksum begins that is to be completed, and where its field is
/// from there.
const VNET_HEADER: usize = superframe::HEADER;
/// Where `hdr_len` is in it.
const VNET_HEADER_LENGTH: usize = 2;
/// Where that header begins in a transmit slot.
const TX_OFFSET: usize = tpacket_align(size_of::<libc::tpacket2_hdr>());
/// The longest superframe: what the kernel makes unless told otherwise (`gso_max_size`), with its headers.
const LONGEST: usize = 65_536 + 256;
/// Mark of frames that these sockets send (`SO_MARK`): rules for what leaves an interface see them too (Linux 5.16).
pub const SENT_MARK: u32 = u32::from_be_bytes(*b"perh");

/// The mark of what goes by the interface of this number without a link header. A tunnel keeps it on the packets that it
/// makes, which leave by another interface, and must not look there as if they had waited in its queues.
pub const fn bare_mark(index: u32) -> u32 {
    SENT_MARK ^ index
}
/// Superframes in the socket's queue, bytes with what the kernel charges beside them.
const RX_QUEUE: libc::c_int = 8 << 20;
const PACKET_COPY_THRESH: libc::c_int = 7;
/// Ethernet header without a tag.
const ETHERNET: usize = 14;

/// How to open a packet socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// Interface name in the calling thread's network namespace.
    pub interface: String,
    /// Port name for messages.
    pub port: String,
    /// Receive slots of 2 KiB, a power of two, 64 … 65,536.
    pub rx_slots: u32,
    /// Transmit slots of 2 KiB, a power of two, 64 … 65,536.
    pub tx_slots: u32,
    /// Also receive frames for other stations (bridge mode).
    pub promiscuous: bool,
    /// What becomes of frames that the kernel itself sends by this interface.
    pub outgoing: Outgoing,
}

/// What a packet socket does with frames that the kernel sends by its interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outgoing {
    /// Counts them, for [`AfPacket::take_kernel_sent`].
    #[default]
    Counted,
    /// Never sees them.
    Ignored,
    /// Receives them like those that arrive: a capture.
    Received,
}

impl AfPacketConfig {
    /// 4,096 receive and 1,024 transmit slots.
    pub fn new(port: &str, interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            port: port.to_owned(),
            rx_slots: 4096,
            tx_slots: 1024,
            promiscuous: false,
            outgoing: Outgoing::default(),
        }
    }
}

/// Frames and bytes the kernel itself sent by the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelSent {
    /// Frames.
    pub packets: u64,
    /// Frame bytes.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    rx_packets: u64,
    rx_bytes: u64,
    rx_no_buffer: u64,
    rx_too_long: u64,
    rx_segmented: u64,
    rx_ring_lost: u64,
    rx_checksum_completed: u64,
    tx_packets: u64,
    tx_bytes: u64,
    tx_failed: u64,
    tx_too_long: u64,
    tx_refused: u64,
    tx_kicks_again: u64,
    tx_kicks_no_buffers: u64,
    tx_kicks_interrupted: u64,
    tx_kicks_partial: u64,
    tx_kicks_failed: u64,
    kernel_packets: u64,
    kernel_bytes: u64,
}

/// One mapped ring.
#[derive(Debug)]
struct Ring {
    base: NonNull<u8>,
    slots: u32,
    next: u32,
}

impl Ring {
    fn header(&self, slot: u32) -> NonNull<libc::tpacket2_hdr> {
        // SAFETY: slot < slots, and the mapping is slots × SLOT bytes long from `base`; slots are page-aligned
        // multiples of 2 KiB, so the header is aligned.
        unsafe { self.base.add(slot as usize * SLOT).cast() }
    }
    fn status(&self, slot: u32) -> &AtomicU32 {
        let header = self.header(slot);
        // SAFETY: `tp_status` is the header's first field, four bytes, shared with the kernel; all accesses to it go
        // through this atomic.
        unsafe { AtomicU32::from_ptr(header.as_ptr().cast::<u32>()) }
    }
    fn advance(&mut self) {
        self.next = (self.next + 1) & (self.slots - 1);
    }
}

/// A packet socket bound to one interface.
#[derive(Debug)]
pub struct AfPacket {
    fd: OwnedFd,
    config: AfPacketConfig,
    map: NonNull<u8>,
    map_len: usize,
    rx: Ring,
    tx: Ring,
    clock: RealtimeOffset,
    counters: Counters,
    kernel_sent: KernelSent,
    /// Transmit slots from `tx.next` on that are known to be free, so that none is looked at twice.
    tx_free: u32,
    /// Transmit slots before `tx.next` that the kernel had not taken when last looked at. It takes them in order.
    tx_pending: u32,
    refusals: Refusals,
    /// Interface that the socket is bound to.
    index: u32,
    /// Longest frame without a tag that the interface takes, bytes.
    tx_longest: usize,
    down: bool,
    /// What the socket's queue gave last, and what of it still is to be passed on.
    copy: Vec<u8>,
    superframe: Superframe,
    /// Its tag, if the card took it off, and its arrival.
    superframe_tag: Option<(u16, u16)>,
    superframe_at: Instant,
}

// SAFETY: the mapping belongs to this value alone; nothing in it refers to the thread that made it.
unsafe impl Send for AfPacket {}

fn os(config: &AfPacketConfig, operation: &'static str) -> PortError {
    PortError::Os { port: config.port.clone(), operation, source: io::Error::last_os_error() }
}

/// Bytes of the VLAN tags of a frame, of two at the most: its MTU does not count them.
pub(crate) fn tags(frame: &[u8]) -> usize {
    let is_tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
    match (is_tag(12), is_tag(16)) {
        (false, _) => 0,
        (true, false) => 4,
        (true, true) => 8,
    }
}

fn set<T>(fd: RawFd, option: libc::c_int, value: &T) -> bool {
    set_at(fd, libc::SOL_PACKET, option, value)
}

pub(crate) fn set_at<T>(fd: RawFd, level: libc::c_int, option: libc::c_int, value: &T) -> bool {
    // SAFETY: the pointer and length describe `value`; the kernel copies from it during the call.
    let rc = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    rc == 0
}

impl AfPacket {
    /// Opens a socket on an interface of the calling thread's namespace.
    ///
    /// # Errors
    /// [`PortError::Down`] when the interface does not exist or is down, [`PortError::Os`] otherwise (EPERM: needs
    /// CAP_NET_RAW in the namespace's user namespace).
    pub fn open(config: AfPacketConfig) -> Result<Self, PortError> {
        // SAFETY: plain system call; the result is checked.
        let raw = unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
        };
        if raw < 0 {
            return Err(os(&config, "opening a packet socket"));
        }
        // SAFETY: `raw` is a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let name = std::ffi::CString::new(config.interface.as_str())
            .map_err(|_| PortError::Down { port: config.port.clone() })?;
        // SAFETY: `name` is a terminated string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(PortError::Down { port: config.port.clone() });
        }
        let on: libc::c_int = 1;
        let version: libc::c_int = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        if !set(raw, libc::PACKET_VERSION, &version) {
            return Err(os(&config, "choosing TPACKET_V2"));
        }
        // Before the rings: their slots hold the header then.
        if !set(raw, libc::PACKET_VNET_HDR, &on) {
            return Err(os(&config, "asking for headers that say what to copy"));
        }
        if !set(raw, PACKET_COPY_THRESH, &on) {
            return Err(os(&config, "asking for superframes"));
        }
        widen_receive_buffer(raw);
        if !set(raw, libc::PACKET_QDISC_BYPASS, &on) {
            return Err(os(&config, "bypassing the queueing discipline"));
        }
        // What is led through the router before it leaves must tell these frames from others. Without the right to mark them
        // there is no such thing either.
        set_at(raw, libc::SOL_SOCKET, libc::SO_MARK, &(SENT_MARK as libc::c_int));
        if config.outgoing == Outgoing::Ignored && !set(raw, PACKET_IGNORE_OUTGOING, &on) {
            return Err(os(&config, "ignoring outgoing frames"));
        }
        // A frame the card refuses must not stop the ring: it is counted and skipped.
        if !set(raw, libc::PACKET_LOSS, &on) {
            return Err(os(&config, "setting PACKET_LOSS"));
        }
        let slots = |n: u32| n.clamp(64, 65_536).next_power_of_two();
        let (rx_slots, tx_slots) = (slots(config.rx_slots), slots(config.tx_slots));
        for (option, slots, what) in [
            (libc::PACKET_RX_RING, rx_slots, "setting up the receive ring"),
            (libc::PACKET_TX_RING, tx_slots, "setting up the transmit ring"),
        ] {
            let block = 64 * SLOT as u32;
            let request = libc::tpacket_req {
                tp_block_size: block,
                tp_block_nr: slots * SLOT as u32 / block,
                tp_frame_size: SLOT as u32,
                tp_frame_nr: slots,
            };
            if !set(raw, option, &request) {
                return Err(os(&config, what));
            }
        }
        // Without rights the system's limit holds; what then does not fit waits in the ring for another kick.
        let bytes = send_buffer(tx_slots);
        if !set_at(raw, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes) {
            set_at(raw, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
        }
        let map_len = (rx_slots + tx_slots) as usize * SLOT;
        // SAFETY: maps the two rings just requested; length is their sum; the result is checked.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                raw,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(os(&config, "mapping the rings"));
        }
        let Some(map) = NonNull::new(map.cast::<u8>()) else {
            return Err(os(&config, "mapping the rings"));
        };
        // SAFETY: the transmit ring follows the receive ring in the mapping.
        let tx_base = unsafe { map.add(rx_slots as usize * SLOT) };
        let mut port = Self {
            fd,
            map,
            map_len,
            rx: Ring { base: map, slots: rx_slots, next: 0 },
            tx: Ring { base: tx_base, slots: tx_slots, next: 0 },
            clock: RealtimeOffset::new(),
            counters: Counters::default(),
            kernel_sent: KernelSent::default(),
            tx_free: 0,
            tx_pending: 0,
            refusals: Refusals::default(),
            index,
            tx_longest: SLOT,
            down: false,
            copy: vec![0; VNET_HEADER + LONGEST],
            superframe: Superframe::default(),
            superframe_tag: None,
            superframe_at: Instant::ZERO,
            config,
        };
        port.read_mtu();
        port.bind(index)?;
        Ok(port)
    }

    fn bind(&self, index: u32) -> Result<(), PortError> {
        let raw = self.fd.as_raw_fd();
        if self.config.promiscuous {
            let request = libc::packet_mreq {
                mr_ifindex: index as libc::c_int,
                mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            if !set(raw, libc::PACKET_ADD_MEMBERSHIP, &request) {
                return Err(os(&self.config, "entering promiscuous mode"));
            }
        }
        // Bound last, with the protocol: frames arrive only once the ring is there.
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as libc::c_ushort,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index as libc::c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: pointer and length describe `address`.
        let rc = unsafe {
            libc::bind(
                raw,
                std::ptr::from_ref(&address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if rc == 0 { Ok(()) } else { Err(os(&self.config, "binding to the interface")) }
    }

    /// What the kernel sent by this interface since the last call.
    pub fn take_kernel_sent(&mut self) -> KernelSent {
        std::mem::take(&mut self.kernel_sent)
    }

    /// Asks what the interface takes. The kernel does not check the length of a frame with a virtio-net header, which
    /// might be a superframe; ours never are.
    fn read_mtu(&mut self) {
        if let Some(answer) = ask_interface(&self.fd, self.index, libc::SIOCGIFMTU as _) {
            // SAFETY: a successful SIOCGIFMTU has filled this member.
            let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
            self.tx_longest = usize::try_from(mtu).unwrap_or(0) + ETHERNET;
        }
    }

    /// Adds the kernel's count of frames lost for want of ring slots.
    fn read_losses(&mut self) {
        self.counters.rx_ring_lost += lost_since(&self.fd);
    }

    /// The socket's pending error, cleared by reading: how an interface that went away shows.
    fn pending_error(&self) -> libc::c_int {
        let mut error: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: pointer and length describe `error`.
        unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                std::ptr::from_mut(&mut error).cast(),
                &mut len,
            );
        }
        error
    }

    /// Looks for an interface that went down or away; call after `poll(2)` reported an error.
    ///
    /// # Errors
    /// [`PortError::Down`].
    pub fn check_link(&mut self) -> Result<(), PortError> {
        match self.pending_error() {
            libc::ENETDOWN | libc::ENODEV | libc::ENXIO => {
                self.down = true;
                Err(PortError::Down { port: self.config.port.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// What `request`, which asks of an interface by its name, answers; `None` if nothing.
fn ask_interface(socket: &OwnedFd, index: u32, request: libc::Ioctl) -> Option<libc::ifreq> {
    // SAFETY: all fields are integers or arrays of them, for which zeros are valid.
    let mut answer: libc::ifreq = unsafe { std::mem::zeroed() };
    answer.ifr_ifru.ifru_ifindex = index as libc::c_int;
    let fd = socket.as_raw_fd();
    // By its number: the name may have changed.
    // SAFETY: both calls read and write `answer` alone: the name of the number, then what is asked of the name.
    let known = unsafe {
        libc::ioctl(fd, libc::SIOCGIFNAME as _, &mut answer) == 0
            && libc::ioctl(fd, request, &mut answer) == 0
    };
    known.then_some(answer)
}

/// What a packet socket had no room for since this was asked last.
pub(crate) fn lost_since(socket: &OwnedFd) -> u64 {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: pointer and length describe `stats`.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            std::ptr::from_mut(&mut stats).cast(),
            &mut len,
        )
    };
    if rc == 0 { stats.tp_drops.into() } else { 0 }
}

/// Gives a socket a receive buffer of [`RX_QUEUE`], without rights as much of it as the system lets it have.
pub(crate) fn widen_receive_buffer(socket: RawFd) {
    if !set_at(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RX_QUEUE) {
        set_at(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &RX_QUEUE);
    }
}

/// What to ask for as SO_SNDBUF so that a whole ring fits. The kernel doubles it (socket(7)) and charges each frame with
/// its buffer of at most 2 KiB and that buffer's description, which is smaller.
fn send_buffer(slots: u32) -> libc::c_int {
    libc::c_int::try_from(slots as usize * SLOT).unwrap_or(libc::c_int::MAX)
}

const fn tpacket_align(n: usize) -> usize {
    (n + 15) & !15
}

impl Port for AfPacket {
    fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) -> Result<usize, PortError> {
        self.take_frames(now, pool, batch)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.put_frames(batch)
    }

    fn room(&mut self) -> u32 {
        self.free_slots()
    }

    fn counters(&mut self, sink: &mut dyn CounterSink) {
        self.read_losses();
        self.read_mtu();
        let c = &self.counters;
        for (name, value) in [
            ("rx_packets", c.rx_packets),
            ("rx_bytes", c.rx_bytes),
            ("rx_no_buffer", c.rx_no_buffer),
            ("rx_too_long", c.rx_too_long),
            ("rx_segmented", c.rx_segmented),
            ("rx_ring_lost", c.rx_ring_lost),
            ("rx_checksum_completed", c.rx_checksum_completed),
            ("tx_packets", c.tx_packets),
            ("tx_bytes", c.tx_bytes),
            ("tx_failed", c.tx_failed),
            ("tx_too_long", c.tx_too_long),
            ("tx_refused", c.tx_refused),
            ("tx_kicks_again", c.tx_kicks_again),
            ("tx_kicks_no_buffers", c.tx_kicks_no_buffers),
            ("tx_kicks_interrupted", c.tx_kicks_interrupted),
            ("tx_kicks_partial", c.tx_kicks_partial),
            ("tx_kicks_failed", c.tx_kicks_failed),
            ("kernel_packets", c.kernel_packets),
            ("kernel_bytes", c.kernel_bytes),
        ] {
            sink.counter(name, value);
        }
    }
}

impl AsFd for AfPacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for AfPacket {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `open` mapped, once.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}
