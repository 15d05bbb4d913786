//! The one error type of this crate: what was attempted, on what, what the
//! kernel said, and what a person can do about it.

use std::io;

/// Why an operation on the kernel's network configuration failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetlinkError {
    /// The kernel refused a system call or a netlink request.
    #[error("{operation} {object}: {}{}", kernel_text(*errno, detail), remedy(*errno))]
    Kernel {
        /// What was attempted, in a few words (`create veth`).
        operation: &'static str,
        /// On what (an interface name, a prefix, a path).
        object: String,
        /// The positive errno value.
        errno: i32,
        /// The kernel's own sentence (extended acknowledgement), or empty.
        detail: String,
    },
    /// Which tables the older `iptables` programs have made only root may know.
    #[error(
        "{path} says which tables of iptables-legacy there are, and only root may read it: whether rules would be passed by \
         cannot be known as another user"
    )]
    TablesHidden {
        /// The file.
        path: &'static str,
    },
    /// No interface of this name exists in this namespace.
    #[error("no interface named \"{name}\" in this network namespace; list them with `ip link`")]
    NoSuchInterface {
        /// The name that was looked for.
        name: String,
    },
    /// A name that the kernel would not accept as an interface name.
    #[error(
        "\"{name}\" is no interface name: 1 to 15 bytes without '/', ':' or white space, and not \".\" or \"..\""
    )]
    BadInterfaceName {
        /// The name given.
        name: String,
    },
    /// A name that cannot be a named network namespace.
    #[error("\"{name}\" is no namespace name: 1 to 255 bytes without '/', and not \".\" or \"..\"")]
    BadNamespaceName {
        /// The name given.
        name: String,
    },
    /// A key that is not an interface key of `/proc/sys/net`.
    #[error("\"{key}\" is no interface key: lower-case letters, digits and '_' only")]
    BadKey {
        /// The key given.
        key: String,
    },
    /// An argument outside the range that the kernel's structures can carry.
    #[error("{operation}: {field} = {value} is outside {allowed}")]
    OutOfRange {
        /// What was attempted.
        operation: &'static str,
        /// Which argument.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The allowed range in words.
        allowed: &'static str,
    },
    /// The addresses of one request belong to different IP versions.
    #[error("{operation} {object}: IPv4 and IPv6 are mixed")]
    MixedFamilies {
        /// What was attempted.
        operation: &'static str,
        /// On what.
        object: String,
    },
    /// A message of the kernel that could not be read.
    #[error("{operation}: cannot read the kernel's answer: {reason}")]
    Decode {
        /// What was attempted.
        operation: &'static str,
        /// What was wrong with the message.
        reason: String,
    },
    /// The kernel did not answer in the time allowed for it.
    #[error("{operation} {object}: no answer from the kernel within {waited_s} s")]
    NoAnswer {
        /// What was attempted.
        operation: &'static str,
        /// On what.
        object: String,
        /// Seconds waited.
        waited_s: u64,
    },
    /// A table changed under every attempt to list it.
    #[error("{operation}: the table changed during each of {attempts} listings; try again later")]
    Unstable {
        /// What was attempted.
        operation: &'static str,
        /// How often.
        attempts: u32,
    },
    /// A user namespace can be entered only while the process has one thread.
    #[error("cannot enter a user namespace: {threads} threads are running; do it first thing in main")]
    ThreadsRunning {
        /// Number of threads of this process.
        threads: usize,
    },
    /// This machine does not let an unprivileged user make a user namespace.
    #[error(
        "cannot enter a user namespace ({step}: {source}); run as root, or allow it: \
             sysctl user.max_user_namespaces (> 0), kernel.unprivileged_userns_clone=1 (Debian), \
             kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), seccomp profile (containers)"
    )]
    UserNamespaceForbidden {
        /// Which step failed.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of the kernel held something that is not what it should hold.
    #[error("{path}: expected an integer, found \"{found}\"")]
    NotAnInteger {
        /// The file.
        path: String,
        /// Its content.
        found: String,
    },
}

impl NetlinkError {
    /// The errno of the kernel's refusal, if it was one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Kernel { errno, .. } => Some(*errno),
            Self::NoSuchInterface { .. } => Some(libc::ENODEV),
            Self::UserNamespaceForbidden { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// Whether more rights would help.
    pub fn is_permission(&self) -> bool {
        matches!(self.errno(), Some(libc::EPERM | libc::EACCES))
    }

    /// Whether the object is there already.
    pub fn is_taken(&self) -> bool {
        self.errno() == Some(libc::EEXIST)
    }

    /// Whether the object does not exist (no entry, device, process, address).
    pub fn is_not_found(&self) -> bool {
        matches!(
            self.errno(),
            Some(libc::ENOENT | libc::ENODEV | libc::ESRCH | libc::EADDRNOTAVAIL | libc::ENXIO)
        )
    }

    pub(crate) fn io(operation: &'static str, object: impl Into<String>, error: io::Error) -> Self {
        let errno = error.raw_os_error();
        Self::Kernel {
            operation,
            object: object.into(),
            errno: errno.unwrap_or(libc::EIO),
            // Without an errno the text is all there is.
            detail: if errno.is_none() { error.to_string() } else { String::new() },
        }
    }

    pub(crate) fn os(operation: &'static str, object: impl Into<String>, errno: rustix::io::Errno) -> Self {
        Self::Kernel { operation, object: object.into(), errno: errno.raw_os_error(), detail: String::new() }
    }
}

fn kernel_text(errno: i32, detail: &str) -> String {
    let text = io::Error::from_raw_os_error(errno);
    if detail.is_empty() { text.to_string() } else { format!("{text}: {detail}") }
}

/// A sentence for the errnos whose cause is almost always the same.
fn remedy(errno: i32) -> &'static str {
    match errno {
        libc::EPERM | libc::EACCES => {
            "; this needs root, CAP_NET_ADMIN and CAP_SYS_ADMIN, or a user namespace"
        }
        libc::ENODEV | libc::ENXIO => "; the interface is gone or was never here",
        libc::EROFS => "; /proc/sys is mounted read-only, as in many containers",
        libc::EOPNOTSUPP => "; the kernel or the driver lacks this",
        libc::ENETUNREACH => "; is the link up and the next hop on a connected network?",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_errors_name_the_remedy() {
        let error = NetlinkError::os("create veth", "a0", rustix::io::Errno::PERM);
        let text = error.to_string();
        assert!(text.starts_with("create veth a0: Operation not permitted"), "{text}");
        assert!(text.contains("user namespace"), "{text}");
        assert!(error.is_permission() && !error.is_not_found());
    }

    #[test]
    fn the_kernels_own_sentence_is_shown() {
        let error = NetlinkError::Kernel {
            operation: "add qdisc",
            object: "a0".into(),
            errno: libc::EINVAL,
            detail: "Invalid rate".into(),
        };
        assert!(error.to_string().contains("Invalid rate"));
    }
}
