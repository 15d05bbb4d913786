//! Ports on interfaces of the kernel that carry IP packets without a link's header: WireGuard, PPP, tunnels with one other end,
//! TUN interfaces of other programs.
//!
//! One packet socket gives packets, another takes them, each with a system call and with the interface's own queue behind it:
//! such links encrypt, or are slow. There are no neighbours to ask for. What programs behind a TUN interface have merged, or left
//! a checksum of to be completed, is cut and completed as on other ports.
//!
//! Elements know frames, so a packet gets an Ethernet header with addresses of zeros on its way in and loses it on its way out.
//! Counters are those of [`crate::tun`], `rx_segmented` (superframes that were cut), and `rx_ring_lost`: what the socket had no room for.
//!
//! Source: Linux packet(7).

use crate::af_packet::{bare_mark, lost_since, set_at, widen_receive_buffer};
use crate::checksum;
use crate::interface;
use crate::ip_packets::{ETHERNET, IpPackets, LONGEST, ip_len, put_header};
use crate::superframe::{self, Superframe};
use crate::tun::events;
use perhop_element::{CounterSink, Port, PortError};
use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_VNET_HDR: libc::c_int = 15;
/// What is read: the virtio-net header, room for an Ethernet header, and the longest superframe.
const VNET: usize = superframe::HEADER;
const SCRATCH: usize = VNET + ETHERNET + 65_536 + 256;

/// A port on an interface without link addresses.
#[derive(Debug)]
pub struct IpPort {
    port: String,
    receives: OwnedFd,
    sends: OwnedFd,
    index: u32,
    packets: IpPackets,
    segmented: u64,
    lost: u64,
    scratch: Box<[u8]>,
    superframe: Superframe,
}

