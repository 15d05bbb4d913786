//! TUN ports: an interface of this host whose packets go to the router instead of a wire, and come from it.
//!
//! What the kernel sends by the interface is received here, and what is sent here the kernel receives from the interface: the
//! other end of the link is this host itself. Packets are IP without a link's header (`IFF_TUN`, `IFF_NO_PI`). Elements
//! know frames, so a packet gets an Ethernet header with addresses of zeros on its way in and loses it on its way out; an
//! interface without addresses is looked up as one of zeros, so the router takes these frames for its own.
//!
//! The interface is made when the port is opened and goes when it is dropped, with its addresses and routes; one that was
//! made before and is to stay (`ip tuntap add`) is attached to and stays. Each packet takes a system call: such a port is for
//! what one host sends, not for a fast link. The kernel segments what would be a superframe and completes checksums before
//! it hands packets over, as no offload is asked for.
//!
//! Counters are those of [`crate::af_packet`] where they mean the same. `tx_not_ip`: frames that hold no IP packet.
//! `tx_failed`: packets that the kernel refused, as it does while the interface is down.
//!
//! Source: Linux `Documentation/networking/tuntap.rst`, `include/uapi/linux/if_tun.h`.

use perhop_element::{CounterSink, Port, PortError};
use perhop_packet::{Batch, DropReason, Packet, Pool};
use perhop_units::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Length of the header that packets get.
const ETHERNET: usize = 14;
/// Longest packet that a buffer takes behind that header.
const LONGEST: usize = perhop_packet::BUFFER_LEN - perhop_packet::HEADROOM - ETHERNET;

const ETHERTYPE_V4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_V6: [u8; 2] = [0x86, 0xdd];

/// A port on a TUN interface.
#[derive(Debug)]
pub struct TunPort {
    port: String,
    file: File,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    rx_packets: u64,
    rx_bytes: u64,
    rx_no_buffer: u64,
    rx_too_long: u64,
    rx_not_ip: u64,
    tx_packets: u64,
    tx_bytes: u64,
    tx_failed: u64,
    tx_not_ip: u64,
}

impl TunPort {
    /// Makes the interface `interface` in the calling thread's network namespace, or attaches to it. It is as it was made, so
    /// down at first; `port` is the port's name for messages.
    ///
    /// # Errors
    /// [`PortError::Os`]: no rights (CAP_NET_ADMIN), no `/dev/net/tun`, a name that cannot be or is that of another kind of
    /// interface (EINVAL), or another program has it (EBUSY).
    pub fn open(port: &str, interface: &str) -> Result<Self, PortError> {
        let file = open(port, (interface, libc::IFF_TUN), "making a TUN interface")?;
        Ok(Self { port: port.to_owned(), file, counters: Counters::default() })
    }

    /// Whether a packet waits to be received. Costs a system call.
    pub fn has_input(&self) -> bool {
        self.events().contains(PollFlags::IN)
    }

    fn events(&self) -> PollFlags {
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // What cannot be asked now is asked again.
        if poll(&mut fds, Some(&at_once)).is_err() {
            return PollFlags::empty();
        }
        fds[0].revents()
    }

    /// Looks for an interface that was deleted; call after `poll(2)` reported an error. One that is down is still there.
    ///
    /// # Errors
    /// [`PortError::Down`].
    pub fn check_link(&mut self) -> Result<(), PortError> {
        if self.events().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return Err(self.gone());
        }
        Ok(())
    }

    fn gone(&self) -> PortError {
        PortError::Down { port: self.port.clone() }
    }

    /// Reads one packet into a frame. `None`: none waits.
    fn read(&mut self, pool: &Pool) -> Result<Option<Packet>, Errno> {
        let Some(mut packet) = pool.alloc() else {
            // Taken all the same: what waits would be late, and the queue behind it too.
            rustix::io::read(&self.file, &mut [0u8; 1])?;
            self.counters.rx_no_buffer += 1;
            return Ok(None);
        };
        if !packet.resize(ETHERNET + LONGEST) {
            packet.release();
            return Ok(None);
        }
        let read =
            packet.frame_mut().get_mut(ETHERNET..).map_or(Ok(0), |rest| rustix::io::read(&self.file, rest));
        match read {
            Ok(len) => {
                packet.resize(ETHERNET + len);
                Ok(Some(packet))
            }
            Err(error) => {
                packet.release();
                Err(error)
            }
        }
    }

    /// Puts a header before what was read; `None` when it is nothing to forward.
    fn framed(&mut self, mut packet: Packet) -> Option<Packet> {
        let c = &mut self.counters;
        let frame = packet.frame_mut();
        let (header, ip) = frame.split_at_mut(ETHERNET.min(frame.len()));
        let ethertype = match ip.first().map(|first| first >> 4) {
            Some(4) => ETHERTYPE_V4,
            Some(6) => ETHERTYPE_V6,
            _ => {
                c.rx_not_ip += 1;
                packet.release();
                return None;
            }
        };
        // What is longer comes cut off at the buffer's end.
        if ip_len(ip).is_some_and(|len| len > ip.len()) {
            c.rx_too_long += 1;
            packet.release();
            return None;
        }
        header.fill(0);
        header[12..].copy_from_slice(&ethertype);
        c.rx_packets += 1;
        c.rx_bytes += ip.len() as u64;
        Some(packet)
    }
}

