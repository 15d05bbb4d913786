//! Rules that the older `iptables` programs made, as far as forwarded packets would meet them.
//!
//! Tables of that kind do not show among those of nf_tables. Only those that exist are asked about: to ask makes them.
//!
//! Source: linux/netfilter_ipv4/ip_tables.h and netfilter_ipv6/ip6_tables.h (`IPT_SO_GET_INFO`, `IPT_SO_GET_ENTRIES`).

use super::rules::{Rule, acts, is_harmless};
use super::{Bypassed, Does, Interfaces};
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use crate::raw::DUMP_ATTEMPTS;
use rustix::net::{AddressFamily, Protocol, RawProtocol, SocketFlags, SocketType};
use std::collections::BTreeMap;
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
/// `-NF_DROP - 1`, and so on.
const DROP: i32 = -1;
const ACCEPT: i32 = -2;
const RETURN: i32 = -5;
/// More than any table has; bounds what is allocated.
const MOST_BYTES: usize = 64 << 20;

struct Family {
    name: &'static str,
    tables: &'static str,
    domain: AddressFamily,
    level: libc::c_int,
    /// Where an entry has two names of interfaces and two masks for them,
    names_at: usize,
    /// which of the names are meant as others,
    inverted_at: usize,
    /// and where its target is, and behind that the next entry.
    target_at: usize,
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "ip",
        tables: "/proc/thread-self/net/ip_tables_names",
        domain: AddressFamily::INET,
        level: libc::IPPROTO_IP,
        names_at: 16,
        inverted_at: 83,
        target_at: 88,
    },
    Family {
        name: "ip6",
        tables: "/proc/thread-self/net/ip6_tables_names",
        domain: AddressFamily::INET6,
        level: libc::IPPROTO_IPV6,
        names_at: 64,
        inverted_at: 132,
        target_at: 140,
    },
];

/// Chains of `iptables-legacy` in a namespace that translate, filter or change what is forwarded between the interfaces.
///
/// # Errors
/// [`NetlinkError::Kernel`] when a table that exists cannot be read, EPERM without rights; [`NetlinkError::TablesHidden`].
pub(super) fn bypassed(namespace: &Namespace, ports: &Interfaces) -> Result<Vec<Bypassed>, NetlinkError> {
    namespace.run(|| here(ports))?
}

/// The same in the namespace of the calling thread.
fn here(ports: &Interfaces) -> Result<Vec<Bypassed>, NetlinkError> {
    let mut found = Vec::new();
    for family in &FAMILIES {
        let names = match std::fs::read_to_string(family.tables) {
            Ok(names) => names,
            // A kernel without such tables has no such file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // More capabilities would not help: it is root's. To ask for the tables would make them.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(NetlinkError::TablesHidden { path: family.tables });
            }
            Err(error) => {
                return Err(NetlinkError::io("read which tables there are", family.tables, error));
            }
        };
        for table in names.lines() {
            // Somebody may change it between the two questions.
            let mut again = 1..DUMP_ATTEMPTS;
            let read = loop {
                match Table::read(family, table) {
                    Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && again.next().is_some() => {}
                    read => break read,
                }
            };
            let read = read.map_err(|e| NetlinkError::io("read a table of iptables-legacy", table, e))?;
            found.extend(read.bypassed(table, ports));
        }
    }
    Ok(found)
}

/// A table as the kernel gives it. Entries are known by where they begin.
struct Table<'f> {
    family: &'f Family,
    info: Vec<u8>,
    entries: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |octets| u32::from_ne_bytes(*octets))
}

fn half(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |octets| u16::from_ne_bytes(*octets).into())
}

