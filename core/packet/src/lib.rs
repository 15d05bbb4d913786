//! Packet buffers: a pool, a one-word handle, batches, intrusive lists, typed metadata and drop reasons.
//!
//! A [`Packet`] owns one pooled buffer and is never cloned. It ends in [`Packet::release`] (forwarded or consumed);
//! a handle that is dropped implicitly returns its buffer too, but counts as `leaked` and panics in debug builds.
//! Containers ([`Batch`], [`PacketList`]) release what they hold when they are dropped: tearing a queue down is no leak.

mod batch;
mod handover;
mod lanes;
mod list;
mod meta;
mod pool;
mod prefetch;
mod reason;

pub use batch::Batch;
pub use handover::Handover;
pub use lanes::equal_lanes;
pub use list::PacketList;
pub use meta::{
    ClassId, Direction, FilterId, LeafId, Meta, NO_CONNECTION, NO_MEDIA, PortId, ProfileId, SlaId,
};
pub use pool::{BUFFER_LEN, HEADROOM, Packet, Pool, PoolCounters};
pub use prefetch::{prefetch, prefetch_whole};
pub use reason::DropReason;
