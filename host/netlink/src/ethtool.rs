//! The device control interface `SIOCETHTOOL` (linux/ethtool.h): features by
//! name, and the link's speed.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::NetlinkError;
use crate::interface_name::check_interface_name;

const GET_SETTINGS: u32 = 0x01;
const GET_STRINGS: u32 = 0x1b;
const GET_STRING_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
const STRING_SET_FEATURES: u32 = 4;
const STRING_BYTES: usize = 32;
/// Words of `struct ethtool_cmd`.
const SETTINGS_WORDS: usize = 11;
/// More features than any kernel has; bounds what a driver can make us allocate.
const MAX_FEATURES: u32 = 4096;

/// A socket for device controls; it acts in the namespace it was opened in.
#[derive(Debug)]
pub(crate) struct Control {
    fd: OwnedFd,
}

/// A device feature: a switch that driver and kernel share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    pub(crate) name: String,
    /// May be changed by a user.
    pub(crate) changeable: bool,
    /// What was asked for last.
    pub(crate) wanted: bool,
    /// What is in effect; differs from `wanted` where features depend on others.
    pub(crate) active: bool,
}

impl Control {
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        let fd = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(|e| NetlinkError::os("open a control socket", "", e))?;
        Ok(Self { fd })
    }

    /// Runs one command; `words` is the command's structure, command first.
    fn command(
        &self,
        operation: &'static str,
        interface: &str,
        words: &mut [u32],
    ) -> Result<(), NetlinkError> {
        check_interface_name(interface)?;
        // SAFETY: ifreq is plain old data for which all zeroes is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: `request` and `words` live across the call. The kernel reads
        // and writes the command's structure, whose counts (checked by each
        // caller here to fit `words`) bound what it touches.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENODEV) {
            return Err(NetlinkError::NoSuchInterface { name: interface.into() });
        }
        Err(NetlinkError::io(operation, interface, error))
    }

    /// Nominal speed in Mbit/s; `None` where the driver knows none.
    pub(crate) fn speed_mbit(&self, interface: &str) -> Option<u32> {
        let mut words = [0u32; SETTINGS_WORDS];
        words[0] = GET_SETTINGS;
        self.command("read link settings", interface, &mut words).ok()?;
        // Low half of word 3 and low half of word 7 (speed and speed_hi).
        let half = |word: u32| {
            let bytes = word.to_ne_bytes();
            u32::from(u16::from_ne_bytes([bytes[0], bytes[1]]))
        };
        match (half(words[7]) << 16) | half(words[3]) {
            0 | 0xffff | 0xffff_ffff => None,
            speed => Some(speed),
        }
    }

    /// All features of an interface, in the kernel's order.
    pub(crate) fn features(&self, interface: &str) -> Result<Vec<Feature>, NetlinkError> {
        let operation = "read offloads";
        let count = self.feature_count(interface)?;
        let names = self.feature_names(interface, count)?;
        let blocks = count.div_ceil(32);
        let mut words = vec![0u32; 2 + 4 * blocks];
        words[0] = GET_FEATURES;
        words[1] = blocks as u32;
        self.command(operation, interface, &mut words)?;
        let bit = |index: usize, field: usize| words[2 + 4 * (index / 32) + field] >> (index % 32) & 1 == 1;
        Ok(names
            .into_iter()
            .enumerate()
            .map(|(index, name)| Feature {
                name,
                changeable: bit(index, 0) && !bit(index, 3),
                wanted: bit(index, 1),
                active: bit(index, 2),
            })
            .collect())
    }

    /// Sets the named features; the rest is left alone. Names that the
    /// interface lacks or does not let change are skipped.
    pub(crate) fn set_features(
        &self,
        interface: &str,
        wanted: impl Fn(&str) -> Option<bool>,
    ) -> Result<(), NetlinkError> {
        let features = self.features(interface)?;
        let blocks = features.len().div_ceil(32);
        let mut words = vec![0u32; 2 + 2 * blocks];
        words[0] = SET_FEATURES;
        words[1] = blocks as u32;
        let changes = features.iter().enumerate().filter(|(_, feature)| feature.changeable);
        for (index, feature) in changes {
            if let Some(on) = wanted(&feature.name) {
                let (block, bit) = (2 + 2 * (index / 32), 1 << (index % 32));
                words[block] |= bit;
                words[block + 1] |= if on { bit } else { 0 };
            }
        }
        self.command("set offloads", interface, &mut words)
    }

    fn feature_count(&self, interface: &str) -> Result<usize, NetlinkError> {
        let operation = "count offloads";
        // cmd, reserved, 64-bit mask, one count.
        let mut words = [0u32; 5];
        words[0] = GET_STRING_SET_INFO;
        let mask = (1u64 << STRING_SET_FEATURES).to_ne_bytes();
        words[2] = u32::from_ne_bytes([mask[0], mask[1], mask[2], mask[3]]);
        words[3] = u32::from_ne_bytes([mask[4], mask[5], mask[6], mask[7]]);
        self.command(operation, interface, &mut words)?;
        if words[4] > MAX_FEATURES {
            return Err(NetlinkError::OutOfRange {
                operation,
                field: "features",
                value: u64::from(words[4]),
                allowed: "0 to 4096",
            });
        }
        Ok(words[4] as usize)
    }

    fn feature_names(&self, interface: &str, count: usize) -> Result<Vec<String>, NetlinkError> {
        let mut words = vec![0u32; 3 + count * STRING_BYTES / 4];
        words[0] = GET_STRINGS;
        words[1] = STRING_SET_FEATURES;
        words[2] = count as u32;
        self.command("read names of offloads", interface, &mut words)?;
        let bytes: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(bytes
            .chunks_exact(STRING_BYTES)
            .map(|name| {
                let end = name.iter().position(|&b| b == 0).unwrap_or(STRING_BYTES);
                String::from_utf8_lossy(&name[..end]).into_owned()
            })
            .collect())
    }
}
