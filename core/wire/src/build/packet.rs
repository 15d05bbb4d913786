//! The pieces of the IP packet that a [`FrameBuilder`] describes.

use super::{Addresses, FrameBuilder, Transport};
use crate::checksum::{Sum, pseudo_header_v4, pseudo_header_v6};
use crate::{icmpv4, icmpv6, ipv4, ipv6, ipv6_ext, protocol, tcp, udp};
use std::net::{Ipv4Addr, Ipv6Addr};

impl FrameBuilder {
    pub(super) fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Udp(_) => protocol::UDP,
            Transport::Tcp(_) => protocol::TCP,
            Transport::Icmpv4(_) => protocol::ICMPV4,
            Transport::Icmpv6(_) => protocol::ICMPV6,
        }
    }

    pub(super) fn ipv4(&self, payload_len: u16) -> ipv4::Repr {
        let (src, dst) = match self.addresses {
            Addresses::V4(src, dst) => (src, dst),
            Addresses::V6(..) => (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED),
        };
        let (fragment_offset, more_fragments) = self.fragment.unwrap_or_default();
        ipv4::Repr {
            dscp: self.dscp,
            ecn: self.ecn,
            identification: self.identification as u16,
            dont_fragment: self.dont_fragment,
            more_fragments,
            fragment_offset,
            ttl: self.ttl,
            protocol: self.protocol(),
            src,
            dst,
            options: self.options.clone(),
            payload_len,
        }
    }

    /// The IPv6 header, its payload length still missing, and the extension headers.
    pub(super) fn ipv6_headers(&self) -> Vec<u8> {
        let (src, dst) = match self.addresses {
            Addresses::V6(src, dst) => (src, dst),
            Addresses::V4(..) => (Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED),
        };
        let mut kinds: Vec<u8> = self.extensions.iter().map(|(kind, _)| *kind).collect();
        kinds.extend(self.fragment.map(|_| protocol::IPV6_FRAGMENT));
        kinds.push(self.protocol());
        let fixed = ipv6::Repr {
            dscp: self.dscp,
            ecn: self.ecn,
            flow_label: self.flow_label,
            payload_len: 0,
            next_header: kinds[0],
            hop_limit: self.ttl,
            src,
            dst,
        };
        let mut out = vec![0; ipv6::HEADER_LEN];
        fixed.emit(&mut out);
        for ((kind, data), next) in self.extensions.iter().zip(&kinds[1..]) {
            let len = (data.len() + 2).next_multiple_of(8);
            let units = if *kind == protocol::AH { len / 4 - 2 } else { len / 8 - 1 };
            let start = out.len();
            out.extend([*next, u8::try_from(units).expect("an extension header has at most 2,048 bytes")]);
            out.extend(data);
            out.resize(start + len, 0);
        }
        if let Some((offset, more)) = self.fragment {
            let header = ipv6_ext::Repr {
                next_header: self.protocol(),
                offset,
                more,
                identification: self.identification,
            };
            let start = out.len();
            out.resize(start + header.len(), 0);
            header.emit(&mut out[start..]);
        }
        out
    }

    /// Transport header and payload behind `headers` bytes of IP header.
    pub(super) fn upper(&self, headers: usize) -> Vec<u8> {
        let later = self.fragment.is_some_and(|(offset, _)| offset != 0);
        let header_len = match &self.transport {
            _ if later => 0,
            Transport::Tcp(repr) => repr.len(),
            _ => 8,
        };
        let mut out = vec![0; header_len];
        out.extend(&self.payload);
        if let Some(len) = self.ip_len {
            out.resize(usize::from(len).saturating_sub(headers).max(header_len), 0);
        }
        if later {
            return out;
        }
        let pseudo = self.pseudo_header(out.len());
        match self.transport {
            Transport::Udp(repr) => {
                udp::Repr { payload_len: (out.len() - header_len) as u16, ..repr }.emit(&mut out);
                udp::fill_checksum(&mut out, pseudo);
            }
            Transport::Tcp(repr) => {
                repr.emit(&mut out);
                tcp::fill_checksum(&mut out, pseudo);
            }
            Transport::Icmpv4(repr) => {
                repr.emit(&mut out);
                icmpv4::fill_checksum(&mut out);
            }
            Transport::Icmpv6(repr) => {
                repr.emit(&mut out);
                icmpv6::fill_checksum(&mut out, pseudo);
            }
        }
        out
    }

    fn pseudo_header(&self, len: usize) -> Sum {
        match self.addresses {
            Addresses::V4(src, dst) => {
                pseudo_header_v4(src.octets(), dst.octets(), self.protocol(), len as u16)
            }
            Addresses::V6(src, dst) => {
                pseudo_header_v6(src.octets(), dst.octets(), self.protocol(), len as u32)
            }
        }
    }
}
