//! What the kernel tells of an interface by ioctl(2), in the calling thread's network namespace.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Number of an interface; `None` when there is none of this name.
pub(crate) fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: `name` is a terminated string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// Asks about one interface, by its number: its name may change.
#[derive(Debug)]
pub(crate) struct Interface {
    fd: OwnedFd,
    index: u32,
}

impl Interface {
    /// # Errors
    /// No more descriptors.
    pub(crate) fn open(index: u32) -> io::Result<Self> {
        // SAFETY: plain system call; the result is checked.
        let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is a fresh descriptor that nobody else owns.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(raw) }, index })
    }

    /// Largest packet without the link's header, bytes.
    pub(crate) fn mtu(&self) -> Option<usize> {
        let mut request = self.request()?;
        // SAFETY: reads and writes `request` alone.
        let rc = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) };
        // SAFETY: a successful SIOCGIFMTU has filled this member.
        (rc == 0).then(|| usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// Receive queues in use; 1 where the driver does not say.
    pub(crate) fn receive_queues(&self) -> u32 {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        if !self.ethtool(std::ptr::from_mut(&mut channels).cast()) {
            return 1;
        }
        channels.combined.saturating_add(channels.receive).max(1)
    }

    /// Name of the driver; empty where it does not say.
    pub(crate) fn driver(&self) -> String {
        let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        if !self.ethtool(std::ptr::from_mut(&mut info).cast()) {
            return String::new();
        }
        let end = info.driver.iter().position(|b| *b == 0).unwrap_or(info.driver.len());
        String::from_utf8_lossy(&info.driver[..end]).into_owned()
    }

    /// Has the card hand over frames for other stations too, until the descriptor is closed.
    pub(crate) fn promiscuous(&self) -> io::Result<OwnedFd> {
        // SAFETY: plain system call; the result is checked.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let request = libc::packet_mreq {
            mr_ifindex: self.index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        let len = size_of::<libc::packet_mreq>() as libc::socklen_t;
        let at = std::ptr::from_ref(&request).cast();
        // SAFETY: pointer and length describe `request`.
        let rc = unsafe { libc::setsockopt(raw, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, at, len) };
        if rc == 0 { Ok(fd) } else { Err(io::Error::last_os_error()) }
    }

    /// `data` is the structure of the command in its first word, of the size that the kernel takes it to have.
    fn ethtool(&self, data: *mut libc::c_char) -> bool {
        let Some(mut request) = self.request() else { return false };
        request.ifr_ifru.ifru_data = data;
        // SAFETY: `request` lives across the call and so does what `data` points to: both callers above hold the
        // structure whose command it begins with (linux/ethtool.h).
        unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) == 0 }
    }

    /// A request with the name that the interface has now.
    fn request(&self) -> Option<libc::ifreq> {
        // SAFETY: all fields are integers or arrays of them, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        request.ifr_ifru.ifru_ifindex = self.index as libc::c_int;
        // SAFETY: reads and writes `request` alone.
        let rc = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCGIFNAME as _, &mut request) };
        (rc == 0).then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernel_takes_them_to_be() {
        assert_eq!((size_of::<Channels>(), size_of::<DriverInfo>()), (36, 196));
    }

    #[test]
    fn the_loopback_is_there_and_nothing_of_a_name_that_cannot_be() {
        let lo = Interface::open(index("lo").expect("every namespace has one")).expect("descriptors");
        assert!(lo.mtu().is_some_and(|mtu| mtu >= 1280));
        assert_eq!((lo.receive_queues(), lo.driver().as_str()), (1, ""));
        assert_eq!(index("no such interface here"), None);
        assert_eq!(index("lo\0"), None);
    }
}
