//! Interface keys under `/proc/sys/net`, per namespace: set, with what they
//! were, and restored.
//!
//! `/proc/sys/net` shows the network namespace of the thread that opens the
//! file, so every access here runs inside the namespace. Root of a user
//! namespace may write the keys of network namespaces that it owns.
//!
//! `all` and `default` are interfaces here, too. Trap: the kernel filters by
//! the larger `rp_filter` of `all` and of the interface, so 0 on the interface
//! alone does not switch it off.

use std::path::PathBuf;
use std::{fs, io};

use crate::error::NetlinkError;
use crate::interface_name::check_interface_name;
use crate::namespace::Namespace;

/// Internet protocol version: which half of `/proc/sys/net`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpVersion {
    /// `net.ipv4`
    V4,
    /// `net.ipv6`
    V6,
}

impl IpVersion {
    /// `ipv4` or `ipv6`: the directory under `/proc/sys/net`, and the name in
    /// state files.
    pub fn directory(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }
}

/// One key with the value it had. Plain data, for a state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedKey {
    /// Protocol version.
    pub version: IpVersion,
    /// Interface name.
    pub interface: String,
    /// Key, such as `forwarding`.
    pub key: String,
    /// Its value before the change.
    pub value: i64,
}

/// Reads `net.VERSION.conf.INTERFACE.KEY`.
///
/// # Errors
/// ENOENT (see [`NetlinkError::is_not_found`]) when the interface or the key
/// does not exist; [`NetlinkError::NotAnInteger`].
pub fn read(
    namespace: &Namespace,
    version: IpVersion,
    interface: &str,
    key: &str,
) -> Result<i64, NetlinkError> {
    let path = path(version, interface, key)?;
    namespace.run(|| read_here(&path))?
}

/// Of the switches that show the packet filter's rules for IP what bridges of the kernel carry, those that are on; none where the
/// kernel has none. A single bridge may have its own (`ip link set … type bridge nf_call_iptables 1`), which is not among them.
///
/// # Errors
/// [`NetlinkError::Kernel`] when one that is there cannot be read, [`NetlinkError::NotAnInteger`].
pub fn bridge_filter_keys(namespace: &Namespace) -> Result<Vec<&'static str>, NetlinkError> {
    const KEYS: [&str; 2] = ["net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"];
    namespace.run(|| {
        let mut on = Vec::new();
        for key in KEYS {
            match read_here(&PathBuf::from(format!("/proc/sys/{}", key.replace('.', "/")))) {
                Ok(0) => {}
                Ok(_) => on.push(key),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(on)
    })?
}

/// Writes `net.VERSION.conf.INTERFACE.KEY`.
///
/// # Errors
/// As [`read()`]; EPERM or EACCES without rights, EROFS in many containers.
pub fn write(
    namespace: &Namespace,
    version: IpVersion,
    interface: &str,
    key: &str,
    value: i64,
) -> Result<(), NetlinkError> {
    let path = path(version, interface, key)?;
    namespace.run(|| write_here(&path, value))?
}

/// Sets several keys of one interface and returns what they were, in the
/// order of `keys`. Keys of a protocol version that the kernel lacks are left
/// out. When one fails, those already set are put back.
///
/// # Errors
/// As [`write()`].
pub fn set(
    namespace: &Namespace,
    interface: &str,
    keys: &[(IpVersion, &str, i64)],
) -> Result<Vec<SavedKey>, NetlinkError> {
    check_interface_name(interface)?;
    namespace.run(|| {
        let mut saved = Vec::with_capacity(keys.len());
        for &(version, key, value) in keys {
            if !PathBuf::from(format!("/proc/sys/net/{}", version.directory())).exists() {
                continue;
            }
            match change_here(version, interface, key, value) {
                Ok(before) => saved.push(before),
                Err(error) => {
                    // The first failure is the one to report.
                    let _ = restore_here(&saved);
                    return Err(error);
                }
            }
        }
        Ok(saved)
    })?
}

/// Puts saved keys back, last first. Keys of interfaces that are gone are
/// skipped; all others are tried even after a failure.
///
/// # Errors
/// The first failure.
pub fn restore(namespace: &Namespace, saved: &[SavedKey]) -> Result<(), NetlinkError> {
    namespace.run(|| restore_here(saved))?
}

fn path(version: IpVersion, interface: &str, key: &str) -> Result<PathBuf, NetlinkError> {
    check_interface_name(interface)?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if key.is_empty() || !key.bytes().all(plain) {
        return Err(NetlinkError::BadKey { key: key.into() });
    }
    let version = version.directory();
    // A path, so an interface name with dots (eth0.100) needs no escaping.
    Ok(PathBuf::from(format!("/proc/sys/net/{version}/conf/{interface}/{key}")))
}

fn fail(operation: &'static str, path: &std::path::Path, error: io::Error) -> NetlinkError {
    NetlinkError::io(operation, path.display().to_string(), error)
}

fn read_here(path: &std::path::Path) -> Result<i64, NetlinkError> {
    let text = fs::read_to_string(path).map_err(|e| fail("read", path, e))?;
    text.trim().parse().map_err(|_| NetlinkError::NotAnInteger {
        path: path.display().to_string(),
        found: text.trim().chars().take(40).collect(),
    })
}

fn write_here(path: &std::path::Path, value: i64) -> Result<(), NetlinkError> {
    fs::write(path, value.to_string()).map_err(|e| fail("write", path, e))
}

fn change_here(version: IpVersion, interface: &str, key: &str, value: i64) -> Result<SavedKey, NetlinkError> {
    let path = path(version, interface, key)?;
    let before = read_here(&path)?;
    if before != value {
        write_here(&path, value)?;
    }
    Ok(SavedKey { version, interface: interface.into(), key: key.into(), value: before })
}

fn restore_here(saved: &[SavedKey]) -> Result<(), NetlinkError> {
    let mut result = Ok(());
    for key in saved.iter().rev() {
        let put = path(key.version, &key.interface, &key.key).and_then(|path| write_here(&path, key.value));
        if let Err(error) = put
            && !error.is_not_found()
        {
            result = result.and(Err(error));
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_cannot_leave_the_interface_directory() {
        assert_eq!(
            path(IpVersion::V4, "eth0.100", "rp_filter").expect("a good path"),
            PathBuf::from("/proc/sys/net/ipv4/conf/eth0.100/rp_filter")
        );
        assert!(path(IpVersion::V4, "..", "forwarding").is_err());
        assert!(path(IpVersion::V4, "eth0", "../all/forwarding").is_err());
        assert!(path(IpVersion::V6, "eth0", "").is_err());
    }
}
