//! Rules that the older `iptables` programs made, as far as forwarded packets would meet them.
//!
//! Tables of that kind do not show among those of nf_tables. Only those that exist are asked about: to ask makes them.
//!
//! Source: linux/netfilter_ipv4/ip_tables.h and netfilter_ipv6/ip6_tables.h (`IPT_SO_GET_INFO`, `IPT_SO_GET_ENTRIES`).

use super::survey::Bypassed;
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use crate::raw::DUMP_ATTEMPTS;
use rustix::net::{AddressFamily, Protocol, RawProtocol, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const GET_INFO: libc::c_int = 64;
const GET_ENTRIES: libc::c_int = 65;
/// `struct ipt_getinfo`: a name, which hooks the table is at, where each begins and where its policy is, entries, bytes.
const INFO_BYTES: usize = 84;
const HOOKS: usize = 5;
const FORWARD: usize = 2;
const PRE_ROUTING: usize = 0;
const POST_ROUTING: usize = 4;
/// `struct ipt_get_entries` before the entries.
const ENTRIES_HEADER: usize = 40;
/// `struct xt_entry_target`, which the verdict follows.
const TARGET_HEADER: usize = 32;
/// `-NF_DROP - 1`.
const DROP: i32 = -1;
/// More than any table has; bounds what is allocated.
const MOST_BYTES: usize = 64 << 20;

struct Family {
    name: &'static str,
    tables: &'static str,
    domain: AddressFamily,
    level: libc::c_int,
    /// Where an entry says where its target is.
    target_at: usize,
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "ip",
        tables: "/proc/thread-self/net/ip_tables_names",
        domain: AddressFamily::INET,
        level: libc::IPPROTO_IP,
        target_at: 88,
    },
    Family {
        name: "ip6",
        tables: "/proc/thread-self/net/ip6_tables_names",
        domain: AddressFamily::INET6,
        level: libc::IPPROTO_IPV6,
        target_at: 140,
    },
];

/// Chains of `iptables-legacy` in a namespace that translate addresses or filter what is forwarded: those that have rules,
/// or drop what no rule takes.
///
/// # Errors
/// [`NetlinkError::Kernel`] when a table that exists cannot be read; EPERM without rights.
pub(crate) fn bypassed(namespace: &Namespace) -> Result<Vec<Bypassed>, NetlinkError> {
    namespace.run(|| {
        let mut found = Vec::new();
        for family in &FAMILIES {
            // A kernel without such tables has no such file.
            let names = std::fs::read_to_string(family.tables).unwrap_or_default();
            for table in names.lines() {
                // Somebody may change it between the two questions.
                let mut again = 1..DUMP_ATTEMPTS;
                let chains = loop {
                    match chains(family, table) {
                        Err(error)
                            if error.raw_os_error() == Some(libc::EAGAIN) && again.next().is_some() => {}
                        read => break read,
                    }
                };
                found.extend(
                    chains.map_err(|e| NetlinkError::io("read a table of iptables-legacy", table, e))?,
                );
            }
        }
        Ok(found)
    })?
}

