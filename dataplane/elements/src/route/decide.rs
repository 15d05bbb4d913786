//! What happens to a packet: addresses, port and forwarding table decide, nothing is changed.
//!
//! Source: RFC 1812 §4.2.2.11, §5.3.4, §5.3.7 (special addresses, link broadcasts, martians), RFC 6890 (registry of
//! special addresses), RFC 3927 §2.7 and RFC 4291 §2.5.6 (link-local), RFC 8200 §3.

use super::Link;
use super::fib::{Action, Fib};
use super::paths::PathKey;
use super::policy::Asked;
use super::route::Sources;
use perhop_element::Reject;
use perhop_packet::{DropReason, Meta, PortId};

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to this next hop, an index into [`Fib::next_hops`].
    Hop(u32),
    /// It is for this machine.
    Host,
    /// This machine's kernel forwards it, past the ports.
    Kernel,
    /// It is dropped.
    Drop(DropReason),
    /// It is dropped and its sender is told.
    Reject(DropReason, Reject),
}

/// What decisions are made by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decider<'a> {
    pub(super) fib: &'a Fib,
    pub(super) links: &'a [Link],
    pub(super) paths: PathKey,
    /// Whether any port looks at sources.
    pub(super) checks: bool,
}

impl Decider<'_> {
    /// Decides by addresses, port and table; TTL and MTU are the caller's.
    #[inline]
    pub(super) fn decide(&self, frame: &[u8], meta: &Meta) -> Verdict {
        let Some(station) = frame.first_chunk::<6>() else { return Verdict::Drop(DropReason::OtherHost) };
        let ours = !meta.in_port.is_some()
            || self.links.get(meta.in_port.index()).is_some_and(|link| link.listens_to(*station));
        if !ours && station[0] & 1 == 0 {
            return Verdict::Drop(DropReason::OtherHost);
        }
        if meta.layout.vlan_tags != 0 {
            return Verdict::Drop(DropReason::VlanTag);
        }
        let verdict = match meta.layout.ip_version {
            4 => self.judge_v4(frame, meta),
            6 => self.judge_v6(frame, meta),
            _ => Verdict::Host,
        };
        // What a link broadcast must not be answered or forwarded, unless its destination is a group too.
        if !ours && verdict != Verdict::Host {
            return Verdict::Drop(DropReason::BadDestination);
        }
        if self.checks && matches!(verdict, Verdict::Hop(_)) && !self.takes_source(frame, meta) {
            return Verdict::Drop(DropReason::ReversePath);
        }
        verdict
    }

    #[inline]
    fn judge_v4(&self, frame: &[u8], meta: &Meta) -> Verdict {
        let Some(head) = frame.first_chunk::<34>() else { return Verdict::Drop(DropReason::NotIp) };
        let src = [head[26], head[27], head[28], head[29]];
        let dst = [head[30], head[31], head[32], head[33]];
        // 0/8 this network, 127/8 loopback, 224/4 multicast, 240/4 reserved, broadcast included.
        let special = |first: u8| first == 0 || first == 127 || first >= 224;
        if special(dst[0]) {
            let group = dst[0] & 0xf0 == 224 || dst == [255; 4];
            return if group { Verdict::Host } else { Verdict::Drop(DropReason::BadDestination) };
        }
        let received = meta.in_port.is_some();
        if received && special(src[0]) {
            return Verdict::Drop(DropReason::BadSource);
        }
        let action = self.fib.plain_v4(dst).unwrap_or_else(|| self.by_rules(frame, meta));
        let link_local = |a: [u8; 4]| a[0] == 169 && a[1] == 254;
        if (link_local(src) || link_local(dst)) && received {
            return match action {
                Action::Local | Action::Broadcast => Verdict::Host,
                _ if link_local(src) => Verdict::Drop(DropReason::BadSource),
                _ => Verdict::Drop(DropReason::BadDestination),
            };
        }
        self.follow(action, || self.paths.v4(frame, &meta.layout, [src, dst]))
    }

    #[inline]
    fn judge_v6(&self, frame: &[u8], meta: &Meta) -> Verdict {
        let Some(head) = frame.first_chunk::<54>() else { return Verdict::Drop(DropReason::NotIp) };
        let (mut src, mut dst) = ([0; 16], [0; 16]);
        src.copy_from_slice(&head[22..38]);
        dst.copy_from_slice(&head[38..54]);
        let link_local = |a: &[u8; 16]| a[0] == 0xfe && a[1] & 0xc0 == 0x80;
        // ::/128, ::1/128 and IPv4-mapped addresses all start with 80 zero bits; no address on a wire does.
        let special = |a: &[u8; 16]| a[..10] == [0; 10];
        let received = meta.in_port.is_some();
        if received && src[0] == 0xff {
            return Verdict::Drop(DropReason::BadSource);
        }
        // The unspecified address is a good source for a group: duplicate address detection (RFC 4862 §5.4).
        if dst[0] == 0xff || link_local(&dst) && received {
            return Verdict::Host;
        }
        if special(&dst) {
            return Verdict::Drop(DropReason::BadDestination);
        }
        if received && special(&src) {
            return Verdict::Drop(DropReason::BadSource);
        }
        let action = self.fib.plain_v6(&dst).unwrap_or_else(|| self.by_rules(frame, meta));
        if link_local(&src) && received && action != Action::Local {
            return Verdict::Drop(DropReason::BadSource);
        }
        self.follow(action, || self.paths.v6(frame, &meta.layout, [&src, &dst]))
    }

    /// Whether a packet's port forwards from its source.
    fn takes_source(&self, frame: &[u8], meta: &Meta) -> bool {
        let family = usize::from(meta.layout.ip_version == 6);
        let sources = self.links.get(meta.in_port.index()).map_or(Sources::All, |link| link.sources[family]);
        if sources == Sources::All {
            return true;
        }
        let there = Asked::of(frame, meta);
        let (src, dst) = (there.dst, there.src);
        let back = self.fib.decide(&Asked { src, dst, in_port: PortId::NONE, ports: [0; 2], ..there });
        let by_port =
            |hop: u32| sources == Sources::Routed || self.fib.next_hops()[hop as usize].port == meta.in_port;
        match back {
            Action::Hop(hop) => by_port(hop),
            Action::Group { first, count } => self.fib.members_of(first, count).any(by_port),
            Action::Kernel => sources == Sources::Routed,
            _ => false,
        }
    }

    #[cold]
    fn by_rules(&self, frame: &[u8], meta: &Meta) -> Action {
        self.fib.decide(&Asked::of(frame, meta))
    }

    #[inline]
    fn follow(&self, action: Action, hash: impl FnOnce() -> u32) -> Verdict {
        match action {
            Action::Hop(hop) => Verdict::Hop(hop),
            Action::Group { first, count } => Verdict::Hop(self.fib.member(first, count, hash())),
            Action::Local | Action::Broadcast => Verdict::Host,
            Action::Kernel => Verdict::Kernel,
            Action::NoRoute | Action::Throw => Verdict::Reject(DropReason::NoRoute, Reject::NetUnreachable),
            Action::Unreachable => Verdict::Reject(DropReason::RouteRejects, Reject::Unreachable),
            Action::Prohibit => Verdict::Reject(DropReason::RouteRejects, Reject::Prohibited),
            Action::Blackhole => Verdict::Drop(DropReason::RouteRejects),
        }
    }
}
