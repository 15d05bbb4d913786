//! Packets described in words, to be explained: `in=lan udp 10.0.0.1:5004>10.1.0.2:5004 dscp=EF len=200`.
//!
//! Words in any order: a protocol by name or number, `SOURCE>DESTINATION` (ports with `:`, IPv6 addresses that have
//! one in brackets), and
//!
//! | word | meaning | default |
//! |---|---|---|
//! | `in=PORT` | port it comes in by | required |
//! | `dscp=` | code point, by name or number | 0 |
//! | `len=` | IP length in bytes | 200 |
//! | `ttl=` | TTL or hop limit | 64 |
//! | `vlan=` | outer VLAN identifier, or `OUTER,INNER` | untagged |
//! | `flags=` | TCP flags by name with `,`, or as a number | `ack` |
//! | `frag=` | `first`, `later`, or the offset of a later fragment; `frag` alone is `later` | whole |
//! | `id=` | identification of the datagram | 1 |
//! | `df` | do not fragment (IPv4) | |
//! | `type=`, `code=` | of ICMP | echo request |
//! | `rtp`, `pt=`, `ssrc=`, `seq=`, `ts=` | an RTP header behind the UDP header | none |

mod frame;
mod words;

use perhop_config::did_you_mean;
use perhop_units::Dscp;
use perhop_wire::Layout;
use std::fmt;
use std::net::IpAddr;
use thiserror::Error;

/// One thing wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct DescribeError {
    /// 1-based, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl fmt::Display for DescribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// A described packet as a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Name of the port it comes in by.
    pub in_port: String,
    /// The frame. Its Ethernet addresses mean nothing.
    pub frame: Vec<u8>,
    /// Where its headers are.
    pub layout: Layout,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Code point.
    pub dscp: Dscp,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Whether fragmentation is forbidden; always in IPv6.
    pub dont_fragment: bool,
    in_column: usize,
}

impl Described {
    /// Reads a description.
    ///
    /// # Errors
    /// Everything wrong with it, by column.
    pub fn parse(text: &str) -> Result<Self, Vec<DescribeError>> {
        let words = words::read(text)?;
        frame::make(words)
    }

    /// The error of a port that the router does not have.
    pub fn unknown_port<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> DescribeError {
        let known: Vec<&str> = known.into_iter().collect();
        let near = did_you_mean(&self.in_port, known.iter().copied());
        let list = format!("ports: {}", known.join(", "));
        DescribeError {
            column: self.in_column,
            message: format!("there is no port \"{}\"", self.in_port),
            hint: Some(near.map_or(list.clone(), |n| format!("did you mean \"{n}\"? {list}"))),
        }
    }
}

impl fmt::Display for Described {
    /// `udp 10.0.0.1:5004>10.1.0.2:5004, EF, 200 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let l = &self.layout;
        let end = |ip: IpAddr, port: u16| match (l.l4_offset > 0 && [6, 17].contains(&l.protocol), ip) {
            (false, _) => ip.to_string(),
            (true, IpAddr::V4(ip)) => format!("{ip}:{port}"),
            (true, IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        };
        let (src, dst) = (end(self.src, l.src_port), end(self.dst, l.dst_port));
        let protocol = words::protocol_name(l.protocol);
        write!(f, "{protocol} {src}>{dst}, {}, {} B", self.dscp, l.ip_len)
    }
}

#[cfg(test)]
mod tests;