fn chains(family: &Family, table: &str) -> io::Result<Vec<Bypassed>> {
    let protocol = RawProtocol::new(libc::IPPROTO_RAW as u32).map(Protocol::from_raw);
    let socket = rustix::net::socket_with(family.domain, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    let mut info = vec![0; INFO_BYTES];
    let name = table.as_bytes();
    info[..name.len().min(31)].copy_from_slice(&name[..name.len().min(31)]);
    ask(&socket, family.level, GET_INFO, &mut info)?;
    let word = |bytes: &[u8], at: usize| {
        let octets = bytes.get(at..).and_then(|rest| rest.first_chunk());
        octets.map_or(0, |octets| u32::from_ne_bytes(*octets))
    };
    let size = word(&info, INFO_BYTES - 4) as usize;
    let mut entries = vec![0; ENTRIES_HEADER + size.min(MOST_BYTES)];
    entries[..32].copy_from_slice(&info[..32]);
    entries[32..36].copy_from_slice(&(size as u32).to_ne_bytes());
    ask(&socket, family.level, GET_ENTRIES, &mut entries)?;
    let entries = &entries[ENTRIES_HEADER..];
    let valid = word(&info, 32);
    let translates = table == "nat";
    let hooks: &[(usize, &str)] = if translates {
        &[(PRE_ROUTING, "PREROUTING"), (POST_ROUTING, "POSTROUTING")]
    } else {
        &[(FORWARD, "FORWARD")]
    };
    let has_effect = |hook: usize| {
        let (begin, policy) = (word(&info, 36 + 4 * hook), word(&info, 36 + 4 * HOOKS + 4 * hook));
        // The first entry of a chain without rules is its policy.
        let target = policy as usize
            + usize::from(u16::from_ne_bytes(
                entries
                    .get(policy as usize + family.target_at..)
                    .and_then(|rest| rest.first_chunk())
                    .copied()
                    .unwrap_or_default(),
            ));
        let drops = word(entries, target + TARGET_HEADER) as i32 == DROP;
        valid & 1 << hook != 0 && (begin != policy || drops)
    };
    let told = |(_, chain): &(usize, &str)| Bypassed {
        table: format!("{} {table} (iptables-legacy)", family.name),
        chain: (*chain).to_owned(),
        translates,
    };
    Ok(hooks.iter().filter(|(hook, _)| has_effect(*hook)).map(told).collect())
}

/// Reads an option into a structure whose beginning says what is asked for.
fn ask(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, structure: &mut [u8]) -> io::Result<()> {
    let mut length = structure.len() as libc::socklen_t;
    // SAFETY: pointer and length describe `structure`, which lives across the call; the kernel reads its beginning and
    // writes at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, structure.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::survey::tests::namespace_for;
    use std::process::{Command, Stdio};

    #[test]
    fn rules_of_the_older_programs_are_found_and_tables_without_any_are_not_made() {
        let name = "rules_of_the_older_programs_are_found_and_tables_without_any_are_not_made";
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let run = |namespace: &Namespace, words: &str| {
            let mut words = words.split(' ');
            let mut command = Command::new(words.next().unwrap());
            command.env("PATH", &path).args(words).stdout(Stdio::null()).stderr(Stdio::null());
            namespace.run(|| command.status()).unwrap().is_ok_and(|status| status.success())
        };
        let Some(namespace) = namespace_for(name) else { return };
        let found =
            || -> Vec<String> { bypassed(&namespace).unwrap().iter().map(ToString::to_string).collect() };
        assert!(found().is_empty() && found().is_empty(), "to look makes no table");
        if !run(&namespace, "iptables-legacy -t filter -P FORWARD ACCEPT") {
            return eprintln!(
                "SKIPPED {name}: there is no iptables-legacy, or the kernel has none of its tables"
            );
        }
        assert!(run(&namespace, "iptables-legacy -A INPUT -p udp --dport 53 -j DROP"));
        assert!(found().is_empty(), "what is for this host: {:?}", found());
        assert!(run(&namespace, "iptables-legacy -P FORWARD DROP"));
        assert_eq!(found(), ["ip filter (iptables-legacy) FORWARD filters what is forwarded"]);
        assert!(run(&namespace, "iptables-legacy -P FORWARD ACCEPT"));
        assert!(run(&namespace, "iptables-legacy -t nat -A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE"));
        assert_eq!(found(), ["ip nat (iptables-legacy) POSTROUTING translates addresses"]);
        assert!(run(&namespace, "iptables-legacy -A FORWARD -s 10.0.0.0/8 -j ACCEPT"));
        assert_eq!(found().len(), 2);
        if run(&namespace, "ip6tables-legacy -P FORWARD DROP") {
            assert!(
                found()
                    .contains(&"ip6 filter (iptables-legacy) FORWARD filters what is forwarded".to_owned())
            );
        }
    }
}
