//! Leads what this host itself sends by an interface to another one, before it leaves.
//!
//! | frame that the kernel sends by a port | goes |
//! |---|---|
//! | IPv4, IPv6 | to the other interface |
//! | neighbour discovery and router discovery of IPv6 (RFC 4861) | on its way, as does ARP: it says where frames go at all |
//! | with a mark that the router's own sockets for it have | on its way |
//! | all else | on its way |

use super::expression::{
    Verdict, forward_to, marked, meta_protocol, payload_is, payload_within, rule, verdict,
};
use super::guard::{ACCEPT, TABLE_OWNER, table_of};
use super::message::{Attributes, Message, Socket, Verb, family};
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE};

/// `NF_NETDEV_EGRESS`.
const EGRESS: u32 = 1;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
/// Router and neighbour discovery: solicitations, advertisements, redirects.
const DISCOVERY: [u8; 2] = [133, 137];

/// A way that what leaves an interface is led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detour {
    /// The interface's name.
    pub interface: String,
    /// Its number: another one of the same name has no rules.
    pub index: u32,
    /// The number of the interface that it leaves by instead.
    pub to: u32,
    /// Marks of frames that have been through the router.
    pub marks: [u32; 2],
}

/// The rules, as long as this value or the process lives.
#[derive(Debug)]
pub struct OwnTraffic {
    socket: Socket,
    table: String,
    detours: Vec<Detour>,
}

impl OwnTraffic {
    /// No detour yet, for the router of this name.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`] when no socket can be made.
    pub fn open_in(namespace: &Namespace, router: &str) -> Result<Self, NetlinkError> {
        let socket = namespace.run(Socket::open)??;
        Ok(Self { socket, table: table_of(router), detours: Vec::new() })
    }

    /// These detours and no others, in one step.
    ///
    /// # Errors
    /// [`NetlinkError::Kernel`]: ENOENT when an interface is gone; EOPNOTSUPP, EPROTONOSUPPORT, EAFNOSUPPORT or EINVAL where the
    /// kernel has no rules for what leaves (5.16) or none that lead elsewhere. What was in force stays.
    pub fn lead(&mut self, detours: &[Detour]) -> Result<(), NetlinkError> {
        if detours == self.detours {
            return Ok(());
        }
        // A chain goes with its interface, whatever is known of that here: the table is always made anew.
        let mut messages = vec![self.table(), self.message(Verb::DeleteTable, 0, self.named()), self.table()];
        for (i, Detour { interface, to, marks, .. }) in detours.iter().enumerate() {
            let chain = format!("leaves-{i}");
            let hook = Attributes::new().number(1, EGRESS).number(2, 0).text(3, interface);
            let made = self.named().text(3, &chain).nested(4, hook).number(5, ACCEPT).text(7, "filter");
            messages.push(self.message(Verb::NewChain, NLM_F_CREATE, made));
            let discovery = meta_protocol(IPV6)
                .into_iter()
                .chain(payload_is(true, 6, ICMPV6))
                .chain(payload_within(false, 0, DISCOVERY))
                .chain([verdict(Verdict::Accept)]);
            let sent = |mark| rule(marked(mark).into_iter().chain([verdict(Verdict::Accept)]));
            let of = |protocol| rule(meta_protocol(protocol).into_iter().chain(forward_to(*to)));
            for rule in [sent(marks[0]), sent(marks[1]), rule(discovery), of(IPV4), of(IPV6)] {
                let made = self.named().text(2, &chain).nested(4, rule);
                messages.push(self.message(Verb::NewRule, NLM_F_CREATE | NLM_F_APPEND, made));
            }
        }
        if detours.is_empty() {
            messages.truncate(2);
        }
        self.socket.transact(
            "lead this host's own packets through the router by the table",
            &self.table,
            &messages,
        )?;
        self.detours = detours.to_vec();
        Ok(())
    }

    fn named(&self) -> Attributes {
        Attributes::new().text(1, &self.table)
    }

    fn table(&self) -> Message {
        self.message(Verb::NewTable, NLM_F_CREATE, self.named().number(2, TABLE_OWNER))
    }

    fn message(&self, verb: Verb, flags: u16, attributes: Attributes) -> Message {
        Message { verb, family: family::NETDEV, flags, attributes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Netlink;
    use crate::bypass::tests::namespace_for;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    /// A packet socket that hears what comes to an interface.
    fn ear(namespace: &Namespace, index: u32) -> std::os::fd::OwnedFd {
        use rustix::net::{AddressFamily, SocketFlags, SocketType};
        let open = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).unwrap()
        };
        let socket = namespace.run(open).unwrap();
        // SAFETY: all fields are integers, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = IPV4.to_be();
        address.sll_ifindex = index as i32;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: pointer and length describe `address`, which lives across the call.
        assert_eq!(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) }, 0);
        socket
    }

    #[test]
    fn only_what_has_been_through_the_router_for_this_interface_leaves_by_it() {
        let Some(namespace) =
            namespace_for("only_what_has_been_through_the_router_for_this_interface_leaves_by_it")
        else {
            return;
        };
        let net = Netlink::open_in(&namespace).unwrap();
        let mut index = std::collections::BTreeMap::new();
        for name in ["out", "side"] {
            let peer = format!("{name}p");
            net.create_veth(name, &peer, None).unwrap();
            for name in [name, &peer] {
                net.set_up(name).unwrap();
                index.insert(name.to_owned(), net.link(name).unwrap().index);
            }
        }
        let wait = || {
            std::thread::sleep(Duration::from_millis(1));
            false
        };
        let runs = |name| net.link(name).unwrap().running;
        assert!((0..5_000).any(|_| (runs("out") && runs("side")) || wait()), "no carrier");
        net.add_address_now("out", "10.7.0.1/24".parse().unwrap()).unwrap();
        let mut own = OwnTraffic::open_in(&namespace, "own-test").unwrap();
        let (here, tunnel) = (77, 99);
        let detour =
            Detour { interface: "out".to_owned(), index: index["out"], to: index["side"], marks: [55, here] };
        own.lead(&[detour]).unwrap();
        let ears = ["outp", "sidep"].map(|name| ear(&namespace, index[name]));
        let socket = namespace.run(|| UdpSocket::bind("10.7.0.1:0")).unwrap().unwrap();
        socket.set_broadcast(true).unwrap();
        for (mark, by) in [(0, 1), (tunnel, 1), (55, 0), (here, 0)] {
            let mark: u32 = mark;
            // SAFETY: pointer and length describe `mark`.
            let set = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_MARK,
                    (&raw const mark).cast(),
                    size_of_val(&mark) as libc::socklen_t,
                )
            };
            assert_eq!(set, 0);
            socket.send_to(b"x", "10.7.0.255:9").unwrap();
            let hears = |ear: usize| rustix::io::read(&ears[ear], &mut [0; 100]).is_ok();
            let soon = || (0..5_000).any(|_| hears(by) || wait());
            assert!(soon() && !hears(1 - by), "mark {mark}");
        }
    }
}
