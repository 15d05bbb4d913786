//! Many changes of one interface's classes and filters in one system call.
//!
//! The kernel takes each message of a datagram by itself, in order, and acknowledges each; one that it refuses keeps no later one
//! from being done. What is to be whole is the caller's to take back.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};

use super::{Handle, HtbClass, OPTIONS, U32Key, push_attribute};
use crate::connection::Netlink;
use crate::error::NetlinkError;

/// Messages of one datagram: their acknowledgements fit into a socket's receive buffer.
const TOGETHER: usize = 64;
/// Attributes of a u32 filter (linux/pkt_cls.h).
const U32_CLASSID: u16 = 1;
const U32_HASH: u16 = 2;
const U32_LINK: u16 = 3;
const U32_DIVISOR: u16 = 4;
const U32_SELECTOR: u16 = 5;
/// `TC_U32_TERMINAL`: what matches is decided.
const U32_TERMINAL: u8 = 1;
/// `TCA_KIND`, `TCA_STAB`, `TCA_STAB_BASE`.
const KIND: u16 = 1;
const STAB: u16 = 8;
const STAB_BASE: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_VERSION: u32 = 3;
const RATE_TO_QUANTUM: u32 = 10;

/// Filters of one protocol and priority of a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct U32Chain {
    /// The lower is asked first.
    pub priority: u16,
    /// EtherType.
    pub protocol: u16,
}

/// Where a rule is: a bucket of a table, and its number there, by which rules of a bucket are in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct U32Place {
    /// 1 to 0x7ff; 0 = the chain's own table, which has one bucket.
    pub table: u16,
    /// Bucket.
    pub bucket: u8,
    /// 1 to 0xfff.
    pub node: u16,
}

impl U32Place {
    /// `TTT:BB:NNN`, as the kernel packs it.
    fn handle(self) -> u32 {
        u32::from(self.table) << 20 | u32::from(self.bucket) << 12 | u32::from(self.node)
    }
}

/// What becomes of a packet that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum U32Then {
    /// It goes to a class.
    Class(Handle),
    /// Another table is asked, in the bucket that the masked word of the packet names; if nothing matches there, the next rule is
    /// asked. The lowest bit of the mask becomes the lowest of the bucket's number.
    Table {
        /// Which.
        table: u16,
        /// Offset of the word from the IP header.
        offset: i16,
        /// Its bits; 0 = the first bucket.
        mask: u32,
    },
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcChange {
    /// HTB at the root, which counts packets from their IP header on: without the 14 bytes of Ethernet.
    Root {
        /// The class of what no filter claims.
        default_minor: u16,
    },
    /// A new class, by its minor numbers.
    AddClass {
        /// Class above; 0 = the qdisc.
        parent: u16,
        /// Class.
        minor: u16,
        /// Parameters.
        class: HtbClass,
    },
    /// Other parameters of a class; what waits in it stays.
    ChangeClass {
        /// Class above.
        parent: u16,
        /// Class.
        minor: u16,
        /// Parameters.
        class: HtbClass,
    },
    /// A class goes, with what waits in it.
    DeleteClass {
        /// Class.
        minor: u16,
    },
    /// A table of 256 buckets, or of one.
    AddTable {
        /// Chain.
        chain: U32Chain,
        /// Table.
        table: u16,
        /// Whether it has 256 buckets.
        hashed: bool,
    },
    /// A rule. All keys must match; none matches everything.
    AddRule {
        /// Chain.
        chain: U32Chain,
        /// Place.
        place: U32Place,
        /// Keys.
        keys: Vec<U32Key>,
        /// Consequence.
        then: U32Then,
    },
    /// A rule goes.
    DeleteRule {
        /// Chain.
        chain: U32Chain,
        /// Place; its table is not the chain's own.
        place: U32Place,
    },
}

/// Kind, flags and body of a netlink message.
pub(crate) type Message = (u16, u16, Vec<u8>);

const NEW: u16 = NLM_F_CREATE | NLM_F_EXCL;