/// Length that an IP packet says it has; `None` when it is too short to say.
fn ip_len(ip: &[u8]) -> Option<usize> {
    let field = |at: usize| Some(usize::from(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?])));
    match ip.first()? >> 4 {
        4 => field(2),
        6 => Some(field(4)? + 40),
        _ => None,
    }
}

/// The IP packet in a frame, without what pads the frame; `None` when there is none.
fn packet_in(frame: &[u8]) -> Option<&[u8]> {
    let (header, rest) = frame.split_at_checked(ETHERNET)?;
    if header[12..] != ETHERTYPE_V4 && header[12..] != ETHERTYPE_V6 {
        return None;
    }
    rest.get(..ip_len(rest)?)
}

/// A descriptor with an interface of this kind, without blocking.
pub(crate) fn open(
    port: &str,
    (interface, kind): (&str, libc::c_int),
    making: &'static str,
) -> Result<File, PortError> {
    let failed = |operation| {
        let port = port.to_owned();
        move |source| PortError::Os { port, operation, source }
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map_err(failed("opening /dev/net/tun"))?;
    attach(&file, interface, kind).map_err(failed(making))?;
    Ok(file)
}

/// Gives the descriptor its interface.
fn attach(file: &File, interface: &str, kind: libc::c_int) -> io::Result<()> {
    let name = CString::new(interface).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: all fields are integers or arrays of them, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes_with_nul();
    // An empty name would let the kernel choose one.
    if bytes.len() < 2 || bytes.len() > request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes `request` alone, which is a whole `struct ifreq`.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Port for TunPort {
    fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) -> Result<usize, PortError> {
        let before = batch.len();
        let lost = self.counters.rx_no_buffer;
        while !batch.is_full() {
            match self.read(pool) {
                Ok(Some(packet)) => {
                    if let Some(mut packet) = self.framed(packet) {
                        packet.meta_mut().received_at = now;
                        batch.push(packet);
                    }
                }
                // Without buffers: not more than a batch of them at once.
                Ok(None) if self.counters.rx_no_buffer - lost < Batch::MAX as u64 => {}
                Ok(None) | Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // The interface was deleted (EBADFD), or something else that another packet does not mend.
                Err(_) => return Err(self.gone()),
            }
        }
        Ok(batch.len() - before)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let (mut sent, mut deleted) = (0, false);
        let n = batch.len();
        for packet in batch.drain_first(n) {
            let c = &mut self.counters;
            match packet_in(packet.frame()).map(|ip| (ip.len(), rustix::io::write(&self.file, ip))) {
                None => c.tx_not_ip += 1,
                Some((len, Ok(_))) => {
                    c.tx_packets += 1;
                    c.tx_bytes += len as u64;
                    sent += 1;
                }
                Some((_, Err(error))) => {
                    c.tx_failed += 1;
                    deleted |= error == Errno::BADFD;
                }
            }
            packet.release();
        }
        if deleted { Err(self.gone()) } else { Ok(sent) }
    }

    /// Always a batch: the kernel takes each packet at once.
    fn room(&mut self) -> u32 {
        Batch::MAX as u32
    }

    fn counters(&mut self, sink: &mut dyn CounterSink) {
        let c = &self.counters;
        for (name, value) in [
            ("rx_packets", c.rx_packets),
            ("rx_bytes", c.rx_bytes),
            ("rx_too_long", c.rx_too_long),
            ("rx_not_ip", c.rx_not_ip),
            ("tx_packets", c.tx_packets),
            ("tx_bytes", c.tx_bytes),
            ("tx_failed", c.tx_failed),
            ("tx_not_ip", c.tx_not_ip),
        ] {
            sink.counter(name, value);
        }
        sink.counter(&format!("rx_{}", DropReason::NoBuffer.name()), c.rx_no_buffer);
    }
}

impl AsFd for TunPort {
    /// Readable when packets wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_leaves_its_frame_without_header_and_padding() {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&ETHERTYPE_V4);
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&28u16.to_be_bytes());
        assert_eq!(packet_in(&frame), Some(&frame[14..42]));
        frame[16..18].copy_from_slice(&47u16.to_be_bytes());
        assert_eq!(packet_in(&frame), None, "longer than the frame");
        frame[12..14].copy_from_slice(&ETHERTYPE_V6);
        frame[14] = 0x60;
        frame[18..20].copy_from_slice(&6u16.to_be_bytes());
        assert_eq!(packet_in(&frame), Some(&frame[14..60]));
        frame[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(packet_in(&frame), None, "ARP");
        assert_eq!((packet_in(&frame[..13]), packet_in(&frame[..14])), (None, None));
    }

    #[test]
    fn a_name_that_cannot_be_is_refused_before_the_kernel_sees_it() {
        let null = OpenOptions::new().read(true).open("/dev/null").unwrap();
        for name in ["", "a name of sixteen", "nul\0"] {
            assert_eq!(
                attach(&null, name, libc::IFF_TUN).unwrap_err().raw_os_error(),
                Some(libc::EINVAL),
                "{name:?}"
            );
        }
        assert_eq!(
            attach(&null, "tun0", libc::IFF_TUN).unwrap_err().raw_os_error(),
            Some(libc::ENOTTY),
            "no TUN device"
        );
    }
}
