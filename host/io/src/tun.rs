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

use crate::ip_packets::IpPackets;
use perhop_element::{CounterSink, Port, PortError};
use perhop_packet::{Batch, Pool};
use perhop_units::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// A port on a TUN interface.
#[derive(Debug)]
pub struct TunPort {
    port: String,
    file: File,
    packets: IpPackets,
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
        Ok(Self { port: port.to_owned(), file, packets: IpPackets::default() })
    }

    /// Whether a packet waits to be received. Costs a system call.
    pub fn has_input(&self) -> bool {
        events(&self.file).contains(PollFlags::IN)
    }

    /// Looks for an interface that was deleted; call after `poll(2)` reported an error. One that is down is still there.
    ///
    /// # Errors
    /// [`PortError::Down`].
    pub fn check_link(&mut self) -> Result<(), PortError> {
        if events(&self.file).intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return Err(self.gone());
        }
        Ok(())
    }

    fn gone(&self) -> PortError {
        PortError::Down { port: self.port.clone() }
    }
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

/// What `poll(2)` says of a descriptor at once.
pub(crate) fn events(of: &impl AsFd) -> PollFlags {
    let mut fds = [PollFd::new(of, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // What cannot be asked now is asked again.
    if poll(&mut fds, Some(&at_once)).is_err() {
        return PollFlags::empty();
    }
    fds[0].revents()
}

impl Port for TunPort {
    fn receive(&mut self, now: Instant, pool: &Pool, batch: &mut Batch) -> Result<usize, PortError> {
        let Self { file, packets, .. } = self;
        // The interface was deleted (EBADFD), or something else that another packet does not mend.
        packets.receive((now, pool), batch, |to| rustix::io::read(&*file, to)).map_err(|_| self.gone())
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let Self { file, packets, .. } = self;
        match packets.transmit(batch, |packet| rustix::io::write(&*file, packet)) {
            (_, Some(Errno::BADFD)) => Err(self.gone()),
            (sent, _) => Ok(sent),
        }
    }

    /// Always a batch: the kernel takes each packet at once.
    fn room(&mut self) -> u32 {
        Batch::MAX as u32
    }

    fn counters(&mut self, sink: &mut dyn CounterSink) {
        self.packets.counters(sink);
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