impl TcChange {
    fn message(&self, ifindex: u32, qdisc: Handle) -> Result<Message, NetlinkError> {
        let class = |minor: u16| Handle::new(qdisc.major(), minor);
        let body = |handle: u32, parent: Handle, info: u32, kind: &[u8], options: Option<&[u8]>| {
            let mut out = vec![0; 4];
            [ifindex, handle, parent.0, info].iter().for_each(|word| out.extend(word.to_ne_bytes()));
            if !kind.is_empty() {
                push_attribute(&mut out, KIND, kind);
            }
            if let Some(options) = options {
                push_attribute(&mut out, OPTIONS, options);
            }
            out
        };
        let info = |chain: &U32Chain| u32::from(chain.priority) << 16 | u32::from(chain.protocol.to_be());
        let u32_body = |handle: u32, chain: &U32Chain, options: Option<&[u8]>| {
            body(handle, qdisc, info(chain), b"u32\0", options)
        };
        Ok(match self {
            Self::Root { default_minor } => {
                let words = [HTB_VERSION, RATE_TO_QUANTUM, u32::from(*default_minor), 0, 0];
                let mut options = Vec::new();
                push_attribute(&mut options, HTB_INIT, words.map(u32::to_ne_bytes).as_flattened());
                let mut out = body(qdisc.0, Handle::ROOT, 0, b"htb\0", Some(&options));
                // struct tc_sizespec: four bytes of table geometry, overhead, link layer, least, most, table size.
                let sizes: [i32; 6] = [0, -14, 0, 0, 0, 0];
                let mut stab = Vec::new();
                push_attribute(&mut stab, STAB_BASE, sizes.map(i32::to_ne_bytes).as_flattened());
                push_attribute(&mut out, STAB, &stab);
                (libc::RTM_NEWQDISC, NEW, out)
            }
            Self::AddClass { parent, minor, class: spec } => {
                let options = spec.options("add class")?;
                (libc::RTM_NEWTCLASS, NEW, body(class(*minor).0, class(*parent), 0, b"htb\0", Some(&options)))
            }
            Self::ChangeClass { parent, minor, class: spec } => {
                let options = spec.options("change class")?;
                (libc::RTM_NEWTCLASS, 0, body(class(*minor).0, class(*parent), 0, b"htb\0", Some(&options)))
            }
            Self::DeleteClass { minor } => {
                (libc::RTM_DELTCLASS, 0, body(class(*minor).0, Handle::NONE, 0, b"", None))
            }
            Self::AddTable { chain, table, hashed } => {
                let mut options = Vec::new();
                let buckets: u32 = if *hashed { 256 } else { 1 };
                push_attribute(&mut options, U32_DIVISOR, &buckets.to_ne_bytes());
                let handle = U32Place { table: *table, bucket: 0, node: 0 }.handle();
                (libc::RTM_NEWTFILTER, NEW, u32_body(handle, chain, Some(&options)))
            }
            Self::AddRule { chain, place, keys, then } => {
                let options = rule(qdisc, *place, keys, *then);
                (libc::RTM_NEWTFILTER, NEW, u32_body(place.handle(), chain, Some(&options)))
            }
            Self::DeleteRule { chain, place } => {
                (libc::RTM_DELTFILTER, 0, u32_body(place.handle(), chain, None))
            }
        })
    }
}

/// Attributes of a rule.
fn rule(qdisc: Handle, place: U32Place, keys: &[U32Key], then: U32Then) -> Vec<u8> {
    let mut out = Vec::new();
    let (flags, offset, mask) = match then {
        U32Then::Class(class) => {
            debug_assert_eq!(class.major(), qdisc.major(), "filters choose classes of their own qdisc");
            push_attribute(&mut out, U32_CLASSID, &class.0.to_ne_bytes());
            (U32_TERMINAL, 0, 0)
        }
        U32Then::Table { table, offset, mask } => {
            let link = U32Place { table, bucket: 0, node: 0 }.handle();
            push_attribute(&mut out, U32_LINK, &link.to_ne_bytes());
            (0, offset, mask)
        }
    };
    if place.table != 0 {
        let bucket = U32Place { node: 0, ..place }.handle();
        push_attribute(&mut out, U32_HASH, &bucket.to_ne_bytes());
    }
    // A rule without keys is one that compares no bit.
    let any = [U32Key { offset: 0, mask: 0, value: 0 }];
    let keys = if keys.is_empty() { &any[..] } else { keys };
    // struct tc_u32_sel: flags, shift, number of keys; offset mask, offset, its place; place and mask of the hash.
    let mut selector = vec![flags, 0, keys.len() as u8, 0, 0, 0, 0, 0, 0, 0];
    selector.extend(offset.to_ne_bytes());
    selector.extend(mask.to_be_bytes());
    for key in keys {
        selector.extend(key.mask.to_be_bytes());
        selector.extend((key.value & key.mask).to_be_bytes());
        selector.extend(key.offset.to_ne_bytes());
        selector.extend([0; 4]);
    }
    push_attribute(&mut out, U32_SELECTOR, &selector);
    out
}

impl Netlink {
    /// Makes changes to the HTB `qdisc` (`1:0`) of an interface, in their order. What the kernel said to each: 0, or a positive errno.
    /// All are tried, whatever it says to one.
    ///
    /// # Errors
    /// [`NetlinkError::OutOfRange`] of parameters: nothing was done then. Of the socket.
    pub fn change_traffic_control(
        &self,
        ifindex: u32,
        qdisc: Handle,
        changes: &[TcChange],
    ) -> Result<Vec<i32>, NetlinkError> {
        let messages: Vec<Message> =
            changes.iter().map(|change| change.message(ifindex, qdisc)).collect::<Result<_, _>>()?;
        let mut said = Vec::with_capacity(messages.len());
        for some in messages.chunks(TOGETHER) {
            said.extend(self.send_batch("change traffic control", some)?);
        }
        Ok(said)
    }
}