impl<'f> Table<'f> {
    fn read(family: &'f Family, table: &str) -> io::Result<Self> {
        let protocol = RawProtocol::new(libc::IPPROTO_RAW as u32).map(Protocol::from_raw);
        let socket =
            rustix::net::socket_with(family.domain, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        let mut info = vec![0; INFO_BYTES];
        let name = table.as_bytes();
        info[..name.len().min(31)].copy_from_slice(&name[..name.len().min(31)]);
        ask(&socket, family.level, GET_INFO, &mut info)?;
        let size = word(&info, INFO_BYTES - 4) as usize;
        let mut entries = vec![0; ENTRIES_HEADER + size.min(MOST_BYTES)];
        entries[..32].copy_from_slice(&info[..32]);
        entries[32..36].copy_from_slice(&(size as u32).to_ne_bytes());
        ask(&socket, family.level, GET_ENTRIES, &mut entries)?;
        Ok(Self { family, info, entries: entries.split_off(ENTRIES_HEADER) })
    }

    fn bypassed(&self, table: &str, ports: &Interfaces) -> Vec<Bypassed> {
        let does = if table == "nat" { Does::Translates } else { Does::Filters };
        let valid = word(&self.info, 32);
        let acts = |&(hook, _): &(usize, &str)| {
            let (begin, policy) =
                (word(&self.info, 36 + 4 * hook), word(&self.info, 36 + 4 * (HOOKS + hook)));
            let mut chains = BTreeMap::new();
            self.follow(begin as usize, policy as usize, ports, &mut chains);
            valid & 1 << hook != 0
                && (self.verdict(policy as usize) == DROP || acts(&(begin as usize), &chains))
        };
        let place = |chain| format!("{} {table} {chain} (iptables-legacy)", self.family.name);
        let hooks = [(PRE_ROUTING, "PREROUTING"), (FORWARD, "FORWARD"), (POST_ROUTING, "POSTROUTING")];
        hooks
            .iter()
            .filter(|hook| acts(hook))
            .map(|(_, chain)| Bypassed { place: place(chain), does })
            .collect()
    }

    fn target(&self, entry: usize) -> usize {
        entry + half(&self.entries, entry + self.family.target_at)
    }

    /// What an entry's target says, if it is one of the kernel's own.
    fn verdict(&self, entry: usize) -> i32 {
        word(&self.entries, self.target(entry) + TARGET_HEADER) as i32
    }

    /// Reads the rules from `begin` on, up to `end` or the chain's end, and of those that they lead to.
    fn follow(
        &self,
        begin: usize,
        end: usize,
        ports: &Interfaces,
        chains: &mut BTreeMap<usize, Vec<Rule<usize>>>,
    ) {
        let mut next = vec![(begin, end)];
        while let Some((begin, end)) = next.pop() {
            if chains.contains_key(&begin) {
                continue;
            }
            let (mut rules, mut at) = (Vec::new(), begin);
            while at < end && at < self.entries.len() {
                let step = half(&self.entries, at + self.family.target_at + 2);
                let name = self.entries.get(self.target(at) + 2..).unwrap_or_default();
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                // Where the next chain begins, or what is no table.
                if name == b"ERROR" || step == 0 {
                    break;
                }
                match self.verdict(at) {
                    _ if !self.concerns(at, ports) => {}
                    _ if !name.is_empty() => {
                        if !std::str::from_utf8(name).is_ok_and(is_harmless) {
                            rules.push(Rule::Acts);
                        }
                    }
                    other @ 0.. => {
                        rules.push(Rule::GoesTo(other as usize));
                        next.push((other as usize, usize::MAX));
                    }
                    ACCEPT | RETURN => {}
                    _ => rules.push(Rule::Acts),
                }
                at += step;
            }
            chains.insert(begin, rules);
        }
    }

    /// Whether an entry is for packets between the interfaces, by the names that it has of them.
    fn concerns(&self, entry: usize, ports: &Interfaces) -> bool {
        let Family { names_at, inverted_at, .. } = self.family;
        let at = |offset: usize| {
            self.entries.get(entry + names_at + offset..).and_then(|rest| rest.first_chunk::<16>())
        };
        let inverted = self.entries.get(entry + inverted_at).copied().unwrap_or_default();
        [0, 1].into_iter().all(|side| {
            let (Some(name), Some(mask)) = (at(16 * side), at(32 + 16 * side)) else { return true };
            // As much of it as the mask covers counts, with its zero or without.
            let compared = mask.iter().take_while(|byte| **byte != 0).count();
            compared == 0 || inverted & 1 << side != 0 || ports.have_name(&name[..compared])
        })
    }
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
    use crate::bypass::bypassed;
    use crate::bypass::tests::namespace_for;
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
        let found = || -> Vec<String> {
            bypassed(&namespace, &["lan"], false, &Default::default())
                .unwrap()
                .all
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert!(found().is_empty() && found().is_empty(), "to look makes no table");
        if !run(&namespace, "iptables-legacy -t filter -P FORWARD ACCEPT") {
            return eprintln!(
                "SKIPPED {name}: there is no iptables-legacy, or the kernel has none of its tables"
            );
        }
        assert!(run(&namespace, "iptables-legacy -A INPUT -p udp --dport 53 -j DROP"));
        assert!(found().is_empty(), "what is for this host: {:?}", found());
        assert!(run(&namespace, "iptables-legacy -P FORWARD DROP"));
        assert_eq!(found(), ["ip filter FORWARD (iptables-legacy) filters or changes what is forwarded"]);
        assert!(run(&namespace, "iptables-legacy -P FORWARD ACCEPT"));
        assert!(run(&namespace, "iptables-legacy -t nat -A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE"));
        assert_eq!(found(), ["ip nat POSTROUTING (iptables-legacy) translates addresses"]);
        for nothing in ["FORWARD -s 10.0.0.0/8 -j ACCEPT", "FORWARD -o wg0 -j DROP", "FORWARD -i l -j DROP"] {
            assert!(run(&namespace, &format!("iptables-legacy -A {nothing}")));
            assert_eq!(found().len(), 1, "{nothing}");
        }
        assert!(run(&namespace, "iptables-legacy -N bogons"));
        assert!(run(&namespace, "iptables-legacy -A bogons -s 192.0.2.0/24 -j DROP"));
        assert!(run(&namespace, "iptables-legacy -A FORWARD -i l+ -j bogons"));
        assert_eq!(found().len(), 2, "{:?}", found());
        assert!(run(&namespace, "iptables-legacy -F FORWARD") && found().len() == 1);
        assert!(
            run(&namespace, "iptables-legacy -t mangle -A PREROUTING -j MARK --set-mark 1")
                && found().len() == 1
        );
        let clamp = "iptables-legacy -t mangle -A POSTROUTING -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu";
        if run(&namespace, clamp) {
            assert!(found().iter().any(|text| text.starts_with("ip mangle POSTROUTING")), "{:?}", found());
        }
        if run(&namespace, "ip6tables-legacy -P FORWARD DROP") {
            assert!(found().contains(
                &"ip6 filter FORWARD (iptables-legacy) filters or changes what is forwarded".to_owned()
            ));
        }
    }

    /// A user of its own with all the rights that a router keeps may not know which tables there are.
    #[test]
    fn who_may_not_know_which_tables_there_are_is_told() {
        use rustix::process::{Gid, Uid};
        use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};
        let name = "who_may_not_know_which_tables_there_are_is_told";
        let Some(namespace) = namespace_for(name) else { return };
        if !std::path::Path::new(FAMILIES[0].tables).exists() {
            return eprintln!("SKIPPED {name}: the kernel has no such tables");
        }
        let look = || {
            set_keep_capabilities(true).unwrap();
            rustix::thread::set_thread_res_gid(
                Gid::from_raw(65_534),
                Gid::from_raw(65_534),
                Gid::from_raw(65_534),
            )
            .ok()?;
            rustix::thread::set_thread_res_uid(
                Uid::from_raw(65_534),
                Uid::from_raw(65_534),
                Uid::from_raw(65_534),
            )
            .ok()?;
            let kept = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
            let sets =
                CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
            set_capabilities(None, sets).unwrap();
            Some(here(&Interfaces::default()))
        };
        let Some(found) = std::thread::spawn(move || namespace.run(look)).join().unwrap().unwrap() else {
            return eprintln!("SKIPPED {name}: there is no other user here");
        };
        let error = found.unwrap_err();
        assert!(matches!(error, NetlinkError::TablesHidden { .. }) && !error.is_permission(), "{error}");
    }
}
