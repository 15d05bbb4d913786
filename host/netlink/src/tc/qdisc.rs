//! Queueing disciplines.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::TcMessage;
use perhop_units::Bytes;

use super::{Handle, Parts, Statistics, attribute, push_attribute, word};
use crate::connection::Netlink;
use crate::error::NetlinkError;

const HTB_INIT: u16 = 2;
const HTB_VERSION: u32 = 3;

/// The parameters of a qdisc.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QdiscSpec {
    /// Hierarchical token bucket: the root of a class tree.
    Htb {
        /// Minor number of the class for frames that no filter claims; 0 sends
        /// them unshaped.
        default_minor: u16,
        /// A class's quantum is its rate in bytes/s divided by this.
        rate_to_quantum: u32,
    },
    /// First in, first out, bounded in frames.
    Pfifo {
        /// Frames that may wait.
        limit_packets: u32,
    },
    /// First in, first out, bounded in bytes.
    Bfifo {
        /// Bytes that may wait.
        limit: Bytes,
    },
    /// The hook for filters on arriving frames.
    Ingress,
    /// A kind that is not typed here.
    Other(String),
}

impl QdiscSpec {
    /// The kernel's name of the kind.
    pub fn kind(&self) -> &str {
        match self {
            Self::Htb { .. } => "htb",
            Self::Pfifo { .. } => "pfifo",
            Self::Bfifo { .. } => "bfifo",
            Self::Ingress => "ingress",
            Self::Other(kind) => kind,
        }
    }

    fn options(&self) -> Result<Option<Vec<u8>>, NetlinkError> {
        Ok(match self {
            Self::Htb { default_minor, rate_to_quantum } => {
                // struct tc_htb_glob: version, rate2quantum, defcls, debug, direct packets.
                let words = [HTB_VERSION, *rate_to_quantum, u32::from(*default_minor), 0, 0];
                let mut bytes = Vec::new();
                push_attribute(&mut bytes, HTB_INIT, words.map(u32::to_ne_bytes).as_flattened());
                Some(bytes)
            }
            Self::Pfifo { limit_packets } => Some(limit_packets.to_ne_bytes().to_vec()),
            Self::Bfifo { limit } => Some(narrow("limit", *limit)?.to_ne_bytes().to_vec()),
            Self::Ingress | Self::Other(_) => None,
        })
    }

    fn read(parts: &Parts<'_>) -> Self {
        let raw = parts.raw_options();
        let typed = match parts.kind {
            "htb" => attribute(&raw, HTB_INIT).and_then(|init| {
                Some(Self::Htb {
                    // The kernel keeps 32 bits; only 16 name a class.
                    default_minor: word(&init, 2)? as u16,
                    rate_to_quantum: word(&init, 1)?,
                })
            }),
            "pfifo" => word(&raw, 0).map(|limit_packets| Self::Pfifo { limit_packets }),
            "bfifo" => word(&raw, 0).map(|limit| Self::Bfifo { limit: Bytes(limit.into()) }),
            "ingress" => Some(Self::Ingress),
            _ => None,
        };
        typed.unwrap_or_else(|| Self::Other(parts.kind.into()))
    }
}

fn narrow(field: &'static str, bytes: Bytes) -> Result<u32, NetlinkError> {
    u32::try_from(bytes.get()).map_err(|_| NetlinkError::OutOfRange {
        operation: "add qdisc",
        field,
        value: bytes.get(),
        allowed: "0 to 4294967295 B",
    })
}

/// A qdisc of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Interface index.
    pub ifindex: u32,
    /// Its name; [`Handle::NONE`] for the kernel's own default.
    pub handle: Handle,
    /// [`Handle::ROOT`], [`Handle::INGRESS`], or the class it queues for.
    pub parent: Handle,
    /// Kind and parameters.
    pub spec: QdiscSpec,
    /// Counters.
    pub stats: Statistics,
}

impl Netlink {
    /// Adds a qdisc to interface `name` at `parent`. For [`QdiscSpec::Ingress`]
    /// give [`Handle::INGRESS`] and `ffff:0`.
    ///
    /// # Errors
    /// EEXIST when one is there (a kernel default does not count); ENOENT when
    /// the kernel lacks the kind; [`NetlinkError::OutOfRange`].
    pub fn add_qdisc(
        &self,
        name: &str,
        parent: Handle,
        handle: Handle,
        spec: &QdiscSpec,
    ) -> Result<(), NetlinkError> {
        self.put_qdisc("add qdisc", name, (parent, handle), spec, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Puts a qdisc in the place of what is at `parent`, with all its classes
    /// and filters. What waits in the old one is dropped.
    ///
    /// # Errors
    /// As [`Netlink::add_qdisc`], without EEXIST.
    pub fn replace_qdisc(
        &self,
        name: &str,
        parent: Handle,
        handle: Handle,
        spec: &QdiscSpec,
    ) -> Result<(), NetlinkError> {
        self.put_qdisc("replace qdisc", name, (parent, handle), spec, NLM_F_CREATE | NLM_F_REPLACE)
    }

    fn put_qdisc(
        &self,
        operation: &'static str,
        name: &str,
        (parent, handle): (Handle, Handle),
        spec: &QdiscSpec,
        flags: u16,
    ) -> Result<(), NetlinkError> {
        let message = self.tc_message(name, parent, handle, spec.kind(), spec.options()?)?;
        let object = format!("{} at {parent} of {name}", spec.kind());
        self.request(operation, &object, RouteNetlinkMessage::NewQueueDiscipline(message), flags)
    }

    /// Deletes the qdisc at `parent` with its classes and filters.
    ///
    /// # Errors
    /// ENOENT when there is none but the kernel's default.
    pub fn delete_qdisc(&self, name: &str, parent: Handle) -> Result<(), NetlinkError> {
        let message = self.tc_message(name, parent, Handle::NONE, "", None)?;
        let object = format!("{parent} of {name}");
        self.request("delete qdisc", &object, RouteNetlinkMessage::DelQueueDiscipline(message), 0)
    }

    /// The qdiscs of interface `name`.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchInterface`].
    pub fn qdiscs(&self, name: &str) -> Result<Vec<Qdisc>, NetlinkError> {
        let message = self.tc_message(name, Handle::NONE, Handle::NONE, "", None)?;
        let ifindex = message.header.index as u32;
        let message = RouteNetlinkMessage::GetQueueDiscipline(message);
        self.dump("list qdiscs", name, &message, |answer| match answer {
            // The kernel lists those of all interfaces.
            RouteNetlinkMessage::NewQueueDiscipline(m) => {
                Some(read_qdisc(&m)).filter(|qdisc| qdisc.ifindex == ifindex)
            }
            _ => None,
        })
    }
}

fn read_qdisc(message: &TcMessage) -> Qdisc {
    let parts = Parts::of(message);
    Qdisc {
        ifindex: parts.ifindex,
        handle: parts.handle,
        parent: parts.parent,
        spec: QdiscSpec::read(&parts),
        stats: parts.stats,
    }
}
