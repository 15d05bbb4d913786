//! The Linux kernel's traffic control: queueing disciplines, classes, filters.
//!
//! | object | kinds that are typed here | made by |
//! |---|---|---|
//! | [`Qdisc`] | HTB, ingress, pfifo, bfifo | [`Netlink::add_qdisc`] |
//! | [`Class`] | HTB | [`Netlink::add_class`] |
//! | [`Filter`] | u32 | [`Netlink::add_filter`] |
//!
//! [`Netlink::change_traffic_control`] makes many changes at once, with filters in hash tables.
//!
//! Everything else is listed as `Other` with its kind, so nothing on an
//! interface is hidden from a reader.
//!
//! Traps: changing a class keeps its queue, replacing its leaf qdisc empties
//! it; deleting a class that a filter points to is refused with EBUSY, so
//! delete filters first; a class identifier has 16 bits.

mod batch;
mod filter;
mod handle;
mod htb;
mod qdisc;
mod ratespec;

pub use batch::{TcChange, U32Chain, U32Place, U32Then};
pub use filter::{Filter, FilterSpec, U32Filter, U32Key};
pub use handle::Handle;
pub use htb::{Class, ClassSpec, HtbClass};
pub use qdisc::{Qdisc, QdiscSpec};

use netlink_packet_core::{DefaultNla, Nla, NlasIterator};
use netlink_packet_route::tc::{TcAttribute, TcMessage, TcOption, TcStats2};

use crate::connection::{Netlink, push_attribute};
use crate::error::NetlinkError;

/// `TCA_OPTIONS`, the attribute with the parameters of a kind.
const OPTIONS: u16 = 2;

/// What a qdisc or class has done since it was made. The kernel's packet and
/// drop counters have 32 bits and wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames sent, bytes.
    pub bytes: u64,
    /// Frames sent.
    pub packets: u32,
    /// Frames dropped.
    pub drops: u32,
    /// Times that a rate held a frame back.
    pub overlimits: u32,
    /// Bytes waiting now.
    pub backlog_bytes: u32,
    /// Frames waiting now.
    pub backlog_packets: u32,
}

/// The parts that messages about qdiscs, classes and filters share.
struct Parts<'a> {
    ifindex: u32,
    handle: Handle,
    parent: Handle,
    info: u32,
    kind: &'a str,
    options: &'a [TcOption],
    stats: Statistics,
}

impl<'a> Parts<'a> {
    fn of(message: &'a TcMessage) -> Self {
        let mut parts = Self {
            ifindex: message.header.index as u32,
            handle: Handle(message.header.handle.into()),
            parent: Handle(message.header.parent.into()),
            info: message.header.info,
            kind: "",
            options: &[],
            stats: Statistics::default(),
        };
        for attribute in &message.attributes {
            match attribute {
                TcAttribute::Kind(kind) => parts.kind = kind,
                TcAttribute::Options(options) => parts.options = options,
                TcAttribute::Stats2(stats) => parts.read_stats(stats),
                _ => {}
            }
        }
        parts
    }

    fn read_stats(&mut self, all: &[TcStats2]) {
        for stats in all {
            match stats {
                TcStats2::Basic(basic) => {
                    self.stats.bytes = basic.bytes;
                    self.stats.packets = basic.packets;
                }
                TcStats2::Queue(queue) => {
                    self.stats.drops = queue.drops;
                    self.stats.overlimits = queue.overlimits;
                    self.stats.backlog_bytes = queue.backlog;
                    self.stats.backlog_packets = queue.qlen;
                }
                _ => {}
            }
        }
    }

    /// The raw content of the options, of kinds the library leaves untyped.
    fn raw_options(&self) -> Vec<u8> {
        let Some(TcOption::Other(options)) = self.options.first() else { return Vec::new() };
        let mut bytes = vec![0; options.value_len()];
        options.emit_value(&mut bytes);
        bytes
    }
}

/// The value of attribute `kind` in a sequence of attributes.
fn attribute(bytes: &[u8], kind: u16) -> Option<Vec<u8>> {
    NlasIterator::new(bytes)
        .map_while(Result::ok)
        .find(|nla| nla.kind() == kind)
        .map(|nla| nla.value().to_vec())
}

/// Word `index` of a structure of native 32-bit words.
fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let bytes = bytes.get(4 * index..4 * index + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

impl Netlink {
    /// The start of a message about an object on interface `name`.
    fn tc_message(
        &self,
        name: &str,
        parent: Handle,
        handle: Handle,
        kind: &str,
        options: Option<Vec<u8>>,
    ) -> Result<TcMessage, NetlinkError> {
        let mut message = TcMessage::with_index(self.index_of(name)? as i32);
        message.header.parent = parent.0.into();
        message.header.handle = handle.0.into();
        if !kind.is_empty() {
            message.attributes.push(TcAttribute::Kind(kind.into()));
        }
        if let Some(options) = options {
            message.attributes.push(TcAttribute::Other(DefaultNla::new(OPTIONS, options)));
        }
        Ok(message)
    }
}
