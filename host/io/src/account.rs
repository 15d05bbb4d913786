//! Users and groups of this host, as its name service knows them, and those of a process at the other end of a Unix socket.
//!
//! Source: getpwnam_r(3), getgrnam_r(3), unix(7) `SO_PEERGROUPS` (Linux 4.13).

use libc::{c_char, c_int};
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Bytes for the strings of an entry at first, and at the most: groups of many members are long.
const BUFFER: (usize, usize) = (1 << 10, 1 << 20);
/// Groups of a process for which there is room at first; a process may have 65,536.
const GROUPS: usize = 64;

/// getpwnam_r and getgrnam_r: name, where the entry goes, where its strings go and how many bytes there are, and where it is
/// said whether there is one.
type Find<T> = unsafe extern "C" fn(*const c_char, *mut T, *mut c_char, usize, *mut *mut T) -> c_int;

/// Number of the user with this name; `None` if there is none.
///
/// # Errors
/// The name service's.
pub fn user_id(name: &str) -> io::Result<Option<u32>> {
    look_up::<libc::passwd>(name, libc::getpwnam_r, |entry| entry.pw_uid)
}

/// Number of the group with this name; `None` if there is none.
///
/// # Errors
/// The name service's.
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    look_up::<libc::group>(name, libc::getgrnam_r, |entry| entry.gr_gid)
}

/// Asks with a longer buffer until it suffices.
fn look_up<T>(name: &str, find: Find<T>, id: fn(&T) -> u32) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let mut buffer: Vec<u8> = vec![0; BUFFER.0];
    loop {
        let mut entry = MaybeUninit::<T>::uninit();
        let mut found = ptr::null_mut();
        let (strings, length) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: all pointers are to live memory of the lengths given; the entry is read only if `found` points to it.
        let (code, found) = unsafe {
            let code = find(name.as_ptr(), entry.as_mut_ptr(), strings, length, &raw mut found);
            (code, found.as_ref().map(id))
        };
        match code {
            0 => return Ok(found),
            libc::ERANGE if length < BUFFER.1 => buffer.resize(length * 4, 0),
            // What different name services say of a name that they do not know.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// The supplementary groups that the process at the other end of a connected Unix socket had when it connected.
///
/// # Errors
/// The kernel's: it is older than Linux 4.13, or this is no such socket.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; GROUPS];
    loop {
        let size = size_of_val(groups.as_slice());
        let mut length = libc::socklen_t::try_from(size).unwrap_or(libc::socklen_t::MAX);
        // SAFETY: the kernel writes at most `length` bytes, which `groups` has, and then how many it wrote or needs.
        let code = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = length as usize / size_of::<libc::gid_t>();
        if code == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || count <= groups.len() {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn root_is_number_0_and_nobody_has_a_name_that_is_none() {
        assert_eq!(user_id("root").expect("a name service"), Some(0));
        assert_eq!(group_id("root").expect("a name service"), Some(0));
        for name in ["no such user or group", "", "a\0b"] {
            assert_eq!(
                (user_id(name).ok().flatten(), group_id(name).ok().flatten()),
                (None, None),
                "{name:?}"
            );
        }
    }

    #[test]
    fn the_other_end_has_the_groups_of_its_process() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find_map(|l| l.strip_prefix("Groups:")).expect("a line of it");
        let mut expected: Vec<u32> = line.split_whitespace().map(|g| g.parse().expect("a number")).collect();
        let mut found = peer_groups(one.as_fd()).expect("Linux 4.13");
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}