impl IpPort {
    /// Opens the interface in the calling thread's network namespace; `port` is the port's name for messages.
    ///
    /// # Errors
    /// [`PortError::Os`]: no rights (CAP_NET_RAW), or no such interface (ENODEV).
    pub fn open(port: &str, interface: &str) -> Result<Self, PortError> {
        let failed = |operation| {
            let port = port.to_owned();
            move |source| PortError::Os { port, operation, source }
        };
        let no_device = || io::Error::from_raw_os_error(libc::ENODEV);
        let index =
            interface::index(interface).ok_or_else(no_device).map_err(failed("looking for the interface"))?;
        let opening = "opening a packet socket";
        // As frames, which alone come with what is to be completed.
        let receives = socket(libc::SOCK_RAW).map_err(failed(opening))?;
        let on: libc::c_int = 1;
        for (option, operation) in [
            (PACKET_IGNORE_OUTGOING, "ignoring outgoing packets"),
            (PACKET_VNET_HDR, "asking for virtio-net headers"),
        ] {
            set_at(receives.as_raw_fd(), libc::SOL_PACKET, option, &on)
                .then_some(())
                .ok_or_else(io::Error::last_os_error)
                .map_err(failed(operation))?;
        }
        widen_receive_buffer(receives.as_raw_fd());
        let address = address(index, libc::ETH_P_ALL as u16);
        // SAFETY: pointer and length describe `address`, which lives across the call.
        let bound = unsafe {
            libc::bind(
                receives.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if bound != 0 {
            return Err(failed("binding to the interface")(io::Error::last_os_error()));
        }
        // Without a protocol of its own it receives nothing; the kernel puts what the interface needs before a packet.
        let sends = socket(libc::SOCK_DGRAM).map_err(failed(opening))?;
        // Without the right to mark packets there are no rules that look for it either.
        set_at(sends.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MARK, &(bare_mark(index) as libc::c_int));
        Ok(Self {
            port: port.to_owned(),
            receives,
            sends,
            index,
            packets: IpPackets::default(),
            segmented: 0,
            lost: 0,
            scratch: vec![0; SCRATCH].into(),
            superframe: Superframe::default(),
        })
    }

    /// Whether a packet waits to be received. Costs a system call.
    pub fn has_input(&self) -> bool {
        self.superframe.has_more() || events(&self.receives).contains(PollFlags::IN)
    }

    /// Looks for an interface that went down or away; call after `poll(2)` reported an error.
    ///
    /// # Errors
    /// [`PortError::Down`].
    pub fn check_link(&mut self) -> Result<(), PortError> {
        if events(&self.receives).intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return Err(self.gone());
        }
        Ok(())
    }

    fn gone(&self) -> PortError {
        PortError::Down { port: self.port.clone() }
    }

    /// Reads one packet, or superframe. `false`: none waits.
    fn read(&mut self, (now, pool): (Instant, &Pool), batch: &mut Batch) -> Result<bool, Errno> {
        let Some((head, rest)) = self.scratch.split_first_chunk_mut::<VNET>() else { return Ok(false) };
        let read = {
            let into = rest.get_mut(ETHERNET..).unwrap_or_default();
            rustix::io::readv(&self.receives, &mut [IoSliceMut::new(head), IoSliceMut::new(into)])
        };
        let length = match read {
            Ok(length) => length.saturating_sub(VNET) + ETHERNET,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            // What was to be cut in a way that its header cannot say is gone with this.
            Err(Errno::INVAL) => {
                self.packets.rx_too_long += 1;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let frame = rest.get_mut(..length).unwrap_or_default();
        if !put_header(frame) {
            self.packets.rx_not_ip += 1;
            return Ok(true);
        }
        // It counts from the header that was not there.
        let [start, offset] = [6, 8].map(|at| u16::from_ne_bytes([head[at], head[at + 1]]));
        let start = start.saturating_add(ETHERNET as u16);
        head[6..8].copy_from_slice(&start.to_ne_bytes());
        if superframe::is_one(head) {
            let whole = VNET + length;
            if self.superframe.take(&self.scratch[..whole]) {
                self.segmented += 1;
                return Ok(true);
            }
            self.packets.rx_too_long += 1;
            return Ok(true);
        }
        let to_complete = head[0] & superframe::NEEDS_CHECKSUM != 0;
        if length > ETHERNET + LONGEST
            || ip_len(&frame[ETHERNET..]).is_some_and(|len| len > length - ETHERNET)
            || to_complete && !checksum::complete_from(frame, start.into(), offset.into())
        {
            self.packets.rx_too_long += 1;
            return Ok(true);
        }
        give(&mut self.packets, frame, (now, pool), batch);
        Ok(true)
    }
}

/// Makes a packet of a frame, if there is a buffer.
fn give(packets: &mut IpPackets, frame: &[u8], (now, pool): (Instant, &Pool), batch: &mut Batch) {
    let Some(mut packet) = pool.packet(frame) else {
        packets.rx_no_buffer += 1;
        return;
    };
    packet.meta_mut().received_at = now;
    packets.rx_packets += 1;
    packets.rx_bytes += (frame.len() - ETHERNET) as u64;
    batch.push(packet);
}

fn socket(kind: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: plain system call; the result is checked. Without a protocol nothing is received before it is bound.
    let raw = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Where packets of a protocol go to and come from.
fn address(index: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Sends one packet; the kernel is told which IP it is, as many such interfaces look at nothing else.
fn send(socket: &OwnedFd, index: u32, packet: &[u8]) -> Result<usize, Errno> {
    let protocol =
        if packet.first().is_some_and(|first| first >> 4 == 6) { libc::ETH_P_IPV6 } else { libc::ETH_P_IP };
    let to = address(index, protocol as u16);
    // SAFETY: both pointers and lengths describe values that live across the call.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            libc::MSG_DONTWAIT,
            (&raw const to).cast(),
            size_of_val(&to) as libc::socklen_t,
        )
    };
    usize::try_from(sent).map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

impl Port for IpPort {
    fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) -> Result<usize, PortError> {
        let before = batch.len();
        // Without buffers: not more than a batch of them at once.
        for _ in 0..Batch::MAX {
            if batch.is_full() {
                break;
            }
            if let Some(part) = self.superframe.next() {
                give(&mut self.packets, part, (now, pool), batch);
                continue;
            }
            match self.read((now, pool), batch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Errno::NETDOWN | Errno::NODEV | Errno::NXIO) => return Err(self.gone()),
                // The kernel lacks something: it may have it with the next packet.
                Err(_) => {
                    self.packets.rx_no_buffer += 1;
                    break;
                }
            }
        }
        Ok(batch.len() - before)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let Self { sends, index, packets, .. } = self;
        match packets.transmit(batch, |packet| send(sends, *index, packet)) {
            (_, Some(Errno::NETDOWN | Errno::NXIO | Errno::NODEV)) => Err(self.gone()),
            (sent, _) => Ok(sent),
        }
    }

    /// Always a batch: what does not fit into the interface's queue the kernel drops, and says so.
    fn room(&mut self) -> u32 {
        Batch::MAX as u32
    }

    fn counters(&mut self, sink: &mut dyn CounterSink) {
        self.packets.counters(sink);
        self.lost += lost_since(&self.receives);
        sink.counter("rx_segmented", self.segmented);
        sink.counter("rx_ring_lost", self.lost);
    }
}

impl AsFd for IpPort {
    /// Readable when packets wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receives.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tun;
    use perhop_wire::checksum as sum;
    use std::fs::File;

    /// A TUN interface as a program has it that hands superframes over, in a network namespace of the calling thread's own.
    fn interface() -> io::Result<File> {
        // SAFETY: plain system call; it concerns this thread alone, which ends with the test.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::IFF_TUN | libc::IFF_VNET_HDR;
        let file = tun::open("vpn", ("vpn0", kind), "making it").map_err(io::Error::other)?;
        // SAFETY: all fields are integers or arrays of them, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(b"vpn0") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let any = std::net::UdpSocket::bind("0.0.0.0:0")?;
        // SAFETY: SIOCSIFFLAGS reads `request`, which is a whole `struct ifreq`.
        if unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(file)
    }

    /// IPv4 and TCP with `payload` bytes, and the virtio-net header that says how it is to be cut.
    fn superframe(payload: usize, size: u16) -> Vec<u8> {
        let mut bytes = vec![superframe::NEEDS_CHECKSUM, 1, 40, 0];
        bytes.extend(size.to_ne_bytes());
        bytes.extend([20, 0, 16, 0]);
        let length = (40 + payload) as u16;
        let [high, low] = length.to_be_bytes();
        let mut ip = [0x45, 0, high, low, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = sum::Sum::ZERO.bytes(&ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(ip);
        bytes.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        bytes.extend((0..payload).map(|i| i as u8));
        bytes
    }

    #[test]
    fn what_a_program_has_merged_is_cut_and_what_it_left_open_is_completed() {
        let name = "what_a_program_has_merged_is_cut_and_what_it_left_open_is_completed";
        let file = match interface() {
            Ok(file) => file,
            Err(error) => {
                let required = std::env::var("PERHOP_REQUIRE").is_ok_and(|list| list.contains("netns"));
                assert!(!required || !std::path::Path::new("/dev/net/tun").exists(), "{name}: {error}");
                return eprintln!("SKIPPED {name}: {error}");
            }
        };
        let mut port = IpPort::open("vpn", "vpn0").unwrap();
        let (pool, mut batch) = (Pool::new(1_024), Batch::new());
        let mut come = |port: &mut IpPort| -> Vec<Vec<u8>> {
            port.receive(Instant::ZERO, &pool, &mut batch).unwrap();
            let frames = batch.iter().map(|packet| packet.frame().to_vec()).collect();
            batch.release_all();
            frames
        };
        // What the kernel has to say itself on a new interface is no matter.
        while !come(&mut port).is_empty() {}
        rustix::io::write(&file, &superframe(2500, 1000)).unwrap();
        let parts = come(&mut port);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [1054, 1054, 554]);
        for part in &parts {
            let (ip, tcp) = (&part[14..34], &part[34..]);
            assert_eq!((part[..12].to_vec(), &part[12..14]), (vec![0; 12], &[8, 0][..]));
            assert_eq!(sum::Sum::ZERO.bytes(ip).checksum(), 0);
            let pseudo = [&ip[12..20], &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
            assert_eq!(sum::Sum::ZERO.bytes(&pseudo).bytes(tcp).checksum(), 0);
        }
        assert_eq!(parts[1][38..42], [0, 0, 3, 233], "where it is in the stream");
        // A frame of its own, its checksum to be completed from the pseudo header's sum on.
        let mut one = superframe(100, 0);
        one[1] = 0;
        one[VNET + 36..VNET + 38].copy_from_slice(&[0, 0]);
        rustix::io::write(&file, &one).unwrap();
        let whole = come(&mut port);
        assert_eq!(whole.len(), 1);
        assert_eq!(sum::Sum::ZERO.bytes(&whole[0][34..]).checksum(), 0);
        assert_eq!((port.segmented, port.packets.rx_packets), (1, 4));
        // What cannot be cut is lost alone: UDP in fragments (VIRTIO_NET_HDR_GSO_UDP) is nothing a packet socket can say.
        let mut fragments = superframe(2500, 1000);
        (fragments[1], fragments[VNET + 9]) = (3, 17);
        rustix::io::write(&file, &fragments).unwrap();
        rustix::io::write(&file, &one).unwrap();
        let after: usize = (0..2).map(|_| come(&mut port).len()).sum();
        assert!(after >= 1 && port.check_link().is_ok(), "{after}");
        // A burst waits, and what is more than there is room for is counted.
        let mut taken = port.packets.rx_packets;
        (0..2_000).for_each(|_| assert!(rustix::io::write(&file, &one).is_ok()));
        while !come(&mut port).is_empty() {}
        assert_eq!((port.packets.rx_packets - taken, lost_since(&port.receives)), (2_000, 0));
        taken = port.packets.rx_packets;
        (0..40_000).for_each(|_| assert!(rustix::io::write(&file, &one).is_ok()));
        while !come(&mut port).is_empty() {}
        let lost = lost_since(&port.receives);
        assert!(lost > 0, "{lost}");
        assert_eq!(port.packets.rx_packets - taken + lost, 40_000);
    }
}
