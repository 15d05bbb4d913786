//! Policies of IPsec for what is forwarded (linux/xfrm.h).
//!
//! A policy counts that has packets leave encrypted, or not at all. Those of an interface for it (`if_id`) do not: what is
//! routed there does not leave by a port. Nor do those for this host's own addresses alone.

use super::{Bypassed, Does, Interfaces};
use crate::address::InterfaceAddress;
use crate::error::NetlinkError;
use crate::namespace::Namespace;
use crate::nft::message::find;
use crate::raw::{self, ANSWER_WITHIN_S, DUMP_ATTEMPTS, RECEIVE_BUFFER_BYTES};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, netlink};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const GET_POLICY: u16 = 0x15;
/// `struct xfrm_userpolicy_id`, all zero: any.
const ANY: [u8; 64] = [0; 64];
/// `struct xfrm_userpolicy_info`, attributes behind it.
const POLICY_BYTES: usize = 168;
const TEMPLATE: u16 = 5;
const INTERFACE_ID: u16 = 31;
/// Directions and actions.
const OUT: u8 = 1;
const FORWARDED: u8 = 2;
const BLOCK: u8 = 1;

/// Policies in a namespace for what is forwarded between the interfaces.
///
/// # Errors
/// [`NetlinkError::Kernel`]; a kernel without IPsec has none, which is no error.
pub(super) fn bypassed(
    namespace: &Namespace,
    ports: &Interfaces,
    own: &[InterfaceAddress],
) -> Result<Vec<Bypassed>, NetlinkError> {
    let operation = "list the policies of IPsec";
    let fail = |e| NetlinkError::os(operation, "", e);
    let fd = match namespace.run(open)? {
        Err(rustix::io::Errno::PROTONOSUPPORT) => return Ok(Vec::new()),
        fd => fd.map_err(fail)?,
    };
    let mut buffer = vec![0; RECEIVE_BUFFER_BYTES];
    for sequence in 1..=DUMP_ATTEMPTS {
        let mut request = Vec::new();
        raw::push_frame(&mut request, (GET_POLICY, NLM_F_REQUEST | NLM_F_DUMP, sequence), &[&ANY]);
        rustix::net::send(&fd, &request, SendFlags::empty()).map_err(fail)?;
        let mut found = Vec::new();
        let each = |body: &[u8]| found.extend(policy(body, ports, own));
        match raw::read_listing(fd.as_fd(), &mut buffer, (operation, sequence), each)? {
            (0, false) => return Ok(found),
            (0, true) => {}
            (errno, _) => return Err(raw::refused(operation, "", errno)),
        }
    }
    Err(NetlinkError::Unstable { operation, attempts: DUMP_ATTEMPTS })
}

fn open() -> rustix::io::Result<OwnedFd> {
    let fd = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::XFRM),
    )?;
    set_socket_timeout(&fd, Timeout::Recv, Some(Duration::from_secs(ANSWER_WITHIN_S)))?;
    Ok(fd)
}

fn policy(body: &[u8], ports: &Interfaces, own: &[InterfaceAddress]) -> Option<Bypassed> {
    let (policy, attributes) = body.split_at_checked(POLICY_BYTES)?;
    let number = |at: usize| policy.get(at..)?.first_chunk().map(|octets| u32::from_ne_bytes(*octets));
    let (direction, action) = (policy[160], policy[161]);
    let blocks = action == BLOCK && matches!(direction, OUT | FORWARDED);
    let encrypts = action != BLOCK && direction == OUT && find(attributes, TEMPLATE).is_some();
    let of_interface = number(48)? != 0 && !ports.have_index(number(48)?);
    let routed = find(attributes, INTERFACE_ID).is_some_and(|id| id.iter().any(|octet| *octet != 0));
    if !(blocks || encrypts) || of_interface || routed {
        return None;
    }
    let v6 = policy[40] == libc::AF_INET6 as u8;
    let net = |at: usize, bits: u8| -> Option<IpNet> {
        let octets: &[u8; 16] = policy.get(at..)?.first_chunk()?;
        let address = if v6 { IpAddr::from(*octets) } else { IpAddr::from(*octets.first_chunk::<4>()?) };
        IpNet::new(address, bits).ok()
    };
    let (to, from) = (net(0, policy[42])?, net(16, policy[43])?);
    let is_own =
        from.prefix_len() == from.max_prefix_len() && own.iter().any(|a| a.address.addr() == from.addr());
    (!is_own).then(|| Bypassed {
        place: format!("xfrm policy from {from} to {to}"),
        does: if blocks { Does::Filters } else { Does::Encrypts },
    })
}

#[cfg(test)]
mod tests {
    use crate::bypass::bypassed;
    use crate::bypass::tests::namespace_for;
    use std::process::{Command, Stdio};

    #[test]
    fn policies_that_encrypt_or_block_what_is_forwarded_are_found() {
        let name = "policies_that_encrypt_or_block_what_is_forwarded_are_found";
        let Some(namespace) = namespace_for(name) else { return };
        let run = |words: &str| {
            let mut command = Command::new("ip");
            command.args(words.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
            namespace.run(|| command.status()).unwrap().is_ok_and(|status| status.success())
        };
        if !run("xfrm policy") {
            return eprintln!("SKIPPED {name}: there is no iproute2, or the kernel has no IPsec");
        }
        let found = || -> Vec<String> {
            bypassed(&namespace, &["lan"], false, &Default::default())
                .unwrap()
                .all
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert!(run("link set lo up"));
        assert!(found().is_empty());
        let tunnel = "tmpl src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel";
        let policy = |words: &str| assert!(run(&format!("xfrm policy add {words}")), "{words}");
        policy(&format!("src 127.0.0.1/32 dst 10.9.0.0/16 dir out {tunnel}"));
        policy(&format!("src 10.1.0.0/16 dst 10.9.0.0/16 dir in {tunnel}"));
        policy("src 10.1.0.0/16 dst 10.8.0.0/16 dir out action allow");
        policy(&format!("src 10.1.0.0/16 dst 10.7.0.0/16 dir out if_id 7 {tunnel}"));
        assert!(found().is_empty(), "{:?}", found());
        policy(&format!("src 10.1.0.0/16 dst 10.9.0.0/16 dir out {tunnel}"));
        policy("src 2001:db8::/32 dst ::/0 dir fwd action block");
        assert_eq!(
            found(),
            [
                "xfrm policy from 10.1.0.0/16 to 10.9.0.0/16 encrypts what is forwarded",
                "xfrm policy from 2001:db8::/32 to ::/0 filters or changes what is forwarded",
            ]
        );
    }
}
